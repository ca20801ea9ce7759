//! The laws that an array must keep.

use std::sync::{Arc, Mutex};

use super::super::hdd::tests::scsi;
use super::super::hdd::{Hdd, HddParameters};
use super::super::{FaultPlan, Faulty};
use super::*;
use crate::rng::{MILLION, Rng};

const UNIT: u64 = 64 << 10;
const UNIT_SECTORS: u64 = UNIT / SECTOR_SIZE;

/// The 5400 rpm disk of docs/devices.md without zones.
fn disk() -> HddParameters {
    HddParameters { rate_outer_bytes_per_s: 6_900_000, inner_share_ppm: MILLION, ..scsi() }
}

fn disks(members: u64, bus_bytes_per_s: u64) -> Raid0 {
    let member = |seed| Box::new(Hdd::new(disk(), seed)) as Box<dyn Device>;
    let parameters = Raid0Parameters { stripe_unit_bytes: UNIT, bus_bytes_per_s };
    Raid0::new((0..members).map(member).collect(), parameters)
}

/// The accesses of a member.
type Log = Arc<Mutex<Vec<(u64, DeviceAccess)>>>;

/// A member that takes a millisecond for everything and records its accesses.
#[derive(Debug)]
struct Scribe {
    number: u64,
    log: Log,
}

impl Device for Scribe {
    fn service(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        self.log.lock().unwrap().push((self.number, *access));
        let done = now + Duration::from_millis(1 + self.number);
        Completion::success(now, done)
    }
}

fn scribes(members: u64) -> (Raid0, Log) {
    let log = Log::default();
    let scribe = |number| Box::new(Scribe { number, log: Arc::clone(&log) }) as Box<dyn Device>;
    let parameters = Raid0Parameters { stripe_unit_bytes: UNIT, bus_bytes_per_s: u64::MAX };
    (Raid0::new((0..members).map(scribe).collect(), parameters), log)
}

/// The accesses of the members of an array of four for one access: member, sector and length.
fn told(access: DeviceAccess) -> Vec<(u64, u64, u64)> {
    let (mut array, log) = scribes(4);
    array.service(Instant::ZERO, &access);
    let log = log.lock().unwrap();
    log.iter().map(|(member, part)| (*member, part.sector, part.sectors)).collect()
}

fn one_by_one(array: &mut dyn Device, accesses: impl Iterator<Item = DeviceAccess>) -> Duration {
    let serve = |now, access| array.service(now, &access).done;
    accesses.fold(Instant::ZERO, serve).since(Instant::ZERO)
}

/// Bytes a second of reads of `sectors` one behind another, one at a time.
fn sequential(array: &mut dyn Device, sectors: u64) -> u64 {
    let count = 200;
    let time = one_by_one(array, (0..count).map(|at| DeviceAccess::read(at * sectors, sectors)));
    (u128::from(count * sectors * SECTOR_SIZE) * 1_000_000_000 / u128::from(time.as_nanos())) as u64
}

#[test]
fn a_small_request_touches_one_member() {
    let unit = UNIT_SECTORS;
    assert_eq!(told(DeviceAccess::read(0, 8)), [(0, 0, 8)]);
    assert_eq!(told(DeviceAccess::read(unit - 8, 8)), [(0, unit - 8, 8)]);
    assert_eq!(told(DeviceAccess::read(unit, 8)), [(1, 0, 8)]);
    assert_eq!(told(DeviceAccess::write(7 * unit + 16, 8)), [(3, unit + 16, 8)]);
    assert_eq!(told(DeviceAccess::read(5 * unit, 0)), [(1, unit, 0)]);
}

#[test]
fn the_pieces_of_one_member_are_one_access() {
    let unit = UNIT_SECTORS;
    let all = told(DeviceAccess::read(unit, 6 * unit));
    assert_eq!(all, [(1, 0, 2 * unit), (2, 0, 2 * unit), (3, 0, unit), (0, unit, unit)]);
    let ragged = told(DeviceAccess::read(8, 4 * unit));
    assert_eq!(ragged, [(0, 8, unit), (1, 0, unit), (2, 0, unit), (3, 0, unit)]);
}

#[test]
fn every_sector_lies_on_one_member_and_nowhere_twice() {
    let mut places = Rng::new(3);
    let (array, _) = scribes(3);
    for _ in 0..2_000 {
        let (first, length) = (places.below(1 << 20), places.below(5_000));
        let parts: Vec<_> =
            (0..3).map(|member| array.part(member, first, first + length)).collect();
        assert_eq!(parts.iter().map(|(_, sectors)| sectors).sum::<u64>(), length);
        // The access that follows begins on each member where this one ends.
        for (member, (from, sectors)) in parts.iter().enumerate() {
            let (next, _) = array.part(member as u64, first + length, first + length + 1);
            assert_eq!(from + sectors, next);
        }
    }
}

#[test]
fn one_member_is_the_member_itself_and_the_bus() {
    let mut places = Rng::new(9);
    let mut alone = Hdd::new(disk(), 0);
    let mut unlimited = disks(1, u64::MAX);
    let mut behind_bus = disks(1, 2_000_000);
    let mut now = Instant::ZERO;
    for _ in 0..500 {
        let access = match places.chance(400_000) {
            true => DeviceAccess::write(places.below(8_000_000), 256),
            false => DeviceAccess::read(places.below(8_000_000), 256),
        };
        let itself = alone.service(now, &access);
        assert_eq!(unlimited.service(now, &access), itself);
        let slow = behind_bus.service(now, &access);
        let crossing = transfer_time(access.bytes(), 2_000_000);
        assert_eq!(slow.done, itself.done.max(now + crossing));
        now = itself.done.max(slow.done);
    }
}

