//! Which block has which place in the packed file of all blocks.
//!
//! ```text
//!   packed file  | block 7        | block 2 |       | block 9  ...     one place: 4096 pages
//!   place          0                1                 2
//! ```
//!
//! The engine asks for a block by a page of that file; a block keeps its place for as long as a
//! call is busy with it, and mostly longer. If all places are taken, one that has been used least
//! recently by the rule of the second chance gives way.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::packed::{Block, BlockMap, Coding, Pages, RawBytes};
use crate::units::{PAGE_SIZE, PageIndex};

/// Pages of a place: the largest block of any format, 16 MiB.
pub(super) const BLOCK_PAGES: u64 = 4096;

/// A block of an image: equal ones decode to equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackedBlock {
    /// Its bytes in the image.
    pub raw: RawBytes,
    /// The number of bytes that it decodes to.
    pub decoded: u32,
    /// What else its format needs to decode it.
    pub variant: u64,
}

/// The blocks that have a place.
#[derive(Debug)]
pub(super) struct BlockTable {
    places: Vec<Place>,
    places_max: u32,
    index: BTreeMap<PackedBlock, u32>,
    /// The place that is looked at next when all are taken.
    hand: u32,
    shared: Arc<[Shared]>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    block: PackedBlock,
    /// The bytes that it really decodes to, as far as it is known.
    length: u64,
    /// Calls that are busy with it.
    users: u32,
    /// It was used since the hand went past.
    is_used: bool,
}

/// What the engine's map needs to know of a place.
#[derive(Debug, Default)]
struct Shared {
    raw_start: AtomicU64,
    raw_end: AtomicU64,
    decoded: AtomicU64,
}

/// The places as the engine sees them. Both sides are used by one thread at a time.
#[derive(Debug)]
pub(super) struct PlaceMap(Arc<[Shared]>);

impl BlockTable {
    /// A table of so many places, at least one.
    pub(super) fn new(places: u32) -> Self {
        let shared = core::iter::repeat_with(Shared::default).take(places as usize).collect();
        Self { places: Vec::new(), places_max: places, index: BTreeMap::new(), hand: 0, shared }
    }

    /// The places as the engine sees them.
    pub(super) fn map(&self) -> PlaceMap {
        PlaceMap(Arc::clone(&self.shared))
    }

    /// The place of a block that has one.
    pub(super) fn find(&self, block: &PackedBlock) -> Option<u32> {
        self.index.get(block).copied()
    }

    /// The block at a page of the packed file.
    pub(super) fn block_at(&self, page: PageIndex) -> PackedBlock {
        self.places[index(page)].block
    }

    /// Gives a block a place, and says which block had it before; none if calls are busy with all
    /// places.
    pub(super) fn place(&mut self, block: &PackedBlock) -> Option<(u32, Option<PackedBlock>)> {
        let length = u64::from(block.decoded);
        let place = Place { block: *block, length, users: 0, is_used: true };
        let (slot, before) = if (self.places.len() as u32) < self.places_max {
            self.places.push(place);
            (self.places.len() as u32 - 1, None)
        } else {
            let slot = self.least_used()?;
            let before = core::mem::replace(&mut self.places[slot as usize], place).block;
            self.index.remove(&before);
            (slot, Some(before))
        };
        self.index.insert(*block, slot);
        let shared = &self.shared[slot as usize];
        shared.raw_start.store(block.raw.start, Relaxed);
        shared.raw_end.store(block.raw.end, Relaxed);
        shared.decoded.store(u64::from(block.decoded), Relaxed);
        Some((slot, before))
    }

    /// A call begins with a block.
    pub(super) fn enter(&mut self, slot: u32) {
        self.places[slot as usize].users += 1;
        self.places[slot as usize].is_used = true;
    }

    /// A call has done with it. Says whether no other one is busy with it.
    pub(super) fn leave(&mut self, slot: u32) -> bool {
        self.places[slot as usize].users -= 1;
        self.places[slot as usize].users == 0
    }

