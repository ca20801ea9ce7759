//! Which bytes of the image belong to what. What lies in the metabox is the metabox's content.

use super::core::Core;
use super::inode::{Inode, Layout};
use super::metadata::MetadataReader;
use super::place::Place;
use super::{Erofs, compressed, superblock, xattr};
use crate::error::Result;
use crate::image::UsedBytes;
use crate::node::Kind;

/// The superblock, what stands behind it, and inodes without a name.
pub(super) fn fixed(image: &Erofs) -> Result<Vec<UsedBytes>> {
    let core = &image.core;
    let bytes = superblock::PLACE..core.superblock().end;
    let mut used = vec![UsedBytes { bytes, what: "the superblock" }];
    if let Some(bytes) = xattr::plain_prefixes(core)? {
        used.push(UsedBytes { bytes, what: "the prefixes of attributes" });
    }
    for nid in [core.superblock().packed, core.superblock().metabox].into_iter().flatten() {
        let inode = core.inode(nid)?;
        used.extend(by(core, &inode)?);
        content(core, &inode, &mut used)?;
    }
    Ok(used)
}

/// What an inode takes.
pub(super) fn by(core: &Core, inode: &Inode) -> Result<Vec<UsedBytes>> {
    let mut used = Vec::new();
    let mut add = |place: Place, len: u64, what| {
        if !place.metabox {
            used.push(UsedBytes { bytes: place.at..place.at.saturating_add(len), what });
        }
    };
    add(inode.place, inode.len + inode.xattrs, "the inode");
    for (place, len) in xattr::shared(core, inode)? {
        add(place, len, "a shared attribute");
    }
    let size = inode.node.size;
    match inode.layout {
        _ if size == 0 => {}
        Layout::Plain(_) | Layout::Inline(_) => {}
        Layout::Chunks(chunks) => {
            let unit = if chunks.indexes { 8 } else { 4 };
            let count = size.div_ceil(1 << chunks.bits);
            add(inode.body().align(unit), count.saturating_mul(unit), "the chunk addresses");
        }
        Layout::Compressed { full } => {
            let (place, len) = compressed::used(core, inode, full)?;
            add(place, len, "the map of blocks");
        }
    }
    match inode.node.kind {
        Kind::Directory | Kind::Symlink => content(core, inode, &mut used)?,
        Kind::File | Kind::BlockDevice | Kind::CharDevice | Kind::Fifo | Kind::Socket => {}
    }
    Ok(used)
}

/// The blocks of an inode's content.
fn content(core: &Core, inode: &Inode, used: &mut Vec<UsedBytes>) -> Result<()> {
    let mut at = 0;
    while at < inode.node.size {
        let block = core.locate(inode, at)?;
        used.extend(UsedBytes::of_block(&block));
        at = block.plain.end;
    }
    Ok(())
}
