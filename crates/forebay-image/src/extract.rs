//! A tree of an image, written to disk.
//!
//! ```text
//!   directories   one after the other, with room for their owner only
//!   everything    by all threads: made under a temporary name, complete with owner, mode,
//!   else          attributes and times, then renamed
//!   other names   of files that are there: hard links
//!   directories   from the deepest up: owner, mode, attributes, times
//! ```
//!
//! Nothing outside the target is written, whatever the image says and whatever other processes do
//! in the target: every call names one entry of an open directory and follows no link. An error of
//! one name is reported, and the others continue. Only a target that accepts no more data ends the
//! extraction: the disk is full, the quota is used up, or the file system is read-only.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, Mode};

use crate::content::{Content, SharedBlocks};
use crate::fault::{Cause, Fault};
use crate::image::Image;
use crate::node::Kind;
use crate::opener::{self, Opener};
use crate::verify::node_of;
use crate::walk::{Item, Tree};
use crate::work;

mod file;
mod marks;
mod name;

use marks::Marks;
use name::Names;

/// How a tree is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The number of threads; one at least works.
    pub threads: usize,
    /// Whether files get the owners of the image, which takes a privilege. Without, they belong to
    /// the caller, and set-user-id and set-group-id are kept only where that is the same owner.
    pub owners: bool,
    /// Whether the target may hold something, of which files and links are replaced.
    pub replace: bool,
    /// Whether devices, set-user-id, set-group-id and attributes that only a privileged process may
    /// give are left out.
    pub safe: bool,
}

/// The extracted and the failed files.
#[derive(Debug, Default)]
pub struct Report {
    /// Directories that were made or were there, the target included.
    pub directories: u64,
    /// Regular files.
    pub files: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, pipes and sockets.
    pub specials: u64,
    /// Further names of files.
    pub links: u64,
    /// Bytes of files, holes included.
    pub bytes: u64,
    /// Of these, bytes that were written.
    pub written: u64,
    /// What this caller or this file system cannot have: devices, set-user-id.
    pub skipped: Vec<Fault>,
    /// Extended attributes that were refused; their files were extracted.
    pub lost: Vec<Fault>,
    /// What went wrong.
    pub failed: Vec<Fault>,
}

/// Why nothing, or not all, was tried.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The target cannot be made or opened.
    #[error("cannot {what} '{}': {source}", path.display())]
    Target {
        /// The operation.
        what: &'static str,
        /// The target.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The target holds something already.
    #[error("'{}' is not empty", path.display())]
    NotEmpty {
        /// The target.
        path: PathBuf,
    },
    /// The target takes nothing more.
    #[error("'{}' {why} {fault}", path.display())]
    Ended {
        /// The target.
        path: PathBuf,
        /// Whether it is full, over its quota or read-only.
        why: &'static str,
        /// Where it ended.
        fault: Fault,
    },
}

/// Writes a tree below `target`, which is created if it does not exist. `progress` gets the number
/// of further names that are done.
///
/// # Errors
///
/// If the target is not fit, or takes nothing more. What else goes wrong is in the report.
pub fn extract(
    image: &dyn Image,
    mut tree: Tree,
    target: &Path,
    settings: Settings,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Report, ExtractError> {
    let root = open_target(target, settings.replace)?;
    let failed = mem::take(&mut tree.faults);
    let run = Run {
        image,
        tree: &tree,
        root: root.as_fd(),
        settings,
        shared: Arc::default(),
        done: tree.items().iter().map(|_| AtomicBool::new(false)).collect(),
        end: Mutex::new(None),
        progress,
    };
    let mut report = run.all();
    let end = run.end.into_inner().expect("no thread panics with the lock");
    match end {
        Some((why, fault)) => Err(ExtractError::Ended { path: target.to_owned(), why, fault }),
        None => {
            let is_shown =
                |fault: &Fault| matches!(&fault.cause, Cause::Entry(defect) if defect.is_shown());
            let (shown, failed): (Vec<_>, Vec<_>) = failed.into_iter().partition(is_shown);
            report.skipped.splice(0..0, shown);
            report.failed.splice(0..0, failed);
            Ok(report)
        }
    }
}

/// The target, made if it is not there.
fn open_target(path: &Path, replace: bool) -> Result<File, ExtractError> {
    let error = |what, source| ExtractError::Target { what, path: path.to_owned(), source };
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(exists) if exists.kind() == io::ErrorKind::AlreadyExists => {
            let mut names = fs::read_dir(path).map_err(|source| error("read", source))?;
            if !replace && names.next().is_some() {
                return Err(ExtractError::NotEmpty { path: path.to_owned() });
            }
        }
        Err(source) => return Err(error("make", source)),
    }
    File::open(path).map_err(|source| error("open", source))
}

