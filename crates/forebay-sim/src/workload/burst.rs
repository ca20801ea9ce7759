//! A backup burst: many concurrent sequential writers, a light writer and a reader.
//!
//! Source:     the case for which the buffer flushing of Linux 2.2 was to be tuned: eight clients
//!             that each copy 1 GB to one file server by `dd bs=1k` over NFS at the same time. The
//!             light writer and the reader are the probes of a measurement on Linux 6.18.
//! Behaviour:  Each writer writes its own file from start to end. The light writer appends a block
//!             at a fixed rate and starts over at the end of its file; after a late write it does
//!             not catch up. The reader reads a block at a uniformly random offset, and waits
//!             between a reply and the next request. Both end when the writers have ended.
//! Differs:    A client's `dd` with blocks of 1 KiB over NFS reaches the server as writes of the
//!             mount's `wsize`, so that 8 KiB are the default here. The writes of a client come in
//!             order and one at a time, where an NFS client keeps several in flight. The probe on
//!             Linux 6.18 read past the page cache; this reader goes through it.
//! Not for:    what the network adds to a write

use std::cell::Cell;
use std::rc::Rc;

use forebay_core::io::Op;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{HandleId, KIB, MIB};
use forebay_core::workload::{Step, Workload};

use super::marks::Log;
use super::nfs_server::server_threads;
use crate::rng::Rng;

/// The burst and the two small clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// How many write their backup.
    pub writers: u32,
    /// The bytes that each of them writes.
    pub bytes: u64,
    /// The bytes of one of their writes, at least 1.
    pub block: u64,
    /// The light writer, if there is one.
    pub light: Option<Probe>,
    /// The reader, if there is one.
    pub reader: Option<Probe>,
    /// The threads of the server that execute all of these calls; without it each client is a
    /// separate task.
    pub threads: Option<u32>,
}

/// Small requests at a pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The bytes of its file, of which whole blocks are used.
    pub file_bytes: u64,
    /// The bytes of one request, at least 1.
    pub block: u64,
    /// For the writer, from one request to the next; for the reader, from an answer to the next
    /// request.
    pub every: Duration,
}

/// A file of the burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Its bytes before the burst.
    pub bytes: u64,
    /// Its maximum size.
    pub room: u64,
}

/// The task that made a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A writer of the burst, by its number from zero on.
    Writer(u32),
    /// The light writer.
    Light,
    /// The reader.
    Reader,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The task.
    pub role: Role,
    /// How many calls it made.
    pub calls: u64,
    /// The bytes of those calls.
    pub bytes: u64,
    /// When its last call had returned.
    pub done: Instant,
}

impl Default for Burst {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Burst {
    /// Eight writers of 1 GiB in 8 KiB; 4 KiB written every 20 ms; 4 KiB read 5 ms after each
    /// answer from a file of 1 GiB.
    pub const DEFAULT: Self = Self {
        writers: 8,
        bytes: 1024 * MIB,
        block: 8 * KIB,
        light: Some(Probe::pages(64 * MIB, 20)),
        reader: Some(Probe::pages(1024 * MIB, 5)),
        threads: None,
    };

    /// The files in the order of the tasks: the writers', the light writer's, the reader's.
    pub fn files(&self) -> Vec<File> {
        let own = (0..self.writers).map(|_| File { bytes: 0, room: self.bytes });
        let light = self.light.iter().map(|probe| File { bytes: 0, room: probe.file_bytes });
        let read = |probe: &Probe| File { bytes: probe.file_bytes, room: probe.file_bytes };
        own.chain(light).chain(self.reader.iter().map(read)).collect()
    }

