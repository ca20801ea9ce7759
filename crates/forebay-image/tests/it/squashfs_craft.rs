//! Images put together by hand, field by field, to be one beyond a limit or one below it.

use std::sync::Arc;

use forebay_image::squashfs::Squashfs;
use forebay_image::verify::verify;
use forebay_image::walk::{Limits, Tree};
use forebay_image::{Coding, Error, Image, NodeId, Options, Source, read_at};

/// The parts of an image; all metadata is stored uncompressed.
#[derive(Default)]
pub(crate) struct Craft {
    /// What lies from byte 96 on.
    data: Vec<u8>,
    inodes: Vec<u8>,
    pub(crate) directories: Vec<u8>,
    fragments: Vec<u8>,
    xattr_lists: Vec<u8>,
    xattr_rows: Vec<u8>,
    /// The reference of the root inode.
    pub(crate) root: u64,
}

/// A reference to a byte of decoded metadata whose blocks are stored and full.
pub(crate) const fn reference(byte: usize) -> u64 {
    ((byte / 8192 * 8194) as u64) << 16 | (byte % 8192) as u64
}

impl Craft {
    /// Adds an inode and says its reference.
    pub(crate) fn inode(&mut self, kind: u16, ino: u32, rest: &[&[u8]]) -> u64 {
        let at = reference(self.inodes.len());
        self.inodes.extend(kind.to_le_bytes());
        self.inodes.extend(0o755_u16.to_le_bytes());
        self.inodes.extend([0; 8]);
        self.inodes.extend(ino.to_le_bytes());
        self.inodes.extend(rest.concat());
        at
    }

    /// Adds a run of entries: name, reference, inode number, type. All in one inode block.
    pub(crate) fn run(&mut self, entries: &[(&[u8], u64, u32, u16)]) {
        let block = entries.first().map_or(0, |entry| entry.1 >> 16);
        self.directories.extend(u32::try_from(entries.len() - 1).unwrap().to_le_bytes());
        self.directories.extend(u32::try_from(block).unwrap().to_le_bytes());
        self.directories.extend(1_u32.to_le_bytes());
        for (name, reference, ino, kind) in entries {
            self.directories.extend(((reference & 0xffff) as u16).to_le_bytes());
            self.directories.extend(u16::try_from(ino - 1).unwrap().to_le_bytes());
            self.directories.extend(kind.to_le_bytes());
            self.directories.extend(u16::try_from(name.len() - 1).unwrap().to_le_bytes());
            self.directories.extend(*name);
        }
    }

    /// Makes the root of the runs so far: an extended directory.
    fn root(&mut self, ino: u32, xattr: u32) {
        let size = u32::try_from(self.directories.len() + 3).unwrap();
        let fields = [2, size, 0, 99].map(u32::to_le_bytes).concat();
        self.root = self.inode(8, ino, &[&fields, &[0; 4], &xattr.to_le_bytes()]);
    }

    /// The bytes of the image.
    pub(crate) fn image(&self) -> Vec<u8> {
        let mut image = vec![0; 96];
        image.extend(&self.data);
        let inodes = append(&mut image, &self.inodes)[0];
        let mut directories = append(&mut image, &self.directories);
        directories.push(image.len() as u64);
        let blocks = append(&mut image, &self.fragments);
        let fragments = append_list(&mut image, &blocks);
        let blocks = append(&mut image, &[0; 4]);
        let ids = append_list(&mut image, &blocks);
        let lists = image.len() as u64;
        append(&mut image, &self.xattr_lists);
        let blocks = append(&mut image, &self.xattr_rows);
        let xattrs = image.len() as u64;
        image.extend(lists.to_le_bytes());
        image.extend(u32::try_from(self.xattr_rows.len() / 16).unwrap().to_le_bytes());
        image.extend([0; 4]);
        append_list(&mut image, &blocks);
        let bytes = image.len() as u64;
        let fragment_count = u32::try_from(self.fragments.len() / 16).unwrap();
        let mut superblock = b"hsqs".to_vec();
        for field in [100, 0, 4096, fragment_count] {
            superblock.extend(u32::to_le_bytes(field));
        }
        for field in [1, 12, 0, 1, 4, 0] {
            superblock.extend(u16::to_le_bytes(field));
        }
        let tables = [inodes, directories[0], fragments, u64::MAX];
        for field in [self.root, bytes, ids, xattrs].into_iter().chain(tables) {
            superblock.extend(field.to_le_bytes());
        }
        image[..96].copy_from_slice(&superblock);
        image
    }

