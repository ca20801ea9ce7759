//! The path behind a mounted image: requests for parts of files, one page cache, blocks that are
//! decoded once for all that ask.
//!
//! A request is a list of parts, each a run of bytes of the image as they are, or of what one block
//! decodes to. A part is a call to the [`Engine`]: stored bytes are read from the image, decoded
//! ones from a packed file that has a place for each block in use.
//!
//! ```text
//!   request --parts--> calls --> engine --> Read, Decode ---> world
//!      ^                           ^  |                         |
//!      '---- End <--- Copy --------'  '<------ done, decoded ---'
//! ```
//!
//! A world carries the outputs out in their order, and answers each [`PathOutput::Read`] and each
//! [`PathOutput::Decode`] once.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::block::QueueConfig;
use crate::engine::{self, Engine};
use crate::io::{self, Decode, Input, IoError, Op};
use crate::packed::{self, Pages, RawBytes};
use crate::readahead::{self, Access, AddressSpace, Fault, Readahead};
use crate::stats::Stats;
use crate::time::{Duration, Instant};
use crate::units::{CallId, FileId, FrameId, HandleId, PAGE_SIZE, RequestId};

mod blocks;
#[cfg(test)]
mod tests;

pub use blocks::PackedBlock;

use super::{Part, PartSource};
use blocks::{BLOCK_PAGES, BlockTable};

/// What a path is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathConfig {
    /// Page memory for raw and decoded pages, in pages.
    pub frames: u32,
    /// Requests that may be in flight at once; their numbers lie below this one.
    pub requests_max: u32,
    /// The image is read past the kernel's page cache, so raw pages stay in memory. Otherwise they
    /// leave it when their block has been decoded.
    pub keeps_raw: bool,
    /// The length of the image in bytes.
    pub image_bytes: u64,
}

/// Whether bytes are asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The kernel gets them and keeps them: a block that is no larger than a page leaves memory.
    Last,
    /// They are, soon.
    Early,
}

/// What comes out of the path, to be carried out in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathOutput {
    /// Pages of the image are read into [their frames](ImagePath::frames_of); answered by
    /// [`ImagePath::read_done`].
    Read(io::Request),
    /// Raw bytes become pages; answered by [`ImagePath::decoded`].
    Decode(Decode),
    /// Bytes go from page memory to a request's buffer.
    Copy(CopyOut),
    /// A request has ended: its buffer is filled, or which of its parts failed, and why.
    End(u32, Result<(), (usize, IoError)>),
}

/// A run of bytes that a request receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOut {
    /// The request.
    pub request: u32,
    /// The frame of the first byte; the following pages lie in the following frames.
    pub frame: FrameId,
    /// The first byte's place in its page.
    pub start: u64,
    /// The first byte's place in the request's buffer.
    pub at: u64,
    /// The number of bytes.
    pub len: u64,
}

/// The path behind a mounted image.
#[derive(Debug)]
pub struct ImagePath {
    engine: Engine,
    image_bytes: u64,
    keeps_raw: bool,
    /// Raw pages that are read in one piece for a request at most.
    piece_pages_max: u64,
    image: HandleId,
    blocks: HandleId,
    blocks_file: FileId,
    table: BlockTable,
    requests: Vec<Request>,
    /// Requests with parts for which there was no call, the first to wait first.
    starved: VecDeque<u32>,
    /// What each call does.
    calls: Vec<Call>,
    free_calls: Vec<CallId>,
    resumes: VecDeque<CallId>,
    outputs: VecDeque<PathOutput>,
}

/// A request in flight, or a free place for one.
#[derive(Debug, Default)]
struct Request {
    parts: Vec<Part>,
    /// The first part that no call has begun.
    next: usize,
    /// Parts that calls are busy with, and the piece in front of them.
    open: u32,
    /// Raw bytes of several parts, to be read before the first of them.
    piece: RawBytes,
    error: Option<(usize, IoError)>,
    in_flight: bool,
    /// Small blocks leave memory when it has ended.
    is_last_use: bool,
}

