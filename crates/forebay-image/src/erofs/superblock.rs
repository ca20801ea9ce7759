//! The superblock: properties of the image, and features that a reader needs.
//!
//! It begins at byte 1024, and all its numbers are little-endian, as everywhere in the image.
//!
//! ```text
//!    0 magic e2 e1 f5 e0    36 blocks, low        86 extra devices
//!    4 crc32c               40 metadata block     88 first device slot
//!    8 compatible features  44 shared xattr block 90 directory block bits, beyond the block's
//!   12 block size bits      48 uuid               91 xattr prefixes, number
//!   13 slots of 16 bytes    64 volume name        92 xattr prefixes, place / 4
//!      behind byte 128      80 incompatible       96 packed inode
//!   14 root inode, or          features          108 build time, beyond the epoch
//!      blocks, high         84 codecs, or         112 root inode, if wide
//!   16 inodes                  LZ4 distance       128 metabox inode
//!   24 epoch, seconds
//!   32 nanoseconds
//! ```

use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::source::{Source, within};

use super::codec_parameters;

/// The used fields of a superblock.
#[derive(Clone, Debug)]
pub(super) struct Superblock {
    /// The block size is `1 << block_bits` bytes: 512 bytes to 64 KiB.
    pub(super) block_bits: u32,
    /// The inode of the root directory.
    pub(super) root: u64,
    /// The number of inodes.
    pub(super) inodes: u64,
    /// Seconds since 1970 from which the times of small inodes count.
    pub(super) epoch: i64,
    /// Nanoseconds of the times of small inodes.
    pub(super) nanos: u32,
    /// Seconds from the epoch to when the image was built.
    pub(super) build_time: u32,
    /// The number of blocks.
    pub(super) blocks: u64,
    /// Where inode 0 would be, in bytes.
    pub(super) metadata: u64,
    /// Where the shared extended attributes are, in bytes.
    pub(super) shared_xattrs: u64,
    /// The bits of features that a reader may ignore.
    pub(super) compatible: u32,
    /// The bits of features that a reader has to know.
    pub(super) incompatible: u32,
    /// The codecs that may be used, a bit for each.
    pub(super) codecs: u16,
    /// The most bytes of the image that an extent is decoded from.
    pub(super) raw_max: u64,
    /// Where it ends with all that stands behind it, in bytes.
    pub(super) end: u64,
    /// The inode that holds the ends of other files, and their long attribute prefixes.
    pub(super) packed: Option<u64>,
    /// The inode that holds other inodes.
    pub(super) metabox: Option<u64>,
    /// The number of long attribute prefixes.
    pub(super) prefixes: u8,
    /// Where they are, in bytes.
    pub(super) prefixes_at: u64,
    /// The name of the volume.
    pub(super) volume: Vec<u8>,
    /// What tells the image from others.
    pub(super) uuid: [u8; 16],
}

impl Superblock {
    /// Reads and checks it; none if there is no such magic.
    pub(super) fn read(source: &dyn Source) -> Result<Option<Self>> {
        if source.len() < PLACE + 4 {
            return Ok(None);
        }
        let mut magic = [0; 4];
        source.fill(&mut magic, PLACE)?;
        if u32::from_le_bytes(magic) != MAGIC {
            return Ok(None);
        }
        let mut bytes = [0; BYTES];
        within(source, PLACE + BYTES as u64)?;
        source.fill(&mut bytes, PLACE)?;
        let (mut superblock, crc, size) = Self::parse(&bytes)?;
        superblock.read_rest(source, &bytes, crc, size).map_err(|mut error| {
            if let Error::Truncated { expected, .. } = &mut error {
                *expected = superblock.bytes().max(*expected);
            }
            error
        })?;
        Ok(Some(superblock))
    }

    /// Checks and reads what belongs to it behind its fields.
    fn read_rest(
        &mut self,
        source: &dyn Source,
        fields: &[u8; BYTES],
        crc: u32,
        size: u64,
    ) -> Result<()> {
        within(source, PLACE + size)?;
        self.check_crc(source, crc)?;
        if self.has(METABOX) {
            self.metabox = Some(metabox(source, size)?);
        }
        self.read_codecs(source, u16::from_le_bytes([fields[84], fields[85]]))
    }

    /// Checks the codecs of an image, a bit for each, and reads their parameters.
    fn read_codecs(&mut self, source: &dyn Source, bits: u16) -> Result<()> {
        if !self.has(CODEC_PARAMETERS) {
            // Then the field is the distance of LZ4, and there is no other codec.
            self.codecs = u16::from(bits != 0 || self.has(ZERO_PADDING));
            self.raw_max = self.block_size();
            return Ok(());
        }
        let unknown = bits & !codec_parameters::KNOWN;
        if unknown != 0 {
            return Err(unsupported(format!("an unknown codec (bits {unknown:#x})"), 84));
        }
        let found = codec_parameters::read(source, bits, self.end, self.block_size())?;
        (self.codecs, self.end, self.raw_max) = (bits, found.end, found.raw_max);
        Ok(())
    }

