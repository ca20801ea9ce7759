//! Knobs: those of the rig's own device, which are set, and all others, which are only compared.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use forebay_live::knob::{Patience, Turn, turn};
use forebay_live::tree::Tree;

use super::rig::Rig;

/// The knobs of one device.
#[derive(Clone, Debug)]
pub(super) struct Knobs {
    queue: PathBuf,
    bdi: PathBuf,
}

/// A knob set by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fix {
    /// Readahead of the device, in KiB.
    ReadAhead(u64),
    /// Its own limit of dirty memory, in MiB.
    Cap(u64),
}

/// Values by name.
pub(super) type Values = BTreeMap<PathBuf, String>;

impl Knobs {
    /// Those of a rig.
    pub(super) fn of(rig: &Rig<'_>) -> Result<Self> {
        let queue = rig.device().sysfs().join("queue");
        let bdi = Path::new("/sys/class/bdi").join(rig.numbers()?);
        Ok(Self { queue, bdi })
    }

    /// Sets one by hand.
    pub(super) fn fix(&self, fix: Fix) -> Result<()> {
        match fix {
            Fix::ReadAhead(kib) => self.read_ahead(kib),
            Fix::Cap(mib) => {
                let bytes = mib << 20;
                put(&self.bdi.join("max_bytes"), &bytes.to_string())?;
                set(&self.bdi.join("strict_limit"), "1")
            }
        }
    }

    /// Sets the readahead of files that are opened from now on.
    pub(super) fn read_ahead(&self, kib: u64) -> Result<()> {
        let _turn = unborrowed();
        set(&self.queue.join("read_ahead_kb"), &kib.to_string())
    }

    /// Switches throttling of writeback off, if the kernel has it.
    pub(super) fn without_throttling(&self) -> Result<()> {
        let path = self.queue.join("wbt_lat_usec");
        if path.exists() { set(&path, "0") } else { Ok(()) }
    }

    /// The current value of every knob that may have been tuned.
    pub(super) fn now(&self) -> Values {
        let mut values = Values::new();
        let _turn = unborrowed();
        let queue = ["scheduler", "nr_requests", "max_sectors_kb", "wbt_lat_usec", "read_ahead_kb"];
        let bdi = ["strict_limit", "max_ratio_fine", "min_ratio_fine", "read_ahead_kb"];
        let queue = queue.map(|name| self.queue.join(name));
        for path in queue.into_iter().chain(bdi.map(|name| self.bdi.join(name))) {
            if let Ok(value) = fs::read_to_string(&path) {
                values.insert(path, value.trim().to_owned());
            }
        }
        values
    }

    /// Sets back what differs, the readahead last: other knobs of the queue change it.
    pub(super) fn put_back(&self, values: &Values) -> Result<()> {
        let is_last = |path: &Path| path.ends_with("read_ahead_kb");
        let (last, first): (Vec<_>, Vec<_>) = values.iter().partition(|(path, _)| is_last(path));
        let now = self.now();
        for (path, value) in first.into_iter().chain(last) {
            if now.get(path) != Some(value) {
                set(path, value)?;
            }
        }
        Ok(())
    }
}

/// The names of knobs whose values differ.
pub(super) fn differing(before: &Values, after: &Values) -> Vec<String> {
    let differs = |(path, value): &(&PathBuf, &String)| after.get(*path) != Some(*value);
    let names = before.iter().filter(differs).filter_map(|(path, _)| path.file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Every knob that could be tuned on this machine, except on devices of ours.
pub(super) fn of_the_machine() -> Values {
    let mut values = Values::new();
    let _turn = unborrowed();
    collect(Path::new("/proc/sys/vm"), &mut values);
    let ours = |name: &str| {
        let number = name.strip_prefix("7:").or_else(|| name.strip_prefix("loop"));
        number.and_then(|number| number.parse::<u32>().ok()).is_some_and(|number| number >= OURS)
    };
    for (folder, below) in [("/sys/block", "queue"), ("/sys/class/bdi", ".")] {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            if !entry.file_name().to_str().is_some_and(ours) {
                collect(&entry.path().join(below), &mut values);
            }
        }
    }
    values
}

/// The differences of knobs that exist in both, one line each.
pub(super) fn differences(before: &Values, after: &Values) -> Vec<String> {
    let both = before.iter().filter_map(|(path, old)| Some((path, old, after.get(path)?)));
    let changed = both.filter(|(_, old, new)| old != new);
    changed.map(|(path, old, new)| format!("{}: {old} -> {new}", path.display())).collect()
}

/// While it is held no tuner has borrowed a window, which would pass for a change. Without it the
/// worst is a difference that is shown and is none.
fn unborrowed() -> Option<Turn> {
    turn(&Tree::machine(), Patience::Short).ok()
}

fn collect(folder: &Path, values: &mut Values) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let skipped = name.to_str().is_none_or(|name| DERIVED.contains(&name));
        if skipped || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        // Some can only be written.
        if let Ok(value) = fs::read_to_string(entry.path()) {
            values.insert(entry.path(), value.trim().to_owned());
        }
    }
}

fn set(path: &Path, value: &str) -> Result<()> {
    // A list shows the chosen element in brackets; it is chosen by its name.
    let chosen = value.split_once('[').and_then(|(_, rest)| Some(rest.split_once(']')?.0));
    put(path, chosen.unwrap_or(value))?;
    let found = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    if found.trim() != value {
        bail!("{} took {value} for {}", path.display(), found.trim());
    }
    Ok(())
}

fn put(path: &Path, value: &str) -> Result<()> {
    fs::write(path, value).with_context(|| format!("cannot write {value} to {}", path.display()))
}

/// Values that follow from others and from free memory, and one that is no value but an order.
const DERIVED: &[&str] = &["max_bytes", "min_bytes", "stat_refresh", "uevent"];

/// Loop devices from this number on are those of such benchmarks.
const OURS: u32 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(path, value)| (PathBuf::from(path), (*value).to_owned())).collect()
    }

    #[test]
    fn what_came_or_went_is_no_difference() {
        let before = values(&[("a", "1"), ("b", "2"), ("gone", "3")]);
        let after = values(&[("a", "1"), ("b", "20"), ("new", "4")]);
        assert_eq!(differences(&before, &after), ["b: 2 -> 20"]);
        assert_eq!(differing(&before, &after), ["b", "gone"]);
    }

    #[test]
    fn of_a_list_the_chosen_one_is_set() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scheduler");
        // A plain file returns the written text, not the list; this is detected.
        let error = set(&path, "none [kyber]").unwrap_err().to_string();
        assert!(error.ends_with("took none [kyber] for kyber"), "{error}");
    }
}
