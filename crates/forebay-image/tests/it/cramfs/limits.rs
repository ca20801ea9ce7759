//! Each check of the reader, with the last value that passes and the first that does not.

use std::sync::{Arc, Mutex};

use forebay_image::{Options, Source, cramfs};

use super::{
    BODY, LENIENT, ORDERS, content, crafted, entry, file_error, find, noise, one_file, open,
    packed, put, small_image, word, word_bytes,
};
use crate::abuse::walk_all;
use forebay_image::cramfs::write::Settings;

fn error(image: &[u8]) -> String {
    open(image, Options::default()).unwrap_err().to_string()
}

fn is_valid(image: &[u8]) {
    let image = open(image, Options::default()).unwrap();
    image.entries(image.root()).unwrap();
}

/// An image that is a superblock.
fn empty() -> Vec<u8> {
    crafted(3, 0, &[], false)
}

#[test]
fn a_superblock_is_an_image() {
    for big_endian in ORDERS {
        is_valid(&crafted(3, 0, &[], big_endian));
        let mut boot = [&[0; 512][..], &crafted(3, 0, &[], big_endian)].concat();
        put(&mut boot, 516, 588, big_endian);
        is_valid(&boot);
        boot.pop();
        assert!(error(&boot).contains("it says 588 bytes and has 587"), "{}", error(&boot));
    }
    assert!(error(&empty()[..75]).contains("it says 76 bytes and has 75"));
}

#[test]
fn a_magic_number_counts_at_two_places() {
    for at in [4, 508, 516] {
        let source: Arc<dyn Source> = Arc::new([&vec![0; at][..], &empty()].concat());
        assert!(cramfs::open(&source, Options::default()).unwrap().is_none(), "{at}");
    }
}

#[test]
fn the_upper_flags_must_be_known() {
    for bit in 0..32 {
        let flags = 3 | 1 << bit;
        let image = crafted(flags, 0, &[], false);
        if bit < 12 {
            is_valid(&image);
        } else {
            let text = error(&image);
            assert!(text.contains(&format!("flag {:#x} of cramfs", 1_u32 << bit)), "{text}");
        }
    }
}

#[test]
fn the_signature_counts_unless_the_image_says_that_it_does_not() {
    let mut image = empty();
    image[31] = b's';
    assert!(error(&image).contains("`Compressed ROMFs`"));
    image[9] |= 2;
    is_valid(&image);
}

#[test]
fn the_size_is_between_the_superblock_and_the_image() {
    let sized = |size| {
        let mut image = [empty(), vec![0; 24]].concat();
        put(&mut image, 4, size, false);
        image
    };
    assert!(error(&sized(75)).contains("75 bytes, but the superblock ends at byte 76"));
    is_valid(&sized(76));
    is_valid(&sized(100));
    assert!(error(&sized(101)).contains("truncated: it says 101 bytes and has 100"));
    let warnings =
        |size| open(&sized(size), Options::default()).unwrap().summary().warnings.clone();
    assert_eq!(warnings(100), [""; 0]);
    assert_eq!(warnings(99), ["1 bytes behind the end of the image, which are ignored"]);
}

#[test]
fn an_image_without_a_size_is_all_there_is() {
    let mut image = small_image(&Settings::default());
    image[8] &= !1;
    for at in [4, 32, 44] {
        put(&mut image, at, 0, false);
    }
    let opened = open(&image, Options::default()).unwrap();
    assert_eq!(content(opened.as_ref(), "text").unwrap(), b"some text, some text");
    assert_eq!(opened.summary().bytes, image.len() as u64);
    assert_eq!(opened.summary().nodes, None);
    assert_eq!(opened.verify().unwrap(), [""; 0]);
}

#[test]
fn at_least_the_root_is_counted() {
    let mut image = empty();
    put(&mut image, 44, 0, false);
    assert!(error(&image).contains("files at byte 44"));
    put(&mut image, 44, 1, false);
    is_valid(&image);
}

