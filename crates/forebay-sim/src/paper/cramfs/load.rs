//! One run: a trace played on one of the systems.

use forebay_core::packed::{self, BlockMap};
use forebay_core::readahead;
use forebay_core::time::Duration;
use forebay_core::units::{HandleId, KIB, PAGE_SIZE, SECTOR_SIZE};

use super::trace::{self, Touched};
use crate::machine::{Machine, MachineError};
use crate::packed::{Ratio, Writer};
use crate::paper::Measured;
use crate::rng::Rng;
use crate::scenario::{NewFile, PolicySet, Scenario};
use crate::workload::faults::{Faults, Touch};
use crate::world::FaultTime;

/// Which file system the pages lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// A file system without compression, which reads the window of readahead in the largest
    /// possible requests.
    Ext3,
    /// One that does, with a fill rule.
    Packed(&'static str),
}

/// The touched pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// The start of the environment; how many files are long follows from the run's seed.
    Boot,
    /// The same, with 23 files.
    T1S,
    /// The loading of a viewer.
    Viewer,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) system: System,
    /// The readahead window in pages; zero turns readahead off.
    pub(super) window: u64,
    pub(super) which: Which,
    /// Pages of a block.
    pub(super) block_pages: u64,
    /// What the program computes after each touch.
    pub(super) computes: Duration,
}

/// Figures of a run.
pub(super) const FAULTS: (&str, &str) = ("major faults", "count");
pub(super) const PAGES: (&str, &str) = ("pages", "count");
pub(super) const OPERATIONS: (&str, &str) = ("device operations", "count");
pub(super) const SIZE: (&str, &str) = ("mean read size", "KiB");
pub(super) const TOTAL: (&str, &str) = ("time of major faults", "ms");
pub(super) const MEMORY: (&str, &str) = ("of it virtual memory", "ms");
pub(super) const FILE_SYSTEM: (&str, &str) = ("of it file system", "ms");
pub(super) const DRIVER: (&str, &str) = ("of it driver", "ms");
pub(super) const USELESS: (&str, &str) = ("pages for nothing", "count");
pub(super) const WALL: (&str, &str) = ("whole run", "ms");

/// Pages of metadata that are read on the way, each once: of a file system with inodes and
/// indirect blocks, and of cramfs.
const METADATA_EXT3: u64 = 24;
const METADATA_CRAMFS: u64 = 8;

/// What lies between two files that are touched.
const GAP: u64 = 24 * KIB;

/// How single pages stray from the mean ratio: as those of a tree of programs and libraries do.
const SIGMA_PPM: u64 = 120_000;

/// The mean ratio for each number of long files, fitted only on the two baselines: with it CramFS
/// needs 738 and 834 operations within 4 % on average, whatever the number of files.
pub(super) const RATIO_PPM: [u64; trace::LONG_MAX as usize + 1] = [
    350_000, 350_000, 360_000, 360_000, 370_000, 375_000, 380_000, 385_000, 390_000, 400_000,
    400_000,
];

/// The mean ratio that gives the same for 23 files.
const RATIO_T1S_PPM: u64 = 395_000;

impl Which {
    /// The files and the ratio that they are packed with.
    fn files(self, seed: u64) -> (Vec<Touched>, u64) {
        match self {
            // Seeds of draws follow each other, so that every number has its turn.
            Self::Boot => {
                let long = seed.wrapping_add(4) % (trace::LONG_MAX + 1);
                (trace::trace(trace::BOOT, long), RATIO_PPM[long as usize])
            }
            Self::T1S => (trace::t1_s(), RATIO_T1S_PPM),
            Self::Viewer => (trace::trace(trace::VIEWER, 2), RATIO_PPM[5]),
        }
    }
}

