//! The whole vocabulary between the engine and a world.
//!
//! ```text
//!   Call (what a task asked) -> Bio (a run of one file's pages) -> Request (what the device gets)
//! ```

use core::fmt;

use crate::dispatch::Handling;
use crate::packed::{Coding, Pages, RawBytes};
use crate::readahead::{Mapping, Pattern};
use crate::time::Duration;
use crate::units::{
    CallId, DecodeId, DeviceId, FileId, FrameId, HandleId, PAGE_SIZE, PageIndex, RequestId,
};

/// Inputs of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A task issues a call; its id names no other call in flight.
    Call(CallId, Op),
    /// The task that was woken runs again.
    Resume(CallId),
    /// The device is done with a request, and worked on it for so long, if the world can tell: the
    /// time since its submission may include a task's wait for a processor.
    Done(RequestId, Result<(), IoError>, Option<Duration>),
    /// A block has been decoded, or why it cannot be.
    Decoded(DecodeId, Result<(), IoError>),
    /// A processor has nothing to do: one decode that no call waits for may begin, if there
    /// [is one](crate::engine::Engine::has_idle_work).
    Idle,
    /// The time of [`poll_timeout`](crate::engine::Engine::poll_timeout) has come; early or late is
    /// harmless.
    Timeout,
}

/// What a task can ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `pread`: `len` bytes from byte `offset` on.
    Read {
        /// The open file.
        handle: HandleId,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// `pwrite`: `len` bytes from byte `offset` on, which is at most the file's end. The file grows
    /// up to its reserved size; bytes beyond that are not written.
    Write {
        /// The open file.
        handle: HandleId,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Whether the bytes are safe when the call ends (`RWF_DSYNC`).
        durable: bool,
    },
    /// `fsync`: all that was written to the file is safe when the call ends. A write that failed
    /// since the last one makes it fail, once for each open description.
    Sync {
        /// The open file.
        handle: HandleId,
    },
    /// `ftruncate` to nothing: its pages are dropped, dirty ones without being written.
    Truncate {
        /// The open file.
        handle: HandleId,
    },
    /// Pages that lie completely in a range are written if they are dirty, and dropped: their bytes
    /// are about to be replaced below the engine. No other call writes to them at the same time.
    Discard {
        /// The open file.
        handle: HandleId,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// A request that bypasses the page cache: it goes to the block layer unchanged, and the caller
    /// waits for its completion.
    Direct {
        /// The device.
        device: DeviceId,
        /// The first sector, in units of 512 bytes.
        sector: u64,
        /// The number of sectors; none for a flush.
        sectors: u64,
        /// The kind of request: anything but [`RequestKind::Inode`].
        kind: RequestKind,
        /// Whether a task waits for this request alone, which ends a plug (`REQ_SYNC`).
        is_sync: bool,
    },
    /// A page fault through a mapping.
    Fault {
        /// The open file that was mapped.
        handle: HandleId,
        /// The page of the file.
        page: PageIndex,
        /// Whether the access is a write.
        write: bool,
        /// The mapping.
        mapping: Mapping,
    },
    /// `posix_fadvise` over `len` bytes from `offset` on; a `len` of zero reaches to the end.
    Advise {
        /// The open file.
        handle: HandleId,
        /// The advice.
        advice: Advice,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
}

/// What `posix_fadvise` can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// How the file will be read, whatever the range.
    Pattern(Pattern),
    /// The range will be read soon.
    WillNeed,
    /// The range will not be read soon; its whole clean pages are dropped.
    DontNeed,
    /// The range will be read once.
    NoReuse,
}

/// Outputs of the engine, to be executed in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A device has to do something; answered by one [`Input::Done`].
    Submit(Request),
    /// Bytes go between page memory and the caller's buffer.
    Copy(Copy),
    /// A page of an image goes into one of the two buffers that its packed files share.
    Gather(Gather),
    /// Raw bytes become pages of a packed file; answered by one [`Input::Decoded`].
    Decode(Decode),
    /// A task sleeps for a while, from now on; answered by one [`Input::Resume`].
    Pause(CallId, Duration),
    /// A sleeping task may run; answered by one [`Input::Resume`] when it does.
    Wake(CallId),
    /// A call has ended: bytes transferred, or why none was.
    Reply(CallId, Result<u64, IoError>),
}

