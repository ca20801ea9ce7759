//! Directories: blocks of entries, each with its names behind them.
//!
//! ```text
//!   entry, 12 bytes: 0 inode (64 bits)  8 offset of the name in the block (16 bits)  10 type
//!
//!   | entry | entry | entry | name | name | name | zeros |
//! ```
//!
//! The first name's offset says how many entries there are. A name ends where the next begins, and
//! the last one with the block or with a zero.
//!
//! A directory has one parent, which its `..` names. An entry in another directory that still names
//! it would make the tree endless. Such an entry leads to no node, and nothing else is lost.

use std::cmp::Ordering;

use crate::error::Result;
use crate::listing::{EntryDefect, EntryProblem, EntryTarget, Lookup, Promise, Stored, wrong_name};
use crate::node::{Kind, NodeId};

use super::core::Core;
use super::inode::Inode;
use super::metadata::MetadataReader;
use super::{id, lookup};

type Listing = crate::listing::Listing<()>;

/// The entries of a directory.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) listing: Listing,
    /// If the names are not sorted, a lookup may end at an entry of another name.
    unsorted: Option<Unsorted>,
}

#[derive(Debug)]
struct Unsorted {
    stored: Vec<Stored<()>>,
    /// The place of the first entry of each block.
    blocks: Vec<usize>,
}

impl Directory {
    /// The node that Linux finds under a name, which may be one that no entry has.
    pub(super) fn find(&self, name: &[u8]) -> Option<NodeId> {
        if let Some((entry, ())) = self.listing.find(name) {
            return Some(entry.node);
        }
        let Unsorted { stored, blocks } = self.unsorted.as_ref()?;
        if name.len() > NAME_MAX || wrong_name(name).is_some() {
            return None;
        }
        let entry = &stored[lookup::find(stored, blocks, name)?];
        let leads = entry.target.kind.is_some() && !matches!(&entry.name[..], b"." | b"..");
        leads.then_some(entry.node)
    }

    /// Memory that it takes, in bytes.
    pub(super) fn weight(&self) -> usize {
        let unsorted = self.unsorted.as_ref().map_or(0, |Unsorted { stored, blocks }| {
            let names: usize = stored.iter().map(|entry| entry.name.len()).sum();
            names + size_of_val(&stored[..]) + size_of_val(&blocks[..])
        });
        self.listing.weight + unsorted
    }
}

/// Reads all of a directory and checks it.
pub(super) fn list(core: &Core, inode: &Inode) -> Result<Directory> {
    let size = inode.node.size;
    if inode.node.kind != Kind::Directory {
        return Err(inode.place.error("inode", "no directory"));
    }
    if size > SIZE_MAX {
        return Err(inode.place.error("directory size", format!("{size} bytes")));
    }
    let (mut stored, mut blocks, mut cut) = (Vec::new(), Vec::new(), Vec::new());
    let mut block = Vec::new();
    let mut at = 0;
    while at < size {
        let len = core.superblock().block_size().min(size - at);
        block.resize(usize::try_from(len).expect("64 KiB at most"), 0);
        core.content(inode, at, &mut block)?;
        blocks.push(stored.len());
        add(core, inode, &block, at, (&mut stored, &mut cut))?;
        at += len;
    }
    mark_strays(core, inode, &mut stored);
    let dots = Some(inode.node.ino);
    let promise = Promise { sorted: true, found: true, name_max: NAME_MAX, dots };
    let is_sorted = stored.is_sorted_by(|one, two| one.name < two.name);
    let unsorted =
        (!is_sorted).then(|| Unsorted { stored: stored.clone(), blocks: blocks.clone() });
    let mut listing = Listing::new(stored, promise, |stored, place| {
        lookup::find(stored, &blocks, &stored[place].name).map_or(Lookup::Nothing, Lookup::At)
    });
    listing.add_defects(cut);
    Ok(Directory { listing, unsorted })
}

/// Adds the entries of a block that begins at a byte of the directory, and the defects of those
/// whose name has a zero: Linux reads names as strings of C.
fn add(
    core: &Core,
    inode: &Inode,
    block: &[u8],
    begin: u64,
    (stored, cut): (&mut Vec<Stored<()>>, &mut Vec<EntryDefect>),
) -> Result<()> {
    for raw in Raw::all(block) {
        let raw = raw.map_err(|(at, field, found)| {
            let at = begin + at as u64;
            inode.place.error(field, format!("{found}, in the entry at byte {at} of the directory"))
        })?;
        // An inode that cannot be read reports its error when it is requested.
        let name = raw.name.split(|byte| *byte == 0).next().unwrap_or_default();
        let is_dot = matches!(name, b"." | b"..");
        let kind = match raw.kind {
            None if !is_dot => core.inode(raw.nid).ok().map(|inode| inode.node.kind),
            kind => kind,
        };
        let node = id::tagged(raw.nid, kind.unwrap_or(Kind::Directory));
        let target = EntryTarget { ino: raw.nid, kind };
        if name.len() < raw.name.len() {
            let problem = EntryProblem::Cut(name.to_vec());
            cut.push(EntryDefect { name: raw.name.to_vec(), target, problem });
        }
        stored.push(Stored { name: name.to_vec(), node, target, extra: () });
    }
    Ok(())
}

