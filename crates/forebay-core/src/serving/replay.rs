//! The order in which a recorded start is brought in.
//!
//! ```text
//!   the device   reads all that will be needed, from the beginning on, and nothing else
//!   pages        in their order, a batch at a time, each file found before its first one
//!   names        those that are looked up among the same pages
//! ```
//!
//! A profile is a list of steps; files and names are numbers of the caller's. The replay says what
//! is to be done next ([`Replay::next_action`]), and the caller does it. When pages that were
//! pushed are lost, all is brought in once more.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::packed::{Pages, RawBytes};

/// A step of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayStep {
    /// A name was looked up.
    Name(usize),
    /// Pages of a file were demanded.
    Read(usize, Pages),
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayAction {
    /// Begin to read the raw bytes of steps, from the first number to before the second, merged as
    /// by [`merge_reads`].
    ReadRaw(usize, usize),
    /// Find a file and say so by [`Replay::found`].
    Find(usize),
    /// Push pages of a file.
    Push(usize, Pages),
    /// Look a name up.
    LookUp(usize),
    /// All is brought in: wait until pages are lost, then call [`Replay::restart`].
    Wait,
    /// It was brought in often enough.
    End,
}

/// A file that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Files are pushed in this order within a batch.
    pub order: u64,
    /// Its pages.
    pub pages: u64,
}

/// A profile that is being brought in.
#[derive(Debug)]
pub struct Replay {
    steps: Vec<ReplayStep>,
    /// What is known of each file in this pass: nothing, that there is none, or what it is.
    files: Vec<Option<Option<FoundFile>>>,
    /// The first step whose raw bytes were not asked for yet.
    raw: usize,
    /// The first step of the next batch.
    next: usize,
    /// What is left of the current batch.
    actions: VecDeque<ReplayAction>,
    passes: u32,
}

impl Replay {
    /// The steps of a profile, whose files have numbers below `files`.
    pub fn new(steps: Vec<ReplayStep>, files: usize) -> Self {
        let (files, actions) = (alloc::vec![None; files], VecDeque::new());
        Self { steps, files, raw: 0, next: 0, actions, passes: 1 }
    }

    /// The steps.
    pub fn steps(&self) -> &[ReplayStep] {
        &self.steps
    }

    /// What is to be done next.
    pub fn next_action(&mut self) -> ReplayAction {
        if self.passes > PASSES_MAX {
            return ReplayAction::End;
        }
        if self.raw < self.steps.len() {
            let first = self.raw;
            self.raw = self.end_of_batch(first);
            return ReplayAction::ReadRaw(first, self.raw);
        }
        if self.actions.is_empty() {
            let end = self.end_of_batch(self.next);
            let unknown = self.steps[self.next..end].iter().find_map(|step| match step {
                ReplayStep::Read(file, _) => {
                    self.files.get(*file).is_some_and(Option::is_none).then_some(*file)
                }
                ReplayStep::Name(_) => None,
            });
            if let Some(file) = unknown {
                return ReplayAction::Find(file);
            }
            self.begin_batch(end);
        }
        match self.actions.pop_front() {
            Some(action) => action,
            None if self.next < self.steps.len() => self.next_action(),
            None => ReplayAction::Wait,
        }
    }

    /// What a file turned out to be; none if there is no such file.
    pub fn found(&mut self, file: usize, found: Option<FoundFile>) {
        if let Some(known) = self.files.get_mut(file) {
            *known = Some(found);
        }
    }

    /// Pages that were pushed are lost: all is brought in once more.
    pub fn restart(&mut self) {
        (self.raw, self.next) = (0, 0);
        self.actions.clear();
        self.files.fill(None);
        self.passes = self.passes.saturating_add(1);
    }

    fn end_of_batch(&self, first: usize) -> usize {
        first.saturating_add(BATCH).min(self.steps.len())
    }

    /// Pushes of adjacent pages go together; names come behind, as pages cost a start more.
    fn begin_batch(&mut self, end: usize) {
        let batch = &self.steps[self.next..end];
        let mut runs: Vec<(u64, usize, Pages)> = Vec::new();
        for step in batch {
            let ReplayStep::Read(file, pages) = step else { continue };
            let Some(Some(Some(found))) = self.files.get(*file) else { continue };
            let pages = pages.within(Pages::new(0, found.pages));
            if !pages.is_empty() {
                runs.push((found.order, *file, pages));
            }
        }
        runs.sort_by_key(|(order, file, pages)| (*order, *file, pages.start));
        for (_, file, pages) in runs {
            match self.actions.back_mut() {
                Some(ReplayAction::Push(last, run)) if *last == file && pages.start <= run.end => {
                    run.end = run.end.max(pages.end);
                }
                _ => self.actions.push_back(ReplayAction::Push(file, pages)),
            }
        }
        let names = batch.iter().filter_map(|step| match step {
            ReplayStep::Name(name) => Some(ReplayAction::LookUp(*name)),
            ReplayStep::Read(..) => None,
        });
        self.actions.extend(names);
        self.next = end;
    }
}