/// What a device has to do for a run of one file's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name in the answer.
    pub id: RequestId,
    /// The device.
    pub device: DeviceId,
    /// The file whose pages are filled; [`NO_FILE`] if the page cache is bypassed.
    pub file: FileId,
    /// The first page.
    pub first: PageIndex,
    /// The number of pages, a last one in part included.
    pub pages: u64,
    /// The first sector on the device, in units of 512 bytes.
    pub sector: u64,
    /// The number of sectors.
    pub sectors: u64,
    /// The kind of request.
    pub kind: RequestKind,
    /// Which task runs while it is done.
    pub handling: Handling,
    /// The call that asked for it first; none for what the flusher sends.
    pub task: Option<CallId>,
}

/// The file of requests that bypass the page cache.
pub const NO_FILE: FileId = FileId(u32::MAX);

impl Request {
    /// Whether it bypasses the page cache, and so has no frames.
    pub fn is_direct(&self) -> bool {
        self.file == NO_FILE
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Fills the frames of the pages.
    Read,
    /// Writes the bytes that the frames hold when the request is executed. The device may keep them
    /// in a volatile cache.
    Write,
    /// As a write, and the bytes are safe when it is done (force unit access).
    DurableWrite,
    /// Writes the file's metadata, one page that has no frame.
    Inode,
    /// Makes all writes safe that were done before; it has no pages.
    Flush,
    /// The bytes of a range are needed no more; it has no frames, and only calls that bypass the
    /// page cache send it.
    Discard,
}

impl RequestKind {
    /// Whether the frames of its pages are filled.
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Read)
    }

    /// Whether the bytes of its frames go to the device.
    pub const fn is_data_write(self) -> bool {
        matches!(self, Self::Write | Self::DurableWrite)
    }
}

/// A run of consecutive bytes in consecutive frames that one call receives or gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The call that receives or gives them.
    pub call: CallId,
    /// Whether they go from the caller's buffer to the frames.
    pub to_frames: bool,
    /// The file they belong to.
    pub file: FileId,
    /// The first byte's place in the file.
    pub offset: u64,
    /// The frame of the first byte; the following pages lie in the following frames.
    pub frame: FrameId,
    /// The first byte's place in the caller's buffer.
    pub buffer_offset: u64,
    /// The number of bytes.
    pub len: u64,
}

impl Copy {
    /// The pages that are touched, whole or in part.
    pub const fn pages(&self) -> u64 {
        (self.offset % PAGE_SIZE + self.len).div_ceil(PAGE_SIZE)
    }
}

/// A page of an image that goes into a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather {
    /// The call that fills the buffer.
    pub call: CallId,
    /// The image.
    pub image: FileId,
    /// The page.
    pub page: PageIndex,
    /// Where it lies.
    pub frame: FrameId,
    /// Which of the two buffers.
    pub buffer: usize,
    /// The index among its pages; the first one makes the buffer forget its old contents.
    pub place: u64,
}

/// A block of a packed file that is decoded from its front, as far as is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decode {
    /// Its name in the answer.
    pub id: DecodeId,
    /// The call on whose time it is done; none if an idle processor does it.
    pub call: Option<CallId>,
    /// The packed file.
    pub file: FileId,
    /// The pages that are decoded, from the block's first one on. Those of them that the cache did
    /// not have are [filled](crate::engine::Engine::filled_by).
    pub pages: Pages,
    /// How raw bytes become pages.
    pub coding: Coding,
    /// The image.
    pub image: FileId,
    /// The raw bytes of the whole block; a hole has none.
    pub raw: RawBytes,
    /// The buffer that has the raw bytes; if none, the pages of the image in the cache
    /// [have them](crate::engine::Engine::raw_frames_of).
    pub buffer: Option<usize>,
}

/// Why a call failed: weather, not a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoError {
    /// The device reported an error (`EIO`).
    Device,
    /// The file ended before the page did: it was cut short behind the engine's back.
    Truncated,
    /// A fault lies beyond the end of the file (`SIGBUS`), or a write begins there: files have no
    /// holes.
    BeyondEnd,
    /// The file has no room for a single byte more (`ENOSPC`).
    NoSpace,
    /// The raw bytes of a packed file are not what the format says (`EIO`).
    Corrupt,
    /// Page memory is too small for what one block of a packed file is made of (`ENOMEM`).
    NoMemory,
    /// The file is packed, or has packed files in it, and cannot be changed (`EROFS`).
    ReadOnly,
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Device => "the device reported an error",
            Self::Truncated => "the file ended early",
            Self::BeyondEnd => "the page lies beyond the end of the file",
            Self::NoSpace => "the file has no room left",
            Self::Corrupt => "the block cannot be decoded",
            Self::NoMemory => "page memory is too small for the block",
            Self::ReadOnly => "packed files and their images cannot be changed",
        })
    }
}

impl core::error::Error for IoError {}
