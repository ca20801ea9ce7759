//! The superblock and the compressor's options: named fields, validated once.
//!
//! ```text
//!    0  4 magic "hsqs"      4  4 number of inodes    8  4 time of creation   12  4 block size
//!   16  4 fragments        20  2 compressor         22  2 log2 of block size 24  2 flags
//!   26  2 number of ids    28  2 major version, 4   30  2 minor version, 0
//!   32  8 reference of the root inode               40  8 bytes used
//!   48  8 id table         56  8 xattr table        64  8 inode table
//!   72  8 directory table  80  8 fragment table     88  8 export table
//!   96    options of the compressor, as a metadata block, if a flag says so
//! ```
//!
//! An absent table has a position of all ones. Existing tables follow each other in the order
//! inodes, directories, fragments, exports, ids, xattrs.

use std::ops::Range;

use crate::bytes::Reader;
use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::source::Source;

/// Bytes of the superblock.
pub(super) const SUPERBLOCK_LEN: u64 = 96;
/// Decoded bytes of a metadata block at most.
pub(super) const METADATA_LEN: usize = 8192;
/// Bytes of a metadata block's header.
pub(super) const METADATA_HEADER: u64 = 2;
/// Bit of a metadata block's header for a stored block.
pub(super) const METADATA_STORED: u16 = 0x8000;
/// A table or an index that is not there.
pub(super) const NO_TABLE: u64 = u64::MAX;
/// Where the options of the compressor are, if there are any.
const OPTIONS: u64 = SUPERBLOCK_LEN;
/// Bytes of the options at most.
const OPTIONS_MAX: usize = 64;

/// Flag of the superblock: the compressor's options follow it.
const FLAG_OPTIONS: u16 = 0x400;
/// Every flag that is known, with its name.
const FLAGS: [(u16, &str); 12] = [
    (0x001, "inodes stored"),
    (0x002, "data stored"),
    (0x004, "check"),
    (0x008, "fragments stored"),
    (0x010, "no fragments"),
    (0x020, "always fragments"),
    (0x040, "duplicates removed"),
    (0x080, "exportable"),
    (0x100, "xattrs stored"),
    (0x200, "no xattrs"),
    (FLAG_OPTIONS, "compressor options"),
    (0x800, "ids stored"),
];

/// How an image is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compressor {
    Gzip,
    Lzo,
    Xz,
    Lz4,
    Zstd,
}

