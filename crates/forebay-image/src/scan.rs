//! Images inside a larger file: a flash chip's content, an update, a disk.
//!
//! ```text
//!   file    ....|uImage|gzip.......|....|squashfs......|....|erofs, magic at 1024......|...
//!                         |
//!   inside                squashfs                 what a wrapper begins with is searched too
//! ```
//!
//! The file is read once, front to back, for the magic numbers. The bytes at one must open as an
//! image whose root can be listed, so bytes that only look like a beginning are skipped. The inside
//! of a found image is searched as well: an image may contain other images uncompressed.

use std::io::{self, Read};
use std::sync::Arc;

use aho_corasick::{AhoCorasick, Input, MatchKind, Span, packed};

use crate::bytes::Reader;
use crate::codec::{Crc32, Unpack};
use crate::error::{Error, Result};
use crate::image::{Image, Options, Summary};
use crate::source::Source;
use crate::{cramfs, erofs, squashfs};

/// Bytes that are searched at once: as much as stays in a processor's own cache.
const CHUNK: usize = 512 << 10;
/// Bytes of a wrapper's content in which an image may begin.
const HEAD: usize = 64 << 10;
/// Streams that a byte may be in. Compressed data is no stream, so only stored data nests, and a
/// few times at most; without a bound, false headers of stored data took the square of the time.
pub const NESTED_MAX: usize = 16;
/// Bytes behind a stream of xz in which another one may begin.
const PADDING_MAX: u64 = 4 << 10;
/// Maximum bytes of a wrapper's content; the rest counts as cut off.
const UNPACKED_MAX: u64 = 1 << 30;

/// An image inside a file.
#[derive(Clone, Debug)]
pub struct Hit {
    /// Where it begins in the file; if it is wrapped, where the wrapper does.
    pub offset: u64,
    /// Its summary; `bytes` is its length.
    pub summary: Summary,
    /// Whether the file or the wrapper ends before the image does.
    pub truncated: bool,
    /// The compressed stream that it is in.
    pub wrapper: Option<Wrapper>,
    /// The uImage that it is in: where that begins.
    pub uimage: Option<UImage>,
}

/// A compressed stream with an image in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// `gzip` or `xz`.
    pub format: &'static str,
    /// Bytes of the stream in the file.
    pub bytes: u64,
    /// The start of the image in the unpacked bytes.
    pub inside: u64,
    /// Why the unpacked bytes may be wrong, other than that the stream is cut off.
    pub damage: Option<String>,
}

/// The header that U-Boot puts before its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UImage {
    /// Where it begins in the file.
    pub offset: u64,
    /// Bytes of it, the header included.
    pub bytes: u64,
    /// Its name.
    pub name: Vec<u8>,
}

impl Hit {
    /// `little-endian` or `big-endian`.
    pub fn byte_order(&self) -> &str {
        let said = self.summary.details.iter().find(|(name, _)| *name == "byte order");
        said.map_or("little-endian", |(_, order)| order)
    }

    /// Bytes of the image that are there, from its beginning on.
    ///
    /// # Errors
    ///
    /// If the wrapper cannot be unpacked again.
    pub fn source(&self, file: &Arc<dyn Source>) -> Result<Arc<dyn Source>> {
        let (inner, offset) = match &self.wrapper {
            None => (Arc::clone(file), self.offset),
            Some(wrapper) => {
                let magic = if wrapper.format == "xz" { Magic::Xz } else { Magic::Gzip };
                let mut unpacker = Unpacker::new(file, self.offset, magic)?;
                let wanted = wrapper.inside.saturating_add(self.summary.bytes);
                let content = unpacker.whole_parts(wanted, Vec::new())?;
                (Arc::new(content) as Arc<dyn Source>, wrapper.inside)
            }
        };
        let len = self.summary.bytes.min(inner.len().saturating_sub(offset));
        Ok(Arc::new(Part { inner, offset, len }))
    }
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The images, in the order of their beginnings.
    pub hits: Vec<Hit>,
    /// The number of compressed streams that were not unpacked, because each begins inside
    /// [`NESTED_MAX`] others.
    pub skipped: u64,
}

