//! The control law against the compiled functions of the kernel, and the policy around it.

use std::vec;
use std::vec::Vec;

use super::super::Spec;
use super::super::testing::{BACKGROUND, LIMIT, view};
use super::*;

const MIDDLE: Thresholds = Thresholds { thresh: LIMIT, background: BACKGROUND, limit: LIMIT };

fn levels(thresh: u64, dirty: u64, bandwidth: u64) -> Levels {
    Levels { thresh, dirty, bandwidth, strict: false }
}

#[test]
fn the_ratio_falls_from_freerun_to_the_limit() {
    assert_eq!((MIDDLE.freerun(), MIDDLE.setpoint()), (24_576, 28_672));
    for (dirty, cubic, ratio) in [
        (0, 2048, 22_256),
        (16_384, 2048, 2362),
        (24_576, 2045, 2149),
        (26_000, 1306, 1349),
        (28_000, 1028, 1036),
        (28_672, 1024, 1023),
        (29_000, 1023, 1018),
        (30_000, 989, 972),
        (31_000, 837, 812),
        (32_000, 477, 457),
        (32_700, 53, 50),
        (32_767, 2, 1),
        (32_768, 2, 0),
    ] {
        let device = levels(LIMIT, dirty, 10_000);
        assert_eq!(ratio::cubic(28_672, dirty, LIMIT), cubic, "{dirty}");
        assert_eq!(MIDDLE.position_ratio(dirty, &device), ratio, "{dirty}");
    }
}

#[test]
fn a_slow_device_is_steered_by_its_own_share() {
    for (dirty, own, ratio) in [
        (28_672, 100, 14_416),
        (28_672, 400, 8883),
        (28_672, 2048, 1366),
        (28_672, 3584, 1023),
        (28_672, 6000, 483),
        (28_672, 8000, 256),
        (28_672, 20_000, 256),
        (20_000, 3584, 2047),
    ] {
        let device = levels(4096, own, 1000);
        assert_eq!(MIDDLE.position_ratio(dirty, &device), ratio, "{dirty} {own}");
    }
}

#[test]
fn a_strict_device_is_bound_far_below_the_limit_of_all() {
    let far = Thresholds { thresh: 1_000_000, background: 500_000, limit: 1_000_000 };
    for (own, ratio) in [
        (7, 2048),
        (8, 2048),
        (12_288, 2048),
        (20_000, 1201),
        (24_576, 1024),
        (26_000, 1018),
        (28_672, 896),
        (30_000, 728),
        (32_000, 264),
        (32_767, 2),
        (32_768, 0),
    ] {
        let device = Levels { strict: true, ..levels(LIMIT, own, 10_000) };
        assert_eq!(far.background_of(&device), 16_384);
        assert_eq!(far.position_ratio(40_000, &device), ratio, "{own}");
    }
}

#[test]
fn the_bandwidth_is_learnt_over_seconds() {
    let vectors = [
        (1, 24_838, 25_600),
        (2, 24_113, 25_505),
        (3, 23_423, 25_331),
        (5, 22_143, 24_803),
        (10, 19_452, 22_887),
        (20, 15_726, 18_712),
        (40, 12_097, 13_404),
    ];
    for hz in [250, 1000] {
        let mut bandwidth = Bandwidth { last: INITIAL, average: INITIAL };
        let steps: Vec<_> = (1..=40)
            .map(|step| {
                bandwidth.update(2_000, hz / 5, hz);
                (step, bandwidth.last, bandwidth.average)
            })
            .collect();
        for vector in vectors {
            assert!(steps.contains(&vector), "{vector:?} at {hz} Hz");
        }
    }
}

#[test]
fn after_a_long_time_only_the_new_bandwidth_counts() {
    let mut bandwidth = Bandwidth { last: INITIAL, average: INITIAL };
    bandwidth.update(15_000, 1_500, 250);
    assert_eq!(bandwidth, Bandwidth { last: 2_500, average: 2_500 });
}

