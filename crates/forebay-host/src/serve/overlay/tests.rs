//! Overlays against an array of values, under losses of power and interrupted commits.

use std::sync::Arc;

use super::*;
use crate::serve::MemoryStore;
use crate::serve::cut::CutStore;

/// A disk of 37 pages and a part of one.
const BYTES: u64 = 37 * PAGE_BYTES + 100;
const PAGES: u64 = 38;

fn identity() -> BaseIdentity {
    BaseIdentity { name: "base".to_owned(), stamp: "of today".to_owned() }
}

/// A base whose pages hold 200 and their number.
fn base() -> MemoryStore {
    let base = MemoryStore::new(BYTES);
    for page in 0..PAGES {
        write_all(&base, &contents(200 + page as u8, page), page * PAGE_BYTES, false).unwrap();
    }
    base
}

/// The bytes of a page that holds a value.
fn contents(value: u8, page: u64) -> Vec<u8> {
    vec![value; (BYTES - page * PAGE_BYTES).min(PAGE_BYTES) as usize]
}

fn new_layer() -> Arc<CutStore> {
    let layer = Arc::new(CutStore::new(OverlayStore::layer_bytes(BYTES)));
    OverlayStore::format(&*layer, BYTES, &identity()).unwrap();
    layer
}

fn open(layer: &Arc<CutStore>) -> Result<OverlayStore, OverlayError> {
    OverlayStore::open(Arc::new(base()), Arc::<CutStore>::clone(layer), &identity())
}

/// The value of each page; all bytes of a page are equal.
fn values(store: &dyn Store) -> Vec<u8> {
    let mut pages = vec![Page([0; PAGE]); PAGES as usize];
    let mut done = 0;
    while done < BYTES as usize {
        assert_eq!(done % PAGE, 0, "only the end of the disk is no whole page");
        let rest = &mut pages[done / PAGE..];
        let mut slices: Vec<IoSliceMut<'_>> =
            rest.iter_mut().map(|page| IoSliceMut::new(&mut page.0)).collect();
        let read = store.read(&mut slices, done as u64).unwrap();
        assert!(read > 0);
        done += read;
    }
    assert_eq!(done as u64, BYTES);
    let value = |(number, page): (usize, &Page)| {
        let len = contents(0, number as u64).len();
        assert!(page.0[..len].iter().all(|byte| *byte == page.0[0]), "page {number} is mixed");
        page.0[0]
    };
    pages.iter().enumerate().map(value).collect()
}

fn write(store: &dyn Store, pages: Range<u64>, value: u8, durable: bool) -> io::Result<()> {
    let bytes: Vec<Vec<u8>> = pages.clone().map(|page| contents(value, page)).collect();
    let whole = bytes.iter().filter(|bytes| bytes.len() == PAGE).count();
    let slices: Vec<IoSlice<'_>> = bytes[..whole].iter().map(|page| IoSlice::new(page)).collect();
    if whole > 0 {
        assert_eq!(store.write(&slices, pages.start * PAGE_BYTES, durable)?, whole * PAGE);
    }
    match bytes.get(whole) {
        Some(tail) => write_all(store, tail, (pages.end - 1) * PAGE_BYTES, durable),
        None => Ok(()),
    }
}

#[test]
fn what_is_written_is_seen_and_the_rest_is_the_base() {
    let layer = new_layer();
    let store = open(&layer).unwrap();
    write(&store, 3..5, 1, false).unwrap();
    write(&store, 37..38, 2, false).unwrap();
    assert!(store.zero(7 * PAGE_BYTES, 2 * PAGE_BYTES, true).unwrap());
    assert!(!store.zero(10, PAGE_BYTES, true).unwrap(), "the cache zeroes parts of pages");
    let mut expected: Vec<u8> = (200..=237).collect();
    for (page, value) in [(3, 1), (4, 1), (37, 2), (7, 0), (8, 0)] {
        expected[page] = value;
    }
    assert_eq!(values(&store), expected);
    store.flush().unwrap();
    drop(store);
    assert_eq!(values(&open(&layer).unwrap()), expected, "and again by another server");
    let info = OverlayStore::info(&*layer).unwrap();
    assert_eq!((info.changed_pages, info.bytes, info.base), (5, BYTES, identity()));
}

