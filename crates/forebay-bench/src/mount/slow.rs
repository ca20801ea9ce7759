//! An image on a slow device: a loop device over its file, limited by a control group.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::process::{Stop, answer, program};
use crate::live::throttle::{Limits, Throttle};

/// A loop device. Dropping it detaches it; a mount of it keeps it until it is unmounted.
#[derive(Debug)]
pub(super) struct SlowImage<'a> {
    device: PathBuf,
    sysfs: PathBuf,
    throttle: &'a Throttle,
}

impl<'a> SlowImage<'a> {
    /// A device that is as fast as its file, until it is limited.
    pub(super) fn new(image: &Path, throttle: &'a Throttle, stop: &Stop) -> Result<Self> {
        let mut losetup = program("losetup");
        losetup.args(["--find", "--show", "--read-only", "--direct-io=on"]).arg(image);
        let device = PathBuf::from(answer(losetup, SHORT, stop)?.trim());
        let name = device.file_name().context("a loop device has a name")?;
        let sysfs = Path::new("/sys/block").join(name);
        Ok(Self { device, sysfs, throttle })
    }

    /// The device.
    pub(super) fn path(&self) -> &Path {
        &self.device
    }

    /// Whether it is slow from now on.
    pub(super) fn limit(&self, is_slow: bool) -> Result<()> {
        let limits = if is_slow { SLOW } else { Limits::default() };
        let numbers = fs::read_to_string(self.sysfs.join("dev"))?;
        self.throttle.set(numbers.trim(), limits)
    }

    /// Bytes that were read from it (`Documentation/block/stat.rst`, third field, in sectors).
    pub(super) fn bytes_read(&self) -> Result<u64> {
        let stat = fs::read_to_string(self.sysfs.join("stat"))?;
        let sectors = stat.split_whitespace().nth(2).and_then(|word| word.parse::<u64>().ok());
        Ok(sectors.with_context(|| format!("{}/stat", self.sysfs.display()))? * 512)
    }
}

impl Drop for SlowImage<'_> {
    fn drop(&mut self) {
        // The limit would stay for the next device of this number.
        let _ = self.limit(false);
        let mut detach = program("losetup");
        detach.arg("--detach").arg(&self.device);
        let _ = answer(detach, SHORT, &Stop::never());
    }
}

/// A network volume of the small kind, or a card.
const SLOW: Limits = Limits { read_iops: 1_000, read_bps: 20_000_000, write_bps: 0 };

/// Far more than it takes.
const SHORT: Duration = Duration::from_secs(20);
