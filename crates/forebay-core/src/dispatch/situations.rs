//! What the asker loses with `adaptive` against the better fixed rule, wherever it finds itself.

use std::format;
use std::string::String;
use std::vec::Vec;

use super::testing::{Always, READ, Rivals, Situation, done, lost, rule, solid};
use super::{Handling, Processor};
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
            if std::env::var_os("SHOW").is_some() && loss > 100 {
                std::eprintln!("{programmed} {rivals:?} {seconds} t {time} sw {switch}: {loss}");
            }
            if loss > worst.0 {
                worst = (loss, format!("{time} us, switch {switch} us"));
            }
        }
    }
    worst
}

fn keeps_within(programmed: bool, rivals: &[Rivals], seconds: &[u64]) -> Vec<u64> {
    let mut losses = Vec::new();
    for rivals in rivals {
        for seconds in seconds {
            let (loss, place) = worst(programmed, *rivals, *seconds);
            if std::env::var_os("SHOW").is_some() {
                std::eprintln!("WORST {programmed} {rivals:?} {seconds} {loss} {place}");
            } else {
                assert!(loss <= LOSS_MAX, "{rivals:?}, {seconds} s: {loss} at {place}");
            }
            losses.push(loss);
        }
    }
    losses
}

#[test]
fn an_idle_processor_costs_the_asker_no_more_than_its_value() {
    keeps_within(false, &[Rivals::None], &[30]);
    keeps_within(true, &[Rivals::None], &[30]);
}

#[test]
fn a_wanted_processor_is_given_away_while_the_device_works() {
    keeps_within(false, &[Rivals::Equal(2), Rivals::Equal(11)], &[20, 30]);
}

#[test]
fn a_transfer_by_the_processor_is_handled_as_the_scheduler_likes_it() {
    let shares = [740, 770, 800, 940, 1_000, 1_030, 1_060, 1_110, 1_160];
    let rivals: Vec<_> = shares.iter().map(|share| Rivals::Shares(11, *share)).collect();
    keeps_within(true, &rivals, &[20, 30]);
}
