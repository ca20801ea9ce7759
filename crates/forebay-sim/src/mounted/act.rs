//! The steps of threads, and the work that waits for a thread.

use forebay_core::packed::{Pages, RawBytes};
use forebay_core::serving::FilePages;
use forebay_core::time::Instant;
use forebay_core::units::PageIndex;

use super::kernel::SentRead;
use super::request::{Done, Ended, Job, Read, Round};

/// Something for a worker.
#[derive(Debug)]
pub(super) enum WorkerJob {
    Read(Box<Read>),
    Work(Vec<Job>),
}

/// How a thread goes about its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// It takes requests, and leaves to others what takes long.
    Quick,
    /// It shares with other workers.
    Patient,
    /// It does all work itself.
    Alone,
}

/// A step of a thread.
#[derive(Debug)]
pub(super) enum Act {
    /// A task continues with its next request, `think` after the one it follows.
    NextTouch,
    Sleep(Instant),
    Touch {
        of: FilePages,
        at: PageIndex,
        began: Option<Instant>,
    },
    Take,
    Decide(u32, SentRead),
    Answer(Box<Read>, Pace),
    GoOn(Round, Pace),
    Divide(Vec<Job>, Pace),
    /// `has_waited` says that the first of `todo` was sent to the device.
    Carry {
        todo: Vec<Job>,
        done: Vec<Done>,
        rest: Vec<Job>,
        pace: Pace,
        has_waited: bool,
    },
    Look {
        job: Job,
        until: Instant,
    },
    Finish(Vec<Done>, Pace),
    Reply(Box<Ended>),
    Replied(Box<Ended>),
    NextCrowd,
    Work,
    NextPush,
    Push(FilePages),
    PushRead {
        number: u32,
        run: FilePages,
    },
    Store {
        run: FilePages,
        at: PageIndex,
        crossed: bool,
    },
    EndPush {
        run: FilePages,
        is_over: bool,
    },
    Fetch,
}

/// How a step ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// The next step follows when this one is paid for.
    On,
    /// The thread waits until it is woken.
    Wait,
    /// The thread is over.
    Exit,
}

/// Raw bytes to be read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fetch {
    /// Those of pages of a file.
    Pages(u64, Pages),
    /// A range of the image.
    Image(RawBytes),
}