#[test]
fn the_root_is_a_directory_that_all_may_enter() {
    for big_endian in ORDERS {
        let with_mode = |mode: u32| {
            let mut image = crafted(3, 0, &[], big_endian);
            image[64..76].copy_from_slice(&entry(mode, 0, 0, b"", big_endian));
            image
        };
        assert!(error(&with_mode(0o100_755)).contains("not that of a directory"));
        let image = open(&with_mode(0o040_000), Options::default()).unwrap();
        assert_eq!(image.node(image.root()).unwrap().permissions, 0o555);
        let image = open(&with_mode(0o041_720), Options::default()).unwrap();
        assert_eq!(image.node(image.root()).unwrap().permissions, 0o1775);
    }
}

#[test]
fn the_root_is_at_its_place_unless_it_is_shifted() {
    let file = entry(0o100_644, 0, 0, b"f", false);
    let rooted = |flags: u32, offset: u32, len: usize| {
        let mut image = crafted(flags, 16, &vec![0; len - 76], false);
        image[64..76].copy_from_slice(&entry(0o040_755, 16, offset, b"", false));
        let start = offset as usize;
        if let Some(target) = image.get_mut(start.max(76)..start + 16).filter(|t| t.len() == 16) {
            target.copy_from_slice(&file);
        }
        image
    };
    for offset in [76, 588] {
        is_valid(&rooted(3, offset, 700));
    }
    for offset in [4, 72, 80, 584, 592] {
        let text = error(&rooted(3, offset, 700));
        assert!(text.contains("begin at byte"), "{text}");
    }
    assert!(error(&rooted(3, 0, 700)).contains("nowhere"));
    for offset in [76, 80, 684] {
        is_valid(&rooted(0x403, offset, 700));
    }
    for offset in [72, 688] {
        let text = error(&rooted(0x403, offset, 700));
        assert!(text.contains("not between 76 and 700"), "{text}");
    }
}

/// A root with the directories `a` and `d`, of which `d` has `size` bytes at `offset`, and the
/// bytes from 108 on.
fn two_directories(offset: u32, size: u32, rest: &[u8]) -> Vec<u8> {
    let a = entry(0o040_755, 16, 108, b"a", false);
    let d = entry(0o040_755, size, offset, b"d", false);
    crafted(3, 32, &[&a, &d, rest].concat(), false)
}

fn list(image: &[u8], path: &str) -> Result<usize, String> {
    let image = open(image, Options::default()).unwrap();
    image
        .entries(find(image.as_ref(), path))
        .map(|entries| entries.len())
        .map_err(|error| error.to_string())
}

#[test]
fn a_directory_that_cannot_be_read_harms_no_other() {
    let file = entry(0o100_644, 0, 0, b"f", false);
    let rest = [file.clone(), file.clone()].concat();
    assert_eq!(list(&two_directories(124, 16, &rest), "d"), Ok(1));
    assert_eq!(list(&two_directories(0, 16, &rest), "d"), Ok(0));
    for (offset, size, why) in [
        (124, 15, "3 are left"),
        (124, 17, "beyond the image's 140"),
        (128, 16, "beyond the image's 140"),
        (72, 16, "begin at byte 72, before byte 76"),
        (76, 16, "overlap those of the directory at byte 64"),
        (76, 32, "overlap those of the directory at byte 64"),
        (104, 16, "overlap"),
    ] {
        let image = two_directories(offset, size, &rest);
        let text = list(&image, "d").unwrap_err();
        assert!(text.contains(why), "{offset} {size}: {text}");
        assert_eq!(list(&image, "a"), Ok(1));
    }
}

#[test]
fn a_name_of_no_length_costs_only_itself() {
    let file = entry(0o100_644, 0, 0, b"f", false);
    let nameless = entry(0o100_644, 0, 0, b"", false);
    let image = two_directories(124, 28, &[file.clone(), nameless, file].concat());
    assert_eq!(list(&image, "d"), Ok(1));
    assert_eq!(list(&image, "a"), Ok(1));
}