#[test]
fn the_rate_limit_moves_towards_balance_in_damped_steps() {
    for (dirty, rate, balanced, dirtied, new) in [
        (32_000, 25_600, 25_600, 20_000, (25_600, 1142)),
        (32_000, 25_600, 1250, 20_000, (23_828, 1142)),
        (31_000, 2000, 1250, 3200, (1987, 991)),
        (28_672, 1250, 1250, 2000, (1250, 1248)),
        (26_000, 1250, 1250, 2000, (1250, 1646)),
        (26_000, 600, 1250, 900, (612, 1757)),
        (26_000, 600, 1250, 4, (612, 10_000)),
        (32_767, 1250, 1250, 2000, (1250, 1)),
    ] {
        let mut limit = RateLimit { rate, balanced };
        let elapsed = Elapsed { dirtied, jiffies: 50 };
        limit.update((&MIDDLE, dirty), &levels(LIMIT, dirty, 10_000), elapsed, 250);
        assert_eq!((limit.rate, limit.balanced), new, "{dirty} {rate} {balanced} {dirtied}");
    }
}

#[test]
fn pauses_are_bounded_by_the_devices_work_and_by_the_number_of_writers() {
    for (hz, bandwidth, dirty, rate, bounds) in [
        (100, 10_000, 28_672, 10_000, (20, 1, 78)),
        (100, 10_000, 28_672, 1250, (20, 2, 32)),
        (250, 10_000, 28_672, 10_000, (50, 2, 78)),
        (250, 10_000, 28_672, 1250, (50, 5, 43)),
        (250, 10_000, 2000, 1250, (7, 4, 32)),
        (250, 100_000, 28_672, 100_000, (10, 2, 781)),
        (250, 256, 500, 32, (50, 50, 6)),
        (1000, 10_000, 28_672, 10_000, (200, 6, 97)),
        (1000, 10_000, 28_672, 1250, (200, 20, 47)),
        (1000, 10_000, 2000, 1250, (26, 26, 31)),
        (1000, 256, 500, 32, (167, 167, 5)),
    ] {
        let found = Bounds::new(hz, dirty, bandwidth, rate, rate);
        assert_eq!((found.max_pause, found.min_pause, found.pages), bounds, "{hz} {rate} {dirty}");
    }
}

/// A task that has thought for `think` jiffies, decided upon at jiffy 10000 of 250 a second.
fn decide(pages: u64, rate: u64, think: Option<u64>, min_pause: u64) -> (Option<u64>, Task) {
    let paused_when = think.map_or(0, |think| 10_000 - think);
    let mut task = Task { nr_dirtied: pages, nr_dirtied_pause: 16, paused_when };
    let bounds = Bounds { max_pause: 50, min_pause, pages: 43 };
    (task.decide(10_000, 250, pages, rate, &bounds), task)
}

#[test]
fn one_check_sleeps_carries_or_forgets() {
    let slept = |pause, paused_when| {
        (Some(pause), Task { nr_dirtied: 0, nr_dirtied_pause: 43, paused_when })
    };
    let free = |nr_dirtied, nr_dirtied_pause, paused_when| {
        (None, Task { nr_dirtied, nr_dirtied_pause, paused_when })
    };
    assert_eq!(decide(64, 1250, None, 5), slept(12, 10_012));
    assert_eq!(decide(64, 1250, Some(3), 5), slept(9, 10_009));
    assert_eq!(decide(64, 1250, Some(9), 5), free(0, 16, 9_991 + 12));
    assert_eq!(decide(64, 1250, Some(400), 5), free(0, 16, 10_000));
    assert_eq!(decide(16, 10_000, Some(0), 2), free(16, 32, 10_000));
    assert_eq!(decide(128, 300, Some(4), 5), slept(50, 10_000 + 50 + 50));
    assert_eq!(decide(64, 0, Some(4), 5), slept(50, 10_050));
}

#[test]
fn below_the_middle_checks_are_rare_and_near_the_limit_frequent() {
    for (dirty, thresh, pages) in [
        (0, 32_768, 128),
        (24_576, 32_768, 64),
        (32_767, 32_768, 1),
        (32_768, 32_768, 1),
        (0, 1_048_576, 1024),
        (40_000, 32_768, 1),
    ] {
        assert_eq!(poll_interval(dirty, thresh), pages, "{dirty} {thresh}");
    }
}

