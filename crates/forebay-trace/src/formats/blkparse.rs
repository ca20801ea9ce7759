//! What blkparse prints by default.
//!
//! ```text
//!   major,minor cpu sequence seconds.nanoseconds pid action rwbs sector + sectors [process]
//!     8,0    1        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
//! ```
//!
//! Requests are taken where they arrive at the block layer (`Q`), or where they enter its queue
//! (`I`) or are issued (`D`) if a filter has left the others out. The summary behind the events is
//! not read; events of another run may follow it.

use crate::error::Fault;
use crate::formats::{LineParser, Parsed, bytes, intern, rwbs};
use crate::record::{Flags, Names, Op, Record};
use crate::text::{Fields, number, seconds};

pub(crate) struct Blkparse {
    action: u8,
    in_summary: bool,
}

impl Blkparse {
    pub(crate) fn new(head: &[u8]) -> Self {
        let lines = || head.split(|byte| *byte == b'\n').filter_map(Event::split);
        let has = |action: u8| lines().any(|event| event.action == [action]);
        let action = b"QI".iter().copied().find(|action| has(*action)).unwrap_or(b'D');
        Self { action, in_summary: false }
    }
}

/// The fields that all actions have.
struct Event<'a> {
    device: &'a [u8],
    time: &'a [u8],
    pid: &'a [u8],
    action: &'a [u8],
    rest: Fields<'a>,
}

impl<'a> Event<'a> {
    fn split(line: &'a [u8]) -> Option<Self> {
        let mut fields = Fields::words(line);
        let device = fields.next()?;
        let is_device = device.contains(&b',') && device[0].is_ascii_digit();
        let (_cpu, _sequence) = (fields.next()?, fields.next()?);
        let (time, pid, action) = (fields.next()?, fields.next()?, fields.next()?);
        is_device.then_some(Self { device, time, pid, action, rest: fields })
    }
}

impl LineParser for Blkparse {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Parsed {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let Some(event) = Event::split(line) else {
            self.in_summary |= line.starts_with(b"CPU") || line.starts_with(b"Total");
            if self.in_summary {
                return Ok(None);
            }
            return Err(Fault::new("line", "major,minor cpu sequence time pid action", line));
        };
        self.in_summary = false;
        let time = seconds("time", event.time)?;
        if event.action != [self.action] {
            return match event.action {
                [
                    b'Q' | b'G' | b'I' | b'S' | b'D' | b'M' | b'F' | b'C' | b'P' | b'U' | b'T'
                    | b'A' | b'X' | b'm' | b'R' | b'B' | b'a',
                ]
                | b"UT" => Ok(None),
                other => Err(Fault::new("action", "a letter of blkparse", other)),
            };
        }
        let mut rest = event.rest;
        let Some((op, flags)) = rwbs::parse(rest.field("rwbs")?)? else { return Ok(None) };
        let pid = crate::text::short("pid", event.pid)?;
        let (op, offset, len) = range(&mut rest, (op, flags))?;
        let object = intern(names, event.device)?;
        Ok(Some(Record { time, took: None, stream: pid, object, op, flags, offset, len }))
    }
}

/// `SECTOR + SECTORS` behind the letters of a request, and what the request is with them: a write
/// of nothing with a flush before it is that flush, which may have no sectors here at all.
pub(crate) fn range(
    fields: &mut Fields<'_>,
    (op, flags): (Op, Flags),
) -> Result<(Op, u64, u64), Fault> {
    const FLUSH: (Op, u64, u64) = (Op::Flush, 0, 0);
    if op == Op::Flush {
        return Ok(FLUSH);
    }
    let flushes = flags.has(Flags::PREFLUSH);
    let sector = fields.field("sector")?;
    if flushes && sector.starts_with(b"[") {
        return Ok(FLUSH);
    }
    let sector = number("sector", sector)?;
    let plus = fields.field("+")?;
    if plus != b"+" {
        return Err(Fault::new("sectors", "'+' between sector and sectors", plus));
    }
    let sectors = fields.number("sectors")?;
    if flushes && sectors == 0 {
        return Ok(FLUSH);
    }
    Ok((op, bytes("sector", sector)?, bytes("sectors", sectors)?))
}
