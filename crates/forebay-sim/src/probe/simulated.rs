//! A device in virtual time under a probe.

use std::convert::Infallible;

use forebay_core::time::{Duration, Instant};
use forebay_core::units::SECTOR_SIZE;

use super::{Bench, Experiment, Pattern, Samples};
use crate::device::{Device, DeviceAccess};

/// A probed device. Its time continues from experiment to experiment.
#[derive(Debug)]
pub struct Simulated {
    device: Box<dyn Device>,
    span: u64,
    now: Instant,
    /// Idle time before each experiment.
    rest: Duration,
}

impl Simulated {
    /// A device of `span` bytes.
    pub fn new(device: Box<dyn Device>, span: u64) -> Self {
        Self { device, span, now: Instant::ZERO, rest: Duration::from_millis(100) }
    }

    /// Makes the first `count` requests of an experiment.
    pub(super) fn first(&mut self, experiment: &Experiment, count: usize) -> Samples {
        self.now += self.rest;
        let begin = self.now;
        let mut ends = vec![begin; experiment.depth.max(1) as usize];
        let mut samples = Samples::default();
        let offsets = experiment.offsets(self.span);
        for (number, offset) in offsets.into_iter().take(count).enumerate() {
            let next = ends.iter_mut().min().expect("there is at least one in flight");
            let (sector, sectors) = (offset / SECTOR_SIZE, experiment.bytes / SECTOR_SIZE);
            let access = match experiment.write {
                true => DeviceAccess::write(sector, sectors),
                false => DeviceAccess::read(sector, sectors),
            };
            let mut issued = *next;
            let mut done = self.device.service(issued, &access).done;
            if experiment.pattern == Pattern::Flushed {
                issued = done;
                done = self.device.service(issued, &DeviceAccess::flush()).done;
            }
            *next = done;
            samples.requests += 1;
            if experiment.counts(number) {
                samples.latencies.push(done.since(issued).as_nanos());
            }
        }
        self.now = ends.into_iter().max().unwrap_or(begin);
        samples.elapsed = self.now.since(begin);
        samples
    }
}

impl Bench for Simulated {
    type Error = Infallible;

    fn span(&self) -> u64 {
        self.span
    }

    fn measure(&mut self, experiment: &Experiment) -> Result<Samples, Infallible> {
        Ok(self.first(experiment, usize::MAX))
    }
}
