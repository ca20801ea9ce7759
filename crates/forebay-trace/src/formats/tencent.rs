//! Tencent cloud disks of 2018: CSV without a header.
//!
//! ```text
//!   Timestamp,Offset,Size,IOType,VolumeID
//!   1538323200,12910952,128,0,1063
//! ```
//!
//! The timestamp counts seconds, the type is 0 for a read and 1 for a write. Offset and size are
//! sectors of 512 bytes; one redistribution has the offset in bytes, which shows in a common
//! divisor of 512 or more.

use crate::error::Fault;
use crate::formats::{LineParser, Parsed, bytes, intern, of_volume};
use crate::record::{Names, Op};
use crate::text::{Fields, short};

pub(crate) struct Tencent {
    /// The offset is in bytes.
    offset_in_bytes: bool,
}

impl Tencent {
    pub(crate) fn new(head: &[u8]) -> Self {
        let lines = head.split(|byte| *byte == b'\n');
        let offsets = lines.filter_map(|line| {
            let mut fields = Fields::commas(line);
            fields.number("timestamp").ok()?;
            fields.number("offset").ok()
        });
        let (mut count, mut divisor) = (0, 0);
        for offset in offsets {
            count += 1;
            divisor = greatest_common_divisor(divisor, offset);
        }
        // A few offsets may have a divisor by chance.
        const TELLING: usize = 16;
        Self { offset_in_bytes: count >= TELLING && divisor >= 512 }
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl LineParser for Tencent {
    #[inline]
    fn line(&mut self, line: &[u8], names: &mut Names) -> Parsed {
        if line.is_empty() {
            return Ok(None);
        }
        let mut fields = Fields::commas(line);
        let second = fields.number("timestamp")?;
        let offset = fields.number("offset")?;
        let sectors = fields.number("size")?;
        let op = match fields.field("type")? {
            b"0" => Op::Read,
            b"1" => Op::Write,
            other => return Err(Fault::new("type", "0 or 1", other)),
        };
        let volume = fields.field("volume")?;
        short("volume", volume)?;
        fields.end()?;
        let time = second.checked_mul(1_000_000_000);
        let time = time.ok_or_else(|| Fault::number("timestamp", "seconds since 1970", second))?;
        let offset = if self.offset_in_bytes { offset } else { bytes("offset", offset)? };
        let object = intern(names, volume)?;
        Ok(Some(of_volume(time, object, op, offset, bytes("size", sectors)?)))
    }

    fn warnings(&self) -> Vec<String> {
        let said = "offsets are taken for bytes: all are multiples of 512 or more";
        self.offset_in_bytes.then(|| said.to_owned()).into_iter().collect()
    }
}
