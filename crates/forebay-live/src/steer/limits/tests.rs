//! Devices that write at a given rate, looked at once a second.

use super::*;

const DEVICE: DevNumber = DevNumber { major: 7, minor: 1 };
const MIB: u64 = 1 << 20;
const SPEC: &str = "drain:limit_ms=1000,floor_mib=16,start_mib=32";

/// A device that writes `rate` bytes a second, and a writer that wants to write more.
struct Play {
    limits: Limits,
    now: Instant,
    rate: u64,
    named: bool,
    removable: bool,
    waits: Option<Wait>,
    wakes: bool,
    threshold: u64,
    disk: DiskCounts,
    bdi: BdiCounts,
    /// What the writer still wants to write.
    wanted: u64,
    /// In bytes, as it was applied.
    limit: Option<Limit>,
    changes: Vec<Change>,
    pauses: u64,
    rewritten: u64,
    spared: SparedBytes,
}

impl Play {
    fn new(spec: &str, rate: u64, named: bool) -> Self {
        let limits = Limits::new(Spec::parse(spec).unwrap(), Settings::default());
        Self {
            limits,
            now: Instant::ZERO,
            rate,
            named,
            removable: false,
            waits: Some(Wait::Syncs),
            wakes: false,
            threshold: 4_800 * MIB / PAGE_SIZE,
            disk: DiskCounts::default(),
            bdi: BdiCounts { number: DEVICE, threshold: 4_800 * MIB, ..BdiCounts::default() },
            wanted: 0,
            limit: None,
            changes: Vec::new(),
            pauses: 0,
            rewritten: 0,
            spared: SparedBytes::default(),
        }
    }

    fn dirty(&self) -> u64 {
        self.bdi.reclaimable + self.bdi.writeback
    }

    /// One second, then a look.
    fn second(&mut self) {
        self.now += Duration::from_secs(1);
        let global = self.threshold * PAGE_SIZE;
        // The kernel paces writers to the middle between three quarters and the limit.
        let room = self.limit.map_or(global, |limit| limit.bytes.min(global)) / 8 * 7;
        // What is written makes room for more in the same second.
        let written = self.rate.min(self.dirty() + self.wanted);
        let left = self.dirty() + self.wanted - written;
        let dirty = left.min(room.max(self.dirty().saturating_sub(written)));
        self.wanted = left - dirty;
        self.bdi.dirtied += (dirty + written).saturating_sub(self.dirty());
        self.bdi.written += written;
        self.bdi.writeback = dirty.min(4 * MIB);
        self.bdi.reclaimable = dirty - self.bdi.writeback;
        self.disk.writes.sectors += written / SECTOR;
        self.disk.busy_ms += 1_000 * written / self.rate.max(1);
        self.look();
    }

    fn look(&mut self) {
        let seen = Seen {
            name: "loop1",
            named: self.named,
            removable: self.removable,
            waits: self.waits,
            wakes: self.wakes,
            disk: Some(&self.disk),
            bdi: Some(&self.bdi),
            dirty: self.dirty() / PAGE_SIZE,
            threshold: self.threshold,
            total: 24 * 1_024 * MIB / PAGE_SIZE,
            pauses: self.pauses,
            free: None,
            rewritten: self.rewritten,
            spared: self.spared,
        };
        let Some(decision) = self.limits.look(self.now, DEVICE, &seen) else { return };
        match &decision.change {
            Change::Limit { limit, .. } => self.limit = Some(*limit),
            Change::Release { .. } => self.limit = None,
            Change::Window { .. } => panic!("{decision:?}"),
        }
        self.changes.push(decision.change);
        self.limits.done(DEVICE, Done::Applied);
    }

    fn bytes(&self) -> Option<u64> {
        self.limit.map(|limit| limit.bytes)
    }
}

