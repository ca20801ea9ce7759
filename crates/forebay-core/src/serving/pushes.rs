//! Pages that are pushed into the kernel's cache, and what keeps pushes and READs apart.
//!
//! A push (a STORE notification) waits for the lock of each page that it covers, and a READ holds
//! the locks of its pages until it is answered. So a thread that pushes a page which it should
//! answer waits for itself, for ever. Hence the rule:
//!
//! ```text
//!   a READ     never waits for a push: whatever a push has claimed to be decoded is decoded
//!              before the push begins
//!   a push     begins only if no READ that is known asks for one of its pages
//! ```
//!
//! A READ that the kernel has sent and no thread has taken is not known. Then the push waits in the
//! kernel until the READ is answered, by another thread, and goes on.
//!
//! Short runs go first; long ones take turns, a piece each, so that all go on.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::packed::Pages;

/// READs that are being answered, and pushes that wait or are in the kernel.
#[derive(Debug, Default)]
pub struct Pushes {
    reads: Vec<FilePages>,
    short: VecDeque<FilePages>,
    long: VecDeque<FilePages>,
    /// The pushes in the kernel.
    storing: Vec<FilePages>,
}

/// Pages of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePages {
    /// The file.
    pub file: u64,
    /// Its pages.
    pub pages: Pages,
}

impl FilePages {
    fn overlaps(&self, other: &Self) -> bool {
        self.file == other.file && !self.pages.within(other.pages).is_empty()
    }
}

impl Pushes {
    /// Nothing is asked, nothing is pushed.
    pub fn new() -> Self {
        Self::default()
    }

    /// A READ was taken.
    pub fn begin_read(&mut self, read: FilePages) {
        self.reads.push(read);
    }

    /// A READ was answered or refused.
    pub fn end_read(&mut self, read: FilePages) {
        let place = self.reads.iter().position(|other| *other == read);
        self.reads.swap_remove(place.expect("a READ ends once"));
    }

    /// Pages shall be pushed. False if too many runs wait already.
    pub fn ask(&mut self, push: FilePages) -> bool {
        let queue = if push.pages.len() > PIECE { &mut self.long } else { &mut self.short };
        let has_room = queue.len() < RUNS_MAX;
        if has_room {
            queue.push_back(push);
        }
        has_room
    }

    /// The next pages to be pushed.
    pub fn next_push(&mut self) -> Option<FilePages> {
        if let Some(push) = self.short.pop_front() {
            return Some(push);
        }
        let FilePages { file, pages } = self.long.pop_front()?;
        let end = pages.end.min(pages.start + PIECE);
        if end < pages.end {
            self.long.push_back(FilePages { file, pages: Pages::new(end, pages.end) });
        }
        Some(FilePages { file, pages: Pages::new(pages.start, end) })
    }

    /// Whether no pages wait to be pushed.
    pub fn is_empty(&self) -> bool {
        self.short.is_empty() && self.long.is_empty()
    }

    /// Whether a READ that is known asks for one of some pages.
    pub fn is_asked(&self, push: &FilePages) -> bool {
        self.reads.iter().any(|read| read.overlaps(push))
    }

    /// A push goes to the kernel, unless a READ asks for one of its pages. Says whether it does.
    pub fn begin_push(&mut self, push: FilePages) -> bool {
        if self.is_asked(&push) {
            return false;
        }
        self.storing.push(push);
        true
    }

    /// The kernel has taken the push, or not.
    pub fn end_push(&mut self, push: FilePages) {
        let place = self.storing.iter().position(|other| *other == push);
        self.storing.swap_remove(place.expect("a push ends once"));
    }
}

/// Pages of a piece of a long run.
const PIECE: u64 = 16;

/// Runs that wait, of each kind.
const RUNS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const fn of(file: u64, start: u64, end: u64) -> FilePages {
        FilePages { file, pages: Pages::new(start, end) }
    }

    #[test]
    fn no_push_begins_that_a_read_asks_for() {
        let mut pushes = Pushes::new();
        pushes.begin_read(of(7, 4, 6));
        pushes.begin_read(of(7, 4, 6));
        assert!(!pushes.begin_push(of(7, 5, 9)));
        assert!(pushes.begin_push(of(7, 6, 9)), "behind it");
        assert!(pushes.begin_push(of(8, 4, 6)), "another file");
        pushes.end_push(of(7, 6, 9));
        pushes.end_push(of(8, 4, 6));
        pushes.end_read(of(7, 4, 6));
        assert!(!pushes.begin_push(of(7, 4, 5)), "the other READ is still there");
        pushes.end_read(of(7, 4, 6));
        assert!(pushes.begin_push(of(7, 4, 5)));
    }

    #[test]
    fn short_runs_go_first_and_long_ones_take_turns() {
        let mut pushes = Pushes::new();
        for run in [of(1, 0, 40), of(2, 0, 20), of(3, 5, 7)] {
            assert!(pushes.ask(run));
        }
        let mut order = Vec::new();
        while let Some(FilePages { file, pages }) = pushes.next_push() {
            order.push((file, pages.start, pages.end));
        }
        let expected = [(3, 5, 7), (1, 0, 16), (2, 0, 16), (1, 16, 32), (2, 16, 20), (1, 32, 40)];
        assert_eq!(order, expected);
    }

    #[test]
    fn a_full_queue_takes_no_more_of_its_kind() {
        let mut pushes = Pushes::new();
        assert!((0..RUNS_MAX as u64).all(|file| pushes.ask(of(file, 0, 1))));
        assert!(!pushes.ask(of(99, 0, 1)));
        assert!(pushes.ask(of(99, 0, PIECE + 1)));
    }
}
