//! What a kernel asked of a mounted image, as text.
//!
//! ```text
//!   forebay-reads 1                                the format
//!   image 63782912 9f86d081884c7d65                length in bytes, and a hash of its two ends
//!   read 1042000 1093000 2210 417 8192 4096        begin and end in nanoseconds, task, node of the
//!                                                  image, first byte, bytes
//!   end 1                                          how many requests there are
//! ```
//!
//! Lines stand in the order in which the requests ended. A recording without its last line was not
//! brought to its end: the mount was killed, or is still there. What stands behind the last line
//! break is a part of a line that was not written to its end.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::time::Instant;

/// A recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// The length of the image in bytes, and a hash of its two ends.
    pub image: (u64, u64),
    /// The requests, in the order in which they ended.
    pub reads: Vec<RecordedRead>,
    /// Whether the last line is there.
    pub is_whole: bool,
}

/// A READ request that was answered. One that was refused is asked again, page by page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedRead {
    /// When it came, since the mount began.
    pub begin: Instant,
    /// When it was answered.
    pub end: Instant,
    /// The task that waited for it.
    pub task: u32,
    /// The node of the image.
    pub node: u64,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
}

/// Why a text is no recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

impl Recording {
    /// Whether a text begins as a recording does.
    pub fn is_one(text: &str) -> bool {
        text.lines().next() == Some(MAGIC)
    }

    /// Reads a recording.
    ///
    /// # Errors
    /// The first line that is not of one.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let wrong = |line, what: &str| RecordingError { line, what: what.to_string() };
        if !Self::is_one(text) {
            return Err(wrong(1, "a recording begins with 'forebay-reads 1'"));
        }
        let whole_lines = text.rfind('\n').map_or("", |last| &text[..last]);
        let mut lines = (1..).zip(whole_lines.lines()).skip(1);
        let image = lines.next().and_then(|(_, line)| image(line));
        let image = image.ok_or_else(|| wrong(2, "expected 'image BYTES HASH'"))?;
        let (mut reads, mut is_whole) = (Vec::new(), false);
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            if is_whole {
                return Err(wrong(number, "a line behind the end"));
            }
            if let Some(count) = line.strip_prefix("end ") {
                if count.parse() != Ok(reads.len()) {
                    return Err(wrong(
                        number,
                        &format!("there are {} requests above", reads.len()),
                    ));
                }
                is_whole = true;
                continue;
            }
            if reads.len() == READS_MAX {
                return Err(wrong(number, &format!("more than {READS_MAX} requests")));
            }
            reads.push(RecordedRead::parse(line).map_err(|what| wrong(number, what))?);
        }
        Ok(Self { image, reads, is_whole })
    }

    /// The lines in front of the requests.
    pub fn header(image: (u64, u64)) -> String {
        format!("{MAGIC}\nimage {} {:016x}\n", image.0, image.1)
    }

    /// The line behind a number of requests.
    pub fn end(reads: usize) -> String {
        format!("end {reads}\n")
    }
}

impl RecordedRead {
    fn parse(line: &str) -> Result<Self, &'static str> {
        let rest = line.strip_prefix("read ").ok_or("expected 'read' and six numbers")?;
        let numbers: Option<Vec<u64>> = rest.split(' ').map(|word| word.parse().ok()).collect();
        let Some([begin, end, task, node, offset, len]) = numbers.as_deref() else {
            return Err("expected six numbers behind 'read'");
        };
        let task = u32::try_from(*task).map_err(|_| "the task is no 32-bit number")?;
        let (begin, end) = (Instant(*begin), Instant(*end));
        if end < begin {
            return Err("it ends before it begins");
        }
        if *len == 0 || *len > LEN_MAX || offset.checked_add(*len).is_none() {
            return Err("a request is of 1 to 1048576 bytes");
        }
        Ok(Self { begin, end, task, node: *node, offset: *offset, len: *len })
    }
}

impl fmt::Display for RecordedRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { begin, end, task, node, offset, len } = self;
        write!(f, "read {} {} {task} {node} {offset} {len}", begin.0, end.0)
    }
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl core::error::Error for RecordingError {}

fn image(line: &str) -> Option<(u64, u64)> {
    let (bytes, hash) = line.strip_prefix("image ")?.split_once(' ')?;
    Some((bytes.parse().ok()?, u64::from_str_radix(hash, 16).ok()?))
}

const MAGIC: &str = "forebay-reads 1";

/// Requests of a recording: some 300 MB of text.
const READS_MAX: usize = 1 << 22;

/// Bytes of a request: what FUSE allows.
const LEN_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        let read = RecordedRead {
            begin: Instant(17),
            end: Instant(19),
            task: 4,
            node: 1 << 50,
            offset: 8192,
            len: 4096,
        };
        let image = (63_782_912, 0x9f86_d081_884c_7d65);
        let text = format!("{}{read}\n{read}\n", Recording::header(image));
        let found = Recording::parse(&text).unwrap();
        let expected = Recording { image, reads: alloc::vec![read; 2], is_whole: false };
        assert_eq!(found, expected);
        let whole = Recording::parse(&format!("{text}{}", Recording::end(2))).unwrap();
        assert_eq!(whole, Recording { is_whole: true, ..expected });
    }

    #[test]
    fn a_line_that_was_not_written_to_its_end_is_none() {
        let header = Recording::header((1, 2));
        let text = format!("{header}read 1 2 3 4 5 6\nread 7 8 3 4 5 4096\nend 2\n");
        let parsed = |end: usize| Recording::parse(&text[..end]);
        for end in header.len()..=text.len() {
            let found = parsed(end).unwrap();
            assert_eq!(found.reads.len(), text[header.len()..end].matches("6\n").count());
            assert_eq!(found.is_whole, end == text.len());
        }
        assert_eq!(parsed(header.len() - 1).unwrap_err().line, 2);
    }

    #[test]
    fn the_line_that_is_wrong_is_named() {
        let header = Recording::header((1, 2));
        for (line, text) in [
            (1, String::new()),
            (1, "forebay-profile 1\n".to_string()),
            (2, "forebay-reads 1\nimage x\n".to_string()),
            (3, format!("{header}write 1 2 3 4 5 6\n")),
            (3, format!("{header}read 1 2 3 4 5\n")),
            (3, format!("{header}read 1 2 3 4 5 6 7\n")),
            (3, format!("{header}read 2 1 3 4 5 6\n")),
            (3, format!("{header}read 1 2 4294967296 4 5 6\n")),
            (3, format!("{header}read 1 2 3 4 5 0\n")),
            (3, format!("{header}read 1 2 3 4 18446744073709551615 6\n")),
            (3, format!("{header}end 1\n")),
            (4, format!("{header}read 1 2 3 4 5 6\nend 2\n")),
            (4, format!("{header}end 0\nread 1 2 3 4 5 6\n")),
            (4, format!("{header}read 1 2 3 4 5 6\nread 1 2 3 4 5 1048577\n")),
        ] {
            assert_eq!(Recording::parse(&text).unwrap_err().line, line, "{text}");
        }
    }
}
