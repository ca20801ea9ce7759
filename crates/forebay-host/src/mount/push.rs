//! Two threads that prefetch: one pushes pages into the kernel's page cache, one reads raw bytes of
//! the image. The core decides which, and keeps pushes and READs apart.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use std::{fmt, io, thread};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use forebay_core::packed::{Pages, RawBytes};
use forebay_core::serving::FilePages;
use forebay_core::serving::work::{FETCH_QUEUE_MAX, PUSH_PAGES_MAX, PUSH_POLL};
use forebay_core::units::PAGE_SIZE;
use forebay_image::NodeId;
use fuser::Notifier;

use super::inodes::Inodes;
use super::log::{Log, panic_message};
use super::request::PendingRead;
use super::stats::MountStats;
use crate::image_path::{Content, EndedRequest};
use crate::processor::nanos;

/// Raw bytes to be read.
#[derive(Debug)]
pub(super) enum Fetch {
    /// Those of pages of a file of that many bytes, in one read.
    Pages(NodeId, Pages, u64),
    /// A range of the image.
    Image(Range<u64>),
}

/// The queues of both threads.
#[derive(Debug)]
pub(super) struct Queue {
    bell: Sender<()>,
    fetches: Sender<Fetch>,
    is_pushing: Arc<AtomicBool>,
    stats: Arc<MountStats>,
}

/// The state of both threads.
#[derive(Debug)]
pub(super) struct Pusher {
    bell: Receiver<()>,
    fetches: Receiver<Fetch>,
    /// The thread that pushes does not sleep.
    is_pushing: Arc<AtomicBool>,
    content: Arc<Content<Box<PendingRead>>>,
    inodes: Arc<Inodes>,
    stats: Arc<MountStats>,
    stop: Arc<AtomicBool>,
    log: Arc<Log>,
    /// Answers requests that these threads finish.
    answer: OnceLock<Answer>,
}

/// Requests that are ready to be answered.
type Ended = Vec<EndedRequest<Box<PendingRead>>>;

/// Answers requests.
struct Answer(Box<dyn Fn(Ended) + Send + Sync>);

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

impl Queue {
    /// The queues, and the threads' state.
    pub(super) fn new(
        content: &Arc<Content<Box<PendingRead>>>,
        inodes: &Arc<Inodes>,
        stop: &Arc<AtomicBool>,
        stats: &Arc<MountStats>,
        log: &Arc<Log>,
    ) -> (Self, Pusher) {
        let ((ring, bell), (fetch, fetches)) = (bounded(1), bounded(FETCH_QUEUE_MAX));
        let is_pushing = Arc::new(AtomicBool::new(false));
        let queue = Self {
            bell: ring,
            fetches: fetch,
            is_pushing: Arc::clone(&is_pushing),
            stats: Arc::clone(stats),
        };
        let pusher = Pusher {
            bell,
            fetches,
            is_pushing,
            content: Arc::clone(content),
            inodes: Arc::clone(inodes),
            stats: Arc::clone(stats),
            stop: Arc::clone(stop),
            log: Arc::clone(log),
            answer: OnceLock::new(),
        };
        (queue, pusher)
    }

    /// Wakes the thread that pushes.
    pub(super) fn wake(&self) {
        // The channel holds one wake-up, which is enough.
        let _ = self.bell.try_send(());
    }

    /// Whether the thread that pushes has a processor.
    pub(super) fn is_pushing(&self) -> bool {
        self.is_pushing.load(Relaxed)
    }

    /// Queues a read of raw bytes; drops it if the queue is full.
    pub(super) fn fetch(&self, fetch: Fetch) {
        let pages = match &fetch {
            Fetch::Pages(_, pages, _) => *pages,
            Fetch::Image(range) => RawBytes { start: range.start, end: range.end }.pages(),
        };
        if self.fetches.try_send(fetch).is_err() {
            self.stats.pushes_dropped.add(pages.len());
        }
    }
}

impl Pusher {
    /// Starts the threads. They end when the mount is dropped.
    pub(super) fn start(self: Arc<Self>, notifier: Notifier) -> io::Result<()> {
        let this = self;
        let other = Arc::clone(&this);
        thread::Builder::new().name("forebay-fetch".to_owned()).spawn(move || other.fetch())?;
        thread::Builder::new().name("forebay-push".to_owned()).spawn(move || {
            // At normal priority: a READ of a block that is being decoded here waits for it.
            while let Some(push) = this.next() {
                this.guarded(|| {
                    this.push(&notifier, &push, PUSH_PAGES_MAX);
                });
            }
        })?;
        Ok(())
    }

