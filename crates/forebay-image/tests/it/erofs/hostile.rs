//! Images that no writer makes: valid ones at the limits, and ones that lie.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::craft::{
    BLOCK_BITS, CHUNKS, COMPRESSED, COMPRESSED_FULL, Craft, DIRECTORY, DIRECTORY_BITS,
    EXTRA_DEVICES, FILE, INCOMPATIBLE, INLINE, METABOX, PACKED, PLAIN, ROOT, ROOT_NID,
};
use super::{find, node, open_bytes, open_erofs};
use crate::abuse;
use crate::squashfs_tree::noise;

use forebay_image::{Block, Coding, Image, Kind, Source, read_at};

/// The error that opening, or reading all of the only file, ends with.
fn error(craft: &Craft) -> String {
    abuse::survives(craft.bytes.clone(), "a crafted image", &open_erofs).unwrap_or_default();
    let image = match open_bytes(&craft.bytes) {
        Ok(image) => image,
        Err(error) => return error.to_string(),
    };
    let id = find(image.as_ref(), "file");
    let size = image.node(id).map(|node| node.size.min(1 << 20));
    let read = size.and_then(|size| {
        // What the map says before what the bytes say.
        for at in (0..size).step_by(4096) {
            image.locate(id, at)?;
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap()];
        read_at(image.as_ref(), id, 0, &mut bytes)
    });
    read.unwrap_err().to_string()
}

fn blocks(image: &dyn Image) -> Vec<Block> {
    let node = node(image, "file");
    let (mut at, mut blocks) = (0, Vec::new());
    while at < node.size {
        let block = image.locate(node.id, at).unwrap();
        assert_eq!(block.plain.start, at);
        at = block.plain.end;
        blocks.push(block);
    }
    blocks
}

#[test]
fn what_is_not_supported_is_refused_by_its_name() {
    for (at, field, says) in [
        (INCOMPATIBLE, &[0, 2, 0, 0][..], "feature (bit 9)"),
        (INCOMPATIBLE, &[0, 0, 0, 0x80], "feature (bit 31)"),
        (BLOCK_BITS, &[8], "block size"),
        (BLOCK_BITS, &[17], "block size"),
        (DIRECTORY_BITS, &[1], "directory block"),
        (ROOT, &[130], "mode"),
        (ROOT, &[0xff, 0xff], "inode"),
    ] {
        let mut craft = Craft::new(3);
        craft.superblock(at, field);
        let text = open_bytes(&craft.bytes).unwrap_err().to_string();
        assert!(text.contains(says), "{text}");
    }
    let mut craft = Craft::new(3);
    craft.superblock(EXTRA_DEVICES, &[2]);
    // Without the feature the field means nothing, and the feature's bit has another meaning too.
    open_bytes(&craft.bytes).unwrap();
    craft.superblock(INCOMPATIBLE, &[8]);
    let text = open_bytes(&craft.bytes).unwrap_err().to_string();
    assert!(text.contains("2 further devices"), "{text}");
    craft.superblock(EXTRA_DEVICES, &[0]);
    open_bytes(&craft.bytes).unwrap();
}

#[test]
fn a_wrong_checksum_is_an_error() {
    let mut craft = Craft::new(3);
    craft.superblock(8, &[1]);
    let text = open_bytes(&craft.bytes).unwrap_err().to_string();
    assert!(text.contains("checksum at byte 1028"), "{text}");
}

#[test]
fn a_shorter_image_has_a_warning_and_what_is_there() {
    let mut craft = Craft::new(5);
    craft.file(PLAIN, 6000, 3, &[]);
    let content = noise(1, 6000);
    craft.put(3 << 12, &content);
    craft.bytes.truncate((4 << 12) + 100);
    let image = open_bytes(&craft.bytes).unwrap();
    assert!(image.summary().warnings[0].contains("truncated"));
    assert!(image.verify().is_err());
    let id = find(image.as_ref(), "file");
    let mut part = vec![0; 4196];
    assert_eq!(read_at(image.as_ref(), id, 0, &mut part).unwrap(), 4196);
    assert_eq!(part, content[..4196]);
    assert!(read_at(image.as_ref(), id, 4196, &mut [0]).is_err());
}

