//! READ requests: what is near is answered on the spot, what takes longer by other threads.
//!
//! ```text
//!   one thread takes requests    near, and nobody waits behind it     answered at once
//!                                a device, a large block, a queue     handed to a worker
//! ```
//!
//! A round trip costs least if whoever asks and whoever answers share a processor, and the kernel
//! wakes the threads that wait for requests in turn. So one thread waits for them, as long as it is
//! quick; whatever would hold it up is somebody else's.

use std::cell::RefCell;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock, Weak};
use std::{io, thread};

use crossbeam_channel::{Receiver, Sender, bounded};
use forebay_core::packed::{Pages, Plan};
use forebay_core::units::PAGE_SIZE;
use forebay_image::Kind;
use fuser::{Errno, INodeNo, OpenFlags, ReplyData};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::decode::{Missed, Pace};
use super::handle::{Ahead, HEADER, Open};
use super::push::{Answering, Job};
use super::session::Served;

/// A READ request.
#[derive(Debug)]
pub(super) struct Read {
    task: u32,
    number: INodeNo,
    open: Arc<Open>,
    bytes: Range<u64>,
    pages: Pages,
    plan: Option<Plan>,
    answering: Answering,
    reply: ReplyData,
}

/// Threads for what takes longer.
#[derive(Debug)]
pub(super) struct Workers {
    jobs: Sender<Box<Read>>,
    receiver: Receiver<Box<Read>>,
    /// The kernel's end, to see whether somebody waits.
    device: OnceLock<OwnedFd>,
}

impl Workers {
    pub(super) fn new() -> Self {
        let (jobs, receiver) = bounded(WAITING_MAX);
        Self { jobs, receiver, device: OnceLock::new() }
    }

    /// Starts so many threads. They end with what they serve.
    pub(super) fn start(&self, count: usize, served: &Arc<Served>) -> io::Result<()> {
        for number in 0..count {
            let (jobs, served) = (self.receiver.clone(), Arc::downgrade(served));
            thread::Builder::new()
                .name(format!("forebay-read-{number}"))
                .spawn(move || work(&jobs, &served))?;
        }
        Ok(())
    }

    /// Learns of the kernel's end.
    pub(super) fn connect(&self, device: OwnedFd) {
        // Once is enough, and there is one.
        let _ = self.device.set(device);
    }

    /// Whether another request waits.
    fn is_behind(&self) -> bool {
        let Some(device) = self.device.get() else { return false };
        let mut device = [PollFd::new(device, PollFlags::IN)];
        matches!(poll(&mut device, Some(&Timespec::default())), Ok(1))
    }
}

fn work(jobs: &Receiver<Box<Read>>, served: &Weak<Served>) {
    while let Ok(read) = jobs.recv() {
        let Some(served) = served.upgrade() else { return };
        served.guarded(|| served.answer(*read, Pace::Patient));
    }
}

impl Served {
    /// Takes a READ request and sees to it that it is answered.
    pub(super) fn read(
        &self,
        task: u32,
        number: INodeNo,
        (offset, len): (u64, u64),
        flags: OpenFlags,
        reply: ReplyData,
    ) {
        let open = match self.open_file(number) {
            Ok(open) => open,
            Err(error) => return reply.error(error),
        };
        let bytes = offset..offset.saturating_add(len).min(open.size);
        if bytes.is_empty() {
            return reply.data(&[]);
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
                return self.refused(open, &plan);
            }
        };
        let read = Read { task, number, open, bytes, pages, plan, answering, reply };
        if read.pages.len() >= WIDE || self.workers.is_behind() {
            self.hand_over(read);
        } else {
            self.answer(read, Pace::Quick);
        }
    }

    /// Answers, or hands over what is slow.
    fn answer(&self, read: Read, pace: Pace) {
        let len = (read.bytes.end - read.bytes.start) as usize;
        let (id, start) = (read.open.id, read.bytes.start);
        let left = with_buffer(len, |buffer| match self.content.read(id, start, buffer, pace) {
            Ok(waited) => {
                self.answered(read, buffer, waited);
                None
            }
            Err(Missed::Fault(fault)) => {
                read.reply.error(self.fault(id, &fault));
                None
            }
            Err(Missed::Slow) => Some(read),
        });
        if let Some(read) = left {
            self.hand_over(read);
        }
    }

    /// Replies, and sees to what comes next.
    fn answered(&self, read: Read, bytes: &[u8], waited: bool) {
        let Read { task, number, open, pages, plan, answering, reply, .. } = read;
        self.stats.pages_answered.add(pages.len());
        if open.answer(pages) {
            self.stats.pages_lost.add(1);
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
    fn refused(&self, open: Arc<Open>, plan: &Plan) {
        self.stats.refusals.add(1);
        if self.ahead == Ahead::Kernel {
            self.queue.ask(Job::Fetch(open, plan.fetch, true));
        }
    }

    /// Gives a request to a worker; if too many wait for one, answers it here.
    fn hand_over(&self, read: Read) {
        match self.workers.jobs.try_send(Box::new(read)) {
            Ok(()) => self.stats.handed_over.add(1),
            Err(full) => self.answer(*full.into_inner(), Pace::Patient),
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
            self.queue.ask(Job::Fetch(Arc::clone(open), plan.fetch, exact));
        }
        // Behind a window that was answered the kernel asks for the next one.
        if exact || self.ahead == Ahead::Both && read.len() > 1 {
            return;
        }
        for later in [Pages::new(read.end, plan.now.end), plan.later] {
            if !later.is_empty() {
                self.queue.ask(Job::Push(number, Arc::clone(open), later));
            }
        }
    }

    fn open_file(&self, number: INodeNo) -> Result<Arc<Open>, Errno> {
        let id = self.inodes.node(number);
        self.files.open(id, || {
            let node = self.node(id)?;
            if node.kind == Kind::File { Ok(node.size) } else { Err(Errno::EISDIR) }
        })
    }
}

/// Lends a buffer of this thread's.
fn with_buffer<T>(len: usize, fill: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        fill(&mut buffer[..len])
    })
}

/// Of an open file (`include/uapi/asm-generic/fcntl.h`).
const O_DIRECT: i32 = 0o40000;

/// Pages that take longer than others should wait, and than handing them over takes: a window is
/// followed by the next one, which another processor decodes meanwhile.
const WIDE: u64 = 16;

/// Requests that wait for a worker; beyond them the thread that takes requests answers itself.
const WAITING_MAX: usize = 256;