#[test]
fn a_directory_cannot_be_below_itself() {
    // `a` has `e`, which has the entries of `a`.
    let below = entry(0o040_755, 16, 108, b"e", false);
    let image = open(&two_directories(0, 0, &below), Options::default()).unwrap();
    let id = find(image.as_ref(), "a/e");
    let text = image.entries(id).unwrap_err().to_string();
    assert!(text.contains("overlap those of the directory at byte 76"), "{text}");
    // Two that share their entries, as hard links to a directory would: the first one has them.
    let image = open(&two_directories(108, 16, &below), Options::default()).unwrap();
    assert!(image.entries(find(image.as_ref(), "d")).is_ok());
    assert!(image.entries(find(image.as_ref(), "a")).is_err());
    assert!(image.entries(find(image.as_ref(), "d")).is_ok());
}

#[test]
fn names_that_the_flag_hides_are_left_out() {
    let names = ["z", "a", "m"].map(|name| entry(0o100_644, 0, 0, name.as_bytes(), false)).concat();
    for (flags, count) in [(3, 1), (1, 3)] {
        let image = open(&crafted(flags, 48, &names, false), Options::default()).unwrap();
        let entries = image.entries(image.root()).unwrap();
        assert_eq!(entries.len(), count);
        assert_eq!(image.defects(image.root()).unwrap().len(), 3 - count);
        for entry in entries.iter() {
            find(image.as_ref(), str::from_utf8(&entry.name).unwrap());
        }
    }
}

#[test]
fn what_is_left_out_is_told_once() {
    let odd = entry(0o170_644, 0, 0, b"odd", false);
    let image = open(&crafted(3, 16, &odd, false), Options::default()).unwrap();
    assert!(image.oddities().is_empty());
    for _ in 0..2 {
        assert_eq!(image.entries(image.root()).unwrap().len(), 0);
    }
    let told = "directory of inode 64: the entry 'odd' of inode 76 (unknown type) is left out: no \
                such type of file";
    assert_eq!(image.oddities(), [told]);
}

#[test]
fn a_node_is_where_an_inode_can_be() {
    let image = small_image(&Settings::default());
    let end = image.len() as u64;
    let image = open(&image, Options::default()).unwrap();
    let node = |id| image.node(forebay_image::NodeId(id));
    assert!(node(64).is_ok() && node(76).is_ok());
    for id in [0, 60, 68, 72, 77, 78, end - 8, end, u64::MAX - 3, u64::MAX] {
        assert!(node(id).is_err(), "{id}");
    }
}

#[test]
fn a_file_without_a_size_or_without_a_place_is_empty() {
    let pointer = word_bytes(BODY + 4, false);
    for (size, offset) in [(0, BODY), (5, 0), (0, 0)] {
        let file = entry(0o100_644, size, offset, b"f", false);
        let image = crafted(3, 16, &[&file[..], &pointer].concat(), false);
        let image = open(&image, Options::default()).unwrap();
        assert_eq!(image.node(find(image.as_ref(), "f")).unwrap().size, 0);
        assert_eq!(content(image.as_ref(), "f").unwrap(), b"");
        assert!(image.locate(find(image.as_ref(), "f"), 0).is_err());
    }
    // A hole, to compare.
    let image = one_file(3, 5, &pointer, false);
    let image = open(&image, Options::default()).unwrap();
    assert_eq!(content(image.as_ref(), "f").unwrap(), [0; 5]);
}

#[test]
fn the_target_of_a_link_has_its_bounds() {
    let link = |target: &[u8]| {
        let size = u32::try_from(target.len()).unwrap();
        let raw = packed(target);
        let pointer = word_bytes(BODY + 4 + u32::try_from(raw.len()).unwrap(), false);
        let entry = entry(0o120_777, size, BODY, b"l", false);
        let image = crafted(3, 16, &[&entry[..], &pointer, &raw].concat(), false);
        let image = open(&image, Options::default()).unwrap();
        image.link(find(image.as_ref(), "l")).map_err(|error| error.to_string())
    };
    for len in [1, 4095] {
        assert_eq!(link(&vec![b'x'; len]).unwrap(), vec![b'x'; len]);
    }
    for len in [0, 4096] {
        assert!(link(&vec![b'x'; len]).unwrap_err().contains("but 1 to 4095 are possible"));
    }
    assert!(link(b"a\0b").unwrap_err().contains("zero byte"));
    assert!(link(b"ab\0").unwrap_err().contains("zero byte"));
}

