//! READ requests: what the core decides about each, and its answer.
//!
//! ```text
//!   begin      the file is looked at, the core answers or refuses the READ
//!   answer     its bytes are located, and brought by the path
//!   answered   the reply; then what the core has read ahead or pushed
//! ```

use std::ops::Range;

use forebay_core::packed::{Pages, Plan, RawBytes};
use forebay_core::serving::work::WIDE_PAGES;
use forebay_core::serving::{Aftermath, MountRules, Part, RawRead, ReadCall, Verdict};
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
    /// It is known what kind of file it is.
    is_known: bool,
    begin: forebay_core::time::Instant,
    reply: ReplyData,
}

/// What the core has decided about a READ request.
struct Decided {
    verdict: Verdict,
    /// The file that is read next.
    next: Option<u64>,
    /// It is known what kind of file it is.
    is_known: bool,
    has_pushes: bool,
    begin: forebay_core::time::Instant,
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
        let Decided { verdict, next, is_known, has_pushes, begin } = self.decide(&call, file_bytes);
        let plan = match verdict {
            Verdict::Answer(plan) => plan,
            Verdict::Refuse { touched, fetch } => {
                reply.error(Errno::EAGAIN);
                self.stats.refusals.add(1);
                if let Some(page) = touched {
                    self.content.hasten_page(id, page, file_bytes);
                }
                self.fetch(id, file_bytes, fetch);
                if has_pushes {
                    self.queue.wake();
                }
                return Ok(());
            }
        };
        if let Some(next) = next {
            self.push_small_file(NodeId(next));
        }
        let read = Box::new(Read { call, bytes, file_bytes, plan, is_known, begin, reply });
        // A window is followed by the next one, which another processor decodes meanwhile.
        if pace == Pace::Quick && (pages.len() >= WIDE_PAGES || self.workers.is_behind()) {
            return Err(Left::new(Job::Read(read), Missed::Slow));
        }
        self.answer(read, pace)
    }

    /// Has the core decide about a READ request of a file of so many bytes. That depends on those
    /// before it, so they are decided in order.
    fn decide(&self, call: &ReadCall, file_bytes: u64) -> Decided {
        let (path, id) = (&self.content.path, NodeId(call.file));
        let decide = |rules: &mut MountRules, begin| {
            let is_fetched = || self.content.is_fetched(id, call.pages, file_bytes);
            let verdict = rules.read(call, is_fetched);
            let is_answered = matches!(verdict, Verdict::Answer(_));
            let next = if is_answered { rules.next_file(call) } else { None };
            let (is_known, has_pushes) = (rules.is_known(call.file), rules.has_pushes());
            Decided { verdict, next, is_known, has_pushes, begin }
        };
        let decided =
            path.with(|rules, now| (!rules.wants_first_bytes(call)).then(|| decide(rules, now)));
        decided.unwrap_or_else(|| {
            // If it takes a device or fails, that is seen when it is answered.
            let (round, bytes) = self.content.peek(id, file_bytes);
            self.go_on(round, Pace::Quick);
            let program = bytes.map(|bytes| program::pages(&bytes));
            path.with(|rules, now| {
                if let Some(program) = program {
                    rules.set_kind(call.file, program);
                }
                decide(rules, now)
            })
        })
    }

    /// Has the bytes brought that it is answered with, or gives the request back if even to find
    /// them takes longer than there is time.
    pub(super) fn answer(&self, read: Box<Read>, pace: Pace) -> Result<(), Box<Left>> {
        let mut buffer = self.buffers.take((read.bytes.end - read.bytes.start) as usize);
        let id = NodeId(read.call.file);
        let parts = match self.content.parts(id, read.bytes.start, &mut buffer) {
            Ok(parts) => parts,
            Err(Missed::Fault(fault)) => {
                self.fail(*read, fault);
                return Ok(());
            }
            Err(missed) => return Err(Left::new(Job::Read(read), missed)),
        };
        let (call, plan, file_bytes) = (read.call, read.plan, read.file_bytes);
        let raw = Part::raw_of_all(&parts);
        match self.content.path.begin(&parts, buffer, read) {
            Ok(round) => {
                if round.waits_for_device() {
                    let window = self.content.path.with(|rules, _| rules.missed(plan));
                    self.read_ahead(&call, file_bytes, raw, window);
                }
                self.go_on(round, pace);
            }
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
            Ok(()) => self.answered(*read, &bytes, raw, waited),
            Err(fault) => self.fail(*read, fault),
        }
        self.buffers.keep(bytes);
    }

    /// Replies, and sees to what comes next.
    fn answered(&self, read: Read, bytes: &[u8], needed: RawBytes, waited: bool) {
        let Read { call, file_bytes, plan, is_known, begin, reply, bytes: range } = read;
        let id = NodeId(call.file);
        self.stats.pages_answered.add(call.pages.len());
        reply.data(bytes);
        let is_first = call.pages.start == 0 && !is_known;
        let program = is_first.then(|| program::pages(bytes));
        let (after, ahead, has_pushes, end) = self.content.path.with(|rules, now| {
            if let Some(program) = program {
                rules.set_kind(call.file, program);
            }
            let after = rules.answered(now, &call, plan, waited);
            let is_near = !waited && !after.window.is_empty();
            let near = RawRead { task: call.task, needed, window: needed, is_miss: false };
            let ahead = if is_near { rules.read_ahead(now, &near) } else { None };
            (after, ahead, rules.has_pushes(), now)
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
        self.fetch_image(ahead);
        if waited {
            self.read_ahead(&call, file_bytes, needed, window);
        }
    }

    fn fail(&self, read: Read, fault: Fault) {
        let Read { call, reply, .. } = read;
        reply.error(Errno::EIO);
        self.content.path.with(|rules, _| rules.failed(&call));
        self.complain(NodeId(call.file), fault);
    }

    /// Has the raw bytes of pages brought in, theirs alone.
    fn fetch(&self, id: NodeId, size: u64, pages: Pages) {
        if !pages.is_empty() {
            self.queue.fetch(Fetch::Pages(id, pages, size));
        }
    }

    /// Has the image read around what a device is waited for, if that is worth it.
    fn read_ahead(&self, call: &ReadCall, size: u64, needed: RawBytes, window: Pages) {
        if window.is_empty() || needed.is_empty() {
            return;
        }
        let mut around = needed;
        for range in self.content.raw_ranges(NodeId(call.file), window, size) {
            around.start = around.start.min(range.start);
            around.end = around.end.max(range.end);
        }
        let read = RawRead { task: call.task, needed, window: around, is_miss: true };
        self.fetch_image(self.content.path.with(|rules, now| rules.read_ahead(now, &read)));
    }

    /// Has raw bytes of the image brought in.
    fn fetch_image(&self, ahead: Option<RawBytes>) {
        if let Some(ahead) = ahead {
            self.queue.fetch(Fetch::Image(ahead.start..ahead.end));
        }
    }

    /// Has the next file of a folder brought in, while the one before is answered.
    fn push_small_file(&self, id: NodeId) {
        if let Ok(Some(_)) = self.open_file(id) {
            let (dropped, has_pushes) =
                self.content.path.with(|rules, _| (rules.push_small(id.0), rules.has_pushes()));
            self.stats.pushes_dropped.add(dropped);
            if has_pushes {
                self.queue.wake();
            }
        }
    }

    /// The size of a file that is read; none if it is something else.
    fn open_file(&self, id: NodeId) -> Result<Option<u64>, Missed> {
        if let Some(bytes) = self.content.path.with(|rules, _| rules.file_bytes(id.0)) {
            return Ok(Some(bytes));
        }
        let node = self.image.node(id)?;
        if node.kind != Kind::File {
            return Ok(None);
        }
        self.content.path.with(|rules, _| rules.open_file(id.0, node.size));
        Ok(Some(node.size))
    }
}

/// Of an open file (`include/uapi/asm-generic/fcntl.h`).
const O_DIRECT: i32 = 0o40000;
