//! erofs: what mkfs.erofs writes is read back as it was, and damage is survived.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use forebay_image::{
    Coding, FileSource, Image, Kind, Node, NodeId, Options, Result, Source, Time, erofs, read_at,
};

use crate::abuse;
use crate::squashfs_tree::{compare, full_tree, noise, scratch, set_time, text};

pub(crate) mod craft;
mod hostile;

const LZ4: &[u8] = include_bytes!("../fixtures/erofs-lz4.img");
const LZMA: &[u8] = include_bytes!("../fixtures/erofs-lzma.img");
const DEFLATE: &[u8] = include_bytes!("../fixtures/erofs-deflate.img");
const ZSTD: &[u8] = include_bytes!("../fixtures/erofs-zstd.img");
const WIDE: &[u8] = include_bytes!("../fixtures/erofs-48bit.img");
const METABOX: &[u8] = include_bytes!("../fixtures/erofs-metabox.img");

/// Images of one tree by mkfs.erofs 1.9.4, with blocks of 512 bytes and without checksums: the
/// tree has the files of [`small_files`] and in `dir` and `dir/deep` a link each.
const FIXTURES: [(&str, &[u8]); 6] = [
    ("-zlz4hc -C2048 -Eztailpacking", LZ4),
    ("-zlzma -C2048 -Efragments,legacy-compress", LZMA),
    ("-zdeflate -Ededupe --xattr-prefix=user.or", DEFLATE),
    ("-zzstd -C1024 -Eall-fragments", ZSTD),
    ("-zzstd -C2048 -E48bit", WIDE),
    ("-m512:lz4 --MZ=id -zlz4 -x0 -Eztailpacking", METABOX),
];

fn small_files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("text", text(1, 3000)),
        ("dir/deep/again", text(1, 3000)),
        ("long", text(2, 9000)),
        ("noise", noise(3, 700)),
        ("tail", [noise(4, 300), text(1, 1300)].concat()),
        ("twin", [noise(5, 100), text(1, 1300)].concat()),
        ("zeros", vec![0; 5000]),
        ("nothing", Vec::new()),
        ("one", b"1".to_vec()),
        ("mixed", [text(2, 2000), noise(6, 600), text(2, 900)].concat()),
    ]
}

/// What the installed mkfs.erofs says that it can do; none, with a word on stderr, without it.
fn abilities() -> Option<String> {
    match Command::new("mkfs.erofs").arg("--help").output() {
        Ok(said) => Some(String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into()),
        Err(error) => {
            eprintln!(
                "skip: images of erofs: no mkfs.erofs ({error}); apt-get install erofs-utils"
            );
            None
        }
    }
}

/// Makes an image of a tree, and opens it.
fn make(tree: &Path, image: &Path, options: &str) -> Arc<dyn Image> {
    if let Err(error) = fs::remove_file(image) {
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    }
    let mut mkfs = Command::new("mkfs.erofs");
    let made = mkfs.args(options.split_whitespace()).args([image, tree]).output().unwrap();
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{options}: {said}");
    let source: Arc<dyn Source> = Arc::new(FileSource::open(image).unwrap());
    open(&source).unwrap()
}

fn open(source: &Arc<dyn Source>) -> Result<Arc<dyn Image>> {
    Ok(open_erofs(source)?.expect("an erofs"))
}

fn open_erofs(source: &Arc<dyn Source>) -> Result<Option<Arc<dyn Image>>> {
    erofs::open(source, Options::default())
}

fn open_bytes(bytes: &[u8]) -> Result<Arc<dyn Image>> {
    let source: Arc<dyn Source> = Arc::new(bytes.to_vec());
    open(&source)
}

fn find(image: &dyn Image, path: &str) -> NodeId {
    path.split('/').fold(image.root(), |id, name| {
        image.lookup(id, name.as_bytes()).unwrap().unwrap_or_else(|| panic!("no {name} of {path}"))
    })
}

