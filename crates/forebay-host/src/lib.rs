//! The I/O path on this machine: the engine of the core over real files, threads and time.
//!
//! ```text
//!   run      files, read through an engine with a page memory and a policy of its own
//!   access   files, read and written by the way that costs least; no engine
//!   mount    an image, shown as a folder
//!   serve    disks, to clients that speak NBD
//!   attach   mounting a FUSE file system
//!   mounts   which images are mounted, and unmounting them
//!   probe    what a device and this processor take for reads, copies and switches
//! ```
//!
//! [`access`] reads bytes of files, and begins with an example. [`run`](run::run) reads real files
//! under a policy, and can verify every byte:
//!
//! ```
//! use std::io::Write;
//! use std::sync::Arc;
//!
//! use forebay_core::io::Op;
//! use forebay_core::readahead::Spec;
//! use forebay_core::time::Instant;
//! use forebay_core::units::{FileId, HandleId};
//! use forebay_core::workload::{Step, Workload};
//! use forebay_host::backend::{Backend, FileBackend};
//! use forebay_host::files::FileMap;
//! use forebay_host::run::{Setup, run};
//!
//! /// Reads a file once, from the beginning to the end.
//! struct Once {
//!     handle: HandleId,
//!     position: u64,
//!     bytes: u64,
//! }
//!
//! impl Workload for Once {
//!     fn next(&mut self, _now: Instant) -> Step {
//!         if self.position >= self.bytes {
//!             return Step::Exit;
//!         }
//!         let (handle, offset, len) = (self.handle, self.position, 16 * 1024);
//!         self.position += len;
//!         Step::Call(Op::Read { handle, offset, len })
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut file = tempfile::NamedTempFile::new()?;
//! file.write_all(&[7; 100_000])?;
//!
//! let backend: Arc<dyn Backend> = Arc::new(FileBackend::open(file.path())?);
//! let setup = Setup { verify: true, ..Setup::new(Spec::parse("fixed:max=32")?, 1 << 20) };
//! let mut read = Vec::new();
//! let outcome = run(
//!     &setup,
//!     FileMap::one_each([backend]),
//!     |opener| {
//!         let (handle, bytes) = (opener.open(FileId(0)), opener.bytes(FileId(0)));
//!         vec![Box::new(Once { handle, position: 0, bytes })]
//!     },
//!     |_finished, bytes| read.extend_from_slice(bytes),
//! )?;
//!
//! assert_eq!(read, [7; 100_000]);
//! assert_eq!(outcome.verified_bytes, 100_000);
//! assert_eq!(outcome.stats.pages_read, 25);
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)]

pub mod access;
pub mod attach;
pub mod backend;
mod contents;
mod counters;
pub mod dispatch;
pub mod failure;
pub mod files;
mod frames;
mod image_path;
mod lock;
pub mod mapped;
pub mod mount;
pub mod mounts;
mod pattern;
mod polled_wait;
pub mod probe;
mod processor;
pub mod run;
pub mod serve;
pub mod syscalls;
mod uring;
mod verify;
mod workers;
pub mod world;
