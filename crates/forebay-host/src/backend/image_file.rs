//! A file inside a compressed image, decoded on read.

use std::io;
use std::sync::Arc;

use forebay_image::{Image, NodeId, read_at};

use super::{Backend, Requests};

/// A regular file of an image. Each read decodes the blocks that it touches.
pub struct ImageFileBackend {
    image: Arc<dyn Image>,
    node: NodeId,
    len: u64,
    /// What holds the image, if it is behind a network.
    below: Option<Arc<dyn Backend>>,
}

impl ImageFileBackend {
    /// A node of an image, which is a regular file; `below` has its requests counted.
    ///
    /// # Errors
    /// The node cannot be read.
    pub fn new(
        image: Arc<dyn Image>,
        node: NodeId,
        below: Option<Arc<dyn Backend>>,
    ) -> Result<Self, forebay_image::Error> {
        let len = image.node(node)?.size;
        Ok(Self { image, node, len, below })
    }
}

impl Backend for ImageFileBackend {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_at(self.image.as_ref(), self.node, offset, buffer).map_err(io::Error::other)
    }

    fn reopen(&self) -> io::Result<Arc<dyn Backend>> {
        let (image, below) = (Arc::clone(&self.image), self.below.clone());
        Ok(Arc::new(Self { image, node: self.node, len: self.len, below }))
    }

    /// All buffers at once: a block that several of them have a part of is decoded once.
    fn read_vectored_at(
        &self,
        buffers: &mut [io::IoSliceMut<'_>],
        offset: u64,
    ) -> io::Result<usize> {
        let wanted = buffers.iter().map(|buffer| buffer.len()).sum();
        let mut bytes = vec![0; wanted];
        let read = self.read_at(&mut bytes, offset)?;
        let mut rest = &bytes[..read];
        for buffer in buffers {
            let len = rest.len().min(buffer.len());
            buffer[..len].copy_from_slice(&rest[..len]);
            rest = &rest[len..];
        }
        Ok(read)
    }

    fn requests(&self) -> Option<Requests> {
        self.below.as_ref()?.requests()
    }
}
