//! Processor time of a runner, and its switches.

use std::ops::AddAssign;

use forebay_core::time::Duration;

/// What a task, or a kernel thread, had of the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Its time on a core, the price of getting there and waiting there for a device included.
    pub cpu: Duration,
    /// How it came and went.
    pub switches: Switches,
}

/// How a task, or a kernel thread, came to cores and left them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// It left a core because it had to wait. The end of a task does not count.
    pub voluntary: u64,
    /// It left a core to others although it had something to do.
    pub involuntary: u64,
    /// It was woken.
    pub wakes: u64,
    /// Its call went on after a wait; kernel threads have no calls.
    pub resumes: u64,
    /// The wakes among those above that found it on its core, or pushed off it, so that it went on
    /// without leaving.
    pub in_place: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.cpu += other.cpu;
        let (sum, more) = (&mut self.switches, other.switches);
        sum.voluntary += more.voluntary;
        sum.involuntary += more.involuntary;
        sum.wakes += more.wakes;
        sum.resumes += more.resumes;
        sum.in_place += more.in_place;
    }
}

impl Switches {
    /// A runner was woken.
    pub(crate) fn wake(&mut self, in_place: bool) {
        self.wakes += 1;
        self.in_place += u64::from(in_place);
    }
}
