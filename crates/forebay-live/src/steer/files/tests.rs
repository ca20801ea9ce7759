//! Loads on modelled devices, looked at four times a second.

use super::*;
use crate::number::FileKey;

/// A device that takes `own` seconds for each request and moves `bandwidth` bytes a second.
#[derive(Clone, Copy)]
struct Model {
    own: f64,
    bandwidth: f64,
    /// Whether a request pays for both, or for what is dearer.
    both: bool,
}

const VOLUME: Model = Model { own: 1.0 / 3_000.0, bandwidth: 131_072_000.0, both: false };
const DISK: Model = Model { own: 1.0 / 150.0, bandwidth: 160_000_000.0, both: true };

impl Model {
    fn rate(self, window: u64) -> f64 {
        let bytes = (window << 10) as f64 / self.bandwidth;
        1.0 / if self.both { self.own + bytes } else { self.own.max(bytes) }
    }
}

/// One open file under a load.
struct Play {
    files: Files,
    now: Instant,
    window: u64,
    progress: Progress,
    rest: f64,
    around: Around,
    cuts: bool,
    is_its: bool,
    /// Whether what is read was in memory before.
    is_cached: bool,
    /// Every change that was made.
    changes: Vec<(u64, u64)>,
}

const USER: User = User { file: FileKey { dev: DEVICE, ino: 12 }, process: 77 };
const DEVICE: DevNumber = DevNumber { major: 7, minor: 1 };
const LOOK: Duration = Duration::from_millis(250);

impl Play {
    fn new(window: u64) -> Self {
        let around = Around { available: 20 << 30, bandwidth: 130_000_000, ..Around::default() };
        Self {
            files: Files::new(Bounds::default()),
            now: Instant::ZERO,
            window,
            progress: Progress::default(),
            rest: 0.0,
            around,
            cuts: false,
            is_its: true,
            is_cached: false,
            changes: Vec::new(),
        }
    }

    /// A look in which `rate` windows a second went out, each with the progress of `moved`.
    fn look(&mut self, pattern: Pattern, rate: f64, moved: impl Fn(&mut Progress, u64)) -> bool {
        self.now += LOOK;
        self.rest += rate / 4.0;
        let windows = self.rest as u64;
        self.rest -= windows as f64;
        let before = self.progress.bytes;
        moved(&mut self.progress, windows);
        let brought = if self.is_cached { 0 } else { self.progress.bytes - before };
        let seen = Seen {
            user: USER,
            device: DEVICE,
            cuts: self.cuts,
            pattern: if windows > 0 { pattern } else { Pattern::Unclear },
            windows,
            window: (windows > 0).then_some(self.window),
            is_its: self.is_its,
            size: Some(8 << 30),
            progress: Some(self.progress),
            brought,
            threads: 1,
        };
        let Some(decision) = self.files.look(self.now, &seen, &self.around) else { return false };
        let Change::Window { from, to, .. } = decision.change else { panic!("{decision:?}") };
        assert_eq!(from, self.window, "the step begins where the window is");
        assert!(!decision.reason.is_empty() && !decision.expected.is_empty());
        self.window = to;
        self.changes.push((from, to));
        self.files.done(USER, Done::Applied);
        true
    }

    fn faults(&mut self, model: Model, looks: u32) {
        for _ in 0..looks {
            let rate = model.rate(self.window);
            self.look(Pattern::RandomFaults, rate, |progress, n| progress.major_faults += n);
        }
    }

    /// A reader of a stream that is as fast as its window lets it be.
    fn stream(&mut self, rate: impl Fn(u64) -> f64, looks: u32) {
        for _ in 0..looks {
            let (window, bytes) = (self.window, rate(self.window));
            let windows = bytes / (window << 10) as f64;
            self.look(Pattern::Stream, windows.max(4.0), |progress, _| {
                progress.bytes += (bytes / 4.0) as u64;
            });
        }
    }
}

#[test]
fn sixteen_faults_a_second_are_steered_within_a_second_and_kept() {
    let mut play = Play::new(8_192);
    play.faults(VOLUME, 4);
    assert_eq!(play.changes, [(8_192, 16)], "eight windows are clear");
    play.faults(VOLUME, 40);
    assert_eq!(play.window, 16, "{:?}", play.changes);
    assert_eq!(play.files.followed(play.now).count(), 0);
}