/// An entry as stored.
struct Raw<'a> {
    nid: u64,
    kind: Option<Kind>,
    name: &'a [u8],
}

/// The byte of the block, the field, and the error.
type Wrong = (usize, &'static str, String);

impl<'a> Raw<'a> {
    /// The entries of a block, up to the first one that is invalid.
    fn all(block: &'a [u8]) -> impl Iterator<Item = Result<Self, Wrong>> {
        let first = offset(block, 0).filter(|&first| first >= ENTRY && first <= block.len());
        let names = first.unwrap_or(0);
        let wrong = (0, "name offset", format!("{:?}", offset(block, 0)));
        let none = first.is_none().then_some(Err(wrong));
        let each = (0..names / ENTRY).map(move |at| Self::read(block, at * ENTRY, names));
        none.into_iter().chain(each)
    }

    /// The entry at a byte of a block whose names begin at another.
    fn read(block: &'a [u8], at: usize, names: usize) -> Result<Self, Wrong> {
        let mut nid = [0; 8];
        nid.copy_from_slice(&block[at..at + 8]);
        let start = offset(block, at).unwrap_or(0);
        let last = at + 2 * ENTRY > names;
        let end = if last { Some(block.len()) } else { offset(block, at + ENTRY) };
        let name = end.and_then(|end| block.get(start..end)).filter(|_| start >= names);
        let Some(mut name) = name else {
            return Err((at, "name offset", format!("{start}..{end:?}")));
        };
        if last {
            name = name.split(|&byte| byte == 0).next().unwrap_or(name);
        }
        Ok(Self { nid: u64::from_le_bytes(nid), kind: kind(block[at + 10]), name })
    }
}

/// Where the name of an entry begins in the block.
fn offset(block: &[u8], at: usize) -> Option<usize> {
    let bytes = block.get(at + 8..at + 10)?;
    Some(usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
}

/// Makes entries of directories that have another parent lead to no node.
fn mark_strays(core: &Core, inode: &Inode, stored: &mut [Stored<()>]) {
    let own = inode.node.ino;
    let mut budget = SEARCHES_MAX;
    let is_below = |entry: &&mut Stored<()>| {
        entry.target.kind == Some(Kind::Directory) && !matches!(&entry.name[..], b"." | b"..")
    };
    for entry in stored.iter_mut().filter(is_below) {
        let nid = id::nid(entry.node);
        // An inode that cannot be read reports its error when it is requested.
        let Ok(child) = core.inode(nid) else { continue };
        if child.node.kind != Kind::Directory {
            continue;
        }
        let above = nid == own || nid == core.superblock().root;
        if above || parent(core, &child, &mut budget).is_ok_and(|parent| parent != Some(own)) {
            entry.node = id::stray(nid);
        }
    }
}

/// What a directory's `..` names; none if it has none.
fn parent(core: &Core, inode: &Inode, budget: &mut u32) -> Result<Option<u64>> {
    let size = core.superblock().block_size();
    let blocks = inode.node.size.div_ceil(size);
    let mut block = Vec::new();
    // Nearly always it is in the first block, since few names come before it.
    let (mut low, mut high, mut at) = (0, blocks.min(SIZE_MAX / size), 0);
    while low < high {
        let len = size.min(inode.node.size - at * size);
        block.resize(usize::try_from(len).expect("64 KiB at most"), 0);
        core.content(inode, at * size, &mut block)?;
        let mut before = None;
        for raw in Raw::all(&block).flatten() {
            match raw.name.cmp(b"..".as_slice()) {
                Ordering::Equal => return Ok(Some(raw.nid)),
                Ordering::Less => before = Some(true),
                Ordering::Greater => before = Some(false),
            }
        }
        if before == Some(true) {
            low = at + 1;
        } else {
            high = at;
        }
        at = low + high.saturating_sub(low) / 2;
        if *budget == 0 {
            return Ok(None);
        }
        *budget -= u32::from(low > 0);
    }
    Ok(None)
}

/// The kind of an entry's type; none if it does not say.
const fn kind(number: u8) -> Option<Kind> {
    Some(match number {
        1 => Kind::File,
        2 => Kind::Directory,
        3 => Kind::CharDevice,
        4 => Kind::BlockDevice,
        5 => Kind::Fifo,
        6 => Kind::Socket,
        7 => Kind::Symlink,
        _ => return None,
    })
}

/// Bytes of an entry without its name.
const ENTRY: usize = 12;
/// Bytes of a name at most.
const NAME_MAX: usize = 255;
/// Bytes of a directory at most: a few million names.
const SIZE_MAX: u64 = 64 << 20;
/// Blocks of other directories that are searched for a `..` that is not in the first one, in one
/// directory at most.
const SEARCHES_MAX: u32 = 16_384;
