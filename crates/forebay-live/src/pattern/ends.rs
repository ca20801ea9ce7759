//! The windows that reach furthest, so that what lies beyond the end of the file can be left out.
//!
//! Source:     Linux `mm/readahead.c`, which tells of a window before it cuts it at the end.
//! Behaviour:  a few windows of a period are kept, those whose ends are highest, with their counts.
//!             Where the length of the file is known, what lies behind it is subtracted. Of a small
//!             file all windows are one or two; of a large one few reach its end.
//! Differs:    nothing.
//! Not for:    plain ranges, which the kernel cuts before it tells of them.

/// Windows of a period with the highest ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends([End; ENDS]);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct End {
    first: u64,
    /// The page behind the last one; 0 for a place that is free.
    behind: u64,
    count: u64,
}

impl Ends {
    /// A window of so many pages went out.
    pub(super) fn add(&mut self, first: u64, pages: u64) {
        let new = End { first, behind: first.saturating_add(pages), count: 1 };
        if let Some(known) =
            self.0.iter_mut().find(|end| (end.first, end.behind) == (first, new.behind))
        {
            known.count += 1;
        } else if let Some(lowest) = self.0.iter_mut().min_by_key(|end| end.behind)
            && lowest.behind < new.behind
        {
            *lowest = new;
        }
    }

    /// Pages of these windows that lie beyond a file of so many pages.
    pub fn beyond(&self, pages: u64) -> u64 {
        let beyond = |end: &End| end.behind.saturating_sub(pages.max(end.first)) * end.count;
        self.0.iter().map(beyond).fold(0, u64::saturating_add)
    }
}

/// Windows that are kept.
const ENDS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_ends_are_kept_and_counted() {
        let mut ends = Ends::default();
        for first in 0..100 {
            ends.add(first, 10);
            ends.add(200, 100);
        }
        assert_eq!(ends.beyond(300), 0);
        assert_eq!(ends.beyond(250), 50 * 100);
        assert_eq!(ends.beyond(108), 100 * 100 + 1, "the window from 99 on has a page beyond");
        assert_eq!(ends.beyond(0), 100 * 100 + 3 * 10);
        let mut ends = Ends::default();
        ends.add(u64::MAX, u64::MAX);
        assert_eq!(ends.beyond(1), 0);
    }
}