/// A trial's first look still paid for windows of before, the device seemed to do a seventh of its
/// requests, and the next trial was one of 256 KiB.
#[test]
fn the_first_rate_after_a_step_is_no_measure_of_the_device() {
    let mut play = Play::new(8_192);
    play.faults(VOLUME, 4);
    assert_eq!(play.window, 16);
    play.faults(Model { own: 1.0 / 450.0, ..VOLUME }, 1);
    play.faults(VOLUME, 40);
    assert!(play.changes.iter().all(|(_, to)| *to <= 32), "{:?}", play.changes);
}

#[test]
fn on_a_disk_that_seeks_the_window_follows_without_loss() {
    let mut play = Play::new(8_192);
    play.faults(DISK, 60);
    assert_eq!(play.changes[0], (8_192, 16));
    assert!((256..=1_024).contains(&play.window) || play.window == 16, "{:?}", play.changes);
    let best = DISK.rate(16);
    assert!(DISK.rate(play.window) >= 0.9 * best, "{:?}", play.changes);
}

#[test]
fn a_smaller_window_that_brings_no_more_faults_is_taken_back_and_remembered() {
    let mut play = Play::new(2_048);
    // A program that thinks for 50 ms between its faults.
    for _ in 0..60 {
        play.look(Pattern::RandomFaults, 20.0, |progress, n| progress.major_faults += n);
    }
    assert_eq!(play.window, 2_048, "{:?}", play.changes);
    let changes = play.changes.len();
    for _ in 0..200 {
        play.look(Pattern::RandomFaults, 20.0, |progress, n| progress.major_faults += n);
    }
    assert_eq!(play.changes.len(), changes, "it is not tried again");
    for _ in 0..1_200 {
        play.look(Pattern::RandomFaults, 20.0, |progress, n| progress.major_faults += n);
    }
    assert!(play.changes.len() > changes, "but after five minutes");
}

#[test]
fn pages_that_the_large_window_had_brought_count_as_progress() {
    // Neighbours of a fault are used too: fewer pages each time, more major faults, no gain.
    let mut play = Play::new(1_024);
    for _ in 0..60 {
        let window = play.window;
        let touched = 1_600;
        let major = touched / (window / 16);
        play.look(Pattern::RandomFaults, major as f64 * 4.0, |progress, n| {
            progress.major_faults += n;
            progress.minor_faults += touched - n.min(touched);
        });
    }
    assert_eq!(play.window, 1_024, "{:?}", play.changes);
}

#[test]
fn a_stream_grows_while_it_helps_and_no_further() {
    // 2 ms for each window and 300 MB a second on the wire.
    let link = |window: u64| {
        let bytes = (window << 10) as f64;
        bytes / (0.002 + bytes / 300e6)
    };
    let mut play = Play::new(128);
    play.stream(link, 80);
    assert!(link(play.window) >= 0.9 * link(16_384), "{:?}", play.changes);
    assert!(play.window <= 16_384);
}

#[test]
fn a_stream_that_four_times_the_window_slows_down_gets_twice_the_window_if_that_helps() {
    // Beyond a megabyte pieces of a window wait for each other.
    let link = |window: u64| if window <= 1_024 { window as f64 * 100e3 } else { 50e6 };
    let mut play = Play::new(128);
    play.stream(link, 120);
    assert_eq!(play.window, 1_024, "{:?}", play.changes);
}

#[test]
fn a_paced_stream_keeps_its_window() {
    let mut play = Play::new(128);
    play.stream(|_| 10e6, 80);
    assert_eq!(play.window, 128, "{:?}", play.changes);
}

#[test]
fn a_file_that_turns_from_faults_to_a_stream_gets_its_window_back() {
    let mut play = Play::new(8_192);
    play.faults(VOLUME, 40);
    assert_eq!(play.window, 16);
    play.stream(|_| 100e6, 1);
    assert_eq!(play.window, 8_192, "{:?}", play.changes);
}

/// A mapping that was scanned for 3 s and then faulted in no order kept its 8 MiB: that 16 MiB had
/// not helped the scan was taken to say that 16 KiB would not help either.
#[test]
fn what_did_not_help_a_stream_says_nothing_of_faults() {
    let mut play = Play::new(4_096);
    play.stream(|_| 125e6, 24);
    assert_eq!(play.window, 4_096, "{:?}", play.changes);
    play.faults(VOLUME, 6);
    assert_eq!(play.window, 16, "{:?}", play.changes);
    play.faults(VOLUME, 20);
    assert_eq!(play.window, 16, "and it is kept: {:?}", play.changes);
}

