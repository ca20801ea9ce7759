//! The codecs of an image: the decoding of an extent.
//!
//! ```text
//!   Block::variant   bits 0..4 codec, bit 4 partial, bit 5 padded,
//!                    bits 6..23 bytes in the metabox, 23..64 the first of them
//! ```
//!
//! The end of a file may be packed inside the metabox, which is itself packed. Such a block has no
//! raw bytes: its decoding begins with that of the metabox.

use crate::codec::{Cluster, cluster};

use super::codec_parameters::{DEFLATE, LZ4, LZMA, ZSTD};

/// The parameters for decoding an extent, besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    /// The number of the codec.
    pub(super) codec: u8,
    /// The raw bytes hold more than the extent.
    pub(super) partial: bool,
    /// Zeros stand before the raw bytes.
    pub(super) padded: bool,
    /// The raw bytes are in the metabox: the first one, and how many.
    pub(super) metabox: Option<(u64, u32)>,
}

impl Variant {
    /// As a number; none if the metabox is larger than a number has room for.
    pub(super) fn number(self) -> Option<u64> {
        let (at, len) = self.metabox.unwrap_or_default();
        let flags = u64::from(self.partial) << 4 | u64::from(self.padded) << 5;
        let fits = at < 1 << 41 && len < 1 << 17;
        fits.then_some(u64::from(self.codec & 0xf) | flags | u64::from(len) << 6 | at << 23)
    }

    pub(super) fn of(number: u64) -> Self {
        let codec = u8::try_from(number & 0xf).expect("four bits");
        let len = u32::try_from(number >> 6 & 0x1_ffff).expect("17 bits");
        let metabox = (len > 0).then_some((number >> 23, len));
        Self { codec, partial: number >> 4 & 1 != 0, padded: number >> 5 & 1 != 0, metabox }
    }
}

/// Decodes the beginning of an extent from its raw bytes, or says why they are none.
pub(super) fn decode(
    variant: Variant,
    raw: &[u8],
    upto: usize,
    content: &mut [u8],
) -> Result<usize, String> {
    let codec = match usize::from(variant.codec) {
        LZ4 => Cluster::Lz4,
        LZMA => Cluster::MicroLzma,
        DEFLATE => Cluster::Deflate,
        ZSTD => Cluster::Zstd,
        other => return Err(format!("codec {other} is unknown")),
    };
    let room = content.len();
    let upto = upto.min(room);
    let raw = if variant.padded {
        let zeros = raw.iter().position(|&byte| byte != 0).unwrap_or(raw.len());
        &raw[zeros..]
    } else {
        raw
    };
    // An extent that is a part of what its raw bytes hold has no end to be checked. Nor has LZ4
    // in front of zeros.
    let done = if variant.partial || !variant.padded {
        cluster::begin(codec, raw, &mut content[..upto])
    } else {
        cluster::whole(codec, raw, upto, content)
    }
    .map_err(String::from)?;
    if done < upto {
        return Err(format!("{done} bytes of content instead of {room}"));
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_survives_its_number() {
        let places = [None, Some((0, 1)), Some(((1 << 41) - 1, 65_536))];
        for (codec, metabox) in (0..16).flat_map(|codec| places.map(|place| (codec, place))) {
            for (partial, padded) in [(false, false), (false, true), (true, false), (true, true)] {
                let variant = Variant { codec, partial, padded, metabox };
                assert_eq!(Variant::of(variant.number().unwrap()), variant);
            }
        }
        let metabox = Some((1 << 41, 1));
        let far = Variant { codec: 0, partial: false, padded: true, metabox };
        assert_eq!(far.number(), None);
    }
}