#[test]
fn a_buffer_that_spans_both_sides_is_read_in_parts() {
    let layer = new_layer();
    let store = open(&layer).unwrap();
    write(&store, 1..2, 1, false).unwrap();
    let mut bytes = vec![9; 3 * PAGE];
    for (offset, first) in [(0, 200), (PAGE_BYTES, 1), (2 * PAGE_BYTES, 202)] {
        let read = store.read(&mut [IoSliceMut::new(&mut bytes)], offset).unwrap();
        assert!(read >= PAGE && bytes[..PAGE].iter().all(|byte| *byte == first), "{offset}");
        assert!(offset > PAGE_BYTES || read == PAGE, "the next page is on the other side");
    }
    assert_eq!(store.read(&mut [IoSliceMut::new(&mut bytes)], BYTES + PAGE_BYTES).unwrap(), 0);
}

#[test]
fn runs_end_where_the_side_changes() {
    let store = OverlayStore::open(
        Arc::new(MemoryStore::new(256 << 20)),
        Arc::new({
            let layer = MemoryStore::new(OverlayStore::layer_bytes(256 << 20));
            OverlayStore::format(&layer, 256 << 20, &identity()).unwrap();
            layer
        }),
        &identity(),
    )
    .unwrap();
    let place = |page: u64| page * PAGE_BYTES;
    // Far behind the first page of the map, over the border of words.
    write_all(&store, &[7; PAGE], place(40_000), false).unwrap();
    for page in 40_001..40_130 {
        write_all(&store, &[7; PAGE], place(page), false).unwrap();
    }
    assert_eq!(store.run(0).unwrap(), (place(40_000), true));
    let (end, hole) = store.run(place(40_000)).unwrap();
    assert!(end > place(40_000) && end <= place(40_130) && !hole);
    assert_eq!(store.run_end(40_000, 65_536), 40_130);
    assert_eq!(store.run(place(40_130)).unwrap(), (256 << 20, true));
}

/// Ranges that begin and end within words of the map, and one over the border of its pages.
#[test]
fn exactly_the_pages_of_a_range_are_entered_and_brought_to_disk() {
    const DISK: u64 = 256 << 20;
    for pages in [0..1, 63..64, 64..128, 3..130, 127..193, 32_700..32_900, 0..65_536] {
        let layer: Arc<dyn Store> = Arc::new(MemoryStore::new(OverlayStore::layer_bytes(DISK)));
        OverlayStore::format(&*layer, DISK, &identity()).unwrap();
        let open = || {
            let base = Arc::new(MemoryStore::new(DISK));
            OverlayStore::open(base, Arc::clone(&layer), &identity()).unwrap()
        };
        let check = |store: &OverlayStore| {
            let is_right = |page: u64| store.is_present(page) == pages.contains(&page);
            assert!((0..65_536).all(is_right), "{pages:?}");
        };
        let store = open();
        let len = (pages.end - pages.start) * PAGE_BYTES;
        assert!(store.zero(pages.start * PAGE_BYTES, len, true).unwrap());
        check(&store);
        store.flush().unwrap();
        check(&open());
    }
}

