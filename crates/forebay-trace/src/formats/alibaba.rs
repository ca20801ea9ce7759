//! Alibaba cloud disks of 2020: CSV without a header.
//!
//! ```text
//!   device_id,opcode,offset,length,timestamp
//!   419,W,8792731648,16384,1577808000000046
//! ```
//!
//! Offset and length are bytes, the timestamp counts microseconds from 1970 on.

use crate::error::Fault;
use crate::formats::{LineParser, Parsed, intern, of_volume};
use crate::record::{Names, Op};
use crate::text::{Fields, short};

#[derive(Default)]
pub(crate) struct Alibaba {
    /// The first timestamp.
    first: Option<u64>,
}

/// Microseconds from 1970 to 1973: smaller numbers are seconds or milliseconds.
const EARLIEST: u64 = 100_000_000_000_000;

impl LineParser for Alibaba {
    #[inline]
    fn line(&mut self, line: &[u8], names: &mut Names) -> Parsed {
        if line.is_empty() {
            return Ok(None);
        }
        let mut fields = Fields::commas(line);
        let device = fields.field("device_id")?;
        short("device_id", device)?;
        let op = match fields.field("opcode")? {
            b"R" => Op::Read,
            b"W" => Op::Write,
            other => return Err(Fault::new("opcode", "R or W", other)),
        };
        let offset = fields.number("offset")?;
        let len = fields.number("length")?;
        let micros = fields.number("timestamp")?;
        fields.end()?;
        let time = micros.checked_mul(1_000);
        let time =
            time.ok_or_else(|| Fault::number("timestamp", "microseconds since 1970", micros))?;
        self.first.get_or_insert(micros);
        let object = intern(names, device)?;
        Ok(Some(of_volume(time, object, op, offset, len)))
    }

    fn warnings(&self) -> Vec<String> {
        let early = self.first.filter(|first| (1..EARLIEST).contains(first));
        let warn = |first| {
            format!(
                "the first timestamp, {first}, is too small for microseconds since 1970: its unit \
                 may be another one"
            )
        };
        early.map(warn).into_iter().collect()
    }
}
