//! When a request of an emulated disk is done.
//!
//! ```text
//!   arrives            the arm is free               moved          told
//!      |---- waits ---------|---- seek ----|-- bytes --|-- latency --|
//!                           |<- one request at a time ->|<- overlaps ->|
//! ```
//!
//! Requests are served in order of arrival. A request needs a seek if it does not begin where the
//! previous one ended. With only a latency the device is a link to another machine: requests share
//! its bandwidth and wait concurrently for the reply.

use std::time::Duration;

/// Parameters of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    /// Bytes in a second, at least 1.
    pub(crate) rate: u64,
    /// The least time that the disk is busy with a request.
    pub(crate) least: Duration,
    /// The time before a request that is not contiguous with the one before.
    pub(crate) seek: Duration,
    /// The time between the last byte and the answer, in which the disk is free for others.
    pub(crate) latency: Duration,
}

/// Where a disk stands.
#[derive(Debug, Default)]
pub(super) struct Arm {
    /// When it has done all that it was given, in nanoseconds.
    free: u64,
    /// The byte behind the last request.
    next: u64,
}

impl Arm {
    /// Takes in a request at a moment; returns when it is done. Moments do not go back.
    pub(super) fn serve(&mut self, model: &Model, now: u64, offset: u64, bytes: u64) -> u64 {
        let moved = bytes.saturating_mul(SECOND) / model.rate.max(1);
        let seek = if offset == self.next { 0 } else { nanos(model.seek) };
        let begin = self.free.max(now.saturating_sub(SLACK));
        self.free = begin + seek + moved.max(nanos(model.least));
        self.next = offset + bytes;
        (self.free + nanos(model.latency)).max(now)
    }

    /// When all of it is done.
    pub(super) fn free(&self) -> u64 {
        self.free
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

const SECOND: u64 = 1_000_000_000;

/// A request that comes so shortly after the last was done found the disk busy: the time is that
/// of the way from the kernel to this program and back, which a disk does not have.
const SLACK: u64 = 200_000;

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: Model = Model {
        rate: 1_000_000,
        least: Duration::ZERO,
        seek: Duration::from_millis(4),
        latency: Duration::ZERO,
    };

    const MS: u64 = 1_000_000;

    #[test]
    fn only_a_request_that_is_not_behind_the_last_one_seeks() {
        let mut arm = Arm::default();
        assert_eq!(arm.serve(&DISK, 1_000 * MS, 8_000, 1_000), 1_005 * MS - SLACK);
        assert_eq!(arm.serve(&DISK, 1_001 * MS, 9_000, 1_000), 1_006 * MS - SLACK);
        assert_eq!(arm.serve(&DISK, 1_001 * MS, 9_000, 1_000), 1_011 * MS - SLACK);
    }

    #[test]
    fn a_latency_does_not_occupy_the_disk() {
        let link = Model { seek: Duration::ZERO, latency: Duration::from_millis(2), ..DISK };
        let mut arm = Arm::default();
        assert_eq!(arm.serve(&link, 10 * MS, 0, 1_000), 13 * MS - SLACK);
        assert_eq!(arm.serve(&link, 10 * MS, 5_000, 1_000), 14 * MS - SLACK);
        assert_eq!(arm.free(), 12 * MS - SLACK);
    }

    #[test]
    fn small_requests_are_bounded_by_their_number() {
        let many = Model { least: Duration::from_millis(1), seek: Duration::ZERO, ..DISK };
        let mut arm = Arm::default();
        let done = (0..100).map(|number| arm.serve(&many, 10 * MS, number * 7, 1)).max();
        assert_eq!(done, Some(110 * MS - SLACK));
    }

    #[test]
    fn an_idle_disk_saves_up_no_time() {
        let model = Model { seek: Duration::ZERO, ..DISK };
        let mut arm = Arm::default();
        arm.serve(&model, 0, 0, 1_000);
        assert_eq!(arm.serve(&model, 900 * MS, 1_000, 2_000), 902 * MS - SLACK);
        // No work is done before it is requested.
        assert_eq!(arm.serve(&model, 950 * MS, 3_000, 1), 950 * MS);
    }
}