impl Load {
    /// Runs it on a machine.
    pub(super) fn measure(&self, machine: &Machine, seed: u64) -> Result<Measured, MachineError> {
        let (files, ratio) = self.which.files(seed);
        let known = "an experiment names its policies";
        let readahead = format!("linux-2.6.21:max={}", self.window);
        let policies = PolicySet {
            readahead: readahead::Spec::parse(&readahead).expect(known),
            ..PolicySet::of(&machine.kernel()).expect("a paper's machine names policies")
        };
        let scenario = |files: &[NewFile]| Scenario::new(machine, &policies, seed, 1, files);
        let (scenario, touches, metadata) = match self.system {
            System::Ext3 => {
                let bytes = |file: &Touched| NewFile::fixed(file.pages * PAGE_SIZE);
                let mut all: Vec<NewFile> = files.iter().map(bytes).collect();
                all.push(NewFile::fixed(METADATA_EXT3 * PAGE_SIZE));
                let mut scenario = scenario(&all)?;
                let handles = (0..files.len() as u32).map(|file| scenario.open(file)).collect();
                let metadata = scenario.open_off(files.len() as u32);
                let touches = touches(&files, handles, metadata, METADATA_EXT3);
                (scenario, touches, METADATA_EXT3)
            }
            System::Packed(fill) => {
                let (maps, bytes) = self.image(&files, ratio, seed);
                let mut scenario = scenario(&[NewFile::fixed(bytes)])?;
                let fill = packed::Spec::parse(fill).expect(known);
                let mut open = |map| {
                    let file = scenario.add_packed(0, map);
                    scenario.open_packed(file, &fill)
                };
                let handles = maps.into_iter().map(&mut open).collect();
                let metadata = scenario.open_off(0);
                let touches = touches(&files, handles, metadata, METADATA_CRAMFS);
                (scenario, touches, METADATA_CRAMFS)
            }
        };
        let task = Faults::new(touches.into_iter(), self.computes);
        let mut ignore = |_: &_| {};
        let (outcome, record) = scenario.run(vec![Box::new(task)], &mut ignore);
        let stats = outcome.stats;
        let (pages, useless) = match self.system {
            System::Ext3 => (stats.pages_read - metadata, stats.pages_wasted()),
            System::Packed(_) => (stats.pages_decoded, stats.pages_unpacked_useless()),
        };
        let millis = |length: Duration| length.as_nanos() as f64 / 1e6;
        let kib = (stats.request_sectors * SECTOR_SIZE) as f64 / KIB as f64 / stats.requests as f64;
        let FaultTime { total, memory, file_system, .. } = record.faults;
        let figures = vec![
            (FAULTS.0, stats.faults_major as f64),
            (PAGES.0, pages as f64),
            (OPERATIONS.0, stats.requests as f64),
            (SIZE.0, kib),
            (USELESS.0, useless as f64),
            (TOTAL.0, millis(total)),
            (MEMORY.0, millis(memory)),
            (FILE_SYSTEM.0, millis(file_system)),
            (DRIVER.0, millis(record.faults.driver())),
            (WALL.0, millis(outcome.elapsed)),
        ];
        let bytes = stats.request_sectors * SECTOR_SIZE;
        Ok(Measured { bytes, outcome, figures, series: Vec::new() })
    }

    /// Where the files lie in an image, and its bytes.
    fn image(&self, files: &[Touched], ratio: u64, seed: u64) -> (Vec<Box<dyn BlockMap>>, u64) {
        let ratio = Ratio { mean_ppm: ratio, sigma_ppm: SIGMA_PPM };
        let mut rng = Rng::new(seed).fork("blocks", self.block_pages);
        let mut writer = Writer::new(METADATA_CRAMFS * PAGE_SIZE);
        let mut maps: Vec<Box<dyn BlockMap>> = Vec::new();
        for file in files {
            writer.skip(GAP);
            let of_block =
                |block: u64| (file.pages - self.block_pages * block).min(self.block_pages);
            let len = |block: u64| ratio.draw(of_block(block), &mut rng);
            maps.push(Box::new(writer.add(file.pages * PAGE_SIZE, self.block_pages, len)));
        }
        writer.skip(GAP);
        (maps, writer.bytes())
    }
}

/// The touches of all files, one file after the other, and the pages of metadata on the way.
fn touches(
    files: &[Touched],
    handles: Vec<HandleId>,
    metadata: HandleId,
    pages: u64,
) -> Vec<Touch> {
    let mut all = Vec::new();
    let count = files.len() as u64;
    for ((number, file), handle) in (0..).zip(files).zip(handles) {
        let of_file = pages * number / count..pages * (number + 1) / count;
        all.extend(of_file.map(|page| Touch::Read(metadata, page)));
        all.extend(file.touches.iter().map(|page| Touch::Page(handle, *page)));
    }
    all
}
