//! Why traces cannot be replayed. Fronts add how to avoid it in their own words.

use forebay_sim::scenario::PAST_CLOCK;
use forebay_trace::{Format, TraceError};
use thiserror::Error;

/// Why traces cannot be replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// A trace cannot be read.
    #[error("{name}: {error}")]
    Trace {
        /// The trace.
        name: String,
        /// Why.
        error: TraceError,
    },
    /// Clocks of two formats have no common zero.
    #[error(
        "{name} is a trace of format {}, and {first_name} is one of {}",
        found.name(),
        first.name()
    )]
    Formats {
        /// The first trace.
        first_name: String,
        /// Its format.
        first: Format,
        /// The other trace.
        name: String,
        /// Its format.
        found: Format,
    },
    /// Objects of a cache are replayed nowhere.
    #[error("{name}: objects of a cache have no addresses to replay")]
    NoAddresses {
        /// The trace.
        name: String,
    },
    /// No request is of the one file or device.
    #[error("{name}: no request is of '{only}'")]
    Absent {
        /// The traces.
        name: String,
        /// The file or device.
        only: String,
        /// Some that there are.
        known: Vec<String>,
    },
    /// Too many files or devices.
    #[error("{name}: more than {most} files or devices")]
    Volumes {
        /// The traces.
        name: String,
        /// The most.
        most: usize,
    },
    /// Too many pairs of a stream and a file or device.
    #[error("{name}: more than {most} open files")]
    OpenFiles {
        /// The traces.
        name: String,
        /// The most.
        most: usize,
    },
    /// Too many processes or threads.
    #[error("{name}: {streams} processes or threads, at most {most}")]
    Streams {
        /// The traces.
        name: String,
        /// How many there are.
        streams: usize,
        /// The most.
        most: usize,
    },
    /// A stream is too far behind the others.
    #[error("{name}: a process is {most} requests behind the others")]
    Behind {
        /// The traces.
        name: String,
        /// The most.
        most: usize,
    },
    /// The pauses are too long for a clock.
    #[error("{name}: {PAST_CLOCK}")]
    PastClock {
        /// The traces.
        name: String,
    },
    /// A volume does not fit on its device.
    #[error("volume '{volume}' reaches to byte {end} of a device of {machine} that has {capacity}")]
    Capacity {
        /// The volume.
        volume: String,
        /// The byte behind its last one, on the device.
        end: u64,
        /// The machine that the device is of.
        machine: String,
        /// The bytes of the device.
        capacity: u64,
    },
    /// Some machine would have no device.
    #[error("{machines} machines for {devices} devices")]
    Machines {
        /// How many machines there are.
        machines: usize,
        /// How many devices there are.
        devices: u32,
    },
    /// The files do not fit on their devices.
    #[error(transparent)]
    Machine(#[from] forebay_sim::machine::MachineError),
}