/// A part that a call is busy with.
#[derive(Clone, Copy, Debug, Default)]
struct Call {
    request: u32,
    part: usize,
    /// The place in the table of blocks, of a part that is decoded.
    block: Option<u32>,
}

impl ImagePath {
    /// A path with an empty cache.
    ///
    /// # Panics
    /// If there is no frame, or the calls do not fit [`engine::CALLS_MAX`].
    pub fn new(config: &PathConfig) -> Self {
        let engine_config = engine::Config { frames: config.frames, calls_max: CALLS };
        let mut engine = Engine::new(engine_config);
        let queue = QueueConfig {
            plug: None,
            request_pages_max: REQUEST_PAGES_MAX,
            read_requests_max: CALLS * 4,
            ..QueueConfig::default()
        };
        let device = engine.add_device(queue);
        let image_file = engine.add_file(device, config.image_bytes, 0);
        let off = readahead::Spec::parse("off").expect("the table has it");
        let fill = packed::Spec::parse("off").expect("the table has it");
        let slots = config.frames.saturating_add(CALLS);
        let table = BlockTable::new(slots);
        let blocks_file = engine.add_packed_file(image_file, Box::new(table.map()));
        let blocks = engine.open_packed(blocks_file, off.build(), fill.build());
        let image = engine.open(image_file, Box::new(WholeRequest));
        let requests = core::iter::repeat_with(Request::default);
        Self {
            engine,
            image_bytes: config.image_bytes,
            keeps_raw: config.keeps_raw,
            piece_pages_max: (u64::from(config.frames) / 8).min(REQUEST_PAGES_MAX),
            image,
            blocks,
            blocks_file,
            table,
            requests: requests.take(config.requests_max as usize).collect(),
            starved: VecDeque::with_capacity(config.requests_max as usize),
            calls: core::iter::repeat_n(Call::default(), CALLS as usize).collect(),
            free_calls: (0..CALLS).rev().map(CallId).collect(),
            resumes: VecDeque::with_capacity(CALLS as usize),
            outputs: VecDeque::new(),
        }
    }

    /// Begins a request. Its number names no other one in flight.
    ///
    /// # Panics
    /// If the number is in use or too large.
    pub fn request(&mut self, now: Instant, number: u32, parts: &[Part], kind: Use) {
        let request = &mut self.requests[number as usize];
        assert!(!request.in_flight, "a number names one request at a time");
        request.is_last_use = kind == Use::Last;
        request.parts.clear();
        request.parts.extend_from_slice(parts);
        (request.next, request.open, request.error) = (0, 0, None);
        request.in_flight = true;
        self.requests[number as usize].piece = self.piece_of(parts);
        if parts.is_empty() {
            self.end_if_over(number);
            return;
        }
        self.starved.push_back(number);
        self.settle(now);
    }

    /// A read of the image has ended, after the world worked on it for so long.
    pub fn read_done(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<(), IoError>,
        took: Duration,
    ) {
        self.engine.handle(now, Input::Done(id, result, Some(took)));
        self.settle(now);
    }

    /// A decode has ended, and gave so many bytes of the block. They may be fewer than were wanted
    /// where the format does not keep a block's length.
    pub fn decoded(&mut self, now: Instant, decode: &Decode, result: Result<u64, IoError>) {
        if let Ok(bytes) = result
            && bytes < self.block_of(decode).1
        {
            self.table.shorten(decode.pages.start, bytes);
        }
        self.engine.handle(now, Input::Decoded(decode.id, result.map(|_| ())));
        if !self.keeps_raw {
            // The next block begins on the last page.
            let pages = Pages::new(decode.raw.start / PAGE_SIZE, decode.raw.end / PAGE_SIZE);
            self.engine.drop_pages(decode.image, pages);
        }
        self.settle(now);
    }

    /// The next output.
    pub fn poll_output(&mut self) -> Option<PathOutput> {
        self.outputs.pop_front()
    }