#[test]
fn a_named_device_has_a_limit_before_its_first_write() {
    let mut play = Play::new(SPEC, 20_000_000, true);
    play.look();
    assert_eq!(play.bytes(), Some(32 * MIB));
    assert_eq!(play.limit.unwrap().ppm, 6_667, "32 of 4800 MiB, rounded up");
}

/// Beside calls of fsync a file of 64 MiB that was written again and again was written to the
/// device each time, and its writer paused.
#[test]
fn a_small_file_that_is_rewritten_has_room_and_a_large_one_has_not() {
    let limit_with = |rewritten| {
        let mut play = Play::new(SPEC, 20_000_000, true);
        play.look();
        play.wanted = 500_000_000;
        for _ in 0..10 {
            play.second();
        }
        play.rewritten = rewritten;
        play.second();
        play
    };
    let before = limit_with(0).bytes().unwrap();
    let mut play = limit_with(64 * MIB);
    let room = play.bytes().unwrap() - before;
    // The limit before is some seconds old: it does not follow each small step of the drain.
    assert!(room.abs_diff(128 * MIB) < MIB, "{room} bytes for 64 MiB that are written twice");
    (play.rewritten, play.wanted) = (300 * MIB, 0);
    for _ in 0..20 {
        play.second();
    }
    assert!(play.bytes().unwrap() <= before + before / 10, "the device needs 15 s for it");
}

/// A limit of 20 MB has most of a temporary file of 60 MB written before it is removed.
#[test]
fn a_limit_goes_within_a_quarter_of_a_second_after_the_first_temporary_file() {
    let mut play = Play::new(SPEC, 20_000_000, true);
    play.look();
    play.wanted = 60_000_000;
    for _ in 0..2 {
        play.second();
    }
    assert!(play.bytes().is_some());
    (play.bdi.reclaimable, play.bdi.writeback) = (0, 0);
    play.now += Duration::from_millis(250);
    play.look();
    assert_eq!(play.bytes(), None, "{:?}", play.changes);
    play.wanted = 20_000_000;
    play.second();
    assert_eq!(play.bytes(), None, "the next one is left alone");
}

/// Beside calls of fsync six temporary files of 60 MB took 2.9 s instead of 0.1: the first one was
/// held until it was removed.
#[test]
fn temporary_files_have_room_and_all_else_has_none() {
    let table = [
        // Dirty, sizes of temporary files, one is gone, seconds of a known drain: has a limit.
        (60 * MIB, 60 * MIB, false, 0, false),
        (60 * MIB, 58 * MIB, false, 0, false),
        (60 * MIB, 56 * MIB, false, 0, true),
        (60 * MIB, 0, false, 0, true),
        (60 * MIB, 0, true, 0, false),
        (127 * MIB, 400 * MIB, false, 0, false),
        (128 * MIB, 400 * MIB, false, 0, true),
        (128 * MIB, 0, true, 0, true),
        // Five seconds of 20 MB.
        (90_000_000, 400 * MIB, false, 4, false),
        (110_000_000, 400 * MIB, false, 4, true),
    ];
    for (dirty, bytes, vanished, seconds, expected) in table {
        let mut play = Play::new(SPEC, 20_000_000, true);
        (play.wakes, play.waits) = (true, None);
        play.look();
        for _ in 0..seconds {
            play.wanted = 40_000_000;
            play.second();
        }
        (play.bdi.reclaimable, play.bdi.writeback, play.wanted) = (0, 0, 0);
        play.second();
        play.waits = Some(Wait::Syncs);
        play.spared = SparedBytes { bytes, vanished };
        play.bdi.reclaimable = dirty;
        play.bdi.dirtied += dirty;
        play.now += Duration::from_millis(5);
        play.look();
        assert_eq!(play.limit.is_some(), expected, "{dirty} of {bytes} {vanished} {seconds}");
    }
}

