//! What the bytes of written files must be: the model that verified runs compare with.
//!
//! ```text
//!   file   |.......|==== 3 ====|== 5 ==|....|= 4 =|......|
//!          never written: the file's own bytes
//!                  written: the pattern of the last write
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use forebay_core::units::FileId;

use crate::pattern;

/// Which write each byte of some files is of.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    files: BTreeMap<FileId, Intervals>,
}

/// The start of each run of bytes to its end and its write.
type Intervals = BTreeMap<u64, (u64, u64)>;

/// A run of bytes of which one write, or none, decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bytes: Range<u64>,
    /// None if nothing was written there.
    pub(crate) generation: Option<u64>,
}

impl Contents {
    /// A write of this generation has put its pattern into a range.
    pub(crate) fn record(&mut self, file: FileId, range: Range<u64>, generation: u64) {
        if range.is_empty() {
            return;
        }
        let intervals = self.files.entry(file).or_default();
        // The neighbour before may reach into the range, and beyond it.
        let before = intervals.range(..range.start).next_back();
        if let Some((&start, &(end, old))) = before.filter(|(_, (end, _))| *end > range.start) {
            intervals.insert(start, (range.start, old));
            if end > range.end {
                intervals.insert(range.end, (end, old));
            }
        }
        let inside: Vec<u64> = intervals.range(range.clone()).map(|(start, _)| *start).collect();
        for start in inside {
            let (end, old) = intervals.remove(&start).expect("it was found");
            if end > range.end {
                intervals.insert(range.end, (end, old));
            }
        }
        intervals.insert(range.start, (range.end, generation));
    }

    /// A range in pieces, in order.
    pub(crate) fn pieces(&self, file: FileId, range: Range<u64>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        let unwritten = |bytes: Range<u64>| Piece { bytes, generation: None };
        if let Some(intervals) = self.files.get(&file) {
            let first = intervals.range(..=range.start).next_back().map_or(0, |(start, _)| *start);
            for (&start, &(end, generation)) in intervals.range(first..range.end) {
                let bytes = start.max(range.start)..end.min(range.end);
                if bytes.is_empty() {
                    continue;
                }
                if bytes.start > at {
                    pieces.push(unwritten(at..bytes.start));
                }
                at = bytes.end;
                pieces.push(Piece { bytes, generation: Some(generation) });
            }
        }
        if at < range.end {
            pieces.push(unwritten(at..range.end));
        }
        pieces
    }

    /// Every written run of bytes of every file, with its write.
    pub(crate) fn written(&self) -> impl Iterator<Item = (FileId, Range<u64>, u64)> + '_ {
        self.files.iter().flat_map(|(file, intervals)| {
            let run = |(start, (end, generation)): (&u64, &(u64, u64))| {
                (*file, *start..*end, *generation)
            };
            intervals.iter().map(run)
        })
    }
}

/// The first wrong byte of a written piece: its offset in the file, and the expected value.
pub(crate) fn wrong_byte(bytes: &[u8], offset: u64, generation: u64) -> Option<(u64, u8, u8)> {
    let (at, expected) = pattern::mismatch(bytes, offset, generation)?;
    Some((offset + at as u64, expected, bytes[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(0);

    /// Against an array of bytes that is overwritten, with ranges from a small generator.
    #[test]
    fn the_last_write_of_each_byte_counts() {
        let mut state = 1u64;
        let mut below = |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % end
        };
        let mut plain = [None; 64];
        let mut contents = Contents::default();
        for generation in 1..500 {
            let start = below(64);
            let end = start + below(65 - start);
            contents.record(FILE, start..end, generation);
            plain[start as usize..end as usize].fill(Some(generation));
            let (from, to) = (below(32), 32 + below(33));
            let mut seen = Vec::new();
            for piece in contents.pieces(FILE, from..to) {
                seen.extend(piece.bytes.map(|_| piece.generation));
            }
            assert_eq!(seen, plain[from as usize..to as usize], "{generation}");
        }
        let bytes = contents.written().map(|(_, range, _)| range.end - range.start).sum::<u64>();
        assert_eq!(bytes, plain.iter().flatten().count() as u64);
    }
}
