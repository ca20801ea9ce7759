//! Whether an image has extended attributes at all.
//!
//! `ls -l` asks for two attributes of each file, which is most of what it costs on a mount: FUSE
//! keeps no answer. If the answer is ENOSYS, the kernel does not ask again until the image is
//! unmounted, and takes it that no node has any. That must be true of every node. cramfs has none,
//! and squashfs has a table of them. In erofs each inode says it for itself, so the tree is walked
//! once, in the background, when enough nodes were asked for in vain.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

use forebay_image::{Image, Kind, NodeId, Result};

use crate::image_path::PathStats;

/// What is known of the extended attributes of an image.
#[derive(Debug, Default)]
pub(super) struct XattrPresence {
    /// Whether there are any, once that is known.
    any: OnceLock<bool>,
    /// Requests that found none.
    misses: AtomicU64,
}

impl XattrPresence {
    pub(super) fn of(image: &dyn Image) -> Self {
        let presence = Self::default();
        if image.rules_out_xattrs() {
            presence.settle(false);
        }
        presence
    }

    /// Whether it is certain that no node has any.
    pub(super) fn are_ruled_out(&self) -> bool {
        self.any.get() == Some(&false)
    }

    /// Counts a request for attributes, and has the tree walked when it pays, as long as the mount
    /// is `alive`.
    pub(super) fn count_request(
        self: &Arc<Self>,
        was_found: bool,
        image: &Arc<dyn Image>,
        alive: Weak<PathStats>,
    ) {
        if !self.needs_walk(was_found, image.summary().nodes) {
            return;
        }
        let (image, presence) = (Arc::clone(image), Arc::clone(self));
        let walk = move || {
            // A node that cannot be read may have some.
            if let Some(any) = find_any(&*image, || alive.strong_count() > 0) {
                presence.settle(any.unwrap_or(true));
            }
        };
        // Without a thread the kernel goes on asking.
        let _ = thread::Builder::new().name("forebay-xattrs".into()).spawn(walk);
    }

    /// Counts a request. Returns whether the tree has to be walked, which it says once.
    fn needs_walk(&self, was_found: bool, nodes: Option<u64>) -> bool {
        if was_found {
            self.settle(true);
        }
        if self.any.get().is_some() {
            return false;
        }
        let wait = nodes.map_or(u64::MAX, |nodes| (nodes / NODES_PER_MISS).max(MISSES_MIN));
        self.misses.fetch_add(1, Relaxed) + 1 == wait
    }

    /// The first answer stays.
    fn settle(&self, any: bool) {
        let _ = self.any.set(any);
    }
}

/// Whether a node of the tree has extended attributes; none if `goes_on` ended the walk.
fn find_any(image: &dyn Image, goes_on: impl Fn() -> bool) -> Option<Result<bool>> {
    let mut opened = HashSet::from([image.root()]);
    let mut stack = vec![image.root()];
    while let Some(directory) = stack.pop() {
        if !goes_on() {
            return None;
        }
        match look_into(image, directory, &mut opened, &mut stack) {
            Ok(false) => {}
            found => return Some(found),
        }
    }
    Some(Ok(false))
}

/// Whether a directory or a node in it has extended attributes. Adds the directories in it that
/// were not opened yet.
fn look_into(
    image: &dyn Image,
    directory: NodeId,
    opened: &mut HashSet<NodeId>,
    stack: &mut Vec<NodeId>,
) -> Result<bool> {
    if !image.xattrs(directory)?.is_empty() {
        return Ok(true);
    }
    for entry in image.entries(directory)?.iter() {
        if entry.kind == Kind::Directory {
            if opened.insert(entry.node) {
                stack.push(entry.node);
            }
        } else if !image.xattrs(entry.node)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A walk reads a node in a twentieth of the time of a request, on another processor than the
/// caller's. It may cost three times as much as the requests that led to it.
const NODES_PER_MISS: u64 = 64;

/// No walk begins before as many requests.
const MISSES_MIN: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_walked_once_after_a_part_of_its_nodes_was_asked_for() {
        let presence = XattrPresence::default();
        let asked = |presence: &XattrPresence, nodes| {
            (1..=5000u64).filter(|_| presence.needs_walk(false, nodes)).count()
        };
        let walks: Vec<u64> =
            (1..=5000).filter(|_| presence.needs_walk(false, Some(64_000))).collect();
        assert_eq!(walks, [1000]);
        assert_eq!(asked(&presence, Some(64_000)), 0);
        let small = XattrPresence::default();
        let walks: Vec<u64> = (1..=5000).filter(|_| small.needs_walk(false, Some(3))).collect();
        assert_eq!(walks, [256]);
        assert_eq!(asked(&XattrPresence::default(), None), 0);
    }

    #[test]
    fn an_attribute_that_was_found_settles_it() {
        let presence = XattrPresence::default();
        assert!(!presence.needs_walk(true, Some(16)));
        assert!((0..5000).all(|_| !presence.needs_walk(false, Some(16))));
        presence.settle(false);
        assert!(!presence.are_ruled_out());
    }
}
