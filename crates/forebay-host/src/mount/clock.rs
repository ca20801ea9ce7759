//! A cache with a budget in bytes, in shards, each of which evicts by the clock.
//!
//! ```text
//!   slots   | a  | b' | c' | d  |      ' was asked for since the hand passed
//!                  ^ hand               b' loses its mark, c' too, d goes
//! ```

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values by their keys, as many as a budget allows.
#[derive(Debug)]
pub(super) struct Clock<K, V> {
    shards: Box<[Mutex<Shard<K, V>>]>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Shard<K, V> {
    places: HashMap<K, usize>,
    slots: Vec<Slot<K, V>>,
    hand: usize,
    bytes: u64,
    budget: u64,
}

#[derive(Debug)]
struct Slot<K, V> {
    key: K,
    value: V,
    bytes: u64,
    asked: bool,
}

impl<K: Copy + Eq + Hash, V: Clone> Clock<K, V> {
    /// An empty cache that holds so many bytes at most, in so many shards.
    pub(super) fn new(budget: u64, shards: usize) -> Self {
        let each = budget / shards as u64;
        let shard = || {
            let (places, slots) = (HashMap::new(), Vec::new());
            Mutex::new(Shard { places, slots, hand: 0, bytes: 0, budget: each })
        };
        Self { shards: (0..shards).map(|_| shard()).collect(), hasher: RandomState::new() }
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        let mut shard = self.shard(key);
        let place = *shard.places.get(key)?;
        let slot = &mut shard.slots[place];
        slot.asked = true;
        Some(slot.value.clone())
    }

    /// Whether a key has a value; does not count as asking for it.
    pub(super) fn has(&self, key: &K) -> bool {
        self.shard(key).places.contains_key(key)
    }

    /// Keeps a value, and lets others go for it. One that is larger than a shard is not kept.
    pub(super) fn insert(&self, key: K, value: V, bytes: u64) {
        let mut shard = self.shard(&key);
        shard.remove(&key);
        if bytes <= shard.budget {
            shard.make_room(bytes);
            let place = shard.slots.len();
            shard.slots.push(Slot { key, value, bytes, asked: false });
            shard.places.insert(key, place);
            shard.bytes += bytes;
        }
    }

    /// The bytes that are held.
    pub(super) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).bytes).sum()
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, Shard<K, V>> {
        let number = self.hasher.hash_one(key) % self.shards.len() as u64;
        lock(&self.shards[usize::try_from(number).unwrap_or(0)])
    }
}

impl<K: Copy + Eq + Hash, V> Shard<K, V> {
    fn make_room(&mut self, bytes: u64) {
        while self.bytes + bytes > self.budget && !self.slots.is_empty() {
            self.hand %= self.slots.len();
            let slot = &mut self.slots[self.hand];
            if std::mem::take(&mut slot.asked) {
                self.hand += 1;
            } else {
                let key = slot.key;
                self.remove(&key);
            }
        }
    }

    fn remove(&mut self, key: &K) {
        let Some(place) = self.places.remove(key) else { return };
        self.bytes -= self.slots.swap_remove(place).bytes;
        if let Some(moved) = self.slots.get(place) {
            self.places.insert(moved.key, place);
        }
    }
}

/// A lock whose holder may have panicked: what is behind it is whole at every moment.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_holds_whatever_comes_in() {
        let cache = Clock::new(100, 1);
        for key in 0..1_000u32 {
            cache.insert(key % 37, key, u64::from(key % 13));
            assert!(cache.bytes() <= 100);
        }
        cache.insert(7, 7, 101);
        assert_eq!(cache.get(&7), None, "larger than the budget");
    }

    #[test]
    fn what_is_asked_for_stays_longer() {
        let cache = Clock::new(4, 1);
        for key in 0..4 {
            cache.insert(key, (), 1);
        }
        for key in 4..100 {
            assert_eq!(cache.get(&0), Some(()), "before {key}");
            cache.insert(key, (), 1);
        }
        assert!(!cache.has(&1));
    }

    #[test]
    fn a_value_that_is_replaced_counts_once() {
        let cache = Clock::new(10, 1);
        cache.insert(1, 'a', 4);
        cache.insert(1, 'b', 6);
        assert_eq!((cache.get(&1), cache.bytes()), (Some('b'), 6));
    }
}
