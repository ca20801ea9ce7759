//! The running, stock Linux kernel: its I/O path seen, judged, steered, and put back.
//!
//! ```text
//!   /proc, /sys ---> tree ---> machine    what there is: devices, mounts, knobs
//!                        \---> signal     what happens, once a second
//!   tracefs -----------> trace -> pattern what each file is being asked
//!                                   |
//!                  advise <---------+---------> steer   what should be otherwise
//!                  (findings)                     |
//!                                               knob    the one place that writes,
//!                                              journal  and can take it back
//! ```
//!
//! # A look
//!
//! ```
//! use forebay_core::time::{Duration, Instant};
//! use forebay_live::machine::Machine;
//! use forebay_live::signal::{Sample, Sampler};
//! use forebay_live::tree::Tree;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tree = Tree::machine();
//! for device in Machine::read(&tree).devices {
//!     let window = device.bdi.map(|bdi| bdi.read_ahead_kb);
//!     println!("{:12} {:?}, window in KiB: {window:?}", device.name, device.kind);
//! }
//!
//! // Counters only grow: what happens is the difference of two samples.
//! let mut sampler = Sampler::new(&tree)?;
//! let (mut before, mut after) = (Sample::default(), Sample::default());
//! sampler.take(Instant::ZERO, &mut before)?;
//! // A second passes.
//! sampler.take(Instant::ZERO + Duration::from_secs(1), &mut after)?;
//! println!("{} pages became dirty", after.vm.dirtied - before.vm.dirtied);
//! for (new, old) in after.disks.iter().zip(&before.disks) {
//!     println!("{:12} {} reads", new.name, new.reads.requests - old.reads.requests);
//! }
//! for gap in sampler.gaps() {
//!     println!("not seen: {gap}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A [recorded](tree::Tree::recorded) machine is read by the same calls. [`advise`] judges what was
//! read, [`daemon`] steers; [`knob`] has the table of all that can be written.
//!
//! Reading needs no privilege beyond that of the file that is read, and changes nothing. Whatever
//! is written goes through one function that has put the old value on record before. Nothing here
//! needs BPF, kprobes or another daemon.
#![deny(unsafe_code)]

pub mod advise;
pub mod daemon;
pub mod input;
pub mod journal;
mod kcmp;
pub mod knob;
pub mod machine;
pub mod model;
pub mod number;
pub mod pattern;
pub mod policy_file;
pub mod process;
pub mod profile;
pub mod prove;
pub mod rights;
pub mod scope;
pub mod signal;
pub mod steer;
pub mod trace;
pub mod tree;
pub mod undo;
pub mod view;
