//! Where in a file the next request starts, and how large it is.
//!
//! Source:     fio 3.33, `io_u.c` and `filesetup.c`
//! Behaviour:  Uniform: block = floor(N × r / 2^32); if the random map says that it was visited,
//!             the next free block. Sequential: after the last request of the same direction,
//!             plus the skip of `rw=...:N`. Sizes are drawn until one fits the region.
//! Differs:    The arithmetic wraps where fio's unsigned arithmetic wraps, on purpose: negative
//!             skips rely on it.
//! Not for:    the choice among files and directions, see `stream.rs`

use super::Compat;
use super::map::BlockMap;
use super::plan::{Plan, PlanFile, Region};
use super::random::Random;
use super::settings::Sequencer;
use super::skew::{Skew, seed};

/// What kind of offset a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A new random one.
    New,
    /// The one after the last request.
    Sequential,
    /// Between two new ones of `rw=...:N`.
    Again,
}

/// One file while requests are made from it.
#[derive(Clone, Debug)]
pub(super) struct FileState {
    region: Region,
    offset: u64,
    last_end: [u64; 2],
    last_start: [Option<u64>; 2],
    map: Option<BlockMap>,
    skew: Option<Skew>,
    /// It was chosen since the loop began and is not done.
    pub(super) open: bool,
    /// No further request can be made from it in this loop.
    pub(super) done: bool,
}

impl FileState {
    /// The file before the first loop.
    pub(super) fn new(
        plan: &Plan,
        file: &PlanFile,
        offset_seed: u64,
        compat: Compat,
        twin: Option<&Self>,
    ) -> Self {
        let random = plan.settings.mode.is_random();
        let block = plan.block[0].0.min(plan.block[1].0);
        let blocks = file.region.io_size.min(file.region.real_size).div_ceil(block);
        let seed = seed(&file.name, plan.job_number, offset_seed, plan.repeatable, compat);
        let twin = twin.and_then(|twin| twin.skew.as_ref());
        let skew =
            random.then(|| Skew::new(plan.settings.distribution, blocks, seed, twin)).flatten();
        Self {
            offset: file.region.first_offset,
            last_end: [0; 2],
            last_start: [None; 2],
            map: plan.use_map.then(|| BlockMap::new(plan.map_blocks(file))),
            skew,
            open: false,
            done: false,
            region: file.region,
        }
    }

    /// Opens the file and forgets the visited blocks.
    pub(super) fn start(&mut self) {
        self.open = true;
        self.forget();
    }

    /// Closes the file for the rest of the loop.
    pub(super) fn finish(&mut self) {
        self.open = false;
        self.done = true;
    }

    /// Closes the file so that the next loop opens it afresh.
    pub(super) fn close_for_next_loop(&mut self) {
        self.open = false;
        self.done = false;
        self.offset = self.region.later_offset;
    }

    /// Notes a request that was made.
    pub(super) fn issued(&mut self, direction: usize, offset: u64, len: u64) {
        self.last_start[direction] = Some(offset);
        self.last_end[direction] = offset + len;
    }

    /// Takes blocks of the random map; returns how many of the bytes are left to request.
    pub(super) fn mark(&mut self, offset: u64, len: u64, block: u64) -> u64 {
        let first = (offset - self.offset) / block;
        match &mut self.map {
            Some(map) => len.min(map.take_run(first, len.div_ceil(block)).saturating_mul(block)),
            None => len,
        }
    }

    /// An offset in the file and whether it was drawn; nothing if the file is done.
    pub(super) fn offset(
        &mut self,
        plan: &Plan,
        direction: usize,
        wanted: Wanted,
        random: &mut Random,
    ) -> Option<(u64, bool)> {
        let (inside, drawn) = match wanted {
            Wanted::New => (self.draw(plan, direction, random)?, true),
            Wanted::Sequential if plan.settings.mode.is_random() => {
                let inside = match self.sequential(plan, direction) {
                    Some(inside) => inside,
                    None => self.draw(plan, direction, random)?,
                };
                (inside, false)
            }
            Wanted::Sequential => (self.sequential(plan, direction)?, false),
            Wanted::Again => (self.again(plan, direction, random)?, false),
        };
        if inside >= self.region.io_size {
            return None;
        }
        let offset = inside.checked_add(self.offset)?;
        (offset < self.region.real_size).then_some((offset, drawn))
    }

    /// Bytes from `offset` to the end of the region.
    pub(super) fn room(&self, offset: u64) -> u64 {
        (self.region.io_size + self.region.later_offset).saturating_sub(offset)
    }

    /// The size of the file.
    pub(super) fn real_size(&self) -> u64 {
        self.region.real_size
    }

