//! Where a byte of a file was found: in a block of the image, or in another inode's content.

use crate::image::Block;

use super::place::Place;

/// Where the map of an inode leads.
#[derive(Debug)]
pub(super) enum Located {
    /// To a block of the image, or to a hole.
    Block(Block),
    /// To the content of the metabox.
    Metabox(Elsewhere),
    /// To the content of the packed inode.
    Packed(Elsewhere),
}

/// A run of a file in another inode's content, and the place of the map that says so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elsewhere {
    pub(super) run: Run,
    pub(super) place: Place,
}

/// A run of a file that lies in another inode's content, and the requested byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Its first byte, in the file.
    pub(super) start: u64,
    /// Behind its last byte, in the file.
    pub(super) end: u64,
    /// Where its first byte lies in the other's content.
    pub(super) theirs: u64,
    /// The requested byte, in the file.
    pub(super) offset: u64,
}
