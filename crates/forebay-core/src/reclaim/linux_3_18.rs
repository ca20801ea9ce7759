//! Linux 3.18: active and inactive pages with the refault distance; only kswapd writes.
//!
//! Source:     Linux 3.18.29, mm/vmscan.c (shrink_inactive_list, shrink_page_list,
//!             inactive_file_is_low), mm/swap.c (mark_page_accessed,
//!             rotate_reclaimable_page), mm/workingset.c, mm/filemap.c (add_to_page_cache_lru).
//! Behaviour:  a second access makes a page active; one that comes back after fewer evictions and
//!             activations than there are active pages is active at once. Active pages age only
//!             while they outnumber inactive ones. Dirty inactive pages are passed over, marked,
//!             and the next to leave when they are clean, so a writer waits for clean *inactive*
//!             pages however many active ones are clean. After a batch of 32 pages that
//!             are all dirty and not under writeback (ZONE_DIRTY) kswapd writes those that it
//!             meets, one by one, until enough frames are free. A page that was accessed since it
//!             was last met only loses its mark (PAGEREF_RECLAIM_CLEAN).
//! Differs:    one zone without anonymous or mapped pages; the fast path's limit of dirty pages per
//!             zone is left out, since direct reclaim ignores it. Frames are reclaimed when none is
//!             free and not at the watermarks; kswapd runs only to write. Beside dirty pages a
//!             caller looks at 32, then sleeps until one is clean, not for a tenth of a second.
//!             With nothing dirty and all inactive pages in use, active ones leave.
//! Not for:    loads without writes larger than memory, where `two-lists` costs less.

use alloc::boxed::Box;

use super::Policy;
use super::workingset::{Rules, Workingset};

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "linux-3.18",
    summary: "Linux 3.18: two lists with dirty pages, refault distance, kswapd writes",
    source: "Linux 3.18.29",
    parameters: &[],
    build: |_| {
        Box::new(Workingset::new(Rules {
            active_per_inactive: |_| 1,
            activates_dirty: false,
            counts_folios: false,
            writes_at_once: true,
        }))
    },
};

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::testing::Memory;

    const POLICY: &str = "linux-3.18";

    #[test]
    fn a_writer_waits_for_clean_inactive_pages_though_active_ones_are_clean() {
        let mut memory = Memory::new(POLICY, 4);
        memory.read_each([1, 1, 2, 2]);
        memory.write_each([3, 4]);
        assert!(!memory.write(5), "pages 1 and 2 are active and do not outnumber the others");
        memory.clean(4);
        assert!(memory.write(5));
        assert_eq!(memory.present(1..=5), [1, 2, 3, 5]);
    }

    #[test]
    fn a_page_that_comes_back_within_the_active_lists_length_is_active_at_once() {
        let mut memory = Memory::new(POLICY, 4);
        memory.read_each([1, 1, 2, 3, 4]);
        // Age 1 by the activation of page 1; page 2 leaves at age 2, page 3 at age 3.
        memory.read_each([5, 2]);
        // The distance of page 2 was 3 - 2, and one page was active.
        memory.read_each([6, 7, 8]);
        assert_eq!(memory.present(1..=8), [1, 2, 7, 8]);
    }

    #[test]
    fn a_page_that_comes_back_later_is_inactive() {
        let mut memory = Memory::new(POLICY, 4);
        memory.read_each([1, 1, 2, 3, 4, 5, 6]);
        // Page 2 has left at age 2, page 3 at age 3, and page 4 leaves at age 4.
        memory.read_each([2]);
        memory.read_each([7, 8, 9]);
        assert_eq!(memory.present(1..=9), [1, 7, 8, 9]);
    }

    #[test]
    fn active_pages_age_only_while_they_outnumber_inactive_ones() {
        let mut memory = Memory::new(POLICY, 4);
        memory.read_each([1, 1, 2, 2, 3, 3, 4]);
        // Three active pages and one inactive: the oldest, page 1, becomes inactive behind page 4.
        memory.read_each([5]);
        assert_eq!(memory.present(1..=5), [1, 2, 3, 5]);
        memory.read_each([6]);
        assert_eq!(memory.present(1..=6), [2, 3, 5, 6]);
    }

    #[test]
    fn a_dirty_page_that_was_passed_over_leaves_first_when_it_is_clean() {
        let mut memory = Memory::new(POLICY, 4);
        memory.write_each([1]);
        memory.read_each([2, 3, 4, 5]);
        assert_eq!(memory.present(1..=5), [1, 3, 4, 5]);
        memory.clean(1);
        memory.read_each([6]);
        assert_eq!(memory.present(1..=6), [3, 4, 5, 6]);
    }

    #[test]
    fn kswapd_writes_the_oldest_pages_when_no_clean_one_is_left() {
        let mut memory = Memory::new(POLICY, 1_100);
        memory.write_each(0..1_100);
        assert_eq!(memory.background(), [], "memory is not short");
        assert!(!memory.write(1_100));
        let sent = memory.background();
        assert_eq!((sent.len(), &sent[..4]), (1_100, &[0, 1, 2, 3][..]));
    }

    #[test]
    fn kswapd_writes_a_page_that_was_accessed_only_when_it_meets_it_again() {
        let mut memory = Memory::new(POLICY, 1_100);
        memory.write_each(0..40);
        memory.read_each([40]);
        memory.write_each(41..1_100);
        assert!(!memory.write(1_100), "32 pages are met and lose their marks, none is clean");
        let sent = memory.background();
        assert_eq!(memory.present([40]), []);
        assert_eq!(sent.len(), 1_099);
        assert_eq!(sent[..34], (0..34).collect::<Vec<_>>(), "pages 32 to 1,099 had their marks");
    }

    #[test]
    fn a_batch_with_a_page_under_writeback_does_not_make_kswapd_write() {
        let mut memory = Memory::new(POLICY, 1_100);
        memory.write_each(0..1_100);
        memory.cache.start_writeback(memory.frame(31));
        assert!(!memory.write(1_100));
        assert_eq!(memory.background(), []);
        memory.cache.end_writeback(memory.frame(31));
        memory.write_each([1_100]);
        assert_eq!(memory.present([31]), []);
        assert!(!memory.write(1_101));
        assert_eq!(memory.background().len(), 1_100);
    }
}
