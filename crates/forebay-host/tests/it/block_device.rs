//! A real block device, where one can be made.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use forebay_host::backend::{Backend, FileBackend};
use forebay_host::mapped::Mapped;

use crate::support::*;

#[test]
fn a_block_device_is_read_as_a_file() {
    // Whole sectors, but not whole pages.
    let bytes = contents(1, 37 * 4096 + 512);
    let file = file_of(&bytes);
    let Some(device) = Loop::attach(file.path()) else { return };
    for_every_setup(8, |setup| {
        let backend = Arc::new(FileBackend::open(&device.0).unwrap());
        let len = backend.len();
        assert_eq!(len, bytes.len() as u64);
        let ranges = [(0, len + 1), (len - 600, 1_000), (70_001, 5)];
        let (outcome, answers) = read_ranges(setup, backend, &ranges);
        for ((offset, asked), (_, delivered)) in ranges.into_iter().zip(answers) {
            let end = (offset + asked).min(len);
            assert!(delivered == bytes[offset as usize..end as usize]);
        }
        assert!(outcome.first_error.is_none());
    });
}

/// The metadata of a device have no length.
#[test]
fn a_block_device_is_mapped_as_a_file() {
    let bytes = contents(1, 64 * 4096);
    let file = file_of(&bytes);
    let Some(device) = Loop::attach(file.path()) else { return };
    let map = Mapped::new(&File::open(&device.0).unwrap()).unwrap();
    map.touch(0);
    map.touch(64 * 4096 - 1);
}

/// A loop device over a file, detached at the end.
struct Loop(PathBuf);

impl Loop {
    /// Attaches a file; where that is not possible, prints why.
    fn attach(file: &Path) -> Option<Self> {
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show", "--read-only"]).arg(file);
        let reason = match losetup.output() {
            Ok(output) if output.status.success() => {
                return Some(Self(String::from_utf8_lossy(&output.stdout).trim().into()));
            }
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => format!("losetup: {error}"),
        };
        eprintln!("skipped: no loop device: {reason}");
        None
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Command::new("losetup").arg("--detach").arg(&self.0).status();
        if !detached.is_ok_and(|status| status.success()) {
            eprintln!("{} is still attached", self.0.display());
        }
    }
}
