//! Requests of the kernel on their way to an answer.

use std::ffi::OsString;
use std::ops::Range;

use forebay_core::packed::Plan;
use forebay_core::serving::ReadCall;
use forebay_core::time::Instant;
use forebay_core::units::PAGE_SIZE;
use forebay_image::NodeId;
use fuser::{
    INodeNo, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEntry,
    ReplyLseek, ReplyXattr,
};

use crate::image_path::{ImageFault, NotReady, PathJob};

/// A request that has not been answered.
#[derive(Debug)]
pub(super) enum Job {
    /// A request about names and nodes.
    Metadata(MetadataOp),
    /// A READ as it came.
    ReadRequest(ReadRequest),
    /// A READ that the core has decided to answer.
    PendingRead(Box<PendingRead>),
    /// An error to log; no request waits for it.
    Report(NodeId, ImageFault),
    /// Reads and decodes for requests in flight.
    Work(Vec<PathJob>),
}

impl Job {
    /// Whether it is a READ of one page: a reader at random places soon asks for the next one.
    pub(super) fn is_demand(&self) -> bool {
        matches!(self, Self::ReadRequest(read) if read.len <= PAGE_SIZE)
    }
}

/// A job that was not carried out, and why.
#[derive(Debug)]
pub(super) struct Deferred(pub(super) Job, pub(super) NotReady);

impl Deferred {
    pub(super) fn new(job: Job, why: NotReady) -> Box<Self> {
        Box::new(Self(job, why))
    }
}

/// A READ request as it came.
#[derive(Debug)]
pub(super) struct ReadRequest {
    pub(super) task: u32,
    pub(super) number: INodeNo,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) flags: OpenFlags,
    pub(super) reply: ReplyData,
}

/// A READ request that is answered in full.
#[derive(Debug)]
pub(super) struct PendingRead {
    pub(super) call: ReadCall,
    pub(super) bytes: Range<u64>,
    pub(super) file_bytes: u64,
    pub(super) plan: Option<Plan>,
    /// The kind of the file is known.
    pub(super) is_known: bool,
    pub(super) begin: Instant,
    pub(super) reply: ReplyData,
}

/// A request and where its answer goes.
#[derive(Debug)]
pub(super) enum MetadataOp {
    /// A name in a folder.
    Name(INodeNo, OsString, ReplyEntry),
    /// What is known of a node.
    Node(INodeNo, ReplyAttr),
    /// The target of a link.
    Link(INodeNo, ReplyData),
    /// Names in a folder, from some place on.
    List(INodeNo, u64, ReplyDirectory),
    /// The same, with what is known of them.
    ListPlus(INodeNo, u64, ReplyDirectoryPlus),
    /// The next byte of a file, from an offset on, that is in a hole or is not.
    Seek(INodeNo, u64, Seek, ReplyLseek),
    /// An extended attribute or the names of all, and the room for it.
    Xattr(INodeNo, Option<OsString>, u32, ReplyXattr),
}

/// What is looked for in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seek {
    /// A byte that the image has.
    Data,
    /// A hole, or the end of the file.
    Hole,
}
