//! How much of a device's data is dirty or under writeback.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::rig::Rig;

/// Where it is read.
#[derive(Debug)]
pub(super) enum Unwritten {
    /// Of the device only, from debugfs.
    Device(PathBuf),
    /// Of the whole machine, less what there was before.
    Machine(f64),
}

impl Unwritten {
    /// Of a rig's device.
    pub(super) fn new(rig: &Rig<'_>) -> Result<Self> {
        let stats = Path::new("bdi").join(rig.numbers()?).join("stats");
        let places = [PathBuf::from("/sys/kernel/debug"), rig.debug()];
        let mut stats = places.into_iter().map(|place| place.join(&stats));
        if let Some(stats) = stats.find(|stats| stats.exists()) {
            return Ok(Self::Device(stats));
        }
        Self::Machine(0.0).megabytes().map(Self::Machine)
    }

    /// How many MB there are.
    pub(super) fn megabytes(&self) -> Result<f64> {
        match self {
            Self::Device(stats) => {
                let text = fs::read_to_string(stats)?;
                let kib = sum(&text, &["BdiWriteback:", "BdiReclaimable:"]);
                Ok(kib.context("no stats of a device")? * 1024.0 / 1e6)
            }
            Self::Machine(before) => {
                let text = fs::read_to_string("/proc/meminfo")?;
                let kib = sum(&text, &["Dirty:", "Writeback:"]).context("no /proc/meminfo")?;
                Ok(kib * 1024.0 / 1e6 - before)
            }
        }
    }
}

/// The sum of numbers behind these words.
fn sum(text: &str, words: &[&str]) -> Option<f64> {
    let number = |word: &&str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(word))?;
        rest.split_whitespace().next()?.parse::<f64>().ok()
    };
    words.iter().map(number).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dirty_and_on_its_way_is_unwritten() {
        let text = "BdiWriteback:      1000 kB\nBdiReclaimable:    24 kB\nBdiDirtyThresh: 5 kB\n";
        assert_eq!(sum(text, &["BdiWriteback:", "BdiReclaimable:"]), Some(1024.0));
        assert_eq!(sum(text, &["BdiWriteback:", "Dirty:"]), None);
    }
}
