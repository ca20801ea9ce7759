//! What a kernel said: pages of its trace buffer and the texts that explain them.
//!
//! Recorded on Linux 6.18, x86-64, while a file was read in order, faulted in no order, and
//! written to a slow device. Only used by tests.

use super::decode::KINDS;
use super::{Drained, Event, PageDecoder};

/// `events/header_page`.
pub(super) const HEADER_PAGE: &str = include_str!("recorded/header_page");

/// `events/header_event`.
pub(super) const HEADER_EVENT: &str = include_str!("recorded/header_event");

/// Pages of 4096 bytes.
pub(super) const PAGES: &[u8] = include_bytes!("recorded/pages");

/// The `format` file of an event.
pub(super) fn format(event: &str) -> &'static str {
    let known = FORMATS.iter().find(|(name, _)| *name == event);
    known.expect("the event was recorded").1
}

/// Decodes pages of 4096 bytes.
pub(super) fn decode(pages: &[u8], each: &mut impl FnMut(Event)) -> Drained {
    let mut decoder = PageDecoder::new(HEADER_PAGE, HEADER_EVENT).expect("the texts are whole");
    for (event, _) in KINDS {
        decoder.learn(event, format(event)).expect("the texts are whole");
    }
    let mut drained = Drained::default();
    for page in pages.chunks(4096) {
        decoder.decode(page, each, &mut drained);
    }
    drained
}

/// The recorded pages cut off at every length, and with words changed by a fixed rule.
pub(super) fn damaged_pages() -> impl Iterator<Item = Vec<u8>> {
    let first = || PAGES[..4096].to_vec();
    let cut = (0..4096).map(move |length| PAGES[..length].to_vec());
    let flipped = (0..4096).flat_map(move |place| {
        [0x01, 0x1f, 0x80, 0xff].map(|bits| {
            let mut page = first();
            page[place] ^= bits;
            page
        })
    });
    // Numbers of a linear congruence (Knuth's MMIX), so that every run sees the same.
    let noise = (0..2_000_u64).map(move |seed| {
        let mut state = seed;
        let mut page = first();
        for byte in page.iter_mut().skip(16) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            *byte = state.to_be_bytes()[0];
        }
        page
    });
    cut.chain(flipped).chain(noise)
}

const FORMATS: [(&str, &str); 6] = [
    ("readahead/page_cache_sync_ra", include_str!("recorded/page_cache_sync_ra")),
    ("readahead/page_cache_async_ra", include_str!("recorded/page_cache_async_ra")),
    ("readahead/page_cache_ra_order", include_str!("recorded/page_cache_ra_order")),
    ("readahead/page_cache_ra_unbounded", include_str!("recorded/page_cache_ra_unbounded")),
    ("writeback/balance_dirty_pages", include_str!("recorded/balance_dirty_pages")),
    ("writeback/bdi_dirty_ratelimit", include_str!("recorded/bdi_dirty_ratelimit")),
];
