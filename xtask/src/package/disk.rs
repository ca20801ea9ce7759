//! A disk of our own: a file, a loop device, an ext4.
//!
//! ```text
//! check/image    the file, sparse
//!       files/   where the file system is mounted
//! ```
//!
//! It is found again by its file, so what a killed run has left is taken away by the next one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::process::{run, text};

/// The disk; taken away when dropped.
#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    /// `loop7`.
    name: String,
    /// `7:7`, by which the kernel names its knobs.
    number: String,
}

impl Disk {
    /// Makes it in `folder`, without what an earlier run has left there.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("no {}", folder.display()))?;
        clean(folder)?;
        let image = folder.join("image");
        File::create_new(&image)?.set_len(IMAGE_BYTES)?;
        let (name, number) = Default::default();
        // Before the device, so that it goes when a later step fails.
        let mut disk = Self { folder: folder.to_owned(), name, number };
        let device = run("losetup", &["--find", "--show", &text(&image)?])?;
        let device = device.trim();
        disk.name = device.trim_start_matches("/dev/").to_owned();
        ensure!(disk.name.starts_with("loop"), "losetup made {device}");
        let number = fs::read_to_string(Path::new("/sys/block").join(&disk.name).join("dev"))?;
        disk.number = number.trim().to_owned();
        run("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0", device])?;
        fs::create_dir(disk.files())?;
        run("mount", &[device, &text(&disk.files())?])?;
        Ok(disk)
    }

    /// `loop7`.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// `7:7`.
    pub(super) fn number(&self) -> &str {
        &self.number
    }

    /// Makes dirty pages that stay dirty for longer than a look of a daemon takes.
    pub(super) fn burst(&self) -> Result<()> {
        // Calls of fsync show that more of them will wait for dirty data.
        for _ in 0..COMMITS {
            let log = File::create(self.files().join("log"))?;
            log.sync_all().context("cannot sync a file of our own disk")?;
        }
        // A new file each time: pages that are cut off before they are written are those of
        // temporary files, which have no limit.
        let number = fs::read_dir(self.files())?.count();
        let bytes = vec![b'f'; BURST_BYTES];
        fs::write(self.files().join(format!("burst{number}")), bytes)
            .context("cannot write to our own disk")
    }

    /// Its settings, by name.
    pub(super) fn knobs(&self) -> Vec<(String, String)> {
        knobs(&self.number)
    }

    fn files(&self) -> PathBuf {
        self.folder.join("files")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Err(error) = clean(&self.folder) {
            eprintln!("warning: left {} behind: {error:#}", self.folder.display());
        }
    }
}

/// The knobs of a backing device that forebay may write; none if there is no such device.
pub(super) fn knobs(number: &str) -> Vec<(String, String)> {
    let bdi = Path::new("/sys/class/bdi").join(number);
    let read = |knob: &&str| Some(((*knob).to_owned(), fs::read_to_string(bdi.join(knob)).ok()?));
    KNOBS.iter().filter_map(read).map(|(knob, value)| (knob, value.trim().to_owned())).collect()
}

/// Unmounts, detaches and removes what exists.
fn clean(folder: &Path) -> Result<()> {
    let (image, files) = (folder.join("image"), folder.join("files"));
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let place = text(&files)?;
    for _ in mounts.lines().filter(|line| line.split(' ').nth(1) == Some(&place)) {
        run("umount", &[&place])?;
    }
    if image.exists() {
        let of = ["--noheadings", "--output", "NAME", "--associated", &text(&image)?];
        for device in run("losetup", &of)?.lines() {
            run("losetup", &["--detach", device.trim()])?;
        }
        fs::remove_file(&image)?;
    }
    if files.exists() {
        // Not with its content: a mount that is still there must not be emptied.
        fs::remove_dir(&files).with_context(|| format!("cannot remove {place}"))?;
    }
    Ok(())
}

/// The shares are kept in two roundings; `max_bytes` and `min_bytes` follow free memory.
const KNOBS: &[&str] = &[
    "read_ahead_kb",
    "max_ratio",
    "max_ratio_fine",
    "min_ratio",
    "min_ratio_fine",
    "strict_limit",
];

/// Calls of fsync before a burst.
const COMMITS: u32 = 3;

/// Room for all bursts; the file is sparse.
const IMAGE_BYTES: u64 = 1 << 30;
const BURST_BYTES: usize = 32 << 20;
