//! What sysbench fileio prints with `--debug=on`, a line for each request.
//!
//! ```text
//!   DEBUG: Executing request, operation: 1, file_id: 87, pos: 2949120, size: 16384
//! ```
//!
//! Operation 1 reads, 2 writes and 3 syncs. There are no times: the requests follow each other.
//! sysbench prints positions in 32 bits; one that became negative is a fault.

use crate::error::Fault;
use crate::formats::{LineParser, Parsed, intern, of_volume};
use crate::record::{Names, Op, Record};
use crate::text::{number, short};

pub(crate) struct Sysbench;

impl LineParser for Sysbench {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Parsed {
        const MARK: &[u8] = b"Executing request, operation: ";
        let Some(at) = memchr::memmem::find(line, MARK) else { return Ok(None) };
        let mut rest = &line[at + MARK.len()..];
        let operation = until_comma(&mut rest);
        let file = named(&mut rest, "file_id", b" file_id: ")?;
        let pos = named(&mut rest, "pos", b" pos: ")?;
        let size = named(&mut rest, "size", b" size: ")?;
        let op = match operation {
            b"1" => Op::Read,
            b"2" => Op::Write,
            b"3" => Op::Sync,
            other => return Err(Fault::new("operation", "1, 2 or 3", other)),
        };
        short("file_id", file)?;
        let object = intern(names, &[b"test_file.", file].concat())?;
        let (offset, len) = (number("pos", pos)?, number("size", size)?);
        let (offset, len) = if op == Op::Sync { (0, 0) } else { (offset, len) };
        Ok(Some(Record { stream: 0, ..of_volume(0, object, op, offset, len) }))
    }
}

fn until_comma<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let end = memchr::memchr(b',', rest).unwrap_or(rest.len());
    let field = &rest[..end];
    *rest = rest.get(end + 1..).unwrap_or_default();
    field.trim_ascii_end()
}

fn named<'a>(rest: &mut &'a [u8], name: &'static str, key: &[u8]) -> Result<&'a [u8], Fault> {
    let Some(behind) = rest.strip_prefix(key) else {
        return Err(Fault::new(name, "the field behind its name", rest));
    };
    *rest = behind;
    Ok(until_comma(rest))
}
