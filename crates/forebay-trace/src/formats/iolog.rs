//! fio's log of its requests, versions 2 and 3.
//!
//! ```text
//!   fio version 2 iolog                 fio version 3 iolog
//!   FILE add | open | close             USEC FILE add | open | close
//!   FILE ACTION OFFSET LENGTH           USEC FILE ACTION OFFSET LENGTH
//!   FILE wait MSEC LENGTH
//! ```
//!
//! Actions are read, write, sync, datasync and trim; offset and length are bytes. Times of version
//! 3 are microseconds since the run began. In version 2, `wait` waits until the given number of
//! milliseconds after the start of the job, as fio does; its manual says otherwise. fio appends, so
//! a file can hold several runs: each follows the previous one.

use crate::error::Fault;
use crate::formats::{LineParser, Parsed, intern, of_volume};
use crate::record::{Names, Op, Record};
use crate::text::{Fields, number};

#[derive(Default)]
pub(crate) struct Iolog {
    /// The version of the last header, if there was one.
    version: Option<u8>,
    /// Where the present run begins, in nanoseconds.
    base: u64,
    /// The latest time so far.
    now: u64,
    runs: u64,
}

/// Whether the first line is one of version 1: direction, offset and length without a header.
pub(crate) fn is_version_1(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut fields = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let direction = fields.next().is_some_and(|field| field == b"0" || field == b"1");
    direction && fields.clone().count() == 2 && fields.all(|field| number("", field).is_ok())
}

impl Iolog {
    fn header(&mut self, version: &[u8]) -> Parsed {
        self.version = Some(match version {
            b"2 iolog" => 2,
            b"3 iolog" => 3,
            other => return Err(Fault::new("version", "2 or 3", other)),
        });
        self.base = self.now;
        self.runs += 1;
        Ok(None)
    }

    /// A time of the present run.
    fn time(&mut self, field: &'static str, count: u64, unit: u64) -> Result<u64, Fault> {
        let time = count.checked_mul(unit).and_then(|time| time.checked_add(self.base));
        let time = time.ok_or_else(|| Fault::number(field, "a time since the run began", count))?;
        self.now = self.now.max(time);
        Ok(time)
    }
}

impl LineParser for Iolog {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Parsed {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        if let Some(version) = line.strip_prefix(b"fio version ") {
            return self.header(version.trim_ascii_end());
        }
        let Some(version) = self.version else {
            return Err(Fault::new("header", "'fio version 2 iolog' or 3 in the first line", line));
        };
        let mut fields = Fields::words(line);
        let mut time = self.now;
        if version == 3 {
            let micros = fields.number("timestamp")?;
            time = self.time("timestamp", micros, 1_000)?;
        }
        let file = fields.field("file name")?;
        let action = fields.field("action")?;
        let op = match action {
            b"add" => {
                fields.end()?;
                intern(names, file)?;
                return Ok(None);
            }
            b"open" => Op::Open,
            b"close" => Op::Close,
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"sync" => Op::Sync,
            b"datasync" => Op::DataSync,
            b"trim" => Op::Discard,
            b"wait" if version == 2 => {
                let millis = fields.number("wait")?;
                fields.number("length")?;
                fields.end()?;
                self.time("wait", millis, 1_000_000)?;
                return Ok(None);
            }
            other => {
                let expected = "add, open, close, read, write, sync, datasync, trim, or wait in \
                                version 2";
                return Err(Fault::new("action", expected, other));
            }
        };
        let (mut offset, mut len) = (0, 0);
        if !matches!(op, Op::Open | Op::Close) {
            offset = fields.number("offset")?;
            len = fields.number("length")?;
        }
        fields.end()?;
        let object = intern(names, file)?;
        Ok(Some(Record { stream: 0, ..of_volume(time, object, op, offset, len) }))
    }

    fn warnings(&self) -> Vec<String> {
        let said = format!("the log holds {} runs; each follows the one before it", self.runs);
        (self.runs > 1).then_some(said).into_iter().collect()
    }
}
