//! What the superblock says, for people.

use super::Squashfs;
use super::layout::Superblock;
use crate::error::Result;
use crate::image::{Image, Summary};
use crate::node::Time;

/// The padding behind an image that is usual, in bytes.
const PADDING_MAX: u64 = 1 << 20;

/// The summary of an image that is otherwise open.
pub(super) fn of(image: &Squashfs) -> Result<Summary> {
    let superblock = &image.superblock;
    let mut summary = of_superblock(superblock);
    let options = match superblock.options(image.source.as_ref())? {
        options if options.is_empty() => "defaults".into(),
        options => options,
    };
    let behind = image.source.len() - superblock.bytes;
    if behind > PADDING_MAX {
        summary.warnings.push(format!("{behind} bytes follow the image"));
    }
    let exports = match &image.exports {
        Some(table) => format!("{} inodes", table.count()),
        None => "none".into(),
    };
    let xattrs = match &image.xattrs {
        Some(table) => format!("{} rows", table.count()),
        None => "none".into(),
    };
    summary.details.extend([
        ("compressor options", options),
        ("export table", exports),
        ("xattr table", xattrs),
        ("root inode", format!("{:#x}", image.root().0)),
        ("inode table", format!("bytes {:?}", image.inode_table)),
        ("directory table", format!("bytes {:?}", image.directory_table)),
    ]);
    Ok(summary)
}

/// What is known without the rest of the image.
pub(super) fn of_superblock(superblock: &Superblock) -> Summary {
    let unknown = superblock.flags_unknown();
    let warning = (unknown != 0).then(|| format!("unknown flags {unknown:#06x} are ignored"));
    let created = Time { seconds: superblock.created.into(), nanos: 0 };
    let details = vec![
        ("version", "4.0".into()),
        ("created", format!("{created} UTC")),
        ("flags", superblock.flag_names().join(", ")),
        ("fragments", superblock.fragments.to_string()),
        ("ids", superblock.ids.to_string()),
    ];
    Summary {
        format: "squashfs",
        bytes: superblock.bytes,
        block_size: superblock.block_size,
        raw_max: superblock.block_size.into(),
        nodes: Some(superblock.inodes.into()),
        codecs: vec![superblock.compressor.name()],
        details,
        warnings: warning.into_iter().collect(),
    }
}
