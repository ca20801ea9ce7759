//! Blocks that hold parts of several files, decoded once for all readers.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::image::Block;

/// Bytes of all blocks that are kept, without the last one.
const BYTES_MAX: usize = 8 << 20;
/// Blocks that are kept.
const BLOCKS_MAX: usize = 64;

/// Decoded blocks that several files have a part of, the last ones used.
#[derive(Debug, Default)]
pub(crate) struct SharedBlocks(Mutex<VecDeque<SharedBlock>>);

#[derive(Debug)]
struct SharedBlock {
    raw: Range<u64>,
    decoded: u32,
    variant: u64,
    plain: SharedSlot,
}

/// A block's bytes, once it was tried to decode it; none if it cannot be decoded.
pub(super) type SharedSlot = Arc<OnceLock<Option<Arc<Vec<u8>>>>>;

impl SharedBlocks {
    /// Where a block is kept, or is to be. A caller that comes while it is decoded waits for that.
    pub(super) fn slot(&self, block: &Block) -> SharedSlot {
        // The list is whole between any two statements that can panic.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |other: &SharedBlock| {
            (&other.raw, other.decoded, other.variant) == (&block.raw, block.decoded, block.variant)
        };
        if let Some(place) = kept.iter().rposition(is_it)
            && let Some(found) = kept.remove(place)
        {
            let slot = Arc::clone(&found.plain);
            kept.push_back(found);
            return slot;
        }
        let mut bytes: usize = kept.iter().map(|other| other.decoded as usize).sum();
        while (bytes > BYTES_MAX || kept.len() >= BLOCKS_MAX)
            && let Some(oldest) = kept.pop_front()
        {
            bytes -= oldest.decoded as usize;
        }
        let plain = SharedSlot::default();
        let Block { raw, decoded, variant, .. } = block;
        let (raw, decoded, variant) = (raw.clone(), *decoded, *variant);
        kept.push_back(SharedBlock { raw, decoded, variant, plain: Arc::clone(&plain) });
        plain
    }
}
