//! A fio job as tasks: what [`crate::fio`] leaves to its driver, that is waiting, pausing, ending.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_core::engine::CALLS_MAX;
use forebay_core::io::{Advice, Op, RequestKind};
use forebay_core::readahead::{MapAdvice, Mapping, Pattern};
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{DeviceId, HandleId, PAGE_SIZE, SECTOR_SIZE};
use forebay_core::workload::{Step, Workload};
use thiserror::Error;

use crate::fio::{self, Action, Compat, Engine, Io, Job, Stream, Sync, SyncKind};

pub use progress::{Amount, GroupProgress};

mod progress;

/// Jobs that run side by side, and the files they read and write.
#[derive(Debug)]
pub struct Group<'a> {
    jobs: Vec<&'a Job>,
    /// The bytes of each distinct file, in the order in which jobs name them.
    sizes: Vec<u64>,
    /// What each of them can grow to.
    rooms: Vec<u64>,
    /// Per job, the places of its files in the list of sizes.
    files: Vec<Vec<u32>>,
}

/// What the world in which jobs are to run can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Files are only read.
    Read,
    /// Files are read and written.
    Write,
    /// Files are read and written, also past the page cache.
    Direct,
}

/// What cannot be done for a job.
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
/// Names the first job that asks for what is not there, such as writes where files are only read.
pub fn groups<'a>(
    jobs: &'a [Job],
    file: &str,
    access: Access,
) -> Result<Vec<Group<'a>>, Unsupported> {
    let mut groups: Vec<Vec<&Job>> = Vec::new();
    for job in jobs {
        if let Some(why) = unsupported(job, groups.is_empty(), access) {
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
    if let Some(job) = groups.iter().find_map(|group| mixed(group)) {
        let why = "bypasses the page cache (direct=1) for a file that is written, and that a job \
                   without direct=1 has in it";
        let (file, line, job) = (file.to_owned(), job.line, job.name.clone());
        return Err(Unsupported { file, line, job, why });
    }
    let mut written = BTreeSet::new();
    Ok(groups.into_iter().map(|jobs| Group::new(jobs, &mut written)).collect())
}

/// Requests that the jobs of a group may have in flight: each is a task, and takes memory.
const TASKS_MAX: u64 = CALLS_MAX as u64;

fn unsupported(job: &Job, first: bool, access: Access) -> Option<&'static str> {
    if job.mode.writes() && access == Access::Read {
        return Some("writes, and files are only read here");
    }
    if job.direct && access != Access::Direct {
        return Some("bypasses the page cache (direct=1), which only `simulate` does");
    }
    if job.ioengine == Engine::Mmap && job.mode.writes() {
        return Some("writes through a mapping (ioengine=mmap), which jobs cannot do");
    }
    if job.stonewall && !first && !job.invalidate {
        return Some("waits for others (stonewall) and keeps their pages (invalidate=0)");
    }
    None
}

/// A direct job with a file that it shares with a buffered one, if one of them writes: the cache
/// would be stale.
fn mixed<'a>(jobs: &[&'a Job]) -> Option<&'a Job> {
    let shares = |direct: &Job, other: &Job| {
        let names = |name: &str| direct.files.iter().any(|file| file.name == name);
        let writes = direct.mode.writes() || other.mode.writes();
        !other.direct && writes && other.files.iter().any(|file| names(&file.name))
    };
    let mut direct = jobs.iter().filter(|job| job.direct);
    direct.find(|direct| jobs.iter().any(|other| shares(direct, other))).copied()
}

