//! LZ4 blocks without a frame.
//!
//! They are decoded whole: at several gigabytes a second there is little to save.

use lz4_flex::block::{DecompressError, decompress_into};

use super::Failure;

/// Decodes all.
pub(super) fn decode(raw: &[u8], content: &mut [u8]) -> Result<usize, Failure> {
    let room = content.len();
    decompress_into(raw, content).map_err(|error| {
        if matches!(error, DecompressError::OutputTooSmall { .. }) {
            Failure::Longer { room }
        } else {
            Failure::invalid(format!("invalid LZ4 block: {error}"))
        }
    })
}
