//! How much of a group's work is done, by time and by bytes.

use forebay_core::io::Op;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{PAGE_SIZE, SECTOR_SIZE};
use forebay_core::workload::Finished;

use super::Group;
use crate::fio::Job;

/// The calls of a group that have ended, compared with what its jobs will issue.
#[derive(Clone, Debug)]
pub struct GroupProgress {
    jobs: Vec<JobProgress>,
    /// The place of the job of each task.
    tasks: Vec<usize>,
    now: Instant,
}

/// What ends a job first: its runtime or its bytes.
#[derive(Clone, Copy, Debug)]
struct JobProgress {
    delay: Duration,
    runtime: Option<Duration>,
    bytes: Option<u64>,
    requests: Option<u64>,
    bytes_done: u64,
    requests_done: u64,
}

/// How much is done, and of how much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Of the time that the jobs run.
    Time {
        /// What has passed.
        done: Duration,
        /// The end of the longest job.
        total: Duration,
    },
    /// Of the bytes that the jobs transfer.
    Bytes {
        /// What was transferred.
        done: u64,
        /// The bytes of all jobs.
        total: u64,
    },
}

impl Amount {
    /// The share that is done, at most 1.
    pub fn fraction(self) -> f64 {
        let (done, total) = match self {
            Self::Time { done, total } => (done.as_nanos() as f64, total.as_nanos() as f64),
            Self::Bytes { done, total } => (done as f64, total as f64),
        };
        share(done, total)
    }
}

impl GroupProgress {
    /// Of a group that has not started.
    pub fn of(group: &Group<'_>) -> Self {
        let tasks = group.jobs.iter().enumerate();
        let tasks = tasks.flat_map(|(place, job)| (0..job.depth()).map(move |_| place)).collect();
        let jobs = group.jobs.iter().map(|job| JobProgress::of(job)).collect();
        Self { jobs, tasks, now: Instant::ZERO }
    }

    /// A call has ended. Calls of other tasks, such as the sync at the end, do not count.
    pub fn count(&mut self, finished: &Finished) {
        let Some(job) = self.tasks.get(finished.task.index()) else { return };
        let job = &mut self.jobs[*job];
        self.now = self.now.max(finished.done);
        match (finished.op, finished.result) {
            (Op::Fault { .. }, _) => job.bytes_done += PAGE_SIZE,
            (Op::Read { len, .. } | Op::Write { len, .. }, _) => {
                job.bytes_done += len;
                job.requests_done += 1;
            }
            (Op::Direct { sectors, .. }, _) => {
                job.bytes_done += sectors * SECTOR_SIZE;
                job.requests_done += 1;
            }
            (_, _) => {}
        }
    }

    /// The progress of the job that is furthest from its end.
    pub fn amount(&self) -> Amount {
        let amounts = self.jobs.iter().map(|job| job.amount(self.now));
        let last = amounts.min_by(|a, b| a.fraction().total_cmp(&b.fraction()));
        last.unwrap_or(Amount::Bytes { done: 0, total: 0 })
    }
}

impl JobProgress {
    fn of(job: &Job) -> Self {
        let loops = u64::from(job.loops.max(1));
        Self {
            delay: job.startdelay,
            runtime: job.runtime,
            bytes: (!job.time_based).then(|| job.io_size.saturating_mul(loops)),
            requests: (job.number_ios > 0).then_some(job.number_ios),
            bytes_done: 0,
            requests_done: 0,
        }
    }

    /// By the limit that will end the job.
    fn amount(&self, now: Instant) -> Amount {
        let total = match (self.bytes, self.requests) {
            // The bytes of the requests to come are those of the ones so far.
            (bytes, Some(requests)) if self.requests_done > 0 => {
                let capped = self.bytes_done.saturating_mul(requests) / self.requests_done;
                Some(bytes.unwrap_or(u64::MAX).min(capped))
            }
            (bytes, _) => bytes,
        };
        let bytes = total.map(|total| Amount::Bytes { done: self.bytes_done.min(total), total });
        let time = self.runtime.map(|runtime| {
            let total = self.delay + runtime;
            Amount::Time { done: now.since(Instant::ZERO).min(total), total }
        });
        match (time, bytes) {
            (Some(time), Some(bytes)) if bytes.fraction() > time.fraction() => bytes,
            (Some(time), _) => time,
            (None, Some(bytes)) => bytes,
            (None, None) => Amount::Bytes { done: 0, total: 0 },
        }
    }
}

fn share(done: f64, total: f64) -> f64 {
    if total > 0.0 { (done / total).min(1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use forebay_core::units::{CallId, HandleId};

    use super::*;
    use crate::fio::JobFile;
    use crate::workload::job::{Access, groups};

    fn read(task: u32, millis: u64, len: u64) -> Finished {
        let done = Instant::ZERO + Duration::from_millis(millis);
        let op = Op::Read { handle: HandleId(0), offset: 0, len };
        Finished { task: CallId(task), op, issued: Instant::ZERO, done, result: Ok(len) }
    }

    fn after(text: &str, calls: &[Finished]) -> Amount {
        let parsed = JobFile::parse(text, "test.fio").unwrap();
        let groups = groups(&parsed.jobs, "test.fio", Access::Write).unwrap();
        let mut progress = GroupProgress::of(&groups[0]);
        calls.iter().for_each(|call| progress.count(call));
        progress.amount()
    }

    fn time(done: u64, total: u64) -> Amount {
        Amount::Time { done: Duration::from_millis(done), total: Duration::from_millis(total) }
    }

    #[test]
    fn a_job_with_a_runtime_is_measured_by_time_and_one_without_by_bytes() {
        let timed = "[a]\nrw=randread\nsize=1m\ntime_based\nruntime=10\nstartdelay=2\n";
        assert_eq!(after(timed, &[read(0, 3_000, 4096)]), time(3_000, 12_000));
        let sized = "[a]\nrw=read\nsize=1m\nloops=2\n";
        let amount = Amount::Bytes { done: 4096, total: 2 << 20 };
        assert_eq!(after(sized, &[read(0, 3_000, 4096)]), amount);
        assert!((amount.fraction() - 1.0 / 512.0).abs() < 1e-9);
    }

    #[test]
    fn a_job_with_both_ends_with_the_limit_that_it_is_nearer_to() {
        let both = "[a]\nrw=read\nsize=1m\nruntime=10\n";
        let half = Amount::Bytes { done: 512 << 10, total: 1 << 20 };
        assert_eq!(after(both, &[read(0, 100, 512 << 10)]), half);
        assert_eq!(after(both, &[read(0, 9_000, 512 << 10)]), time(9_000, 10_000));
    }

    #[test]
    fn a_group_is_as_far_as_its_slowest_job() {
        let two = "[a]\nrw=read\nsize=1m\n[b]\nrw=read\nsize=1m\n";
        let calls = [read(0, 1, 1 << 20), read(1, 1, 256 << 10)];
        assert_eq!(after(two, &calls), Amount::Bytes { done: 256 << 10, total: 1 << 20 });
    }

    #[test]
    fn a_number_of_requests_limits_the_bytes() {
        let few = "[a]\nrw=read\nsize=1m\nnumber_ios=4\n";
        assert_eq!(after(few, &[read(0, 1, 4096)]), Amount::Bytes { done: 4096, total: 16384 });
    }

    #[test]
    fn the_sync_after_the_last_task_does_not_count() {
        let sized = "[a]\nrw=read\nsize=1m\n";
        assert_eq!(after(sized, &[read(1, 5, 4096)]), Amount::Bytes { done: 0, total: 1 << 20 });
    }
}
