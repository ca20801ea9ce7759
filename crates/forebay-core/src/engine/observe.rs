//! What a world, a controller or a report may read of an engine.

use super::Engine;
use crate::block::DeviceCounters;
use crate::frame::PageUse;
use crate::io::{Request, RequestKind};
use crate::stats::{Stats, Windows};
use crate::time::Instant;
use crate::units::{DeviceId, FileId, FrameId, HandleId};
use crate::writeback::{Knobs, Levels};

impl Engine {
    /// Pages of the whole page memory that differ from their devices, and counts of written ones.
    pub fn levels(&self) -> Levels {
        self.writeback.levels()
    }

    /// The same of one device.
    pub fn device_levels(&self, device: DeviceId) -> Levels {
        self.writeback.device_levels(device)
    }

    /// Pages a second that a device takes, once this has been measured.
    pub fn drain(&self, device: DeviceId) -> Option<u64> {
        self.writeback.drain(device)
    }

    /// The knobs of writeback as they are now.
    pub fn knobs(&self) -> &Knobs {
        self.writeback.knobs()
    }

    /// How often the knobs have been set so far.
    pub fn knobs_set(&self) -> u64 {
        self.writeback.knobs_set()
    }

    /// The time of the last input.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The frames that a request in flight fills or takes from, in the order of its pages.
    /// Metadata, flushes and what bypasses the page cache have none.
    pub fn frames_of(&self, request: &Request) -> impl Iterator<Item = FrameId> + '_ {
        let Request { file, first, pages, kind, .. } = *request;
        let mut guess = None;
        let has_frames = kind != RequestKind::Inode && !request.is_direct();
        let pages = if has_frames { pages } else { 0 };
        (first..first + pages).map(move |page| {
            let hit = self.cache.lookup_at(file, page, guess);
            let frame = hit.expect("a page stays while it moves").frame;
            guess = Some(frame.next());
            frame
        })
    }

    /// Whether a page is in the cache, up to date or not.
    pub fn is_resident(&self, file: FileId, page: u64) -> bool {
        self.cache.lookup(file, page).is_some()
    }

    /// Pages in the cache, up to date or not.
    pub fn pages_in_memory(&self) -> u64 {
        self.cache.len()
    }

    /// Pages of a file in the cache, up to date or not.
    pub fn resident_pages(&self, file: FileId) -> u64 {
        self.cache.page_use(file).resident
    }

    /// Pages of a file: in the cache, read, and used.
    pub fn page_use(&self, file: FileId) -> PageUse {
        self.cache.page_use(file)
    }

    /// The file of an open description.
    pub fn file_of(&self, handle: HandleId) -> FileId {
        self.opened(handle).file
    }

    /// The bytes of a file.
    pub fn file_bytes(&self, file: FileId) -> u64 {
        self.files[file.index()].bytes
    }

    /// Pages added to the cache so far, whether or not they could be read.
    pub fn pages_added(&self) -> u64 {
        self.cache.counters.added
    }

    /// Folios that were added to the cache to be read so far; a page that is written whole is added
    /// without one.
    pub fn folios_added(&self) -> u64 {
        self.cache.counters.folios
    }

    /// Reads that calls have put in front of devices so far, submitted or not.
    pub fn reads_opened(&self) -> u64 {
        self.block.reads_opened
    }

    /// Faults so far that did not find their page up to date.
    pub fn faults_major(&self) -> u64 {
        self.stats.faults_major
    }

    /// Windows of readahead so far.
    pub fn windows(&self) -> Windows {
        self.stats.windows
    }

    /// Dirty pages that flush rules have looked at so far, one after another.
    pub fn pages_walked(&self) -> u64 {
        self.writeback.pages_walked()
    }

    /// Frames that reclaim has looked at so far one after another: on behalf of callers, and by its
    /// background writer.
    pub fn frames_scanned(&self) -> (u64, u64) {
        (self.cache.counters.scanned, self.cache.counters.scanned_behind)
    }

    /// The counters so far.
    pub fn stats(&self) -> Stats {
        let pages = self.cache.counters;
        let devices = (0..self.block.devices()).map(DeviceId);
        let device = |count: fn(&DeviceCounters) -> u64| {
            devices.clone().map(|id| count(&self.block.counters(self.now, id))).sum()
        };
        Stats {
            pages_read: pages.read,
            pages_used: pages.used,
            pages_evicted: pages.evicted,
            requests: device(|counters| counters.submitted),
            request_sectors: device(|counters| counters.submitted_sectors),
            requests_inline: device(|counters| counters.inline),
            bios_merged: device(|counters| counters.merged),
            classes_slow: self.block.slow_classes().into(),
            ..self.stats
        }
    }
}
