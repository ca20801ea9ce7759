//! One window for each open file: seen, decided, proved, kept or reverted.
//!
//! Source:     Forebay.
//! Behaviour:  a file is watched until its pattern is clear, by at least eight windows; meanwhile
//!             its progress is counted. Then one step is taken and proved. Faults: to bandwidth
//!             through request rate, of an unknown device to the least window, whose rate beside
//!             the old one tells the device. Streams, and short runs from their first window on:
//!             four times the window, again and again while it helps, and where it does not, twice
//!             the window. What does not help is reverted and not tried again for some minutes,
//!             unless the file is read in another way meanwhile. What was counted belongs to one
//!             way of reading: a file that turns is watched anew, and one that turns from faults to
//!             a stream gets its window back at once. A file that is opened again has the device's
//!             window: it gets the one that was found before.
//! Differs:    nothing.
//! Not for:    files that will soon be in memory as a whole: the large window fills it fastest.
//!
//! ```text
//!   Watched --clear, worth it--> Asked --applied--> Tried --helps--> Settled --next step--> Asked
//!                                  |                  |
//!                                  +--refused--> Left +--no help--> reverted, Settled
//! ```

use std::collections::BTreeMap;

use forebay_core::time::{Duration, Instant};

use super::window::{self, Bounds, Ceiling};
use super::{Change, Decision, Done, User};
use crate::number::{DevNumber, FileKey};
use crate::pattern::Pattern;
use crate::prove::{Claim, Side, Trial, Verdict};

use source::Source;
use step::{Metric, Refuted, Settling, Step, Waiting, kib};

pub use progress::Progress;
pub use seen::{Around, Seen};
pub use step::{TrialEnd, TrialOutcome};

mod progress;
mod seen;
mod source;
mod step;
#[cfg(test)]
mod tests;

/// All open files that were seen.
#[derive(Debug, Default)]
pub struct Files {
    bounds: Bounds,
    open: BTreeMap<User, Open>,
}

