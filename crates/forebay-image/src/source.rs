//! Where the bytes of an image come from.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::error::{Error, Result};

/// Bytes that can be read at any place, by many at once.
pub trait Source: Send + Sync {
    /// The number of bytes.
    fn len(&self) -> u64;

    /// Whether there is no byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills a buffer with the bytes from a place on.
    ///
    /// # Errors
    ///
    /// What the system says; a place beyond the end is `UnexpectedEof`.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// The first byte from a place on that is not in a hole, as far as that is known; the length if
    /// there is none.
    fn data_at(&self, offset: u64) -> u64 {
        offset
    }

    /// [`read_exact_at`](Self::read_exact_at), with an error that names the place.
    ///
    /// # Errors
    ///
    /// [`Error::Read`].
    fn fill(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let len = buffer.len() as u64;
        self.read_exact_at(buffer, offset).map_err(|source| Error::Read { offset, len, source })
    }
}

/// Checks that the image has `expected` bytes.
pub(crate) fn within(source: &dyn Source, expected: u64) -> Result<()> {
    let found = source.len();
    if found < expected { Err(Error::Truncated { expected, found }) } else { Ok(()) }
}

/// A file or block device.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    len: u64,
}

impl FileSource {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::new(File::open(path)?)
    }

    /// Takes an open file or block device.
    ///
    /// # Errors
    ///
    /// The system's error for the length.
    pub fn new(mut file: File) -> io::Result<Self> {
        let len = io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        Ok(Self { file, len })
    }

    /// The file.
    pub const fn file(&self) -> &File {
        &self.file
    }
}

impl Source for FileSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|error| {
            if error.kind() != io::ErrorKind::UnexpectedEof {
                return error;
            }
            // The words of the standard library are about its buffer.
            let end = offset.saturating_add(buffer.len() as u64);
            io::Error::new(error.kind(), format!("the file ends before byte {end}"))
        })
    }

    fn data_at(&self, offset: u64) -> u64 {
        match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Ok(data) => data.clamp(offset, self.len.max(offset)),
            Err(Errno::NXIO) => self.len.max(offset),
            // A block device has no holes, and some file systems do not tell them.
            Err(_) => offset,
        }
    }
}

impl Source for Vec<u8> {
    fn len(&self) -> u64 {
        Self::len(self) as u64
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = usize::try_from(offset).ok().and_then(|start| {
            let end = start.checked_add(buffer.len())?;
            self.get(start..end)
        });
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl<S: Source + ?Sized> Source for Arc<S> {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).read_exact_at(buffer, offset)
    }

    fn data_at(&self, offset: u64) -> u64 {
        (**self).data_at(offset)
    }
}

/// The bytes of another source from one place on: an image inside a larger file.
pub struct Window<S> {
    inner: S,
    offset: u64,
}

impl<S: Source> Window<S> {
    /// The bytes of `inner` from `offset` on.
    pub const fn new(inner: S, offset: u64) -> Self {
        Self { inner, offset }
    }
}

impl<S: Source> Source for Window<S> {
    fn len(&self) -> u64 {
        self.inner.len().saturating_sub(self.offset)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let offset = self.offset.checked_add(offset).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.inner.read_exact_at(buffer, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_of_a_file_is_passed_over() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 << 20).unwrap();
        file.write_all_at(b"data", 1 << 20).unwrap();
        let source = FileSource::new(file).unwrap();
        assert_eq!(source.data_at(0), 1 << 20);
        assert_eq!(source.data_at(1 << 20), 1 << 20);
        assert_eq!(Arc::new(source).data_at(2 << 20), 3 << 20);
        assert_eq!(b"none".to_vec().data_at(2), 2);
    }
}
