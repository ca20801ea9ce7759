//! Where bytes come from: whatever has a length and can be read at a place.
//!
//! Wrappers add delay or failure to another backend and stack.
//!
//! ```text
//!   Delay( FailAt( FailAfter( FileBackend ) ) )
//! ```

use std::io::{self, IoSliceMut};
use std::sync::Arc;

#[cfg(feature = "objects")]
pub use self::object::{
    ObjectBackend, ObjectError, RequestFailure, is_object, local_path, scrubbed,
};
pub use blocks::{BlockCache, CACHE_MIN};
pub use file::FileBackend;
pub use image_file::ImageFileBackend;
pub use image_source::BackendSource;
pub use mem::MemBackend;
pub use wrap::{Delay, FailAfter, FailAt};

mod blocks;
mod file;
mod image_file;
mod image_source;
mod mem;
#[cfg(feature = "objects")]
mod object;
mod wrap;

/// Bytes that can be read from several threads at once.
pub trait Backend: Send + Sync {
    /// The bytes at the time of opening.
    fn len(&self) -> u64;

    /// Reads from `offset` on into `buffer`. Fewer bytes than asked are no error; none at all are
    /// the end, unless the buffer is empty.
    ///
    /// # Errors
    /// Whatever the device reports; [`io::ErrorKind::Interrupted`] is tried again by the reader.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Another way to the same bytes, opened afresh and without wrappers: what a verifier reads.
    ///
    /// # Errors
    /// The bytes cannot be opened again.
    fn reopen(&self) -> io::Result<Arc<dyn Backend>>;

    /// Reads consecutive bytes into several buffers, one after the other.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let mut total = 0;
        for buffer in buffers {
            let read = match self.read_at(buffer, offset + total as u64) {
                // Bytes read before an error count; the error returns at the next attempt.
                Err(_) if total > 0 => break,
                result => result?,
            };
            total += read;
            if read < buffer.len() {
                break;
            }
        }
        Ok(total)
    }

    /// Fills a buffer from `offset` on.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); [`io::ErrorKind::UnexpectedEof`] if the bytes end before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            match self.read_at(&mut buffer[done..], offset.saturating_add(done as u64)) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes `bytes` from `offset` on, inside the length at opening. Fewer bytes than given are no
    /// error.
    ///
    /// # Errors
    /// Whatever the device reports; [`io::ErrorKind::ReadOnlyFilesystem`] if it was opened for
    /// reading only.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let _ = (bytes, offset);
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    /// Brings the bytes of all writes that have returned to disk.
    ///
    /// # Errors
    /// Whatever the device reports.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Whether there is nothing to read.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The cost of its reads over a network; nothing for local data.
    fn requests(&self) -> Option<Requests> {
        None
    }
}

/// Requests over a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// How many were sent: those that were tried again and those for keys too.
    pub count: u64,
    /// Bytes that they returned.
    pub bytes: u64,
}

impl<B: Backend + ?Sized> Backend for Arc<B> {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buffer, offset)
    }

    fn reopen(&self) -> io::Result<Arc<dyn Backend>> {
        (**self).reopen()
    }

    fn requests(&self) -> Option<Requests> {
        (**self).requests()
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        (**self).write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        (**self).sync()
    }

    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        (**self).read_vectored_at(buffers, offset)
    }
}
