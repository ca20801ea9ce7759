//! Each finding by an image that has it, and images of other writers, which have none.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::cramfs::write::{self, Attributes, Settings, write};
use crate::memory::Memory;
use crate::walk::Limits;
use crate::{Coding, Options, open};

fn found(image: &dyn Image) -> Vec<String> {
    let tree = Tree::whole(image, Limits::default());
    strict(image, &tree).unwrap().iter().map(ToString::to_string).collect()
}

fn of_bytes(bytes: Vec<u8>) -> Vec<String> {
    let source: Arc<dyn Source> = Arc::new(bytes);
    found(&*open(&source, Options::default()).unwrap())
}

/// Two files of one directory and a link.
fn cramfs() -> Vec<u8> {
    let readable = Attributes { permissions: 0o755, ..Attributes::default() };
    let mut tree = write::Tree::new(readable);
    let root = tree.root();
    let below = tree.add(root, b"d", readable, write::Content::Directory).unwrap();
    for (name, byte) in [(b"one", 1), (b"two", 2)] {
        tree.add(below, name, readable, write::Content::Bytes(vec![byte; 5_000])).unwrap();
    }
    tree.add(root, b"link", readable, write::Content::Link(b"d/one".to_vec())).unwrap();
    write(&tree, &Settings::default(), &mut |_| {}).unwrap().image
}

#[test]
fn images_of_all_writers_have_no_finding() {
    assert_eq!(of_bytes(cramfs()), [""; 0]);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut count = 0;
    for fixture in fs::read_dir(fixtures).unwrap() {
        let path = fixture.unwrap().path();
        if path.extension().is_some_and(|end| end == "img") {
            assert_eq!(of_bytes(fs::read(&path).unwrap()), [""; 0], "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 9, "{count}");
}

#[test]
fn bytes_that_nothing_leads_to_are_found_unless_they_are_zero() {
    let mut image = cramfs();
    let last = image.len() - 1;
    image[last] = 7;
    let said = of_bytes(image);
    let end = format!("..{} are used by nothing and not zero from byte {last} on", last + 1);
    assert!(said.len() == 1 && said[0].ends_with(&end), "{said:?}");
}

#[test]
fn bytes_behind_the_end_are_found_unless_they_are_zero() {
    let mut image = cramfs();
    let end = image.len();
    image.resize(end + 100_000, 0);
    assert_eq!(of_bytes(image.clone()), [""; 0]);
    image[end + 99_999] = 7;
    let expected = format!(
        "bytes {end}..{} are behind the end of the image and not zero from byte {} on",
        end + 100_000,
        end + 99_999
    );
    assert_eq!(of_bytes(image), [expected]);
}

#[test]
fn blocks_that_overlap_are_found_unless_they_are_the_same() {
    let mut image = Memory::new();
    let one = image.file("a/one", &[1; 4_096]);
    let two = image.file("two", &[2; 4_096]);
    let end = image.source().len();
    image.describe(|summary| summary.bytes = end);
    assert_eq!(found(&image), [""; 0]);
    let (mut shared, mut shifted) = (image.clone(), image);
    let first = shared.locate(one, 0).unwrap().raw;
    shared.change_blocks(two, |block| block.raw = first.clone());
    let unused = |said: &[String]| said.iter().all(|line| line.contains("used by nothing"));
    assert!(unused(&found(&shared)));
    shifted.change_blocks(two, |block| block.raw = first.start + 9..first.end + 9);
    let said = found(&shifted);
    let expected = format!(
        "bytes {}..{} are part of a packed block of '/a/one' and of a packed block of '/two'",
        first.start + 9,
        first.end
    );
    assert_eq!(said[0], expected);
    assert!(unused(&said[1..]), "{said:?}");
    // A block over bytes that are no block.
    shifted.change_blocks(two, |block| block.raw = 3..3 + 4_097);
    let said = found(&shifted);
    let expected = "bytes 3..16 are part of the head and of a packed block of '/two'";
    assert_eq!(said[0], expected);
}

#[test]
fn stored_blocks_may_share_whole_blocks_only() {
    let mut image = Memory::new();
    let one = image.file("one", &[1; 4_096]);
    let two = image.file("two", &[2; 4_096]);
    let start = image.locate(one, 0).unwrap().raw.start;
    let whole = 4_096;
    for (shift, len, is_found) in [
        (512, whole, false),
        (1_024, whole, false),
        (9, whole, true),
        (513, whole, true),
        // Part of a block is shared, unless it is the end of both.
        (1_024, 1_000, true),
        (1_024, whole - 1_024, false),
        (1_024, 1_024, false),
    ] {
        let mut image = image.clone();
        for (id, from, len) in [(one, start, whole), (two, start + shift, len)] {
            image.change_blocks(id, |block| {
                block.coding = Coding::Stored;
                block.raw = from..from + len;
            });
        }
        let end = image.source().len();
        image.describe(|summary| (summary.bytes, summary.block_size) = (end, 512));
        let said = found(&image);
        let overlap = "are part of a stored block of '/one' and of a stored block of '/two'";
        assert_eq!(said.iter().any(|line| line.contains(overlap)), is_found, "{shift}: {said:?}");
    }
}

#[test]
fn many_overlaps_are_counted() {
    let mut image = Memory::new();
    let file = image.file("x", &vec![1; 4_096 * 300]);
    let first = image.locate(file, 0).unwrap().raw.start;
    for (number, start) in (0..300).zip(first..) {
        image.change_block(file, number, |block| block.raw = start..start + 4_097);
    }
    let said = found(&image);
    let overlaps = said.iter().filter(|line| line.contains(" are part of ")).count();
    assert_eq!(overlaps, OVERLAPS_MAX);
    let more = said.iter().find(|line| line.ends_with("more overlaps, which are not listed"));
    assert!(more.is_some_and(|line| line.starts_with("235 ")), "{more:?}");
}

#[test]
fn entries_that_readers_show_in_different_ways_are_found() {
    let mut image = cramfs();
    let at = image.windows(4).position(|name| name == b"two\0").unwrap();
    image[at..at + 3].copy_from_slice(b"one");
    let said = of_bytes(image);
    // Nothing else leads to the bytes of the one that is left out.
    let [line, rest] = &said[..] else { panic!("{said:?}") };
    assert!(line.starts_with("/d: 'one': Linux opens inode "), "{line}");
    assert!(line.ends_with(" too, or instead") && rest.contains("used by nothing"), "{said:?}");

    let mut image = cramfs();
    let at = image.windows(4).position(|name| name == b"two\0").unwrap();
    image[at..at + 3].copy_from_slice(b"abc");
    let said = of_bytes(image);
    let [line, _] = &said[..] else { panic!("{said:?}") };
    assert!(line.starts_with("/d: 'abc': Linux lists it and does not find it"), "{line}");
}
