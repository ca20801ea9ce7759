//! Traces of I/O, read as one stream of records whatever their format.
//!
//! A [`Reader`] takes any [`Read`](std::io::Read), decompresses gzip and zstd, recognizes the
//! format by the first bytes, and gives a [`Record`] for each request, in constant memory. A
//! [`Writer`] writes six of the formats. [`Statistics`] says what a trace is like.
//!
//! ```text
//!   bytes --(gzip, zstd)--> format ---line or record---> parser --> Record --> Sorted
//!                             |                            |
//!                             detect                       Fault: place, field, what is there
//!
//!   several Readers --> Merged: one order of times, one set of names
//! ```
//!
//! ```
//! use forebay_trace::{Op, Options, Reader};
//!
//! let trace = "128166372003061629,src1,2,Read,8050688,4096,1331\n";
//! let mut reader = Reader::new(trace.as_bytes(), &Options::default())?;
//! let record = reader.next()?.expect("there is one request");
//! assert_eq!((record.op, record.offset, record.len), (Op::Read, 8_050_688, 4_096));
//! assert_eq!(reader.names().name(record.object), "src1_2");
//! assert!(reader.next()?.is_none());
//! # Ok::<(), forebay_trace::TraceError>(())
//! ```
//!
//! Parsers are total: any bytes give records or a [`Fault`], never a panic.
#![forbid(unsafe_code)]

mod compressed;
mod detect;
mod error;
mod format;
mod formats;
mod merge;
mod reader;
mod record;
mod reuse;
mod sort;
mod statistics;
mod text;
mod write;

pub use error::{Fault, Place, TraceError};
pub use format::Format;
pub use merge::{MergeError, Merged};
pub use reader::{Options, ReadReport, Reader};
pub use record::{Flags, Layer, Names, OBJECTS_MAX, Op, Record};
pub use reuse::{ReuseDistances, ReuseHistogram};
pub use sort::{SORT_WINDOW, Sorted};
pub use statistics::{Buckets, Statistics, VolumeStatistics};
pub use write::{WriteError, WriteFormat, Writer};
