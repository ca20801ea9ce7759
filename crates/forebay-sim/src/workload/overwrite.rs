//! Random writes over a hot file: the load of Oh and Won.
//!
//! Source:     Oh and Won, a study of `balance_dirty_pages` of Linux 3.18: 70 GB written at random
//!             over a file of 30 GB, on a machine with 8 GB of memory; the other file, of 50 GB, is
//!             not used
//! Behaviour:  The file exists before. Buffered writes of one block each go to uniformly random
//!             blocks, one after the other, until all bytes are written. The writer that finishes
//!             last syncs the file if requested.
//! Differs:    The paper does not say how many write, how large a write is, or whether the file is
//!             synced at the end. Here one writer writes 4 KiB at a time unless told otherwise. GB
//!             are taken as 10^9 bytes. A scaled-down load hits dirty pages as often only if the
//!             memory is scaled as well.
//! Not for:    loads whose places are not drawn evenly, such as those of a database

use std::cell::Cell;
use std::rc::Rc;

use forebay_core::io::Op;
use forebay_core::time::Instant;
use forebay_core::units::{HandleId, KIB};
use forebay_core::workload::{Step, Workload};

use super::marks::Log;
use crate::rng::Rng;

/// Random writes over one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwrite {
    /// The bytes of the file; an incomplete last block is not written.
    pub file_bytes: u64,
    /// The bytes written by all writers; rounded down to blocks.
    pub total_bytes: u64,
    /// The bytes of one write, at least 1.
    pub block: u64,
    /// How many write, at least 1.
    pub writers: u32,
    /// Whether the file is synced at the end.
    pub sync: bool,
}

/// How one writer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its number, counted from zero.
    pub writer: u32,
    /// The bytes that it wrote.
    pub bytes: u64,
    /// When its last write had returned.
    pub written: Instant,
    /// When the file was durable, if this writer synced it.
    pub durable: Option<Instant>,
}

impl Overwrite {
    /// The load of the paper with all sizes divided by `scale_down`, at least 1: one writer, blocks
    /// of 4 KiB, a sync at the end.
    pub fn of_paper(scale_down: u64) -> Self {
        let scaled = |bytes: u64| bytes / scale_down.max(1);
        let (file_bytes, total_bytes) = (scaled(FILE_BYTES), scaled(TOTAL_BYTES));
        Self { file_bytes, total_bytes, block: 4 * KIB, writers: 1, sync: true }
    }

    /// The writers, each through its own handle as far as there are handles, and their marks.
    ///
    /// The offsets are drawn from `seed`; each writer has its own numbers.
    pub fn tasks(&self, handles: &[HandleId], seed: u64) -> (Vec<Box<dyn Workload>>, Log<Mark>) {
        let (block, writers) = (self.block.max(1), self.writers.max(1));
        let log = Log::with_capacity(writers as usize);
        let running = Rc::new(Cell::new(writers));
        let places = self.file_bytes / block;
        let writes = if places == 0 { 0 } else { self.total_bytes / block };
        let random = Rng::new(seed);
        let task = |writer: u32| {
            let handle = *handles.get(writer as usize % handles.len().max(1))?;
            // The first writers take what does not divide.
            let (share, rest) = (writes / u64::from(writers), writes % u64::from(writers));
            let task: Box<dyn Workload> = Box::new(Writer {
                mark: Mark { writer, bytes: 0, written: Instant::ZERO, durable: None },
                handle,
                places,
                block,
                left: share + u64::from(u64::from(writer) < rest),
                sync: self.sync,
                state: State::Writing,
                random: random.fork("overwrite", u64::from(writer)),
                running: Rc::clone(&running),
                log: log.clone(),
            });
            Some(task)
        };
        ((0..writers).filter_map(task).collect(), log.clone())
    }
}

struct Writer {
    mark: Mark,
    handle: HandleId,
    /// Blocks of the file.
    places: u64,
    block: u64,
    /// Writes to be made.
    left: u64,
    sync: bool,
    state: State,
    random: Rng,
    /// Writers that are still writing.
    running: Rc<Cell<u32>>,
    log: Log<Mark>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Writing,
    Syncing,
    Over,
}

