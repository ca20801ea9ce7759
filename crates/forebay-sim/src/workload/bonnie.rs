//! bonnie 1.x: one file written, rewritten and read in six phases.
//!
//! ```text
//!   putc        truncate     putc 4096 chars, write 4 KiB ...
//!   rewrite                  read 16 KiB, write it again ... until a read finds the end
//!   block write truncate     write 16 KiB ...
//!   getc                     read 4 KiB, getc 4096 chars ...
//!   block read               read 16 KiB ... until a read finds the end
//!   seeks                    3 children: a ticket, read 16 KiB somewhere, write every 10th again
//! ```
//!
//! Source:     bonnie 1.x by Tim Bray, `Bonnie.c`, in the form that counts seeks in chunks; glibc's
//!             `stdio` and `random`
//! Behaviour:  The phases follow each other on one file, each through a separate descriptor. The
//!             time of a phase ends with its `close`, and nothing is ever synced. The three
//!             children of the last phase seed `random()` with their pids; 5 s after the fork they
//!             begin to take 4000 tickets from one pipe, first come, first served. A child writes
//!             back the first and every tenth block that it reads, and draws one more number then.
//! Differs:    The pipe, `lseek`, `open` and `close` take no time. A child looks once a second
//!             whether its parent has forked it, which is soon enough for its start. The bytes of a
//!             phase are the file's, and for the seeks those of the blocks read.
//! Not for:    bonnie++, which does its phases in another order and by other calls.

use std::cell::RefCell;
use std::rc::Rc;

use forebay_core::io::Op;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{HandleId, KIB, MIB};
use forebay_core::workload::{Step, Workload};

use super::libc;
use super::marks::Log;

/// A run of bonnie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bonnie {
    /// The size of the file in MiB, as typed with `-s`; 1 at least.
    pub size_mib: u64,
    /// The bytes of a buffer of `stdio`: the file's `st_blksize`, at least 1.
    pub stdio_bytes: u64,
    /// The processor time of one `putc`.
    pub put: Duration,
    /// The processor time of one `getc`.
    pub get: Duration,
    /// The pids of the three children, which are the seeds of their seeks; `None` for no seeks.
    pub pids: Option<[u32; SEEKERS]>,
    /// Syncs the file after the block write, as no bonnie does: a separate mark shows how long it
    /// takes until the data is durable.
    pub sync_block_write: bool,
}

/// A part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// `putc` of every byte.
    PutChars,
    /// Each block read and written again.
    Rewrite,
    /// Each block written to a new file.
    BlockWrite,
    /// The block write until its data is durable; only on request.
    BlockWriteDurable,
    /// `getc` of every byte.
    GetChars,
    /// Each block read.
    BlockRead,
    /// Blocks at random, by three processes.
    Seeks,
}

/// How a phase went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The phase.
    pub phase: Phase,
    /// When it began.
    pub start: Instant,
    /// When its file was closed.
    pub end: Instant,
    /// The bytes that its rate counts.
    pub bytes: u64,
}

/// One open file for each descriptor that bonnie opens, in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handles {
    /// Those of the five phases of one process.
    pub phases: [HandleId; 5],
    /// Those of the three children.
    pub seekers: [HandleId; SEEKERS],
}

impl Bonnie {
    /// A run of `size_mib` with buffers of 4 KiB, `put` and `get` a character, children with the
    /// pids 1001 to 1003, and nothing that bonnie does not do.
    pub const fn new(size_mib: u64, put: Duration, get: Duration) -> Self {
        let pids = Some([1001, 1002, 1003]);
        Self { size_mib, stdio_bytes: 4 * KIB, put, get, pids, sync_block_write: false }
    }

    /// The bytes of the file, which is empty before the run: the room that it needs.
    pub const fn file_bytes(&self) -> u64 {
        let mib = if self.size_mib == 0 { 1 } else { self.size_mib };
        mib.saturating_mul(MIB) / CHUNK * CHUNK
    }

    /// How many tasks there are.
    pub const fn task_count(&self) -> u32 {
        if self.pids.is_some() { 1 + SEEKERS as u32 } else { 1 }
    }

