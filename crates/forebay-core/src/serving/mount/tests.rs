//! A mount asked by hand.

use std::vec::Vec;

use super::*;
use crate::serving::Segment;

/// A mount of files of 1000 pages, asked by hand.
fn mount(policy: &str, ahead: Ahead) -> MountRules {
    let path = PathConfig { frames: 64, requests_max: 4, keeps_raw: false, image_bytes: 1 << 20 };
    let policy = Spec::parse(policy).unwrap();
    let mut mount = MountRules::new(&MountConfig { path, policy, ahead, only_asked: false });
    for file in 1..=9 {
        mount.open_file(file, 1000 * PAGE_SIZE);
    }
    mount
}

fn read(file: u64, start: u64, end: u64) -> ReadCall {
    ReadCall { task: 7, file, pages: Pages::new(start, end), is_direct: false }
}

/// A READ that is answered at once; the runs that are to be pushed then.
fn answer(mount: &mut MountRules, call: ReadCall) -> Vec<(u64, u64, u64)> {
    let Verdict::Answer(plan) = mount.read(&call, || false) else { panic!("it is refused") };
    mount.answered(Instant::ZERO, &call, plan, false);
    mount.check();
    pushes(mount)
}

fn pushes(mount: &mut MountRules) -> Vec<(u64, u64, u64)> {
    core::iter::from_fn(|| mount.next_push())
        .map(|push| (push.file, push.pages.start, push.pages.end))
        .collect()
}

fn program() -> ProgramPages {
    let segment = |pages: u64, end: u64, is_written, is_code| Segment {
        offset: pages * PAGE_SIZE,
        bytes: (end - pages) * PAGE_SIZE,
        is_written,
        is_code,
    };
    ProgramPages::new([
        segment(0, 4, false, false),
        segment(4, 100, false, true),
        segment(100, 110, true, false),
    ])
}

#[test]
fn a_window_around_a_fault_is_refused_and_the_loaders_pages_are_pushed() {
    let mut mount = mount("selective-then-idle", Ahead::Both);
    mount.set_kind(1, Some(program()));
    let verdict = mount.read(&read(1, 40, 72), || false);
    assert_eq!(verdict, Verdict::Refuse { touched: Some(56), fetch: Pages::none(40) });
    assert_eq!(pushes(&mut mount), [(1, 0, 4), (1, 100, 110)]);
    let pair = answer(&mut mount, read(1, 56, 57));
    assert!(pair.contains(&(1, 57, 58)) || pair.iter().any(|push| push.1 == 57), "{pair:?}");
    mount.read(&read(1, 200, 232), || false);
    assert_eq!(pushes(&mut mount), [], "once");
}

#[test]
fn a_reader_gets_its_windows() {
    let mut mount = mount("selective-then-idle", Ahead::Both);
    mount.set_kind(1, None);
    for start in [0, 32, 64] {
        assert_eq!(answer(&mut mount, read(1, start, start + 32)), [], "the kernel asks itself");
    }
}

#[test]
fn what_goes_past_the_page_cache_is_no_window() {
    for ahead in [Ahead::Both, Ahead::Kernel, Ahead::Ours] {
        let mut mount = mount("selective-then-idle", ahead);
        let call = ReadCall { is_direct: true, ..read(1, 40, 72) };
        assert_eq!(mount.read(&call, || false), Verdict::Answer(None));
        mount.failed(&call);
        mount.check();
    }
}

#[test]
fn a_page_that_was_given_is_not_pushed_again_and_is_lost_if_it_is_asked_for() {
    let mut mount = mount("off", Ahead::Ours);
    let run = |start, end| FilePages { file: 1, pages: Pages::new(start, end) };
    assert_eq!(mount.absent(&run(8, 40), 16), (run(8, 24), 0));
    assert!(mount.begin_push(Instant::ZERO, &run(8, 24)));
    mount.end_push(&run(8, 24));
    assert_eq!(mount.absent(&run(8, 40), 16), (run(24, 40), 0));
    let later = Instant::ZERO + Duration::from_secs(9);
    let call = read(1, 10, 11);
    assert_eq!(mount.read(&call, || false), Verdict::Answer(None));
    assert!(mount.answered(later, &call, None, false).is_lost);
    assert_eq!(mount.absent(&run(8, 40), 16).0, run(8, 10), "all around it is forgotten");
    assert!(mount.begin_push(later, &run(8, 10)));
    mount.end_push(&run(8, 10));
    assert!(mount.forget(1) && !mount.forget(1), "what was pushed is forgotten once");
    mount.check();
}