#[test]
fn a_falling_limit_is_followed_slowly() {
    let vectors = [
        (1, 1_016_832),
        (2, 986_080),
        (5, 899_471),
        (22, 537_983),
        (50, 240_463),
        (100, 75_243),
        (150, 41_466),
    ];
    let mut limit = 1_048_576;
    let steps: Vec<_> = (1..=150)
        .map(|step| {
            limit = follow(limit, 32_768, 20_000);
            (step, limit)
        })
        .collect();
    for vector in vectors {
        assert!(steps.contains(&vector), "{vector:?}");
    }
    assert_eq!(follow(1_000, 2_000, 0), 2_000, "a rising one at once");
    assert_eq!(follow(40_000, 32_768, 41_000), 40_000, "not below what is dirty");
}

/// Rows of a traced Linux 6.18 at 250 Hz; rates in KB/s, times in ms.
#[test]
fn a_traced_kernel_is_predicted() {
    for (limit, background, setpoint, dirty, thresh, own, bandwidth, rate, task, think, pause) in [
        (65_536, 2048, 49_664, 36_570, 27_101, 36_579, 9236, 6508, 6632, 4, Some(32)),
        (65_536, 2048, 49_664, 38_231, 31_498, 38_289, 9460, 6508, 6480, 100, None),
        (32_768, 16_384, 28_672, 29_539, 29_575, 29_536, 8858, 7072, 6616, 4, Some(32)),
        (32_768, 16_384, 28_672, 30_475, 30_656, 30_472, 9111, 6980, 6052, 12, Some(28)),
        (32_768, 16_384, 28_672, 30_762, 31_241, 30_836, 9404, 6888, 5680, 4, Some(40)),
    ] {
        let all = Thresholds { thresh: limit, background, limit };
        assert_eq!(all.setpoint(), setpoint);
        let ratio = all.position_ratio(dirty, &levels(thresh, own, bandwidth));
        let task_rate = scaled(rate / 4, ratio);
        assert_eq!(task_rate * 4, task, "{dirty}");
        let (slept, _) = decide(64, task_rate, Some(think / 4), 5);
        assert_eq!(slept.map(|jiffies| jiffies * 4), pause, "{dirty}");
    }
}

fn policy(spec: &str) -> Box<dyn Throttle> {
    Spec::parse(spec).unwrap().build()
}

#[test]
fn a_new_task_is_checked_after_its_32nd_page() {
    let mut policy = policy("linux-3.18");
    let full = view(2_000, LIMIT);
    let asked: Vec<_> = (0..32).map(|_| policy.on_dirtied(CallId(0), &full)).collect();
    assert!(asked[..31].iter().all(Option::is_none));
    assert_eq!(asked[31], Some(Duration::from_millis(4 * 41)), "a rate of zero");
}

#[test]
fn at_a_rate_of_zero_a_task_is_asked_again_and_otherwise_sleeps_once() {
    let mut policy = policy("linux-3.18");
    for _ in 0..32 {
        policy.on_dirtied(CallId(0), &view(2_000, LIMIT));
    }
    let again = |millis, dirty| DirtyView { again: true, newly: false, ..view(millis, dirty) };
    let longest = Some(Duration::from_millis(4 * 41));
    assert_eq!(policy.on_dirtied(CallId(0), &again(2_200, LIMIT)), longest);
    assert_eq!(policy.on_dirtied(CallId(0), &again(2_400, 24_000)), None, "below the middle");
    assert_eq!(policy.on_dirtied(CallId(0), &again(2_600, LIMIT)), None, "it sleeps no more");
}

#[test]
fn the_processors_guard_forces_a_check_across_tasks() {
    // A 32nd of 640 pages is 20; of each of two processors it is 10, and the least is 16. A task
    // that was checked at a rate of zero is checked at each page.
    for (cpus, forced) in [("1", vec![19, 29, 39]), ("2", vec![30, 31])] {
        let mut policy = policy(&std::format!("linux-3.18:cpus={cpus}"));
        let full = DirtyView { limit: 640, background: 0, ..view(0, 640) };
        let mut asks = |page: &u32| policy.on_dirtied(CallId(page % 10), &full).is_some();
        let found: Vec<_> = (0..40).filter(|page| asks(page)).collect();
        assert_eq!(found, forced, "{cpus} processors");
    }
}
