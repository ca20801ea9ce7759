//! .xz streams with any of their filters, by liblzma.
//!
//! A new decoder is made for each block, because liblzma's safe interface cannot reuse one. Its
//! dictionary is allocated each time; compared with the cost of decoding LZMA, this is little.

use liblzma::stream::{Action, Error, Status, Stream};

use super::Failure;

/// Decodes `upto` bytes, or all with the check behind them.
pub(super) fn decode(raw: &[u8], upto: usize, content: &mut [u8]) -> Result<usize, Failure> {
    let mut stream = Stream::new_stream_decoder(MEMORY_MAX, 0).map_err(|error| invalid(&error))?;
    let room = content.len();
    let whole = upto >= room;
    let content = if whole { content } else { &mut content[..upto] };
    loop {
        let (used, made) = (count(stream.total_in()), count(stream.total_out()));
        let (rest, target) = (&raw[used..], &mut content[made..]);
        let full = target.is_empty();
        if full && !whole {
            return Ok(made);
        }
        // An empty target makes the decoder go on to the stream's end, if nothing is left to give.
        let status = stream.process(rest, target, Action::Run).map_err(|error| invalid(&error))?;
        let (used, made) = (count(stream.total_in()) - used, count(stream.total_out()) - made);
        match status {
            Status::StreamEnd => return Ok(count(stream.total_out())),
            Status::Ok | Status::MemNeeded | Status::GetCheck if used > 0 || made > 0 => {}
            Status::Ok | Status::MemNeeded | Status::GetCheck => {
                let ended = rest.len() == used;
                return Err(if full && !ended {
                    Failure::Longer { room }
                } else {
                    Failure::invalid("the .xz stream ends too early")
                });
            }
        }
    }
}

fn invalid(error: &Error) -> Failure {
    Failure::invalid(format!("invalid .xz stream: {error}"))
}

/// A number of bytes that are in memory.
fn count(bytes: u64) -> usize {
    usize::try_from(bytes).expect("no more than a slice's length")
}

/// Memory of one decoder in bytes: the largest dictionary that an image can need, 1 MiB, and what
/// else a decoder takes, with room to spare.
const MEMORY_MAX: u64 = 4 << 20;
