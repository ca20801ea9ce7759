//! A disk: one arm, one spindle, a zoned surface and a small buffer.
//!
//! Source:     Ruemmler and Wilkes, IEEE Computer 27(3), 1994, reduced to the formulas of
//!             docs/devices.md, disk (Seagate Barracuda 7200.7, Hitachi Deskstar 7K500).
//! Behaviour:  a read pays command, seek by distance, a uniform wait for the sector and its bytes
//!             at the rate of the zone. The drive then continues to read until its segment is full
//!             or the arm must move. A read that continues pays the command and the interface, and
//!             waits only for bytes that the surface has not yet delivered. Writes complete once
//!             they are in the cache, and reach the surface in ascending order while no read needs
//!             the arm. A flush writes all of them; a durable write is a write and a flush.
//! Differs:    rotation is drawn, not tracked, and resuming a full segment costs none; jitter is on
//!             command, seek and rotation only, so that streams keep the exact rate; reads do not
//!             look into the write cache; cached writes are neither joined nor cut where they
//!             overlap in part.
//! Not for:    many requests queued inside the drive, bad sectors, shingled recording.

use std::collections::BTreeMap;

use forebay_core::time::{Duration, Instant};
use forebay_core::units::SECTOR_SIZE;

use super::{Command, Completion, Device, DeviceAccess, bytes_in, transfer_time};
use crate::rng::{MILLION, Rng};

/// What a disk is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HddParameters {
    /// The size.
    pub capacity_sectors: u64,
    /// Sustained rate of the outermost zone, where sector zero lies.
    pub rate_outer_bytes_per_s: u64,
    /// The innermost zone's rate as a share of the outermost zone's.
    pub inner_share_ppm: u64,
    /// Rate between buffer and host.
    pub interface_bytes_per_s: u64,
    /// Fixed time of every command.
    pub command_ns: u64,
    /// The shortest seek.
    pub seek_min_ns: u64,
    /// A seek over a third of the disk.
    pub seek_third_ns: u64,
    /// A seek over the whole disk.
    pub seek_full_ns: u64,
    /// One turn of the spindle.
    pub rotation_ns: u64,
    /// What the drive reads on its own account behind a read.
    pub segment_bytes: u64,
    /// What the drive takes of writes before they are on the surface; zero turns the cache off.
    pub write_cache_bytes: u64,
    /// Sigma of the log-normal jitter on command, seek and rotation.
    pub jitter_sigma_ppm: u64,
}

/// A disk at work.
#[derive(Clone, Debug)]
pub struct Hdd {
    parameters: HddParameters,
    /// When the drive can take the next command.
    command_free: Instant,
    /// When the arm can take the next job.
    arm_free: Instant,
    /// The sector behind the last one that passed under the head for a request.
    head: u64,
    /// The drive's own reading since the last read, if nothing has moved the arm.
    prefetch: Option<Prefetch>,
    cache: WriteCache,
    rotation: Rng,
    jitter: Rng,
}

/// What the drive reads on its own account.
///
/// ```text
///            next                          next + segment
///    host has | brought since `since`  ....    |
///    ---------+----------------------->--------+---
/// ```
#[derive(Clone, Copy, Debug)]
struct Prefetch {
    next: u64,
    since: Instant,
}

/// Writes that the host believes done: first sector to length and the moment of arrival.
#[derive(Clone, Debug, Default)]
struct WriteCache {
    writes: BTreeMap<u64, (u64, Instant)>,
    bytes: u64,
}

impl HddParameters {
    /// The time to move the arm over `distance` sectors: none at no distance, then growing with
    /// the square root up to a third of the disk, then in proportion.
    pub fn seek(&self, distance: u64) -> Duration {
        if distance == 0 {
            return Duration::ZERO;
        }
        let capacity = u128::from(self.capacity_sectors.max(1));
        let distance = u128::from(distance).min(capacity);
        let whole = 1_u128 << (2 * ROOT_BITS);
        let (from, to, share) = if 3 * distance < capacity {
            let square = 3 * distance * whole / capacity;
            (self.seek_min_ns, self.seek_third_ns, square.isqrt())
        } else {
            let share = (3 * distance - capacity) * (1 << ROOT_BITS) / (2 * capacity);
            (self.seek_third_ns, self.seek_full_ns, share)
        };
        let rise = (u128::from(to.saturating_sub(from)) * share) >> ROOT_BITS;
        Duration(from.saturating_add(u64::try_from(rise).unwrap_or(u64::MAX)))
    }

