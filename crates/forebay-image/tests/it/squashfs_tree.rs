//! Source trees, the images that mksquashfs makes of them, and whether the two are the same.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use forebay_image::squashfs::Squashfs;
use forebay_image::{FileSource, Image, Kind, NodeId, Options, Source, Xattr, read_at};
use rustix::fs::{CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};

/// Where trees and images of a test are.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("forebay-squashfs").tempdir_in("/var/tmp").unwrap()
}

/// Makes an image of a tree, and opens it. None, with a word on stderr, without the tool.
pub(crate) fn make(tree: &Path, image: &Path, options: &[&str]) -> Option<Squashfs> {
    let made = Command::new("mksquashfs")
        .args([tree, image])
        .args(["-noappend", "-quiet", "-no-progress"])
        .args(options)
        .output();
    let made = match made {
        Ok(made) => made,
        Err(error) => {
            eprintln!(
                "skip: images of squashfs: no mksquashfs ({error}); apt-get install \
                       squashfs-tools"
            );
            return None;
        }
    };
    assert!(made.status.success(), "{options:?}: {}", String::from_utf8_lossy(&made.stderr));
    Some(open(image))
}

/// Opens an image that is valid.
pub(crate) fn open(image: &Path) -> Squashfs {
    let source: Arc<dyn Source> = Arc::new(FileSource::open(image).unwrap());
    Squashfs::open(&source, Options::default()).unwrap().unwrap()
}

/// Bytes that neither repeat nor are easy to pack, the same for the same seed.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..len).map(|_| byte()).collect()
}

/// Bytes that pack well and differ from place to place.
pub(crate) fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 32);
    let mut line = seed;
    while bytes.len() < len {
        writeln!(bytes, "{line} lines of {seed}").unwrap();
        line = line.wrapping_mul(3) % 1_000_003 + 1;
    }
    bytes.truncate(len);
    bytes
}

