//! Which write each byte of a page comes from, as runs of equal bytes.
//!
//! Every copy into page memory is a new version with a greater number. A version and a position
//! together identify the value of a byte.
//!
//! ```text
//!   bytes    0 ......... 100 ......... 612 ......... 4096
//!   runs     (0, v3)     (100, v9)     (612, v3)
//! ```

use std::ops::Range;

use forebay_core::units::{PAGE_SIZE, SECTOR_SIZE};

/// Which copy a byte comes from.
pub(super) type Version = u32;

/// What the device held before the first write.
pub(super) const INITIAL: Version = 0;

/// What a fresh page holds where nothing was written.
pub(super) const ZERO: Version = 1;

/// The first version that a copy gets.
pub(super) const FIRST: Version = 2;

/// The bytes of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Runs(Vec<(u64, Version)>);

impl Runs {
    /// A page that is of one version.
    pub(super) fn of(version: Version) -> Self {
        Self(vec![(0, version)])
    }

    /// Makes a range of bytes equal to those of another page.
    pub(super) fn paste(&mut self, range: &Range<u64>, from: &Self) {
        let mut runs: Vec<(u64, Version)> = Vec::with_capacity(self.0.len() + 2);
        let mut push = |start, version| {
            if runs.last().is_none_or(|(_, last)| *last != version) {
                runs.push((start, version));
            }
        };
        let before = 0..range.start;
        let behind = range.end..PAGE_SIZE;
        for (part, page) in [(&before, &*self), (range, from), (&behind, &*self)] {
            pieces([page], part).for_each(|(bytes, [version])| push(bytes.start, version));
        }
        self.0 = runs;
    }

    /// Makes a range of bytes one version.
    pub(super) fn stamp(&mut self, range: &Range<u64>, version: Version) {
        self.paste(range, &Self::of(version));
    }

    fn at(&self, byte: u64) -> Version {
        self.0[self.0.partition_point(|(start, _)| *start <= byte) - 1].1
    }
}

/// The versions of several pages side by side: the runs of a range in which none of them changes.
pub(super) fn pieces<const PAGES: usize>(
    pages: [&Runs; PAGES],
    range: &Range<u64>,
) -> impl Iterator<Item = (Range<u64>, [Version; PAGES])> {
    let mut next = range.start;
    let end = range.end;
    std::iter::from_fn(move || {
        let start = next;
        if start >= end {
            return None;
        }
        let behind = |page: &Runs| page.0.iter().map(|(at, _)| *at).find(|at| *at > start);
        next = pages.iter().filter_map(|page| behind(page)).min().map_or(end, |at| at.min(end));
        Some((start..next, pages.map(|page| page.at(start))))
    })
}

/// The bytes of each sector of a page.
pub(super) fn sectors() -> impl Iterator<Item = Range<u64>> {
    (0..PAGE_SIZE / SECTOR_SIZE).map(|sector| sector * SECTOR_SIZE..(sector + 1) * SECTOR_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_agree_with_an_array_of_bytes() {
        let mut rng = crate::rng::Rng::new(1);
        let mut runs = Runs::of(INITIAL);
        let mut bytes = vec![INITIAL; PAGE_SIZE as usize];
        for version in FIRST..300 {
            let start = rng.below(PAGE_SIZE);
            let range = start..start + 1 + rng.below((PAGE_SIZE - start).min(700));
            runs.stamp(&range, version);
            bytes[range.start as usize..range.end as usize].fill(version);
            assert!((0..PAGE_SIZE).all(|byte| runs.at(byte) == bytes[byte as usize]));
        }
        assert!(runs.0.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1));
    }

    #[test]
    fn pieces_begin_where_either_page_changes() {
        let (mut one, mut other) = (Runs::of(INITIAL), Runs::of(INITIAL));
        one.stamp(&(10..20), 5);
        other.stamp(&(15..30), 7);
        let found: Vec<_> = pieces([&one, &other], &(12..40)).collect();
        let wanted = [(12..15, [5, 0]), (15..20, [5, 7]), (20..30, [0, 7]), (30..40, [0, 0])];
        assert_eq!(found, wanted);
    }
}
