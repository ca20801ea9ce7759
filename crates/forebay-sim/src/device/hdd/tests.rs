//! The laws that a disk must keep.

use super::*;

const CAPACITY: u64 = 160_000_000;

/// The disk of docs/devices.md without zones, so that one rate holds everywhere.
fn drive() -> HddParameters {
    HddParameters {
        capacity_sectors: CAPACITY,
        rate_outer_bytes_per_s: 40_000_000,
        inner_share_ppm: MILLION,
        interface_bytes_per_s: 80_000_000,
        command_ns: 300_000,
        seek_min_ns: 1_000_000,
        seek_third_ns: 8_500_000,
        seek_full_ns: 17_500_000,
        rotation_ns: 8_333_333,
        segment_bytes: 256 << 10,
        write_cache_bytes: 1 << 20,
        jitter_sigma_ppm: 0,
    }
}

/// Serves each access when the one before is done; the time of all.
fn one_by_one(disk: &mut Hdd, accesses: impl IntoIterator<Item = DeviceAccess>) -> Duration {
    let first = disk.command_free;
    let serve = |now, access| disk.service(now, &access).done;
    accesses.into_iter().fold(first, serve).since(first)
}

fn random_reads(parameters: HddParameters, sectors: u64, count: u64) -> Duration {
    let mut places = Rng::new(77);
    let mut disk = Hdd::new(parameters, 1);
    let anywhere = |_| DeviceAccess::read(places.below(CAPACITY - sectors), sectors);
    one_by_one(&mut disk, (0..count).map(anywhere))
}

#[test]
fn seeks_take_what_the_curve_says() {
    let micros = |ppm: u64| drive().seek(CAPACITY / 1_000_000 * ppm).as_nanos() / 1_000;
    assert_eq!(micros(0), 0);
    // 1.0 + 13.0 sqrt(d) ms below a third, 8.5 + 13.5 (d - 1/3) ms above.
    assert_eq!(micros(10_000), 2_299);
    assert_eq!(micros(250_000), 7_495);
    assert_eq!(micros(333_333), 8_499);
    assert_eq!(micros(500_000), 10_750);
    assert_eq!(micros(1_000_000), 17_500);
    assert_eq!(micros(5_000_000), 17_500);
}

#[test]
fn a_longer_seek_never_takes_less() {
    let steps = (0..4_000).map(|step| drive().seek(step * step * 10));
    assert!(steps.is_sorted());
}

#[test]
fn zones_slow_down_toward_the_inner_rim() {
    let zoned = HddParameters { inner_share_ppm: 480_000, ..drive() };
    assert_eq!(zoned.rate_at(0), 40_000_000);
    assert_eq!(zoned.rate_at(CAPACITY / 2), 29_600_000);
    assert_eq!(zoned.rate_at(CAPACITY), 19_200_000);
}

#[test]
fn a_sequential_read_runs_at_the_rate_of_the_surface() {
    for sectors in [64, 256, 2_048] {
        let mut disk = Hdd::new(drive(), 1);
        disk.service(Instant::ZERO, &DeviceAccess::read(0, sectors));
        let next = (1..1_000).map(|index| DeviceAccess::read(index * sectors, sectors));
        let time = one_by_one(&mut disk, next);
        assert_eq!(time, transfer_time(999 * sectors * SECTOR_SIZE, 40_000_000));
    }
}

#[test]
fn a_random_read_takes_command_position_and_transfer() {
    // Mean seek over the whole disk: the integral of the curve against the density 2(1 - d) is
    // 8.324 ms; half a turn is 4.167 ms; the command 0.3 ms.
    let positioned = 8_324_000 + 4_166_667 + 300_000;
    for sectors in [8_u64, 256, 2_048] {
        let transfer = transfer_time(sectors * SECTOR_SIZE, 40_000_000).as_nanos();
        let mean = random_reads(drive(), sectors, 20_000).as_nanos() / 20_000;
        let law = positioned + transfer;
        assert!(mean.abs_diff(law) * 100 <= law, "{sectors}: {mean} {law}");
    }
}

