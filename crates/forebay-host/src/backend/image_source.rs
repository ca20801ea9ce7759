//! A backend as the source of an image.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use forebay_image::Source;

use super::Backend;

/// The bytes of a backend, as parsers of images read them.
pub struct BackendSource(Arc<dyn Backend>);

impl BackendSource {
    /// Reads from a backend.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self(backend)
    }
}

impl Source for BackendSource {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            match self.0.read_at(&mut buffer[done..], offset.saturating_add(done as u64)) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => done += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
