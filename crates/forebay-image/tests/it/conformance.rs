//! Every image that a writer makes of a tree contains that tree, and so does its extraction.
//!
//! ```text
//!   source ──writer──> image ──extract──> extracted
//!      └────compare──────┘└──────compare──────┘
//! ```
//!
//! Images are also compared with the kernel's mount of them.

use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use forebay_image::compare::{Folder, Report, Side, compare};
use forebay_image::cramfs::write::{self, Settings as Made};
use forebay_image::extract::{Settings, extract};
use forebay_image::verify::{strict, verify};
use forebay_image::walk::{Limits, Tree};
use forebay_image::{FileSource, Image, Options, Source, shown};

use crate::kernel::Mounted;
use source::{Format, Scale};

mod source;

/// Threads of everything, so that more than one works at a tree.
const THREADS: usize = 3;

#[test]
fn mkfs_cramfs_with_each_of_its_options() {
    let options: [&[&str]; 5] = [&[], &["-p"], &["-z"], &["-N", "big"], &["-z", "-N", "big"]];
    for_each(Format::Cramfs, &options, |options, source, image| {
        let order = ["mkfs.cramfs", "util-linux"];
        run(order, Command::new("mkfs.cramfs").args(options).args([source, image]))
    });
}

#[test]
fn our_cramfs_with_each_of_its_settings() {
    let options: [&[&str]; 4] = [&[], &["big"], &["holes", "boot"], &["stored", "holes", "big"]];
    for_each(Format::Cramfs, &options, |options, source, image| {
        let has = |option| options.contains(&option);
        let settings = Made {
            big_endian: has("big"),
            boot: has("boot").then(|| Box::new([0; 512])),
            holes: has("holes"),
            stored: has("stored"),
            threads: NonZero::new(THREADS).unwrap(),
            // Owners and groups are in range, names too: nothing is lost but further names and
            // extended attributes.
            lossy: true,
            ..Made::default()
        };
        let tree = write::Tree::scan(source).unwrap();
        let written = write::write(&tree, &settings, &mut |_| {}).unwrap();
        std::fs::write(image, written.image).unwrap();
        true
    });
}

#[test]
fn mksquashfs_with_each_compressor_and_block_size() {
    let options: [&[&str]; 8] = [
        &[],
        &["-comp", "zstd"],
        &["-comp", "lz4"],
        &["-comp", "xz"],
        &["-comp", "lzo"],
        &["-b", "4K"],
        &["-b", "1M", "-comp", "zstd"],
        &["-comp", "lz4", "-Xhc", "-b", "8K"],
    ];
    for_each(Format::Squashfs, &options, mksquashfs);
}

#[test]
fn mksquashfs_with_each_way_to_lay_out() {
    let options: [&[&str]; 7] = [
        &["-no-fragments"],
        &["-always-use-fragments", "-b", "16K"],
        &["-no-duplicates"],
        &["-noI", "-noD", "-noF", "-noX", "-noId"],
        &["-no-exports", "-no-sparse"],
        &["-nopad", "-b", "4K"],
        &["-comp", "xz", "-Xbcj", "x86", "-b", "32K"],
    ];
    for_each(Format::Squashfs, &options, mksquashfs);
}

#[test]
fn mkfs_erofs_with_each_of_its_options() {
    let options: [&[&str]; 10] = [
        &["-zlz4"],
        &[],
        &["-zlz4hc"],
        &["-zlz4", "-C65536"],
        &["-zlz4hc,9", "-C16384", "-Eztailpacking"],
        &["-zlz4", "-Elegacy-compress"],
        &["-Enoinline_data", "-Eforce-inode-extended"],
        &["--chunksize=4096"],
        &["-zlz4", "-Efragments", "-C65536"],
        &["-zlz4", "-Ededupe"],
    ];
    for_each(Format::Erofs, &options, mkfs_erofs);
}

/// Some of the images below; `-- --ignored` takes all of them.
#[test]
fn the_kernel_shows_the_same_of_images_with_drawn_options() {
    by_the_kernel(9);
}

