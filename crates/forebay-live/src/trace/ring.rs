//! A page of the trace buffer as the kernel hands it out, taken apart.
//!
//! Source:     Linux `include/linux/ring_buffer.h` and `kernel/trace/ring_buffer.c`, where the
//!             layout is described; `header_page` and `header_event` give its numbers.
//! Behaviour:  events are handed out one after the other, each with its time. The flags of a
//!             page's length say that events were lost before it, and whether their number stands
//!             behind its last event.
//! Differs:    nothing.
//! Not for:    big-endian machines, which order the bits of the first word otherwise.
//!
//! ```text
//! 0          8                  16                   16 + length
//! | time, ns | length and flags | events ...         | lost events |
//!
//! event:  type, 5 bits | time since the last event, 27 bits | what the type says
//! type 1..28  so many words of data
//! type 0      a word with the length, itself included, then data
//! type 29     room without an event: as long as the next word says, or to the end
//! type 30     the next word holds the upper bits of the time since the last event
//! type 31     the same of a time since boot, without its upper 5 bits
//! ```

use super::format::{EntryHeader, Field, Format};

/// How pages are laid out on this kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageLayout {
    time: Field,
    commit: Field,
    data: Field,
    entry: EntryHeader,
}

impl PageLayout {
    /// From the texts of `events/header_page` and `events/header_event`.
    pub(super) fn parse(page: &str, event: &str) -> Result<Self, String> {
        let page = Format::parse(page)?;
        let layout = Self {
            time: page.number("timestamp")?,
            commit: page.number("commit")?,
            data: page.field("data")?,
            entry: EntryHeader::parse(event)?,
        };
        Ok(layout)
    }

    /// Bytes of a page.
    pub(super) fn size(&self) -> usize {
        self.data.offset + self.data.size
    }
}

/// The events of a page, in their order.
#[derive(Debug)]
pub(super) struct Entries<'a> {
    data: &'a [u8],
    time: u64,
    entry: EntryHeader,
    lost: u64,
}

impl<'a> Entries<'a> {
    /// The events of a page; none if it is shorter than its header.
    pub(super) fn new(page: &'a [u8], layout: &PageLayout) -> Option<Self> {
        let time = layout.time.value(page)?;
        let commit = layout.commit.value(page)?;
        let room = page.get(layout.data.offset..)?;
        let length = usize::try_from(commit & LENGTH).ok()?.min(room.len());
        let (data, behind) = room.split_at(length);
        let number = || Some(u64::from_le_bytes(*behind.first_chunk()?));
        let lost = match (commit & LOST != 0, commit & LOST_COUNTED != 0) {
            (true, true) => number().unwrap_or(1),
            (true, false) => 1,
            (false, _) => 0,
        };
        Some(Self { data, time, entry: layout.entry, lost })
    }

    /// Events that were overwritten before this page; at least 1 if their number is not known.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Takes the first so many bytes.
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.data.split_at_checked(length)?;
        self.data = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.data.split_first_chunk()?;
        self.data = rest;
        Some(u32::from_le_bytes(*word))
    }

    /// The time that a type 31 gives, with the upper bits of the time so far.
    fn since_boot(&self, low: u64) -> u64 {
        let time = low | (self.time & STAMP_UPPER);
        // The lower bits have run over since the page began.
        if time < self.time { time.wrapping_add(!STAMP_UPPER + 1) } else { time }
    }
}

impl<'a> Iterator for Entries<'a> {
    /// The time in ns and the bytes of the event.
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        // Every turn takes at least a word.
        loop {
            let first = self.word()?;
            let kind = first & ((1 << self.entry.type_bits) - 1);
            let delta = u64::from(first >> self.entry.type_bits);
            let delta_bits = 32 - self.entry.type_bits;
            if kind == self.entry.padding {
                if delta == 0 {
                    self.data = &[];
                    return None;
                }
                let length = usize::try_from(self.word()?).ok()?;
                // The length counts its own word.
                self.take(length.checked_sub(WORD)?)?;
                self.time = self.time.wrapping_add(delta);
            } else if kind == self.entry.time_extend {
                let long = u64::from(self.word()?) << delta_bits;
                self.time = self.time.wrapping_add(long | delta);
            } else if kind == self.entry.time_stamp {
                let long = u64::from(self.word()?) << delta_bits;
                self.time = self.since_boot(long | delta);
            } else {
                self.time = self.time.wrapping_add(delta);
                let length = match kind {
                    0 => usize::try_from(self.word()?).ok()?.checked_sub(WORD)?,
                    words if words <= self.entry.data_max => usize::try_from(words).ok()? * WORD,
                    // A type that is not known has a length that is not known.
                    _ => return None,
                };
                return Some((self.time, self.take(length)?));
            }
        }
    }
}

