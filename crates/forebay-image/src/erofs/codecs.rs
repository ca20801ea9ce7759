//! The codecs of an image, and the decoding of an extent.
//!
//! ```text
//!   behind the superblock, for each bit of the codecs, lowest first, aligned to 4:
//!     0 length (16 bits)
//!     2 parameters:  LZ4 distance, cluster blocks; LZMA dictionary (32 bits), format (16 bits);
//!                    deflate window bits (8 bits); zstd format, window log - 10 (8 bits each)
//!
//!   Block::variant   bits 0..4 codec, bit 4 partial, bit 5 padded,
//!                    bits 6..23 bytes in the metabox, 23..64 the first of them
//! ```
//!
//! The end of a file may be packed inside the metabox, which is itself packed. Such a block has no
//! raw bytes: its decoding begins with that of the metabox.

use crate::bytes::Reader;
use crate::codec::{Cluster, cluster};
use crate::error::{Error, Result};
use crate::image::Block;
use crate::source::Source;

use super::core::{Core, Place};
use super::superblock::{self, Superblock};

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

    fn of(number: u64) -> Self {
        let codec = u8::try_from(number & 0xf).expect("four bits");
        let len = u32::try_from(number >> 6 & 0x1_ffff).expect("17 bits");
        let metabox = (len > 0).then_some((number >> 23, len));
        Self { codec, partial: number >> 4 & 1 != 0, padded: number >> 5 & 1 != 0, metabox }
    }
}

/// What an image says about its codecs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Available {
    /// Those that extents may have, a bit for each.
    pub(super) bits: u16,
    /// Where their parameters end.
    pub(super) end: u64,
    /// The most bytes of the image that an extent is decoded from.
    pub(super) raw_max: u64,
}

/// The codecs of an image.
pub(super) fn available(
    source: &dyn Source,
    superblock: &Superblock,
    bytes: &[u8; superblock::BYTES],
) -> Result<Available> {
    let bits = u16::from_le_bytes([bytes[84], bytes[85]]);
    let mut raw_max = superblock.block_size();
    if !superblock.has(superblock::CODEC_PARAMETERS) {
        // Then the field is the distance of LZ4, and there is no other codec.
        let lz4 = bits != 0 || superblock.has(superblock::ZERO_PADDING);
        return Ok(Available { bits: u16::from(lz4), end: superblock.end, raw_max });
    }
    let known = (1_u16 << NAMES.len()) - 1;
    if bits & !known != 0 {
        let what = format!("an unknown codec (bits {:#x})", bits & !known);
        return Err(Error::Unsupported { what, offset: superblock::PLACE + 84 });
    }
    let mut at = superblock.end;
    for (number, &name) in NAMES.iter().enumerate() {
        if bits >> number & 1 != 0 {
            let (end, blocks) = check_parameters(source, at.next_multiple_of(4), number, name)?;
            at = end;
            let bytes = blocks.map(|blocks| u64::from(blocks) * superblock.block_size());
            raw_max = raw_max.max(bytes.unwrap_or(CLUSTER_MAX).min(CLUSTER_MAX));
        }
    }
    Ok(Available { bits, end: at, raw_max })
}

/// Checks one codec's parameters. Says where the next may be, and how many blocks a cluster has at
/// most, if they tell.
fn check_parameters(
    source: &dyn Source,
    at: u64,
    number: usize,
    name: &str,
) -> Result<(u64, Option<u16>)> {
    superblock::within(source, at + 2)?;
    let mut len = [0; 2];
    source.fill(&mut len, at)?;
    let len = u16::from_le_bytes(len);
    let wanted = PARAMETERS[number];
    if usize::from(len) < wanted {
        let found = format!("{len} bytes for {name}, less than {wanted}");
        return Err(Error::field("codec parameters", at, found));
    }
    superblock::within(source, at + 2 + u64::from(len))?;
    let mut bytes = [0; PARAMETERS_MAX];
    source.fill(&mut bytes[..wanted], at + 2)?;
    let mut field = Reader::new(&bytes[..wanted], at + 2);
    let mut blocks = None;
    let odd = match number {
        LZ4 => {
            field.u16("distance")?;
            blocks = Some(field.u16("cluster blocks")?);
            None
        }
        LZMA => {
            let (dictionary, format) = (field.u32("dictionary")?, field.u16("format")?);
            (dictionary > DICTIONARY_MAX || format != 0)
                .then(|| format!("a dictionary of {dictionary} bytes, format {format}"))
        }
        ZSTD => {
            let (format, log) = (field.u8("format")?, field.u8("window")?);
            (format != 0 || log > WINDOW_LOG_MAX)
                .then(|| format!("a window of 2^{} bytes, format {format}", 10 + u32::from(log)))
        }
        _ => None,
    };
    if let Some(odd) = odd {
        let what = format!("{name} with {odd}");
        return Err(Error::Unsupported { what, offset: at + 2 });
    }
    Ok((at + 2 + u64::from(len), blocks))
}

/// The names of codecs, of which a bit says that it may be used.
pub(super) fn names(bits: u16) -> Vec<&'static str> {
    NAMES
        .iter()
        .enumerate()
        .filter(|(number, _)| bits >> number & 1 != 0)
        .map(|(_, &n)| n)
        .collect()
}

/// Decodes the beginning of an extent.
pub(super) fn decode(
    core: &Core,
    block: &Block,
    raw: &[u8],
    upto: usize,
    content: &mut [u8],
) -> Result<usize> {
    let failure = |why| Error::Block { offset: block.raw.start, len: raw.len() as u64, why };
    let variant = Variant::of(block.variant);
    let mut inner = Vec::new();
    let raw = if let Some((at, len)) = variant.metabox {
        inner.resize(len as usize, 0);
        core.metadata(Place { at, metabox: true }, &mut inner, "inline cluster")?;
        &inner
    } else {
        raw
    };
    let codec = match usize::from(variant.codec) {
        LZ4 => Cluster::Lz4,
        LZMA => Cluster::MicroLzma,
        DEFLATE => Cluster::Deflate,
        ZSTD => Cluster::Zstd,
        other => return Err(failure(format!("codec {other} is unknown"))),
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
    .map_err(|error| failure(error.into()))?;
    if done < upto {
        return Err(failure(format!("{done} bytes of content instead of {room}")));
    }
    Ok(done)
}

/// The numbers of the codecs.
const LZ4: usize = 0;
const LZMA: usize = 1;
const DEFLATE: usize = 2;
const ZSTD: usize = 3;
const NAMES: [&str; 4] = ["lz4", "lzma", "deflate", "zstd"];
/// The bytes of parameters that each codec has at least.
const PARAMETERS: [usize; 4] = [14, 14, 6, 6];
const PARAMETERS_MAX: usize = 14;
/// The largest cluster of the format, in bytes.
const CLUSTER_MAX: u64 = 1 << 20;
/// The largest dictionary of the format, in bytes.
const DICTIONARY_MAX: u32 = 8 << 20;
/// The largest window of the format, as a power of two beyond 1 KiB.
const WINDOW_LOG_MAX: u8 = 10;

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
