//! A flash drive: dies side by side, a buffer of one bit a cell, and garbage collection.
//!
//! Source:     Samsung 840 EVO: rates, buffer and its folding by AnandTech 7173, commands a second
//!             by the vendor; amplification by Desnoyers, "Analytic modeling of SSD write
//!             performance", SYSTOR 2012, collection of the oldest block.
//! Behaviour:  a write is done when it is in the drive's memory, and is programmed by the dies that
//!             are free first: into the buffer while it has room, then at the slower rate of the
//!             flash. Small writes to random places cost more by `efficiency`, and by the
//!             amplification once the erased space is used up. Idle time folds the buffer. A read
//!             takes the dies of its address and waits there for one program at most. A discard
//!             takes the controller for a command.
//! Differs:    amplification is a formula of the shares of live and spare space, no map of pages is
//!             kept; the link is counted, not scheduled; reads do not look into the drive's memory;
//!             folding gives way at once and costs the dies nothing.
//! Not for:    wear, space that discards free, more than one stream at a time, a hot and a cold
//!             part inside the region of random writes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forebay_core::time::{Duration, Instant};
use forebay_core::units::SECTOR_SIZE;

use super::{Command, Completion, Device, DeviceAccess, bytes_in, transfer_time};
use crate::rng::{MILLION, Rng, scaled};

/// What a flash drive is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SsdParameters {
    /// Dies that work side by side, from 1 to [`DIES_MAX`].
    pub dies: u32,
    /// Bytes that one die reads or programs before the next die takes over.
    pub stripe_bytes: u64,
    /// Bytes of all flash if every cell holds [`CELL_BITS`] bits.
    pub flash_bytes: u64,
    /// Bytes of the buffer whose cells hold one bit.
    pub buffer_bytes: u64,
    /// Bytes a second of all dies together into the buffer.
    pub buffer_bytes_per_s: u64,
    /// Bytes a second of all dies together into the other flash.
    pub flash_bytes_per_s: u64,
    /// Bytes a second by which idle time empties the buffer.
    pub fold_bytes_per_s: u64,
    /// Idle time after which folding begins.
    pub fold_after_ns: u64,
    /// Bytes of the drive that hold data, those of the random region included.
    pub live_bytes: u64,
    /// Bytes of the region that random writes go to.
    pub random_bytes: u64,
    /// Rate of small random writes into the flash, of the rate without this loss, before
    /// amplification.
    pub efficiency_ppm: u64,
    /// Bytes a second between drive and host.
    pub interface_bytes_per_s: u64,
    /// The controller's time for a command; commands pass it one after another.
    pub command_ns: u64,
    /// The controller's time for a write that does not continue the last one.
    pub write_command_ns: u64,
    /// Time of a die to read up to a stripe.
    pub read_ns: u64,
    /// Time of a die to program a stripe: the longest that a read waits for one.
    pub program_ns: u64,
    /// What the drive takes of writes before they are programmed; zero turns this off.
    pub write_cache_bytes: u64,
    /// Time to make programmed data durable: the map of pages.
    pub flush_ns: u64,
    /// Sigma of the log-normal jitter on the time of a read at its die.
    pub jitter_sigma_ppm: u64,
}

/// A flash drive at work.
///
/// ```text
///   host --link--> memory --> die 0  [program][program]
///                             die 1  [program][read][program]     a read goes before programs
///                             ...                                 that have not begun
///   what is programmed:  buffer | | |####|   erased | | | |####|   then amplified by 1 / (1 - v)
/// ```
#[derive(Clone, Debug)]
pub struct Ssd {
    parameters: SsdParameters,
    amplification_ppm: u64,
    dies: Vec<Die>,
    /// When the controller can take the next command.
    controller_free: Instant,
    link_free: Instant,
    /// The end of the last write.
    acknowledged: Instant,
    /// Programs that the host believes done: end and bytes, the earliest first.
    cached: BinaryHeap<Reverse<(Instant, u64)>>,
    cached_bytes: u64,
    /// Room in the buffer.
    buffer_left: u64,
    /// Space that random writes find erased without any collection.
    erased_left: u64,
    /// The latest end of all that was ever asked.
    all_done: Instant,
    /// The sector behind the last write.
    write_end: u64,
    /// The sector behind the last read, and when that read came to the dies.
    read_end: u64,
    read_since: Instant,
    jitter: Rng,
}

