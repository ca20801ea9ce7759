//! A loop device of our own: made new, and taken out of the kernel at the end.
//!
//! What hangs on the queue, such as limits of control groups or the manual state of writeback
//! throttling, goes with it, and no other user of the number inherits anything.
#![expect(unsafe_code, reason = "loop devices are made and removed by ioctl")]

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Opcode, ioctl};

/// A loop device by its number; nothing is attached to it, and dropping it changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoopDevice(u32);

impl LoopDevice {
    /// The device of a number that was noted earlier.
    pub(crate) fn of(number: u32) -> Self {
        Self(number)
    }

    /// The first number that is not taken, as far from those that others take as can be seen.
    pub(crate) fn unused() -> Self {
        let is_free = |number: &u32| !Self(*number).sysfs().exists();
        Self((FIRST..).find(is_free).unwrap_or(FIRST))
    }

    /// Makes the device.
    ///
    /// # Errors
    /// There is one, or there is no loop driver, or it is for root only.
    pub(crate) fn add(self) -> io::Result<()> {
        self.control::<ADD>()
    }

    /// Takes the device away, once no process has it open; it waits a little for that.
    ///
    /// # Errors
    /// It is still in use.
    pub(crate) fn remove(self) -> io::Result<()> {
        for _ in 0..PATIENCE {
            match self.control::<REMOVE>() {
                Err(error) if error.kind() == ErrorKind::ResourceBusy => thread::sleep(LOOK),
                Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => {
                    return Ok(());
                }
                done => return done,
            }
        }
        self.control::<REMOVE>()
    }

    /// The number.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// Its name, as `loop7`.
    pub(crate) fn name(self) -> String {
        format!("loop{}", self.0)
    }

    /// The device's file.
    pub(crate) fn path(self) -> PathBuf {
        PathBuf::from(format!("/dev/loop{}", self.0))
    }

    /// What the kernel shows of it.
    pub(crate) fn sysfs(self) -> PathBuf {
        PathBuf::from(format!("/sys/block/loop{}", self.0))
    }

    fn control<const WHAT: Opcode>(self) -> io::Result<()> {
        let control = File::options().read(true).write(true).open("/dev/loop-control")?;
        // SAFETY: both operations take the number of a device as an integer, refuse any that does
        // not fit, and touch no memory of ours.
        unsafe { ioctl(&control, IntegerSetter::<WHAT>::new_usize(self.0 as usize))? };
        Ok(())
    }
}

/// `LOOP_CTL_ADD` of `linux/loop.h`.
const ADD: Opcode = 0x4c80;

/// `LOOP_CTL_REMOVE` of `linux/loop.h`.
const REMOVE: Opcode = 0x4c81;

/// The kernel gives the lowest free number to a process that requests any loop device.
const FIRST: u32 = 200;

/// The last user's end takes milliseconds.
const LOOK: Duration = Duration::from_millis(10);

/// How often it is looked for.
const PATIENCE: u32 = 500;