    fn forget(&mut self) {
        self.last_end = [self.offset; 2];
        self.last_start = [None; 2];
        if let Some(map) = &mut self.map {
            map.clear();
        }
    }

    fn again(&mut self, plan: &Plan, direction: usize, random: &mut Random) -> Option<u64> {
        match plan.settings.sequencer {
            Sequencer::Sequential => match self.sequential(plan, direction) {
                Some(inside) => Some(inside),
                None => self.draw(plan, direction, random),
            },
            Sequencer::Identical => {
                let last = self.last_start[direction];
                Some(last.map_or(0, |last| last.wrapping_sub(self.offset)))
            }
        }
    }

    fn draw(&mut self, plan: &Plan, direction: usize, random: &mut Random) -> Option<u64> {
        let block = self.draw_block(plan, direction, random).or_else(|| {
            if !plan.time_based {
                return None;
            }
            self.forget();
            self.draw_block(plan, direction, random)
        })?;
        block.checked_mul(plan.align[direction])
    }

    fn draw_block(&mut self, plan: &Plan, direction: usize, random: &mut Random) -> Option<u64> {
        if let Some(skew) = &mut self.skew {
            return Some(skew.next());
        }
        let (block, align) = (plan.block[direction].0, plan.align[direction]);
        let bytes = self.region.io_size.min(self.region.real_size);
        let blocks = bytes.saturating_sub(block.saturating_sub(align)) / align;
        if blocks == 0 {
            return None;
        }
        let block = random.below(blocks);
        match &self.map {
            Some(map) if map.is_busy(block) => map.next_free(block),
            Some(_) | None => Some(block),
        }
    }

    fn sequential(&mut self, plan: &Plan, direction: usize) -> Option<u64> {
        let Region { real_size, io_size, later_offset, .. } = self.region;
        let skip = plan.settings.skip;
        let last = &mut self.last_end[direction];
        if *last >= io_size + later_offset && plan.time_based && plan.files.len() == 1 {
            *last = self.offset;
        }
        if *last >= real_size {
            return None;
        }
        // Going backwards starts from the end, but fio only sees that with an offset.
        if *last == self.offset && self.offset > 0 && skip < 0 {
            *last = real_size.min(io_size);
        }
        let inside = last.wrapping_sub(self.offset);
        if inside == 0 || skip == 0 {
            return Some(inside);
        }
        let skipped = inside.wrapping_add_signed(skip);
        if skipped < real_size {
            return Some(skipped);
        }
        Some(if skip > 0 { self.offset } else { real_size.min(io_size).wrapping_add_signed(skip) })
    }
}

impl Plan {
    /// Whether a file has more blocks than 32 bits can count.
    pub(super) fn needs_wide(&self) -> bool {
        let many = |file: &PlanFile| self.map_blocks(file) > u64::from(u32::MAX);
        self.settings.mode.is_random() && self.files.iter().any(many)
    }

    /// A size for the direction that fits `room`; nothing if none does.
    pub(super) fn size_of(&self, direction: usize, room: u64, random: &mut Random) -> Option<u64> {
        let (low, high) = self.block[direction];
        if low == high {
            return Some(low);
        }
        let splits = &self.settings.splits[direction];
        if low > room || (!splits.is_empty() && !self.some_share_fits(direction, room)) {
            return None;
        }
        loop {
            let size = if splits.is_empty() {
                low + random.below(high)
            } else {
                self.weighted(direction, room, random)
            };
            let size = self.rounded(size, low, high);
            if size <= room {
                return Some(size);
            }
        }
    }

    /// Whether drawing by shares can end: a size fits, or the last one does once it is rounded,
    /// which is what fio takes if none was drawn.
    fn some_share_fits(&self, direction: usize, room: u64) -> bool {
        let (low, high) = self.block[direction];
        let shares = || self.settings.splits[direction].iter().filter(|part| part.percent > 0);
        shares().any(|part| part.bytes <= room)
            || shares().next_back().is_some_and(|part| self.rounded(part.bytes, low, high) <= room)
    }

    fn weighted(&self, direction: usize, room: u64, random: &mut Random) -> u64 {
        let end = random.max() / 100;
        let drawn = random.next();
        let (mut size, mut sum) = (0, 0);
        for part in self.settings.splits[direction].iter().filter(|part| part.percent > 0) {
            size = part.bytes;
            sum += part.percent;
            if drawn / sum <= end && size <= room {
                break;
            }
        }
        size
    }

    fn rounded(&self, size: u64, low: u64, high: u64) -> u64 {
        let size = if self.settings.bs_unaligned { size } else { size - size % low };
        size.min(high)
    }
}
