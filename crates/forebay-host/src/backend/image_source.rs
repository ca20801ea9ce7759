//! A backend as the source of an image.

use std::io;
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
        self.0.read_exact_at(buffer, offset)
    }
}