fn node(image: &dyn Image, path: &str) -> Node {
    image.node(find(image, path)).unwrap()
}

fn content(image: &dyn Image, path: &str) -> Vec<u8> {
    let node = node(image, path);
    let mut bytes = vec![0; usize::try_from(node.size).unwrap()];
    assert_eq!(read_at(image, node.id, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// The blocks of a file follow each other, each of their bytes leads to them, and they can be
/// decoded up to any byte.
fn check_blocks(image: &dyn Image, id: NodeId) {
    let size = image.node(id).unwrap().size;
    let mut at = 0;
    while at < size {
        let block = image.locate(id, at).unwrap();
        assert_eq!(block.plain.start, at);
        let middle = at + (block.plain.end - at) / 2;
        for offset in [middle, block.plain.end - 1] {
            assert_eq!(image.locate(id, offset).unwrap(), block, "{offset} of {size}");
        }
        if block.coding == Coding::Packed {
            let mut raw = vec![0; usize::try_from(block.raw.end - block.raw.start).unwrap()];
            image.source().fill(&mut raw, block.raw.start).unwrap();
            let mut whole = vec![0; block.decoded as usize];
            assert_eq!(image.decode(&block, &raw, whole.len(), &mut whole).unwrap(), whole.len());
            for upto in [1, whole.len() / 3, whole.len() - 1] {
                let mut part = vec![0xaa; whole.len()];
                let there = image.decode(&block, &raw, upto, &mut part).unwrap();
                assert!(there >= upto && part[..there] == whole[..there], "{block:?}, {upto}");
            }
        }
        at = block.plain.end;
    }
    assert!(image.locate(id, size).is_err());
}

/// Files in whose clusters everything can happen: long runs, noise, noise between text, repeats.
fn clusters(root: &Path) {
    let put = |name: &str, parts: &[&[u8]]| fs::write(root.join(name), parts.concat()).unwrap();
    let (text, noise) = (text(11, 400_000), noise(12, 100_000));
    put("long text", &[&text]);
    put("long noise", &[&noise]);
    put("zeros", &[&vec![0; 1 << 20]]);
    put("text, noise", &[&text[..177_777], &noise[..55_555], &text[..33_333]]);
    put("noise, text", &[&noise[..1234], &text[..99_999]]);
    put("noise end", &[&text[..70_000], &noise[..3000]]);
    put("text again", &[&noise[..500], &text[..300_000]]);
    put("same end", &[&noise[5000..9000], &text[3 * 4096..40_000]]);
    put("same end too", &[&noise[..100], &text[3 * 4096..40_000]]);
    for len in [1, 2, 511, 512, 513, 4095, 4096, 4097, 8191, 8192, 8193, 65_535, 65_536, 65_537] {
        put(&format!("text {len}"), &[&text[..len]]);
        put(&format!("noise {len}"), &[&noise[..len]]);
    }
}

/// Every option that both the oldest and the newest writer know.
const WRITERS: &[&str] = &[
    "",
    "-Eforce-inode-extended",
    "-Enosbcrc",
    "-Enoinline_data",
    "-x0",
    "-x10",
    "--chunksize=4096",
    "--chunksize=65536",
    "--chunksize=4096 -Eforce-inode-blockmap",
    "--chunksize=4096 -Eforce-chunk-indexes",
    "-zlz4",
    "-zlz4hc",
    "-zlz4hc,12 -C65536",
    "-zlz4hc -C1048576",
    "-zlz4 -Elegacy-compress",
    "-zlz4 -C65536 -Elegacy-compress",
    "-zlz4 -Eztailpacking",
    "-zlz4 -Eztailpacking,legacy-compress",
    "-zlz4 -C65536 -Eztailpacking",
    "-zlz4 -Efragments",
    "-zlz4 -C65536 -Efragments",
    "-zlz4 -Efragments,ztailpacking",
    "-zlz4 -Efragments,legacy-compress",
    "-zlz4hc -Eall-fragments",
    "-zlz4hc -C65536 -Eall-fragments,dedupe",
    "-zlz4 -Ededupe",
    "-zlz4 -C16384 -Ededupe,ztailpacking",
    "-zlz4 --max-extent-bytes=8192",
];

/// More options, of writers that have all codecs.
const NEWER_WRITERS: &[&str] = &[
    "-b512 -zlz4",
    "-b1024 -zlz4hc -C8192",
    "-b4096 --dsunit=16",
    "-zlzma",
    "-zlzma -C65536 -Efragments",
    "-zlzma,level=9,dictsize=65536 -C1048576 -Eztailpacking",
    "-zlzma -C65536 -Ededupe",
    "-zlzma,lc=0,lp=2,pb=1 -Eall-fragments",
    "-zdeflate",
    "-zdeflate,level=9 -C65536 -Efragments",
    "-zdeflate -Eztailpacking,dedupe",
    "-zlibdeflate,level=12 -C1048576",
    "-zzstd",
    "-zzstd,level=22 -C1048576 -Efragments",
    "-zzstd -C65536 -Eztailpacking,dedupe",
    "-zzstd -Eall-fragments,fragdedupe=inode",
    "-zlz4:lzma:zstd -C16384",
    "-zlz4 -E48bit",
    "-zlz4hc -E48bit -C65536",
    "-zzstd -E48bit -C65536",
    "-zzstd -E48bit,dedupe -C65536",
    "-zlz4 -E48bit,fragments -C65536",
    "-zlz4 -E48bit -b512 --chunksize=4096",
    "-E48bit",
    "--zD=1 -zzstd -C65536",
    "-m4096:zstd -zlz4",
    "-m16384:lzma --MZ=i -zlz4 -C16384",
    "-m16384:lz4 --MZ=id --zD=1 -zlz4 -C65536 -Eztailpacking",
    "-m4096:lz4 --MZ=i -zlz4 -x0 --chunksize=4096",
    "-m4096:zstd --MZ=id -E48bit",
    "--xattr-prefix=user.sha --xattr-prefix=user.or -Exattr-name-filter",
    "--xattr-prefix=user.or -zlz4 -Efragments",
    "--xattr-prefix=user.or -zlz4 -Efragments,plain-xattr-prefixes",
];

fn tree_with_clusters(root: &Path) {
    fs::create_dir(root).unwrap();
    full_tree(root, 4096);
    clusters(root);
}

fn gives_the_tree_back(writers: &[&str]) {
    let place = scratch();
    let tree = place.path().join("tree");
    tree_with_clusters(&tree);
    for options in writers {
        let image = make(&tree, &place.path().join("image"), options);
        compare(&tree, image.as_ref(), true);
        for entry in image.entries(image.root()).unwrap().iter() {
            if entry.kind == Kind::File {
                check_blocks(image.as_ref(), entry.node);
            }
        }
        image.verify().unwrap();
        assert_eq!(image.summary().warnings, Vec::<String>::new());
    }
}

#[test]
fn every_option_of_any_writer_gives_the_tree_back() {
    if abilities().is_some() {
        gives_the_tree_back(WRITERS);
    }
}

#[test]
fn every_option_of_a_newer_writer_gives_the_tree_back() {
    match abilities() {
        Some(abilities) if abilities.contains("--MZ") => gives_the_tree_back(NEWER_WRITERS),
        Some(_) => eprintln!("skip: LZMA, deflate, zstd, 48 bits: needs mkfs.erofs of 1.9"),
        None => {}
    }
}

#[test]
fn small_inodes_have_the_time_of_the_image() {
    if abilities().is_none() {
        return;
    }
    let place = scratch();
    let tree = place.path().join("tree");
    fs::create_dir_all(tree.join("dir")).unwrap();
    fs::write(tree.join("file"), b"content").unwrap();
    for (size, is_small) in [("compact", true), ("extended", false)] {
        let options = format!("-T1234567890 --all-root --ignore-mtime -Eforce-inode-{size}");
        let image = make(&tree, &place.path().join("image"), &options);
        for path in ["dir", "file"] {
            let node = node(image.as_ref(), path);
            let time = Time { seconds: 1_234_567_890, nanos: 0 };
            assert_eq!(node.modified, Some(time), "{path} {size}");
            assert_eq!((node.uid, node.gid), (0, 0));
        }
        assert_eq!(content(image.as_ref(), "file"), b"content");
        let bytes = fs::read(place.path().join("image")).unwrap();
        // The root's number is at byte 14 of the superblock.
        let root = usize::from(u16::from_le_bytes([bytes[1038], bytes[1039]]));
        assert_eq!(bytes[root * 32] & 1 == 0, is_small, "{size}");
    }
}

#[test]
fn times_keep_their_nanoseconds() {
    if abilities().is_none() {
        return;
    }
    let place = scratch();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), b"content").unwrap();
    fs::write(tree.join("old"), b"content").unwrap();
    set_time(&tree.join("old"), -5);
    // Small inodes have those of the image.
    let image = make(&tree, &place.path().join("image"), "-Eforce-inode-extended");
    let wanted = fs::metadata(tree.join("file")).unwrap();
    let found = node(image.as_ref(), "file").modified.unwrap();
    assert_eq!((found.seconds, i64::from(found.nanos)), (wanted.mtime(), wanted.mtime_nsec()));
    assert_eq!(node(image.as_ref(), "old").modified.unwrap(), Time { seconds: -5, nanos: 0 });
}

#[test]
fn thousands_of_files_long_names_and_deep_paths_are_found() {
    let Some(abilities) = abilities() else { return };
    // Writers of 1.5 refuse names of 255 bytes.
    let longest = if abilities.contains("--MZ") { 255 } else { 254 };
    let place = scratch();
    let tree = place.path().join("tree");
    let deep = (0..60).fold(tree.join("deep"), |path, depth| path.join(format!("level {depth}")));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("bottom"), b"here").unwrap();
    let many = tree.join("many");
    fs::create_dir(&many).unwrap();
    for number in 0..4000 {
        fs::write(many.join(format!("{number:x}")), format!("file {number}")).unwrap();
    }
    for byte in [b'!', b'-', b'z'] {
        let name = String::from_utf8(vec![byte; longest]).unwrap();
        fs::create_dir(tree.join(&name)).unwrap();
        for number in 0..100 {
            File::create(tree.join(&name).join(format!("!{number:0width$}", width = longest - 1)))
                .unwrap();
        }
    }
    for options in ["", "-zlz4 -Efragments"] {
        let image = make(&tree, &place.path().join("image"), options);
        compare(&tree, image.as_ref(), true);
        assert_eq!(image.lookup(image.root(), &[b'z'; 253]).unwrap(), None);
    }
}

