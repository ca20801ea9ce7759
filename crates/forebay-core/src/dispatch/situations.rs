//! The caller's loss with `adaptive` compared with the better fixed rule, in many situations.

use std::boxed::Box;
use std::format;
use std::string::String;

use super::testing::{Always, READ, Rivals, Situation, TAIL, done, lost, rule, solid};
use super::{Dispatch, Handling, Processor};
use crate::time::{Duration, Instant};

/// Hundredths of a percent.
const LOSS_MAX: u64 = 300;

const TIMES_US: [u64; 11] = [5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];

const SWITCHES_US: [u64; 3] = [2, 10, 40];

/// The worst loss over the grid at the end of runs of each length in seconds, and its position.
fn worst<const N: usize>(
    programmed: bool,
    rivals: Rivals,
    seconds: [u64; N],
) -> [(u64, String); N] {
    let ends = seconds.map(|seconds| Instant::ZERO + Duration::from_secs(seconds));
    let mut worst = seconds.map(|_| (0, String::new()));
    for time in TIMES_US {
        for switch in SWITCHES_US {
            let situation = Situation {
                times: &[(Instant::ZERO, Duration::from_micros(time))],
                tail: TAIL,
                switch: Duration::from_micros(switch),
                programmed,
                rivals,
            };
            let losses = lost("adaptive", &situation, ends);
            for (loss, worst) in losses.into_iter().zip(&mut worst) {
                if loss > worst.0 {
                    *worst = (loss, format!("{time} us, switch {switch} us"));
                }
            }
        }
    }
    worst
}

/// The worst losses with these competitors at the end of 20 and of 30 seconds.
fn losses(programmed: bool, rivals: Rivals) -> [u64; 2] {
    let worst = worst(programmed, rivals, [20, 30]);
    assert!(worst.iter().all(|(loss, _)| *loss <= LOSS_MAX), "{rivals:?}: {worst:?}");
    worst.map(|(loss, _)| loss)
}

#[test]
fn an_idle_processor_costs_the_asker_no_more_than_its_value() {
    // Nothing is tried, so the loss changes little once some dozens of requests were seen.
    assert_eq!(worst(false, Rivals::None, [10])[0].0, 231);
    assert_eq!(worst(true, Rivals::None, [10])[0].0, 0);
}

#[test]
fn a_wanted_processor_is_given_away_while_the_device_works() {
    assert_eq!(losses(false, Rivals::Equal(2)), [130, 85]);
    assert_eq!(losses(false, Rivals::Equal(11)), [203, 133]);
    assert_eq!(losses(false, Rivals::Equal(30)), [277, 179]);
}

#[test]
fn a_transfer_by_the_processor_is_deferred_where_its_charge_costs_more() {
    for (share, worst) in
        [(740, [261, 273]), (770, [251, 226]), (800, [221, 194]), (940, [121, 101])]
    {
        assert_eq!(losses(true, Rivals::Shares(11, share)), worst, "{share}");
    }
}

#[test]
fn a_transfer_by_the_processor_stays_inline_where_it_saves_switches() {
    for (share, worst) in [
        (1_000, [0, 0]),
        (1_030, [73, 61]),
        (1_060, [88, 87]),
        (1_110, [167, 140]),
        (1_160, [160, 138]),
    ] {
        assert_eq!(losses(true, Rivals::Shares(11, share)), worst, "{share}");
    }
}

/// Fast, slow and fast again: in each phase as good as the fixed rule that is better there.
#[test]
fn a_device_that_changes_is_followed() {
    for rivals in [Rivals::None, Rivals::Equal(2), Rivals::Equal(11)] {
        let ends = [20, 40, 60].map(|seconds| Instant::ZERO + Duration::from_secs(seconds));
        let times = [5, 2_000, 5].map(Duration::from_micros);
        let situation = Situation {
            times: &[(Instant::ZERO, times[0]), (ends[0], times[1]), (ends[1], times[2])],
            tail: TAIL,
            switch: Duration::from_micros(10),
            programmed: false,
            rivals,
        };
        let phases = |rule: &dyn Fn() -> Box<dyn Dispatch>| {
            let [first, second, third] = done(&mut *rule(), &situation, ends);
            [first, second - first, third - second]
        };
        let deferred = phases(&|| Box::new(Always(Handling::Deferred)));
        let inline = phases(&|| Box::new(Always(Handling::INLINE)));
        let own = phases(&|| rule("adaptive"));
        for phase in 0..3 {
            let better = deferred[phase].max(inline[phase]);
            let lost = better.saturating_sub(own[phase]) * 10_000 / better;
            assert!(lost <= LOSS_MAX, "{rivals:?}, phase {phase}: {lost}");
        }
    }
}