#[test]
#[ignore = "makes and mounts 200 images"]
fn the_kernel_shows_the_same_of_two_hundred_images() {
    assert!(by_the_kernel(1) >= 200 || !rustix::process::geteuid().is_root());
}

/// Makes one in `one_in` images of a small tree, with options in every combination. Returns how
/// many the kernel has mounted.
fn by_the_kernel(one_in: usize) -> usize {
    let folder = source::scratch();
    let image = folder.path().join("image");
    let mut mounted = 0;
    for (format, name) in [(Format::Squashfs, "squashfs"), (Format::Erofs, "erofs")] {
        let tree = folder.path().join(name);
        source::make(&tree, format, Scale::Small);
        let all = if format == Format::Squashfs { squashfs_options() } else { erofs_options() };
        for options in all.iter().step_by(one_in) {
            let made = match format {
                Format::Squashfs => mksquashfs(options, &tree, &image),
                Format::Erofs | Format::Cramfs => mkfs_erofs(options, &tree, &image),
            };
            if !made {
                continue;
            }
            if let Some(theirs) = Mounted::new(&image, name) {
                let file: Arc<dyn Source> = Arc::new(FileSource::open(&image).unwrap());
                let opened = forebay_image::open(&file, Options::default()).unwrap();
                beside(options, &*opened, &theirs.folder);
                mounted += 1;
            }
            std::fs::remove_file(&image).unwrap();
        }
    }
    mounted
}

/// Each compressor with each size of blocks and each way to lay out: 120.
fn squashfs_options() -> Vec<Vec<&'static str>> {
    let layouts: [&[&str]; 4] = [
        &[],
        &["-no-fragments", "-no-exports"],
        &["-always-use-fragments", "-no-duplicates"],
        &["-noI", "-noD", "-noF", "-noX", "-noId"],
    ];
    let mut all = Vec::new();
    for compressor in ["gzip", "zstd", "lz4", "xz", "lzo"] {
        for block in ["4K", "8K", "32K", "128K", "512K", "1M"] {
            let begin = ["-comp", compressor, "-b", block];
            all.extend(layouts.iter().map(|layout| [&begin[..], layout].concat()));
        }
    }
    all
}

/// Each compressor with each size of clusters, each feature, and large inodes or attributes in a
/// table, and files that are not compressed: 86.
fn erofs_options() -> Vec<Vec<&'static str>> {
    let features =
        ["-Elegacy-compress", "-Eztailpacking", "-Efragments", "-Ededupe", "-Eall-fragments"];
    let mut all: Vec<Vec<&str>> = Vec::new();
    for inode in ["-Eforce-inode-extended", "-x1"] {
        for codec in ["-zlz4", "-zlz4hc,9"] {
            for cluster in ["-C4096", "-C8192", "-C16384", "-C65536"] {
                all.extend(features.iter().map(|feature| vec![codec, cluster, feature, inode]));
            }
        }
        for plain in ["-Enoinline_data", "--chunksize=4096", "--chunksize=65536"] {
            all.push(vec![plain, inode]);
        }
    }
    all
}

/// Takes minutes without optimisation: `cargo test --release -p forebay-image -- --ignored`.
#[test]
#[ignore = "compares files of 4 GiB"]
fn a_file_of_more_than_4_gib() {
    let folder = source::scratch();
    let tree = folder.path().join("source");
    source::huge(&tree);
    let squashfs = folder.path().join("squashfs");
    if mksquashfs(&[], &tree, &squashfs) {
        same(&["squashfs"], &tree, &squashfs, folder.path());
    }
    let erofs = folder.path().join("erofs");
    if mkfs_erofs(&["-zlz4"], &tree, &erofs) {
        same(&["erofs"], &tree, &erofs, folder.path());
    }
}