#[test]
fn jitter_leaves_the_mean_of_random_reads() {
    let plain = random_reads(drive(), 8, 20_000).as_nanos();
    let jittered = HddParameters { jitter_sigma_ppm: 100_000, ..drive() };
    let found = random_reads(jittered, 8, 20_000).as_nanos();
    assert_ne!(found, plain);
    assert!(found.abs_diff(plain) * 100 <= plain, "{found} {plain}");
}

#[test]
fn a_second_of_thought_is_answered_from_the_segment() {
    let mut disk = Hdd::new(drive(), 1);
    let first = disk.service(Instant::ZERO, &DeviceAccess::read(0, 256)).done;
    let later = first + Duration::from_secs(1);
    let done = disk.service(later, &DeviceAccess::read(256, 256)).done;
    let from_buffer = Duration(300_000) + transfer_time(128 << 10, 80_000_000);
    assert_eq!(done.since(later), from_buffer);
    // Half the segment is left, and the surface continues to fill it in the meantime.
    let next = disk.service(done, &DeviceAccess::read(512, 256)).done;
    assert_eq!(next.since(done), from_buffer);
}

#[test]
fn a_read_longer_than_the_segment_waits_for_the_rest_only() {
    let mut disk = Hdd::new(drive(), 1);
    let first = disk.service(Instant::ZERO, &DeviceAccess::read(0, 256)).done;
    let later = first + Duration::from_secs(1);
    let done = disk.service(later, &DeviceAccess::read(256, 2_048)).done;
    let rest = transfer_time((1 << 20) - (256 << 10), 40_000_000);
    assert!(done.since(later).as_nanos().abs_diff(rest.as_nanos()) <= 1);
}

#[test]
fn a_short_gap_inside_the_segment_costs_no_seek() {
    let mut disk = Hdd::new(drive(), 1);
    let first = disk.service(Instant::ZERO, &DeviceAccess::read(0, 256)).done;
    let later = first + Duration::from_millis(5);
    let near = disk.clone().service(later, &DeviceAccess::read(300, 8)).done;
    let far = disk.service(later, &DeviceAccess::read(2_000, 8)).done;
    assert!(near.since(later) < Duration::from_micros(500));
    assert!(far.since(later) > Duration::from_millis(1));
}

#[test]
fn a_seek_ends_the_drives_own_reading() {
    let mut disk = Hdd::new(drive(), 1);
    let first = disk.service(Instant::ZERO, &DeviceAccess::read(0, 256)).done;
    let away = disk.service(first, &DeviceAccess::read(CAPACITY / 2, 8)).done;
    let back = disk.service(away, &DeviceAccess::read(256, 8)).done;
    assert!(back.since(away) > Duration::from_millis(10));
}

#[test]
fn a_write_is_done_when_it_is_in_the_cache() {
    let mut disk = Hdd::new(drive(), 1);
    let done = disk.service(Instant::ZERO, &DeviceAccess::write(CAPACITY / 2, 256)).done;
    assert_eq!(done.since(Instant::ZERO), Duration(300_000 + 1_638_400));
}

#[test]
fn a_sequential_write_settles_at_the_rate_of_the_surface() {
    let mut disk = Hdd::new(drive(), 1);
    let writes = (0..2_000).map(|index| DeviceAccess::write(index * 256, 256));
    let time = one_by_one(&mut disk, writes).as_nanos();
    let law = transfer_time(2_000 * 256 * SECTOR_SIZE, 40_000_000).as_nanos();
    assert!(time.abs_diff(law) * 100 <= law, "{time} {law}");
}

#[test]
fn cached_writes_reach_the_surface_in_ascending_order() {
    let mut disk = Hdd::new(drive(), 1);
    for sector in [9_000, 3_000, 6_000] {
        disk.service(Instant::ZERO, &DeviceAccess::write(sector, 8));
    }
    let mut order = Vec::new();
    while !disk.cache.writes.is_empty() {
        disk.destage_one();
        order.push(disk.head - 8);
    }
    assert_eq!(order, [3_000, 6_000, 9_000]);
    assert_eq!(disk.cache.bytes, 0);
}

