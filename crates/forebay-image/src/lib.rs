//! Compressed read-only images: bytes in, a tree and blocks out.
//!
//! An image is opened from a [`Source`] of bytes. Its tree is walked by [`NodeId`]s. The content of
//! a file is a sequence of [`Block`]s, each of which lies in the image as one run of raw bytes:
//! [`Image::locate`] says where, the caller reads the bytes as it likes, [`Image::decode`] makes
//! content of them, up to the byte that is needed. Whoever wants plain bytes takes [`read_at`].
//!
//! ```text
//!   file      |----------|----------|-------|           Block::plain, in the file
//!                  |          |         \
//!   decoded   |----------|----------|  |--.......-----| a block's content: Block::decoded bytes,
//!                  |          |               |         the file's begin at Block::inside
//!   image     ...|====|=======|.............|=====|...  Block::raw, in the image
//! ```
//!
//! Every byte of an image is taken for an attacker's: a value is an error or in range, and no
//! allocation has the size of a number that was only read.
#![forbid(unsafe_code)]

mod bytes;
mod cache;
mod codec;
mod content;
mod error;
mod fault;
mod image;
#[cfg(test)]
mod memory;
mod opener;
mod read;
mod resolve;
mod source;
mod work;

pub mod compare;
pub mod cramfs;
pub mod erofs;
pub mod extract;
pub mod squashfs;
pub mod verify;
pub mod walk;

pub use bytes::Reader;
pub use content::{Content, Piece};
pub use error::{Error, Result};
pub use fault::{Cause, Fault, shown};
pub use image::{
    Block, Coding, Entry, Image, Kind, Node, NodeId, Options, Summary, Time, Xattr, open,
};
pub use read::read_at;
pub use resolve::{Follow, Resolved, resolve};
pub use source::{FileSource, Source, Window};
