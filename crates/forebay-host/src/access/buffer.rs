//! Bytes that begin at a page, as direct I/O requires.

use std::fmt;
use std::ops::{Deref, DerefMut};

use rustix::mm::{Advice, madvise};

use crate::uring::Lend;

/// Owned bytes whose first lies at a multiple of 4096 in memory.
pub struct Buffer {
    /// Space for the bytes and for alignment. A vector does not move its bytes when it is moved
    /// itself, so a device may write to them in the meantime.
    room: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// `len` zero bytes.
    #[must_use]
    pub fn new(len: usize) -> Self {
        let room = vec![0; len + ALIGN - 1];
        // The distance to a multiple of a power of two is always known for bytes.
        let start = room.as_ptr().align_offset(ALIGN);
        Self { room, start, len }
    }

    /// `len` bytes in huge pages where the kernel has them, so that a device sees few pieces of
    /// memory, as with the large folios of the page cache.
    #[must_use]
    pub fn in_huge_pages(len: usize) -> Self {
        let mut room = vec![0; len.next_multiple_of(HUGE) + HUGE - 1];
        let start = room.as_ptr().align_offset(HUGE);
        let whole = &mut room[start..start + len.next_multiple_of(HUGE)];
        #[expect(unsafe_code, reason = "advice about memory")]
        // SAFETY: The bytes are our own, and this advice changes none of them.
        let advised =
            unsafe { madvise(whole.as_mut_ptr().cast(), whole.len(), Advice::LinuxHugepage) };
        // Without huge pages they are small ones.
        let _ = advised;
        whole.fill(0x5a);
        Self { room, start, len }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.room[self.start..self.start + self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.start..self.start + self.len]
    }
}

#[expect(unsafe_code, reason = "the kernel fills it")]
// SAFETY: The bytes are in a vector, which does not move them when it is moved itself.
unsafe impl Lend for Buffer {
    fn lend(&mut self) -> &mut [u8] {
        self
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

/// The memory alignment of every device that Linux drives: a page.
/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

const ALIGN: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_begin_at_a_page_and_stay_there_when_the_owner_moves() {
        for len in [0, 1, 4095, 4096, 100_000] {
            let buffer = Buffer::new(len);
            let place = buffer.as_ptr();
            assert_eq!((place.addr() % ALIGN, buffer.len()), (0, len));
            let moved = [Some(buffer)];
            assert_eq!(moved[0].as_ref().unwrap().as_ptr(), place);
        }
    }
}