impl Compressor {
    fn new(id: u16) -> Result<Self> {
        match id {
            1 => Ok(Self::Gzip),
            2 => Err(Error::Unsupported { what: "the compressor lzma".into(), offset: 20 }),
            3 => Ok(Self::Lzo),
            4 => Ok(Self::Xz),
            5 => Ok(Self::Lz4),
            6 => Ok(Self::Zstd),
            _ => Err(Error::field("compressor", 20, format!("{id}, which is none from 1 to 6"))),
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Lzo => "lzo",
            Self::Xz => "xz",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    pub(super) const fn codec(self) -> Codec {
        match self {
            Self::Gzip => Codec::Zlib,
            Self::Lzo => Codec::Lzo,
            Self::Xz => Codec::Xz,
            Self::Lz4 => Codec::Lz4,
            Self::Zstd => Codec::Zstd,
        }
    }
}

/// A valid superblock. The tables' own contents are not looked at.
#[derive(Clone, Debug)]
pub(super) struct Superblock {
    pub(super) inodes: u32,
    /// Seconds since 1970.
    pub(super) created: u32,
    /// A power of two from 4 KiB to 1 MiB.
    pub(super) block_size: u32,
    pub(super) fragments: u32,
    pub(super) compressor: Compressor,
    pub(super) flags: u16,
    pub(super) ids: u16,
    /// The reference of the root inode.
    pub(super) root: u64,
    /// Bytes of the image.
    pub(super) bytes: u64,
    /// Where each table begins; the order of the last four is that of the image.
    pub(super) inode_table: u64,
    pub(super) directory_table: u64,
    pub(super) fragment_table: u64,
    pub(super) export_table: u64,
    pub(super) id_table: u64,
    pub(super) xattr_table: u64,
}

impl Superblock {
    /// Reads and validates it. None if the magic is another.
    pub(super) fn read(source: &dyn Source) -> Result<Option<Self>> {
        let mut magic = [0; 4];
        if source.len() < 4 {
            return Ok(None);
        }
        source.fill(&mut magic, 0)?;
        match &magic {
            b"hsqs" => {}
            b"sqsh" => return Err(unsupported("squashfs in the other byte order", 0)),
            _ => return Ok(None),
        }
        if source.len() < SUPERBLOCK_LEN {
            return Err(Error::Truncated { expected: SUPERBLOCK_LEN, found: source.len() });
        }
        let mut bytes = [0; SUPERBLOCK_LEN as usize];
        source.fill(&mut bytes, 0)?;
        Self::parse(&bytes).map(Some)
    }

    /// Parses the fields, and checks each separately and against the others.
    fn parse(bytes: &[u8]) -> Result<Self> {
        let mut fields = Reader::new(bytes, 0);
        fields.take(4, "magic")?;
        let inodes = fields.u32("number of inodes")?;
        let created = fields.u32("time of creation")?;
        let block_size = fields.u32("block size")?;
        let fragments = fields.u32("number of fragments")?;
        let compressor = fields.u16("compressor")?;
        let block_log = fields.u16("block log")?;
        let flags = fields.u16("flags")?;
        let ids = fields.u16("number of ids")?;
        let version = (fields.u16("major version")?, fields.u16("minor version")?);
        if version != (4, 0) {
            return Err(unsupported(&format!("squashfs {}.{}", version.0, version.1), 28));
        }
        if !(12..=20).contains(&block_log) || block_size != 1 << block_log {
            let found = format!("{block_size} bytes, and {block_log} as its logarithm");
            return Err(Error::field("block size", 12, found));
        }
        if inodes == 0 || ids == 0 {
            let found = format!("{inodes} inodes and {ids} ids; there is one of each at least");
            return Err(Error::field("number of inodes", 4, found));
        }
        let superblock = Self {
            inodes,
            created,
            block_size,
            fragments,
            compressor: Compressor::new(compressor)?,
            flags,
            ids,
            root: fields.u64("root inode")?,
            bytes: fields.u64("bytes used")?,
            id_table: fields.u64("id table")?,
            xattr_table: fields.u64("xattr table")?,
            inode_table: fields.u64("inode table")?,
            directory_table: fields.u64("directory table")?,
            fragment_table: fields.u64("fragment table")?,
            export_table: fields.u64("export table")?,
        };
        superblock.check_order()?;
        Ok(superblock)
    }

    /// The tables lie inside the image, and in their order.
    fn check_order(&self) -> Result<()> {
        let fragments = if self.fragments == 0 { NO_TABLE } else { self.fragment_table };
        let mut least = SUPERBLOCK_LEN;
        for (field, at, place, optional) in [
            ("inode table", 64, self.inode_table, false),
            ("directory table", 72, self.directory_table, false),
            ("fragment table", 80, fragments, self.fragments == 0),
            ("export table", 88, self.export_table, true),
            ("id table", 48, self.id_table, false),
            ("xattr table", 56, self.xattr_table, true),
        ] {
            if optional && place == NO_TABLE {
                continue;
            }
            if place < least || place >= self.bytes {
                let found = format!("begins at {place}, not in {least}..{}", self.bytes);
                return Err(Error::field(field, at, found));
            }
            least = place + 1;
        }
        Ok(())
    }

    /// The bytes that blocks of data and fragments may lie in.
    pub(super) const fn data(&self) -> Range<u64> {
        SUPERBLOCK_LEN..self.bytes
    }

    /// The names of the flags that are set.
    pub(super) fn flag_names(&self) -> Vec<&'static str> {
        FLAGS.iter().filter(|(bit, _)| self.flags & bit != 0).map(|(_, name)| *name).collect()
    }

    /// The flags that have no meaning.
    pub(super) fn flags_unknown(&self) -> u16 {
        FLAGS.iter().fold(self.flags, |flags, (bit, _)| flags & !bit)
    }

    /// Whether the compressor's options follow.
    pub(super) const fn has_options(&self) -> bool {
        self.flags & FLAG_OPTIONS != 0
    }

    /// The options of the compressor, in words; empty if the image does not have them.
    pub(super) fn options(&self, source: &dyn Source) -> Result<String> {
        if !self.has_options() {
            return Ok(String::new());
        }
        let mut header = [0; 2];
        self.fill(source, &mut header, OPTIONS)?;
        let header = u16::from_le_bytes(header);
        let len = usize::from(header & !METADATA_STORED);
        if header & METADATA_STORED == 0 || len > OPTIONS_MAX {
            let found = format!("a block header of {header:#06x}");
            return Err(Error::field("compressor options", OPTIONS, found));
        }
        let mut bytes = [0; OPTIONS_MAX];
        self.fill(source, &mut bytes[..len], OPTIONS + METADATA_HEADER)?;
        self.parse_options(Reader::new(&bytes[..len], OPTIONS + METADATA_HEADER))
    }

    fn fill(&self, source: &dyn Source, bytes: &mut [u8], at: u64) -> Result<()> {
        if at + bytes.len() as u64 > self.bytes {
            return Err(Error::field("compressor options", at, "beyond the end of the image"));
        }
        source.fill(bytes, at)
    }

    /// Only what a reader depends on can make it fail.
    fn parse_options(&self, mut fields: Reader<'_>) -> Result<String> {
        let at = fields.offset();
        Ok(match self.compressor {
            Compressor::Gzip => {
                let level = fields.u32("gzip level")?;
                let window = fields.u16("gzip window")?;
                let strategies = fields.u16("gzip strategies")?;
                format!("level {level}, window {window}, strategies {strategies:#x}")
            }
            Compressor::Lzo => {
                let algorithm = fields.u32("lzo algorithm")?;
                format!("algorithm {algorithm}, level {}", fields.u32("lzo level")?)
            }
            Compressor::Xz => {
                let dictionary = fields.u32("xz dictionary")?;
                if dictionary > DICTIONARY_MAX {
                    return Err(unsupported(
                        &format!("an xz dictionary of {dictionary} bytes"),
                        at,
                    ));
                }
                format!("dictionary {dictionary}, filters {:#x}", fields.u32("xz filters")?)
            }
            Compressor::Lz4 => {
                let version = fields.u32("lz4 format")?;
                if version != LZ4_BLOCKS {
                    return Err(unsupported(&format!("lz4 format {version}"), at));
                }
                format!("format {version}, flags {:#x}", fields.u32("lz4 flags")?)
            }
            Compressor::Zstd => format!("level {}", fields.u32("zstd level")?),
        })
    }
}

fn unsupported(what: &str, offset: u64) -> Error {
    Error::Unsupported { what: what.into(), offset }
}

/// The largest dictionary of xz: that of the largest block.
const DICTIONARY_MAX: u32 = 1 << 20;
/// The only known format of lz4: blocks without a frame.
const LZ4_BLOCKS: u32 = 1;
