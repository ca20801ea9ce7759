//! CloudPhysics virtual disks: little-endian records without a header.
//!
//! ```text
//!   version 1  sn u32 | len u32 | nSG u32 | cmd u16 | ver u16 | lbn u64 | ts u64
//!   version 2  cmd u16 | ver u16 | sn u32 | len u32 | nSG u32 | lbn u64 | ts u64 | rt u64
//! ```
//!
//! The version is the high byte of `ver`. `cmd` is a SCSI opcode, `len` is bytes, `lbn` counts
//! sectors of 512 bytes, `ts` and `rt` count microseconds.

use crate::error::Fault;
use crate::formats::{Parsed, RecordParser, SECTOR, bytes, intern, of_volume};
use crate::record::{Names, Op, Record};

/// The one disk of such a trace.
pub(crate) const DISK: &[u8] = b"disk";

/// Bytes of a record of version 1.
pub(crate) const RECORD_1: usize = 32;

/// The version in the high byte of `ver`, version 1.
pub(crate) const VERSION_1: u16 = 1 << 8;

const RECORD_2: usize = 40;

/// READ(10), READ(12), READ(16).
const READS: [u16; 3] = [0x28, 0xa8, 0x88];
/// WRITE(10), WRITE(12), WRITE(16).
const WRITES: [u16; 3] = [0x2a, 0xaa, 0x8a];

pub(crate) struct Vscsi {
    is_2: bool,
}

/// The version of a trace with these first bytes.
pub(crate) fn version(head: &[u8]) -> Option<u8> {
    let is = |version: u8, size: usize, at: usize| {
        let whole = head.len() / size;
        whole > 0 && (0..whole.min(2)).all(|record| head[record * size + at] == version)
    };
    // The high byte of `ver` in the first two records.
    match (is(1, RECORD_1, 15), is(2, RECORD_2, 3)) {
        (true, false) => Some(1),
        (false, true) => Some(2),
        (true, true) | (false, false) => None,
    }
}

impl Vscsi {
    pub(crate) fn new(head: &[u8]) -> Self {
        Self { is_2: version(head) == Some(2) }
    }
}

impl RecordParser for Vscsi {
    fn record_max(&self) -> usize {
        if self.is_2 { RECORD_2 } else { RECORD_1 }
    }

    fn record(&mut self, data: &[u8], names: &mut Names) -> (usize, Parsed) {
        let size = self.record_max();
        let Some(data) = data.get(..size) else {
            let fault = Fault::number("record", "a whole record at the end", data.len() as u64);
            return (data.len(), Err(fault));
        };
        let parsed = if self.is_2 {
            let took = u64_at(data, 32).checked_mul(1_000);
            let fields = (u16_at(data, 0), u16_at(data, 2), u32_at(data, 8));
            request(fields, u64_at(data, 16), u64_at(data, 24), names)
                .map(|record| record.map(|record| Record { took, ..record }))
        } else {
            let fields = (u16_at(data, 12), u16_at(data, 14), u32_at(data, 4));
            request(fields, u64_at(data, 16), u64_at(data, 24), names)
        };
        (size, parsed)
    }
}

fn request((cmd, ver, len): (u16, u16, u32), lbn: u64, micros: u64, names: &mut Names) -> Parsed {
    if !(1..=2).contains(&(ver >> 8)) {
        return Err(Fault::number("ver", "version 1 or 2 in the high byte", ver.into()));
    }
    let op = if READS.contains(&cmd) {
        Op::Read
    } else if WRITES.contains(&cmd) {
        Op::Write
    } else {
        // Other commands of SCSI move no data.
        return Ok(None);
    };
    let time = micros.checked_mul(1_000);
    let time = time.ok_or_else(|| Fault::number("ts", "a time in microseconds", micros))?;
    debug_assert_eq!(SECTOR, 512, "lbn counts sectors");
    let object = intern(names, DISK)?;
    Ok(Some(of_volume(time, object, op, bytes("lbn", lbn)?, len.into())))
}

/// Little-endian fields of a record whose length was checked.
pub(crate) fn u16_at(data: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([data[at], data[at + 1]])
}

pub(crate) fn u32_at(data: &[u8], at: usize) -> u32 {
    u32::from(u16_at(data, at)) | u32::from(u16_at(data, at + 2)) << 16
}

pub(crate) fn u64_at(data: &[u8], at: usize) -> u64 {
    u64::from(u32_at(data, at)) | u64::from(u32_at(data, at + 4)) << 32
}
