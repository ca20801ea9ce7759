//! An extent: a run of a file that comes from one place.

/// Where an extent comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Its first byte, in the file.
    pub(super) start: u64,
    /// Behind its last byte, in the file.
    pub(super) end: u64,
    pub(super) from: From,
}

/// Where an extent comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum From {
    /// Nowhere: zeros.
    Hole,
    /// The packed inode's content.
    Packed(u64),
    /// A physical cluster.
    Raw(Raw),
}

/// A physical cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw {
    /// Its first byte, in the image.
    pub(super) at: u64,
    /// In the metabox instead.
    pub(super) metabox: bool,
    /// Its number of bytes.
    pub(super) len: u64,
    pub(super) coding: RawCoding,
    /// It holds more than the extent.
    pub(super) partial: bool,
}

/// How a physical cluster becomes content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RawCoding {
    /// It is the content.
    Shifted,
    /// It is the content, but each byte has the offset in its block that it has in the file.
    Interlaced,
    /// By a codec.
    Codec(u8),
}

/// The largest extent of the format that has to be decoded, in bytes.
pub(super) const EXTENT_MAX: u64 = 12 << 20;