/// A copy of which 69 MiB were dirty before its first limit came down with its writers: a limit of
/// 92 MiB stood for 17 s, in which commits waited for 9.
#[test]
fn what_came_in_before_the_first_limit_holds_its_writers_for_three_seconds_at_most() {
    for (dirty, is_soon) in [(69 * MIB, true), (160 * MIB, false)] {
        let mut play = Play::new(SPEC, 20_000_000, true);
        play.wakes = true;
        play.look();
        play.bdi.reclaimable = dirty;
        play.bdi.dirtied += dirty;
        play.now += Duration::from_millis(5);
        play.look();
        assert!(play.bytes().unwrap() >= dirty, "{:?}", play.changes);
        play.wanted = 500_000_000;
        for _ in 0..2 {
            play.second();
        }
        let bytes = play.bytes().unwrap();
        assert_eq!(bytes <= 32 * MIB, is_soon, "{bytes} after 2 s: {:?}", play.changes);
    }
}

/// A copy that was first seen with 53 MiB dirty got a limit of 71 MiB, whose pace it stayed below
/// while it was held: the device was taken for a fast one, and a commit waited for 21 s.
#[test]
fn a_limit_that_was_set_to_what_is_dirty_does_not_show_that_a_device_keeps_up() {
    for (level, keeps_up) in [(52 * MIB, false), (40 * MIB, true)] {
        let mut play = Play::new(SPEC, 20_000_000, false);
        play.wakes = true;
        play.look();
        play.bdi.reclaimable = 53 * MIB;
        play.now += Duration::from_millis(5);
        play.look();
        assert!(play.bytes().unwrap() > 70 * MIB, "{:?}", play.changes);
        for _ in 0..2 {
            play.now += Duration::from_millis(250);
            play.bdi.dirtied += 4 * MIB;
            play.bdi.written += 5 * MIB;
            play.bdi.reclaimable = level;
            play.look();
        }
        assert_eq!(play.limit.is_none(), keeps_up, "{:?}", play.changes);
    }
}

/// For some minutes after temporary files a copy beside calls of fsync had no limit at all.
#[test]
fn after_temporary_files_a_copy_has_room_and_then_a_limit_that_stays() {
    let mut play = Play::new(SPEC, 20_000_000, true);
    play.wakes = true;
    play.look();
    for _ in 0..3 {
        play.wanted = 60_000_000;
        play.second();
        (play.bdi.reclaimable, play.bdi.writeback, play.wanted) = (0, 0, 0);
    }
    play.second();
    assert_eq!(play.limit, None, "{:?}", play.changes);
    play.wanted = 90_000_000;
    play.second();
    assert_eq!(play.limit, None, "it may be a temporary file");
    play.wanted = 400_000_000;
    for _ in 0..10 {
        play.second();
        assert!(play.limit.is_some(), "{:?}", play.changes);
    }
}

#[test]
fn a_burst_to_a_slow_device_is_held_to_a_second_of_its_drain() {
    let mut play = Play::new(SPEC, 20_000_000, true);
    play.look();
    play.wanted = 500_000_000;
    let mut most = 0;
    for _ in 0..20 {
        play.second();
        most = most.max(play.dirty());
    }
    assert!(most <= 2 * 20_000_000, "{most}");
    let bytes = play.bytes().unwrap();
    assert!((18_000_000..=22_000_000).contains(&bytes), "{:?}", play.changes);
}

#[test]
fn what_was_let_in_before_anything_waited_comes_down_gently() {
    let mut play = Play::new(SPEC, 20_000_000, false);
    play.waits = None;
    play.wanted = 500_000_000;
    for _ in 0..3 {
        play.second();
        assert_eq!(play.bytes(), None, "nothing waits for it");
    }
    play.waits = Some(Wait::Syncs);
    let mut before = u64::MAX;
    for second in 0..24 {
        play.second();
        if let Some(bytes) = play.bytes() {
            assert!(bytes <= before, "it only falls");
            // A limit far below what is dirty stops every writer.
            assert!(bytes >= play.dirty() || play.dirty() < 30_000_000, "{second}: {bytes}");
            before = bytes;
        }
    }
    assert!(play.bytes().unwrap() < 22_000_000, "{:?}", play.changes);
}