    /// The process, followed by its children, and the log of the phases.
    pub fn tasks(&self, handles: Handles) -> (Vec<Box<dyn Workload>>, Log<Mark>) {
        let log = Log::with_capacity(7);
        let seeks = Rc::new(RefCell::new(Seeks {
            begin: None,
            tickets: TICKETS,
            running: SEEKERS,
            start: None,
            log: log.clone(),
        }));
        let mut tasks: Vec<Box<dyn Workload>> = vec![Box::new(Process {
            bonnie: Self { stdio_bytes: self.stdio_bytes.max(1), ..*self },
            handles: handles.phases,
            phase: Phase::PutChars,
            at: 0,
            half: false,
            start: None,
            log: log.clone(),
            seeks: Rc::clone(&seeks),
        })];
        for (pid, handle) in self.pids.iter().flatten().zip(handles.seekers) {
            tasks.push(Box::new(Seeker {
                handle,
                chunks: self.file_bytes() / CHUNK,
                random: libc::Random::new(*pid),
                count: 0,
                update: None,
                seeks: Rc::clone(&seeks),
            }));
        }
        (tasks, log)
    }
}

/// The process that does the first five phases and forks the children.
struct Process {
    bonnie: Bonnie,
    handles: [HandleId; 5],
    phase: Phase,
    /// Bytes that the phase has dealt with.
    at: u64,
    /// The first half of a pair is done: characters put but not written, a block read but not
    /// written, characters read but not got.
    half: bool,
    /// When the phase began.
    start: Option<Instant>,
    log: Log<Mark>,
    seeks: Rc<RefCell<Seeks>>,
}

impl Workload for Process {
    fn next(&mut self, now: Instant) -> Step {
        loop {
            let step = match self.phase {
                Phase::PutChars => self.put_chars(now),
                Phase::Rewrite => self.rewrite(now),
                Phase::BlockWrite => self.block_write(now),
                Phase::BlockWriteDurable => self.durable(),
                Phase::GetChars => self.get_chars(now),
                Phase::BlockRead => self.block_read(now),
                Phase::Seeks => return self.fork(now),
            };
            if let Some(step) = step {
                return step;
            }
            self.end(now);
        }
    }
}

impl Process {
    fn put_chars(&mut self, now: Instant) -> Option<Step> {
        self.start.get_or_insert(now);
        let len = self.buffer()?;
        self.half = !self.half;
        if self.half {
            return Some(Step::Compute(self.bonnie.put.times(len)));
        }
        self.write(0, len)
    }

    fn rewrite(&mut self, now: Instant) -> Option<Step> {
        self.start.get_or_insert(now);
        self.half = !self.half;
        if self.half {
            return Some(self.read(1, CHUNK));
        }
        // The read before has found the end.
        if self.at == self.bonnie.file_bytes() {
            return None;
        }
        self.write(1, CHUNK)
    }

    fn block_write(&mut self, now: Instant) -> Option<Step> {
        // The file is made anew before the clock is read.
        if !self.half {
            self.half = true;
            return Some(Step::Call(Op::Truncate { handle: self.handles[2] }));
        }
        self.start.get_or_insert(now);
        if self.at == self.bonnie.file_bytes() {
            self.half = false;
            return None;
        }
        self.write(2, CHUNK)
    }

    fn durable(&mut self) -> Option<Step> {
        self.half = !self.half;
        self.half.then_some(Step::Call(Op::Sync { handle: self.handles[2] }))
    }

    fn get_chars(&mut self, now: Instant) -> Option<Step> {
        self.start.get_or_insert(now);
        let len = self.buffer()?;
        self.half = !self.half;
        if self.half {
            return Some(self.read(3, len));
        }
        self.at += len;
        Some(Step::Compute(self.bonnie.get.times(len)))
    }

    fn block_read(&mut self, now: Instant) -> Option<Step> {
        self.start.get_or_insert(now);
        if self.at > self.bonnie.file_bytes() {
            return None;
        }
        let step = self.read(4, CHUNK);
        self.at += CHUNK;
        Some(step)
    }

