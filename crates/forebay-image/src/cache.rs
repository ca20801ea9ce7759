//! A bounded cache for many threads: each shard evicts its least recently used value.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values by number, of a limited sum of weights.
pub(crate) struct Cache<V> {
    shards: [Mutex<Shard<V>>; SHARDS],
    /// The sum of weights in one shard at most.
    weight_max: usize,
    /// The value that was kept last of those that are too heavy for a shard.
    heavy: Option<Mutex<Option<(u64, V)>>>,
}

impl<V: Clone> Cache<V> {
    /// A cache of at most `weight_max` in sum.
    pub(crate) fn new(weight_max: usize) -> Self {
        let shards = std::array::from_fn(|_| Mutex::new(Shard::default()));
        Self { shards, weight_max: weight_max / SHARDS, heavy: None }
    }

    /// The same, which also keeps the last value that is too heavy for it, whatever its weight.
    pub(crate) fn with_heavy(weight_max: usize) -> Self {
        Self { heavy: Some(Mutex::new(None)), ..Self::new(weight_max) }
    }

    /// The value of a key.
    pub(crate) fn find(&self, key: u64) -> Option<V> {
        let found = self.shard(key).find(key);
        found.or_else(|| {
            let heavy = self.heavy()?;
            heavy.as_ref().filter(|(kept, _)| *kept == key).map(|(_, value)| value.clone())
        })
    }

    /// Keeps a value, if it is not larger than what a shard may hold or may be heavy. Where two
    /// threads made the value of one key, the first one stays and is returned.
    pub(crate) fn keep(&self, key: u64, weight: usize, value: V) -> V {
        if weight > self.weight_max {
            if let Some(mut heavy) = self.heavy() {
                *heavy = Some((key, value.clone()));
            }
            return value;
        }
        let mut shard = self.shard(key);
        if let Some(first) = shard.find(key) {
            return first;
        }
        shard.add(key, weight, value.clone());
        while shard.weight > self.weight_max && shard.drop_oldest() {}
        value
    }

    /// The sum of the weights of the cached values.
    #[cfg(test)]
    fn weight(&self) -> usize {
        let lock = |shard: &Mutex<Shard<V>>| shard.lock().map_or(0, |shard| shard.weight);
        self.shards.iter().map(lock).sum()
    }

    fn heavy(&self) -> Option<MutexGuard<'_, Option<(u64, V)>>> {
        self.heavy.as_ref().map(|heavy| heavy.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, Shard<V>> {
        // Keys are places in an image; Fibonacci hashing spreads even those that are multiples.
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SHARDS.ilog2());
        let shard = &self.shards[usize::try_from(hash).unwrap_or(0) % SHARDS];
        // A shard is whole between any two statements that can panic.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> std::fmt::Debug for Cache<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("weight_max", &self.weight_max).finish_non_exhaustive()
    }
}

struct Shard<V> {
    values: BTreeMap<u64, Kept<V>>,
    /// Keys by the time of their last use.
    uses: BTreeMap<u64, u64>,
    /// Counts uses.
    clock: u64,
    weight: usize,
}

struct Kept<V> {
    value: V,
    weight: usize,
    used: u64,
}

impl<V: Clone> Shard<V> {
    fn find(&mut self, key: u64) -> Option<V> {
        let kept = self.values.get_mut(&key)?;
        if kept.used != self.clock {
            self.clock += 1;
            self.uses.remove(&kept.used);
            kept.used = self.clock;
            self.uses.insert(self.clock, key);
        }
        Some(kept.value.clone())
    }

    fn add(&mut self, key: u64, weight: usize, value: V) {
        self.clock += 1;
        self.weight += weight;
        self.uses.insert(self.clock, key);
        self.values.insert(key, Kept { value, weight, used: self.clock });
    }

    fn drop_oldest(&mut self) -> bool {
        let Some((_, key)) = self.uses.pop_first() else { return false };
        if let Some(kept) = self.values.remove(&key) {
            self.weight -= kept.weight;
        }
        true
    }
}

impl<V> Default for Shard<V> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), uses: BTreeMap::new(), clock: 0, weight: 0 }
    }
}

/// Parts with separate locks; a power of two.
const SHARDS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_no_more_than_it_may() {
        let cache = Cache::new(SHARDS * 100);
        for key in 0..10_000 {
            cache.keep(key, 7, key);
            assert!(cache.weight() <= SHARDS * 100);
        }
        assert!(cache.weight() > SHARDS * 80, "{}", cache.weight());
    }

    #[test]
    fn drops_what_was_used_longest_ago() {
        let cache = Cache::new(SHARDS * 2);
        let shard = |key: u64| key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61;
        let keys: Vec<u64> = (0..).filter(|key| shard(*key) == 3).take(3).collect();
        cache.keep(keys[0], 1, 'a');
        cache.keep(keys[1], 1, 'b');
        assert_eq!(cache.find(keys[0]), Some('a'));
        cache.keep(keys[2], 1, 'c');
        assert_eq!(cache.find(keys[0]), Some('a'));
        assert_eq!(cache.find(keys[1]), None);
        assert_eq!(cache.find(keys[2]), Some('c'));
    }

    #[test]
    fn the_first_value_of_a_key_stays_and_one_too_large_is_not_kept() {
        let cache = Cache::new(SHARDS * 2);
        assert_eq!(cache.keep(1, 1, 'a'), 'a');
        assert_eq!(cache.keep(1, 1, 'b'), 'a');
        assert_eq!(cache.keep(2, 3, 'c'), 'c');
        assert_eq!(cache.find(2), None);
    }

    #[test]
    fn of_values_too_heavy_the_last_one_is_kept_if_any() {
        let cache = Cache::with_heavy(SHARDS * 2);
        cache.keep(1, 1, 'a');
        cache.keep(2, 3, 'b');
        assert_eq!([1, 2, 3].map(|key| cache.find(key)), [Some('a'), Some('b'), None]);
        cache.keep(3, usize::MAX, 'c');
        assert_eq!([1, 2, 3].map(|key| cache.find(key)), [Some('a'), None, Some('c')]);
    }
}
