//! An array that stripes over its members, behind one bus.
//!
//! Source:     the linear address arithmetic of Linux 2.2, drivers/block/raid0.c; the array of
//!             Park, Kim and Shin, "An adaptive buffer flush policy for Linux-based storage
//!             servers" (in Korean): four disks on one Ultra-Wide SCSI bus.
//! Behaviour:  an access is cut at the borders of the stripe unit; the pieces of one member are
//!             adjacent there and become one access. All members begin at once and the access is
//!             done when the last one is. The bytes of all members cross one bus.
//! Differs:    the bus is counted, not scheduled: its turn begins with the access, while the
//!             members still seek, and whichever of turn and member ends later decides. Members
//!             of different sizes are left out, and so is what a lost member destroys.
//! Not for:    arbitration between devices of a bus, redundancy.

use std::cmp::Ordering;

use forebay_core::time::{Duration, Instant};
use forebay_core::units::SECTOR_SIZE;

use super::{Command, Completion, Device, DeviceAccess, Outcome, transfer_time};

/// How an array is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raid0Parameters {
    /// Bytes on one member before the next member follows; at least one sector counts.
    pub stripe_unit_bytes: u64,
    /// Bytes a second of the bus that all members share.
    pub bus_bytes_per_s: u64,
}

/// An array at work.
///
/// ```text
///   array     | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |     units of the stripe
///
///   member 0  | 0 | 4 |          an access to the units 1 to 6 is three members' work:
///   member 1  | 1 | 5 |          units 1 and 5 together, 2 and 6 together, 3 alone;
///   member 2  | 2 | 6 |          member 0 gets unit 4
///   member 3  | 3 | 7 |
/// ```
#[derive(Debug)]
pub struct Raid0 {
    members: Vec<Box<dyn Device>>,
    unit_sectors: u64,
    bus_bytes_per_s: u64,
    bus_free: Instant,
}

impl Raid0 {
    /// An idle array of idle `members`.
    ///
    /// # Panics
    /// If there is no member.
    pub fn new(members: Vec<Box<dyn Device>>, parameters: Raid0Parameters) -> Self {
        assert!(!members.is_empty(), "an array has at least one member");
        Self {
            members,
            unit_sectors: (parameters.stripe_unit_bytes / SECTOR_SIZE).max(1),
            bus_bytes_per_s: parameters.bus_bytes_per_s,
            bus_free: Instant::ZERO,
        }
    }

    /// What `member` has of the sectors from `first` to before `end`, as its own sectors.
    fn part(&self, member: u64, first: u64, end: u64) -> (u64, u64) {
        let from = self.before(member, first);
        (from, self.before(member, end) - from)
    }

    /// How many sectors of the array before `sector` lie on `member`.
    fn before(&self, member: u64, sector: u64) -> u64 {
        let unit = self.unit_sectors;
        let members = self.members.len() as u64;
        let (units, rest) = (sector / unit, sector % unit);
        let (row, column) = (units / members, units % members);
        match column.cmp(&member) {
            Ordering::Less => row * unit,
            Ordering::Equal => row * unit + rest,
            Ordering::Greater => (row + 1) * unit,
        }
    }

    /// The member that holds `sector`.
    fn member_of(&self, sector: u64) -> u64 {
        sector / self.unit_sectors % self.members.len() as u64
    }

    /// Serves an access whose bytes lie on some of the members.
    fn transfer(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        let first_member = self.member_of(access.sector);
        let count = self.members.len() as u64;
        let mut whole = None;
        for step in 0..count {
            let member = (first_member + step) % count;
            let (sector, sectors) = self.part(member, access.sector, access.end());
            // An access without sectors is still a command for the member where it begins.
            if sectors == 0 && step > 0 {
                continue;
            }
            let part = DeviceAccess { sector, sectors, command: access.command };
            let mut served = self.members[member as usize].service(now, &part);
            self.bus_free = self.bus_free.max(now) + self.on_bus(&part);
            served.done = served.done.max(self.bus_free);
            whole = Some(together(whole, served));
        }
        whole.expect("an access has a part on the member where it begins")
    }

    fn flush(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        let served = self.members.iter_mut().map(|member| member.service(now, access));
        let whole = served.fold(None, |whole, served| Some(together(whole, served)));
        whole.expect("an array has at least one member")
    }

    fn on_bus(&self, part: &DeviceAccess) -> Duration {
        match part.command {
            Command::Discard => Duration::ZERO,
            Command::Read | Command::Write | Command::DurableWrite | Command::Flush => {
                transfer_time(part.bytes(), self.bus_bytes_per_s)
            }
        }
    }
}

impl Device for Raid0 {
    fn service(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        match access.command {
            Command::Read | Command::Write | Command::DurableWrite | Command::Discard => {
                self.transfer(now, access)
            }
            Command::Flush => self.flush(now, access),
        }
    }

    fn programmed(&self) -> bool {
        self.members.iter().any(|member| member.programmed())
    }
}

/// The first start, the last end, and a failure if there is one.
fn together(whole: Option<Completion>, part: Completion) -> Completion {
    let Some(whole) = whole else { return part };
    let (start, done) = (whole.start.min(part.start), whole.done.max(part.done));
    Completion {
        start,
        done,
        cpu: (whole.cpu + part.cpu).min(done.since(start)),
        outcome: match whole.outcome {
            Outcome::Success => part.outcome,
            Outcome::Failure => Outcome::Failure,
        },
    }
}

#[cfg(test)]
mod tests;
