//! A file in memory, one page touched at a time.
//!
//! The map is private to the process that measures, and a page is read once. If the file shrinks or
//! its server fails, the process is killed by a signal and its parent reports that.
#![expect(unsafe_code, reason = "a mapped file may change below the map")]

use std::fs::File;
use std::hint::black_box;
use std::io;

use memmap2::Mmap;

/// A whole file, mapped to be read, without advice to the kernel.
#[derive(Debug)]
pub(in crate::measure) struct Mapped(Mmap);

impl Mapped {
    pub(in crate::measure) fn new(file: &File) -> io::Result<Self> {
        // SAFETY: no process writes to these files while they are measured, so
        // the bytes do not change. Each is read as a plain byte, for which every value is valid.
        let map = unsafe { Mmap::map(file)? };
        Ok(Self(map))
    }

    /// Reads the byte at an offset inside the file.
    pub(in crate::measure) fn touch(&self, offset: u64) {
        black_box(self.0[offset as usize]);
    }
}
