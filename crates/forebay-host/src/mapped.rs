//! A file in memory, one page touched at a time.
//!
//! If the file shrinks or its server fails, a signal kills the process. A measurement of mounts
//! therefore runs in a separate process, whose parent reports that.
#![expect(unsafe_code, reason = "a mapped file may change below the map")]

use std::fs::File;
use std::hint::black_box;
use std::io;

use memmap2::{Advice, Mmap};

/// A whole file, mapped to be read, without advice to the kernel.
#[derive(Debug)]
pub struct Mapped(Mmap);

impl Mapped {
    /// Maps a file.
    ///
    /// # Errors
    /// The file cannot be mapped, as an empty one.
    pub fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the bytes are looked at one by one and never lent out as a slice that others
        // could see change. Each is read as a plain byte, for which every value is valid.
        let map = unsafe { Mmap::map(file)? };
        Ok(Self(map))
    }

    /// Advises how the pages will be touched.
    ///
    /// # Errors
    /// The kernel does not take the advice.
    pub fn advise(&self, advice: Advice) -> io::Result<()> {
        self.0.advise(advice)
    }

    /// Reads the byte at an offset inside the file.
    pub fn touch(&self, offset: u64) {
        black_box(self.0[offset as usize]);
    }
}
