//! erofs: what mkfs.erofs writes is read back as it was.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use forebay_image::{FileSource, Image, Node, NodeId, Options, Result, Source, erofs, read_at};

use crate::squashfs_tree::{compare, full_tree, noise, scratch, text};

/// What the installed mkfs.erofs says that it can do; none, with a word on stderr, without it.
fn abilities() -> Option<String> {
    match Command::new("mkfs.erofs").arg("--help").output() {
        Ok(said) => Some(String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into()),
        Err(error) => {
            eprintln!(
                "skip: images of erofs: no mkfs.erofs ({error}); apt-get install erofs-utils"
            );
            None
        }
    }
}

/// Makes an image of a tree, and opens it.
fn make(tree: &Path, image: &Path, options: &str) -> Arc<dyn Image> {
    // Its cache of file contents is not cleared for an image that exists.
    let _none = fs::remove_file(image);
    let made = Command::new("mkfs.erofs")
        .args(options.split_whitespace())
        .args([image, tree])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{options}: {said}");
    let source: Arc<dyn Source> = Arc::new(FileSource::open(image).unwrap());
    open(&source).unwrap()
}

fn open(source: &Arc<dyn Source>) -> Result<Arc<dyn Image>> {
    Ok(erofs::open(source, Options::default())?.expect("an erofs"))
}

fn find(image: &dyn Image, path: &str) -> NodeId {
    path.split('/').fold(image.root(), |id, name| {
        image.lookup(id, name.as_bytes()).unwrap().unwrap_or_else(|| panic!("no {name} of {path}"))
    })
}

fn node(image: &dyn Image, path: &str) -> Node {
    image.node(find(image, path)).unwrap()
}

/// Files in whose clusters everything can happen: long runs, noise, noise between text, repeats.
fn clusters(root: &Path) {
    let put = |name: &str, parts: &[&[u8]]| fs::write(root.join(name), parts.concat()).unwrap();
    let (text, noise) = (text(11, 3 << 20), noise(12, 1 << 20));
    put("long text", &[&text]);
    put("long noise", &[&noise]);
    put("zeros", &[&vec![0; 5 << 20]]);
    put("text, noise", &[&text[..777_777], &noise[..55_555], &text[..33_333]]);
    put("noise, text", &[&noise[..1234], &text[..99_999]]);
    put("noise end", &[&text[..70_000], &noise[..3000]]);
    put("text again", &[&noise[..500], &text[..600_000]]);
    put("same end", &[&noise[5000..9000], &text[3 * 4096..40_000]]);
    put("same end too", &[&noise[..100], &text[3 * 4096..40_000]]);
    for len in [1, 2, 511, 512, 513, 4095, 4096, 4097, 8191, 8192, 8193, 65_535, 65_536, 65_537] {
        put(&format!("text {len}"), &[&text[..len]]);
        put(&format!("noise {len}"), &[&noise[..len]]);
    }
}

/// Every option that both the oldest and the newest writer know.
const WRITERS: &[&str] = &[
    "",
    "-Eforce-inode-extended",
    "-Enosbcrc",
    "-Enoinline_data",
    "-x0",
    "-x10",
    "--chunksize=4096",
    "--chunksize=65536",
    "--chunksize=4096 -Eforce-inode-blockmap",
    "--chunksize=4096 -Eforce-chunk-indexes",
    "-zlz4",
    "-zlz4hc",
    "-zlz4hc,12 -C65536",
    "-zlz4hc -C1048576",
    "-zlz4 -Elegacy-compress",
    "-zlz4 -C65536 -Elegacy-compress",
    "-zlz4 -Eztailpacking",
    "-zlz4 -Eztailpacking,legacy-compress",
    "-zlz4 -C65536 -Eztailpacking",
    "-zlz4 -Efragments",
    "-zlz4 -C65536 -Efragments",
    "-zlz4 -Efragments,ztailpacking",
    "-zlz4 -Efragments,legacy-compress",
    "-zlz4hc -Eall-fragments",
    "-zlz4hc -C65536 -Eall-fragments,dedupe",
    "-zlz4 -Ededupe",
    "-zlz4 -C16384 -Ededupe,ztailpacking",
    "-zlz4 --max-extent-bytes=8192",
];

/// More options, of writers that have all codecs.
const NEWER_WRITERS: &[&str] = &[
    "-b512 -zlz4",
    "-b1024 -zlz4hc -C8192",
    "-b4096 --dsunit=16",
    "-zlzma",
    "-zlzma -C65536 -Efragments",
    "-zlzma,level=9,dictsize=65536 -C1048576 -Eztailpacking",
    "-zlzma -C65536 -Ededupe",
    "-zlzma,lc=0,lp=2,pb=1 -Eall-fragments",
    "-zdeflate",
    "-zdeflate,level=9 -C65536 -Efragments",
    "-zdeflate -Eztailpacking,dedupe",
    "-zlibdeflate,level=12 -C1048576",
    "-zzstd",
    "-zzstd,level=22 -C1048576 -Efragments",
    "-zzstd -C65536 -Eztailpacking,dedupe",
    "-zzstd -Eall-fragments,fragdedupe=inode",
    "-zlz4:lzma:zstd -C16384",
    "-zlz4 -E48bit",
    "-zlz4hc -E48bit -C65536",
    "-zzstd -E48bit -C65536",
    "-zzstd -E48bit,dedupe -C65536",
    "-zlz4 -E48bit,fragments -C65536",
    "-zlz4 -E48bit -b512 --chunksize=4096",
    "-E48bit",
    "-E48bit --chunksize=4096 --ignore-mtime --all-time",
    "--zD=1 -zzstd -C65536",
    "-m4096:zstd -zlz4",
    "-m16384:lzma --MZ=i -zlz4 -C16384",
    "-m16384:lz4 --MZ=id --zD=1 -zlz4 -C65536 -Eztailpacking",
    "-m4096:lz4 --MZ=i -zlz4 -x0 --chunksize=4096",
    "-m4096:zstd --MZ=id -E48bit",
    "--xattr-prefix=user.sha --xattr-prefix=user.or -Exattr-name-filter",
    "--xattr-prefix=user.or -zlz4 -Efragments",
    "--xattr-prefix=user.or -zlz4 -Efragments,plain-xattr-prefixes",
];

#[test]
fn every_option_of_the_writer_gives_the_tree_back() {
    let Some(abilities) = abilities() else { return };
    let place = scratch();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    full_tree(&tree, 4096);
    clusters(&tree);
    let newer = abilities.contains("lzma").then_some(NEWER_WRITERS).unwrap_or_default();
    for options in WRITERS.iter().chain(newer) {
        if std::env::var("DEV").is_ok() {
            let one = std::panic::catch_unwind(|| {
                let image = make(&tree, &place.path().join("image"), options);
                compare_with(&tree, image.as_ref(), options);
            });
            if one.is_err() {
                let _ = fs::copy(
                    place.path().join("image"),
                    format!("/var/tmp/erofs/bad{}", options.replace([' ', '/'], "_")),
                );
            }
            continue;
        }
        let image = make(&tree, &place.path().join("image"), options);
        compare_with(&tree, image.as_ref(), options);
        image.verify().unwrap();
    }
}

fn compare_with(tree: &Path, image: &dyn Image, options: &str) {
    eprintln!("{options}: {:?}", image.summary().details);
    if options.contains("--ignore-mtime") {
        return;
    }
    compare(tree, image, !options.contains("-x-1"));
}
