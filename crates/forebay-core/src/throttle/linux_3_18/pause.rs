//! How long a pause may be, how many pages lie between two, and what one check decides.
//!
//! All times are jiffies.

/// Below this number of pages the time between two checks is stretched.
const POLL_THRESH: u64 = 32;

/// The range that pauses are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) max_pause: u64,
    /// Shorter pauses are not slept but remembered.
    pub(super) min_pause: u64,
    /// Pages until the next check.
    pub(super) pages: u64,
}

/// One task, as the throttle knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// Pages since its last pause.
    pub(super) nr_dirtied: u64,
    /// Pages until its next check.
    pub(super) nr_dirtied_pause: u64,
    /// The jiffy up to which it has paid; zero if it never has.
    pub(super) paused_when: u64,
}

impl Default for Task {
    fn default() -> Self {
        Self { nr_dirtied: 0, nr_dirtied_pause: POLL_THRESH, paused_when: 0 }
    }
}

impl Bounds {
    /// The bounds for a device with `dirty` pages and `bandwidth` pages a second whose tasks may
    /// write `rate` pages a second each, this one `task_rate`.
    pub(super) fn new(hz: u64, dirty: u64, bandwidth: u64, rate: u64, task_rate: u64) -> Self {
        let max_pause = max_pause(hz, dirty, bandwidth);
        let second = hz.next_power_of_two();
        let over = |rate: u64, time| rate.saturating_mul(time) / second;

        // 10 ms for one writer, and as much again for each doubling of their number.
        let mut time = (hz / 100).max(1);
        let doublings = log2(bandwidth).saturating_sub(log2(rate));
        time += doublings * (10 * hz) / 1024;
        time = time.min(1 + max_pause / 2);
        let mut pages = over(rate, time);
        if pages < POLL_THRESH {
            time = max_pause;
            pages = over(rate, time);
            if pages > POLL_THRESH {
                pages = POLL_THRESH;
                time = hz * POLL_THRESH / rate.max(1);
            }
        }
        if hz.saturating_mul(pages) / task_rate.saturating_add(1) > max_pause {
            time = max_pause;
            pages = over(task_rate, time);
        }
        let min_pause = if pages >= POLL_THRESH { 1 + time / 2 } else { time };
        Self { max_pause, min_pause, pages }
    }
}

impl Task {
    /// Whether and how long the task sleeps at jiffy `now` for `pages` at `rate` pages a second; a
    /// rate of zero gives the longest pause.
    pub(super) fn decide(
        &mut self,
        now: u64,
        hz: u64,
        pages: u64,
        rate: u64,
        bounds: &Bounds,
    ) -> Option<u64> {
        if rate == 0 {
            return Some(self.sleep(now, bounds.max_pause, bounds));
        }
        let period = hz.saturating_mul(pages) / rate;
        let thought =
            if self.paused_when == 0 { 0 } else { i128::from(now) - i128::from(self.paused_when) };
        let pause = i128::from(period) - thought;
        if pause < i128::from(bounds.min_pause) {
            if pause < -i128::from(hz) {
                self.paused_when = now;
                self.nr_dirtied = 0;
            } else if period > 0 {
                self.paused_when = self.paused_when.saturating_add(period);
                self.nr_dirtied = 0;
            } else if self.nr_dirtied_pause <= pages {
                self.nr_dirtied_pause = self.nr_dirtied_pause.saturating_add(pages);
            }
            return None;
        }
        let pause = u64::try_from(pause).unwrap_or(u64::MAX);
        let excess = pause.saturating_sub(bounds.max_pause).min(bounds.max_pause);
        Some(self.sleep(now + excess, pause.min(bounds.max_pause), bounds))
    }

    fn sleep(&mut self, now: u64, pause: u64, bounds: &Bounds) -> u64 {
        self.paused_when = now + pause;
        self.nr_dirtied = 0;
        self.nr_dirtied_pause = bounds.pages;
        pause
    }
}

/// 200 ms, or the time in which the device writes about an eighth of its dirty pages.
fn max_pause(hz: u64, dirty: u64, bandwidth: u64) -> u64 {
    let time = dirty / (1 + bandwidth / (1 + hz / 8).next_power_of_two());
    time.saturating_add(1).min((hz / 5).max(1))
}

/// Pages until the next check while no task is held.
pub(super) fn poll_interval(dirty: u64, thresh: u64) -> u64 {
    match thresh.saturating_sub(dirty) {
        0 => 1,
        room => 1 << (room.ilog2() / 2),
    }
}

fn log2(number: u64) -> u64 {
    u64::from(number.max(1).ilog2())
}
