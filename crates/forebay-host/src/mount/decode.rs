//! Decoded blocks: each decoded once however many ask, as far as somebody needs it.
//!
//! ```text
//!   a block     | page | page | page | page | page | page |
//!   first touch of page 2       ^ decoded up to here: pages 0 and 1 are by-catch, and stay
//!   a touch of page 4                        then all of it, so that there is no third time
//! ```
//!
//! A block that is no larger than a page goes to the kernel whole, and is kept here only if it
//! could not be delivered.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_core::units::PAGE_SIZE;
use forebay_image::{Block, Coding, Error, Image};

use super::clock::{Clock, lock};
use super::raw::Raw;
use super::stats::Stats;
use crate::processor::nanos;

/// The blocks of an image.
#[derive(Debug)]
pub(super) struct Blocks {
    image: Arc<dyn Image>,
    raw: Arc<Raw>,
    decoded: Clock<Key, Arc<Decoded>>,
    flights: Mutex<HashMap<Key, Arc<Flight>>>,
    stats: Arc<Stats>,
}

/// The beginning of a block's content, or all of it.
#[derive(Debug)]
pub(super) struct Decoded {
    bytes: Box<[u8]>,
    valid: usize,
}

/// Why a block is not there.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// First byte of the image that it is about.
    pub(super) offset: u64,
    what: String,
}

/// Why a block is not delivered.
#[derive(Clone, Debug)]
pub(super) enum Missed {
    /// It cannot be.
    Fault(Fault),
    /// It would take longer than the asker has.
    Slow,
}

/// How long whoever asks may be busy with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Others wait: no device, and no large block.
    Quick,
    /// As long as it takes.
    Patient,
    /// The same, and nobody waits: the processor is one that nobody wants.
    Idle,
}

/// Raw bytes that were read already, and where they lie in the image.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run<'a> {
    pub(super) start: u64,
    pub(super) bytes: &'a [u8],
}

/// What a block's content depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    start: u64,
    end: u64,
    coding: Coding,
    decoded: u32,
    variant: u64,
}

/// A block that is being decoded.
#[derive(Debug)]
struct Flight {
    pace: Pace,
    landed: Mutex<Option<Landed>>,
    bell: Condvar,
}

type Landed = Result<Arc<Decoded>, Missed>;

/// The right to decode a block; whoever waits is told even if its owner breaks down.
struct Claim<'a> {
    blocks: &'a Blocks,
    key: Key,
    flight: Arc<Flight>,
}

enum Turn<'a> {
    There(Arc<Decoded>),
    Wait(Arc<Flight>),
    Ours(Claim<'a>, bool),
}

impl Blocks {
    /// Blocks of an image whose raw bytes come through `raw`; `budget` is in bytes.
    pub(super) fn new(
        image: Arc<dyn Image>,
        raw: Arc<Raw>,
        budget: u64,
        stats: Arc<Stats>,
    ) -> Self {
        let decoded = Clock::new(budget, SHARDS);
        Self { image, raw, decoded, flights: Mutex::default(), stats }
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> u64 {
        self.decoded.bytes()
    }

    /// The first `upto` bytes of a packed block's content, whole pages if it has them, or more.
    /// `waited` is set if a device was waited for.
    pub(super) fn content(
        &self,
        block: &Block,
        upto: usize,
        pace: Pace,
        run: Run<'_>,
        waited: &mut bool,
    ) -> Landed {
        let key = Key::of(block);
        loop {
            let landed = match self.turn(key, upto, pace) {
                Turn::There(decoded) => {
                    self.stats.decoded_hits.add(1);
                    return Ok(decoded);
                }
                Turn::Wait(flight) => {
                    let patience = match (flight.pace, pace) {
                        // Who works for nobody may not get a processor for long.
                        (Pace::Idle, Pace::Quick | Pace::Patient) => Some(PATIENCE),
                        (Pace::Patient, Pace::Quick) => return Err(Missed::Slow),
                        (Pace::Quick, _) | (Pace::Patient, _) | (Pace::Idle, Pace::Idle) => None,
                    };
                    self.stats.decode_waits.add(1);
                    match flight.wait(patience) {
                        Some(landed) => landed,
                        None => return self.decode(block, upto, upto, pace, run, waited),
                    }
                }
                Turn::Ours(claim, again) => {
                    let whole = block.decoded as usize;
                    let pages = upto.checked_next_multiple_of(PAGE).unwrap_or(whole);
                    let goal = if again { whole } else { pages.min(whole) };
                    let landed = self.decode(block, upto, goal, pace, run, waited);
                    claim.land(landed.clone());
                    return landed;
                }
            };
            match landed {
                // Whoever decoded it may have needed less of it, or may have given it up.
                Ok(decoded) if decoded.valid < upto => {}
                Err(Missed::Slow) => {}
                landed => return landed,
            }
        }
    }

    /// Keeps a small block that somebody will ask for at once.
    pub(super) fn keep(&self, block: &Block, decoded: &Arc<Decoded>) {
        self.decoded.insert(Key::of(block), Arc::clone(decoded), u64::from(block.decoded));
    }

    fn turn(&self, key: Key, upto: usize, pace: Pace) -> Turn<'_> {
        let enough = |found: &Arc<Decoded>| found.valid >= upto;
        let found = self.decoded.get(&key);
        if let Some(found) = found.filter(enough) {
            return Turn::There(found);
        }
        let mut flights = lock(&self.flights);
        if let Some(flight) = flights.get(&key) {
            return Turn::Wait(Arc::clone(flight));
        }
        // It may have landed between the two looks.
        let found = self.decoded.get(&key);
        let again = found.is_some();
        if let Some(found) = found.filter(enough) {
            return Turn::There(found);
        }
        let flight = Flight { pace, landed: Mutex::default(), bell: Condvar::new() };
        let flight = Arc::new(flight);
        flights.insert(key, Arc::clone(&flight));
        Turn::Ours(Claim { blocks: self, key, flight }, again)
    }

