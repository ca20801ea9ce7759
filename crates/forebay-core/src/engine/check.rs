//! The invariants of the whole engine, for simulators and tests.

use super::Engine;
use super::wait::Wait;
use crate::io::RequestKind;
use crate::units::{CallId, DeviceId, FrameId};

impl Engine {
    /// Asserts all global invariants; slow, it walks all of memory.
    ///
    /// # Panics
    /// If the engine is wrong about itself.
    pub fn check(&self) {
        assert_eq!(self.poll_timeout(), self.next_deadline(), "the deadline is up to date");
        assert!(!self.writeback.wanted, "the flush rule has run if it was wanted");
        self.cache.check();
        let reading = u64::from(self.cache.reading());
        let read = self.block.pages(RequestKind::is_read);
        let claimed: usize = self.decodes().map(|decode| self.filled_by(decode).count()).sum();
        assert_eq!(
            read + claimed as u64,
            reading,
            "each page being read is in one request or decode"
        );
        self.check_packed();
        let (dirty, writeback) = self.cache.dirty_counts();
        let written = self.block.pages(RequestKind::is_data_write);
        assert_eq!(written, writeback, "each page on its way is in one request");
        let levels = self.levels();
        assert_eq!((levels.dirty, levels.writeback), (dirty, writeback), "levels are counted");
        assert_eq!(levels.redirtied, self.cache.redirtied(), "pages dirtied again are counted");
        let own = (0..self.block.devices()).map(|device| self.device_levels(DeviceId(device)));
        let sum = own.fold([0; 3], |sum, own| {
            [sum[0] + own.dirty, sum[1] + own.writeback, sum[2] + own.redirtied]
        });
        let all = [dirty, writeback, levels.redirtied];
        assert_eq!(sum, all, "the whole is the sum of the devices");
        let parked = self.calls.iter().filter(|call| matches!(call.wait, Wait::Page(_))).count();
        let mut chained = 0;
        for frame in (0..self.cache.frames()).map(FrameId) {
            let mut waiter = self.cache.first_waiter(frame);
            while let Some(CallId(call)) = waiter {
                let cursor = &self.calls[call as usize];
                assert_eq!(cursor.wait, Wait::Page(frame), "a waiter hangs on its page");
                waiter = cursor.next_waiter;
                chained += 1;
            }
        }
        assert_eq!(chained, parked, "each parked call hangs on one page");
        let starved = self.calls.iter().filter(|call| call.wait == Wait::Memory).count();
        assert_eq!(starved, self.memory_waiters.len(), "each call without memory is queued once");
        let waits =
            |wait: fn(Wait) -> bool| self.calls.iter().filter(|call| wait(call.wait)).count();
        let writeback_waits = [
            (waits(|wait| wait == Wait::Pass), self.writeback.pass_waiters.len()),
            (waits(|wait| wait == Wait::Place), self.writeback.place_waiters.len()),
            (waits(|wait| wait == Wait::ReadPlace), self.read_place_waiters.len()),
            (waits(|wait| wait == Wait::Request), self.writeback.request_waiters.len()),
        ];
        assert!(writeback_waits.iter().all(|(calls, queued)| calls == queued), "queued once");
        let direct = waits(|wait| wait == Wait::Direct);
        assert_eq!(direct, self.block.owning_calls(), "a direct call waits for its requests");
        // Metadata under writeback may hold the slot that dirty pages wait for.
        let metadata = self.block.pages(|kind| kind == RequestKind::Inode);
        let decodes = self.decodes().next().is_some();
        let moves = reading + writeback + metadata > 0 || decodes;
        let woken = waits(|wait| matches!(wait, Wait::Woken(_))) > 0;
        let hope = moves || woken || waits(|wait| wait == Wait::Pause) > 0;
        let placeless = self.writeback.place_waiters.len() + self.writeback.pass_waiters.len();
        // A woken call may hold the place that the flush rule leaves to it.
        let write_ends = woken || !self.block.is_idle();
        assert!(placeless == 0 || write_ends, "a write will end for those that wait");
        let read_ends = read > 0 || direct > 0;
        assert!(self.read_place_waiters.is_empty() || read_ends, "a read will end for those");
        assert!(starved == 0 || hope, "memory will become free for those that wait for it");
        let stats = self.stats();
        assert!(stats.pages_used <= stats.pages_read, "a page is used after it was read");
    }
}
