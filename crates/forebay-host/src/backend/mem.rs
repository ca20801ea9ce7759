//! Bytes in memory, for tests.

use std::io;
use std::sync::Arc;

use super::Backend;

/// Bytes that never change.
#[derive(Clone, Debug)]
pub struct MemBackend {
    bytes: Arc<[u8]>,
}

impl MemBackend {
    /// A backend that holds `bytes`.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self { bytes: bytes.into() }
    }
}

impl Backend for MemBackend {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let rest = &self.bytes[start..];
        let len = buffer.len().min(rest.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn reopen(&self) -> io::Result<Arc<dyn Backend>> {
        Ok(Arc::new(self.clone()))
    }
}