#[test]
fn large_sequential_reads_run_at_the_rate_of_all_members() {
    for (members, rate) in [(1, 6_900_000), (2, 13_800_000), (4, 27_600_000)] {
        let found = sequential(&mut disks(members, 38_000_000), 4_096);
        assert!(found.abs_diff(rate) * 100 <= rate, "{members}: {found}");
    }
}

#[test]
fn the_bus_bounds_what_the_members_deliver_together() {
    let found = sequential(&mut disks(8, 38_000_000), 8_192);
    assert!(found.abs_diff(38_000_000) * 100 <= 38_000_000, "{found}");
}

#[test]
fn random_requests_on_different_members_run_side_by_side() {
    let (mut array, _) = scribes(4);
    for member in 0..4 {
        let done = array.service(Instant::ZERO, &DeviceAccess::read(member * UNIT_SECTORS, 8)).done;
        assert_eq!(done.since(Instant::ZERO), Duration::from_millis(1 + member));
    }
}

#[test]
fn an_access_is_done_with_its_last_part() {
    let (mut array, _) = scribes(4);
    let whole = array.service(Instant(5), &DeviceAccess::read(0, 3 * UNIT_SECTORS));
    assert_eq!((whole.start, whole.done), (Instant(5), Instant(5) + Duration::from_millis(3)));
}

#[test]
fn a_flush_reaches_every_member_and_ends_with_the_last() {
    let (mut array, log) = scribes(4);
    let flush = DeviceAccess::flush();
    let done = array.service(Instant::ZERO, &flush).done;
    assert_eq!(done.since(Instant::ZERO), Duration::from_millis(4));
    let log = log.lock().unwrap();
    assert_eq!(*log, (0..4).map(|member| (member, flush)).collect::<Vec<_>>());
}

#[test]
fn a_flush_ends_after_the_writes_of_all_members() {
    let mut array = disks(4, 38_000_000);
    let written = array.service(Instant::ZERO, &DeviceAccess::write(0, 4 * UNIT_SECTORS)).done;
    let flush = DeviceAccess::flush();
    let flushed = array.service(written, &flush).done;
    // Each member has 64 KiB in its cache after 0.6 ms and 64 KiB at 40 MB/s, and puts them down at
    // 6.9 MB/s.
    let surface = Duration(600_000 + 1_638_400) + transfer_time(UNIT, 6_900_000);
    assert!(flushed > written && flushed >= Instant::ZERO + surface, "{flushed:?} {written:?}");
    assert_eq!(array.service(flushed, &flush).done, flushed);
}

#[test]
fn a_durable_write_stays_one_on_its_members() {
    let (mut array, log) = scribes(2);
    array.service(Instant::ZERO, &DeviceAccess::durable_write(0, 2 * UNIT_SECTORS));
    let log = log.lock().unwrap();
    assert_eq!(log.len(), 2);
    assert!(log.iter().all(|(_, part)| part.command == Command::DurableWrite));
}

#[test]
fn a_part_that_fails_fails_the_whole() {
    let bad = FaultPlan { bad_sectors: vec![0..1, 5..6], ..FaultPlan::default() };
    let broken = Faulty::new(Box::new(Hdd::new(disk(), 1)), bad, 1);
    let members: Vec<Box<dyn Device>> = vec![Box::new(Hdd::new(disk(), 0)), Box::new(broken)];
    let parameters = Raid0Parameters { stripe_unit_bytes: UNIT, bus_bytes_per_s: u64::MAX };
    let mut array = Raid0::new(members, parameters);
    let mut outcome = |sector, sectors| {
        array.service(Instant::ZERO, &DeviceAccess::read(sector, sectors)).outcome
    };
    assert_eq!(outcome(0, UNIT_SECTORS), Outcome::Success);
    assert_eq!(outcome(0, UNIT_SECTORS + 1), Outcome::Failure);
    assert_eq!(outcome(UNIT_SECTORS, 8), Outcome::Failure);
}

#[test]
#[should_panic(expected = "an array has at least one member")]
fn an_array_of_nothing_is_a_bug() {
    let _ = Raid0::new(Vec::new(), Raid0Parameters { stripe_unit_bytes: 1, bus_bytes_per_s: 1 });
}

#[test]
fn absurd_parameters_and_places_do_not_panic() {
    for stripe_unit_bytes in [0, 1, 4_096, u64::MAX] {
        let member = || Box::new(Hdd::new(disk(), 1)) as Box<dyn Device>;
        let parameters = Raid0Parameters { stripe_unit_bytes, bus_bytes_per_s: 0 };
        let mut array = Raid0::new(vec![member(), member(), member()], parameters);
        for (sector, sectors) in [(u64::MAX, 8), (0, u64::MAX), (u64::MAX, u64::MAX), (0, 0)] {
            for command in [Command::Read, Command::Write, Command::DurableWrite] {
                let access = DeviceAccess { sector, sectors, command };
                let completion = array.service(Instant::ZERO, &access);
                assert!(completion.done >= completion.start);
            }
        }
    }
}
