//! Pages that are given to the kernel before it asks.
//!
//! A STORE notification waits for the lock of each page that it covers, and a READ holds the locks
//! of its pages until it is answered. So a thread that pushes a page which it should answer waits
//! for itself, and nothing but an abort of the connection
//! (`/sys/fs/fuse/connections/NUMBER/abort`) ends that. Hence the rules:
//!
//! ```text
//!   READ threads   never push, and never wait for a push: what is decoded is theirs before
//!                  the pusher goes to the kernel with it
//!   the pusher     never answers; goes past pages for which a READ is known to be outstanding;
//!                  holds no claim and no lock while it is in the kernel
//!   the queue      is bounded, and what does not fit is dropped
//! ```
//!
//! A READ that the kernel has sent and that no thread has taken yet is not known here. Then the
//! pusher sleeps in the kernel until one of the other threads has answered it, and that is all.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use forebay_core::packed::Pages;
use forebay_core::units::PAGE_SIZE;
use fuser::{INodeNo, Notifier};

use super::clock::lock;
use super::content::Content;
use super::decode::Pace;
use super::handle::Open;
use super::log::Log;
use super::session::words;
use super::stats::Stats;

/// What a pusher is to do.
#[derive(Debug)]
pub(super) enum Job {
    /// Decode these pages and give them to the kernel, as far as it does not have them.
    Push(INodeNo, Arc<Open>, Pages),
    /// Bring their raw bytes in: theirs alone, in one read, or a large piece around them.
    Fetch(Arc<Open>, Pages, bool),
}

/// The queue to the pusher.
#[derive(Debug)]
pub(super) struct Queue {
    pushes: Sender<Job>,
    fetches: Sender<Job>,
    stats: Arc<Stats>,
}

/// READ requests that are being answered.
#[derive(Debug, Default)]
pub(super) struct Outstanding(Mutex<Vec<(INodeNo, Pages)>>);

/// A READ request until it is answered.
#[derive(Debug)]
pub(super) struct Answering {
    all: Arc<Outstanding>,
    read: (INodeNo, Pages),
}

/// The threads at the end of the queue, before they run.
#[derive(Debug)]
pub(super) struct Pusher {
    pushes: Receiver<Job>,
    fetches: Receiver<Job>,
    content: Arc<Content>,
    outstanding: Arc<Outstanding>,
    stats: Arc<Stats>,
    stop: Arc<AtomicBool>,
    log: Arc<Log>,
}

impl Outstanding {
    pub(super) fn enter(self: &Arc<Self>, number: INodeNo, pages: Pages) -> Answering {
        lock(&self.0).push((number, pages));
        Answering { all: Arc::clone(self), read: (number, pages) }
    }

    /// Whether a READ for one of the pages is being answered.
    pub(super) fn touches(&self, number: INodeNo, pages: Pages) -> bool {
        lock(&self.0).iter().any(|(other, read)| {
            *other == number && read.start < pages.end && pages.start < read.end
        })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut all = lock(&self.all.0);
        if let Some(place) = all.iter().position(|read| *read == self.read) {
            all.swap_remove(place);
        }
    }
}

impl Job {
    fn pages(&self) -> Pages {
        match self {
            Self::Push(_, _, pages) | Self::Fetch(_, pages, _) => *pages,
        }
    }
}

impl Queue {
    /// A queue and the pusher at its end.
    pub(super) fn new(
        content: &Arc<Content>,
        outstanding: &Arc<Outstanding>,
        stop: &Arc<AtomicBool>,
        stats: &Arc<Stats>,
        log: &Arc<Log>,
    ) -> (Self, Pusher) {
        let ((push, pushes), (fetch, fetches)) = (bounded(JOBS_MAX), bounded(JOBS_MAX));
        let queue = Self { pushes: push, fetches: fetch, stats: Arc::clone(stats) };
        let pusher = Pusher {
            pushes,
            fetches,
            content: Arc::clone(content),
            outstanding: Arc::clone(outstanding),
            stats: Arc::clone(stats),
            stop: Arc::clone(stop),
            log: Arc::clone(log),
        };
        (queue, pusher)
    }

    /// Asks for something; if there is no room, nothing happens.
    pub(super) fn ask(&self, job: Job) {
        let pages = job.pages();
        let queue = match &job {
            Job::Push(..) => &self.pushes,
            Job::Fetch(..) => &self.fetches,
        };
        if queue.try_send(job).is_err() {
            self.stats.pushes_dropped.add(pages.len());
        }
    }
}

impl Pusher {
    /// Starts the threads; they end when the queue is gone.
    pub(super) fn start(self: Arc<Self>, notifier: Notifier) -> io::Result<()> {
        let this = self;
        let other = Arc::clone(&this);
        thread::Builder::new().name("forebay-fetch".to_owned()).spawn(move || other.fetch())?;
        thread::Builder::new().name("forebay-push".to_owned()).spawn(move || {
            // At the priority of all: who asks for a block that is being decoded here waits for it.
            let mut long = VecDeque::new();
            while let Some(job) = this.next(&mut long) {
                if let Job::Push(number, open, pages) = job {
                    this.guarded(|| this.push(&notifier, number, &open, pages, BATCH));
                }
            }
        })?;
        Ok(())
    }

