//! READ requests: what the core decides about each, and its answer.
//!
//! ```text
//!   begin      the file is looked at, the core answers or refuses the READ
//!   answer     its bytes are located, and brought by the path
//!   answered   the reply; then what the core has read ahead or pushed
//! ```

use std::ops::Range;

use forebay_core::packed::{Pages, Plan, RawBytes};
use forebay_core::serving::{Aftermath, RawRead, ReadCall, Verdict};
use forebay_core::units::PAGE_SIZE;
use forebay_image::{Kind, NodeId};
use fuser::{Errno, INodeNo, OpenFlags, ReplyData};

use super::fault::{Fault, Missed, Pace};
use super::jobs::{Job, Left};
use super::lock::lock;
use super::path::Ended;
use super::program;
use super::push::Fetch;
use super::session::Served;

/// A READ request as it came.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) task: u32,
    pub(super) number: INodeNo,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) flags: OpenFlags,
    pub(super) reply: ReplyData,
}

/// A READ request that is answered in full.
#[derive(Debug)]
pub(super) struct Read {
    call: ReadCall,
    bytes: Range<u64>,
    file_bytes: u64,
    plan: Option<Plan>,
    begin: forebay_core::time::Instant,
    reply: ReplyData,
}

impl Served {
    /// Looks at a READ request, and refuses it or answers it.
    pub(super) fn begin(&self, begun: Begun, pace: Pace) -> Result<(), Box<Left>> {
        let id = self.inodes.node(begun.number);
        let file_bytes = match self.open_file(id) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                begun.reply.error(Errno::EISDIR);
                return Ok(());
            }
            Err(Missed::Fault(fault)) => {
                begun.reply.error(Errno::EIO);
                self.complain(id, fault);
                return Ok(());
            }
            Err(missed) => return Err(Left::new(Job::Begun(begun), missed)),
        };
        let Begun { task, offset, len, flags, reply, .. } = begun;
        let bytes = offset..offset.saturating_add(len).min(file_bytes);
        if bytes.is_empty() {
            reply.data(&[]);
            return Ok(());
        }
        let pages = Pages::new(offset / PAGE_SIZE, bytes.end.div_ceil(PAGE_SIZE));
        let kind = if pages.len() == 1 { &self.stats.demands } else { &self.stats.wide_reads };
        kind.add(1);
        if let Some(recorder) = &self.recorder {
            recorder.read(id, pages.start..pages.end);
        }
        let is_direct = flags.0 & O_DIRECT != 0;
        let call = ReadCall { task, file: id.0, pages, is_direct };
        if self.content.path.with(|mount, _| mount.wants_first_bytes(&call)) {
            // If it takes a device or fails, that is seen when it is answered.
            let (round, bytes) = self.content.peek(id, file_bytes);
            self.go_on(round, Pace::Quick);
            if let Some(bytes) = bytes {
                self.learn_kind(id, &bytes);
            }
        }
        // What is decided about one READ depends on those before it, so it is decided in order.
        let is_fetched = || self.content.is_fetched(id, pages, file_bytes);
        let (verdict, begin) =
            self.content.path.with(|mount, now| (mount.read(&call, is_fetched), now));
        let plan = match verdict {
            Verdict::Answer(plan) => plan,
            Verdict::Refuse { touched, fetch } => {
                reply.error(Errno::EAGAIN);
                self.stats.refusals.add(1);
                if let Some(page) = touched {
                    self.content.hasten_page(id, page, file_bytes);
                }
                self.fetch(id, file_bytes, fetch);
                self.wake_pusher();
                return Ok(());
            }
        };
        self.push_next_file(&call);
        let read = Box::new(Read { call, bytes, file_bytes, plan, begin, reply });
        // A window is followed by the next one, which another processor decodes meanwhile.
        if pace == Pace::Quick && (pages.len() >= WIDE || self.workers.is_behind()) {
            return Err(Left::new(Job::Read(read), Missed::Slow));
        }
        self.answer(read, pace)
    }

    /// Has the bytes brought that it is answered with, or gives the request back if even to find
    /// them takes longer than there is time.
    pub(super) fn answer(&self, read: Box<Read>, pace: Pace) -> Result<(), Box<Left>> {
        let mut buffer = vec![0; (read.bytes.end - read.bytes.start) as usize];
        let id = NodeId(read.call.file);
        let parts = match self.content.parts(id, read.bytes.start, &mut buffer) {
            Ok(parts) => parts,
            Err(Missed::Fault(fault)) => {
                self.fail(*read, fault);
                return Ok(());
            }
            Err(missed) => return Err(Left::new(Job::Read(read), missed)),
        };
        match self.content.path.begin(&parts, buffer, read) {
            Ok(round) => self.go_on(round, pace),
            Err(read) => {
                lock(&self.crowd).push_back(read);
                // All others may have ended meanwhile.
                if !self.content.path.is_full()
                    && let Some(read) = lock(&self.crowd).pop_front()
                {
                    return Err(Left::new(Job::Read(read), Missed::Slow));
                }
            }
        }
        Ok(())
    }

    /// Answers a request whose bytes are there, or have failed.
    pub(super) fn answer_one(&self, ended: Ended<Box<Read>>) {
        let Ended { what: read, bytes, result, raw, waited } = ended;
        match result {
            Ok(()) => self.answered(*read, &bytes, &raw, waited),
            Err(fault) => self.fail(*read, fault),
        }
    }

    /// Replies, and sees to what comes next.
    fn answered(&self, read: Read, bytes: &[u8], raw: &Range<u64>, waited: bool) {
        let Read { call, file_bytes, plan, begin, reply, bytes: range } = read;
        let id = NodeId(call.file);
        self.stats.pages_answered.add(call.pages.len());
        reply.data(bytes);
        if call.pages.start == 0 && !self.content.path.with(|mount, _| mount.is_known(call.file)) {
            self.learn_kind(id, bytes);
        }
        let (after, has_pushes, end) = self.content.path.with(|mount, now| {
            let after = mount.answered(now, &call, plan, waited);
            (after, mount.has_pushes(), now)
        });
        let Aftermath { fetch, window, is_lost, dropped } = after;
        if let Some(recording) = &self.recording {
            recording.read(&call, &range, begin, end);
        }
        if is_lost {
            self.stats.pages_lost.add(1);
            self.again.lost();
        }
        self.stats.pushes_dropped.add(dropped);
        if has_pushes {
            self.queue.wake();
        }
        self.fetch(id, file_bytes, fetch);
        self.read_ahead(&call, file_bytes, raw, window, waited);
    }

    fn fail(&self, read: Read, fault: Fault) {
        let Read { call, reply, .. } = read;
        reply.error(Errno::EIO);
        self.content.path.with(|mount, _| mount.failed(&call));
        self.complain(NodeId(call.file), fault);
    }

    /// Has the raw bytes of pages brought in, theirs alone.
    fn fetch(&self, id: NodeId, size: u64, pages: Pages) {
        if !pages.is_empty() {
            self.queue.fetch(Fetch::Pages(id, pages, size));
        }
    }

    /// Has the image read around what was needed, if that is worth it.
    fn read_ahead(
        &self,
        call: &ReadCall,
        size: u64,
        raw: &Range<u64>,
        window: Pages,
        missed: bool,
    ) {
        let needed = RawBytes { start: raw.start, end: raw.end };
        if window.is_empty() || needed.is_empty() {
            return;
        }
        let mut around = needed;
        if missed {
            for range in self.content.raw_ranges(NodeId(call.file), window, size) {
                around.start = around.start.min(range.start);
                around.end = around.end.max(range.end);
            }
        }
        let read = RawRead { task: call.task, needed, window: around, is_miss: missed };
        if let Some(ahead) = self.content.path.with(|mount, now| mount.read_ahead(now, &read)) {
            self.queue.fetch(Fetch::Image(ahead.start..ahead.end));
        }
    }

    /// The first bytes of a file were seen.
    fn learn_kind(&self, id: NodeId, bytes: &[u8]) {
        let program = program::pages(bytes);
        self.content.path.with(|mount, _| mount.set_kind(id.0, program));
    }

    /// Has the next file of a folder brought in, while this one is answered.
    fn push_next_file(&self, call: &ReadCall) {
        if call.pages.start > 0 {
            return;
        }
        let Some(next) = self.content.path.with(|mount, _| mount.next_file(call)) else { return };
        if let Ok(Some(_)) = self.open_file(NodeId(next)) {
            let dropped = self.content.path.with(|mount, _| mount.push_small(next));
            self.stats.pushes_dropped.add(dropped);
            self.wake_pusher();
        }
    }

    fn wake_pusher(&self) {
        if self.content.path.with(|mount, _| mount.has_pushes()) {
            self.queue.wake();
        }
    }

    /// The size of a file that is read; none if it is something else.
    fn open_file(&self, id: NodeId) -> Result<Option<u64>, Missed> {
        if let Some(bytes) = self.content.path.with(|mount, _| mount.file_bytes(id.0)) {
            return Ok(Some(bytes));
        }
        let node = self.image.node(id)?;
        if node.kind != Kind::File {
            return Ok(None);
        }
        self.content.path.with(|mount, _| mount.open_file(id.0, node.size));
        Ok(Some(node.size))
    }
}

/// Of an open file (`include/uapi/asm-generic/fcntl.h`).
const O_DIRECT: i32 = 0o40000;

/// Pages that take longer than others should wait, and than handing them over takes.
const WIDE: u64 = 16;
