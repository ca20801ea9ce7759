//! A mounted image in virtual time: a recording of READ requests, replayed by tasks in a closed
//! loop through the code of the core that a real mount runs.
//!
//! ```text
//!   tasks ---- touches ----> kernel: pages, windows, READs in flight
//!                              | READ            ^ answer, refusal, STORE
//!                              v                 |
//!   server threads          one takes requests, N workers, one pushes, one fetches
//!                              |   MountRules of the core: verdicts, pushes, path
//!                              v
//!   image file              page cache, device
//! ```
//!
//! Every step of a thread has a price and takes a core of the machine for that long. The state
//! changes at the moment when a step begins, its price is paid before the next step of the thread.
//!
//! Contents are symbols: a frame holds a page of the image or of a decoded block. Every answer and
//! every push is compared with what the image says lies there.
//!
//! Not modelled: requests about names (so no file of a folder is prefetched), reads of the image's
//! tree, reclaim of the kernel's pages, and FUSE's limit on requests in the background. The think
//! times of tasks pass without a core. Files that begin like a program are faulted in, page by
//! page; all others are read.
//!
//! | file | what |
//! | --- | --- |
//! | `image` | what the replay has to know of an image |
//! | `replay` | a recording as programs of tasks |
//! | `kernel` | the kernel's end: pages, windows, waiters |
//! | `raw` | the image file: page cache, readahead, device |
//! | `request` | requests to the path, jobs, contents |
//! | `act` | steps of threads, and work that waits for one |
//! | `server` | what threads do about requests |
//! | `path` | what the path does about them |
//! | `jobs` | which thread does a job, and its cost |
//! | `push` | what the pushing and the fetching thread do |
//! | `threads` | threads on cores, events |

use forebay_core::packed::Ahead;
use forebay_core::readahead;
use forebay_core::serving::{MountConfig, Recording};
use forebay_core::time::{Duration, Instant};

use crate::device::Device;
use crate::machine::{Machine, MachineError};
use crate::price::Prices;
use crate::stats::Summary;

pub use image::{Codec, PackedImage, decode_time};
pub use replay::{ReplayError, ReplayReason};

mod act;
mod image;
mod jobs;
mod kernel;
mod path;
mod push;
mod raw;
mod replay;
mod request;
mod server;
mod threads;

/// What an image is mounted with, and on what.
#[derive(Debug)]
pub struct MountSetup {
    /// How it is mounted.
    pub config: MountConfig,
    /// Worker threads.
    pub workers: usize,
    /// What the steps of threads cost.
    pub prices: Prices,
    /// The device that the image lies on.
    pub device: Box<dyn Device>,
    /// The first sector of the image.
    pub sector: u64,
    /// Pages in a request to the device at most.
    pub request_pages_max: u64,
    /// Readahead of the image file, for runs of pages.
    pub readahead: readahead::Spec,
}

/// What happens to a replay from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disturbances {
    /// Tasks that die, by their place in the order of their first READs, and when.
    pub deaths: Vec<(usize, Instant)>,
    /// When the image is unmounted, whatever is in flight.
    pub unmount: Option<Instant>,
    /// Check all invariants after every step and keep a trace.
    pub is_checked: bool,
}

/// What a replay came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOutcome {
    /// From the first request of the recording to the end of the last one.
    pub elapsed: Duration,
    /// How long each request of the recording took, from the touch of its first page until its last
    /// page was there.
    pub waits: Summary,
    /// The counters.
    pub counts: MountCounts,
    /// Every step with its time, one a line, if requested.
    pub trace: String,
}

/// Counters of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountCounts {
    /// Requests of the recording that were replayed.
    pub touches: u64,
    /// Of these, the ones whose pages were all there.
    pub hits: u64,
    /// Of these, the ones that ended with an error.
    pub errors: u64,
    /// READ requests that the kernel sent.
    pub reads: u64,
    /// Of these, the ones that were refused.
    pub refusals: u64,
    /// Of these, the ones that were answered with an error.
    pub failures: u64,
    /// Pushes that the kernel took.
    pub pushes: u64,
    /// Pages of these.
    pub pages_pushed: u64,
    /// Pushes that waited in the kernel for a READ of one of their pages.
    pub pushes_crossed: u64,
    /// Pages that were decoded.
    pub pages_decoded: u64,
    /// Different pages that were decoded and never touched.
    pub pages_useless: u64,
    /// Reads at the device of the image.
    pub image_requests: u64,
    /// Their bytes.
    pub image_bytes: u64,
    /// Requests that a worker answered or worked for.
    pub handed_over: u64,
}

impl MountSetup {
    /// An image of `bytes` bytes on the device of a machine.
    ///
    /// # Errors
    /// If there is no room for it on the device.
    pub fn on(
        machine: &Machine,
        config: MountConfig,
        workers: usize,
        seed: u64,
    ) -> Result<Self, MachineError> {
        let kernel = machine.kernel();
        let sectors = machine.layout().place(1, config.path.image_bytes, seed)?;
        let settings = readahead::Settings {
            ra_pages: Some(kernel.read_ahead_kib / KIB_PER_PAGE),
            io_pages: Some(kernel.max_sectors_kib / KIB_PER_PAGE),
            large_folios: Some(false),
        };
        let policy = readahead::Spec::parse(&kernel.readahead);
        Ok(Self {
            config,
            workers,
            prices: machine.prices(),
            device: machine.device(seed),
            sector: sectors.first().copied().unwrap_or(0),
            request_pages_max: (kernel.max_sectors_kib / KIB_PER_PAGE).max(1),
            readahead: policy.expect("machines name policies that exist").with(settings),
        })
    }
}

/// Replays a recording on a mounted image.
///
/// # Errors
/// If a request of the recording is none of this image.
///
/// # Panics
/// If the core breaks one of its promises: that is a defect.
pub fn run(
    setup: MountSetup,
    image: &dyn PackedImage,
    recording: &Recording,
    disturbances: &Disturbances,
) -> Result<MountOutcome, ReplayError> {
    let programs = replay::programs(recording, image)?;
    Ok(server::MountSim::new(setup, image, programs, disturbances).run())
}

/// Whether the kernel reads ahead under a way to mount.
const fn has_windows(ahead: Ahead) -> bool {
    matches!(ahead, Ahead::Kernel | Ahead::Both)
}

/// KiB of a page.
const KIB_PER_PAGE: u64 = 4;
