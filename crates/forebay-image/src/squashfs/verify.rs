//! Checks the tables of an image against each other. squashfs has no checksum.

use std::collections::BTreeMap;

use super::inode::Content;
use super::{Squashfs, lookup};
use crate::error::{Error, Result};
use crate::image::Image;
use crate::node::{Kind, NodeId};

/// Walks the tree, and compares it with the directories, the export table and the superblock.
pub(super) fn verify(image: &Squashfs) -> Result<Vec<String>> {
    let tree = walk(image)?;
    let says = u64::from(image.superblock.inodes);
    // Entries that are left out are separate damage.
    if tree.inodes != says && tree.left_out == 0 {
        let found = format!("{says}, but the tree has {}", tree.inodes);
        return Err(Error::field("number of inodes", 4, found));
    }
    let mut checked = vec![
        format!("{} names of {} inodes: types, numbers and links", tree.names, tree.inodes),
        format!("{} blocks: places and lengths", tree.blocks),
        format!("{} extended attributes", tree.xattrs),
    ];
    if let Some(table) = &image.exports {
        check_exports(image)?;
        checked.push(format!("{} entries of the export table", table.count()));
    }
    Ok(checked)
}

#[derive(Default)]
struct Tree {
    names: u64,
    /// Entries that are not shown.
    left_out: usize,
    inodes: u64,
    blocks: u64,
    xattrs: usize,
}

/// Visits each inode once. Each must be new or a hard link, and a directory has one name.
fn walk(image: &Squashfs) -> Result<Tree> {
    let mut tree = Tree::default();
    let root = image.inode(image.root())?;
    // Linux identifies an inode by its number, so the one it reads first represents all of them.
    let mut by_number = BTreeMap::from([(root.node.ino, image.root())]);
    let mut directories = vec![image.root()];
    visit(image, image.root(), &mut tree)?;
    while let Some(id) = directories.pop() {
        let listing = image.listing(id)?;
        tree.left_out += listing.defects.iter().filter(|defect| !defect.is_shown()).count();
        for (place, entry) in listing.entries.iter().enumerate() {
            let named = lookup::named_at(&listing, place);
            let inode = image.named(named)?;
            let is_directory = entry.kind == Kind::Directory;
            tree.names += 1;
            match by_number.insert(inode.node.ino, entry.node) {
                None => {
                    visit(image, entry.node, &mut tree)?;
                    directories.extend(is_directory.then_some(entry.node));
                }
                Some(other) if other != entry.node => {
                    let found = format!("inode {}, as that of {:#x}", inode.node.ino, other.0);
                    return Err(Error::field("inode number", inode.at, found));
                }
                Some(_) if is_directory => {
                    let name = entry.name.escape_ascii();
                    let found = format!("a directory with a second name, {name}");
                    return Err(Error::field("inode", inode.at, found));
                }
                Some(_) => {}
            }
            if tree.inodes > image.superblock.inodes.into() {
                return Err(Error::field("number of inodes", 4, "the tree has more"));
            }
        }
    }
    Ok(tree)
}

fn visit(image: &Squashfs, id: NodeId, tree: &mut Tree) -> Result<()> {
    tree.inodes += 1;
    let inode = image.inode(id)?;
    tree.xattrs += image.xattrs(id)?.len();
    match &inode.content {
        Content::File { .. } => {
            let mut at = 0;
            while at < inode.node.size {
                at = image.locate(id, at)?.plain.end;
                tree.blocks += 1;
            }
        }
        Content::Symlink(_) => drop(image.link(id)?),
        Content::Directory(_) => drop(image.listing(id)?),
        Content::Special => {}
    }
    Ok(())
}

/// Each number leads to the inode that has it.
fn check_exports(image: &Squashfs) -> Result<()> {
    for ino in 1..=u64::from(image.superblock.inodes) {
        let Some(id) = image.node_of_ino(ino)? else { continue };
        let inode = image.inode(id)?;
        if inode.node.ino != ino {
            let found = format!("inode {} for {ino}", inode.node.ino);
            return Err(Error::field("export table", inode.at, found));
        }
    }
    Ok(())
}
