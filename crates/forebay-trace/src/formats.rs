//! A parser for each format. Each is total: any bytes give requests or faults, in bounded memory.

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
use crate::record::{Flags, Names, OBJECTS_MAX, Op, Record};

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
