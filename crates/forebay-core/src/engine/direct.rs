//! Requests that bypass the page cache: O_DIRECT, and block traces.
//!
//! ```text
//!   Call(Direct) -> bio -> joins a request, or opens some -> Done of each -> Wake -> Reply
//! ```
//!
//! Neither pages nor readahead, flush rule, throttle or reclaim have a part in it. A call ends when
//! all requests that hold a piece of it are done, with an error if one of them failed.

use super::Engine;
use super::cursor::{Cursor, Task};
use super::wait::Wait;
use crate::block::{Bio, Given};
use crate::io::{IoError, NO_FILE, RequestKind};
use crate::units::{CallId, DeviceId, SECTOR_SIZE};

impl Engine {
    pub(super) fn begin_direct(
        &mut self,
        call: CallId,
        device: DeviceId,
        (sector, sectors): (u64, u64),
        kind: RequestKind,
    ) {
        let is_flush = kind == RequestKind::Flush;
        assert!(kind != RequestKind::Inode, "metadata belong to files");
        assert!((sectors == 0) == is_flush, "all but a flush have sectors");
        let (wait, task) = (Wait::Direct, Task::Direct(sectors * SECTOR_SIZE));
        self.calls[call.index()] = Cursor { wait, ..Cursor::new(task) };
        let task = Some(call);
        let (file, first, frame, ahead) = (NO_FILE, 0, None, false);
        let bio = Bio { kind, frame, file, first, sector, sectors, task, ahead };
        if is_flush || kind == RequestKind::Discard {
            self.block.submit_alone(self.now, device, bio);
            return;
        }
        self.stats.direct_writes += u64::from(kind.is_data_write());
        self.block.submit_bio(self.now, device, bio);
    }

    /// A request that calls past the page cache have parts in is done.
    pub(super) fn end_direct_request(&mut self, given: &Given, result: Result<(), IoError>) {
        let mut owners = given.owners;
        while let Some((call, is_last)) = self.block.pop_owner(&mut owners) {
            let cursor = &mut self.calls[call.index()];
            assert_eq!(cursor.wait, Wait::Direct, "a call waits for all its requests");
            cursor.error = cursor.error.or(result.err());
            if is_last {
                self.wake(call, None);
            }
        }
        if given.request.kind.is_read() {
            self.wake_read_place_waiters(given.request.device);
        } else {
            self.wake_place_waiters();
        }
    }
}
