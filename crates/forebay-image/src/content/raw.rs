//! Raw bytes of a file's blocks, read together where they follow each other.

use std::ops::Range;

use super::in_memory;
use crate::error::Result;
use crate::image::Image;

/// Raw bytes of later blocks of the same file that are read along at most.
const AHEAD_MAX: u64 = 128 << 10;

/// Bytes of the image that were read last.
#[derive(Debug, Default)]
pub(super) struct RawWindow {
    /// Longer than the used part, so that it is cleared once.
    bytes: Vec<u8>,
    len: usize,
    start: u64,
}

impl RawWindow {
    /// The raw bytes of a block. If they are not cached, some of those after it are read too, as
    /// many as the content after it has: packed, they have no more raw bytes.
    pub(super) fn read(
        &mut self,
        image: &dyn Image,
        raw: &Range<u64>,
        behind: u64,
    ) -> Result<&[u8]> {
        let len = in_memory(raw.end.saturating_sub(raw.start));
        let is_there = raw.start >= self.start && raw.end <= self.start + self.len as u64;
        if !is_there {
            self.len = 0;
            let left = image.source().len().saturating_sub(raw.end);
            let more = in_memory(behind.min(AHEAD_MAX).min(left));
            if self.bytes.len() < len + more {
                self.bytes.resize(len + more, 0);
            }
            let ahead = image.source().fill(&mut self.bytes[..len + more], raw.start);
            // What lies behind the block may be unreadable.
            if ahead.is_err() {
                image.source().fill(&mut self.bytes[..len], raw.start)?;
            }
            self.len = if ahead.is_ok() { len + more } else { len };
            self.start = raw.start;
        }
        let from = in_memory(raw.start - self.start);
        Ok(&self.bytes[from..from + len])
    }
}