/// Finds the images in a file. `progress` gets the number of searched bytes.
///
/// # Errors
///
/// If the file cannot be read.
pub fn scan(file: &Arc<dyn Source>, progress: &mut dyn FnMut(u64)) -> Result<Found> {
    let magics = Magics::new();
    let (mut hits, mut uimages) = (Vec::new(), Vec::new());
    // The ends of the streams that the search is inside of.
    let mut ends = Vec::new();
    let mut skipped = 0;
    // Images that do not overlap have no more bytes than the file.
    let mut to_check = file.len();
    let mut buffer = vec![0; CHUNK + HEADER];
    let mut at = 0;
    loop {
        // No magic number begins with the zeros of a hole.
        at = file.data_at(at);
        if at >= file.len() {
            break;
        }
        let there = in_memory((file.len() - at).min(buffer.len() as u64));
        file.fill(&mut buffer[..there], at)?;
        for (place, magic) in magics.find(&buffer[..there], CHUNK) {
            let offset = at + place as u64;
            if !magic.is_plausible(&buffer[place..there]) {
                continue;
            }
            match magic {
                Magic::UImage => uimages.extend(uimage(file, offset)?),
                Magic::Gzip | Magic::Xz => {
                    ends.retain(|end| *end > offset);
                    if ends.len() == NESTED_MAX {
                        skipped += 1;
                        continue;
                    }
                    if let Ok(mut unpacker) = Unpacker::new(file, offset, magic) {
                        hits.extend(wrapped(&magics, &mut unpacker)?);
                        ends.push(unpacker.end());
                    }
                }
                Magic::Squashfs | Magic::Cramfs | Magic::Erofs => {
                    hits.extend(plain(file, offset, magic, &mut to_check)?);
                }
            }
        }
        at += CHUNK.min(there) as u64;
        progress(at.min(file.len()));
    }
    progress(file.len());
    for hit in &mut hits {
        let holds = |uimage: &&UImage| {
            (uimage.offset..uimage.offset.saturating_add(uimage.bytes)).contains(&hit.offset)
        };
        hit.uimage = uimages.iter().rfind(holds).cloned();
    }
    hits.sort_by_key(|hit| hit.offset);
    drop_stored(&mut hits);
    Ok(Found { hits, skipped })
}

/// Leaves out what only a stream stores: where data does not become smaller, the stream has the
/// beginning of its image as it is.
fn drop_stored(hits: &mut Vec<Hit>) {
    let mut streams: Vec<(u64, &'static str, u64)> = Vec::new();
    hits.retain(|hit| {
        let (offset, Summary { format, bytes, .. }) = (hit.offset, &hit.summary);
        streams.retain(|(end, ..)| *end > offset);
        if let Some(wrapper) = &hit.wrapper {
            streams.push((offset + wrapper.bytes, format, *bytes));
            return true;
        }
        !streams.iter().any(|(_, of, len)| (of, len) == (format, bytes))
    });
}

/// What a magic number announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Magic {
    Squashfs,
    Cramfs,
    Erofs,
    UImage,
    Gzip,
    Xz,
}

/// The magic numbers: the bytes, and their meaning.
const MAGICS: [(&[u8], Magic); 7] = [
    (b"hsqs", Magic::Squashfs),
    (b"\x45\x3d\xcd\x28", Magic::Cramfs),
    (b"\x28\xcd\x3d\x45", Magic::Cramfs),
    (b"\xe2\xe1\xf5\xe0", Magic::Erofs),
    (b"\x27\x05\x19\x56", Magic::UImage),
    // The method, which is always deflate, belongs to it.
    (b"\x1f\x8b\x08", Magic::Gzip),
    (b"\xfd7zXZ\0", Magic::Xz),
];
/// Bytes from a magic number on that show nearly every false one; no magic number is longer.
const HEADER: usize = 64;

