//! What the asker loses with `adaptive` against the better fixed rule, wherever it finds itself.

use std::boxed::Box;
use std::format;
use std::string::String;

use super::testing::{Always, Rivals, Situation, done, lost, rule};
use super::{Dispatch, Handling};
use crate::time::{Duration, Instant};

/// Hundredths of a percent.
const LOSS_MAX: u64 = 300;

const TIMES_US: [u64; 11] = [5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];

const SWITCHES_US: [u64; 3] = [2, 10, 40];

/// The worst loss over the grid for so many seconds, and where it is.
fn worst(programmed: bool, rivals: Rivals, seconds: u64) -> (u64, String) {
    let mut worst = (0, String::new());
    for time in TIMES_US {
        for switch in SWITCHES_US {
            let situation = Situation {
                times: &[(Instant::ZERO, Duration::from_micros(time))],
                switch: Duration::from_micros(switch),
                programmed,
                rivals,
            };
            let end = Instant::ZERO + Duration::from_secs(seconds);
            let loss = lost("adaptive", &situation, end);
            if loss > worst.0 {
                worst = (loss, format!("{time} us, switch {switch} us"));
            }
        }
    }
    worst
}

/// The worst losses beside such rivals over runs of 20, 30 and 60 seconds.
fn losses(programmed: bool, rivals: Rivals) -> [u64; 3] {
    [20, 30, 60].map(|seconds| {
        let (loss, place) = worst(programmed, rivals, seconds);
        assert!(loss <= LOSS_MAX, "{rivals:?}, {seconds} s: {loss} at {place}");
        loss
    })
}

#[test]
fn an_idle_processor_costs_the_asker_no_more_than_its_value() {
    assert_eq!(worst(false, Rivals::None, 30).0, 233);
    assert_eq!(worst(true, Rivals::None, 30).0, 0);
}

#[test]
fn a_wanted_processor_is_given_away_while_the_device_works() {
    assert_eq!(losses(false, Rivals::Equal(2)), [0, 0, 0]);
    assert_eq!(losses(false, Rivals::Equal(11)), [0, 0, 0]);
}

#[test]
fn a_transfer_by_the_processor_is_deferred_where_its_charge_costs_more() {
    for (share, worst) in [(740, [0, 0, 0]), (770, [0, 0, 0]), (800, [0, 0, 0]), (940, [0, 0, 0])] {
        assert_eq!(losses(true, Rivals::Shares(11, share)), worst, "{share}");
    }
}

#[test]
fn a_transfer_by_the_processor_stays_inline_where_it_saves_switches() {
    for (share, worst) in [
        (1_000, [0, 0, 0]),
        (1_030, [0, 0, 0]),
        (1_060, [0, 0, 0]),
        (1_110, [0, 0, 0]),
        (1_160, [0, 0, 0]),
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
            switch: Duration::from_micros(10),
            programmed: false,
            rivals,
        };
        let phases = |rule: &dyn Fn() -> Box<dyn Dispatch>| {
            let [first, second, third] = ends.map(|end| done(&mut *rule(), &situation, end));
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
