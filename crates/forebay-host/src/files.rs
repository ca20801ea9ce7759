//! Which bytes of which backend are the engine's files.
//!
//! ```text
//!   backend 0  |--- file 0 ---|--- file 1 ---|.....|
//!   backend 1  |------------ file 2 ---------------|
//! ```

use std::io;
use std::sync::Arc;

use forebay_core::units::{FileId, PAGE_SIZE, SECTOR_SIZE};
use thiserror::Error;

use crate::backend::Backend;

/// The engine's files, each a run of bytes of a backend.
#[derive(Clone, Default)]
pub struct FileMap {
    backends: Vec<Arc<dyn Backend>>,
    files: Vec<Place>,
    /// The bytes that each file holds at the start; it can grow to the length of its place.
    held: Vec<u64>,
}

/// Where a file's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the backend, counted as they were added.
    pub backend: usize,
    /// The first byte of the backend that is the file's, at the start of a sector.
    pub base: u64,
    /// The bytes of the file.
    pub len: u64,
}

/// Why a file cannot be where it was put.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum MapError {
    /// There is no such backend.
    #[error("there is no backend {0}")]
    UnknownBackend(usize),
    /// The first byte lies inside a sector.
    #[error("a file starts with a sector of {SECTOR_SIZE} bytes, not at byte {0}")]
    Unaligned(u64),
    /// The last byte lies behind the backend's.
    #[error("{len} bytes from byte {base} do not fit into a backend of {bytes} bytes")]
    BeyondEnd {
        /// The first byte.
        base: u64,
        /// The bytes of the file.
        len: u64,
        /// The bytes of the backend.
        bytes: u64,
    },
}

impl FileMap {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// One file for each backend, the whole of it.
    pub fn one_each(backends: impl IntoIterator<Item = Arc<dyn Backend>>) -> Self {
        let backends: Vec<_> = backends.into_iter().collect();
        let whole = |(index, backend): (usize, &Arc<dyn Backend>)| Place {
            backend: index,
            base: 0,
            len: backend.len(),
        };
        let files: Vec<Place> = backends.iter().enumerate().map(whole).collect();
        let held = files.iter().map(|place| place.len).collect();
        Self { backends, files, held }
    }

    /// Files of these lengths one behind the other on one backend, each from a page's start on.
    ///
    /// # Errors
    /// The backend is too short.
    pub fn shared(
        backend: Arc<dyn Backend>,
        lens: impl IntoIterator<Item = u64>,
    ) -> Result<Self, MapError> {
        let mut map = Self::new();
        let backend = map.add_backend(backend);
        let mut base: u64 = 0;
        for len in lens {
            map.add_file(Place { backend, base, len })?;
            base = (base + len).checked_next_multiple_of(PAGE_SIZE).unwrap_or(u64::MAX);
        }
        Ok(map)
    }

    /// Adds a backend and returns its number.
    pub fn add_backend(&mut self, backend: Arc<dyn Backend>) -> usize {
        self.backends.push(backend);
        self.backends.len() - 1
    }

    /// Adds a file; the engine numbers files in this order.
    ///
    /// # Errors
    /// The place is not one of the backend's.
    pub fn add_file(&mut self, place: Place) -> Result<FileId, MapError> {
        let Place { backend, base, len } = place;
        let bytes = self.backends.get(backend).ok_or(MapError::UnknownBackend(backend))?.len();
        if base.checked_add(len).is_none_or(|end| end > bytes) {
            return Err(MapError::BeyondEnd { base, len, bytes });
        }
        if !base.is_multiple_of(SECTOR_SIZE) {
            return Err(MapError::Unaligned(base));
        }
        self.files.push(place);
        self.held.push(len);
        Ok(FileId(self.files.len() as u32 - 1))
    }

    /// A file holds only its first `bytes` at the start, and grows by writes after them.
    ///
    /// # Panics
    /// If its place is shorter.
    pub fn begin_with(&mut self, file: FileId, bytes: u64) {
        assert!(bytes <= self.place(file).len, "a file begins inside its place");
        self.held[file.index()] = bytes;
    }

    /// The bytes that a file holds at the start.
    pub fn held(&self, file: FileId) -> u64 {
        self.held[file.index()]
    }

    /// Where a file is.
    pub fn place(&self, file: FileId) -> Place {
        self.files[file.index()]
    }

    /// The files, in the order of their numbers.
    pub fn places(&self) -> &[Place] {
        &self.files
    }

    /// The backends, in the order of their numbers.
    pub fn backends(&self) -> &[Arc<dyn Backend>] {
        &self.backends
    }

    /// The same files on backends that were opened afresh.
    ///
    /// # Errors
    /// A backend cannot be opened again.
    pub fn reopen(&self) -> io::Result<Self> {
        let backends = self.backends.iter().map(Backend::reopen);
        let backends = backends.collect::<io::Result<_>>()?;
        Ok(Self { backends, files: self.files.clone(), held: self.held.clone() })
    }

    /// The backend of a file.
    pub(crate) fn backend(&self, file: FileId) -> &dyn Backend {
        &*self.backends[self.place(file).backend]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::MemBackend;

    #[test]
    fn files_that_share_a_backend_start_with_a_page() {
        let backend = Arc::new(MemBackend::new(vec![0; 3 * 4096]));
        let map = FileMap::shared(backend, [1, 4096, 5]).unwrap();
        let bases: Vec<u64> = map.places().iter().map(|place| place.base).collect();
        assert_eq!(bases, [0, 4096, 8192]);
    }

    #[test]
    fn a_file_lies_inside_its_backend_and_starts_with_a_sector() {
        let mut map = FileMap::one_each([Arc::new(MemBackend::new(vec![0; 4096])) as _]);
        let refused = |place| map.clone().add_file(place).unwrap_err().to_string();
        let place = Place { backend: 0, base: 512, len: 3584 };
        assert_eq!(refused(Place { backend: 1, ..place }), "there is no backend 1");
        assert_eq!(
            refused(Place { base: 100, ..place }),
            "a file starts with a sector of 512 bytes, not at byte 100"
        );
        assert_eq!(
            refused(Place { base: 513, ..place }),
            "3584 bytes from byte 513 do not fit into a backend of 4096 bytes"
        );
        assert!(map.clone().add_file(Place { base: u64::MAX, ..place }).is_err());
        assert_eq!(map.add_file(place), Ok(FileId(1)));
    }
}
