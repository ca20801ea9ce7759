//! The invariants of the whole engine, for simulators and tests.

use super::Engine;
use super::read::Wait;
use crate::units::{CallId, FrameId};

impl Engine {
    /// Asserts all global invariants; slow, it walks all of memory.
    ///
    /// # Panics
    /// If the engine is wrong about itself.
    pub fn check(&self) {
        self.cache.check();
        let reading = u64::from(self.cache.reading());
        assert_eq!(self.block.pages(), reading, "each page being read is in one request");
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
        let hope = reading > 0 || self.calls.iter().any(|call| matches!(call.wait, Wait::Woken(_)));
        assert!(starved == 0 || hope, "somebody will free memory for those that wait for it");
        let stats = self.stats();
        assert!(stats.pages_used <= stats.pages_read, "a page is used after it was read");
    }
}
