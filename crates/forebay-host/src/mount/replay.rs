//! The thread that brings in what a profile says, in the order that `Replay` of the core decides.
//!
//! A page can be pushed only into an inode that the kernel knows. So the thread looks each path up
//! through the mount itself, like any program, which also fills the kernel's cache of names. It
//! answers no request, so it may wait for those that do.
//!
//! When the kernel forgets files that pages were pushed into, the pages are gone. The next time
//! that somebody asks for something, all is brought in once more: it may be another start.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crossbeam_channel::{Receiver, Sender, bounded};
use forebay_core::packed::{Pages, RawBytes};
use forebay_core::serving::{self, FilePages, FoundFile, ReplayAction, ReplayStep, merge_reads};
use forebay_core::units::PAGE_SIZE;
use forebay_image::NodeId;
use fuser::{INodeNo, Notifier};

use super::content::Content;
use super::inodes::Inodes;
use super::profile::Step;
use super::push::Pusher;
use super::read::Read;
use super::stats::Stats;

/// What the thread needs.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) steps: Vec<Step>,
    pub(super) inodes: Inodes,
    pub(super) content: Arc<Content<Box<Read>>>,
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

/// Paths of a profile by their numbers, and what the kernel calls the files.
#[derive(Debug, Default)]
struct Paths<'a> {
    names: Vec<&'a [u8]>,
    files: Vec<&'a [u8]>,
    /// What the image says of the files, as far as it was asked.
    nodes: Vec<Option<Option<(NodeId, u64)>>>,
    /// The nodes of the files that the kernel knows.
    open: Vec<Option<NodeId>>,
}

impl Replay {
    /// Brings everything in, and again when it is gone. What fails is left to the demand for it.
    pub(super) fn run(self, folder: &Path, notifier: &Notifier) {
        let Ok(device) = rustix::fs::stat(folder).map(|found| found.st_dev) else { return };
        // Nothing is held open meanwhile, so that it can be unmounted.
        let root = Root { folder, device };
        let (mut paths, steps) = Paths::of(&self.steps);
        let mut replay = serving::Replay::new(steps, paths.files.len());
        loop {
            let action = replay.next_action();
            if self.stop.load(Relaxed) || action == ReplayAction::End {
                return;
            }
            if action == ReplayAction::Wait {
                if self.wake.recv().is_err() {
                    return;
                }
                replay.restart();
            } else if self.wake.try_recv().is_ok() {
                replay.restart();
            } else {
                self.pusher.guarded(|| {
                    self.carry_out(action, &mut replay, &mut paths, (&root, notifier));
                });
            }
        }
    }

    fn carry_out(
        &self,
        action: ReplayAction,
        replay: &mut serving::Replay,
        paths: &mut Paths<'_>,
        (root, notifier): (&Root<'_>, &Notifier),
    ) {
        match action {
            ReplayAction::ReadRaw(first, end) => {
                self.begin_reading(&replay.steps()[first..end], paths);
            }
            ReplayAction::Find(file) => {
                // Told first: a file that cannot be looked up is not asked for again.
                replay.found(file, None);
                let found = self.find(root, paths.files[file]);
                let known = |(id, bytes): (NodeId, u64)| FoundFile {
                    order: self.inodes.number(id).0,
                    pages: bytes.div_ceil(PAGE_SIZE),
                };
                replay.found(file, found.map(known));
                paths.open[file] = found.map(|(id, _)| id);
            }
            ReplayAction::Push(file, pages) => {
                if let Some(NodeId(file)) = paths.open[file] {
                    self.stats.pages_replayed.add(pages.len());
                    self.pusher.push(notifier, &FilePages { file, pages }, PUSH);
                }
            }
            ReplayAction::LookUp(name) => {
                look_up(root, paths.names[name]);
            }
            ReplayAction::Wait | ReplayAction::End => {}
        }
    }

    /// Has the kernel read the image wherever pages will come from, so that the device works while
    /// names are looked up and pages decoded.
    fn begin_reading(&self, steps: &[ReplayStep], paths: &mut Paths<'_>) {
        let mut ranges: Vec<RawBytes> = Vec::new();
        for step in steps {
            let ReplayStep::Read(file, pages) = step else { continue };
            let path = paths.files[*file];
            let node = paths.nodes[*file].get_or_insert_with(|| self.content.find(path));
            if let Some((id, size)) = *node {
                let raw = self.content.raw_ranges(id, *pages, size);
                ranges.extend(raw.iter().map(|raw| RawBytes { start: raw.start, end: raw.end }));
            }
        }
        for range in merge_reads(ranges) {
            self.content.begin_reading(&(range.start..range.end));
        }
    }

    fn find(&self, root: &Root<'_>, path: &[u8]) -> Option<(NodeId, u64)> {
        let found = look_up(root, path)?;
        let (number, size) = (INodeNo(found.st_ino), u64::try_from(found.st_size).ok()?);
        if !rustix::fs::FileType::from_raw_mode(found.st_mode).is_file() {
            return None;
        }
        let id = self.inodes.node(number);
        self.content.path.with(|rules, _| rules.open_file(id.0, size));
        Some((id, size))
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

impl<'a> Paths<'a> {
    /// The paths of steps, and the steps with numbers in their place.
    fn of(steps: &'a [Step]) -> (Self, Vec<ReplayStep>) {
        let (mut paths, mut numbers) = (Self::default(), HashMap::<&[u8], usize>::new());
        let steps = steps.iter().map(|step| match step {
            Step::Name(path) => {
                paths.names.push(path);
                ReplayStep::Name(paths.names.len() - 1)
            }
            Step::Read(path, start, count) => {
                let number = *numbers.entry(path).or_insert_with(|| {
                    paths.files.push(path);
                    paths.files.len() - 1
                });
                ReplayStep::Read(number, Pages::new(*start, start.saturating_add(*count)))
            }
        });
        let steps = steps.collect();
        paths.nodes = vec![None; paths.files.len()];
        paths.open = vec![None; paths.files.len()];
        (paths, steps)
    }
}

/// Pages in a notification: nothing waits for them yet.
const PUSH: u64 = 32;
