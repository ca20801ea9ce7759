//! What blktrace writes, of kernels with either layout, and of either byte order.
//!
//! ```text
//!   version 7, 48 bytes                     version 8, 64 bytes
//!    0 magic u32 = 0x65617400 | version      0 magic u32
//!    4 sequence u32                          4 sequence u32
//!    8 time u64 (ns)                         8 time u64 (ns)
//!   16 sector u64                           16 sector u64
//!   24 bytes u32                            24 bytes u32
//!   28 action u32                           28 pid u32
//!   32 pid u32                              32 action u64
//!   36 device u32                           40 device u32
//!   40 cpu u32                              44 cpu u32
//!   44 error u16                            48 error u16
//!   46 pdu length u16                       50 pdu length u16
//!   48 pdu                                  52 padding, 64 pdu
//! ```
//!
//! The low 16 bits of an action are its event, the bits above them its categories. Requests are
//! taken where they arrive (queue), or are inserted or issued if the trace has none of those.
//! blktrace writes a file for each processor; `blkparse -d` merges them.

use crate::error::Fault;
use crate::formats::{Parsed, RecordParser, bytes, intern};
use crate::record::{Flags, Names, Op, Record};

/// The upper bits of the first word.
const MAGIC: u32 = 0x6561_7400;

/// Events.
const QUEUE: u64 = 1;
const ISSUE: u64 = 7;
const INSERT: u64 = 12;

/// Categories, shifted as in an action.
const WRITE: u64 = 2 << 16;
const FLUSH: u64 = 4 << 16;
const SYNC: u64 = 8 << 16;
const PC: u64 = 0x200 << 16;
const NOTIFY: u64 = 0x400 << 16;
const AHEAD: u64 = 0x800 << 16;
const META: u64 = 0x1000 << 16;
const DISCARD: u64 = 0x2000 << 16;
const DRIVER: u64 = 0x4000 << 16;
const FUA: u64 = 0x8000 << 16;
/// Requests to zones, of version 8.
const ZONES: u64 = 0x3f << 32;

pub(crate) struct Blktrace {
    /// The event that requests are taken from.
    event: u64,
}

/// The layout of one record, by its first word.
#[derive(Clone, Copy)]
struct Layout {
    is_big: bool,
    is_8: bool,
}

/// Whether a trace begins with a record of blktrace.
pub(crate) fn is_blktrace(head: &[u8]) -> bool {
    Layout::of(head).is_some()
}

impl Layout {
    fn of(data: &[u8]) -> Option<Self> {
        let word: [u8; 4] = data.get(..4)?.try_into().ok()?;
        let of = |word: u32, is_big| match word ^ MAGIC {
            7 => Some(Self { is_big, is_8: false }),
            8 => Some(Self { is_big, is_8: true }),
            _ => None,
        };
        of(u32::from_le_bytes(word), false).or_else(|| of(u32::from_be_bytes(word), true))
    }

    const fn header(self) -> usize {
        if self.is_8 { 64 } else { 48 }
    }

    /// An unsigned integer of `size` bytes.
    fn get(self, data: &[u8], at: usize, size: usize) -> u64 {
        let field = &data[at..at + size];
        let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        if self.is_big { field.iter().fold(0, add) } else { field.iter().rev().fold(0, add) }
    }

    fn pdu(self, data: &[u8]) -> usize {
        self.get(data, if self.is_8 { 50 } else { 46 }, 2) as usize
    }

    fn action(self, data: &[u8]) -> u64 {
        if self.is_8 { self.get(data, 32, 8) } else { self.get(data, 28, 4) }
    }
}

impl Blktrace {
    pub(crate) fn new(head: &[u8]) -> Self {
        let (mut rest, mut seen) = (head, [false; 16]);
        while let Some(layout) = Layout::of(rest)
            && rest.len() >= layout.header()
        {
            let action = layout.action(rest);
            if action & NOTIFY == 0 {
                seen[(action & 0xf) as usize] = true;
            }
            rest = rest.get(layout.header() + layout.pdu(rest)..).unwrap_or_default();
        }
        let has = |event: &u64| seen[*event as usize];
        Self { event: [QUEUE, INSERT].into_iter().find(has).unwrap_or(ISSUE) }
    }
}

impl RecordParser for Blktrace {
    fn record_max(&self) -> usize {
        64 + u16::MAX as usize
    }

    fn record(&mut self, data: &[u8], names: &mut Names) -> (usize, Parsed) {
        let Some(layout) = Layout::of(data) else {
            let expected = "the mark of blktrace, version 7 or 8";
            return (0, Err(Fault::new("magic", expected, &data[..data.len().min(4)])));
        };
        let cut = |found: usize| Fault::number("record", "a whole record at the end", found as u64);
        if data.len() < layout.header() {
            return (data.len(), Err(cut(data.len())));
        }
        let size = layout.header() + layout.pdu(data);
        if data.len() < size {
            return (data.len(), Err(cut(data.len())));
        }
        (size, self.request(layout, data, names))
    }
}

impl Blktrace {
    fn request(&self, layout: Layout, data: &[u8], names: &mut Names) -> Parsed {
        let action = layout.action(data);
        // The event lies in the low byte; the bit above it only says that a cgroup follows.
        let is_wanted = action & 0xff == self.event && action & (NOTIFY | PC | DRIVER) == 0;
        if !is_wanted || (layout.is_8 && action & ZONES != 0) {
            return Ok(None);
        }
        let (pid, device) = if layout.is_8 { (28, 40) } else { (32, 36) };
        let len = layout.get(data, 24, 4);
        let op = if action & DISCARD != 0 {
            Op::Discard
        } else if len == 0 && action & FLUSH != 0 {
            Op::Flush
        } else if action & WRITE != 0 {
            Op::Write
        } else {
            Op::Read
        };
        let named = [
            (FUA, Flags::DURABLE),
            (SYNC, Flags::SYNC),
            (AHEAD, Flags::READAHEAD),
            (META, Flags::META),
            (FLUSH, Flags::PREFLUSH),
        ];
        let set = named.iter().filter(|(bit, _)| action & bit != 0);
        let flags = set.fold(Flags::default(), |flags, (_, flag)| flags.with(*flag));
        let device = layout.get(data, device, 4);
        let name = format!("{},{}", device >> 20, device & 0xf_ffff);
        let object = intern(names, name.as_bytes())?;
        let sector = if op == Op::Flush { 0 } else { layout.get(data, 16, 8) };
        let offset = bytes("sector", sector)?;
        Ok(Some(Record {
            time: layout.get(data, 8, 8),
            took: None,
            stream: layout.get(data, pid, 4) as u32,
            object,
            op,
            flags,
            offset,
            len,
        }))
    }
}