    pub(crate) fn open(&self) -> Result<Squashfs, Error> {
        let source: Arc<dyn Source> = Arc::new(self.image());
        Ok(Squashfs::open(&source, Options::default())?.unwrap())
    }
}

/// Appends metadata blocks and says where each begins.
fn append(image: &mut Vec<u8>, bytes: &[u8]) -> Vec<u64> {
    let mut places = Vec::new();
    for chunk in bytes.chunks(8192) {
        places.push(image.len() as u64);
        image.extend((0x8000 | u16::try_from(chunk.len()).unwrap()).to_le_bytes());
        image.extend(chunk);
    }
    places
}

fn append_list(image: &mut Vec<u8>, places: &[u64]) -> u64 {
    let at = image.len() as u64;
    image.extend(places.iter().flat_map(|place| place.to_le_bytes()));
    at
}

/// An image with one node named `x` of number 2.
fn one(kind: u16, basic: u16, rest: &[&[u8]]) -> (Craft, u64) {
    let mut craft = Craft::default();
    let node = craft.inode(kind, 2, rest);
    craft.run(&[(b"x", node, 2, basic)]);
    craft.root(1, u32::MAX);
    (craft, node)
}

fn said<T>(result: Result<T, Error>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

/// A basic file: start, fragment, offset in it, size; then the list.
fn file(start: u32, fragment: u32, inside: u32, size: u32, list: &[u32]) -> Vec<u8> {
    let fields = [start, fragment, inside, size];
    fields.iter().chain(list).flat_map(|field| field.to_le_bytes()).collect()
}

const NONE: u32 = u32::MAX;
const STORED: u32 = 1 << 24;

#[test]
fn names_have_256_bytes_at_most_and_runs_256_entries() {
    let long = [b'n'; 256];
    let mut craft = Craft::default();
    let node = craft.inode(6, 2, &[&1_u32.to_le_bytes()]);
    craft.run(&[(&long, node, 2, 6)]);
    craft.root(1, NONE);
    let image = craft.open().unwrap();
    assert_eq!(image.lookup(image.root(), &long).unwrap(), Some(NodeId(node)));
    craft.directories[18..20].copy_from_slice(&256_u16.to_le_bytes());
    assert!(said(craft.open().unwrap().entries(NodeId(craft.root))).contains("256 + 1 bytes"));

    for (count, says) in [(256, ""), (257, "256 + 1 entries")] {
        let names: Vec<String> = (0..count).map(|number| format!("{number:04}")).collect();
        let mut craft = Craft::default();
        let node = craft.inode(6, 2, &[&1_u32.to_le_bytes()]);
        let entries: Vec<_> = names.iter().map(|name| (name.as_bytes(), node, 2, 6)).collect();
        craft.run(&entries);
        craft.root(1, NONE);
        assert!(said(craft.open().unwrap().entries(NodeId(craft.root))).contains(says), "{count}");
    }
}

#[test]
fn dots_are_no_names() {
    for name in [b".".as_slice(), b".."] {
        let mut craft = Craft::default();
        craft.run(&[(name, 0, 1, 1)]);
        craft.root(1, NONE);
        let image = craft.open().unwrap();
        assert!(image.entries(image.root()).unwrap().is_empty());
        assert_eq!(image.defects(image.root()).unwrap().len(), 1);
        assert_eq!(image.lookup(image.root(), name).unwrap(), None);
    }
}

#[test]
fn of_an_unsorted_directory_with_doubles_the_names_that_linux_finds_are_shown() {
    let mut craft = Craft::default();
    let first = craft.inode(6, 2, &[&1_u32.to_le_bytes()]);
    let second = craft.inode(7, 3, &[&1_u32.to_le_bytes()]);
    craft.run(&[(b"z", first, 2, 6), (b"a", second, 3, 7), (b"z", second, 3, 7)]);
    craft.root(1, NONE);
    let image = craft.open().unwrap();
    let entries = image.entries(image.root()).unwrap();
    let found: Vec<_> = entries.iter().map(|entry| (entry.name.clone(), entry.node)).collect();
    assert_eq!(found, [(b"z".to_vec(), NodeId(first))]);
    assert_eq!(image.lookup(image.root(), b"z").unwrap(), Some(NodeId(first)));
    assert_eq!(image.lookup(image.root(), b"a").unwrap(), None);
    let defects = image.defects(image.root()).unwrap();
    let texts: Vec<String> = defects.iter().map(ToString::to_string).collect();
    let behind = "the entry 'a' of inode 3 (socket) is left out: it stands behind 'z' of inode 2 \
                  (pipe), where Linux does not find it";
    let twice = "the name 'z' is there twice: inode 2 (pipe) is shown, inode 3 (socket) is left \
                 out";
    assert_eq!(texts, [behind, twice]);
    // Verification names both inodes of each, and so does what reports them without a path.
    let tree = Tree::whole(&image, Limits::default());
    let damage = verify(&image, tree, 1, &|_| {}).damage;
    let said: Vec<String> = damage.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|text| text.ends_with(behind)), "{said:?}");
    assert!(said.iter().any(|text| text.ends_with(twice)), "{said:?}");
    assert_eq!(image.oddities().len(), 2);
}

