//! Inodes: small and large ones.
//!
//! An inode lies at 32 times its number behind the metadata's beginning. Behind it come its
//! extended attributes, and then what its layout needs: the end of the file, chunk addresses, or
//! the map of its extents.
//!
//! ```text
//!   small, 32 bytes                        large, 64 bytes
//!    0 format: bit 0 large, 1..4 layout,    0 format
//!      4 single link, or no `.` entry       2 attribute slots
//!    2 attribute slots                      4 mode
//!    4 mode                                 6 address, high
//!    6 links, or address, high              8 size
//!    8 size                                16 address, low, or device, or chunk format
//!   12 time, seconds beyond the epoch      20 number for old stat
//!   16 address, low, or device,            24 user
//!      or chunk format                     28 group
//!   20 number for old stat                 32 time, seconds
//!   24 user                                40 time, nanoseconds
//!   26 group                               44 links
//! ```

use std::sync::OnceLock;

use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::node::{Kind, Node, Time};

use super::cluster;
use super::id;
use super::map::Map;
use super::metadata::MetadataReader;
use super::place::Place;
use super::superblock::Superblock;

/// Linux counts space in sectors of `1 << SECTOR_BITS` bytes.
const SECTOR_BITS: u32 = 9;

/// The parts of an inode that are always needed.
#[derive(Debug)]
pub(super) struct Inode {
    /// What stat shows.
    pub(super) node: Node,
    /// How its content is stored.
    pub(super) layout: Layout,
    /// Where it begins.
    pub(super) place: Place,
    /// Bytes of itself.
    pub(super) len: u64,
    /// Bytes of extended attributes behind it.
    pub(super) xattrs: u64,
    /// The map of compressed content, once it was needed.
    pub(super) map: OnceLock<Map>,
}

/// How content is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Blocks that follow each other from a byte on, or zeros.
    Plain(Option<u64>),
    /// The same, but for the last one, which lies behind the inode.
    Inline(u64),
    /// Chunks, each with an address.
    Chunks(Chunks),
    /// Extents, found by an index of the clusters.
    Compressed {
        /// Eight bytes of index for each cluster, or an array of extents; else packed ones.
        full: bool,
    },
}

/// The kind of a chunk array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    /// A chunk has `1 << bits` bytes.
    pub(super) bits: u32,
    /// Entries of eight bytes instead of four.
    pub(super) indexes: bool,
    /// Addresses of 48 bits.
    pub(super) wide: bool,
}

impl Inode {
    /// Reads and checks an inode.
    pub(super) fn read(reader: &impl MetadataReader, nid: u64) -> Result<Self> {
        let superblock = reader.superblock();
        let place = Self::place(superblock, nid)?;
        let mut bytes = [0; LARGE];
        reader.metadata(place, &mut bytes[..SMALL], "inode")?;
        let large = bytes[0] & 1 != 0;
        if large {
            reader.metadata(place.plus(SMALL as u64), &mut bytes[SMALL..], "inode")?;
        }
        let len = if large { LARGE } else { SMALL };
        let fields = if large {
            Fields::large(&bytes, place)
        } else {
            Fields::small(&bytes[..SMALL], place, superblock)
        }?;
        Self::check(&fields, nid, place, len as u64, superblock)
    }

    /// Memory that it takes, its map's included, in bytes.
    pub(super) fn weight(&self, superblock: &Superblock) -> usize {
        let index = match self.layout {
            Layout::Compressed { .. } => {
                // Eight bytes for each cluster at most.
                let bytes = self.node.size.div_ceil(superblock.block_size()).saturating_mul(8);
                usize::try_from(bytes).unwrap_or(usize::MAX).min(cluster::KEPT_MAX)
            }
            Layout::Plain(_) | Layout::Inline(_) | Layout::Chunks(_) => 0,
        };
        OVERHEAD + index
    }

    /// Where what the layout needs begins.
    pub(super) const fn body(&self) -> Place {
        self.place.plus(self.len + self.xattrs)
    }

    fn place(superblock: &Superblock, nid: u64) -> Result<Place> {
        let number = nid & !METABOX;
        let (metabox, base) = match (nid & METABOX != 0, superblock.metabox) {
            (false, _) => (false, superblock.metadata),
            (true, Some(_)) => (true, 0),
            (true, None) => (true, u64::MAX),
        };
        let at = number.checked_mul(32).and_then(|offset| base.checked_add(offset));
        at.filter(|&at| at < PLACE_MAX).map(|at| Place { at, metabox }).ok_or_else(|| {
            let found = format!("{nid:#x} lies outside of the image");
            Error::field("inode number", superblock.metadata, found)
        })
    }

