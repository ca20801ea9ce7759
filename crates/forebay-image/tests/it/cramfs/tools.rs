//! The usual tools: their images are read here, and they read ours.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use forebay_image::cramfs::write::{Attributes, Content, Settings, Tree, WriteError};
use forebay_image::{Image, Kind, NodeId, Options};

use super::{ORDERS, built, content, content_of, noise, open, small_image, word};

/// The attributes of a node.
#[derive(Debug, PartialEq, Eq)]
struct Thing {
    kind: Kind,
    permissions: u16,
    uid: u32,
    gid: u32,
    device: (u32, u32),
    bytes: Vec<u8>,
}

type Things = BTreeMap<Vec<u8>, Thing>;

fn in_image(image: &dyn Image) -> Things {
    let mut things = Things::new();
    let mut todo = vec![(Vec::new(), image.root())];
    while let Some((path, id)) = todo.pop() {
        let node = image.node(id).unwrap();
        let bytes = match node.kind {
            Kind::File => content_of(image, id).unwrap(),
            Kind::Symlink => image.link(id).unwrap(),
            Kind::Directory => {
                for entry in image.entries(id).unwrap().iter() {
                    todo.push(([&path[..], b"/", &entry.name].concat(), entry.node));
                }
                Vec::new()
            }
            Kind::BlockDevice | Kind::CharDevice | Kind::Fifo | Kind::Socket => Vec::new(),
        };
        let thing = Thing {
            kind: node.kind,
            permissions: node.permissions,
            uid: node.uid,
            gid: node.gid,
            device: node.device,
            bytes,
        };
        things.insert(path, thing);
    }
    things
}

fn on_disk(root: &Path) -> Things {
    let mut things = Things::new();
    let mut todo = vec![(Vec::new(), root.to_owned())];
    while let Some((name, path)) = todo.pop() {
        let metadata = path.symlink_metadata().unwrap();
        let file_type = metadata.file_type();
        let mut bytes = Vec::new();
        let kind = if file_type.is_dir() {
            for entry in fs::read_dir(&path).unwrap() {
                let entry = entry.unwrap();
                let name = [&name[..], b"/", entry.file_name().as_bytes()].concat();
                todo.push((name, entry.path()));
            }
            Kind::Directory
        } else if file_type.is_symlink() {
            bytes = fs::read_link(&path).unwrap().into_os_string().into_vec();
            Kind::Symlink
        } else if file_type.is_file() {
            bytes = fs::read(&path).unwrap();
            Kind::File
        } else if file_type.is_fifo() {
            Kind::Fifo
        } else if file_type.is_socket() {
            Kind::Socket
        } else if file_type.is_block_device() {
            Kind::BlockDevice
        } else {
            Kind::CharDevice
        };
        let number = metadata.rdev();
        let device = match kind {
            Kind::BlockDevice | Kind::CharDevice => (number >> 8 & 0xff, number & 0xff),
            Kind::File | Kind::Directory | Kind::Symlink | Kind::Fifo | Kind::Socket => (0, 0),
        };
        let thing = Thing {
            kind,
            permissions: u16::try_from(metadata.mode() & 0o7777).unwrap(),
            uid: metadata.uid(),
            gid: metadata.gid(),
            device: (u32::try_from(device.0).unwrap(), u32::try_from(device.1).unwrap()),
            bytes,
        };
        things.insert(name, thing);
    }
    things
}

/// Whether two trees are the same, with the first path where they are not.
fn assert_same(left: &Things, right: &Things) {
    let paths: Vec<_> = left.keys().map(|path| path.escape_ascii().to_string()).collect();
    let others: Vec<_> = right.keys().map(|path| path.escape_ascii().to_string()).collect();
    assert_eq!(paths, others);
    for (path, thing) in left {
        assert!(right[path] == *thing, "{}", path.escape_ascii());
    }
}

/// Whether a program ran and succeeded. A program that is not there is a skip.
fn run(program: &str, package: &str, set_up: impl FnOnce(&mut Command)) -> bool {
    let mut command = Command::new(program);
    set_up(&mut command);
    match command.output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command:?}: {text}");
            true
        }
        Err(error) => {
            eprintln!("skip: needs {program} ({error}); apt-get install {package}");
            false
        }
    }
}

fn make(source: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    run("mkfs.cramfs", "util-linux", |command| {
        command.args(arguments).arg(source).arg(&image);
    })
    .then(|| fs::read(&image).unwrap())
}

