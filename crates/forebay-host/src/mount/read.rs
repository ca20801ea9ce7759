//! READ requests: what the rule says to each, and its answer.
//!
//! ```text
//!   begun      the file is looked at, its stream hears of the READ, the rule answers or refuses
//!   answer     bytes; then the pages that are likely to be next are asked for
//! ```

use std::ops::Range;
use std::sync::Arc;

use forebay_core::packed::{Pages, Plan};
use forebay_core::units::PAGE_SIZE;
use forebay_image::{Kind, NodeId};
use fuser::{Errno, INodeNo, OpenFlags, ReplyData};

use super::decode::{Missed, Pace};
use super::handle::{Ahead, HEADER, Open};
use super::jobs::{Job, Left};
use super::push::{self, Answering};
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

/// A READ request of which it is known what it is part of.
#[derive(Debug)]
pub(super) struct Read {
    task: u32,
    number: INodeNo,
    open: Arc<Open>,
    bytes: Range<u64>,
    pages: Pages,
    plan: Option<Plan>,
    /// Dropped first: a READ is outstanding until the kernel has its reply.
    reply: ReplyData,
    answering: Answering,
}

impl Served {
    /// Looks at a READ request, and refuses it or answers it.
    pub(super) fn begin(&self, begun: Begun, pace: Pace) -> Result<(), Box<Left>> {
        let open = match self.open_file(begun.number) {
            Ok(Some(open)) => open,
            Ok(None) => {
                begun.reply.error(Errno::EISDIR);
                return Ok(());
            }
            Err(Missed::Fault(fault)) => {
                let Begun { number, reply, .. } = begun;
                reply.error(Errno::EIO);
                self.complain(self.inodes.node(number), fault);
                return Ok(());
            }
            Err(missed) => return Err(Left::new(Job::Begun(begun), missed)),
        };
        let Begun { task, number, offset, len, flags, reply } = begun;
        let bytes = offset..offset.saturating_add(len).min(open.size);
        if bytes.is_empty() {
            reply.data(&[]);
            return Ok(());
        }
        let pages = Pages::new(offset / PAGE_SIZE, bytes.end.div_ceil(PAGE_SIZE));
        let answering = self.outstanding.enter(number, pages);
        let kind = if pages.len() == 1 { &self.stats.demands } else { &self.stats.wide_reads };
        kind.add(1);
        if let Some(recorder) = &self.recorder {
            recorder.read(open.id, pages.start..pages.end);
        }
        // What is decided about one READ depends on those before it, so it is decided in order.
        let plan = match self.decide(&open, task, pages, flags) {
            None => None,
            Some((plan, true)) => Some(plan),
            Some((plan, false)) => {
                reply.error(Errno::EAGAIN);
                drop(answering);
                self.refused(number, open, pages, &plan);
                return Ok(());
            }
        };
        if pages.start == 0 && self.ahead != Ahead::Kernel && self.recorder.is_none() {
            self.go_ahead(task, open.id);
        }
        let read = Box::new(Read { task, number, open, bytes, pages, plan, reply, answering });
        // A window is followed by the next one, which another processor decodes meanwhile.
        if pace == Pace::Quick && (read.pages.len() >= WIDE || self.workers.is_behind()) {
            return Err(Left::new(Job::Read(read), Missed::Slow));
        }
        self.answer(read, pace)
    }

    /// Answers, or gives the request back if that takes longer than there is time.
    pub(super) fn answer(&self, read: Box<Read>, pace: Pace) -> Result<(), Box<Left>> {
        let mut buffer = self.content.buffer((read.bytes.end - read.bytes.start) as usize);
        let (id, start) = (read.open.id, read.bytes.start);
        match self.content.read(id, start, &mut buffer, pace) {
            Ok(waited) => self.answered(*read, &buffer, waited),
            Err(Missed::Fault(fault)) => {
                let Read { reply, answering, .. } = *read;
                reply.error(Errno::EIO);
                drop(answering);
                self.complain(id, fault);
            }
            Err(missed) => return Err(Left::new(Job::Read(read), missed)),
        }
        Ok(())
    }

    /// Replies, and sees to what comes next.
    fn answered(&self, read: Read, bytes: &[u8], waited: bool) {
        let Read { task, number, open, pages, plan, answering, reply, .. } = read;
        self.stats.pages_answered.add(pages.len());
        if open.answer(pages) {
            self.stats.pages_lost.add(1);
            self.again.lost();
        }
        reply.data(bytes);
        drop(answering);
        if pages.start == 0 && !open.is_known() {
            open.begins(bytes);
        }
        let plan = plan.unwrap_or_else(|| self.plan(&open, task, pages).0);
        self.look_ahead(number, &open, pages, &plan, waited);
    }

