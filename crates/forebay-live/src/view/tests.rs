//! Views of made-up periods, whose figures can be reckoned by hand.

use super::*;
use crate::machine::{Bdi, Device};
use crate::pattern::Patterns;
use crate::signal::{BdiCounts, DiskCounts, DiskTraffic};
use crate::trace::{Pause, Readahead, Why};

#[test]
fn rates_are_differences_over_the_period() {
    let mut scene = Scene::new();
    scene.before.disks = vec![disk(0, 0, 0, 0)];
    scene.after.disks = vec![disk(300, 4_800, 600, 1_500)];
    let view = scene.view();
    let device = &view.devices[0];
    assert_eq!((device.name.as_str(), view.period), ("sda", Duration::from_secs(2)));
    assert_eq!((device.read.iops, device.read.bandwidth), (150.0, 4_800.0 * 512.0 / 2.0));
    assert_eq!(device.read.latency, Some(0.002));
    assert_eq!((device.busy, device.queue), (0.75, 1.5));
    assert_eq!(device.window, Some(8192 << 10));
    assert_eq!(device.write, Flow::default());
    assert!(device.is_active());
}

#[test]
fn a_device_that_came_in_between_counts_from_nothing() {
    let mut scene = Scene::new();
    scene.before.disks = vec![disk(9_000, 9_000, 9_000, 9_000)];
    scene.after.disks = vec![disk(300, 4_800, 600, 1_500)];
    assert_eq!(scene.view().devices[0].read.iops, 150.0);
    scene.before.disks.clear();
    assert_eq!(scene.view().devices[0].read.iops, 150.0);
}

#[test]
fn a_level_is_told_in_seconds_of_drain() {
    let mut scene = Scene::new();
    scene.after.vm.dirty = 1 << 18;
    scene.after.vm.dirty_threshold = 1 << 20;
    scene.after.vm.written = 512;
    // Nothing is known of what devices take.
    assert_eq!(scene.view().dirty.drain(1), None);
    (scene.before.vm.writeback, scene.after.vm.writeback) = (1, 1);
    let dirty = scene.view().dirty;
    assert_eq!((dirty.dirty, dirty.limit), (1 << 30, 4 << 30));
    assert_eq!(dirty.bandwidth, Some(f64::from(1 << 20)));
    assert_eq!(dirty.drain(dirty.limit), Some(4096.0));
    // The kernel knows better, and its events best.
    let bdi = BdiCounts { number: SDA, reclaimable: 1 << 30, bandwidth: 1 << 24, ..bdi() };
    scene.after.bdis = vec![bdi, BdiCounts { bandwidth: 1 << 40, ..self::bdi() }];
    assert_eq!(scene.view().dirty.drain(1 << 30), Some(64.0));
    assert_eq!(scene.view().devices[0].drain(), Some(64.0));
    let what = What::Bandwidth { bdi: SDA, bandwidth: 1 << 25 };
    scene.writers.record(&Event { at: 0, pid: 1, what });
    assert_eq!(scene.view().dirty.drain(1 << 30), Some(32.0));
    assert_eq!(scene.view().devices[0].drain(), Some(32.0));
}

#[test]
fn pauses_are_the_processes_of_their_threads() {
    let mut scene = Scene::new();
    scene.owners = [(11, 10), (12, 10)].into();
    for (pid, pause_ms) in [(11, 100), (12, 200), (12, 50), (20, 7)] {
        let what = What::Pause(Pause { bdi: SDA, pause_ms });
        scene.writers.record(&Event { at: 0, pid, what });
    }
    scene.after.disks = vec![disk(0, 0, 0, 0)];
    let view = scene.view();
    let of = |pid| view.processes.iter().find(|it| it.pid == pid).unwrap().pauses;
    assert_eq!(of(10), Pauses { count: 3, total_ms: 350, longest_ms: 200 });
    assert_eq!(of(20).count, 1);
    assert_eq!(view.devices[0].paused_ms, 357);
    scene.writers.next_period();
    assert!(scene.view().processes.is_empty());
}

#[test]
fn files_and_processes_show_what_was_brought_in_and_used() {
    let mut scene = Scene::new();
    scene.owners = [(11, 10)].into();
    let mut patterns = Patterns::new();
    for step in 0..100 {
        let (file, index) = (FileKey { dev: SDA, ino: 12 }, step * 1_000);
        let order = Readahead { why: Why::Order, file, index, pages: 2048, window: 2048 };
        patterns.record(&Event { at: 0, pid: 11, what: What::Readahead(order) });
    }
    scene.files = patterns.settle(Instant(1)).to_vec();
    scene.paths = [(scene.files[0].file, "/srv/table".to_owned())].into();
    let counters = ProcessCounts { brought: 1 << 30, used: 1 << 20, written: 5, faults: 99 };
    let seen = |pid| ProcessSeen { pid, name: "reader".to_owned(), counters: Some(counters) };
    scene.processes = vec![seen(10), seen(30)];
    let view = scene.view();
    let file = &view.files[0];
    assert_eq!((file.path.as_deref(), file.pattern), (Some("/srv/table"), Pattern::RandomFaults));
    assert_eq!((file.brought, file.used), ((100 * 8) << 20, 100 * 4096));
    assert_eq!((file.amplification(), file.window), (Some(2048.0), 8 << 20));
    assert_eq!(file.processes, [10]);
    // Counters of the first process say less than its events; the second one has caused none.
    let of = |pid| view.processes.iter().find(|it| it.pid == pid).unwrap();
    assert!(of(10).by_events && !of(30).by_events);
    assert_eq!((of(10).brought, of(10).faults), (file.brought, Some(99)));
    assert_eq!(of(30).amplification(), Some(1024.0));
}