#[test]
fn an_idle_processor_costs_most_where_it_is_first_given_away() {
    let losses = (20..60).map(|switches| {
        let switch = Duration::from_micros(10);
        let times = [(Instant::ZERO, switch.times(switches))];
        let rivals = Rivals::None;
        let situation = Situation { times: &times, tail: TAIL, switch, programmed: false, rivals };
        let [lost] = lost("adaptive", &situation, [Instant::ZERO + Duration::from_secs(5)]);
        lost
    });
    let worst = losses.max().unwrap();
    assert!(worst <= LOSS_MAX && worst > 250, "{worst}");
}

#[test]
fn between_two_humps_it_does_more_than_either_fixed_rule() {
    let situation = Situation {
        times: &[(Instant::ZERO, Duration::from_micros(6))],
        tail: (8, 100),
        switch: Duration::from_micros(10),
        programmed: false,
        rivals: Rivals::Equal(2),
    };
    let end = [Instant::ZERO + Duration::from_secs(20)];
    let fixed = [Handling::Deferred, Handling::INLINE];
    let better = fixed.map(|handling| done(&mut Always(handling), &situation, end));
    let [own] = done(&mut *rule("adaptive"), &situation, end);
    assert!(own > better[0][0].max(better[1][0]) * 11 / 10, "{own} {better:?}");
}

#[test]
fn what_was_tried_is_kept_without_contention() {
    // Work that the caller does in the meantime counts for neither mode.
    for idle in [100, 20_000] {
        let mut rule = rule("adaptive");
        let mut now = Instant::ZERO;
        let mut run = |seconds, contended| {
            let processor = Processor { switch: Duration::from_micros(10), contended };
            let (end, mut inline) = (now + Duration::from_secs(seconds), 0);
            while now < end {
                let handling = rule.choose(now, &READ, solid(true), processor);
                // A scheduler that gives less to a task that keeps the processor.
                let micros = match (handling, contended) {
                    (Handling::Inline(_), true) => 1_400,
                    (Handling::Deferred, true) => 1_100,
                    (_, false) => idle,
                };
                now += Duration::from_micros(micros);
                inline += u64::from(handling == Handling::INLINE);
                rule.learn(now, &READ, handling, Duration::from_micros(100));
            }
            inline
        };
        assert!(run(10, true) > 0, "the model's mode was tried");
        assert_eq!(run(5, false), 5_000_000 / idle);
        assert_eq!(run(5, true), 0, "the trials are not begun again");
    }
}

/// A task that is preempted while it spins sees the end late, and takes the device for slow.
#[test]
fn a_request_that_seems_to_take_long_does_not_decide_for_its_way() {
    let mut rule = rule("adaptive");
    let processor = Processor { switch: Duration::from_micros(10), contended: true };
    let (mut now, mut asked, mut inline) = (Instant::ZERO, 0, Duration::ZERO);
    let end = now + Duration::from_secs(20);
    while now < end {
        let handling = rule.choose(now, &READ, solid(true), processor);
        asked += 1;
        let (took, gap) = match handling {
            Handling::Inline(_) if asked % 200 == 0 => (50_000, 50_000),
            Handling::Inline(_) => (100, 1_200),
            Handling::Deferred => (100, 1_100),
        };
        now += Duration::from_micros(gap);
        if handling == Handling::INLINE {
            inline += Duration::from_micros(gap);
        }
        rule.learn(now, &READ, handling, Duration::from_micros(took));
    }
    assert!(inline < Duration::from_secs(4), "{inline}");
}
