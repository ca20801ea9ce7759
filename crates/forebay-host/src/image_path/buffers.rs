//! Buffers for answers, which are used again.
//!
//! A large buffer that is freed goes back to the kernel, and the next one costs a fault for each of
//! its pages. Four readers of a tree cost 37,000 faults so, and 5,100 with a few buffers kept.

use crate::lock::{Mutex, lock};

/// Buffers that are not in use.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// A buffer of so many bytes, whatever they are.
    pub(crate) fn take(&self, len: usize) -> Vec<u8> {
        let mut buffer = lock(&self.0).pop().unwrap_or_default();
        buffer.resize(len, 0);
        buffer
    }

    /// A buffer is not needed any more.
    pub(crate) fn keep(&self, buffer: Vec<u8>) {
        let mut kept = lock(&self.0);
        if kept.len() < COUNT && buffer.capacity() <= BYTES {
            kept.push(buffer);
        }
    }
}

/// Buffers that are kept: as many as are mostly in use.
const COUNT: usize = 4;

/// Bytes of a buffer that is kept: a READ of two default windows.
const BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_unless_it_is_large_or_there_are_enough() {
        let buffers = Buffers::default();
        let one = buffers.take(1000);
        let place = one.as_ptr();
        buffers.keep(one);
        let again = buffers.take(500);
        assert_eq!((again.as_ptr(), again.len()), (place, 500));
        buffers.keep(vec![0; BYTES + 1]);
        assert!(lock(&buffers.0).is_empty());
        for _ in 0..2 * COUNT {
            buffers.keep(vec![0; BYTES]);
        }
        assert_eq!(lock(&buffers.0).len(), COUNT);
    }
}
