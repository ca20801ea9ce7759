//! The first page of a layer: the identity of its base.
//!
//! ```text
//!   0   "forebay overlay\n"     24  u32 phase        32  u32 bytes of the stamp
//!   16  u64 bytes of the disk   28  u32 of the name  36  name, stamp      4092  u32 checksum
//!   4076  u64 device, 4084 u64 inode of the base's file, from its first commit on; or zeroes
//! ```
//!
//! Numbers are little-endian; the checksum is the CRC-32 of all bytes before it.

use std::io;

use super::{BaseIdentity, FileNode, HEAD_TEXT_MAX, OverlayError, Store, read_page, write_page};
use crate::frames::{PAGE, Page};

/// What the first page says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) phase: Phase,
    /// Bytes of the disk.
    pub(super) bytes: u64,
    pub(super) base: BaseIdentity,
    /// The file into which a commit has begun.
    pub(super) node: Option<FileNode>,
}

/// The state of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    InUse = 0,
    /// It is being written into its base.
    Committing = 1,
}

impl Head {
    pub(super) fn write(&self, layer: &dyn Store) -> Result<(), OverlayError> {
        let BaseIdentity { name, stamp } = &self.base;
        if name.len().max(stamp.len()) > HEAD_TEXT_MAX {
            return Err(OverlayError::LongName);
        }
        if self.bytes > DISK_MAX {
            return Err(OverlayError::LargeBase(self.bytes));
        }
        let mut bytes = Vec::with_capacity(PAGE);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.bytes.to_le_bytes());
        for number in [self.phase as usize, name.len(), stamp.len()] {
            bytes.extend_from_slice(&(number as u32).to_le_bytes());
        }
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(stamp.as_bytes());
        bytes.resize(NODE_AT, 0);
        let FileNode { device, inode } = self.node.unwrap_or(FileNode { device: 0, inode: 0 });
        bytes.extend_from_slice(&device.to_le_bytes());
        bytes.extend_from_slice(&inode.to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        let mut page = Page([0; PAGE]);
        page.0.copy_from_slice(&bytes);
        Ok(write_page(layer, &page, 0, true)?)
    }

    pub(super) fn read(layer: &dyn Store) -> Result<Self, OverlayError> {
        let mut page = Page([0; PAGE]);
        match read_page(layer, &mut page, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(OverlayError::NotAnOverlay("it is shorter than a page"));
            }
            result => result?,
        }
        let bytes = &page.0;
        if !bytes.starts_with(MAGIC) {
            return Err(OverlayError::NotAnOverlay("it does not begin like one"));
        }
        if u32_at(bytes, SUM_AT) != crc32fast::hash(&bytes[..SUM_AT]) {
            return Err(OverlayError::NotAnOverlay("its head is damaged"));
        }
        let phase = match u32_at(bytes, 24) {
            0 => Phase::InUse,
            1 => Phase::Committing,
            _ => return Err(OverlayError::NotAnOverlay("a later version has made it")),
        };
        let (name, stamp) = (u32_at(bytes, 28) as usize, u32_at(bytes, 32) as usize);
        if name.max(stamp) > HEAD_TEXT_MAX {
            return Err(OverlayError::NotAnOverlay("its head is damaged"));
        }
        let text = |start: usize, len| {
            String::from_utf8(bytes[start..start + len].to_vec())
                .map_err(|_| OverlayError::NotAnOverlay("its base has no name in UTF-8"))
        };
        let base = BaseIdentity { name: text(TEXT_AT, name)?, stamp: text(TEXT_AT + name, stamp)? };
        let disk = u64_at(bytes, 16);
        if disk > DISK_MAX {
            return Err(OverlayError::NotAnOverlay("its disk is larger than any"));
        }
        let node = FileNode { device: u64_at(bytes, NODE_AT), inode: u64_at(bytes, NODE_AT + 8) };
        let is_known = node != FileNode { device: 0, inode: 0 };
        Ok(Self { phase, bytes: disk, base, node: is_known.then_some(node) })
    }

    /// What fails at the base while a commit changes it.
    pub(super) fn base_failed(&self, why: io::Error) -> OverlayError {
        OverlayError::Base { name: self.base.name.clone(), begun: true, why }
    }
}

fn u64_at(bytes: &[u8; PAGE], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

fn u32_at(bytes: &[u8; PAGE], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

const MAGIC: &[u8; 16] = b"forebay overlay\n";

/// Where the name begins.
const TEXT_AT: usize = 36;

/// Where the base's file is.
const NODE_AT: usize = SUM_AT - 16;

/// Where the checksum is.
const SUM_AT: usize = PAGE - 4;

/// Bytes of the largest disk, 64 TiB: its map takes 2 GiB.
pub(super) const DISK_MAX: u64 = 64 << 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::MemoryStore;

    fn base(name: &str, stamp: &str) -> BaseIdentity {
        BaseIdentity { name: name.to_owned(), stamp: stamp.to_owned() }
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let layer = MemoryStore::new(4096);
        for phase in [Phase::InUse, Phase::Committing] {
            let long = "n".repeat(HEAD_TEXT_MAX);
            for node in [None, Some(FileNode { device: u64::MAX, inode: 7 << 40 })] {
                let head = Head { phase, bytes: DISK_MAX, base: base(&long, "ü"), node };
                head.write(&layer).unwrap();
                assert_eq!(Head::read(&layer).unwrap(), head);
            }
        }
        let base_of = base("", &"s".repeat(HEAD_TEXT_MAX + 1));
        let long = Head { phase: Phase::InUse, bytes: 1, base: base_of, node: None };
        assert!(matches!(long.write(&layer), Err(OverlayError::LongName)));
    }

    #[test]
    fn every_changed_byte_of_a_head_is_an_error() {
        let layer = MemoryStore::new(4096);
        let head = Head { phase: Phase::InUse, bytes: 9, base: base("disk", "stamp"), node: None };
        head.write(&layer).unwrap();
        let mut good = Page([0; PAGE]);
        read_page(&layer, &mut good, 0).unwrap();
        for at in 0..PAGE {
            let mut bad = good.clone();
            bad.0[at] ^= 0x40;
            write_page(&layer, &bad, 0, false).unwrap();
            let found = Head::read(&layer);
            assert!(matches!(found, Err(OverlayError::NotAnOverlay(_))), "{at}");
        }
        let short = Head::read(&MemoryStore::new(4095));
        assert!(matches!(short, Err(OverlayError::NotAnOverlay(_))));
    }
}
