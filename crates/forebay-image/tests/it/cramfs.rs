//! cramfs: images of the usual tool and our own, whole and damaged.

mod cost;
mod damage;
mod limits;
mod pointers;
mod tools;

use std::sync::Arc;

use forebay_image::cramfs::write::{Attributes, Content, Settings, Tree, Written, write};
use forebay_image::{Image, NodeId, Options, Result, Source, cramfs, read_at};

const LENIENT: Options = Options { lenient: true };

/// Little-endian and big-endian.
const ORDERS: [bool; 2] = [false, true];

fn attributes(permissions: u16) -> Attributes {
    Attributes { permissions, uid: 0, gid: 0 }
}

fn open(image: &[u8], options: Options) -> Result<Arc<dyn Image>> {
    let source: Arc<dyn Source> = Arc::new(image.to_vec());
    Ok(cramfs::open(&source, options)?.expect("an image that begins like cramfs"))
}

fn built(tree: &Tree, settings: &Settings) -> Written {
    write(tree, settings, &mut |_| {}).unwrap()
}

/// A node by its path from the root.
fn find(image: &dyn Image, path: &str) -> NodeId {
    path.split('/').filter(|name| !name.is_empty()).fold(image.root(), |directory, name| {
        image.lookup(directory, name.as_bytes()).unwrap().unwrap_or_else(|| panic!("no {name}"))
    })
}

fn content(image: &dyn Image, path: &str) -> Result<Vec<u8>> {
    content_of(image, find(image, path))
}

fn content_of(image: &dyn Image, id: NodeId) -> Result<Vec<u8>> {
    let mut bytes = vec![0xaa; usize::try_from(image.node(id)?.size).unwrap() + 1];
    let len = read_at(image, id, 0, &mut bytes)?;
    bytes.truncate(len);
    Ok(bytes)
}

/// Bytes that hardly pack.
fn noise(len: usize, mut seed: u64) -> Vec<u8> {
    let next = |_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed.to_be_bytes()[0]
    };
    (0..len).map(next).collect()
}

/// A tree of few bytes that has everything.
fn small_tree() -> Tree {
    let mut tree = Tree::new(attributes(0o755));
    let root = tree.root();
    let deep = tree.add(root, b"d", attributes(0o750), Content::Directory).unwrap();
    let file = |bytes: &[u8]| Content::Bytes(bytes.to_vec());
    for (directory, name, content) in [
        (root, &b"empty"[..], file(b"")),
        (root, b"none", Content::Directory),
        (root, b"text", file(b"some text, some text")),
        (deep, b"same", file(b"some text, some text")),
        (deep, b"two", file(&[b"ab".repeat(2100), vec![0; 4100]].concat())),
        (deep, b"link", Content::Link(b"../text".to_vec())),
        (root, b"null", Content::CharDevice(1, 3)),
        (root, b"fifo", Content::Fifo),
    ] {
        tree.add(directory, name, attributes(0o644), content).unwrap();
    }
    tree
}

/// The small tree without the padding, which is most of an image.
fn small_image(settings: &Settings) -> Vec<u8> {
    let mut image = built(&small_tree(), settings).image;
    let len = image.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    // The last block may end with zeros of its checksum.
    let len = (len + 4).next_multiple_of(4);
    image.truncate(len);
    seal(&mut image, settings);
    image
}

/// Writes the size and the checksum that an image has.
fn seal(image: &mut [u8], settings: &Settings) {
    let base = if settings.boot.is_some() { 512 } else { 0 };
    let len = u32::try_from(image.len()).unwrap();
    put(image, base + 4, len, settings.big_endian);
    put(image, base + 32, 0, settings.big_endian);
    let mut crc = u32::MAX;
    for byte in &image[base..] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    put(image, base + 32, !crc, settings.big_endian);
}

fn put(image: &mut [u8], at: usize, word: u32, big_endian: bool) {
    image[at..at + 4].copy_from_slice(&word_bytes(word, big_endian));
}

fn word_bytes(word: u32, big_endian: bool) -> [u8; 4] {
    if big_endian { word.to_be_bytes() } else { word.to_le_bytes() }
}

fn word(image: &[u8], at: usize, big_endian: bool) -> u32 {
    let bytes = image[at..at + 4].try_into().unwrap();
    if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

/// A zlib stream.
fn packed(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut encoder, plain).unwrap();
    encoder.finish().unwrap()
}

/// An inode and its name, of owner and group 0, whose parts are where they are wanted.
fn entry(mode: u32, size: u32, offset: u32, name: &[u8], big_endian: bool) -> Vec<u8> {
    let name_words = u32::try_from(name.len().div_ceil(4)).unwrap();
    assert_eq!(offset % 4, 0);
    let words = if big_endian {
        [mode << 16, size << 8, (name_words << 26) | (offset / 4)]
    } else {
        [mode, size, name_words | ((offset / 4) << 6)]
    };
    let mut bytes = words.map(|word| word_bytes(word, big_endian)).concat();
    bytes.extend(name);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// An image with a superblock, whose root has `root_len` bytes of entries at the beginning of
/// `body`, which is at byte 76.
fn crafted(flags: u32, root_len: u32, body: &[u8], big_endian: bool) -> Vec<u8> {
    let len = u32::try_from(76 + body.len()).unwrap();
    let word = |word| word_bytes(word, big_endian);
    let root = entry(0o040_755, root_len, if root_len == 0 { 0 } else { 76 }, b"", big_endian);
    let start = [0x28cd_3d45, len, flags, 0].map(word).concat();
    let id = [0, 0, 0, 1].map(word).concat();
    [&start, &b"Compressed ROMFS"[..], &id, &[0; 16], &root, body].concat()
}

/// Where the body of the file of [`one_file`] begins.
const BODY: u32 = 92;

/// An image with one file `f`, whose block pointers are at the beginning of `body`.
fn one_file(flags: u32, size: u32, body: &[u8], big_endian: bool) -> Vec<u8> {
    let entry = entry(0o100_644, size, BODY, b"f", big_endian);
    crafted(flags, 16, &[&entry, body].concat(), big_endian)
}

/// The error of the file of [`one_file`].
fn file_error(image: &[u8]) -> String {
    let image = open(image, Options::default()).unwrap();
    content(image.as_ref(), "f").unwrap_err().to_string()
}