impl<'a> Group<'a> {
    /// The group of `jobs`, when the files of `before` were written by groups before it.
    fn new(jobs: Vec<&'a Job>, before: &mut BTreeSet<&'a str>) -> Self {
        let mut places: BTreeMap<&str, u32> = BTreeMap::new();
        let (mut sizes, mut rooms) = (Vec::<u64>::new(), Vec::<u64>::new());
        let mut files = Vec::new();
        for job in &jobs {
            let placed = job.files.iter().map(|file| {
                let place = *places.entry(&file.name).or_insert_with(|| {
                    rooms.push(0);
                    rooms.len() as u32 - 1
                });
                let room = &mut rooms[place as usize];
                *room = file.room.max(*room);
                match sizes.get_mut(place as usize) {
                    // fio gives a file that several jobs name its whole size before they start.
                    Some(size) => *size = *room,
                    None if before.contains(file.name.as_str())
                        || job.depth() > 1
                        || job.direct =>
                    {
                        sizes.push(*room);
                    }
                    None => sizes.push(file.bytes),
                }
                place
            });
            files.push(placed.collect());
        }
        before.extend(places.keys());
        Self { jobs, sizes, rooms, files }
    }

    /// The bytes of each distinct file before the jobs start.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// The bytes that each distinct file can grow to.
    pub fn rooms(&self) -> &[u64] {
        &self.rooms
    }

    /// How many tasks the jobs need: one for each request that may be in flight.
    pub fn task_count(&self) -> u32 {
        self.jobs.iter().map(|job| job.depth()).sum()
    }

    /// The bytes of all requests that may be in flight.
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
        open: impl FnMut(u32) -> HandleId,
    ) -> Vec<Box<dyn Workload>> {
        let tasks = self.threads(compat, open).into_iter();
        tasks.map(|task| task as Box<dyn Workload>).collect()
    }

    /// The same tasks on files that begin at these sectors of the first device, so that jobs can
    /// bypass the page cache.
    pub fn tasks_on_device(
        &self,
        compat: Compat,
        sectors: &[u64],
        open: impl FnMut(u32) -> HandleId,
    ) -> Vec<Box<dyn Workload>> {
        let tasks = self.threads_on(compat, sectors, open).into_iter();
        tasks.map(|task| task as Box<dyn Workload>).collect()
    }

    /// The same tasks, each of which may run in a separate thread.
    pub fn threads(
        &self,
        compat: Compat,
        open: impl FnMut(u32) -> HandleId,
    ) -> Vec<Box<dyn Workload + Send>> {
        self.threads_on(compat, &[], open)
    }

    fn threads_on(
        &self,
        compat: Compat,
        sectors: &[u64],
        mut open: impl FnMut(u32) -> HandleId,
    ) -> Vec<Box<dyn Workload + Send>> {
        let mut tasks: Vec<Box<dyn Workload + Send>> = Vec::new();
        for (job, files) in self.jobs.iter().zip(&self.files) {
            let handles = files.iter().map(|file| open(*file)).collect();
            let mut shared = Shared::new(job, handles, compat);
            if job.direct {
                let sector = |file: &u32| {
                    *sectors.get(*file as usize).expect("`Access::Direct` comes with sectors")
                };
                shared.direct = Some(files.iter().map(sector).collect());
            }
            let shared = Arc::new(Mutex::new(shared));
            for _ in 0..job.depth() {
                tasks.push(Box::new(JobTask { shared: Arc::clone(&shared), calling: false }));
            }
        }
        tasks
    }
}

/// One request of a job that may be in flight.
struct JobTask {
    shared: Arc<Mutex<Shared>>,
    /// The call made last is not yet known to be over.
    calling: bool,
}