#[test]
fn a_directory_that_contains_itself_is_listed_once() {
    let mut craft = Craft::default();
    craft.run(&[(b"self", 0, 1, 1)]);
    craft.root(1, NONE);
    let image = craft.open().unwrap();
    assert_eq!(image.entries(image.root()).unwrap().len(), 1);
    assert_eq!(image.lookup(image.root(), b"self").unwrap(), Some(image.root()));
    assert!(said(image.verify()).contains("second name"));
}

#[test]
fn an_entry_must_agree_with_its_inode() {
    for (ino, kind, says) in [(2, 6, ""), (3, 6, "directory says"), (2, 7, "directory says")] {
        let mut craft = Craft::default();
        let node = craft.inode(6, 2, &[&1_u32.to_le_bytes()]);
        craft.run(&[(b"x", node, ino, kind)]);
        craft.root(1, NONE);
        let image = craft.open().unwrap();
        assert!(said(image.lookup(image.root(), b"x")).contains(says), "{ino} {kind}");
    }
}

#[test]
fn an_inode_number_is_not_zero_and_a_type_is_known() {
    let (mut craft, node) = one(6, 6, &[&1_u32.to_le_bytes()]);
    craft.inodes[12..16].fill(0);
    assert!(said(craft.open().unwrap().node(NodeId(node))).contains("inode number"));
    for kind in [0, 15] {
        let (craft, node) = one(kind, 6, &[&[0; 32]]);
        assert!(said(craft.open().unwrap().node(NodeId(node))).contains("inode type"));
    }
    let (mut craft, node) = one(6, 6, &[&1_u32.to_le_bytes()]);
    craft.inodes[4] = 1;
    assert!(said(craft.open().unwrap().node(NodeId(node))).contains("id 1 of 1"));
}

#[test]
fn a_target_has_4096_bytes_at_most_and_one_at_least() {
    for (len, is_valid) in [(0, false), (1, true), (4096, true), (4097, false)] {
        let fields = [1_u32, len].map(u32::to_le_bytes).concat();
        let (craft, node) = one(3, 3, &[&fields, &vec![b't'; len as usize]]);
        let link = craft.open().unwrap().link(NodeId(node));
        assert_eq!(link.is_ok(), is_valid, "{len}: {}", said(link));
    }
    let fields = [1_u32, 3].map(u32::to_le_bytes).concat();
    let (craft, node) = one(3, 3, &[&fields, b"a\0b"]);
    assert!(said(craft.open().unwrap().link(NodeId(node))).contains("symlink target"));
}