/// A directory with everything that the format holds and the user may make.
fn source() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in ["a", "a/deep", "a/deep/er", "none", "z"] {
        fs::create_dir(at(name)).unwrap();
    }
    for len in [0, 1, 4095, 4096, 4097, 12_288, 70_000] {
        let text = b"some text that packs well; ".repeat(len / 27 + 1);
        fs::write(at(&format!("a/text-{len}")), &text[..len]).unwrap();
        fs::write(at(&format!("a/deep/noise-{len}")), noise(len, 3)).unwrap();
        fs::write(at(&format!("z/zeros-{len}")), vec![0; len]).unwrap();
    }
    let holed = [vec![0; 8192], noise(100, 1), vec![0; 10_000], noise(100, 2)].concat();
    fs::write(at("a/holed"), &holed).unwrap();
    fs::write(at("z/copy"), noise(70_000, 3)).unwrap();
    fs::write(at(&"n".repeat(252)), b"a long name").unwrap();
    fs::write(at("four"), b"a name of four bytes").unwrap();
    fs::write(at("\u{fc}ber"), b"above ASCII").unwrap();
    fs::hard_link(at("a/text-1"), at("a/deep/er/link")).unwrap();
    std::os::unix::fs::symlink("../z/copy", at("a/symbolic")).unwrap();
    std::os::unix::fs::symlink("x".repeat(4095), at("a/longest")).unwrap();
    fs::set_permissions(at("a/text-1"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::set_permissions(at("none"), fs::Permissions::from_mode(0o1777)).unwrap();
    UnixListener::bind(at("z/socket")).unwrap();
    run("mkfifo", "coreutils", |command| _ = command.arg(at("z/fifo")));
    if is_root() {
        for (name, kind, minor) in [("null", "c", "3"), ("block", "b", "255")] {
            run("mknod", "coreutils", |command| {
                command.arg(at(name)).args([kind, "1", minor]);
            });
        }
        std::os::unix::fs::chown(at("four"), Some(65_534), Some(255)).unwrap();
    } else {
        eprintln!("skip: devices and owners, which only root can make");
    }
    directory
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Our settings, and the equivalent arguments of mkfs.cramfs.
fn variants() -> Vec<(Settings, Vec<&'static str>)> {
    // The further name of a file is a separate file.
    let name = b"sixteen letters.".to_vec();
    let plain = Settings { edition: 5, name, lossy: true, ..Settings::default() };
    let mut variants = Vec::new();
    for (big_endian, order) in [(false, "little"), (true, "big")] {
        for holes in [false, true] {
            for boot in [false, true] {
                let mut arguments = vec!["-e", "5", "-n", "sixteen letters.", "-N", order];
                arguments.extend(holes.then_some("-z"));
                arguments.extend(boot.then_some("-p"));
                let boot = boot.then(|| Box::new([0; 512]));
                variants.push((Settings { big_endian, holes, boot, ..plain.clone() }, arguments));
            }
        }
    }
    variants
}

/// The message about the further name in the source.
const FURTHER_NAME: &str =
    "1 further names of a file written as files of their own; first: /a/deep/er/link";

#[test]
fn what_mkfs_writes_is_read() {
    let source = source();
    let expected = on_disk(source.path());
    for (_, arguments) in variants() {
        let Some(image) = make(source.path(), &arguments) else { return };
        let image = open(&image, Options::default()).unwrap();
        assert_same(&in_image(image.as_ref()), &expected);
        assert_eq!(image.verify().unwrap().len(), 1);
        assert_eq!(image.summary().nodes, Some(expected.len() as u64));
    }
}

/// mkfs.cramfs stores a length of 0 for longer names, so that Linux shows nothing behind them.
#[test]
fn a_name_that_mkfs_damages_costs_only_itself() {
    for (len, count) in [(252, 3), (253, 2), (255, 2)] {
        let source = tempfile::tempdir().unwrap();
        fs::create_dir(source.path().join("d")).unwrap();
        for name in ["a", &"n".repeat(len), "z"] {
            fs::write(source.path().join("d").join(name), name).unwrap();
        }
        fs::write(source.path().join("e"), b"readable").unwrap();
        let Some(image) = make(source.path(), &[]) else { return };
        let image = open(&image, Options::default()).unwrap();
        let directory = super::find(image.as_ref(), "d");
        assert_eq!(image.entries(directory).unwrap().len(), count, "{len}");
        let defects = image.defects(directory).unwrap();
        assert_eq!(defects.len(), 3 - count);
        assert!(defects.iter().all(|defect| defect.name.len() == len));
        for (path, bytes) in [("d/a", b"a".as_slice()), ("d/z", b"z"), ("e", b"readable")] {
            assert_eq!(content(image.as_ref(), path).unwrap(), bytes);
        }
    }
}

/// The same numbers in the superblock, and the same entries at the same places.
#[test]
fn ours_is_laid_out_as_that_of_mkfs() {
    let source = source();
    let tree = Tree::scan(source.path()).unwrap();
    for (settings, arguments) in variants() {
        let Some(theirs) = make(source.path(), &arguments) else { return };
        let ours = built(&tree, &settings);
        assert_eq!(ours.warnings, [FURTHER_NAME]);
        let base = if settings.boot.is_some() { 512 } else { 0 };
        for (at, what) in [(8, "flags"), (36, "edition"), (40, "blocks"), (44, "files")] {
            let word = |image| word(image, base + at, settings.big_endian);
            assert_eq!(word(&ours.image), word(&theirs), "{what}: {arguments:?}");
        }
        assert_eq!(ours.image[base + 48..base + 76], theirs[base + 48..base + 76]);
        assert_eq!(ours.image.len() % 4096, 0);
        let entries = |image: &[u8]| -> BTreeMap<Vec<u8>, NodeId> {
            let image = open(image, Options::default()).unwrap();
            let mut places = BTreeMap::new();
            let mut todo = vec![(Vec::new(), image.root())];
            while let Some((path, id)) = todo.pop() {
                if image.node(id).unwrap().kind == Kind::Directory {
                    for entry in image.entries(id).unwrap().iter() {
                        todo.push(([&path[..], b"/", &entry.name].concat(), entry.node));
                    }
                }
                places.insert(path, id);
            }
            places
        };
        assert_eq!(entries(&ours.image), entries(&theirs), "{arguments:?}");
    }
}

#[test]
fn what_is_written_is_read() {
    let source = source();
    let tree = Tree::scan(source.path()).unwrap();
    let expected = on_disk(source.path());
    for (settings, _) in variants() {
        for (stored, shifted) in [(false, 0), (true, 0), (false, 8191)] {
            let shifted = noise(shifted, 9);
            let settings = Settings { stored, shifted, ..settings.clone() };
            let image = open(&built(&tree, &settings).image, Options::default()).unwrap();
            assert_same(&in_image(image.as_ref()), &expected);
            assert_eq!(image.verify().unwrap().len(), 1);
        }
    }
}

#[test]
fn what_is_written_fsck_extracts() {
    let source = source();
    let tree = Tree::scan(source.path()).unwrap();
    let expected = on_disk(source.path());
    // fsck.cramfs knows no flag of the upper ones, not even of images that mkfs.cramfs writes.
    for (settings, _) in variants().into_iter().filter(|(settings, _)| !settings.holes) {
        let scratch = tempfile::tempdir().unwrap();
        let (image, out) = (scratch.path().join("image"), scratch.path().join("out"));
        fs::write(&image, built(&tree, &settings).image).unwrap();
        let done = run("fsck.cramfs", "util-linux", |command| {
            let mut extract = std::ffi::OsString::from("--extract=");
            extract.push(&out);
            command.arg(extract).arg(&image);
        });
        if !done {
            return;
        }
        if is_root() {
            assert_same(&on_disk(&out), &expected);
        }
    }
}

#[test]
fn known_answers_of_mkfs_hold_for_both() {
    let source = tempfile::tempdir().unwrap();
    fs::write(source.path().join("zeros"), vec![0; 10_000]).unwrap();
    let kernel = noise(8192, 1);
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("kernel");
    fs::write(&path, &kernel).unwrap();
    let plain = Settings::default();
    let boot = Some(Box::new([0; 512]));
    let cases: [(&[&str], Settings, u32, &str); 4] = [
        (&[], plain.clone(), 0x003, "at byte 76"),
        (&["-p", "-z"], Settings { boot, holes: true, ..plain.clone() }, 0x103, "at byte 588"),
        (
            &["-z", "-i", path.to_str().unwrap()],
            Settings { shifted: kernel, holes: true, ..plain.clone() },
            0x503,
            "at byte 8268",
        ),
        (&["-N", "big"], Settings { big_endian: true, ..plain }, 0x003, "at byte 76"),
    ];
    let tree = Tree::scan(source.path()).unwrap();
    for (arguments, settings, flags, root) in cases {
        let theirs = make(source.path(), arguments);
        for image in [Some(built(&tree, &settings).image), theirs].into_iter().flatten() {
            let base = if settings.boot.is_some() { 512 } else { 0 };
            let magic: &[u8] =
                if settings.big_endian { b"\x28\xcd\x3d\x45" } else { b"\x45\x3d\xcd\x28" };
            assert_eq!(&image[base..base + 4], magic);
            assert_eq!(word(&image, base + 8, settings.big_endian), flags);
            let opened = open(&image, Options::default()).unwrap();
            let details: BTreeMap<_, _> = opened.summary().details.iter().cloned().collect();
            assert_eq!(details["root entries"], root);
            assert_eq!(content(opened.as_ref(), "zeros").unwrap(), vec![0; 10_000]);
            assert_eq!(lens(opened.as_ref(), "zeros") == [0; 3], settings.holes);
        }
    }
}

/// The raw bytes of each block of a file.
fn lens(image: &dyn Image, path: &str) -> Vec<u64> {
    let file = super::find(image, path);
    let size = image.node(file).unwrap().size;
    let raw = |at| image.locate(file, at).unwrap().raw;
    (0..size).step_by(4096).map(raw).map(|raw| raw.end - raw.start).collect()
}

#[test]
fn blocks_are_as_long_as_they_were_seen_to_be() {
    let source = tempfile::tempdir().unwrap();
    let files = [
        ("zeros", vec![0; 4096 + 1808], vec![26, 21]),
        ("text", b"hello world\n".to_vec(), vec![20]),
        ("noise", noise(4096, 1), vec![4107]),
    ];
    for (name, bytes, _) in &files {
        fs::write(source.path().join(name), bytes).unwrap();
    }
    if let Some(image) = make(source.path(), &[]) {
        let image = open(&image, Options::default()).unwrap();
        for (name, _, expected) in &files {
            assert_eq!(lens(image.as_ref(), name), *expected, "{name}");
        }
    }
    let image = built(&Tree::scan(source.path()).unwrap(), &Settings::default()).image;
    let image = open(&image, Options::default()).unwrap();
    assert_eq!(lens(image.as_ref(), "noise"), [4107]);
    for (ours, theirs) in lens(image.as_ref(), "zeros").into_iter().zip([26, 21]) {
        assert!(ours <= theirs, "{ours}, {theirs}");
    }
    // libdeflate stores short data: two bytes before, five for the block, four after.
    assert!(lens(image.as_ref(), "text")[0] <= 12 + 11);
}

#[test]
fn threads_and_repetition_make_no_difference() {
    let source = source();
    let image = |threads| {
        let threads = NonZero::new(threads).unwrap();
        let settings = Settings { threads, lossy: true, ..Settings::default() };
        built(&Tree::scan(source.path()).unwrap(), &settings)
    };
    let one = image(1);
    for threads in [1, 2, 7] {
        assert!(image(threads).image == one.image, "{threads}");
    }
    // text-1 and its link; noise and text of one byte differ; zeros; copy.
    assert_eq!(one.duplicates, 2);
}

#[test]
fn files_of_a_start_come_first() {
    let directory = Attributes { permissions: 0o755, ..Attributes::default() };
    let mut tree = Tree::new(directory);
    let below = tree.add(tree.root(), b"d", directory, Content::Directory).unwrap();
    for (byte, name) in (1..).zip([b"a", b"b", b"c", b"d"]) {
        tree.add(below, name, directory, Content::Bytes(vec![byte; 9_000])).unwrap();
    }
    let first = [&b"/d/c"[..], b"/d/none", b"d/a", b"/d/c"].map(<[u8]>::to_vec).to_vec();
    let image = |first| {
        let settings = Settings { first, ..Settings::default() };
        open(&built(&tree, &settings).image, Options::default()).unwrap()
    };
    let (plain, sorted) = (image(Vec::new()), image(first));
    let order = |image: &dyn Image| {
        let start = |name: &str| {
            image.locate(super::find(image, &format!("d/{name}")), 0).unwrap().raw.start
        };
        let mut names = ["a", "b", "c", "d"];
        names.sort_by_key(|name| start(name));
        names.concat()
    };
    assert_eq!((order(&*plain), order(&*sorted)), ("abcd".to_owned(), "cabd".to_owned()));
    assert_eq!(in_image(&*plain), in_image(&*sorted));
}

#[test]
fn equal_contents_are_at_the_same_place() {
    for big_endian in ORDERS {
        for stored in [false, true] {
            let settings = Settings { big_endian, stored, holes: true, ..Settings::default() };
            let image = open(&small_image(&settings), Options::default()).unwrap();
            let place = |path| image.locate(super::find(image.as_ref(), path), 0).unwrap();
            assert_eq!(place("text"), place("d/same"));
            assert_ne!(place("text"), place("d/two"));
        }
    }
}

#[test]
fn a_file_of_16_mib_less_one_byte_is_the_largest() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large");
    let file = fs::File::create(&path).unwrap();
    file.set_len((16 << 20) - 1).unwrap();
    for at in [0, 4095, 8_000_000, (16 << 20) - 2] {
        file.write_all_at(b"x", at).unwrap();
    }
    let settings = Settings { level: 1, ..Settings::default() };
    let image = built(&Tree::scan(directory.path()).unwrap(), &settings).image;
    let opened = open(&image, Options::default()).unwrap();
    assert!(content(opened.as_ref(), "large").unwrap() == fs::read(&path).unwrap());
    file.set_len(16 << 20).unwrap();
    let tree = Tree::scan(directory.path()).unwrap();
    let refused = super::write(&tree, &settings, &mut |_| {}).unwrap_err().to_string();
    assert_eq!(refused, "/large: a file has 16777215 bytes at most");
    let lossy = built(&tree, &Settings { lossy: true, ..settings });
    assert_eq!(lossy.warnings, ["1 files cut to 16777215 bytes; first: /large"]);
    assert!(lossy.image == image);
}

#[test]
fn what_does_not_fit_is_an_error_or_left_out() {
    let fits: [(&[u8], Content); 4] = [
        (&[b'n'; 252], Content::Fifo),
        (b"device", Content::CharDevice(255, 255)),
        (b"link", Content::Link(vec![b'x'; 4095])),
        (b"short", Content::Link(vec![b'x'])),
    ];
    let too_large: [(&[u8], Content, &str); 5] = [
        (&[b'n'; 253], Content::Fifo, "a name has 252 bytes at most"),
        (b"device", Content::CharDevice(259, 0), "255 at most"),
        (b"device", Content::BlockDevice(0, 256), "255 at most"),
        (b"link", Content::Link(vec![b'x'; 4096]), "1 to 4095 bytes"),
        (b"link", Content::Link(Vec::new()), "1 to 4095 bytes"),
    ];
    let tree_of = |name: &[u8], content: Content| {
        let mut tree = Tree::new(Attributes::default());
        tree.add(tree.root(), name, Attributes::default(), content).unwrap();
        tree
    };
    let lossy = Settings { lossy: true, ..Settings::default() };
    for (name, content) in fits {
        let written = built(&tree_of(name, content), &Settings::default());
        assert_eq!((written.files, written.warnings.len()), (2, 0));
        let image = open(&written.image, Options::default()).unwrap();
        assert!(image.lookup(image.root(), name).unwrap().is_some());
    }
    for (name, content, why) in too_large {
        let tree = tree_of(name, content);
        let refused = super::write(&tree, &Settings::default(), &mut |_| {}).unwrap_err();
        assert!(matches!(refused, WriteError::Limit { .. }) && refused.to_string().contains(why));
        let written = built(&tree, &lossy);
        assert_eq!((written.files, written.warnings.len()), (1, 1));
    }
}

/// A program of the owner 65536 became one of root, with set-user-id, and nothing was refused.
#[test]
fn owners_and_groups_that_do_not_fit_are_refused_or_cut_without_what_they_allow() {
    let mut tree = Tree::new(Attributes { permissions: 0o755, uid: 65_535, gid: 255 });
    assert_eq!(built(&tree, &Settings::default()).warnings, [""; 0]);
    let file = |uid, gid| Attributes { permissions: 0o6755, uid, gid };
    for (name, attributes) in [("a", file(65_536, 44)), ("b", file(7, 300)), ("c", file(7, 44))] {
        tree.add(tree.root(), name.as_bytes(), attributes, Content::Bytes(vec![])).unwrap();
    }
    let refused = super::write(&tree, &Settings::default(), &mut |_| {}).unwrap_err().to_string();
    assert_eq!(refused, "/a: its owner is 65536, and the format has 65535 at most");
    let written = built(&tree, &Settings { lossy: true, ..Settings::default() });
    let warnings = [
        "1 groups cut to 8 bits, without set-group-id; first: /b",
        "1 owners cut to 16 bits, without set-user-id; first: /a",
    ];
    assert_eq!(written.warnings, warnings);
    let image = open(&written.image, Options::default()).unwrap();
    for (name, uid, gid, permissions) in
        [("a", 0, 44, 0o2755), ("b", 7, 44, 0o4755), ("c", 7, 44, 0o6755)]
    {
        let node = image.node(super::find(image.as_ref(), name)).unwrap();
        assert_eq!((node.uid, node.gid, node.permissions), (uid, gid, permissions), "{name}");
    }
}

#[test]
fn what_the_format_does_not_keep_of_a_file_is_refused_or_told() {
    use rustix::fs::XattrFlags;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "content").unwrap();
    let said = |lossy| {
        let tree = Tree::scan(directory.path()).unwrap();
        let settings = Settings { lossy, ..Settings::default() };
        let written = super::write(&tree, &settings, &mut |_| {});
        written.map(|written| written.warnings).map_err(|error| error.to_string())
    };
    assert_eq!(said(false), Ok(vec![]));
    // A list of rights for one more user, and the right to bind any port.
    let acl = "02000000 01000600ffffffff 0200040007000000 04000400ffffffff 10000400ffffffff \
               20000400ffffffff";
    let capability = "0100000200040000 0000000000000000 00000000";
    let lost = "the format cannot hold its";
    for (name, value, refusal, warning) in [
        ("user.x", "00", "extended attributes", "nodes without their extended attributes"),
        (
            "system.posix_acl_access",
            acl,
            "access control list",
            "nodes without their access control lists",
        ),
        ("security.capability", capability, "capabilities", "files without their capabilities"),
    ] {
        let digits: Vec<u8> = value.bytes().filter(|byte| *byte != b' ').collect();
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        let value: Vec<u8> = digits.chunks(2).map(byte).collect();
        if let Err(error) = rustix::fs::setxattr(&path, name, &value, XattrFlags::empty()) {
            eprintln!("skip: {name} of a file: {error}");
            continue;
        }
        assert_eq!(said(false), Err(format!("/file: {lost} {refusal}")));
        assert_eq!(said(true), Ok(vec![format!("1 {warning}; first: /file")]));
        rustix::fs::removexattr(&path, name).unwrap();
    }
    fs::hard_link(&path, directory.path().join("other")).unwrap();
    assert!(said(false).unwrap_err().contains("further names of a file"));
    assert_eq!(said(true).unwrap().len(), 1);
}