#[test]
fn what_is_no_file_has_no_blocks_and_what_is_no_link_no_target() {
    let image = small_image(&Settings::default());
    let image = open(&image, Options::default()).unwrap();
    for path in ["d", "null", "fifo", "d/link"] {
        assert!(image.locate(find(image.as_ref(), path), 0).is_err(), "{path}");
    }
    for path in ["d", "null", "text"] {
        assert!(image.link(find(image.as_ref(), path)).is_err(), "{path}");
    }
    for path in ["null", "text", "d/link"] {
        assert!(image.entries(find(image.as_ref(), path)).is_err(), "{path}");
    }
}

#[test]
fn the_pointers_lie_inside_the_image() {
    // Three blocks of nothing: three pointers, the last words of the image.
    let holes = |words: usize| {
        let pointers = word_bytes(BODY + 12, false).repeat(words);
        one_file(3, 2 * 4096 + 1, &pointers, false)
    };
    let image = open(&holes(3), Options::default()).unwrap();
    assert_eq!(content(image.as_ref(), "f").unwrap(), vec![0; 8193]);
    assert!(file_error(&holes(2)).contains("end beyond the image's"), "{}", file_error(&holes(2)));
}

#[test]
fn pointers_ascend_and_end_inside_the_image() {
    let raw = packed(&[5; 4096]);
    let len = u32::try_from(raw.len()).unwrap();
    let two = |first: u32, second: u32| {
        let pointers = [first, second].map(|word| word_bytes(word, false)).concat();
        one_file(3, 8192, &[pointers, raw.clone(), raw.clone()].concat(), false)
    };
    let (start, middle, end) = (BODY + 8, BODY + 8 + len, BODY + 8 + 2 * len);
    let image = open(&two(middle, end), Options::default()).unwrap();
    assert_eq!(content(image.as_ref(), "f").unwrap(), [5; 8192]);
    // Both are holes, at the place where the first block begins; one byte before, they are not.
    let image = open(&two(start, start), Options::default()).unwrap();
    assert_eq!(content(image.as_ref(), "f").unwrap(), [0; 8192]);
    assert!(file_error(&two(start - 1, end)).contains("begins at byte 100 and ends at 99"));
    assert!(file_error(&two(middle, middle - 1)).contains("begins at byte"));
    assert!(file_error(&two(middle, end + 1)).contains("beyond the image's"));
    // A bad block harms no other.
    let image = open(&two(middle, end + 1), Options::default()).unwrap();
    let file = find(image.as_ref(), "f");
    assert!(image.locate(file, 4095).is_ok() && image.locate(file, 4096).is_err());
}

/// A file of one block of `size` bytes.
fn one_block(size: u32, raw: &[u8]) -> Vec<u8> {
    let pointer = word_bytes(BODY + 4 + u32::try_from(raw.len()).unwrap(), false);
    one_file(3, size, &[&pointer, raw].concat(), false)
}

#[test]
fn a_block_has_8192_raw_bytes_at_most_and_may_end_with_others() {
    let padded = |len: usize| {
        let mut raw = packed(&[5; 4096]);
        raw.resize(len, 0xff);
        one_block(4096, &raw)
    };
    let image = open(&padded(8192), Options::default()).unwrap();
    assert_eq!(content(image.as_ref(), "f").unwrap(), [5; 4096]);
    assert!(file_error(&padded(8193)).contains("8193 raw bytes, but 8192 at most"));
}

