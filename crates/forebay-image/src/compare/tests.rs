//! Equal trees, and each kind of difference between two trees.

use std::fs;

use super::*;
use crate::extract::{Settings, extract};
use crate::memory::Memory;
use crate::walk::Limits;

fn compared(a: &Memory, b: &Memory, threads: usize) -> Vec<String> {
    let (tree_a, tree_b) = (Tree::whole(a, Limits::default()), Tree::whole(b, Limits::default()));
    let (a, b) = (Side::Image(a, &tree_a), Side::Image(b, &tree_b));
    lines(&compare(a, b, a.kept().and(b.kept()), threads, &|_| {}))
}

fn lines(report: &Report) -> Vec<String> {
    let line = |(path, difference): &(Vec<u8>, Difference)| {
        format!("{} {} {}", shown(path), difference.kind(), difference.detail())
    };
    report.differences.iter().map(line).collect()
}

fn image() -> Memory {
    let mut image = Memory::new();
    let file = image.file("d/file", &[3; 10_000]);
    image.name("d/same", file);
    image.file("d/other", &[4; 300_000]);
    image.symlink("link", "d/file");
    image.special("null", Kind::CharDevice, 0o666);
    image.xattr(file, "user.a", b"1");
    image
}

#[test]
fn a_tree_is_the_same_as_itself() {
    for threads in [1, 4] {
        assert_eq!(compared(&image(), &image(), threads), [""; 0]);
    }
}

#[test]
fn each_difference_has_its_word_and_both_values() {
    let id = |image: &Memory, path: &str| {
        crate::resolve(image, path.as_bytes(), crate::Follow::Above).unwrap().node
    };
    let changed = |path: &str, change: &dyn Fn(&mut Memory, NodeId)| {
        let mut other = image();
        let id = id(&other, path);
        change(&mut other, id);
        compared(&image(), &other, 1)
    };
    let node = |path: &str, change: fn(&mut Node)| changed(path, &|m, id| m.change(id, change));
    assert_eq!(node("d", |n| n.permissions = 0o1755), ["d mode 0755 and 1755"]);
    assert_eq!(node("link", |n| n.uid = 7), ["link owner 0:0 and 7:0"]);
    assert_eq!(node("link", |n| n.permissions = 0), [""; 0]);
    assert_eq!(node("null", |n| n.device = (1, 3)), ["null device 0:0 and 1:3"]);
    let time = |n: &mut Node| n.modified = Some(Time { seconds: 1, nanos: 2 });
    assert_eq!(
        node("null", time),
        ["null time 2001-09-09 01:46:45.000000005 and 1970-01-01 00:00:01.000000002"]
    );
    assert_eq!(node("null", |n| n.modified = None), [""; 0]);
    assert_eq!(node("d/other", |n| n.size = 299_999), ["d/other size 300000 and 299999"]);
    assert_eq!(
        changed("d/file", &|m, id| m.xattr(id, "user.0", b"2")),
        ["d/file xattr user.0, only in the second", "d/same xattr user.0, only in the second"]
    );
    assert_eq!(
        changed("d/file", &|m, id| {
            m.xattr(id, "user.a", b"2");
            m.xattr(id, "user.b", b"1");
        })[..2],
        ["d/file xattr user.a", "d/file xattr user.b, only in the second"]
    );
    assert_eq!(changed("d/file", &|m, id| m.name("d/third", id)), ["d/third only-second "]);
}

#[test]
fn names_kinds_targets_and_bytes_differ_too() {
    let mut a = image();
    let mut b = image();
    a.file("both", b"x");
    b.symlink("both", "x");
    a.symlink("to", "x");
    b.symlink("to", "y");
    a.file("only/a", b"x");
    let mut bytes = vec![5; 600_000];
    a.file("bytes", &bytes);
    bytes[512_345] = 6;
    b.file("bytes", &bytes);
    let found = compared(&a, &b, 2);
    let names: Vec<&str> = found.iter().map(|line| line.split(" time").next().unwrap()).collect();
    let named = |line: &str| names.contains(&line);
    assert!(named("both type file and symbolic link"), "{found:?}");
    assert!(named("to target 'x' and 'y'"), "{found:?}");
    assert!(named("only only-first "), "{found:?}");
    assert!(named("bytes bytes from byte 512345 on"), "{found:?}");
}

#[test]
fn names_of_one_file_are_one_file_on_both_sides() {
    let (mut a, mut b) = (Memory::new(), Memory::new());
    for (image, linked) in [(&mut a, true), (&mut b, false)] {
        let file = image.file("x", b"1");
        let other = image.file("y", b"1");
        image.change(other, |node| node.modified = None);
        image.name("z", if linked { file } else { other });
    }
    a.change(NodeId(2), |node| node.modified = None);
    assert_eq!(compared(&a, &b, 1), ["z links '/x' and '/y'"]);
    a.format("cramfs");
    assert_eq!(compared(&a, &b, 1), [""; 0]);
}

#[test]
fn what_cannot_be_read_is_a_difference() {
    let (a, mut b) = (image(), image());
    let other = crate::resolve(&b, b"d/other", crate::Follow::Last).unwrap().node;
    let place = b.damage_block(other, 9);
    let found = compared(&a, &b, 1);
    assert_eq!(found.len(), 1);
    let expected = format!("d/other unreadable block at byte {place} of the image");
    assert!(found[0].starts_with(&expected), "{found:?}");
}

#[test]
fn an_extracted_tree_is_the_same_as_its_image() {
    let mut image = image();
    let me = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let tree = Tree::whole(&image, Limits::default());
    for item in tree.items() {
        image.change(item.node, |node| (node.uid, node.gid) = me);
    }
    image.file("sparse", &[&[0; 9_000][..], &[1]].concat());
    image.change(NodeId(0), |node| (node.uid, node.gid) = me);
    let sparse = crate::resolve(&image, b"sparse", crate::Follow::Last).unwrap().node;
    image.change(sparse, |node| (node.uid, node.gid) = me);
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("x");
    let settings = Settings { threads: 2, owners: false, replace: false, safe: false };
    let tree = Tree::whole(&image, Limits::default());
    let report = extract(&image, tree, &target, settings, &|_| {}).unwrap();
    if !report.skipped.is_empty() {
        eprintln!("skip: {:?}", report.skipped);
        return;
    }
    let tree = Tree::whole(&image, Limits::default());
    let with = |expected: &[&str]| {
        let disk = Folder::open(&target, Limits::default()).unwrap();
        let (a, b) = (Side::Image(&image, &tree), Side::Folder(&disk));
        assert_eq!(lines(&compare(a, b, a.kept().and(b.kept()), 2, &|_| {})), expected);
    };
    with(&[]);
    let kept = fs::metadata(target.join("d")).unwrap().modified().unwrap();
    fs::remove_file(target.join("d/same")).unwrap();
    fs::copy(target.join("d/file"), target.join("d/same")).unwrap();
    let file = fs::File::open(target.join("d/same")).unwrap();
    let time = fs::metadata(target.join("d/file")).unwrap().modified().unwrap();
    file.set_modified(time).unwrap();
    fs::File::open(target.join("d")).unwrap().set_modified(kept).unwrap();
    with(&[
        "d/same links '/d/file' and a file of its own",
        "d/same xattr user.a, only in the first",
    ]);
}
