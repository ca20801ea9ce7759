//! Which format the first bytes of a trace have.

use crate::error::{Fault, TraceError};
use crate::format::Format;
use crate::formats::{AnyParser, blktrace, iolog, oracle, vscsi};
use crate::record::Names;

/// The format of a trace with these first bytes, of which the last line may be cut.
///
/// # Errors
/// No format, or an old one that is not read.
pub(crate) fn detect(head: &[u8]) -> Result<Format, TraceError> {
    let unknown = |found: &str| Err(TraceError::UnknownFormat { found: found.to_owned() });
    if head.is_empty() {
        return unknown("the file is empty");
    }
    if head.starts_with(b"fio version") {
        return Ok(Format::FioIolog);
    }
    if blktrace::is_blktrace(head) {
        return Ok(Format::Blktrace);
    }
    if !head.contains(&0) {
        return detect_text(head);
    }
    if vscsi::version(head).is_some() {
        return Ok(Format::Vscsi);
    }
    if oracle::is_oracle(head) {
        return Ok(Format::OracleGeneral);
    }
    unknown("binary data without a known mark")
}

/// Parses the first lines as each text format: the one wins that makes most of them.
fn detect_text(head: &[u8]) -> Result<Format, TraceError> {
    const LINES: usize = 200;
    let whole = head.iter().rposition(|byte| *byte == b'\n').unwrap_or(head.len());
    let lines = || head[..whole].split(|byte| *byte == b'\n').take(LINES);
    let score = |format: Format| {
        let AnyParser::Lines(mut parser) = AnyParser::new(format, head) else { return 0 };
        let (mut names, mut records, mut faults) = (Names::default(), 0i64, 0i64);
        for line in lines() {
            match parser.line(line.strip_suffix(b"\r").unwrap_or(line), &mut names) {
                Ok(Some(_)) => records += 1,
                Ok(None) => {}
                Err(_) => faults += 1,
            }
        }
        // A format that takes a line in ten is not the one.
        if records > faults { records * 2 - faults } else { 0 }
    };
    let scored = Format::ALL.into_iter().map(|format| (score(format), format));
    // Of formats that make the same of it, the first one.
    let best = scored.rev().max_by_key(|(score, _)| *score);
    match best {
        Some((score, format)) if score > 0 => Ok(format),
        _ if iolog::is_version_1(head) => Err(TraceError::UnknownFormat {
            found: "an iolog of fio before 1.20, which has no version line and is not read"
                .to_owned(),
        }),
        _ => {
            let line = lines().next().unwrap_or_default();
            let shown = Fault::new("line", "", line).found;
            Err(TraceError::UnknownFormat { found: format!("the first line is '{shown}'") })
        }
    }
}
