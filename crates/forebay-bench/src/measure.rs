//! Compares ways to read a file: rounds in turn, medians of rounds.
//!
//! ```text
//!   for each cell:   a b c d e   d a e b c   b e a c d ...     each letter one round
//! ```
//!
//! A [`Cell`] says whether pages are cached, how many reads are in flight and whether other tasks
//! need the processors. A reader is a [`Contestant`]; some of them are [`ours`], others can be
//! added. Ratios are taken between neighbouring rounds of one turn, so that disturbances of the
//! machine affect both sides.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};

pub(crate) use contestants::{ours, pread};
pub(crate) use file::{Scratch, Subject};
pub(crate) use runtime::on_a_runtime;
pub(crate) use verdict::{TOKIO, verdicts};

use counters::{Counters, Hogs};

mod contestants;
mod counters;
mod file;
pub(crate) mod live;
pub(crate) mod mount;
mod runtime;
mod verdict;

/// The bytes of a read.
pub(crate) const READ: usize = 4096;

/// Where the pages are before a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// In the page cache.
    Cached,
    /// On the device.
    Cold,
    /// On the device, read past the page cache.
    ColdDirect,
}

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Where the pages are.
    pub(crate) pages: Pages,
    /// How many reads are in flight.
    pub(crate) depth: usize,
    /// One thread for each processor does nothing but run.
    pub(crate) busy: bool,
}

/// Reads pages in its own way.
pub(crate) trait Contestant {
    /// Its name in the table.
    fn name(&self) -> &'static str;

    /// Reads [`READ`] bytes at each offset, with the reads in flight of the cell, and records how
    /// long each took in nanoseconds.
    ///
    /// # Errors
    /// A read failed or was short.
    fn run(&mut self, offsets: &[u64], took: &mut Vec<u64>) -> io::Result<()>;
}

/// Makes a contestant for a cell and the file's path, or none if it does not take part there.
pub(crate) type Entrant<'a> = dyn Fn(&Cell, &Path) -> io::Result<Option<Box<dyn Contestant>>> + 'a;

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    /// For each cell and contestant.
    pub(crate) time: Duration,
    /// Beyond it no further round begins.
    pub(crate) rounds_max: usize,
}

/// One contestant in one cell: medians of its rounds.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The cell.
    pub(crate) cell: Cell,
    /// The contestant.
    pub(crate) name: &'static str,
    /// The reads of all rounds.
    pub(crate) reads: u64,
    /// Reads in a second.
    pub(crate) rate: f64,
    /// Half of the reads took no longer, in microseconds.
    pub(crate) p50: f64,
    /// All but a hundredth took no longer, in microseconds.
    pub(crate) p99: f64,
    /// Processor time of a read in microseconds, threads and kernel included.
    pub(crate) cpu: f64,
    /// Voluntary context switches of a read, of all threads.
    pub(crate) switches: f64,
    /// The rounds, in turn.
    pub(crate) rounds: Vec<Round>,
}

/// One round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    reads: u64,
    rate: f64,
    p50: f64,
    p99: f64,
    cpu: f64,
    switches: f64,
}

impl Cell {
    /// Every cell, in the order of the table.
    pub(crate) fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for pages in [Pages::Cached, Pages::Cold, Pages::ColdDirect] {
            for depth in [1, 32] {
                cells.extend([false, true].map(|busy| Self { pages, depth, busy }));
            }
        }
        cells
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cached => "cached",
            Self::Cold => "cold",
            Self::ColdDirect => "cold-direct",
        })
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = if self.busy { "busy" } else { "idle" };
        write!(f, "{} qd{} {cores}", self.pages, self.depth)
    }
}

impl Row {
    /// How many times as fast this was as another row of the same cell: the median over turns.
    pub(crate) fn speed(&self, other: &Self) -> f64 {
        self.ratio(other, |round| round.rate)
    }

    /// How many times as much processor time as another row of the same cell.
    pub(crate) fn cpu_ratio(&self, other: &Self) -> f64 {
        self.ratio(other, |round| round.cpu)
    }

    fn ratio(&self, other: &Self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().zip(&other.rounds).map(|(a, b)| of(a) / of(b)))
    }

    fn new(cell: Cell, name: &'static str, rounds: Vec<Round>) -> Self {
        let of = |of: fn(&Round) -> f64| median(rounds.iter().map(of));
        Self {
            cell,
            name,
            reads: rounds.iter().map(|round| round.reads).sum(),
            rate: of(|round| round.rate),
            p50: of(|round| round.p50),
            p99: of(|round| round.p99),
            cpu: of(|round| round.cpu),
            switches: of(|round| round.switches),
            rounds,
        }
    }
}