#[test]
fn a_file_of_more_than_4_gib_has_holes_and_chunks() {
    let mut craft = Craft::new(5);
    // 2^31 bytes a chunk: a hole, data, a hole, data.
    let mut body = Vec::new();
    for block in [u32::MAX, 3, u32::MAX, 3] {
        body.extend([0, 0, 0, 0]);
        body.extend(block.to_le_bytes());
    }
    let size = (3 << 31) + 5000;
    craft.file(CHUNKS, size, 0x20 | 19, &body);
    craft.put(3 << 12, &noise(1, 8192));
    let image = open_bytes(&craft.bytes).unwrap();
    assert_eq!(node(image.as_ref(), "file").size, size);
    let id = find(image.as_ref(), "file");
    assert_eq!(image.locate(id, 7).unwrap(), Block::hole(0..1 << 31));
    let block = image.locate(id, 1 << 31).unwrap();
    // The image ends long before the chunk does.
    assert_eq!((block.plain, block.raw), ((1 << 31)..(1 << 31) + 8192, 12_288..20_480));
    let mut end = [0; 5100];
    assert_eq!(read_at(image.as_ref(), id, (3 << 31) - 100, &mut end).unwrap(), 5100);
    assert_eq!(end[..100], [0; 100]);
    assert_eq!(end[100..], noise(1, 8192)[..5000]);
}

#[test]
fn chunks_that_follow_each_other_are_one_block() {
    let mut craft = Craft::new(8);
    let addresses = [3, 4, 5, u32::MAX, u32::MAX, 3, 5_u32];
    craft.file(CHUNKS, 7 * 4096 - 1, 0, &addresses.map(u32::to_le_bytes).concat());
    let image = open_bytes(&craft.bytes).unwrap();
    let found: Vec<_> = blocks(image.as_ref()).into_iter().map(|b| (b.plain, b.raw)).collect();
    let block = |from: u64, to: u64| from << 12..to << 12;
    let last = 6 << 12..(7 << 12) - 1;
    assert_eq!(
        found,
        [
            (block(0, 3), block(3, 6)),
            (block(3, 5), 0..0),
            (block(5, 6), block(3, 4)),
            (last, 5 << 12..(6 << 12) - 1),
        ]
    );
}

#[test]
fn a_directory_that_names_one_above_it_is_not_endless() {
    for (target, kind) in [(ROOT_NID, 2), (132, 2), (132, 0), (132, 1)] {
        let mut craft = Craft::new(5);
        craft.directory(2, &[(ROOT_NID, 2, "."), (ROOT_NID, 2, ".."), (132, 2, "dir")]);
        craft.inode(132, DIRECTORY, PLAIN, 4096, 3);
        craft.directory(3, &[(132, 2, "."), (ROOT_NID, 2, ".."), (134, 2, "in")]);
        craft.inode(134, DIRECTORY, PLAIN, 4096, 4);
        craft.directory(4, &[(132, 2, ".."), (target, kind, "loop")]);
        let image = open_bytes(&craft.bytes).unwrap();
        let found = find(image.as_ref(), "dir/in/loop");
        assert!(image.node(found).is_err(), "{target} {kind}");
        assert!(image.entries(found).is_err());
        abuse::survives(craft.bytes, "a loop", &open_erofs).unwrap();
    }
}

#[test]
fn of_two_entries_of_one_name_the_one_that_linux_finds_is_shown() {
    let mut craft = Craft::new(3);
    craft.inode(130, FILE, PLAIN, 10, 2);
    craft.inode(132, FILE, PLAIN, 20, 2);
    let entries = [(ROOT_NID, 2, ".."), (132, 1, "b"), (130, 1, "a"), (130, 1, "b")];
    craft.directory(2, &entries);
    let image = open_bytes(&craft.bytes).unwrap();
    let names: Vec<_> =
        image.entries(image.root()).unwrap().iter().map(|e| e.name.clone()).collect();
    // A search by halves looks at "a" first and goes on behind it.
    assert_eq!(names, [b"b", b"a"]);
    assert_eq!(node(image.as_ref(), "b").size, 10);
    let defects = image.defects(image.root()).unwrap();
    assert_eq!(
        defects[0].to_string(),
        "the name 'b' is there twice: inode 130 (file) is shown, inode 132 (file) is left out"
    );
}

