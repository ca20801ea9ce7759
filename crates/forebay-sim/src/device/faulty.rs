//! A wrapper that fails some requests of a device and delays others.
//!
//! Source:     nbdkit's error and delay filters; smoltcp's fault injector.
//! Behaviour:  a request fails if it touches a bad range of sectors, or by chance at the rate of
//!             its kind: reads, writes, flushes. It is delayed by chance at another rate. A failed
//!             request takes its usual time. A flush touches no sector.
//! Differs:    chance comes from a seed, so that a failure can be repeated.
//! Not for:    losing power: nothing that was written is ever lost.

use std::ops::Range;

use forebay_core::time::{Duration, Instant};

use super::{Command, Completion, Device, DeviceAccess, Outcome};
use crate::rng::Rng;

/// Which requests fail and which are late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// How many of a million reads fail.
    pub fail_ppm: u64,
    /// How many of a million writes fail, durable ones included.
    pub fail_write_ppm: u64,
    /// How many of a million flushes fail.
    pub fail_flush_ppm: u64,
    /// Sectors that fail whenever they are touched.
    pub bad_sectors: Vec<Range<u64>>,
    /// How many of a million requests are late.
    pub late_ppm: u64,
    /// How late they are.
    pub late_by: Duration,
}

/// A device with faults around another device.
#[derive(Debug)]
pub struct Faulty {
    inner: Box<dyn Device>,
    plan: FaultPlan,
    failures: Rng,
    delays: Rng,
}

impl Faulty {
    /// `inner` with the faults of `plan`; `seed` names which requests chance picks.
    pub fn new(inner: Box<dyn Device>, plan: FaultPlan, seed: u64) -> Self {
        let rng = Rng::new(seed);
        Self { inner, plan, failures: rng.fork("failures", 0), delays: rng.fork("delays", 0) }
    }
}

impl Device for Faulty {
    fn service(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        let mut completion = self.inner.service(now, access);
        // Chance is drawn once per request and kind, whatever the plan, so that a plan with another
        // rate picks among the same numbers.
        let fail_ppm = match access.command {
            Command::Read => self.plan.fail_ppm,
            Command::Write | Command::DurableWrite | Command::Discard => self.plan.fail_write_ppm,
            Command::Flush => self.plan.fail_flush_ppm,
        };
        let unlucky = self.failures.chance(fail_ppm);
        let late = self.delays.chance(self.plan.late_ppm);
        let (first, end) = (access.sector, access.end());
        let touches = |bad: &Range<u64>| first < end && first < bad.end && bad.start < end;
        if unlucky || self.plan.bad_sectors.iter().any(touches) {
            completion.outcome = Outcome::Failure;
        }
        if late {
            completion.done += self.plan.late_by;
        }
        completion
    }

