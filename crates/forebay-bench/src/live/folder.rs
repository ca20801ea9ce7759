//! The folder of a run, and what runs that were killed have left.
//!
//! ```text
//! DIR/forebay-bench-live-PID/lock      held while the run lives
//!                            devices   numbers of loop devices, written before they are made
//!                            ram/      memory that holds the disks and the tuner's journal
//!                            served/   the same behind a rate and a latency
//!                            at/       the file system that programs work in
//!                            debug/    debugfs
//! ```
//!
//! Mounts are in a namespace that ends with the run, and with them a loop device loses its file.
//! The device itself stays in the kernel, and the folder on its disk; the next run finds both by
//! the folder's name, and takes them away if the lock is free.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use forebay_report::messages;

use crate::measure::live::LoopDevice;
use crate::process::{Stop, answer, program};

/// A folder that is removed at the end of its run.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder, and removes those that earlier runs have left in the same place.
    pub(super) fn new(work: &Path) -> Result<Self> {
        let shown = work.display();
        let work = work.canonicalize().with_context(|| format!("--work {shown}"))?;
        let listed = fs::read_dir(&work).with_context(|| format!("--work {shown}"))?;
        for entry in listed {
            let entry = entry?;
            let name = entry.file_name();
            let is_ours = name.to_str().and_then(|name| name.strip_prefix(NAME));
            if is_ours.is_some_and(|number| number.parse::<u32>().is_ok()) {
                clear_left(&entry.path())?;
            }
        }
        let path = work.join(format!("{NAME}{}", std::process::id()));
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        let lock = File::create_new(path.join("lock"))?;
        lock.try_lock().context("no other process knows the folder yet")?;
        for name in ["ram", "served", "at", "debug"] {
            fs::create_dir(path.join(name))?;
        }
        Ok(Self { path, _lock: lock })
    }

    /// A place in it.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes a loop device; its number is recorded before the device exists.
    pub(super) fn add_device(&self) -> Result<LoopDevice> {
        for _ in 0..TRIES {
            let device = LoopDevice::unused();
            let mut record =
                OpenOptions::new().create(true).append(true).open(self.join("devices"))?;
            writeln!(record, "{}", device.number())?;
            record.sync_all()?;
            match device.add() {
                // Another process was faster; then it must not be removed here.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => self.forget()?,
                made => {
                    made.context("cannot make a loop device")?;
                    return Ok(device);
                }
            }
        }
        anyhow::bail!("other processes take every loop device that is free")
    }

    /// No device is left.
    pub(super) fn forget(&self) -> Result<()> {
        fs::remove_file(self.join("devices")).context("cannot remove the record of devices")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Otherwise the contents of file systems still mounted below it would be deleted.
        if let Err(error) = remove(&self.path) {
            messages::note(&format!("{} stays: {error:#}", self.path.display()));
        }
    }
}

/// Removes the folder of a finished run, and its devices.
fn clear_left(folder: &Path) -> Result<()> {
    let path = folder.join("lock");
    if let Ok(lock) = File::open(&path) {
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(()),
            Err(TryLockError::Error(error)) => {
                return Err(error).context(path.display().to_string());
            }
        }
    }
    let record = fs::read_to_string(folder.join("devices")).unwrap_or_default();
    for number in record.lines().filter_map(|line| line.parse().ok()) {
        let device = LoopDevice::of(number);
        if !device.sysfs().exists() {
            continue;
        }
        // One with another file belongs to another process by now. Of ours only the name is left:
        // its mount ended with the run. It has it still if the run was killed as it took it.
        let of_file = device.sysfs().join("loop/backing_file");
        if let Ok(file) = fs::read_to_string(&of_file) {
            if !Path::new(file.trim()).ends_with(DISK) {
                continue;
            }
            let mut detach = program("losetup");
            detach.arg("--detach").arg(device.path());
            let answered = answer(detach, SHORT, &Stop::never());
            // The kernel may have detached it in between, as the run's last holder ended.
            if of_file.exists() {
                answered?;
            }
        }
        device.remove().with_context(|| format!("cannot remove {}", device.name()))?;
    }
    remove(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    messages::note(&format!("removed {}, which a run that was killed has left", folder.display()));
    Ok(())
}

/// Removes a folder unless something is mounted below it.
fn remove(folder: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let below =
        |line: &&str| line.split(' ').nth(1).is_some_and(|at| Path::new(at).starts_with(folder));
    if let Some(mount) = mounts.lines().find(below) {
        anyhow::bail!("still mounted: {mount}");
    }
    Ok(fs::remove_dir_all(folder)?)
}

/// What the folder is called, before the number of the process.
const NAME: &str = "forebay-bench-live-";

/// What the file of a device is called.
pub(super) const DISK: &str = "disk";

/// Far more than detaching takes.
const SHORT: Duration = Duration::from_secs(20);

/// Races for a number that are lost one after the other.
const TRIES: u32 = 8;
