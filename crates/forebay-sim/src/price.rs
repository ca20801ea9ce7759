//! What an output costs on the processor of a given machine.

use forebay_core::time::Duration;

/// Costs of the path on one core, and how many cores there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prices {
    /// Cores that run tasks.
    pub cores: u32,
    /// Entering and leaving the kernel.
    pub syscall: Duration,
    /// Finding one page in the page cache.
    pub page_lookup: Duration,
    /// Taking a frame for a page and adding it to the page cache.
    pub page_alloc: Duration,
    /// Copying 1024 bytes to the caller, in picoseconds.
    pub copy_picos_per_kib: u64,
    /// Giving a core to another task.
    pub context_switch: Duration,
    /// From the device's signal to the task being runnable.
    pub interrupt: Duration,
    /// Building a request and handing it to the device.
    pub request_submit: Duration,
    /// What writing one page costs beyond finding it and copying.
    pub page_dirty: Duration,
    /// What the flusher spends on one page that it sends, its completion included.
    pub flush_page: Duration,
    /// What the flusher spends on one page that it only looks at.
    pub flush_scan: Duration,
}

impl Prices {
    /// Copying `len` bytes from `pages` pages; rounded down to whole nanoseconds.
    pub(crate) fn copy(&self, pages: u64, len: u64) -> Duration {
        let picos = len.saturating_mul(self.copy_picos_per_kib) / 1024;
        self.page_lookup.times(pages) + Duration(picos / 1000)
    }
}