impl Files {
    /// No files yet.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, open: BTreeMap::new() }
    }

    /// Whether a step of a user is under trial.
    pub fn is_tried(&self, user: &User) -> bool {
        self.open.get(user).is_some_and(|open| matches!(open.stage, Stage::Tried { .. }))
    }

    /// Files about which a decision is being made: they want to be looked at soon, and although
    /// they may have caused no event.
    pub fn followed(&self, now: Instant) -> impl Iterator<Item = (User, DevNumber)> {
        let wanted = move |open: &&Open| match &open.stage {
            Stage::Watched => now.since(open.seen) < WATCHED_MAX && now.since(open.since) < UNCLEAR,
            // What cannot be done for long waits until the file is read again.
            Stage::Asked { .. } | Stage::Tried { .. } => open.delays < DELAYS_MAX,
            Stage::Settled => open.measured.is_some_and(|since| now.since(since) < MEASURED),
            Stage::Left => false,
        };
        self.open.values().filter(wanted).map(|open| (open.user, open.device))
    }

    /// The window of a user in KiB, if it is known.
    pub fn window(&self, user: &User) -> Option<u64> {
        self.open.get(user).map(|open| open.present).filter(|window| *window > 0)
    }

    /// The window of a user in KiB before the first step, if it is known.
    pub fn own_window(&self, user: &User) -> Option<u64> {
        self.open.get(user).map(|open| open.own).filter(|window| *window > 0)
    }

    /// Whether a user is followed.
    pub fn knows(&self, user: &User) -> bool {
        self.open.contains_key(user)
    }

    /// The users of a file that are followed.
    pub fn users_of(&self, file: FileKey) -> impl Iterator<Item = User> {
        let range = User { file, process: 0 }..=User { file, process: u32::MAX };
        self.open.range(range).map(|(user, _)| *user)
    }

    /// How a user asks its file, as far as it is known.
    pub fn pattern(&self, user: &User) -> Pattern {
        self.open.get(user).map_or(Pattern::Unclear, |open| open.pattern)
    }

    /// Whether a user asks its file in this way, or may do so.
    pub fn is_asked(&self, user: &User, pattern: Pattern) -> bool {
        self.open.get(user).is_some_and(|open| {
            let unclear = [pattern, open.pattern].contains(&Pattern::Unclear);
            unclear || pattern.is_like(open.pattern)
        })
    }

    /// Whether a trial or a step of some file of a process is under way, its pool left out.
    pub fn has_trial(&self, dev: DevNumber, process: u32) -> bool {
        let stages = |open: &Open| matches!(open.stage, Stage::Asked { .. } | Stage::Tried { .. });
        self.open.values().any(|open| {
            let of = open.user.process == process && open.user.file.dev == dev;
            of && !open.user.is_pool() && stages(open)
        })
    }

    /// The files of a process on a file system that have a window of their own by our doing.
    pub fn steered(&self, dev: DevNumber, process: u32) -> impl Iterator<Item = FileKey> {
        let all = self.open.values();
        let is_steered = move |open: &&Open| {
            let of = open.user.process == process && open.user.file.dev == dev;
            of && !open.user.is_pool() && open.present != open.own
        };
        all.filter(is_steered).map(|open| open.user.file)
    }

    /// The largest window that was kept for a stream on a device, in KiB.
    pub fn kept_for_streams(&self, device: DevNumber) -> Option<u64> {
        let all = self.open.values().filter(|open| {
            let is_kept = matches!(open.stage, Stage::Settled) && open.present > open.own;
            open.device == device && open.pattern == Pattern::Stream && is_kept
        });
        all.map(|open| open.present).max()
    }

    /// A group is led by another user from now on.
    pub fn hand_over(&mut self, from: User, to: User) {
        if let Some(open) = self.open.remove(&from) {
            self.open.insert(to, Open { user: to, last: None, ..open });
        }
    }

    /// Whether some other user of a file has a window by a step of ours, so that an event's window
    /// may be that one's.
    pub fn is_shared(&self, user: &User) -> bool {
        let other = |open: &Open| {
            open.user.file == user.file && open.user != *user && open.present != open.own
        };
        self.open.values().any(other)
    }

    /// Users whose files have another window by our doing, or may soon have.
    pub fn steered_users(&self) -> impl Iterator<Item = User> {
        self.open.values().filter(|open| open.is_steered()).map(|open| open.user)
    }

    /// Whether a file has another window by our doing, or may soon have.
    pub fn is_steered(&self, user: &User) -> bool {
        self.open.get(user).is_some_and(Open::is_steered)
    }

    /// What came of a step or a trial, once.
    pub fn outcome(&mut self, user: &User) -> Option<TrialOutcome> {
        self.open.get_mut(user)?.outcome.take()
    }

    /// Drops files that caused no event for long and of which nothing has to be remembered.
    pub fn forget_idle(&mut self, now: Instant) {
        self.open.retain(|_, open| {
            let is_plain = matches!(open.stage, Stage::Watched | Stage::Settled);
            let is_own = open.present == open.own && open.refuted.is_none();
            !(is_plain && is_own && now.since(open.seen) >= IDLE)
        });
    }

    /// A look at one file at `now`.
    pub fn look(&mut self, now: Instant, seen: &Seen, around: &Around) -> Option<Decision> {
        if !self.open.contains_key(&seen.user) && self.open.len() >= OPEN_MAX {
            self.forget_oldest();
        }
        let bounds = self.bounds;
        let new = || Open::new(now, seen);
        let open = self.open.entry(seen.user).or_insert_with(new);
        open.decided = open.look(now, seen, around, bounds);
        open.decided.clone()
    }

    /// How the decision about a file went.
    pub fn done(&mut self, user: User, done: Done) {
        let Some(open) = self.open.get_mut(&user) else { return };
        match done {
            Done::Applied => open.applied(),
            Done::Later => {
                open.owed = open.decided.take();
                open.delays = open.delays.saturating_add(1);
            }
            Done::Refused | Done::Foreign => open.stage = Stage::Left,
            Done::Gone => {
                self.open.remove(&user);
            }
        }
    }

    /// A process has ended, and its descriptions with it.
    pub fn exited(&mut self, process: u32) {
        self.open.retain(|user, _| user.process != process);
    }

    /// Drops the file that was not seen for the longest time and is not under trial.
    fn forget_oldest(&mut self) {
        let idle = self.open.values().filter(|open| !matches!(open.stage, Stage::Tried { .. }));
        let Some(oldest) = idle.min_by_key(|open| open.seen).map(|open| open.user) else { return };
        self.open.remove(&oldest);
    }
}

