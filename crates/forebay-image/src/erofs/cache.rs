//! A cache of fixed size in which each key has one place.

use std::sync::{Mutex, PoisonError};

/// Values by key. A value drives out the one that had its place; nothing else is ever moved.
///
/// A place is locked for as long as it takes to copy a value, so values are cheap to clone.
pub(super) struct Cache<K, V> {
    places: Box<[Place<K, V>]>,
}

type Place<K, V> = Mutex<Option<(K, V)>>;

impl<K: Key, V: Clone> Cache<K, V> {
    /// A cache of `2^bits` places.
    pub(super) fn new(bits: u32) -> Self {
        Self { places: (0..1_usize << bits).map(|_| Mutex::new(None)).collect() }
    }

    /// The value of a key, if it is there.
    pub(super) fn find(&self, key: K) -> Option<V> {
        let place = self.place(key).lock().unwrap_or_else(PoisonError::into_inner);
        place.as_ref().filter(|(held, _)| *held == key).map(|(_, value)| value.clone())
    }

    /// Keeps a value.
    pub(super) fn keep(&self, key: K, value: V) {
        *self.place(key).lock().unwrap_or_else(PoisonError::into_inner) = Some((key, value));
    }

    fn place(&self, key: K) -> &Place<K, V> {
        // Keys follow each other, or are all multiples of something: the product's high bits
        // depend on all of a key's bits.
        let mixed = key.number().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let places = self.places.len() as u64;
        &self.places[usize::try_from(mixed & (places - 1)).expect("less than the length")]
    }
}

/// What a place is chosen by.
pub(super) trait Key: Copy + PartialEq {
    /// A number that tells most keys apart.
    fn number(self) -> u64;
}

impl Key for u64 {
    fn number(self) -> u64 {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_no_more_values_than_places_and_never_a_wrong_one() {
        let cache = Cache::new(3);
        for key in 0..1000_u64 {
            cache.keep(key, key * 7);
            assert_eq!(cache.find(key), Some(key * 7));
        }
        let held: Vec<u64> = (0..1000).filter(|&key| cache.find(key).is_some()).collect();
        assert!(!held.is_empty() && held.len() <= 8, "{held:?}");
        assert!(held.iter().all(|&key| cache.find(key) == Some(key * 7)));
    }
}