#[test]
fn a_trial_whose_file_turns_begins_anew_with_what_it_is_now() {
    let mut play = Play::new(128);
    play.stream(|_| 100e6, 4);
    assert_eq!(play.window, 512, "{:?}", play.changes);
    play.faults(VOLUME, 1);
    assert_eq!(play.window, 128, "the trial ended: {:?}", play.changes);
    play.faults(VOLUME, 8);
    assert_eq!(play.window, 16, "{:?}", play.changes);
}

#[test]
fn requests_whose_size_drifts_are_one_pattern() {
    let mut play = Play::new(64);
    play.cuts = true;
    for look in 0..60 {
        let (request, window) = (60 + look % 3, play.window);
        play.look(Pattern::RandomReads { request }, 1_000.0, |progress, n| {
            progress.asked += n * (window << 10);
        });
    }
    assert_eq!(play.changes, [(64, 256)]);
}

/// Runs of 512 KiB, which take the `seconds` of a window each.
fn short_runs(window: u64, pages: u64, seconds: impl Fn(f64) -> f64) -> Play {
    let mut play = Play::new(window);
    for _ in 0..200 {
        let seconds = seconds(play.window as f64);
        play.look(Pattern::ShortRuns { pages }, 4.0 / seconds, |progress, _| {
            progress.asked += (512.0 * 1_024.0 / 4.0 / seconds) as u64;
            progress.bytes += 130_000_000 / 4;
        });
    }
    play
}

/// What is read behind the end of each run costs as much as what is in it, and each request takes
/// `own` seconds.
fn wasteful(own: f64) -> impl Fn(f64) -> f64 {
    move |window| (512.0 + 1.5 * window) / 128e3 + (1.0 + 512.0 / window) * own
}

#[test]
fn short_runs_get_a_window_that_wastes_less() {
    let play = short_runs(8_192, 128, wasteful(0.0));
    assert_eq!(play.window, 128, "bytes that were not asked for are no progress");
    assert_eq!(play.changes[0], (8_192, 128));
    let tried = play.changes[1..].iter().map(|(_, to)| *to).collect::<Vec<_>>();
    assert!(tried.iter().all(|to| [128, 256, 512].contains(to)), "{tried:?}");
}

#[test]
fn short_runs_grow_from_their_first_window_where_requests_cost_much() {
    for (own, window, pages) in [(0.0005, 8_192, 32), (0.004, 8_192, 32), (0.004, 128, 128)] {
        let play = short_runs(window, pages, wasteful(own));
        let best = (4..15).map(|power| wasteful(own)(f64::from(1 << power))).reduce(f64::min);
        let reached = wasteful(own)(play.window as f64);
        assert!(reached < 1.07 * best.unwrap(), "{own}: {:?}", play.changes);
    }
    let play = short_runs(8_192, 32, |window| if window <= 128.0 { 0.1 / window } else { 0.01 });
    assert_eq!(play.window, 128, "{:?}", play.changes);
}

#[test]
fn a_reader_of_what_is_cached_is_no_stream() {
    let mut play = Play::new(128);
    play.is_cached = true;
    play.stream(|_| 3e9, 40);
    assert_eq!(play.changes, []);
    play.is_cached = false;
    play.stream(|window| 1e6 * window as f64, 120);
    assert_eq!(play.changes[0], (128, 512), "until it reads what is not");
}

#[test]
fn a_file_that_will_soon_be_cached_keeps_its_large_window() {
    let mut play = Play::new(8_192);
    play.around.bandwidth = 3_000_000_000;
    play.faults(VOLUME, 40);
    assert_eq!(play.changes, [], "8 GiB in three seconds");
    play.around.thrashes = true;
    play.faults(VOLUME, 2);
    assert_eq!(play.changes[0], (8_192, 16), "but not if pages do not stay");
}

#[test]
fn a_file_whose_window_does_not_matter_is_left_alone() {
    let mut play = Play::new(8_192);
    for pattern in [Pattern::RandomReads { request: 16 }, Pattern::Unclear] {
        for _ in 0..20 {
            play.look(pattern, 2_000.0, |progress, n| progress.bytes += n * 65_536);
        }
    }
    assert_eq!(play.changes, []);
}