#[derive(Debug)]
struct Open {
    user: User,
    device: DevNumber,
    stage: Stage,
    pattern: Pattern,
    /// The window before any step.
    own: u64,
    present: u64,
    /// Windows that went out while it was watched.
    windows: u64,
    before: Side,
    last: Option<(Instant, Progress)>,
    source: Source,
    /// When it first and last caused an event.
    since: Instant,
    seen: Instant,
    refuted: Option<Refuted>,
    /// Windows and rates that were proved, the smallest and the largest window.
    rates: BTreeMap<u64, f64>,
    /// Since when the rate at the present window is measured, in which nothing is left of the step.
    measured: Option<Instant>,
    outcome: Option<TrialOutcome>,
    /// The threads that wait for it and its group.
    waiting: Waiting,
    /// What was decided at the last look.
    decided: Option<Decision>,
    /// What was decided and could not be done yet, and how often in a row.
    owed: Option<Decision>,
    delays: u32,
    /// Looks in a row in which it had the window of before the first step, and how often it got the
    /// present one again for that.
    strayed: u32,
    repeats: u32,
}

#[derive(Debug)]
enum Stage {
    Watched,
    Asked { step: Step },
    Tried { step: Step, trial: Box<Trial>, settling: Settling },
    Settled,
    Left,
}

impl Open {
    fn new(now: Instant, seen: &Seen) -> Self {
        let window = seen.window.unwrap_or(0);
        Self {
            user: seen.user,
            device: seen.device,
            stage: Stage::Watched,
            pattern: Pattern::Unclear,
            own: window,
            present: window,
            windows: 0,
            before: Side::default(),
            last: None,
            source: Source::default(),
            since: now,
            seen: now,
            refuted: None,
            rates: BTreeMap::new(),
            measured: None,
            outcome: None,
            waiting: Waiting::default(),
            decided: None,
            owed: None,
            delays: 0,
            strayed: 0,
            repeats: 0,
        }
    }

    fn is_steered(&self) -> bool {
        let asked = matches!(self.stage, Stage::Asked { .. } | Stage::Tried { .. });
        asked || self.present != self.own
    }

    fn look(
        &mut self,
        now: Instant,
        seen: &Seen,
        around: &Around,
        bounds: Bounds,
    ) -> Option<Decision> {
        if seen.windows > 0 {
            self.seen = now;
        }
        if self.own == 0
            && let Some(window) = seen.window
        {
            (self.own, self.present) = (window, window);
        }
        let turned = seen.pattern != Pattern::Unclear && !seen.pattern.is_like(self.pattern);
        if seen.pattern != Pattern::Unclear {
            // Sizes of requests drift without being read in another way.
            self.pattern = seen.pattern;
        }
        if turned {
            (self.before, self.source) = (Side::default(), Source::default());
            self.rates.clear();
            (self.refuted, self.since, self.measured) = (None, now, None);
        }
        if self.refuted.is_some_and(|refuted| now.since(refuted.at) >= REFUTED) {
            self.refuted = None;
        }
        self.waiting = Waiting { threads: seen.threads, bandwidth: around.bandwidth };
        let moved = self.moved(now, seen);
        self.source.count(seen.brought, moved.map_or(0, |(progress, _)| progress));
        if let Some(owed) = self.owed.take() {
            if !turned {
                return Some(owed);
            }
            if matches!(self.stage, Stage::Asked { .. }) {
                // It was asked for a file that was read in another way.
                self.stage = Stage::Settled;
            }
        }
        if turned && matches!(self.stage, Stage::Tried { .. }) {
            // What was counted was counted of something else.
            self.stage = Stage::Watched;
            return (self.present != self.own).then(|| self.give_back(seen));
        }
        if turned && matches!(self.stage, Stage::Settled) {
            self.stage = Stage::Watched;
        }
        if self.has_strayed(seen) {
            return self.again();
        }
        match &mut self.stage {
            Stage::Left | Stage::Asked { .. } => None,
            Stage::Tried { .. } => self.try_on(now, moved?, seen, around, bounds),
            Stage::Watched | Stage::Settled => {
                if self.present < self.own && self.pattern == Pattern::Stream && turned {
                    return Some(self.give_back(seen));
                }
                self.windows += seen.windows;
                if let Some((progress, elapsed)) = moved {
                    self.before.count(progress, elapsed);
                }
                if self.measured.is_some() {
                    // A device that works off larger requests first, or a token bucket, makes the
                    // first rate at a new window no measure of the device.
                    if self.before.seconds() < MEASURED_MIN {
                        return None;
                    }
                    self.measured = None;
                    self.rates.insert(self.present, self.before.rate());
                }
                self.step(seen, around, bounds)
            }
        }
    }

