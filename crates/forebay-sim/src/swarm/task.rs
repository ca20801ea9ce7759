//! A task with random calls; the weights of the calls are drawn once for the task.

use std::cell::RefCell;
use std::rc::Rc;

use forebay_core::io::{Advice, Op};
use forebay_core::readahead::{MapAdvice, Mapping, Pattern};
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{FileId, HandleId, PAGE_SIZE};
use forebay_core::workload::{Step, Workload};

use crate::rng::Rng;

/// An open file of a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    pub(super) handle: HandleId,
    pub(super) file: FileId,
    pub(super) room: u64,
    /// It is packed, or others are packed in it.
    pub(super) fixed: bool,
}

/// How large each file would be if every write had ended well: what tasks guess.
pub(super) type Sizes = Rc<RefCell<Vec<u64>>>;

pub(super) struct RandomTask {
    files: Vec<File>,
    sizes: Sizes,
    rng: Rng,
    /// Relative frequency of each [`Kind`].
    weights: [u64; KINDS],
    left: u64,
    /// Where the sequential reader stands.
    position: u64,
    /// Writes stay in a few pages, so that they meet each other.
    narrow: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Random,
    Sequential,
    Fault,
    Advise,
    Compute,
    Sleep,
    Write,
    Append,
    Durable,
    Sync,
    Truncate,
}

/// How many kinds there are, and how many of them change nothing.
const KINDS: usize = 11;
const READING_KINDS: usize = 6;

const ALL: [Kind; KINDS] = [
    Kind::Random,
    Kind::Sequential,
    Kind::Fault,
    Kind::Advise,
    Kind::Compute,
    Kind::Sleep,
    Kind::Write,
    Kind::Append,
    Kind::Durable,
    Kind::Sync,
    Kind::Truncate,
];

impl RandomTask {
    pub(super) fn new(files: Vec<File>, sizes: Sizes, writes: bool, mut rng: Rng) -> Self {
        // Some kinds are off and others dominate, so corners are reached that a mixture misses.
        let mut weights = std::array::from_fn(|_| [0, 1, 10][rng.below(3) as usize]);
        if !writes {
            weights[READING_KINDS..].fill(0);
        }
        // Cuts that dominate leave nothing to look at.
        weights[Kind::Truncate as usize] = weights[Kind::Truncate as usize].min(1);
        let left = 20 + rng.below(100);
        let narrow = rng.chance(300_000);
        Self { files, sizes, rng, weights, left, position: 0, narrow }
    }

    fn kind(&mut self) -> Kind {
        let sum = self.weights.iter().sum::<u64>();
        if sum == 0 {
            return Kind::Random;
        }
        let mut drawn = self.rng.below(sum);
        for (kind, weight) in ALL.into_iter().zip(self.weights) {
            match drawn.checked_sub(weight) {
                None => return kind,
                Some(rest) => drawn = rest,
            }
        }
        unreachable!("the weights sum up to more than what was drawn")
    }

    fn read(&mut self) -> Op {
        let (File { handle, .. }, bytes) = self.file();
        let offset = self.rng.below(bytes + 10);
        let len = self.len();
        Op::Read { handle, offset, len }
    }

    fn read_on(&mut self) -> Op {
        let (File { handle, .. }, bytes) = self.file_at(0);
        let len = self.len();
        let offset = if self.position >= bytes { 0 } else { self.position };
        self.position = offset + len;
        Op::Read { handle, offset, len }
    }

    fn write(&mut self, durable: bool) -> Op {
        let (file, bytes) = self.file();
        let span = if self.narrow { (bytes + 10).min(2 * PAGE_SIZE) } else { bytes + 10 };
        let offset = self.rng.below(span);
        let offset = if self.rng.chance(500_000) { offset } else { offset - offset % PAGE_SIZE };
        let len = self.len();
        self.write_at(file, offset, len, durable)
    }

    fn append(&mut self) -> Op {
        let (file, bytes) = self.file();
        let (len, durable) = (self.len(), self.rng.chance(200_000));
        self.write_at(file, bytes, len, durable)
    }

    fn write_at(&mut self, file: File, offset: u64, len: u64, durable: bool) -> Op {
        let size = &mut self.sizes.borrow_mut()[file.file.index()];
        if offset <= *size && !file.fixed {
            *size = (*size).max(offset.saturating_add(len).min(file.room));
        }
        Op::Write { handle: file.handle, offset, len, durable }
    }

    fn sync(&mut self) -> Op {
        Op::Sync { handle: self.file().0.handle }
    }

    fn truncate(&mut self) -> Op {
        let File { handle, file, fixed, .. } = self.file().0;
        if !fixed {
            self.sizes.borrow_mut()[file.index()] = 0;
        }
        Op::Truncate { handle }
    }

    fn fault(&mut self) -> Op {
        let (File { handle, .. }, bytes) = self.file();
        let page = self.rng.below(bytes.div_ceil(PAGE_SIZE) + 1);
        let advice = [MapAdvice::Normal, MapAdvice::Sequential, MapAdvice::Random, MapAdvice::Huge]
            [self.rng.below(4) as usize];
        let executable = self.rng.chance(200_000);
        let first = page - self.rng.below(page + 1);
        let mapping = Mapping { first, end: page + 1 + self.rng.below(50), advice, executable };
        Op::Fault { handle, page, write: self.rng.chance(300_000), mapping }
    }

    fn advise(&mut self) -> Op {
        let (File { handle, .. }, bytes) = self.file();
        let advice = [
            Advice::Pattern(Pattern::Normal),
            Advice::Pattern(Pattern::Sequential),
            Advice::Pattern(Pattern::Random),
            Advice::WillNeed,
            Advice::DontNeed,
            Advice::NoReuse,
        ][self.rng.below(6) as usize];
        let offset = self.rng.below(bytes + 10);
        Op::Advise { handle, advice, offset, len: self.rng.below(bytes + 10) }
    }

    /// One of the files and how large it should be.
    fn file(&mut self) -> (File, u64) {
        let number = self.rng.below(self.files.len() as u64) as usize;
        self.file_at(number)
    }

    fn file_at(&self, number: usize) -> (File, u64) {
        let file = self.files[number];
        (file, self.sizes.borrow()[file.file.index()])
    }

    fn len(&mut self) -> u64 {
        match self.rng.below(5) {
            0 => self.rng.below(3),
            1 => PAGE_SIZE,
            2 => self.rng.below(2 * PAGE_SIZE),
            3 => self.rng.below(20 * PAGE_SIZE),
            _ => self.rng.below(if self.narrow { 5 } else { 150 } * PAGE_SIZE),
        }
    }
}

impl Workload for RandomTask {
    fn next(&mut self, now: Instant) -> Step {
        if self.left == 0 {
            return Step::Exit;
        }
        self.left -= 1;
        match self.kind() {
            Kind::Random => Step::Call(self.read()),
            Kind::Sequential => Step::Call(self.read_on()),
            Kind::Fault => Step::Call(self.fault()),
            Kind::Advise => Step::Call(self.advise()),
            Kind::Compute => Step::Compute(Duration(self.rng.below(300_000))),
            Kind::Sleep => Step::Sleep(now + Duration(self.rng.below(3_000_000))),
            Kind::Write => Step::Call(self.write(false)),
            Kind::Append => Step::Call(self.append()),
            Kind::Durable => Step::Call(self.write(true)),
            Kind::Sync => Step::Call(self.sync()),
            Kind::Truncate => Step::Call(self.truncate()),
        }
    }
}
