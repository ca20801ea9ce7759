//! squashfs: what mksquashfs writes is read back as it was, and damage is survived.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use forebay_image::squashfs::{self, Squashfs};
use forebay_image::{Coding, Error, Image, Kind, NodeId, Options, Source, read_at};

use crate::abuse;
use crate::squashfs_tree::{compare, full_tree, make, noise, open, scratch, set_time, text};

/// Metadata is stored, so that a flipped bit is a flipped field.
const GZIP: &[u8] = include_bytes!("../fixtures/squashfs-gzip.img");
const ZSTD: &[u8] = include_bytes!("../fixtures/squashfs-zstd.img");
/// One sparse file of more than 4 GiB in blocks of 128 KiB.
const LARGE: &[u8] = include_bytes!("../fixtures/squashfs-large.img");

fn read(bytes: &[u8]) -> Result<Option<Squashfs>, Error> {
    let source: Arc<dyn Source> = Arc::new(bytes.to_vec());
    Squashfs::open(&source, Options::default())
}

fn find(image: &dyn Image, path: &str) -> NodeId {
    path.split('/').fold(image.root(), |id, name| {
        image.lookup(id, name.as_bytes()).unwrap().unwrap_or_else(|| panic!("no {name} of {path}"))
    })
}

fn content(image: &dyn Image, path: &str) -> Vec<u8> {
    let id = find(image, path);
    let mut bytes = vec![0; usize::try_from(image.node(id).unwrap().size).unwrap()];
    assert_eq!(read_at(image, id, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

#[test]
fn every_compressor_and_block_size_gives_the_tree_back() {
    let place = scratch();
    for (size, block) in [("4K", 4 << 10), ("128K", 128 << 10), ("1M", 1 << 20)] {
        let tree = place.path().join(size);
        fs::create_dir(&tree).unwrap();
        full_tree(&tree, block);
        for comp in ["gzip", "lzo", "lz4", "xz", "zstd"] {
            if (comp, size) == ("xz", "1M") {
                // Packing takes seconds; the test of prefixes reads a smaller one.
                continue;
            }
            let options = ["-comp", comp, "-b", size];
            let quick: &[&str] = match comp {
                "gzip" | "zstd" => &["-Xcompression-level", "1"],
                "lzo" => &["-Xalgorithm", "lzo1x_1"],
                _ => &[],
            };
            let options = [&options, quick].concat();
            let Some(image) = make(&tree, &place.path().join("image"), &options) else { return };
            assert_eq!(image.summary().codecs, [comp]);
            assert_eq!(image.summary().block_size as usize, block);
            compare(&tree, &image, true);
            image.verify().unwrap();
        }
    }
}

#[test]
fn every_option_of_the_writer_gives_the_tree_back() {
    let place = scratch();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    full_tree(&tree, 16 << 10);
    for options in [
        "-no-fragments",
        "-always-use-fragments",
        "-noI",
        "-noId",
        "-noD",
        "-noF",
        "-noX",
        "-noI -noD -noF -noX",
        "-no-exports",
        "-no-duplicates",
        "-no-sparse",
        "-no-hardlinks",
        "-no-xattrs",
        "-nopad",
        "-comp lz4 -Xhc",
        "-comp xz -Xbcj x86,arm",
        "-comp xz -Xdict-size 8K",
        "-comp zstd -Xcompression-level 22",
        "-comp gzip -Xcompression-level 1 -Xwindow-size 8 -Xstrategy huffman_only",
        "-comp lzo -Xalgorithm lzo1x_1",
    ] {
        let mut typed: Vec<&str> = options.split(' ').collect();
        typed.extend(["-b", "16K"]);
        let Some(image) = make(&tree, &place.path().join("image"), &typed) else { return };
        if options == "-no-hardlinks" {
            assert_ne!(find(&image, "above"), find(&image, "above too"));
            assert_eq!(content(&image, "above"), content(&image, "above too"));
            continue;
        }
        compare(&tree, &image, options != "-no-xattrs");
        image.verify().unwrap();
        let has_exports = image.node_of_ino(1).unwrap().is_some();
        assert_eq!(has_exports, options != "-no-exports");
    }
}

#[test]
fn a_number_leads_to_its_node() {
    let image = read(GZIP).unwrap().unwrap();
    for path in ["text", "dir", "dir/deep/again", "fifo"] {
        let id = find(&image, path);
        let ino = image.node(id).unwrap().ino;
        assert_eq!(image.node_of_ino(ino).unwrap(), Some(id));
    }
    for none in [0, 17, u64::MAX] {
        assert_eq!(image.node_of_ino(none).unwrap(), None);
    }
}

#[test]
fn large_directories_are_found_in_with_the_index_and_without() {
    let place = scratch();
    let tree = place.path().join("tree");
    fs::create_dir_all(tree.join("many")).unwrap();
    fs::create_dir_all(tree.join("large")).unwrap();
    for number in 0..3000 {
        File::create(tree.join(format!("many/{number:x}"))).unwrap();
    }
    for number in 0..1500 {
        File::create(tree.join(format!("large/{number:0200}"))).unwrap();
    }
    File::create(tree.join(format!("large/{}", "z".repeat(255)))).unwrap();
    let file = place.path().join("image");
    let Some(image) = make(&tree, &file, &[]) else { return };
    compare(&tree, &image, true);
    // Without the listing in memory, as another image.
    let fresh = open(&file);
    let (listed, large) = (find(&image, "large"), find(&fresh, "large"));
    assert!(image.node(listed).unwrap().size > 256 << 10);
    for entry in image.entries(listed).unwrap().iter() {
        assert_eq!(fresh.lookup(large, &entry.name).unwrap(), Some(entry.node));
    }
    for none in ["", "0", "00x", "a", "zz", "~"] {
        assert_eq!(fresh.lookup(large, none.as_bytes()).unwrap(), None);
    }
}

#[test]
fn deep_paths_are_walked() {
    let place = scratch();
    let tree = place.path().join("tree");
    let path = (0..200).fold(tree.clone(), |path, depth| path.join(format!("d{depth}")));
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("end"), b"reached").unwrap();
    let Some(image) = make(&tree, &place.path().join("image"), &[]) else { return };
    compare(&tree, &image, true);
}

#[test]
fn a_file_of_many_blocks_is_located_at_random_as_in_order() {
    let place = scratch();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    // 3000 blocks: stored, packed and holes in turn.
    let mut bytes = Vec::new();
    for block in 0..3000 {
        match block % 3 {
            0 => bytes.extend(noise(block, 4096)),
            1 => bytes.extend(text(block, 4096)),
            _ => bytes.resize(bytes.len() + 4096, 0),
        }
    }
    bytes.extend(b"tail");
    fs::write(tree.join("file"), &bytes).unwrap();
    let file = place.path().join("image");
    for tails in ["-tailends", "-no-fragments"] {
        let Some(image) = make(&tree, &file, &["-b", "4K", tails]) else { return };
        let id = find(&image, "file");
        let in_order: Vec<_> =
            (0..=3000).map(|block| image.locate(id, block * 4096 + 1).unwrap()).collect();
        assert!(in_order.windows(2).all(|pair| pair[0].plain.end == pair[1].plain.start));
        assert_eq!(in_order.last().unwrap().plain.end, bytes.len() as u64);
        assert_eq!(in_order[0].coding, Coding::Stored);
        assert_eq!(in_order[1].coding, Coding::Packed);
        assert_eq!(in_order[2].coding, Coding::Hole);
        let fresh = open(&file);
        let id = find(&fresh, "file");
        for step in 0..3001 {
            let block = step * 1699 % 3001;
            let index = usize::try_from(block).unwrap();
            assert_eq!(fresh.locate(id, block * 4096).unwrap(), in_order[index]);
        }
        compare(&tree, &image, true);
    }
}

#[test]
fn a_file_above_four_gigabytes_is_read_at_its_ends() {
    // Made of a file; reading 4 GiB of zeros to make it anew would take seconds.
    let size = (4 << 30) + 12_345;
    let marks = [0, (2 << 30) - 7, (4_u64 << 30) - 3, size - 10];
    let image = read(LARGE).unwrap().unwrap();
    let id = find(&image, "file");
    assert_eq!(image.node(id).unwrap().size, size);
    for at in marks {
        let mut bytes = [1; 10];
        assert_eq!(read_at(&image, id, at, &mut bytes).unwrap(), 10);
        assert_eq!(&bytes, b"0123456789", "{at}");
    }
    let (mut at, mut holes) = (0, 0);
    while at < size {
        let block = image.locate(id, at).unwrap();
        holes += u64::from(block.coding == Coding::Hole);
        at = block.plain.end;
    }
    // Two of the four marks lie across an edge, and two reach into the last block.
    assert_eq!((at, holes), (size, (4 << 30) / (128 << 10) + 1 - 5));
    assert!(image.locate(id, size).is_err());
}

#[test]
fn a_prefix_of_a_block_is_what_the_whole_block_begins_with() {
    let place = scratch();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let plain = text(5, 1 << 20);
    fs::write(tree.join("file"), &plain).unwrap();
    for comp in ["gzip", "lzo", "lz4", "xz", "zstd"] {
        let options = ["-comp", comp, "-b", "1M"];
        let Some(image) = make(&tree, &place.path().join("image"), &options) else { return };
        let block = image.locate(find(&image, "file"), 0).unwrap();
        let mut raw = vec![0; usize::try_from(block.raw.end - block.raw.start).unwrap()];
        image.source().fill(&mut raw, block.raw.start).unwrap();
        let mut counts = Vec::new();
        for upto in [0, 1, 4096, 200_000, 900_000, 1 << 20] {
            let mut content = vec![0xaa; 1 << 20];
            let there = image.decode(&block, &raw, upto, &mut content).unwrap();
            assert!(there >= upto, "{comp} {upto}");
            assert_eq!(content[..there], plain[..there], "{comp} {upto}");
            counts.push(there);
        }
        let stops_early = matches!(comp, "gzip" | "xz" | "zstd");
        assert_eq!(counts[2] < 1 << 20, stops_early, "{comp}: {counts:?}");
    }
}

#[test]
fn what_is_not_a_whole_block_is_an_error_for_every_compressor() {
    let place = scratch();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let plain = text(5, 3000);
    fs::write(tree.join("file"), &plain).unwrap();
    for comp in ["gzip", "lzo", "lz4", "xz", "zstd"] {
        let options = ["-comp", comp, "-b", "4K", "-no-fragments", "-nopad"];
        let file = place.path().join("image");
        let Some(image) = make(&tree, &file, &options) else { return };
        let block = image.locate(find(&image, "file"), 0).unwrap();
        let mut raw = vec![0; usize::try_from(block.raw.end - block.raw.start).unwrap()];
        image.source().fill(&mut raw, block.raw.start).unwrap();
        let mut content = vec![0; 3000];
        assert_eq!(image.decode(&block, &raw, 3000, &mut content).unwrap(), 3000);
        assert_eq!(content, plain);
        // Cut anywhere, or longer than there is room for, or empty.
        for cut in 0..raw.len() {
            let result = image.decode(&block, &raw[..cut], 3000, &mut content);
            assert!(matches!(result, Err(Error::Block { .. })), "{comp} {cut}: {result:?}");
        }
        for room in [0, 1, 2999] {
            let result = image.decode(&block, &raw, room, &mut content[..room]);
            assert!(matches!(result, Err(Error::Block { .. })), "{comp} {room}: {result:?}");
        }
        // Any bit of data and of packed metadata.
        let bytes = fs::read(&file).unwrap();
        for at in (96..bytes.len()).step_by(5) {
            abuse::every_bit_flip(&bytes, at..at + 1, &squashfs_open);
        }
    }
}

#[test]
fn tails_share_one_block_and_its_key() {
    let image = read(GZIP).unwrap().unwrap();
    let [a, b] = ["text", "more"].map(|path| {
        let id = find(&image, path);
        image.locate(id, image.node(id).unwrap().size - 1).unwrap()
    });
    assert_eq!((&a.raw, a.coding, a.decoded), (&b.raw, b.coding, b.decoded));
    assert_eq!((a.coding, a.variant), (Coding::Packed, b.variant));
    assert_ne!(a.inside, b.inside);
}

#[test]
fn fixtures_hold_what_was_put_into_them() {
    let line: Vec<u8> = (0..2000).flat_map(|i| format!("line {i}\n").into_bytes()).collect();
    for bytes in [GZIP, ZSTD] {
        let image = read(bytes).unwrap().unwrap();
        assert_eq!(image.summary().nodes, Some(16));
        assert_eq!(image.summary().warnings, Vec::<String>::new());
        assert_eq!(content(&image, "text"), line[..10_000]);
        assert_eq!(content(&image, "block"), line[..4096]);
        assert_eq!(content(&image, "more"), line[..4097]);
        assert_eq!(content(&image, "nothing"), b"");
        assert_eq!(content(&image, "dir/deep/again"), b"tail\n");
        assert_eq!(find(&image, "dir/deep/again"), find(&image, "dir/tail"));
        let mut hole = b"begin".to_vec();
        hole.resize(12_288, 0);
        hole.extend(b"end");
        assert_eq!(content(&image, "hole"), hole);
        assert_eq!(image.link(find(&image, "dir/link")).unwrap(), b"../text");
        let node = |path| image.node(find(&image, path)).unwrap();
        assert_eq!((node("char").kind, node("char").device), (Kind::CharDevice, (259, 300)));
        assert_eq!((node("blockdev").kind, node("blockdev").device), (Kind::BlockDevice, (8, 1)));
        assert_eq!((node("fifo").kind, node("socket").kind), (Kind::Fifo, Kind::Socket));
        assert_eq!((node("text").permissions, node("dir").permissions), (0o4751, 0o1777));
        assert_eq!((node("block").uid, node("block").gid), (1000, 65534));
        assert_eq!((node("dir/tail").links, node("dir").links), (2, 3));
        assert_eq!(node("empty").modified.unwrap().seconds, 1_000_000_000);
        assert_eq!(image.entries(find(&image, "empty")).unwrap().len(), 0);
        let xattrs = |path| {
            let xattrs = image.xattrs(find(&image, path)).unwrap();
            let mut text: Vec<String> = xattrs
                .iter()
                .map(|x| format!("{}={}", x.name.escape_ascii(), x.value.escape_ascii()))
                .collect();
            text.sort();
            text
        };
        assert_eq!(
            xattrs("text"),
            [format!("trusted.t={}", "v".repeat(40)), "user.origin=here".into()]
        );
        assert_eq!(xattrs("dir/tail"), [format!("user.long={}", "w".repeat(100))]);
        assert_eq!(xattrs("dir"), xattrs("dir/tail"));
        assert_eq!(xattrs("nothing"), ["security.x="]);
        assert_eq!(xattrs("block"), [""; 0]);
        assert_eq!(image.verify().unwrap().len(), 4);
    }
}

#[test]
fn what_is_not_squashfs_is_left_to_others_and_what_is_not_supported_is_named() {
    assert!(read(b"").unwrap().is_none());
    assert!(read(b"hsq").unwrap().is_none());
    assert!(read(&[0; 4096]).unwrap().is_none());
    let with = |at: usize, bytes: &[u8]| {
        let mut image = GZIP.to_vec();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        read(&image).unwrap_err().to_string()
    };
    assert!(with(0, b"sqsh").contains("byte order"));
    assert!(with(20, &[2, 0]).contains("lzma"));
    assert!(with(20, &[7, 0]).contains("compressor at byte 20"));
    assert!(with(28, &[3, 0]).contains("squashfs 3.0"));
    assert!(with(12, &[0, 0x20, 0, 0]).contains("block size at byte 12"));
    assert!(with(22, &[11, 0]).contains("block size at byte 12"));
    assert!(with(26, &[0, 0]).contains("number of inodes"));
    assert!(with(40, &[0xff, 0xff]).contains("truncated"));
    assert!(with(72, &[96, 0, 0, 0]).contains("directory table at byte 72"));
    // Tables that claim to be larger than the image.
    assert!(with(4, &[0xff; 4]).contains("export table"));
    assert!(with(16, &[0xff; 4]).contains("fragment table"));
    assert!(with(26, &[0xff; 2]).contains("id table"));
    // A root that is a file, or nowhere.
    assert!(with(32, &[0; 8]).contains("not a directory"));
    assert!(with(32, &[0xff; 8]).contains("metadata"));
}

#[test]
fn names_that_cannot_be_names_cost_only_themselves() {
    let at = |name: &[u8]| GZIP.windows(name.len()).rposition(|window| window == name).unwrap();
    for (bad, says) in [(b"ta/l", "ta/l"), (b"ta\0l", "ta\\x00l")] {
        let mut image = GZIP.to_vec();
        let at = at(b"tail");
        image[at..at + 4].copy_from_slice(bad);
        let image = read(&image).unwrap().unwrap();
        let directory = find(&image, "dir");
        assert!(!image.entries(directory).unwrap().is_empty());
        let defects = image.defects(directory).unwrap();
        assert_eq!(defects.len(), 1);
        let text = defects[0].to_string();
        assert!(text.contains(says), "{text}");
        assert_eq!(content(&image, "block").len(), 4096);
    }
}

#[test]
fn of_two_equal_names_the_first_stays() {
    let mut image = GZIP.to_vec();
    let name = |image: &[u8]| image.windows(6).rposition(|window| window == b"socket").unwrap();
    let at = name(&image);
    // Entries lie in the order of their names: "more", "nothing", "socket", "text".
    let text = image.windows(4).rposition(|window| window == b"text").unwrap();
    assert!(text > at);
    image[text..text + 4].copy_from_slice(b"more");
    let image = read(&image).unwrap().unwrap();
    let entries = image.entries(image.root()).unwrap();
    assert_eq!(entries.iter().filter(|entry| entry.name == b"more").count(), 1);
    assert_eq!(content(&image, "more").len(), 4097);
    assert_eq!(content(&image, "block").len(), 4096);
}

#[test]
fn every_truncation_is_an_error() {
    for bytes in [GZIP, ZSTD] {
        abuse::every_truncation(bytes, &squashfs_open);
        // A superblock that agrees with the truncation gets further.
        for len in 96..bytes.len() {
            let mut image = bytes[..len].to_vec();
            image[40..48].copy_from_slice(&(len as u64).to_le_bytes());
            let _either = abuse::survives(image, &format!("agreed on {len} bytes"), &squashfs_open);
        }
    }
}

#[test]
fn every_flipped_bit_of_the_superblock_and_of_metadata_is_survived() {
    for bytes in [GZIP, ZSTD] {
        let inodes = u64::from_le_bytes(bytes[64..72].try_into().unwrap());
        let inodes = usize::try_from(inodes).unwrap();
        abuse::every_bit_flip(bytes, 0..96, &squashfs_open);
        abuse::every_bit_flip(bytes, inodes..bytes.len(), &squashfs_open);
    }
}

#[test]
fn a_flipped_bit_of_data_is_an_error_or_other_data() {
    for bytes in [GZIP, ZSTD] {
        let inodes = u64::from_le_bytes(bytes[64..72].try_into().unwrap());
        let inodes = usize::try_from(inodes).unwrap();
        for start in (96..inodes).step_by(16) {
            abuse::every_bit_flip(bytes, start..start + 1, &squashfs_open);
        }
    }
}

fn squashfs_open(source: &Arc<dyn Source>) -> Result<Option<Arc<dyn Image>>, Error> {
    squashfs::open(source, Options::default())
}

#[test]
fn an_image_is_read_by_many_at_once() {
    let image = read(ZSTD).unwrap().unwrap();
    let alone = abuse::walk_all(&image).unwrap();
    std::thread::scope(|scope| {
        let walks: Vec<_> =
            (0..4).map(|_| scope.spawn(|| abuse::walk_all(&image).unwrap())).collect();
        for walk in walks {
            assert_eq!(walk.join().unwrap(), alone);
        }
    });
}

#[test]
fn times_are_unsigned_seconds() {
    let place = scratch();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for (name, seconds) in [("zero", 0), ("late", 4_294_967_295)] {
        fs::write(tree.join(name), name).unwrap();
        set_time(Path::new(&tree.join(name)), seconds);
    }
    let Some(image) = make(&tree, &place.path().join("image"), &[]) else { return };
    compare(&tree, &image, true);
}