impl Magic {
    /// Whether a header may begin with these bytes, as far as they are there. Nothing else is read
    /// and nothing is opened for one that may not.
    fn is_plausible(self, bytes: &[u8]) -> bool {
        let Some(header) = bytes.get(..HEADER) else { return true };
        match self {
            // Version 4.0.
            Self::Squashfs => header[28..32] == [4, 0, 0, 0],
            // The logarithm of the block size.
            Self::Erofs => (9..=16).contains(&header[12]),
            // The compression: U-Boot knows seven.
            Self::UImage => header[31] < 16,
            Self::Gzip => is_gzip(header),
            // The flags of the stream, of which one byte chooses a checksum, and their CRC.
            Self::Xz => {
                let mut crc = Crc32::default();
                crc.update(&header[6..8]);
                header[6] == 0 && header[8..12] == crc.value().to_le_bytes()
            }
            Self::Cramfs => true,
        }
    }
}

/// Whether it is a header of gzip: its reserved flags, how hard it was compressed, the system that
/// it was compressed on, and, if nothing stands between, the kind of the first block.
const fn is_gzip(header: &[u8]) -> bool {
    let (flags, effort, system) = (header[3], header[8], header[9]);
    let is_header = flags & 0xe0 == 0 && matches!(effort, 0 | 2 | 4);
    let is_block = flags & 0x1e != 0 || header[10] >> 1 & 3 != 3;
    is_header && matches!(system, 0..=13 | 255) && is_block
}

/// Finds magic numbers: several GB a second by vector instructions where the processor has them.
enum Magics {
    Vectors(packed::Searcher),
    Automaton(AhoCorasick),
}

impl Magics {
    fn new() -> Self {
        let patterns = MAGICS.map(|(bytes, _)| bytes);
        packed::Searcher::new(patterns).map_or_else(Self::automaton, Self::Vectors)
    }

    fn automaton() -> Self {
        let patterns = MAGICS.map(|(bytes, _)| bytes);
        let builder = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(patterns);
        Self::Automaton(builder.expect("a few short patterns"))
    }

    /// Those that begin in the first bytes of a buffer. They may overlap.
    fn find<'a>(
        &'a self,
        buffer: &'a [u8],
        first: usize,
    ) -> impl Iterator<Item = (usize, Magic)> + 'a {
        let mut from = 0;
        std::iter::from_fn(move || {
            let rest = Span::from(from.min(buffer.len())..buffer.len());
            let found = match self {
                Self::Vectors(searcher) => searcher.find_in(buffer, rest),
                Self::Automaton(automaton) => automaton.find(Input::new(buffer).span(rest)),
            }?;
            from = found.start() + 1;
            (found.start() < first).then(|| (found.start(), MAGICS[found.pattern().as_usize()].1))
        })
    }
}

/// The image whose magic number is at a place, if there is one.
/// `to_check` is how many bytes checksums may still be taken of.
fn plain(
    file: &Arc<dyn Source>,
    place: u64,
    magic: Magic,
    to_check: &mut u64,
) -> Result<Option<Hit>> {
    let starts: &[u64] = match magic {
        Magic::Squashfs => &[0],
        // Maybe behind 512 bytes for boot code, from which places are counted.
        Magic::Cramfs => &[512, 0],
        Magic::Erofs => &[1024],
        Magic::UImage | Magic::Gzip | Magic::Xz => &[],
    };
    for before in starts {
        let Some(offset) = place.checked_sub(*before) else { continue };
        let len = file.len() - offset;
        let inner = Arc::clone(file);
        let source: Arc<dyn Source> = Arc::new(Part { inner, offset, len });
        let options = Options::default();
        let opened = match magic {
            Magic::Squashfs => squashfs::open(&source, options),
            Magic::Cramfs => cramfs::open(&source, options),
            Magic::Erofs => erofs::open(&source, options),
            Magic::UImage | Magic::Gzip | Magic::Xz => Ok(None),
        };
        let hit = |summary, truncated| {
            Some(Hit { offset, summary, truncated, wrapper: None, uimage: None })
        };
        match opened {
            Ok(Some(image)) => {
                let truncated = image.summary().bytes > len;
                let is_place = *before != 512 || is_padded(&source, &*image, to_check);
                if is_place && (truncated || lists_root(&*image)) {
                    return Ok(hit(image.summary().clone(), truncated));
                }
            }
            // Its superblock is valid, or it would be another error.
            Err(Error::Truncated { expected, .. })
                if expected > SUPERBLOCK_MAX && *before != 512 =>
            {
                let format = match magic {
                    Magic::Squashfs => "squashfs",
                    Magic::Erofs => "erofs",
                    Magic::Cramfs | Magic::UImage | Magic::Gzip | Magic::Xz => "cramfs",
                };
                let summary = Summary { format, bytes: expected, ..Summary::default() };
                return Ok(hit(summary, true));
            }
            // The file cannot be read, which is not the image's fault.
            Err(Error::Read { offset, len, source })
                if source.kind() != io::ErrorKind::UnexpectedEof =>
            {
                return Err(Error::Read { offset, len, source });
            }
            Ok(None) | Err(_) => {}
        }
    }
    Ok(None)
}

