//! Which readahead window a file should have: arithmetic, without state.
//!
//! Source:     Forebay. That a fault brings in the whole window is `do_sync_mmap_readahead` of
//!             `mm/filemap.c`.
//! Behaviour:  faults in no order: the least window, until the rates at two windows tell what the
//!             device can do; then bandwidth through request rate, the size at which a request
//!             costs as much in bytes as in operations. Streams: four times the present one, as a
//!             trial. Reads in no order: nothing on a disk, which reads what was asked for; their
//!             own size where a window cuts them (FUSE, network). Short runs: a quarter of a run,
//!             as what was read ahead at its end, a window or two, is for nothing; from there on
//!             four times and twice the present one, as trials. Sizes are powers of two, and a
//!             window stays as it is while it is near what is wanted.
//! Differs:    nothing.
//! Not for:    files that are wholly cached or whose reader has switched windows off: they cause no
//!             windows, and need none.

use crate::pattern::Pattern;

/// What a device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling {
    /// Bytes a second at best.
    pub bandwidth: u64,
    /// Small requests a second at best.
    pub iops: u64,
}

impl Ceiling {
    /// The size in bytes at which a request costs as much in bytes as in operations.
    pub fn knee(&self) -> u64 {
        self.bandwidth / self.iops.max(1)
    }
}

/// Bounds that no window leaves, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The least: a smaller one makes each page a request.
    pub floor: u64,
    /// The greatest.
    pub cap: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { floor: 16, cap: 16_384 }
    }
}

impl Bounds {
    /// The nearest power of two at or below `bytes` that lies within the bounds, in KiB.
    fn below(self, bytes: u64) -> u64 {
        let kib = bytes >> 10;
        let power = if kib == 0 { 0 } else { 1 << kib.ilog2() };
        power.clamp(self.floor, self.cap)
    }

    /// The nearest power of two at or above `bytes` that lies within the bounds, in KiB.
    fn above(self, bytes: u64) -> u64 {
        bytes.div_ceil(1 << 10).min(1 << 40).next_power_of_two().clamp(self.floor, self.cap)
    }
}

/// The window for a file of a pattern, in KiB; none if its window does not matter or `present` is
/// near enough. `ceiling` is none of a device that is not known; `cuts` says that windows cut
/// requests into pieces, as on FUSE and network mounts.
pub fn wanted(
    pattern: Pattern,
    present: u64,
    ceiling: Option<Ceiling>,
    cuts: bool,
    bounds: Bounds,
) -> Option<u64> {
    let wanted = match pattern {
        Pattern::RandomFaults => {
            let wanted = for_faults(ceiling, bounds);
            // The power of two below may be half of what is wanted, and the next one a little more.
            let near =
                |bytes: u64| (bytes / 2..=(bytes / 5).saturating_mul(6)).contains(&(present << 10));
            if ceiling.is_some_and(|it| near(it.knee())) { present } else { wanted }
        }
        Pattern::Stream => larger(present, u64::MAX, bounds).max(bounds.floor),
        Pattern::RandomReads { request } if cuts => {
            bounds.above(request.saturating_mul(PAGE)).max(present)
        }
        Pattern::ShortRuns { pages } => for_runs(pages, bounds),
        Pattern::RandomReads { .. } | Pattern::Unclear => return None,
    };
    is_worth(present, wanted).then_some(wanted)
}

/// The window for faults: of a device that is not known the least, which never loses faults a
/// second, whatever the device.
pub fn for_faults(ceiling: Option<Ceiling>, bounds: Bounds) -> u64 {
    ceiling.map_or(bounds.floor, |it| bounds.below(it.knee()))
}

/// The first window to try for runs.
fn for_runs(pages: u64, bounds: Bounds) -> u64 {
    bounds.above(pages.saturating_mul(PAGE) / RUN_PARTS).max(RUN_LEAST.min(bounds.cap))
}