    /// Decodes up to `goal`, where a block may end before that, but not before `upto`.
    fn decode(
        &self,
        block: &Block,
        upto: usize,
        goal: usize,
        pace: Pace,
        run: Run<'_>,
        waited: &mut bool,
    ) -> Landed {
        thread_local! {
            static RAW: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        // A block that says that it is larger than any format allows is not worth its memory.
        let len = usize::try_from(block.raw.end.saturating_sub(block.raw.start));
        let Some(len) = len.ok().filter(|len| *len <= BLOCK_MAX) else {
            return Err(Fault::new(block, "too large").into());
        };
        if pace == Pace::Quick && goal > QUICK_MAX {
            return Err(Missed::Slow);
        }
        if let Some(raw) = run.slice(&block.raw) {
            return Ok(self.unpack(block, raw, upto, goal)?);
        }
        RAW.with_borrow_mut(|raw| {
            raw.resize(len, 0);
            if !self.raw.copy_if_near(&block.raw, raw) {
                if pace == Pace::Quick {
                    return Err(Missed::Slow);
                }
                *waited = true;
                self.raw
                    .copy(&block.raw, raw)
                    .map_err(|error| Fault::new(block, &format!("reading it: {error}")))?;
            }
            let decoded = self.unpack(block, raw, upto, goal)?;
            if raw.capacity() > SCRATCH_MAX {
                *raw = Vec::new();
            }
            Ok(decoded)
        })
    }

    fn unpack(
        &self,
        block: &Block,
        raw: &[u8],
        upto: usize,
        goal: usize,
    ) -> Result<Arc<Decoded>, Fault> {
        let begin = Instant::now();
        let mut bytes = vec![0; (block.decoded as usize).min(BLOCK_MAX)].into_boxed_slice();
        let valid = self
            .image
            .decode(block, raw, goal, &mut bytes)
            .map_err(|error| Fault::from_image(block, &error))?;
        if valid < upto {
            return Err(Fault::new(block, &format!("{valid} of {upto} bytes decoded")));
        }
        self.stats.decode_nanos.add(nanos(begin.elapsed()));
        self.stats.blocks_decoded.add(1);
        self.stats.pages_decoded.add((valid as u64).div_ceil(PAGE_SIZE));
        Ok(Arc::new(Decoded { bytes, valid }))
    }
}

impl<'a> Run<'a> {
    /// The bytes of a range, if it lies in the run.
    fn slice(&self, range: &Range<u64>) -> Option<&'a [u8]> {
        let place = |at: u64| usize::try_from(at.checked_sub(self.start)?).ok();
        self.bytes.get(place(range.start)?..place(range.end)?)
    }
}

impl Decoded {
    /// What is there of the content.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.valid]
    }
}

impl Fault {
    fn new(block: &Block, why: &str) -> Self {
        let (offset, len) = (block.raw.start, block.raw.end - block.raw.start.min(block.raw.end));
        Self { offset, what: format!("block at byte {offset} of the image ({len} bytes): {why}") }
    }

    fn from_image(block: &Block, error: &Error) -> Self {
        Self { offset: error.offset().unwrap_or(block.raw.start), what: error.to_string() }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { offset: error.offset().unwrap_or(0), what: error.to_string() }
    }
}

impl From<Fault> for Missed {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Key {
    const fn of(block: &Block) -> Self {
        let Block { raw, coding, decoded, variant, .. } = block;
        let (start, end) = (raw.start, raw.end);
        Self { start, end, coding: *coding, decoded: *decoded, variant: *variant }
    }
}

impl Flight {
    /// Waits until it has landed, or as long as there is patience.
    fn wait(&self, patience: Option<Duration>) -> Option<Landed> {
        let begin = Instant::now();
        let mut landed = lock(&self.landed);
        loop {
            if let Some(landed) = &*landed {
                return Some(landed.clone());
            }
            landed = match patience {
                None => self.bell.wait(landed).unwrap_or_else(PoisonError::into_inner),
                Some(patience) => {
                    let left = patience.checked_sub(begin.elapsed())?;
                    self.bell.wait_timeout(landed, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl Claim<'_> {
    fn land(self, landed: Landed) {
        if let Ok(decoded) = &landed
            && u64::from(self.key.decoded) > PAGE_SIZE
        {
            let bytes = u64::from(self.key.decoded);
            self.blocks.decoded.insert(self.key, Arc::clone(decoded), bytes);
        }
        *lock(&self.flight.landed) = Some(landed);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        lock(&self.blocks.flights).remove(&self.key);
        let what = "decoding broke down".to_owned();
        let broken = || Err(Fault { offset: self.key.start, what }.into());
        lock(&self.flight.landed).get_or_insert_with(broken);
        self.flight.bell.notify_all();
    }
}

const PAGE: usize = PAGE_SIZE as usize;

/// Bytes that are decoded while others wait: 300 us with a slow codec, what handing it to another
/// thread may cost several times over.
const QUICK_MAX: usize = 64 << 10;

/// As long as a block of 4 KiB takes with a slow codec, several times.
const PATIENCE: Duration = Duration::from_micros(100);

/// No format has larger blocks.
const BLOCK_MAX: usize = 16 << 20;

/// Larger scratch is given back.
const SCRATCH_MAX: usize = 1 << 20;

const SHARDS: usize = 4;