    /// The parent sleeps until the tickets are sent; its reads from the children take no time.
    fn fork(&mut self, now: Instant) -> Step {
        if self.bonnie.pids.is_none() {
            return Step::Exit;
        }
        let begin = *self.seeks.borrow_mut().begin.get_or_insert(now + FORK_PAUSE);
        if now < begin { Step::Sleep(begin) } else { Step::Exit }
    }

    /// The bytes of the next buffer of `stdio`; none at the end.
    fn buffer(&self) -> Option<u64> {
        let left = self.bonnie.file_bytes() - self.at;
        (left > 0).then(|| left.min(self.bonnie.stdio_bytes))
    }

    fn read(&self, descriptor: usize, len: u64) -> Step {
        Step::Call(Op::Read { handle: self.handles[descriptor], offset: self.at, len })
    }

    #[expect(clippy::unnecessary_wraps, reason = "as all steps of a phase")]
    fn write(&mut self, descriptor: usize, len: u64) -> Option<Step> {
        let handle = self.handles[descriptor];
        let op = Op::Write { handle, offset: self.at, len, durable: false };
        self.at += len;
        Some(Step::Call(op))
    }

    /// Closes the file, reads the clock and continues with the next phase.
    fn end(&mut self, now: Instant) {
        let start = self.start.expect("a phase that ends has begun");
        let (phase, bytes) = (self.phase, self.bonnie.file_bytes());
        self.log.note(Mark { phase, start, end: now, bytes });
        self.phase = match phase {
            Phase::PutChars => Phase::Rewrite,
            Phase::Rewrite => Phase::BlockWrite,
            Phase::BlockWrite if self.bonnie.sync_block_write => Phase::BlockWriteDurable,
            Phase::BlockWrite | Phase::BlockWriteDurable => Phase::GetChars,
            Phase::GetChars => Phase::BlockRead,
            Phase::BlockRead | Phase::Seeks => Phase::Seeks,
        };
        self.at = 0;
        // The time until the data is durable counts from the first write.
        if self.phase != Phase::BlockWriteDurable {
            self.start = None;
        }
    }
}

/// What the children share with their parent and with each other.
struct Seeks {
    /// When the tickets go out, once the children are forked.
    begin: Option<Instant>,
    /// Tickets left in the pipe.
    tickets: u64,
    /// Children that have not ended.
    running: usize,
    /// When the first child began.
    start: Option<Instant>,
    log: Log<Mark>,
}

/// A child.
struct Seeker {
    handle: HandleId,
    chunks: u64,
    random: libc::Random,
    count: u64,
    /// Where the block lies that was read and is to be written back.
    update: Option<u64>,
    seeks: Rc<RefCell<Seeks>>,
}

impl Workload for Seeker {
    fn next(&mut self, now: Instant) -> Step {
        let handle = self.handle;
        if let Some(offset) = self.update.take() {
            // The number of the word that is changed.
            self.random.next();
            return Step::Call(Op::Write { handle, offset, len: CHUNK, durable: false });
        }
        let mut seeks = self.seeks.borrow_mut();
        match seeks.begin {
            None => return Step::Sleep(now + LOOK_EVERY),
            Some(begin) if now < begin => return Step::Sleep(begin),
            Some(_) => {}
        }
        let start = *seeks.start.get_or_insert(now);
        if seeks.tickets == 0 {
            seeks.running = seeks.running.saturating_sub(1);
            if seeks.running == 0 {
                let bytes = TICKETS * CHUNK;
                seeks.log.note(Mark { phase: Phase::Seeks, start, end: now, bytes });
            }
            return Step::Exit;
        }
        seeks.tickets -= 1;
        let offset = u64::from(self.random.next()) % self.chunks * CHUNK;
        self.update = self.count.is_multiple_of(UPDATE_EVERY).then_some(offset);
        self.count += 1;
        Step::Call(Op::Read { handle, offset, len: CHUNK })
    }
}

/// Processes that seek.
pub const SEEKERS: usize = 3;

/// Seeks of all children together.
pub const TICKETS: u64 = 4_000;