    /// The fields, the checksum, and the number of bytes that the superblock has.
    fn parse(bytes: &[u8; BYTES]) -> Result<(Self, u32, u64)> {
        let mut at = Reader::new(bytes, PLACE);
        at.u32("magic")?;
        let crc = at.u32("checksum")?;
        let compatible = at.u32("compatible features")?;
        let place = at.offset();
        let block_bits = u32::from(at.u8("block size")?);
        if !(9..=16).contains(&block_bits) {
            let found = format!("2^{block_bits} bytes, outside of 512 bytes to 64 KiB");
            return Err(Error::field("block size", place, found));
        }
        let size = BYTES as u64 + 16 * u64::from(at.u8("superblock extension")?);
        let (low, inodes) = (at.u16("root inode")?, at.u64("inodes")?);
        let (epoch, nanos) = (at.u64("epoch")?.cast_signed(), at.u32("epoch")?);
        let mut blocks = u64::from(at.u32("blocks")?);
        let metadata = u64::from(at.u32("metadata block")?) << block_bits;
        let shared_xattrs = u64::from(at.u32("shared xattr block")?) << block_bits;
        let uuid = at.array("uuid")?;
        let name: [u8; 16] = at.array("volume name")?;
        let volume = name.split(|&byte| byte == 0).next().unwrap_or(&[]).to_vec();
        let incompatible = check_features(at.u32("incompatible features")?, PLACE + 80)?;
        at.u16("codecs")?;
        check_devices(incompatible, at.u16("extra devices")?)?;
        at.u16("device slot")?;
        let bits = at.u8("directory block size")?;
        if bits != 0 {
            return Err(unsupported(format!("a directory block of 2^{bits} blocks"), 90));
        }
        let prefixes = at.u8("xattr prefixes")?;
        let prefixes_at = u64::from(at.u32("xattr prefixes")?) << 2;
        let packed = at.u64("packed inode")?;
        at.u32("reserved")?;
        let build_time = at.u32("build time")?;
        let wide = at.u64("root inode")?;
        let mut root = u64::from(low);
        if incompatible & WIDE != 0 && wide != 0 {
            root = wide;
            blocks |= u64::from(low) << 32;
        }
        let packed = (incompatible & FRAGMENTS != 0 && packed != 0).then_some(packed);
        if let Some(packed) = packed.filter(|packed| packed >> 63 != 0) {
            return Err(Error::field("packed inode", PLACE + 96, format!("{packed:#x}")));
        }
        let superblock = Self {
            block_bits,
            root,
            inodes,
            epoch,
            nanos,
            build_time,
            blocks,
            metadata,
            shared_xattrs,
            compatible,
            incompatible,
            codecs: 0,
            raw_max: 0,
            end: PLACE + size,
            packed,
            metabox: None,
            prefixes,
            prefixes_at,
            volume,
            uuid,
        };
        Ok((superblock, crc, size))
    }

    /// Bytes of a block.
    pub(super) const fn block_size(&self) -> u64 {
        1 << self.block_bits
    }

    /// The offset in its block of a byte.
    pub(super) const fn in_block(&self, at: u64) -> u64 {
        at & (self.block_size() - 1)
    }

    /// Whether it has an incompatible feature.
    pub(super) const fn has(&self, feature: u32) -> bool {
        self.incompatible & feature != 0
    }

    /// Whether there is a checksum of it, which then was right.
    pub(super) const fn has_checksum(&self) -> bool {
        self.compatible & CHECKSUM != 0
    }

    /// The number of bytes that the image says it has.
    pub(super) const fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(self.block_size())
    }

    /// The names of its features.
    pub(super) fn features(&self) -> Vec<&'static str> {
        let compatible = COMPATIBLE.iter().filter(|(bit, _)| self.compatible & bit != 0);
        let incompatible = FEATURES.iter().filter(|(bit, _)| self.incompatible & bit != 0);
        compatible.chain(incompatible).map(|&(_, name)| name).collect()
    }

    /// The checksum of the block in which the superblock is, from the superblock on.
    fn check_crc(&self, source: &dyn Source, expected: u32) -> Result<()> {
        if !self.has_checksum() || cfg!(fuzzing) {
            return Ok(());
        }
        let size = self.block_size();
        let len = if size > PLACE { size - PLACE } else { size };
        within(source, PLACE + len)?;
        let mut bytes = vec![0; usize::try_from(len).expect("64 KiB at most")];
        source.fill(&mut bytes, PLACE)?;
        bytes[4..8].fill(0);
        let found = crc32c(&bytes);
        if found != expected {
            let found = format!("{expected:#010x}, but the superblock has {found:#010x}");
            return Err(Error::field("checksum", PLACE + 4, found));
        }
        Ok(())
    }
}

