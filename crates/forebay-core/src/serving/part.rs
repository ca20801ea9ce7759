//! Parts of requests: runs of bytes, each from one place of the image.

use super::PackedBlock;
use crate::packed::RawBytes;

/// A part of a request: bytes that come from one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where the bytes go in the request's buffer.
    pub at: u64,
    /// The number of bytes, at least one.
    pub len: u64,
    /// Where they come from.
    pub source: PartSource,
}

/// Where the bytes of a part come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartSource {
    /// The bytes of the image from this offset on.
    Stored(u64),
    /// The same, brought into memory alone: nothing is copied.
    Ahead(u64),
    /// What a block decodes to, from this byte of its content on.
    Packed(PackedBlock, u32),
}

impl Part {
    /// The bytes of the image that it is made of.
    pub const fn raw(&self) -> RawBytes {
        match self.source {
            PartSource::Stored(start) | PartSource::Ahead(start) => {
                RawBytes { start, end: start.saturating_add(self.len) }
            }
            PartSource::Packed(block, _) => block.raw,
        }
    }

    /// The bytes of the image that parts are made of, first to last. If the parts lie far from each
    /// other, as a file's end in a block of several files does, those of the first part.
    pub fn raw_of_all(parts: &[Self]) -> RawBytes {
        let Some(first) = parts.first() else { return RawBytes::default() };
        let (mut all, mut sum) = (first.raw(), 0_u64);
        for raw in parts.iter().map(Self::raw) {
            all = RawBytes { start: all.start.min(raw.start), end: all.end.max(raw.end) };
            sum = sum.saturating_add(raw.len());
        }
        if all.len() <= sum.saturating_mul(2) { all } else { first.raw() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_lie_close_together_are_one_range_and_far_ones_the_first() {
        let stored = |start, len| Part { at: 0, len, source: PartSource::Stored(start) };
        let block = PackedBlock { raw: RawBytes { start: 50, end: 90 }, decoded: 4096, variant: 0 };
        let packed = Part { at: 0, len: 7, source: PartSource::Packed(block, 0) };
        let ahead = Part { at: 0, len: 10, source: PartSource::Ahead(u64::MAX - 3) };
        for (parts, start, end) in [
            (&[][..], 0, 0),
            (&[packed][..], 50, 90),
            (&[stored(10, 20), packed][..], 10, 90),
            (&[packed, stored(10, 20)][..], 10, 90),
            (&[packed, stored(171, 0)][..], 50, 90),
            (&[stored(1000, 8), packed][..], 1000, 1008),
            (&[ahead][..], u64::MAX - 3, u64::MAX),
        ] {
            assert_eq!(Part::raw_of_all(parts), RawBytes { start, end }, "{parts:?}");
        }
        // Half of the range at least is needed.
        for (from, end) in [(60, 80), (61, 20)] {
            let found = Part::raw_of_all(&[stored(0, 20), stored(from, 20)]);
            assert_eq!(found.end, end, "the second part at {from}");
        }
    }
}