    /// Reads raw bytes, in a thread of its own, because it waits for the device.
    fn fetch(&self) {
        while let Ok(fetch) = self.fetches.recv() {
            if self.stop.load(Relaxed) {
                return;
            }
            let answer = |ended| self.answer(ended);
            self.guarded(|| match fetch {
                Fetch::Pages(id, pages, size) => self.content.fetch(id, pages, size, answer),
                Fetch::Image(range) => self.content.fetch_range(&range, answer),
            });
        }
    }

    /// Sets what answers requests.
    pub(super) fn connect(&self, answer: impl Fn(Ended) + Send + Sync + 'static) {
        // It is set once.
        let _ = self.answer.set(Answer(Box::new(answer)));
    }

    /// Answers requests that this thread has finished.
    fn answer(&self, ended: Ended) {
        if let Some(Answer(answer)) = self.answer.get() {
            answer(ended);
        }
    }

    /// Runs work that no request waits for. A panic is logged, and a READ of the pages reads them
    /// again.
    pub(super) fn guarded(&self, work: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            self.log.say(&format!("prefetching broke down: {}", panic_message(&*panic)));
        }
    }

    /// Waits for the next pages: it polls first, because waking an idle processor takes as long.
    fn next(&self) -> Option<FilePages> {
        loop {
            if self.stop.load(Relaxed) {
                return None;
            }
            if let Some(push) = self.content.path.with(|rules, _| rules.next_push()) {
                return Some(push);
            }
            let begin = Instant::now();
            loop {
                match self.bell.try_recv() {
                    Ok(()) => break,
                    Err(TryRecvError::Disconnected) => return None,
                    Err(TryRecvError::Empty) if nanos(begin.elapsed()) < PUSH_POLL.0 => {
                        thread::yield_now();
                    }
                    Err(TryRecvError::Empty) => {
                        self.is_pushing.store(false, Relaxed);
                        self.bell.recv().ok()?;
                        self.is_pushing.store(true, Relaxed);
                        break;
                    }
                }
            }
        }
    }

    /// Pushes those of the pages that the kernel does not have, `batch` pages in a STORE.
    pub(super) fn push(&self, notifier: &Notifier, push: &FilePages, batch: u64) -> u64 {
        let (path, id) = (&self.content.path, NodeId(push.file));
        let Some(size) = path.with(|rules, _| rules.file_bytes(push.file)) else { return 0 };
        let Some(number) = self.inodes.number(id) else { return 0 };
        let (mut rest, mut buffer, mut pushed) = (*push, Vec::new(), 0);
        while !self.stop.load(Relaxed) {
            let (run, forgone) = path.with(|rules, _| rules.absent(&rest, batch));
            self.stats.pushes_forgone.add(forgone);
            if run.pages.is_empty() {
                break;
            }
            rest.pages.start = run.pages.end;
            let offset = run.pages.start * PAGE_SIZE;
            let len = (run.pages.end * PAGE_SIZE).min(size) - offset;
            buffer.resize(len as usize, 0);
            let read;
            (buffer, read) = self.content.read(id, offset, buffer, |ended| self.answer(ended));
            // A READ of the page reports the error.
            if read.is_err() {
                continue;
            }
            if !path.with(|rules, now| rules.begin_push(now, &run)) {
                self.stats.pushes_forgone.add(run.pages.len());
                continue;
            }
            let stored = notifier.store(number, offset, &buffer);
            path.with(|rules, _| rules.end_push(&run));
            match stored {
                Ok(()) => {
                    self.stats.pushes.add(1);
                    self.stats.pages_pushed.add(run.pages.len());
                    pushed += run.pages.len();
                }
                Err(error) => {
                    self.stats.pushes_failed.add(1);
                    if is_over(&error) {
                        break;
                    }
                }
            }
        }
        pushed
    }
}

/// Whether the mount has ended.
fn is_over(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotConnected || error.raw_os_error() == Some(ENODEV)
}

const ENODEV: i32 = 19;
