//! The results of one program, as a line of text.

use std::fmt;
use std::io;
use std::str::FromStr;

use crate::measure::mount::percentile;

/// One step of the work: an access, or a batch of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// When it began, in nanoseconds since the work did.
    pub(crate) at: u64,
    /// How long it took, in nanoseconds.
    pub(crate) took: u64,
}

/// How it went. Moments are on the clock that all processes share, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// When the work began.
    pub(crate) begin: u64,
    /// When all was written that is written, before it is made durable.
    pub(crate) written: u64,
    /// When it ended.
    pub(crate) end: u64,
    /// Bytes that one step moves or touches.
    pub(crate) bytes: u64,
    /// Processor time in nanoseconds.
    pub(crate) cpu: u64,
    /// The steps, in order of time.
    pub(crate) samples: Vec<Sample>,
}

impl Measured {
    /// Steps in a second that began at `from` or later, until the end; both in nanoseconds since
    /// the begin.
    pub(crate) fn rate(&self, from: u64) -> Option<f64> {
        let until = self.end.checked_sub(self.begin)?;
        self.rate_between(from, until)
    }

    /// Steps in a second that began within a span of time, in nanoseconds since the begin.
    pub(crate) fn rate_between(&self, from: u64, until: u64) -> Option<f64> {
        let nanos = until.checked_sub(from).filter(|nanos| *nanos > 0)?;
        let inside = self.samples.iter().filter(|sample| (from..until).contains(&sample.at));
        Some(inside.count() as f64 * 1e9 / nanos as f64)
    }

    /// The first moment from which on, for `STEADY`, the rate is at least so much; in
    /// nanoseconds since the begin.
    pub(crate) fn settled(&self, rate: f64) -> Option<u64> {
        let until = self.end.checked_sub(self.begin)?;
        let moments = (0..).map(|slot| slot * SLOT).take_while(|from| from + STEADY <= until);
        let reached = |from: &u64| self.rate_between(*from, from + STEADY) >= Some(rate);
        moments.into_iter().find(reached)
    }

    /// How long the longest step took, in nanoseconds.
    pub(crate) fn longest(&self) -> Option<u64> {
        self.samples.iter().map(|sample| sample.took).max()
    }

    /// The time within which `percent` percent of the steps completed, in nanoseconds.
    pub(crate) fn percentile(&self, percent: usize) -> Option<u64> {
        let mut took: Vec<u64> = self.samples.iter().map(|sample| sample.took).collect();
        took.sort_unstable();
        percentile(&took, percent)
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { begin, written, end, bytes, cpu, samples } = self;
        write!(f, "{begin} {written} {end} {bytes} {cpu}")?;
        samples.iter().try_for_each(|Sample { at, took }| write!(f, " {at} {took}"))
    }
}

impl FromStr for Measured {
    type Err = io::Error;

    fn from_str(line: &str) -> io::Result<Self> {
        let bad = || {
            let shown: String = line.chars().take(80).collect();
            io::Error::other(format!("no measurement: '{shown}'"))
        };
        let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
        let numbers = numbers.map_err(|_| bad())?;
        let [begin, written, end, bytes, cpu, ref pairs @ ..] = numbers[..] else {
            return Err(bad());
        };
        let (pairs, []) = pairs.as_chunks() else { return Err(bad()) };
        let samples = pairs.iter().map(|&[at, took]| Sample { at, took }).collect();
        Ok(Self { begin, written, end, bytes, cpu, samples })
    }
}

/// How finely a moment is looked for, in nanoseconds.
const SLOT: u64 = 100_000_000;

/// How long a rate must hold, in nanoseconds.
const STEADY: u64 = 500_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// One step in a tenth of a second for a second, then one in a hundredth for another.
    fn faster_in_the_second_half() -> Measured {
        let slow = (0..10).map(|step| Sample { at: step * SECOND / 10, took: SECOND / 10 });
        let fast = (0..100).map(|step| Sample { at: SECOND + step * SECOND / 100, took: 5 });
        let samples = slow.chain(fast).collect();
        Measured { begin: 7, end: 7 + 2 * SECOND, samples, ..Measured::default() }
    }

    #[test]
    fn what_is_written_is_what_was_measured() {
        let measured = faster_in_the_second_half();
        assert_eq!(measured.to_string().parse::<Measured>().unwrap(), measured);
        for bad in ["1 2 3 4", "1 2 3 4 x", "1 2 3 4 5 6"] {
            assert!(bad.parse::<Measured>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_rate_is_that_of_its_span() {
        let measured = faster_in_the_second_half();
        assert_eq!(measured.rate_between(0, SECOND), Some(10.0));
        assert_eq!(measured.rate(SECOND), Some(100.0));
        assert_eq!(measured.rate(2 * SECOND), None);
    }

    #[test]
    fn it_has_settled_when_the_rate_stays() {
        let measured = faster_in_the_second_half();
        assert_eq!(measured.settled(95.0), Some(SECOND));
        assert_eq!(measured.settled(5.0), Some(0));
        assert_eq!(measured.settled(101.0), None);
    }

    #[test]
    fn the_longest_step_is_not_the_last_percent_of_many() {
        let measured = faster_in_the_second_half();
        assert_eq!(measured.longest(), Some(SECOND / 10));
        assert_eq!(measured.percentile(90), Some(5));
        assert_eq!(Measured::default().longest(), None);
    }
}
