//! A file system of our own: an image, a loop device, two ways to mount it.
//!
//! Everything that is changed outside of the directory is found again from what the directory
//! holds: mounts by their place below it, the loop device by its image, the device's knobs by
//! their journal. So one [`clean`] serves the end of a run, its failure, and the next start after
//! a run that was killed.
//!
//! ```text
//! forebay-fidelity/lock       held while a run lives
//!                  image      the ext4 file system, sparse
//!                  knobs      old values of the device's knobs, written before the first change
//!                  files/     where the image is mounted
//!                  tracing/   where tracefs is mounted
//! ```

use std::fmt::Display;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use forebay_core::units::PAGE_SIZE;

use crate::process::{run, text};

use super::script::FILES;

/// How the image is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mount {
    /// With the defaults; Linux 6.18 caches its files in large folios.
    Ordered,
    /// With data journaling, whose files are cached in single pages.
    Journal,
}

impl Mount {
    pub(super) const ALL: [Self; 2] = [Self::Ordered, Self::Journal];

    /// The mount option.
    pub(super) const fn option(self) -> &'static str {
        match self {
            Self::Ordered => "data=ordered",
            Self::Journal => "data=journal",
        }
    }
}

/// The directory and what hangs on it; taken away when dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    directory: PathBuf,
    /// The name of the loop device.
    device: String,
    keep: bool,
    _lock: File,
}

impl Scratch {
    /// Cleans up after an earlier run and makes the image with its files.
    pub(super) fn new(keep: bool) -> Result<Self> {
        let directory = std::env::temp_dir().join(NAME);
        let lock = lock(&directory)?;
        clean(&directory)?;
        let mut scratch = Self { directory, device: String::new(), keep, _lock: lock };
        for place in [scratch.files(), scratch.tracing()] {
            fs::create_dir(&place).with_context(|| format!("cannot make {}", place.display()))?;
        }
        scratch.make_image()?;
        Ok(scratch)
    }

    /// Mounts the image in the given way instead of the last.
    pub(super) fn mount(&self, mount: Mount) -> Result<()> {
        unmount_below(&self.files())?;
        let options = format!("noatime,{}", mount.option());
        let device = format!("/dev/{}", self.device);
        run("mount", &["-t", "ext4", "-o", &options, &device, &text(&self.files())?])?;
        Ok(())
    }

    /// Sets the limits of readahead; descriptors that are opened afterwards have them.
    pub(super) fn set_limits(&self, ra_pages: u64, io_pages: u64) -> Result<()> {
        let kib = PAGE_SIZE / 1024;
        // A change of the request size may change the readahead limit, so that comes last.
        for (knob, pages) in KNOBS.into_iter().zip([io_pages, ra_pages]) {
            let path = self.knob(knob);
            let value = (pages * kib).to_string();
            let problem = || format!("cannot write {value} to {}", path.display());
            fs::write(&path, &value).with_context(problem)?;
            let found = fs::read_to_string(&path)?;
            ensure!(found.trim() == value, "{} took {value} for {found}", path.display());
        }
        Ok(())
    }

    /// The path of one of the [`FILES`].
    pub(super) fn file(&self, index: usize) -> PathBuf {
        self.files().join(format!("file{index}"))
    }

    /// Where tracefs may be mounted.
    pub(super) fn tracing(&self) -> PathBuf {
        self.directory.join("tracing")
    }

    fn make_image(&mut self) -> Result<()> {
        let image = self.directory.join("image");
        File::create_new(&image)?.set_len(IMAGE_BYTES)?;
        let image = text(&image)?;
        // Tables that are written later would add I/O to that which is observed.
        let now = "lazy_itable_init=0,lazy_journal_init=0";
        run("mkfs.ext4", &["-q", "-F", "-b", "4096", "-E", now, &image])?;
        let device = run("losetup", &["--find", "--show", &image])?;
        self.device = device.trim().trim_start_matches("/dev/").into();
        self.journal_knobs()?;
        self.mount(Mount::Ordered)?;
        for (index, &bytes) in FILES.iter().enumerate() {
            let mut file = File::create_new(self.file(index))?;
            std::io::copy(&mut std::io::Read::take(std::io::repeat(b'f'), bytes), &mut file)?;
            file.sync_all()?;
        }
        Ok(())
    }

