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

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::bytes::Reader;
use crate::codec::Crc32;
use crate::error::{Error, Result};
use crate::image::{Image, Options, Summary};
use crate::source::Source;
use crate::{cramfs, erofs, squashfs};

mod magic;
mod stream;

use magic::{HEADER, Magic, Magics};
use stream::{UNPACKED_MAX, Unpacker};

/// Bytes that are searched at once: as much as stays in a processor's own cache.
const CHUNK: usize = 512 << 10;
/// Bytes of a wrapper's content in which an image may begin.
const HEAD: usize = 64 << 10;
/// Streams that a byte may be in. Compressed data is no stream, so only stored data nests, and a
/// few times at most; without a bound, false headers of stored data took the square of the time.
pub const NESTED_MAX: usize = 16;
/// Bytes that streams may unpack to, all together, in a file of any length; and for each of its
/// bytes. A short file could unpack to years of work.
const UNPACKED_MIN: u64 = 8 << 30;
const UNPACKED_PER_BYTE: u64 = 8;
/// What looks like an image and is none is described for so many.
const SUSPECTS_MAX: usize = 64;
/// Images that the end of the file cuts off: one, and those inside it. Superblocks that claim much
/// could otherwise make each byte of a file part of thousands.
const TRUNCATED_MAX: usize = 16;

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

    /// The number of bytes of the image that are there at most, in a file of `len` bytes.
    pub fn len_in(&self, len: u64) -> u64 {
        let there = if self.wrapper.is_some() { UNPACKED_MAX } else { len - self.offset.min(len) };
        self.summary.bytes.min(there)
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
                let mut unpacker = Unpacker::new(file, self.offset, magic, u64::MAX)?;
                let wanted = wrapper.inside.saturating_add(self.summary.bytes);
                let content = unpacker.whole_parts(wanted, Vec::new())?;
                (Arc::new(content) as Arc<dyn Source>, wrapper.inside)
            }
        };
        let len = self.summary.bytes.min(inner.len().saturating_sub(offset));
        Ok(Arc::new(Part { inner, offset, len }))
    }
}

/// What begins like an image and cannot be opened as one, or whose root cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Where it begins in the file; if it is wrapped, where the wrapper does.
    pub offset: u64,
    /// The format that it begins like.
    pub format: &'static str,
    /// `gzip` or `xz`, if it is in such a stream.
    pub wrapper: Option<&'static str>,
    /// What is wrong.
    pub why: String,
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The images, in the order of their beginnings.
    pub hits: Vec<Hit>,
    /// What seems to be a damaged image, in the same order; at most 64.
    pub suspects: Vec<Suspect>,
    /// The number of compressed streams that were not unpacked, because each begins inside
    /// [`NESTED_MAX`] others or too much was unpacked before.
    pub skipped: u64,
}

/// Finds the images in a file. `progress` gets the number of searched bytes.
///
/// # Errors
///
/// If the file cannot be read.
pub fn scan(file: &Arc<dyn Source>, progress: &mut dyn FnMut(u64)) -> Result<Found> {
    let mut search = Search::new(file);
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
        let magics = Arc::clone(&search.magics);
        for (place, magic) in magics.find(&buffer[..there], CHUNK) {
            if magic.is_plausible(&buffer[place..there]) {
                search.look(at + place as u64, magic)?;
            }
        }
        at += CHUNK.min(there) as u64;
        progress(at.min(file.len()));
    }
    progress(file.len());
    Ok(search.finish())
}

/// A search, and what it has found.
struct Search<'a> {
    file: &'a Arc<dyn Source>,
    magics: Arc<Magics>,
    found: Found,
    /// Images that the end of the file cuts off, so far.
    truncated: usize,
    uimages: Vec<UImage>,
    /// The ends of the streams that the search is inside of.
    ends: Vec<u64>,
    /// Bytes of which checksums may still be taken: images that do not overlap have no more than
    /// the file.
    to_check: u64,
    /// Bytes that may still be unpacked.
    to_unpack: u64,
}

impl<'a> Search<'a> {
    fn new(file: &'a Arc<dyn Source>) -> Self {
        let to_unpack = UNPACKED_MIN.saturating_add(file.len().saturating_mul(UNPACKED_PER_BYTE));
        Self {
            file,
            magics: Arc::new(Magics::new()),
            found: Found::default(),
            truncated: 0,
            uimages: Vec::new(),
            ends: Vec::new(),
            to_check: file.len(),
            to_unpack,
        }
    }

