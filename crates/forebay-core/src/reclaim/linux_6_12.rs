//! Linux 6.12: as 3.18, with more active pages, and dirty ones among them.
//!
//! Source:     Linux 6.12, mm/vmscan.c (shrink_folio_list, inactive_is_low), mm/swap.c
//!             (folio_mark_accessed, lru_move_tail), mm/workingset.c.
//! Behaviour:  as `linux-3.18`, but active pages age only while they outnumber inactive ones by the
//!             square root of ten times the GiB on both lists. A dirty folio that reclaim meets
//!             becomes active, and goes to the end of the inactive list when it is clean. kswapd
//!             writes only folios that it meets for the second time. Accesses count per folio.
//! Differs:    as `linux-3.18`. The kernel also ages active pages whenever refaults were seen since
//!             the last reclaim (prepare_scan_control). The multi-generational LRU
//!             (CONFIG_LRU_GEN), which many distributions switch on, is not modelled.
//! Not for:    kernels that run the multi-generational LRU.

use alloc::boxed::Box;

use super::Policy;
use super::workingset::{Rules, Workingset};

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "linux-6.12",
    summary: "Linux 6.12 without the multi-generational LRU: dirty folios become active",
    source: "Linux 6.12",
    parameters: &[],
    build: |_| {
        Box::new(Workingset::new(Rules {
            active_per_inactive: ratio,
            activates_dirty: true,
            counts_folios: true,
            writes_at_once: false,
        }))
    },
};

/// The number of active pages for each inactive one, of `pages` pages in all.
fn ratio(pages: u64) -> u64 {
    const GIB_PAGES: u64 = 1 << 18;
    match pages / GIB_PAGES {
        0 => 1,
        gib => (10 * gib).isqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FILE, Memory};
    use super::*;
    use crate::readahead::Folio;

    #[test]
    fn a_dirty_page_that_reclaim_meets_is_active_until_it_is_clean() {
        let mut memory = Memory::new("linux-6.12", 4);
        memory.write_each([1]);
        memory.read_each([2, 3, 4, 5]);
        // Page 1 is active: pages 3 and 4 would leave before it even if it were clean.
        assert_eq!(memory.present(1..=5), [1, 3, 4, 5]);
        memory.clean(1);
        memory.read_each([6]);
        assert_eq!(memory.present(1..=6), [3, 4, 5, 6], "clean, it is the next to leave");
    }

    #[test]
    fn kswapd_writes_what_it_meets_for_the_second_time() {
        let mut memory = Memory::new("linux-6.12", 1_100);
        memory.write_each(0..1_100);
        assert!(!memory.write(1_100));
        assert_eq!(memory.background(), [], "all become active");
        assert!(!memory.write(1_100));
        assert_eq!(memory.background()[..3], [0, 1, 2], "half of them have become inactive again");
    }

    #[test]
    fn accesses_count_per_folio() {
        let mut memory = Memory::new("linux-6.12", 8);
        assert!(memory.cache.add(FILE, Folio { first: 0, order: 2, marked: false }));
        (0..4).for_each(|page| memory.cache.end_read(memory.frame(page)));
        // Two accesses of different pages make all four active.
        for page in [1, 2] {
            memory.cache.touch(memory.frame(page));
        }
        memory.read_each(10..20);
        assert_eq!(memory.present(0..4), [0, 1, 2, 3]);
    }

    #[test]
    fn the_ratio_is_that_of_the_kernels_table() {
        // The comment above inactive_is_low: 1 GB 3, 10 GB 10, 100 GB 31, 1 TB 101.
        let gib = |gib: u64| ratio(gib << 18);
        assert_eq!([gib(1), gib(10), gib(100), gib(1_024)], [3, 10, 31, 101]);
        assert_eq!(ratio((1 << 18) - 1), 1);
    }
}
