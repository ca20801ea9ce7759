//! What the superblock says, for people.

use super::Squashfs;
use crate::error::Result;
use crate::image::{Image, Summary, Time};

/// The padding behind an image that is usual, in bytes.
const PADDING_MAX: u64 = 1 << 20;

/// The summary of an image that is otherwise open.
pub(super) fn of(image: &Squashfs) -> Result<Summary> {
    let superblock = &image.superblock;
    let mut warnings = Vec::new();
    let options = match superblock.options(image.source.as_ref()) {
        Ok(options) if options.is_empty() => "defaults".into(),
        Ok(options) => options,
        Err(error) => return Err(error),
    };
    let unknown = superblock.flags_unknown();
    if unknown != 0 {
        warnings.push(format!("unknown flags {unknown:#06x} are ignored"));
    }
    let behind = image.source.len() - superblock.bytes;
    if behind > PADDING_MAX {
        warnings.push(format!("{behind} bytes follow the image"));
    }
    let exports = match &image.exports {
        Some(table) => format!("{} inodes", table.count()),
        None => "none".into(),
    };
    let xattrs = match &image.xattrs {
        Some(table) => format!("{} rows", table.count()),
        None => "none".into(),
    };
    let created = Time { seconds: superblock.created.into(), nanos: 0 };
    let details = vec![
        ("version", "4.0".into()),
        ("created", format!("{created} UTC")),
        ("flags", superblock.flag_names().join(", ")),
        ("compressor options", options),
        ("fragments", superblock.fragments.to_string()),
        ("ids", superblock.ids.to_string()),
        ("export table", exports),
        ("xattr table", xattrs),
        ("root inode", format!("{:#x}", image.root().0)),
        ("inode table", format!("bytes {:?}", image.inode_table)),
        ("directory table", format!("bytes {:?}", image.directory_table)),
    ];
    Ok(Summary {
        format: "squashfs",
        bytes: superblock.bytes,
        block_size: superblock.block_size,
        raw_max: superblock.block_size.into(),
        nodes: Some(superblock.inodes.into()),
        codecs: vec![superblock.compressor.name()],
        details,
        warnings,
    })
}
