//! A slow device made honestly, and programs that meet it.
//!
//! ```text
//!   bench --+-- programs, each a process ------> ext4 ----> loop device of its own
//!           |       |                                            |
//!           |       +-- one line: what took how long             +-- a file in memory, or
//!           |                                                    +-- [`Served`]: the same file
//!           +-- knobs of this one device                             behind a rate, a seek and
//!                                                                    a latency
//! ```
//!
//! A device that hangs blocks its users, beyond the reach of signals. So [`perform`] runs in a
//! child that can be given up, and answers with a line of text, [`Measured`].

pub(crate) use disk::Model;
pub(crate) use loops::LoopDevice;
pub(crate) use measured::Measured;
pub(crate) use part::{LivePart, Work, perform};
pub(crate) use serve::Served;

mod disk;
mod loops;
mod measured;
mod part;
mod serve;