/// A binary search does not compare the bytes again that a name shares with both ends of the rest.
/// So Linux opens 'qc' if 'pc' stands between names with 'q', although no entry is called 'qc'.
#[test]
fn a_name_that_no_entry_has_leads_where_linux_has_it_lead() {
    let mut craft = Craft::new(3);
    craft.inode(130, FILE, PLAIN, 10, 2);
    craft.inode(132, FILE, PLAIN, 20, 2);
    let names = [".", "..", "qa", "qb", "pc", "qd", "qe"];
    let entries = names.map(|name| match name {
        "." | ".." => (ROOT_NID, 2, name),
        "pc" => (132, 1, name),
        _ => (130, 1, name),
    });
    craft.directory(2, &entries);
    let image = open_bytes(&craft.bytes).unwrap();
    let shown = image.entries(image.root()).unwrap();
    assert!(shown.iter().all(|entry| entry.name != b"qc" && entry.name != b"pc"), "{shown:?}");
    assert_eq!(node(image.as_ref(), "qc").size, 20);
    for name in [&b"pc"[..], b"qf", b"", b".", b"q/c"] {
        assert_eq!(image.lookup(image.root(), name).unwrap(), None, "{name:?}");
    }
    assert_eq!(image.defects(image.root()).unwrap().len(), 1);
}

/// Linux reads a name up to its first zero byte, lists it and opens it so. Left out, the file was
/// hidden from everything that reads the image here.
#[test]
fn a_name_with_a_zero_is_shown_up_to_it_and_is_damage() {
    let mut craft = Craft::new(3);
    craft.inode(130, FILE, PLAIN, 10, 2);
    craft
        .directory(2, &[(ROOT_NID, 2, "."), (ROOT_NID, 2, ".."), (130, 1, "B\0BB"), (130, 1, "x")]);
    let image = open_bytes(&craft.bytes).unwrap();
    let shown = image.entries(image.root()).unwrap();
    let names: Vec<_> = shown.iter().map(|entry| &entry.name[..]).collect();
    assert_eq!(names, [&b"B"[..], b"x"]);
    assert_eq!(node(image.as_ref(), "B").size, 10);
    let defects = image.defects(image.root()).unwrap();
    assert_eq!(defects.len(), 1);
    assert_eq!(
        defects[0].to_string(),
        "the name 'B\\x00BB' of inode 130 (file) has a zero byte: Linux reads it as 'B'"
    );
}

#[test]
fn dots_name_directories_and_stand_once() {
    for (entries, count) in [
        (&[(ROOT_NID, 2, "."), (ROOT_NID, 2, ".."), (130, 1, "x")][..], 0),
        (&[(130, 1, "."), (130, 1, ".."), (130, 1, "x")], 2),
        (&[(ROOT_NID, 2, "."), (ROOT_NID, 2, "."), (ROOT_NID, 2, ".."), (130, 1, "x")], 1),
    ] {
        let mut craft = Craft::new(3);
        craft.inode(130, FILE, PLAIN, 10, 2);
        craft.directory(2, entries);
        let image = open_bytes(&craft.bytes).unwrap();
        assert_eq!(image.defects(image.root()).unwrap().len(), count);
        assert_eq!(image.entries(image.root()).unwrap().len(), 1);
    }
}

#[test]
fn names_have_up_to_255_bytes_without_slashes_and_zeros() {
    for (name, is_valid) in
        [("n".repeat(255), true), ("n".repeat(256), false), ("a/b".into(), false)]
    {
        let mut craft = Craft::new(3);
        craft.inode(130, FILE, PLAIN, 10, 2);
        craft.directory(2, &[(ROOT_NID, 2, ".."), (130, 1, &name), (130, 1, "other")]);
        let image = open_bytes(&craft.bytes).unwrap();
        let count = image.entries(image.root()).unwrap().len();
        assert_eq!(count, if is_valid { 2 } else { 1 }, "{name}");
        assert_eq!(image.defects(image.root()).unwrap().len(), 2 - count);
        if is_valid {
            assert_eq!(node(image.as_ref(), &name).size, 10);
        }
    }
}

#[test]
fn every_flipped_bit_of_inodes_entries_and_chunks_is_survived() {
    // A file of addresses, one of indexes, and a directory that fills a block.
    for (format, record) in [(0, 4), (0x20, 8)] {
        let mut craft = Craft::new(6);
        let addresses = [3, 4, u32::MAX, 5_u32];
        let mut body = Vec::new();
        for address in addresses {
            body.resize(body.len() + record - 4, 0);
            body.extend(address.to_le_bytes());
        }
        craft.file(CHUNKS, 4 * 4096 - 1, format, &body);
        let inode = |nid: usize, behind: usize| nid * 32..nid * 32 + 64 + behind;
        for range in [inode(128, 0), inode(130, body.len()), 2 << 12..(2 << 12) + 48] {
            let flips = 8 * range.len();
            let opened = abuse::every_bit_flip(&craft.bytes, range, &open_erofs);
            assert!(opened > flips / 4, "{opened} of {flips}");
        }
    }
}

