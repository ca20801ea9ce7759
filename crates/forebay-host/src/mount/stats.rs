//! What a mount has done, as counters that another process can read while it goes on.
//!
//! They travel as text, a name and a number a line: the answer to an ioctl of the mounted folder.
#![expect(unsafe_code, reason = "an ioctl has a type that only its number tells")]

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Getter, Opcode, ioctl, opcode};

use crate::counters::counters;
use crate::image_path::PathStats;

counters! {
    /// What the mount counts.
    MountStats:
    /// Requests of the kernel of any kind.
    requests,
    /// READ requests for one page: what a fault or a read without a window asks for.
    demands,
    /// READ requests for more than a page.
    wide_reads,
    /// Requests that took longer than others could wait, and were given to a worker.
    handed_over,
    /// Requests that waited for a device, and were answered without another thread.
    looked_for,
    /// Pages that READ requests covered, refused ones left out.
    pages_answered,
    /// READ requests that were refused, so that their pages stay deferred.
    refusals,
    /// STORE notifications.
    pushes,
    /// Pages in them.
    pages_pushed,
    /// Pages that were to be pushed while a READ for them was outstanding.
    pushes_forgone,
    /// Pages that were to be pushed when the queue was full.
    pushes_dropped,
    /// STORE notifications that the kernel did not take.
    pushes_failed,
    /// Demands for pages that the kernel had been given and had dropped.
    pages_lost,
    /// Pages that a profile had brought in.
    pages_replayed,
    /// Requests that ended in an error of the image.
    errors,
}

/// The text of the answer; `more` are levels that are not counted.
pub(super) fn text(mount: &MountStats, path: &PathStats, more: &[(&str, u64)]) -> String {
    let pairs = mount.pairs().into_iter().chain(path.pairs()).chain(more.iter().copied());
    pairs.map(|(name, value)| format!("{name} {value}\n")).collect()
}

/// The counters of a mounted image: names and values, in a fixed order.
///
/// # Errors
///
/// What the system says; a folder that is no mounted image does not know the ioctl (`ENOTTY`).
pub fn of_mount(folder: &Path) -> io::Result<Vec<(String, u64)>> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags, Mode::empty())?;
    // SAFETY: the number says that the kernel fills at most as many bytes as the type has, and any
    // bytes are a value of it.
    let text = unsafe { ioctl(&folder, Getter::<COMMAND, [u8; TEXT_MAX]>::new()) }?;
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    Ok(text.lines().filter_map(pair).collect())
}

/// Whether an ioctl asks for the counters.
pub(super) fn is_command(command: u32) -> bool {
    command == COMMAND
}

/// The resident memory of this process in bytes, and that part of it that is not in files.
pub(super) fn resident() -> (u64, u64) {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
    };
    (of("VmRSS:").unwrap_or(0), of("RssAnon:").unwrap_or(0))
}

/// Asks for the counters. No driver of Linux has the letter.
const COMMAND: Opcode = opcode::read::<[u8; TEXT_MAX]>(0xfb, 1);

/// No text of ours is longer, and the number of an ioctl has 14 bits for its size.
const TEXT_MAX: usize = 12 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_every_counter_and_fits() {
        let (mount, path) = (MountStats::default(), PathStats::default());
        mount.demands.add(u64::MAX);
        path.raw_bytes.add(5);
        let text = text(&mount, &path, &[("rss", 7)]);
        assert!(text.contains("\nraw_bytes 5\n"), "{text}");
        assert!(text.contains("demands 18446744073709551615\n") && text.ends_with("rss 7\n"));
        assert!(text.len() * 2 < TEXT_MAX);
    }

    #[test]
    fn this_process_has_memory() {
        let (all, own) = resident();
        assert!(all >= own && own > 0);
    }
}
