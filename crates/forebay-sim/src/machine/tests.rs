//! What the machines that come with the program promise.

use forebay_core::time::{Duration, Instant};

use super::*;
use crate::device::DeviceAccess;
use crate::rng::latin_hypercube;
use crate::workload::sysbench::Rndrd;

fn machines() -> impl Iterator<Item = Machine> {
    Machine::names().map(|name| Machine::builtin(name).unwrap())
}

#[test]
fn every_builtin_machine_reads_and_builds() {
    let names: Vec<&str> = Machine::names().collect();
    let old = ["desktop-2004", "hdd-2026", "mips-2007"];
    let all = [&old[..], &["nvme-2026", "omap2-2010", "raid-2001", "ssd-2014", "vm-2026"]].concat();
    assert_eq!(names, all);
    for machine in machines() {
        assert!(machine.prices().cores > 0 && machine.page_cache_bytes() > 0);
        assert!(!machine.kernel().readahead.is_empty() && !machine.summary().is_empty());
        let mut device = machine.device(1);
        let completion = device.service(Instant::ZERO, &DeviceAccess::read(1 << 20, 8));
        assert!(completion.done > completion.start, "{}", machine.name());
        assert_eq!(machine.layout().place(128, some_file(&machine), 1).unwrap().len(), 128);
    }
}

/// A file of which every machine has room for 128: 32 MiB on all but the smallest.
fn some_file(machine: &Machine) -> u64 {
    (machine.capacity_bytes() / 256).min(32 << 20)
}

#[test]
fn an_unknown_machine_is_answered_with_the_nearest() {
    let said = |name| Machine::builtin(name).unwrap_err().to_string();
    assert_eq!(said("desktop-2003"), "no machine `desktop-2003`; did you mean `desktop-2004`?");
    assert_eq!(said("toaster"), "no machine `toaster`");
}

#[test]
fn the_desktop_is_the_one_of_the_paper() {
    let machine = Machine::builtin("desktop-2004").unwrap();
    assert_eq!(machine.page_cache_bytes(), 420 << 20);
    let kernel = machine.kernel();
    assert_eq!((kernel.read_ahead_kib, kernel.max_sectors_kib), (128, 128));
    let plug = Plug { requests: 4, delay: Duration::from_millis(3) };
    assert_eq!(kernel.plug, Some(plug));
    assert!(!kernel.large_folios);
    let prices = machine.prices();
    assert_eq!((prices.cores, prices.syscall), (1, Duration(500)));
    // A KiB at 1 GB/s.
    assert_eq!(prices.copy_picos_per_kib, 1_024_000);
    assert_eq!(machine.device_kind(), DeviceKind::Hdd);
}

#[test]
fn the_server_is_the_one_of_the_flush_paper() {
    let machine = Machine::builtin("raid-2001").unwrap();
    let kernel = machine.kernel();
    assert_eq!((kernel.write_requests, kernel.large_folios), (85, false));
    let policies = [&*kernel.flush, &*kernel.throttle, &*kernel.controller];
    assert_eq!(policies, ["bdflush-2.2.19", "off", "fixed"]);
    assert_eq!(
        (machine.device_kind(), machine.capacity_bytes()),
        (DeviceKind::Raid0, 17_200_000_000)
    );
}

/// Bytes a second of a file read in requests of the machine's size, two of them under way.
fn stream(machine: &Machine, bytes: u64) -> u64 {
    let mut device = machine.device(1);
    let sectors = machine.kernel().max_sectors_kib * KIB / SECTOR_SIZE;
    let mut under_way = [Instant::ZERO; 2];
    for index in 0..bytes / SECTOR_SIZE / sectors {
        let turn = (index % 2) as usize;
        let now = under_way[turn];
        under_way[turn] = device.service(now, &DeviceAccess::read(index * sectors, sectors)).done;
    }
    let time = under_way[0].max(under_way[1]).since(Instant::ZERO);
    bytes * 1_000 / (time.as_nanos() / 1_000_000)
}

