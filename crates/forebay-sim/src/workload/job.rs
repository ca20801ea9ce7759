//! A fio job as tasks: what [`crate::fio`] leaves to its driver, that is waiting, pausing, ending.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_core::engine::CALLS_MAX;
use forebay_core::io::{Advice, Op};
use forebay_core::readahead::Pattern;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::HandleId;
use forebay_core::workload::{Step, Workload};
use thiserror::Error;

use crate::fio::{self, Compat, Engine, Job, Stream};

/// Jobs that run side by side, and the files they read.
#[derive(Debug)]
pub struct Group<'a> {
    jobs: Vec<&'a Job>,
    /// The bytes of each distinct file, in the order in which jobs name them.
    sizes: Vec<u64>,
    /// Per job, the places of its files in the list of sizes.
    files: Vec<Vec<u32>>,
}

/// What the engine cannot do for a job yet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}:{line}: job '{job}' {why}")]
pub struct Unsupported {
    file: String,
    line: u32,
    job: String,
    why: &'static str,
}

/// The jobs of a file in groups: each starts when all jobs of the one before have ended.
///
/// # Errors
/// Names the first job that asks for what is not there.
pub fn groups<'a>(jobs: &'a [Job], file: &str) -> Result<Vec<Group<'a>>, Unsupported> {
    let mut groups: Vec<Vec<&Job>> = Vec::new();
    for job in jobs {
        if let Some(why) = unsupported(job, groups.is_empty()) {
            let (file, line, job) = (file.to_owned(), job.line, job.name.clone());
            return Err(Unsupported { file, line, job, why });
        }
        match groups.last_mut() {
            Some(group)
                if !job.stonewall || group.last().is_some_and(|last| last.line == job.line) =>
            {
                group.push(job);
            }
            Some(_) | None => groups.push(vec![job]),
        }
    }
    for group in &groups {
        let depths = group.iter().map(|job| u64::from(job.depth()));
        if depths.sum::<u64>() > TASKS_MAX {
            let job = group.iter().max_by_key(|job| job.depth()).expect("a group has a job");
            let why = "and those beside it keep more than 65535 requests in flight";
            let (file, line, job) = (file.to_owned(), job.line, job.name.clone());
            return Err(Unsupported { file, line, job, why });
        }
    }
    Ok(groups.into_iter().map(Group::new).collect())
}

/// Requests that the jobs of a group may have in flight: each is a task, and takes memory.
const TASKS_MAX: u64 = CALLS_MAX as u64;

fn unsupported(job: &Job, first: bool) -> Option<&'static str> {
    if job.mode.writes() {
        return Some("writes, and the engine only reads so far");
    }
    if job.ioengine == Engine::Mmap {
        return Some("reads through a mapping (ioengine=mmap), which jobs cannot do yet");
    }
    if job.stonewall && !first && !job.invalidate {
        return Some("waits for others (stonewall) and keeps their pages (invalidate=0)");
    }
    None
}

impl<'a> Group<'a> {
    fn new(jobs: Vec<&'a Job>) -> Self {
        let mut places: BTreeMap<&str, u32> = BTreeMap::new();
        let mut sizes: Vec<u64> = Vec::new();
        let mut files = Vec::new();
        for job in &jobs {
            let placed = job.files.iter().map(|file| {
                let place = *places.entry(&file.name).or_insert_with(|| {
                    sizes.push(0);
                    sizes.len() as u32 - 1
                });
                sizes[place as usize] = sizes[place as usize].max(file.room);
                place
            });
            files.push(placed.collect());
        }
        Self { jobs, sizes, files }
    }

    /// The bytes of each distinct file.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// How many tasks the jobs need: one for each request that may be in flight.
    pub fn task_count(&self) -> u32 {
        self.jobs.iter().map(|job| job.depth()).sum()
    }

    /// The bytes of all reads that may be in flight.
    pub fn buffer_bytes(&self) -> u64 {
        let bytes = |job: &&Job| job.block_max().saturating_mul(u64::from(job.depth()));
        self.jobs.iter().map(bytes).fold(0, u64::saturating_add)
    }

    /// The job's section for each task, in the order of [`tasks`](Self::tasks).
    pub fn names(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.jobs.iter().flat_map(|job| (0..job.depth()).map(|_| job.name.as_str()))
    }

    /// The tasks; `open` opens a file by its place in the list of sizes.
    pub fn tasks(
        &self,
        compat: Compat,
        mut open: impl FnMut(u32) -> HandleId,
    ) -> Vec<Box<dyn Workload>> {
        let mut tasks: Vec<Box<dyn Workload>> = Vec::new();
        for (job, files) in self.jobs.iter().zip(&self.files) {
            let handles = files.iter().map(|file| open(*file)).collect();
            let shared = Rc::new(RefCell::new(Shared::new(job, handles, compat)));
            for _ in 0..job.depth() {
                tasks.push(Box::new(JobTask { shared: Rc::clone(&shared) }));
            }
        }
        tasks
    }
}

/// One request of a job that may be in flight.
struct JobTask {
    shared: Rc<RefCell<Shared>>,
}

