//! From nodes of the image to the kernel's nodes and back.
//!
//! The kernel names a node by a number, of which 0 is none and 1 the root. The crate that talks to
//! it uses this number for `st_ino` as well, except in replies to GETATTR. So a node gets its inode
//! number of the image. If that is 0 or 1 or another node has it, the node gets a free number from
//! the end, and its attributes expire at once: the kernel asks for them again when `stat` needs
//! them, and the reply has the inode number of the image.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_image::walk::{Limits, Tree};
use forebay_image::{Image, Kind, Node, NodeId, Time};
use fuser::{FileAttr, FileType, INodeNo};

/// The nodes that were shown to the kernel, and their numbers.
#[derive(Debug)]
pub(super) struct Inodes {
    /// The time that every node shows; its own if none.
    time: Option<Time>,
    numbers: RwLock<Numbers>,
}

#[derive(Debug)]
struct Numbers {
    of_nodes: HashMap<NodeId, u64>,
    nodes: HashMap<u64, NodeId>,
    /// The last number that was taken from the end.
    last: u64,
}

impl Inodes {
    pub(super) fn new(root: NodeId, time: Option<Time>) -> Arc<Self> {
        let number = INodeNo::ROOT.0;
        let numbers = Numbers {
            of_nodes: HashMap::from([(root, number)]),
            nodes: HashMap::from([(number, root)]),
            last: u64::MAX,
        };
        Arc::new(Self { time, numbers: RwLock::new(numbers) })
    }

    /// The number of a node, if it was shown to the kernel.
    pub(super) fn number(&self, id: NodeId) -> Option<INodeNo> {
        let numbers = self.numbers.read().unwrap_or_else(PoisonError::into_inner);
        numbers.of_nodes.get(&id).copied().map(INodeNo)
    }

    /// The node of a number. A number that the kernel was not told gives no valid node.
    pub(super) fn node(&self, number: INodeNo) -> NodeId {
        let numbers = self.numbers.read().unwrap_or_else(PoisonError::into_inner);
        numbers.nodes.get(&number.0).copied().unwrap_or(NodeId(u64::MAX))
    }

    /// The number that the kernel gets for a node with an inode number in the image.
    pub(super) fn name(&self, id: NodeId, ino: u64) -> INodeNo {
        self.number(id).unwrap_or_else(|| {
            let mut numbers = self.numbers.write().unwrap_or_else(PoisonError::into_inner);
            INodeNo(numbers.name(id, ino))
        })
    }

    /// The attributes that tell the kernel of a node, and for how long they are valid.
    pub(super) fn introduce(&self, node: &Node) -> (FileAttr, Duration) {
        let ino = self.name(node.id, node.ino);
        let valid = if ino.0 == node.ino { FOREVER } else { Duration::ZERO };
        (FileAttr { ino, ..self.attributes(node) }, valid)
    }

    /// The attributes that `stat` shows.
    pub(super) fn attributes(&self, node: &Node) -> FileAttr {
        let time = moment(self.time.or(node.modified).unwrap_or_default());
        FileAttr {
            ino: INodeNo(node.ino),
            size: node.size,
            blocks: node.blocks,
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
}

impl Numbers {
    fn name(&mut self, id: NodeId, ino: u64) -> u64 {
        // Another thread may have named it meanwhile.
        if let Some(number) = self.of_nodes.get(&id) {
            return *number;
        }
        let mut number = ino;
        while number <= INodeNo::ROOT.0 || self.nodes.contains_key(&number) {
            (number, self.last) = (self.last, self.last - 1);
        }
        self.of_nodes.insert(id, number);
        self.nodes.insert(number, id);
        number
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
pub(super) fn os_name(bytes: &[u8]) -> &OsStr {
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

/// An image does not change.
pub(super) const FOREVER: Duration = Duration::from_secs(1 << 31);

/// Names that a walk looks at.
const WALK_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_its_own_inode_number_unless_that_is_taken() {
        let (root, inodes) = (NodeId(7), Inodes::new(NodeId(7), None));
        assert_eq!(inodes.number(root), Some(INodeNo::ROOT));
        assert_eq!(inodes.number(NodeId(3)), None, "the kernel was not told");
        let cases = [
            (3, 40, 40),
            (3, 40, 40),
            (7, 36, 1),
            (4, 40, u64::MAX),
            (5, 0, u64::MAX - 1),
            (6, 1, u64::MAX - 2),
            (8, u64::MAX - 3, u64::MAX - 3),
            (9, 1, u64::MAX - 4),
        ];
        for (node, ino, number) in cases {
            assert_eq!(inodes.name(NodeId(node), ino), INodeNo(number), "node {node}");
            assert_eq!(inodes.number(NodeId(node)), Some(INodeNo(number)));
            assert_eq!(inodes.node(INodeNo(number)), NodeId(node));
        }
        assert_eq!(inodes.node(INodeNo(99)), NodeId(u64::MAX), "the kernel was not told");
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
