//! The I/O path as pure bookkeeping.
//!
//! The core moves page numbers and frame numbers. It never touches a byte, a clock, a thread or a
//! device: what would cost time leaves it as an output, and a [world](drive::World) carries the
//! output out for real, or prices it in virtual time.
//!
//! ```text
//!            Input: Call, Resume, Done, Decoded, Idle, Timeout
//!   world ------------------------------------> engine
//!         <------------------------------------
//!            Output: Submit, Copy, Gather, Decode, Wake, Pause, Reply
//! ```
//!
//! # The driving contract
//!
//! * All outputs are [polled](engine::Engine::poll_output) before the next input, and carried out
//!   in their order: a copy out of a frame comes before the request that fills it anew.
//! * Time does not go back. A late or early timeout is harmless.
//! * Each `Submit` gets one `Done`, each `Decode` one `Decoded`, each `Wake` and each `Pause` one
//!   `Resume`, each `Call` one `Reply`.
//! * A call's id names no other call in flight.
//! * A page with a sleeper stays until the sleeper has resumed.
//!
//! The engine asserts its side and as much of the world's as it sees.
//!
//! # A policy by name
//!
//! Mechanisms that differ between kernels and papers are policies, and each slot has a table of
//! them: [readahead], [flush], [control], [throttle], [elevator], [dispatch], [packed]. A policy is
//! built from the name that a user types, and can be called without an engine: [readahead] and
//! [control] begin with an example of that.
//!
//! ```
//! use forebay_core::readahead::{POLICIES, Spec};
//!
//! for policy in POLICIES {
//!     println!("{:22} {}", policy.name, policy.summary);
//! }
//! let spec = Spec::parse("linux-6.18:max=64").unwrap();
//! assert_eq!(spec.policy().name, "linux-6.18");
//!
//! let error = Spec::parse("linux-6.18:maximum=64").unwrap_err();
//! assert!(error.to_string().contains("has no parameter 'maximum'"));
//! ```
//!
//! # A world of one's own
//!
//! A world in which a device takes no time, and one read through it:
//!
//! ```
//! use std::collections::VecDeque;
//!
//! use forebay_core::block::QueueConfig;
//! use forebay_core::drive::{World, drive};
//! use forebay_core::engine::{Config, Engine};
//! use forebay_core::io::{Input, Op, Output};
//! use forebay_core::readahead::Spec;
//! use forebay_core::time::Instant;
//! use forebay_core::units::CallId;
//!
//! struct AtOnce {
//!     inputs: VecDeque<Input>,
//!     received: u64,
//! }
//!
//! impl World for AtOnce {
//!     fn now(&mut self) -> Instant {
//!         Instant::ZERO
//!     }
//!
//!     fn carry_out(&mut self, _engine: &Engine, output: Output) {
//!         match output {
//!             Output::Submit(request) => {
//!                 self.inputs.push_back(Input::Done(request.id, Ok(()), None));
//!             }
//!             Output::Copy(copy) => self.received += copy.len,
//!             Output::Wake(call) | Output::Pause(call, _) => {
//!                 self.inputs.push_back(Input::Resume(call));
//!             }
//!             Output::Gather(_) | Output::Decode(_) => unreachable!("no file is packed"),
//!             Output::Reply(_, result) => assert_eq!(result, Ok(self.received)),
//!         }
//!     }
//!
//!     fn next(&mut self, _deadline: Option<Instant>) -> Option<Input> {
//!         self.inputs.pop_front()
//!     }
//! }
//!
//! let mut engine = Engine::new(Config { frames: 1024, calls_max: 1 });
//! let device = engine.add_device(QueueConfig { plug: None, ..QueueConfig::default() });
//! let file = engine.add_file(device, 1 << 20, 0);
//! let policy = Spec::parse("linux-6.18").unwrap();
//! let handle = engine.open(file, policy.build());
//!
//! let read = Input::Call(CallId(0), Op::Read { handle, offset: 0, len: 4096 });
//! let mut world = AtOnce { inputs: VecDeque::from([read]), received: 0 };
//! drive(&mut engine, &mut world);
//! assert_eq!(world.received, 4096);
//! assert_eq!(engine.resident_pages(file), 4, "the first window has four pages");
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod block;
pub mod bugs;
mod cache;
pub mod control;
pub mod dispatch;
pub mod drive;
pub mod elevator;
pub mod engine;
pub mod flush;
mod frame;
pub mod io;
pub mod packed;
mod page_set;
pub mod policy;
pub mod readahead;
pub mod reclaim;
pub mod serving;
pub mod stats;
#[cfg(test)]
mod testing;
pub mod throttle;
pub mod time;
pub mod units;
pub mod workload;
pub mod writeback;