    /// Brings in raw bytes. A thread of its own, as it waits for the device.
    fn fetch(&self) {
        while let Ok(job) = self.fetches.recv() {
            if let Job::Fetch(open, pages, alone) = job {
                let is_wanted = || !self.stop.load(Relaxed);
                self.guarded(|| {
                    if alone {
                        self.content.fetch(open.id, pages, open.size);
                    } else {
                        self.content.advise(open.id, pages, open.size, is_wanted);
                    }
                });
            }
        }
    }

    /// Does what nobody waits for. If it breaks down, that is said, and whoever asks for the pages
    /// has them from another thread.
    pub(super) fn guarded(&self, work: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            self.log.say(&format!("pages ahead broke down: {}", words(&*panic)));
        }
    }

    /// The next job: at once, a piece of a long one, soon, or after a sleep. Waking a halted
    /// processor costs more than looking for as long.
    fn next(&self, long: &mut VecDeque<Job>) -> Option<Job> {
        let begin = Instant::now();
        while begin.elapsed() < LOOK {
            if self.stop.load(Relaxed) {
                return None;
            }
            match self.pushes.try_recv() {
                Ok(job) if job.pages().len() > PIECE => long.push_back(job),
                Ok(job) => return Some(job),
                Err(TryRecvError::Empty) => match piece(long) {
                    Some(job) => return Some(job),
                    None => std::hint::spin_loop(),
                },
                Err(TryRecvError::Disconnected) => return None,
            }
        }
        let job = self.pushes.recv().ok()?;
        long.push_back(job);
        piece(long)
    }

    /// Gives pages to the kernel, so many at a time.
    pub(super) fn push(
        &self,
        notifier: &Notifier,
        number: INodeNo,
        open: &Open,
        pages: Pages,
        batch: u64,
    ) {
        let mut buffer = vec![0; (batch.min(pages.len()) * PAGE_SIZE) as usize];
        let mut at = pages.start;
        loop {
            let mut run = open.absent(Pages::new(at, pages.end), batch);
            if run.is_empty() || self.stop.load(Relaxed) {
                return;
            }
            if self.outstanding.touches(number, run) {
                run = Pages::new(run.start, run.start + 1);
            }
            at = run.end;
            if self.outstanding.touches(number, run) {
                self.stats.pushes_forgone.add(run.len());
                continue;
            }
            let offset = run.start * PAGE_SIZE;
            let len = (run.end * PAGE_SIZE).min(open.size) - offset;
            let bytes = &mut buffer[..len as usize];
            // Whoever asks for the page hears what is wrong with it.
            if self.content.read(open.id, offset, bytes, Pace::Patient).is_err() {
                continue;
            }
            if self.outstanding.touches(number, run) {
                self.stats.pushes_forgone.add(run.len());
                continue;
            }
            open.push(run);
            match notifier.store(number, offset, bytes) {
                Ok(()) => {
                    self.stats.pushes.add(1);
                    self.stats.pages_pushed.add(run.len());
                }
                Err(error) => {
                    self.stats.pushes_failed.add(1);
                    if is_over(&error) {
                        return;
                    }
                }
            }
        }
    }
}

/// A piece of the first of the long jobs; the next one is of another, so that all go on.
fn piece(long: &mut VecDeque<Job>) -> Option<Job> {
    let Job::Push(number, open, pages) = long.pop_front()? else { return None };
    let end = pages.end.min(pages.start + PIECE);
    if end < pages.end {
        let rest = Job::Push(number, Arc::clone(&open), Pages::new(end, pages.end));
        long.push_back(rest);
    }
    Some(Job::Push(number, open, Pages::new(pages.start, end)))
}

/// Whether the mount is gone.
pub(super) fn is_over(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotConnected || error.raw_os_error() == Some(ENODEV)
}

/// The connection is gone (`include/uapi/asm-generic/errno-base.h`).
const ENODEV: i32 = 19;

/// Jobs that wait at most; each is a window.
const JOBS_MAX: usize = 64;

/// Pages of a long job after which others have a turn.
const PIECE: u64 = 16;

/// Pages in one STORE: one that is asked for meanwhile is decoded by whoever asks.
const BATCH: u64 = 16;

/// As long as waking a halted processor takes on a virtual machine.
const LOOK: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_outstanding_until_it_is_answered() {
        let outstanding = Arc::<Outstanding>::default();
        let (file, pages) = (INodeNo(7), Pages::new(4, 6));
        let answering = outstanding.enter(file, pages);
        let again = outstanding.enter(file, pages);
        assert!(outstanding.touches(file, Pages::new(5, 9)));
        assert!(!outstanding.touches(file, Pages::new(6, 9)));
        assert!(!outstanding.touches(INodeNo(8), pages));
        drop(answering);
        assert!(outstanding.touches(file, pages), "the other one is still there");
        drop(again);
        assert!(!outstanding.touches(file, pages));
    }
}