#[test]
fn every_codec_gives_the_small_files_back() {
    for (options, bytes) in FIXTURES {
        let image = open_bytes(bytes).unwrap();
        let image = image.as_ref();
        for (path, wanted) in small_files() {
            assert!(content(image, path) == wanted, "{path} of {options}");
            check_blocks(image, find(image, path));
        }
        let text = node(image, "text");
        assert_eq!((text.links, text.id), (2, find(image, "dir/deep/again")), "{options}");
        assert_eq!(image.link(find(image, "dir/link")).unwrap(), b"../text");
        let null = node(image, "null");
        let wanted = (Kind::CharDevice, (259, 300), 0o640);
        assert_eq!((null.kind, null.device, null.permissions), wanted);
        assert_eq!(node(image, "fifo").kind, Kind::Fifo);
        assert_eq!(node(image, "one").permissions, 0o4751);
        assert_eq!(node(image, "long").modified.unwrap().seconds, 1_000_000_000);
        for (path, name, value) in [
            ("text", "user.origin", &b"here"[..]),
            ("dir", "user.origin", b"here"),
            ("long", "user.shared", &[b'x'; 40]),
        ] {
            let xattrs = image.xattrs(find(image, path)).unwrap();
            assert_eq!(xattrs.len(), 1, "{path} of {options}");
            assert_eq!((&xattrs[0].name[..], &xattrs[0].value[..]), (name.as_bytes(), value));
        }
        let codec = image.summary().codecs.clone();
        assert!(codec.iter().any(|codec| options.contains(codec)), "{options}: {codec:?}");
    }
}

