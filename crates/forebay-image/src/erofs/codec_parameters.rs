//! The codecs of an image, and their parameters.
//!
//! ```text
//!   behind the superblock, for each bit of the codecs, lowest first, aligned to 4:
//!     0 length (16 bits)
//!     2 parameters:  LZ4 distance, cluster blocks; LZMA dictionary (32 bits), format (16 bits);
//!                    deflate window bits (8 bits); zstd format, window log - 10 (8 bits each)
//! ```

use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::source::{Source, within};

/// What the parameters of an image's codecs say.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodecParameters {
    /// Where they end.
    pub(super) end: u64,
    /// The most bytes of the image that an extent is decoded from.
    pub(super) raw_max: u64,
}

/// Reads the parameters of some codecs, a bit for each, from a byte on.
pub(super) fn read(
    source: &dyn Source,
    bits: u16,
    begin: u64,
    block_size: u64,
) -> Result<CodecParameters> {
    let mut found = CodecParameters { end: begin, raw_max: block_size };
    for (number, &name) in NAMES.iter().enumerate() {
        if bits >> number & 1 != 0 {
            let at = found.end.next_multiple_of(4);
            let (end, blocks) = check_parameters(source, at, number, name)?;
            found.end = end;
            let bytes = blocks.map(|blocks| u64::from(blocks) * block_size);
            let raw_max = bytes.unwrap_or(CLUSTER_MAX).min(CLUSTER_MAX);
            found.raw_max = found.raw_max.max(raw_max);
        }
    }
    Ok(found)
}

/// Checks one codec's parameters. Says where the next may be, and how many blocks a cluster has at
/// most, if they tell.
fn check_parameters(
    source: &dyn Source,
    at: u64,
    number: usize,
    name: &str,
) -> Result<(u64, Option<u16>)> {
    within(source, at + 2)?;
    let mut len = [0; 2];
    source.fill(&mut len, at)?;
    let len = u16::from_le_bytes(len);
    let wanted = PARAMETERS[number];
    if usize::from(len) < wanted {
        let found = format!("{len} bytes for {name}, less than {wanted}");
        return Err(Error::field("codec parameters", at, found));
    }
    within(source, at + 2 + u64::from(len))?;
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

/// The numbers of the codecs.
pub(super) const LZ4: usize = 0;
pub(super) const LZMA: usize = 1;
pub(super) const DEFLATE: usize = 2;
pub(super) const ZSTD: usize = 3;
const NAMES: [&str; 4] = ["lz4", "lzma", "deflate", "zstd"];
/// The bits of the codecs that are known.
pub(super) const KNOWN: u16 = (1 << NAMES.len()) - 1;
/// The bytes of parameters that each codec has at least.
const PARAMETERS: [usize; 4] = [14, 14, 6, 6];
const PARAMETERS_MAX: usize = 14;
/// The largest cluster of the format, in bytes.
const CLUSTER_MAX: u64 = 1 << 20;
/// The largest dictionary of the format, in bytes.
const DICTIONARY_MAX: u32 = 8 << 20;
/// The largest window of the format, as a power of two beyond 1 KiB.
const WINDOW_LOG_MAX: u8 = 10;
