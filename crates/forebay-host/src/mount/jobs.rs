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
use std::time::Instant;
use std::{io, thread};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use forebay_core::serving::work::{DEVICE_POLL, QUICK_BLOCKS, WORKER_QUEUE_MAX, share};
use forebay_image::NodeId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::ask::Ask;
use super::fault::{Fault, Missed, Pace};
use super::image_file::{at_pace, is_quick};
use super::lock::lock;
use super::path::{self, Done, Ended, Round};
use super::read::{Begun, Read};
use super::session::Served;
use crate::processor::nanos;

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
    /// What has to be done for requests in flight.
    Work(Vec<path::Job>),
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
    count: OnceLock<usize>,
}

impl Workers {
    pub(super) fn new() -> Self {
        let (jobs, receiver) = bounded(WORKER_QUEUE_MAX);
        Self { jobs, receiver, device: OnceLock::new(), count: OnceLock::new() }
    }

    /// Starts so many threads. They end with what they serve.
    pub(super) fn start(&self, count: usize, served: &Arc<Served>) -> io::Result<()> {
        let _ = self.count.set(count);
        for number in 0..count {
            let (jobs, served) = (self.receiver.clone(), Arc::downgrade(served));
            thread::Builder::new()
                .name(format!("forebay-read-{number}"))
                .spawn(move || work(&jobs, &served))?;
        }
        Ok(())
    }

    /// The number of threads.
    fn count(&self) -> usize {
        self.count.get().copied().unwrap_or(1)
    }

    /// Learns of the kernel's end.
    pub(super) fn connect(&self, device: OwnedFd) {
        // Once is enough, and there is one.
        let _ = self.device.set(device);
    }

    /// Has something said by a worker, if who asks for that takes requests.
    pub(super) fn complain(&self, id: NodeId, fault: Fault) -> Result<(), Fault> {
        if !is_quick() {
            return Err(fault);
        }
        match self.jobs.try_send(Job::Complaint(id, fault)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => match job {
                Job::Complaint(_, fault) => Err(fault),
                Job::Ask(_) | Job::Begun(_) | Job::Read(_) | Job::Work(_) => Ok(()),
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
                    self.content.begin_reading(&absent.0);
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
        while nanos(begin.elapsed()) < DEVICE_POLL.0 && !self.workers.is_behind() {
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

    /// Answers the requests that have ended and carries out what others need, or has a worker do
    /// so.
    pub(super) fn go_on(&self, mut round: Round<Box<Read>>, pace: Pace) {
        loop {
            self.answer_ended(round.ended);
            let mine = match pace {
                Pace::Quick => self.quick_jobs(round.jobs),
                Pace::Patient => self.shared_jobs(round.jobs),
            };
            if mine.is_empty() {
                return;
            }
            round = self.content.path.finish(mine);
        }
    }

    /// Answers requests that have ended, and begins those that there was no room for.
    pub(super) fn answer_ended(&self, ended: Vec<Ended<Box<Read>>>) {
        for ended in ended {
            self.answer_one(ended);
            let Some(read) = lock(&self.crowd).pop_front() else { continue };
            self.hand_over(Job::Read(read));
        }
    }

    /// Carries out what takes no longer than to hand it over; the rest goes to workers.
    fn quick_jobs(&self, jobs: Vec<path::Job>) -> Vec<Done> {
        let path = &self.content.path;
        let (quick, mut slow): (Vec<_>, Vec<_>) = jobs.into_iter().partition(path::Job::is_quick);
        if quick.len() > QUICK_BLOCKS || !quick.is_empty() && self.workers.is_behind() {
            slow.extend(quick);
            self.hand_over_jobs(slow);
            return Vec::new();
        }
        let mut done: Vec<Done> = quick.into_iter().map(|job| path.carry_out(job)).collect();
        // A fast device has the bytes there before another thread has woken up.
        if let [job] = &mut slow[..]
            && done.is_empty()
            && path.send_for(job)
        {
            let begin = Instant::now();
            while nanos(begin.elapsed()) < DEVICE_POLL.0 && !self.workers.is_behind() {
                thread::yield_now();
                if let Some(found) = path.carry_out_near(job, begin) {
                    self.stats.looked_for.add(1);
                    done.push(found);
                    return done;
                }
            }
        }
        self.hand_over_jobs(slow);
        done
    }

    /// Carries out its share of some jobs, and leaves the rest to other workers.
    fn shared_jobs(&self, mut jobs: Vec<path::Job>) -> Vec<Done> {
        let share = share(jobs.len(), self.workers.count());
        while jobs.len() > share && self.workers.jobs.is_empty() {
            let rest = jobs.split_off(jobs.len() - share);
            if let Err(full) = self.workers.jobs.try_send(Job::Work(rest)) {
                if let Job::Work(rest) = full.into_inner() {
                    jobs.extend(rest);
                }
                break;
            }
        }
        jobs.into_iter().map(|job| self.content.path.carry_out(job)).collect()
    }

    fn hand_over_jobs(&self, mut jobs: Vec<path::Job>) {
        let share = share(jobs.len(), self.workers.count());
        while !jobs.is_empty() {
            let rest = jobs.split_off(jobs.len().saturating_sub(share));
            self.hand_over(Job::Work(rest));
        }
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
            Job::Work(jobs) => {
                self.go_on(Round { ended: Vec::new(), jobs }, pace);
                Ok(())
            }
            Job::Complaint(id, fault) => {
                self.say(id, &fault);
                Ok(())
            }
        })
    }
}
