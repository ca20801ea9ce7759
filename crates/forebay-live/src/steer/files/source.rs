//! Whether what a reader reads was in memory before: no window makes that faster.
//!
//! Source:     Forebay.
//! Behaviour:  bytes that a process read by calls beside those that were brought in for it; both
//!             count half after some looks.
//! Differs:    nothing.
//! Not for:    readers of other devices beside the one that is traced: they count as cached.

/// Where a reader's bytes come from, of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Source {
    brought: u64,
    read: u64,
    looks: u32,
}

impl Source {
    pub(super) fn count(&mut self, brought: u64, read: u64) {
        self.looks += 1;
        if self.looks > SOURCE_LOOKS {
            (self.looks, self.brought, self.read) = (0, self.brought / 2, self.read / 2);
        }
        self.brought = self.brought.saturating_add(brought);
        self.read = self.read.saturating_add(read);
    }

    /// Whether most of what is read was in memory before: no window makes that faster.
    pub(super) fn is_memory(self) -> bool {
        self.brought.saturating_mul(CACHED_SHARE) < self.read
    }
}

/// A reader of so many times what is brought in reads what is cached.
const CACHED_SHARE: u64 = 3;

/// What a reader did before this many looks counts half.
const SOURCE_LOOKS: u32 = 16;