/// The bytes of a block.
pub const CHUNK: u64 = 16 * KIB;

/// A child writes back one of this many blocks.
const UPDATE_EVERY: u64 = 10;

/// How long the parent waits for its children to get ready.
const FORK_PAUSE: Duration = Duration::from_secs(5);

/// How often a child looks whether it was forked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLES: Handles = Handles {
        phases: [HandleId(0), HandleId(1), HandleId(2), HandleId(3), HandleId(4)],
        seekers: [HandleId(5), HandleId(6), HandleId(7)],
    };

    const PUT: Duration = Duration(100);
    const GET: Duration = Duration(80);

    fn bonnie() -> Bonnie {
        Bonnie { size_mib: 1, ..Bonnie::new(1, PUT, GET) }
    }

    /// All steps of a single task; a call takes a microsecond.
    fn steps(task: &mut dyn Workload) -> Vec<Step> {
        let mut now = Instant::ZERO;
        let mut steps = Vec::new();
        loop {
            let step = task.next(now);
            steps.push(step);
            now = match step {
                Step::Call(_) => now + Duration::from_micros(1),
                Step::Compute(length) => now + length,
                Step::Sleep(until) => until,
                Step::Exit => return steps,
            };
        }
    }

    fn read(handle: u32, offset: u64, len: u64) -> Step {
        Step::Call(Op::Read { handle: HandleId(handle), offset, len })
    }

    fn write(handle: u32, offset: u64, len: u64) -> Step {
        Step::Call(Op::Write { handle: HandleId(handle), offset, len, durable: false })
    }

    /// 1 MiB is 256 buffers of 4 KiB, or 64 blocks.
    #[test]
    fn the_phases_follow_as_in_bonnie() {
        let (mut tasks, log) = bonnie().tasks(HANDLES);
        let steps = steps(&mut *tasks[0]);
        let put = [Step::Compute(PUT.times(4096)), write(0, 0, 4096)];
        assert_eq!(steps[..2], put);
        assert_eq!(steps[510..512], [put[0], write(0, 255 * 4096, 4096)]);
        let rewrite = &steps[512..641];
        assert_eq!(rewrite[..3], [read(1, 0, CHUNK), write(1, 0, CHUNK), read(1, CHUNK, CHUNK)]);
        assert_eq!(rewrite[127..], [write(1, 63 * CHUNK, CHUNK), read(1, MIB, CHUNK)]);
        let fresh = &steps[641..706];
        assert_eq!(fresh[0], Step::Call(Op::Truncate { handle: HandleId(2) }));
        assert_eq!([fresh[1], fresh[64]], [write(2, 0, CHUNK), write(2, 63 * CHUNK, CHUNK)]);
        let get = &steps[706..1218];
        assert_eq!(get[..2], [read(3, 0, 4096), Step::Compute(GET.times(4096))]);
        assert_eq!(get[510], read(3, 255 * 4096, 4096));
        let blocks = &steps[1218..1283];
        assert_eq!([blocks[0], blocks[64]], [read(4, 0, CHUNK), read(4, MIB, CHUNK)]);
        assert!(matches!(steps[1283..], [Step::Sleep(_), Step::Exit]));
        let phases: Vec<Phase> = log.notes().iter().map(|mark| mark.phase).collect();
        use Phase::{BlockRead, BlockWrite, GetChars, PutChars, Rewrite};
        assert_eq!(phases, [PutChars, Rewrite, BlockWrite, GetChars, BlockRead]);
    }

    #[test]
    fn a_phase_lasts_from_its_open_to_its_close() {
        let (mut tasks, log) = Bonnie { pids: None, ..bonnie() }.tasks(HANDLES);
        assert_eq!(tasks.len(), 1);
        steps(&mut *tasks[0]);
        let times: Vec<(u64, u64)> = log
            .notes()
            .iter()
            .map(|mark| (mark.start.0 / 100, mark.end.since(mark.start).0 / 100))
            .collect();
        // In units of 100 ns: a call takes 10; the truncation lies between two phases.
        let put = (1 << 20) + 2_560;
        let get = (1 << 20) * 8 / 10 + 2_560;
        let begin = put + 1_290 + 10 + 640;
        let expected =
            [(0, put), (put, 1_290), (put + 1_300, 640), (begin, get), (begin + get, 650)];
        let near =
            |(a, b): (&(u64, u64), &(u64, u64))| a.0.abs_diff(b.0) <= 1 && a.1.abs_diff(b.1) <= 1;
        assert!(times.iter().zip(&expected).all(near), "{times:?} {expected:?}");
        assert!(log.notes().iter().all(|mark| mark.bytes == MIB));
    }

    #[test]
    fn the_block_write_is_durable_only_when_asked() {
        let syncs = |sync_block_write| {
            let (mut tasks, log) = Bonnie { sync_block_write, ..bonnie() }.tasks(HANDLES);
            let all = steps(&mut *tasks[0]);
            let syncs = all.iter().filter(|step| matches!(step, Step::Call(Op::Sync { .. })));
            (syncs.count(), log.notes())
        };
        assert_eq!(syncs(false).0, 0);
        let (count, marks) = syncs(true);
        assert_eq!((count, marks[3].phase), (1, Phase::BlockWriteDurable));
        assert_eq!(marks[3].start, marks[2].start);
        assert_eq!(marks[3].end, marks[2].end + Duration::from_micros(1));
    }

    #[test]
    fn children_seek_where_random_says_and_write_back_every_tenth_block() {
        let (mut tasks, log) = Bonnie { pids: Some([1_234; 3]), ..bonnie() }.tasks(HANDLES);
        assert_eq!(tasks[1].next(Instant::ZERO), Step::Sleep(Instant::ZERO + LOOK_EVERY));
        steps(&mut *tasks[0]);
        let begin = log.notes()[4].end + FORK_PAUSE;
        assert_eq!(tasks[1].next(Instant::ZERO), Step::Sleep(begin));
        // `srandom(1234)`: the second number chooses a word, not a block.
        let first = [479_142_414, 961_126_155].map(|drawn: u64| drawn % 64 * CHUNK);
        assert_eq!(tasks[1].next(begin), read(5, first[0], CHUNK));
        assert_eq!(tasks[1].next(begin), write(5, first[0], CHUNK));
        assert_eq!(tasks[1].next(begin), read(5, first[1], CHUNK));
        let mut counts = [2_u64, 0, 0];
        let mut writes = 1;
        let mut done = [false; 3];
        let mut now = begin;
        while done != [true; 3] {
            for child in 0..3 {
                now += Duration(1);
                match tasks[1 + child].next(now) {
                    _ if done[child] => {}
                    Step::Call(Op::Read { .. }) => counts[child] += 1,
                    Step::Call(Op::Write { .. }) => writes += 1,
                    Step::Exit => done[child] = true,
                    Step::Call(_) | Step::Compute(_) | Step::Sleep(_) => panic!("children seek"),
                }
            }
        }
        assert_eq!(counts.iter().sum::<u64>(), TICKETS);
        assert_eq!(writes, counts.iter().map(|count| count.div_ceil(10)).sum::<u64>());
        let seeks = log.notes()[5];
        assert_eq!((seeks.phase, seeks.start, seeks.bytes), (Phase::Seeks, begin, 4_000 * CHUNK));
        assert!(seeks.end <= now);
    }

    #[test]
    fn odd_sizes_make_a_run_all_the_same() {
        assert_eq!(Bonnie { size_mib: 0, ..bonnie() }.file_bytes(), MIB);
        let huge = Bonnie { size_mib: u64::MAX, ..bonnie() };
        assert_eq!(huge.file_bytes() % CHUNK, 0);
        let (mut tasks, log) = Bonnie { stdio_bytes: 3_000, pids: None, ..bonnie() }.tasks(HANDLES);
        let all = steps(&mut *tasks[0]);
        let last = MIB / 3_000 * 3_000;
        assert!(all.contains(&write(0, last, MIB - last)));
        assert_eq!(log.notes().len(), 5);
    }
}
