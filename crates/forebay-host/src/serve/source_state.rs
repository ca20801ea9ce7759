//! Whether the source of an export answers, and when to say so.
//!
//! A source fails from an error on, and answers again once it has answered for a second without
//! one: a disk with a damaged block, which some requests meet, does not change all the time.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The state of one source.
#[derive(Debug, Default)]
pub(super) struct SourceState {
    is_failing: AtomicBool,
    times: Mutex<Times>,
}

#[derive(Debug, Default)]
struct Times {
    /// Of the last error.
    fault: Option<Instant>,
    /// Of the last change that was logged.
    logged: Option<Instant>,
}

impl SourceState {
    /// A request has failed. Returns whether that is to be logged.
    pub(super) fn fails(&self, now: Instant) -> bool {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.fault = Some(now);
        self.turns(&mut times, true, now)
    }

    /// A request has succeeded. Returns whether that is to be logged.
    pub(super) fn answers(&self, now: impl FnOnce() -> Instant) -> bool {
        if !self.is_failing.load(Relaxed) {
            return false;
        }
        let now = now();
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        is_past(times.fault, now) && self.turns(&mut times, false, now)
    }

    /// It has been reached again, so that earlier errors do not count.
    pub(super) fn returns(&self, now: Instant) -> bool {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.fault = None;
        self.turns(&mut times, false, now)
    }

    fn turns(&self, times: &mut Times, is_failing: bool, now: Instant) -> bool {
        if self.is_failing.load(Relaxed) == is_failing || !is_past(times.logged, now) {
            return false;
        }
        self.is_failing.store(is_failing, Relaxed);
        times.logged = Some(now);
        true
    }
}

fn is_past(time: Option<Instant>, now: Instant) -> bool {
    time.is_none_or(|time| now.saturating_duration_since(time) >= INTERVAL)
}

/// Between two lines about one source.
const INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_logged_once_and_at_most_one_a_second() {
        let (state, begin) = (SourceState::default(), Instant::now());
        let at = |millis| begin + Duration::from_millis(millis);
        assert!(!state.answers(|| at(0)), "it has never failed");
        assert!(state.fails(at(10)));
        assert!(!state.fails(at(5000)), "logged already");
        assert!(!state.answers(|| at(5500)), "half a second after an error");
        assert!(state.answers(|| at(6000)));
        assert!(!state.answers(|| at(6001)));
        assert!(!state.fails(at(6500)), "half a second after a line");
        assert!(state.fails(at(7100)));
        assert!(!state.answers(|| at(7200)));
        assert!(state.answers(|| at(8200)));
        assert!(!state.returns(at(9300)), "it does not fail");
        assert!(state.fails(at(9400)));
        assert!(!state.fails(at(10_500)));
        assert!(state.returns(at(10_600)), "sooner than a second after an error");
    }
}
