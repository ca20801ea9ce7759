//! Rounds of one way in one workload, and their medians.

use super::part::Measured;
use crate::measure::median;

/// One round: all processes of the work, and the resources that the server used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    /// Milliseconds from the first begin to the last end.
    pub(crate) wall: f64,
    /// Half of the pages, blocks or files took no longer, in microseconds, if each was timed.
    pub(crate) p50: Option<f64>,
    /// All but a hundredth took no longer, in microseconds.
    pub(crate) p99: Option<f64>,
    /// MB (10^6 bytes) in a second.
    pub(crate) rate: Option<f64>,
    /// Major faults of all processes.
    pub(crate) faults: f64,
    /// Processor time of all processes, in milliseconds.
    pub(crate) cpu: f64,
    /// Processor time of the server, in milliseconds, if it is a process.
    pub(crate) cpu_server: Option<f64>,
    /// The most memory that the server has held, in MiB.
    pub(crate) rss: Option<f64>,
    /// Pages that were decoded, if known.
    pub(crate) decoded: Option<f64>,
    /// MB (10^6 bytes) of the image that were read, if known.
    pub(crate) image: Option<f64>,
}

/// One of the figures of a round.
pub(crate) type Figures = fn(&Round) -> Option<f64>;

impl Round {
    /// What the processes of one round say together.
    pub(crate) fn new(parts: &[Measured]) -> Self {
        let begin = parts.iter().map(|part| part.begin).min().unwrap_or(0);
        let end = parts.iter().map(|part| part.end).max().unwrap_or(0);
        let sum = |of: fn(&Measured) -> u64| parts.iter().map(of).sum::<u64>() as f64;
        let nanos = end.saturating_sub(begin) as f64;
        let mut took: Vec<u64> = parts.iter().flat_map(|part| part.took.iter().copied()).collect();
        took.sort_unstable();
        let bytes = sum(|part| part.bytes);
        Self {
            wall: nanos / 1e6,
            p50: percentile(&took, 50).map(|nanos| nanos as f64 / 1e3),
            p99: percentile(&took, 99).map(|nanos| nanos as f64 / 1e3),
            rate: (bytes > 0.0 && nanos > 0.0).then(|| bytes * 1e3 / nanos),
            faults: sum(|part| part.faults),
            cpu: sum(|part| part.cpu) / 1e6,
            ..Self::default()
        }
    }

    /// The median of a figure over rounds, if any has it.
    pub(crate) fn median(rounds: &[Self], of: Figures) -> Option<f64> {
        let figure = median(rounds.iter().filter_map(of));
        (!figure.is_nan()).then_some(figure)
    }
}

/// How many times another's figure, the median of ratios within a turn.
pub(crate) fn ratio(rounds: &[Round], others: &[Round], of: Figures) -> Option<f64> {
    let pairs = rounds.iter().zip(others).filter_map(|(a, b)| Some((of(a)?, of(b)?)));
    let ratio = median(pairs.filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b));
    (!ratio.is_nan()).then_some(ratio)
}

/// The smallest of sorted numbers that `percent` percent of them do not exceed.
pub(crate) fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let place = (sorted.len() * percent).div_ceil(100);
    sorted.get(place.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_numbers() {
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(percentile(&hundred, 50), Some(50));
        assert_eq!(percentile(&hundred, 99), Some(99));
        assert_eq!(percentile(&hundred, 100), Some(100));
        assert_eq!(percentile(&[7], 0), Some(7));
        assert_eq!(percentile(&[7, 8], 99), Some(8));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn processes_beside_each_other_count_from_the_first_begin_to_the_last_end() {
        let part = |begin, end| Measured {
            begin,
            end,
            bytes: 500_000,
            faults: 1,
            cpu: 1_000_000,
            took: vec![end - begin],
        };
        let round = Round::new(&[part(1_000_000, 3_000_000), part(2_000_000, 5_000_000)]);
        assert!((round.wall - 4.0).abs() < 1e-9);
        assert!((round.rate.unwrap() - 250.0).abs() < 1e-9);
        assert!((round.faults - 2.0).abs() < 1e-9);
        assert!((round.cpu - 2.0).abs() < 1e-9);
        assert_eq!((round.p50, round.p99), (Some(2000.0), Some(3000.0)));
        assert_eq!(Round::new(&[]).p50, None);
    }

    #[test]
    fn ratios_are_formed_within_a_turn_and_skip_what_is_missing() {
        let round = |wall, p50| Round { wall, p50, ..Round::default() };
        // The machine was ten times as slow in the second turn, for both.
        let ours = [round(1.0, None), round(10.0, Some(1.0)), round(2.0, None)];
        let theirs = [round(2.0, Some(2.0)), round(20.0, Some(4.0)), round(4.0, None)];
        assert_eq!(ratio(&ours, &theirs, |round| Some(round.wall)), Some(0.5));
        assert_eq!(ratio(&ours, &theirs, |round| round.p50), Some(0.25));
        assert_eq!(ratio(&ours, &theirs, |round| round.rss), None);
        assert_eq!(Round::median(&theirs, |round| round.p50), Some(4.0));
    }
}
