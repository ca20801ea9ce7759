//! The thread that prefetches the pages of a profile, in the order of the core's `Replay`.
//!
//! A page can be pushed only into an inode that the kernel knows. So the thread looks each path up
//! through the mount itself, which also fills the kernel's cache of names. It answers no request,
//! so it may wait for the threads that do.
//!
//! When the kernel forgets a file, the pages that were pushed into it are gone. The next request
//! restarts the replay: it may belong to another start of the program.

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
use forebay_image::layout::ReadPages;
use forebay_image::profile::ProfileStep;
use fuser::Notifier;

use super::push::Pusher;
use super::request::PendingRead;
use super::stats::MountStats;
use crate::image_path::Content;

/// The thread's state.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) steps: Vec<ProfileStep>,
    pub(super) content: Arc<Content<Box<PendingRead>>>,
    pub(super) pusher: Arc<Pusher>,
    pub(super) stats: Arc<MountStats>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) wake: Receiver<()>,
}

/// Restarts the replay after pages were lost. Has no effect without a replay thread.
#[derive(Debug)]
pub(super) struct ReplayTrigger {
    is_lost: AtomicBool,
    wake: Sender<()>,
}

impl ReplayTrigger {
    /// A trigger, and the receiver of the thread.
    pub(super) fn new() -> (Self, Receiver<()>) {
        let (wake, woken) = bounded(1);
        (Self { is_lost: AtomicBool::new(false), wake }, woken)
    }

    /// Notes that pages that were pushed are gone.
    pub(super) fn on_loss(&self) {
        self.is_lost.store(true, Relaxed);
    }

    /// Restarts the replay if pages are gone.
    pub(super) fn on_request(&self) {
        if self.is_lost.load(Relaxed) && self.is_lost.swap(false, Relaxed) {
            // The channel holds one restart, which is enough.
            let _ = self.wake.try_send(());
        }
    }
}

/// The paths of a profile by their numbers, and the nodes of the files.
#[derive(Debug, Default)]
struct ProfilePaths<'a> {
    names: Vec<&'a [u8]>,
    files: Vec<&'a [u8]>,
    /// The nodes and sizes of the files in the image, as far as they were looked up.
    nodes: Vec<Option<Option<(NodeId, u64)>>>,
    /// The nodes of the files that the kernel knows.
    open: Vec<Option<NodeId>>,
}

impl Replay {
    /// Replays the profile, and again when pages are lost. Pages that fail are left to the READ for
    /// them.
    pub(super) fn run(self, folder: &Path, notifier: &Notifier) {
        let Ok(device) = rustix::fs::stat(folder).map(|found| found.st_dev) else { return };
        // No file is held open, so that the mount can be unmounted.
        let root = MountedRoot { folder, device };
        let (mut paths, steps) = ProfilePaths::of(&self.steps);
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
                self.restart(&mut replay, &paths);
            } else if self.wake.try_recv().is_ok() {
                self.restart(&mut replay, &paths);
            } else {
                self.pusher.guarded(|| {
                    self.carry_out(action, &mut replay, &mut paths, (&root, notifier));
                });
            }
        }
    }

    /// The kernel has dropped pages of a file, and most likely those of the others.
    fn restart(&self, replay: &mut serving::Replay, paths: &ProfilePaths<'_>) {
        for NodeId(file) in paths.open.iter().flatten() {
            self.content.path.with(|rules, _| rules.forget(*file));
        }
        replay.restart();
    }

    fn carry_out(
        &self,
        action: ReplayAction,
        replay: &mut serving::Replay,
        paths: &mut ProfilePaths<'_>,
        (root, notifier): (&MountedRoot<'_>, &Notifier),
    ) {
        match action {
            ReplayAction::ReadRaw(first, end) => {
                self.prefetch_raw(&replay.steps()[first..end], paths);
            }
            ReplayAction::Find(file) => {
                // Set first: a file that cannot be looked up is not looked up again.
                replay.found(file, None);
                let found = self.find(root, paths.files[file]);
                let known = |(id, bytes): (NodeId, u64)| FoundFile {
                    order: id.0,
                    pages: bytes.div_ceil(PAGE_SIZE),
                };
                replay.found(file, found.map(known));
                paths.open[file] = found.map(|(id, _)| id);
            }
            ReplayAction::Push(file, pages) => {
                if let Some(NodeId(file)) = paths.open[file] {
                    let pushed = self.pusher.push(notifier, &FilePages { file, pages }, PUSH);
                    self.stats.pages_replayed.add(pushed);
                }
            }
            ReplayAction::LookUp(name) => {
                look_up(root, paths.names[name]);
            }
            ReplayAction::Wait | ReplayAction::End => {}
        }
    }

    /// Begins to read the raw bytes of steps, so that the device works while names are looked up
    /// and pages decoded.
    fn prefetch_raw(&self, steps: &[ReplayStep], paths: &mut ProfilePaths<'_>) {
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
            self.content.prefetch_range(&(range.start..range.end));
        }
    }

    fn find(&self, root: &MountedRoot<'_>, path: &[u8]) -> Option<(NodeId, u64)> {
        // The kernel must know a file before pages of it can be pushed.
        look_up(root, path)?;
        let (id, size) = self.content.find(path)?;
        self.content.path.with(|rules, _| rules.open_file(id.0, size));
        Some((id, size))
    }
}

/// The mounted root and its device number, which differs from those of mounts below it.
#[derive(Debug)]
struct MountedRoot<'a> {
    folder: &'a Path,
    device: u64,
}

fn look_up(root: &MountedRoot<'_>, path: &[u8]) -> Option<()> {
    let path = root.folder.join(OsStr::from_bytes(path.strip_prefix(b"/")?));
    let found = rustix::fs::lstat(&path).ok()?;
    (found.st_dev == root.device).then_some(())
}

impl<'a> ProfilePaths<'a> {
    /// The paths of steps, and the steps with numbers in their place.
    fn of(steps: &'a [ProfileStep]) -> (Self, Vec<ReplayStep>) {
        let (mut paths, mut numbers) = (Self::default(), HashMap::<&[u8], usize>::new());
        let steps = steps.iter().map(|step| match step {
            ProfileStep::Name(path) => {
                paths.names.push(path);
                ReplayStep::Name(paths.names.len() - 1)
            }
            ProfileStep::Read(ReadPages { path, page, pages }) => {
                let number = *numbers.entry(path).or_insert_with(|| {
                    paths.files.push(path);
                    paths.files.len() - 1
                });
                ReplayStep::Read(number, Pages::new(*page, page.saturating_add(*pages)))
            }
        });
        let steps = steps.collect();
        paths.nodes = vec![None; paths.files.len()];
        paths.open = vec![None; paths.files.len()];
        (paths, steps)
    }
}

/// Pages in a STORE: no READ waits for them yet.
const PUSH: u64 = 32;