#[derive(Clone, Copy, Debug, Default)]
struct Die {
    /// When the programs that it was given are over.
    programmed: Instant,
    /// When the reads that it was given are over.
    read: Instant,
}

impl SsdParameters {
    /// Bytes beyond the live data and the cells of the buffer.
    pub fn spare_bytes(&self) -> u64 {
        let buffer_cells = self.buffer_bytes.saturating_mul(CELL_BITS);
        self.flash_bytes.saturating_sub(buffer_cells).saturating_sub(self.live_bytes)
    }

    /// Bytes programmed for each byte of random writes once nothing is left erased, in parts per
    /// million.
    pub fn amplification_ppm(&self) -> u64 {
        let live = self.random_bytes as f64;
        let region = live + self.spare_bytes() as f64;
        let utilisation = if region > 0.0 { live / region } else { 0.0 };
        libm::round(amplification(utilisation) * MILLION as f64) as u64
    }
}

/// Bytes programmed for each byte written at random into a region of which `utilisation` is live;
/// from 0 to 0.98, above which the formula leaves what drives do.
///
/// A block that is collected still has the share v of its pages live, where (v - 1) / ln v equals
/// the utilisation: exact for collecting the oldest block, close for greedy collection of blocks
/// with many pages. Bisection takes the same steps on every machine.
pub fn amplification(utilisation: f64) -> f64 {
    let wanted = utilisation.clamp(0.0, UTILISATION_MAX);
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..BISECTIONS {
        let middle = (low + high) / 2.0;
        if (middle - 1.0) / libm::log(middle) < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    1.0 / (1.0 - low)
}

impl Ssd {
    /// An idle drive with an empty buffer and its spare space erased; `seed` names its jitter.
    pub fn new(parameters: SsdParameters, seed: u64) -> Self {
        let dies = parameters.dies.clamp(1, DIES_MAX) as usize;
        Self {
            parameters,
            amplification_ppm: parameters.amplification_ppm(),
            dies: vec![Die::default(); dies],
            controller_free: Instant::ZERO,
            link_free: Instant::ZERO,
            acknowledged: Instant::ZERO,
            cached: BinaryHeap::new(),
            cached_bytes: 0,
            buffer_left: parameters.buffer_bytes,
            erased_left: parameters.spare_bytes(),
            all_done: Instant::ZERO,
            write_end: NOWHERE,
            read_end: NOWHERE,
            read_since: Instant::ZERO,
            jitter: Rng::new(seed).fork("ssd-jitter", 0),
        }
    }

    fn read(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        let (start, taken) = self.take_command(now, self.parameters.command_ns);
        let continues = access.sector == self.read_end;
        // The drive reads ahead: the next read of a stream was started with the request before.
        let since = if continues { self.read_since } else { taken };
        self.read_end = access.end();
        self.read_since = taken;
        let stripe = (self.parameters.stripe_bytes / SECTOR_SIZE).max(1);
        let mut number = access.sector / stripe;
        if continues && !access.sector.is_multiple_of(stripe) {
            // The rest of a stripe is in memory since its beginning was read.
            number += 1;
        }
        // For this number of stripes the link takes longer than the dies.
        let end = access.end().div_ceil(stripe).min(number.saturating_add(STRIPES_MAX));
        let mut ready = taken;
        while number < end {
            ready = ready.max(self.read_stripe(since, number));
            number += 1;
        }
        let on_link = transfer_time(access.bytes(), self.parameters.interface_bytes_per_s);
        self.link_free = self.link_free.max(taken) + on_link;
        let done = self.link_free.max(ready + on_link);
        self.all_done = self.all_done.max(done);
        Completion::success(start, done)
    }

    /// Reads one stripe at the die of its address and returns its completion time.
    fn read_stripe(&mut self, since: Instant, number: u64) -> Instant {
        let time = Duration(self.parameters.read_ns);
        let time = self.jitter.jittered(time, self.parameters.jitter_sigma_ppm);
        let at = (number % self.dies.len() as u64) as usize;
        let die = &mut self.dies[at];
        // Programs follow each other, so the remainder of the current one is the remainder of all,
        // modulo its length. The others continue after the read.
        let left = die.programmed.since(since).as_nanos();
        let program = self.parameters.program_ns.max(1);
        let under_way = if left == 0 { 0 } else { (left - 1) % program + 1 };
        let start = die.read.max(since + Duration(under_way));
        die.read = start + time;
        if left > 0 {
            die.programmed += time;
        }
        die.read
    }

    fn write(&mut self, now: Instant, access: &DeviceAccess) -> (Completion, Instant) {
        self.fold(now);
        let continues = access.sector == self.write_end;
        self.write_end = access.end();
        let command = match continues {
            true => self.parameters.command_ns,
            false => self.parameters.write_command_ns,
        };
        let (start, taken) = self.take_command(now, command);
        let on_link = transfer_time(access.bytes(), self.parameters.interface_bytes_per_s);
        self.link_free = self.link_free.max(taken) + on_link;
        let arrived = self.link_free;
        // The host's writes are acknowledged in the order in which they came.
        let room = self.make_room(arrived.max(self.acknowledged), access.bytes());
        let programmed = self.program(room, access, continues);
        let done =
            if access.bytes() > self.parameters.write_cache_bytes { programmed } else { room };
        self.acknowledged = done;
        self.all_done = self.all_done.max(done);
        (Completion::success(start, done), programmed)
    }

    /// Programs a write that is in memory at `from` and returns when all of it is.
    fn program(&mut self, from: Instant, access: &DeviceAccess, continues: bool) -> Instant {
        let cost_ppm = self.cost_ppm(access, continues);
        let buffered = access.bytes() <= self.buffer_left;
        let (rate, cost_ppm) = if buffered {
            self.buffer_left -= access.bytes();
            (self.parameters.buffer_bytes_per_s, MILLION)
        } else {
            (self.parameters.flash_bytes_per_s, cost_ppm)
        };
        let dies = self.dies.len() as u64;
        let stripe = self.parameters.stripe_bytes.max(1);
        let mut left = access.bytes();
        let mut last = from;
        while left > 0 {
            // A write of very many stripes is cut no finer than its dies need.
            let bytes = left.min(stripe.max(access.bytes() / STRIPES_MAX));
            let time = scaled(transfer_time(bytes, rate).times(dies), cost_ppm);
            let free = self.dies.iter_mut().min_by_key(|die| die.programmed.max(die.read));
            let die = free.expect("a drive has at least one die");
            die.programmed = from.max(die.programmed).max(die.read) + time;
            last = last.max(die.programmed);
            if access.bytes() <= self.parameters.write_cache_bytes {
                self.cached.push(Reverse((die.programmed, bytes)));
                self.cached_bytes += bytes;
            }
            left -= bytes;
        }
        last
    }

    /// What the dies do for a byte of this write outside the buffer, of what a stream costs.
    fn cost_ppm(&mut self, access: &DeviceAccess, continues: bool) -> u64 {
        if continues {
            return MILLION;
        }
        let amplified = self.erased_left < access.bytes();
        self.erased_left = self.erased_left.saturating_sub(access.bytes());
        let amplification = if amplified { self.amplification_ppm } else { MILLION };
        let row = self.parameters.stripe_bytes.saturating_mul(self.dies.len() as u64);
        let efficiency =
            if access.bytes() < row { self.parameters.efficiency_ppm } else { MILLION };
        let cost = u128::from(amplification) * u128::from(MILLION) / u128::from(efficiency.max(1));
        u64::try_from(cost).unwrap_or(u64::MAX)
    }

    /// When `bytes` that arrive at `arrived` have room in the memory.
    fn make_room(&mut self, arrived: Instant, bytes: u64) -> Instant {
        let limit = self.parameters.write_cache_bytes;
        let mut room = arrived;
        while let Some(Reverse((end, freed))) = self.cached.peek().copied() {
            let fits = self.cached_bytes.saturating_add(bytes) <= limit;
            if end > room && fits {
                break;
            }
            room = room.max(end);
            self.cached_bytes -= freed;
            self.cached.pop();
        }
        room
    }

    /// A write that is done when it is programmed and found again after a loss of power.
    fn write_through(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        let (written, programmed) = self.write(now, access);
        let done = written.done.max(programmed) + Duration(self.parameters.flush_ns);
        self.all_done = self.all_done.max(done);
        Completion { done, ..written }
    }

    /// Waits for everything, as a command that is not queued; then the map of pages is made safe.
    fn flush(&mut self, now: Instant) -> Completion {
        let (start, taken) = self.take_command(now, self.parameters.command_ns);
        let programmed = self.dies.iter().map(|die| die.programmed).max();
        let idle = programmed.unwrap_or(taken).max(self.all_done).max(taken);
        let done = idle + Duration(self.parameters.flush_ns);
        self.cached.clear();
        self.cached_bytes = 0;
        self.controller_free = done;
        self.all_done = done;
        Completion::success(start, done)
    }

    /// Empties the buffer in the idle time before `now`.
    fn fold(&mut self, now: Instant) {
        let dies = self.dies.iter().map(|die| die.programmed.max(die.read)).max();
        let idle_since = dies.unwrap_or_default().max(self.all_done).max(self.controller_free);
        let begun = idle_since + Duration(self.parameters.fold_after_ns);
        let folded = bytes_in(now.since(begun), self.parameters.fold_bytes_per_s);
        let room = self.buffer_left.saturating_add(folded);
        self.buffer_left = room.min(self.parameters.buffer_bytes);
    }

    /// Passes a command through the controller: when it begins and when it is understood.
    fn take_command(&mut self, now: Instant, time: u64) -> (Instant, Instant) {
        let start = now.max(self.controller_free);
        self.controller_free = start + Duration(time);
        (start, self.controller_free)
    }
}

impl Device for Ssd {
    fn service(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        match access.command {
            Command::Read => {
                self.fold(now);
                self.read(now, access)
            }
            Command::Write => self.write(now, access).0,
            Command::DurableWrite => self.write_through(now, access),
            Command::Flush => {
                self.fold(now);
                self.flush(now)
            }
            Command::Discard => {
                self.fold(now);
                let (start, done) = self.take_command(now, self.parameters.command_ns);
                self.all_done = self.all_done.max(done);
                Completion::success(start, done)
            }
        }
    }
}

/// The most dies that a drive may have.
pub const DIES_MAX: u32 = 4_096;

/// Bits of a cell outside the buffer: TLC. A byte of the buffer takes the cells of as many bytes.
pub const CELL_BITS: u64 = 3;

/// Utilisation from which the amplification does not rise any more: it is 25 there.
const UTILISATION_MAX: f64 = 0.98;

/// Halvings of an interval of one; doubles have 53 bits.
const BISECTIONS: u32 = 60;

/// The most pieces that a request is cut into.
const STRIPES_MAX: u64 = 1 << 16;

/// Where no request begins that continues another.
const NOWHERE: u64 = u64::MAX;

#[cfg(test)]
mod tests;