/// Measures all entrants in one cell.
///
/// # Errors
/// The file cannot be read, or a contestant failed.
pub(crate) fn measure(
    cell: &Cell,
    subject: &Subject,
    entrants: &[Box<Entrant<'_>>],
    length: Length,
) -> io::Result<Vec<Row>> {
    let path: PathBuf = subject.path();
    let mut contestants = Vec::new();
    for entrant in entrants {
        contestants.extend(entrant(cell, &path)?);
    }
    let stage = Stage { cell: *cell, file: File::open(&path)?, places: subject.places()? };
    if cell.pages == Pages::Cached {
        file::read_through(&stage.file)?;
    } else {
        // Dirty pages cannot be dropped from the page cache.
        stage.file.sync_data()?;
    }
    let hogs = if cell.busy { Some(Hogs::start()?) } else { None };
    let mut lane = Lane { stage: &stage, hogs: hogs.as_ref(), next: 0, took: Vec::new() };
    let mut sizes = Vec::new();
    for contestant in &mut contestants {
        // In the first round adaptive readers learn; it is not counted.
        let pilot = lane.round(&mut **contestant, PILOT)?;
        let reads = pilot.rate * ROUND.as_secs_f64();
        sizes.push((reads as usize).clamp(PILOT, READS_MAX.min(stage.places.len())));
    }
    let mut rounds = vec![Vec::new(); contestants.len()];
    let mut order: Vec<usize> = (0..contestants.len()).collect();
    let begin = Instant::now();
    let time = length.time * contestants.len() as u32;
    while rounds[0].len() < length.rounds_max.max(1)
        && (rounds[0].is_empty() || begin.elapsed() < time)
    {
        // No contestant always runs behind the same one: what that one left in the scheduler's
        // books would count for or against its successor.
        shuffle(&mut order, rounds[0].len() as u64);
        for &number in &order {
            thread::sleep(REST);
            let round = lane.round(&mut *contestants[number], sizes[number])?;
            rounds[number].push(round);
        }
    }
    let named = contestants.iter().map(|contestant| contestant.name()).zip(rounds);
    Ok(named.map(|(name, rounds)| Row::new(*cell, name, rounds)).collect())
}

/// What all contestants of a cell meet.
struct Stage {
    cell: Cell,
    file: File,
    /// Every page of the file, once, in random order.
    places: Vec<u64>,
}

struct Lane<'a> {
    stage: &'a Stage,
    hogs: Option<&'a Hogs>,
    next: usize,
    took: Vec<u64>,
}

impl Lane<'_> {
    fn round(&mut self, contestant: &mut dyn Contestant, reads: usize) -> io::Result<Round> {
        let places = &self.stage.places;
        let offsets: Vec<u64> =
            (0..reads).map(|number| places[(self.next + number) % places.len()]).collect();
        self.next = (self.next + reads) % places.len();
        if self.stage.cell.pages != Pages::Cached {
            fadvise(&self.stage.file, 0, None, Advice::DontNeed)?;
        }
        self.took.clear();
        let before = Counters::now(self.hogs);
        let begin = Instant::now();
        contestant.run(&offsets, &mut self.took)?;
        let elapsed = begin.elapsed();
        let spent = Counters::now(self.hogs).since(&before);
        if self.took.len() != reads {
            let what = format!("{} did {} of {reads} reads", contestant.name(), self.took.len());
            return Err(io::Error::other(what));
        }
        self.took.sort_unstable();
        let at = |part: f64| self.took[((reads - 1) as f64 * part) as usize] as f64 / 1e3;
        let each = |sum: f64| sum / reads as f64;
        Ok(Round {
            reads: reads as u64,
            rate: reads as f64 / elapsed.as_secs_f64(),
            p50: at(0.5),
            p99: at(0.99),
            cpu: each(spent.cpu.as_secs_f64() * 1e6),
            switches: each(spent.switches as f64),
        })
    }
}

/// The middle one, or the upper of two; not a number if there is none.
pub(crate) fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The order of a turn.
pub(crate) fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    for last in (1..items.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        items.swap(last, ((state >> 33) % (last as u64 + 1)) as usize);
    }
}

/// Before each round, so that no thread has a debt or a credit in the scheduler.
const REST: Duration = Duration::from_millis(10);

/// As long as several time slices of a shared processor, and short compared with disturbances.
const ROUND: Duration = Duration::from_millis(30);

/// The reads of the first round, and the fewest of any.
const PILOT: usize = 64;

/// The most reads of a round.
const READS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rates: &[f64]) -> Row {
        let round = |rate: &f64| Round { rate: *rate, reads: 1, ..Round::default() };
        Row::new(Cell::all()[0], "x", rates.iter().map(round).collect())
    }

    #[test]
    fn ratios_are_formed_between_neighbours() {
        // The machine was twice as slow in the second turn, for both.
        let (ours, theirs) = (row(&[20.0, 10.0, 22.0]), row(&[10.0, 5.0, 11.0]));
        assert!((ours.speed(&theirs) - 2.0).abs() < 1e-9);
        assert!((ours.rate - 20.0).abs() < 1e-9);
    }

    #[test]
    fn every_cell_has_a_name_of_its_own() {
        let mut names: Vec<String> = Cell::all().iter().map(ToString::to_string).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 12);
    }
}
