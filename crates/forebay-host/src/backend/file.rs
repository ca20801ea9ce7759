//! A regular file or a block device, opened for reading only.

use std::fs::{self, File};
use std::io::{self, IoSliceMut, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, fadvise};

use super::Backend;

/// An open file. Its length is that at opening: a file that is cut short afterwards shows by ending
/// before it, and one that is removed stays readable.
#[derive(Debug)]
pub struct FileBackend {
    file: File,
    path: PathBuf,
    len: u64,
}

impl FileBackend {
    /// Opens a regular file or a block device.
    ///
    /// The kernel is told that reads are random, so that its readahead stays out of the way of the
    /// one under test. Its page cache remains below.
    ///
    /// # Errors
    /// The path cannot be opened, or is something else (a directory, a pipe, a terminal).
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        // Asked before opening, because opening a pipe waits for its writer.
        let kind = fs::metadata(&path)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let what = "neither a regular file nor a block device";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut file = File::open(&path)?;
        // The metadata of a block device have no length.
        let len = file.seek(SeekFrom::End(0))?;
        fadvise(&file, 0, None, Advice::Random)?;
        Ok(Self { file, path, len })
    }

    /// Where it was found.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Backend for FileBackend {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn reopen(&self) -> io::Result<Arc<dyn Backend>> {
        Ok(Arc::new(Self::open(&self.path)?))
    }

    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::preadv(&self.file, buffers, offset)?)
    }
}