    /// The tasks, each on the file of its place in [`files`](Self::files), and their marks; with
    /// server threads, these are the tasks.
    ///
    /// `open` opens a file by that place; the reader's places are drawn from `seed`.
    pub fn tasks(
        &self,
        seed: u64,
        mut open: impl FnMut(u32) -> HandleId,
    ) -> (Vec<Box<dyn Workload>>, Log<Mark>) {
        let log = Log::with_capacity(self.writers as usize + 2);
        let writing = Rc::new(Cell::new(self.writers));
        let mut tasks: Vec<Box<dyn Workload>> = Vec::new();
        let mut task = |role: Role| Common {
            handle: open(match role {
                Role::Writer(number) => number,
                Role::Light => self.writers,
                Role::Reader => self.writers + u32::from(self.light.is_some()),
            }),
            mark: Some(Mark { role, calls: 0, bytes: 0, done: Instant::ZERO }),
            calling: false,
            writing: Rc::clone(&writing),
            log: log.clone(),
        };
        for number in 0..self.writers {
            let (common, bytes) = (task(Role::Writer(number)), self.bytes);
            tasks.push(Box::new(Writer { common, bytes, block: self.block.max(1), at: 0 }));
        }
        if let Some(probe) = self.light {
            let common = task(Role::Light);
            tasks.push(Box::new(Light { common, probe: probe.whole(), at: 0, due: None }));
        }
        if let Some(probe) = self.reader {
            let (common, random) = (task(Role::Reader), Rng::new(seed).fork("burst", 0));
            tasks.push(Box::new(Reader { common, probe: probe.whole(), random, due: None }));
        }
        match self.threads {
            None => (tasks, log),
            Some(threads) => (server_threads(threads.max(1), tasks), log),
        }
    }
}

impl Probe {
    /// Single pages every `millis` milliseconds.
    const fn pages(file_bytes: u64, millis: u64) -> Self {
        Self { file_bytes, block: 4 * KIB, every: Duration::from_millis(millis) }
    }

    /// The same over whole blocks of its file, of which there is one at least.
    fn whole(self) -> Self {
        let block = self.block.max(1).min(self.file_bytes.max(1));
        Self { file_bytes: self.file_bytes / block * block, block, ..self }
    }
}

/// What all tasks have.
struct Common {
    handle: HandleId,
    /// The mark, until it is made.
    mark: Option<Mark>,
    /// The last call had not returned at the last step of the task.
    calling: bool,
    /// Writers of the burst that have not ended.
    writing: Rc<Cell<u32>>,
    log: Log<Mark>,
}

impl Common {
    fn call(&mut self, op: Op, len: u64) -> Step {
        self.calling = true;
        if let Some(mark) = &mut self.mark {
            mark.calls += 1;
            mark.bytes += len;
        }
        Step::Call(op)
    }

    fn write(&mut self, offset: u64, len: u64) -> Step {
        self.call(Op::Write { handle: self.handle, offset, len, durable: false }, len)
    }

    fn read(&mut self, offset: u64, len: u64) -> Step {
        self.call(Op::Read { handle: self.handle, offset, len }, len)
    }

    /// Notes when the last call returned.
    fn returned(&mut self, now: Instant) {
        if let Some(mark) = &mut self.mark
            && self.calling
        {
            mark.done = now;
        }
        self.calling = false;
    }

    fn exit(&mut self) -> Step {
        if let Some(mark) = self.mark.take() {
            self.log.note(mark);
            if let Role::Writer(_) = mark.role {
                self.writing.set(self.writing.get().saturating_sub(1));
            }
        }
        Step::Exit
    }

