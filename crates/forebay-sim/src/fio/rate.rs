//! How a job keeps its rate.
//!
//! Source:     fio 3.33, `backend.c` (`usec_for_io`, `handle_thinktime`), `io_u.c` (`rate_ddir`),
//!             `init.c` (`rate_iops`)
//! Behaviour:  The next request of a direction may be issued when the time since the start is at
//!             least the time that its bytes so far take at its rate. A mixed job that is too early
//!             in one direction takes the other if that is due, and else sleeps until the first of
//!             the two is due. `rate_iops` counts each request as the smallest block.
//! Differs:    With several requests in flight fio waits for all of them before it sleeps.
//! Not for:    `rate_process=poisson`, and `rate_min`, which ends a job that is too slow

use super::plan::Plan;

/// The bytes of both directions so far, and when more may be issued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// Bytes a second, reads and writes; zero for no limit.
    limits: [u64; 2],
    issued: [u64; 2],
    /// When the next request is due, in microseconds since the start.
    due_us: [u64; 2],
    /// Both directions have a share in the mix.
    mixed: [bool; 2],
    /// Pauses do not count as time without requests.
    ignores_pauses: bool,
    block_min: [u64; 2],
}

impl Rate {
    /// The rates of a job before its first request.
    pub(super) fn new(plan: &Plan) -> Self {
        let settings = &plan.settings;
        let both = settings.mode.reads() && settings.mode.writes();
        let block_min = [plan.block[0].0, plan.block[1].0];
        let limit = |direction: usize| match settings.rate[direction] {
            0 => settings.rate_iops[direction].saturating_mul(block_min[direction]),
            rate => rate,
        };
        Self {
            limits: [limit(0), limit(1)],
            issued: [0; 2],
            due_us: [0; 2],
            mixed: [both && settings.rwmixread > 0, both && settings.rwmixread < 100],
            ignores_pauses: settings.rate_ignores_thinktime,
            block_min,
        }
    }

    /// The direction to take instead of `direction`, and the moment to wait for if neither is due.
    pub(super) fn choose(&self, direction: usize, now_us: u64) -> (usize, Option<u64>) {
        let other = 1 - direction;
        let [here, there] = [self.due_us[direction], self.due_us[other]];
        if here <= now_us {
            return (direction, None);
        }
        if !self.mixed[other] {
            return (direction, Some(here));
        }
        if there <= now_us {
            return (other, None);
        }
        if here <= there { (direction, Some(here)) } else { (other, Some(there)) }
    }

    /// Counts a request.
    pub(super) fn issued(&mut self, direction: usize, len: u64) {
        self.issued[direction] = self.issued[direction].saturating_add(len);
        let (bytes, limit) = (u128::from(self.issued[direction]), self.limits[direction]);
        if limit > 0 {
            let due = bytes * MICROS / u128::from(limit);
            self.due_us[direction] = u64::try_from(due).unwrap_or(u64::MAX);
        }
    }

    /// Counts a pause as if its bytes had been moved, less a block so that the next request follows
    /// at once.
    pub(super) fn paused(&mut self, direction: usize, pause_us: u64) {
        let limit = u128::from(self.limits[direction]);
        if !self.ignores_pauses || limit == 0 || pause_us == 0 {
            return;
        }
        let block = u128::from(self.block_min[direction]);
        let missed = limit * u128::from(pause_us) / MICROS;
        let over = if block * MICROS / limit <= u128::from(pause_us) { block } else { 0 };
        let bytes = (u128::from(self.issued[direction]) + missed).saturating_sub(over);
        self.issued[direction] = u64::try_from(bytes).unwrap_or(u64::MAX);
    }
}

/// Microseconds of a second.
const MICROS: u128 = 1_000_000;
