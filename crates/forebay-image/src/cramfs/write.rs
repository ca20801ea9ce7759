//! Writing an image: the same tree and settings make the same bytes, on any number of threads.
//!
//! Names are sorted; directories and contents follow each other depth-first, but for contents that
//! are to come [first](Settings::first). Contents that are
//! equal are written once. Which contents are equal is seen when they are packed: equal bytes pack
//! equally, and bytes that pack equally are equal.
//!
//! Data that the format cannot store is an error that names the file, unless the writer is
//! [`lossy`](Settings::lossy). Times are never stored.
//!
//! An image is 272 MiB at most, so it is made in memory.

use std::io;
use std::num::NonZero;
use std::path::PathBuf;

use super::layout::{OFFSET_WORDS_MAX, Order, SIGNATURE, SUPERBLOCK_LEN, Superblock, flag};
use crate::codec::Crc32;

mod content;
mod fit;
mod tree;

pub use tree::{Attributes, Content, Extra, Place, Tree};

/// How an image is written.
#[derive(Clone, Debug)]
pub struct Settings {
    /// For machines that have the high byte first.
    pub big_endian: bool,
    /// 512 bytes before the superblock.
    pub boot: Option<Box<[u8; 512]>>,
    /// Bytes behind the superblock that no name leads to, such as a kernel; none if empty.
    pub shifted: Vec<u8>,
    /// Blocks of zeros take no bytes.
    pub holes: bool,
    /// Blocks that packing does not make smaller are stored as they are. Kernels before 4.15 refuse
    /// such an image.
    pub stored: bool,
    /// A number of the image's own, without a meaning to the format.
    pub edition: u32,
    /// The name of the volume, 16 bytes at most.
    pub name: Vec<u8>,
    /// Of libdeflate: 1 is the fastest, 12 the smallest.
    pub level: u8,
    /// Threads that pack.
    pub threads: NonZero<usize>,
    /// Cut or leave out what the format cannot hold, with a warning.
    pub lossy: bool,
    /// Paths from the root of files whose content comes first, in this order. Others follow
    /// depth-first; a path without a file is passed over.
    pub first: Vec<Vec<u8>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            big_endian: false,
            boot: None,
            shifted: Vec::new(),
            holes: false,
            stored: false,
            edition: 0,
            name: b"Compressed".to_vec(),
            level: 9,
            threads: std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN),
            lossy: false,
            first: Vec::new(),
        }
    }
}

/// A finished image.
#[derive(Clone, Debug)]
pub struct Written {
    /// All of its bytes, a multiple of 4096.
    pub image: Vec<u8>,
    /// Inodes, the root among them.
    pub files: u32,
    /// Blocks of content, holes among them; those that are shared once.
    pub blocks: u32,
    /// Contents that were there already.
    pub duplicates: u32,
    /// The losses: a sentence for each kind of loss, with the first path.
    pub warnings: Vec<String>,
}

/// Why an image cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file cannot be read.
    #[error("cannot read '{}': {source}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file has fewer bytes than when the tree was scanned.
    #[error("'{}' became shorter than its {len} bytes while it was packed", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// Its size before, in bytes.
        len: u64,
    },
    /// The format cannot hold it.
    #[error("/{path}: {what}")]
    Limit {
        /// The node, from the image's root.
        path: String,
        /// The field that is too large, and its maximum.
        what: String,
    },
    /// The same as [`Limit`](Self::Limit), if a setting is too large.
    #[error("{setting}: {what}")]
    Setting {
        /// The setting, by its name in [`Settings`].
        setting: &'static str,
        /// The error.
        what: String,
    },
    /// An invalid or a duplicate name.
    #[error("/{path}: {what}")]
    Name {
        /// The directory and the name.
        path: String,
        /// The error.
        what: &'static str,
    },
}

/// Makes an image of a tree. `progress` hears how many bytes of content have been packed, of
/// [`Tree::bytes`].
///
/// # Errors
///
/// If a file cannot be read, or the format cannot hold the tree or the settings.
pub fn write(
    tree: &Tree,
    settings: &Settings,
    progress: &mut dyn FnMut(u64),
) -> Result<Written, WriteError> {
    check(settings)?;
    let order = Order { big_endian: settings.big_endian };
    let mut image = settings.boot.as_ref().map_or_else(Vec::new, |boot| boot.to_vec());
    let base = image.len();
    image.resize(base + SUPERBLOCK_LEN, 0);
    image.extend(&settings.shifted);
    pad(&mut image, 4);

    let directories = image.len();
    let mut plan = fit::plan(tree, settings, directories)?;
    image.resize(plan.end, 0);
    let placed = content::place(tree, &mut plan, settings, &mut image, progress)?;
    image[directories..plan.end].copy_from_slice(&plan.entries(tree, order));
    pad(&mut image, PAGE_LEN);

    let mut superblock = superblock(settings, &plan, placed.blocks, image.len());
    let mut crc = Crc32::default();
    image[base..base + SUPERBLOCK_LEN].copy_from_slice(&superblock.to_bytes(order));
    crc.update(&image[base..]);
    superblock.crc = crc.value();
    image[base..base + SUPERBLOCK_LEN].copy_from_slice(&superblock.to_bytes(order));
    Ok(Written {
        image,
        files: plan.files,
        blocks: placed.blocks,
        duplicates: placed.duplicates,
        warnings: plan.warnings.sentences(),
    })
}

fn check(settings: &Settings) -> Result<(), WriteError> {
    let wrong = |setting, what| Err(WriteError::Setting { setting, what });
    if settings.name.len() > NAME_LEN {
        let len = settings.name.len();
        return wrong("name", format!("{len} bytes, but {NAME_LEN} at most can be"));
    }
    if !(1..=LEVEL_MAX).contains(&settings.level) {
        return wrong("level", format!("{}, but it is from 1 to {LEVEL_MAX}", settings.level));
    }
    if settings.shifted.len() > OFFSET_MAX / 2 {
        let len = settings.shifted.len();
        return wrong("shifted", format!("{len} bytes, but {} at most can be", OFFSET_MAX / 2));
    }
    Ok(())
}

fn superblock(settings: &Settings, plan: &fit::Plan, blocks: u32, len: usize) -> Superblock {
    let mut flags = flag::VERSION_2 | flag::SORTED;
    let optional = [
        (settings.holes, flag::HOLES),
        (!settings.shifted.is_empty(), flag::SHIFTED_ROOT),
        (settings.stored, flag::EXTENDED),
    ];
    for (is_set, bit) in optional {
        flags |= if is_set { bit } else { 0 };
    }
    let mut name = [0; NAME_LEN];
    name[..settings.name.len()].copy_from_slice(&settings.name);
    Superblock {
        // Offsets have a bound, and so has what lies behind the last one.
        size: u32::try_from(len).expect("an image is below 4 GiB"),
        flags,
        signature: *SIGNATURE,
        crc: 0,
        edition: settings.edition,
        blocks,
        files: plan.files,
        name,
        root: plan.root(),
    }
}

/// Appends zeros up to a multiple of `unit`.
fn pad(bytes: &mut Vec<u8>, unit: usize) {
    bytes.resize(bytes.len().next_multiple_of(unit), 0);
}

/// What images are padded to, in bytes.
const PAGE_LEN: usize = 4096;
/// The longest name of a volume, in bytes.
const NAME_LEN: usize = 16;
/// The best level of libdeflate.
const LEVEL_MAX: u8 = 12;
/// The last place where a directory or content may begin, in bytes.
const OFFSET_MAX: usize = (OFFSET_WORDS_MAX as usize) * 4;
