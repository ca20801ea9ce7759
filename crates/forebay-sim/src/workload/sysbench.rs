//! The random reads of sysbench 0.4 `fileio`, test mode `rndrd`.
//!
//! Source:     sysbench 0.4.5 to 0.4.12, `tests/fileio/sb_fileio.c`; glibc `random` (additive
//!             feedback of degree 31) and `lrand48`.
//! Behaviour:  one random number modulo 0x3fffffff per request; scaled to the size of all files
//!             and rounded down to a block; quotient and remainder by the size of one file give
//!             file and offset. The generator is never seeded, so every run asks the same.
//! Differs:    the scaling is done in integers where sysbench divides and multiplies doubles. Both
//!             give the same block as long as the blocks number fewer than 2^21: the true quotient
//!             is at least 2^-30 blocks away from a block's edge, or on it, and the doubles err by
//!             less than 2^-31 blocks.
//! Not for:    sysbench 1.0, which has another generator and seeds it from the clock.

use thiserror::Error;

use super::libc;

/// Which release of sysbench draws the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generator {
    /// 0.4.5 to 0.4.9: `random()` in its default state.
    Random,
    /// 0.4.10 to 0.4.12: `lrand48()` in glibc's untouched state.
    Lrand48,
}

/// A run of `rndrd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rndrd {
    /// How many files there are.
    pub files: u32,
    /// The bytes of all files together.
    pub total_bytes: u64,
    /// The bytes of one request.
    pub block: u64,
    /// How many requests there are.
    pub requests: u32,
    /// Where the numbers come from.
    pub generator: Generator,
}

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// The number of the file.
    pub file: u32,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
}

/// Why a run of `rndrd` cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RndrdError {
    /// No file, or no byte in a request.
    #[error("random reads need at least one file and one byte, found {files} files, block {block}")]
    Empty {
        /// The number of files asked for.
        files: u32,
        /// The bytes of a request asked for.
        block: u64,
    },
    /// The files do not each hold the same whole number of blocks.
    #[error("{total_bytes} bytes are not {files} files of a whole number of {block}-byte blocks")]
    Uneven {
        /// The bytes of all files together.
        total_bytes: u64,
        /// The number of files.
        files: u32,
        /// The bytes of a request.
        block: u64,
    },
    /// More blocks than the integer arithmetic is proven for.
    #[error("{blocks} blocks are more than the {BLOCKS_MAX} that sysbench's doubles place exactly")]
    TooMany {
        /// The number of blocks asked for.
        blocks: u64,
    },
}

/// The requests of a run, in order.
#[derive(Clone, Debug)]
pub struct Requests {
    run: Rndrd,
    left: u32,
    source: Source,
}

impl Rndrd {
    /// 1000 requests of `block` bytes over 128 files of 32 MiB, as the readahead paper ran them.
    pub const fn of_paper(block: u64) -> Self {
        let total_bytes = 4 << 30;
        Self { files: 128, total_bytes, block, requests: 1_000, generator: Generator::Random }
    }

    /// The requests in order.
    ///
    /// # Errors
    /// The sizes must be positive, fit each other, and make at most [`BLOCKS_MAX`] blocks.
    pub fn requests(self) -> Result<Requests, RndrdError> {
        if self.files == 0 || self.block == 0 {
            return Err(RndrdError::Empty { files: self.files, block: self.block });
        }
        let stripe = u128::from(self.files) * u128::from(self.block);
        if self.total_bytes == 0 || !u128::from(self.total_bytes).is_multiple_of(stripe) {
            let Self { files, total_bytes, block, .. } = self;
            return Err(RndrdError::Uneven { total_bytes, files, block });
        }
        let blocks = self.total_bytes / self.block;
        if blocks > BLOCKS_MAX {
            return Err(RndrdError::TooMany { blocks });
        }
        Ok(Requests { run: self, left: self.requests, source: Source::new(self.generator) })
    }

    /// The bytes of one file.
    pub fn file_bytes(self) -> u64 {
        self.total_bytes / u64::from(self.files.max(1))
    }
}

impl Iterator for Requests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        let drawn = self.source.next() % SCALE;
        let run = &self.run;
        let file_bytes = run.file_bytes();
        let scaled = u128::from(drawn) * u128::from(run.total_bytes) / u128::from(SCALE);
        let place = u64::try_from(scaled).expect("a share of the total is below the total");
        let place = place - place % run.block;
        let file = u32::try_from(place / file_bytes).expect("a place lies in one of the files");
        Some(Request { file, offset: place % file_bytes, len: run.block })
    }
}

/// The most blocks a run may have.
pub const BLOCKS_MAX: u64 = 1 << 21;

/// The modulus that sysbench puts on its random numbers, and the divisor that it scales them by.
const SCALE: u64 = 0x3fff_ffff;

/// The state of the C library's generator.
#[derive(Clone, Debug)]
enum Source {
    Random(libc::Random),
    Lrand48 { state: u64 },
}