    /// Whether it has the window of before the first step, as what is opened anew, and may get the
    /// present one for that. What is counted meanwhile says nothing of either.
    fn has_strayed(&mut self, seen: &Seen) -> bool {
        let stands = matches!(self.stage, Stage::Settled | Stage::Tried { .. });
        let is_changed = stands && self.present != self.own && !self.user.is_pool();
        if !is_changed || !seen.is_its || seen.windows == 0 {
            return false;
        }
        if seen.window != Some(self.own) {
            (self.strayed, self.repeats) = (0, 0);
            return false;
        }
        self.strayed += 1;
        self.repeats < REPEATS_MAX
    }

    /// The present window once more, for what was opened since it was set.
    fn again(&mut self) -> Option<Decision> {
        // The first events may be of before the last step.
        if self.strayed < STRAYED_MIN {
            return None;
        }
        (self.strayed, self.repeats) = (0, self.repeats + 1);
        let (user, device, from, to) = (self.user, self.device, self.own, self.present);
        let change = Change::Window { user, device, from, to };
        let expected = "as before it was opened again".to_owned();
        Some(Decision { change, expected, reason: "it was opened again".to_owned() })
    }

    /// Progress since the last look, by what counts for the pattern.
    fn moved(&mut self, now: Instant, seen: &Seen) -> Option<(u64, Duration)> {
        let progress = seen.progress?;
        let (then, old) = self.last.replace((now, progress))?;
        let grown = |new: u64, old: u64| new.saturating_sub(old);
        let major = grown(progress.major_faults, old.major_faults);
        let minor = grown(progress.minor_faults, old.minor_faults);
        let moved = match self.metric() {
            // Faults that find their page are progress too: a large window may have brought it.
            // Only where a process also faults for other memory would they drown the rest.
            Metric::Faults if minor <= major.saturating_mul(MINOR_MAX) => major + minor,
            Metric::Faults => major,
            Metric::Bytes => grown(progress.bytes, old.bytes),
            // What was brought in for nothing is no progress.
            Metric::Asked => grown(progress.asked, old.asked),
        };
        Some((moved, now.since(then)))
    }

    fn metric(&self) -> Metric {
        match self.pattern {
            Pattern::RandomFaults | Pattern::Unclear => Metric::Faults,
            Pattern::Stream => Metric::Bytes,
            Pattern::RandomReads { .. } | Pattern::ShortRuns { .. } => Metric::Asked,
        }
    }

    /// The next step, if the pattern is clear and a step is worth it.
    fn step(&mut self, seen: &Seen, around: &Around, bounds: Bounds) -> Option<Decision> {
        let clear = self.windows >= WINDOWS_MIN && self.before.seconds() >= BEFORE_MIN;
        if !clear || seen.windows == 0 || self.present == 0 {
            return None;
        }
        if self.pattern == Pattern::Stream && self.source.is_memory() {
            return None;
        }
        let to = self.target(seen, around, bounds)?;
        if !window::is_worth(self.present, to) || self.is_refuted(to) {
            return None;
        }
        if to < self.present && seen.will_be_cached(around) {
            return None;
        }
        let metric = self.metric();
        let claim = if self.rates.len() >= 2 && metric == Metric::Faults {
            // The device is known by now, and the window follows it without loss.
            Claim::NoLoss(LOSS_MAX)
        } else {
            Claim::Gain(GAIN_MIN)
        };
        let step = Step { from: self.present, to, claim: Some(claim), metric };
        let (expected, reason) = self.words(&step, seen);
        Some(self.ask(step, expected, reason))
    }

    /// The window that the pattern asks for, whether or not a step to it is worth it.
    fn target(&self, seen: &Seen, around: &Around, bounds: Bounds) -> Option<u64> {
        let wanted = window::wanted(self.pattern, self.present, self.measured(), seen.cuts, bounds);
        let larger = window::larger(self.present, self.least_slower(), bounds);
        match self.pattern {
            Pattern::Stream if around.available > 0 => {
                let share = (around.available / STREAM_SHARE) >> 10;
                Some(larger.min(share.max(bounds.floor)).max(self.present))
            }
            Pattern::Stream => Some(larger),
            Pattern::ShortRuns { pages }
                if (!self.rates.is_empty()
                    || wanted.is_none_or(|first| self.is_refuted(first)))
                    && window::suits_runs(pages, self.present, bounds) =>
            {
                Some(larger)
            }
            Pattern::ShortRuns { .. }
            | Pattern::RandomFaults
            | Pattern::RandomReads { .. }
            | Pattern::Unclear => wanted,
        }
    }

