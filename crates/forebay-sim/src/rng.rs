//! Random numbers: one seed names a run, and every consumer has a separate stream.
//!
//! Source:     xoshiro256** and SplitMix64 (Blackman and Vigna, 2018); unbiased bounds by
//!             multiplication (Lemire, 2019); Box-Muller; McKay, Beckman and Conover, 1979.
//! Behaviour:  a seed is spread by SplitMix64 over the four words of xoshiro256**; a stream is
//!             forked from the seed, a label and a number, never from earlier draws.
//! Differs:    nothing in the generators; logarithm, exponential and cosine are those of libm in
//!             software, and each result becomes an integer at once.
//! Not for:    secrets.

use std::f64::consts::TAU;

use forebay_core::time::Duration;

/// One whole in parts per million.
pub const MILLION: u64 = 1_000_000;

/// A seeded stream of random numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    seed: u64,
    words: [u64; 4],
}

impl Rng {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let words = std::array::from_fn(|_| split_mix(&mut state));
        Self { seed, words }
    }

    /// An independent stream named by `label` and `number`; what this stream has drawn so far makes
    /// no difference to it.
    pub fn fork(&self, label: &str, number: u64) -> Self {
        let mut state = self.seed ^ fnv(label);
        let mixed = split_mix(&mut state).wrapping_add(number);
        Self::new(mixed ^ split_mix(&mut state))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let words = &mut self.words;
        let result = words[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = words[1] << 17;
        words[2] ^= words[0];
        words[3] ^= words[1];
        words[1] ^= words[2];
        words[0] ^= words[3];
        words[2] ^= shifted;
        words[3] = words[3].rotate_left(45);
        result
    }

    /// A number below `n`, each equally likely; zero if `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        loop {
            let wide = u128::from(self.next_u64()) * u128::from(n);
            // Only a remainder of `n` is refused, so the division is rarely needed.
            let low = wide as u64;
            if low >= n || low >= n.wrapping_neg() % n {
                return (wide >> 64) as u64;
            }
        }
    }

    /// True `ppm` times in a million.
    pub fn chance(&mut self, ppm: u64) -> bool {
        self.below(MILLION) < ppm
    }

    /// Puts `items` into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }

    /// A log-normal factor of mean one in parts per million; exactly one if `sigma_ppm` is zero.
    pub fn jitter_ppm(&mut self, sigma_ppm: u64) -> u64 {
        if sigma_ppm == 0 {
            return MILLION;
        }
        let sigma = sigma_ppm as f64 / MILLION as f64;
        let factor = libm::exp(sigma * self.normal() - sigma * sigma / 2.0);
        libm::round(factor * MILLION as f64) as u64
    }

    /// A time between events that arrive independently, `mean` apart on average.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        let nanos = -libm::log(self.unit()) * mean.as_nanos() as f64;
        Duration(libm::round(nanos) as u64)
    }

    /// `length` times a log-normal factor of mean one.
    pub fn jittered(&mut self, length: Duration, sigma_ppm: u64) -> Duration {
        if sigma_ppm == 0 {
            return length;
        }
        scaled(length, self.jitter_ppm(sigma_ppm))
    }

    fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.unit()));
        radius * libm::cos(TAU * self.unit())
    }

    /// A number above zero and not above one, of 53 bits.
    fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

/// `draws` points in a box of `parameters` sides, each coordinate in parts per million below one.
///
/// Every side is cut into `draws` equal strata and every stratum is hit once, so few points cover
/// each side evenly. A side's coordinates depend on its number only: a further side changes none.
///
/// ```text
///   side 1   | . |  .|.  |  .|      four draws: one in every column
///   side 0   |  .|.  | . |.  |      and one in every row, in shuffled pairs
/// ```
pub fn latin_hypercube(seed: u64, parameters: usize, draws: usize) -> Vec<Vec<u32>> {
    let root = Rng::new(seed);
    let mut points = vec![Vec::with_capacity(parameters); draws];
    for parameter in 0..parameters {
        let mut rng = root.fork("latin-hypercube", parameter as u64);
        let mut strata: Vec<u64> = (0..draws as u64).collect();
        rng.shuffle(&mut strata);
        for (point, stratum) in points.iter_mut().zip(strata) {
            let place = (stratum * MILLION + rng.below(MILLION)) / draws as u64;
            point.push(u32::try_from(place).expect("a share of a million fits in 32 bits"));
        }
    }
    points
}

/// `length` times `ppm` parts of a million, rounded to the nearest nanosecond.
pub fn scaled(length: Duration, ppm: u64) -> Duration {
    let product = u128::from(length.as_nanos()) * u128::from(ppm) + u128::from(MILLION / 2);
    Duration(u64::try_from(product / u128::from(MILLION)).unwrap_or(u64::MAX))
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

fn fnv(text: &str) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_spread_as_the_published_split_mix_does() {
        let mut state = 1_234_567;
        assert_eq!(split_mix(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(split_mix(&mut state), 3_203_168_211_198_807_973);
    }

    #[test]
    fn the_stream_is_that_of_the_published_generator() {
        let mut rng = Rng { seed: 0, words: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [11_520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn a_fork_does_not_depend_on_what_was_drawn() {
        let mut rng = Rng::new(7);
        let before = rng.fork("arm", 3);
        rng.next_u64();
        assert_eq!(rng.fork("arm", 3), before);
        assert_ne!(rng.fork("arm", 4), before);
        assert_ne!(rng.fork("leg", 3), before);
    }

    #[test]
    fn every_number_below_the_bound_is_equally_likely() {
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 7];
        for _ in 0..70_000 {
            seen[rng.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (9_700..10_300).contains(count)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.below(1), 0);
    }

    #[test]
    fn jitter_has_mean_one_and_the_asked_spread() {
        let mut rng = Rng::new(5);
        let draws: Vec<u64> = (0..200_000).map(|_| rng.jitter_ppm(100_000)).collect();
        let mean = draws.iter().sum::<u64>() / 200_000;
        let above = draws.iter().filter(|draw| **draw > 1_100_000).count();
        assert!((999_000..1_001_000).contains(&mean), "{mean}");
        // ln 1.1 and the half square put the mark at 1.003 sigma: 15.8 % of the draws.
        assert!((31_000..32_200).contains(&above), "{above}");
        assert_eq!(rng.jitter_ppm(0), MILLION);
    }

    #[test]
    fn arrivals_are_the_mean_apart() {
        let mut rng = Rng::new(9);
        let total: u64 = (0..200_000).map(|_| rng.exponential(Duration(1_000)).as_nanos()).sum();
        assert!((198_500_000..201_500_000).contains(&total), "{total}");
    }

    #[test]
    fn a_latin_hypercube_hits_every_stratum_of_every_side_once() {
        let points = latin_hypercube(11, 3, 32);
        assert_eq!(points.len(), 32);
        for side in 0..3 {
            let mut strata: Vec<u64> =
                points.iter().map(|point| u64::from(point[side]) * 32 / MILLION).collect();
            strata.sort_unstable();
            assert_eq!(strata, (0..32).collect::<Vec<u64>>());
        }
        assert!(points.iter().flatten().all(|place| u64::from(*place) < MILLION));
    }

    #[test]
    fn a_further_side_leaves_the_others_as_they_were() {
        let two = latin_hypercube(11, 2, 8);
        let three = latin_hypercube(11, 3, 8);
        assert!(two.iter().zip(&three).all(|(short, long)| short[..] == long[..2]));
        assert!(latin_hypercube(11, 0, 2).iter().all(Vec::is_empty));
        assert!(latin_hypercube(11, 2, 0).is_empty());
    }
}
