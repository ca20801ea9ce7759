//! What Linux finds under the names of a directory.
//!
//! It is a binary search: among the blocks for the last one whose first name is not greater, then
//! in that block. Bytes that the name shares with both ends of the remaining range are not compared
//! again, so if names are not sorted the search may end at a name that only has the same end.

use std::cmp::Ordering;

use crate::listing::Stored;

/// The place that Linux finds for a name; `blocks` are the places of their first entries.
pub(super) fn find<T>(stored: &[Stored<T>], blocks: &[usize], name: &[u8]) -> Option<usize> {
    let mut halves = Halves::new(name, 0, blocks.len());
    let mut candidate = None;
    while let Some(block) = halves.middle() {
        match halves.compare(&stored[blocks[block]].name) {
            Ordering::Equal => return Some(blocks[block]),
            Ordering::Greater => candidate = Some(block),
            Ordering::Less => {}
        }
    }
    let block = candidate?;
    let end = blocks.get(block + 1).copied().unwrap_or(stored.len());
    // The first one has been compared.
    let mut halves = Halves::new(name, blocks[block] + 1, end);
    while let Some(place) = halves.middle() {
        if halves.compare(&stored[place].name) == Ordering::Equal {
            return Some(place);
        }
    }
    None
}

/// A search by halves.
struct Halves<'a> {
    name: &'a [u8],
    low: usize,
    high: usize,
    middle: usize,
    /// Bytes that the name shares with the names at either end.
    shared: (usize, usize),
}

impl<'a> Halves<'a> {
    const fn new(name: &'a [u8], low: usize, high: usize) -> Self {
        Self { name, low, high, middle: 0, shared: (0, 0) }
    }

    fn middle(&mut self) -> Option<usize> {
        let last = self.high.checked_sub(1).filter(|last| self.low <= *last)?;
        self.middle = self.low + (last - self.low) / 2;
        Some(self.middle)
    }

    /// Compares the name with the middle one; continues with that half.
    fn compare(&mut self, other: &[u8]) -> Ordering {
        let begin = self.shared.0.min(self.shared.1);
        let rest = |name: &'a [u8]| name.get(begin..).unwrap_or_default();
        let end = other.iter().position(|byte| *byte == 0).unwrap_or(other.len());
        let others = other[..end].get(begin..).unwrap_or_default();
        let same = rest(self.name).iter().zip(others).take_while(|(a, b)| a == b).count();
        let order = match (rest(self.name).get(same), others.get(same)) {
            (None, None) => Ordering::Equal,
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
            (Some(own), Some(other)) => own.cmp(other),
        };
        match order {
            Ordering::Equal => {}
            Ordering::Greater => (self.low, self.shared.0) = (self.middle + 1, begin + same),
            Ordering::Less => (self.high, self.shared.1) = (self.middle, begin + same),
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::EntryTarget;
    use crate::node::{Kind, NodeId};

    fn stored(names: &[&str]) -> Vec<Stored<()>> {
        let entry = |name: &&str| Stored {
            name: name.as_bytes().to_vec(),
            node: NodeId(0),
            target: EntryTarget { ino: 0, kind: Some(Kind::File) },
            extra: (),
        };
        names.iter().map(entry).collect()
    }

    #[test]
    fn every_sorted_name_is_found_whatever_the_blocks() {
        let names: Vec<String> = (0..40_u32).map(|number| format!("{:b}", number + 3)).collect();
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.sort_unstable();
        let stored = stored(&names);
        for len in [1, 2, 3, 7, 40] {
            let blocks: Vec<usize> = (0..names.len()).step_by(len).collect();
            for (place, name) in names.iter().enumerate() {
                assert_eq!(find(&stored, &blocks, name.as_bytes()), Some(place), "{name} {len}");
            }
            assert_eq!(find(&stored, &blocks, b"2"), None);
            assert_eq!(find(&stored, &blocks, b""), None);
        }
        assert_eq!(find(&stored, &[], b"1"), None);
    }

    #[test]
    fn a_name_that_only_ends_alike_is_found_among_unsorted_ones() {
        // Both ends share "ab" with the name, so that "zzc" is compared from its third byte on.
        let stored = stored(&["", "x", "x", "x", "aba", "zzc", "abd", "x"]);
        assert_eq!(find(&stored, &[0], b"abc"), Some(5));
    }
}
