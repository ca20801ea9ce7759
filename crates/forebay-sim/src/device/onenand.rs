//! OneNAND: flash behind two page buffers, from which the host's processor moves the data itself.
//!
//! Source:     Linux 2.6.21, drivers/mtd/onenand/onenand_base.c and drivers/mtd/mtdblock.c; Samsung
//!             KFG1G16Q2M (1 Gbit); the numbers in docs/devices.md, OneNAND.
//! Behaviour:  a read loads each of its pages into a buffer, and the host's processor copies it
//!             from there word by word. With overlap the next page loads into the other buffer at
//!             the same time. A page that a buffer still holds is not loaded again. A write puts
//!             each page into a buffer, and the array programs it. Requests run one after another.
//! Differs:    a part of a page is fetched in proportion to its sectors, and loaded or programmed
//!             as a whole. Erasing, and mtdblock's copy of the block that is written to, are left
//!             out, so that writes are too fast. Calls of the driver count as the processor's work.
//! Not for:    wear, error correction, writes in place.

use forebay_core::time::{Duration, Instant};
use forebay_core::units::SECTOR_SIZE;

use super::{Command, Completion, Device, DeviceAccess, Outcome};
use crate::rng::Rng;

/// What a OneNAND and the way to it are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneNandParameters {
    /// Bringing a page from the array into a buffer.
    pub load_ns: u64,
    /// Moving a whole page between buffer and memory, by the processor.
    pub transfer_ns: u64,
    /// What the driver does once for every request.
    pub command_ns: u64,
    /// One call of the driver: for every sector, or with overlap for every page.
    pub register_ns: u64,
    /// Whether the processor asks the device again and again while it waits for it.
    pub polls: bool,
    /// Whether a page loads while the one before it is fetched; else sector is read after sector.
    pub overlap: bool,
    /// Programming a page from a buffer.
    pub program_ns: u64,
    /// Sigma of the log-normal jitter on loading and programming, drawn for every request.
    pub jitter_sigma_ppm: u64,
}

/// A OneNAND at work.
///
/// ```text
///   overlap      array      [ load 0 ][ load 1 ][ load 2 ]
///                processor            [ fetch 0 ][ fetch 1 ][ fetch 2 ]
///
///   sector by    array      [ load 0 ]           [ load 1 ]
///   sector       processor            [][][][]             [][][][]
/// ```
#[derive(Clone, Debug)]
pub struct OneNand {
    parameters: OneNandParameters,
    free: Instant,
    buffers: Buffers,
    rng: Rng,
}

/// The pages that the two buffers hold, the one that was used last first.
#[derive(Clone, Copy, Debug, Default)]
struct Buffers([Option<u64>; 2]);

/// The pages of an access, of which only the first and the last may be touched in part.
///
/// ```text
///   sectors   . . # #   # # # #   # # # #   # . . .
///   pages     first                         last      four pages, the first with two sectors
/// ```
#[derive(Clone, Copy, Debug)]
struct Span {
    sector: u64,
    end: u64,
    first: u64,
    last: u64,
}

impl Buffers {
    /// Takes `page` into the buffer that was not used last, unless one holds it; returns whether
    /// one did.
    fn take(&mut self, page: u64) -> bool {
        let [last, other] = self.0;
        if last == Some(page) {
            return true;
        }
        self.0 = [Some(page), last];
        other == Some(page)
    }

    /// Takes the pages of `span` one after another; returns which of the first two were there.
    /// Those behind never are: the first two fill both buffers.
    fn take_all(&mut self, span: &Span) -> [bool; 2] {
        let first = self.take(span.first);
        let second = span.pages() > 1 && self.take(span.first + 1);
        for page in span.last_two().filter(|page| *page > span.first + 1) {
            self.take(page);
        }
        [first, second]
    }

    /// Takes the pages that are written; one that is written in part is worth nothing.
    fn put_all(&mut self, span: &Span) {
        let stale = |page: &u64| !(span.first..=span.last).contains(page);
        self.0 = self.0.map(|held| held.filter(stale));
        for page in span.last_two() {
            self.take(page);
            if span.within(page) < SECTORS {
                self.0[0] = None;
            }
        }
    }
}

impl Span {
    /// The pages of `access`, if it has any.
    fn of(access: &DeviceAccess) -> Option<Self> {
        let (sector, end) = (access.sector, access.end());
        (sector < end).then(|| Self {
            sector,
            end,
            first: sector / SECTORS,
            last: (end - 1) / SECTORS,
        })
    }