#[test]
fn a_file_is_no_larger_than_its_list_and_the_table_allow() {
    let blocks = 3_u32;
    let list = [0; 3];
    let (craft, node) = one(2, 2, &[&file(96, NONE, 0, blocks * 4096, &list)]);
    let image = craft.open().unwrap();
    assert_eq!(image.locate(NodeId(node), 0).unwrap().coding, Coding::Hole);
    // A list that goes on beyond the table: the rest of the file is still there.
    let (craft, node) = one(2, 2, &[&file(96, NONE, 0, 4096 * 60, &[0, 0])]);
    let image = craft.open().unwrap();
    assert!(image.locate(NodeId(node), 0).is_ok());
    assert!(said(image.locate(NodeId(node), 4096 * 59)).contains("table's end"));
    // Longer than any table of that size could say.
    let (craft, node) = one(2, 2, &[&file(96, NONE, 0, u32::MAX, &[])]);
    assert!(said(craft.open().unwrap().node(NodeId(node))).contains("longer than the inode table"));
    // Longer than supported.
    let mut extended = 96_u64.to_le_bytes().to_vec();
    extended.extend((4096_u64 << 28 | 1).to_le_bytes());
    extended.extend([0; 8]);
    extended.extend([1, NONE, 0, NONE].map(u32::to_le_bytes).concat());
    let (craft, node) = one(9, 2, &[&extended]);
    assert!(said(craft.open().unwrap().node(NodeId(node))).contains("not supported"));
}

#[test]
fn a_block_is_valid_by_itself() {
    let open = |list: &[u32], size| {
        let (mut craft, node) = one(2, 2, &[&file(96, NONE, 0, size, list)]);
        craft.data = vec![7; 4096 + 10];
        (craft.open().unwrap(), NodeId(node))
    };
    let (image, id) = open(&[4096 | STORED, 10 | STORED], 4106);
    let mut bytes = vec![0; 4106];
    assert_eq!(read_at(&image, id, 0, &mut bytes).unwrap(), 4106);
    assert!(bytes.iter().all(|byte| *byte == 7));
    // Too long, an unknown bit, or stored and empty: earlier blocks can be read.
    for bad in [4097, STORED << 1, STORED] {
        let (image, id) = open(&[4096 | STORED, bad], 4106);
        assert!(image.locate(id, 0).is_ok());
        assert!(said(image.locate(id, 4096)).contains("length of a block"), "{bad:#x}");
    }
    // Stored, and of another length than the content.
    let (image, id) = open(&[4095 | STORED, 10 | STORED], 4106);
    assert!(said(image.locate(id, 0)).contains("4095 stored bytes for 4096"));
    assert!(image.locate(id, 4096).is_ok());
    // Beyond the end of the image, and before its data.
    for start in [95, 1 << 20, u32::MAX] {
        let (craft, node) = one(2, 2, &[&file(start, NONE, 0, 4096, &[4096 | STORED])]);
        assert!(said(craft.open().unwrap().locate(NodeId(node), 0)).contains("block of data"));
    }
}

#[test]
fn a_tail_lies_inside_its_fragment() {
    let open = |fragment: (u64, u32), index, inside, size| {
        let (mut craft, node) = one(2, 2, &[&file(96, index, inside, size, &[])]);
        craft.data = (0..200).collect();
        craft.fragments = fragment.0.to_le_bytes().to_vec();
        craft.fragments.extend(fragment.1.to_le_bytes());
        craft.fragments.extend([0; 4]);
        (craft.open().unwrap(), NodeId(node))
    };
    let (image, id) = open((96, 200 | STORED), 0, 150, 50);
    let mut bytes = [0; 50];
    assert_eq!(read_at(&image, id, 0, &mut bytes).unwrap(), 50);
    assert_eq!((bytes[0], bytes[49]), (150, 199));
    for (fragment, index, inside, says) in [
        ((96, 200 | STORED), 1, 0, "entry 1 of 1"),
        ((96, 200 | STORED), 0, 151, "ends at 201 of 200"),
        ((96, 200), 0, 4047, "ends at 4097 of 4096"),
        ((96, 200), 0, u32::MAX, "ends at"),
        ((96, 0), 0, 0, "fragment length"),
        ((96, 4097), 0, 0, "fragment length"),
        ((95, 200), 0, 0, "block of data"),
        ((u64::MAX, 200), 0, 0, "block of data"),
    ] {
        let (image, id) = open(fragment, index, inside, 50);
        assert!(said(image.locate(id, 0)).contains(says), "{fragment:?} {index} {inside}");
    }
}

