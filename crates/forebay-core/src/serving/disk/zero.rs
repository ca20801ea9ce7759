//! Zeroing: whole pages by the device, what is left of others through the cache.
//!
//! ```text
//!        Head        piece          piece       Tail
//!   ....|0000|[0000000000000][0000000000000]|000|....
//!              Drop -> Device -> DropAgain      each piece
//!                         |--> Fill             if the device cannot
//!                         '--> DropFailed       if it fails: the last piece
//! ```

use super::{ActiveRequest, DiskOp, DiskOutput, DiskPath, ZeroRange};
use crate::bugs::Bug;
use crate::io::{Input, IoError, Op};
use crate::time::Instant;
use crate::units::{CallId, PAGE_SIZE};

/// What a request that zeroes does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZeroStage {
    /// The bytes before the first whole page are written.
    Head,
    /// The pages of a piece leave the cache, dirty ones for the device.
    Drop,
    /// The device zeroes the piece.
    Device,
    /// Pages of the piece that were read meanwhile leave the cache.
    DropAgain,
    /// They leave it also if the device failed, as it may have zeroed some; then the request ends.
    DropFailed(IoError),
    /// Zeroes are written to the cache instead.
    Fill,
    /// The bytes behind the last whole page are written.
    Tail,
    /// All of it is brought to disk.
    Sync,
}

/// Bytes of a piece: dropping its pages takes well under a millisecond.
const PIECE: u64 = 32 << 20;

/// Where the parts of a request lie.
struct Layout {
    offset: u64,
    /// From here to `tail`, pages are zeroed as a whole.
    head: u64,
    tail: u64,
    end: u64,
}

impl DiskPath {
    fn layout(&self, number: u32) -> Layout {
        let request = self.active(number);
        let DiskOp::Zero { offset, len, .. } = request.op else { unreachable!("it zeroes") };
        let end = offset + len;
        let whole = end - end % PAGE_SIZE;
        let tail = if end == self.exports[request.export as usize].bytes { end } else { whole };
        let head = offset.next_multiple_of(PAGE_SIZE).min(end);
        Layout { offset, head, tail: tail.max(head), end }
    }

    /// The piece that begins where a request stands.
    fn piece(&self, number: u32) -> (u64, u64) {
        let (at, layout) = (self.active(number).at, self.layout(number));
        (at, PIECE.min(layout.tail.saturating_sub(at)))
    }

    /// Does what a request stands at; stages without anything to do are passed.
    pub(super) fn advance_zero(&mut self, now: Instant, number: u32) {
        let request = *self.active(number);
        let DiskOp::Zero { hole, durable, .. } = request.op else { unreachable!("it zeroes") };
        let (layout, handle) = (self.layout(number), self.exports[request.export as usize].handle);
        let write = |offset, len| Op::Write { handle, offset, len, durable: false };
        let op = loop {
            let ActiveRequest { zero, at, .. } = *self.active(number);
            match zero {
                ZeroStage::Head
                    if layout.offset < layout.head && !self.bugs.is(Bug::ZeroSkipsItsHead) =>
                {
                    break write(layout.offset, layout.head - layout.offset);
                }
                ZeroStage::Head => self.stand_at(number, ZeroStage::Drop, layout.head),
                ZeroStage::Drop if at == layout.tail => {
                    self.stand_at(number, ZeroStage::Tail, layout.tail);
                }
                ZeroStage::Drop | ZeroStage::DropAgain | ZeroStage::DropFailed(_) => {
                    let (offset, len) = self.piece(number);
                    break Op::Discard { handle, offset, len };
                }
                ZeroStage::Device => {
                    let (offset, len) = self.piece(number);
                    let export = request.export;
                    let range = ZeroRange { request: number, export, offset, len, hole };
                    self.outputs.push_back(DiskOutput::Zero(range));
                    return;
                }
                ZeroStage::Fill => {
                    let (offset, len) = self.piece(number);
                    break write(offset, len);
                }
                ZeroStage::Tail if layout.tail < layout.end => {
                    break write(layout.tail, layout.end - layout.tail);
                }
                ZeroStage::Tail => self.stand_at(number, ZeroStage::Sync, layout.end),
                ZeroStage::Sync if durable => return self.join_flush(number),
                ZeroStage::Sync => return self.end(number, Ok(())),
            }
        };
        self.engine.handle(now, Input::Call(CallId(number), op));
    }

    /// A call of a request has ended; what comes next follows when the engine is at rest.
    pub(super) fn note_zero(&mut self, number: u32, result: Result<u64, IoError>) {
        let (stage, at) = (self.active(number).zero, self.active(number).at);
        let layout = self.layout(number);
        let (_, piece) = self.piece(number);
        let written = match stage {
            ZeroStage::Head => layout.head - layout.offset,
            ZeroStage::Tail => layout.end - layout.tail,
            ZeroStage::Fill => piece,
            ZeroStage::Drop
            | ZeroStage::Device
            | ZeroStage::DropAgain
            | ZeroStage::DropFailed(_)
            | ZeroStage::Sync => 0,
        };
        match result {
            Err(error) => return self.end(number, Err(error)),
            Ok(moved) if moved < written => return self.end(number, Err(IoError::Device)),
            Ok(_) => {}
        }
        match stage {
            ZeroStage::Head => self.stand_at(number, ZeroStage::Drop, layout.head),
            ZeroStage::Drop => self.stand_at(number, ZeroStage::Device, at),
            ZeroStage::DropFailed(error) => return self.end(number, Err(error)),
            ZeroStage::DropAgain | ZeroStage::Fill => {
                self.stand_at(number, ZeroStage::Drop, at + piece);
            }
            ZeroStage::Tail => self.stand_at(number, ZeroStage::Sync, layout.end),
            ZeroStage::Device | ZeroStage::Sync => unreachable!("no call belongs to these"),
        }
        self.zero_ready.push_back(number);
    }

    /// A device has zeroed a piece, or cannot.
    pub(super) fn end_piece(&mut self, number: u32, result: Result<bool, IoError>) {
        assert_eq!(self.active(number).zero, ZeroStage::Device, "a device was asked to zero");
        let stage = match result {
            Ok(true) => ZeroStage::DropAgain,
            Ok(false) => ZeroStage::Fill,
            Err(error) => ZeroStage::DropFailed(error),
        };
        self.stand_at(number, stage, self.active(number).at);
        self.zero_ready.push_back(number);
    }

    /// Lets a request go on that zeroes; says whether there was one.
    pub(super) fn step_zero(&mut self, now: Instant) -> bool {
        let Some(number) = self.zero_ready.pop_front() else { return false };
        self.advance_zero(now, number);
        true
    }

    fn stand_at(&mut self, number: u32, stage: ZeroStage, at: u64) {
        let request = self.active_mut(number);
        (request.zero, request.at) = (stage, at);
    }
}