    /// What the rule says to a READ, and whether it is answered in full. One of the kernel's
    /// readahead may be refused; what a program reads past the page cache is none. Where windows
    /// are ours the rule is asked when the asker has gone on.
    fn decide(
        &self,
        open: &Open,
        task: u32,
        pages: Pages,
        flags: OpenFlags,
    ) -> Option<(Plan, bool)> {
        if self.ahead == Ahead::Ours || flags.0 & O_DIRECT != 0 {
            return None;
        }
        let begins = pages.start == 0 && (2..=HEADER).contains(&pages.len());
        if self.ahead == Ahead::Both
            && begins
            && !open.is_known()
            // If it takes a device or fails, that is seen when it is answered.
            && let Ok(bytes) = self.content.peek(open.id, open.size, Pace::Quick)
        {
            open.begins(&bytes);
        }
        Some(self.plan(open, task, pages))
    }

    /// The kernel asks for the pages one by one. The rule of the paper brings in their raw bytes in
    /// one read; otherwise the page that is asked for next brings in what lies around it.
    fn refused(&self, number: INodeNo, open: Arc<Open>, read: Pages, plan: &Plan) {
        self.stats.refusals.add(1);
        // The kernel's window lies around the page that was touched (`mm/filemap.c`). If a device
        // has to bring it, it begins while the kernel comes back for it.
        let touched = read.start + FAULT_AROUND;
        if read.start > 0 && touched < read.end {
            self.content.hasten_page(open.id, touched, open.size);
        }
        if self.ahead == Ahead::Kernel {
            self.queue.ask(push::Job::Fetch(open, plan.fetch, true));
        } else if read.start > 0 {
            self.load(number, &open);
        }
    }

    /// Asks for what the loader of a program touches, when it is seen to be mapped.
    fn load(&self, number: INodeNo, open: &Arc<Open>) {
        for pages in open.take_loaded() {
            self.queue.ask(push::Job::Push(number, Arc::clone(open), pages));
        }
    }

    /// Has the next file of a folder brought in, while this one is answered.
    fn go_ahead(&self, task: u32, id: NodeId) {
        let Some(number) = self.walks.begin(task, id).map(|next| self.inodes.number(next)) else {
            return;
        };
        let Ok(Some(open)) = self.open_file(number) else { return };
        if (1..=SMALL).contains(&open.pages()) {
            let all = Pages::new(0, open.pages());
            self.queue.ask(push::Job::Push(number, open, all));
        }
    }

    fn plan(&self, open: &Open, task: u32, pages: Pages) -> (Plan, bool) {
        let fetched = || self.content.is_fetched(open.id, pages, open.size);
        open.plan(&self.policy, self.ahead, task, pages, fetched)
    }

    /// Asks for what the rule wants beyond what was answered.
    fn look_ahead(
        &self,
        number: INodeNo,
        open: &Arc<Open>,
        read: Pages,
        plan: &Plan,
        waited: bool,
    ) {
        let exact = self.ahead == Ahead::Kernel;
        if waited && plan.bulk && (!exact || !read.covers(plan.fetch)) {
            self.queue.ask(push::Job::Fetch(Arc::clone(open), plan.fetch, exact));
        }
        // Behind a window that was answered the kernel asks for the next one.
        if exact || self.ahead == Ahead::Both && read.len() > 1 {
            return;
        }
        if self.ahead == Ahead::Both && read.start > 0 {
            self.load(number, open);
        }
        for later in [Pages::new(read.end, plan.now.end), plan.later] {
            if !later.is_empty() {
                self.queue.ask(push::Job::Push(number, Arc::clone(open), later));
            }
        }
    }

    /// A file that is read; none if it is something else.
    fn open_file(&self, number: INodeNo) -> Result<Option<Arc<Open>>, Missed> {
        let id = self.inodes.node(number);
        self.files.open(id, || {
            let node = self.image.node(id)?;
            Ok((node.kind == Kind::File).then_some(node.size))
        })
    }
}

/// Of an open file (`include/uapi/asm-generic/fcntl.h`).
const O_DIRECT: i32 = 0o40000;

/// Half of the window of 128 KiB that a mount has unless somebody changes it.
const FAULT_AROUND: u64 = 16;

/// Pages of a file that is brought in as a whole; larger ones have the kernel's readahead.
const SMALL: u64 = 16;

/// Pages that take longer than others should wait, and than handing them over takes.
const WIDE: u64 = 16;