#[test]
fn windows_that_reach_beyond_the_end_of_a_file_bring_in_what_there_is() {
    let mut scene = Scene::new();
    let mut patterns = Patterns::new();
    let file = FileKey { dev: SDA, ino: 12 };
    // Ten faults of a file of 16 pages, and two at the end of one of 3000.
    let mut fault = |ino, index, pages| {
        let file = FileKey { ino, ..file };
        let order = Readahead { why: Why::Order, file, index, pages, window: 2048 };
        patterns.record(&Event { at: 0, pid: 11, what: What::Readahead(order) });
    };
    (0..10).for_each(|_| fault(12, 0, 2048));
    fault(13, 0, 2048);
    fault(13, 1500, 2048);
    scene.files = patterns.settle(Instant(1)).to_vec();
    let brought = |scene: &Scene, ino| {
        let view = scene.view();
        let of_file = view.files.iter().find(|seen| seen.file.ino == ino).unwrap().brought;
        (of_file / 4096, view.processes[0].brought / 4096)
    };
    assert_eq!(brought(&scene, 12).0, 20_480, "its end is unknown");
    scene.sizes = [(file, 16 * 4096), (FileKey { ino: 13, ..file }, 3_000 * 4096)].into();
    assert_eq!(brought(&scene, 12), (160, 160 + 2048 + 1500));
    assert_eq!(brought(&scene, 13).0, 2048 + 1500);
    // A file that was cut holds at least what was used of it.
    scene.sizes = [(file, 0)].into();
    assert_eq!(brought(&scene, 12).0, 10);
}

#[test]
fn stall_is_a_share_of_the_period() {
    let mut scene = Scene::new();
    assert!(scene.view().stall.is_none());
    scene.before.io_pressure = Some(Pressure::default());
    let some_avg10 = 1_234;
    let now = Pressure { some_us: 1_000_000, full_us: 9_000_000, some_avg10, full_avg10: 0 };
    scene.after.io_pressure = Some(now);
    let stall = scene.view().stall.unwrap();
    assert_eq!((stall.some, stall.full, stall.some_10s), (0.5, 1.0, 0.1234));
}

#[test]
fn a_period_of_no_length_has_no_rates() {
    let mut scene = Scene::new();
    scene.before.at = scene.after.at;
    scene.after.disks = vec![disk(300, 4_800, 600, 1_500)];
    let view = scene.view();
    assert_eq!((view.devices[0].read.iops, view.devices[0].busy), (0.0, 0.0));
}

#[test]
fn writers_beyond_the_most_are_left_out() {
    let mut writers = Writers::default();
    for pid in 0..2 * WRITERS_MAX as u32 {
        let what = What::Pause(Pause { bdi: SDA, pause_ms: 1 });
        writers.record(&Event { at: 0, pid, what });
    }
    assert_eq!(writers.pauses().count(), WRITERS_MAX);
}

/// What a period is made of; two seconds long.
struct Scene {
    machine: Machine,
    before: Sample,
    after: Sample,
    files: Vec<FileSeen>,
    writers: Writers,
    processes: Vec<ProcessSeen>,
    owners: BTreeMap<u32, u32>,
    paths: BTreeMap<FileKey, String>,
    sizes: BTreeMap<FileKey, u64>,
}

impl Scene {
    fn new() -> Self {
        let bdi = Some(Bdi { read_ahead_kb: 8192, ..Bdi::default() });
        let sda = Device { number: SDA, name: "sda".to_owned(), bdi, ..Device::default() };
        Self {
            machine: Machine { page_size: 4096, devices: vec![sda], ..Machine::default() },
            before: Sample { at: Instant(5_000_000_000), ..Sample::default() },
            after: Sample { at: Instant(7_000_000_000), ..Sample::default() },
            files: Vec::new(),
            writers: Writers::default(),
            processes: Vec::new(),
            owners: BTreeMap::new(),
            paths: BTreeMap::new(),
            sizes: BTreeMap::new(),
        }
    }

    fn view(&self) -> View {
        View::of(&Period {
            machine: &self.machine,
            before: &self.before,
            after: &self.after,
            files: &self.files,
            writers: &self.writers,
            processes: &self.processes,
            owners: &self.owners,
            paths: &self.paths,
            sizes: &self.sizes,
            lost: 0,
            sees_files: true,
            gaps: &[],
        })
    }
}

/// Reads, and nothing else.
fn disk(requests: u64, sectors: u64, time_ms: u64, busy_ms: u64) -> DiskCounts {
    DiskCounts {
        number: SDA,
        name: "sda".to_owned(),
        reads: DiskTraffic { requests, sectors, time_ms },
        busy_ms,
        queue_ms: 2 * busy_ms,
        ..DiskCounts::default()
    }
}

/// A backing device without a disk.
fn bdi() -> BdiCounts {
    BdiCounts { number: DevNumber { major: 0, minor: 45 }, ..BdiCounts::default() }
}

const SDA: DevNumber = DevNumber { major: 8, minor: 0 };
