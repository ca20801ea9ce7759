//! The page cache by hand.

use super::*;
use crate::reclaim::ACTIVE;

fn single(first: PageIndex) -> Folio {
    Folio { first, order: 0, marked: false }
}

fn read(cache: &mut PageCache, page: PageIndex) {
    assert!(cache.add(FileId(0), single(page)));
    let hit = cache.lookup(FileId(0), page).unwrap();
    cache.end_read(hit.frame);
    cache.check();
}

#[test]
fn one_frame_costs_68_bytes() {
    let (slots, place_among_free) = (4 * size_of::<u64>(), size_of::<u32>());
    assert_eq!(size_of::<Frame>() + slots + place_among_free, 68);
}

#[test]
fn the_oldest_page_that_was_used_once_leaves_first() {
    let mut cache = PageCache::new(2);
    read(&mut cache, 1);
    read(&mut cache, 2);
    let first = cache.lookup(FileId(0), 1).unwrap();
    cache.touch(first.frame);
    cache.touch(first.frame);
    read(&mut cache, 3);
    assert!(cache.lookup(FileId(0), 1).is_some(), "page 1 is active");
    assert!(cache.lookup(FileId(0), 2).is_none(), "page 2 was never used");
}

#[test]
fn pages_being_read_or_pinned_are_never_evicted() {
    let mut cache = PageCache::new(2);
    assert!(cache.add(FileId(0), single(1)));
    read(&mut cache, 2);
    let second = cache.lookup(FileId(0), 2).unwrap().frame;
    cache.pin(second);
    assert!(!cache.add(FileId(0), single(3)));
    cache.unpin(second);
    assert!(cache.add(FileId(0), single(3)));
    cache.check();
}

#[test]
fn a_folio_lives_and_dies_as_one() {
    let mut cache = PageCache::new(4);
    assert!(cache.add(FileId(0), Folio { first: 4, order: 2, marked: true }));
    assert!(cache.folio(FileId(0), 6).unwrap().marked);
    for page in 4..8 {
        let hit = cache.lookup(FileId(0), page).unwrap();
        cache.end_read(hit.frame);
    }
    cache.check();
    cache.clear_marker(FileId(0), 7);
    assert!(!cache.folio(FileId(0), 5).unwrap().marked);
    assert_eq!(cache.invalidate(FileId(0), 5, 8), 0, "not wholly inside");
    read(&mut cache, 1);
    assert!(cache.lookup(FileId(0), 4).is_none(), "memory for one page took the whole folio");
    cache.check();
}

#[test]
fn a_failed_page_leaves_the_rest_of_its_folio_behind() {
    let mut cache = PageCache::new(4);
    assert!(cache.add(FileId(0), Folio { first: 0, order: 2, marked: false }));
    let hit = cache.lookup(FileId(0), 2).unwrap();
    cache.fail_read(hit.frame);
    cache.check();
    assert!(cache.lookup(FileId(0), 2).is_none());
    assert_eq!(cache.folio(FileId(0), 3), Some(single(3)));
}

#[test]
fn of_pages_used_once_the_oldest_leaves() {
    let mut cache = PageCache::new(3);
    (1..5).for_each(|page| read(&mut cache, page));
    let there = |page| cache.lookup(FileId(0), page).is_some();
    assert_eq!([1, 2, 3, 4].map(there), [false, true, true, true]);
}

#[test]
fn pages_being_read_are_not_available() {
    let mut cache = PageCache::new(4);
    read(&mut cache, 1);
    assert!(cache.add(FileId(0), single(2)));
    assert_eq!(cache.available(), 3);
}

#[test]
fn pages_that_were_aged_leave_or_return_after_two_accesses() {
    let mut cache = PageCache::new(4);
    for page in [1, 2, 3, 4] {
        read(&mut cache, page);
        let frame = cache.lookup(FileId(0), page).unwrap().frame;
        (0..3).for_each(|_| cache.touch(frame));
    }
    read(&mut cache, 5);
    let second = cache.lookup(FileId(0), 2).unwrap().frame;
    assert_eq!(cache.frames[second.index()].rank & ACTIVE, 0, "aged");
    cache.touch(second);
    assert_eq!(cache.frames[second.index()].rank & ACTIVE, 0, "once is not twice");
    let three = Folio { first: 8, order: 1, marked: false };
    assert!(cache.add(FileId(0), three));
}

#[test]
fn a_reclaim_frees_a_cluster() {
    let mut cache = PageCache::new(640);
    for page in 0..641 {
        assert!(cache.add(FileId(0), single(page)));
        let frame = cache.lookup(FileId(0), page).unwrap().frame;
        cache.end_read(frame);
    }
    assert_eq!(cache.counters.evicted, 11, "one, and a 64th of memory");
}

#[test]
fn active_pages_leave_when_all_inactive_ones_are_busy() {
    let mut cache = PageCache::new(4);
    read(&mut cache, 1);
    read(&mut cache, 2);
    for page in [1, 1, 2, 2] {
        let frame = cache.lookup(FileId(0), page).unwrap().frame;
        cache.touch(frame);
    }
    assert!(cache.add(FileId(0), single(3)));
    assert!(cache.add(FileId(0), single(4)));
    assert!(cache.add(FileId(0), single(5)), "pages 1 and 2 are idle");
}

#[test]
fn a_large_folio_finds_room_among_active_pages() {
    let mut cache = PageCache::new(16);
    for page in 100..116 {
        read(&mut cache, page);
        let frame = cache.lookup(FileId(0), page).unwrap().frame;
        cache.touch(frame);
        cache.touch(frame);
    }
    assert!(cache.add(FileId(0), Folio { first: 0, order: 4, marked: false }));
}