    /// The least window above the present one that was slower than a smaller one.
    fn least_slower(&self) -> u64 {
        let tried = self.rates.keys().copied().chain(self.refuted.map(|it| it.to));
        tried.filter(|window| *window > self.present).min().unwrap_or(u64::MAX)
    }

    fn is_refuted(&self, to: u64) -> bool {
        // A larger window that did not help says nothing of smaller ones.
        self.refuted.is_some_and(|refuted| match refuted.to > refuted.from {
            true => to > self.present && to >= refuted.to,
            false => to < self.present && to <= refuted.to,
        })
    }

    /// What the rates at two windows say of the device.
    fn measured(&self) -> Option<Ceiling> {
        if self.metric() != Metric::Faults {
            return None;
        }
        let (small, large) = (self.rates.first_key_value()?, self.rates.last_key_value()?);
        window::ceiling_of((*small.0, *small.1), (*large.0, *large.1))
    }

    fn give_back(&mut self, seen: &Seen) -> Decision {
        let step = Step { from: self.present, to: self.own, claim: None, metric: Metric::Bytes };
        let way = self.pattern.words();
        let told =
            format!("read-ahead {} -> {}; {way} now; reverted", kib(step.from), kib(step.to));
        self.outcome = Some(TrialOutcome { told, end: TrialEnd::PutBack });
        let reason = format!("{way} now, {} in this look", seen.windows);
        self.ask(step, "it is read as before the first change".to_owned(), reason)
    }

    fn words(&self, step: &Step, seen: &Seen) -> (String, String) {
        let Step { from, to, .. } = step;
        let rate = self.before.rate();
        match self.pattern {
            Pattern::RandomFaults => {
                let expected = match step.claim {
                    Some(Claim::NoLoss(_)) => "as many faults a second as before".to_owned(),
                    Some(Claim::Gain(_)) | None => {
                        format!("up to {} times the faults a second", from / to.max(&1))
                    }
                };
                let from = kib(*from);
                let reason = format!("random faults, {rate:.0} a second, at a window of {from}");
                (expected, reason)
            }
            Pattern::Stream => {
                let expected = "more bytes a second, as more is in flight".to_owned();
                let mib = rate / f64::from(1 << 20);
                (expected, format!("a stream reads {mib:.0} MiB/s"))
            }
            Pattern::RandomReads { request } => {
                let kib = request.saturating_mul(4);
                let expected = "each read goes out whole instead of in pieces".to_owned();
                (expected, format!("random reads of {kib} KiB are cut into windows"))
            }
            Pattern::ShortRuns { pages } => {
                let kib = pages.saturating_mul(4);
                let expected = "less is read ahead behind the end of each run".to_owned();
                (expected, format!("runs of about {kib} KiB are read in order"))
            }
            Pattern::Unclear => (String::new(), seen.user.to_string()),
        }
    }

    fn ask(&mut self, step: Step, expected: String, reason: String) -> Decision {
        let Step { from, to, .. } = step;
        self.stage = match std::mem::replace(&mut self.stage, Stage::Asked { step }) {
            // A trial that changes sides stays a trial.
            Stage::Tried { trial, .. } if step.claim.is_some() => {
                Stage::Tried { step, trial, settling: step.settling(to, self.waiting) }
            }
            Stage::Tried { .. } | Stage::Watched | Stage::Asked { .. } => Stage::Asked { step },
            Stage::Settled | Stage::Left => Stage::Asked { step },
        };
        let change = Change::Window { user: self.user, device: self.device, from, to };
        Decision { change, expected, reason }
    }

    fn applied(&mut self) {
        self.delays = 0;
        match &self.stage {
            Stage::Asked { step } => {
                let step = *step;
                self.present = step.to;
                self.stage = match step.claim {
                    Some(claim) => Stage::Tried {
                        step,
                        trial: Box::new(Trial::begin(claim, &self.before)),
                        settling: step.settling(step.to, self.waiting),
                    },
                    None => Stage::Settled,
                };
            }
            Stage::Tried { step, trial, .. } => {
                self.present = if trial.is_changed() { step.to } else { step.from };
            }
            Stage::Watched | Stage::Settled | Stage::Left => {}
        }
    }

