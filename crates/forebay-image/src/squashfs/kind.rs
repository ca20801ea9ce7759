//! The types of nodes, as inodes and entries of directories number them.

use crate::node::Kind;

/// The kind of a basic type.
pub(super) const fn kind_of(number: u16) -> Option<Kind> {
    Some(match number {
        1 => Kind::Directory,
        2 => Kind::File,
        3 => Kind::Symlink,
        4 => Kind::BlockDevice,
        5 => Kind::CharDevice,
        6 => Kind::Fifo,
        7 => Kind::Socket,
        _ => return None,
    })
}
