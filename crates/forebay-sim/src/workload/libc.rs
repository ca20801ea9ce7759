//! The random numbers of a C library, as old benchmarks draw them.
//!
//! Source:     glibc 2.x, `random_r.c`: the generator of type 3 (additive feedback of degree 31)
//! Behaviour:  The state is filled with powers of 16807 modulo 2^31 - 1 times the seed; the first
//!             310 numbers are thrown away. Each number is the sum of the words 31 and 3 places
//!             back, without its lowest bit.
//! Differs:    nothing.
//! Not for:    `initstate` with less or more state, and libraries that are not glibc.

/// `random()` after `srandom(seed)`.
#[derive(Clone, Debug)]
pub(super) struct Random {
    words: [u32; DEGREE],
    next: usize,
}

impl Random {
    /// The state after `srandom(seed)`. To the library a seed of 0 is 1.
    pub(super) fn new(seed: u32) -> Self {
        let mut words = [0; DEGREE];
        // The library takes the seed for a signed number and divides as C does, towards zero.
        let mut word = i64::from(seed.max(1).cast_signed());
        for slot in &mut words {
            *slot = word as u32;
            word = word * 16_807 % 0x7fff_ffff;
            if word < 0 {
                word += 0x7fff_ffff;
            }
        }
        let mut random = Self { words, next: 0 };
        for _ in 0..10 * DEGREE {
            random.next();
        }
        random
    }

    /// A number below 2^31.
    pub(super) fn next(&mut self) -> u32 {
        let slot = (self.next + SEPARATION) % DEGREE;
        self.words[slot] = self.words[slot].wrapping_add(self.words[self.next]);
        self.next = (self.next + 1) % DEGREE;
        self.words[slot] >> 1
    }
}

/// Words in the state.
const DEGREE: usize = 31;

/// How far apart the two words lie that are added.
const SEPARATION: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_starts_as_the_c_library_does() {
        for (seed, expected) in [
            (1, [1_804_289_383, 846_930_886, 1_681_692_777]),
            (0, [1_804_289_383, 846_930_886, 1_681_692_777]),
            (1_234, [479_142_414, 465_566_339, 961_126_155]),
            (2_147_483_647, [1_065_668_062, 2_142_264_300, 1_066_566_375]),
            (4_000_000_000, [1_111_130_805, 1_380_198_982, 1_306_113_867]),
        ] {
            let mut random = Random::new(seed);
            assert_eq!([(); 3].map(|()| random.next()), expected, "{seed}");
        }
    }
}