impl Source {
    fn new(generator: Generator) -> Self {
        match generator {
            // Never seeded, the generator is in the state of seed 1.
            Generator::Random => Self::Random(libc::Random::new(1)),
            Generator::Lrand48 => Self::Lrand48 { state: 0 },
        }
    }

    fn next(&mut self) -> u64 {
        match self {
            Self::Random(random) => u64::from(random.next()),
            Self::Lrand48 { state } => {
                *state = (state.wrapping_mul(0x5_deec_e66d) + 0xb) & ((1 << 48) - 1);
                *state >> 17
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use forebay_core::units::{KIB, pages_touched};

    use super::*;

    const BLOCKS_KIB: [u64; 7] = [16, 32, 64, 128, 256, 512, 1024];

    fn places(run: Rndrd) -> Vec<(u32, u64)> {
        run.requests().unwrap().map(|request| (request.file, request.offset)).collect()
    }

    fn distinct(generator: Generator) -> (Vec<usize>, Vec<usize>) {
        let run = |kib| Rndrd { generator, ..Rndrd::of_paper(kib * KIB) };
        let blocks = |kib| run(kib).requests().unwrap().collect::<BTreeSet<_>>();
        let pages = |kib| {
            let of = |request: Request| {
                let (first, count) = pages_touched(request.offset, request.len);
                (first..first + count).map(move |page| (request.file, page))
            };
            run(kib).requests().unwrap().flat_map(of).collect::<BTreeSet<_>>().len()
        };
        (BLOCKS_KIB.map(|kib| blocks(kib).len()).to_vec(), BLOCKS_KIB.map(pages).to_vec())
    }

    #[test]
    fn the_first_requests_are_those_of_sysbench_0_4_5() {
        let golden = [
            (87, 2_949_120),
            (100, 32_276_480),
            (72, 15_876_096),
            (76, 13_434_880),
            (105, 12_795_904),
            (50, 19_218_432),
            (85, 27_410_432),
            (68, 22_364_160),
            (71, 3_686_400),
            (13, 27_377_664),
        ];
        let found = places(Rndrd::of_paper(16 * KIB));
        assert_eq!(found.len(), 1_000);
        assert_eq!(found[..10], golden);
    }

    #[test]
    fn the_first_requests_are_those_of_sysbench_0_4_10() {
        let run = Rndrd { generator: Generator::Lrand48, ..Rndrd::of_paper(16 * KIB) };
        let golden = [(0, 0), (0, 8_454_144), (10, 22_052_864), (45, 7_389_184), (93, 11_337_728)];
        assert_eq!(places(run)[..5], golden);
    }

    #[test]
    fn blocks_repeat_as_often_as_in_sysbench_0_4_5() {
        let (blocks, pages) = distinct(Generator::Random);
        assert_eq!(blocks, [999, 999, 990, 983, 970, 937, 891]);
        assert_eq!(pages, [3_996, 7_992, 15_840, 31_456, 62_080, 119_936, 228_096]);
    }

    #[test]
    fn blocks_repeat_as_often_as_in_sysbench_0_4_10() {
        let (blocks, _) = distinct(Generator::Lrand48);
        assert_eq!(blocks, [998, 994, 991, 982, 970, 942, 899]);
    }

    #[test]
    fn integers_place_every_block_where_doubles_do() {
        let scale = SCALE as f64;
        for (total, block) in [(4_u64 << 30, 16 << 10), (3_000 << 12, 4 << 10), (1 << 33, 1 << 12)]
        {
            let mut source = Source::new(Generator::Lrand48);
            for _ in 0..200_000 {
                let drawn = source.next() % SCALE;
                let double = (drawn as f64 / scale * total as f64) as u64 / block;
                let whole = u128::from(drawn) * u128::from(total) / u128::from(SCALE);
                assert_eq!(double, whole as u64 / block, "{drawn} of {total} by {block}");
            }
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let run = Rndrd::of_paper(16 * KIB);
        let refused = |run: Rndrd| run.requests().unwrap_err();
        assert_eq!(
            refused(Rndrd { files: 0, ..run }),
            RndrdError::Empty { files: 0, block: 16384 }
        );
        assert_eq!(refused(Rndrd { block: 0, ..run }), RndrdError::Empty { files: 128, block: 0 });
        let uneven = RndrdError::Uneven { total_bytes: 4 << 30, files: 128, block: 3_000 };
        assert_eq!(refused(Rndrd { block: 3_000, ..run }), uneven);
        let many = RndrdError::TooMany { blocks: 1 << 23 };
        assert_eq!(refused(Rndrd { block: 512, ..run }), many);
    }

    #[test]
    fn no_requests_are_a_run_too() {
        assert!(places(Rndrd { requests: 0, ..Rndrd::of_paper(16 * KIB) }).is_empty());
    }
}