/// A job as its requests see it together.
struct Shared {
    stream: Stream,
    handles: Vec<HandleId>,
    /// The first sectors of the files, if requests bypass the page cache.
    direct: Option<Vec<u64>>,
    /// Calls that come before the first request, the first one last.
    opening: Vec<Op>,
    job: Timing,
    started: Option<Instant>,
    /// Requests until the next pause.
    until_pause: u64,
    /// When the present pause ends.
    pause_ends: Instant,
    /// Whether the last request was a write.
    wrote: bool,
    /// Writes are durable when they return.
    durable: bool,
    calls_in_flight: u32,
    /// The first sync of the end, which waits until it is the only call.
    held: Option<Sync>,
    /// The state of mappings, if requests go through them.
    mapping: Option<Mapping>,
    /// Pages of the latest request that have not been touched.
    untouched: Option<(HandleId, Range<u64>)>,
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
        let job_timing = Timing {
            delay: job.startdelay,
            runtime: job.runtime,
            pause: job.thinktime,
            pause_every: job.thinktime_blocks.max(1),
        };
        Self {
            stream: job.stream(compat),
            opening: opening(job, &handles),
            handles,
            direct: None,
            until_pause: job_timing.pause_every,
            job: job_timing,
            started: None,
            pause_ends: Instant::ZERO,
            wrote: false,
            durable: job.durable,
            calls_in_flight: 0,
            held: None,
            mapping: mapping(job),
            untouched: None,
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
        let ends = self.job.runtime.map(|runtime| started + runtime);
        if ends.is_some_and(|ends| now >= ends) {
            self.stream.stop();
        } else if now < self.pause_ends {
            return Step::Sleep(self.pause_ends);
        } else if self.until_pause == 0 {
            self.until_pause = self.job.pause_every;
            self.pause_ends = now + self.job.pause;
            self.stream.paused(self.wrote, self.job.pause.as_nanos() / NANOS_PER_MICRO);
            if now < self.pause_ends {
                return Step::Sleep(self.pause_ends);
            }
        }
        if let Some(sync) = self.held.take() {
            return self.sync(sync);
        }
        if let Some(fault) = self.touch() {
            return Step::Call(fault);
        }
        match self.stream.step(now.since(started).as_nanos() / NANOS_PER_MICRO) {
            Action::Io(io) => Step::Call(self.request(io)),
            Action::Sync(sync) => self.sync(sync),
            Action::Wait(until_us) => {
                let due = started + Duration::from_micros(until_us);
                Step::Sleep(ends.map_or(due, |ends| due.min(ends)))
            }
            Action::End => Step::Exit,
        }
    }

    fn request(&mut self, io: Io) -> Op {
        self.until_pause -= 1;
        self.wrote = io.write;
        let Io { file, offset, len, write } = io;
        if let Some(starts) = &self.direct {
            let kind = match (write, self.durable) {
                (false, _) => RequestKind::Read,
                (true, false) => RequestKind::Write,
                (true, true) => RequestKind::DurableWrite,
            };
            let sector = starts[file as usize] + offset / SECTOR_SIZE;
            let (device, sectors) = (DeviceId(0), len / SECTOR_SIZE);
            return Op::Direct { device, sector, sectors, kind, is_sync: true };
        }
        let handle = self.handles[file as usize];
        if write {
            return Op::Write { handle, offset, len, durable: self.durable };
        }
        if self.mapping.is_some() {
            self.untouched = Some((handle, offset / PAGE_SIZE..(offset + len).div_ceil(PAGE_SIZE)));
        }
        self.touch().unwrap_or(Op::Read { handle, offset, len })
    }

    /// The next page of a request through a mapping.
    fn touch(&mut self) -> Option<Op> {
        let mapping = self.mapping?;
        let (handle, pages) = self.untouched.as_mut()?;
        let (handle, page) = (*handle, pages.next()?);
        Some(Op::Fault { handle, page, write: false, mapping })
    }

    /// The syncs of the end come after the last request: a task that is not the last leaves them to
    /// the others, since there is nothing else left to do.
    fn sync(&mut self, sync: Sync) -> Step {
        if sync.kind == (SyncKind::End { last: true }) && self.calls_in_flight > 0 {
            self.held = Some(sync);
            return Step::Exit;
        }
        Step::Call(Op::Sync { handle: self.handles[sync.file as usize] })
    }
}

