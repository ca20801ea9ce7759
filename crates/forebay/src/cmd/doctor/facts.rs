//! Facts about the machine, from its files and from tests of kernel features.
//!
//! A recorded machine has only its files; kernel features are not tested.

use std::io;

use forebay_core::time::Instant;
use forebay_host::access::has_uring;
use forebay_host::attach::{FuseSupport, fuse_support};
use forebay_live::daemon::sees_writeback;
use forebay_live::machine::Machine;
use forebay_live::rights::{Rights, compares_descriptions, copies_descriptors};
use forebay_live::signal::{Sample, Sampler};
use forebay_live::trace::{TraceError, absent_events};
use forebay_live::tree::Tree;
use rustix::io::Errno;

use crate::cmd::tune::knob_access;

/// Facts about a machine.
pub(super) struct Facts {
    pub(super) machine: Machine,
    /// None on a recorded machine.
    pub(super) rights: Option<Rights>,
    /// One sample of the counters, or why there is none.
    pub(super) sample: Result<Sample, String>,
    /// `kernel.io_uring_disabled`; 0 where there is no such setting.
    pub(super) uring_disabled: u64,
    /// None on a recorded machine.
    pub(super) asked: Option<Asked>,
}

/// What the kernel answers.
pub(super) struct Asked {
    /// Tracepoints that are missing.
    pub(super) events: Result<Vec<&'static str>, TraceError>,
    /// Whether writeback of single devices can be had by root.
    pub(super) writeback: io::Result<()>,
    /// Whether the knobs of a device may be written; none without a device.
    pub(super) knobs: Option<Result<(), Errno>>,
    /// Whether descriptors of processes can be copied.
    pub(super) copies: io::Result<()>,
    /// Whether descriptors of one open file description can be recognized.
    pub(super) descriptions: io::Result<()>,
    /// What there is for mounts by us.
    pub(super) mounts: FuseSupport,
    /// Whether io_uring can be used.
    pub(super) uring: io::Result<()>,
}

impl Facts {
    /// Looks at all of it.
    pub(super) fn gather(tree: &Tree) -> Self {
        let machine = Machine::read(tree);
        let uring = tree.text("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
        let is_machine = tree.is_machine();
        Self {
            rights: is_machine.then(|| Rights::read(tree)).flatten(),
            sample: sample(tree),
            uring_disabled: uring.trim().parse().unwrap_or(0),
            asked: is_machine.then(|| Asked::gather(tree, &machine)),
            machine,
        }
    }

    /// The kernel and the user.
    pub(super) fn heading(&self) -> String {
        let kernel = match self.machine.kernel.as_str() {
            "" => "unknown",
            kernel => kernel,
        };
        match self.rights {
            Some(rights) if rights.is_root() => format!("Linux {kernel}, as root"),
            Some(rights) => format!("Linux {kernel}, as user {}", rights.user),
            None => format!("Linux {kernel}, recorded"),
        }
    }
}

impl Asked {
    fn gather(tree: &Tree, machine: &Machine) -> Self {
        let device = machine.devices.iter().find(|device| device.bdi.is_some());
        Self {
            events: absent_events(),
            writeback: sees_writeback(),
            knobs: device.map(|device| knob_access(tree, device.number)),
            copies: copies_descriptors(),
            descriptions: compares_descriptions(),
            mounts: fuse_support(),
            uring: has_uring(),
        }
    }
}

fn sample(tree: &Tree) -> Result<Sample, String> {
    let mut sample = Sample::default();
    let mut sampler = Sampler::new(tree).map_err(|error| error.to_string())?;
    sampler.take(Instant::ZERO, &mut sample).map_err(|error| error.to_string())?;
    Ok(sample)
}
