//! The beginning of an LZ4 block, which `lz4_flex` cannot stop at.
//!
//! ```text
//!   token | more literals | literals | offset, 16 bits | more match | token | ...
//!     token: number of literals (4 bits), length of the match - 4 (4 bits); 15 means that bytes
//!     follow which are added, up to the first that is not 255
//! ```

use super::Failure;

/// Decodes until `content` is full or the block ends.
pub(super) fn decode(raw: &[u8], content: &mut [u8]) -> Result<usize, Failure> {
    let mut rest = raw;
    let mut done = 0;
    while done < content.len() {
        let token = usize::from(byte(&mut rest)?);
        let literals = length(&mut rest, token >> 4)?;
        let len = literals.min(content.len() - done);
        let from = rest.get(..len).ok_or_else(ends)?;
        content[done..done + len].copy_from_slice(from);
        done += len;
        // The number requested, if any work remains.
        rest = &rest[len..];
        if rest.is_empty() || done == content.len() {
            break;
        }
        let offset = usize::from(byte(&mut rest)?) | usize::from(byte(&mut rest)?) << 8;
        let matched = length(&mut rest, token & 15)?.saturating_add(4);
        let len = matched.min(content.len() - done);
        let start = done.checked_sub(offset).filter(|_| offset > 0);
        let start = start.ok_or_else(|| {
            Failure::invalid(format!("invalid LZ4 block: an offset of {offset} at byte {done}"))
        })?;
        repeat(content, start, done, len);
        done += len;
    }
    Ok(done)
}

/// Copies the bytes at `start` to `to`; the ranges may overlap, so copied bytes can be copied
/// again.
fn repeat(content: &mut [u8], start: usize, to: usize, len: usize) {
    let mut copied = 0;
    while copied < len {
        // All that is there repeats itself, so each round can copy twice as much.
        let part = (to + copied - start).min(len - copied);
        content.copy_within(start..start + part, to + copied);
        copied += part;
    }
}

fn length(rest: &mut &[u8], short: usize) -> Result<usize, Failure> {
    let mut len = short;
    if short == 15 {
        loop {
            let more = byte(rest)?;
            // 255 times the length of the raw bytes at most.
            len = len.saturating_add(more.into());
            if more != 255 {
                break;
            }
        }
    }
    Ok(len)
}

fn byte(rest: &mut &[u8]) -> Result<u8, Failure> {
    let (&byte, behind) = rest.split_first().ok_or_else(ends)?;
    *rest = behind;
    Ok(byte)
}

fn ends() -> Failure {
    Failure::invalid("invalid LZ4 block: it ends too early")
}
