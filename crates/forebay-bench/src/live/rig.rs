//! A slow device with a file system, and its end.
//!
//! ```text
//!   ram/disk (memory) --+-------------------+-- loop device --- ext4 on at/
//!                       +-- served/disk ----+      |
//!                           (rate, seek,           +-- limits of a control group
//!                            latency)
//! ```
//!
//! The device runs at full speed while files are made and while it is taken down; it is slow only
//! while a round is measured. Most written data is zeros, and blocks of zeros are returned to the
//! machine. A file of many gigabytes therefore takes no memory and is still read: the file system
//! treats its blocks as allocated.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use forebay_host::access::Buffer;
use rustix::fs::{OFlags, syncfs};

use super::folder::{DISK, Folder};
use super::throttle::{Limits, Throttle};
use crate::measure::live::{LoopDevice, Model, Served};
use crate::process::{Stop, answer, program};

/// Parameters of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) speed: Speed,
    /// Its size in bytes.
    pub(super) bytes: u64,
    /// Files on it, with their sizes in bytes.
    pub(super) files: &'static [(&'static str, u64)],
}

/// How fast it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speed {
    /// As memory.
    Fast,
    /// Plain rates.
    Limited(Limits),
    /// A disk with seeks, or a link with a latency.
    Served(Model),
}

/// An existing device.
pub(super) struct Rig<'a> {
    folder: &'a Folder,
    device: LoopDevice,
    /// Open all the time: the kernel takes the file from the device when the last one closes it,
    /// also if that is our being killed.
    held: Option<File>,
    served: Option<Served>,
    limited: Option<(&'a Throttle, Limits)>,
    stop: &'a Stop,
}

impl<'a> Rig<'a> {
    /// Makes the device and its files. Without a controller plain rates are served.
    pub(super) fn new(
        folder: &'a Folder,
        spec: &Spec,
        throttle: Option<&'a Throttle>,
        stop: &'a Stop,
    ) -> Result<Self> {
        let ram = folder.join("ram");
        run("mount", &["-t", "tmpfs", "-o", "size=6g,mode=755", "none", text(&ram)?], stop)?;
        let (model, limited) = match (spec.speed, throttle) {
            (Speed::Fast, _) => (None, None),
            (Speed::Limited(limits), Some(throttle)) => (None, Some((throttle, limits))),
            (Speed::Limited(limits), None) => (Some(limits.model()), None),
            (Speed::Served(model), _) => (Some(model), None),
        };
        let device = folder.add_device();
        // Counters of single devices; without them those of the machine serve.
        let debug = folder.join("debug");
        let _ = run("mount", &["-t", "debugfs", "none", text(&debug)?], stop);
        // From here on dropping it takes all away.
        let device = device.inspect_err(|_| drop(unmount(&ram)))?;
        let mut rig = Self { folder, device, held: None, served: None, limited, stop };
        let disk = ram.join(DISK);
        let backing = OpenOptions::new().read(true).write(true).create_new(true).open(&disk)?;
        backing.set_len(spec.bytes)?;
        let mut file = disk.clone();
        if let Some(model) = model {
            let served = Served::new(backing, model, &folder.join("served"));
            let served = served.context("cannot serve a disk")?;
            file = served.path().to_owned();
            rig.served = Some(served);
        }
        let node = device.path();
        // A link has many requests in flight, a disk with an arm one after another.
        let has_latency = model.is_some_and(|model| !model.latency.is_zero());
        let direct = if has_latency { "--direct-io=on" } else { "--direct-io=off" };
        run("losetup", &[direct, text(&node)?, text(&file)?], stop)?;
        rig.held = Some(File::open(&node).with_context(|| node.display().to_string())?);
        run("losetup", &["--detach", text(&node)?], stop)?;
        // Tables that are written later would add writes to those that are measured.
        let now = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        let options = ["-q", "-F", "-b", "4096", "-J", "size=16", "-E", now, text(&node)?];
        run("mkfs.ext4", &options, stop)?;
        rig.mount()?;
        for (name, bytes) in spec.files {
            rig.fill(&rig.at().join(name), *bytes)?;
        }
        Ok(rig)
    }

    /// Where the file system is.
    pub(super) fn at(&self) -> PathBuf {
        self.folder.join("at")
    }

    /// Where debugfs is, if it could be mounted.
    pub(super) fn debug(&self) -> PathBuf {
        self.folder.join("debug")
    }

    /// The device.
    pub(super) fn device(&self) -> LoopDevice {
        self.device
    }

    /// The control group that programs join.
    pub(super) fn group(&self) -> Option<&Path> {
        self.limited.map(|(throttle, _)| throttle.group())
    }

