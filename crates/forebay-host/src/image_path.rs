//! The I/O path of an image: the bytes of its files, by the engine of the core.
//!
//! ```text
//!   content   where the bytes of a file are: parts of the image
//!   driver    the engine under its lock; reads and decodes as jobs for any thread
//!   file      the image file, through the kernel's page cache or past it
//! ```
//!
//! A front, such as the mount, asks for parts of files and decides which of its threads carries out
//! the jobs. The core decides everything else ([`forebay_core::serving`]).

mod buffers;
mod content;
mod driver;
mod fault;
mod file;
mod open;
mod stats;

pub(crate) use buffers::Buffers;
pub(crate) use content::Content;
pub(crate) use driver::{DoneJob, EndedRequest, PathJob, Round};
pub(crate) use fault::{ImageFault, NotReady, Pace};
pub(crate) use file::{at_pace, is_quick};
pub use open::OpenError;
pub(crate) use open::{OpenOptions, open};
pub(crate) use stats::PathStats;
