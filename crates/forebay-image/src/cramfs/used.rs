//! Which bytes of the image belong to what.

use super::layout::{BLOCK_LEN, SUPERBLOCK_LEN};
use super::{Cramfs, range};
use crate::error::Result;
use crate::image::{Coding, Image, UsedBytes};
use crate::node::{Kind, NodeId};

/// The superblock; the root's inode is in it.
pub(super) fn fixed(cramfs: &Cramfs) -> Vec<UsedBytes> {
    let bytes = cramfs.base..cramfs.base + SUPERBLOCK_LEN as u64;
    vec![UsedBytes { bytes, what: "the superblock" }]
}

/// What a node takes. Its inode is one of its directory's entries.
pub(super) fn by(cramfs: &Cramfs, id: NodeId) -> Result<Vec<UsedBytes>> {
    let inode = cramfs.inode(id)?;
    let mut used = Vec::new();
    match cramfs.kind(id, &inode)? {
        Kind::Directory => used.push(UsedBytes { bytes: range(&inode), what: "the entries" }),
        kind @ (Kind::File | Kind::Symlink) => {
            let size = inode.content_len();
            let array = inode.offset();
            let bytes = array..array + 4 * size.div_ceil(BLOCK_LEN);
            used.push(UsedBytes { bytes, what: "the block pointers" });
            if kind == Kind::Symlink && size > 0 {
                let block = cramfs.map.locate(cramfs.source().as_ref(), id, &inode, 0)?;
                if block.coding != Coding::Hole {
                    used.push(UsedBytes { bytes: block.raw, what: "the target" });
                }
            }
        }
        Kind::BlockDevice | Kind::CharDevice | Kind::Fifo | Kind::Socket => {}
    }
    Ok(used)
}
