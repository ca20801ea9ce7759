//! The state of writeback: its knobs, the levels they are compared with, and the device's drain.
//!
//! ```text
//!   pages   0 ........ background ................. limit ........ all of memory
//!   dirty     only age     |   the flush rule writes  |  writers wait
//!             writes       |   (throttles pace here)  |
//! ```

use crate::time::Duration;

pub use drain::Drain;

mod drain;

/// What a controller may turn while writeback runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs {
    /// Above this level the flush rule writes whatever the age.
    pub background: Amount,
    /// Above this level writers wait.
    pub limit: Amount,
    /// Pages written in one go, of a pass or of a file; none leaves it to the flush rule.
    pub batch: Option<u64>,
    /// Pages at a device at once; none leaves it to the device's queue.
    pub in_flight: Option<u64>,
    /// From one look for old pages to the next; zero never looks.
    pub interval: Duration,
    /// The age at which a dirty page is old.
    pub expire: Duration,
    /// The same of a page that the write has added to its file, if it is a lesser one.
    pub expire_new: Option<Duration>,
}

impl Knobs {
    /// What today's Linux begins with: a tenth and a fifth of what could be dirty, a look every 5 s
    /// for pages of 30 s.
    pub const LINUX: Self = Self {
        background: Amount::percent(10),
        limit: Amount::percent(20),
        batch: None,
        in_flight: None,
        interval: Duration::from_secs(5),
        expire: Duration::from_secs(30),
        expire_new: None,
    };
}

/// A number of pages, or a share of the pages that could be dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Pages.
    Pages(u64),
    /// Parts per million of all of page memory.
    Share(u32),
}

impl Amount {
    /// A share in percent.
    pub const fn percent(percent: u32) -> Self {
        Self::Share(percent * 10_000)
    }

    /// The number of pages out of `total`, rounded down.
    pub const fn pages(self, total: u64) -> u64 {
        match self {
            Self::Pages(pages) => pages,
            Self::Share(ppm) => (total as u128 * ppm as u128 / 1_000_000) as u64,
        }
    }

    /// Whether `pages` out of `total` are more, without rounding.
    pub const fn is_exceeded(self, pages: u64, total: u64) -> bool {
        match self {
            Self::Pages(limit) => pages > limit,
            Self::Share(ppm) => pages as u128 * 1_000_000 > total as u128 * ppm as u128,
        }
    }
}

/// The background level that counts: Linux takes half of the limit where it would not lie below.
pub(crate) const fn background_below(background: u64, limit: u64) -> u64 {
    if background >= limit { limit / 2 } else { background }
}

/// How many pages are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Pages that differ from the device and are not under writeback.
    pub dirty: u64,
    /// Pages under writeback.
    pub writeback: u64,
    /// Those of them that have been dirtied again, which Linux counts in both.
    pub redirtied: u64,
    /// Pages that became dirty so far.
    pub dirtied: u64,
    /// Pages whose way to the device ended so far.
    pub written: u64,
}

impl Levels {
    /// Dirty pages, including those under writeback.
    pub const fn unsafe_pages(&self) -> u64 {
        self.dirty + self.writeback
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_compared_without_rounding() {
        let odd = Amount::Share(225_000);
        assert_eq!(odd.pages(1_001), 225);
        assert!(!odd.is_exceeded(225, 1_001));
        assert!(odd.is_exceeded(226, 1_001));
        assert!(Amount::percent(0).is_exceeded(1, 5) && !Amount::percent(100).is_exceeded(5, 5));
        assert!(Amount::Pages(7).is_exceeded(8, 1));
    }
}
