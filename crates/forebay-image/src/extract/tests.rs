//! Extraction of images in memory, honest ones and hostile ones.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::memory::Memory;
use crate::walk::Limits;

const PLAIN: Settings = Settings { threads: 3, owners: false, replace: false, safe: false };
const FORCED: Settings = Settings { replace: true, ..PLAIN };

fn extracted(image: &Memory, target: &Path, settings: Settings) -> Report {
    let tree = Tree::whole(image, Limits::default());
    extract(image, tree, target, settings, &|_| {}).unwrap()
}

fn said(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// Every name below a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            names.extend(self::names(&path));
        }
        names.push(path.to_str().unwrap().to_owned());
    }
    names.sort();
    names
}

fn scratch() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    (folder, target)
}

#[test]
fn a_tree_comes_out_as_it_is() {
    let (_folder, target) = scratch();
    let mut image = Memory::new();
    let bytes: Vec<u8> = (0..20_000u32).map(|n| (n >> 3) as u8).collect();
    let file = image.file("a/b/file", &bytes);
    image.change(file, |node| node.permissions = 0o5751);
    image.file("empty", b"");
    image.symlink("a/link", "../nowhere");
    image.name("a/other", file);
    image.special("pipe", Kind::Fifo, 0o620);
    image.special("socket", Kind::Socket, 0o755);
    let closed = image.directory("closed");
    image.file("closed/x", b"x");
    image.change(closed, |node| node.permissions = 0o000);
    let mut me = PLAIN;
    me.owners = false;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    image.change(file, |node| (node.uid, node.gid) = (uid, gid));
    let report = extracted(&image, &target, me);
    assert_eq!((said(&report.failed), said(&report.skipped)), (vec![], vec![]));
    let counted = (report.directories, report.files, report.symlinks, report.specials);
    assert_eq!(counted, (4, 3, 1, 2));
    assert_eq!((report.links, report.bytes), (1, 20_001));
    assert_eq!(fs::read(target.join("a/b/file")).unwrap(), bytes);
    let found = fs::symlink_metadata(target.join("a/b/file")).unwrap();
    assert_eq!((found.permissions().mode() & 0o7777, found.nlink()), (0o5751, 2));
    assert_eq!(found.ino(), fs::symlink_metadata(target.join("a/other")).unwrap().ino());
    assert_eq!(fs::read_link(target.join("a/link")).unwrap(), Path::new("../nowhere"));
    let pipe = fs::symlink_metadata(target.join("pipe")).unwrap();
    assert!(pipe.file_type().is_fifo() && pipe.permissions().mode() & 0o7777 == 0o620);
    assert!(fs::symlink_metadata(target.join("socket")).unwrap().file_type().is_socket());
    let closed = fs::symlink_metadata(target.join("closed")).unwrap();
    assert_eq!(closed.permissions().mode() & 0o7777, 0);
}

#[test]
fn times_are_those_of_the_image_also_of_links_and_directories() {
    let (_folder, target) = scratch();
    let mut image = Memory::new();
    image.file("d/file", b"1");
    image.symlink("d/link", "file");
    extracted(&image, &target, PLAIN);
    let tree = Tree::whole(&image, Limits::default());
    for (place, item) in tree.items().iter().enumerate() {
        let path = String::from_utf8(tree.path(place)).unwrap();
        let found = fs::symlink_metadata(target.join(path)).unwrap();
        let expected = image.node(item.node).unwrap().modified.unwrap();
        assert_eq!((found.mtime(), found.mtime_nsec()), (expected.seconds, expected.nanos.into()));
    }
}

#[test]
fn what_was_put_in_the_place_of_a_new_link_gets_no_marks() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut image = Memory::new();
    let link = image.symlink("link", "file");
    let node = image.node(link).unwrap();
    let directory = File::open(folder.path()).unwrap();
    fs::write(at("file"), "another user's").unwrap();
    symlink("file", at("victim")).unwrap();
    fs::hard_link(at("victim"), at("swapped")).unwrap();
    symlink("file", at("made")).unwrap();
    let times = |name: &str| fs::symlink_metadata(at(name)).unwrap().modified().unwrap();
    let before = (times("victim"), times("file"));
    for (name, is_marked) in [("swapped", false), ("file", false), ("made", true)] {
        let given = Marks::new(&node, &[], PLAIN).give(directory.as_fd(), name.as_bytes());
        assert_eq!(given.is_ok(), is_marked, "{name}: {given:?}");
    }
    assert_eq!((times("victim"), times("file")), before);
    let made = fs::symlink_metadata(at("made")).unwrap().mtime();
    assert_eq!(made, node.modified.unwrap().seconds);
}

