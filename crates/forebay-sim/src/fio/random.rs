//! fio's generators and the table of seeds they start from.
//!
//! Source:     fio 3.33 and 3.35, `lib/rand.c`, `lib/rand.h`, `init.c`; L'Ecuyer 1996 for the
//!             generators themselves
//! Behaviour:  Tausworthe generators of three 32-bit or five 64-bit words. A table of seeds, one
//!             per purpose, grows from `randseed` and the number of the job over the whole run.
//!             Up to 3.34 a repeatable random job takes a fixed seed for its offsets instead.
//! Differs:    Seeds from the system's entropy are refused by the parser. `allrandrepeat` is not
//!             offered.
//! Not for:    anything that needs good or secret random numbers

use super::Compat;

/// One generator of fio, narrow or wide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Random {
    /// Tausworthe-88.
    Narrow([u32; 3]),
    /// Tausworthe-258.
    Wide([u64; 5]),
}

impl Random {
    /// A generator with 32 bits of output; only the low half of `seed` counts.
    pub(super) fn narrow(seed: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "fio passes the seed as 32 bits")]
        let seed = seed as u32;
        let mut words = [SEED_START; 3];
        let mut last = SEED_START;
        for (word, least) in words.iter_mut().zip([1, 7, 15]) {
            last = at_least(u64::from(last.wrapping_mul(69_069) ^ seed), least) as u32;
            *word = last;
        }
        Self::Narrow(words).warmed_up()
    }

    /// A generator with 64 bits of output.
    pub(super) fn wide(seed: u64) -> Self {
        let mut words = [0; 5];
        let mut last = u64::from(SEED_START);
        for (word, least) in words.iter_mut().zip([1, 7, 15, 33, 49]) {
            last = at_least(last.wrapping_mul(6_906_969_069) ^ seed, least);
            *word = last;
        }
        Self::Wide(words).warmed_up()
    }

    /// A wide or a narrow generator.
    pub(super) fn new(seed: u64, wide: bool) -> Self {
        if wide { Self::wide(seed) } else { Self::narrow(seed) }
    }

    /// The next output.
    pub(super) fn next(&mut self) -> u64 {
        match self {
            Self::Narrow(words) => {
                for (word, [left, right, keep, shift]) in words.iter_mut().zip(NARROW) {
                    let mixed = ((*word << left) ^ *word) >> right;
                    *word = ((*word & (u32::MAX << keep)) << shift) ^ mixed;
                }
                u64::from(words[0] ^ words[1] ^ words[2])
            }
            Self::Wide(words) => {
                for (word, [left, right, keep, shift]) in words.iter_mut().zip(WIDE) {
                    let mixed = ((*word << left) ^ *word) >> right;
                    *word = ((*word & (u64::MAX << keep)) << shift) ^ mixed;
                }
                words.iter().fold(0, |all, word| all ^ word)
            }
        }
    }

    /// The largest output.
    pub(super) fn max(&self) -> u64 {
        match self {
            Self::Narrow(_) => u64::from(u32::MAX),
            Self::Wide(_) => u64::MAX,
        }
    }

    /// The next output as a share of the whole, from zero to just below one.
    pub(super) fn share(&mut self) -> f64 {
        let end = self.max() as f64 + 1.0;
        self.next() as f64 / end
    }

    /// A number below `end`; rounding can reach `end` if the generator is wide.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        (end as f64 * self.share()) as u64
    }

    /// A number from one to a hundred.
    pub(super) fn percent(&mut self) -> u64 {
        1 + self.below(100)
    }

    fn warmed_up(mut self) -> Self {
        for _ in 0..6 {
            self.next();
        }
        self
    }
}

/// The seeds of one job, one per purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seeds {
    start: u64,
    job_number: u64,
}

/// What a seed of the table is for; the number is its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    ReadSize = 0,
    WriteSize = 1,
    Mix = 4,
    FileChoice = 5,
    Offset = 6,
    FileSize = 7,
    SequentialOrRandom = 10,
    StartDelay = 13,
}

impl Seeds {
    /// The table of job `job_number`, counted from one over the whole run.
    pub(super) fn new(randseed: u64, job_number: u32) -> Self {
        let start = (0..4).fold(randseed, |seed, _| seed.wrapping_mul(GOLDEN));
        Self { start, job_number: u64::from(job_number) }
    }

    /// The table's value for `purpose`.
    pub(super) fn of(self, purpose: Purpose) -> u64 {
        let place = purpose as u64;
        let start = (0..place).fold(self.start, |seed, _| seed.wrapping_mul(GOLDEN));
        start.wrapping_mul(self.job_number).wrapping_add(place)
    }

    /// The seed that random offsets start from.
    ///
    /// `overridden` says that the job counted as repeatable when fio first filled the table. That
    /// is before it notices that `randseed` was given, but clones are made after it noticed.
    pub(super) fn offset(self, overridden: bool, compat: Compat) -> u64 {
        match compat {
            Compat::V3_34 if overridden => OFFSET_SEED.wrapping_mul(self.job_number),
            Compat::V3_34 | Compat::V3_35 => self.of(Purpose::Offset),
        }
    }
}

fn at_least(value: u64, least: u64) -> u64 {
    if value < least { value + least } else { value }
}

/// The shifts of each word: left, right, low bits dropped, and left again.
const NARROW: [[u32; 4]; 3] = [[13, 19, 1, 12], [2, 25, 3, 4], [3, 11, 4, 17]];

/// The same for the wide generator.
const WIDE: [[u32; 4]; 5] =
    [[1, 53, 1, 10], [24, 50, 9, 5], [3, 23, 12, 29], [5, 24, 17, 23], [3, 33, 23, 8]];

/// fio means a sum of powers of two but writes exclusive ors: 2^31 is 29, 2^17 is 19, 2^7 is 5.
const SEED_START: u32 = 29 + 19 + 5;

/// The multiplier of the seed table, a prime near the golden ratio of 32 bits.
const GOLDEN: u64 = 0x9e37_0001;

/// The fixed seed of repeatable random offsets up to fio 3.34.
const OFFSET_SEED: u64 = 0xb189_9bed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_masks_are_those_of_the_generator() {
        let masks: Vec<u64> = WIDE.iter().map(|row| u64::MAX << row[2]).collect();
        assert_eq!(
            masks,
            [
                18_446_744_073_709_551_614,
                18_446_744_073_709_551_104,
                18_446_744_073_709_547_520,
                18_446_744_073_709_420_544,
                18_446_744_073_701_163_008,
            ]
        );
    }

    #[test]
    fn the_table_moves_the_seed_once_per_place() {
        let seeds = Seeds::new(0x89, 2);
        let start = seeds.start;
        assert_eq!(seeds.of(Purpose::ReadSize), start.wrapping_mul(2));
        assert_eq!(
            seeds.of(Purpose::WriteSize),
            start.wrapping_mul(GOLDEN).wrapping_mul(2).wrapping_add(1)
        );
    }

    #[test]
    fn a_percent_lies_between_one_and_a_hundred() {
        let mut random = Random::narrow(1);
        let drawn: Vec<u64> = (0..10_000).map(|_| random.percent()).collect();
        assert_eq!(drawn.iter().min(), Some(&1));
        assert_eq!(drawn.iter().max(), Some(&100));
    }
}