    /// Looks at what a magic number announces.
    fn look(&mut self, offset: u64, magic: Magic) -> Result<()> {
        let seen = match magic {
            Magic::UImage => {
                self.uimages.extend(uimage(self.file, offset)?);
                return Ok(());
            }
            Magic::Gzip | Magic::Xz => self.unpack(offset, magic)?,
            Magic::Squashfs | Magic::Cramfs | Magic::Erofs => {
                plain(self.file, offset, magic, &mut self.to_check)?
            }
        };
        match seen {
            Seen::Image(hit) if hit.wrapper.is_some() || !hit.truncated => {
                self.found.hits.push(*hit);
            }
            Seen::Image(hit) if self.truncated < TRUNCATED_MAX => {
                self.truncated += 1;
                self.found.hits.push(*hit);
            }
            Seen::Image(hit) => {
                let (offset, format) = (hit.offset, hit.summary.format);
                let why = format!("{TRUNCATED_MAX} images are already cut off by the file's end");
                self.suspect(Suspect { offset, format, wrapper: None, why });
            }
            Seen::Broken(suspect) => self.suspect(suspect),
            Seen::Nothing => {}
        }
        Ok(())
    }

    fn suspect(&mut self, suspect: Suspect) {
        if self.found.suspects.len() < SUSPECTS_MAX {
            self.found.suspects.push(suspect);
        }
    }

    fn unpack(&mut self, offset: u64, magic: Magic) -> Result<Seen> {
        self.ends.retain(|end| *end > offset);
        if self.ends.len() == NESTED_MAX || self.to_unpack == 0 {
            self.found.skipped += 1;
            return Ok(Seen::Nothing);
        }
        let Ok(mut unpacker) = Unpacker::new(self.file, offset, magic, self.to_unpack) else {
            return Ok(Seen::Nothing);
        };
        let seen = wrapped(&self.magics, &mut unpacker)?;
        self.ends.push(unpacker.first_end());
        self.to_unpack = unpacker.left;
        Ok(seen)
    }

    fn finish(self) -> Found {
        let Self { mut found, uimages, .. } = self;
        for hit in &mut found.hits {
            let holds = |uimage: &&UImage| {
                (uimage.offset..uimage.offset.saturating_add(uimage.bytes)).contains(&hit.offset)
            };
            hit.uimage = uimages.iter().rfind(holds).cloned();
        }
        found.hits.sort_by_key(|hit| hit.offset);
        drop_stored(&mut found);
        found
    }
}

/// What is at a place.
enum Seen {
    Image(Box<Hit>),
    Broken(Suspect),
    Nothing,
}

/// Leaves out what only a stream stores: where data does not become smaller, the stream has the
/// beginning of its image as it is.
fn drop_stored(found: &mut Found) {
    let mut streams: Vec<(u64, &'static str, u64)> = Vec::new();
    let mut stored = Vec::new();
    found.hits.retain(|hit| {
        let (offset, Summary { format, bytes, .. }) = (hit.offset, &hit.summary);
        streams.retain(|(end, ..)| *end > offset);
        if let Some(wrapper) = &hit.wrapper {
            streams.push((offset + wrapper.bytes, format, *bytes));
            stored.push((offset..offset + wrapper.bytes, *format));
            return true;
        }
        !streams.iter().any(|(_, of, len)| (of, len) == (format, bytes))
    });
    found.suspects.retain(|suspect| {
        let is_of = |(bytes, format): &(Range<u64>, &str)| {
            bytes.contains(&suspect.offset) && *format == suspect.format
        };
        !stored.iter().any(is_of)
    });
}

/// The image whose magic number is at a place, if there is one.
/// `to_check` is how many bytes checksums may still be taken of.
fn plain(file: &Arc<dyn Source>, place: u64, magic: Magic, to_check: &mut u64) -> Result<Seen> {
    let mut seen = Seen::Nothing;
    for before in magic.bytes_before() {
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
            let hit = Hit { offset, summary, truncated, wrapper: None, uimage: None };
            Ok(Seen::Image(Box::new(hit)))
        };
        // What is not even sure to begin there is not said to be damaged.
        let is_padding = *before == 512;
        let why = match opened {
            Ok(Some(image)) => {
                let truncated = image.summary().bytes > len;
                if is_padding && !is_padded(&source, &*image, to_check) {
                    continue;
                }
                match list_root(&*image) {
                    Err(why) if !truncated => why,
                    _ => return hit(image.summary().clone(), truncated),
                }
            }
            // Its superblock is valid, or it would be another error.
            Err(Error::Truncated { expected, .. }) if expected > SUPERBLOCK_MAX && !is_padding => {
                let known = match magic {
                    Magic::Squashfs => squashfs::summary_of_superblock(&source),
                    Magic::Cramfs => cramfs::summary_of_superblock(&source),
                    Magic::Erofs => erofs::summary_of_superblock(&source),
                    Magic::UImage | Magic::Gzip | Magic::Xz => Ok(None),
                };
                let known = known.ok().flatten().unwrap_or_default();
                let format = magic.format();
                return hit(Summary { format, bytes: expected, ..known }, true);
            }
            // The file cannot be read, which is not the image's fault.
            Err(Error::Read { offset, len, source })
                if source.kind() != io::ErrorKind::UnexpectedEof =>
            {
                return Err(Error::Read { offset, len, source });
            }
            Err(Error::Truncated { .. } | Error::Read { .. } | Error::Unknown { .. })
            | Ok(None) => {
                continue;
            }
            Err(why) => why,
        };
        if !is_padding {
            let (format, why) = (magic.format(), why.to_string());
            seen = Seen::Broken(Suspect { offset, format, wrapper: None, why });
        }
    }
    Ok(seen)
}