/// An image whose root has a row of attributes: `count` as said, and the list.
fn with_xattrs(count: u32, list: Vec<u8>) -> Result<Vec<forebay_image::Xattr>, Error> {
    let mut craft = Craft { xattr_lists: list, ..Craft::default() };
    craft.xattr_rows.extend(0_u64.to_le_bytes());
    craft.xattr_rows.extend(count.to_le_bytes());
    craft.xattr_rows.extend([0; 4]);
    craft.run(&[(b"self", 0, 1, 1)]);
    craft.root(1, 0);
    let image = craft.open()?;
    image.xattrs(image.root())
}

fn attribute(prefix: u16, name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = prefix.to_le_bytes().to_vec();
    bytes.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
    bytes.extend(name);
    bytes.extend(u32::try_from(value.len()).unwrap().to_le_bytes());
    bytes.extend(value);
    bytes
}

#[test]
fn xattrs_are_of_a_known_prefix_and_of_bounded_size() {
    let found = with_xattrs(1, attribute(2, b"capability", b"v")).unwrap();
    assert_eq!(found[0].name, b"security.capability");
    for (prefix, name, len, says) in [
        (0, 250, 65_536, ""),
        (0, 251, 1, "xattr name"),
        (0, 0, 1, "xattr name"),
        (3, 5, 1, "xattr prefix"),
        (0x80, 5, 1, "xattr prefix"),
        (0, 5, 65_537, "xattr value"),
        // A value elsewhere is a reference of eight bytes.
        (0x100, 5, 9, "a reference of 9 bytes"),
    ] {
        let result = with_xattrs(1, attribute(prefix, &vec![b'n'; name], &vec![1; len]));
        assert_eq!(result.is_ok(), says.is_empty());
        assert!(said(result).contains(says), "{prefix} {name} {len}");
    }
    assert!(said(with_xattrs(1, attribute(0, b"a\0b", b""))).contains("xattr name"));
    assert!(said(with_xattrs(2, attribute(0, b"only", b"one"))).contains("table's end"));
    assert!(said(with_xattrs(8193, attribute(0, b"only", b"one"))).contains("8193"));
}

#[test]
fn a_value_that_many_names_refer_to_takes_bounded_memory() {
    // Each of the names refers to one value of 64 KiB, four MiB in sum and one name more.
    let mut list = attribute(0, b"first", &vec![1; 65_536]);
    let value = reference("first".len() + 4);
    for number in 0..64 {
        let name = format!("n{number}");
        list.extend(attribute(0x100, name.as_bytes(), &value.to_le_bytes()));
    }
    let found = with_xattrs(2, list.clone()).unwrap();
    assert_eq!(found[0].value, found[1].value);
    assert!(said(with_xattrs(65, list)).contains("4194304 bytes of xattrs"));
}

#[test]
fn metadata_that_decodes_to_nothing_or_ends_too_early_is_named() {
    let (craft, node) = one(6, 6, &[&1_u32.to_le_bytes()]);
    let image = craft.image();
    let table = u64::from_le_bytes(image[64..72].try_into().unwrap());
    let at = usize::try_from(table).unwrap();
    for header in [0_u16, 0x8000, 0x8001, 0xffff, 0x0010] {
        let mut image = image.clone();
        image[at..at + 2].copy_from_slice(&header.to_le_bytes());
        let source: Arc<dyn Source> = Arc::new(image);
        let opened = Squashfs::open(&source, Options::default());
        let result = opened.and_then(|image| image.unwrap().node(NodeId(node)));
        assert!(!said(result).is_empty(), "{header:#x}");
    }
}
