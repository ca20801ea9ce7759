//! Large buffers that are lent and come back, so that threads do not hold some each.
//!
//! The allocator keeps what a thread has freed for that thread. With blocks of a megabyte and many
//! threads that is more than the cache.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::clock::lock;

/// Where buffers come from.
#[derive(Debug)]
pub(super) struct Pool {
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Debug)]
struct State {
    free: Vec<Vec<u8>>,
    /// How many more may be at a large block.
    turns: usize,
}

/// A buffer; it goes back when it is dropped.
pub(super) struct Lent {
    bytes: Vec<u8>,
    len: usize,
    pool: Arc<Pool>,
}

/// The right to be at a large block.
#[derive(Debug)]
pub(super) struct Large<'a>(&'a Pool);

impl Pool {
    /// A pool from which so many at a time can work at large blocks.
    pub(super) fn new(turns: usize) -> Arc<Self> {
        let state = State { free: Vec::new(), turns: turns.max(1) };
        Arc::new(Self { state: Mutex::new(state), bell: Condvar::new() })
    }

    /// A buffer. What is in it is of no meaning.
    pub(super) fn take(self: &Arc<Self>, len: usize) -> Lent {
        let mut bytes = if len < POOLED { Vec::new() } else { self.find(len).unwrap_or_default() };
        if bytes.len() < len {
            // Raw bytes of blocks are of any length: few sizes, so that they are lent again.
            bytes = vec![0; if len < POOLED { len } else { len.next_power_of_two() }];
        }
        Lent { bytes, len, pool: Arc::clone(self) }
    }

    /// Waits until fewer than so many are at large blocks. Whoever waits should hold nothing that
    /// others wait for.
    pub(super) fn large(&self) -> Large<'_> {
        let mut state = lock(&self.state);
        while state.turns == 0 {
            state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.turns -= 1;
        Large(self)
    }

    /// One that is large enough and less than twice as large.
    fn find(&self, len: usize) -> Option<Vec<u8>> {
        let mut state = lock(&self.state);
        let fits = |buffer: &Vec<u8>| (len..2 * len).contains(&buffer.len());
        let place = state.free.iter().position(fits)?;
        Some(state.free.swap_remove(place))
    }
}

impl Drop for Large<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).turns += 1;
        self.0.bell.notify_one();
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.bytes.len() < POOLED {
            return;
        }
        let mut state = lock(&self.pool.state);
        state.free.push(std::mem::take(&mut self.bytes));
        let mut held: usize = state.free.iter().map(Vec::len).sum();
        while held > FREE_MAX {
            // The one that has waited longest.
            held -= state.free.remove(0).len();
        }
    }
}

impl Deref for Lent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

/// Smaller ones cost less from the allocator.
const POOLED: usize = 64 << 10;

/// Bytes that wait for whoever is next.
const FREE_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_came_back_is_lent_again_and_few_wait() {
        let pool = Pool::new(1);
        let first = pool.take(1 << 20);
        let place = first.as_ptr();
        drop(first);
        assert_eq!(pool.take(1_000_000).as_ptr(), place);
        let many: Vec<Lent> = (0..16).map(|_| pool.take(1 << 20)).collect();
        drop(many);
        let held: usize = lock(&pool.state).free.iter().map(Vec::len).sum();
        assert_eq!(held, FREE_MAX);
        drop(pool.take(100));
        assert_eq!(lock(&pool.state).free.len(), 4, "a small one is not kept");
    }

    #[test]
    fn no_more_than_the_turns_are_at_large_blocks() {
        use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
        let (pool, at) = (Pool::new(2), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _turn = pool.large();
                    assert!(at.fetch_add(1, SeqCst) < 2);
                    std::thread::yield_now();
                    at.fetch_sub(1, SeqCst);
                });
            }
        });
    }
}