#[test]
fn the_fixtures_have_what_they_are_there_for() {
    let blocks = |bytes: &[u8], path: &str| {
        let image = open_bytes(bytes).unwrap();
        let id = find(image.as_ref(), path);
        let (mut at, size, mut blocks) = (0, image.node(id).unwrap().size, Vec::new());
        while at < size {
            let block = image.locate(id, at).unwrap();
            at = block.plain.end;
            blocks.push(block);
        }
        blocks
    };
    assert!(blocks(LZ4, "long").iter().any(|block| block.raw.end - block.raw.start > 512));
    let inline = |path| blocks(LZ4, path).iter().any(|block| block.raw.start % 512 != 0);
    assert!(small_files().iter().any(|(path, _)| inline(path)), "an inline tail");
    assert!(blocks(LZMA, "twin").iter().any(|block| block.inside > 0), "a fragment");
    assert!(blocks(WIDE, "long").iter().any(|block| block.raw.end % 512 != 0), "an extent");
    let nested =
        |path| blocks(METABOX, path).iter().any(|b| b.coding == Coding::Packed && b.raw.is_empty());
    assert!(small_files().iter().any(|(path, _)| nested(path)), "a tail in the metabox");
}

#[test]
fn every_truncation_gives_an_error_or_a_part_of_the_tree() {
    for bytes in [LZ4, LZMA, WIDE, METABOX] {
        abuse::every_truncation(bytes, &open_erofs);
    }
}

