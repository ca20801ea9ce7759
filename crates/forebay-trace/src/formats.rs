//! What a parser is, a parser for each format, and their table. Each is total: any bytes give
//! requests or faults, in bounded memory.

pub(crate) mod alibaba;
pub(crate) mod biosnoop;
pub(crate) mod blkparse;
pub(crate) mod blktrace;
pub(crate) mod ftrace;
pub(crate) mod iolog;
pub(crate) mod mqsim;
pub(crate) mod msr;
pub(crate) mod oracle;
pub(crate) mod rwbs;
pub(crate) mod strace;
pub(crate) mod sysbench;
pub(crate) mod tencent;
pub(crate) mod vscsi;

use crate::error::Fault;
use crate::format::Format;
use crate::record::{Flags, Names, OBJECTS_MAX, Op, Record};

/// A line of a text format becomes a request, or nothing. Its time is not yet relative.
pub(crate) trait LineParser {
    /// Takes one line.
    fn line(&mut self, line: &[u8], names: &mut Names) -> Result<Option<Record>, Fault>;

    /// The second request of the line before, if it had two.
    fn second(&mut self) -> Option<Record> {
        None
    }

    /// What a reader of the trace should know.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A record of a binary format becomes a request, or nothing.
pub(crate) trait RecordParser {
    /// The bytes that are enough for one record.
    fn record_max(&self) -> usize;

    /// Takes the first record of `bytes`, which are fewer than [`record_max`](Self::record_max)
    /// only at the end of the trace. Returns how many bytes it has; with none, nothing behind it
    /// can be found.
    fn record(&mut self, bytes: &[u8], names: &mut Names) -> (usize, Parsed);
}

/// What a line or a record came to.
pub(crate) type Parsed = Result<Option<Record>, Fault>;

/// The parser of a format.
pub(crate) enum AnyParser {
    Lines(Box<dyn LineParser>),
    Records(Box<dyn RecordParser>),
}

impl AnyParser {
    /// A parser for a trace with these first bytes.
    pub(crate) fn new(format: Format, head: &[u8]) -> Self {
        let lines: Box<dyn LineParser> = match format {
            Format::Vscsi => return Self::Records(Box::new(vscsi::Vscsi::new(head))),
            Format::OracleGeneral => {
                return Self::Records(Box::new(oracle::OracleGeneral::default()));
            }
            Format::Blktrace => return Self::Records(Box::new(blktrace::Blktrace::new(head))),
            Format::Msr => Box::new(msr::Msr::default()),
            Format::Alibaba => Box::new(alibaba::Alibaba::default()),
            Format::Tencent => Box::new(tencent::Tencent::new(head)),
            Format::FioIolog => Box::new(iolog::Iolog::default()),
            Format::Blkparse => Box::new(blkparse::Blkparse::new(head)),
            Format::Ftrace => Box::new(ftrace::Ftrace::new(head)),
            Format::Biosnoop => Box::new(biosnoop::Biosnoop::default()),
            Format::Strace => Box::new(strace::Strace::default()),
            Format::Sysbench => Box::new(sysbench::Sysbench),
            Format::Mqsim => Box::new(mqsim::Mqsim),
        };
        Self::Lines(lines)
    }
}

/// Bytes of a sector in all formats, whatever the device's logical block size.
pub(crate) const SECTOR: u64 = 512;

/// A request of a volume, which is its stream as well.
#[inline]
pub(crate) fn of_volume(time: u64, object: u32, op: Op, offset: u64, len: u64) -> Record {
    Record { time, took: None, stream: object, object, op, flags: Flags::default(), offset, len }
}

/// Sectors as bytes.
#[inline]
pub(crate) fn bytes(name: &'static str, sectors: u64) -> Result<u64, Fault> {
    let bytes = sectors.checked_mul(SECTOR);
    bytes.ok_or_else(|| Fault::number(name, "a number of sectors below 2^55", sectors))
}

/// The number of a file or a device.
#[inline]
pub(crate) fn intern(names: &mut Names, name: &[u8]) -> Result<u32, Fault> {
    debug_assert_eq!(OBJECTS_MAX, 1 << 20, "the message has the number");
    names.intern(name).ok_or_else(|| Fault::new("name", "at most 1048576 files or devices", name))
}