    fn programmed(&self) -> bool {
        self.inner.programmed()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fast::{Fast, FastParameters};
    use super::*;
    use crate::rng::MILLION;

    fn faulty(plan: FaultPlan, seed: u64) -> Faulty {
        Faulty::new(Box::new(Fast::new(FastParameters::null(), 0)), plan, seed)
    }

    fn log(plan: &FaultPlan, seed: u64) -> Vec<Completion> {
        let mut device = faulty(plan.clone(), seed);
        let at = |index| device.service(Instant(index), &DeviceAccess::read(index * 8, 8));
        (0..100_000).map(at).collect()
    }

    #[test]
    fn a_plan_without_faults_changes_nothing() {
        let plain = |completion: &Completion| completion.outcome == Outcome::Success;
        assert!(log(&FaultPlan::default(), 1).iter().all(plain));
    }

    #[test]
    fn requests_fail_and_are_late_at_the_asked_rates() {
        let plan = FaultPlan {
            fail_ppm: 10_000,
            late_ppm: 50_000,
            late_by: Duration::from_millis(3),
            ..FaultPlan::default()
        };
        let log = log(&plan, 1);
        let failed = log.iter().filter(|one| one.outcome == Outcome::Failure).count();
        let late = log.iter().filter(|one| one.done.since(one.start) == plan.late_by).count();
        assert!((900..1_100).contains(&failed), "{failed}");
        assert!((4_800..5_200).contains(&late), "{late}");
    }

    #[test]
    fn reads_writes_and_flushes_fail_at_rates_of_their_own() {
        let kinds = [
            DeviceAccess::read(0, 8),
            DeviceAccess::write(0, 8),
            DeviceAccess::durable_write(0, 8),
            DeviceAccess::flush(),
        ];
        let failures = |plan: &FaultPlan| {
            kinds.map(|access| {
                let mut device = faulty(plan.clone(), 1);
                let failed =
                    |_: &u64| device.service(Instant::ZERO, &access).outcome == Outcome::Failure;
                (0..10_000_u64).filter(failed).count()
            })
        };
        let none = FaultPlan::default();
        let read = FaultPlan { fail_ppm: MILLION, ..none.clone() };
        assert_eq!(failures(&read), [10_000, 0, 0, 0]);
        let write = FaultPlan { fail_write_ppm: MILLION, ..none.clone() };
        assert_eq!(failures(&write), [0, 10_000, 10_000, 0]);
        let flush = FaultPlan { fail_flush_ppm: 100_000, ..none };
        let [reads, writes, durable, flushes] = failures(&flush);
        assert_eq!((reads, writes, durable), (0, 0, 0));
        assert!((900..1_100).contains(&flushes), "{flushes}");
    }

    #[test]
    fn a_bad_range_fails_writes_there_and_no_flush() {
        let bad_sectors = vec![0..100, 500..600];
        let mut device = faulty(FaultPlan { bad_sectors, ..FaultPlan::default() }, 1);
        let mut outcome = |access| device.service(Instant::ZERO, &access).outcome;
        assert_eq!(outcome(DeviceAccess::write(96, 8)), Outcome::Failure);
        assert_eq!(outcome(DeviceAccess::durable_write(96, 8)), Outcome::Failure);
        assert_eq!(outcome(DeviceAccess::write(100, 8)), Outcome::Success);
        assert_eq!(outcome(DeviceAccess::flush()), Outcome::Success);
    }

    #[test]
    fn a_bad_sector_fails_every_request_that_touches_it() {
        let bad_sectors = vec![100..101, 200..300];
        let mut device = faulty(FaultPlan { bad_sectors, ..FaultPlan::default() }, 1);
        let mut outcome = |sector, sectors| {
            device.service(Instant::ZERO, &DeviceAccess::read(sector, sectors)).outcome
        };
        assert_eq!(outcome(92, 8), Outcome::Success);
        assert_eq!(outcome(93, 8), Outcome::Failure);
        assert_eq!(outcome(100, 1), Outcome::Failure);
        assert_eq!(outcome(101, 8), Outcome::Success);
        assert_eq!(outcome(299, 8), Outcome::Failure);
    }

    #[test]
    fn the_same_seed_picks_the_same_requests() {
        let plan = FaultPlan { fail_ppm: 100_000, ..FaultPlan::default() };
        assert_eq!(log(&plan, 3), log(&plan, 3));
        assert_ne!(log(&plan, 3), log(&plan, 4));
    }

    #[test]
    fn faults_stack() {
        let bad = |range| FaultPlan { bad_sectors: Vec::from([range]), ..FaultPlan::default() };
        let mut device = Faulty::new(Box::new(faulty(bad(0..8), 1)), bad(16..24), 2);
        let mut outcome =
            |sector| device.service(Instant::ZERO, &DeviceAccess::read(sector, 8)).outcome;
        assert_eq!(outcome(0), Outcome::Failure);
        assert_eq!(outcome(8), Outcome::Success);
        assert_eq!(outcome(16), Outcome::Failure);
    }
}