#[test]
fn the_server_reads_a_file_as_fast_as_the_paper_with_redhats_settings() {
    let machine = Machine::builtin("raid-2001").unwrap();
    let found = stream(&machine, 1_024_000_000) / 1_024;
    assert!(found.abs_diff(27_695) * 20 <= 27_695, "{found}");
}

#[test]
fn cached_reads_and_writes_of_the_server_cost_what_redhats_columns_say() {
    let machine = Machine::builtin("raid-2001").unwrap();
    let prices = machine.prices();
    // The benchmark reads and writes 16 KiB at a time.
    let copied = prices.copy(1, 4_096).as_nanos() + prices.syscall.as_nanos() / 4;
    let read = 4 * 1_000_000_000 / 441_398;
    assert!(copied.abs_diff(read) * 50 <= read, "{copied} {read}");
    let write = 4 * 1_000_000_000 / 149_559;
    let dirtied = copied + prices.page_alloc.as_nanos() + prices.page_dirty.as_nanos();
    // Within the phase one burst fills all places of the queue with requests of 64 KiB, and the
    // disks take 27,695 KB/s while the last 34 MiB are written.
    let burst = u64::from(machine.kernel().write_requests) * machine.kernel().max_sectors_kib / 4;
    let taken = 27_695 / 4 * (34 * 256 * write) / 1_000_000_000;
    let flushed = prices.flush_page.as_nanos() * (burst + taken) / (100 * 256);
    let sum = dirtied + flushed;
    assert!(sum.abs_diff(write) * 50 <= write, "{sum} {write}");
}

#[test]
fn the_members_of_an_array_turn_independently_and_by_the_seed() {
    let machine = Machine::builtin("raid-2001").unwrap();
    let unit = (64 * KIB) / SECTOR_SIZE;
    let first = |seed, member| {
        let access = DeviceAccess::read(1_000 * 4 * unit + member * unit, 8);
        machine.device(seed).service(Instant::ZERO, &access).done
    };
    assert_eq!(first(1, 0), first(1, 0));
    assert_ne!(first(1, 0), first(1, 1));
    assert_ne!(first(1, 0), first(2, 0));
}

#[test]
fn the_flash_drive_is_the_one_of_the_throttling_paper() {
    let machine = Machine::builtin("ssd-2014").unwrap();
    let kernel = machine.kernel();
    assert_eq!((kernel.write_requests, kernel.throttle.as_str()), (128, "linux-3.18"));
    assert_eq!(machine.device_kind(), DeviceKind::Ssd);
    let done = machine.device(1).service(Instant::ZERO, &DeviceAccess::write(0, 256)).done;
    // 28.6 us of command and 131072 bytes at 540 MB/s.
    assert_eq!(done, Instant(28_600 + 242_726));
}

#[test]
fn a_drawn_stripe_unit_is_whole_pages() {
    let machine = Machine::builtin("raid-2001").unwrap();
    let sides = machine.uncertain();
    let at = sides.iter().position(|key| *key == "device.stripe_unit").unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for place in (0..=1_000_000).step_by(10_000) {
        let mut point = vec![500_000; sides.len()];
        point[at] = place;
        let unit = machine.draw(&point).number("device.stripe_unit");
        assert!(unit.is_multiple_of(4_096) && (32 << 10..=64 << 10).contains(&unit), "{unit}");
        seen.insert(unit);
    }
    assert_eq!(seen.len(), 9);
}