#[test]
fn scattered_writes_are_sorted_and_so_cheaper_than_scattered_reads() {
    let mut places = Rng::new(7);
    let anywhere: Vec<u64> = (0..5_000).map(|_| places.below(CAPACITY - 8)).collect();
    let mut disk = Hdd::new(drive(), 1);
    let writes = anywhere.iter().map(|sector| DeviceAccess::write(*sector, 8));
    let written = one_by_one(&mut disk, writes);
    let mut disk = Hdd::new(drive(), 1);
    let reads = anywhere.iter().map(|sector| DeviceAccess::read(*sector, 8));
    let read = one_by_one(&mut disk, reads);
    assert!(written < read, "{written} {read}");
    assert!(written.as_nanos() * 3 > read.as_nanos(), "{written} {read}");
}

#[test]
fn a_read_waits_for_the_write_under_way_and_no_other() {
    let mut disk = Hdd::new(drive(), 1);
    let mut now = Instant::ZERO;
    for index in 0..100 {
        now = disk.service(now, &DeviceAccess::write(index * 1_000_000, 8)).done;
    }
    let done = disk.service(now, &DeviceAccess::read(CAPACITY - 8, 8)).done;
    assert!(done.since(now) < Duration::from_millis(60), "{}", done.since(now));
    assert!(disk.cache.writes.len() > 90);
}

#[test]
fn idle_time_empties_the_cache() {
    let mut disk = Hdd::new(drive(), 1);
    for index in 0..100 {
        disk.service(Instant::ZERO, &DeviceAccess::write(index * 1_000_000, 8));
    }
    disk.service(Instant::ZERO + Duration::from_secs(10), &DeviceAccess::read(0, 8));
    assert_eq!((disk.cache.writes.len(), disk.cache.bytes), (0, 0));
}

#[test]
fn an_overwritten_write_takes_no_second_place_in_the_cache() {
    let mut disk = Hdd::new(drive(), 1);
    for _ in 0..50 {
        disk.service(Instant::ZERO, &DeviceAccess::write(8, 8));
    }
    assert_eq!(disk.cache.bytes, 8 * SECTOR_SIZE);
}

#[test]
fn without_a_cache_a_write_waits_for_the_surface() {
    let parameters = HddParameters { write_cache_bytes: 0, ..drive() };
    let mut disk = Hdd::new(parameters, 1);
    let done = disk.service(Instant::ZERO, &DeviceAccess::write(CAPACITY / 2, 8)).done;
    assert!(done > Instant(10_750_000));
}

#[test]
fn the_same_seed_gives_the_same_log() {
    let log = |seed| {
        let parameters = HddParameters { jitter_sigma_ppm: 100_000, ..drive() };
        let mut disk = Hdd::new(parameters, seed);
        let mut places = Rng::new(3);
        let mut now = Instant::ZERO;
        let mut log = Vec::new();
        for _ in 0..2_000 {
            let sector = places.below(CAPACITY / 8) * 8;
            let access = match places.chance(300_000) {
                true => DeviceAccess::write(sector, 64),
                false => DeviceAccess::read(sector, 64),
            };
            let completion = disk.service(now, &access);
            now = completion.done + Duration(places.below(5_000_000));
            log.push(completion);
        }
        log
    };
    assert_eq!(log(5), log(5));
    assert_ne!(log(5), log(6));
}

#[test]
fn absurd_parameters_and_places_do_not_panic() {
    let zero = HddParameters {
        capacity_sectors: 0,
        rate_outer_bytes_per_s: 0,
        inner_share_ppm: 2 * MILLION,
        interface_bytes_per_s: 0,
        rotation_ns: 0,
        segment_bytes: 0,
        ..drive()
    };
    let mut disk = Hdd::new(zero, 0);
    for access in [
        DeviceAccess::read(u64::MAX, 8),
        DeviceAccess::write(u64::MAX, u64::MAX),
        DeviceAccess::read(0, 0),
        DeviceAccess::write(0, 0),
    ] {
        let completion = disk.service(Instant::ZERO, &access);
        assert!(completion.done >= completion.start);
    }
}

