//! Where the parts of a layer lie.

use std::ops::{Range, RangeInclusive};

use super::PAGE_BYTES;

/// The places of a layer over a disk of some size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of the disk.
    pub(super) bytes: u64,
    /// Pages of the disk; the last may be short.
    pub(super) pages: u64,
    /// Pages of the map.
    pub(super) map_pages: u64,
}

impl Layout {
    pub(super) fn new(bytes: u64) -> Self {
        let pages = bytes.div_ceil(PAGE_BYTES);
        Self { bytes, pages, map_pages: pages.div_ceil(BITS_OF_MAP_PAGE) }
    }

    /// Words of 64 bits in the map.
    pub(super) fn words(&self) -> u64 {
        self.pages.div_ceil(64)
    }

    /// Where the byte of the disk at `offset` lies in the layer.
    pub(super) fn place(&self, offset: u64) -> u64 {
        (1 + self.map_pages) * PAGE_BYTES + offset
    }

    /// Where a page of the map lies.
    pub(super) fn map_place(&self, map_page: u64) -> u64 {
        (1 + map_page) * PAGE_BYTES
    }

    /// The bytes of the whole layer, whose last page is whole.
    pub(super) fn layer_bytes(&self) -> u64 {
        self.place(self.pages * PAGE_BYTES)
    }

    /// The pages of the map for some pages of the disk.
    pub(super) fn map_pages_of(pages: &Range<u64>) -> RangeInclusive<u64> {
        if pages.is_empty() {
            return RangeInclusive::new(1, 0);
        }
        map_page_of(pages.start)..=map_page_of(pages.end - 1)
    }
}

/// The page of the map for a page of the disk.
pub(super) const fn map_page_of(page: u64) -> u64 {
    page / BITS_OF_MAP_PAGE
}

/// Pages of the disk for one page of the map: 128 MiB.
const BITS_OF_MAP_PAGE: u64 = PAGE_BYTES * 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other() {
        // Bytes of the disk, pages of the map, bytes of the layer.
        let rows = [
            (0, 0, 4096),
            (1, 1, 3 * 4096),
            (4096, 1, 3 * 4096),
            (128 << 20, 1, (128 << 20) + 2 * 4096),
            ((128 << 20) + 1, 2, (128 << 20) + 4 * 4096),
        ];
        for (bytes, map_pages, layer_bytes) in rows {
            let layout = Layout::new(bytes);
            assert_eq!((layout.map_pages, layout.layer_bytes()), (map_pages, layer_bytes));
            assert_eq!(layout.place(0), layout.map_place(map_pages), "{bytes}");
        }
        assert_eq!(Layout::map_pages_of(&(32_767..32_769)), 0..=1);
        assert!(Layout::map_pages_of(&(7..7)).is_empty());
    }
}
