//! READ requests.
//!
//! ```text
//!   begin      the core decides whether the READ is answered or refused
//!   answer     its bytes are located, read and decoded
//!   answered   the reply; then the core's prefetches are queued
//! ```

use forebay_core::packed::{Pages, RawBytes};
use forebay_core::serving::work::WIDE_PAGES;
use forebay_core::serving::{Aftermath, MountRules, Part, RawRead, ReadCall, Verdict};
use forebay_core::units::PAGE_SIZE;
use forebay_image::{Kind, NodeId};
use fuser::Errno;

use super::program;
use super::push::Fetch;
use super::request::{Deferred, Job, PendingRead, ReadRequest};
use super::state::Mount;
use crate::image_path::{EndedRequest, ImageFault, NotReady, Pace};
use crate::lock::lock;

/// The core's decision about a READ request.
struct ReadDecision {
    verdict: Verdict,
    /// The file that is read next.
    next: Option<u64>,
    /// The kind of the file is known.
    is_known: bool,
    has_pushes: bool,
    begin: forebay_core::time::Instant,
}

impl Mount {
    /// Has the core decide about a READ request, and answers or refuses it.
    pub(super) fn begin(&self, request: ReadRequest, pace: Pace) -> Result<(), Box<Deferred>> {
        let id = self.inodes.node(request.number);
        let file_bytes = match self.open_file(id) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                request.reply.error(Errno::EISDIR);
                return Ok(());
            }
            Err(NotReady::Fault(fault)) => {
                request.reply.error(Errno::EIO);
                self.report_fault(id, fault);
                return Ok(());
            }
            Err(why) => return Err(Deferred::new(Job::ReadRequest(request), why)),
        };
        let ReadRequest { task, offset, len, flags, reply, .. } = request;
        let bytes = offset..offset.saturating_add(len).min(file_bytes);
        if bytes.is_empty() {
            reply.data(&[]);
            return Ok(());
        }
        let pages = Pages::new(offset / PAGE_SIZE, bytes.end.div_ceil(PAGE_SIZE));
        let kind = if pages.len() == 1 { &self.stats.demands } else { &self.stats.wide_reads };
        kind.add(1);
        if let Some(recorder) = &self.recorder {
            lock(recorder).read(id, pages.start..pages.end);
        }
        let is_direct = flags.0 & O_DIRECT != 0;
        let call = ReadCall { task, file: id.0, pages, is_direct };
        let ReadDecision { verdict, next, is_known, has_pushes, begin } =
            self.decide(&call, file_bytes);
        let plan = match verdict {
            Verdict::Answer(plan) => plan,
            Verdict::Refuse { touched, fetch } => {
                reply.error(Errno::EAGAIN);
                self.stats.refusals.add(1);
                if let Some(page) = touched {
                    self.content.prefetch_page(id, page, file_bytes);
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
        let read = Box::new(PendingRead { call, bytes, file_bytes, plan, is_known, begin, reply });
        // A window is followed by the next one, which another processor can decode meanwhile.
        if pace == Pace::Quick && (pages.len() >= WIDE_PAGES || self.workers.is_behind()) {
            return Err(Deferred::new(Job::PendingRead(read), NotReady::Slow));
        }
        self.answer(read, pace)
    }

    /// Has the core decide about a READ request of a file of `file_bytes`. A decision depends on
    /// earlier ones, so READs are decided in the order of their arrival.
    fn decide(&self, call: &ReadCall, file_bytes: u64) -> ReadDecision {
        let (path, id) = (&self.content.path, NodeId(call.file));
        let decide = |rules: &mut MountRules, begin| {
            let is_fetched = || self.content.is_fetched(id, call.pages, file_bytes);
            let verdict = rules.read(call, is_fetched);
            let is_answered = matches!(verdict, Verdict::Answer(_));
            let next = if is_answered { rules.next_file(call) } else { None };
            let (is_known, has_pushes) = (rules.is_known(call.file), rules.has_pushes());
            ReadDecision { verdict, next, is_known, has_pushes, begin }
        };
        let decided =
            path.with(|rules, now| (!rules.wants_first_bytes(call)).then(|| decide(rules, now)));
        decided.unwrap_or_else(|| {
            // If they need a device or cannot be read, the answer shows that.
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

    /// Begins to read the bytes of the answer. Defers the request if they cannot be located in
    /// time.
    pub(super) fn answer(&self, read: Box<PendingRead>, pace: Pace) -> Result<(), Box<Deferred>> {
        let mut buffer = self.buffers.take((read.bytes.end - read.bytes.start) as usize);
        let id = NodeId(read.call.file);
        let parts = match self.content.parts(id, read.bytes.start, &mut buffer) {
            Ok(parts) => parts,
            Err(NotReady::Fault(fault)) => {
                self.fail(*read, fault);
                return Ok(());
            }
            Err(why) => return Err(Deferred::new(Job::PendingRead(read), why)),
        };
        let (call, plan, file_bytes) = (read.call, read.plan, read.file_bytes);
        let raw = Part::raw_of_all(&parts);
        let round = self.content.path.begin(&parts, buffer, read);
        if round.waits_for_device() {
            let window = self.content.path.with(|rules, _| rules.missed(plan));
            self.read_ahead(&call, file_bytes, raw, window);
        }
        self.go_on(round, pace);
        Ok(())
    }

    /// Answers a request that has ended.
    pub(super) fn answer_one(&self, ended: EndedRequest<Box<PendingRead>>) {
        let EndedRequest { what: read, bytes, result, raw, waited } = ended;
        match result {
            Ok(()) => self.answered(*read, &bytes, raw, waited),
            Err(fault) => self.fail(*read, fault),
        }
        self.buffers.keep(bytes);
    }

    /// Replies, and queues the prefetches that follow.
    fn answered(&self, read: PendingRead, bytes: &[u8], needed: RawBytes, waited: bool) {
        let PendingRead { call, file_bytes, plan, is_known, begin, reply, bytes: range } = read;
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
            self.replay_trigger.on_loss();
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

    fn fail(&self, read: PendingRead, fault: ImageFault) {
        let PendingRead { call, reply, .. } = read;
        reply.error(Errno::EIO);
        self.content.path.with(|rules, _| rules.failed(&call));
        self.report_fault(NodeId(call.file), fault);
    }

    /// Prefetches the raw bytes of pages, without reading around them.
    fn fetch(&self, id: NodeId, size: u64, pages: Pages) {
        if !pages.is_empty() {
            self.queue.fetch(Fetch::Pages(id, pages, size));
        }
    }

    /// Reads around bytes that a READ waits for, as far as the core decides.
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

    /// Prefetches raw bytes of the image.
    fn fetch_image(&self, ahead: Option<RawBytes>) {
        if let Some(ahead) = ahead {
            self.queue.fetch(Fetch::Image(ahead.start..ahead.end));
        }
    }

    /// Prefetches the next file of a folder while the one before is answered.
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

    /// The size of a regular file; none for other nodes.
    fn open_file(&self, id: NodeId) -> Result<Option<u64>, NotReady> {
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