/// Whether a cramfs begins 512 bytes before its magic number, and not at it: where its directories
/// and checksum are right decides, so damage to a file does not move it.
fn is_padded(from_padding: &Arc<dyn Source>, image: &dyn Image, to_check: &mut u64) -> bool {
    if !lists_root(image) {
        return false;
    }
    let len = from_padding.len().saturating_sub(512);
    let inner = Arc::clone(from_padding);
    let source: Arc<dyn Source> = Arc::new(Part { inner, offset: 512, len });
    let plain = cramfs::open(&source, Options::default());
    let lists_too = plain.is_ok_and(|plain| plain.is_some_and(|plain| lists_root(&*plain)));
    if !lists_too {
        return true;
    }
    let left = to_check.checked_sub(image.summary().bytes);
    *to_check = left.unwrap_or(0);
    left.is_some() && image.verify().is_ok()
}

/// Longer than the superblock of any format, with what stands before it.
const SUPERBLOCK_MAX: u64 = 1024 + 128;

/// Whether the root is a directory whose names lead to nodes; some of them are looked at.
fn lists_root(image: &dyn Image) -> bool {
    let looked_at = image.node(image.root()).and_then(|_| image.entries(image.root()));
    looked_at.is_ok_and(|entries| {
        entries.is_empty() || entries.iter().take(16).any(|entry| image.node(entry.node).is_ok())
    })
}

/// The image that a compressed stream begins with, if it does.
fn wrapped(magics: &Magics, unpacker: &mut Unpacker) -> Result<Option<Hit>> {
    let offset = unpacker.begin;
    let format = if unpacker.magic == Magic::Xz { "xz" } else { "gzip" };
    let head = unpacker.up_to(HEAD as u64, Vec::with_capacity(HEAD));
    let plausible = |(place, magic): &(usize, Magic)| magic.is_plausible(&head[*place..]);
    let candidates: Vec<_> = magics.find(&head, head.len()).filter(plausible).collect();
    let is_image = |magic| matches!(magic, Magic::Squashfs | Magic::Cramfs | Magic::Erofs);
    if !candidates.iter().any(|(_, magic)| is_image(*magic)) {
        return Ok(None);
    }
    let mut content = Arc::new(unpacker.whole_parts(0, head)?);
    let found = |content: &Arc<Vec<u8>>, place, magic| {
        let mut to_check = content.len();
        plain(&(Arc::clone(content) as Arc<dyn Source>), place as u64, magic, &mut to_check)
    };
    for (place, magic) in candidates {
        let mut hit = found(&content, place, magic)?;
        if let Some(cut) = hit.as_ref().filter(|hit| hit.truncated) {
            let wanted = cut.offset.saturating_add(cut.summary.bytes);
            let more = unpacker.whole_parts(wanted, Arc::unwrap_or_clone(content))?;
            content = Arc::new(more);
            hit = found(&content, place, magic)?;
        }
        if let Some(hit) = hit {
            let (bytes, damage) = (unpacker.end() - offset, unpacker.damage.take());
            let wrapper = Wrapper { format, bytes, inside: hit.offset, damage };
            return Ok(Some(Hit { offset, wrapper: Some(wrapper), ..hit }));
        }
    }
    Ok(None)
}

