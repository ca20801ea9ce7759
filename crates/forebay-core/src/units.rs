//! The units that the path counts in.
//!
//! A page *index* is a plain [`PageIndex`], because readahead is arithmetic on page indexes; every
//! identifier has its own type, so that no two of them can be exchanged by mistake.

/// Bytes of one page, the granule of the page cache.
pub const PAGE_SIZE: u64 = 4096;

/// Bytes of one sector, the granule of device addresses.
pub const SECTOR_SIZE: u64 = 512;

/// Sectors of one page.
pub const PAGE_SECTORS: u64 = PAGE_SIZE / SECTOR_SIZE;

/// One KiB in bytes.
pub const KIB: u64 = 1024;

/// One MiB in bytes.
pub const MIB: u64 = 1024 * KIB;

/// Number of a page inside a file, counted from zero.
pub type PageIndex = u64;

macro_rules! identifiers {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The identifier as an index into a table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

identifiers! {
    /// A file, that is one address space of the page cache.
    FileId;
    /// An open file description; it carries the readahead state.
    HandleId;
    /// A block device.
    DeviceId;
    /// A call in flight. The world chooses it; small numbers, one call at a time each.
    CallId;
    /// A request in flight at a device.
    RequestId;
    /// A block of a packed file that is being decoded.
    DecodeId;
    /// A slot of page memory.
    FrameId;
}

impl FrameId {
    /// The frame behind this one.
    pub(crate) const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// The pages that `len` bytes from `offset` touch, as first page and count.
pub const fn pages_touched(offset: u64, len: u64) -> (PageIndex, u64) {
    if len == 0 {
        return (offset / PAGE_SIZE, 0);
    }
    let first = offset / PAGE_SIZE;
    let last = (offset + (len - 1)) / PAGE_SIZE;
    (first, last - first + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_touches_the_pages_of_its_first_and_last_byte() {
        assert_eq!(pages_touched(0, 0), (0, 0));
        assert_eq!(pages_touched(4095, 2), (0, 2));
        assert_eq!(pages_touched(4096, 4096), (1, 1));
        assert_eq!(pages_touched(6144, 8192), (1, 3));
    }
}
