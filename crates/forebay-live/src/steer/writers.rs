//! Processes that write the same small files again and again.
//!
//! Source:     Forebay; `wchar` of proc(5) counts what a process wrote by calls, and a descriptor
//!             shows the size of its file.
//! Behaviour:  of a process that is paused for a device's writeback, what it wrote since the last
//!             look is compared with what the files grew that it has open for writing there. If
//!             they grew by less than a quarter of that, their size is all that it can keep dirty.
//! Differs:    nothing.
//! Not for:    writes through mappings, which no counter shows.

use std::collections::BTreeMap;

use forebay_core::time::{Duration, Instant};

/// What a process has written and where to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes that it wrote by calls since it began.
    pub bytes: u64,
    /// Bytes of the files that it has open for writing on the device.
    pub size: u64,
}

/// The writers of one device.
#[derive(Debug, Default)]
pub struct Writers {
    last: BTreeMap<u32, (Instant, Written)>,
    /// When and of how many bytes a process was last seen to rewrite.
    rewritten: BTreeMap<u32, (Instant, u64)>,
}

impl Writers {
    /// A look at a process that was paused.
    pub fn record(&mut self, now: Instant, process: u32, written: Written) {
        if self.last.len() >= WRITERS_MAX {
            self.last.retain(|_, (at, _)| now.since(*at) < KEPT);
        }
        if self.last.len() >= WRITERS_MAX && !self.last.contains_key(&process) {
            return;
        }
        let Some((then, old)) = self.last.get(&process).copied() else {
            self.last.insert(process, (now, written));
            return;
        };
        let bytes = written.bytes.saturating_sub(old.bytes);
        if bytes < LEAST && now.since(then) < KEPT {
            return;
        }
        self.last.insert(process, (now, written));
        let grew = written.size.saturating_sub(old.size);
        if bytes >= LEAST && written.size > 0 && grew.saturating_mul(4) < bytes {
            self.rewritten.insert(process, (now, written.size));
        } else {
            self.rewritten.remove(&process);
        }
    }

    /// Bytes of the files that are written again and again.
    pub fn rewritten(&mut self, now: Instant) -> u64 {
        self.rewritten.retain(|_, (at, _)| now.since(*at) < KEPT);
        self.rewritten.values().fold(0, |sum, (_, size)| sum.saturating_add(*size))
    }
}

/// Processes that are followed at once.
const WRITERS_MAX: usize = 16;

/// Fewer bytes say nothing.
const LEAST: u64 = 4 << 20;

/// A process that was not paused for so long may do something else.
const KEPT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(sizes: [u64; 3]) -> u64 {
        let mut writers = Writers::default();
        for (second, size) in (0..).zip(sizes) {
            let now = Instant::ZERO + Duration::from_secs(second);
            writers.record(now, 7, Written { bytes: second * 20_000_000, size });
        }
        writers.rewritten(Instant::ZERO + Duration::from_secs(3))
    }

    #[test]
    fn a_file_that_does_not_grow_is_rewritten_and_a_copy_is_not() {
        assert_eq!(rewritten([64 << 20; 3]), 64 << 20);
        assert_eq!(rewritten([0, 20_000_000, 40_000_000]), 0);
        assert_eq!(rewritten([0; 3]), 0, "no file of the device");
    }

    #[test]
    fn a_process_that_is_not_paused_is_forgotten() {
        let mut writers = Writers::default();
        for process in 0..4 * WRITERS_MAX as u32 {
            writers.record(Instant::ZERO, process, Written { bytes: 0, size: 1 });
            writers.record(Instant::ZERO, process, Written { bytes: LEAST, size: 1 });
        }
        assert_eq!(writers.rewritten(Instant::ZERO), WRITERS_MAX as u64);
        assert_eq!(writers.rewritten(Instant::ZERO + KEPT), 0);
    }
}
