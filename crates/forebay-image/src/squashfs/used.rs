//! Which bytes of the image belong to what. All metadata is in tables, whose blocks follow each
//! other.

use std::ops::Range;

use super::Squashfs;
use super::layout::{METADATA_HEADER, METADATA_STORED, SUPERBLOCK_LEN};
use crate::error::Result;
use crate::image::UsedBytes;
use crate::source::Source;

/// The superblock and the tables.
pub(super) fn fixed(image: &Squashfs) -> Result<Vec<UsedBytes>> {
    let source = image.source.as_ref();
    let mut used = vec![UsedBytes { bytes: 0..SUPERBLOCK_LEN, what: "the superblock" }];
    if image.superblock.has_options() {
        let bytes = chain(source, SUPERBLOCK_LEN..image.superblock.bytes, 1)?;
        used.push(UsedBytes { bytes, what: "the compressor's options" });
    }
    for (table, what) in
        [(&image.inode_table, "the inode table"), (&image.directory_table, "the directory table")]
    {
        used.push(UsedBytes { bytes: chain(source, table.clone(), u64::MAX)?, what });
    }
    let xattrs = image.xattrs.as_ref();
    if let Some(xattrs) = xattrs {
        let bytes = chain(source, xattrs.lists(), u64::MAX)?;
        used.push(UsedBytes { bytes, what: "the lists of attributes" });
    }
    let tables = [Some(&image.fragments), image.exports.as_ref(), Some(&image.id_table)];
    let tables = tables.into_iter().chain([xattrs.map(super::xattr::Xattrs::rows)]);
    for table in tables.flatten() {
        for block in table.blocks() {
            used.push(UsedBytes { bytes: chain(source, block, 1)?, what: table.name() });
        }
        used.push(UsedBytes { bytes: table.list(), what: table.name() });
    }
    if let Some(xattrs) = xattrs {
        used.push(UsedBytes { bytes: xattrs.header(), what: "the header of the attributes" });
    }
    Ok(used)
}

/// The bytes of adjacent metadata blocks from the beginning of a range on, at most `blocks` and up
/// to the first invalid one.
fn chain(source: &dyn Source, range: Range<u64>, mut blocks: u64) -> Result<Range<u64>> {
    let mut at = range.start;
    while blocks > 0 && at + METADATA_HEADER < range.end {
        let mut header = [0; METADATA_HEADER as usize];
        source.fill(&mut header, at)?;
        let len = u64::from(u16::from_le_bytes(header) & !METADATA_STORED);
        let end = at + METADATA_HEADER + len;
        if len == 0 || end > range.end {
            break;
        }
        at = end;
        blocks -= 1;
    }
    Ok(range.start..at)
}