#[test]
fn writers_that_keep_the_level_up_do_not_keep_the_limit_up() {
    let mut play = Play::new(SPEC, 20_000_000, false);
    play.threshold = 400 * MIB / PAGE_SIZE;
    play.wanted = 4_000_000_000;
    for _ in 0..120 {
        play.second();
    }
    assert!(play.wanted > 0, "they still write");
    assert!(play.bytes().unwrap() < 60_000_000, "{:?}", play.bytes());
}

#[test]
fn a_fast_device_is_released_and_left_so() {
    let mut play = Play::new(SPEC, 1_500_000_000, true);
    play.look();
    assert!(play.limit.is_some());
    play.wanted = 40_000_000_000;
    for _ in 0..10 {
        play.second();
    }
    assert_eq!(play.limit, None, "{:?}", play.changes);
    assert_eq!(play.changes.len(), 2, "one limit, one release: {:?}", play.changes);
}

#[test]
fn the_share_is_computed_anew_when_the_global_limit_moves() {
    let mut play = Play::new(SPEC, 20_000_000, true);
    play.look();
    play.threshold = 2_400 * MIB / PAGE_SIZE;
    play.second();
    assert_eq!(play.limit.unwrap(), Limit { bytes: 32 * MIB, ppm: 13_334 });
    play.threshold = 2_450 * MIB / PAGE_SIZE;
    play.second();
    assert_eq!(play.changes.len(), 2, "two percent are nothing");
    play.threshold = 16 * MIB / PAGE_SIZE;
    play.second();
    assert_eq!(play.limit, None, "the machine's own limit is lower");
}

#[test]
fn a_limit_that_stands_before_bursts_goes_after_long_unless_the_device_can_be_pulled_out() {
    for removable in [false, true] {
        let mut play = Play::new(SPEC, 20_000_000, true);
        play.removable = removable;
        play.wanted = 300_000_000;
        for _ in 0..30 {
            play.second();
        }
        assert!(play.limit.is_some());
        for _ in 0..620 {
            play.second();
        }
        assert_eq!(play.limit.is_some(), removable);
    }
}

/// Temporary files, 6 x 60 MB, took 15.8 s instead of 0.3 on a disk of 20 MB/s that was named.
#[test]
fn writers_are_left_alone_while_nothing_waits() {
    for named in [false, true] {
        let mut play = Play::new(SPEC, 20_000_000, named);
        play.waits = None;
        play.wanted = 4_000_000_000;
        for _ in 0..30 {
            play.second();
        }
        assert_eq!(play.changes, [], "named: {named}");
        play.waits = Some(Wait::Syncs);
        play.second();
        assert!(play.limit.is_some());
        play.waits = None;
        play.second();
        assert_eq!(play.limit, None, "nothing waits any more");
    }
}

#[test]
fn files_that_are_removed_before_they_are_written_are_left_alone() {
    let mut play = Play::new(SPEC, 20_000_000, true);
    play.wakes = true;
    play.wanted = 60_000_000;
    play.second();
    assert!(play.limit.is_some());
    play.second();
    assert!(play.dirty() > 16_000_000, "{}", play.dirty());
    (play.bdi.reclaimable, play.bdi.writeback, play.wanted) = (0, 0, 0);
    play.second();
    assert_eq!(play.limit, None, "{:?}", play.changes);
    let changes = play.changes.len();
    for _ in 0..10 {
        play.wanted = 60_000_000;
        play.second();
        (play.bdi.reclaimable, play.bdi.writeback) = (0, 0);
    }
    assert_eq!(play.changes.len(), changes, "nor is it tried again meanwhile");
    play.wanted = 6_000_000_000;
    for _ in 0..150 {
        play.second();
    }
    assert!(play.limit.is_some(), "but after some minutes without");
}

