//! The timer wheel of Linux 4.8 and later: when a sleep of some jiffies ends.
//!
//! ```text
//!   level 0   63 jiffies     each expires at its own tick, and one later
//!         1   504            ticks of 8
//!         2   4,032          ticks of 64      and so on, eight times as coarse each
//! ```

/// Levels of the wheel; on the last one a sleep is cut off.
const LEVELS: u32 = 9;

/// Buckets of a level, and how many bits coarser each is than the one before.
const BUCKETS: u64 = 64;
const SHIFT: u32 = 3;

/// The jiffy at whose tick a sleep of `pause` jiffies ends that begins in jiffy `now`: never early,
/// so the present jiffy, of which a part is over, does not count.
pub(super) fn expiry(now: u64, pause: u64) -> u64 {
    let level = (1..LEVELS).find(|level| pause < (BUCKETS - 1) << ((level - 1) * SHIFT));
    let shift = (level.unwrap_or(LEVELS) - 1) * SHIFT;
    let pause = pause.min((BUCKETS - 1) << shift);
    ((now.saturating_add(pause) >> shift) + 1) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_sleep_ends_at_the_tick_after_and_a_long_one_at_a_coarse_tick() {
        for (now, pause, end) in [
            (1_000, 0, 1_001),
            (1_000, 1, 1_002),
            (1_000, 62, 1_063),
            (1_000, 63, 1_064),
            (1_001, 63, 1_072),
            (1_000, 200, 1_208),
            (1_004, 200, 1_208),
            (1_000, 503, 1_504),
            (1_000, 504, 1_536),
        ] {
            assert_eq!(expiry(now, pause), end, "{now} {pause}");
        }
    }
}
