//! Anticipation: whether the disk is held free for the task that was served last.
//!
//! ```text
//!            dispatch: no good request           the request is done
//!     Off ---------------------------> Request ---------------------> Next
//!      ^  \                               | a good one comes           | or the time is over
//!      |   `--> Next, if it is done       v                            v
//!      `------------------------------ Finished <----------------------'
//!        a request is dispatched
//! ```

use alloc::vec::Vec;

use crate::elevator::Queued;
use crate::elevator::habits::{Drift, Habits};
use crate::elevator::jiffies::Jiffies;
use crate::elevator::roll::Roll;

/// A request within this number of sectors is close: 4 MiB, doubled for each millisecond of
/// waiting.
const CLOSE: u64 = 8_192;

/// After this number of milliseconds any request is close enough.
const PATIENCE: u64 = 20;

/// Statistics of all tasks, and the state of waiting for one.
#[derive(Debug)]
pub(super) struct Wait {
    jiffies: Jiffies,
    /// How long a task is waited for, in jiffies; zero for never.
    expire: u64,
    state: State,
    /// The task of the last request, if that was synchronous.
    task: Option<usize>,
    /// Whether a request of that task is done since, and when the last one was.
    is_done: bool,
    since: u64,
    roll: Roll,
    tasks: Vec<Task>,
    /// Think time and seeks of tasks that have just begun.
    new_think: Drift,
    new_seek: Drift,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Off,
    /// For the request to be done.
    Request,
    /// For the next request, until a jiffy.
    Next(u64),
    Finished,
}

/// Statistics of a task.
#[derive(Clone, Copy, Debug, Default)]
struct Task {
    habits: Habits,
    /// Whether it has ever asked and waited.
    has_asked: bool,
    /// When a request was done last that it waited for.
    ended: Option<u64>,
    queued: u64,
    /// Requests on the dispatch list.
    dispatched: u64,
}

impl Wait {
    /// Nothing is known of any task.
    pub(super) fn new(jiffies: Jiffies, expire: u64) -> Self {
        Self {
            jiffies,
            expire,
            state: State::Off,
            task: None,
            is_done: false,
            since: 0,
            roll: Roll::default(),
            tasks: Vec::new(),
            new_think: Drift::default(),
            new_seek: Drift::default(),
        }
    }

    /// How long a task is waited for, in jiffies.
    pub(super) fn expire(&self) -> u64 {
        self.expire
    }

    /// Whether tasks are waited for at all.
    pub(super) fn is_enabled(&self) -> bool {
        self.expire > 0
    }

