//! What biosnoop of bcc prints.
//!
//! ```text
//!   TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)
//!   0.000004    supervise      1950   xvda1   W 13092560   4096      0.74
//! ```
//!
//! The time is that of the completion; the latency is taken off it. Columns are found by their
//! names, and those behind COMM from the right, because a name may hold blanks.

use crate::error::Fault;
use crate::formats::{LineParser, Parsed, bytes, intern, rwbs};
use crate::record::{Names, Op, Record};
use crate::text::{Fields, milliseconds, number, seconds, short};

/// Added to all times, so that the first request can have begun before the trace.
const LEAD: u64 = 3_600_000_000_000;

pub(crate) struct Biosnoop {
    /// Where columns stand, counted from the last one.
    pid: usize,
    disk: usize,
    kind: usize,
    sector: usize,
    bytes: usize,
    latency: usize,
    /// Fields behind the name of the process.
    behind: usize,
}

impl Default for Biosnoop {
    fn default() -> Self {
        Self { pid: 6, disk: 5, kind: 4, sector: 3, bytes: 2, latency: 1, behind: 6 }
    }
}

impl Biosnoop {
    fn header(line: &[u8]) -> Result<Self, Fault> {
        let columns: Vec<&[u8]> = words(line);
        let place = |name: &'static str| {
            let at = columns.iter().position(|column| *column == name.as_bytes());
            at.map(|at| columns.len() - at).ok_or_else(|| Fault::new(name, "a column", line))
        };
        let is_first = columns.first().is_some_and(|first| *first == b"TIME(s)");
        if !is_first || columns.get(1).is_none_or(|second| *second != b"COMM") {
            return Err(Fault::new("header", "TIME(s) and COMM as the first columns", line));
        }
        Ok(Self {
            pid: place("PID")?,
            disk: place("DISK")?,
            kind: place("T")?,
            sector: place("SECTOR")?,
            bytes: place("BYTES")?,
            latency: place("LAT(ms)")?,
            behind: columns.len() - 2,
        })
    }
}

fn words(line: &[u8]) -> Vec<&[u8]> {
    let mut fields = Fields::words(line);
    // A line of biosnoop has some ten words; one of a damaged file may have many.
    const WORDS_MAX: usize = 64;
    std::iter::from_fn(|| fields.next()).take(WORDS_MAX).collect()
}

impl LineParser for Biosnoop {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Parsed {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        if line.starts_with(b"TIME") {
            *self = Self::header(line)?;
            return Ok(None);
        }
        let words = words(line);
        if words.len() < self.behind + 2 {
            return Err(Fault::new("line", "time, process and all columns of the header", line));
        }
        let at = |place: usize| words[words.len() - place];
        let done = seconds("TIME(s)", words[0])?;
        let latency = milliseconds("LAT(ms)", at(self.latency))?;
        let stream = short("PID", at(self.pid))?;
        let Some((op, flags)) = rwbs::parse(at(self.kind))? else { return Ok(None) };
        let sector = number("SECTOR", at(self.sector))?;
        let len = number("BYTES", at(self.bytes))?;
        let begun = done.checked_add(LEAD).and_then(|done| done.checked_sub(latency));
        let time = begun.ok_or_else(|| {
            Fault::new("LAT(ms)", "a request that began at most an hour before the trace", line)
        })?;
        let (offset, len) = if op == Op::Flush { (0, 0) } else { (bytes("SECTOR", sector)?, len) };
        let object = intern(names, at(self.disk))?;
        let took = Some(latency);
        Ok(Some(Record { time, took, stream, object, op, flags, offset, len }))
    }
}
