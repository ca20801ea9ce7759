//! Tasks that issue one call after the other, in either world.

use crate::io::{IoError, Op};
use crate::time::{Duration, Instant};
use crate::units::CallId;

/// What a task does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Issues a call and waits for its reply.
    Call(Op),
    /// Uses the processor for a while.
    Compute(Duration),
    /// Sleeps until a moment; one that has passed is no sleep.
    Sleep(Instant),
    /// Ends.
    Exit,
}

/// A task's program.
pub trait Workload {
    /// The next step, taken when the one before is over.
    fn next(&mut self, now: Instant) -> Step;
}

/// A completed call, as seen by the world that executed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The task, whose calls all bear its number.
    pub task: CallId,
    /// The operation.
    pub op: Op,
    /// When it was issued.
    pub issued: Instant,
    /// When the task had the answer.
    pub done: Instant,
    /// The bytes transferred, or why none was.
    pub result: Result<u64, IoError>,
}

impl Finished {
    /// The time from question to answer.
    pub const fn latency(&self) -> Duration {
        self.done.since(self.issued)
    }
}
