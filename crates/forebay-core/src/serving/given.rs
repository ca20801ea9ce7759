//! Pages of one file that the kernel was given: answered or pushed.
//!
//! A page that was given is not pushed again. When the kernel asks for one that it was given long
//! ago, it has dropped it, and most likely those around it.
//!
//! ```text
//!   word 0           word 1                      64 pages each
//!   | gggg....gg.. | ....gggggggg |              g: given
//!                    ^ asked for again           all of this word is forgotten
//! ```

use alloc::collections::BTreeMap;

use crate::packed::Pages;
use crate::time::{Duration, Instant};
use crate::units::PageIndex;

/// Which pages of a file the kernel was given.
#[derive(Debug, Default)]
pub struct GivenPages(BTreeMap<u64, Word>);

/// 64 pages of a file.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    pages: u64,
    /// When one of them was pushed last.
    pushed: Option<Instant>,
}

impl GivenPages {
    /// Notes that pages are pushed. `room` is how many words may be added; if that is not enough,
    /// the file forgets its own: its pages may be pushed once more, which costs a copy.
    pub fn push(&mut self, pages: Pages, now: Instant, room: usize) {
        let mut room = room;
        for page in pages.start..pages.end {
            let word = self.word(page, &mut room);
            word.pages |= bit(page);
            word.pushed = Some(now);
        }
    }

    /// Notes that pages are answered. Says whether the kernel was given one of them long ago and
    /// has dropped it; the pages around it are forgotten then. `room` as in [`GivenPages::push`].
    pub fn answer(&mut self, pages: Pages, now: Instant, room: usize) -> bool {
        let (mut room, mut is_lost) = (room, false);
        for page in pages.start..pages.end {
            let word = self.word(page, &mut room);
            // One that was pushed a moment ago was asked for a moment before.
            let has_crossed = word.pushed.is_some_and(|pushed| now.since(pushed) < CROSSING);
            if word.pages & bit(page) != 0 && !has_crossed {
                *word = Word::default();
                is_lost = true;
            }
            word.pages |= bit(page);
        }
        is_lost
    }

    /// The kernel has dropped all pages. Says whether some had been pushed.
    pub fn clear(&mut self) -> bool {
        let was_pushed = self.0.values().any(|word| word.pushed.is_some());
        self.0.clear();
        was_pushed
    }

    /// The first run among some pages that the kernel was not given, of at most `max` pages.
    pub fn absent(&self, pages: Pages, max: u64) -> Pages {
        let is_given = |page: PageIndex| {
            self.0.get(&(page / PAGES)).is_some_and(|word| word.pages & bit(page) != 0)
        };
        let Some(start) = (pages.start..pages.end).find(|page| !is_given(*page)) else {
            return Pages::none(pages.end);
        };
        let most = pages.end.min(start.saturating_add(max));
        let end = (start..most).find(|page| is_given(*page)).unwrap_or(most);
        Pages::new(start, end)
    }

    /// Words that are held.
    pub fn words(&self) -> usize {
        self.0.len()
    }

    fn word(&mut self, page: PageIndex, room: &mut usize) -> &mut Word {
        if !self.0.contains_key(&(page / PAGES)) {
            if *room == 0 {
                *room = self.0.len();
                self.0.clear();
            }
            *room = room.saturating_sub(1);
        }
        self.0.entry(page / PAGES).or_default()
    }
}

const fn bit(page: PageIndex) -> u64 {
    1 << (page % PAGES)
}

/// Pages of a word.
const PAGES: u64 = u64::BITS as u64;

/// A READ that was sent before its page was pushed has been answered after so long, also on a busy
/// machine.
const CROSSING: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_AFTER: Instant = Instant(1_000_000_000);

    #[test]
    fn only_pages_that_were_not_given_are_absent() {
        let mut given = GivenPages::default();
        given.push(Pages::new(60, 70), Instant::ZERO, 10);
        assert!(!given.answer(Pages::new(72, 73), Instant::ZERO, 10));
        let rows = [
            (Pages::new(50, 100), 64, Pages::new(50, 60)),
            (Pages::new(50, 100), 4, Pages::new(50, 54)),
            (Pages::new(60, 100), 64, Pages::new(70, 72)),
            (Pages::new(72, 80), 64, Pages::new(73, 80)),
            (Pages::new(60, 70), 64, Pages::none(70)),
        ];
        for (pages, max, absent) in rows {
            assert_eq!(given.absent(pages, max), absent, "{pages:?} {max}");
        }
    }

    #[test]
    fn a_page_that_is_asked_for_long_after_its_push_was_dropped() {
        let page = Pages::new(3, 4);
        let rows = [(Instant(99_999_999), false), (Instant(100_000_000), true)];
        for (now, is_lost) in rows {
            let mut given = GivenPages::default();
            given.push(Pages::new(0, 10), Instant::ZERO, 10);
            assert_eq!(given.answer(page, now, 10), is_lost, "{now:?}");
            let around = given.absent(Pages::new(0, 10), 64);
            assert_eq!(around.is_empty(), !is_lost, "its neighbours are forgotten, too");
        }
    }

    #[test]
    fn without_room_a_file_forgets_its_own_pages_and_never_holds_more() {
        let mut given = GivenPages::default();
        given.push(Pages::new(0, 64), Instant::ZERO, 1);
        given.push(Pages::new(64, 128), Instant::ZERO, 0);
        assert_eq!(given.words(), 1);
        assert_eq!(given.absent(Pages::new(0, 128), 1000), Pages::new(0, 64));
        assert!(given.clear() && given.words() == 0);
        assert!(!given.answer(Pages::new(0, 64), LONG_AFTER, 1));
        assert!(!given.clear(), "nothing was pushed");
    }
}