    fn burst_is_over(&self) -> bool {
        self.writing.get() == 0
    }
}

struct Writer {
    common: Common,
    bytes: u64,
    block: u64,
    at: u64,
}

impl Workload for Writer {
    fn next(&mut self, now: Instant) -> Step {
        self.common.returned(now);
        let len = self.block.min(self.bytes - self.at);
        if len == 0 {
            return self.common.exit();
        }
        let offset = self.at;
        self.at += len;
        self.common.write(offset, len)
    }
}

struct Light {
    common: Common,
    probe: Probe,
    at: u64,
    /// When the next write is due; none before the first and while one is under way.
    due: Option<Instant>,
}

impl Workload for Light {
    fn next(&mut self, now: Instant) -> Step {
        self.common.returned(now);
        if self.common.burst_is_over() || self.probe.file_bytes == 0 {
            return self.common.exit();
        }
        let due = *self.due.get_or_insert(now);
        if now < due {
            return Step::Sleep(due);
        }
        self.due = Some(now + self.probe.every);
        let offset = self.at;
        self.at = (offset + self.probe.block) % self.probe.file_bytes;
        self.common.write(offset, self.probe.block)
    }
}

struct Reader {
    common: Common,
    probe: Probe,
    random: Rng,
    /// When the next read is due; none before the first and while one is under way.
    due: Option<Instant>,
}

impl Workload for Reader {
    fn next(&mut self, now: Instant) -> Step {
        self.common.returned(now);
        if self.common.burst_is_over() || self.probe.file_bytes == 0 {
            return self.common.exit();
        }
        let due = *self.due.get_or_insert(now + self.probe.every);
        if now < due {
            return Step::Sleep(due);
        }
        self.due = None;
        let places = self.probe.file_bytes / self.probe.block;
        let offset = self.random.below(places) * self.probe.block;
        self.common.read(offset, self.probe.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Burst {
        Burst { writers: 2, bytes: 20_000, ..Burst::default() }
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn write(handle: u32, offset: u64, len: u64) -> Step {
        Step::Call(Op::Write { handle: HandleId(handle), offset, len, durable: false })
    }

    #[test]
    fn each_writer_fills_a_file_of_its_own() {
        let (mut tasks, log) = small().tasks(1, HandleId);
        assert_eq!(tasks.len(), 4);
        let steps: Vec<Step> = (0..4).map(|n| tasks[1].next(at(n))).collect();
        let expected =
            [write(1, 0, 8192), write(1, 8192, 8192), write(1, 16_384, 3_616), Step::Exit];
        assert_eq!(steps, expected);
        let mark = Mark { role: Role::Writer(1), calls: 3, bytes: 20_000, done: at(3) };
        assert_eq!(log.notes(), [mark]);
        assert_eq!(tasks[1].next(at(9)), Step::Exit);
        assert_eq!(log.notes().len(), 1);
    }

    #[test]
    fn the_light_writer_keeps_its_pace_and_does_not_catch_up() {
        let (mut tasks, _) = small().tasks(1, HandleId);
        let light = &mut tasks[2];
        assert_eq!(light.next(at(0)), write(2, 0, 4096));
        assert_eq!(light.next(at(3)), Step::Sleep(at(20)));
        assert_eq!(light.next(at(20)), write(2, 4096, 4096));
        // The write took 50 ms: the next follows at once, the one after that 20 ms later.
        assert_eq!(light.next(at(70)), write(2, 8192, 4096));
        assert_eq!(light.next(at(71)), Step::Sleep(at(90)));
    }

    #[test]
    fn the_light_writer_starts_over_at_the_end_of_its_file() {
        let probe = Probe { file_bytes: 10_000, block: 4096, every: Duration::ZERO };
        let (mut tasks, _) = Burst { light: Some(probe), ..small() }.tasks(1, HandleId);
        let offsets = [0, 4096, 0].map(|offset| write(2, offset, 4096));
        assert_eq!([(); 3].map(|()| tasks[2].next(at(0))), offsets);
    }

    #[test]
    fn the_reader_waits_between_an_answer_and_the_next_question() {
        let (mut tasks, _) = small().tasks(1, HandleId);
        let reader = &mut tasks[3];
        assert_eq!(reader.next(at(0)), Step::Sleep(at(5)));
        let Step::Call(Op::Read { handle, offset, len }) = reader.next(at(5)) else { panic!() };
        assert_eq!((handle, offset % 4096, len), (HandleId(3), 0, 4096));
        assert!(offset < 1024 * MIB);
        assert_eq!(reader.next(at(12)), Step::Sleep(at(17)));
    }

    #[test]
    fn the_probes_end_when_the_last_writer_has() {
        let (mut tasks, log) = small().tasks(1, HandleId);
        tasks[2].next(at(0));
        tasks[3].next(at(0));
        for writer in &mut tasks[..2] {
            while writer.next(at(1)) != Step::Exit {}
        }
        assert_eq!([tasks[2].next(at(4)), tasks[3].next(at(5))], [Step::Exit; 2]);
        let light = Mark { role: Role::Light, calls: 1, bytes: 4096, done: at(4) };
        let reader = Mark { role: Role::Reader, calls: 0, bytes: 0, done: at(0) };
        assert_eq!(log.notes()[2..], [light, reader]);
    }

    #[test]
    fn files_stand_in_the_order_of_the_tasks() {
        let empty = |room| File { bytes: 0, room };
        let read = File { bytes: 1024 * MIB, room: 1024 * MIB };
        assert_eq!(small().files(), [empty(20_000), empty(20_000), empty(64 * MIB), read]);
        let alone = Burst { light: None, reader: None, ..Burst::default() };
        assert_eq!((alone.files().len(), alone.tasks(1, HandleId).0.len()), (8, 8));
        let mut opened = Vec::new();
        let open = |file| {
            opened.push(file);
            HandleId(file)
        };
        Burst { light: None, ..small() }.tasks(1, open);
        assert_eq!(opened, [0, 1, 2]);
    }

    #[test]
    fn nothing_to_write_is_a_burst_too() {
        let probe = Probe { file_bytes: 0, block: 0, every: Duration::ZERO };
        let burst = Burst {
            writers: 1,
            bytes: 0,
            block: 0,
            light: Some(probe),
            reader: None,
            threads: None,
        };
        let (mut tasks, log) = burst.tasks(1, HandleId);
        assert_eq!([tasks[1].next(at(0)), tasks[0].next(at(0))], [Step::Exit; 2]);
        assert_eq!(log.notes().len(), 2);
    }
}
