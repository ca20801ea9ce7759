//! The first write to a device wakes the daemon.
//!
//! Source:     `writeback_dirty_inode_enqueue` of `include/trace/events/writeback.h`.
//! Behaviour:  an instance of its own with this one event, which fires when a clean inode becomes
//!             dirty: once for each file that is written, not for each write. Its buffers are
//!             readable as soon as they hold an event.
//! Differs:    nothing.
//! Not for:    knowing how much is written: a file whose times alone change is dirty too.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;

use super::tracefs::{Folder, Instance};
use super::{Scope, TraceError};
use crate::number::DevNumber;

/// Becomes readable when files of some devices become dirty.
#[derive(Debug)]
pub struct Wakeup {
    // Closed before the instance is removed.
    buffers: Vec<OwnedFd>,
    devices: Vec<DevNumber>,
    _instance: Instance,
}

impl Wakeup {
    /// For the devices of a scope, which must be some.
    pub fn new(scope: &Scope) -> Result<Self, TraceError> {
        scope.check()?;
        let instance = Instance::new(Folder::top()?)?;
        let folder = instance.folder();
        if !folder.has(EVENT) {
            return Err(TraceError::NoEvents);
        }
        folder.write("buffer_size_kb", BUFFER_KIB)?;
        folder.write("buffer_percent", "0")?;
        let devices = scope.devices.iter().map(|device| format!("dev == {}", device.to_kernel()));
        folder.write(&format!("{EVENT}/filter"), &super::any(devices))?;
        let mut buffers = Vec::new();
        for name in instance.buffers()? {
            let path = format!("per_cpu/{name}/trace_pipe_raw");
            buffers.push(folder.open(&path, OFlags::RDONLY | OFlags::NONBLOCK)?);
        }
        folder.write(&format!("{EVENT}/enable"), "1")?;
        Ok(Self { buffers, devices: scope.devices.clone(), _instance: instance })
    }

    /// What becomes readable.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.buffers.iter().map(AsFd::as_fd)
    }

    /// The file systems of its scope.
    pub fn devices(&self) -> &[DevNumber] {
        &self.devices
    }

    /// Forgets what has happened, so that only what is new wakes us.
    pub fn clear(&mut self) {
        let mut page = [0; PAGE_MAX];
        for buffer in &self.buffers {
            for _ in 0..CLEARED_MAX {
                if !rustix::io::read(buffer, &mut page[..]).is_ok_and(|length| length > 0) {
                    break;
                }
            }
        }
    }
}

const EVENT: &str = "events/writeback/writeback_dirty_inode_enqueue";

/// Of each processor; what is overwritten has woken us already.
const BUFFER_KIB: &str = "8";

/// A page of the ring.
const PAGE_MAX: usize = 65_536;

/// Pages that are taken at once; if more come, we are woken again.
const CLEARED_MAX: usize = 64;
