//! Compressed read-only images: bytes in, a tree and blocks out.
//!
//! An image is opened from a [`Source`] of bytes. Its tree is walked by [`NodeId`]s. The content of
//! a file is a sequence of [`Block`]s, each of which lies in the image as one run of raw bytes:
//! [`Image::locate`] says where, the caller reads the bytes as it likes, [`Image::decode`] makes
//! content of them, up to the byte that is needed. [`read_at`] gives plain bytes.
//!
//! ```text
//!   file      |----------|----------|-------|           Block::plain, in the file
//!                  |          |         \
//!   decoded   |----------|----------|  |--.......-----| a block's content: Block::decoded bytes,
//!                  |          |               |         the file's begin at Block::inside
//!   image     ...|====|=======|.............|=====|...  Block::raw, in the image
//! ```
//!
//! ```
//! use std::sync::Arc;
//!
//! use forebay_image::cramfs::write::{Attributes, Content, Settings, Tree, write};
//! use forebay_image::{Coding, Follow, Options, Source, open, read_at, resolve};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // An image in memory; one on a disk is a `FileSource`.
//! let mut tree = Tree::new(Attributes { permissions: 0o755, ..Attributes::default() });
//! let text = b"water behind the dam\n".repeat(500);
//! let readable = Attributes { permissions: 0o644, ..Attributes::default() };
//! tree.add(tree.root(), b"text", readable, Content::Bytes(text.clone()))?;
//! let source: Arc<dyn Source> = Arc::new(write(&tree, &Settings::default(), &mut |_| {})?.image);
//!
//! // Its tree.
//! let image = open(&source, Options::default())?;
//! assert_eq!(image.summary().format, "cramfs");
//! let node = resolve(image.as_ref(), b"/text", Follow::Last)?.node;
//! assert_eq!(image.node(node)?.size, text.len() as u64);
//!
//! // The block that holds a byte, and its first 100 bytes.
//! let block = image.locate(node, 5000)?;
//! assert_eq!((block.plain.clone(), block.coding), (4096..8192, Coding::Packed));
//! let mut raw = vec![0; (block.raw.end - block.raw.start) as usize];
//! source.fill(&mut raw, block.raw.start)?;
//! let mut content = vec![0; block.decoded as usize];
//! let there = image.decode(&block, &raw, 100, &mut content)?;
//! assert!(there >= 100 && content[..there] == text[4096..][..there]);
//!
//! // Plain bytes.
//! let mut bytes = [0; 5];
//! assert_eq!(read_at(image.as_ref(), node, 21, &mut bytes)?, 5);
//! assert_eq!(&bytes, b"water");
//! # Ok(())
//! # }
//! ```
//!
//! [`scan`] finds images in a larger file, [`extract`] writes a tree to a folder, [`verify`] checks
//! all of it, [`compare`] compares two trees; `forebay_host::mount` shows one as a folder.
//!
//! Every byte of an image is treated as hostile: a value is an error or in range, and no allocation
//! has the size of an unchecked number.
#![forbid(unsafe_code)]

mod bytes;
mod cache;
mod codec;
mod content;
mod error;
mod fault;
mod formats;
mod image;
mod listing;
#[cfg(test)]
mod memory;
mod node;
mod opener;
mod printable;
mod read;
mod resolve;
mod source;
mod work;

pub mod compare;
pub mod cramfs;
pub mod erofs;
pub mod extract;
pub mod layout;
pub mod profile;
pub mod scan;
pub mod squashfs;
pub mod verify;
pub mod walk;

pub use bytes::Reader;
pub use content::{Content, Piece};
pub use error::{Error, Result};
pub use fault::{Cause, Fault};
pub use formats::open;
pub use image::{Block, Coding, Image, Options, Summary, UsedBytes};
pub use listing::{EntryDefect, EntryProblem, EntryTarget};
pub use node::{Entry, Kind, Node, NodeId, Time, Xattr};
pub use printable::shown;
pub use read::read_at;
pub use resolve::{Follow, Resolved, resolve};
pub use source::{FileSource, Source, Window};
