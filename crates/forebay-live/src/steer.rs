//! What should be otherwise, why, and what it will bring.
//!
//! The deciders here are pure: counters, events and the time go in, decisions come out. The
//! daemon's loop carries them out and tells the decider how it went.
//!
//! ```text
//!   events, counters --> files   one window for each open file that faults, streams, or reads
//!                    --> limits  one dirty limit for each device, by a controller of the core
//!                          |
//!                          v
//!                      Decision --> file  (descriptors of others)  --> knob, journal
//!                          ^          |
//!                          +- done ---+
//! ```

use std::fmt;

use crate::number::{DevNumber, FileKey};

pub mod defaults;
pub mod file;
pub mod files;
pub mod groups;
pub mod limits;
pub mod temporary;
pub mod users;
pub mod waiters;
pub mod window;
pub mod writers;

/// One change that shall be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What.
    pub change: Change,
    /// What it will bring, as a sentence's end: `expected: ...`.
    pub expected: String,
    /// Why, with the numbers that say so.
    pub reason: String,
}

/// What can be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The window of a file as one process has it open.
    Window {
        /// The file and the process that has it open.
        user: User,
        /// The backing device that the window is borrowed from.
        device: DevNumber,
        /// As it is, in KiB.
        from: u64,
        /// As it shall be, in KiB.
        to: u64,
    },
    /// The dirty limit of a backing device.
    Limit {
        /// The device.
        device: DevNumber,
        /// Bytes, and the share of the global limit that they are now.
        limit: Limit,
    },
    /// The dirty limit goes back to what it was before the first change.
    Release {
        /// The device.
        device: DevNumber,
    },
}

/// A process and a file that it has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct User {
    /// The file.
    pub file: FileKey,
    /// The process.
    pub process: u32,
}

/// A dirty limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Bytes.
    pub bytes: u64,
    /// Parts per million of the global limit, by which the kernel stores it.
    pub ppm: u64,
}

impl fmt::Display for User {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_pool() {
            return write!(out, "the files of process {} on {}", self.process, self.file.dev);
        }
        write!(out, "{} in process {}", self.file, self.process)
    }
}

/// How a decision was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It is in force.
    Applied,
    /// It could not be done this time.
    Later,
    /// It could not be done, and will not be possible soon either.
    Refused,
    /// The process or the device is gone.
    Gone,
    /// Another program has set the knob, so that it is left alone from here on.
    Foreign,
}
