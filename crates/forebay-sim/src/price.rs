//! What an output costs on the processor of a given machine.

use forebay_core::io::Decode;
use forebay_core::packed::Coding;
use forebay_core::time::Duration;
use forebay_core::units::PAGE_SIZE;

/// Costs of the path on one core, and how many cores there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prices {
    /// Cores that run tasks.
    pub cores: u32,
    /// Entering and leaving the kernel.
    pub syscall: Duration,
    /// Entering and leaving the kernel at a page fault.
    pub fault: Duration,
    /// Finding one page in the page cache.
    pub page_lookup: Duration,
    /// Taking a frame for a page and adding it to the page cache.
    pub page_alloc: Duration,
    /// Adding one folio, in addition to its pages.
    pub folio_alloc: Duration,
    /// A call that writes, in addition to one that reads.
    pub write_call: Duration,
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
    /// Looking at one frame when reclaim goes through all of them.
    pub frame_scan: Duration,
    /// Which task gets a core.
    pub scheduler: Scheduler,
    /// The cache that a task finds emptied by others when it comes back; none if zero.
    pub cache_bytes: u64,
    /// What a task, and the kernel on its behalf, touches of that cache between two switches.
    pub footprint_bytes: u64,
    /// Refilling all of that cache.
    pub refill: Duration,
    /// Decoding one page of a packed file.
    pub decode_page: Duration,
    /// Beginning a block, whatever its size.
    pub decode_block: Duration,
    /// The additional cost of the first block of a call, because others have used the cache in the
    /// meantime.
    pub decode_cold: Duration,
}

/// How it is decided which task gets a core, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// The tasks take turns.
    #[default]
    RoundRobin,
    /// The O(1) scheduler of Linux 2.6.0 to 2.6.22: tasks that have slept go first.
    O1,
    /// Each task gets the same share of the processor.
    Fair,
}

impl Scheduler {
    /// The scheduler that a machine file calls `name`.
    pub(crate) fn from_name(name: &str) -> Self {
        match name {
            "o1" => Self::O1,
            "fair" => Self::Fair,
            _ => Self::RoundRobin,
        }
    }
}

impl Prices {
    /// One core on which nothing costs anything.
    pub const FREE: Self = Self {
        cores: 1,
        syscall: Duration::ZERO,
        fault: Duration::ZERO,
        page_lookup: Duration::ZERO,
        page_alloc: Duration::ZERO,
        folio_alloc: Duration::ZERO,
        write_call: Duration::ZERO,
        copy_picos_per_kib: 0,
        context_switch: Duration::ZERO,
        interrupt: Duration::ZERO,
        request_submit: Duration::ZERO,
        page_dirty: Duration::ZERO,
        flush_page: Duration::ZERO,
        flush_scan: Duration::ZERO,
        frame_scan: Duration::ZERO,
        scheduler: Scheduler::RoundRobin,
        cache_bytes: 0,
        footprint_bytes: 0,
        refill: Duration::ZERO,
        decode_page: Duration::ZERO,
        decode_block: Duration::ZERO,
        decode_cold: Duration::ZERO,
    };

    /// Decoding a block as far as is wanted: its pages one by one, and its raw pages looked up.
    pub(crate) fn decode(&self, decode: &Decode, cold: bool) -> Duration {
        let pages = decode.pages.len();
        let raw = if decode.buffer.is_some() { 0 } else { decode.raw.pages().len() };
        let lookups = self.page_lookup.times(raw);
        match decode.coding {
            Coding::Hole | Coding::Stored => self.copy(0, pages * PAGE_SIZE) + lookups,
            Coding::Packed => {
                let cold = if cold { self.decode_cold } else { Duration::ZERO };
                self.decode_block + self.decode_page.times(pages) + cold + lookups
            }
        }
    }

    /// Copying `len` bytes from `pages` pages; rounded down to whole nanoseconds.
    pub(crate) fn copy(&self, pages: u64, len: u64) -> Duration {
        let picos = len.saturating_mul(self.copy_picos_per_kib) / 1024;
        self.page_lookup.times(pages) + Duration(picos / 1000)
    }
}
