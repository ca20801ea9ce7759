//! The parameters of bdflush follow the load of the disks and the share of writes in it.
//!
//! Source:     S. Park, T. Kim, H. Shin, "An adaptive buffer flush policy for Linux-based storage
//!             servers", policy DYN. `map=1`: Forebay, for kernels whose limits are bytes.
//! Behaviour:  every n seconds: nfract is the share W of writes in percent, but at least
//!             min_nfract; ndirty is min_ndirty / x and interval is max_interval * x, both within
//!             their ends, where x is the load L times W.
//! Differs:    what the paper leaves open is a parameter, whose default is the reading that its
//!             text bears out best. With several disks L is the mean of theirs and W the share of
//!             writes in all that they did. A buffer is a page. `dyn-bounded` caps nfract.
//! Not for:    `dyn`: machines whose memory others need, because nfract follows the writes up to
//!             100 %, where no writer waits any more before memory is full.
//!
//! ```text
//!                 map=0                            map=1
//!   nfract    --> limit, background = half     --> limit = 1 to 8 s of drain, background a part
//!   ndirty    --> batch                            -
//!   interval  --> interval                     --> expire = 6 * interval, from 5 to 30 s
//! ```

use alloc::boxed::Box;

use super::pages::{self, MIB_PAGES};
use super::{Controller, Policy, Sample};
use crate::flush::bdflush_vector::{JIFFY, turned};
use crate::policy::{Parameter, Values};
use crate::writeback::{Amount, Knobs};
use load::{Fraction, Load, Reading, Share, Window};

mod load;
#[cfg(test)]
mod tests;

/// The table's line of the policy as published.
pub(super) const DYN: Policy = Policy {
    name: "dyn",
    summary: "bdflush follows load and share of writes, as published",
    source: "Park, Kim, Shin",
    parameters: &parameters(100),
    build: |values| Box::new(LoadAdaptive::new(values)),
};

/// The table's line of the policy that leaves memory to others.
pub(super) const BOUNDED: Policy = Policy {
    name: "dyn-bounded",
    summary: "the same with a cap on nfract",
    source: "Forebay, after Park, Kim, Shin",
    parameters: &parameters(60),
    build: |values| Box::new(LoadAdaptive::new(values)),
};

/// The parameters of both; they differ in the cap.
const fn parameters(cap: u64) -> [Parameter; 16] {
    [
        Parameter::new("n", 3, (1, 60), "seconds of a window"),
        Parameter::new("min_nfract", 30, (0, 100), "least nfract, in percent"),
        Parameter::new("cap", cap, (0, 100), "greatest nfract, in percent"),
        Parameter::new("min_ndirty", 300, (10, 5_000), "least ndirty, in pages"),
        Parameter::new("max_ndirty", 1_000, (10, 5_000), "greatest ndirty, in pages"),
        Parameter::new("min_interval", 15, (1, 6_000), "least interval, in hundredths of a second"),
        Parameter::new(
            "max_interval",
            500,
            (1, 6_000),
            "greatest interval, in hundredths of a second",
        ),
        Parameter::new("sliding", 0, (0, 1), "an update every second instead of every window"),
        Parameter::new("sums", 0, (0, 1), "averages as ratios of sums, not means of seconds"),
        Parameter::new("hold", 0, (0, 1), "an idle second keeps the share of writes"),
        Parameter::new(
            "share",
            0,
            (0, 2),
            "share of writes in 0 operations, 1 sectors, 2 busy time",
        ),
        Parameter::new("affine", 0, (0, 1), "ndirty falls in a straight line instead of as 1/x"),
        Parameter::new("factor", 0, (0, 2), "x is 0 the product, 1 the lesser of both, 2 W alone"),
        Parameter::new("busiest", 0, (0, 1), "the busiest disk is the load, not the mean"),
        Parameter::new("map", 0, (0, 1), "0 percentages of memory, 1 seconds of drain"),
        Parameter::new(
            "part",
            2,
            (2, 32),
            "with map=1, the background level is this part of the limit",
        ),
    ]
}

/// Why the values cannot stand side by side.
pub(super) fn contradiction(values: &Values<'_>) -> Option<&'static str> {
    let above = |low, high| values.of(low) > values.of(high);
    if above("min_nfract", "cap") {
        Some("min_nfract must not lie above cap")
    } else if above("min_ndirty", "max_ndirty") {
        Some("min_ndirty must not lie above max_ndirty")
    } else if above("min_interval", "max_interval") {
        Some("min_interval must not lie above max_interval")
    } else {
        None
    }
}

/// The values of the three fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields {
    nfract: u64,
    ndirty: u64,
    interval: u64,
}

/// How load and share of writes make up the one number that ndirty and interval follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Factor {
    Product,
    Lesser,
    Writes,
}

#[derive(Debug)]
struct LoadAdaptive {
    window: Window,
    least: Fields,
    most: Fields,
    affine: bool,
    factor: Factor,
    /// The part of the limit that is the background level, if limits are seconds of drain.
    seconds: Option<u64>,
}