/// A job as its requests see it together.
struct Shared {
    stream: Stream,
    handles: Vec<HandleId>,
    /// Calls that come before the first read, the first one last.
    opening: Vec<Op>,
    job: Timing,
    started: Option<Instant>,
    /// Requests until the next pause.
    until_pause: u64,
    /// When the present pause ends.
    pause_ends: Instant,
}

/// When a job starts, pauses and ends.
#[derive(Clone, Copy)]
struct Timing {
    delay: Duration,
    runtime: Option<Duration>,
    pause: Duration,
    pause_every: u64,
}

impl Shared {
    fn new(job: &Job, handles: Vec<HandleId>, compat: Compat) -> Self {
        let mut opening = Vec::new();
        for (file, handle) in job.files.iter().zip(&handles).rev() {
            let (offset, len) = (file.region_offset, file.region_len);
            let advise = |advice| Op::Advise { handle: *handle, advice, offset, len };
            match job.advice {
                fio::Advice::Normal => {}
                fio::Advice::Random => opening.push(advise(Advice::Pattern(Pattern::Random))),
                fio::Advice::Sequential => {
                    opening.push(advise(Advice::Pattern(Pattern::Sequential)));
                }
            }
            if job.invalidate {
                opening.push(advise(Advice::DontNeed));
            }
        }
        let job_timing = Timing {
            delay: job.startdelay,
            runtime: job.runtime,
            pause: job.thinktime,
            pause_every: job.thinktime_blocks.max(1),
        };
        Self {
            stream: job.stream(compat),
            handles,
            opening,
            until_pause: job_timing.pause_every,
            job: job_timing,
            started: None,
            pause_ends: Instant::ZERO,
        }
    }

    fn next(&mut self, now: Instant) -> Step {
        let started = *self.started.get_or_insert(now + self.job.delay);
        if now < started {
            return Step::Sleep(started);
        }
        if let Some(op) = self.opening.pop() {
            return Step::Call(op);
        }
        if self.job.runtime.is_some_and(|runtime| now >= started + runtime) {
            return Step::Exit;
        }
        if now < self.pause_ends {
            return Step::Sleep(self.pause_ends);
        }
        if self.until_pause == 0 {
            self.until_pause = self.job.pause_every;
            self.pause_ends = now + self.job.pause;
            if now < self.pause_ends {
                return Step::Sleep(self.pause_ends);
            }
        }
        let Some(io) = self.stream.next() else { return Step::Exit };
        self.until_pause -= 1;
        let handle = self.handles[io.file as usize];
        Step::Call(Op::Read { handle, offset: io.offset, len: io.len })
    }
}

impl Workload for JobTask {
    fn next(&mut self, now: Instant) -> Step {
        self.shared.borrow_mut().next(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::JobFile;

    fn steps(text: &str, count: usize) -> Vec<Step> {
        let parsed = JobFile::parse(text, "test.fio").unwrap();
        let groups = groups(&parsed.jobs, "test.fio").unwrap();
        let mut tasks = groups[0].tasks(Compat::default(), HandleId);
        let mut now = Instant::ZERO;
        (0..count)
            .map(|_| {
                let step = tasks[0].next(now);
                if let Step::Sleep(until) = step {
                    now = until;
                }
                step
            })
            .collect()
    }

    #[test]
    fn a_job_drops_advises_and_reads() {
        let steps = steps("[a]\nrw=read\nsize=8k\n", 5);
        let handle = HandleId(0);
        let advise = |advice| Step::Call(Op::Advise { handle, advice, offset: 0, len: 8192 });
        let read = |offset| Step::Call(Op::Read { handle, offset, len: 4096 });
        let expected = [
            advise(Advice::DontNeed),
            advise(Advice::Pattern(Pattern::Sequential)),
            read(0),
            read(4096),
            Step::Exit,
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn a_job_pauses_after_its_blocks_and_ends_with_its_runtime() {
        let text = "[a]\nrw=read\nsize=1m\nthinktime=400ms\nthinktime_blocks=2\nruntime=1\n\
                    invalidate=0\nfadvise_hint=0\n";
        let sleeps = steps(text, 12).into_iter().filter(|step| matches!(step, Step::Sleep(_)));
        let until: Vec<Step> = sleeps.collect();
        let at = |millis| Step::Sleep(Instant::ZERO + Duration::from_millis(millis));
        assert_eq!(until, [at(400), at(800), at(1200)]);
        assert_eq!(steps(text, 12)[9], Step::Exit);
    }

    #[test]
    fn jobs_that_name_one_file_share_it_and_stonewall_parts_groups() {
        let text =
            "[global]\nrw=read\nsize=64k\n[a]\nfilename=x:y\n[b]\nfilename=y\n[c]\nstonewall\n";
        let parsed = JobFile::parse(text, "test.fio").unwrap();
        let groups = groups(&parsed.jobs, "test.fio").unwrap();
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0].sizes().len(), 2);
        assert_eq!(groups[0].files, [vec![0, 1], vec![1]]);
    }

    #[test]
    fn what_cannot_be_done_names_file_line_and_job() {
        let parsed = JobFile::parse("[a]\nrw=write\nsize=64k\n", "test.fio").unwrap();
        let said = groups(&parsed.jobs, "test.fio").unwrap_err().to_string();
        assert_eq!(said, "test.fio:1: job 'a' writes, and the engine only reads so far");
    }
}