/// A compressed stream that is unpacked as far as it can be. It has parts that follow each other:
/// the members of gzip, the streams of xz.
struct Unpacker {
    file: Arc<dyn Source>,
    magic: Magic,
    /// Where its present part begins.
    begin: u64,
    part: Unpack<Reading>,
    /// Why it is wrong, if it is.
    damage: Option<String>,
}

impl Unpacker {
    fn new(file: &Arc<dyn Source>, begin: u64, magic: Magic) -> Result<Self> {
        let part = part(file, begin, magic)?;
        Ok(Self { file: Arc::clone(file), magic, begin, part, damage: None })
    }

    /// Appends what the present part unpacks to, until there are so many bytes. A part that breaks
    /// off is cut off or damaged: what came before is content.
    fn up_to(&mut self, len: u64, mut content: Vec<u8>) -> Vec<u8> {
        let left = len.saturating_sub(content.len() as u64);
        let read = (&mut self.part).take(left).read_to_end(&mut content);
        if let Err(error) = read
            && error.kind() != io::ErrorKind::UnexpectedEof
        {
            self.damage = Some(error.to_string());
        }
        content
    }

    /// Appends the rest of the present part, and further ones until there are so many bytes.
    fn whole_parts(&mut self, wanted: u64, mut content: Vec<u8>) -> Result<Vec<u8>> {
        let wanted = wanted.min(UNPACKED_MAX);
        loop {
            content = self.up_to(UNPACKED_MAX, content);
            let is_enough = content.len() as u64 >= wanted;
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
        self.begin = end + zeros as u64;
        self.part = part(&self.file, self.begin, self.magic)?;
        Ok(true)
    }

    /// Where the present part ends in the file, as far as it was read.
    fn end(&self) -> u64 {
        self.begin + self.part.packed().used()
    }
}

fn part(file: &Arc<dyn Source>, offset: u64, magic: Magic) -> Result<Unpack<Reading>> {
    let reading = Reading::new(Arc::clone(file), offset);
    let part = if magic == Magic::Xz { Unpack::xz(reading) } else { Ok(Unpack::gzip(reading)) };
    part.map_err(|why| Error::Block { offset, len: 0, why: why.to_string() })
}

/// The header at a place, if its checksum is right.
fn uimage(file: &Arc<dyn Source>, offset: u64) -> Result<Option<UImage>> {
    const LEN: u64 = 64;
    if file.len() - offset < LEN {
        return Ok(None);
    }
    let mut header = [0; 64];
    file.fill(&mut header, offset)?;
    let mut fields = Reader::new(&header, offset).big_endian(true);
    fields.u32("magic")?;
    let says = fields.u32("header checksum")?;
    fields.u32("time")?;
    let size = fields.u32("size")?;
    let name = header[32..].split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
    let mut crc = Crc32::default();
    header[4..8].fill(0);
    crc.update(&header);
    let bytes = LEN + u64::from(size);
    Ok((crc.value() == says).then_some(UImage { offset, bytes, name }))
}

/// Some bytes of another source.
struct Part {
    inner: Arc<dyn Source>,
    offset: u64,
    len: u64,
}

impl Source for Part {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.len);
        end.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.inner.read_exact_at(buffer, self.offset + offset)
    }

    fn data_at(&self, offset: u64) -> u64 {
        self.inner.data_at(self.offset + offset).saturating_sub(self.offset).min(self.len)
    }
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

/// A number that was bounded by a length in memory.
fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).expect("bounded by a buffer")
}

#[cfg(test)]
mod tests;