#[test]
fn zeros_become_holes() {
    let (_folder, target) = scratch();
    let mut image = Memory::new();
    let mut bytes = vec![0; 1 << 20];
    bytes[500_000] = 1;
    image.file("sparse", &bytes);
    // Zeros that the image holds.
    let file = image.file("stored", &vec![1; 3 * 4_096]);
    let zeros = vec![0; 4_096];
    let packed = image.file("zeros", &[&zeros[..], &[1]].concat());
    let _ = (file, packed);
    let report = extracted(&image, &target, PLAIN);
    assert_eq!(report.written, 4_096 + 3 * 4_096 + 1);
    assert_eq!(fs::read(target.join("sparse")).unwrap(), bytes);
    assert_eq!(fs::metadata(target.join("sparse")).unwrap().len(), 1 << 20);
    assert!(fs::metadata(target.join("sparse")).unwrap().blocks() * 512 < 1 << 18);
}

#[test]
fn a_target_that_holds_something_is_refused_unless_forced() {
    let (_folder, target) = scratch();
    fs::create_dir(&target).unwrap();
    fs::write(target.join("x"), "old").unwrap();
    fs::write(target.join("own"), "kept").unwrap();
    let mut image = Memory::new();
    image.file("x", b"new");
    image.symlink("l", "x");
    let whole = || Tree::whole(&image, Limits::default());
    let error = extract(&image, whole(), &target, PLAIN, &|_| {}).unwrap_err();
    assert_eq!(error.to_string(), format!("'{}' is not empty", target.display()));
    assert_eq!(fs::read(target.join("x")).unwrap(), b"old");
    for _ in 0..2 {
        let report = extract(&image, whole(), &target, FORCED, &|_| {}).unwrap();
        assert_eq!(said(&report.failed), [""; 0]);
        assert_eq!(fs::read(target.join("x")).unwrap(), b"new");
        assert_eq!(fs::read(target.join("own")).unwrap(), b"kept");
    }
    let file = target.join("x");
    let error = extract(&image, whole(), &file, FORCED, &|_| {}).unwrap_err();
    assert!(error.to_string().starts_with("cannot read "), "{error}");
    let error = extract(&image, whole(), &target.join("no/where"), PLAIN, &|_| {}).unwrap_err();
    assert!(error.to_string().starts_with("cannot make "), "{error}");
}

#[test]
fn names_that_leave_the_target_are_refused() {
    let (folder, target) = scratch();
    let mut image = Memory::new();
    let evil = image.file("good", b"evil");
    let outside = folder.path().join("absolute");
    let outside = outside.to_str().unwrap().as_bytes().to_vec();
    for name in [&b"../up"[..], b"..", b".", b"a/../../up", &outside, b"nul\0", b""] {
        image.raw_name("", name, evil);
        image.raw_name("sub", name, evil);
    }
    let report = extracted(&image, &target, PLAIN);
    assert_eq!(report.failed.len(), 14);
    let expected = ["good", "sub"].map(|name| target.join(name).to_str().unwrap().to_owned());
    assert_eq!(names(&target), expected);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// The classic: a link to the outside, and a directory of the same name with a file in it.
#[test]
fn a_link_and_a_directory_of_one_name_do_not_lead_outside() {
    let (folder, target) = scratch();
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    for link_first in [true, false] {
        let mut image = Memory::new();
        let directory = image.directory("elsewhere");
        image.file("elsewhere/file", b"evil");
        let link = image.symlink("holder/link", outside.to_str().unwrap());
        let mut two = [link, directory];
        if !link_first {
            two.reverse();
        }
        for node in two {
            image.raw_name("both", b"x", node);
        }
        // Another directory of the same content would be a second name of it.
        let _ = fs::remove_dir_all(&target);
        let report = extracted(&image, &target, PLAIN);
        assert!(!report.failed.is_empty());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }
}

#[test]
fn links_that_lie_in_the_target_are_not_followed() {
    let (folder, target) = scratch();
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "safe").unwrap();
    fs::create_dir(&target).unwrap();
    symlink(&outside, target.join("d")).unwrap();
    symlink(outside.join("file"), target.join("f")).unwrap();
    let mut image = Memory::new();
    image.file("d/file", b"evil");
    image.file("d/e/file", b"evil");
    image.file("f", b"new");
    let report = extracted(&image, &target, FORCED);
    let failed = said(&report.failed);
    assert_eq!(failed.len(), 4, "{failed:?}");
    assert!(failed[0].starts_with("/d: cannot go into what is there: "), "{failed:?}");
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"safe");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read(target.join("f")).unwrap(), b"new");
    assert!(!target.join("f").is_symlink());
}