#[test]
fn an_entry_without_a_type_gets_that_of_its_inode() {
    let mut craft = Craft::new(3);
    craft.file(PLAIN, 10, 2, &[]);
    craft.directory(2, &[(ROOT_NID, 2, ".."), (130, 0, "file")]);
    let image = open_bytes(&craft.bytes).unwrap();
    assert_eq!(image.entries(image.root()).unwrap()[0].kind, Kind::File);
    assert_eq!(node(image.as_ref(), "file").kind, Kind::File);
}

/// A map header: low word, advice, codecs, cluster bits.
fn header(low: u32, advice: u16, codecs: u8, bits: u8) -> Vec<u8> {
    let mut header = low.to_le_bytes().to_vec();
    header.extend(advice.to_le_bytes());
    header.extend([codecs, bits]);
    header
}

/// Entries of a large index: kind, offset, and the last word.
fn index(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut body = header(0, 0, 0, 0);
    body.extend([0; 8]);
    for (kind, offset, word) in entries {
        body.extend(kind.to_le_bytes());
        body.extend(offset.to_le_bytes());
        body.extend(word.to_le_bytes());
    }
    body
}

fn compressed(layout: u16, size: u64, body: &[u8]) -> Craft {
    let mut craft = Craft::new(6);
    craft.superblock(INCOMPATIBLE, &[0x01]);
    craft.file(layout, size, 0, body);
    craft
}

const STORED: u16 = 0;
const HEAD: u16 = 1;
const TAIL: u16 = 2;

#[test]
fn an_index_that_lies_is_an_error() {
    for (entries, says) in [
        (&[(TAIL, 0, 1)][..], "the head is 1 before cluster 0"),
        (&[(HEAD, 0, 3), (TAIL, 0, 0)], "the head is 0 before cluster 1"),
        (&[(HEAD, 0, 3), (TAIL, 0, 7)], "the head is 7 before cluster 1"),
        (&[(HEAD, 4096, 3)], "outside of it"),
        (&[(HEAD, 9, 3), (TAIL, 0, 1)], "the head is 1 before cluster 0"),
        (&[(HEAD, 0, 3), (TAIL, 0, 0x801)], "has a number of blocks"),
        (&[(HEAD, 0, 6), (TAIL, 0, 1)], "end behind the image"),
        (&[(HEAD, 0, 3), (TAIL, 0, 1)], "raw bytes"),
        (&[(STORED, 0, 3), (TAIL, 0, 1)], "8192 bytes of content in 4096"),
        (&[(STORED, 0, 9), (STORED, 0, 3)], "behind the image's end"),
    ] {
        let craft = compressed(COMPRESSED_FULL, 8192, &index(entries));
        let text = error(&craft);
        assert!(text.contains(says), "{entries:x?}: {text}");
    }
    let other = [header(0, 0, 0x1, 0), vec![0; 8]].concat();
    let other = [other, index(&[(HEAD, 0, 3)])[16..].to_vec()].concat();
    let text = error(&compressed(COMPRESSED_FULL, 4096, &other));
    assert!(text.contains("codec 1, which the superblock does not have"), "{text}");
}

#[test]
fn an_extent_without_an_end_is_an_error_after_bounded_work() {
    // A head, and more tails than the largest extent has, of a file that is far larger.
    let mut entries = vec![(HEAD, 0, 3)];
    entries.extend([(TAIL, 0, 1); 4000]);
    let mut craft = Craft::new(16);
    craft.superblock(INCOMPATIBLE, &[0x01]);
    craft.directory(2, &[(ROOT_NID, 2, ".."), (4 * 128, 1, "file")]);
    craft.inode(4 * 128, FILE, COMPRESSED_FULL, 1 << 40, 0);
    craft.put((4 << 12) + 64, &index(&entries));
    let text = error(&craft);
    assert!(text.contains("the extent at cluster 0 has no end"), "{text}");
}