/// Whether runs have the first window to try for them, or a larger one that is still in proportion:
/// where requests cost much, a larger one saves more than it reads for nothing.
pub fn suits_runs(pages: u64, present: u64, bounds: Bounds) -> bool {
    let first = for_runs(pages, bounds);
    (first..=first.saturating_mul(RUN_WINDOWS_MAX)).contains(&present)
}

/// The larger window to try next, four times the present one or twice; the present one if there is
/// none. `worse` is the least window that was slower than a smaller one.
pub fn larger(present: u64, worse: u64, bounds: Bounds) -> u64 {
    let next = [4, 2].map(|times| present.saturating_mul(times).min(bounds.cap));
    next.into_iter().find(|to| *to < worse).unwrap_or(present).max(present)
}

/// What two windows and the faults a second at each say of a device: a fault takes a time of its
/// own and one for its bytes.
///
/// ```text
///   time of a fault   |            .  small: 1 / rate
///                     |       .
///                     |  .  own time = 1 / iops
///                     +------------- window       slope = 1 / bandwidth
/// ```
///
/// None if the larger window was not slower, so that bytes cost nothing that can be seen.
pub fn ceiling_of(small: (u64, f64), large: (u64, f64)) -> Option<Ceiling> {
    let [time_small, time_large] = [small, large].map(|(_, rate)| 1.0 / rate);
    let bytes = (large.0.checked_sub(small.0)? << 10) as f64;
    let per_byte = (time_large - time_small) / bytes;
    if !per_byte.is_finite() || per_byte <= 0.0 {
        return None;
    }
    // A device that moves bytes and begins the next request at once has no time of its own left;
    // half of the small one's time is then a cautious guess.
    let own = (time_small - per_byte * (small.0 << 10) as f64).max(time_small / 2.0);
    Some(Ceiling { bandwidth: (1.0 / per_byte) as u64, iops: ((1.0 / own) as u64).max(1) })
}

/// Whether a window is worth a change: by a factor of two or more.
pub fn is_worth(present: u64, wanted: u64) -> bool {
    wanted != present && (wanted / 2 >= present || present / 2 >= wanted)
}

/// Windows in a run.
const RUN_PARTS: u64 = 4;

/// Times the first window that a window in proportion is at most: four runs.
const RUN_WINDOWS_MAX: u64 = 16;

/// The least window of runs in KiB: below it a request costs more than its bytes on any device.
const RUN_LEAST: u64 = 64;