#[test]
fn damage_is_named_and_leaves_no_part_of_a_file() {
    let (_folder, target) = scratch();
    let mut image = Memory::new();
    let bad = image.file("d/bad", &[1; 50_000]);
    image.name("d/zz", bad);
    image.file("d/good", b"good");
    let hidden = image.directory("hidden");
    image.damage_directory(hidden);
    let place = image.damage_block(bad, 4);
    let report = extracted(&image, &target, PLAIN);
    let failed = said(&report.failed);
    assert!(failed[0].starts_with("/hidden: directory at byte "), "{failed:?}");
    let block = format!("/d/bad: block at byte {place} of the image (4097 raw bytes): ");
    assert_eq!(failed[1], format!("{block}the sum is wrong"));
    assert_eq!(failed[2], "/d/zz: is the same file as '/d/bad', which was not made");
    assert_eq!(failed.len(), 3);
    let expected = ["d", "d/good", "hidden"];
    assert_eq!(names(&target), expected.map(|n| target.join(n).to_str().unwrap().to_owned()));
}

/// setxattr says that there is no room where one value is too large for the file system, which has
/// room for the file and all others.
#[test]
fn an_attribute_that_the_target_refuses_costs_only_itself() {
    let (_folder, target) = scratch();
    let mut image = Memory::new();
    let file = image.file("f", b"content");
    image.xattr(file, "user.large", &[b'x'; 60_000]);
    image.xattr(file, "system.posix_acl_access", &[2, 0, 0, 0, 255, 255, 7, 0, 9, 9, 9, 9]);
    image.xattr(file, "strange.namespace", b"");
    image.file("other", b"other");
    let report = extracted(&image, &target, PLAIN);
    assert_eq!(said(&report.failed), [""; 0]);
    let lost = said(&report.lost);
    // Some file systems take values of this size.
    let has_room = usize::from(lost.len() == 2);
    assert_eq!(lost.len() + has_room, 3, "{lost:?}");
    let begin = "/f: goes without its extended attribute ";
    assert!(lost.iter().all(|text| text.starts_with(begin)), "{lost:?}");
    let acl = "'system.posix_acl_access': Invalid argument (os error 22)";
    assert_eq!(lost[1 - has_room].strip_prefix(begin), Some(acl));
    assert_eq!(fs::read(target.join("f")).unwrap(), b"content");
    assert_eq!(fs::read(target.join("other")).unwrap(), b"other");
    assert_eq!(report.files, 2);
}

/// Deeper than any path, and than the number of descriptors that a process may have by default.
#[test]
fn a_tree_of_any_depth_is_extracted_and_compared() {
    use crate::compare::{Folder, Kept, Side, compare};
    const DEPTH: usize = 3_000;
    let (_folder, target) = scratch();
    let mut image = Memory::new();
    let file = image.file("file", b"content");
    let mut above = image.root();
    for _ in 0..DEPTH {
        above = image.directory_in(above, b"directory");
    }
    image.name_in(above, b"deepest", file);
    let report = extracted(&image, &target, PLAIN);
    assert_eq!(said(&report.failed), [""; 0]);
    assert_eq!((report.directories, report.links), (DEPTH as u64 + 1, 1));
    let tree = Tree::whole(&image, Limits::default());
    let folder = Folder::open(&target, Limits::default()).unwrap();
    assert_eq!(said(&folder.tree().faults), [""; 0]);
    let sides = [Side::Image(&image, &tree), Side::Folder(&folder)];
    let report = compare(sides[0], sides[1], Kept::ALL, 2, &|_| {});
    assert_eq!(report.names, DEPTH as u64 + 3);
    let differences: Vec<_> = report.differences.iter().map(|(_, d)| d.kind()).collect();
    assert_eq!(differences, [""; 0]);
    // What std removes, it removes by recursion.
    assert!(std::process::Command::new("rm").arg("-r").arg(&target).status().unwrap().success());
}