    fn pages(&self) -> u64 {
        self.last - self.first + 1
    }

    fn sectors(&self) -> u64 {
        self.end - self.sector
    }

    /// The last two pages, or the only one.
    fn last_two(&self) -> impl Iterator<Item = u64> + use<> {
        self.first.max(self.last.saturating_sub(1))..=self.last
    }

    /// The sectors of `page` that are touched.
    fn within(&self, page: u64) -> u64 {
        let first = page * SECTORS;
        self.end.min(first.saturating_add(SECTORS)) - self.sector.max(first)
    }
}

impl OneNandParameters {
    /// The processor's time for moving `sectors`, rounded to the nearest nanosecond.
    fn fetch(&self, sectors: u64) -> Duration {
        let nanos = u128::from(self.transfer_ns) * u128::from(sectors) + u128::from(SECTORS / 2);
        Duration(u64::try_from(nanos / u128::from(SECTORS)).unwrap_or(u64::MAX))
    }

    /// The calls of the driver that `span` takes.
    fn calls(&self, span: &Span) -> Duration {
        let calls = if self.overlap { span.pages() } else { span.sectors() };
        Duration(self.register_ns).times(calls)
    }

    /// The time from the first load of `span` to its last byte, if each page that is not `held`
    /// takes `load` and goes on loading while the one before it is fetched.
    fn overlapped(&self, span: &Span, load: Duration, held: [bool; 2]) -> Duration {
        let call = Duration(self.register_ns);
        let [first, second] = held.map(|held| if held { Duration::ZERO } else { load });
        // When the fetch of the latest page begins, and with it the load of the next one.
        let mut begun = first + call;
        if span.pages() > 1 {
            let fetched = begun + self.fetch(span.within(span.first));
            begun = fetched.max(begun + second) + call;
            let each = load.max(Duration(self.transfer_ns)) + call;
            begun += each.times(span.pages() - 2);
        }
        begun + self.fetch(span.within(span.last))
    }
}

impl OneNand {
    /// An idle device with empty buffers; `seed` names its jitter.
    pub fn new(parameters: OneNandParameters, seed: u64) -> Self {
        let rng = Rng::new(seed).fork("onenand-jitter", 0);
        Self { parameters, free: Instant::ZERO, buffers: Buffers::default(), rng }
    }

    fn read(&mut self, span: &Span) -> Duration {
        let parameters = self.parameters;
        let load = self.rng.jittered(Duration(parameters.load_ns), parameters.jitter_sigma_ppm);
        let held = self.buffers.take_all(span);
        if parameters.overlap {
            return parameters.overlapped(span, load, held);
        }
        let held = held.into_iter().filter(|held| *held).count() as u64;
        load.times(span.pages() - held) + parameters.fetch(span.sectors()) + parameters.calls(span)
    }

    fn write(&mut self, span: &Span) -> Duration {
        let parameters = self.parameters;
        let program = Duration(parameters.program_ns);
        let program = self.rng.jittered(program, parameters.jitter_sigma_ppm);
        self.buffers.put_all(span);
        program.times(span.pages()) + parameters.fetch(span.sectors()) + parameters.calls(span)
    }
}

impl Device for OneNand {
    fn service(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        let start = now.max(self.free);
        let span = Span::of(access);
        let time = match (access.command, &span) {
            // Written data is in the array.
            (Command::Flush, _) => return Completion::success(start, start),
            (Command::Read | Command::Write | Command::DurableWrite, None)
            | (Command::Discard, _) => Duration::ZERO,
            (Command::Read, Some(span)) => self.read(span),
            (Command::Write | Command::DurableWrite, Some(span)) => self.write(span),
        };
        let command = Duration(self.parameters.command_ns);
        let done = start + command + time;
        let moving =
            |span: &Span| self.parameters.fetch(span.sectors()) + self.parameters.calls(span);
        let moved = command + span.as_ref().map_or(Duration::ZERO, moving);
        let whole = done.since(start);
        let cpu = if self.parameters.polls { whole } else { moved.min(whole) };
        self.free = done;
        Completion { start, done, cpu, outcome: Outcome::Success }
    }

    fn programmed(&self) -> bool {
        true
    }
}

/// Sectors of a page.
const SECTORS: u64 = PAGE_BYTES / SECTOR_SIZE;

/// Bytes of a page, and of a buffer.
pub const PAGE_BYTES: u64 = 2_048;

#[cfg(test)]
mod tests;
