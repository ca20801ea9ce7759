//! LZO1X streams, decoded whole.
//!
//! Unlike in the other codecs, raw bytes after the end of the stream are an error.

use lzokay::Error;
use lzokay::decompress::decompress;

use super::Failure;

/// Decodes all.
pub(super) fn decode(raw: &[u8], content: &mut [u8]) -> Result<usize, Failure> {
    let room = content.len();
    decompress(raw, content).map_err(|error| match error {
        Error::OutputOverrun => Failure::Longer { room },
        Error::LookbehindOverrun | Error::InputOverrun | Error::Error | Error::InputNotConsumed => {
            Failure::invalid(format!("invalid LZO stream: {error:?}"))
        }
    })
}