/// The mappings of a job that reads through them. fio gives them the same advice as files.
fn mapping(job: &Job) -> Option<Mapping> {
    let advice = match job.advice {
        fio::Advice::Normal => MapAdvice::Normal,
        fio::Advice::Random => MapAdvice::Random,
        fio::Advice::Sequential => MapAdvice::Sequential,
    };
    (job.ioengine == Engine::Mmap).then_some(Mapping { advice, ..Mapping::WHOLE })
}

/// What a job tells the kernel about its files, the first one last.
fn opening(job: &Job, handles: &[HandleId]) -> Vec<Op> {
    let mut opening = Vec::new();
    for (file, handle) in job.files.iter().zip(handles).rev() {
        let (offset, len) = (file.region_offset, file.region_len);
        let advise = |advice| Op::Advise { handle: *handle, advice, offset, len };
        match job.advice {
            fio::Advice::Normal => {}
            // The advice applies to the mapping.
            fio::Advice::Random | fio::Advice::Sequential if job.ioengine == Engine::Mmap => {}
            fio::Advice::Random => opening.push(advise(Advice::Pattern(Pattern::Random))),
            fio::Advice::Sequential => {
                opening.push(advise(Advice::Pattern(Pattern::Sequential)));
            }
        }
        if job.invalidate {
            opening.push(advise(Advice::DontNeed));
        }
    }
    opening
}

impl Workload for JobTask {
    fn next(&mut self, now: Instant) -> Step {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.calls_in_flight -= u32::from(self.calling);
        let step = shared.next(now);
        self.calling = matches!(step, Step::Call(_));
        shared.calls_in_flight += u32::from(self.calling);
        step
    }
}