    /// The frames that a read in flight fills, in the order of its pages.
    pub fn frames_of(&self, request: &io::Request) -> impl Iterator<Item = FrameId> + '_ {
        self.engine.frames_of(request)
    }

    /// The pages that a decode in flight fills, counted from its block's first one, and their
    /// frames.
    pub fn filled_by(&self, decode: &Decode) -> impl Iterator<Item = (u64, FrameId)> + '_ {
        self.engine.filled_by(decode).map(|(page, frame)| (page % BLOCK_PAGES, frame))
    }

    /// The frames of the image's pages that a decode's raw bytes lie in, in order.
    pub fn raw_frames_of(&self, decode: &Decode) -> impl Iterator<Item = FrameId> + '_ {
        self.engine.raw_frames_of(decode)
    }

    /// The block that a decode in flight is about, and how many bytes of it are wanted.
    pub fn block_of(&self, decode: &Decode) -> (PackedBlock, u64) {
        let block = self.table.block_at(decode.pages.start);
        (block, (decode.pages.len() * PAGE_SIZE).min(u64::from(block.decoded)))
    }

    /// A part of a request in flight or that has just ended.
    pub fn part(&self, number: u32, part: usize) -> Part {
        self.requests[number as usize].parts[part]
    }

    /// Whether some bytes of a block's content are in memory.
    fn has_decoded(&self, block: &PackedBlock, from: u32, end: u64) -> bool {
        let Some(slot) = self.table.find(block) else { return false };
        let pages = pages_of(slot, u64::from(from), end.min(u64::from(block.decoded)));
        (pages.start..pages.end).all(|page| self.engine.is_resident(self.blocks_file, page))
    }

    /// The request that caused a read of the image.
    pub fn asker(&self, request: &io::Request) -> Option<u32> {
        let call = request.task?;
        Some(self.calls.get(call.index())?.request)
    }

    /// Pages in memory, raw and decoded.
    pub fn resident_pages(&self) -> u64 {
        self.engine.pages_in_memory()
    }

    /// What the engine counted.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Whether nothing is in flight.
    pub fn is_quiet(&self) -> bool {
        self.engine.is_quiet() && self.requests.iter().all(|request| !request.in_flight)
    }

    /// Asserts all invariants.
    pub fn check(&self) {
        self.engine.check();
        assert!(self.resumes.is_empty(), "calls that were woken have resumed");
        let busy = self.calls.len() - self.free_calls.len();
        let open: u32 = self.requests.iter().map(|request| request.open).sum();
        assert_eq!(busy, open as usize, "each call that is busy is of one part");
        assert!(
            self.starved.is_empty() || self.free_calls.is_empty() || self.table.is_full(),
            "parts wait only for a call or for a place of a block"
        );
        let waits = |number: u32| self.starved.contains(&number);
        for (number, request) in (0..).zip(&self.requests) {
            let reads_piece = |call: &Call| call.request == number && call.part == PIECE;
            let is_free = |call: u32| self.free_calls.contains(&CallId(call));
            let waits_for_piece =
                (0..).zip(&self.calls).any(|(n, c)| reads_piece(c) && !is_free(n));
            let has_more = request.in_flight && request.next < request.parts.len();
            let is_queued = has_more && !waits_for_piece;
            assert_eq!(is_queued, waits(number), "request {number} is queued if parts are left");
            assert!(!request.in_flight || has_more || request.open > 0, "a request goes on");
        }
        self.table.check();
    }

    /// Carries on until the engine and all parts wait for the world.
    fn settle(&mut self, now: Instant) {
        loop {
            while let Some(output) = self.engine.poll_output() {
                self.take(output);
            }
            if let Some(call) = self.resumes.pop_front() {
                self.engine.handle(now, Input::Resume(call));
            } else if !self.begin_part(now) {
                return;
            }
        }
    }

    fn take(&mut self, output: io::Output) {
        match output {
            io::Output::Submit(request) => self.outputs.push_back(PathOutput::Read(request)),
            io::Output::Decode(decode) => self.outputs.push_back(PathOutput::Decode(decode)),
            io::Output::Wake(call) => self.resumes.push_back(call),
            io::Output::Copy(copy) => {
                let Call { request, part, .. } = self.calls[copy.call.index()];
                if part == PIECE {
                    return;
                }
                let part = &self.requests[request as usize].parts[part];
                // A read may reach behind its part, so that a whole block is decoded.
                let wanted = if matches!(part.source, PartSource::Ahead(_)) { 0 } else { part.len };
                let len = copy.len.min(wanted.saturating_sub(copy.buffer_offset));
                if len > 0 {
                    let (start, at) = (copy.offset % PAGE_SIZE, part.at + copy.buffer_offset);
                    let copy = CopyOut { request, frame: copy.frame, start, at, len };
                    self.outputs.push_back(PathOutput::Copy(copy));
                }
            }
            io::Output::Reply(call, result) => self.end_part(call, result),
            io::Output::Gather(_) | io::Output::Pause(..) => {
                unreachable!("blocks have no buffers, and the image is read-only")
            }
        }
    }

    /// Begins a part of the request that has waited longest; says whether there was one.
    fn begin_part(&mut self, now: Instant) -> bool {
        let Some(&number) = self.starved.front() else { return false };
        let Some(&call) = self.free_calls.last() else { return false };
        let request = &mut self.requests[number as usize];
        if !request.piece.is_empty() {
            // Its parts come when the piece is there.
            let RawBytes { start: offset, end } = core::mem::take(&mut request.piece);
            request.open += 1;
            self.starved.pop_front();
            self.free_calls.pop();
            self.calls[call.index()] = Call { request: number, part: PIECE, block: None };
            let read = Op::Read { handle: self.image, offset, len: end - offset };
            self.engine.handle(now, Input::Call(call, read));
            return true;
        }
        let place = request.next;
        let part = request.parts[place];
        let begun = match part.source {
            PartSource::Stored(offset) | PartSource::Ahead(offset) => {
                self.stored(offset, part.len).map(|op| (op, None))
            }
            PartSource::Packed(block, inside) => {
                match self.packed(&block, u64::from(inside), part.len) {
                    Some(begun) => begun,
                    None => return false,
                }
            }
        };
        let request = &mut self.requests[number as usize];
        request.next += 1;
        if request.next == request.parts.len() {
            self.starved.pop_front();
        }
        match begun {
            Ok((op, block)) => {
                request.open += 1;
                self.free_calls.pop();
                self.calls[call.index()] = Call { request: number, part: place, block };
                self.engine.handle(now, Input::Call(call, op));
            }
            Err(error) => {
                request.error.get_or_insert((place, error));
                self.end_if_over(number);
            }
        }
        true
    }

    fn stored(&self, offset: u64, len: u64) -> Result<Op, IoError> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.image_bytes);
        if inside {
            Ok(Op::Read { handle: self.image, offset, len })
        } else {
            Err(IoError::Truncated)
        }
    }

    /// The call that decodes a part; none if the table has no place for its block.
    fn packed(
        &mut self,
        block: &PackedBlock,
        inside: u64,
        len: u64,
    ) -> Option<Result<(Op, Option<u32>), IoError>> {
        let end = inside.saturating_add(len);
        let content = u64::from(block.decoded);
        if end > content || content > BLOCK_PAGES * PAGE_SIZE {
            return Some(Err(IoError::Corrupt));
        }
        if block.raw.is_empty() || block.raw.end > self.image_bytes {
            return Some(Err(IoError::Truncated));
        }
        let (slot, is_again) = match self.table.find(block) {
            Some(slot) => (slot, !self.table.is_in_use(slot)),
            None => (self.place_for(block)?, false),
        };
        let wanted = pages_of(slot, inside, end);
        let is_absent = |page| !self.engine.is_resident(self.blocks_file, page);
        // What is decoded a second time is decoded whole, so that there is no third time.
        let is_whole = is_again && (wanted.start..wanted.end).any(is_absent);
        let len = if is_whole { content - inside } else { len };
        let offset = u64::from(slot) * BLOCK_PAGES * PAGE_SIZE + inside;
        self.table.enter(slot);
        Some(Ok((Op::Read { handle: self.blocks, offset, len }, Some(slot))))
    }

    /// A place in the table for a block; another block, whose pages leave memory, gives way.
    fn place_for(&mut self, block: &PackedBlock) -> Option<u32> {
        let (slot, before) = self.table.place(block)?;
        if let Some(before) = before {
            self.engine.drop_pages(self.blocks_file, pages_of(slot, 0, u64::from(before.decoded)));
        }
        Some(slot)
    }

    /// The raw bytes of several parts that lie close together and are not in memory, neither raw
    /// nor decoded: worth one read.
    fn piece_of(&self, parts: &[Part]) -> RawBytes {
        if parts.len() < 2 {
            return RawBytes::default();
        }
        let (mut all, mut sum, mut count) = (RawBytes { start: u64::MAX, end: 0 }, 0, 0);
        for part in parts {
            match part.source {
                PartSource::Stored(_) => {}
                PartSource::Ahead(_) => return RawBytes::default(),
                PartSource::Packed(block, inside) => {
                    let end = u64::from(inside).saturating_add(part.len);
                    if self.has_decoded(&block, inside, end) {
                        continue;
                    }
                }
            }
            let raw = part.raw();
            if raw.end > self.image_bytes {
                return RawBytes::default();
            }
            (all.start, all.end) = (all.start.min(raw.start), all.end.max(raw.end));
            (sum, count) = (sum + raw.len(), count + 1);
        }
        let is_dense = count > 1 && all.len() <= 2 * sum;
        if is_dense && all.pages().len() <= self.piece_pages_max {
            all
        } else {
            RawBytes::default()
        }
    }

    fn end_part(&mut self, call: CallId, result: Result<u64, IoError>) {
        let Call { request: number, part, block } = self.calls[call.index()];
        self.free_calls.push(call);
        let request = &mut self.requests[number as usize];
        request.open -= 1;
        if part == PIECE {
            // If it cannot be read, each part tells for itself.
            self.starved.push_front(number);
            return;
        }
        let Part { len: wanted, source, .. } = request.parts[part];
        let mut is_cut = false;
        if let (Some(slot), PartSource::Packed(block, inside)) = (block, source) {
            is_cut = u64::from(inside) + wanted > self.table.length(slot);
            let is_small = block.decoded as u64 <= PAGE_SIZE;
            if self.table.leave(slot) && is_small && request.is_last_use {
                self.engine.drop_pages(self.blocks_file, pages_of(slot, 0, 1));
            }
        }
        let error = match result {
            Ok(_) if is_cut => Some(IoError::Corrupt),
            Ok(len) if len >= wanted => None,
            // A read that ends early has met an error behind what it gives.
            Ok(_) => Some(IoError::Device),
            Err(error) => Some(error),
        };
        if let Some(error) = error {
            request.error.get_or_insert((part, error));
        }
        self.end_if_over(number);
    }

    fn end_if_over(&mut self, number: u32) {
        let request = &mut self.requests[number as usize];
        if request.in_flight && request.open == 0 && request.next == request.parts.len() {
            request.in_flight = false;
            let result = request.error.map_or(Ok(()), Err);
            self.outputs.push_back(PathOutput::End(number, result));
        }
    }
}

/// Readahead of stored bytes: all of a call's pages at once, and none behind them.
#[derive(Debug)]
struct WholeRequest;

impl Readahead for WholeRequest {
    fn on_read(&mut self, access: &Access, pages: &mut dyn AddressSpace) {
        let end = access.page.saturating_add(access.remaining).min(pages.file_pages());
        for page in access.page..end {
            if pages.folio(page).is_none() && !pages.add(page, 0, false) {
                break;
            }
        }
        pages.submit();
    }

    fn on_fault(&mut self, _fault: &Fault, _pages: &mut dyn AddressSpace) {}
}

/// The pages of the packed file that some bytes of a block's content lie in.
fn pages_of(slot: u32, from: u64, end: u64) -> Pages {
    let base = u64::from(slot) * BLOCK_PAGES;
    Pages::new(base + from / PAGE_SIZE, base + end.div_ceil(PAGE_SIZE))
}

/// In place of a part: the piece that is read in front of all.
const PIECE: usize = usize::MAX;

/// Parts that may be in flight at once.
const CALLS: u32 = 512;

/// Pages in a read of the image at most: 1 MiB.
const REQUEST_PAGES_MAX: u64 = 256;