/// After a loss of power each page holds what the last flush covered or something newer.
#[test]
fn no_flushed_page_is_lost_and_nothing_older_comes_back_wherever_the_power_goes() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let layer = new_layer();
        let mut store = open(&layer).unwrap();
        // The allowed contents of each page after a power failure; the last is the current one.
        let mut allowed: Vec<Vec<u8>> = (200..=237).map(|value| vec![value]).collect();
        for value in 1..60 {
            let first = random.u64(0..PAGES);
            let pages = first..(first + random.u64(1..6)).min(PAGES);
            let touched = pages.start as usize..pages.end as usize;
            match random.u8(0..10) {
                0..=4 => {
                    write(&store, pages, value, false).unwrap();
                    allowed[touched].iter_mut().for_each(|page| page.push(value));
                }
                5 => {
                    write(&store, pages, value, true).unwrap();
                    allowed[touched].iter_mut().for_each(|page| *page = vec![value]);
                }
                6 => {
                    let len = (pages.end * PAGE_BYTES).min(BYTES) - pages.start * PAGE_BYTES;
                    assert!(store.zero(pages.start * PAGE_BYTES, len, true).unwrap());
                    allowed[touched].iter_mut().for_each(|page| page.push(0));
                }
                7 | 8 => {
                    // A flush that fails acknowledges nothing, and the next one covers it.
                    if random.bool() {
                        layer.fail_after(random.u64(0..4));
                    }
                    let is_flushed = store.flush().is_ok();
                    layer.fail_after(u64::MAX);
                    if is_flushed {
                        let newest = |page: &mut Vec<u8>| *page = page.split_off(page.len() - 1);
                        allowed.iter_mut().for_each(newest);
                    }
                }
                _ => {
                    layer.cut(|| random.bool());
                    store = open(&layer).unwrap();
                    let found = values(&store);
                    for (page, (value, allowed)) in found.iter().zip(&mut allowed).enumerate() {
                        assert!(
                            allowed.contains(value),
                            "seed {seed}: page {page} holds {value}, not one of {allowed:?}"
                        );
                        *allowed = vec![*value];
                    }
                }
            }
            let now: Vec<u8> = allowed.iter().filter_map(|page| page.last().copied()).collect();
            assert_eq!(values(&store), now, "seed {seed}");
        }
    }
}

#[test]
fn a_commit_is_finished_by_doing_it_again_wherever_it_was_interrupted() {
    let mut expected: Vec<u8> = (200..=237).collect();
    expected[3] = 1;
    expected[4..10].fill(0);
    expected[37] = 2;
    for stop in 0.. {
        let layer = new_layer();
        let store = open(&layer).unwrap();
        write(&store, 3..4, 1, false).unwrap();
        write(&store, 37..38, 2, false).unwrap();
        store.zero(4 * PAGE_BYTES, 6 * PAGE_BYTES, true).unwrap();
        store.flush().unwrap();
        let below = CutStore::new(BYTES);
        write(&below, 0..PAGES, 0, false).unwrap();
        for page in 0..PAGES {
            write(&below, page..page + 1, 200 + page as u8, true).unwrap();
        }
        let mut random = fastrand::Rng::with_seed(stop);
        let is_layer = stop % 2 == 0;
        let failing = if is_layer { &*layer } else { &below };
        failing.fail_after(stop / 2);
        let first = OverlayStore::commit((&below, None), &*layer, || Ok("new".to_owned()));
        for side in [&*layer, &below] {
            side.fail_after(u64::MAX);
            side.cut(|| random.bool());
        }
        let between = OverlayStore::info(&*layer).unwrap();
        let is_usable = !between.is_half_committed && between.base == identity();
        assert_eq!(open(&layer).is_ok(), is_usable, "{first:?}");
        OverlayStore::commit((&below, None), &*layer, || Ok("new".to_owned())).unwrap();
        assert_eq!(values(&below), expected, "interrupted after {stop}");
        let info = OverlayStore::info(&*layer).unwrap();
        assert_eq!((info.changed_pages, info.base.stamp.as_str()), (0, "new"));
        if first.is_ok() && stop > 60 {
            return;
        }
        assert!(stop < 10_000, "a commit ends");
    }
}

#[test]
fn what_is_no_overlay_of_this_base_is_refused() {
    let layer = new_layer();
    let other = BaseIdentity { stamp: "of tomorrow".to_owned(), ..identity() };
    let found = OverlayStore::open(Arc::new(base()), Arc::<CutStore>::clone(&layer), &other);
    assert!(matches!(found, Err(OverlayError::OtherBase { .. })));
    let small = Arc::new(MemoryStore::new(PAGE_BYTES));
    let found = OverlayStore::open(small, Arc::<CutStore>::clone(&layer), &identity());
    assert!(matches!(found, Err(OverlayError::OtherSize { made: BYTES, found: PAGE_BYTES })));
    // A bit behind the last page.
    write_page(&*layer, &packed(&[1 << 38]), PAGE_BYTES, false).unwrap();
    assert!(matches!(open(&layer), Err(OverlayError::NotAnOverlay(_))));
    let short = CutStore::new(OverlayStore::layer_bytes(BYTES) - 1);
    OverlayStore::format(&short, BYTES, &identity()).unwrap();
    assert!(matches!(OverlayStore::info(&short), Err(OverlayError::NotAnOverlay(_))));
}