    /// The rate of the surface at `sector`, falling in proportion from the outer to the inner rim.
    pub fn rate_at(&self, sector: u64) -> u64 {
        let outer = u128::from(self.rate_outer_bytes_per_s);
        let capacity = u128::from(self.capacity_sectors.max(1));
        let place = u128::from(sector).min(capacity);
        let lost = u128::from(MILLION.saturating_sub(self.inner_share_ppm));
        let rate = outer - outer * lost * place / (capacity * u128::from(MILLION));
        u64::try_from(rate).expect("no zone is faster than the outermost one").max(1)
    }
}

impl Hdd {
    /// An idle disk with its arm at sector zero; `seed` names its rotation and jitter.
    pub fn new(parameters: HddParameters, seed: u64) -> Self {
        let rng = Rng::new(seed);
        Self {
            parameters,
            command_free: Instant::ZERO,
            arm_free: Instant::ZERO,
            head: 0,
            prefetch: None,
            cache: WriteCache::default(),
            rotation: rng.fork("hdd-rotation", 0),
            jitter: rng.fork("hdd-jitter", 0),
        }
    }

    fn read(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        let start = now.max(self.command_free);
        let done = match self.prefetched(start, access.sector) {
            Some(prefetch) => self.read_on(start, access, prefetch),
            None => self.read_anew(start, access),
        };
        self.command_free = done;
        Completion::success(start, done)
    }

    /// The drive's read-ahead, if it has read everything before `sector` by `start`.
    fn prefetched(&self, start: Instant, sector: u64) -> Option<Prefetch> {
        let prefetch = self.prefetch?;
        let skipped = sector.checked_sub(prefetch.next)?;
        let brought = self.brought(start, prefetch) / SECTOR_SIZE;
        (skipped <= brought).then_some(prefetch)
    }

    /// The bytes behind `prefetch.next` that are in the buffer at `at`.
    fn brought(&self, at: Instant, prefetch: Prefetch) -> u64 {
        let rate = self.parameters.rate_at(prefetch.next);
        bytes_in(at.since(prefetch.since), rate).min(self.parameters.segment_bytes)
    }

    fn read_on(&mut self, start: Instant, access: &DeviceAccess, prefetch: Prefetch) -> Instant {
        let rate = self.parameters.rate_at(prefetch.next);
        let needed = (access.end() - prefetch.next).saturating_mul(SECTOR_SIZE);
        let brought = self.brought(start, prefetch);
        let full = brought == self.parameters.segment_bytes;
        // A surface that never paused has been reading since `since`; a full segment made it pause
        // just where the buffer ends.
        let since = if full { before(start, transfer_time(brought, rate)) } else { prefetch.since };
        let on_surface = since + transfer_time(needed, rate);
        let command = self.jittered(Duration(self.parameters.command_ns));
        let to_host = transfer_time(access.bytes(), self.parameters.interface_bytes_per_s);
        let done = (start + command + to_host).max(on_surface);
        self.prefetch = Some(Prefetch { next: access.end(), since: on_surface });
        self.head = access.end();
        self.arm_free = self.arm_free.max(on_surface);
        done
    }

    fn read_anew(&mut self, start: Instant, access: &DeviceAccess) -> Instant {
        let command = Duration(self.parameters.command_ns);
        let positioned = start.max(self.arm_free) + self.position(access.sector, command);
        let rate = self.parameters.rate_at(access.sector);
        let on_surface = positioned + transfer_time(access.bytes(), rate);
        let interface = self.parameters.interface_bytes_per_s;
        let done = on_surface.max(positioned + transfer_time(access.bytes(), interface));
        self.prefetch = Some(Prefetch { next: access.end(), since: on_surface });
        self.head = access.end();
        self.arm_free = on_surface;
        done
    }