impl Workload for Writer {
    fn next(&mut self, now: Instant) -> Step {
        let handle = self.handle;
        match self.state {
            State::Writing if self.left > 0 => {
                self.left -= 1;
                self.mark.bytes += self.block;
                let offset = self.random.below(self.places) * self.block;
                return Step::Call(Op::Write { handle, offset, len: self.block, durable: false });
            }
            State::Writing => {
                self.mark.written = now;
                self.running.set(self.running.get().saturating_sub(1));
                if self.sync && self.running.get() == 0 {
                    self.state = State::Syncing;
                    return Step::Call(Op::Sync { handle });
                }
            }
            State::Syncing => self.mark.durable = Some(now),
            State::Over => return Step::Exit,
        }
        self.state = State::Over;
        self.log.note(self.mark);
        Step::Exit
    }
}

/// The hot file of the paper.
const FILE_BYTES: u64 = 30_000_000_000;

/// The bytes written over it.
const TOTAL_BYTES: u64 = 70_000_000_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant(nanos)
    }

    #[test]
    fn the_paper_writes_seventy_over_thirty() {
        let whole = Overwrite::of_paper(1);
        assert_eq!((whole.file_bytes, whole.total_bytes), (30_000_000_000, 70_000_000_000));
        let part = Overwrite::of_paper(1000);
        assert_eq!((part.file_bytes, part.total_bytes), (30_000_000, 70_000_000));
        assert_eq!(Overwrite::of_paper(0), whole);
    }

    #[test]
    fn every_write_is_one_aligned_block_inside_the_file() {
        let load = Overwrite { file_bytes: 50_000, total_bytes: 1 << 20, ..Overwrite::of_paper(1) };
        let (mut tasks, log) = load.tasks(&[HandleId(3)], 7);
        let mut places = BTreeSet::new();
        for _ in 0..256 {
            let Step::Call(Op::Write { handle, offset, len, durable }) = tasks[0].next(at(1))
            else {
                panic!("256 blocks are written")
            };
            assert_eq!((handle, len, durable, offset % 4096), (HandleId(3), 4096, false, 0));
            assert!(offset + len <= 50_000);
            places.insert(offset);
        }
        assert_eq!(places.len(), 12, "all blocks of a small file are met");
        assert_eq!(tasks[0].next(at(2)), Step::Call(Op::Sync { handle: HandleId(3) }));
        assert_eq!(tasks[0].next(at(5)), Step::Exit);
        assert_eq!(tasks[0].next(at(9)), Step::Exit);
        let mark = Mark { writer: 0, bytes: 1 << 20, written: at(2), durable: Some(at(5)) };
        assert_eq!(log.notes(), [mark]);
    }

    #[test]
    fn writers_share_the_bytes_and_the_last_one_syncs() {
        let load = Overwrite { total_bytes: 5 * 4096, writers: 2, ..Overwrite::of_paper(1000) };
        let (mut tasks, log) = load.tasks(&[HandleId(0), HandleId(1)], 7);
        let mut steps = |task: usize, count: usize| -> Vec<Step> {
            (0..count).map(|_| tasks[task].next(at(4))).collect()
        };
        let first = steps(0, 4);
        assert!(first[..3].iter().all(|step| matches!(step, Step::Call(Op::Write { .. }))));
        assert_eq!(first[3], Step::Exit);
        let second = steps(1, 4);
        assert_ne!(first[..2], second[..2], "each draws its own places");
        assert_eq!(second[2..], [Step::Call(Op::Sync { handle: HandleId(1) }), Step::Exit]);
        let durable: Vec<bool> = log.notes().iter().map(|mark| mark.durable.is_some()).collect();
        assert_eq!(durable, [false, true]);
    }

    #[test]
    fn one_seed_is_one_sequence() {
        let draw = |seed| {
            let (mut tasks, _) = Overwrite::of_paper(1).tasks(&[HandleId(0)], seed);
            (0..20).map(|_| tasks[0].next(at(0))).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn a_file_without_a_block_is_not_written() {
        let load = Overwrite { file_bytes: 4095, sync: false, ..Overwrite::of_paper(1) };
        let (mut tasks, log) = load.tasks(&[HandleId(0)], 7);
        assert_eq!(tasks[0].next(at(0)), Step::Exit);
        assert_eq!(log.notes().len(), 1);
        assert!(load.tasks(&[], 7).0.is_empty());
    }
}