/// Refuses bits of features that a reader has to know.
fn check_features(bits: u32, offset: u64) -> Result<u32> {
    let known: u32 = FEATURES.iter().map(|(bit, _)| bit).sum();
    let unknown = bits & !known;
    if unknown == 0 {
        return Ok(bits);
    }
    let names: Vec<String> =
        (0..32).filter(|bit| unknown >> bit & 1 != 0).map(|bit| format!("bit {bit}")).collect();
    let what = format!("an unknown incompatible feature ({})", names.join(", "));
    Err(Error::Unsupported { what, offset })
}

/// Refuses images whose content lies elsewhere.
fn check_devices(incompatible: u32, extra: u16) -> Result<()> {
    if incompatible & DEVICE_TABLE == 0 || extra == 0 {
        return Ok(());
    }
    Err(unsupported(format!("content on {extra} further devices or files"), 86))
}

fn unsupported(what: String, offset: u64) -> Error {
    Error::Unsupported { what, offset: PLACE + offset }
}

/// The inode of the metabox, which lies behind the part that every superblock has.
fn metabox(source: &dyn Source, size: u64) -> Result<u64> {
    let place = PLACE + 128;
    if size < 136 {
        let found = format!("needs 136 bytes of superblock, but there are {size}");
        return Err(Error::field("metabox inode", place, found));
    }
    let mut bytes = [0; 8];
    source.fill(&mut bytes, place)?;
    let inode = u64::from_le_bytes(bytes);
    if inode >> 63 != 0 {
        return Err(Error::field("metabox inode", place, format!("{inode:#x}")));
    }
    Ok(inode)
}

/// CRC-32C as Linux counts it here: begun with ones, and not inverted at the end.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, &byte| {
        let index = (crc ^ u32::from(byte)) & 0xff;
        crc >> 8 ^ CRC32C[index as usize]
    })
}

const CRC32C: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 0 { 0 } else { 0x82f6_3b78 };
            bit += 1;
        }
        table[index as usize] = crc;
        index += 1;
    }
    table
};

/// Where the superblock begins.
pub(super) const PLACE: u64 = 1024;
/// The part that every superblock has.
const BYTES: usize = 128;
const MAGIC: u32 = 0xe0f5_e1e2;

const CHECKSUM: u32 = 1 << 0;
/// The attribute prefixes are in the image itself, not in an inode.
pub(super) const PLAIN_PREFIXES: u32 = 1 << 4;
/// The shared attributes are in the metabox.
pub(super) const SHARED_IN_METABOX: u32 = 1 << 3;

const COMPATIBLE: [(u32, &str); 6] = [
    (CHECKSUM, "sb_csum"),
    (1 << 1, "mtime"),
    (1 << 2, "xattr_filter"),
    (SHARED_IN_METABOX, "shared_ea_in_metabox"),
    (PLAIN_PREFIXES, "plain_xattr_pfx"),
    (1 << 5, "ishare_xattrs"),
];

/// Compressed bytes lie at the end of their cluster, behind zeros.
pub(super) const ZERO_PADDING: u32 = 1 << 0;
/// The parameters of the codecs follow the superblock.
const CODEC_PARAMETERS: u32 = 1 << 1;
const DEVICE_TABLE: u32 = 1 << 3;
const FRAGMENTS: u32 = 1 << 5;
const WIDE: u32 = 1 << 7;
const METABOX: u32 = 1 << 8;

/// The features that are read, by the names that the kernel shows.
const FEATURES: [(u32, &str); 9] = [
    (ZERO_PADDING, "zero_padding"),
    (CODEC_PARAMETERS, "compr_cfgs/big_pcluster"),
    (1 << 2, "chunked_file"),
    (DEVICE_TABLE, "device_table/compr_head2"),
    (1 << 4, "ztailpacking"),
    (FRAGMENTS, "fragments/dedupe"),
    (1 << 6, "xattr_prefixes"),
    (WIDE, "48bit"),
    (METABOX, "metabox"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_castagnoli_polynomial() {
        // RFC 3720 B.4 gives the inverted values.
        assert_eq!(!crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(!crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(!crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn each_unknown_feature_is_refused_by_its_bit() {
        for bit in 0..32 {
            let checked = check_features(1 << bit, 1104);
            if bit <= 8 {
                assert_eq!(checked.unwrap(), 1 << bit);
            } else {
                let text = checked.unwrap_err().to_string();
                assert!(text.contains(&format!("(bit {bit})")), "{text}");
            }
        }
    }
}