    /// Whether the disk is held free.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Request | State::Next(_))
    }

    /// The jiffy at which the wait is over.
    pub(super) fn timeout(&self) -> Option<u64> {
        match self.state {
            State::Next(at) => Some(at),
            State::Off | State::Request | State::Finished => None,
        }
    }

    /// Ends the wait if its time is over, and returns whether it was.
    pub(super) fn settle(&mut self, now: u64) -> bool {
        let is_over = self.timeout().is_some_and(|at| at <= now);
        if is_over {
            self.state = State::Finished;
        }
        is_over
    }

    /// Ends the wait.
    pub(super) fn stop(&mut self) {
        self.state = State::Finished;
    }

    /// The disk is held free from now on, the time counting from the end of the request.
    pub(super) fn begin(&mut self) {
        if self.state == State::Off {
            self.state =
                if self.is_done { State::Next(self.since + self.expire) } else { State::Request };
        }
    }

    /// A request begins to wait.
    pub(super) fn queued(&mut self, now: u64, request: &Queued) {
        let Some(task) = self.enter(request) else { return };
        if request.sync {
            self.learn(task, now, request);
        }
        self.tasks[task].queued += 1;
    }

    /// A request has joined another.
    pub(super) fn left(&mut self, request: &Queued) {
        if let Some(task) = self.enter(request) {
            self.tasks[task].queued = self.tasks[task].queued.saturating_sub(1);
        }
    }

    /// A request goes to the dispatch list.
    pub(super) fn moved(&mut self, request: &Queued) {
        self.left(request);
        let task = self.enter(request);
        if let Some(task) = task {
            self.tasks[task].dispatched += 1;
        }
        self.state = State::Off;
        self.task = task.filter(|_| request.sync);
        self.is_done = false;
    }

    /// The driver takes a request.
    pub(super) fn started(&mut self, request: &Queued) {
        if let Some(task) = self.enter(request) {
            self.tasks[task].dispatched = self.tasks[task].dispatched.saturating_sub(1);
        }
    }

    /// A request is done.
    pub(super) fn completed(&mut self, now: u64, request: &Queued) {
        let Some(task) = self.enter(request) else { return };
        if self.task == Some(task) {
            self.since = now;
            self.is_done = true;
            if self.state == State::Request {
                self.state = State::Next(now + self.expire);
            }
        }
        if request.sync {
            self.tasks[task].ended = Some(now);
        }
    }

    /// Whether the disk had better wait than serve this request, or none.
    pub(super) fn is_worthwhile(&mut self, now: u64, next: Option<&Queued>, head_at: u64) -> bool {
        self.task.is_some()
            && self.state != State::Finished
            && !self.is_broken_by(now, next, head_at)
    }

    /// Whether waiting makes no sense any more now that this request could be served.
    pub(super) fn is_broken_by(&mut self, now: u64, next: Option<&Queued>, head_at: u64) -> bool {
        let Some(task) = self.task else { return true };
        if next.is_some_and(|next| self.enter(next) == Some(task)) {
            return true;
        }
        if self.is_done && now.saturating_sub(self.since) >= self.expire {
            return true;
        }
        let known = &self.tasks[task];
        if known.queued > 0 || known.dispatched > 0 {
            return true;
        }
        if let Some(near) = next.filter(|next| next.sync && self.is_close(now, next, head_at)) {
            // Tasks that work in the same area count as one.
            self.learn(task, now, near);
            return true;
        }
        let think = &known.habits.think;
        let mean = if think.is_new() { self.new_think.mean() } else { think.mean() };
        mean > self.expire
    }

    /// Whether a request lies so near that waiting for a nearer one does not pay.
    fn is_close(&self, now: u64, next: &Queued, head_at: u64) -> bool {
        let waits = self.state != State::Off && self.is_done;
        let passed = if waits { self.jiffies.millis(now.saturating_sub(self.since)) } else { 0 };
        // The kernel compares milliseconds with jiffies here.
        if passed > 0 && (passed > PATIENCE || passed > self.expire) {
            return true;
        }
        let (ahead, behind) = (CLOSE << passed, (CLOSE << passed) / 2);
        let distance = head_at.abs_diff(next.sector);
        if distance <= if next.sector < head_at { behind } else { ahead } {
            return true;
        }
        let seek = self.task.map(|task| &self.tasks[task].habits.seek);
        let mean = match seek {
            Some(seek) if !seek.is_new() => seek.mean(),
            Some(_) | None => self.new_seek.mean(),
        };
        mean > distance
    }

    /// Learns from a request how a task thinks and seeks.
    fn learn(&mut self, task: usize, now: u64, request: &Queued) {
        let think_max = (self.jiffies.hz / 50).saturating_sub(1);
        let task = &mut self.tasks[task];
        if task.has_asked {
            let is_idle = task.queued + task.dispatched == 0;
            let ended = task.ended.filter(|_| is_idle);
            let thought = ended.map_or(0, |ended| now.saturating_sub(ended).min(think_max));
            if task.habits.think.is_new() {
                self.new_think.add(thought);
            }
            task.habits.thought(thought);
            let distance = task.habits.distance(request.sector);
            if task.habits.seek.is_new() {
                self.new_seek.add(distance);
            }
            task.habits.sought(distance);
        }
        task.habits.position = request.end();
        task.has_asked = true;
    }

    /// The place of a request's task, if it has one.
    fn enter(&mut self, request: &Queued) -> Option<usize> {
        let place = self.roll.enter_asker(request)?;
        if self.tasks.len() <= place {
            self.tasks.resize(place + 1, Task::default());
        }
        Some(place)
    }
}
