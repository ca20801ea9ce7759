//! A read-only store: any backend, such as an object.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;

use super::store::Store;
use crate::backend::{Backend, Requests};

/// A backend as a store. Writes fail; its export has to be read-only, so that none comes.
pub struct ReadStore(Arc<dyn Backend>);

impl ReadStore {
    /// Serves what a backend reads.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self(backend)
    }
}

impl Store for ReadStore {
    fn bytes(&self) -> u64 {
        self.0.len()
    }

    fn read(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        self.0.read_vectored_at(buffers, offset)
    }

    fn write(&self, _buffers: &[IoSlice<'_>], _offset: u64, _durable: bool) -> io::Result<usize> {
        Err(ErrorKind::ReadOnlyFilesystem.into())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn zero(&self, _offset: u64, _len: u64, _hole: bool) -> io::Result<bool> {
        Err(ErrorKind::ReadOnlyFilesystem.into())
    }

    /// What of it is a hole is not known.
    fn run(&self, _offset: u64) -> io::Result<(u64, bool)> {
        Ok((self.0.len(), false))
    }

    fn zeroes_fast(&self) -> bool {
        false
    }

    fn requests(&self) -> Option<Requests> {
        self.0.requests()
    }
}

impl fmt::Debug for ReadStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadStore").field("bytes", &self.0.len()).finish_non_exhaustive()
    }
}