/// Whether a cramfs begins 512 bytes before its magic number, and not at it: where its directories
/// and checksum are right decides, so damage to a file does not move it.
fn is_padded(from_padding: &Arc<dyn Source>, image: &dyn Image, to_check: &mut u64) -> bool {
    if list_root(image).is_err() {
        return false;
    }
    let len = from_padding.len().saturating_sub(512);
    let inner = Arc::clone(from_padding);
    let source: Arc<dyn Source> = Arc::new(Part { inner, offset: 512, len });
    let plain = cramfs::open(&source, Options::default());
    let lists_too = plain.is_ok_and(|plain| plain.is_some_and(|plain| list_root(&*plain).is_ok()));
    if !lists_too {
        return true;
    }
    let left = to_check.checked_sub(image.summary().bytes);
    *to_check = left.unwrap_or(0);
    left.is_some() && image.verify().is_ok()
}

/// Longer than the superblock of any format, with what stands before it.
const SUPERBLOCK_MAX: u64 = 1024 + 128;

/// Lists the root and looks at some of its names. One that leads to a node will do.
fn list_root(image: &dyn Image) -> Result<()> {
    image.node(image.root())?;
    let entries = image.entries(image.root())?;
    let mut looked_at = entries.iter().take(16).map(|entry| image.node(entry.node).map(drop));
    let first = looked_at.next().unwrap_or(Ok(()));
    if looked_at.any(|node| node.is_ok()) { Ok(()) } else { first }
}

/// The image that a compressed stream begins with, if it does.
fn wrapped(magics: &Magics, unpacker: &mut Unpacker) -> Result<Seen> {
    let offset = unpacker.begin;
    let format = unpacker.magic.format();
    let head = unpacker.up_to(HEAD as u64, Vec::with_capacity(HEAD));
    let plausible = |(place, magic): &(usize, Magic)| magic.is_plausible(&head[*place..]);
    let candidates: Vec<_> = magics.find(&head, head.len()).filter(plausible).collect();
    if candidates.iter().all(|(_, magic)| magic.bytes_before().is_empty()) {
        return Ok(Seen::Nothing);
    }
    let mut content = Arc::new(unpacker.whole_parts(0, head)?);
    let found = |content: &Arc<Vec<u8>>, place, magic| {
        let mut to_check = content.len();
        plain(&(Arc::clone(content) as Arc<dyn Source>), place as u64, magic, &mut to_check)
    };
    let mut broken = Seen::Nothing;
    for (place, magic) in candidates {
        let mut seen = found(&content, place, magic)?;
        if let Seen::Image(cut) = &seen
            && cut.truncated
        {
            let wanted = cut.offset.saturating_add(cut.summary.bytes);
            let more = unpacker.whole_parts(wanted, Arc::unwrap_or_clone(content))?;
            content = Arc::new(more);
            seen = found(&content, place, magic)?;
        }
        match seen {
            Seen::Image(hit) => {
                let bytes = unpacker.end() - offset;
                let cut = (unpacker.is_cut && !hit.truncated).then(|| CUT.to_owned());
                let damage = unpacker.damage.take().or(cut);
                let wrapper = Wrapper { format, bytes, inside: hit.offset, damage };
                let hit = Hit { offset, wrapper: Some(wrapper), ..*hit };
                return Ok(Seen::Image(Box::new(hit)));
            }
            Seen::Broken(suspect) if matches!(broken, Seen::Nothing) => {
                // Where the stream is damaged, that is why the image is.
                let why = unpacker.damage.clone().unwrap_or(suspect.why);
                let wrapper = Some(format);
                broken = Seen::Broken(Suspect { offset, wrapper, why, ..suspect });
            }
            Seen::Broken(_) | Seen::Nothing => {}
        }
    }
    Ok(broken)
}

/// What is wrong with a stream whose image is whole and whose own end, a checksum, is not there.
const CUT: &str = "the file ends before the stream does";

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
}

/// A number that was bounded by a length in memory.
fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).expect("bounded by a buffer")
}

#[cfg(test)]
mod tests;