#[test]
fn settings_have_their_ranges() {
    let tree = Tree::new(Attributes::default());
    let with = |change: &dyn Fn(&mut Settings)| {
        let mut settings = Settings::default();
        change(&mut settings);
        super::write(&tree, &settings, &mut |_| {}).map_err(|error| error.to_string())
    };
    for level in [1, 12] {
        assert!(with(&|settings| settings.level = level).is_ok());
    }
    for level in [0, 13] {
        assert!(with(&|settings| settings.level = level).unwrap_err().starts_with("level: "));
    }
    assert!(with(&|settings| settings.name = vec![b'x'; 16]).is_ok());
    assert!(with(&|settings| settings.name = vec![b'x'; 17]).unwrap_err().starts_with("name: "));
}

#[test]
fn a_file_that_shrinks_meanwhile_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, b"12345").unwrap();
    let tree = Tree::scan(directory.path()).unwrap();
    fs::write(&path, b"1234").unwrap();
    let error = super::write(&tree, &Settings::default(), &mut |_| {}).unwrap_err().to_string();
    assert!(
        error.ends_with("file' became shorter than its 5 bytes while it was packed"),
        "{error}"
    );
    fs::remove_file(&path).unwrap();
    let error = super::write(&tree, &Settings::default(), &mut |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("cannot read ") && error.contains("file': No such file"), "{error}");
}