#[test]
fn maps_that_lie_are_errors() {
    for (layout, body, says) in [
        (COMPRESSED, header(0, 2, 0, 0), "big clusters of one kind"),
        (COMPRESSED, header(0, 1, 0, 1), "clusters of 2^13 bytes"),
        (COMPRESSED, header(0, 0, 0, 3), "clusters of 2^15 bytes"),
        (COMPRESSED, header(0, 0, 0, 0x80), "there is no inode for it"),
    ] {
        let text = error(&compressed(layout, 8192, &body));
        assert!(text.contains(says), "{text}");
    }
    // The packed inode's own end cannot be in the packed inode.
    let mut craft = compressed(COMPRESSED, 8192, &header(0, 0, 0, 0x80));
    craft.superblock(INCOMPATIBLE, &[0x21]);
    craft.superblock(PACKED, &130_u64.to_le_bytes());
    assert!(error(&craft).contains("there is no inode for it"), "{}", error(&craft));
    // A fragment behind the end of the packed inode.
    craft.superblock(PACKED, &140_u64.to_le_bytes());
    craft.inode(140, FILE, PLAIN, 100, 3);
    craft.put(130 * 32 + 64, &100_u64.to_le_bytes());
    craft.put(130 * 32 + 71, &[0x80]);
    assert!(error(&craft).contains("behind another's end"), "{}", error(&craft));
}

#[test]
fn an_inline_end_does_not_cross_a_block() {
    let mut craft = Craft::new(4);
    craft.file(INLINE, 3000, 0, &[]);
    // 64 bytes of inode at 4160, so that 3968 bytes are left.
    open_bytes(&craft.bytes).unwrap();
    craft.inode(130, FILE, INLINE, 3969, 0);
    assert!(error(&craft).contains("cross the end of a block"), "{}", error(&craft));
    craft.inode(130, FILE, INLINE, 3968, 0);
    let image = open_bytes(&craft.bytes).unwrap();
    assert_eq!(blocks(image.as_ref()).len(), 1);
}

#[test]
fn extents_of_every_size_are_found() {
    let text = [b"0123456789abcdef".repeat(256), b"fedcba9876543210".repeat(200)].concat();
    let noise = noise(9, 4000);
    let raw = [lz4(&text[..4096]), lz4(&text[4096..]), noise[..96].to_vec()];
    let starts = [12_300, 12_300 + raw[0].len(), 12_300 + raw[0].len() + raw[1].len()];
    let lens = [4096, 3200, 96];
    // Of extents of one size only the last one can be shorter: the third is left out there.
    for (record, count) in [(4, 2), (8, 2), (16, 3), (32, 3)] {
        let size: usize = lens[..count].iter().sum();
        let mut body = header(u32::try_from(count).unwrap(), 0, 0, 0);
        let bits: u16 = match record {
            4 => 0,
            8 => 2,
            16 => 4,
            _ => 6,
        };
        body[4] = u8::try_from(1 | bits).unwrap();
        if record < 16 {
            body[..4].fill(0);
        }
        // The array begins at a multiple of the record's size, and the header at 4224.
        body.resize(if record == 32 { 32 } else { body.len().next_multiple_of(record) }, 0);
        if record == 4 {
            body.extend((starts[0] as u64).to_le_bytes());
        }
        let mut start = 0;
        for at in 0..count {
            let codec = if at == 2 { 0 } else { 1 << 28 };
            let words = [
                u32::try_from(raw[at].len()).unwrap() | codec,
                u32::try_from(starts[at]).unwrap(),
                0,
                u32::try_from(start).unwrap(),
                0,
                0,
                0,
                0,
            ];
            body.extend(words.map(u32::to_le_bytes).concat()[..record].to_vec());
            start += lens[at];
        }
        let mut craft = compressed(COMPRESSED_FULL, size as u64, &body);
        craft.superblock(INCOMPATIBLE, &[0x81]);
        for at in 0..3 {
            craft.put(starts[at], &raw[at]);
        }
        let image = open_bytes(&craft.bytes).unwrap();
        let found = super::content(image.as_ref(), "file");
        let wanted = [&text, &noise[..96]].concat();
        assert!(found == wanted[..size], "{record}");
        let blocks = blocks(image.as_ref());
        assert_eq!(blocks.len(), count, "{record}");
        assert_eq!(blocks[0].coding, Coding::Packed);
        abuse::survives(craft.bytes, "extents", &open_erofs).unwrap();
    }
}

