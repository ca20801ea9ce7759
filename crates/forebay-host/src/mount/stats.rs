//! What a mount has done, as counters that another process can read while it goes on.
//!
//! They travel as text, a name and a number a line, in the extended attribute [`ATTRIBUTE`] of the
//! mount's root. It is not listed, so copies of the tree do not carry it.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The extended attribute of the root that holds the counters.
pub const ATTRIBUTE: &str = "user.forebay.stats";

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    pub(super) fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// Everything that is counted.
        #[derive(Debug, Default)]
        pub(super) struct Stats {
            $($(#[$about])* pub(super) $name: Counter,)*
        }

        impl Stats {
            fn pairs(&self) -> Vec<(String, u64)> {
                vec![$((stringify!($name).to_owned(), self.$name.read()),)*]
            }
        }
    };
}

counters! {
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
    /// Pages that were decoded; what a block decodes beyond what was asked for counts too.
    pages_decoded,
    /// Decoded blocks.
    blocks_decoded,
    /// Nanoseconds that decoding took.
    decode_nanos,
    /// Reads of the image that reached the system.
    raw_operations,
    /// Bytes that they brought.
    raw_bytes,
    /// Nanoseconds that they took.
    raw_nanos,
    /// Bytes that the kernel was asked to read into its own memory of the image.
    raw_advised,
    /// Reads of the image that the kernel had in memory.
    raw_near,
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

impl Stats {
    /// The text that the attribute holds; `more` are levels that are not counted here.
    pub(super) fn text(&self, more: &[(&str, u64)]) -> String {
        let mut pairs = self.pairs();
        pairs.extend(more.iter().map(|(name, value)| ((*name).to_owned(), *value)));
        pairs.iter().fold(String::new(), |text, (name, value)| text + &format!("{name} {value}\n"))
    }
}

/// The counters of a mounted image: names and values, in a fixed order.
///
/// # Errors
///
/// What the system says; a folder that is no mounted image has no such attribute (`ENODATA`,
/// `ENOTSUP`).
pub fn of_mount(folder: &Path) -> io::Result<Vec<(String, u64)>> {
    let mut text = vec![0; TEXT_MAX];
    let len = rustix::fs::getxattr(folder, ATTRIBUTE, &mut text[..])?;
    let text = String::from_utf8_lossy(&text[..len]);
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    Ok(text.lines().filter_map(pair).collect())
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

/// No text of ours is longer.
const TEXT_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_every_counter_and_fits() {
        let stats = Stats::default();
        stats.demands.add(u64::MAX);
        let text = stats.text(&[("rss", 7)]);
        assert!(text.contains("demands 18446744073709551615\n") && text.ends_with("rss 7\n"));
        assert!(text.len() * 2 < TEXT_MAX);
    }

    #[test]
    fn this_process_has_memory() {
        let (all, own) = resident();
        assert!(all >= own && own > 0);
    }
}