#[test]
fn the_texts_of_the_write_path_can_be_set() {
    let mut machine = Machine::builtin("vm-2026").unwrap();
    machine.set("kernel.flush", "linux-6:interval=100").unwrap();
    machine.set("kernel.throttle", "off").unwrap();
    machine.set("kernel.controller", "adaptive").unwrap();
    let kernel = machine.kernel();
    let policies = [&*kernel.flush, &*kernel.throttle, &*kernel.controller];
    assert_eq!(policies, ["linux-6:interval=100", "off", "adaptive"]);
    let texts: Vec<_> = machine.texts().collect();
    assert!(texts.contains(&("kernel.throttle", "off")), "{texts:?}");
    let said = machine.set("kernel.flush", " ").unwrap_err().to_string();
    assert_eq!(said, "--set: `kernel.flush` is ` `, expected a flush policy");
}

#[test]
fn an_impossible_array_or_drive_cannot_be_set() {
    let said = |machine: &str, key: &str, value: &str| {
        Machine::builtin(machine).unwrap().set(key, value).unwrap_err().to_string()
    };
    assert_eq!(
        said("raid-2001", "device.members", "0"),
        "--set: `device.members` is `0`, expected a whole number from 1 to 64"
    );
    assert_eq!(
        said("raid-2001", "device.stripe_unit", "6KiB"),
        "--set: `device.stripe_unit` is `6KiB`, expected a multiple of 4096 bytes from 4096 bytes \
         to 1073741824 bytes, in one of the units bytes, KiB, MiB, GiB, GB, TB"
    );
    let mut small = Machine::builtin("raid-2001").unwrap();
    small.set("device.stripe_unit", "512MiB").unwrap();
    assert_eq!(
        small.set("device.capacity", "1GiB").unwrap_err().to_string(),
        "--set: `device.capacity` is `1GiB`, expected device.members * device.stripe_unit <= \
         device.capacity"
    );
    assert_eq!(
        said("ssd-2014", "device.capacity", "200GB"),
        "--set: `device.capacity` is `200GB`, expected device.capacity <= device.flash"
    );
    assert_eq!(
        said("ssd-2014", "device.random_region", "90GB"),
        "--set: `device.random_region` is `90GB`, expected device.random_region <= device.live"
    );
}

#[test]
fn the_virtual_machine_reads_ahead_as_linux_6_18_does_there() {
    let kernel = Machine::builtin("vm-2026").unwrap().kernel();
    assert_eq!((kernel.read_ahead_kib, kernel.large_folios), (8_192, true));
    assert_eq!(kernel.plug, None);
}

/// Throughput in MB/s of the paper's random reads, each followed by `waste` bytes that the
/// unmodified kernel reads for nothing, in requests of the machine's size. Processor time is left
/// out.
fn paper_reads(machine: &Machine, block: u64, waste: u64, seed: u64) -> u64 {
    let files = machine.layout().place(128, 32 << 20, seed).unwrap();
    let mut disk = machine.device(seed);
    let mut now = Instant::ZERO;
    let run = Rndrd::of_paper(block);
    for read in run.requests().unwrap() {
        let first = files[read.file as usize] + read.offset / SECTOR_SIZE;
        let most = machine.kernel().max_sectors_kib * KIB / SECTOR_SIZE;
        let (mut sector, end) = (first, first + (block + waste) / SECTOR_SIZE);
        while sector < end {
            let sectors = most.min(end - sector);
            now = disk.service(now, &DeviceAccess::read(sector, sectors)).done;
            sector += sectors;
        }
    }
    u64::from(run.requests) * block * 1_000 / now.since(Instant::ZERO).as_nanos()
}

#[test]
fn the_desktop_reads_at_the_level_of_the_paper_before_its_change() {
    let machine = Machine::builtin("desktop-2004").unwrap();
    let rates = [512, 1_024].map(|kib| paper_reads(&machine, kib * KIB, 120 * KIB, 1));
    assert!(rates.iter().any(|rate| (15..=25).contains(rate)), "{rates:?}");
    assert!((18..=22).contains(&rates[0]), "{rates:?}");
}