#[test]
fn owners_that_mean_nothing_and_foreign_set_user_id_are_not_given() {
    let (_folder, target) = scratch();
    let mut image = Memory::new();
    let file = image.file("suid", b"#!");
    let me = rustix::process::geteuid().as_raw();
    image.change(file, |node| (node.permissions, node.uid) = (0o4755, me + 1));
    let report = extracted(&image, &target, PLAIN);
    assert_eq!(report.skipped.len(), 1);
    let mode = fs::metadata(target.join("suid")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
    image.change(file, |node| node.uid = u32::MAX);
    fs::remove_dir_all(&target).unwrap();
    let report = extracted(&image, &target, Settings { owners: true, ..PLAIN });
    let mine = said(&report.failed);
    assert!(mine.iter().any(|f| f == "/suid: the owner or group 4294967295 cannot be given"));
    assert_eq!(names(&target), [""; 0]);
}

#[test]
fn what_is_unsafe_is_left_out_on_request() {
    let (_folder, target) = scratch();
    let mut image = Memory::new();
    let file = image.file("suid", b"#!");
    let me = rustix::process::geteuid().as_raw();
    image.change(file, |node| (node.permissions, node.uid) = (0o6755, me));
    image.xattr(file, "security.capability", b"any");
    image.xattr(file, "user.harmless", b"kept");
    let device = image.special("null", Kind::CharDevice, 0o666);
    image.change(device, |node| node.device = (1, 3));
    image.special("pipe", Kind::Fifo, 0o600);
    // Its files would get its group.
    let folder = image.directory("group");
    image.change(folder, |node| node.permissions = 0o2755);
    let report = extracted(&image, &target, Settings { safe: true, ..PLAIN });
    assert_eq!((said(&report.failed), said(&report.lost)), (vec![], vec![]));
    assert_eq!(
        said(&report.skipped),
        [
            "/suid: goes without capabilities or other privileged attributes: it is not safe",
            "/suid: goes without set-user-id or set-group-id: it is not safe",
            "/null: goes without the device: it is not safe",
            "/group: goes without set-user-id or set-group-id: it is not safe",
        ]
    );
    for name in ["suid", "group"] {
        let mode = fs::metadata(target.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "{name}");
    }
    let mut value = [0; 8];
    let len = rustix::fs::getxattr(target.join("suid"), "user.harmless", &mut value);
    assert_eq!(len, Ok(4));
    assert!(target.join("pipe").exists() && !target.join("null").exists());
}

#[test]
fn root_makes_devices_and_gives_owners() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skip: owners and devices need root");
        return;
    }
    let (_folder, target) = scratch();
    let mut image = Memory::new();
    let device = image.special("null", Kind::CharDevice, 0o666);
    image.change(device, |node| (node.device, node.uid, node.gid) = ((1, 3), 1_000, 70_000));
    let suid = image.file("suid", b"#!");
    image.change(suid, |node| (node.uid, node.permissions) = (1_000, 0o6755));
    image.xattr(suid, "trusted.x", b"\0\xff");
    let link = image.symlink("link", "suid");
    image.change(link, |node| node.uid = 77);
    image.xattr(link, "trusted.y", b"y");
    let report = extracted(&image, &target, Settings { owners: true, ..PLAIN });
    assert_eq!(said(&report.failed), [""; 0]);
    let found = |name: &str| fs::symlink_metadata(target.join(name)).unwrap();
    if report.skipped.is_empty() {
        let null = found("null");
        assert!(null.file_type().is_char_device());
        assert_eq!((null.rdev(), null.uid(), null.gid()), (0x103, 1_000, 70_000));
        let mut value = [0; 8];
        let path = target.join("link");
        assert_eq!(rustix::fs::lgetxattr(&path, "trusted.y", &mut value).unwrap(), 1);
    } else {
        eprintln!("skip: {:?}", said(&report.skipped));
    }
    assert_eq!((found("suid").uid(), found("suid").permissions().mode() & 0o7777), (1_000, 0o6755));
    assert_eq!((found("link").uid(), found("suid").gid()), (77, 0));
}
