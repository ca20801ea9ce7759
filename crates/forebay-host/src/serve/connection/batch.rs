//! Replies that are sent in one go.

use std::ops::Range;

use forebay_core::io::IoError;
use forebay_nbd::{Agreed, Command, Errno, Request};

/// Replies that are sent together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Headers and short replies, one behind the other.
    pub(super) control: Vec<u8>,
    /// Data, each behind the part of `control` that ends here.
    pub(super) data: Vec<(usize, Vec<u8>)>,
}

impl Batch {
    pub(super) fn add(
        &mut self,
        agreed: &Agreed,
        request: &Request,
        bytes: Vec<u8>,
        result: Result<(), IoError>,
    ) {
        match result {
            Ok(()) if request.command == Command::Read => {
                self.control.extend_from_slice(agreed.read_header(request).as_bytes());
                self.data.push((self.control.len(), bytes));
            }
            Ok(()) => agreed.ok(request, &mut self.control),
            Err(error) => {
                let errno = match error {
                    IoError::NoSpace => Errno::NoSpace,
                    IoError::ReadOnly => Errno::Permission,
                    IoError::Device
                    | IoError::Truncated
                    | IoError::BeyondEnd
                    | IoError::Corrupt
                    | IoError::NoMemory => Errno::Io,
                };
                agreed.error(request, errno, &error.to_string(), &mut self.control);
            }
        }
    }

    /// All bytes in their order.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        let ranges = self.data.iter().map(move |(end, bytes)| {
            let range = Range { start, end: *end };
            start = *end;
            (range, bytes)
        });
        let rest = self.data.last().map_or(0, |(end, _)| *end);
        let paired = ranges.flat_map(|(range, bytes)| [&self.control[range], &bytes[..]]);
        paired.chain([&self.control[rest..]]).filter(|part| !part.is_empty())
    }

    /// Appends all bytes but the first `sent`.
    pub(super) fn flatten(&self, sent: usize, queue: &mut Vec<u8>) {
        let mut skip = sent;
        for part in self.parts() {
            let left = part.get(skip..).unwrap_or(&[]);
            skip = skip.saturating_sub(part.len());
            queue.extend_from_slice(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_sent_is_queued_wherever_the_client_stopped() {
        let batch = Batch {
            control: b"abcdef".to_vec(),
            data: vec![(2, b"XYZ".to_vec()), (4, Vec::new())],
        };
        let whole = b"abXYZcdef";
        for sent in 0..=whole.len() {
            let mut queue = b"-".to_vec();
            batch.flatten(sent, &mut queue);
            assert_eq!(queue[1..], whole[sent..], "{sent}");
        }
    }
}