    fn check(
        fields: &Fields,
        nid: u64,
        place: Place,
        len: u64,
        superblock: &Superblock,
    ) -> Result<Self> {
        let bad = |field, found: String| Err(place.error(field, found));
        let Fields { format, mode, address, high, .. } = *fields;
        if format & !0x1f != 0 {
            let what = format!("an inode of format {format:#x}");
            return Err(Error::Unsupported { what, offset: place.at });
        }
        let Some(kind) = Kind::of_mode(mode) else {
            return bad("mode", format!("{mode:#o} has no known type"));
        };
        if fields.size > i64::MAX.cast_unsigned() {
            return bad("file size", format!("{} bytes", fields.size));
        }
        if fields.modified.nanos >= 1_000_000_000 {
            return bad("time", format!("{} nanoseconds", fields.modified.nanos));
        }
        let small = format & 1 == 0;
        let single = small && format & SINGLE != 0 && kind != Kind::Directory;
        let (links, high) = match (small, single) {
            (true, true) => (1, u64::from(high)),
            (true, false) => (u32::from(high), 0),
            (false, _) => (fields.links, u64::from(high)),
        };
        let content = matches!(kind, Kind::File | Kind::Directory | Kind::Symlink);
        let device = matches!(kind, Kind::CharDevice | Kind::BlockDevice);
        let wide = !small || single;
        let layout = if content {
            let block = u64::from(address) | high << 32;
            let none = block == if wide { (1 << 48) - 1 } else { u64::from(u32::MAX) };
            layout(format >> 1 & 7, block, none, place, superblock)?
        } else {
            Layout::Plain(None)
        };
        let blocks = match layout {
            _ if !content => 0,
            Layout::Compressed { .. } => {
                u64::from(address) << (superblock.block_bits - SECTOR_BITS)
            }
            Layout::Plain(_) | Layout::Inline(_) | Layout::Chunks(_) => {
                fields.size.next_multiple_of(superblock.block_size()) >> SECTOR_BITS
            }
        };
        let node = Node {
            id: id::tagged(nid, kind),
            ino: nid,
            kind,
            permissions: mode & 0o7777,
            uid: fields.uid,
            gid: fields.gid,
            size: if content { fields.size } else { 0 },
            links,
            modified: Some(fields.modified),
            blocks,
            device: if device { decode_device(address) } else { (0, 0) },
        };
        let slots = u64::from(fields.slots);
        // The first slot is a header of twelve bytes.
        let xattrs = if slots == 0 { 0 } else { 12 + 4 * (slots - 1) };
        Ok(Self { node, layout, place, len, xattrs, map: OnceLock::new() })
    }
}

fn layout(
    number: u16,
    block: u64,
    none: bool,
    place: Place,
    superblock: &Superblock,
) -> Result<Layout> {
    // 48 bits of block and 16 of offset at most.
    let start = block << superblock.block_bits;
    Ok(match number {
        0 => Layout::Plain((!none).then_some(start)),
        1 => Layout::Compressed { full: true },
        2 => Layout::Inline(start),
        3 => Layout::Compressed { full: false },
        4 => {
            let format = block & 0xffff;
            if format & !0x7f != 0 {
                let what = format!("a chunk format of {format:#x}");
                return Err(Error::Unsupported { what, offset: place.at });
            }
            let beyond = u32::try_from(format & 0x1f).expect("five bits");
            Layout::Chunks(Chunks {
                bits: superblock.block_bits + beyond,
                indexes: format & 0x20 != 0,
                wide: format & 0x40 != 0,
            })
        }
        _ => {
            let what = format!("an inode of layout {number}");
            return Err(Error::Unsupported { what, offset: place.at });
        }
    })
}

/// The fields that both sizes have.
struct Fields {
    format: u16,
    slots: u16,
    mode: u16,
    high: u16,
    size: u64,
    address: u32,
    uid: u32,
    gid: u32,
    modified: Time,
    links: u32,
}

impl Fields {
    fn small(bytes: &[u8], place: Place, superblock: &Superblock) -> Result<Self> {
        let mut at = Reader::new(bytes, place.at);
        let (format, slots) = (at.u16("inode format")?, at.u16("xattr slots")?);
        let (mode, high) = (at.u16("mode")?, at.u16("links")?);
        let (size, beyond) = (u64::from(at.u32("file size")?), at.u32("time")?);
        let address = at.u32("address")?;
        at.u32("inode number")?;
        let (uid, gid) = (u32::from(at.u16("user")?), u32::from(at.u16("group")?));
        let seconds = superblock.epoch.saturating_add(i64::from(beyond));
        let modified = Time { seconds, nanos: superblock.nanos };
        Ok(Self { format, slots, mode, high, size, address, uid, gid, modified, links: 0 })
    }

    fn large(bytes: &[u8], place: Place) -> Result<Self> {
        let mut at = Reader::new(bytes, place.at);
        let (format, slots) = (at.u16("inode format")?, at.u16("xattr slots")?);
        let (mode, high) = (at.u16("mode")?, at.u16("address")?);
        let (size, address) = (at.u64("file size")?, at.u32("address")?);
        at.u32("inode number")?;
        let (uid, gid) = (at.u32("user")?, at.u32("group")?);
        let seconds = at.u64("time")?.cast_signed();
        let modified = Time { seconds, nanos: at.u32("time")? };
        let links = at.u32("links")?;
        Ok(Self { format, slots, mode, high, size, address, uid, gid, modified, links })
    }
}

/// Major and minor number from the kernel's 32 bits: 8 of minor, 12 of major, 12 of minor.
const fn decode_device(number: u32) -> (u32, u32) {
    (number >> 8 & 0xfff, number & 0xff | number >> 12 & 0xf_ff00)
}

/// Memory of an inode without its index.
const OVERHEAD: usize = 320;
const SMALL: usize = 32;
const LARGE: usize = 64;
/// In a small inode's format: it has one link, and the field of the links is its address's.
const SINGLE: u16 = 1 << 4;
/// In an inode's number: it lies in the metabox.
const METABOX: u64 = 1 << 63;
/// No inode can begin here or behind it, so that places near it can be added to.
const PLACE_MAX: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_number_keeps_all_of_its_bits() {
        assert_eq!(decode_device(0x103), (1, 3));
        assert_eq!(decode_device(0x0001_032c), (0x103, 0x2c));
        assert_eq!(decode_device(u32::MAX), (0xfff, 0xf_ffff));
    }
}