#[test]
fn a_block_is_as_long_as_it_should_be() {
    for size in [1, 100, 4095, 4096] {
        let of = |len: u32| one_block(size, &packed(&vec![5; len as usize]));
        let image = open(&of(size), Options::default()).unwrap();
        assert_eq!(content(image.as_ref(), "f").unwrap(), vec![5; size as usize]);
        let text = file_error(&of(size - 1));
        assert!(text.contains(&format!("{} bytes instead of {size}", size - 1)), "{text}");
        let image = open(&of(size - 1), LENIENT).unwrap();
        let plain = content(image.as_ref(), "f").unwrap();
        assert_eq!(plain, [vec![5; size as usize - 1], vec![0]].concat());
        let text = file_error(&of(size + 1));
        let what = if size == 4096 { "the block size is not 4096" } else { "more than" };
        assert!(text.contains(what), "{text}");
        let image = open(&of(size + 1), LENIENT).unwrap();
        assert!(content(image.as_ref(), "f").is_err());
    }
}

#[test]
fn a_larger_page_is_told_from_damage() {
    for page in [8192, 16 << 10, 64 << 10] {
        let text = file_error(&one_block(4096, &packed(&vec![5; page])));
        let what = format!("the block size is not 4096: this block decodes to {page} bytes");
        assert!(text.contains(&what), "{text}");
    }
    let mut damaged = packed(&vec![5; 8192]);
    *damaged.last_mut().unwrap() ^= 1;
    let text = file_error(&one_block(4096, &damaged));
    assert!(text.contains("they decode to more than 4096 bytes"), "{text}");
}

#[test]
fn a_wrong_checksum_of_a_block_is_damage() {
    let mut raw = packed(&[5; 4096]);
    *raw.last_mut().unwrap() ^= 1;
    assert!(file_error(&one_block(4096, &raw)).contains("invalid zlib stream"));
    let cut = packed(&[5; 4096]);
    let text = file_error(&one_block(4096, &cut[..cut.len() - 1]));
    assert!(text.contains("stream ends too early"), "{text}");
}

#[test]
fn the_checksum_of_the_image_covers_all_but_itself_and_the_boot_code() {
    for big_endian in ORDERS {
        for boot in [None, Some(Box::new([7; 512]))] {
            let base = if boot.is_some() { 512 } else { 0 };
            let mut image = small_image(&Settings { big_endian, boot, ..Settings::default() });
            let said = word(&image, base + 32, big_endian);
            let verify = |image: &[u8]| open(image, Options::default()).unwrap().verify();
            let len = image.len() - base;
            assert_eq!(verify(&image).unwrap(), [format!("crc {said:08x} of {len} bytes")]);
            for at in [base + 32, base + 36, base + 60, image.len() - 1] {
                image[at] ^= 1;
                let text = verify(&image).unwrap_err().to_string();
                assert!(text.contains("crc at byte"), "{text}");
                image[at] ^= 1;
            }
            if base > 0 {
                image[511] ^= 1;
                assert!(verify(&image).is_ok());
            }
        }
    }
}

/// An image that another process writes to.
struct Changing(Mutex<Vec<u8>>);

impl Source for Changing {
    fn len(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.0.lock().unwrap().read_exact_at(buffer, offset)
    }
}

#[test]
fn an_image_that_changes_while_it_is_read_is_survived() {
    let image = small_image(&Settings { stored: true, ..Settings::default() });
    for seed in 0..200 {
        let source = Arc::new(Changing(Mutex::new(image.clone())));
        let opened = cramfs::open(&(Arc::clone(&source) as Arc<dyn Source>), Options::default());
        let opened = opened.unwrap().unwrap();
        for round in 0..4 {
            let mut bytes = source.0.lock().unwrap();
            let noise = noise(32, seed * 4 + round);
            let len = bytes.len() - usize::from(noise[31] % 8);
            bytes.truncate(len);
            for pair in noise.chunks_exact(4) {
                bytes[usize::from(u16::from_le_bytes([pair[0], pair[1]])) % len] = pair[2];
            }
            drop(bytes);
            let _either = walk_all(opened.as_ref()).unwrap();
        }
    }
}
