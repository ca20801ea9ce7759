//! How work is shared out among threads. A mount has one that takes requests, workers, and two that
//! push pages and fetch raw bytes. A server of disks has one for each client, and some for each
//! store.

use crate::time::Duration;
use crate::units::PAGE_SIZE;

/// How many of some decodes one of several workers carries out; the other workers get the rest.
/// Fewer than twelve small blocks are not worth waking a second worker.
pub fn share(jobs: usize, workers: usize) -> usize {
    jobs.div_ceil(workers.max(1)).max(SHARE_MIN)
}

/// The least share: a dozen blocks of 4 KiB take 100 us, twice the time of a wake-up.
const SHARE_MIN: usize = 12;

/// Pages of a READ that goes to a worker at once: its decoding would delay the requests behind it,
/// and costs more than the hand-over.
pub const WIDE_PAGES: u64 = 16;

/// Bytes of a block that is decoded in less time than a hand-over takes: four pages.
pub const QUICK_BYTES: u64 = 4 * PAGE_SIZE;

/// Such blocks that the thread that takes requests decodes itself if no request waits behind:
/// fewer than those of a wide READ.
pub const QUICK_BLOCKS: usize = 15;

/// After each so many of them it looks whether a request waits, and leaves the rest to a worker.
pub const QUICK_TURN: usize = 4;

/// How long that thread polls for a read of a fast device before it hands the read to a worker.
pub const DEVICE_POLL: Duration = Duration::from_micros(250);

/// Requests in the queue of the workers; the thread that takes requests answers further ones.
pub const WORKER_QUEUE_MAX: usize = 256;

/// Ranges of raw bytes in the queue of the thread that fetches; further ones are dropped.
pub const FETCH_QUEUE_MAX: usize = 64;

/// Pages in one STORE: a READ of one of them waits for all.
pub const PUSH_PAGES_MAX: u64 = 16;

/// How long the thread that pushes polls before it sleeps: as long as waking it takes.
pub const PUSH_POLL: Duration = Duration::from_micros(100);

/// Bytes at the beginning of a file that hold the headers that linkers write.
pub const HEADER_BYTES: u64 = 1 << 10;

/// Whether the thread that took a read carries it out itself: no other request is at the device,
/// and the last one took no longer than two hand-overs.
pub fn is_inline(under_way: u64, took: Duration) -> bool {
    under_way == 0 && took <= INLINE_MAX
}

/// The longest read in place. What arrives behind it waits as long.
const INLINE_MAX: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_of_an_idle_fast_device_stays_with_its_thread() {
        assert!(is_inline(0, Duration::from_micros(80)));
        assert!(!is_inline(1, Duration::from_micros(80)), "others are at the device");
        assert!(!is_inline(0, Duration::from_millis(10)), "the device is slow");
        assert!(!is_inline(0, Duration(u64::MAX)), "nothing is known of it");
    }

    #[test]
    fn workers_get_equal_shares_of_what_is_worth_one() {
        let rows = [(0, 2, 12), (12, 2, 12), (24, 2, 12), (32, 2, 16), (33, 2, 17), (33, 0, 33)];
        for (jobs, workers, expected) in rows {
            assert_eq!(share(jobs, workers), expected, "{jobs} jobs, {workers} workers");
        }
    }
}
