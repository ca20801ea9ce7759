//! What a job resolves to: blocks, regions of files, bytes of a loop.

use std::sync::Arc;

use super::settings::{Service, Settings};

/// Everything a stream needs, resolved.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) settings: Arc<Settings>,
    pub(super) job_number: u32,
    pub(super) files: Vec<PlanFile>,
    /// The smallest and the largest block of each direction.
    pub(super) block: [(u64, u64); 3],
    /// What random offsets are multiples of.
    pub(super) align: [u64; 3],
    pub(super) use_map: bool,
    /// The job counted as repeatable when fio first filled its seeds.
    pub(super) repeatable_at_first: bool,
    /// The job starts its generators afresh at each loop.
    pub(super) repeatable: bool,
    /// Bytes of one loop, unless `io_size` says otherwise.
    pub(super) size: u64,
    pub(super) time_based: bool,
}

/// One file as the stream sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlanFile {
    pub(super) name: String,
    pub(super) region: Region,
}

/// The part of a file that a job uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// The size of the whole file.
    pub(super) real_size: u64,
    /// Its size before the run.
    pub(super) first_bytes: u64,
    pub(super) io_size: u64,
    /// Where the region starts in the first loop.
    pub(super) first_offset: u64,
    /// Where it starts once the file has its size; differs only if given in percent.
    pub(super) later_offset: u64,
}

impl Plan {
    /// The smallest block of any direction, trim included, which fio counts in.
    pub(super) fn block_min(&self) -> u64 {
        self.block.iter().map(|(low, _)| *low).min().expect("there are three directions")
    }

    /// The largest block of any direction.
    pub(super) fn block_max(&self) -> u64 {
        self.block.iter().map(|(_, high)| *high).max().expect("there are three directions")
    }

    /// Blocks of a file's random map.
    pub(super) fn map_blocks(&self, file: &PlanFile) -> u64 {
        file.region.io_size.min(file.region.real_size) / self.block_min()
    }

    /// Whether any request depends on a generator.
    pub(super) fn draws(&self) -> bool {
        let settings = &self.settings;
        let mode = settings.mode;
        mode.is_random()
            || (mode.reads() && mode.writes())
            || self.block.iter().any(|(low, high)| low != high)
            || settings.service == Service::Random
            || settings.filesize.0 != settings.filesize.1
            || settings.startdelay_us.0 != settings.startdelay_us.1
    }
}

/// The seed of jobs that give none.
pub(super) const RANDSEED: u64 = 0x89;
