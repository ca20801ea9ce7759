//! What long work shows of itself.
//!
//! ```text
//!   standard error is   estimated before the work    measured by the work
//!   a terminal          a note, then a bar           a bar after a second
//!   anything else       nothing                      a note after a second if much is left
//! ```

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use forebay_report::messages;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How far work is whose end can be estimated.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// When the work reported for the first time, and how far it was: what came before is set-up.
    began: Option<(Instant, f64)>,
    /// When the estimate is due next; none once it was printed.
    next_estimate: Option<Duration>,
}

/// Seconds of work that are announced even without a terminal.
const LONG: f64 = 10.0;

/// Between two estimates of work that has not been announced.
const INTERVAL: Duration = Duration::from_secs(1);

/// The share of the work that an estimate needs, unless so many seconds have passed: one second
/// of a busy machine can be all but lost.
const MEASURED_MIN: f64 = 0.005;
const ELAPSED_ENOUGH: f64 = 5.0;

const STEPS: u64 = 10_000;

impl Progress {
    /// Work that was estimated beforehand, which `announcement` says in words.
    pub(crate) fn estimated(announcement: &str) -> Self {
        if is_on_terminal() {
            messages::note(announcement);
        }
        let progress = Self::with_next_estimate(None);
        progress.bar.enable_steady_tick(INTERVAL);
        progress
    }

    /// Work that [reports](Self::measure) how far it is.
    pub(crate) fn measured() -> Self {
        Self::with_next_estimate(Some(INTERVAL))
    }

    /// Work whose progress another bar shows.
    pub(crate) fn hidden() -> Self {
        let hidden = Self::with_next_estimate(None);
        hidden.bar.set_draw_target(ProgressDrawTarget::hidden());
        hidden
    }

    fn with_next_estimate(next_estimate: Option<Duration>) -> Self {
        let bar = ProgressBar::with_draw_target(Some(STEPS), messages::progress_target());
        let style = "{wide_msg} {bar:16} {percent:>3} %, {eta} left";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is well formed"));
        Self { bar, began: None, next_estimate }
    }

    /// Names what runs.
    pub(crate) fn name(&self, what: String) {
        self.bar.set_message(what);
    }

    /// Moves the bar to a share of the work.
    pub(crate) fn set(&self, fraction: f64) {
        self.bar.set_position((fraction * STEPS as f64) as u64);
    }

    /// The work is so far; `done` says it in words.
    pub(crate) fn measure(&mut self, fraction: f64, done: impl FnOnce() -> String) {
        let (began, first) = *self.began.get_or_insert_with(|| (Instant::now(), fraction));
        let elapsed = began.elapsed();
        if elapsed < INTERVAL {
            return;
        }
        if is_on_terminal() {
            self.set(fraction);
            self.name(done());
        } else if self.next_estimate.is_some_and(|due| due <= elapsed) {
            let sentence = sentence(elapsed.as_secs_f64(), (first, fraction), done);
            self.next_estimate = sentence.is_none().then(|| elapsed + INTERVAL);
            if let Some(sentence) = sentence {
                messages::note(&sentence);
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Whether so many seconds are announced even without a terminal.
pub(crate) fn is_long(seconds: f64) -> bool {
    seconds.is_finite() && seconds > LONG
}

/// What is done and what is left of it, if that is long and was measured for long enough.
fn sentence(
    elapsed: f64,
    (first, fraction): (f64, f64),
    done: impl FnOnce() -> String,
) -> Option<String> {
    let measured = fraction - first;
    let left = elapsed * (1.0 - fraction) / measured;
    let is_measured = measured >= MEASURED_MIN || elapsed >= ELAPSED_ENOUGH;
    (is_measured && is_long(left)).then(|| format!("{}; about {} left", done(), length(left)))
}

/// A length of time, rounded up to what a reader can use.
pub(crate) fn length(seconds: f64) -> String {
    let seconds = seconds.ceil().max(1.0);
    let minutes = (seconds / 60.0).ceil();
    match () {
        () if seconds < 100.0 => format!("{seconds} s"),
        () if minutes < 120.0 => format!("{minutes} minutes"),
        () => format!("{} hours", (minutes / 60.0).ceil()),
    }
}

fn is_on_terminal() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_that_is_left_is_announced_and_little_is_not() {
        let done = || "simulated 2 of 30 s".to_owned();
        let said = sentence(6.8, (0.0, 2.0 / 30.0), done);
        assert_eq!(said.as_deref(), Some("simulated 2 of 30 s; about 96 s left"));
        assert_eq!(sentence(1.0, (0.0, 0.1), done), None);
        assert_eq!(sentence(1.0, (0.0, 0.0), done), None);
        assert!(sentence(1.0, (0.0, 0.09), done).is_some());
        assert!(sentence(1.0, (0.01, 0.09), done).is_some(), "what came before does not count");
    }

    #[test]
    fn a_share_that_is_too_small_to_measure_waits() {
        let done = || "simulated 0 of 30 s".to_owned();
        assert_eq!(sentence(1.0, (0.0, 0.001), done), None);
        assert!(sentence(5.0, (0.0, 0.001), done).is_some());
    }

    #[test]
    fn a_length_is_rounded_up() {
        assert_eq!(length(0.1), "1 s");
        assert_eq!(length(98.2), "99 s");
        assert_eq!(length(500.0), "9 minutes");
        assert_eq!(length(10_000.0), "3 hours");
    }
}
