//! Where the bytes of an image come from.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

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

    /// The same, with an error that names the place.
    ///
    /// # Errors
    ///
    /// [`Error::Read`].
    fn fill(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let len = buffer.len() as u64;
        self.read_exact_at(buffer, offset).map_err(|source| Error::Read { offset, len, source })
    }
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
        self.file.read_exact_at(buffer, offset)
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
