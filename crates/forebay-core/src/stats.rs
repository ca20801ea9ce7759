//! What the engine counted since it was made.

use core::ops::AddAssign;

/// Counters; each only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Pages that reads and faults met, in the order of the calls.
    pub accesses: u64,
    /// Met pages that were up to date at once.
    pub hits: u64,
    /// Pages read into the cache; pages that could not be read are not counted.
    pub pages_read: u64,
    /// Pages read and accessed at least once.
    pub pages_used: u64,
    /// Pages read singly because no window contained them.
    pub pages_alone: u64,
    /// Windows of readahead, of all callers.
    pub windows: Windows,
    /// Pages evicted to make room.
    pub pages_evicted: u64,
    /// Pages that writes met, in the order of the calls.
    pub pages_written: u64,
    /// Writes that bypassed the page cache.
    pub direct_writes: u64,
    /// Pages that reached their device.
    pub pages_cleaned: u64,
    /// Pages whose write failed.
    pub pages_lost: u64,
    /// Dirty pages that were dropped because their file was cut.
    pub pages_cancelled: u64,
    /// The maximum of pages dirty or under writeback at once.
    pub unsafe_pages_max: u64,
    /// Flushes of a device's cache.
    pub flushes: u64,
    /// Requests given to devices.
    pub requests: u64,
    /// Sectors that these requests move; a discard moves none.
    pub request_sectors: u64,
    /// Requests among them that were executed inline.
    pub requests_inline: u64,
    /// Bios that joined a request instead of opening one.
    pub bios_merged: u64,
    /// Classes of requests that are treated as slow on devices marked as fast.
    pub classes_slow: u64,
    /// Faults that had to wait for a device.
    pub faults_major: u64,
    /// Faults that had not.
    pub faults_minor: u64,
    /// Calls that ended with an error.
    pub errors: u64,
    /// Pages that decoders have gone through, those of blocks that need no decoding not counted. A
    /// page counts again if a block is decoded again to a later page.
    pub pages_decoded: u64,
    /// Pages of packed files that became ready by decoding.
    pub pages_unpacked: u64,
    /// The same, accessed at least once.
    pub pages_unpacked_used: u64,
    /// Pages among these that an idle processor has decoded.
    pub pages_unpacked_idle: u64,
    /// Demands that found their page deferred.
    pub demands_deferred: u64,
    /// Pages of images added to the cache.
    pub raw_pages: u64,
}

/// How often a readahead policy added absent pages, and how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// How often: once for each access at which it asked for any.
    pub count: u64,
    /// Pages that it asked for, summed.
    pub pages: u64,
}

impl Windows {
    /// A policy was called, and added `pages` absent pages.
    pub(crate) fn record(&mut self, pages: u64) {
        self.count += u64::from(pages > 0);
        self.pages += pages;
    }
}

impl AddAssign for Windows {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.pages += other.pages;
    }
}

impl Stats {
    /// Pages read that have not been accessed so far.
    pub const fn pages_wasted(&self) -> u64 {
        self.pages_read - self.pages_used
    }

    /// Pages that were decoded and have not been accessed so far.
    pub const fn pages_unpacked_useless(&self) -> u64 {
        self.pages_unpacked - self.pages_unpacked_used
    }
}

impl AddAssign for Stats {
    /// Counts of several engines together.
    fn add_assign(&mut self, other: Self) {
        self.accesses += other.accesses;
        self.hits += other.hits;
        self.pages_read += other.pages_read;
        self.pages_used += other.pages_used;
        self.pages_alone += other.pages_alone;
        self.windows += other.windows;
        self.pages_evicted += other.pages_evicted;
        self.pages_written += other.pages_written;
        self.direct_writes += other.direct_writes;
        self.pages_cleaned += other.pages_cleaned;
        self.pages_lost += other.pages_lost;
        self.pages_cancelled += other.pages_cancelled;
        self.unsafe_pages_max = self.unsafe_pages_max.max(other.unsafe_pages_max);
        self.flushes += other.flushes;
        self.requests += other.requests;
        self.request_sectors += other.request_sectors;
        self.requests_inline += other.requests_inline;
        self.bios_merged += other.bios_merged;
        self.classes_slow += other.classes_slow;
        self.faults_major += other.faults_major;
        self.faults_minor += other.faults_minor;
        self.errors += other.errors;
        self.pages_decoded += other.pages_decoded;
        self.pages_unpacked += other.pages_unpacked;
        self.pages_unpacked_used += other.pages_unpacked_used;
        self.pages_unpacked_idle += other.pages_unpacked_idle;
        self.demands_deferred += other.demands_deferred;
        self.raw_pages += other.raw_pages;
    }
}
