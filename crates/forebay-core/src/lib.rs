//! The I/O path as pure bookkeeping.
//!
//! The core moves page numbers and frame numbers. It never touches a byte, a clock, a thread or a
//! device: what would cost time leaves it as an output that a world carries out.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod block;
mod cache;
pub mod drive;
pub mod engine;
pub mod io;
pub mod readahead;
pub mod stats;
pub mod time;
pub mod units;
pub mod workload;
