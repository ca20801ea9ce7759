//! Streams of unknown length: what wraps a whole image.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;

/// A stream that is being unpacked.
pub(crate) enum Unpack<R> {
    /// gzip, one member of it.
    Gzip(Box<GzDecoder<R>>),
    /// xz, one stream of it.
    Xz(Box<XzDecoder<R>>),
}

impl<R: BufRead> Unpack<R> {
    /// Of a gzip member.
    pub(crate) fn gzip(packed: R) -> Self {
        Self::Gzip(Box::new(GzDecoder::new(packed)))
    }

    /// Of an xz stream.
    ///
    /// # Errors
    ///
    /// If there is no memory for its decoder.
    pub(crate) fn xz(packed: R) -> io::Result<Self> {
        let stream = Stream::new_stream_decoder(MEMORY_MAX, 0)?;
        Ok(Self::Xz(Box::new(XzDecoder::new_stream(packed, stream))))
    }

    /// Where the packed bytes come from.
    pub(crate) fn packed(&self) -> &R {
        match self {
            Self::Gzip(decoder) => decoder.get_ref(),
            Self::Xz(decoder) => decoder.get_ref(),
        }
    }
}

impl<R: BufRead> Read for Unpack<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Xz(decoder) => decoder.read(buffer),
        }
    }
}

/// Memory of an xz decoder in bytes: dictionaries of up to 1 GiB, whose memory is touched as far as
/// they are filled.
const MEMORY_MAX: u64 = (1 << 30) + (16 << 20);

/// Bytes as a gzip member, for tests of what unpacks it.
#[cfg(test)]
pub(crate) fn pack_gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut encoder = flate2::bufread::GzEncoder::new(bytes, flate2::Compression::fast());
    encoder.read_to_end(&mut packed).expect("memory takes everything");
    packed
}

/// Bytes as an xz stream, for tests of what unpacks it.
#[cfg(test)]
pub(crate) fn pack_xz(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut encoder = liblzma::bufread::XzEncoder::new(bytes, 1);
    encoder.read_to_end(&mut packed).expect("memory takes everything");
    packed
}
