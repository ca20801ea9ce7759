//! Changes that a server has acknowledged and no FLUSH has covered.
//!
//! ```text
//!   write a --> ack    write b --> ack    FLUSH --> ack    write c --> ack    (broken)
//!   |---------------- forgotten ----------------|          |-- sent again --|
//! ```
//!
//! A server that was killed may have lost them. They are sent again over the next connection, in
//! their order, before anything else.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_nbd::Request;

/// The changes, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Unflushed {
    changes: VecDeque<Change>,
    /// The number of the next one.
    next: u64,
    bytes: usize,
}

/// A WRITE or WRITE_ZEROES.
#[derive(Clone, Debug)]
pub(super) struct Change {
    number: u64,
    pub(super) request: Request,
    pub(super) payload: Arc<Vec<u8>>,
}

impl Unflushed {
    /// A change was acknowledged.
    pub(super) fn add(&mut self, request: Request, payload: Arc<Vec<u8>>) {
        // What is durable is kept only to be sent behind older changes of the same place.
        if request.fua && self.changes.is_empty() {
            return;
        }
        self.bytes += cost(&payload);
        self.changes.push_back(Change { number: self.next, request, payload });
        self.next += 1;
    }

    /// What a FLUSH that is sent from now on covers, to be [forgotten](Self::forget) after it.
    pub(super) fn mark(&self) -> u64 {
        self.next
    }

    /// A FLUSH has covered the changes before a mark.
    pub(super) fn forget(&mut self, mark: u64) {
        while let Some(change) = self.changes.pop_front_if(|change| change.number < mark) {
            self.bytes -= cost(&change.payload);
        }
    }

    /// The changes, to be sent again.
    pub(super) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter()
    }

    /// Whether they take so much memory that a FLUSH is due.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BYTES_MAX
    }
}

impl Change {
    /// Whether the two change a common byte.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let (one, other) = (&self.request, &other.request);
        one.offset < other.offset + other.length && other.offset < one.offset + one.length
    }
}

fn cost(payload: &[u8]) -> usize {
    size_of::<Change>() + payload.len()
}

/// Memory of changes that are kept.
const BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use forebay_nbd::Command;

    use super::super::request;
    use super::*;

    fn write(offset: u64, len: usize) -> (Request, Arc<Vec<u8>>) {
        (request(Command::Write, offset, len as u64), Arc::new(vec![1; len]))
    }

    fn offsets(unflushed: &Unflushed) -> Vec<u64> {
        unflushed.changes().map(|change| change.request.offset).collect()
    }

    fn add(unflushed: &mut Unflushed, offset: u64, len: usize) {
        let (request, payload) = write(offset, len);
        unflushed.add(request, payload);
    }

    #[test]
    fn a_flush_covers_what_was_acknowledged_before_it_was_sent() {
        let mut unflushed = Unflushed::default();
        add(&mut unflushed, 0, 10);
        add(&mut unflushed, 10, 10);
        let mark = unflushed.mark();
        add(&mut unflushed, 20, 10);
        unflushed.forget(mark);
        assert_eq!(offsets(&unflushed), [20]);
        unflushed.forget(unflushed.mark());
        assert_eq!((offsets(&unflushed).len(), unflushed.bytes), (0, 0));
    }

    #[test]
    fn a_durable_write_is_kept_behind_older_ones_alone() {
        let mut unflushed = Unflushed::default();
        let (request, payload) = write(0, 10);
        let durable = Request { fua: true, ..request };
        unflushed.add(durable, Arc::clone(&payload));
        assert_eq!(offsets(&unflushed).len(), 0);
        unflushed.add(request, Arc::clone(&payload));
        unflushed.add(durable, payload);
        assert_eq!(offsets(&unflushed), [0, 0]);
    }

    #[test]
    fn their_memory_is_bounded_by_a_flush_that_becomes_due() {
        let mut unflushed = Unflushed::default();
        let mut writes = 0;
        while !unflushed.is_full() {
            add(&mut unflushed, writes << 20, 1 << 20);
            writes += 1;
        }
        assert_eq!(writes, 64);
        unflushed.forget(1);
        assert!(!unflushed.is_full());
    }

    #[test]
    fn changes_of_a_common_byte_overlap() {
        let change = |offset, len| {
            let (request, payload) = write(offset, len);
            Change { number: 0, request, payload }
        };
        let middle = change(100, 50);
        for (offset, len, overlaps) in [(0, 100, false), (0, 101, true), (150, 9, false)] {
            assert_eq!(change(offset, len).overlaps(&middle), overlaps, "{offset}");
            assert_eq!(middle.overlaps(&change(offset, len)), overlaps, "{offset}");
        }
    }
}
