//! Who carries a request out: the thread that takes it, or another one if it takes longer.
//!
//! ```text
//!   one thread takes requests
//!     what it needs is in memory, nobody waits behind it    carried out at once
//!     a device, nobody behind                               looked for a while, whether it came
//!     a large block, a device that is slow, a queue         handed to a worker
//! ```
//!
//! A round trip costs least if whoever asks and whoever answers share a processor, and the kernel
//! wakes the threads that wait for requests in turn. So one thread waits for them, as long as it is
//! quick; whatever would hold it up is somebody else's. To wake somebody else, and then whoever
//! asked, takes as long as a fast device: so it first looks whether the bytes are there, and lets
//! others have the processor in between.

use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use std::{io, thread};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use forebay_image::NodeId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::ask::Ask;
use super::decode::{Fault, Missed, Pace};
use super::raw::{self, at_pace};
use super::read::{Begun, Read};
use super::session::Served;

/// A request that has not been answered.
#[derive(Debug)]
pub(super) enum Job {
    /// About names and what is known of them.
    Ask(Ask),
    /// A READ as it came.
    Begun(Begun),
    /// A READ of which it is known what it is part of.
    Read(Box<Read>),
    /// Something to be said about a node; nobody waits for it.
    Complaint(NodeId, Fault),
}

/// A job that was not carried out, and why.
#[derive(Debug)]
pub(super) struct Left(Job, Missed);

impl Left {
    pub(super) fn new(job: Job, why: Missed) -> Box<Self> {
        Box::new(Self(job, why))
    }
}

/// Threads for what takes longer.
#[derive(Debug)]
pub(super) struct Workers {
    jobs: Sender<Job>,
    receiver: Receiver<Job>,
    /// The kernel's end, to see whether somebody waits.
    device: OnceLock<OwnedFd>,
}

impl Workers {
    pub(super) fn new() -> Self {
        let (jobs, receiver) = bounded(WAITING_MAX);
        Self { jobs, receiver, device: OnceLock::new() }
    }

    /// Starts so many threads. They end with what they serve.
    pub(super) fn start(&self, count: usize, served: &Arc<Served>) -> io::Result<()> {
        for number in 0..count {
            let (jobs, served) = (self.receiver.clone(), Arc::downgrade(served));
            thread::Builder::new()
                .name(format!("forebay-read-{number}"))
                .spawn(move || work(&jobs, &served))?;
        }
        Ok(())
    }

    /// Learns of the kernel's end.
    pub(super) fn connect(&self, device: OwnedFd) {
        // Once is enough, and there is one.
        let _ = self.device.set(device);
    }

    /// Has something said by a worker, if who asks for that takes requests.
    pub(super) fn complain(&self, id: NodeId, fault: Fault) -> Result<(), Fault> {
        if !raw::is_quick() {
            return Err(fault);
        }
        match self.jobs.try_send(Job::Complaint(id, fault)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => match job {
                Job::Complaint(_, fault) => Err(fault),
                Job::Ask(_) | Job::Begun(_) | Job::Read(_) => Ok(()),
            },
        }
    }

    /// Whether another request waits.
    pub(super) fn is_behind(&self) -> bool {
        let Some(device) = self.device.get() else { return false };
        let mut device = [PollFd::new(device, PollFlags::IN)];
        matches!(poll(&mut device, Some(&Timespec::default())), Ok(1))
    }
}

fn work(jobs: &Receiver<Job>, served: &Weak<Served>) {
    while let Ok(job) = jobs.recv() {
        let Some(served) = served.upgrade() else { return };
        served.guarded(|| served.finish(job));
    }
}

impl Served {
    /// Takes a request and sees to it that it is answered.
    pub(super) fn take(&self, job: Job) {
        self.stats.requests.add(1);
        self.again.asked();
        self.guarded(|| {
            let Err(left) = self.carry_out(job, Pace::Quick) else { return };
            let left = match *left {
                Left(job, Missed::Absent(absent)) => {
                    self.content.hasten(&absent);
                    self.look_for(job)
                }
                Left(job, Missed::Slow | Missed::Fault(_)) => Some(job),
            };
            if let Some(job) = left {
                self.hand_over(job);
            }
        });
    }

    /// Looks for a while whether a device has brought what a job was missing. What is left is for
    /// others.
    fn look_for(&self, mut job: Job) -> Option<Job> {
        let begin = Instant::now();
        while begin.elapsed() < LOOK && !self.workers.is_behind() {
            thread::yield_now();
            let Err(left) = self.carry_out(job, Pace::Quick) else {
                self.stats.looked_for.add(1);
                return None;
            };
            match *left {
                Left(left, Missed::Absent(_)) => job = left,
                Left(left, Missed::Slow | Missed::Fault(_)) => return Some(left),
            }
        }
        Some(job)
    }

    /// Gives a request to a worker; if too many wait for one, carries it out here.
    fn hand_over(&self, job: Job) {
        match self.workers.jobs.try_send(job) {
            Ok(()) => self.stats.handed_over.add(1),
            Err(full) => self.finish(full.into_inner()),
        }
    }

    /// Carries a job out, however long it takes.
    fn finish(&self, job: Job) {
        // Who waits for nobody has nothing left. If it has, dropping it is an error for who asked.
        let _ = self.carry_out(job, Pace::Patient);
    }

    fn carry_out(&self, job: Job, pace: Pace) -> Result<(), Box<Left>> {
        at_pace(pace, || match job {
            Job::Ask(ask) => self.tell(ask),
            Job::Begun(begun) => self.begin(begun, pace),
            Job::Read(read) => self.answer(read, pace),
            Job::Complaint(id, fault) => {
                self.say(id, &fault);
                Ok(())
            }
        })
    }
}

/// Requests that wait for a worker; beyond them the thread that takes requests answers itself.
const WAITING_MAX: usize = 256;

/// As long as a fast device takes with others before it.
const LOOK: Duration = Duration::from_micros(250);
