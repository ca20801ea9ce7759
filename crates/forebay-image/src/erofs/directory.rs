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

use std::sync::Arc;

use crate::bytes::Reader;
use crate::error::Result;
use crate::image::{Entry, Kind, NodeId};

use super::core::Core;
use super::inode::Inode;

/// The names in a directory.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    /// In the image's order, without doubles.
    pub(super) entries: Arc<[Entry]>,
    /// Whether that is the order of their bytes.
    sorted: bool,
}

impl Directory {
    /// Reads all of it.
    pub(super) fn read(core: &Core, inode: &Inode) -> Result<Self> {
        let size = inode.node.size;
        if inode.node.kind != Kind::Directory {
            return Err(inode.place.error("inode", "no directory"));
        }
        if size > SIZE_MAX {
            return Err(inode.place.error("directory size", format!("{size} bytes")));
        }
        let mut entries = Vec::new();
        let mut block = Vec::new();
        let mut at = 0;
        while at < size {
            let len = core.superblock.block_size().min(size - at);
            block.resize(usize::try_from(len).expect("64 KiB at most"), 0);
            core.content(inode, at, &mut block)?;
            add(core, inode, &block, at, &mut entries)?;
            at += len;
        }
        let sorted = entries.is_sorted_by(|one: &Entry, two: &Entry| one.name < two.name);
        if !sorted {
            drop_doubles(&mut entries);
        }
        Ok(Self { entries: entries.into(), sorted })
    }

    /// What a name names.
    pub(super) fn find(&self, name: &[u8]) -> Option<NodeId> {
        if self.sorted {
            let found = self.entries.binary_search_by(|entry| entry.name[..].cmp(name));
            return found.ok().map(|at| self.entries[at].node);
        }
        self.entries.iter().find(|entry| entry.name == name).map(|entry| entry.node)
    }
}

/// Adds the entries of a block that begins at a byte of the directory.
fn add(
    core: &Core,
    inode: &Inode,
    block: &[u8],
    begin: u64,
    entries: &mut Vec<Entry>,
) -> Result<()> {
    let bad = |field, at: usize, found: String| {
        let found = format!("{found}, in the entry at byte {} of the directory", begin + at as u64);
        Err(inode.place.error(field, found))
    };
    let offset = |at: usize| {
        let bytes = block.get(at + 8..at + 10).map(|bytes| [bytes[0], bytes[1]]);
        bytes.map(|bytes| usize::from(u16::from_le_bytes(bytes)))
    };
    let first = offset(0).filter(|&first| first >= ENTRY && first <= block.len());
    let Some(names) = first else {
        return bad("name offset", 0, format!("{:?}", offset(0)));
    };
    for at in (0..names / ENTRY).map(|number| number * ENTRY) {
        let mut fields = Reader::new(&block[at..at + ENTRY], inode.place.at);
        let nid = fields.u64("entry")?;
        let start = usize::from(fields.u16("entry")?);
        let kind = kind(fields.u8("entry")?);
        let last = at + 2 * ENTRY > names;
        let end = if last { Some(block.len()) } else { offset(at + ENTRY) };
        let name = end.and_then(|end| block.get(start..end)).filter(|_| start >= names);
        let Some(mut name) = name else {
            return bad("name offset", at, format!("{start}..{end:?}"));
        };
        if last {
            name = name.split(|&byte| byte == 0).next().unwrap_or(name);
        }
        if name == b"." || name == b".." {
            continue;
        }
        if name.is_empty() || name.len() > NAME_MAX || name.iter().any(|b| matches!(b, 0 | b'/')) {
            return bad("name", at, format!("{:?}", String::from_utf8_lossy(name)));
        }
        let kind = match kind {
            Some(kind) => kind,
            None => core.inode(nid)?.node.kind,
        };
        entries.push(Entry { name: name.to_vec(), node: NodeId(nid), kind });
    }
    Ok(())
}

/// Keeps the first entry of each name, and the order.
fn drop_doubles(entries: &mut Vec<Entry>) {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by(|&one, &two| entries[one].name.cmp(&entries[two].name).then(one.cmp(&two)));
    let mut keep = vec![true; entries.len()];
    for pair in order.windows(2) {
        keep[pair[1]] = entries[pair[0]].name != entries[pair[1]].name;
    }
    let mut keep = keep.into_iter();
    entries.retain(|_| keep.next().unwrap_or(true));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_doubles_the_first_is_kept_and_so_is_the_order() {
        let entry = |name: &str, node| {
            let name = name.as_bytes().to_vec();
            Entry { name, node: NodeId(node), kind: Kind::File }
        };
        let mut entries = vec![entry("b", 1), entry("a", 2), entry("b", 3), entry("a", 4)];
        drop_doubles(&mut entries);
        assert_eq!(entries, [entry("b", 1), entry("a", 2)]);
    }
}
