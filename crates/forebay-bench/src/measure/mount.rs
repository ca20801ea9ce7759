//! Workloads of programs in a mounted tree: parts of a measurement, each in a separate process.
//!
//! ```text
//!   bench --+-- server (or the kernel) ---- mounted tree
//!           |                                   |
//!           +-- a process for each part --------+   faults, preads, whole files, a program's start
//!           |        |
//!           |        +-- one line: when, how much, how long each took
//!           +-- processor time and memory of the server
//! ```
//!
//! A server that hangs blocks its readers, beyond the reach of signals. So [`perform`]
//! runs in a child that can be given up, and answers with a line of text, [`Measured`]. The child's
//! maps and faults are its own too.

pub(crate) use part::{Measured, Part, Work, perform};
pub(crate) use process::{Spent, cpu_of, forget, own_namespace, rss_of};
pub(crate) use rows::{Figures, Round, percentile, ratio};

mod part;
mod process;
mod rows;