    /// A window of a trial has passed.
    fn try_on(
        &mut self,
        now: Instant,
        moved: (u64, Duration),
        seen: &Seen,
        around: &Around,
        bounds: Bounds,
    ) -> Option<Decision> {
        let Stage::Tried { step, trial, settling } = &mut self.stage else { return None };
        let bytes = around.bandwidth.saturating_mul(moved.1.as_nanos()) / 1_000_000_000;
        if settling.is_under_way(moved.0, bytes) {
            return None;
        }
        let step = *step;
        let way = self.pattern.words();
        let verdict = trial.count(moved.0, moved.1);
        let changed = trial.is_changed();
        match verdict {
            Verdict::Continue => None,
            Verdict::Swap => {
                let (from, to) = if changed { (step.from, step.to) } else { (step.to, step.from) };
                let change = Change::Window { user: self.user, device: self.device, from, to };
                let expected = "the difference becomes clear".to_owned();
                let reason = format!("what {} gains is not clear yet", step.metric.words());
                if let Stage::Tried { settling, .. } = &mut self.stage {
                    *settling = step.settling(to, self.waiting);
                }
                Some(Decision { change, expected, reason })
            }
            Verdict::Helps(ratio) => {
                self.outcome = Some(step.outcome(way, ratio, true));
                self.rates.insert(step.from, trial.without().rate());
                self.rates.insert(step.to, trial.with().rate());
                self.before = trial.with().clone();
                self.stage = Stage::Settled;
                if step.metric == Metric::Faults {
                    (self.before, self.measured) = (Side::default(), Some(now));
                } else if changed {
                    // The next step follows at once, while the file is looked at often.
                    return self.step(seen, around, bounds);
                }
                if changed {
                    return None;
                }
                let back = Step { from: step.from, to: step.to, claim: None, ..step };
                let reason = format!("{} gain by it", step.metric.words());
                Some(self.ask(back, "as in the trial".to_owned(), reason))
            }
            Verdict::DoesNotHelp(ratio) => {
                self.outcome = Some(step.outcome(way, ratio, false));
                self.refuted = Some(Refuted { from: step.from, to: step.to, at: now });
                self.before = trial.without().clone();
                self.stage = Stage::Settled;
                let back = Step { from: step.to, to: step.from, claim: None, ..step };
                changed.then(|| {
                    let words = step.metric.words();
                    let reason = format!("{ratio:.2} x the {words} is no clear gain");
                    self.ask(back, "as before".to_owned(), reason)
                })
            }
        }
    }
}

/// The most open files that are followed.
pub const OPEN_MAX: usize = 256;

/// The fewest windows that make a pattern clear.
const WINDOWS_MIN: u64 = 8;

/// The shortest time that progress is counted before the first step, in seconds.
const BEFORE_MIN: f64 = 0.2;

/// The time in which the rate at a new window is measured, in seconds, and after which it is looked
/// at as before whether or not there was one.
const MEASURED_MIN: f64 = 1.0;
const MEASURED: Duration = Duration::from_millis(1_600);

/// Major faults that may stand beside one of them before minor faults are taken to be others'.
const MINOR_MAX: u64 = 64;

/// Progress that a step must bring.
const GAIN_MIN: f64 = 0.05;

/// Progress that a step to a known device's window may cost.
const LOSS_MAX: f64 = 0.05;

/// A stream's window is at most this part of the memory that could be had.
const STREAM_SHARE: u64 = 64;

/// A watched file that caused no event for this long no longer speeds up the looks.
const WATCHED_MAX: Duration = Duration::from_secs(2);

/// Nor does one whose change was put off so often: four a second, for two seconds.
const DELAYS_MAX: u32 = 8;

/// Looks in a row that show the old window before it is set again, and how often that is done
/// without seeing the new one.
const STRAYED_MIN: u32 = 2;
const REPEATS_MAX: u32 = 3;

/// Nor does one whose pattern did not become clear in this time.
const UNCLEAR: Duration = Duration::from_secs(20);

/// What did not help may help after this time: others use the device then, or none does.
const REFUTED: Duration = Duration::from_secs(300);

/// A file that caused no event for this long is forgotten.
const IDLE: Duration = Duration::from_secs(60);
