//! Wrappers that make another backend slow or broken.

use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::Backend;

/// Waits before every read.
#[derive(Debug)]
pub struct Delay<B> {
    inner: B,
    delay: Duration,
}

/// Fails reads by their number: some pass, some fail, and all later ones pass.
///
/// ```text
///   read   0 1 2 3 4 5 6 7     passing 3, failing 2
///          . . . X X . . .
/// ```
#[derive(Debug)]
pub struct FailAfter<B> {
    inner: B,
    failing: Range<u64>,
    reads: AtomicU64,
}

/// Fails every read that touches a range of bytes, as a bad spot on a disk does.
#[derive(Debug)]
pub struct FailAt<B> {
    inner: B,
    bad: Range<u64>,
}

impl<B: Backend> Delay<B> {
    /// Delays each read of `inner`.
    pub fn new(inner: B, delay: Duration) -> Self {
        Self { inner, delay }
    }
}

impl<B: Backend> FailAfter<B> {
    /// Lets `passing` reads of `inner` pass and fails the `failing` ones behind them.
    pub fn new(inner: B, passing: u64, failing: u64) -> Self {
        let failing = passing..passing.saturating_add(failing);
        Self { inner, failing, reads: AtomicU64::new(0) }
    }

    fn count(&self) -> io::Result<()> {
        let read = self.reads.fetch_add(1, Ordering::Relaxed);
        if self.failing.contains(&read) {
            return Err(io::Error::other(format!("read {read} fails on purpose")));
        }
        Ok(())
    }
}

impl<B: Backend> FailAt<B> {
    /// Makes the bytes of `bad` unreadable.
    pub fn new(inner: B, bad: Range<u64>) -> Self {
        Self { inner, bad }
    }

    fn check(&self, offset: u64, len: u64) -> io::Result<()> {
        if offset < self.bad.end && self.bad.start < offset.saturating_add(len) {
            let Range { start, end } = self.bad;
            return Err(io::Error::other(format!("bytes {start} to {end} are bad on purpose")));
        }
        Ok(())
    }
}

/// A wrapper behaves like its backend, except for an action before each read.
macro_rules! wraps {
    ($($wrapper:ident: |$this:ident, $offset:ident, $len:ident| $before:expr;)*) => {$(
        impl<B: Backend> Backend for $wrapper<B> {
            fn len(&self) -> u64 {
                self.inner.len()
            }

            fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
                let ($this, $offset, $len) = (self, offset, buffer.len() as u64);
                $before?;
                self.inner.read_at(buffer, offset)
            }

            fn reopen(&self) -> io::Result<Arc<dyn Backend>> {
                self.inner.reopen()
            }

            fn read_vectored_at(
                &self,
                buffers: &mut [IoSliceMut<'_>],
                offset: u64,
            ) -> io::Result<usize> {
                let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
                let ($this, $offset, $len): (&Self, u64, u64) = (self, offset, len);
                $before?;
                self.inner.read_vectored_at(buffers, offset)
            }
        }
    )*};
}

wraps! {
    Delay: |this, _offset, _len| io::Result::Ok(thread::sleep(this.delay));
    FailAfter: |this, _offset, _len| this.count();
    FailAt: |this, offset, len| this.check(offset, len);
}

#[cfg(test)]
mod tests {
    use super::super::MemBackend;
    use super::*;

    #[test]
    fn reads_fail_by_number_and_then_pass() {
        let backend = FailAfter::new(MemBackend::new(*b"abcd"), 1, 2);
        let passes: Vec<bool> =
            (0..5).map(|offset| backend.read_at(&mut [0; 1], offset).is_ok()).collect();
        assert_eq!(passes, [true, false, false, true, true]);
    }

    #[test]
    fn a_read_fails_that_touches_a_bad_byte() {
        let backend = FailAt::new(MemBackend::new(*b"abcdefgh"), 3..5);
        let passes: Vec<bool> =
            (0..7).map(|offset| backend.read_at(&mut [0; 2], offset).is_ok()).collect();
        assert_eq!(passes, [true, true, false, false, false, true, true]);
    }

    #[test]
    fn wrappers_stack_and_reopen_without_them() {
        let mem = MemBackend::new(*b"abcd");
        let backend = Delay::new(FailAfter::new(FailAt::new(mem, 0..1), 1, 1), Duration::ZERO);
        let message = |offset| backend.read_at(&mut [0; 1], offset).unwrap_err().to_string();
        assert_eq!(message(0), "bytes 0 to 1 are bad on purpose");
        assert_eq!(message(1), "read 1 fails on purpose");
        let mut byte = [0; 1];
        assert_eq!(backend.reopen().unwrap().read_at(&mut byte, 0).unwrap(), 1);
        assert_eq!((byte, backend.len()), (*b"a", 4));
    }

    #[test]
    fn a_scattered_read_crosses_its_buffers_and_stops_at_the_end() {
        let backend = MemBackend::new(*b"abcde");
        let (mut first, mut second) = ([0; 2], [0; 8]);
        let mut buffers = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(backend.read_vectored_at(&mut buffers, 1).unwrap(), 4);
        assert_eq!((&first, &second[..2]), (b"bc", &b"de"[..]));
    }
}
