//! Serving: what is decided for packed files whose pages the kernel caches, as in a mounted image.
//!
//! The kernel asks by READ requests. A request names the task, the file and the pages; it does not
//! say whether a fault or a `read` is behind it, or which page of a window was demanded. It is
//! answered in full or refused. Pages can be pushed into the kernel's cache, too.
//!
//! ```text
//!   READ(task, file, pages) --> stream     answered or refused; decoded now, pushed later
//!                               given      which pages the kernel has
//!                               program    which pages a loader is about to touch
//!                               folder     which file is read next
//!                               ahead      how many raw bytes are read around a miss
//!   a recorded start       -->  replay     in which order all of it is brought in
//! ```
//!
//! All of it is bookkeeping over numbers: no bytes, no threads, and the time is an argument. The
//! fill rule ([`Fill`](crate::packed::Fill)) has the say about each demand; these files tell it
//! what the demand is.
//!
//! | file | what |
//! | --- | --- |
//! | `stream` | the tasks that read one file, each with its own fill rule |
//! | `given` | pages that were answered or pushed |
//! | `program` | segments of a program as pages |
//! | `folder` | tasks that read the files of a folder in order |
//! | `replay` | a profile as a sequence of actions |
//! | `ahead` | whether misses are local, and how much is read around one |
//! | `near` | which blocks of an object are fetched before they are read |
//! | `speed` | what a device was seen to do |
//! | `part` | parts of requests: where bytes lie in the image |
//! | `path` | requests, the page cache, decoding |
//! | `work` | how work is shared out among threads |
//! | `pushes` | READs and pushes that must not wait for each other |
//! | `mount` | all of these together: what a mounted image does |
//! | `recording` | what a kernel asked, as text |

mod ahead;
mod disk;
mod folder;
mod given;
mod mount;
mod near;
mod part;
mod path;
mod program;
mod pushes;
mod recording;
mod replay;
mod speed;
mod stream;
mod streams;
pub mod work;

pub use ahead::{RawAhead, RawRead};
pub use disk::{DiskConfig, DiskCopy, DiskOp, DiskOutput, DiskPath, ExportLevels, ZeroRange};
pub use folder::FolderWalks;
pub use given::GivenPages;
pub use mount::{Aftermath, MountConfig, MountRules, OpenFile, ReadCall, Verdict};
pub use near::BlockAhead;
pub use part::{Part, PartSource};
pub use path::{CopyOut, ImagePath, PackedBlock, PathConfig, PathOutput, Use};
pub use program::{ProgramPages, Segment};
pub use pushes::{FilePages, Pushes};
pub use recording::{RecordedRead, Recording, RecordingError};
pub use replay::{FoundFile, Replay, ReplayAction, ReplayStep, merge_reads};
pub use speed::DeviceSpeed;
pub use stream::{FileStreams, HEADER_PAGES, ReadDecision, ReadRequest};
