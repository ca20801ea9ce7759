//! Zipf and Pareto offsets: a few blocks take most of the visits.
//!
//! Source:     fio 3.33 and 3.35, `lib/zipf.c`, `filesetup.c`, `hash.h`; Gray et al. 1994 for
//!             the inverse of the zipf distribution
//! Behaviour:  A rank is drawn, scattered over the file by a multiplication and rotated by the
//!             generator's first output. Each file has its own generator, seeded with a hash of
//!             its name and the job's number.
//! Differs:    Powers and logarithms come from `libm`, so that every platform draws alike; fio
//!             takes those of its C library, which may differ in the last bit.
//! Not for:    runs that must visit every block: there is no random map here

use super::Compat;
use super::random::Random;

/// How random offsets spread over a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Every block with the same probability.
    Uniform,
    /// Zipf with exponent `theta`.
    Zipf {
        /// The exponent; the larger, the more visits fall on few blocks.
        theta: f64,
        /// Where in the file the most visited block lies, as a share of it.
        center: Option<f64>,
    },
    /// Pareto with power `h`.
    Pareto {
        /// The power, between zero and one.
        h: f64,
        /// Where in the file the most visited block lies, as a share of it.
        center: Option<f64>,
    },
}

/// The generator of skewed block numbers of one file.
#[derive(Clone, Debug)]
pub(super) struct Skew {
    blocks: u64,
    curve: Curve,
    random: Random,
    rotation: u64,
}

#[derive(Clone, Copy, Debug)]
enum Curve {
    Zipf { theta: f64, zeta: f64, eta: f64, alpha: f64 },
    Pareto { power: f64 },
}

impl Skew {
    /// The generator for `blocks` blocks; none if the distribution is uniform.
    ///
    /// `twin` is the generator of another file of the job, whose sum is taken over if the files
    /// have the same size: summing ten million powers is the slow part.
    pub(super) fn new(
        distribution: Distribution,
        blocks: u64,
        seed: u32,
        twin: Option<&Self>,
    ) -> Option<Self> {
        let (curve, center) = match distribution {
            Distribution::Uniform => return None,
            Distribution::Zipf { theta, center } => {
                let known = twin.filter(|twin| twin.blocks == blocks).map(|twin| twin.curve);
                (known.unwrap_or_else(|| zipf(theta, blocks)), center)
            }
            Distribution::Pareto { h, center } => {
                (Curve::Pareto { power: libm::log(h) / libm::log(1.0 - h) }, center)
            }
        };
        let mut random = Random::narrow(u64::from(seed));
        let first = random.next();
        let rotation = center.map_or(first, |center| (blocks as f64 * center) as u64);
        Some(Self { blocks, curve, random, rotation })
    }

    /// The next block.
    pub(super) fn next(&mut self) -> u64 {
        let uniform = self.random.next() as f64 / f64::from(u32::MAX);
        let rank = match self.curve {
            Curve::Zipf { theta, zeta, eta, alpha } => {
                let point = uniform * zeta;
                if point < 1.0 {
                    0
                } else if point < 1.0 + libm::pow(0.5, theta) {
                    1
                } else {
                    (self.blocks as f64 * libm::pow(eta * uniform - eta + 1.0, alpha)) as u64
                }
            }
            Curve::Pareto { power } => {
                (self.blocks.wrapping_sub(1) as f64 * libm::pow(uniform, power)) as u64
            }
        };
        rank.wrapping_mul(SCATTER).wrapping_add(self.rotation) % self.blocks.max(1)
    }
}

/// The seed of a file's generator.
pub(super) fn seed(
    name: &str,
    job_number: u32,
    offset_seed: u64,
    repeatable: bool,
    compat: Compat,
) -> u32 {
    let named = hash(name.as_bytes()).wrapping_mul(job_number);
    #[expect(clippy::cast_possible_truncation, reason = "fio keeps 32 bits of the seed")]
    match compat {
        Compat::V3_34 if repeatable => named,
        Compat::V3_34 => offset_seed as u32,
        Compat::V3_35 => u64::from(named).wrapping_mul(offset_seed) as u32,
    }
}

fn zipf(theta: f64, blocks: u64) -> Curve {
    let zeta =
        (1..=blocks.min(SUM_TERMS_MAX)).fold(0.0, |sum, k| sum + libm::pow(1.0 / k as f64, theta));
    let zeta_of_two = 1.0 + libm::pow(0.5, theta);
    let alpha = 1.0 / (1.0 - theta);
    let eta = (1.0 - libm::pow(2.0 / blocks as f64, 1.0 - theta)) / (1.0 - zeta_of_two / zeta);
    Curve::Zipf { theta, zeta, eta, alpha }
}

/// Jenkins' lookup3 with one slip of fio's kept: of each full group of twelve bytes before the
/// last, only the bytes 0, 4 and 8 count.
fn hash(name: &[u8]) -> u32 {
    let length = u32::try_from(name.len()).expect("a file name is shorter than 4 GiB");
    let start = HASH_START.wrapping_add(length);
    let (mut a, mut b, mut c) = (start, start, start);
    let mut rest = name;
    while rest.len() > 12 {
        a = a.wrapping_add(u32::from(rest[0]));
        b = b.wrapping_add(u32::from(rest[4]));
        c = c.wrapping_add(u32::from(rest[8]));
        for (x, y, z, turn) in MIX {
            let mut words = [a, b, c];
            words[x] = words[x].wrapping_sub(words[z]) ^ words[z].rotate_left(turn);
            words[z] = words[z].wrapping_add(words[y]);
            [a, b, c] = words;
        }
        rest = &rest[12..];
    }
    if rest.is_empty() {
        return c;
    }
    let mut last = [0; 12];
    last[..rest.len()].copy_from_slice(rest);
    let word = |at: usize| u32::from_le_bytes([last[at], last[at + 1], last[at + 2], last[at + 3]]);
    let mut words = [a.wrapping_add(word(0)), b.wrapping_add(word(4)), c.wrapping_add(word(8))];
    for (x, y, turn) in FINAL {
        words[x] = (words[x] ^ words[y]).wrapping_sub(words[y].rotate_left(turn));
    }
    words[2]
}

/// One round of the mix: word x loses z and takes z turned, then z gains y.
const MIX: [(usize, usize, usize, u32); 6] =
    [(0, 1, 2, 4), (1, 2, 0, 6), (2, 0, 1, 8), (0, 1, 2, 16), (1, 2, 0, 19), (2, 0, 1, 4)];

/// One round of the final mix: word x takes y, then loses y turned.
const FINAL: [(usize, usize, u32); 7] =
    [(2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24)];

/// The golden ratio of 32 bits, where the hash starts.
const HASH_START: u32 = 0x61c8_8647;

/// The golden ratio of 64 bits, which scatters the ranks.
const SCATTER: u64 = 0x61c8_8646_80b5_83eb;

/// fio sums no more terms than these, to bound the time of its start.
const SUM_TERMS_MAX: u64 = 10_000_000;
