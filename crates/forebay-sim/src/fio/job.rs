//! What a job means, as far as a driver must know it.

use std::sync::Arc;

use forebay_core::time::Duration;

use super::Compat;
use super::plan::Plan;
use super::skew::Distribution;
use super::stream::Stream;
use super::words::{Advice, Engine, Mode};

/// One job of a run: a clone of a section, with all defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The section's name.
    pub name: String,
    /// The line of the section's header.
    pub line: u32,
    /// The number of the job over the whole run, counted from one.
    pub job_number: u32,
    /// The number of the clone inside its section; the first is zero. fio makes the others in
    /// falling order.
    pub clone_number: u32,
    /// Directions and order of the requests.
    pub mode: Mode,
    /// The files, in the order that requests count them.
    pub files: Vec<FileSpec>,
    /// How requests are made.
    pub ioengine: Engine,
    /// How many requests the job may have in flight, as typed; see [`Job::depth`].
    pub iodepth: u32,
    /// What the job tells the kernel about each file at open, for [`FileSpec::region_offset`]
    /// and [`FileSpec::region_len`].
    pub advice: Advice,
    /// The pause after every [`Job::thinktime_blocks`] requests.
    pub thinktime: Duration,
    /// Requests between two pauses.
    pub thinktime_blocks: u64,
    /// The job ends after this time, even if its stream continues.
    pub runtime: Option<Duration>,
    /// The stream does not end; only the runtime ends the job.
    pub time_based: bool,
    /// Bytes after which one loop of the job is complete.
    pub io_size: u64,
    /// Requests after which the job ends; zero for no such end.
    pub number_ios: u64,
    /// How often the job is repeated.
    pub loops: u32,
    /// The pause before the job starts.
    pub startdelay: Duration,
    /// Whether requests bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Whether a file's cached pages are dropped when it is opened.
    pub invalidate: bool,
    /// The job waits until all jobs before it have ended.
    pub stonewall: bool,
    /// Whether every write waits until its bytes are durable, as of a file opened with `O_SYNC` or
    /// `O_DSYNC`.
    pub durable: bool,
    /// How random offsets are spread.
    pub distribution: Distribution,
    pub(super) plan: Arc<Plan>,
}

impl Job {
    /// The requests of the job, in order, as the fio of `compat` makes them.
    pub fn stream(&self, compat: Compat) -> Stream {
        Stream::new(&self.plan, compat)
    }

    /// How many requests are really in flight at a time.
    ///
    /// Buffered requests of `libaio` block in the submitting call, direct ones do not. The
    /// synchronous engines know one request at a time whatever `iodepth` says.
    pub const fn depth(&self) -> u32 {
        match self.ioengine {
            Engine::IoUring => self.iodepth,
            Engine::Libaio if self.direct => self.iodepth,
            Engine::Sync
            | Engine::Psync
            | Engine::Vsync
            | Engine::Pvsync
            | Engine::Pvsync2
            | Engine::Libaio
            | Engine::Mmap => 1,
        }
    }

    /// The bytes of the largest request.
    pub fn block_max(&self) -> u64 {
        self.plan.block_max()
    }
}

/// One file of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// The path, as fio writes it in its logs.
    pub name: String,
    /// The bytes it holds before the run starts, if no other job has a part in it: none if the job
    /// writes it for the first time and from its start to its end.
    pub bytes: u64,
    /// The bytes it can grow to; requests end there at the latest.
    pub room: u64,
    /// Where the part that the job uses starts.
    pub region_offset: u64,
    /// How long that part is.
    pub region_len: u64,
}