#[test]
fn a_flush_leaves_the_cache_empty_and_ends_after_everything() {
    let mut places = Rng::new(21);
    let mut disk = Hdd::new(drive(), 1);
    let mut now = Instant::ZERO;
    let mut latest = Instant::ZERO;
    for _ in 0..300 {
        let sector = places.below(CAPACITY / 8) * 8;
        let access = match places.below(10) {
            0..6 => DeviceAccess::write(sector, 64),
            6..8 => DeviceAccess::read(sector, 64),
            8 => DeviceAccess::durable_write(sector, 64),
            _ => DeviceAccess::flush(),
        };
        let completion = disk.service(now, &access);
        if access.command == Command::Flush {
            assert_eq!((disk.cache.writes.len(), disk.cache.bytes), (0, 0));
            assert!(completion.done >= latest && completion.done >= disk.arm_free);
        }
        latest = latest.max(completion.done);
        now += Duration(places.below(4_000_000));
    }
}

#[test]
fn a_flush_of_nothing_takes_no_time() {
    let mut disk = Hdd::new(drive(), 1);
    let done = disk.service(Instant(5), &DeviceAccess::flush()).done;
    assert_eq!(done, Instant(5));
}

#[test]
fn a_flush_waits_for_the_write_that_idle_time_began() {
    let mut disk = Hdd::new(drive(), 1);
    let far = DeviceAccess::write(CAPACITY / 2, 8);
    let written = disk.service(Instant::ZERO, &far).done;
    // A moment later the write has left the cache, and its surface has not come round.
    let soon = written + Duration(1_000);
    let flushed = disk.service(soon, &DeviceAccess::flush()).done;
    assert!(flushed >= written + drive().seek(CAPACITY / 2), "{flushed:?}");
    assert_eq!(flushed, disk.arm_free);
}

#[test]
fn a_durable_write_is_on_the_surface_when_it_is_done() {
    let mut disk = Hdd::new(drive(), 1);
    let done = disk.service(Instant::ZERO, &DeviceAccess::durable_write(CAPACITY / 2, 256)).done;
    let surface = transfer_time(128 << 10, 40_000_000);
    assert!(done >= Instant(10_750_000) + surface);
    assert_eq!((disk.cache.bytes, disk.arm_free), (0, done));
    // No flush has anything left to do.
    assert_eq!(disk.service(done, &DeviceAccess::flush()).done, done);
}

#[test]
fn a_durable_write_larger_than_the_cache_is_on_the_surface_too() {
    let mut disk = Hdd::new(drive(), 1);
    let done = disk.service(Instant::ZERO, &DeviceAccess::durable_write(800, 4_096)).done;
    assert!(done.since(Instant::ZERO) >= transfer_time(2 << 20, 40_000_000));
    assert_eq!(disk.arm_free, done);
}

/// A disk of Ultra-Wide SCSI at 5400 rpm: the curve of its seeks is 2 + 12 sqrt(d) ms throughout.
pub(in crate::device) fn scsi() -> HddParameters {
    HddParameters {
        capacity_sectors: 8_400_000,
        rate_outer_bytes_per_s: 8_700_000,
        inner_share_ppm: 540_000,
        interface_bytes_per_s: 40_000_000,
        command_ns: 600_000,
        seek_min_ns: 2_000_000,
        seek_third_ns: 8_928_203,
        seek_full_ns: 14_000_000,
        rotation_ns: 11_111_111,
        segment_bytes: 256 << 10,
        write_cache_bytes: 256 << 10,
        jitter_sigma_ppm: 0,
    }
}

#[test]
fn the_curve_of_the_scsi_disk_is_a_root_over_all_of_it() {
    for percent in 1..=100_u64 {
        let found = scsi().seek(8_400_000 / 100 * percent).as_nanos();
        let law = 2e6 + 12e6 * libm::sqrt(percent as f64 / 100.0);
        // Beyond a third of the disk a straight line replaces the root.
        let tolerance = if percent <= 33 { 1e3 } else { 0.035 * law };
        assert!((found as f64 - law).abs() <= tolerance, "{percent}: {found} {law}");
    }
}

#[test]
fn the_scsi_disk_loses_four_megabytes_a_second_toward_its_inner_rim() {
    assert_eq!(scsi().rate_at(0), 8_700_000);
    assert_eq!(scsi().rate_at(4_200_000), 6_699_000);
    assert_eq!(scsi().rate_at(8_400_000), 4_698_000);
}
