//! The names of nodes: an inode's number, and what the directory says that it is.
//!
//! ```text
//!   63 in the metabox   62 stray   58..61 kind   0..58 number
//! ```
//!
//! An entry contains the type of its inode. If the inode has another type, one of them is wrong,
//! and the reader cannot choose: the node is invalid. The type is part of the node id, so that a
//! listing reads no inode, and hard links still have one id.

use crate::node::{Kind, NodeId};

/// The name of an inode of a kind.
pub(super) const fn tagged(nid: u64, kind: Kind) -> NodeId {
    let number = match kind {
        Kind::File => 1,
        Kind::Directory => 2,
        Kind::Symlink => 3,
        Kind::BlockDevice => 4,
        Kind::CharDevice => 5,
        Kind::Fifo => 6,
        Kind::Socket => 7,
    };
    if nid & !NUMBER & !METABOX != 0 { NodeId(STRAY) } else { NodeId(nid | number << 58) }
}

/// The name of a directory that is where it does not belong.
pub(super) const fn stray(nid: u64) -> NodeId {
    NodeId(nid | STRAY)
}

/// Whether a name is that of no inode.
pub(super) const fn is_stray(id: NodeId) -> bool {
    id.0 & STRAY != 0
}

/// The inode of a name.
pub(super) const fn nid(id: NodeId) -> u64 {
    id.0 & (NUMBER | METABOX)
}

const NUMBER: u64 = (1 << 58) - 1;
const STRAY: u64 = 1 << 62;
const METABOX: u64 = 1 << 63;
