//! A bounded cache in two generations: what is not asked for during one generation is forgotten.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values by key. It holds values of a weight of `weight_max` together at most, and two more.
#[derive(Debug)]
pub(super) struct Cache<K, V> {
    weight_max: usize,
    generations: Mutex<Generations<K, V>>,
}

#[derive(Debug)]
struct Generations<K, V> {
    young: HashMap<K, (V, usize)>,
    old: HashMap<K, (V, usize)>,
    /// Of the young ones.
    weight: usize,
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    pub(super) fn new(weight_max: usize) -> Self {
        let generations = Generations { young: HashMap::new(), old: HashMap::new(), weight: 0 };
        Self { weight_max, generations: Mutex::new(generations) }
    }

    /// The value of a key, which is young again.
    pub(super) fn find(&self, key: &K) -> Option<V> {
        let mut generations = self.lock();
        if let Some((value, _)) = generations.young.get(key) {
            return Some(value.clone());
        }
        let (key, (value, weight)) = generations.old.remove_entry(key)?;
        self.add(&mut generations, key, value.clone(), weight);
        Some(value)
    }

    /// Keeps a value for a while.
    pub(super) fn keep(&self, key: K, value: V, weight: usize) {
        let mut generations = self.lock();
        generations.old.remove(&key);
        self.add(&mut generations, key, value, weight);
    }

    fn add(&self, generations: &mut Generations<K, V>, key: K, value: V, weight: usize) {
        if let Some((_, replaced)) = generations.young.insert(key, (value, weight)) {
            generations.weight -= replaced;
        }
        generations.weight += weight;
        if generations.weight > self.weight_max / 2 {
            generations.old = std::mem::take(&mut generations.young);
            generations.weight = 0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Generations<K, V>> {
        // Every state between two statements above is a valid cache.
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(cache: &Cache<u32, u32>) -> usize {
        let generations = cache.lock();
        generations.young.len() + generations.old.len()
    }

    #[test]
    fn the_bound_holds_and_what_is_used_stays() {
        let cache = Cache::new(100);
        cache.keep(0, 7, 1);
        for key in 1..10_000 {
            cache.keep(key, key, 1);
            assert!(held(&cache) <= 102);
            assert_eq!(cache.find(&key), Some(key));
            assert_eq!(cache.find(&0), Some(7), "after {key}");
        }
        assert_eq!(cache.find(&1), None);
    }

    #[test]
    fn a_value_above_the_bound_is_kept_until_the_next_comes() {
        let cache = Cache::new(100);
        cache.keep(1, 1, 1000);
        assert_eq!(cache.find(&1), Some(1));
        cache.keep(2, 2, 1000);
        assert!(held(&cache) <= 2);
        assert_eq!(cache.find(&2), Some(2));
    }

    #[test]
    fn a_key_has_one_value() {
        let cache = Cache::new(4);
        for value in 0..10 {
            cache.keep(1, value, 1);
            assert_eq!(cache.find(&1), Some(value));
            assert_eq!(held(&cache), 1);
        }
    }
}