/// One extraction.
struct Run<'a> {
    image: &'a dyn Image,
    tree: &'a Tree,
    root: BorrowedFd<'a>,
    settings: Settings,
    /// Blocks that hold parts of several files.
    shared: Arc<SharedBlocks>,
    /// Nodes that exist under their final name.
    done: Vec<AtomicBool>,
    /// Why the target takes nothing more, and where that was found.
    end: Mutex<Option<(&'static str, Fault)>>,
    progress: &'a (dyn Fn(u64) + Sync),
}

/// One thread's part of it.
struct Worker<'a> {
    tree: &'a Tree,
    opener: Opener<'a>,
    /// For the other name of a file.
    other: Opener<'a>,
    content: Content<'a>,
    report: Report,
    /// Which names these are about, to put them in order.
    skipped: Vec<(usize, Fault)>,
    lost: Vec<(usize, Fault)>,
    failed: Vec<(usize, Fault)>,
}

impl<'a> Run<'a> {
    fn all(&self) -> Report {
        let count = self.tree.items().len();
        let mut first = self.worker();
        self.each(&mut first, 0..count, Self::make_directory);
        let mut workers = work::each(
            self.settings.threads,
            count,
            || self.worker(),
            |worker, place| self.step(worker, place, Self::make),
        );
        self.each(&mut first, 0..count, Self::link);
        self.each(&mut first, (0..count).rev(), Self::finish_directory);
        workers.push(first);
        merged(workers)
    }

