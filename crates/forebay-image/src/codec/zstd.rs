//! Zstandard frames, by the reference decoder.
//!
//! A frame consists of blocks of at most 128 KiB, and a block is decoded as a whole: stopping
//! early pays only in a frame that has more than one.

use std::cell::RefCell;

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use super::Failure;

/// Decodes by whichever way is shorter.
pub(super) fn decode(raw: &[u8], upto: usize, content: &mut [u8]) -> Result<usize, Failure> {
    DECODER.with_borrow_mut(|decoder| {
        let decoder = decoder.get_or_insert_with(DCtx::create);
        if upto.saturating_add(BLOCK) <= content.len()
            && let Some(done) = begin(decoder, raw, upto, content)
        {
            return Ok(done);
        }
        whole(decoder, raw, content)
    })
}

/// Decodes all, up to the end and the checksum.
fn whole(decoder: &mut DCtx<'_>, raw: &[u8], content: &mut [u8]) -> Result<usize, Failure> {
    let room = content.len();
    let len = zstd_safe::find_frame_compressed_size(raw).map_err(invalid)?;
    let frame = raw.get(..len).unwrap_or(raw);
    decoder.decompress(content, frame).map_err(|code| {
        let says = zstd_safe::get_frame_content_size(frame).ok().flatten();
        if says.is_some_and(|says| says > room as u64) {
            Failure::Longer { room }
        } else {
            invalid(code)
        }
    })
}

/// Decodes block by block until `upto` bytes are there. None if that way is barred, as for a frame
/// whose window is larger than any block of an image.
fn begin(decoder: &mut DCtx<'_>, raw: &[u8], upto: usize, content: &mut [u8]) -> Option<usize> {
    decoder.reset(ResetDirective::SessionOnly).ok()?;
    decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).ok()?;
    // With room for the whole content the decoder would not stop at the end of a block.
    let (room, _) = content.split_at_mut(content.len() - 1);
    let mut output = OutBuffer::around(room);
    let mut used = 0;
    while output.pos() < upto {
        let end = raw.len().min(used + STEP);
        let mut input = InBuffer::around(raw.get(used..end)?);
        let before = output.pos();
        let left = decoder.decompress_stream(&mut output, &mut input).ok()?;
        used += input.pos();
        if left == 0 || (input.pos() == 0 && output.pos() == before) {
            break;
        }
    }
    (output.pos() >= upto).then(|| output.pos())
}

/// Fills `content` from the beginning of a frame, or as much of it as there is.
pub(super) fn fill(raw: &[u8], content: &mut [u8]) -> Result<usize, Failure> {
    let room = content.len();
    DECODER.with_borrow_mut(|decoder| {
        let decoder = decoder.get_or_insert_with(DCtx::create);
        decoder.reset(ResetDirective::SessionOnly).map_err(invalid)?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(invalid)?;
        let mut output = OutBuffer::around(content);
        let mut input = InBuffer::around(raw);
        while output.pos() < room {
            let before = (input.pos(), output.pos());
            if decoder.decompress_stream(&mut output, &mut input).map_err(invalid)? == 0 {
                break;
            }
            if (input.pos(), output.pos()) == before {
                return Err(Failure::invalid("the Zstandard frame ends too early"));
            }
        }
        Ok(output.pos())
    })
}

fn invalid(code: usize) -> Failure {
    Failure::invalid(format!("invalid Zstandard frame: {}", zstd_safe::get_error_name(code)))
}

/// The largest block of a frame, by RFC 8878.
const BLOCK: usize = 128 << 10;
/// Raw bytes passed at once; smaller than a block's usual raw size, so that little is decoded
/// beyond the request.
const STEP: usize = 16 << 10;
/// The largest window of a stream that is decoded in part: 8 MiB of memory.
const WINDOW_LOG_MAX: u32 = 23;

thread_local! {
    static DECODER: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}
