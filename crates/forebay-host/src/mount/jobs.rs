//! Which thread carries a request out: the one that takes it, or a worker if it takes longer.
//!
//! ```text
//!   one thread takes requests
//!     in memory, no request behind it                 carried out at once
//!     a device is needed, no request behind it        polled for a short time
//!     a large block, a slow device, a queue           handed to a worker
//! ```
//!
//! A round trip costs least if the caller and the server share a processor, but the kernel wakes
//! threads that wait for requests in turn. So one thread waits for requests, and workers do
//! everything that would block it. To wake a worker and then the caller takes as long as a read of
//! a fast device. So the thread polls for the bytes first, and yields the processor in between.
//! Behind a demand or a refused window the next request often comes soon: a dispatch rule says how
//! long the thread polls for it before it sleeps.

use std::thread;
use std::time::Instant;

use forebay_core::dispatch::Class;
use forebay_core::serving::work::{DEVICE_POLL, QUICK_BLOCKS, QUICK_TURN, share};
use forebay_core::units::PAGE_SIZE;

use super::request::{Deferred, Job, MetadataOp, PendingRead};
use super::state::Mount;
use crate::image_path::{DoneJob, EndedRequest, NotReady, Pace, PathJob, Round, at_pace};
use crate::processor::nanos;

impl Mount {
    /// Takes a request about names and nodes.
    pub(super) fn ask(&self, operation: MetadataOp) {
        self.take(Job::Metadata(operation));
    }

    /// Takes a request: answers it, or hands it to a worker.
    pub(super) fn take(&self, job: Job) {
        self.workers.end_wait();
        self.stats.requests.add(1);
        self.replay_trigger.on_request();
        let is_demand = job.is_demand();
        let (refusals, handed_over) = (self.stats.refusals.read(), self.stats.handed_over.read());
        self.guarded(|| {
            let Err(left) = self.carry_out(job, Pace::Quick) else { return };
            let left = match *left {
                Deferred(job, NotReady::Absent(absent)) => {
                    self.content.prefetch_range(&absent.0);
                    self.poll_for(job)
                }
                Deferred(job, NotReady::Slow | NotReady::Fault(_)) => Some(job),
            };
            if let Some(job) = left {
                self.hand_over(job);
            }
        });
        let is_refused = self.stats.refusals.read() != refusals;
        // A worker that answers needs a processor more, and so does the thread that pushes.
        let is_done = self.stats.handed_over.read() == handed_over && !self.queue.is_pushing();
        if is_done && (is_demand || is_refused) {
            let bytes = if is_refused { 0 } else { PAGE_SIZE };
            self.workers.wait_for_next(Class { write: false, bytes, ahead: false });
        }
    }

    /// Polls for a short time until the device has read what a job needs. Returns the job if that
    /// takes longer.
    fn poll_for(&self, mut job: Job) -> Option<Job> {
        let begin = Instant::now();
        while nanos(begin.elapsed()) < DEVICE_POLL.0 && !self.workers.is_behind() {
            thread::yield_now();
            let Err(left) = self.carry_out(job, Pace::Quick) else {
                self.stats.looked_for.add(1);
                return None;
            };
            match *left {
                Deferred(left, NotReady::Absent(_)) => job = left,
                Deferred(left, NotReady::Slow | NotReady::Fault(_)) => return Some(left),
            }
        }
        Some(job)
    }

    /// Answers the requests that have ended, and carries out the jobs of others or hands them to
    /// workers.
    pub(super) fn go_on(&self, mut round: Round<Box<PendingRead>>, pace: Pace) {
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

    /// Answers requests that have ended.
    pub(super) fn answer_ended(&self, ended: Vec<EndedRequest<Box<PendingRead>>>) {
        ended.into_iter().for_each(|ended| self.answer_one(ended));
    }

    /// Carries out jobs that take no longer than handing them over; the rest goes to workers.
    fn quick_jobs(&self, jobs: Vec<PathJob>) -> Vec<DoneJob> {
        let path = &self.content.path;
        let (quick, mut slow): (Vec<_>, Vec<_>) = jobs.into_iter().partition(PathJob::is_quick);
        if quick.len() > QUICK_BLOCKS || !quick.is_empty() && self.workers.is_behind() {
            slow.extend(quick);
            self.hand_over_jobs(slow);
            return Vec::new();
        }
        let (mut quick, mut done) = (quick.into_iter(), Vec::new());
        while let Some(job) = quick.next() {
            done.push(path.carry_out(job));
            let is_turn = done.len().is_multiple_of(QUICK_TURN) && quick.len() > 0;
            if is_turn && self.workers.is_behind() {
                slow.extend(quick.by_ref());
            }
        }
        // A fast device reads the bytes before another thread has woken up.
        if let [job] = &mut slow[..]
            && done.is_empty()
            && path.send_for(job)
        {
            let begin = Instant::now();
            while nanos(begin.elapsed()) < DEVICE_POLL.0 && !self.workers.is_behind() {
                thread::yield_now();
                if let Some(found) = path.carry_out_near(job) {
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
    fn shared_jobs(&self, mut jobs: Vec<PathJob>) -> Vec<DoneJob> {
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

    fn hand_over_jobs(&self, mut jobs: Vec<PathJob>) {
        let share = share(jobs.len(), self.workers.count());
        while !jobs.is_empty() {
            let rest = jobs.split_off(jobs.len().saturating_sub(share));
            self.hand_over(Job::Work(rest));
        }
    }

    /// Hands a job to a worker, or carries it out if the queue is full.
    fn hand_over(&self, job: Job) {
        match self.workers.jobs.try_send(job) {
            Ok(()) => self.stats.handed_over.add(1),
            Err(full) => self.finish(full.into_inner()),
        }
    }

    /// Carries a job out, however long it takes.
    pub(super) fn finish(&self, job: Job) {
        // A patient job is never deferred. If one were, dropping its reply would return EIO.
        let _ = self.carry_out(job, Pace::Patient);
    }

    fn carry_out(&self, job: Job, pace: Pace) -> Result<(), Box<Deferred>> {
        at_pace(pace, || match job {
            Job::Metadata(operation) => self.handle(operation),
            Job::ReadRequest(begun) => self.begin(begun, pace),
            Job::PendingRead(read) => self.answer(read, pace),
            Job::Work(jobs) => {
                self.go_on(Round { ended: Vec::new(), jobs }, pace);
                Ok(())
            }
            Job::Report(id, fault) => {
                self.log_fault(id, &fault);
                Ok(())
            }
        })
    }
}
