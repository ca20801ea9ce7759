//! What the replay has to know of an image: where bytes lie, and what decoding costs.

use std::fmt::Debug;

use forebay_core::packed::{Pages, RawBytes};
use forebay_core::serving::{PackedBlock, Part, ProgramPages};
use forebay_core::time::Duration;
use forebay_core::units::PAGE_SIZE;

use crate::device::transfer_time;

/// An image whose files are replayed. The same answer to the same question, always.
pub trait PackedImage: Debug {
    /// The bytes of a regular file; none if there is no such file.
    fn file_bytes(&self, file: u64) -> Option<u64>;

    /// Where some bytes of a file lie, all of them inside the file; those of holes are left out.
    /// None if the image is damaged there.
    fn parts(&self, file: u64, offset: u64, len: u64) -> Option<Vec<Part>>;

    /// The pages of a program by its first bytes; none if it does not begin like one.
    fn program(&self, file: u64) -> Option<ProgramPages>;

    /// The time to decode `bytes` bytes of a block.
    fn decode_time(&self, block: &PackedBlock, bytes: u64) -> Duration;

    /// Whether a block cannot be decoded.
    fn is_damaged(&self, _block: &PackedBlock) -> bool {
        false
    }

    /// Folders that were listed before the first READ: their files, in the order of their names.
    fn folders(&self) -> Vec<Vec<u64>> {
        Vec::new()
    }
}

/// How blocks are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Deflate.
    Zlib,
    /// LZ4.
    Lz4,
    /// LZO.
    Lzo,
    /// Zstandard.
    Zstd,
    /// LZMA in any container.
    Xz,
}

impl Codec {
    /// The codec of a name as images have it; the slowest for a name that is not known.
    pub fn from_name(name: &str) -> Self {
        match name {
            "zlib" | "gzip" | "deflate" => Self::Zlib,
            "lz4" => Self::Lz4,
            "lzo" => Self::Lzo,
            "zstd" => Self::Zstd,
            _ => Self::Xz,
        }
    }

    /// Bytes of content a second on one core of 2026.
    ///
    /// Source: M: zlib by docs/benchmarks.md, codec (440 MB/s of blocks of 4 KiB). A: the others,
    /// by their usual ratios to it.
    const fn rate(self) -> u64 {
        match self {
            Self::Lz4 => 2_000_000_000,
            Self::Lzo => 700_000_000,
            Self::Zstd => 900_000_000,
            Self::Zlib => 440_000_000,
            Self::Xz => 80_000_000,
        }
    }
}

/// The time of a codec for `bytes` bytes of content.
pub fn decode_time(codec: Codec, bytes: u64) -> Duration {
    transfer_time(bytes, codec.rate())
}

/// The raw bytes of pages of a file, in as few ranges as is worth it.
pub(super) fn raw_ranges(image: &dyn PackedImage, file: u64, pages: Pages) -> Vec<RawBytes> {
    let end = (pages.end * PAGE_SIZE).min(image.file_bytes(file).unwrap_or(0));
    let Some(len) = end.checked_sub(pages.start * PAGE_SIZE).filter(|len| *len > 0) else {
        return Vec::new();
    };
    let parts = image.parts(file, pages.start * PAGE_SIZE, len).unwrap_or_default();
    let mut ranges: Vec<RawBytes> = Vec::new();
    for raw in parts.iter().map(Part::raw) {
        match ranges.last_mut() {
            Some(last) if *last == raw => {}
            Some(last) if last.end == raw.start => last.end = raw.end,
            _ => ranges.push(raw),
        }
    }
    // Blocks of a file mostly lie one behind the other: one range, if not much else lies between.
    if let [first, .., last] = ranges[..]
        && first.start < last.end
        && last.end - first.start <= 2 * len
        && first.start <= last.start
    {
        return vec![RawBytes { start: first.start, end: last.end }];
    }
    ranges
}
