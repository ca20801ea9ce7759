//! Any bytes as pages of the kernel's trace buffer: shared by the fuzz target and the tests.

use allocation_counter::measure;
use forebay_live::trace::{Drained, Event, PageDecoder};

/// The texts that explain the pages, as Linux 6.18 has them.
const TEXTS: &str = concat!(
    include_str!("../../../src/trace/recorded/header_page"),
    include_str!("../../../src/trace/recorded/header_event"),
    include_str!("../../../src/trace/recorded/page_cache_sync_ra"),
    include_str!("../../../src/trace/recorded/page_cache_async_ra"),
    include_str!("../../../src/trace/recorded/page_cache_ra_order"),
    include_str!("../../../src/trace/recorded/page_cache_ra_unbounded"),
    include_str!("../../../src/trace/recorded/balance_dirty_pages"),
    include_str!("../../../src/trace/recorded/bdi_dirty_ratelimit"),
);

/// Takes the bytes up to the first zero as the texts of tracefs, those of Linux 6.18 if there are
/// none, and the rest as pages.
///
/// # Panics
/// If an event is longer than what it is read from, events depend on other pages, or decoding takes
/// memory.
pub(crate) fn survives(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (texts, rest) = bytes.split_at(end);
    let pages = rest.get(1..).unwrap_or_default();
    let Ok(texts) = std::str::from_utf8(texts) else { return };
    let mut decoder = None;
    let used = measure(|| decoder = decoder_of(if texts.is_empty() { TEXTS } else { texts }));
    let most = (16 << 10) + 64 * texts.len() as u64;
    assert!(used.bytes_max <= most, "{} bytes of memory for {}", used.bytes_max, texts.len());
    let Some(decoder) = decoder else { return };
    let size = decoder.page_size();
    assert!(size <= 2 << 16, "a page of {size} bytes");
    let mut seen = Vec::with_capacity(pages.len());
    let mut drained = Drained::default();
    for page in pages.chunks(size.max(1)) {
        let before = (seen.len(), drained);
        let used = measure(|| decoder.decode(page, &mut |event| seen.push(event), &mut drained));
        assert_eq!(used.count_total, 0, "decoding allocates");
        let events = seen.len() - before.0;
        assert_eq!(drained.events, before.1.events + events as u64);
        assert!(events <= page.len() / 4, "{events} events of {} bytes", page.len());
        assert!(drained.lost >= before.1.lost);
        let (mut again, mut alone) = (Vec::<Event>::new(), Drained::default());
        decoder.decode(page, &mut |event| again.push(event), &mut alone);
        assert_eq!(again, seen[before.0..], "a page depends on the pages before it");
    }
}

/// A decoder from the texts of `header_page`, `header_event` and `format` files behind each other.
fn decoder_of(texts: &str) -> Option<PageDecoder> {
    let (header_page, rest) = texts.split_at(texts.find("# ").unwrap_or(texts.len()));
    let (header_event, mut rest) = rest.split_at(rest.find("name: ").unwrap_or(rest.len()));
    let mut decoder = PageDecoder::new(header_page, header_event).ok()?;
    while !rest.is_empty() {
        let next = rest[1..].find("name: ").map_or(rest.len(), |at| at + 1);
        let (format, behind) = rest.split_at(next);
        let name = format.lines().next()?.strip_prefix("name: ")?.trim();
        decoder.learn(name, format).ok()?;
        rest = behind;
    }
    Some(decoder)
}
