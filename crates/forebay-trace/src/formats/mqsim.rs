//! MQSim's text traces: blanks between fields, no header.
//!
//! ```text
//!   arrival device sector sectors type
//!   1000 0 128 8 1
//! ```
//!
//! Arrival is in nanoseconds, sectors have 512 bytes, the type is 0 for a write and 1 for a read.

use crate::error::Fault;
use crate::formats::{LineParser, Parsed, bytes, intern, of_volume};
use crate::record::{Names, Op};
use crate::text::{Fields, short};

pub(crate) struct Mqsim;

impl LineParser for Mqsim {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Parsed {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let mut fields = Fields::words(line);
        let time = fields.number("arrival")?;
        let device = fields.field("device")?;
        short("device", device)?;
        let sector = fields.number("sector")?;
        let sectors = fields.number("sectors")?;
        let op = match fields.field("type")? {
            b"0" => Op::Write,
            b"1" => Op::Read,
            other => return Err(Fault::new("type", "0 or 1", other)),
        };
        fields.end()?;
        let object = intern(names, device)?;
        let (offset, len) = (bytes("sector", sector)?, bytes("sectors", sectors)?);
        Ok(Some(of_volume(time, object, op, offset, len)))
    }
}
