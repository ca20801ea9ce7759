//! Trees with everything that a format can hold, and what lies at its limits.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use tempfile::TempDir;

/// What limits a tree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Names of 252 bytes, files below 16 MiB, groups below 256.
    Cramfs,
    /// What Linux can.
    Squashfs,
    /// Names of 254 bytes: mkfs.erofs 1.5 cuts the last one of longer ones.
    Erofs,
}

/// How many files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// A hundred.
    Small,
    /// Two thousand more.
    Large,
}

/// Where trees and images of a test are: on a file system that has extended attributes.
pub(super) fn scratch() -> TempDir {
    tempfile::Builder::new().prefix("forebay-conformance").tempdir_in("/var/tmp").unwrap()
}

/// Makes a tree.
pub(super) fn make(root: &Path, format: Format, scale: Scale) {
    fs::create_dir(root).unwrap();
    sizes(&root.join("sizes"), scale);
    let longest = match format {
        Format::Cramfs => 252,
        Format::Squashfs => 255,
        Format::Erofs => 254,
    };
    names(&root.join("names"), longest);
    deep(&root.join("deep"));
    kinds(&root.join("kinds"));
    marks(&root.join("marks"), format);
    if scale == Scale::Large {
        many(&root.join("many"));
    }
    times(root, &mut 0);
}

/// A tree with one file that needs more than 32 bits, most of it a hole.
pub(super) fn huge(root: &Path) {
    fs::create_dir(root).unwrap();
    let file = File::create(root.join("huge")).unwrap();
    file.set_len((4 << 30) + 5).unwrap();
    for place in [0, 1 << 31, (1 << 32) - 1, 1 << 32, (4 << 30) + 4] {
        file.write_all_at(b"x", place).unwrap();
    }
    times(root, &mut 0);
}

/// Blocks are 4 KiB to 1 MiB; each size has its neighbours.
fn sizes(folder: &Path, scale: Scale) {
    fs::create_dir(folder).unwrap();
    let blocks = [1, 4_096, 8_192, 32_768, 131_072, 1 << 20];
    let count = if scale == Scale::Large { blocks.len() } else { blocks.len() - 1 };
    for block in blocks.into_iter().take(count) {
        for len in [block - 1, block, block + 1] {
            fs::write(folder.join(format!("text-{len}")), text(len)).unwrap();
            fs::write(folder.join(format!("noise-{len}")), noise(len)).unwrap();
        }
    }
    let sparse = File::create(folder.join("sparse")).unwrap();
    sparse.set_len(5 << 20).unwrap();
    sparse.write_all_at(b"in the middle", 3_000_000).unwrap();
    File::create(folder.join("hole")).unwrap().set_len(300_000).unwrap();
    fs::write(folder.join("zeros"), vec![0; 131_072]).unwrap();
    fs::write(folder.join("duplicate"), text(131_073)).unwrap();
}

fn names(folder: &Path, longest: usize) {
    fs::create_dir(folder).unwrap();
    for len in [1, 3, 4, 5, 8, longest - 1, longest] {
        fs::write(folder.join("n".repeat(len)), [1]).unwrap();
        fs::create_dir(folder.join("d".repeat(len))).unwrap();
    }
    for odd in [&b"new\nline"[..], b"\xff\xfe", "straße".as_bytes(), b" ", b"-", b"...", b"\\"] {
        fs::write(folder.join(OsStr::from_bytes(odd)), odd).unwrap();
    }
}

/// Deep, and a path that is nearly as long as a call takes.
fn deep(folder: &Path) {
    let mut path = folder.to_owned();
    for _ in 0..100 {
        path.push("d");
    }
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("bottom"), b"deep").unwrap();
    let mut path = folder.join("long");
    for _ in 0..13 {
        path.push("l".repeat(250));
    }
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("bottom"), b"long").unwrap();
}

