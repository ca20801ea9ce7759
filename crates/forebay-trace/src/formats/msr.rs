//! MSR Cambridge: CSV without a header.
//!
//! ```text
//!   Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime
//!   128166372003061629,src1,2,Read,8050688,4096,1331
//! ```
//!
//! Times count 100 ns from 1601 on (FILETIME), offset and size are bytes, the response time counts
//! 100 ns as well.

use crate::error::Fault;
use crate::formats::{LineParser, Parsed, intern, of_volume};
use crate::record::{Names, Op, Record};
use crate::text::Fields;

/// Ticks of 100 ns from 1601 to 1970.
pub(crate) const EPOCH_TICKS: u64 = 116_444_736_000_000_000;

/// Nanoseconds of a tick.
pub(crate) const TICK: u64 = 100;

#[derive(Default)]
pub(crate) struct Msr {
    /// The name of a volume, as its file is called: `src1_2`.
    volume: Vec<u8>,
}

impl LineParser for Msr {
    #[inline]
    fn line(&mut self, line: &[u8], names: &mut Names) -> Parsed {
        if line.is_empty() {
            return Ok(None);
        }
        let mut fields = Fields::commas(line);
        let ticks = fields.number("timestamp")?;
        let host = fields.field("hostname")?;
        let disk = fields.field("disk number")?;
        let op = match fields.field("type")? {
            b"Read" => Op::Read,
            b"Write" => Op::Write,
            other => return Err(Fault::new("type", "Read or Write", other)),
        };
        let offset = fields.number("offset")?;
        let len = fields.number("size")?;
        let took = fields.number("response time")?;
        fields.end()?;
        if host.is_empty() || !disk.iter().all(u8::is_ascii_digit) || disk.is_empty() {
            return Err(Fault::new("disk number", "a host's name and a number", disk));
        }
        let time = ticks.checked_sub(EPOCH_TICKS).and_then(|ticks| ticks.checked_mul(TICK));
        let time =
            time.ok_or_else(|| Fault::number("timestamp", "100 ns since 1601, after 1970", ticks))?;
        let took = took.checked_mul(TICK);
        let took = took.ok_or_else(|| Fault::new("response time", "a time in 100 ns", b"more"))?;
        self.volume.clear();
        self.volume.extend_from_slice(host);
        self.volume.push(b'_');
        self.volume.extend_from_slice(disk);
        let object = intern(names, &self.volume)?;
        Ok(Some(Record { took: Some(took), ..of_volume(time, object, op, offset, len) }))
    }
}