/// Raw bytes in as few reads as pay: sorted, and joined where the gap costs less than a read.
pub fn merge_reads(mut ranges: Vec<RawBytes>) -> Vec<RawBytes> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<RawBytes> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(GAP) => {
                last.end = last.end.max(range.end);
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// Times that all is brought in: if it is lost more often, there is no room for it.
const PASSES_MAX: u32 = 64;

/// Steps that are put in order together: large enough to join pages, small enough to keep ahead of
/// a start that has begun.
const BATCH: usize = 128;

/// Bytes between two reads that cost less than a read of its own.
const GAP: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Carries actions out until the first wait or the end; finds every file but number 9.
    fn carry_out(replay: &mut Replay) -> Vec<ReplayAction> {
        let mut actions = Vec::new();
        loop {
            let action = replay.next_action();
            actions.push(action);
            match action {
                ReplayAction::Find(file) => {
                    let found = FoundFile { order: 100 - file as u64, pages: 50 };
                    replay.found(file, Some(found).filter(|_| file != 9));
                }
                ReplayAction::Wait | ReplayAction::End => return actions,
                ReplayAction::ReadRaw(..) | ReplayAction::Push(..) | ReplayAction::LookUp(_) => {}
            }
        }
    }

    fn read(file: usize, start: u64, end: u64) -> ReplayStep {
        ReplayStep::Read(file, Pages::new(start, end))
    }

    #[test]
    fn raw_bytes_come_first_then_files_their_pages_joined_then_names() {
        let steps = [
            ReplayStep::Name(0),
            read(1, 4, 6),
            read(2, 0, 1),
            read(9, 0, 9),
            read(1, 6, 9),
            read(1, 40, 90),
            read(1, 50, 90),
        ];
        let mut replay = Replay::new(steps.into(), 10);
        let expected = [
            ReplayAction::ReadRaw(0, 7),
            ReplayAction::Find(1),
            ReplayAction::Find(2),
            ReplayAction::Find(9),
            ReplayAction::Push(2, Pages::new(0, 1)),
            ReplayAction::Push(1, Pages::new(4, 9)),
            ReplayAction::Push(1, Pages::new(40, 50)),
            ReplayAction::LookUp(0),
            ReplayAction::Wait,
        ];
        assert_eq!(carry_out(&mut replay), expected);
        assert_eq!(replay.next_action(), ReplayAction::Wait, "until pages are lost");
    }

    #[test]
    fn a_long_profile_comes_in_batches_that_are_in_order_each() {
        let steps: Vec<ReplayStep> = (0..300).map(|step| read(0, 299 - step, 300 - step)).collect();
        let mut replay = Replay::new(steps, 1);
        let actions = carry_out(&mut replay);
        let raw = [
            ReplayAction::ReadRaw(0, 128),
            ReplayAction::ReadRaw(128, 256),
            ReplayAction::ReadRaw(256, 300),
        ];
        assert_eq!(actions[..3], raw);
        let pushes = &actions[4..actions.len() - 1];
        assert_eq!(
            pushes,
            [ReplayAction::Push(0, Pages::new(44, 50)), ReplayAction::Push(0, Pages::new(0, 44))]
        );
    }

    #[test]
    fn what_is_lost_is_brought_in_again_a_limited_number_of_times() {
        let mut replay = Replay::new([read(0, 0, 2)].into(), 1);
        let first = carry_out(&mut replay);
        for _ in 1..PASSES_MAX {
            replay.restart();
            assert_eq!(carry_out(&mut replay), first);
        }
        replay.restart();
        assert_eq!(carry_out(&mut replay), [ReplayAction::End]);
    }

    #[test]
    fn a_restart_in_the_midst_begins_with_the_first_step_and_an_empty_profile_waits() {
        let mut replay = Replay::new([read(0, 0, 2), read(0, 7, 9)].into(), 1);
        replay.next_action();
        replay.found(0, Some(FoundFile { order: 0, pages: 10 }));
        assert_eq!(replay.next_action(), ReplayAction::Push(0, Pages::new(0, 2)));
        replay.restart();
        assert_eq!(replay.next_action(), ReplayAction::ReadRaw(0, 2));
        assert_eq!(Replay::new(Vec::new(), 0).next_action(), ReplayAction::Wait);
    }

    #[test]
    fn reads_are_joined_over_gaps_that_cost_less_than_a_read() {
        let range = |start, end| RawBytes { start, end };
        let far = 10 + GAP + 1;
        let merged =
            merge_reads([range(far, far + 5), range(5, 10), range(7, 7), range(0, 6)].into());
        assert_eq!(merged, [range(0, 10), range(far, far + 5)]);
        assert_eq!(merge_reads([range(0, 10), range(far - 1, far)].into()), [range(0, far)]);
    }
}