/// A file in a metabox of chunks, with a place for each of its records of 4 bytes.
fn in_metabox(size: u64, metabox: u64, format: u32, chunks: &[u32]) -> Craft {
    let mut craft = Craft::new(16);
    craft.superblock(INCOMPATIBLE, &[0x85, 0x01]);
    // A superblock of 16 bytes more, which name the metabox.
    craft.superblock(13, &[1]);
    craft.superblock(METABOX, &(4 * 128_u64).to_le_bytes());
    craft.directory(2, &[(ROOT_NID, 2, "."), (ROOT_NID, 2, ".."), (1 << 63, 1, "file")]);
    craft.inode(3 * 128, FILE, COMPRESSED_FULL, size, 0);
    craft.put((3 << 12) + 64, &header(0, 1, 0, 0));
    craft.inode(4 * 128, FILE, CHUNKS, metabox, format);
    let chunks: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.to_le_bytes()).collect();
    craft.put((4 << 12) + 64, &chunks);
    craft
}

#[test]
fn extents_in_a_hole_of_the_metabox_are_refused() {
    // Chunks of 2^43 bytes: the first begins with the inode, and 512 more have 2^50 extents.
    let chunks = [&[3][..], &[u32::MAX; 512]].concat();
    let text = error(&in_metabox(1 << 62, 513 << 43, 31, &chunks));
    assert!(text.contains("extent") && text.contains("in a hole of the metabox"), "{text}");
}

#[test]
fn extents_that_are_the_same_bytes_again_and_again_are_refused() {
    // 64 KiB of image have 16 MiB of extents at most: 4 million.
    let chunks = [3; 4200];
    let image = |count: u64| in_metabox(count << 12, 4200 << 12, 0, &chunks);
    let text = error(&image((4 << 20) + 256));
    assert!(text.contains("4194560 extents in 65536 bytes of image"), "{text}");
    let image = open_bytes(&image(4 << 20).bytes).unwrap();
    image.locate(find(image.as_ref(), "file"), 0).unwrap();
}

/// An image that counts the bytes read from it.
#[derive(Debug)]
struct Counted(Vec<u8>, AtomicU64);

impl Source for Counted {
    fn len(&self) -> u64 {
        Source::len(&self.0)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.1.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.0.read_exact_at(buffer, offset)
    }
}

#[test]
fn a_large_directory_is_read_once_for_all_of_its_names() {
    const BLOCKS: usize = 40;
    let mut craft = Craft::new(2 + BLOCKS);
    craft.inode(ROOT_NID, DIRECTORY, PLAIN, (BLOCKS as u64) << 12, 2);
    let names: Vec<String> = (0..BLOCKS * 100).map(|number| format!("name-{number:08}")).collect();
    for (block, names) in names.chunks(100).enumerate() {
        let dots = [(ROOT_NID, 2, "."), (ROOT_NID, 2, "..")];
        let files = names.iter().map(|name| (130, 1, name.as_str()));
        let dots = dots.into_iter().take(if block == 0 { 2 } else { 0 });
        craft.directory(2 + block, &dots.chain(files).collect::<Vec<_>>());
    }
    craft.inode(130, FILE, PLAIN, 0, 0);
    let counted = Arc::new(Counted(craft.bytes, AtomicU64::new(0)));
    let source: Arc<dyn Source> = Arc::clone(&counted) as Arc<dyn Source>;
    let image = super::open(&source).unwrap();
    for name in &names {
        assert!(image.lookup(image.root(), name.as_bytes()).unwrap().is_some(), "{name}");
    }
    let read = counted.1.load(Ordering::Relaxed);
    assert!(read < (2 * BLOCKS as u64) << 12, "{read} bytes");
}

/// The smallest LZ4: a run of literals, and a match of what repeats.
fn lz4(plain: &[u8]) -> Vec<u8> {
    // 16 literals, the match 16 back up to the last 5 bytes, which are literals.
    let mut raw = vec![0xff, 1];
    raw.extend(&plain[..16]);
    raw.extend([16, 0]);
    let mut more = plain.len() - 16 - 5 - 4 - 15;
    while more >= 255 {
        raw.push(255);
        more -= 255;
    }
    raw.push(u8::try_from(more).unwrap());
    raw.push(0x50);
    raw.extend(&plain[plain.len() - 5..]);
    raw
}
