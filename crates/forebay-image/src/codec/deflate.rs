//! Deflate streams without a frame: whole ones by libdeflate, the beginning of one by zlib-rs.

use std::cell::RefCell;

use flate2::Decompress;
use libdeflater::{DecompressionError, Decompressor};

use super::{Failure, zlib};

/// Decodes by whichever way is shorter.
pub(super) fn decode(raw: &[u8], upto: usize, content: &mut [u8]) -> Result<usize, Failure> {
    if zlib::is_prefix(upto, content.len()) {
        begin(raw, &mut content[..upto])
    } else {
        whole(raw, content)
    }
}

/// Decodes all, up to the end.
fn whole(raw: &[u8], content: &mut [u8]) -> Result<usize, Failure> {
    let room = content.len();
    let done = WHOLE.with_borrow_mut(|inflater| inflater.deflate_decompress(raw, content));
    done.map_err(|error| match error {
        DecompressionError::InsufficientSpace => Failure::Longer { room },
        DecompressionError::BadData => Failure::invalid("invalid deflate stream"),
    })
}

/// Fills `content`, or as much of it as there is.
pub(super) fn begin(raw: &[u8], content: &mut [u8]) -> Result<usize, Failure> {
    BEGIN.with_borrow_mut(|inflater| {
        inflater.reset(false);
        zlib::fill(inflater, "deflate", raw, content)
    })
}

thread_local! {
    static WHOLE: RefCell<Decompressor> = RefCell::new(Decompressor::new());
    static BEGIN: RefCell<Decompress> = RefCell::new(Decompress::new(false));
}
