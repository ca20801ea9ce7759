//! What a look sees of an open file and its surroundings.

use super::progress::Progress;
use crate::number::DevNumber;
use crate::pattern::Pattern;
use crate::steer::User;

/// What was seen of an open file since the last look.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The file and the process.
    pub user: User,
    /// The backing device.
    pub device: DevNumber,
    /// Whether the device cuts requests into windows: FUSE and network mounts.
    pub cuts: bool,
    /// What it is asked.
    pub pattern: Pattern,
    /// Windows that went out.
    pub windows: u64,
    /// The window in force in KiB, as events carry it; none without an event.
    pub window: Option<u64>,
    /// Whether that window can be of no other user of the file.
    pub is_its: bool,
    /// Size in bytes, where it is known.
    pub size: Option<u64>,
    /// The process's progress since it began; none if it may not be read.
    pub progress: Option<Progress>,
    /// Bytes that were brought in for its process, of all files.
    pub brought: u64,
    /// Threads of the processes that are steered with it, itself among them.
    pub threads: u64,
}

/// What is known of the surroundings at a look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Around {
    /// Bytes a second that the device reads now.
    pub bandwidth: u64,
    /// Bytes of memory that could be had.
    pub available: u64,
    /// Whether pages come back soon after they were evicted.
    pub thrashes: bool,
}

impl Seen {
    /// Whether all of the file will be in memory in a few seconds, so that large windows are the
    /// fastest way there.
    pub(super) fn will_be_cached(&self, around: &Around) -> bool {
        let Some(size) = self.size else { return false };
        let seconds = size / around.bandwidth.max(1);
        size < around.available && !around.thrashes && seconds < WARM_MAX
    }
}

/// A file that is wholly read in fewer seconds is left to its large window.
const WARM_MAX: u64 = 5;