    fn journal_knobs(&self) -> Result<()> {
        let mut journal = File::create_new(self.directory.join("knobs"))?;
        for knob in KNOBS {
            let path = self.knob(knob);
            let value = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            writeln!(journal, "{} {}", path.display(), value.trim())?;
        }
        journal.sync_all()?;
        Ok(())
    }

    fn knob(&self, knob: &str) -> PathBuf {
        Path::new("/sys/block").join(&self.device).join("queue").join(knob)
    }

    fn files(&self) -> PathBuf {
        self.directory.join("files")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.keep {
            eprintln!("kept {}, which the next run takes away", self.directory.display());
        } else if let Err(error) = clean(&self.directory) {
            eprintln!("warning: left {} behind: {error:#}", self.directory.display());
        } else if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("warning: left {} behind: {error}", self.directory.display());
        }
    }
}

/// The programs that are missing here.
pub(super) fn missing_programs() -> Vec<&'static str> {
    let missing = |program: &&str| Command::new(program).arg("--version").output().is_err();
    ["losetup", "mkfs.ext4", "mount", "umount"].into_iter().filter(missing).collect()
}

/// Makes the directory if it is missing and locks it, waiting for the run that has it.
fn lock(directory: &Path) -> Result<File> {
    let path = directory.join("lock");
    loop {
        let made = fs::DirBuilder::new().mode(0o700).create(directory);
        let found = fs::symlink_metadata(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let ours = found.is_dir() && found.uid() == 0;
        ensure!(made.is_ok() || ours, "{} belongs to another user", directory.display());
        let lock = match File::create(&path) {
            // The run that had it took the directory away in between.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            lock => lock?,
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                eprintln!("waiting for the run that uses {}", directory.display());
                lock.lock()?;
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        // The run before may have removed the directory while this one waited.
        let still_there = fs::metadata(&path)
            .is_ok_and(|found| lock.metadata().is_ok_and(|locked| locked.ino() == found.ino()));
        if still_there {
            return Ok(lock);
        }
    }
}

/// Unmounts and detaches everything, resets the knobs, empties the directory.
fn clean(directory: &Path) -> Result<()> {
    super::trace::remove_instance(&directory.join("tracing"));
    unmount_below(directory)?;
    let image = text(&directory.join("image"))?;
    let knobs = fs::read_to_string(directory.join("knobs")).unwrap_or_default();
    for (path, value) in knobs.lines().filter_map(|line| line.split_once(' ')) {
        // The device's number may have another user by now.
        if backs(Path::new(path), &image) {
            fs::write(path, value).with_context(|| format!("cannot set back {path}"))?;
        }
    }
    let attached = run("losetup", &["--noheadings", "--output", "NAME", "--associated", &image])?;
    for device in attached.lines() {
        run("losetup", &["--detach", device.trim()])?;
    }
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            // Not with its content: a mount that is still there must not be emptied.
            fs::remove_dir(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        } else if !path.ends_with("lock") {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Whether a knob of a block device's queue belongs to the loop device of our image.
fn backs(knob: &Path, image: &str) -> bool {
    let device = knob.parent().and_then(Path::parent);
    let file = device.map(|device| fs::read_to_string(device.join("loop/backing_file")));
    matches!(file, Some(Ok(file)) if file.trim_end() == image)
}

/// Unmounts everything at `place` or below, last mounted first.
fn unmount_below(place: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    for line in mounts.lines().rev() {
        let target = line.split(' ').nth(1).unwrap_or("");
        if Path::new(target).starts_with(place) {
            run("umount", &[target]).map_err(as_problem)?;
        }
    }
    Ok(())
}

fn as_problem(error: impl Display) -> anyhow::Error {
    anyhow::anyhow!("cannot unmount: {error}")
}

/// The directory's name in the directory for temporary files.
const NAME: &str = "forebay-fidelity";

/// The device's knobs, in the order in which they must be written.
const KNOBS: [&str; 2] = ["max_sectors_kb", "read_ahead_kb"];

/// Four times the files, because data journaling writes everything twice.
const IMAGE_BYTES: u64 = 768 << 20;
