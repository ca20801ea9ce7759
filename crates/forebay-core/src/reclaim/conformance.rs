//! What every reclaim policy of the table keeps.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::POLICIES;
use super::testing::{FILE, Memory};
use crate::readahead::Folio;
use crate::units::PageIndex;

/// A generator that needs no more than to be the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
        (self.0 >> 33) % sides
    }
}

/// Random reads, writes, folios, pins, truncations; the cache checks itself after each. Returns the
/// cached pages after every hundredth step.
fn play(policy: &str, frames: u32, seed: u64) -> Vec<Vec<PageIndex>> {
    let mut memory = Memory::new(policy, frames);
    let mut dice = Dice(seed);
    let mut dirty: BTreeSet<PageIndex> = BTreeSet::new();
    let mut pinned: Vec<PageIndex> = Vec::new();
    let mut seen = Vec::new();
    let pages = u64::from(frames) * 3;
    for step in 0..1_500 {
        let page = dice.below(pages);
        match dice.below(12) {
            0..4 => {
                memory.read(page);
            }
            4..7 if memory.write(page) => {
                dirty.insert(page);
            }
            7 => {
                let first = page / 4 * 4;
                if memory.present(first..first + 4).is_empty()
                    && memory.cache.add(FILE, Folio { first, order: 2, marked: false })
                {
                    for page in first..first + 4 {
                        memory.cache.end_read(memory.frame(page));
                    }
                }
            }
            8 if pinned.len() < 2 && !memory.present([page]).is_empty() => {
                memory.cache.pin(memory.frame(page));
                pinned.push(page);
            }
            9 => {
                if let Some(page) = pinned.pop() {
                    memory.cache.unpin(memory.frame(page));
                }
            }
            10 => {
                for page in core::mem::take(&mut dirty) {
                    memory.clean(page);
                }
            }
            _ => {
                for page in memory.background() {
                    dirty.remove(&page);
                }
            }
        }
        assert_eq!(memory.present(dirty.iter().copied()).len(), dirty.len(), "dirty pages stay");
        assert_eq!(memory.present(pinned.iter().copied()).len(), pinned.len(), "pinned ones too");
        memory.cache.check();
        if step % 100 == 0 {
            seen.push(memory.present(0..pages));
        }
    }
    seen
}

#[test]
fn no_policy_takes_a_page_that_is_in_use_or_loses_one() {
    for policy in POLICIES {
        for (seed, frames) in (1..).zip([1, 2, 3, 8, 40, 200, 1_300]) {
            play(policy.name, frames, seed);
        }
    }
}

#[test]
fn the_same_accesses_leave_the_same_pages() {
    for policy in POLICIES {
        assert_eq!(play(policy.name, 50, 9), play(policy.name, 50, 9), "{}", policy.name);
    }
}

#[test]
fn idle_memory_always_has_room() {
    for policy in POLICIES {
        for frames in [1, 2, 5, 300, 2_000] {
            let mut memory = Memory::new(policy.name, frames);
            for page in 0..u64::from(frames) * 2 {
                // Every other page is used often.
                for _ in 0..=4 * (page % 2) {
                    assert!(memory.read(page).is_some(), "{}: page {page}", policy.name);
                }
            }
        }
    }
}

#[test]
fn memory_full_of_dirty_pages_has_room_when_they_are_clean() {
    for policy in POLICIES {
        for frames in [1, 2, 5, 300, 2_000] {
            let mut memory = Memory::new(policy.name, frames);
            let mut written = 0;
            while memory.write(written) {
                written += 1;
            }
            assert!(written <= u64::from(frames), "dirty pages cannot leave");
            for page in 0..written {
                memory.clean(page);
            }
            assert!(memory.write(9_999), "{}: {frames} frames", policy.name);
        }
    }
}