impl Controller for LoadAdaptive {
    fn observe(&mut self, samples: &[Sample], knobs: Knobs) -> Knobs {
        let Some(load) = self.window.add(samples) else { return knobs };
        let fields = self.fields(load);
        match self.seconds {
            None => turned(knobs, fields.nfract, fields.ndirty, fields.interval),
            Some(part) => in_seconds(fields, part, samples, knobs),
        }
    }
}

impl LoadAdaptive {
    fn new(values: &Values<'_>) -> Self {
        let fields = |nfract, ndirty, interval| Fields {
            nfract: values.of(nfract),
            ndirty: values.of(ndirty),
            interval: values.of(interval),
        };
        let reading = Reading {
            window: values.of("n") as usize,
            sliding: values.on("sliding"),
            sums: values.on("sums"),
            hold: values.on("hold"),
            share: match values.of("share") {
                0 => Share::Operations,
                1 => Share::Sectors,
                _ => Share::BusyTime,
            },
            busiest: values.on("busiest"),
        };
        Self {
            window: Window::new(reading),
            least: fields("min_nfract", "min_ndirty", "min_interval"),
            most: fields("cap", "max_ndirty", "max_interval"),
            affine: values.on("affine"),
            factor: match values.of("factor") {
                0 => Factor::Product,
                1 => Factor::Lesser,
                _ => Factor::Writes,
            },
            seconds: values.on("map").then(|| values.of("part")),
        }
    }

    fn fields(&self, Load { busy, writes }: Load) -> Fields {
        let (least, most) = (self.least, self.most);
        let x = match self.factor {
            Factor::Product => Exact::of(busy).times(Exact::of(writes)),
            Factor::Lesser => Exact::of(busy).min(Exact::of(writes)),
            Factor::Writes => Exact::of(writes),
        };
        let nfract = Exact::of(writes).of_whole(100).clamp(least.nfract, most.nfract);
        if self.affine {
            let ndirty = x.between(most.ndirty, least.ndirty);
            return Fields { nfract, ndirty, interval: x.between(least.interval, most.interval) };
        }
        Fields {
            nfract,
            ndirty: x.divides(least.ndirty).clamp(least.ndirty, most.ndirty),
            interval: x.of_whole(most.interval).clamp(least.interval, most.interval),
        }
    }
}

/// The fields in what today's kernels take. The interval stays, because writing it there starts a
/// flush of everything; ndirty has no counterpart.
fn in_seconds(fields: Fields, part: u64, samples: &[Sample], knobs: Knobs) -> Knobs {
    let Some(drain) = pages::drain(samples) else { return knobs };
    // From 1 s at 30 % to 8 s at 100 %, which is 100 ms for each percent.
    let millis = 1_000 + 100 * (fields.nfract.max(30) - 30);
    let target = pages::bounded(
        pages::drained(drain, millis),
        32 * MIB_PAGES,
        pages::total(samples),
        4_096 * MIB_PAGES,
    );
    let limit = pages::lead(knobs.limit, target, pages::dirty(samples));
    let expire = JIFFY.times((6 * fields.interval).clamp(500, 3_000));
    let moves = pages::moves(knobs.expire.as_nanos(), expire.as_nanos());
    Knobs {
        limit: Amount::Pages(limit),
        background: Amount::Pages(limit / part),
        expire: if moves { expire } else { knobs.expire },
        ..knobs
    }
}

/// A number between 0 and 1 as an exact fraction. The whole stays below 2^72: two factors of 60
/// seconds in billionths.
#[derive(Clone, Copy, Debug)]
struct Exact {
    part: u128,
    whole: u128,
}

impl Exact {
    fn of(fraction: Fraction) -> Self {
        Self { part: fraction.part.into(), whole: fraction.whole.into() }
    }

    fn times(self, other: Self) -> Self {
        Self { part: self.part * other.part, whole: self.whole * other.whole }
    }

    fn min(self, other: Self) -> Self {
        if self.part * other.whole <= other.part * self.whole { self } else { other }
    }

    /// This part of `n`, rounded half up.
    fn of_whole(self, n: u64) -> u64 {
        ((u128::from(n) * self.part + self.whole / 2) / self.whole) as u64
    }

    /// `n` divided by this, rounded half up; without end when this is zero.
    fn divides(self, n: u64) -> u64 {
        let quotient = (u128::from(n) * self.whole + self.part / 2).checked_div(self.part);
        quotient.map_or(u64::MAX, |quotient| u64::try_from(quotient).unwrap_or(u64::MAX))
    }

    /// What lies this far on the way from `from` to `to`, rounded half up.
    fn between(self, from: u64, to: u64) -> u64 {
        let sum = u128::from(from) * (self.whole - self.part) + u128::from(to) * self.part;
        ((sum + self.whole / 2) / self.whole) as u64
    }
}