#[test]
fn an_override_is_certain_and_in_the_unit_that_was_typed() {
    let mut machine = Machine::builtin("desktop-2004").unwrap();
    let typed = [
        ("52e6", 52_000_000),
        ("52MB/s", 52_000_000),
        ("52 MiB/s", 54_525_952),
        (" 52000000 bytes/s ", 52_000_000),
    ];
    for (text, bytes_per_s) in typed {
        machine.set("device.rate_outer", text).unwrap();
        let rate = machine.find("device.rate_outer").unwrap();
        let all = (rate.low, rate.value, rate.high);
        assert_eq!(all, (bytes_per_s, bytes_per_s, bytes_per_s), "{text}");
    }
    machine.set("device.command", "0.4ms").unwrap();
    assert_eq!(machine.find("device.command").unwrap().value, 400_000);
    machine.set("device.command", "7s").unwrap_err();
    assert!(!machine.uncertain().contains(&"device.rate_outer"));
    machine.set("layout.placement", "contiguous").unwrap();
    assert_eq!(machine.layout().placement, Placement::Contiguous);
    machine.set("kernel.readahead", "off").unwrap();
    assert_eq!(machine.kernel().readahead, "off");
}

#[test]
fn a_bad_override_is_refused_and_changes_nothing() {
    let machine = Machine::builtin("desktop-2004").unwrap();
    let said = |key: &str, value: &str| {
        let mut changed = machine.clone();
        let said = changed.set(key, value).unwrap_err().to_string();
        assert_eq!(changed, machine);
        said
    };
    assert_eq!(
        said("device.rate_uoter", "1"),
        "--set: unknown key `device.rate_uoter`; did you mean `device.rate_outer`?"
    );
    assert_eq!(said("zzz", "1"), "--set: unknown key `zzz`");
    assert_eq!(
        said("device.rate_outer", "52 ms"),
        "--set: `device.rate_outer` is `52 ms`, expected a number from 1000 bytes/s to \
         1000000000000000 bytes/s, in one of the units bytes/s, MB/s, GB/s, MiB/s, GiB/s"
    );
    assert_eq!(
        said("device.seek_min", "9ms"),
        "--set: `device.seek_min` is `9ms`, expected device.seek_min <= device.seek_third"
    );
    assert_eq!(
        said("layout.placement", "scatered"),
        "--set: `layout.placement` is `scatered`, expected one of contiguous, scattered; did you \
         mean `scattered`?"
    );
    assert_eq!(
        said("device.type", "fast"),
        "--set: `device.type` is `fast`, expected a file of its own for another type of device"
    );
    for nonsense in ["", "x", "-1", "nan", "inf", "1e99", "MB/s"] {
        said("device.rate_outer", nonsense);
    }
}

#[test]
fn a_draw_stays_in_the_box_and_reaches_its_corners() {
    for machine in machines() {
        let sides = machine.uncertain().len();
        assert!(sides > 5, "{}", machine.name());
        for point in latin_hypercube(1, sides, 32) {
            for one in machine.draw(&point).parameters() {
                assert!((one.low..=one.high).contains(&one.value), "{}", one.key);
            }
        }
        let least = machine.draw(&vec![0; sides]);
        assert!(least.parameters().all(|one| one.value == one.low));
        let most = machine.draw(&vec![1_000_000; sides]);
        assert!(most.parameters().all(|one| one.value == one.high));
        let bytes = some_file(&machine);
        assert_eq!(least.layout().place(128, bytes, 1).unwrap().len(), 128);
        assert_eq!(most.layout().place(128, bytes, 1).unwrap().len(), 128);
    }
}

#[test]
#[should_panic(expected = "a point has a coordinate for every side")]
fn a_point_of_too_few_coordinates_is_a_bug() {
    let _ = Machine::builtin("desktop-2004").unwrap().draw(&[0]);
}

#[test]
fn every_number_is_listed_with_unit_and_source() {
    for machine in machines() {
        for one in machine.parameters() {
            assert!(!one.unit.is_empty() && one.source.len() > 5, "{}", one.key);
        }
        assert_eq!(machine.parameters().count(), file::known(machine.device_kind()).count());
    }
}