    fn write(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        let start = now.max(self.command_free);
        let command = self.jittered(Duration(self.parameters.command_ns));
        let to_drive = transfer_time(access.bytes(), self.parameters.interface_bytes_per_s);
        let arrived = start + command + to_drive;
        self.cache.take(access.sector);
        let limit = self.parameters.write_cache_bytes;
        let done = if access.bytes() > limit {
            arrived.max(self.put_down(start, access.sector, access.sectors))
        } else {
            let mut room = Instant::ZERO;
            while self.cache.bytes + access.bytes() > limit {
                room = self.destage_one();
            }
            let done = arrived.max(room);
            self.cache.put(access, done);
            done
        };
        self.command_free = done;
        Completion::success(start, done)
    }

    /// A write that is done when it is on the surface; what the cache holds of it is worthless.
    fn write_through(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        let written = self.write(now, access);
        let done = self.flush(written.done).done;
        Completion { done, ..written }
    }

    /// Puts all cached writes on the surface.
    fn flush(&mut self, now: Instant) -> Completion {
        let start = now.max(self.command_free);
        while self.cache.bytes > 0 {
            self.destage_one();
        }
        // A write that idle time began has left the cache and may still be under the head.
        let done = start.max(self.arm_free);
        self.command_free = done;
        Completion::success(start, done)
    }

    /// Puts cached writes on the surface in the time before `now` that no read has wanted.
    fn destage_until(&mut self, now: Instant) {
        while self.arm_free < now {
            match self.cache.next(self.head) {
                Some((_, (_, arrived))) if arrived < now => self.destage_one(),
                Some(_) | None => break,
            };
        }
    }

    /// Writes the next cached write to the surface and returns its completion time.
    fn destage_one(&mut self) -> Instant {
        let next = self.cache.next(self.head);
        let (sector, (sectors, arrived)) = next.expect("there is a write to put on the surface");
        self.cache.take(sector);
        self.put_down(arrived, sector, sectors)
    }

    /// Writes to the surface, from `start` or when the arm is free.
    fn put_down(&mut self, start: Instant, sector: u64, sectors: u64) -> Instant {
        let streams = sector == self.head && start <= self.arm_free && self.prefetch.is_none();
        let position = if streams { Duration::ZERO } else { self.position(sector, Duration::ZERO) };
        let bytes = sectors.saturating_mul(SECTOR_SIZE);
        let on_surface = transfer_time(bytes, self.parameters.rate_at(sector));
        self.arm_free = start.max(self.arm_free) + position + on_surface;
        self.head = sector.saturating_add(sectors);
        self.prefetch = None;
        self.arm_free
    }

    /// The time of `before`, the seek to `sector` and the wait for it to come round.
    fn position(&mut self, sector: u64, before: Duration) -> Duration {
        let seek = self.parameters.seek(self.head.abs_diff(sector));
        let rotation = Duration(self.rotation.below(self.parameters.rotation_ns));
        self.jittered(before + seek + rotation)
    }

    fn jittered(&mut self, length: Duration) -> Duration {
        self.jitter.jittered(length, self.parameters.jitter_sigma_ppm)
    }
}

impl Device for Hdd {
    fn service(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        self.destage_until(now);
        match access.command {
            Command::Read => self.read(now, access),
            Command::Write => self.write(now, access),
            Command::DurableWrite => self.write_through(now, access),
            Command::Flush => self.flush(now),
            // The kernel sends no discards to disks that do not take them.
            Command::Discard => Completion::success(now, now),
        }
    }
}

impl WriteCache {
    fn put(&mut self, access: &DeviceAccess, arrived: Instant) {
        if access.sectors > 0 {
            self.writes.insert(access.sector, (access.sectors, arrived));
            self.bytes += access.bytes();
        }
    }

    /// Forgets the write that begins at `sector`: it is being written to the surface, or
    /// overwritten.
    fn take(&mut self, sector: u64) {
        if let Some((sectors, _)) = self.writes.remove(&sector) {
            self.bytes -= sectors * SECTOR_SIZE;
        }
    }

    /// The first write at or behind the head; the very first one if there is none.
    fn next(&self, head: u64) -> Option<(u64, (u64, Instant))> {
        let next = self.writes.range(head..).next().or_else(|| self.writes.first_key_value())?;
        Some((*next.0, *next.1))
    }
}

fn before(moment: Instant, length: Duration) -> Instant {
    Instant(moment.0.saturating_sub(length.as_nanos()))
}

/// Bits behind the point of a square root.
const ROOT_BITS: u32 = 20;

#[cfg(test)]
pub(in crate::device) mod tests;
