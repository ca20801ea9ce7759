//! Traces of I/O replayed in virtual time: what the command line and the Python package share.
//!
//! ```text
//!   readers --TraceSet--> Survey: layer, volumes, streams --> where volumes lie
//!              |
//!              +--> below: Op::Direct at the block layer, volumes on devices
//!              '--> above: a task for each stream, calls through the page cache
//! ```
//!
//! A trace is read twice: first to learn how long its volumes are, then to replay it.
//!
//! ```
//! use forebay_core::elevator;
//! use forebay_replay::{Survey, TraceSet, below};
//! use forebay_sim::machine::Machine;
//! use forebay_sim::replay::{Pace, Replay};
//! use forebay_trace::{Options, Reader};
//!
//! let text = "128166372003061629,src1,2,Read,8050688,4096,1331\n";
//! let open = || {
//!     let reader = Reader::new(text.as_bytes(), &Options::default()).expect("it is a trace");
//!     TraceSet::new(vec![("a.csv".to_owned(), reader)], None).expect("it is one trace")
//! };
//! let survey = Survey::of(&mut open())?;
//! let machine = Machine::builtin("nvme-2026").expect("it exists");
//! let (spread, devices) = survey.spread(1, None)?;
//! let volumes = survey.place(&[&machine], &spread)?;
//! let elevator = elevator::Spec::parse("none").expect("it exists");
//! let devices = vec![&machine; devices as usize];
//! let pace = Pace::Closed { depth: 1 };
//! let replay =
//!     Replay { devices: &devices, elevator: &elevator, seed: 1, pace, volumes: &volumes };
//! let mut traces = open();
//! let outcome = below::replay(&replay, &mut || traces.next())?;
//! assert_eq!(outcome.all.reads.count, 1);
//! # Ok::<(), forebay_replay::ReplayError>(())
//! ```
#![forbid(unsafe_code)]

pub mod above;
pub mod below;
mod error;
mod survey;
#[cfg(test)]
mod tests;
mod trace_set;

pub use error::ReplayError;
pub use survey::{Survey, VOLUMES_MAX, Volume};
pub use trace_set::TraceSet;
