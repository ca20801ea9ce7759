//! Block events as tracefs, trace-cmd and perf script print them.
//!
//! ```text
//!   tracefs    comm-pid [cpu] flags seconds.micros: EVENT: FIELDS
//!   trace-cmd  comm-pid [cpu] seconds.micros: EVENT: FIELDS
//!   perf       comm pid [cpu] seconds.micros: block:EVENT: FIELDS
//!
//!   block_bio_queue                   major,minor rwbs sector + sectors [comm]
//!   block_rq_insert, block_rq_issue   major,minor rwbs bytes (command) sector + sectors ... [comm]
//! ```
//!
//! Requests are taken where they arrive at the block layer (`block_bio_queue`), or at the first of
//! the other two events that the trace has. Lines of other events are left out.

use memchr::memmem;

use crate::error::Fault;
use crate::formats::blkparse::range;
use crate::formats::{LineParser, Parsed, intern, rwbs};
use crate::record::{Names, Record};
use crate::text::{Fields, seconds, short};

pub(crate) struct Ftrace {
    event: &'static [u8],
    /// Times that the kernel says it lost events.
    losses: u64,
}

/// The events that requests are taken from, the best one first.
const EVENTS: [&[u8]; 3] = [b"block_bio_queue: ", b"block_rq_insert: ", b"block_rq_issue: "];

impl Ftrace {
    pub(crate) fn new(head: &[u8]) -> Self {
        let has = |event: &&&[u8]| memmem::find(head, event).is_some();
        Self { event: EVENTS.iter().find(has).unwrap_or(&EVENTS[0]), losses: 0 }
    }
}

impl LineParser for Ftrace {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Parsed {
        if line.trim_ascii_start().starts_with(b"#") || line.is_empty() {
            return Ok(None);
        }
        let Some(at) = memmem::find(line, self.event) else {
            // Anything else that has a time is another event.
            let is_event = memmem::find(line, b": ").is_some() && line.contains(&b'[');
            let is_of_tool =
                [&b"cpus="[..], b"version ", b"CPU "].iter().any(|known| line.starts_with(known));
            if is_event || is_of_tool {
                return Ok(None);
            }
            if line.starts_with(b"CPU:") && memmem::find(line, b"LOST").is_some() {
                self.losses += 1;
                return Ok(None);
            }
            return Err(Fault::new("line", "an event with process, processor and time", line));
        };
        let before = line[..at].trim_ascii_end();
        let before = before.strip_suffix(b"block:").unwrap_or(before).trim_ascii_end();
        let Some(before) = before.strip_suffix(b":") else {
            return Err(Fault::new("time", "seconds before the event, with a colon", before));
        };
        let start = before.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
        let time = seconds("time", &before[start..])?;
        let stream = pid(&before[..start])?;
        let mut fields = Fields::words(&line[at + self.event.len()..]);
        let device = fields.field("device")?;
        let Some((op, flags)) = rwbs::parse(fields.field("rwbs")?)? else { return Ok(None) };
        if self.event != EVENTS[0] {
            fields.number("bytes")?;
            let command = fields.field("command")?;
            if !command.starts_with(b"(") || !command.ends_with(b")") {
                return Err(Fault::new("command", "a command in parentheses", command));
            }
        }
        let (op, offset, len) = range(&mut fields, (op, flags))?;
        let is_device = device.contains(&b',')
            && device.iter().all(|byte| byte.is_ascii_digit() || *byte == b',');
        if !is_device {
            return Err(Fault::new("device", "major,minor", device));
        }
        let object = intern(names, device)?;
        Ok(Some(Record { time, took: None, stream, object, op, flags, offset, len }))
    }

    fn warnings(&self) -> Vec<String> {
        let lost = format!("the kernel lost events, {} times", self.losses);
        (self.losses > 0).then_some(lost).into_iter().collect()
    }
}

/// The process of `comm-pid [cpu] flags` or `comm pid [cpu]`, where comm may hold anything.
fn pid(before: &[u8]) -> Result<u32, Fault> {
    let missing = || Fault::new("process", "a process before the processor in brackets", before);
    let end = memmem::rfind(before, b" [").ok_or_else(missing)?;
    let process = before[..end].trim_ascii_end();
    // trace-cmd may put the thread group behind it, in parentheses.
    let process = match memmem::rfind(process, b"(") {
        Some(at) if process.ends_with(b")") => process[..at].trim_ascii_end(),
        _ => process,
    };
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let digits = process.iter().rev().take_while(|byte| is_digit(byte)).count();
    short("process", &process[process.len() - digits..])
}
