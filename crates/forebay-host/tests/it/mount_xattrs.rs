//! Requests for extended attributes of a mounted image, and their end where there are none.

use std::fs;
use std::path::Path;
use std::process::Command;

use forebay_host::mount::Options;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;

use crate::mount_support::{Guard, Scene, has, skip};

const NAME: &str = "user.color";

/// Asks for an attribute of each of the 300 files. Returns the requests that the mount took.
fn ask(mount: &Guard) -> u64 {
    let before = mount.counter("requests");
    for number in 0..FILES {
        let found = getxattr(mount.path(&format!("many/{number}")), NAME, &mut [0; 64][..]);
        assert!(matches!(found, Err(Errno::NODATA | Errno::NOTSUP)), "{found:?}");
    }
    mount.counter("requests") - before
}

/// A scene with many files, of which the last directory's may have an attribute.
fn erofs(has_attribute: bool) -> Option<Scene> {
    if skip() || !has("mkfs.erofs", "erofs-utils") {
        return None;
    }
    let scene = Scene::new();
    let (many, last) = (scene.source().join("many"), scene.source().join("zz/zz"));
    fs::create_dir_all(&many).expect(WORKS);
    fs::create_dir_all(&last).expect(WORKS);
    for number in 0..FILES {
        fs::write(many.join(number.to_string()), [7; 3]).expect(WORKS);
    }
    fs::write(last.join("file"), [7; 3]).expect(WORKS);
    if has_attribute {
        let set = setxattr(last.join("file"), NAME, b"green", XattrFlags::empty());
        if set == Err(Errno::NOTSUP) {
            eprintln!("skip: extended attributes: the file system has none");
            return None;
        }
        set.expect(WORKS);
    }
    run(Command::new("mkfs.erofs").args([&scene.image(), &scene.source()]));
    Some(scene)
}

fn run(program: &mut Command) {
    let done = program.output().expect(WORKS);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn the_kernel_asks_once_where_the_image_has_no_attributes() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    let many = scene.source().join("many");
    fs::create_dir_all(&many).expect(WORKS);
    for number in 0..FILES {
        fs::write(many.join(number.to_string()), [7; 3]).expect(WORKS);
    }
    scene.pack();
    let mount = scene.mount(&Options::default());
    let ls = |path: &Path| run(Command::new("ls").arg("-lR").arg(path));
    ls(&mount.root);
    assert!(ask(&mount) < FILES / 2);
}

#[test]
fn an_erofs_without_attributes_is_walked_and_then_asked_no_more() {
    let Some(scene) = erofs(false) else { return };
    let mount = scene.mount(&Options::default());
    let mut rounds = 0;
    // A lookup and a request for each file at first; a few in all once the walk has ended.
    while ask(&mount) > FILES / 2 {
        rounds += 1;
        assert!(rounds < 10_000, "the walk does not end");
    }
    assert!(rounds > 0);
}

#[test]
fn an_attribute_anywhere_in_the_tree_is_found_after_any_number_of_requests() {
    let Some(scene) = erofs(true) else { return };
    let mount = scene.mount(&Options::default());
    for _ in 0..20 {
        assert!(ask(&mount) >= FILES);
    }
    let mut value = [0; 64];
    assert_eq!(getxattr(mount.path("zz/zz/file"), NAME, &mut value[..]), Ok(5));
    assert_eq!(&value[..5], b"green");
}

const FILES: u64 = 300;

const WORKS: &str = "the test's own files and programs";
