//! Which pages are touched: traces that have the two baseline columns of the paper's first table
//! exactly, and differ in how many files they touch.
//!
//! The paper's trace is not published. The paper prints 1245 pages touched, 1896 pages read with
//! windows of 32, and 108 faults in that case: 17.6 pages and 11.5 touches a fault. Both can result
//! from one short file for every window, and from long files that are read through.
//!
//! ```text
//!   a short file      ###########......          17 or 18 pages, one window
//!   a long file       ##########......##########......  ...      11 times 16 pages, ten windows:
//!                     |------- 32 -------------|-- 16 --|        the first has two of the runs
//! ```

/// A file: its pages, and those that are touched, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Touched {
    pub(super) pages: u64,
    pub(super) touches: Vec<u64>,
}

/// Totals of a trace: faults with windows of 32 pages, the pages that these windows read, and the
/// touched pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    pub(super) windows: u64,
    pub(super) pages: u64,
    pub(super) touches: u64,
}

/// The start of the graphical environment.
pub(super) const BOOT: Totals = Totals { windows: 108, pages: 1_896, touches: 1_245 };

/// The loading of a viewer, of which the paper prints no number: made up, smaller and less dense.
pub(super) const VIEWER: Totals = Totals { windows: 40, pages: 702, touches: 430 };

/// The most long files that the start can have.
pub(super) const LONG_MAX: u64 = 10;

const LONG_BLOCKS: u64 = 11;
const LONG_PAGES: u64 = 16 * LONG_BLOCKS;
const LONG_WINDOWS: u64 = LONG_BLOCKS - 1;

/// A trace with `long` long files; all others are short.
pub(super) fn trace(totals: Totals, long: u64) -> Vec<Touched> {
    let short = totals.windows - LONG_WINDOWS * long;
    let in_long = totals.touches * LONG_WINDOWS * long / totals.windows;
    let (pages, in_short) = (totals.pages - LONG_PAGES * long, totals.touches - in_long);
    let mut files = Vec::new();
    for group in 0..long.max(1) {
        if long > 0 {
            files.push(long_file(part(in_long, long, group)));
        }
        let first = short * group / long.max(1);
        for file in first..short * (group + 1) / long.max(1) {
            let touches = (0..part(in_short, short, file)).collect();
            files.push(Touched { pages: part(pages, short, file), touches });
        }
    }
    files
}

/// A trace of 23 files: ten of 12 pages, all touched; thirteen of 8 or 9 times 16 pages, of which
/// the first 10 or 11 are touched.
pub(super) fn t1_s() -> Vec<Touched> {
    let mut files = vec![Touched { pages: 12, touches: (0..12).collect() }; 10];
    let mut blocks_so_far = 0;
    for file in 0..13 {
        let blocks = if file < 7 { 9 } else { 8 };
        let mut touches = Vec::new();
        for block in 0..blocks {
            let first = 16 * block;
            touches.extend(first..first + if blocks_so_far < 15 { 11 } else { 10 });
            blocks_so_far += 1;
        }
        files.push(Touched { pages: 16 * blocks, touches });
    }
    files
}

fn long_file(touched: u64) -> Touched {
    let block = |block| (16 * block..).take(part(touched, LONG_BLOCKS, block) as usize);
    Touched { pages: LONG_PAGES, touches: (0..LONG_BLOCKS).flat_map(block).collect() }
}

/// What falls to one of several among which a number is divided as evenly as can be.
fn part(total: u64, among: u64, one: u64) -> u64 {
    total * (one + 1) / among - total * one / among
}