    /// How it is made slow.
    pub(super) fn way(&self) -> &'static str {
        match (&self.served, self.limited) {
            (Some(_), _) => "served",
            (None, Some(_)) => "limits",
            (None, None) => "fast",
        }
    }

    /// Whether it is slow from now on.
    pub(super) fn slow(&self, is_slow: bool) -> Result<()> {
        if let Some(served) = &self.served {
            served.slow(is_slow);
        }
        if let Some((throttle, limits)) = self.limited {
            let limits = if is_slow { limits } else { Limits::default() };
            throttle.set(&self.numbers()?, limits)?;
        }
        Ok(())
    }

    /// Mounts the file system afresh: nothing of it is in memory afterwards.
    pub(super) fn remount(&self) -> Result<()> {
        unmount(&self.at())?;
        self.mount()
    }

    /// Takes all away, and fails if that does.
    pub(super) fn end(mut self) -> Result<()> {
        self.take_down()
    }

    /// The device's numbers, as `7:200`.
    pub(super) fn numbers(&self) -> Result<String> {
        let numbers = fs::read_to_string(self.device.sysfs().join("dev"))?;
        Ok(numbers.trim().to_owned())
    }

    fn mount(&self) -> Result<()> {
        let (node, at) = (self.device.path(), self.at());
        run("mount", &["-t", "ext4", "-o", "noatime", text(&node)?, text(&at)?], self.stop)?;
        Ok(())
    }

    /// Makes a file of zeros that is still read from the device.
    pub(super) fn fill(&self, path: &Path, bytes: u64) -> Result<()> {
        let disk = self.folder.join("ram").join(DISK);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
        let file = options.open(path).with_context(|| path.display().to_string())?;
        let block = Buffer::new(BLOCK as usize);
        let mut offset = 0;
        while offset < bytes {
            self.stop.check()?;
            let part = &block[..(bytes - offset).min(BLOCK) as usize];
            file.write_all_at(part, offset).with_context(|| path.display().to_string())?;
            offset += part.len() as u64;
            if offset % SLICE == 0 || offset >= bytes {
                // No write may be in flight to a block that is checked and returned.
                syncfs(&file)?;
                run("fallocate", &["--dig-holes", text(&disk)?], self.stop)?;
            }
        }
        Ok(())
    }

    fn take_down(&mut self) -> Result<()> {
        let Some(held) = self.held.take() else {
            return self.take_device();
        };
        let fast = self.slow(false);
        let unmounted = unmount(&self.at());
        drop(held);
        let gone = self.take_device();
        fast.and(unmounted).and(gone)
    }

    fn take_device(&mut self) -> Result<()> {
        let device = self.device;
        let gone = device.remove().with_context(|| format!("cannot remove {}", device.name()));
        let served = self.served.take().map_or(Ok(()), Served::end);
        let served = served.context("cannot unmount the served disk");
        let memory = unmount(&self.debug()).and(unmount(&self.folder.join("ram")));
        gone.and(served).and(memory)?;
        self.folder.forget()
    }
}

impl Drop for Rig<'_> {
    fn drop(&mut self) {
        if self.device.sysfs().exists() {
            // An error has no receiver; the end of the namespace unmounts the rest, and the next
            // run removes the device.
            let _ = self.take_down();
        }
    }
}

/// Unmounts a place if something is mounted there, lazily if it must be.
fn unmount(place: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let is_it = |line: &str| line.split(' ').nth(1).is_some_and(|at| Path::new(at) == place);
    if !mounts.lines().any(is_it) {
        return Ok(());
    }
    // This must also run if the user interrupts.
    let quiet = Stop::never();
    let done = run("umount", &[text(place)?], &quiet);
    if done.is_err() {
        let _ = run("umount", &["--lazy", text(place)?], &quiet);
    }
    done.map(drop)
}

/// The programs that are needed and missing, with their packages.
pub(super) fn missing() -> Option<(&'static str, &'static str)> {
    NEEDED.iter().copied().find(|(name, _)| !crate::process::find(name))
}

/// The programs that make a device, with their packages.
const NEEDED: &[(&str, &str)] = &[
    ("mkfs.ext4", "e2fsprogs"),
    ("losetup", "util-linux"),
    ("fallocate", "util-linux"),
    ("mount", "mount"),
    ("umount", "mount"),
];

fn run(name: &str, arguments: &[&str], stop: &Stop) -> Result<String> {
    let mut command = program(name);
    command.args(arguments);
    answer(command, SHORT, stop)
}

fn text(path: &Path) -> Result<&str> {
    let Some(text) = path.to_str() else { bail!("{}: not text", path.display()) };
    Ok(text)
}

/// The unit of writing.
const BLOCK: u64 = 4 << 20;

/// How much may be written before its memory is given back.
const SLICE: u64 = 128 << 20;

/// Far more than any of these programs takes.
const SHORT: Duration = Duration::from_secs(60);