#[test]
fn a_device_that_was_not_named_shows_within_half_a_second_whether_it_keeps_up() {
    for (level, keeps_up) in [(40 * MIB, true), (60 * MIB, false)] {
        let mut play = Play::new(SPEC, 1_500_000_000, false);
        play.wakes = true;
        play.look();
        assert_eq!(play.limit, None, "nothing is dirty");
        play.bdi.reclaimable = 2 * MIB;
        play.now += Duration::from_millis(5);
        play.look();
        assert_eq!(play.bytes(), Some(64 * MIB));
        for _ in 0..2 {
            assert!(play.limits.is_probing());
            play.now += Duration::from_millis(250);
            play.bdi.dirtied += 100 * MIB;
            play.bdi.written += 100 * MIB;
            play.bdi.reclaimable = level;
            play.look();
        }
        assert_eq!(play.limit.is_none(), keeps_up, "{level} of 64 MiB");
        if keeps_up {
            play.bdi.reclaimable = 200 * MIB;
            play.now += Duration::from_millis(250);
            play.look();
            assert_eq!(play.limit, None, "it is not tried again at the next burst");
        }
    }
}

/// Where another disk is written to, the kernel may give a device a share of dirty memory that is
/// smaller than its limit. Its writers are held by that share, so their level says nothing.
#[test]
fn a_device_whose_share_is_smaller_than_its_limit_does_not_keep_up() {
    for (share, keeps_up) in [(24 * MIB, false), (64 * MIB, true)] {
        let mut play = Play::new(SPEC, 1_500_000_000, false);
        play.wakes = true;
        play.look();
        play.bdi.reclaimable = 2 * MIB;
        play.bdi.threshold = share;
        play.now += Duration::from_millis(5);
        play.look();
        for _ in 0..2 {
            play.now += Duration::from_millis(250);
            play.bdi.dirtied += 30 * MIB;
            play.bdi.written += play.bdi.reclaimable + 10 * MIB;
            play.bdi.reclaimable = 20 * MIB;
            play.look();
        }
        assert_eq!(play.limit.is_none(), keeps_up, "20 MiB of {share}");
    }
}

/// The first limit of a device that was not named came down from 64 MiB with its writers, which
/// kept the level up: for 15 s commits waited for three times 2 s each.
#[test]
fn a_first_limit_comes_down_at_once_when_the_device_is_found_slow() {
    let mut play = Play::new(SPEC, 20_000_000, false);
    play.wakes = true;
    play.look();
    play.bdi.reclaimable = 2 * MIB;
    play.now += Duration::from_millis(5);
    play.look();
    assert_eq!(play.bytes(), Some(64 * MIB));
    play.wanted = 500_000_000;
    for _ in 0..3 {
        play.second();
    }
    let bytes = play.bytes().unwrap();
    assert!(bytes <= 32 * MIB, "{bytes} after 3 s: {:?}", play.changes);
    for _ in 0..3 {
        play.second();
    }
    // A commit waits for what is dirty.
    assert!(play.dirty() <= 28 * MIB, "{}", play.dirty());
}

/// Dry runs said 1.5, 103 and 142 MiB/s of a disk that writes 1.3 GB/s.
#[test]
fn what_a_disk_writes_with_little_under_way_is_not_its_drain() {
    let mut play = Play::new(SPEC, 1_500_000_000, true);
    for _ in 0..20 {
        play.now += Duration::from_secs(1);
        play.bdi.dirtied += 3 * MIB;
        play.bdi.written += 2 * MIB;
        play.bdi.reclaimable += MIB;
        play.bdi.writeback = 64 << 10;
        play.disk.writes.sectors += 2 * MIB / SECTOR;
        play.disk.busy_ms += 20;
        play.look();
    }
    assert_eq!(play.limits.drain(DEVICE), None);
}