fn mksquashfs(options: &[&str], source: &Path, image: &Path) -> bool {
    let mut program = Command::new("mksquashfs");
    program.args([source, image]).args(["-noappend", "-quiet", "-no-progress"]).args(options);
    run(["mksquashfs", "squashfs-tools"], &mut program)
}

fn mkfs_erofs(options: &[&str], source: &Path, image: &Path) -> bool {
    let order = ["mkfs.erofs", "erofs-utils"];
    run(order, Command::new("mkfs.erofs").args(options).args([image, source]))
}

/// A large tree with the first options, a small one with each of the others.
fn for_each(format: Format, options: &[&[&str]], make: impl Fn(&[&str], &Path, &Path) -> bool) {
    let group = rustix::process::getegid().as_raw();
    if format == Format::Cramfs && !rustix::process::geteuid().is_root() && group > 255 {
        eprintln!("skip: conformance of cramfs needs root, or a group below 256, not {group}");
        return;
    }
    let folder = source::scratch();
    let (large, small) = (folder.path().join("large"), folder.path().join("small"));
    source::make(&large, format, Scale::Large);
    source::make(&small, format, Scale::Small);
    for (number, options) in options.iter().enumerate() {
        let image = folder.path().join("image");
        let source = if number == 0 { &large } else { &small };
        if make(options, source, &image) {
            same(options, source, &image, folder.path());
            std::fs::remove_file(&image).unwrap();
        }
    }
}

/// Runs a writer: false, with a message on stderr, if it is missing or lacks the option.
fn run([program, package]: [&str; 2], command: &mut Command) -> bool {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skip: conformance needs {program} ({error}); apt-get install {package}");
            return false;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return true;
    }
    let lacks = ["invalid", "unsupported", "not supported", "unrecognized", "unknown"];
    let line = said.lines().next().unwrap_or_default();
    assert!(lacks.iter().any(|word| said.to_lowercase().contains(word)), "{command:?}: {said}");
    eprintln!("skip: {command:?}: {line}");
    false
}

/// The image is sound and equal to its source and to its extraction.
fn same(options: &[&str], source: &Path, image: &Path, folder: &Path) {
    let file: Arc<dyn Source> = Arc::new(FileSource::open(image).unwrap());
    let opened = forebay_image::open(&file, Options::default()).unwrap();
    let image = &*opened;
    let tree = || Tree::whole(image, Limits::default());
    let verified = verify(image, tree(), THREADS, &|_| {});
    assert!(verified.damage.is_empty(), "{options:?}: {}", verified.damage[0]);
    let findings = strict(image, &tree()).unwrap();
    assert!(findings.is_empty(), "{options:?}: {}", findings[0]);
    beside(options, image, source);

    let target = folder.join("extracted");
    let owners = rustix::process::geteuid().is_root();
    let settings = Settings { threads: THREADS, owners, replace: false, safe: false };
    let report = extract(image, tree(), &target, settings, &|_| {}).unwrap();
    assert!(report.failed.is_empty(), "{options:?}: {}", report.failed[0]);
    assert!(report.skipped.is_empty(), "{options:?}: {}", report.skipped[0]);
    beside(options, image, &target);
    std::fs::remove_dir_all(&target).unwrap();
}

fn beside(options: &[&str], image: &dyn Image, folder: &Path) {
    let tree = Tree::whole(image, Limits::default());
    let folder = Folder::open(folder, Limits::default()).unwrap();
    assert!(folder.tree().faults.is_empty(), "{}", folder.tree().faults[0]);
    let (first, second) = (Side::Image(image, &tree), Side::Folder(&folder));
    let report: Report = compare(first, second, first.kept(), THREADS, &|_| {});
    let line = |(path, difference): &(Vec<u8>, forebay_image::compare::Difference)| {
        format!("/{}: {} {}", shown(path), difference.kind(), difference.detail())
    };
    let lines: Vec<String> = report.differences.iter().take(10).map(line).collect();
    assert!(lines.is_empty(), "{options:?}: {lines:#?}");
    assert_eq!(report.names, folder.tree().items().len() as u64);
}
