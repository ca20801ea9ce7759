//! Random scripts: which file, which limits, which steps.
//!
//! A script consists of phrases (a stream, a stride, faults here and there), each a few steps that
//! an application could do in a row. Every script draws which phrases it has and how often; most
//! have only some. Its seed alone identifies a script.

use forebay_core::units::{PAGE_SIZE, PageIndex};
use forebay_sim::plan::{Advice, Step};

/// The sizes of the files that scripts read: empty pages' neighbours, the edges of the page
/// cache's 64-page leaves, and some that no window covers at once.
pub(crate) const FILES: [u64; 14] = [
    1,
    PAGE_SIZE,
    5 * PAGE_SIZE + 100,
    63 * PAGE_SIZE,
    64 * PAGE_SIZE,
    64 * PAGE_SIZE + 1,
    129 * PAGE_SIZE - 7,
    513 * PAGE_SIZE,
    1000 * PAGE_SIZE,
    4095 * PAGE_SIZE + 2048,
    4096 * PAGE_SIZE,
    4161 * PAGE_SIZE,
    10_000 * PAGE_SIZE + 4095,
    16_384 * PAGE_SIZE,
];

/// A script and its file.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    /// One of [`FILES`].
    pub(crate) file: usize,
    /// The device's limit of readahead.
    pub(crate) ra_pages: u64,
    /// The device's largest request.
    pub(crate) io_pages: u64,
    pub(crate) steps: Vec<Step>,
}

impl Scenario {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        // Small files end before much can happen.
        let file = if random.chance(20) {
            random.below(FILES.len() as u64)
        } else {
            7 + random.below(FILES.len() as u64 - 7)
        };
        let file = usize::try_from(file).expect("an index of a short list");
        let ra_pages = match random.below(10) {
            0..4 => 32,
            4..6 => 64 << random.below(5),
            _ => random.pick(&RA_PAGES),
        };
        let io_pages = if random.chance(40) { 320 } else { random.pick(&IO_PAGES) };
        let writer = Writer {
            random,
            bytes: FILES[file],
            ra_pages,
            io_pages,
            last: 0,
            touched: false,
            steps: Vec::new(),
        };
        Self { seed, file, ra_pages, io_pages, steps: writer.write() }
    }
}

/// A script that is being written.
#[derive(Debug)]
struct Writer {
    random: Random,
    bytes: u64,
    ra_pages: u64,
    io_pages: u64,
    /// The page after the last requested one.
    last: PageIndex,
    /// Whether pages may be mapped, so that they cannot be dropped one by one.
    touched: bool,
    steps: Vec<Step>,
}

impl Writer {
    fn write(mut self) -> Vec<Step> {
        let phrases: [fn(&mut Self); 15] = [
            Self::stream,
            Self::stream,
            Self::far_reads,
            Self::near_reads,
            Self::stride,
            Self::backward,
            Self::interleaved,
            Self::follow,
            Self::bytes,
            Self::end_of_file,
            Self::patches,
            Self::walk,
            Self::touches,
            Self::advice,
            Self::anew,
        ];
        let weights =
            phrases.map(|_| if self.random.chance(50) { 0 } else { self.random.below(9) });
        let total: u64 = weights.iter().sum::<u64>().max(1);
        let length = 10 + self.random.below(60);
        while (self.steps.len() as u64) < length {
            let mut draw = self.random.below(total);
            let chosen = weights.iter().position(|&weight| {
                let hit = draw < weight;
                draw = draw.saturating_sub(weight);
                hit
            });
            phrases[chosen.unwrap_or(0)](&mut self);
        }
        self.steps
    }

    /// Reads in a row.
    fn stream(&mut self) {
        let (mut page, count) = (self.place(), self.count());
        for _ in 0..=self.random.below(24) {
            self.read(page, count);
            page += count;
        }
    }

    fn far_reads(&mut self) {
        for _ in 0..=self.random.below(6) {
            let (page, count) = (self.random.below(self.pages()), self.count());
            self.read(page, count);
        }
    }

    /// Reads around the place of the last one.
    fn near_reads(&mut self) {
        for _ in 0..=self.random.below(8) {
            let page = (self.last + self.random.below(80)).saturating_sub(40);
            let count = 1 + self.random.below(8);
            self.read(page, count);
        }
    }

    fn stride(&mut self) {
        let (mut page, count) = (self.place(), 1 + self.random.below(4));
        let step = count + 1 + self.random.below(6);
        for _ in 0..=self.random.below(16) {
            self.read(page, count);
            page += step;
        }
    }

    fn backward(&mut self) {
        let (mut page, count) = (self.place() + 20, 1 + self.random.below(6));
        for _ in 0..=self.random.below(10) {
            self.read(page, count);
            page = page.saturating_sub(count);
        }
    }

    /// Two streams by turns.
    fn interleaved(&mut self) {
        let mut places = [self.place(), self.random.below(self.pages())];
        let count = 1 + self.random.below(3);
        for _ in 0..=self.random.below(14) {
            for page in &mut places {
                self.read(*page, count);
                *page += count;
            }
        }
    }

    /// A stream whose folios grow, then another descriptor that finds their markers and their end:
    /// the windows of such a stream end on multiples of large folios.
    fn follow(&mut self) {
        let mut page = if self.random.chance(50) { 0 } else { self.place() };
        let count = self.ra_pages.max(8) / (1 + self.random.below(4));
        for _ in 0..=self.random.below(16) {
            self.read(page, count);
            page += count;
        }
        self.steps.push(Step::Open);
        let step = 32 << self.random.below(5);
        let first = page.saturating_sub(4 * step) / step * step;
        let offset = if self.random.chance(70) { 0 } else { self.random.below(step) };
        let mut places: Vec<PageIndex> =
            (0..=self.random.below(24)).map(|index| first + index * step + offset).collect();
        // From below they meet the markers first, from above the end of the cached pages.
        if self.random.chance(60) {
            places.reverse();
        }
        for place in places {
            self.read(place, 1);
        }
    }