#[test]
fn every_flipped_bit_of_metadata_is_survived() {
    for (options, bytes) in FIXTURES {
        abuse::every_bit_flip(bytes, SUPERBLOCK, &open_erofs);
        let (mut flips, mut opened) = (0, 0);
        for range in inodes(bytes) {
            flips += 8 * range.len();
            opened += abuse::every_bit_flip(bytes, range, &open_erofs);
        }
        // Most of them affect one file, and the image still opens.
        assert!(flips > 800 && opened > flips / 2, "{options}: {opened} of {flips}");
    }
}

/// The positions of some inodes of a fixture, of each sort that are not in its metabox. Each
/// includes the bytes after it: attributes, the map's header and its index, names of a directory.
fn inodes(bytes: &[u8]) -> Vec<Range<usize>> {
    const BEHIND_MAX: usize = 112;
    let field = |at: usize, len: usize| {
        let bytes = bytes[SUPERBLOCK][at..at + len].iter().rev();
        bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let image = open_bytes(bytes).unwrap();
    let named = ["dir", "long", "twin"].map(|path| node(image.as_ref(), path).ino);
    let root = image.node(image.root()).unwrap().ino;
    let others = [(0x20, craft::PACKED), (0x100, craft::METABOX)]
        .into_iter()
        .filter(|(feature, _)| field(craft::INCOMPATIBLE, 4) & feature != 0)
        .map(|(_, at)| field(at, 8));
    let all = named.into_iter().chain([root]).chain(others);
    let outside = all.filter(|number| *number > 0 && number >> 63 == 0);
    let start = |number: u64| (field(40, 4) << field(craft::BLOCK_BITS, 1)) + 32 * number;
    let starts = outside.map(|number| usize::try_from(start(number)).unwrap());
    starts.map(|start| start..start + BEHIND_MAX).collect()
}

/// The bytes of a superblock with all of its fields.
const SUPERBLOCK: Range<usize> = 1024..1024 + 144;