const NANOS_PER_MICRO: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::JobFile;

    fn steps(text: &str, count: usize) -> Vec<Step> {
        let parsed = JobFile::parse(text, "test.fio").unwrap();
        let groups = groups(&parsed.jobs, "test.fio", Access::Write).unwrap();
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
    fn a_request_through_a_mapping_touches_its_pages_one_by_one() {
        let text = format!("{BARE}[a]\nrw=read\nsize=16k\nbs=8k\nioengine=mmap\n");
        let touch = |page| {
            let (handle, mapping) = (HandleId(0), Mapping::WHOLE);
            Step::Call(Op::Fault { handle, page, write: false, mapping })
        };
        assert_eq!(steps(&text, 5), [touch(0), touch(1), touch(2), touch(3), Step::Exit]);
        let random = "[a]\nrw=randread\nsize=4k\nioengine=mmap\ninvalidate=0\n";
        let mapping = Mapping { advice: MapAdvice::Random, ..Mapping::WHOLE };
        let fault = Op::Fault { handle: HandleId(0), page: 0, write: false, mapping };
        assert_eq!(steps(random, 1), [Step::Call(fault)]);
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
        let groups = groups(&parsed.jobs, "test.fio", Access::Write).unwrap();
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0].sizes().len(), 2);
        assert_eq!(groups[0].files, [vec![0, 1], vec![1]]);
    }

    fn write(handle: u32, offset: u64, len: u64) -> Step {
        Step::Call(Op::Write { handle: HandleId(handle), offset, len, durable: false })
    }

    fn sync(handle: u32) -> Step {
        Step::Call(Op::Sync { handle: HandleId(handle) })
    }

    const BARE: &str = "[global]\ninvalidate=0\nfadvise_hint=0\n";

    #[test]
    fn a_job_syncs_the_file_next_in_turn_and_all_files_at_the_end() {
        let text = format!("{BARE}[a]\nrw=write\nsize=16k\nnrfiles=2\nfsync=3\nend_fsync=1\n");
        let expected = [
            write(0, 0, 4096),
            write(1, 0, 4096),
            write(0, 4096, 4096),
            sync(1),
            write(1, 4096, 4096),
            sync(0),
            sync(1),
            Step::Exit,
        ];
        assert_eq!(steps(&text, 8), expected);
    }

    #[test]
    fn durable_writes_say_so() {
        for (word, wanted) in [("none", false), ("dsync", true), ("sync", true), ("1", true)] {
            let text = format!("{BARE}[a]\nrw=randwrite\nsize=4k\nsync={word}\n");
            let Step::Call(Op::Write { durable, .. }) = steps(&text, 1)[0] else { panic!() };
            assert_eq!(durable, wanted, "{word}");
        }
    }

    #[test]
    fn a_rate_spaces_requests_by_the_bytes_so_far() {
        // 4096 bytes at 1000000 a second take 4096 us; the third request is due after 8192 us.
        let text = format!("{BARE}[a]\nrw=write\nsize=12k\nrate=1000000\n");
        let at = |micros| Step::Sleep(Instant::ZERO + Duration::from_micros(micros));
        let expected = [
            write(0, 0, 4096),
            at(4096),
            write(0, 4096, 4096),
            at(8192),
            write(0, 8192, 4096),
            Step::Exit,
        ];
        assert_eq!(steps(&text, 6), expected);
    }

    #[test]
    fn a_mixed_job_takes_the_direction_that_is_due() {
        let text = format!("{BARE}[a]\nrw=rw\nsize=64k\nrate=,4096\nruntime=3\nend_fsync=1\n");
        let found = steps(&text, 32);
        let writes = |step: &&Step| matches!(step, Step::Call(Op::Write { .. }));
        let reads = |step: &&Step| matches!(step, Step::Call(Op::Read { .. }));
        // No time passes in this test, so that only the first write is due; reads go on.
        assert_eq!(found.iter().filter(writes).count(), 1);
        assert_eq!(found.iter().filter(reads).count(), 15);
        assert_eq!(found[16..], [[sync(0)].as_slice(), &[Step::Exit; 15]].concat());
    }

    #[test]
    fn a_job_ends_with_its_runtime_and_syncs_then() {
        let text =
            format!("{BARE}[a]\nrw=write\nsize=1m\nrate=4096\nruntime=1500ms\nend_fsync=1\n");
        let at = |millis| Step::Sleep(Instant::ZERO + Duration::from_millis(millis));
        let expected =
            [write(0, 0, 4096), at(1000), write(0, 4096, 4096), at(1500), sync(0), Step::Exit];
        assert_eq!(steps(&text, 6), expected);
    }

    #[test]
    fn the_last_of_several_requests_in_flight_syncs() {
        let text = format!(
            "{BARE}[a]\nrw=randwrite\nsize=8k\nioengine=io_uring\niodepth=2\nend_fsync=1\n"
        );
        let parsed = JobFile::parse(&text, "test.fio").unwrap();
        let groups = groups(&parsed.jobs, "test.fio", Access::Write).unwrap();
        let mut tasks = groups[0].tasks(Compat::default(), HandleId);
        let mut next = |task: usize| tasks[task].next(Instant::ZERO);
        assert!(matches!(next(0), Step::Call(Op::Write { .. })));
        assert!(matches!(next(1), Step::Call(Op::Write { .. })));
        assert_eq!(next(1), Step::Exit);
        assert_eq!(next(0), sync(0));
        assert_eq!(next(0), Step::Exit);
    }

    #[test]
    fn only_a_file_written_from_its_start_by_one_job_starts_empty() {
        for (text, sizes) in [
            ("[a]\nrw=write\n", [0].as_slice()),
            ("[a]\nrw=write\noverwrite=1\n", &[65536]),
            ("[a]\nrw=randwrite\n", &[65536]),
            ("[a]\nrw=rw\n", &[65536]),
            ("[a]\nrw=write:4k\n", &[65536]),
            ("[a]\nrw=write\noffset=4k\n", &[69632]),
            ("[a]\nrw=write\nioengine=io_uring\niodepth=2\n", &[65536]),
            ("[a]\nrw=write\n[b]\nrw=read\n", &[0, 65536]),
            ("[a]\nrw=write\nfilename=x\n[b]\nrw=read\nfilename=x\n", &[65536]),
            ("[a]\nrw=write\nfilename=x\n[b]\nrw=write\nfilename=x\n", &[65536]),
            ("[a]\nrw=write\nnumjobs=2\n", &[0, 0]),
        ] {
            let text = format!("[global]\nsize=64k\n{text}");
            let parsed = JobFile::parse(&text, "test.fio").unwrap();
            let groups = groups(&parsed.jobs, "test.fio", Access::Write).unwrap();
            assert_eq!(groups[0].sizes(), sizes, "{text}");
            assert!(groups[0].rooms().iter().all(|room| *room >= 65536), "{text}");
        }
    }

    #[test]
    fn a_file_written_before_the_wall_is_full_behind_it() {
        let text =
            "[global]\nrw=write\nsize=64k\nfilename=x\nfallocate=none\n[a]\n[b]\nstonewall\n";
        let parsed = JobFile::parse(text, "test.fio").unwrap();
        let groups = groups(&parsed.jobs, "test.fio", Access::Write).unwrap();
        let sizes: Vec<&[u64]> = groups.iter().map(Group::sizes).collect();
        assert_eq!(sizes, [[0], [65536]]);
    }

    #[test]
    fn direct_requests_name_sectors_of_the_device() {
        let text = format!("{BARE}[a]\nrw=write\nsize=8k\ndirect=1\nend_fsync=1\n");
        let durable = format!("{text}sync=dsync\n");
        for (text, kind) in [(&text, RequestKind::Write), (&durable, RequestKind::DurableWrite)] {
            let parsed = JobFile::parse(text, "test.fio").unwrap();
            let groups = groups(&parsed.jobs, "test.fio", Access::Direct).unwrap();
            assert_eq!(groups[0].sizes(), [8192], "the file is whole, since nothing grows it");
            let mut tasks = groups[0].tasks_on_device(Compat::default(), &[1_000], HandleId);
            let mut next = || tasks[0].next(Instant::ZERO);
            let direct = |sector| {
                let device = DeviceId(0);
                Step::Call(Op::Direct { device, sector, sectors: 8, kind, is_sync: true })
            };
            assert_eq!([next(), next(), next()], [direct(1_000), direct(1_008), sync(0)]);
        }
    }

    #[test]
    fn a_file_is_not_written_past_and_through_the_page_cache_at_once() {
        for (first, second, is_taken) in [
            ("rw=read\ndirect=1", "rw=read", true),
            ("rw=write\ndirect=1", "rw=read\ndirect=1", true),
            ("rw=write\ndirect=1", "rw=read", false),
            ("rw=read\ndirect=1", "rw=write", false),
            ("rw=write\ndirect=1", "rw=read\nstonewall", true),
            ("rw=write\ndirect=1", "rw=read\nfilename=y", true),
        ] {
            let text = format!("[a]\nsize=64k\nfilename=x\n{first}\n[b]\nsize=64k\n");
            let name = if second.contains("filename") { "" } else { "filename=x\n" };
            let parsed = JobFile::parse(&format!("{text}{name}{second}\n"), "test.fio").unwrap();
            let found = groups(&parsed.jobs, "test.fio", Access::Direct);
            assert_eq!(found.is_ok(), is_taken, "{first} {second}");
            assert!(groups(&parsed.jobs, "test.fio", Access::Write).is_err());
        }
    }

    #[test]
    fn what_cannot_be_done_names_file_line_and_job() {
        let parsed = JobFile::parse("[a]\nrw=write\nsize=64k\n", "test.fio").unwrap();
        let said = groups(&parsed.jobs, "test.fio", Access::Read).unwrap_err().to_string();
        assert_eq!(said, "test.fio:1: job 'a' writes, and files are only read here");
        assert!(groups(&parsed.jobs, "test.fio", Access::Write).is_ok());
    }
}