#[test]
fn a_file_that_is_opened_again_gets_the_window_that_was_kept() {
    let mut play = Play::new(8_192);
    play.faults(VOLUME, 44);
    assert_eq!(play.window, 16);
    let before = play.changes.len();
    play.window = 8_192;
    play.faults(VOLUME, 1);
    assert_eq!(play.changes.len(), before, "the first events may be old ones");
    play.faults(VOLUME, 1);
    assert_eq!(play.changes[before..], [(8_192, 16)]);
    play.faults(VOLUME, 40);
    assert_eq!(play.changes.len(), before + 1, "it is settled as before");
    // One that keeps its old window is left alone after some tries, until it has the new one.
    for _ in 0..20 {
        play.window = 8_192;
        play.faults(VOLUME, 1);
    }
    assert_eq!(play.changes.len(), before + 4, "{:?}", play.changes);
    play.window = 16;
    play.faults(VOLUME, 2);
    play.window = 8_192;
    play.faults(VOLUME, 2);
    assert_eq!(play.changes.len(), before + 5, "{:?}", play.changes);
}

#[test]
fn another_users_window_is_no_sign_that_a_file_was_opened_again() {
    let mut play = Play::new(8_192);
    play.faults(VOLUME, 44);
    let before = play.changes.len();
    play.is_its = false;
    play.window = 8_192;
    play.faults(VOLUME, 4);
    assert_eq!(play.changes.len(), before);
}

#[test]
fn what_was_refused_is_not_asked_again() {
    let mut files = Files::new(Bounds::default());
    let mut asked = 0;
    for look in 1..100 {
        let seen = Seen {
            user: USER,
            device: DEVICE,
            cuts: false,
            pattern: Pattern::RandomFaults,
            windows: 10,
            window: Some(8_192),
            is_its: true,
            size: None,
            progress: Some(Progress { major_faults: look * 10, ..Progress::default() }),
            brought: 0,
            threads: 1,
        };
        let now = Instant::ZERO + LOOK.times(look);
        if files.look(now, &seen, &Around::default()).is_some() {
            asked += 1;
            files.done(USER, Done::Refused);
        }
    }
    assert_eq!(asked, 1);
}

#[test]
fn the_number_of_files_is_bounded() {
    let mut files = Files::new(Bounds::default());
    for ino in 0..10 * OPEN_MAX as u64 {
        let user = User { file: FileKey { dev: DEVICE, ino }, process: 1 };
        let seen = Seen {
            user,
            device: DEVICE,
            cuts: false,
            pattern: Pattern::Stream,
            windows: 1,
            window: Some(128),
            is_its: true,
            size: None,
            progress: None,
            brought: 0,
            threads: 1,
        };
        assert_eq!(files.look(Instant(ino), &seen, &Around::default()), None);
        assert!(files.open.len() <= OPEN_MAX);
    }
    files.exited(1);
    assert!(files.open.is_empty());
}

#[test]
fn what_cannot_be_done_yet_is_asked_again_as_it_was() {
    let mut play = Play::new(8_192);
    let mut owed = None;
    for look in 0..40 {
        play.now += LOOK;
        play.progress.major_faults += 4;
        let seen = Seen {
            user: USER,
            device: DEVICE,
            cuts: false,
            pattern: Pattern::RandomFaults,
            windows: 4,
            window: Some(8_192),
            is_its: true,
            size: Some(8 << 30),
            progress: Some(play.progress),
            brought: 0,
            threads: 1,
        };
        let decision = play.files.look(play.now, &seen, &play.around);
        if let Some(first) = &owed {
            assert_eq!(decision.as_ref(), Some(first), "look {look}");
        }
        if decision.is_some() {
            owed = decision;
            play.files.done(USER, Done::Later);
        }
    }
    assert!(owed.is_some(), "it was wanted");
    assert_eq!(play.files.followed(play.now).count(), 0, "and causes no wake-ups");
    let faults = |progress: &mut Progress, windows| progress.major_faults += windows;
    play.look(Pattern::RandomFaults, 16.0, faults);
    assert_eq!((play.window, play.files.followed(play.now).count()), (16, 1), "done after all");
}
