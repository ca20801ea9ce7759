//! Extraction compared with `unsquashfs -p 2` and `fsck.erofs --extract`, a long listing, and a
//! scan.
//!
//! Ours and theirs take turns; a row has the medians of their times and of the ratios, and that of
//! the ratios of processor time, which other load on the machine changes least.
//! The tree is of this machine: /usr/share/doc and /usr/bin, or what `FOREBAY_BENCH_TREE` names.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is its own program")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use forebay_image::extract::{Settings, extract};
use forebay_image::scan::scan;
use forebay_image::walk::{Limits, Tree};
use forebay_image::{FileSource, Options, Source, open};

/// Turns of each row.
const TURNS: usize = 5;
/// Bytes that are scanned.
const SCANNED: usize = 512 << 20;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let scratch = tempfile::Builder::new().prefix("forebay-bench").tempdir_in("/var/tmp")?;
    let trees = match std::env::var_os("FOREBAY_BENCH_TREE") {
        Some(tree) => vec![PathBuf::from(tree)],
        None => ["/usr/share/doc", "/usr/bin"].map(PathBuf::from).to_vec(),
    };
    println!("{:<32} {:>8} {:>8} {:>7} {:>9}", "row", "ours s", "theirs s", "ratio", "cpu ratio");
    for (name, maker, unpacker) in [
        ("squashfs zstd", &["mksquashfs", "-comp", "zstd", "-quiet", "-no-progress"][..], SQUASHFS),
        ("squashfs gzip", &["mksquashfs", "-comp", "gzip", "-quiet", "-no-progress"], SQUASHFS),
        ("erofs lz4", &["mkfs.erofs", "-zlz4"], EROFS),
        ("erofs plain", &["mkfs.erofs"], EROFS),
    ] {
        for tree in &trees {
            let image = scratch.path().join("image");
            let _ = fs::remove_file(&image);
            if !make(maker, tree, &image) {
                eprintln!("skip: {name}: no {}", maker[0]);
                continue;
            }
            let row = format!("{name} {}", tree.display());
            compare(&row, &image, scratch.path(), unpacker)?;
        }
    }
    scan_noise()
}

const SQUASHFS: &[&str] = &["unsquashfs", "-p", "2", "-q", "-n", "-d"];
const EROFS: &[&str] = &["fsck.erofs"];

/// Makes an image; returns whether the tool is there.
fn make(maker: &[&str], tree: &Path, image: &Path) -> bool {
    let mut command = Command::new(maker[0]);
    if maker[0] == "mksquashfs" {
        command.args([tree, image]).args(&maker[1..]);
    } else {
        command.args(&maker[1..]).args([image, tree]);
    }
    let made = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    made.is_ok_and(|status| status.success())
}

fn compare(row: &str, image: &Path, scratch: &Path, unpacker: &[&str]) -> Result<(), Failure> {
    let [mut ours, mut theirs, mut ratios, mut cpu_ratios] = [const { Vec::new() }; 4];
    let target = scratch.join("out");
    for turn in 0..=TURNS {
        let (started, used) = (Instant::now(), ticks()?.0);
        let source: Arc<dyn Source> = Arc::new(FileSource::open(image)?);
        let image_open = open(&source, Options::default())?;
        let tree = Tree::whole(&*image_open, Limits::default());
        let owners = rustix::process::geteuid().is_root();
        let settings = Settings { threads: 2, owners, replace: false, safe: false };
        extract(&*image_open, tree, &target, settings, &|_| {})?;
        let (our, our_ticks) = (started.elapsed().as_secs_f64(), ticks()?.0 - used);
        fs::remove_dir_all(&target)?;
        let mut command = Command::new(unpacker[0]);
        if unpacker[0] == "fsck.erofs" {
            command.arg(format!("--extract={}", target.display())).arg(image);
        } else {
            command.args(&unpacker[1..]).args([target.as_path(), image]);
        }
        let (started, used) = (Instant::now(), ticks()?.1);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        let (their, their_ticks) = (started.elapsed().as_secs_f64(), ticks()?.1 - used);
        if !status.success() {
            return Err(format!("{} failed: {status}", unpacker[0]).into());
        }
        fs::remove_dir_all(&target)?;
        // The first turn warms the caches.
        if turn > 0 {
            ours.push(our);
            theirs.push(their);
            ratios.push(our / their);
            cpu_ratios.push(our_ticks / their_ticks);
        }
    }
    let [ours, theirs, ratio, cpu] = [ours, theirs, ratios, cpu_ratios].map(median);
    println!("{row:<32} {ours:>8.3} {theirs:>8.3} {ratio:>7.2} {cpu:>9.2}");
    Ok(())
}

/// Ticks of processor time of this process, and of its children that have ended (proc(5)).
fn ticks() -> Result<(f64, f64), Failure> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(") ").ok_or("no name in /proc/self/stat")?;
    let times: Vec<f64> = fields.split(' ').skip(11).take(4).flat_map(str::parse).collect();
    let [user, system, children_user, children_system] = times[..] else {
        return Err("no times in /proc/self/stat".into());
    };
    Ok((user + system, children_user + children_system))
}

fn scan_noise() -> Result<(), Failure> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = Vec::with_capacity(SCANNED);
    while noise.len() < SCANNED {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.extend(state.to_le_bytes());
    }
    let source: Arc<dyn Source> = Arc::new(noise);
    let mut rates = Vec::new();
    for _ in 0..TURNS {
        let started = Instant::now();
        scan(&source, &mut |_| {})?;
        rates.push(SCANNED as f64 / 1e9 / started.elapsed().as_secs_f64());
    }
    println!("scan of {SCANNED} bytes of noise in memory: {:.2} GB/s", median(rates));
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