#[test]
fn what_a_file_leaves_out_stands_as_it_was_before_there_was_such_a_key() {
    let boards = ["mips-2007", "omap2-2010"];
    for machine in machines().filter(|machine| !boards.contains(&machine.name())) {
        let kernel = machine.kernel();
        let texts = [kernel.elevator.as_str(), &kernel.dispatch];
        assert_eq!((texts, kernel.queue_depth), (["none", "deferred"], 0));
        assert_eq!(kernel.scheduler, Scheduler::RoundRobin);
        let prices = machine.prices();
        assert_eq!((prices.cache_bytes, prices.footprint_bytes), (0, 0));
        assert_eq!((prices.refill, prices.scheduler), (Duration::ZERO, Scheduler::RoundRobin));
        let depth = machine.find("kernel.queue_depth").unwrap();
        assert_eq!((depth.value, depth.source.as_str()), (0, "A: default"));
        assert!(!machine.uncertain().contains(&"kernel.queue_depth"));
    }
}

#[test]
fn the_keys_that_may_be_left_out_can_be_set() {
    let mut machine = Machine::builtin("desktop-2004").unwrap();
    let typed = [
        ("kernel.queue_depth", "31"),
        ("kernel.elevator", "cfq:quantum=8"),
        ("kernel.dispatch", "inline"),
        ("kernel.scheduler", "o1"),
        ("cpu.cache", "32KiB"),
        ("cpu.footprint", "15.5 KiB"),
        ("cpu.refill", "12.5us"),
    ];
    for (key, value) in typed {
        machine.set(key, value).unwrap();
    }
    let (kernel, prices) = (machine.kernel(), machine.prices());
    let texts = [kernel.elevator.as_str(), &kernel.dispatch];
    assert_eq!((texts, kernel.queue_depth), (["cfq:quantum=8", "inline"], 31));
    assert_eq!((kernel.scheduler, prices.scheduler), (Scheduler::O1, Scheduler::O1));
    assert_eq!((prices.cache_bytes, prices.footprint_bytes), (32_768, 15_872));
    assert_eq!(prices.refill, Duration(12_500));
    assert!(machine.texts().any(|text| text == ("kernel.scheduler", "o1")));
    let mut said = |key, value| machine.set(key, value).unwrap_err().to_string();
    assert_eq!(
        said("kernel.scheduler", "faire"),
        "--set: `kernel.scheduler` is `faire`, expected one of round-robin, o1, fair; did you \
         mean `fair`?"
    );
    assert_eq!(said("kernel.elevator", ""), "--set: `kernel.elevator` is ``, expected an elevator");
    assert_eq!(
        said("kernel.queue_depth", "65537"),
        "--set: `kernel.queue_depth` is `65537`, expected a whole number from 0 to 65536"
    );
    assert_eq!(said("device.medium", "remote"), "--set: unknown key `device.medium`");
}

#[test]
fn a_medium_is_what_the_waiting_times_of_the_device_are_made_of() {
    let medium = |name: &str| Machine::builtin(name).unwrap().medium();
    let of = |kind| Medium { kind, programmed: false };
    assert_eq!(medium("hdd-2026"), of(MediumKind::Rotating));
    assert_eq!(medium("raid-2001"), of(MediumKind::Rotating));
    assert_eq!(medium("ssd-2014"), of(MediumKind::Solid));
    let onenand = Medium { kind: MediumKind::Solid, programmed: true };
    assert_eq!(medium("mips-2007"), onenand);
    for machine in machines() {
        assert_eq!(machine.device(1).programmed(), machine.medium().programmed);
    }
    let mut store = Machine::builtin("vm-2026").unwrap();
    assert_eq!(store.medium(), of(MediumKind::Solid));
    store.set("device.medium", "remote").unwrap();
    assert_eq!(store.medium(), of(MediumKind::Remote));
}