    /// The block at a page decodes to no more than this.
    pub(super) fn shorten(&mut self, page: PageIndex, bytes: u64) {
        self.places[index(page)].length = bytes;
    }

    /// The bytes that a block decodes to, as far as it is known.
    pub(super) fn length(&self, slot: u32) -> u64 {
        self.places[slot as usize].length
    }

    /// Whether calls are busy with a block.
    pub(super) fn is_in_use(&self, slot: u32) -> bool {
        self.places[slot as usize].users > 0
    }

    /// Whether calls are busy with all places.
    pub(super) fn is_full(&self) -> bool {
        self.places.len() as u32 == self.places_max
            && self.places.iter().all(|place| place.users > 0)
    }

    /// Asserts the invariants.
    pub(super) fn check(&self) {
        assert_eq!(self.index.len(), self.places.len(), "each place has one block");
        for (block, slot) in &self.index {
            assert_eq!(
                self.places[*slot as usize].block, *block,
                "a block is where it is looked for"
            );
        }
    }

    fn least_used(&mut self) -> Option<u32> {
        for _ in 0..2 * self.places.len() {
            let slot = self.hand;
            self.hand = (self.hand + 1) % self.places_max;
            let place = &mut self.places[slot as usize];
            if place.users == 0 && !core::mem::take(&mut place.is_used) {
                return Some(slot);
            }
        }
        None
    }
}

impl BlockMap for PlaceMap {
    fn bytes(&self) -> u64 {
        self.0.len() as u64 * BLOCK_PAGES * PAGE_SIZE
    }

    fn block(&self, page: PageIndex) -> Block {
        let place = &self.0[index(page)];
        let first = page - page % BLOCK_PAGES;
        let pages = place.decoded.load(Relaxed).div_ceil(PAGE_SIZE).max(page - first + 1);
        let raw =
            RawBytes { start: place.raw_start.load(Relaxed), end: place.raw_end.load(Relaxed) };
        Block { pages: Pages::new(first, first + pages), raw, coding: Coding::Packed }
    }

    fn pointers(&self, _pages: Pages) -> RawBytes {
        RawBytes::default()
    }
}

/// The place of a page of the packed file.
fn index(page: PageIndex) -> usize {
    (page / BLOCK_PAGES) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: u64) -> PackedBlock {
        let raw = RawBytes { start, end: start + 100 };
        PackedBlock { raw, decoded: 9000, variant: 0 }
    }

    #[test]
    fn the_block_that_was_not_used_lately_gives_way() {
        let mut table = BlockTable::new(3);
        for start in [0, 100, 200] {
            assert_eq!(table.place(&block(start)), Some(((start / 100) as u32, None)));
        }
        // All have been used since the hand went past, so it goes round once.
        assert_eq!(table.place(&block(300)), Some((0, Some(block(0)))));
        table.enter(1);
        table.leave(1);
        assert_eq!(table.place(&block(400)), Some((2, Some(block(200)))));
        assert_eq!(table.find(&block(100)), Some(1));
        assert_eq!(table.find(&block(200)), None);
        table.check();
    }

    #[test]
    fn a_block_in_use_keeps_its_place() {
        let mut table = BlockTable::new(2);
        for start in [0, 100] {
            let (slot, _) = table.place(&block(start)).unwrap();
            table.enter(slot);
        }
        assert!(table.is_full());
        assert_eq!(table.place(&block(200)), None);
        table.leave(1);
        assert_eq!(table.place(&block(200)), Some((1, Some(block(100)))));
    }

    #[test]
    fn the_map_shows_what_has_the_place() {
        let mut table = BlockTable::new(2);
        let map = table.map();
        table.place(&block(0)).unwrap();
        table.place(&block(700)).unwrap();
        let found = map.block(BLOCK_PAGES + 1);
        assert_eq!(found.pages, Pages::new(BLOCK_PAGES, BLOCK_PAGES + 3));
        assert_eq!(found.raw, block(700).raw);
        assert_eq!(table.block_at(BLOCK_PAGES + 1), block(700));
    }
}