fn kinds(folder: &Path) {
    fs::create_dir(folder).unwrap();
    fs::create_dir(folder.join("empty")).unwrap();
    fs::write(folder.join("file"), text(10_000)).unwrap();
    fs::hard_link(folder.join("file"), folder.join("other-name")).unwrap();
    fs::hard_link(folder.join("file"), folder.join("empty/../third-name")).unwrap();
    symlink("file", folder.join("link")).unwrap();
    symlink("nowhere/".repeat(400), folder.join("long-link")).unwrap();
    let special = |name: &str, kind, device| {
        let path = folder.join(name);
        rustix::fs::mknodat(CWD, &path, kind, Mode::from_raw_mode(0o640), device).unwrap();
    };
    special("pipe", FileType::Fifo, 0);
    special("socket", FileType::Socket, 0);
    if rustix::process::geteuid().is_root() {
        special("null", FileType::CharacterDevice, rustix::fs::makedev(1, 3));
        special("disk", FileType::BlockDevice, rustix::fs::makedev(254, 255));
    } else {
        eprintln!("skip: devices in the tree need root");
    }
}

/// Modes, owners, attributes.
fn marks(folder: &Path, format: Format) {
    fs::create_dir(folder).unwrap();
    for mode in [0o000, 0o444, 0o755, 0o1777, 0o2755, 0o4755, 0o7777] {
        let path = folder.join(format!("{mode:04o}"));
        fs::write(&path, mode.to_string()).unwrap();
        if mode != 0 || rustix::process::geteuid().is_root() {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
    if rustix::process::geteuid().is_root() {
        let large = if format == Format::Cramfs { (65_535, 255) } else { (70_000, 80_000) };
        for (user, group) in [(1, 2), (1_000, 100), large] {
            let path = folder.join(format!("{user}-{group}"));
            symlink("owned", &path).unwrap();
            let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
            let itself = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(CWD, &path, Some(user), Some(group), itself).unwrap();
        }
    } else {
        eprintln!("skip: owners in the tree need root");
    }
    attributes(folder);
}

fn attributes(folder: &Path) {
    let file = folder.join("attributes");
    fs::write(&file, b"has some").unwrap();
    let give = |path: &Path, name: &str, value: &[u8]| {
        if let Err(error) = rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()) {
            eprintln!("skip: attribute {name} in the tree: {error}");
        }
    };
    give(&file, "user.empty", b"");
    give(&file, "user.bytes", b"\0\xff\n");
    give(&file, "user.long", &text(3_000));
    give(folder, "user.directory", b"yes");
    give(&folder.join("0755"), "user.bytes", b"\0\xff\n");
    if rustix::process::geteuid().is_root() {
        give(&file, "trusted.root", b"only");
        give(&file, "security.capability", &CAPABILITY);
        give(&folder.join("1-2"), "trusted.link", b"of a link");
    }
}

/// Of version 2: may bind low ports.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn many(folder: &Path) {
    for directory in 0..21 {
        let directory_path = folder.join(format!("directory-{directory:02}"));
        fs::create_dir_all(&directory_path).unwrap();
        for file in 0..100 {
            let len = (directory * 100 + file) * 7 % 6_000;
            let path = directory_path.join(format!("file-{file:03}"));
            fs::write(path, &text(6_000 + file)[file..file + len]).unwrap();
        }
    }
}

/// Gives every node a different time, contents before the directory.
fn times(path: &Path, number: &mut i64) {
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).unwrap() {
            times(&entry.unwrap().path(), number);
        }
    }
    *number += 1;
    let time = Timespec { tv_sec: 1_000_000_000 + *number * 7_919, tv_nsec: *number * 1_013 };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Bytes that pack well and differ from place to place.
fn text(len: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(len + 32);
    let mut line = 0u32;
    while text.len() < len {
        text.extend_from_slice(format!("line {line} of a file\n").as_bytes());
        line += 1;
    }
    text.truncate(len);
    text
}

/// Bytes that do not pack.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ len as u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..len).map(|_| byte()).collect()
}
