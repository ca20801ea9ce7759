//! The thread that brings in what a profile says, in its order, before anybody asks.
//!
//! ```text
//!   the device   reads all that will be needed, from the beginning on, and nothing else
//!   pages        in their order, some at a time, each file looked up before its first one
//!   names        those that are looked up among the same pages
//! ```
//!
//! A page can be pushed only into an inode that the kernel knows. So the thread looks each path up
//! through the mount itself, like any program, which also fills the kernel's cache of names. It
//! answers no request, so it may wait for those that do.
//!
//! When the kernel forgets files that pages were pushed into, the pages are gone. The next time
//! that somebody asks for something, all is brought in once more: it may be another start.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crossbeam_channel::{Receiver, Sender, bounded};
use forebay_core::packed::Pages;
use forebay_image::NodeId;
use fuser::{INodeNo, Notifier};

use super::content::Content;
use super::handle::{Files, Open};
use super::inodes::Inodes;
use super::profile::Step;
use super::push::Pusher;
use super::stats::Stats;

/// What the thread needs.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) steps: Vec<Step>,
    pub(super) inodes: Inodes,
    pub(super) files: Arc<Files>,
    pub(super) content: Arc<Content>,
    pub(super) pusher: Arc<Pusher>,
    pub(super) stats: Arc<Stats>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) wake: Receiver<()>,
}

/// Has it done again. Without a thread that listens nothing happens.
#[derive(Debug)]
pub(super) struct Again {
    is_lost: AtomicBool,
    wake: Sender<()>,
}

impl Again {
    /// With the end that the thread listens at.
    pub(super) fn new() -> (Self, Receiver<()>) {
        let (wake, woken) = bounded(1);
        (Self { is_lost: AtomicBool::new(false), wake }, woken)
    }

    /// Pages that were pushed are gone.
    pub(super) fn lost(&self) {
        self.is_lost.store(true, Relaxed);
    }

    /// Somebody asks for something.
    pub(super) fn asked(&self) {
        if self.is_lost.load(Relaxed) && self.is_lost.swap(false, Relaxed) {
            // Once is enough, however often it is said.
            let _ = self.wake.try_send(());
        }
    }
}

impl Replay {
    /// Brings everything in, and again when it is gone. Whatever fails is left to whoever asks for
    /// it.
    pub(super) fn run(self, folder: &Path, notifier: &Notifier) {
        let Ok(device) = rustix::fs::stat(folder).map(|found| found.st_dev) else { return };
        // Nothing is held open meanwhile, so that it can be unmounted.
        let root = Root { folder, device };
        for _ in 0..PASSES_MAX {
            let mut is_all = true;
            self.pusher.guarded(|| {
                self.begin_reading();
                is_all = self.pass(&root, notifier);
            });
            if self.stop.load(Relaxed) || is_all && self.wake.recv().is_err() {
                return;
            }
        }
    }

    /// Pushes everything. Says whether that is all: if not, what was pushed is gone.
    fn pass(&self, root: &Root<'_>, notifier: &Notifier) -> bool {
        let mut known: HashMap<&[u8], Option<(INodeNo, Arc<Open>)>> = HashMap::new();
        for batch in self.steps.chunks(BATCH) {
            let mut runs: Vec<(INodeNo, Arc<Open>, Pages)> = Vec::new();
            for step in batch {
                if self.stop.load(Relaxed) {
                    return true;
                }
                if self.wake.try_recv().is_ok() {
                    return false;
                }
                let Step::Read(path, start, count) = step else { continue };
                let found = known.entry(path).or_insert_with(|| self.find(root, path));
                let Some((number, open)) = found else { continue };
                let end = start.saturating_add(*count).min(open.pages());
                if *start < end {
                    runs.push((*number, Arc::clone(open), Pages::new(*start, end)));
                }
            }
            // Pages that lie side by side go in one notification.
            runs.sort_by_key(|(number, _, pages)| (number.0, pages.start));
            for (number, open, pages) in joined(runs) {
                self.stats.pages_replayed.add(pages.len());
                self.pusher.push(notifier, number, &open, pages, PUSH);
            }
            // Names cost whoever starts a round trip each; pages cost it more.
            for step in batch {
                if let Step::Name(path) = step {
                    look_up(root, path);
                }
            }
        }
        true
    }

    /// Has the kernel read the image wherever pages will come from, so that the device works while
    /// names are looked up and pages decoded.
    fn begin_reading(&self) {
        let mut known: HashMap<&[u8], Option<(NodeId, u64)>> = HashMap::new();
        for batch in self.steps.chunks(BATCH) {
            let mut ranges: Vec<Range<u64>> = Vec::new();
            for step in batch {
                let Step::Read(path, start, count) = step else { continue };
                let found = known.entry(path).or_insert_with(|| self.content.find(path));
                if let Some((id, size)) = found {
                    let pages = Pages::new(*start, start.saturating_add(*count));
                    ranges.extend(self.content.raw_ranges(*id, pages, *size));
                }
            }
            ranges.sort_by_key(|range| range.start);
            let mut ranges = ranges.into_iter();
            let Some(mut run) = ranges.next() else { continue };
            for range in ranges {
                if range.start <= run.end.saturating_add(GAP) {
                    run.end = run.end.max(range.end);
                } else {
                    self.content.begin_reading(&run);
                    run = range;
                }
            }
            self.content.begin_reading(&run);
        }
    }

    fn find(&self, root: &Root<'_>, path: &[u8]) -> Option<(INodeNo, Arc<Open>)> {
        let found = look_up(root, path)?;
        let (number, size) = (INodeNo(found.st_ino), u64::try_from(found.st_size).ok()?);
        if !rustix::fs::FileType::from_raw_mode(found.st_mode).is_file() {
            return None;
        }
        let id = self.inodes.node(number);
        let open = self.files.open(id, || Ok::<_, ()>(Some(size))).ok()??;
        Some((number, open))
    }
}

/// The mounted root, and the number of the mount, by which what was mounted below it is told
/// from it.
#[derive(Debug)]
struct Root<'a> {
    folder: &'a Path,
    device: u64,
}

fn look_up(root: &Root<'_>, path: &[u8]) -> Option<rustix::fs::Stat> {
    let path = root.folder.join(OsStr::from_bytes(path.strip_prefix(b"/")?));
    let found = rustix::fs::lstat(&path).ok()?;
    (found.st_dev == root.device).then_some(found)
}

fn joined(runs: Vec<(INodeNo, Arc<Open>, Pages)>) -> Vec<(INodeNo, Arc<Open>, Pages)> {
    let mut joined: Vec<(INodeNo, Arc<Open>, Pages)> = Vec::new();
    for (number, open, pages) in runs {
        match joined.last_mut() {
            Some((last, _, run)) if *last == number && pages.start <= run.end => {
                run.end = run.end.max(pages.end);
            }
            _ => joined.push((number, open, pages)),
        }
    }
    joined
}

/// Pages in a notification: nobody waits for them yet.
const PUSH: u64 = 32;

/// Times that all is brought in: if it is lost more often, there is no room for it.
const PASSES_MAX: u32 = 64;

/// Bytes that nobody needs and that cost less than a read of its own.
const GAP: u64 = 64 << 10;

/// Steps that are put in order together: large enough to join pages, small enough to keep ahead of
/// whoever starts at the same time.
const BATCH: usize = 128;
