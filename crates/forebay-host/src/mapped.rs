//! A file in memory, one page touched at a time.
//!
//! If the file shrinks or its server fails, a signal kills the process. A measurement of mounts
//! therefore runs in a separate process, whose parent reports that.
#![expect(unsafe_code, reason = "a mapped file may change below the map")]

use std::fs::File;
use std::hint::black_box;
use std::io::{self, ErrorKind, Seek, SeekFrom};

use memmap2::{Advice, Mmap, MmapOptions};

/// A whole file or block device, mapped to be read, without advice to the kernel.
#[derive(Debug)]
pub struct Mapped(Mmap);

impl Mapped {
    /// Maps a file or a block device.
    ///
    /// # Errors
    /// It cannot be mapped, as an empty one.
    pub fn new(mut file: &File) -> io::Result<Self> {
        // The metadata of a block device have no length.
        let len = usize::try_from(file.seek(SeekFrom::End(0))?).map_err(io::Error::other)?;
        if len == 0 {
            return Err(io::Error::new(ErrorKind::InvalidInput, "an empty file cannot be mapped"));
        }
        // SAFETY: the bytes are looked at one by one and never lent out as a slice that others
        // could see change. Each is read as a plain byte, for which every value is valid.
        let map = unsafe { MmapOptions::new().len(len).map(file)? };
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