const PAGE: u64 = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: Option<Ceiling> = Some(Ceiling { bandwidth: 131_072_000, iops: 3_000 });
    const DISK: Option<Ceiling> = Some(Ceiling { bandwidth: 160_000_000, iops: 150 });

    fn window(pattern: Pattern, present: u64, ceiling: Option<Ceiling>, cuts: bool) -> Option<u64> {
        wanted(pattern, present, ceiling, cuts, Bounds::default())
    }

    #[test]
    fn faults_get_bandwidth_through_request_rate() {
        assert_eq!(window(Pattern::RandomFaults, 8_192, VOLUME, false), Some(32), "43 KiB");
        assert_eq!(window(Pattern::RandomFaults, 8_192, DISK, false), Some(1_024), "1.07 MB");
        assert_eq!(window(Pattern::RandomFaults, 8_192, None, false), Some(16));
        let fast = Some(Ceiling { bandwidth: 3_000_000_000, iops: 800_000 });
        assert_eq!(window(Pattern::RandomFaults, 128, fast, false), Some(16), "never below");
    }

    #[test]
    fn streams_get_four_times_what_they_have_and_never_less() {
        assert_eq!(window(Pattern::Stream, 128, None, true), Some(512));
        assert_eq!(window(Pattern::Stream, 512, DISK, false), Some(2_048));
        assert_eq!(window(Pattern::Stream, 16_384, None, false), None, "the cap");
        assert_eq!(window(Pattern::Stream, 65_536, None, false), None, "above the cap");
    }

    #[test]
    fn reads_in_no_order_matter_only_where_windows_cut_them() {
        let reads = Pattern::RandomReads { request: 256 };
        assert_eq!(window(reads, 128, None, true), Some(1_024));
        assert_eq!(window(reads, 2_048, None, true), None, "large enough");
        assert_eq!(window(reads, 128, VOLUME, false), None);
        assert_eq!(window(Pattern::Unclear, 128, VOLUME, true), None);
    }

    #[test]
    fn short_runs_get_a_quarter_of_their_length() {
        let runs = |pages| Pattern::ShortRuns { pages };
        assert_eq!(window(runs(128), 8_192, None, false), Some(128), "512 KiB");
        assert_eq!(window(runs(1_024), 128, None, false), Some(1_024), "4 MiB");
        assert_eq!(window(runs(2), 8_192, None, false), Some(64), "the least");
        assert_eq!(window(runs(256), 256, None, false), None, "as it is");
    }

    #[test]
    fn the_next_larger_window_is_below_what_was_slower() {
        let next = |present, worse| larger(present, worse, Bounds::default());
        assert_eq!([8_192, 257, 256, 128].map(|worse| next(64, worse)), [256, 256, 128, 64]);
        assert_eq!(next(1_024, u64::MAX), 4_096);
        assert_eq!(next(65_536, u64::MAX), 65_536, "above the cap");
        let capped = Bounds { cap: 100, ..Bounds::default() };
        assert_eq!(larger(64, u64::MAX, capped), 100);
    }

    #[test]
    fn runs_have_a_window_in_proportion_from_a_quarter_of_them_to_four() {
        let suits = |present| suits_runs(16, present, Bounds::default());
        assert_eq!([63, 64, 1_024, 1_025].map(suits), [false, true, true, false]);
    }

    #[test]
    fn a_window_stays_until_it_is_off_by_two() {
        assert_eq!(window(Pattern::RandomFaults, 32, VOLUME, false), None);
        assert_eq!(window(Pattern::RandomFaults, 48, VOLUME, false), None);
        assert_eq!(window(Pattern::RandomFaults, 64, VOLUME, false), Some(32));
        assert!(!is_worth(16, 16) && is_worth(16, 32) && is_worth(0, 16) && !is_worth(0, 0));
    }

    #[test]
    fn two_windows_and_their_rates_give_the_device_away() {
        // 3000 requests and 125 MiB a second.
        let found = ceiling_of((16, 3_000.0), (8_192, 16.0)).unwrap();
        let Ceiling { bandwidth, iops } = found;
        assert!((120_000_000..150_000_000).contains(&bandwidth), "{bandwidth}");
        assert!((3_000..=6_000).contains(&iops), "{iops}");
        assert!([16, 32].contains(&for_faults(Some(found), Bounds::default())));
        // 150 requests and 160 MB a second, both paid by each request.
        let found = ceiling_of((16, 148.0), (8_192, 17.0)).unwrap();
        assert!([512, 1_024].contains(&for_faults(Some(found), Bounds::default())), "{found:?}");
        assert_eq!(ceiling_of((16, 100.0), (8_192, 100.0)), None);
        assert_eq!(ceiling_of((16, 100.0), (8_192, 0.0)), None, "no rate, no slope");
        assert_eq!(ceiling_of((16, 0.0), (16, 0.0)), None);
    }

    #[test]
    fn any_numbers_give_a_window_within_the_bounds() {
        let bounds = Bounds::default();
        for size in [0, 1, 4_096, 1 << 40, u64::MAX] {
            for rate in [0, 1, 1_000, u64::MAX] {
                let ceiling = Some(Ceiling { bandwidth: size, iops: rate });
                for pattern in [
                    Pattern::RandomFaults,
                    Pattern::Stream,
                    Pattern::RandomReads { request: size },
                    Pattern::ShortRuns { pages: size },
                ] {
                    if let Some(kib) = wanted(pattern, 128, ceiling, true, bounds) {
                        assert!((bounds.floor..=bounds.cap).contains(&kib), "{ceiling:?}: {kib}");
                        assert!(kib.is_power_of_two());
                    }
                }
            }
        }
    }
}