    fn worker(&self) -> Worker<'a> {
        Worker {
            tree: self.tree,
            opener: Opener::new(self.root),
            other: Opener::new(self.root),
            content: Content::sharing(self.image, Arc::clone(&self.shared)),
            report: Report::default(),
            skipped: Vec::new(),
            lost: Vec::new(),
            failed: Vec::new(),
        }
    }

    fn each(
        &self,
        worker: &mut Worker<'a>,
        mut places: impl Iterator<Item = usize>,
        step: impl Fn(&Self, &mut Worker<'a>, usize) -> Result<(), Cause>,
    ) {
        while let Some(place) = places.next()
            && self.step(worker, place, &step).is_continue()
        {}
    }

    /// Does one step; a target that takes nothing more ends everything.
    fn step(
        &self,
        worker: &mut Worker<'a>,
        place: usize,
        step: impl Fn(&Self, &mut Worker<'a>, usize) -> Result<(), Cause>,
    ) -> ControlFlow<()> {
        let end = || self.end.lock().expect("no thread panics with the lock");
        if end().is_some() {
            return ControlFlow::Break(());
        }
        let Err(cause) = step(self, worker, place) else { return ControlFlow::Continue(()) };
        let why = cause.ends_all();
        let fault = Fault::new(self.tree.path(place), cause);
        if let Some(why) = why {
            end().get_or_insert((why, fault));
            return ControlFlow::Break(());
        }
        worker.failed.push((place, fault));
        ControlFlow::Continue(())
    }

    fn make_directory(&self, worker: &mut Worker<'a>, place: usize) -> Result<(), Cause> {
        let item = &self.tree.items()[place];
        if item.kind != Kind::Directory {
            return Ok(());
        }
        if place > 0 {
            let above = worker.above(item)?;
            match rustix::fs::mkdirat(above, &item.name[..], Mode::RWXU) {
                Ok(()) => {}
                Err(rustix::io::Errno::EXIST) if self.settings.replace => {
                    let opened = opener::directory(above, &item.name);
                    opened.map_err(|error| Cause::system("go into what is there", error))?;
                }
                Err(error) => return Err(Cause::system("make the directory", error)),
            }
        }
        self.done[place].store(true, Ordering::Relaxed);
        worker.report.directories += 1;
        Ok(())
    }

    /// Makes everything but directories and further names.
    fn make(&self, worker: &mut Worker<'a>, place: usize) -> Result<(), Cause> {
        (self.progress)(1);
        let item = &self.tree.items()[place];
        if item.kind == Kind::Directory || item.first.is_some() {
            return Ok(());
        }
        let node = node_of(self.image, item.node, item.kind)?;
        let xattrs = self.image.xattrs(node.id)?;
        let mut marks = Marks::new(&node, &xattrs, self.settings);
        let Worker { opener, content, report, .. } = worker;
        let above = opener.open(self.tree.items(), item.parent).map_err(not_there)?;
        let names = Names { directory: above, place, replace: self.settings.replace };
        let made = match item.kind {
            Kind::File => names.put(&item.name, |name| {
                report.written += file::write(content, &node, above, name, &mut marks)?;
                Ok(true)
            })?,
            Kind::Symlink => {
                let target = self.image.link(node.id)?;
                names.put(&item.name, |name| {
                    rustix::fs::symlinkat(&target[..], above, name)
                        .map_err(|error| Cause::system("make the link", error))?;
                    marks.give(above, name)?;
                    Ok(true)
                })?
            }
            Kind::BlockDevice | Kind::CharDevice | Kind::Fifo | Kind::Socket => {
                names.put(&item.name, |name| marks.make_special(above, name))?
            }
            Kind::Directory => false,
        };
        worker.take(place, marks);
        if made {
            self.done[place].store(true, Ordering::Relaxed);
            match item.kind {
                Kind::File => {
                    worker.report.files += 1;
                    worker.report.bytes += node.size;
                }
                Kind::Symlink => worker.report.symlinks += 1,
                Kind::BlockDevice
                | Kind::CharDevice
                | Kind::Fifo
                | Kind::Socket
                | Kind::Directory => worker.report.specials += 1,
            }
        }
        Ok(())
    }

    /// Makes further names of an existing file.
    fn link(&self, worker: &mut Worker<'a>, place: usize) -> Result<(), Cause> {
        let item = &self.tree.items()[place];
        let Some(first) = item.first else { return Ok(()) };
        if !self.done[first].load(Ordering::Relaxed) {
            return Err(Cause::First(self.tree.path(first)));
        }
        let from = &self.tree.items()[first];
        let Worker { opener, other, .. } = worker;
        let from_above = other.open(self.tree.items(), from.parent).map_err(not_there)?;
        let above = opener.open(self.tree.items(), item.parent).map_err(not_there)?;
        let names = Names { directory: above, place, replace: self.settings.replace };
        names.put(&item.name, |name| {
            rustix::fs::linkat(from_above, &from.name[..], above, name, AtFlags::empty())
                .map_err(|error| Cause::system("link it to its other name", error))?;
            Ok(true)
        })?;
        worker.report.links += 1;
        Ok(())
    }

    fn finish_directory(&self, worker: &mut Worker<'a>, place: usize) -> Result<(), Cause> {
        let item = &self.tree.items()[place];
        if item.kind != Kind::Directory || !self.done[place].load(Ordering::Relaxed) {
            return Ok(());
        }
        let node = node_of(self.image, item.node, item.kind)?;
        let xattrs = self.image.xattrs(node.id)?;
        let mut marks = Marks::new(&node, &xattrs, self.settings);
        if place == 0 {
            marks.give_open(self.root)?;
        } else {
            let above = worker.above(item)?;
            let open = opener::directory(above, &item.name).map_err(not_there)?;
            marks.give_open(open.as_fd())?;
        }
        worker.take(place, marks);
        Ok(())
    }
}

impl Worker<'_> {
    /// Takes over what a name went without.
    fn take(&mut self, place: usize, marks: Marks<'_>) {
        let Marks { skipped, lost, .. } = marks;
        let fault = |cause| (place, Fault::new(self.tree.path(place), cause));
        self.skipped.extend(skipped.into_iter().map(fault));
        self.lost.extend(lost.into_iter().map(fault));
    }

    /// The directory that a name is in.
    fn above(&mut self, item: &Item) -> Result<BorrowedFd<'_>, Cause> {
        self.opener.open(self.tree.items(), item.parent).map_err(not_there)
    }
}

fn not_there(error: io::Error) -> Cause {
    Cause::system("go into its directory", error)
}

/// One report of all threads, in the order of the tree.
fn merged(workers: Vec<Worker<'_>>) -> Report {
    let mut report = Report::default();
    let (mut skipped, mut lost, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for worker in workers {
        let part = worker.report;
        report.directories += part.directories;
        report.files += part.files;
        report.symlinks += part.symlinks;
        report.specials += part.specials;
        report.links += part.links;
        report.bytes += part.bytes;
        report.written += part.written;
        skipped.extend(worker.skipped);
        lost.extend(worker.lost);
        failed.extend(worker.failed);
    }
    let sorted = |mut faults: Vec<(usize, Fault)>| -> Vec<Fault> {
        faults.sort_by_key(|(place, _)| *place);
        faults.into_iter().map(|(_, fault)| fault).collect()
    };
    report.skipped = sorted(skipped);
    report.lost = sorted(lost);
    report.failed = sorted(failed);
    report
}

#[cfg(test)]
mod tests;
