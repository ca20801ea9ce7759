//! From nodes of the image to the kernel's inodes and back, without a table.
//!
//! The kernel calls the root 1 and a missing entry 0. So a node's inode number is its own number
//! plus one, and the root is exchanged with the node that would get 1. `stat` shows this number.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_image::walk::{Limits, Tree};
use forebay_image::{Image, Kind, Node, NodeId, Time};
use fuser::{FileAttr, FileType, INodeNo};

/// The inode numbers of nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inodes {
    root: NodeId,
    /// The time that every node shows; its own if none.
    time: Option<Time>,
}

impl Inodes {
    pub(super) const fn new(root: NodeId, time: Option<Time>) -> Self {
        Self { root, time }
    }

    /// The inode number of a node.
    pub(super) fn number(&self, id: NodeId) -> INodeNo {
        INodeNo(self.swap(id.0.wrapping_add(1)))
    }

    /// The node of an inode number.
    pub(super) fn node(&self, number: INodeNo) -> NodeId {
        NodeId(self.swap(number.0).wrapping_sub(1))
    }

    /// The attributes that `stat` shows.
    pub(super) fn attributes(&self, node: &Node) -> FileAttr {
        let time = moment(self.time.or(node.modified).unwrap_or_default());
        FileAttr {
            ino: self.number(node.id),
            size: node.size,
            blocks: node.size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: kind(node.kind),
            perm: node.permissions,
            nlink: node.links,
            uid: node.uid,
            gid: node.gid,
            rdev: device(node.device),
            blksize: 4096,
            flags: 0,
        }
    }

    fn swap(&self, number: u64) -> u64 {
        let root = self.root.0.wrapping_add(1);
        match number {
            1 => root,
            number if number == root => 1,
            number => number,
        }
    }
}

/// The kernel's type of a kind of node.
pub(super) const fn kind(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::CharDevice => FileType::CharDevice,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
    }
}

/// The path of a node, found by a walk of the whole tree.
pub(super) fn path_of(image: &dyn Image, id: NodeId) -> Option<Vec<u8>> {
    let tree = Tree::whole(image, Limits { names: WALK_MAX });
    let place = tree.items().iter().position(|item| item.node == id)?;
    Some([b"/", &tree.path(place)[..]].concat())
}

/// A name as the kernel's crate takes it.
pub(super) fn name(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// Major and minor number as the kernel's 32 bits.
const fn device((major, minor): (u32, u32)) -> u32 {
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xfff00) << 12)
}

fn moment(time: Time) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(time.nanos));
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = if time.seconds < 0 {
        UNIX_EPOCH.checked_sub(seconds)
    } else {
        UNIX_EPOCH.checked_add(seconds)
    };
    whole.and_then(|whole| whole.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

/// Names that a walk looks at.
const WALK_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_a_number_of_its_own_and_the_root_is_one() {
        for root in [0, 1, 2, 64, 576, u64::MAX - 1] {
            let inodes = Inodes::new(NodeId(root), None);
            assert_eq!(inodes.number(NodeId(root)), INodeNo::ROOT);
            let mut seen = std::collections::BTreeSet::new();
            for id in (0..1_000).chain([root]) {
                let number = inodes.number(NodeId(id));
                assert_ne!(number.0, 0, "{id} of {root}");
                assert_eq!(inodes.node(number), NodeId(id));
                seen.insert(number.0);
            }
            assert!(seen.len() >= 1_000);
        }
    }

    #[test]
    fn device_numbers_are_those_of_the_kernel() {
        assert_eq!(device((1, 3)), 0x103);
        assert_eq!(device((259, 300)), 0x0011_032c);
    }

    #[test]
    fn times_before_1970_are_times() {
        let time = Time { seconds: -1, nanos: 5 };
        assert_eq!(moment(time), UNIX_EPOCH - Duration::from_secs(1) + Duration::from_nanos(5));
        assert_eq!(
            moment(Time { seconds: i64::MIN, nanos: 0 }).duration_since(UNIX_EPOCH).ok(),
            None
        );
    }
}
