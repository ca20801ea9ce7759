//! How often what happened, and which pattern that is.
//!
//! Source:     Forebay; counts of seven patterns on Linux 6.18.
//! Behaviour:  shares alone decide, by thresholds that lie far from all counts that were seen.
//! Differs:    nothing.
//! Not for:    mixtures of faults and streams, which are unclear unless one part is ten times the
//!             other; a mixture of reads counts as short runs.

use super::{EVENTS_MIN, Pattern};

/// Readahead events of a period, and the pages in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads that found a page absent.
    pub sync: u64,
    /// Markers that were reached.
    pub marker: u64,
    /// Windows that went out.
    pub order: u64,
    /// Plain ranges that went out, also those of which a window is made.
    pub unbounded: u64,
    /// Pages that were brought in. Windows at the ends of files count as if these were longer; see
    /// [`Ends`](super::Ends).
    pub brought: u64,
    /// Of those, pages that were needed, as far as events show it: what a read asked for, the
    /// page of a fault, and the window whose marker was reached.
    pub used: u64,
}

impl Counts {
    /// All events.
    pub fn events(&self) -> u64 {
        self.sync + self.marker + self.order + self.unbounded
    }

    /// Pages brought in for each page used, in hundredths; none if none was brought in.
    pub fn amplification(&self) -> Option<u64> {
        (self.brought > 0).then(|| self.brought.saturating_mul(100) / self.used.max(1))
    }

    /// The pattern that these counts are; `request` is the median size of reads in pages, `run`
    /// that of what is read in order.
    pub fn pattern(&self, request: u64, run: u64) -> Pattern {
        if self.events() < EVENTS_MIN {
            return Pattern::Unclear;
        }
        let few = |some: u64, all: u64| some.saturating_mul(SHARE_FEW) < all;
        if few(self.sync, self.order) && few(self.marker, self.order) {
            return Pattern::RandomFaults;
        }
        let is_most = |some: u64, all: u64| some.saturating_mul(100) > all.saturating_mul(80);
        let is_ordered = self.order > 0 && is_most(self.marker, self.order);
        if is_ordered && few(self.sync, self.order) {
            return Pattern::Stream;
        }
        let (less, more) = (self.sync.min(self.unbounded), self.sync.max(self.unbounded));
        if is_most(less, more) && few(self.order, self.sync) {
            return Pattern::RandomReads { request };
        }
        // Each run begins with misses, goes on with windows, and leaves the last ones unused.
        let begins = self.sync > 0 && !few(self.sync, self.order);
        if begins && self.marker > 0 && !few(self.order, self.sync) && run > 1 {
            return Pattern::ShortRuns { pages: run };
        }
        Pattern::Unclear
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.sync += other.sync;
        self.marker += other.marker;
        self.order += other.order;
        self.unbounded += other.unbounded;
        self.brought = self.brought.saturating_add(other.brought);
        self.used = self.used.saturating_add(other.used);
    }
}

/// Less than one in so many is hardly any. Markers that faults in no order reach were 1 of 1975
/// windows, those of streams 63 of 64; a tenth leaves room for a neighbour that reads in order.
const SHARE_FEW: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_where_they_are_said_to_be() {
        let counts = |sync, marker, order, unbounded| {
            Counts { sync, marker, order, unbounded, ..Counts::default() }.pattern(3, 24)
        };
        assert_eq!(counts(0, 9, 100, 0), Pattern::RandomFaults);
        assert_eq!(counts(0, 10, 100, 0), Pattern::Unclear);
        assert_eq!(counts(0, 80, 100, 0), Pattern::Unclear);
        assert_eq!(counts(9, 81, 100, 0), Pattern::Stream);
        assert_eq!(counts(10, 81, 100, 0), Pattern::ShortRuns { pages: 24 });
        assert_eq!(counts(9, 60, 100, 0), Pattern::Unclear);
        assert_eq!(counts(100, 0, 0, 81), Pattern::RandomReads { request: 3 });
        assert_eq!(counts(100, 0, 0, 80), Pattern::Unclear);
        assert_eq!(counts(100, 0, 10, 100), Pattern::Unclear);
        assert_eq!(counts(100, 8, 10, 100), Pattern::ShortRuns { pages: 24 });
        assert_eq!(counts(100, 8, 9, 40), Pattern::Unclear);
        assert_eq!(counts(0, 0, EVENTS_MIN - 1, 0), Pattern::Unclear);
        assert_eq!(counts(0, 100, 0, 0), Pattern::Unclear);
        let many = u64::MAX / 1_000;
        assert_eq!(counts(many, 0, 0, many), Pattern::RandomReads { request: 3 });
    }

    #[test]
    fn amplification_needs_pages() {
        let counts = |brought, used| Counts { brought, used, ..Counts::default() }.amplification();
        assert_eq!(counts(0, 0), None);
        assert_eq!(counts(32, 0), Some(3_200));
        assert_eq!(counts(u64::MAX, 1), Some(u64::MAX));
    }
}
