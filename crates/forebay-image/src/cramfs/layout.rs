//! The superblock, inodes and their words, as they lie in the image.
//!
//! ```text
//!  superblock, at byte 0 or 512           inode, three words, here of a little-endian image;
//!   0  magic  28cd3d45                    big-endian ones fill the words from the other end
//!   4  size          bytes of the image    31            16 15             0
//!   8  flags                              | uid            | mode            |
//!  12  future        zero                 | gid     | size                   |
//!  16  signature     "Compressed ROMFS"    31     24 23                     0
//!  32  crc           see verify           | offset in words       | namelen  |
//!  36  edition                             31                    6 5        0
//!  40  blocks        of data
//!  44  files         inodes                an entry is an inode and namelen words of name
//!  48  name          16 bytes
//!  64  root          an inode
//! ```
//!
//! Every offset counts from byte 0 of the image, wherever the superblock is.

use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::node::Kind;

/// Bytes of a superblock with the root's inode.
pub(super) const SUPERBLOCK_LEN: usize = 76;
/// Where a superblock lies that has boot code before it.
pub(super) const BOOT_LEN: u64 = 512;
/// Where the root's inode begins in a superblock.
pub(super) const ROOT_AT: u64 = 64;
/// Where the checksum is in a superblock.
pub(super) const CRC_AT: u64 = 32;
/// Bytes of an inode.
pub(super) const INODE_LEN: usize = 12;
/// Bytes of content in a block. The format does not record it.
pub(super) const BLOCK_LEN: u64 = 4096;
/// A block that did not become smaller is a little longer than its content; Linux accepts this.
pub(super) const RAW_MAX: u64 = 2 * BLOCK_LEN;
/// The largest size of a file or directory, in bytes: 24 bits.
pub(super) const SIZE_MAX: u32 = (1 << 24) - 1;
/// The largest offset in words: 26 bits.
pub(super) const OFFSET_WORDS_MAX: u32 = (1 << 26) - 1;
/// The longest name, in words: 6 bits.
pub(super) const NAME_WORDS_MAX: u32 = (1 << 6) - 1;
pub(super) const MAGIC: u32 = 0x28cd_3d45;
pub(super) const SIGNATURE: &[u8; 16] = b"Compressed ROMFS";

/// What the flags of a superblock say.
pub(super) mod flag {
    /// Size, checksum, blocks and files are present.
    pub(in super::super) const VERSION_2: u32 = 0x001;
    /// The names of a directory ascend.
    pub(in super::super) const SORTED: u32 = 0x002;
    /// Blocks of zeros may have no bytes.
    pub(in super::super) const HOLES: u32 = 0x100;
    /// The signature need not be there.
    pub(in super::super) const WRONG_SIGNATURE: u32 = 0x200;
    /// The root directory may be anywhere.
    pub(in super::super) const SHIFTED_ROOT: u32 = 0x400;
    /// Block pointers contain flags.
    pub(in super::super) const EXTENDED: u32 = 0x800;
    /// Bits that readers need not know.
    pub(in super::super) const HARMLESS: u32 = 0x0ff;
    /// Each flag by the name that the kernel's header has for it.
    pub(in super::super) const NAMES: [(u32, &str); 6] = [
        (VERSION_2, "fsid-version-2"),
        (SORTED, "sorted-dirs"),
        (HOLES, "holes"),
        (WRONG_SIGNATURE, "wrong-signature"),
        (SHIFTED_ROOT, "shifted-root-offset"),
        (EXTENDED, "ext-block-pointers"),
    ];
}

/// What all numbers of an image depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) big_endian: bool,
}

impl Order {
    pub(super) fn reader(self, bytes: &[u8], base: u64) -> Reader<'_> {
        Reader::new(bytes, base).big_endian(self.big_endian)
    }

    pub(super) fn u16(self, bytes: [u8; 2]) -> u16 {
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    pub(super) fn u32(self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    pub(super) fn bytes(self, word: u32) -> [u8; 4] {
        if self.big_endian { word.to_be_bytes() } else { word.to_le_bytes() }
    }

    /// Cuts a word in two: the field that is declared first has `bits` bits.
    fn split(self, word: u32, bits: u32) -> (u32, u32) {
        if self.big_endian {
            (word >> (32 - bits), word & (u32::MAX >> bits))
        } else {
            (word & (u32::MAX >> (32 - bits)), word >> bits)
        }
    }

    fn join(self, first: u32, second: u32, bits: u32) -> u32 {
        if self.big_endian { first << (32 - bits) | second } else { first | second << bits }
    }
}

/// A superblock as it was read; nothing is checked but its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    pub(super) size: u32,
    pub(super) flags: u32,
    pub(super) signature: [u8; 16],
    pub(super) crc: u32,
    pub(super) edition: u32,
    pub(super) blocks: u32,
    pub(super) files: u32,
    pub(super) name: [u8; 16],
    pub(super) root: Inode,
}

impl Superblock {
    /// The byte order of a superblock that begins with these bytes, if one can.
    pub(super) fn order(magic: [u8; 4]) -> Option<Order> {
        let orders = [false, true].map(|big_endian| Order { big_endian });
        orders.into_iter().find(|order| order.u32(magic) == MAGIC)
    }

