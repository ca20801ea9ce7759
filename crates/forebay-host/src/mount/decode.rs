//! Decoded blocks: each decoded once however many ask, as far as somebody needs it.
//!
//! ```text
//!   a block     | page | page | page | page | page | page |
//!   first touch of page 2       ^ decoded up to here: pages 0 and 1 are by-catch, and stay
//!   a touch of page 4                        then all of it, so that there is no third time
//! ```
//!
//! A block that is no larger than a page goes to the kernel whole: it is decoded into the answer,
//! and kept here only if it was looked at before somebody asked for it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::units::PAGE_SIZE;
use forebay_image::{Block, Coding, Error, Image};

use super::clock::Clock;
use super::flights::{Claim, Flights, Turn, Waited};
use super::pool::{Lent, Pool};
use super::raw::{self, Absent, Raw};
use super::stats::Stats;
use crate::processor::nanos;

/// The blocks of an image.
#[derive(Debug)]
pub(super) struct Blocks {
    image: Arc<dyn Image>,
    raw: Arc<Raw>,
    decoded: Clock<Key, Arc<Decoded>>,
    flights: Flights<Key, Landed>,
    pool: Arc<Pool>,
    stats: Arc<Stats>,
}

/// The beginning of a block's content, or all of it.
#[derive(Debug)]
pub(super) struct Decoded {
    bytes: Lent,
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
    /// Its raw bytes are not in memory, and the asker waits for no device.
    Absent(Absent),
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
}

/// Raw bytes that were read already, and where they lie in the image.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run<'a> {
    pub(super) start: u64,
    pub(super) bytes: &'a [u8],
}

/// How a block is to be had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'a> {
    pub(super) pace: Pace,
    /// Where its raw bytes may be already.
    pub(super) run: Run<'a>,
    /// Set if a device was waited for.
    pub(super) waited: bool,
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

type Landed = Result<Arc<Decoded>, Missed>;

/// What became of a wish for a block.
enum Wish<'a> {
    There(Arc<Decoded>),
    /// Whoever wished decodes it: all of it if this is not the first time.
    Ours(Claim<'a, Key, Landed>, bool),
}

impl Blocks {
    /// Blocks of an image whose raw bytes come through `raw`; `budget` is in bytes.
    pub(super) fn new(
        raw: &Arc<Raw>,
        image: &Arc<dyn Image>,
        pool: Arc<Pool>,
        budget: u64,
    ) -> Self {
        // A shard has room for two blocks, unless all of it has not.
        let block = u64::from(image.summary().block_size).max(PAGE_SIZE);
        let shards = usize::try_from(budget / (2 * block)).unwrap_or(SHARDS_MAX);
        let decoded = Clock::new(budget, shards.clamp(1, SHARDS_MAX));
        let stats = Arc::clone(raw.stats());
        let (image, raw) = (Arc::clone(image), Arc::clone(raw));
        Self { image, raw, decoded, flights: Flights::new(), pool, stats }
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> u64 {
        self.decoded.bytes()
    }

    /// Fills `target` with a packed block's content from `from` on.
    pub(super) fn copy(
        &self,
        block: &Block,
        from: usize,
        target: &mut [u8],
        way: &mut Way<'_>,
    ) -> Result<(), Missed> {
        let upto = from + target.len();
        let is_small = block.decoded as usize <= PAGE;
        if !(is_small && from == 0 && target.len() == block.decoded as usize) {
            let content = self.content(block, upto, way)?;
            let bytes = content.bytes().get(from..upto);
            target.copy_from_slice(bytes.ok_or_else(|| Fault::new(block, "it is too short"))?);
            return Ok(());
        }
        match self.wish(block, upto, way.pace)? {
            Wish::There(decoded) => target.copy_from_slice(&decoded.bytes()[..upto]),
            Wish::Ours(claim, _) => {
                let valid = self.decode(block, target, upto, upto, way);
                claim.land(|| {
                    let mut bytes = self.pool.take(upto);
                    bytes.copy_from_slice(target);
                    valid.clone().map(|valid| Arc::new(Decoded { bytes, valid }))
                });
                valid?;
            }
        }
        Ok(())
    }

    /// The first `upto` bytes of a packed block's content, whole pages if it has them, or more.
    fn content(&self, block: &Block, upto: usize, way: &mut Way<'_>) -> Landed {
        let (claim, again) = match self.wish(block, upto, way.pace)? {
            Wish::There(decoded) => return Ok(decoded),
            Wish::Ours(claim, again) => (claim, again),
        };
        let whole = block.decoded as usize;
        let pages = upto.checked_next_multiple_of(PAGE).unwrap_or(whole);
        let goal = if again { whole } else { pages.min(whole) };
        let landed = self.decoded(block, upto, goal, way);
        if let Ok(decoded) = &landed
            && whole > PAGE
        {
            self.decoded.insert(claim.key, Arc::clone(decoded), u64::from(block.decoded));
        }
        claim.land(|| landed.clone());
        landed
    }

    /// Decodes a small block if need be, and keeps it for whoever asks for it next.
    pub(super) fn keep(&self, block: &Block, pace: Pace) -> Result<(), Missed> {
        let upto = block.decoded as usize;
        let content = self.content(block, upto, &mut Way::new(pace, Run::default()))?;
        self.decoded.insert(Key::of(block), content, u64::from(block.decoded));
        Ok(())
    }

    /// Waits for whoever decodes it, if somebody does.
    fn wish(&self, block: &Block, upto: usize, pace: Pace) -> Result<Wish<'_>, Missed> {
        let key = Key::of(block);
        let is_slow = pace == Pace::Patient && block.decoded as usize > QUICK_MAX;
        loop {
            let enough = || self.decoded.get(&key).filter(|found| found.valid >= upto);
            let flight = match self.flights.turn(key, is_slow, enough) {
                Turn::There(decoded) => {
                    self.stats.decoded_hits.add(1);
                    return Ok(Wish::There(decoded));
                }
                Turn::Ours(claim) => return Ok(Wish::Ours(claim, self.decoded.has(&key))),
                Turn::Wait(flight) => flight,
            };
            if flight.is_slow && pace == Pace::Quick {
                return Err(Missed::Slow);
            }
            self.stats.decode_waits.add(1);
            let patience = (pace == Pace::Quick).then_some(PATIENCE);
            match flight.wait(patience) {
                // Whoever decoded it may have needed less of it, or may have given it up.
                Waited::Landed(Ok(decoded)) if decoded.valid < upto => {}
                Waited::Landed(Err(Missed::Slow | Missed::Absent(_))) => {}
                Waited::Landed(landed) => return landed.map(Wish::There),
                Waited::Broken => return Err(Fault::new(block, "decoding broke down").into()),
                Waited::NotYet => return Err(Missed::Slow),
            }
        }
    }

