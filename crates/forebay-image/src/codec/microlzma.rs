//! MicroLZMA streams, by liblzma: LZMA whose first byte, always zero, says the properties instead.
//!
//! The safe interface of liblzma does not have them, so their parts are read separately:
//!
//! ```text
//!   MicroLZMA            !properties | range coder's bytes but the first, which is zero
//!   .lzma     properties | dictionary, 32 bits | content, 64 bits | 0 | range coder's bytes ...
//! ```
//!
//! A decoder is made anew for each block, since the safe interface cannot take one up again. Its
//! dictionary is no larger than the content.

use liblzma::stream::{Action, Error, Status, Stream};

use super::Failure;

/// Decodes `upto` bytes, or all with a check of the end.
pub(super) fn decode(raw: &[u8], upto: usize, content: &mut [u8]) -> Result<usize, Failure> {
    if upto < content.len() {
        return begin(raw, &mut content[..upto]);
    }
    let len = content.len() as u64;
    let (done, ended) = run(raw, len, content)?;
    if ended { Ok(done) } else { Err(Failure::invalid("the LZMA stream does not end")) }
}

/// Fills `content`.
pub(super) fn begin(raw: &[u8], content: &mut [u8]) -> Result<usize, Failure> {
    if content.is_empty() {
        return Ok(0);
    }
    let (done, _) = run(raw, u64::MAX, content)?;
    Ok(done)
}

/// Decodes, and says how much is there and whether that is all.
fn run(raw: &[u8], len: u64, content: &mut [u8]) -> Result<(usize, bool), Failure> {
    let Some((properties, raw)) = raw.split_first() else {
        return Err(Failure::invalid("an empty LZMA stream"));
    };
    let dictionary = u32::try_from(content.len()).unwrap_or(u32::MAX).max(DICTIONARY_MIN);
    let mut header = [0; 14];
    header[0] = !properties;
    header[1..5].copy_from_slice(&dictionary.to_le_bytes());
    header[5..13].copy_from_slice(&len.to_le_bytes());
    let mut stream = Stream::new_lzma_decoder(MEMORY_MAX).map_err(|error| invalid(&error))?;
    for input in [&header[..], raw] {
        let start = stream.total_in();
        loop {
            let used = count(stream.total_in() - start);
            let made = count(stream.total_out());
            let full = made == content.len();
            // Without an end the decoder would take what follows for more content.
            if full && len == u64::MAX {
                return Ok((made, false));
            }
            let (rest, target) = (&input[used..], &mut content[made..]);
            let status =
                stream.process(rest, target, Action::Run).map_err(|error| invalid(&error))?;
            match status {
                Status::StreamEnd => return Ok((count(stream.total_out()), true)),
                Status::Ok | Status::MemNeeded | Status::GetCheck => {}
            }
            let idle =
                count(stream.total_in() - start) == used && count(stream.total_out()) == made;
            if idle || count(stream.total_in() - start) == input.len() && !full {
                break;
            }
        }
    }
    Ok((count(stream.total_out()), false))
}

fn invalid(error: &Error) -> Failure {
    Failure::invalid(format!("invalid LZMA stream: {error}"))
}

/// A number of bytes that are in memory.
fn count(bytes: u64) -> usize {
    usize::try_from(bytes).expect("no more than a slice's length")
}

/// The smallest dictionary that there is, in bytes.
const DICTIONARY_MIN: u32 = 4096;
/// Memory of one decoder in bytes: a dictionary of the largest content, 16 MiB, and what else it
/// takes, with room to spare.
const MEMORY_MAX: u64 = 20 << 20;

#[cfg(test)]
pub(super) mod tests {
    use liblzma::stream::{Action, LzmaOptions, Stream};

    /// An .lzma stream without its header and its end.
    pub(crate) fn packed(plain: &[u8]) -> Vec<u8> {
        let options = LzmaOptions::new_preset(6).unwrap();
        let mut stream = Stream::new_lzma_encoder(&options).unwrap();
        let mut packed = vec![0; plain.len() * 2 + 1024];
        while stream.total_in() < plain.len() as u64 {
            let (used, made) = (stream.total_in(), stream.total_out());
            let rest = &plain[usize::try_from(used).unwrap()..];
            let target = &mut packed[usize::try_from(made).unwrap()..];
            stream.process(rest, target, Action::Run).unwrap();
        }
        let made = usize::try_from(stream.total_out()).unwrap();
        stream.process(&[], &mut packed[made..], Action::Finish).unwrap();
        packed.truncate(usize::try_from(stream.total_out()).unwrap());
        let properties = packed[0];
        let mut packed = packed.split_off(13);
        packed[0] = !properties;
        packed
    }
}
