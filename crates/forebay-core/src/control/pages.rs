//! How a level in pages follows its target: not for every trifle, and downwards no faster than the
//! dirty pages.
//!
//! Estimates of the drain fluctuate, and a limit that follows each of them would mean nothing. A
//! limit below the dirty level stops every writer until the surplus is written, so it falls only to
//! the dirty level; writers paced below it let it fall step by step.

use super::Sample;
use crate::units::{MIB, PAGE_SIZE};
use crate::writeback::Amount;

/// Pages of one MiB.
pub(super) const MIB_PAGES: u64 = MIB / PAGE_SIZE;

/// A level moves when its target differs by more than this part of it: 10 %.
const DAMPING: u64 = 10;

/// The limit as it shall be on the way to `target`, with `dirty` pages now.
pub(super) fn lead(present: Amount, target: u64, dirty: u64) -> u64 {
    match present {
        Amount::Pages(old) if !moves(old, target) => old,
        Amount::Pages(old) if target < old => target.max(dirty.min(old)),
        Amount::Pages(_) | Amount::Share(_) => target,
    }
}

/// Whether a value that is `old` follows a target.
pub(super) fn moves(old: u64, target: u64) -> bool {
    u128::from(old.abs_diff(target)) * u128::from(DAMPING) > u128::from(old)
}

/// Pages that `drain` pages a second write in `millis`, rounded down.
pub(super) fn drained(drain: u64, millis: u64) -> u64 {
    u64::try_from(u128::from(drain) * u128::from(millis) / 1_000).unwrap_or(u64::MAX)
}

/// At least `floor`, but no more than a fifth of memory and no more than `cap`; those go first.
pub(super) fn bounded(pages: u64, floor: u64, total: u64, cap: u64) -> u64 {
    pages.max(floor).min(total / 5).min(cap)
}

/// The sum of the measured drains, if there is one.
pub(super) fn drain(samples: &[Sample]) -> Option<u64> {
    let measured = samples.iter().filter_map(|sample| sample.drain);
    measured.reduce(u64::saturating_add)
}

/// Dirty pages of the machine, as the samples agree.
pub(super) fn dirty(samples: &[Sample]) -> u64 {
    samples.iter().map(|sample| sample.dirty).max().unwrap_or(0)
}

/// Page memory of the machine, as the samples agree; without any it is unbounded.
pub(super) fn total(samples: &[Sample]) -> u64 {
    samples.iter().map(|sample| sample.total).max().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_follows_only_what_differs_by_more_than_a_tenth() {
        assert!(!moves(1_000, 1_100) && moves(1_000, 1_101));
        assert!(!moves(1_000, 900) && moves(1_000, 899));
        assert!(!moves(0, 0) && moves(0, 1) && moves(u64::MAX, 0));
    }

    #[test]
    fn a_limit_rises_at_once_and_falls_with_the_dirty_pages() {
        let present = Amount::Pages(1_000);
        assert_eq!(lead(present, 5_000, 900), 5_000);
        assert_eq!(lead(present, 500, 950), 950, "less than a tenth, but on its way");
        assert_eq!(lead(Amount::Pages(950), 500, 300), 500);
        assert_eq!(lead(present, 500, 3_000), 1_000, "never up on the way down");
        assert_eq!(lead(present, 950, 0), 1_000);
        assert_eq!(lead(Amount::percent(1), 500, 3_000), 500, "a share is left at once");
    }

    #[test]
    fn memory_bounds_a_level_more_than_the_floor() {
        assert_eq!(bounded(10, 100, 10_000, 5_000), 100);
        assert_eq!(bounded(10, 100, 200, 5_000), 40);
        assert_eq!(bounded(9_000, 100, 100_000, 5_000), 5_000);
    }
}
