//! What writers did without a limit and with it.
//!
//! Source:     Forebay; debugfs counts the bytes that became dirty for each backing device.
//! Behaviour:  looks in which something became dirty are summed up on two sides.
//! Differs:    nothing.
//! Not for:    pages that are written again while they are dirty: the kernel counts them once.

use forebay_core::time::{Duration, Instant};

use super::mib;

/// Bytes that became dirty, and the time of the looks in which they did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    last: Option<(Instant, u64, bool)>,
    without: (u64, Duration),
    with: (u64, Duration),
}

impl Rates {
    /// A look.
    pub(super) fn count(&mut self, now: Instant, dirtied: u64, is_limited: bool) {
        let Some((then, before, was_limited)) = self.last.replace((now, dirtied, is_limited))
        else {
            return;
        };
        let bytes = dirtied.saturating_sub(before);
        if bytes < LEAST {
            return;
        }
        let side = if was_limited { &mut self.with } else { &mut self.without };
        (side.0, side.1) = (side.0.saturating_add(bytes), side.1 + now.since(then));
    }

    /// Both in a few words, at the end of a limit; then it begins anew.
    pub(super) fn take(&mut self) -> Option<String> {
        let Self { without, with, .. } = std::mem::take(self);
        let rate = |(bytes, time): (u64, Duration)| {
            let millis = time.as_nanos() / 1_000_000;
            (millis > 0).then(|| mib(bytes.saturating_mul(1_000) / millis))
        };
        match (rate(without), rate(with)) {
            (Some(without), Some(with)) => Some(format!(
                "its writers made {without} MiB/s dirty without the limit, {with} with it"
            )),
            (None, Some(with)) => Some(format!("its writers made {with} MiB/s dirty with it")),
            (_, None) => None,
        }
    }
}

/// A look in which less became dirty is one without writers.
const LEAST: u64 = 1 << 20;