/// A tree with everything that a squashfs can hold, and files at the edges of `block` bytes.
pub(crate) fn full_tree(root: &Path, block: usize) {
    let put = |name: &str, bytes: &[u8]| fs::write(root.join(name), bytes).unwrap();
    fs::create_dir_all(root.join("a/deep/directory")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    for (name, len) in
        [("nothing", 0), ("one", 1), ("below", block - 1), ("block", block), ("above", block + 1)]
    {
        put(name, &text(7, len));
    }
    put("two blocks", &text(8, 2 * block));
    // Blocks that are stored, and files that share them.
    put("noise", &noise(9, block + 50));
    put("twin", &noise(9, block + 50));
    for small in 0..20 {
        put(&format!("a/small {small}"), &text(small, 37 * usize::try_from(small).unwrap()));
    }
    let mut sparse = File::create(root.join("sparse")).unwrap();
    sparse.write_all(b"begin").unwrap();
    sparse.set_len(4 * block as u64).unwrap();
    sparse.write_all_at(&text(3, 100), 2 * block as u64 + 50).unwrap();
    File::create(root.join("all hole")).unwrap().set_len(2 * block as u64 + 9).unwrap();
    fs::hard_link(root.join("above"), root.join("a/deep/above again")).unwrap();
    fs::hard_link(root.join("above"), root.join("above too")).unwrap();
    std::os::unix::fs::symlink("../somewhere else", root.join("a/link")).unwrap();
    std::os::unix::fs::symlink("x".repeat(300), root.join("a/long link")).unwrap();
    special(root);
    decorate(root);
}

/// Devices only for root.
fn special(root: &Path) {
    let mode = Mode::from_raw_mode(0o640);
    let make = |name: &str, kind, (major, minor)| {
        let device = rustix::fs::makedev(major, minor);
        rustix::fs::mknodat(CWD, root.join(name), kind, mode, device).unwrap();
    };
    make("fifo", FileType::Fifo, (0, 0));
    make("socket", FileType::Socket, (0, 0));
    if rustix::process::geteuid().is_root() {
        make("null", FileType::CharacterDevice, (1, 3));
        make("far", FileType::CharacterDevice, (259, 300));
        make("farther", FileType::BlockDevice, (4095, 0xf_ffff));
    } else {
        eprintln!("skip: devices in the tree: needs root");
    }
}

/// Modes, owners, times and xattrs that differ from the defaults.
fn decorate(root: &Path) {
    let is_root = rustix::process::geteuid().is_root();
    for (name, mode) in [("one", 0o4751), ("block", 0), ("a", 0o1777), ("empty", 0o2700)] {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    if is_root {
        std::os::unix::fs::lchown(root.join("a/link"), Some(7), Some(8)).unwrap();
        std::os::unix::fs::chown(root.join("above"), Some(70_000), Some(4_000_000_000)).unwrap();
    }
    let xattr = |name: &str, key: &str, value: &[u8]| {
        let set = rustix::fs::lsetxattr(root.join(name), key, value, XattrFlags::empty());
        if let Err(error) = set {
            eprintln!("skip: xattr {key} of {name}: {error}");
        }
    };
    xattr("one", "user.origin", b"here");
    xattr("one", "user.empty", b"");
    xattr("one", "user.binary", &[0, 255, 10]);
    for name in ["block", "sparse", "a", "empty", "nothing", "a/deep"] {
        // Shared values are stored once and referred to.
        xattr(name, "user.shared", &text(1, 900));
    }
    if is_root {
        for name in ["fifo", "socket", "null", "farther", "a/link"] {
            xattr(name, "trusted.kind", b"special");
            xattr(name, "security.forebay", b"\x01\x00\x00\x02");
        }
    }
    for (name, seconds) in [("one", 1), ("a/link", 1_234_567_890), ("a/deep", 4_294_967_295)] {
        set_time(&root.join(name), seconds);
    }
}

/// Sets the time of the last change, of a link itself too.
pub(crate) fn set_time(path: &Path, seconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// The equal attributes of a node in a tree and in its image.
#[derive(Debug, PartialEq, Eq)]
struct Same {
    kind: Kind,
    permissions: u32,
    owner: (u32, u32),
    /// Of a directory none, since each file system counts its own.
    size: Option<u64>,
    links: u64,
    seconds: i64,
    device: (u32, u32),
    target: Vec<u8>,
    xattrs: Vec<Xattr>,
}

/// Compares every node of a tree with that of an image, and their number.
pub(crate) fn compare(tree: &Path, image: &dyn Image, with_xattrs: bool) {
    let mut todo = vec![(tree.to_path_buf(), image.root())];
    let mut links: BTreeMap<u64, (NodeId, u64)> = BTreeMap::new();
    while let Some((path, id)) = todo.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let wanted = wanted(&path, &metadata, with_xattrs);
        assert_eq!(found(image, id, with_xattrs), wanted, "{}", path.display());
        let node = image.node(id).unwrap();
        // One inode in the tree is one node and one number in the image.
        let one = *links.entry(metadata.ino()).or_insert((id, node.ino));
        assert_eq!(one, (id, node.ino), "{}", path.display());
        match node.kind {
            Kind::File => same_bytes(&path, image, id, node.size),
            Kind::Directory => {
                let names = children(&path);
                let entries = image.entries(id).unwrap();
                let mut there: Vec<&[u8]> = entries.iter().map(|e| e.name.as_slice()).collect();
                there.sort_unstable();
                assert_eq!(there, names, "{}", path.display());
                for name in names {
                    let child = image.lookup(id, &name).unwrap().unwrap();
                    todo.push((path.join(std::ffi::OsStr::from_bytes(&name)), child));
                }
            }
            Kind::Symlink | Kind::BlockDevice | Kind::CharDevice | Kind::Fifo | Kind::Socket => {}
        }
    }
}

fn children(path: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<Vec<u8>> =
        entries.map(|entry| entry.unwrap().file_name().into_vec()).collect();
    names.sort();
    names
}

fn wanted(path: &Path, metadata: &fs::Metadata, with_xattrs: bool) -> Same {
    let kind = metadata.file_type();
    let kind = match () {
        () if kind.is_file() => Kind::File,
        () if kind.is_dir() => Kind::Directory,
        () if kind.is_symlink() => Kind::Symlink,
        () if kind.is_block_device() => Kind::BlockDevice,
        () if kind.is_char_device() => Kind::CharDevice,
        () if kind.is_fifo() => Kind::Fifo,
        () => Kind::Socket,
    };
    let target = if kind == Kind::Symlink {
        fs::read_link(path).map(PathBuf::into_os_string).unwrap().into_vec()
    } else {
        Vec::new()
    };
    let is_device = matches!(kind, Kind::BlockDevice | Kind::CharDevice);
    let device = if is_device { metadata.rdev() } else { 0 };
    Same {
        kind,
        permissions: metadata.permissions().mode() & 0o7777,
        owner: (metadata.uid(), metadata.gid()),
        size: (kind != Kind::Directory).then_some(metadata.len()),
        links: metadata.nlink(),
        seconds: metadata.mtime(),
        device: (rustix::fs::major(device), rustix::fs::minor(device)),
        target,
        xattrs: if with_xattrs { xattrs_of(path) } else { Vec::new() },
    }
}

fn found(image: &dyn Image, id: NodeId, with_xattrs: bool) -> Same {
    let node = image.node(id).unwrap();
    let mut xattrs = image.xattrs(id).unwrap();
    xattrs.sort();
    assert!(with_xattrs || xattrs.is_empty());
    Same {
        kind: node.kind,
        permissions: node.permissions.into(),
        owner: (node.uid, node.gid),
        size: (node.kind != Kind::Directory).then_some(node.size),
        links: node.links.into(),
        seconds: node.modified.unwrap().seconds,
        device: node.device,
        target: if node.kind == Kind::Symlink { image.link(id).unwrap() } else { Vec::new() },
        xattrs,
    }
}

fn xattrs_of(path: &Path) -> Vec<Xattr> {
    let mut names = vec![0; 4096];
    let len = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let mut xattrs = Vec::new();
    for name in names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 65536];
        let len = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
        value.truncate(len);
        xattrs.push(Xattr { name: name.to_vec(), value });
    }
    xattrs.sort();
    xattrs
}

fn same_bytes(path: &Path, image: &dyn Image, id: NodeId, size: u64) {
    let mut file = File::open(path).unwrap();
    // Odd, so that reads begin and end inside blocks.
    let (mut here, mut there) = (vec![0; 77_777], vec![0; 77_777]);
    let mut at = 0;
    while at < size {
        let len = read_at(image, id, at, &mut there).unwrap();
        file.read_exact(&mut here[..len]).unwrap();
        assert!(len > 0 && here[..len] == there[..len], "{} at {at}", path.display());
        at += len as u64;
    }
    assert_eq!(read_at(image, id, size, &mut there).unwrap(), 0);
}