#[test]
fn a_limit_that_starves_the_device_grows_and_then_goes_for_good() {
    let mut play = Play::new(SPEC, 20_000_000, true);
    play.look();
    play.wanted = 100_000_000;
    for _ in 0..10 {
        play.second();
    }
    let before = play.bytes().unwrap();
    play.pauses = 5;
    for _ in 0..3 {
        play.second();
    }
    assert_eq!(play.bytes(), Some(2 * before), "{:?}", play.changes);
    for _ in 0..20 {
        play.second();
    }
    assert_eq!(play.limit, None);
    let changes = play.changes.len();
    play.wanted = 1_000_000_000;
    for _ in 0..20 {
        play.second();
    }
    assert_eq!(play.changes.len(), changes, "it is not tried again");
}

#[test]
fn a_knob_that_another_program_wrote_is_left_alone() {
    let mut play = Play::new(SPEC, 20_000_000, true);
    play.look();
    play.limits.done(DEVICE, Done::Foreign);
    play.wanted = 500_000_000;
    for _ in 0..20 {
        play.second();
    }
    assert_eq!(play.changes.len(), 1);
}

#[test]
fn looks_within_a_second_are_one_look() {
    let mut play = Play::new(SPEC, 20_000_000, true);
    play.look();
    play.wanted = 500_000_000;
    play.second();
    let drain = play.limits.drain(DEVICE);
    play.now += Duration::from_millis(250);
    play.bdi.written += 100 * MIB;
    play.look();
    assert_eq!(play.limits.drain(DEVICE), drain);
}

#[test]
fn the_paper_s_controller_can_decide_too() {
    let mut play = Play::new("dyn:map=1", 20_000_000, true);
    play.wanted = 800_000_000;
    for _ in 0..40 {
        play.second();
    }
    assert!(play.changes.iter().any(|change| matches!(change, Change::Limit { .. })));
}

#[test]
fn a_device_whose_writers_wake_us_has_a_limit_only_while_it_is_written() {
    let mut play = Play::new(SPEC, 20_000_000, true);
    play.wakes = true;
    play.look();
    play.second();
    assert_eq!(play.limit, None, "nothing is dirty");
    play.now += Duration::from_millis(3);
    play.bdi.reclaimable = 512 << 10;
    play.look();
    assert_eq!(play.limit, None, "some times of files");
    play.bdi.reclaimable = 2 * MIB;
    play.look();
    assert_eq!(play.bytes(), Some(32 * MIB), "within milliseconds");
    play.wanted = 500_000_000;
    for _ in 0..28 {
        play.second();
    }
    assert!(play.limit.is_some());
    for _ in 0..32 {
        play.second();
    }
    assert_eq!(play.limit, None, "half a minute after the last write");
}

#[test]
fn a_level_that_writers_keep_up_does_not_keep_a_limit_up() {
    let mut play = Play::new(SPEC, 200_000_000, false);
    // Its drain becomes known, and then a writer keeps four gigabytes dirty whatever happens.
    play.wanted = 6_000_000_000;
    for _ in 0..5 {
        play.second();
    }
    assert!(play.bytes().is_some(), "{:?}", play.changes);
    let (kept, mut arrived) = (4_000_000_000, None);
    for second in 0..60 {
        play.now += Duration::from_secs(1);
        play.bdi.written += play.rate;
        (play.bdi.writeback, play.bdi.reclaimable) = (4 * MIB, kept - 4 * MIB);
        play.disk.writes.sectors += play.rate / SECTOR;
        play.disk.busy_ms += 1_000;
        play.look();
        let bytes = play.bytes().unwrap();
        if second < 20 {
            assert!(bytes > kept, "{bytes} in second {second}: writers would stop");
        }
        if arrived.is_none() && bytes <= 250_000_000 {
            arrived = Some(second);
        }
    }
    let arrived = arrived.expect("it arrives");
    assert!((35..=58).contains(&arrived), "half a minute, and 4 GB at 200 MB/s: {arrived}");
}
