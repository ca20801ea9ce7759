//! What a package may leave behind: files, and knobs of devices that are not its business.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::process::root;

use super::disk;
use super::installed::NAME;

/// Every path where packages leave something.
#[derive(Debug)]
pub(super) struct Traces {
    paths: BTreeSet<PathBuf>,
}

impl Traces {
    /// Looks.
    pub(super) fn find() -> Self {
        let mut paths = BTreeSet::new();
        let mut folders: Vec<PathBuf> = PLACES.iter().map(PathBuf::from).collect();
        while let Some(folder) = folders.pop() {
            // A file that vanishes belongs to another process.
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let path = entry.path();
                if path == root() {
                    continue;
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path.clone());
                }
                paths.insert(path);
            }
        }
        Self { paths }
    }

    /// Files that exist now, did not exist then, and are `files` of the package or named after it.
    /// Other processes work on this machine too, so other files may be theirs.
    pub(super) fn left(&self, files: &[String]) -> Vec<String> {
        let files: BTreeSet<&Path> = files.iter().map(Path::new).collect();
        let is_named = |path: &Path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().contains(NAME))
        };
        let now = Self::find().paths;
        let new = now.difference(&self.paths);
        let left = new.filter(|path| files.contains(path.as_path()) || is_named(path));
        left.map(|path| path.display().to_string()).collect()
    }
}

/// Knobs of all devices that stay: loop devices come and go, also those of others.
#[derive(Debug)]
pub(super) struct Knobs {
    devices: BTreeMap<String, Vec<(String, String)>>,
}

impl Knobs {
    /// Reads them.
    pub(super) fn of_machine() -> Self {
        let entries = fs::read_dir("/sys/class/bdi").into_iter().flatten().flatten();
        let numbers = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let stays = |number: &String| !number.starts_with(LOOP);
        Self { devices: numbers.filter(stays).map(|it| (it.clone(), disk::knobs(&it))).collect() }
    }

    /// Devices that are set otherwise by now.
    pub(super) fn changed(&self) -> Vec<String> {
        let now = Self::of_machine().devices;
        let is_other = |(number, knobs): &(&String, &Vec<(String, String)>)| {
            now.get(*number).is_some_and(|now| now != *knobs)
        };
        self.devices.iter().filter(is_other).map(|(number, _)| number.clone()).collect()
    }
}

/// Where dpkg, its scripts and systemd's helpers write.
const PLACES: &[&str] =
    &["/etc", "/run", "/usr", "/var/cache", "/var/lib/dpkg", "/var/lib/systemd"];

/// The major number of loop devices.
const LOOP: &str = "7:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_before_is_not_left() {
        let traces = Traces::find();
        assert_eq!(traces.left(&["/usr".into()]), [""; 0]);
        let nothing = Traces { paths: BTreeSet::new() };
        assert_eq!(nothing.left(&["/etc/passwd".into()])[..1], ["/etc/passwd"]);
    }
}
