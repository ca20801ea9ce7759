//! A compressed stream inside a file, and its bytes.

use std::io::{self, Read};
use std::sync::Arc;

use super::magic::{MAGICS, Magic};
use super::{HEAD, in_memory};
use crate::codec::Unpack;
use crate::error::{Error, Result};
use crate::source::Source;

/// A compressed stream that is unpacked as far as it can be. It has parts that follow each other:
/// the members of gzip, the streams of xz.
pub(super) struct Unpacker {
    file: Arc<dyn Source>,
    pub(super) magic: Magic,
    /// Where its present part begins.
    pub(super) begin: u64,
    part: Unpack<Reading>,
    /// Where the first part ends, once there is another.
    first_end: Option<u64>,
    /// Bytes that may still be unpacked.
    pub(super) left: u64,
    /// Whether the file ends before the present part does.
    pub(super) is_cut: bool,
    /// Why it is wrong, if it is.
    pub(super) damage: Option<String>,
}

impl Unpacker {
    /// The stream at a place, of which so many bytes may be unpacked.
    pub(super) fn new(file: &Arc<dyn Source>, begin: u64, magic: Magic, left: u64) -> Result<Self> {
        let part = part(file, begin, magic)?;
        let file = Arc::clone(file);
        Ok(Self { file, magic, begin, part, first_end: None, left, is_cut: false, damage: None })
    }

    /// Appends what the present part unpacks to, until there are so many bytes. A part that breaks
    /// off is cut off or damaged: what came before is content.
    pub(super) fn up_to(&mut self, len: u64, mut content: Vec<u8>) -> Vec<u8> {
        let before = content.len() as u64;
        let wanted = len.saturating_sub(before).min(self.left);
        let read = (&mut self.part).take(wanted).read_to_end(&mut content);
        self.left -= content.len() as u64 - before;
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.is_cut = true,
            Err(error) => self.damage = Some(error.to_string()),
        }
        content
    }

    /// Appends the rest of the present part, and further ones until there are so many bytes.
    pub(super) fn whole_parts(&mut self, wanted: u64, mut content: Vec<u8>) -> Result<Vec<u8>> {
        let wanted = wanted.min(UNPACKED_MAX);
        loop {
            content = self.up_to(UNPACKED_MAX, content);
            let is_enough = content.len() as u64 >= wanted || self.left == 0;
            if is_enough || self.damage.is_some() || !self.next_part()? {
                return Ok(content);
            }
        }
    }

    /// Goes on to the part behind the present one, if there is one.
    fn next_part(&mut self) -> Result<bool> {
        let end = self.end();
        let mut bytes = vec![0; in_memory((self.file.len() - end).min(PADDING_MAX))];
        self.file.fill(&mut bytes, end)?;
        // Between streams of xz may be zeros, four at a time.
        let is_padded = self.magic == Magic::Xz;
        let zeros =
            if is_padded { bytes.iter().take_while(|byte| **byte == 0).count() & !3 } else { 0 };
        let header = &bytes[zeros..];
        let is_next = |(magic, what): &(&[u8], Magic)| {
            *what == self.magic && header.starts_with(magic) && what.is_plausible(header)
        };
        if !MAGICS.iter().any(is_next) {
            return Ok(false);
        }
        self.first_end.get_or_insert(end);
        self.left = self.left.saturating_sub(PART_COST);
        self.begin = end + zeros as u64;
        self.part = part(&self.file, self.begin, self.magic)?;
        Ok(true)
    }

    /// Where the first part ends in the file, as far as it was read.
    pub(super) fn first_end(&self) -> u64 {
        self.first_end.unwrap_or_else(|| self.end())
    }

    /// Where the present part ends in the file, as far as it was read.
    pub(super) fn end(&self) -> u64 {
        self.begin + self.part.packed().used()
    }
}

/// What each further part costs, in unpacked bytes that take as long: a part of nothing takes time.
const PART_COST: u64 = 64 << 10;
/// Bytes behind a stream of xz in which another one may begin.
const PADDING_MAX: u64 = 4 << 10;
/// Maximum bytes of a stream's content; the rest counts as cut off.
pub(super) const UNPACKED_MAX: u64 = 1 << 30;

fn part(file: &Arc<dyn Source>, offset: u64, magic: Magic) -> Result<Unpack<Reading>> {
    let reading = Reading::new(Arc::clone(file), offset);
    let part = if magic == Magic::Xz { Unpack::xz(reading) } else { Ok(Unpack::gzip(reading)) };
    part.map_err(|why| Error::Block { offset, len: 0, why: why.to_string() })
}

/// A source as a stream, which knows how much of it was used.
pub(crate) struct Reading {
    source: Arc<dyn Source>,
    /// Where the buffer was read.
    begin: u64,
    start: u64,
    buffer: Vec<u8>,
    at: usize,
}

impl Reading {
    fn new(source: Arc<dyn Source>, start: u64) -> Self {
        Self { source, begin: start, start, buffer: Vec::new(), at: 0 }
    }

    fn used(&self) -> u64 {
        self.begin - self.start + self.at as u64
    }
}

impl Read for Reading {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let len = io::Read::read(&mut io::BufRead::fill_buf(self)?, target)?;
        io::BufRead::consume(self, len);
        Ok(len)
    }
}

impl io::BufRead for Reading {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.buffer.len() {
            self.begin += self.buffer.len() as u64;
            // A false beginning is seen to be one soon; a true one is read on in larger pieces.
            let wanted = if self.buffer.is_empty() { 4 << 10 } else { HEAD as u64 };
            let left = self.source.len().saturating_sub(self.begin);
            self.buffer.resize(in_memory(left.min(wanted)), 0);
            self.at = 0;
            self.source.read_exact_at(&mut self.buffer, self.begin)?;
        }
        Ok(&self.buffer[self.at..])
    }

    fn consume(&mut self, len: usize) {
        self.at += len;
    }
}
