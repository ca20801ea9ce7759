//! The codecs: raw bytes of one block in, content out. No other module uses a codec crate.
//!
//! A codec keeps its working memory for each thread, so that decoding a block allocates nothing.
//!
//! Adding one: a variant of [`Codec`], an arm in [`decode`], a file in `codec/` with a function
//! `decode(raw, upto, content)` that never writes beyond `content` and is total on any bytes.

pub(crate) mod cluster;

mod deflate;
mod lz4;
mod lz4_begin;
mod lzo;
mod microlzma;
mod unpack;
mod xz;
mod zlib;
mod zstd;

pub(crate) use cluster::Cluster;
pub(crate) use unpack::Unpack;
#[cfg(test)]
pub(crate) use unpack::{pack_gzip, pack_xz};
pub(crate) use zlib::{Crc32, Deflater};

/// How raw bytes are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// A zlib stream (RFC 1950).
    Zlib,
    /// An LZO1X stream.
    Lzo,
    /// An .xz stream.
    Xz,
    /// An LZ4 block without a frame.
    Lz4,
    /// A Zstandard frame (RFC 8878).
    Zstd,
}

/// Why raw bytes cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// They hold more than there is room for.
    #[error("they decode to more than {room} bytes")]
    Longer {
        /// The room, in bytes.
        room: usize,
    },
    /// They are not of this codec, or end too early, or their checksum is wrong.
    #[error("{0}")]
    Invalid(String),
}

impl Failure {
    /// Bytes that are not of this codec.
    pub(crate) fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid(why.into())
    }
}

impl From<Failure> for String {
    fn from(failure: Failure) -> Self {
        failure.to_string()
    }
}

/// Decodes a block into the beginning of `content` and returns how many bytes are there: `upto` or
/// more, or all that there are.
///
/// With an `upto` of `content.len()` the whole block is decoded and checked, its end and its
/// checksum included; a block that holds more than `content.len()` bytes is
/// [`Longer`](Failure::Longer). With a smaller one, bytes behind `upto` may be left undecoded and
/// unchecked. Raw bytes behind the end of the packed stream are ignored.
pub(crate) fn decode(
    codec: Codec,
    raw: &[u8],
    upto: usize,
    content: &mut [u8],
) -> Result<usize, Failure> {
    match codec {
        Codec::Zlib => zlib::decode(raw, upto, content),
        Codec::Lzo => lzo::decode(raw, content),
        Codec::Xz => xz::decode(raw, upto, content),
        Codec::Lz4 => lz4::decode(raw, content),
        Codec::Zstd => zstd::decode(raw, upto, content),
    }
}