    fn decoded(&self, block: &Block, upto: usize, goal: usize, way: &mut Way<'_>) -> Landed {
        let len = block.decoded as usize;
        if len > BLOCK_MAX {
            return Err(Fault::new(block, "too large").into());
        }
        if way.pace == Pace::Quick && goal > QUICK_MAX {
            return Err(Missed::Slow);
        }
        let _turn = (len > LARGE).then(|| self.pool.large());
        let mut bytes = self.pool.take(len);
        let valid = self.decode(block, &mut bytes, upto, goal, way)?;
        Ok(Arc::new(Decoded { bytes, valid }))
    }

    /// Decodes up to `goal`, where a block may end before that, but not before `upto`.
    fn decode(
        &self,
        block: &Block,
        content: &mut [u8],
        upto: usize,
        goal: usize,
        way: &mut Way<'_>,
    ) -> Result<usize, Missed> {
        if let Some(raw) = way.run.slice(&block.raw) {
            return Ok(self.unpack(block, raw, upto, goal, content)?);
        }
        // A block that says that it is larger than any format allows is not worth its memory.
        let len = usize::try_from(block.raw.end.saturating_sub(block.raw.start));
        let Some(len) = len.ok().filter(|len| *len <= BLOCK_MAX) else {
            return Err(Fault::new(block, "too large").into());
        };
        let mut raw = self.pool.take(len);
        if !self.raw.copy_if_near(&block.raw, &mut raw) {
            if way.pace == Pace::Quick {
                return Err(Missed::Absent(Absent(block.raw.clone())));
            }
            way.waited = true;
            let read = self.raw.copy(&block.raw, &mut raw);
            read.map_err(|error| Fault::new(block, &format!("reading it: {error}")))?;
        }
        Ok(self.unpack(block, &raw, upto, goal, content)?)
    }

    fn unpack(
        &self,
        block: &Block,
        raw: &[u8],
        upto: usize,
        goal: usize,
        content: &mut [u8],
    ) -> Result<usize, Fault> {
        let begin = Instant::now();
        let valid = self
            .image
            .decode(block, raw, goal, content)
            .map_err(|error| Fault::from_image(block, &error))?;
        if valid < upto {
            return Err(Fault::new(block, &format!("{valid} of {upto} bytes decoded")));
        }
        self.stats.decode_nanos.add(nanos(begin.elapsed()));
        self.stats.blocks_decoded.add(1);
        self.stats.pages_decoded.add((valid as u64).div_ceil(PAGE_SIZE));
        Ok(valid)
    }
}
impl<'a> Way<'a> {
    pub(super) const fn new(pace: Pace, run: Run<'a>) -> Self {
        Self { pace, run, waited: false }
    }
}

impl<'a> Run<'a> {
    /// The bytes of a range, if it lies in the run.
    pub(super) fn slice(&self, range: &Range<u64>) -> Option<&'a [u8]> {
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

impl From<Error> for Missed {
    fn from(error: Error) -> Self {
        match raw::absent(&error) {
            Some(absent) => Self::Absent(absent),
            None => Self::Fault(error.into()),
        }
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

const PAGE: usize = PAGE_SIZE as usize;

/// Bytes that are decoded while others wait: 300 us with a slow codec, what handing it to another
/// thread may cost several times over.
const QUICK_MAX: usize = 64 << 10;

/// What whoever must be quick waits for others: as long as a block of 4 KiB takes with a slow
/// codec, several times.
const PATIENCE: Duration = Duration::from_micros(100);

/// No format has larger blocks.
const BLOCK_MAX: usize = 16 << 20;

/// Of larger blocks only some are decoded at a time.
const LARGE: usize = 128 << 10;

const SHARDS_MAX: usize = 4;
