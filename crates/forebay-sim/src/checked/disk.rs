//! A device's memory in symbols: durable data, data that a power failure may destroy, data in
//! flight.
//!
//! ```text
//!   in flight --done--> cached: older, newer --flush done--> durable
//!       '------------- durable write done ----------------------^
//! ```
//!
//! When the power fails, each page ends as any of these, or as a mixture of their sectors.

use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_core::units::FileId;

use super::runs::{INITIAL, Runs, sectors};
use crate::rng::Rng;

/// A page of a file; the page behind all others is its metadata.
pub(super) type Place = (FileId, u64);

/// The page number of a file's metadata.
pub(super) const INODE: u64 = u64::MAX;

/// What one device holds.
#[derive(Debug, Default)]
pub(super) struct Disk {
    cells: BTreeMap<Place, Cell>,
    /// Writes that are done.
    done: u64,
}

#[derive(Debug)]
struct Cell {
    durable: Rc<Runs>,
    /// Done and not flushed, with its number, the oldest first.
    cached: Vec<(u64, Rc<Runs>)>,
    moving: Option<Rc<Runs>>,
}

/// What a flush covers: the number of writes that were done before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Covered(u64);

/// How a write of a page ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It is in the device's cache.
    Cached,
    /// It is safe.
    Durable,
    /// It was not executed.
    Nothing,
}

impl Disk {
    /// A write takes a page's bytes along.
    pub(super) fn submit(&mut self, place: Place, runs: Rc<Runs>) {
        let cell = self.cells.entry(place).or_default();
        let before = cell.moving.replace(runs);
        assert!(before.is_none(), "a page is written by one request at a time");
    }

    /// The write of a page has ended; returns the data it wrote.
    pub(super) fn end(&mut self, place: Place, ended: Ended) -> Rc<Runs> {
        self.done += 1;
        let cell = self.cells.get_mut(&place).expect("what ends was submitted");
        let runs = cell.moving.take().expect("what ends was submitted");
        match ended {
            Ended::Cached => cell.cached.push((self.done, Rc::clone(&runs))),
            Ended::Durable => {
                cell.cached.clear();
                cell.durable = Rc::clone(&runs);
            }
            Ended::Nothing => {}
        }
        runs
    }

    /// A flush begins.
    pub(super) fn begin_flush(&self) -> Covered {
        Covered(self.done)
    }

    /// A flush has ended well.
    pub(super) fn end_flush(&mut self, covered: Covered) {
        for cell in self.cells.values_mut() {
            let safe = cell.cached.partition_point(|(number, _)| *number <= covered.0);
            if let Some((_, runs)) = cell.cached.drain(..safe).next_back() {
                cell.durable = runs;
            }
        }
    }

    /// What a read brings.
    pub(super) fn read(&self, place: Place) -> Rc<Runs> {
        let Some(cell) = self.cells.get(&place) else { return Rc::new(Runs::of(INITIAL)) };
        assert!(cell.moving.is_none(), "a page is not read while it is written");
        Rc::clone(cell.cached.last().map_or(&cell.durable, |(_, runs)| runs))
    }

    /// The durable content of a page.
    pub(super) fn durable(&self, place: Place) -> Rc<Runs> {
        self.cells
            .get(&place)
            .map_or_else(|| Rc::new(Runs::of(INITIAL)), |cell| Rc::clone(&cell.durable))
    }

    /// What would be left of each page if the power failed at this moment.
    pub(super) fn cut(&self, rng: &mut Rng) -> Vec<(Place, Rc<Runs>)> {
        // A run of luck, a run of bad luck, or each page for itself.
        let lost_ppm = [0, 300_000, 700_000, 1_000_000][rng.below(4) as usize];
        let torn_ppm = [0, 300_000][rng.below(2) as usize];
        let left = self.cells.iter().map(|(place, cell)| {
            let mut runs = Rc::clone(cell.survivor(rng, lost_ppm));
            let at_risk = cell.moving.is_some() || !cell.cached.is_empty();
            if at_risk && rng.chance(torn_ppm) {
                for sector in sectors() {
                    Rc::make_mut(&mut runs).paste(&sector, cell.survivor(rng, lost_ppm));
                }
            }
            (*place, runs)
        });
        left.collect()
    }
}

impl Default for Cell {
    fn default() -> Self {
        Self { durable: Rc::new(Runs::of(INITIAL)), cached: Vec::new(), moving: None }
    }
}

impl Cell {
    /// One of the contents that a loss of power can leave.
    fn survivor(&self, rng: &mut Rng, lost_ppm: u64) -> &Rc<Runs> {
        let newer = self.cached.len() as u64 + u64::from(self.moving.is_some());
        if newer == 0 || rng.chance(lost_ppm) {
            return &self.durable;
        }
        let picked = self.cached.get(rng.below(newer) as usize).map(|(_, runs)| runs);
        picked.or(self.moving.as_ref()).unwrap_or(&self.durable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = (FileId(0), 7);

    fn write(disk: &mut Disk, version: u32, ended: Ended) {
        disk.submit(PLACE, Rc::new(Runs::of(version)));
        disk.end(PLACE, ended);
    }

    fn survivors(disk: &Disk) -> Vec<u32> {
        let survives = |version: &u32| {
            (0..200).any(|seed| {
                disk.cut(&mut Rng::new(seed)).contains(&(PLACE, Rc::new(Runs::of(*version))))
            })
        };
        (0..10).filter(survives).collect()
    }

    #[test]
    fn a_flush_makes_safe_what_was_done_before_it_began() {
        let mut disk = Disk::default();
        write(&mut disk, 2, Ended::Cached);
        write(&mut disk, 3, Ended::Cached);
        assert_eq!(survivors(&disk), [0, 2, 3]);
        let covered = disk.begin_flush();
        write(&mut disk, 4, Ended::Cached);
        disk.end_flush(covered);
        disk.submit(PLACE, Rc::new(Runs::of(5)));
        assert_eq!(survivors(&disk), [3, 4, 5]);
    }

    #[test]
    fn a_durable_write_leaves_nothing_older() {
        let mut disk = Disk::default();
        write(&mut disk, 2, Ended::Cached);
        write(&mut disk, 3, Ended::Durable);
        assert_eq!(survivors(&disk), [3]);
        assert_eq!(disk.read(PLACE), disk.durable(PLACE));
    }

    #[test]
    fn a_torn_page_is_mixed_by_sectors() {
        let mut disk = Disk::default();
        write(&mut disk, 2, Ended::Cached);
        let whole = [Rc::new(Runs::of(0)), Rc::new(Runs::of(2))];
        let torn = |seed| !whole.contains(&disk.cut(&mut Rng::new(seed))[0].1);
        assert!((0..200).any(torn));
    }
}
