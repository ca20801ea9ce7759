//! The work for requests in flight: which thread does it, and its cost.

use forebay_core::io::IoError;
use forebay_core::packed::{Pages, RawBytes};
use forebay_core::serving::work::{DEVICE_POLL, QUICK_BLOCKS, QUICK_TURN, WORKER_QUEUE_MAX, share};
use forebay_core::time::Instant;
use forebay_core::units::PAGE_SIZE;

use super::act::{Act, Flow, Pace, WorkerJob};
use super::request::{Done, Job, Round};
use super::server::MountSim;
use super::threads::Event;

impl MountSim<'_> {
    /// Answers completed requests, and continues with the work of others.
    pub(super) fn go_on(&mut self, thread: usize, round: Round, pace: Pace) {
        let Round { ended, jobs } = round;
        let mut acts = Vec::new();
        for ended in ended {
            acts.extend([Act::Reply(Box::new(ended)), Act::NextCrowd]);
        }
        if !jobs.is_empty() {
            acts.push(Act::Divide(jobs, pace));
        }
        self.threads.begin_with(thread, acts.into_iter());
    }

    /// Which jobs a thread executes itself, in reverse order; the others go to workers.
    pub(super) fn divide(
        &mut self,
        thread: usize,
        jobs: Vec<Job>,
        pace: Pace,
    ) -> Option<(Vec<Job>, Vec<Job>)> {
        let mut jobs = jobs;
        if pace == Pace::Alone {
            return Some((jobs, Vec::new()));
        }
        if pace == Pace::Patient {
            let share = share(jobs.len(), self.workers);
            while jobs.len() > share && self.jobs.is_empty() {
                let rest = jobs.split_off(jobs.len() - share);
                self.queue_job(WorkerJob::Work(rest));
            }
            return Some((jobs, Vec::new()));
        }
        let (quick, mut slow): (Vec<_>, Vec<_>) = jobs.into_iter().partition(Job::is_quick);
        if quick.len() > QUICK_BLOCKS || !quick.is_empty() && self.kernel.has_requests() {
            slow.extend(quick);
            self.hand_over_jobs(thread, slow);
            return None;
        }
        if let ([Job::Read(request, _)], true) = (&slow[..], quick.is_empty()) {
            let range = RawBytes {
                start: request.first * PAGE_SIZE,
                end: (request.first + request.pages) * PAGE_SIZE,
            };
            self.will_need(range);
            let (job, until) = (slow.remove(0), self.now + DEVICE_POLL);
            self.threads.at(until, Event::Wake(thread));
            self.then(thread, [Act::Look { job, until }]);
            return None;
        }
        Some((quick, slow))
    }

    /// Carries jobs out one by one.
    pub(super) fn carry(
        &mut self,
        thread: usize,
        todo: Vec<Job>,
        done: Vec<Done>,
        rest: Vec<Job>,
        pace: Pace,
        has_waited: bool,
    ) -> Flow {
        let (mut todo, mut done, mut rest) = (todo, done, rest);
        if todo.is_empty() {
            self.hand_over_jobs(thread, rest);
            return Flow::On;
        }
        if let Job::Read(request, _) = &todo[0] {
            let pages = Pages::new(request.first, request.first + request.pages);
            let Some(result) = self.read_image(thread, pages, has_waited) else {
                let has_waited = true;
                return self.again(thread, Act::Carry { todo, done, rest, pace, has_waited });
            };
            done.push(Done { job: todo.remove(0), result, waited: true });
        } else {
            let job = todo.remove(0);
            done.push(self.decode(job));
            let is_turn = pace == Pace::Quick && done.len().is_multiple_of(QUICK_TURN);
            if is_turn && self.kernel.has_requests() {
                rest.append(&mut todo);
            }
        }
        if todo.is_empty() {
            self.hand_over_jobs(thread, rest);
            self.then(thread, [Act::Finish(done, pace)]);
        } else {
            self.then(thread, [Act::Carry { todo, done, rest, pace, has_waited: false }]);
        }
        Flow::On
    }

    /// Reads pages of the image; nothing yet if they have to be waited for.
    pub(super) fn read_image(
        &mut self,
        thread: usize,
        pages: Pages,
        has_waited: bool,
    ) -> Option<Result<(), IoError>> {
        if self.file.has(pages) {
            self.cost +=
                self.prices.syscall + self.prices.copy(pages.len(), pages.len() * PAGE_SIZE);
            return Some(Ok(()));
        }
        if !self.file.is_coming(pages) {
            if has_waited {
                return Some(Err(IoError::Device));
            }
            let sent = self.file.read(self.now, pages);
            self.cost += self.prices.syscall;
            self.submitted(&sent);
        }
        self.file.wait(thread, pages);
        None
    }

    /// Decodes a block, on this thread's time.
    pub(super) fn decode(&mut self, job: Job) -> Done {
        let Job::Decode { block, upto, .. } = &job else {
            unreachable!("reads are carried out elsewhere")
        };
        self.cost += self.image.decode_time(block, *upto);
        let result = if self.image.is_damaged(block) { Err(IoError::Corrupt) } else { Ok(()) };
        Done { job, result, waited: false }
    }

    /// Polls for a while whether a fast device has read the data of a job.
    pub(super) fn look(&mut self, thread: usize, job: Job, until: Instant) -> Flow {
        let Job::Read(request, _) = &job else { unreachable!("reads alone are looked for") };
        let pages = Pages::new(request.first, request.first + request.pages);
        if self.now >= until || self.kernel.has_requests() {
            self.hand_over_jobs(thread, vec![job]);
        } else if self.file.has(pages) {
            self.cost +=
                self.prices.syscall + self.prices.copy(pages.len(), pages.len() * PAGE_SIZE);
            let done = Done { job, result: Ok(()), waited: true };
            self.then(thread, [Act::Finish(vec![done], Pace::Quick)]);
        } else {
            self.file.wait(thread, pages);
            return self.again(thread, Act::Look { job, until });
        }
        Flow::On
    }

    /// A worker takes the next thing to do, or waits for one.
    pub(super) fn work(&mut self, thread: usize) -> Flow {
        let Some(job) = self.jobs.pop_front() else { return self.again(thread, Act::Work) };
        self.then(thread, [Act::Work]);
        self.finish_job(thread, job);
        Flow::On
    }

    /// Carries a job out, however long it takes.
    pub(super) fn finish_job(&mut self, thread: usize, job: WorkerJob) {
        let act = match job {
            WorkerJob::Read(read) => Act::Answer(read, Pace::Patient),
            WorkerJob::Work(jobs) => Act::GoOn(Round { ended: Vec::new(), jobs }, Pace::Patient),
        };
        self.then(thread, [act]);
    }

    pub(super) fn hand_over_jobs(&mut self, thread: usize, mut jobs: Vec<Job>) {
        let share = share(jobs.len(), self.workers);
        while !jobs.is_empty() {
            let rest = jobs.split_off(jobs.len().saturating_sub(share));
            self.hand_over(thread, WorkerJob::Work(rest));
        }
    }

    /// Gives work to a worker; if too much is queued, it is executed here.
    pub(super) fn hand_over(&mut self, thread: usize, job: WorkerJob) {
        if self.jobs.len() >= WORKER_QUEUE_MAX || self.workers == 0 {
            self.finish_job(thread, job);
            return;
        }
        self.counts.handed_over += 1;
        self.queue_job(job);
    }

    pub(super) fn queue_job(&mut self, job: WorkerJob) {
        self.jobs.push_back(job);
        let idle = (1..=self.workers).find(|worker| self.threads.is_asleep(*worker));
        if let Some(worker) = idle {
            self.wake_far(worker);
        }
    }
}
