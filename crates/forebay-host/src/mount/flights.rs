//! Work that many ask for and one does.
//!
//! ```text
//!   turn   --> it is there            |  what the caller found
//!          --> nobody does it         |  a claim: the caller does it, and lands
//!          --> somebody does it       |  a flight: waited for, as long as the caller can
//! ```
//!
//! A claim that is dropped without landing has broken down. Whoever waits is told, and may try
//! itself.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::clock::lock;

/// What is being worked at, by its key.
#[derive(Debug)]
pub(super) struct Flights<K, V>(Mutex<HashMap<K, Arc<Flight<V>>>>);

/// Whose turn it is.
#[derive(Debug)]
pub(super) enum Turn<'a, K: Eq + Hash, V, T> {
    /// Nobody's: it is done.
    There(T),
    /// Somebody else's.
    Wait(Arc<Flight<V>>),
    /// The caller's.
    Ours(Claim<'a, K, V>),
}

/// Work that somebody has begun.
#[derive(Debug)]
pub(super) struct Flight<V> {
    /// Whoever does it may wait for a device, or be at it for long.
    pub(super) is_slow: bool,
    end: Mutex<End<V>>,
    bell: Condvar,
}

#[derive(Debug)]
enum End<V> {
    Open,
    Landed(V),
    Broken,
}

/// The right to do a piece of work.
#[derive(Debug)]
pub(super) struct Claim<'a, K: Eq + Hash, V> {
    flights: &'a Flights<K, V>,
    pub(super) key: K,
    flight: Arc<Flight<V>>,
}

/// What a wait came to.
#[derive(Debug)]
pub(super) enum Waited<V> {
    Landed(V),
    /// Whoever did it broke down.
    Broken,
    /// It takes longer than the caller has.
    NotYet,
}

impl<K: Copy + Eq + Hash, V: Clone> Flights<K, V> {
    pub(super) fn new() -> Self {
        Self(Mutex::default())
    }

    /// Whose turn it is. `find` looks for the result, and looks again when nothing can land.
    pub(super) fn turn<T>(
        &self,
        key: K,
        is_slow: bool,
        find: impl Fn() -> Option<T>,
    ) -> Turn<'_, K, V, T> {
        if let Some(found) = find() {
            return Turn::There(found);
        }
        let mut flights = lock(&self.0);
        if let Some(flight) = flights.get(&key) {
            return Turn::Wait(Arc::clone(flight));
        }
        if let Some(found) = find() {
            return Turn::There(found);
        }
        let flight = Flight { is_slow, end: Mutex::new(End::Open), bell: Condvar::new() };
        let flight = Arc::new(flight);
        flights.insert(key, Arc::clone(&flight));
        Turn::Ours(Claim { flights: self, key, flight })
    }
}

impl<V: Clone> Flight<V> {
    /// Waits until it has ended, or as long as there is patience.
    pub(super) fn wait(&self, patience: Option<Duration>) -> Waited<V> {
        let begin = Instant::now();
        let mut end = lock(&self.end);
        loop {
            match &*end {
                End::Landed(landed) => return Waited::Landed(landed.clone()),
                End::Broken => return Waited::Broken,
                End::Open => {}
            }
            end = match patience.map(|patience| patience.saturating_sub(begin.elapsed())) {
                None => self.bell.wait(end).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return Waited::NotYet,
                Some(left) => {
                    self.bell.wait_timeout(end, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl<K: Eq + Hash, V> Claim<'_, K, V> {
    /// It is done. Whoever comes from here on finds it where it is kept, if it is kept; `value`
    /// is asked for if somebody waits.
    pub(super) fn land(self, value: impl FnOnce() -> V) {
        lock(&self.flights.0).remove(&self.key);
        // Nobody can join any more, and only this claim has it if nobody waits.
        if Arc::strong_count(&self.flight) > 1 {
            let value = value();
            *lock(&self.flight.end) = End::Landed(value);
        }
    }
}

impl<K: Eq + Hash, V> Drop for Claim<'_, K, V> {
    fn drop(&mut self) {
        // If it has landed, somebody else may have begun anew.
        let mut flights = lock(&self.flights.0);
        if flights.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            flights.remove(&self.key);
        }
        drop(flights);
        let mut end = lock(&self.flight.end);
        if matches!(*end, End::Open) {
            *end = End::Broken;
        }
        drop(end);
        self.flight.bell.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::thread;

    use super::*;

    #[test]
    fn one_works_and_all_have_it() {
        let (flights, done) = (Flights::<u8, u32>::new(), AtomicU32::new(0));
        let kept = Mutex::new(None);
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let got = match flights.turn(7, false, || *lock(&kept)) {
                        Turn::There(value) => value,
                        Turn::Wait(flight) => match flight.wait(None) {
                            Waited::Landed(value) => value,
                            Waited::Broken | Waited::NotYet => panic!("it lands"),
                        },
                        Turn::Ours(claim) => {
                            thread::yield_now();
                            done.fetch_add(1, Relaxed);
                            *lock(&kept) = Some(3);
                            claim.land(|| 3);
                            3
                        }
                    };
                    assert_eq!(got, 3);
                });
            }
        });
        assert_eq!(done.into_inner(), 1);
        assert!(lock(&flights.0).is_empty());
    }

    #[test]
    fn whoever_waits_hears_of_a_breakdown_and_the_next_one_works() {
        let flights = Flights::<u8, u32>::new();
        let none = || None::<()>;
        let Turn::Ours(claim) = flights.turn(1, true, none) else { panic!("nobody else") };
        let Turn::Wait(flight) = flights.turn(1, false, none) else { panic!("it is claimed") };
        assert!(flight.is_slow);
        assert!(matches!(flight.wait(Some(Duration::ZERO)), Waited::NotYet));
        drop(claim);
        assert!(matches!(flight.wait(None), Waited::Broken));
        assert!(matches!(flights.turn(1, false, none), Turn::Ours(_)));
    }

    #[test]
    fn a_result_is_made_only_for_those_who_wait() {
        let flights = Flights::<u8, u32>::new();
        let none = || None::<()>;
        let Turn::Ours(claim) = flights.turn(1, false, none) else { panic!("nobody else") };
        claim.land(|| panic!("nobody waits"));
    }
}
