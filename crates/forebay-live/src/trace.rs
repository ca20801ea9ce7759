//! What the kernel's tracepoints say, as values.

use crate::number::{DevNumber, FileKey};

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, by the monotonic clock, in nanoseconds.
    pub at: u64,
    /// The thread that ran.
    pub pid: u32,
    /// What happened.
    pub what: What,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Pages are about to be brought in.
    Readahead(Readahead),
    /// A writer pauses (`writeback/balance_dirty_pages` with a pause above 0).
    Pause(Pause),
    /// A new estimate of a device's write bandwidth (`writeback/bdi_dirty_ratelimit`).
    Bandwidth {
        /// The backing device.
        bdi: DevNumber,
        /// Bytes a second, smoothed.
        bandwidth: u64,
    },
}

/// An event of the group `readahead`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readahead {
    /// Why.
    pub why: Why,
    /// The file.
    pub file: FileKey,
    /// The first page, from the file's begin.
    pub index: u64,
    /// Pages that were asked for (`Sync`, `Async`) or are brought in (`Order`, `Unbounded`).
    pub pages: u64,
    /// The description's largest window, in pages; 0 where the event does not say.
    pub window: u64,
}

/// Why pages come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// A read found a page absent (`page_cache_sync_ra`).
    Sync,
    /// A reader reached the marker of its window (`page_cache_async_ra`).
    Async,
    /// A window goes out: a stream's, or one around a fault (`page_cache_ra_order`).
    Order,
    /// A plain range goes out (`page_cache_ra_unbounded`).
    Unbounded,
}

/// A writer's pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The backing device that it writes to.
    pub bdi: DevNumber,
    /// Its length in ms.
    pub pause_ms: u32,
}