    /// Reads in a row that know nothing of pages.
    fn bytes(&mut self) {
        let mut offset = self.random.below(self.bytes);
        let len = 1 + self.random.below(4 * PAGE_SIZE);
        for _ in 0..=self.random.below(12) {
            self.read_bytes(offset, len);
            offset += len;
        }
    }

    /// Reads up to the file's end and past it.
    fn end_of_file(&mut self) {
        let mut page = self.pages().saturating_sub(1 + self.random.below(40));
        let count = 1 + self.random.below(8);
        for _ in 0..=self.random.below(8) {
            self.read(page, count);
            page += count;
        }
    }

    /// Single pages here and there, without a trace in any descriptor's state.
    fn patches(&mut self) {
        self.steps.extend([Step::Open, Step::Advise(Advice::Random)]);
        let place = self.place();
        for _ in 0..=self.random.below(6) {
            let (page, count) = (place + self.random.below(60), 1 + self.random.below(3));
            self.read(page, count);
        }
        self.steps.push(Step::Open);
        self.last = place;
    }

    /// Touches in a row.
    fn walk(&mut self) {
        let (mut page, step) = (self.place(), 1 + self.random.below(9));
        for _ in 0..=self.random.below(24) {
            self.touch(page);
            page += step;
        }
    }

    fn touches(&mut self) {
        for _ in 0..=self.random.below(8) {
            let page = if self.random.chance(50) {
                self.random.below(self.pages())
            } else {
                (self.last + self.random.below(64)).saturating_sub(32)
            };
            self.touch(page);
        }
    }

    fn advice(&mut self) {
        let advice = self.random.pick(&Advice::ALL);
        // Mapped pages would stay, and which pages are mapped is a question of time.
        if advice != Advice::DontNeed || !self.touched {
            self.steps.push(Step::Advise(advice));
        }
    }

    fn anew(&mut self) {
        let step = if self.random.chance(60) { Step::Open } else { Step::Drop };
        self.touched &= step == Step::Open;
        self.steps.push(step);
    }

    fn read(&mut self, page: PageIndex, count: u64) {
        self.read_bytes(page * PAGE_SIZE, count * PAGE_SIZE);
    }

    fn read_bytes(&mut self, offset: u64, len: u64) {
        self.steps.push(Step::Read { offset, len });
        self.last = (offset + len).div_ceil(PAGE_SIZE);
    }

    fn touch(&mut self, page: PageIndex) {
        // Behind the end of the file there is nothing to touch.
        if page < self.pages() {
            self.steps.push(Step::Touch { page });
            self.last = page + 1;
            self.touched = true;
        }
    }

    /// Where a phrase begins: the start, behind the last one, at the edge of a leaf, or anywhere.
    fn place(&mut self) -> PageIndex {
        match self.random.below(4) {
            0 => 0,
            1 => self.last + self.random.below(4),
            2 => (64 * self.random.below(self.pages().div_ceil(64)) + self.random.below(8))
                .saturating_sub(4),
            _ => self.random.below(self.pages()),
        }
    }

    /// How many pages a request has.
    fn count(&mut self) -> u64 {
        let near = match self.random.below(6) {
            0 | 1 => 1,
            2 => 1 + self.random.below(9),
            3 => self.ra_pages + self.random.below(3),
            4 => self.io_pages + self.random.below(3),
            _ => self.random.pick(&COUNTS),
        };
        near.clamp(1, COUNT_MAX)
    }

    fn pages(&self) -> u64 {
        self.bytes.div_ceil(PAGE_SIZE)
    }
}

/// A stream of numbers from a seed (splitmix64).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let index = self.below(choices.len() as u64);
        choices[usize::try_from(index).expect("an index of a short list")]
    }
}

const RA_PAGES: [u64; 18] = [0, 1, 2, 3, 4, 5, 8, 16, 31, 33, 48, 64, 96, 100, 128, 256, 512, 1024];

const IO_PAGES: [u64; 7] = [16, 32, 33, 64, 128, 160, 256];

const COUNTS: [u64; 12] = [2, 4, 8, 15, 16, 17, 31, 33, 64, 100, 200, 400];

/// Pages of the largest request.
const COUNT_MAX: u64 = 1200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_one_script() {
        for seed in 0..200 {
            let (one, two) = (Scenario::new(seed), Scenario::new(seed));
            assert_eq!(one.steps, two.steps);
            assert!(one.steps.len() >= 10);
            assert!((one.file, one.ra_pages) == (two.file, two.ra_pages));
        }
    }

    #[test]
    fn touches_stay_inside_the_file_and_mapped_pages_are_not_advised_away() {
        for scenario in (0..500).map(Scenario::new) {
            let pages = FILES[scenario.file].div_ceil(PAGE_SIZE);
            let mut touched = false;
            for step in scenario.steps {
                match step {
                    Step::Touch { page } => {
                        assert!(page < pages);
                        touched = true;
                    }
                    Step::Drop => touched = false,
                    Step::Advise(advice) => assert!(advice != Advice::DontNeed || !touched),
                    Step::Read { .. } | Step::Open => {}
                }
            }
        }
    }
}
