//! Memory for requests and replies of all clients together.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes that connections have taken of a limit.
#[derive(Debug)]
pub(super) struct Budget {
    used: AtomicUsize,
    limit: usize,
}

impl Budget {
    pub(super) const fn new(limit: usize) -> Self {
        Self { used: AtomicUsize::new(0), limit }
    }

    /// Whether there is some left.
    pub(super) fn has_room(&self) -> bool {
        self.used.load(Relaxed) < self.limit
    }

    /// Takes bytes if there are as many.
    pub(super) fn try_take(&self, bytes: usize) -> bool {
        let taken = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Relaxed, Relaxed, taken).is_ok()
    }

    /// A connection has `now` instead of `before` bytes, whatever the limit is.
    pub(super) fn adjust(&self, before: usize, now: usize) {
        if now > before {
            self.used.fetch_add(now - before, Relaxed);
        } else {
            self.used.fetch_sub(before - now, Relaxed);
        }
    }
}

/// The limit of a server.
pub(super) const CLIENTS_MEMORY: usize = 512 << 20;