    pub(super) fn parse(bytes: &[u8], base: u64, order: Order) -> Result<Self> {
        let mut fields = order.reader(bytes, base);
        fields.u32("magic")?;
        let size = fields.u32("size")?;
        let flags = fields.u32("flags")?;
        fields.u32("future")?;
        Ok(Self {
            size,
            flags,
            signature: fields.array("signature")?,
            crc: fields.u32("crc")?,
            edition: fields.u32("edition")?,
            blocks: fields.u32("blocks")?,
            files: fields.u32("files")?,
            name: fields.array("name")?,
            root: Inode::parse(&mut fields, order)?,
        })
    }

    pub(super) fn to_bytes(&self, order: Order) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SUPERBLOCK_LEN);
        for word in [MAGIC, self.size, self.flags, 0] {
            bytes.extend(order.bytes(word));
        }
        bytes.extend(self.signature);
        for word in [self.crc, self.edition, self.blocks, self.files] {
            bytes.extend(order.bytes(word));
        }
        bytes.extend(self.name);
        bytes.extend(self.root.to_bytes(order));
        bytes
    }
}

/// An inode as it was read. Every value is in the range of its bits, and means no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Inode {
    /// Type and permissions.
    pub(super) mode: u16,
    pub(super) uid: u16,
    pub(super) gid: u8,
    /// 24 bits: bytes, or a device number.
    pub(super) size: u32,
    /// 26 bits: where the entries or the block pointers are, in words.
    pub(super) offset_words: u32,
    /// 6 bits: length of the name behind the inode, in words.
    pub(super) name_words: u32,
}

impl Inode {
    pub(super) fn parse(fields: &mut Reader<'_>, order: Order) -> Result<Self> {
        let (mode, uid) = order.split(fields.u32("mode and owner")?, 16);
        let (size, gid) = order.split(fields.u32("size and group")?, 24);
        let (name_words, offset_words) = order.split(fields.u32("name length and offset")?, 6);
        let field = |_| Error::field("inode", fields.offset(), "a field beyond its bits");
        Ok(Self {
            mode: u16::try_from(mode).map_err(field)?,
            uid: u16::try_from(uid).map_err(field)?,
            gid: u8::try_from(gid).map_err(field)?,
            size,
            offset_words,
            name_words,
        })
    }

    pub(super) fn to_bytes(self, order: Order) -> [u8; INODE_LEN] {
        let words = [
            order.join(self.mode.into(), self.uid.into(), 16),
            order.join(self.size, self.gid.into(), 24),
            order.join(self.name_words, self.offset_words, 6),
        ];
        let mut bytes = [0; INODE_LEN];
        for (target, word) in bytes.chunks_exact_mut(4).zip(words) {
            target.copy_from_slice(&order.bytes(word));
        }
        bytes
    }

    /// Where the entries or the block pointers begin.
    pub(super) const fn offset(&self) -> u64 {
        self.offset_words as u64 * 4
    }

    /// Bytes of the name behind the inode.
    pub(super) const fn name_len(&self) -> usize {
        self.name_words as usize * 4
    }

    /// Its type; none if the number is unknown.
    pub(super) const fn kind(&self) -> Option<Kind> {
        Kind::of_mode(self.mode)
    }

    /// Bytes of content. A file or directory without a place has none, whatever its size says.
    pub(super) const fn content_len(&self) -> u64 {
        if self.offset_words == 0 { 0 } else { self.size as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITTLE: Order = Order { big_endian: false };
    const BIG: Order = Order { big_endian: true };

    #[test]
    fn the_fields_of_a_word_flip_with_its_bytes() {
        let inode = Inode {
            mode: 0o100_644,
            uid: 0x1234,
            gid: 0x56,
            size: 0x00ab_cdef,
            offset_words: 0x0234_5678,
            name_words: 0x2a,
        };
        let little = [0xa4, 0x81, 0x34, 0x12, 0xef, 0xcd, 0xab, 0x56, 0x2a, 0x9e, 0x15, 0x8d];
        let big = [0x81, 0xa4, 0x12, 0x34, 0xab, 0xcd, 0xef, 0x56, 0xaa, 0x34, 0x56, 0x78];
        for (order, bytes) in [(LITTLE, little), (BIG, big)] {
            assert_eq!(inode.to_bytes(order), bytes);
            let mut fields = order.reader(&bytes, 0);
            assert_eq!(Inode::parse(&mut fields, order).unwrap(), inode);
        }
    }

    #[test]
    fn the_magic_tells_the_byte_order() {
        assert_eq!(Superblock::order([0x45, 0x3d, 0xcd, 0x28]), Some(LITTLE));
        assert_eq!(Superblock::order([0x28, 0xcd, 0x3d, 0x45]), Some(BIG));
        assert_eq!(Superblock::order([0x28, 0xcd, 0x3d, 0x46]), None);
    }

    #[test]
    fn a_superblock_is_its_bytes() {
        let root = Inode { mode: 0o040_755, offset_words: 19, size: 16, ..Inode::default() };
        let superblock = Superblock {
            size: 4096,
            flags: 3,
            signature: *SIGNATURE,
            crc: 1,
            edition: 2,
            blocks: 3,
            files: 4,
            name: *b"sixteen letters.",
            root,
        };
        for order in [LITTLE, BIG] {
            let bytes = superblock.to_bytes(order);
            assert_eq!(bytes.len(), SUPERBLOCK_LEN);
            assert_eq!(Superblock::parse(&bytes, 0, order).unwrap(), superblock);
            for len in 0..SUPERBLOCK_LEN {
                assert!(Superblock::parse(&bytes[..len], 0, order).is_err());
            }
        }
    }
}