/// The time of a switch to a task with `data` bytes of its own, in a ring of `tasks` such tasks on
/// a machine of `prices`, by the model of docs/devices.md, processor.
fn switch(prices: &Prices, tasks: u64, data: u64) -> u64 {
    let cache = prices.cache_bytes;
    let footprint = prices.footprint_bytes + data;
    let (own, others) = (footprint.min(cache), (tasks - 1) * footprint);
    let evicted = own.min((own + others).saturating_sub(cache));
    prices.context_switch.as_nanos() + prices.refill.as_nanos() * evicted / cache
}

#[test]
fn the_board_switches_tasks_in_the_times_of_the_paper_on_average() {
    let prices = Machine::builtin("mips-2007").unwrap().prices();
    assert_eq!((prices.cache_bytes, prices.cores), (32 << 10, 1));
    // Two tasks without data fit into the cache, more do not; with data none does.
    let empty = [2, 4, 6, 8].map(|tasks| switch(&prices, tasks, 0));
    let full = [2, 4, 6, 8].map(|tasks| switch(&prices, tasks, 100 << 10));
    assert_eq!(empty, [6_940, 12_906, 12_906, 12_906]);
    assert_eq!(full, [19_368; 4]);
    let mean = |cells: &[u64]| cells.iter().sum::<u64>() / cells.len() as u64;
    assert!(empty[1].abs_diff(mean(&[12_630, 12_740, 13_350])) <= 1);
    assert!(full[0].abs_diff(mean(&[19_900, 17_400, 20_900, 19_270])) <= 1);
}

#[test]
fn two_tasks_without_data_fit_into_the_boards_cache_in_every_draw() {
    let machine = Machine::builtin("mips-2007").unwrap();
    for point in latin_hypercube(1, machine.uncertain().len(), 32) {
        let prices = machine.draw(&point).prices();
        assert_eq!(switch(&prices, 2, 0), prices.context_switch.as_nanos());
    }
}

/// The time that the caller and the driver's thread of the board spend on a read of 4 KiB.
fn lone_read(machine: &Machine) -> (u64, u64) {
    let mut machine = machine.clone();
    machine.set("device.jitter", "0").unwrap();
    let prices = machine.prices();
    let path = [prices.syscall, prices.page_alloc, prices.request_submit, prices.interrupt];
    let path = path.iter().map(|price| price.as_nanos()).sum::<u64>();
    let served = machine.device(1).service(Instant::ZERO, &DeviceAccess::read(0, 8));
    assert_eq!(served.cpu, served.done.since(served.start));
    (path + prices.copy(1, 4_096).as_nanos(), served.cpu.as_nanos())
}

#[test]
fn the_boards_reads_divide_as_the_unmodified_kernel_needs() {
    let machine = Machine::builtin("mips-2007").unwrap();
    let sides = machine.uncertain().len();
    let corners = [0, 1_000_000].map(|place| {
        let mut corner = machine.draw(&vec![place; sides]);
        // The copy's time falls where its rate rises.
        let rate = 382_000_000 - corner.number("cpu.copy_rate");
        corner.set("cpu.copy_rate", &rate.to_string()).unwrap();
        lone_read(&corner).0
    });
    let (reader, thread) = lone_read(&machine);
    assert_eq!((reader, thread), (59_980, 152_500));
    assert!(corners.iter().all(|reader| (57_000..=70_000).contains(reader)), "{corners:?}");
    // Each switch counts for the task that it switches to. The thread's share, by which ten busy
    // tasks stretch the reads of the paper's unmodified kernel, is 0.67 to 0.74.
    let switch = 6_940;
    for reader in [reader, corners[0], corners[1]] {
        let share = (thread + switch) * 1_000 / (thread + reader + 2 * switch);
        assert!((670..=740).contains(&share), "{share}");
    }
}