#[test]
fn pages_of_a_read_that_is_not_answered_are_not_pushed() {
    let mut mount = mount("off", Ahead::Ours);
    let run = |start, end| FilePages { file: 1, pages: Pages::new(start, end) };
    let call = read(1, 8, 10);
    mount.read(&call, || false);
    assert_eq!(mount.absent(&run(8, 40), 16), (run(10, 26), 2));
    assert_eq!(mount.absent(&run(7, 40), 16), (run(7, 8), 0), "in front of it");
    assert!(!mount.begin_push(Instant::ZERO, &run(9, 12)));
    mount.failed(&call);
    assert!(mount.begin_push(Instant::ZERO, &run(9, 12)));
    mount.check();
}

#[test]
fn the_next_file_of_a_folder_is_pushed_whole_if_it_is_small() {
    let mut mount = mount("selective-then-idle", Ahead::Both);
    let files: Vec<u64> = (20..40).collect();
    for file in &files {
        mount.open_file(*file, 3 * PAGE_SIZE - 1);
    }
    mount.list_folder(&files);
    let next: Vec<Option<u64>> = (20..30).map(|file| mount.next_file(&read(file, 0, 3))).collect();
    assert!(next[..5].iter().all(Option::is_none) && next[9].is_some(), "{next:?}");
    assert_eq!(mount.next_file(&read(31, 1, 3)), None, "it does not begin");
    mount.push_small(33);
    mount.push_small(1);
    assert_eq!(pushes(&mut mount), [(33, 0, 3)]);
}

#[test]
fn reads_past_the_page_cache_give_the_kernel_no_pages() {
    let mut mount = mount("eager", Ahead::Ours);
    let direct = ReadCall { is_direct: true, ..read(1, 0, 1) };
    for at in [0, 1_000_000_000, 2_000_000_000] {
        mount.read(&direct, || false);
        let after = mount.answered(Instant(at), &direct, None, false);
        assert!(!after.is_lost, "none was there to be dropped");
    }
    assert!(!mount.has_pushes(), "nor is one pushed behind them");
    assert_eq!(mount.next_file(&direct), None);
    mount.read(&read(1, 0, 1), || false);
    let after = mount.answered(Instant(3_000_000_000), &read(1, 0, 1), None, false);
    assert!(!after.is_lost && mount.has_pushes(), "the first one through the page cache");
}

#[test]
fn files_have_a_limit_and_those_used_longest_ago_go() {
    let mut mount = mount("off", Ahead::Ours);
    let push = |file| FilePages { file, pages: Pages::new(0, 1) };
    for file in 100..100 + FILES_MAX as u64 {
        mount.open_file(file, PAGE_SIZE);
        assert!(mount.begin_push(Instant::ZERO, &push(file)));
        mount.end_push(&push(file));
        mount.file_bytes(100);
    }
    mount.check();
    assert_eq!(mount.file_bytes(1), None);
    let kept = mount.file_bytes(100 + FILES_MAX as u64 / 4);
    assert_eq!(kept, Some(PAGE_SIZE), "no more than a quarter went");
    assert_eq!(mount.file_bytes(100 + FILES_MAX as u64 - 1), Some(PAGE_SIZE));
    // What is asked of a file that is not known any more ends all the same.
    let call = read(1, 0, 1);
    assert_eq!(mount.read(&call, || false), Verdict::Answer(None));
    mount.answered(Instant::ZERO, &call, None, true);
    mount.check();
}
