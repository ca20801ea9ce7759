//! The published formulas on given loads, every reading of open questions, and seconds of drain.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::super::{Spec, Traffic};
use super::*;
use crate::time::Duration;
use crate::units::PAGE_SIZE;

/// A second of one disk: how long it was busy and how much of its work was writing, in thousandths.
fn second(busy: u64, writes: u64) -> Sample {
    let traffic = |requests| Traffic {
        requests,
        sectors: 8 * requests,
        time: Duration::from_micros(requests),
    };
    let any = u64::from(busy > 0);
    Sample {
        elapsed: Duration::from_secs(1),
        busy: Duration::from_millis(busy),
        reads: traffic((1_000 - writes) * any),
        writes: traffic(writes * any),
        total: 1 << 24,
        ..Sample::default()
    }
}

/// The knobs after some seconds of one disk.
fn knobs(spec: &str, seconds: &[Sample]) -> Knobs {
    let mut controller = Spec::parse(spec).unwrap().build();
    let begun = controller.begin(Knobs::LINUX, 1 << 20);
    seconds.iter().fold(begun, |knobs, one| controller.observe(&[*one], knobs))
}

/// nfract, ndirty and interval in knobs.
fn fields(knobs: Knobs) -> (u32, u64, u64) {
    let Amount::Share(limit) = knobs.limit else { panic!("no share: {knobs:?}") };
    assert_eq!(knobs.background, Amount::Share(limit / 2), "the asynchronous level is half");
    let interval = knobs.interval.as_nanos() / JIFFY.as_nanos();
    (limit / 10_000, knobs.batch.unwrap_or(0), interval)
}

type Vector = ([(u64, u64); 3], (u32, u64, u64), (u32, u64, u64));

/// Load and share of writes of three seconds in thousandths; the fields by 1/x and by a line.
const VECTORS: [Vector; 12] = [
    ([(1000, 1000); 3], (100, 300, 500), (100, 300, 500)),
    ([(0, 0); 3], (30, 1000, 15), (30, 1000, 15)),
    ([(1000, 0); 3], (30, 1000, 15), (30, 1000, 15)),
    ([(1000, 500); 3], (50, 600, 250), (50, 650, 258)),
    ([(500, 1000); 3], (100, 600, 250), (100, 650, 258)),
    ([(200, 1000); 3], (100, 1000, 100), (100, 860, 112)),
    ([(0, 0), (1000, 1000), (1000, 1000)], (67, 675, 222), (67, 689, 231)),
    ([(900, 800), (1000, 900), (800, 1000)], (90, 370, 405), (90, 433, 408)),
    ([(1000, 100), (1000, 200), (1000, 300)], (30, 1000, 100), (30, 860, 112)),
    ([(30, 1000); 3], (100, 1000, 15), (100, 979, 30)),
    ([(600, 250), (600, 350), (600, 450)], (35, 1000, 105), (35, 853, 117)),
    ([(100, 100); 3], (30, 1000, 15), (30, 993, 20)),
];

#[test]
fn the_fields_follow_load_times_share_of_writes() {
    for (seconds, published, affine) in VECTORS {
        let samples = seconds.map(|(busy, writes)| second(busy, writes));
        assert_eq!(fields(knobs("dyn", &samples)), published, "{seconds:?}");
        assert_eq!(fields(knobs("dyn:affine=on", &samples)), affine, "{seconds:?}, affine");
    }
}

#[test]
fn the_other_fields_stay_as_they_are() {
    let turned = knobs("dyn", &[second(1_000, 1_000); 3]);
    assert_eq!((turned.expire, turned.in_flight), (Knobs::LINUX.expire, Knobs::LINUX.in_flight));
}

#[test]
fn windows_stand_side_by_side_unless_they_slide() {
    let mut seconds: Vec<_> = [second(1_000, 1_000); 3].into();
    assert_eq!(knobs("dyn", &seconds[..2]), Knobs::LINUX, "no window is full");
    seconds.push(second(0, 0));
    assert_eq!(fields(knobs("dyn", &seconds)), (100, 300, 500), "the second one is not full");
    assert_eq!(fields(knobs("dyn:sliding=on", &seconds)), (67, 675, 222));
    seconds.extend([second(0, 0); 2]);
    assert_eq!(fields(knobs("dyn", &seconds)), (30, 1_000, 15));
    assert_eq!(fields(knobs("dyn:n=6", &seconds)), (50, 1_000, 125), "x is a quarter");
}

#[test]
fn averages_of_sums_do_not_count_idle_seconds_as_reading() {
    let seconds = [second(0, 0), second(1_000, 1_000), second(1_000, 1_000)];
    assert_eq!(fields(knobs("dyn:sums=on", &seconds)), (100, 450, 333), "L is 2/3, W is 1");
}

#[test]
fn an_idle_second_keeps_the_share_of_writes_if_asked_to() {
    let mut seconds: Vec<_> = [second(1_000, 1_000); 3].into();
    seconds.extend([second(0, 0); 3]);
    assert_eq!(fields(knobs("dyn:hold=on", &seconds)), (100, 1_000, 15));
    assert_eq!(fields(knobs("dyn:hold=on,sums=on", &seconds)), (100, 1_000, 15));
    assert_eq!(fields(knobs("dyn:sums=on", &seconds)), (30, 1_000, 15));
}

