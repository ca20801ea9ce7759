//! A disk in one file: its bytes in another file, its times those of a [`Model`].
//!
//! ```text
//!   kernel --- request ---> the session's thread ---> bytes moved at once, in order
//!                                   |                 (the Arm says when it is due)
//!                                   v
//!   kernel <--- answer --- the thread that waits until the moment has come
//! ```
//!
//! The file is read and written past the page cache: a loop device on it meets the disk itself.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
};
use rustix::process::nice;
use rustix::time::{ClockId, clock_gettime};

use super::disk::{Arm, Model};

/// A disk that is served, until it is ended or dropped.
pub(crate) struct Served {
    session: Option<BackgroundSession>,
    is_slow: Arc<AtomicBool>,
    path: PathBuf,
}

impl Served {
    /// Serves the bytes of `backing` as the one file in `folder`, which is made if need be; as
    /// fast as it goes, until [`slow`](Self::slow).
    ///
    /// # Errors
    /// It cannot be mounted.
    pub(crate) fn new(backing: File, model: Model, folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let bytes = backing.metadata()?.len();
        let is_slow = Arc::new(AtomicBool::new(false));
        let (answers, due) = channel();
        let arm = Mutex::new(Arm::default());
        let (is_slow_too, blocks) = (Arc::clone(&is_slow), Arc::default());
        let disk = Disk { backing, bytes, model, arm, is_slow: is_slow_too, answers, blocks };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::NoAtime,
            MountOption::FSName("forebay-disk".to_owned()),
            MountOption::Subtype("forebay".to_owned()),
        ];
        config.n_threads = Some(1);
        let session = Session::new(disk, folder, &config)?;
        // A disk does not wait for a processor. Threads have the priority of their creator; if
        // it may not be raised, the disk is slower than it says while the machine is busy.
        let start = move || {
            let _ = nice(-19);
            thread::Builder::new().name("disk-answers".to_owned()).spawn(move || answer(&due))?;
            session.spawn()
        };
        let started = thread::spawn(start).join();
        let session =
            started.map_err(|_| io::Error::other("the disk's threads do not start"))??;
        Ok(Self { session: Some(session), is_slow, path: folder.join(NAME) })
    }

    /// Whether requests take the times of the model from now on.
    pub(crate) fn slow(&self, is_slow: bool) {
        self.is_slow.store(is_slow, Ordering::Relaxed);
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts, when no process has the file open any more.
    ///
    /// # Errors
    /// It cannot be unmounted.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.session.take().map_or(Ok(()), BackgroundSession::umount_and_join)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            // An error has no receiver; the end of the namespace unmounts the rest.
            let _ = session.umount_and_join();
        }
    }
}

/// What the kernel talks to.
struct Disk {
    backing: File,
    bytes: u64,
    model: Model,
    arm: Mutex<Arm>,
    is_slow: Arc<AtomicBool>,
    answers: Sender<Due>,
    /// Memory of reads that were answered: new memory of this size costs as much as the read.
    blocks: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// An answer that waits for its moment.
struct Due {
    at: u64,
    answer: Box<dyn FnOnce() + Send>,
}

impl Disk {
    /// Answers a request when the disk has done it.
    fn done(&self, offset: u64, bytes: u64, answer: impl FnOnce() + Send + 'static) {
        let at = if self.is_slow.load(Ordering::Relaxed) {
            lock(&self.arm).serve(&self.model, now(), offset, bytes)
        } else {
            0
        };
        self.send(at, answer);
    }

    fn send(&self, at: u64, answer: impl FnOnce() + Send + 'static) {
        // The receiver of answers lives as long as the session.
        let _ = self.answers.send(Due { at, answer: Box::new(answer) });
    }

    fn attributes(&self, number: INodeNo) -> FileAttr {
        let is_root = number == INodeNo::ROOT;
        FileAttr {
            ino: number,
            size: if is_root { 0 } else { self.bytes },
            blocks: self.bytes / 512,
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind: if is_root { FileType::Directory } else { FileType::RegularFile },
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Disk {
    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == NAME {
            reply.entry(&FOREVER, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        reply.attr(&FOREVER, &self.attributes(number));
    }

    fn open(&self, _request: &Request, _number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let left = self.bytes.saturating_sub(offset);
        let len = u64::from(size).min(left) as usize;
        let mut block = lock(&self.blocks).pop().unwrap_or_default();
        if block.len() < len {
            block.resize(len, 0);
        }
        match self.backing.read_exact_at(&mut block[..len], offset) {
            Ok(()) => {
                let blocks = Arc::clone(&self.blocks);
                self.done(offset, len as u64, move || {
                    reply.data(&block[..len]);
                    lock(&blocks).push(block);
                });
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if offset.saturating_add(data.len() as u64) > self.bytes {
            return reply.error(Errno::EFBIG);
        }
        let written = data.len() as u32;
        match self.backing.write_all_at(data, offset) {
            Ok(()) => self.done(offset, data.len() as u64, move || reply.written(written)),
            Err(error) => reply.error(error.into()),
        }
    }

    /// All earlier requests are done when this is answered.
    fn fsync(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let is_slow = self.is_slow.load(Ordering::Relaxed);
        let at = if is_slow { lock(&self.arm).free() } else { 0 };
        self.send(at, move || reply.ok());
    }
}

/// Locked data is consistent between any two statements of the holder.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives answers as their moments come; they come in order.
fn answer(due: &Receiver<Due>) {
    for Due { at, answer } in due {
        let wait = at.saturating_sub(now());
        if wait > 0 {
            thread::sleep(Duration::from_nanos(wait));
        }
        answer();
    }
}

/// The clock that all processes share, in nanoseconds.
pub(super) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// The name of the file.
const NAME: &str = "disk";

/// The number of the file.
const FILE: INodeNo = INodeNo(2);

/// Nothing about the file changes but its bytes.
const FOREVER: Duration = Duration::from_secs(1 << 31);
