//! `stat`, listings and `lseek` of a mounted image, compared with the kernel's mount of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_host::mount::Options;
use rustix::fs::{SeekFrom, XattrFlags, seek, setxattr};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::mount_support::{Scene, has, plausible, skip};

/// A mount by the kernel. Dropping it unmounts.
struct KernelMount(PathBuf);

impl KernelMount {
    /// Nothing if the kernel cannot mount the image; said on standard error.
    fn new(scene: &Scene) -> Option<Self> {
        let folder = scene.folder.path().join("kernel");
        fs::create_dir_all(&folder).expect(WORKS);
        let mut program = Command::new("mount");
        let made = program.args(["-o", "loop,ro"]).arg(scene.image()).arg(&folder).output();
        let made = made.expect(WORKS);
        if !made.status.success() {
            let why = String::from_utf8_lossy(&made.stderr).into_owned();
            eprintln!("skip: stat compared with the kernel's mount: {why}");
            return None;
        }
        Some(Self(folder))
    }
}

impl Drop for KernelMount {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// A scene with files with holes, links, and more names than one listing has room for.
fn scene(
    program: &str,
    package: &str,
    make: impl FnOnce(&Path, &Path) -> Command,
) -> Option<Scene> {
    if skip() || !has(program, package) {
        return None;
    }
    let scene = Scene::new();
    for (name, data, size) in [("gap", 3 << 20, 5 << 20), ("tail", 0, 4 << 20), ("all", 9, 0)] {
        let file = File::create(scene.source().join(name)).expect(WORKS);
        file.write_all_at(&plausible(4, 200_000), data).expect(WORKS);
        file.set_len(size.max(200_009)).expect(WORKS);
    }
    fs::hard_link(scene.source().join("of-4097"), scene.source().join("deep/again")).expect(WORKS);
    for number in 0..300 {
        fs::write(scene.source().join(format!("deep/er/{number}")), [7; 3]).expect(WORKS);
    }
    for (name, len) in [("gap", 700), ("deep", 3)] {
        let path = scene.source().join(name);
        // Where the file system has none, the images have none.
        let _ = setxattr(path, "user.note", &[7; 700][..len], XattrFlags::empty());
    }
    let mut program = make(&scene.source(), &scene.image());
    let made = program.output().expect(WORKS);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(scene)
}

/// Inode number, as `stat` and the listing say it, and space of everything below a folder.
fn numbers(root: &Path) -> BTreeMap<PathBuf, (u64, u64, u64)> {
    let own = fs::metadata(root).expect(WORKS);
    let mut found = BTreeMap::from([(PathBuf::new(), (own.ino(), own.ino(), own.blocks()))]);
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect(WORKS).map(|entry| entry.expect(WORKS)) {
            let seen = entry.metadata().expect(WORKS);
            if seen.is_dir() {
                open.push(entry.path());
            }
            let path = entry.path().strip_prefix(root).expect(WORKS).to_owned();
            found.insert(path, (seen.ino(), entry.ino(), seen.blocks()));
        }
    }
    found
}

/// Compares all numbers with the kernel's; looked up by name first, and listed first.
fn compare(scene: &Scene) {
    let Some(kernel) = KernelMount::new(scene) else { return };
    let truth = numbers(&kernel.0);
    for by_name in [true, false] {
        let mount = scene.mount(&Options::default());
        if by_name {
            for (path, (ino, _, blocks)) in &truth {
                let seen = fs::symlink_metadata(mount.root.join(path)).expect(WORKS);
                assert_eq!((seen.ino(), seen.blocks()), (*ino, *blocks), "{path:?}");
            }
        }
        let seen = numbers(&mount.root);
        assert_eq!(seen.len(), truth.len());
        for (path, (ino, listed, blocks)) in seen {
            let (_, in_truth, _) = truth[&path];
            // The number 1 is the root's in FUSE. Listings show another one, `stat` does not.
            let listed = if in_truth == 1 { 1 } else { listed };
            assert_eq!((ino, listed, blocks), truth[&path], "{path:?}, by name {by_name}");
        }
    }
}

#[test]
fn inode_numbers_and_space_in_squashfs_are_those_of_the_kernel() {
    let make = |source: &Path, image: &Path| {
        let mut program = Command::new("mksquashfs");
        program.args([source, image]).args(["-quiet", "-no-progress", "-noappend"]);
        program
    };
    if let Some(scene) = scene("mksquashfs", "squashfs-tools", make) {
        compare(&scene);
        holes_are_found(&scene, true);
    }
}

#[test]
fn inode_numbers_and_space_in_erofs_are_those_of_the_kernel() {
    for option in ["-zlz4", "--chunksize=4096"] {
        let make = |source: &Path, image: &Path| {
            let mut program = Command::new("mkfs.erofs");
            program.arg(option).args([image, source]);
            program
        };
        if let Some(scene) = scene("mkfs.erofs", "erofs-utils", make) {
            compare(&scene);
            // mkfs.erofs writes holes as blocks of zeros.
            holes_are_found(&scene, false);
        }
    }
}

/// Every hole that `lseek` reports is zeros; and reported data ends where a hole begins.
fn holes_are_found(scene: &Scene, has_holes: bool) {
    let mount = scene.mount(&Options::default());
    for name in ["gap", "tail", "all", "holes", "of-0", "deep/random"] {
        let truth = fs::read(scene.source().join(name)).expect(WORKS);
        let (file, size) = (File::open(mount.path(name)).expect(WORKS), truth.len() as u64);
        let mut at = 0;
        while at < size {
            let data = match seek(&file, SeekFrom::Data(at)) {
                Ok(data) => data,
                Err(error) => {
                    assert_eq!(error, Errno::NXIO, "{name} {at}");
                    size
                }
            };
            assert!(truth[at as usize..data as usize].iter().all(|byte| *byte == 0), "{name} {at}");
            if data == size {
                break;
            }
            at = seek(&file, SeekFrom::Hole(data)).expect(WORKS);
            assert!(at > data && at <= size, "{name}: {data} to {at}");
        }
        assert_eq!(seek(&file, SeekFrom::Data(size)), Err(Errno::NXIO), "{name}");
        assert_eq!(seek(&file, SeekFrom::Hole(size)), Err(Errno::NXIO), "{name}");
    }
    if !has_holes {
        return;
    }
    let gap = File::open(mount.path("gap")).expect(WORKS);
    let data = seek(&gap, SeekFrom::Data(0)).expect(WORKS);
    assert!((2 << 20..=3 << 20).contains(&data), "the first 3 MiB are a hole: {data}");
    let hole = seek(&gap, SeekFrom::Hole(data)).expect(WORKS);
    assert!(((3 << 20) + 200_000..4 << 20).contains(&hole), "200,000 bytes are data: {hole}");
}

const WORKS: &str = "files of the test can be made and read";