#[test]
fn the_share_of_writes_is_one_of_operations_or_sectors_or_time() {
    let traffic = |requests, sectors, micros| Traffic {
        requests,
        sectors,
        time: Duration::from_micros(micros),
    };
    let mixed =
        Sample { reads: traffic(50, 400, 300), writes: traffic(50, 600, 700), ..second(1_000, 0) };
    let nfract = |share| fields(knobs(&format!("dyn:share={share}"), &[mixed; 3])).0;
    assert_eq!([0, 1, 2].map(nfract), [50, 60, 70]);
}

#[test]
fn load_and_share_of_writes_can_count_otherwise_than_as_a_product() {
    let seconds = [second(500, 800); 3];
    let of = |factor| fields(knobs(&format!("dyn:factor={factor}"), &seconds));
    assert_eq!(of(0), (80, 750, 200), "x is 0.4");
    assert_eq!(of(1), (80, 600, 250), "x is 0.5");
    assert_eq!(of(2), (80, 375, 400), "x is 0.8");
}

#[test]
fn several_disks_are_their_mean_or_their_busiest() {
    let observe = |spec| {
        let mut controller = Spec::parse(spec).unwrap().build();
        let array = [second(1_000, 1_000), second(0, 0), second(500, 1_000), second(500, 1_000)];
        fields((0..3).fold(Knobs::LINUX, |knobs, _| controller.observe(&array, knobs)))
    };
    assert_eq!(observe("dyn"), (100, 600, 250));
    assert_eq!(observe("dyn:busiest=on"), (100, 300, 500));
}

#[test]
fn the_bounded_policy_caps_nfract() {
    let seconds = [second(1_000, 1_000); 3];
    assert_eq!(fields(knobs("dyn-bounded", &seconds)), (60, 300, 500));
    assert_eq!(fields(knobs("dyn-bounded:cap=75", &seconds)), (75, 300, 500));
    assert_eq!(fields(knobs("dyn-bounded", &[second(1_000, 0); 3])), (30, 1_000, 15));
}

#[test]
fn limits_are_one_to_eight_seconds_of_drain() {
    // 40 MB/s and 2 MB/s in pages, rounded down.
    let (fast, slow) = (9_765, 488);
    let of = |writes, drain, part| {
        let sample = Sample { drain: Some(drain), ..second(1_000, writes) };
        let knobs = knobs(&format!("dyn:map=1,part={part}"), &[sample; 3]);
        assert_eq!((knobs.interval, knobs.batch), (Knobs::LINUX.interval, Knobs::LINUX.batch));
        let (Amount::Pages(limit), Amount::Pages(background)) = (knobs.limit, knobs.background)
        else {
            panic!("no pages: {knobs:?}");
        };
        (limit, background)
    };
    let vectors = [(0, 40_000_000), (650, 180_000_000), (1_000, 320_000_000)];
    for (writes, bytes) in vectors {
        let (limit, background) = of(writes, fast, 2);
        assert_eq!(background, limit / 2);
        let short = bytes - limit * PAGE_SIZE;
        assert!(short < bytes / 10_000, "{short} of {bytes} is rounding");
    }
    assert_eq!(of(1_000, slow, 2), (8_192, 4_096), "16 MB are raised to 32 MiB");
    assert_eq!(of(1_000, fast, 8), (78_120, 9_765));
    assert_eq!(of(1_000, 1 << 40, 2).0, 1 << 20, "4 GiB");
}

#[test]
fn the_age_follows_the_interval_in_seconds_of_drain() {
    let expire = |busy, writes| {
        let sample = Sample { drain: Some(9_765), ..second(busy, writes) };
        knobs("dyn:map=1", &[sample; 3]).expire.as_nanos() / JIFFY.as_nanos()
    };
    assert_eq!(expire(1_000, 1_000), 3_000);
    assert_eq!(expire(0, 0), 500);
    assert_eq!(expire(1_000, 500), 1_500);
}

#[test]
fn without_a_measured_drain_or_a_change_of_a_tenth_nothing_moves() {
    assert_eq!(knobs("dyn:map=1", &[second(1_000, 1_000); 3]), Knobs::LINUX);
    let with = |drain| Sample { drain: Some(drain), ..second(1_000, 1_000) };
    let before = knobs("dyn:map=1", &[with(10_000); 3]);
    assert_eq!(before.limit, Amount::Pages(80_000));
    let seconds = [with(10_000), with(10_000), with(10_000), with(0), with(0), with(11_000)];
    assert_eq!(knobs("dyn:map=1", &seconds), before);
    let seconds = [with(10_000), with(10_000), with(10_000), with(0), with(0), with(11_001)];
    assert_eq!(knobs("dyn:map=1", &seconds).limit, Amount::Pages(88_008));
}

#[test]
fn ends_that_are_exchanged_are_rejected() {
    let message = |text| Spec::parse(text).unwrap_err().to_string();
    assert_eq!(
        message("dyn:min_ndirty=2000"),
        "the policy 'dyn': min_ndirty must not lie above max_ndirty"
    );
    assert_eq!(
        message("dyn-bounded:min_nfract=61"),
        "the policy 'dyn-bounded': min_nfract must not lie above cap"
    );
    assert_eq!(
        message("dyn:max_interval=14"),
        "the policy 'dyn': min_interval must not lie above max_interval"
    );
}