/// Bytes of a word.
const WORD: usize = 4;

/// The bits of `commit` that are the length of the events (`RB_WRITE_MASK`).
const LENGTH: u64 = 0xf_ffff;

/// Events were lost before this page (`RB_MISSED_EVENTS`).
const LOST: u64 = 1 << 31;

/// Their number stands behind the last event (`RB_MISSED_STORED`).
const LOST_COUNTED: u64 = 1 << 30;

/// What a type 31 has no room for (`TS_MSB`).
const STAMP_UPPER: u64 = 0xf8 << 56;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::recorded;

    #[test]
    fn each_kind_of_entry_is_understood() {
        let words = [
            (10 << 5) | 2,
            1,
            2, // two words, 10 ns later
            (5 << 5) | 30,
            1, // 2^27 + 5 ns
            (1 << 5),
            12,
            7,
            8, // a length in a word: two words of data
            (3 << 5) | 29,
            8,
            0, // room of a word
            (4 << 5) | 31,
            9, // at 9 * 2^27 + 4 ns
            1,
            6,  // one word
            29, // nothing more
            1,
        ];
        let page = page(1_000, words.len() as u64 * 4, &words);
        let seen: Vec<_> = Entries::new(&page, &layout()).unwrap().collect();
        let long = 1_000 + 10 + (1 << 27) + 5 + 1;
        let expected = [
            (1_010, [1, 0, 0, 0, 2, 0, 0, 0].as_slice()),
            (long, [7, 0, 0, 0, 8, 0, 0, 0].as_slice()),
            ((9 << 27) + 4, [6, 0, 0, 0].as_slice()),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_time_since_boot_takes_its_upper_bits_from_the_page() {
        let first = |time| {
            let page = page(time, 16, &[(4 << 5) | 31, 0, 1, 6]);
            Entries::new(&page, &layout()).unwrap().next().unwrap().0
        };
        assert_eq!(first((1 << 60) + 3), (1 << 60) + 4);
        // The page began just before the lower 59 bits ran over.
        assert_eq!(first((1 << 59) - 1), (1 << 59) + 4);
    }

    #[test]
    fn lost_events_are_counted_or_at_least_noticed() {
        let words = [1, 6, 77, 0];
        let lost = |commit| Entries::new(&page(0, commit, &words), &layout()).unwrap().lost();
        assert_eq!(lost(8), 0);
        assert_eq!(lost(8 | LOST), 1);
        assert_eq!(lost(8 | LOST | LOST_COUNTED), 77);
        // No room is left for the number.
        let full = 4080 | LOST | LOST_COUNTED;
        assert_eq!(lost(full), 1);
    }

    #[test]
    fn recorded_pages_hold_their_events_in_time() {
        let page = recorded::PAGES.chunks(4096).next().unwrap();
        let seen: Vec<_> = Entries::new(page, &layout()).unwrap().collect();
        assert!(seen.len() > 20, "{}", seen.len());
        assert!(seen.is_sorted_by_key(|(time, _)| *time));
    }

    #[test]
    fn any_bytes_end() {
        let layout = layout();
        for (step, page) in recorded::damaged_pages().enumerate() {
            let Some(entries) = Entries::new(&page, &layout) else { continue };
            let length: usize = entries.map(|(_, data)| data.len()).sum();
            assert!(length <= page.len(), "step {step}");
        }
    }

    fn layout() -> PageLayout {
        PageLayout::parse(recorded::HEADER_PAGE, recorded::HEADER_EVENT).unwrap()
    }

    fn page(time: u64, commit: u64, words: &[u32]) -> Vec<u8> {
        let mut page = Vec::from(time.to_le_bytes());
        page.extend(commit.to_le_bytes());
        page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        page.resize(4096, 0);
        page
    }
}
