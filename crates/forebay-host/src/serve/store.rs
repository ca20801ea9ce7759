//! Where an export's bytes are: a file, a block device, memory.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

use crate::backend::Requests;
use crate::frames::PAGE;

/// A store of bytes that several threads use at once.
pub trait Store: Send + Sync + fmt::Debug {
    /// Its bytes.
    fn bytes(&self) -> u64;

    /// Reads into buffers of whole pages, from a page's start on; fewer bytes are the end.
    ///
    /// # Errors
    /// Whatever the device reports.
    fn read(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize>;

    /// Writes from a page's start on: whole pages, but for the last of the store. If `durable`, the
    /// bytes are on disk when it returns.
    ///
    /// # Errors
    /// Whatever the device reports.
    fn write(&self, buffers: &[IoSlice<'_>], offset: u64, durable: bool) -> io::Result<usize>;

    /// Brings all writes to disk that have returned.
    ///
    /// # Errors
    /// Whatever the device reports.
    fn flush(&self) -> io::Result<()>;

    /// Zeroes bytes, faster than writing them; the space may be given up for a `hole`. Returns
    /// whether it can.
    ///
    /// # Errors
    /// Whatever the device reports.
    fn zero(&self, offset: u64, len: u64, hole: bool) -> io::Result<bool>;

    /// The end of the run of bytes from `offset` on with the same status, and whether they are a
    /// hole. What a source that has shrunk lacks is no hole: its reads fail.
    ///
    /// # Errors
    /// Whatever the device reports.
    fn run(&self, offset: u64) -> io::Result<(u64, bool)>;

    /// Whether it zeroes faster than it writes.
    fn zeroes_fast(&self) -> bool;

    /// Looks again how long it is; nothing else of it changes.
    ///
    /// # Errors
    /// The size is unknown.
    fn refresh(&self) -> io::Result<u64> {
        Ok(self.bytes())
    }

    /// A file with the same bytes at the same offsets, which is read past the page cache of the
    /// kernel: io_uring may read it.
    fn direct_file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// What its reads have cost over a network; nothing of what is on this machine.
    fn requests(&self) -> Option<Requests> {
        None
    }

    /// Takes a function to be called when it fails, and when it answers again. Errors of single
    /// requests are known without.
    fn watch(&self, _watch: SourceWatch) {}
}

/// Is called with why a source fails, or when it answers again.
pub type SourceWatch = Box<dyn Fn(Result<(), &str>) + Send + Sync>;

/// A regular file or a block device, read and written past the page cache of the kernel if it can
/// be: its pages are in ours.
#[derive(Debug)]
pub struct FileStore {
    file: File,
    /// The same without the kernel's page cache.
    direct: Option<File>,
    /// A direct read of pages was refused once.
    refuses_pages: AtomicBool,
    bytes: AtomicU64,
    zeroes: bool,
    /// A regular file. A block device is locked by udev while it looks at it.
    is_file: bool,
}

impl FileStore {
    /// Opens a regular file or a block device. A device that is to be written is opened
    /// exclusively: neither a file system nor another server uses it then.
    ///
    /// # Errors
    /// The path cannot be opened, or is something else, or a device that is in use
    /// ([`ErrorKind::ResourceBusy`]).
    pub fn open(path: impl AsRef<Path>, read_only: bool, buffered: bool) -> io::Result<Self> {
        let path = path.as_ref();
        // Asked before opening, because opening a pipe waits for its writer.
        let kind = fs::metadata(path)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let what = "neither a regular file nor a block device";
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        let open = |flags: OFlags| {
            let flags = i32::try_from(flags.bits()).unwrap_or(0);
            OpenOptions::new().read(true).write(!read_only).custom_flags(flags).open(path)
        };
        let is_own = !read_only && kind.is_block_device();
        let opened = open(if is_own { OFlags::EXCL } else { OFlags::empty() });
        let mut file = opened.map_err(|error| {
            if is_own && error.kind() == ErrorKind::ResourceBusy {
                return io::Error::new(error.kind(), "it is mounted or in use by another program");
            }
            error
        })?;
        // The metadata of a block device have no length.
        let bytes = file.seek(SeekFrom::End(0))?;
        let direct = if buffered { None } else { open(OFlags::DIRECT).ok() };
        let is_file = kind.is_file();
        let zeroes = !read_only && is_file && can_zero(path);
        let (refuses_pages, bytes) = (AtomicBool::new(false), AtomicU64::new(bytes));
        Ok(Self { file, direct, refuses_pages, bytes, zeroes, is_file })
    }

    /// Keeps other servers from the file as long as this is open: each has a memory of its own.
    ///
    /// # Errors
    /// A server shows it, also below an overlay, or an overlay is being committed to it
    /// ([`ErrorKind::ResourceBusy`]).
    pub fn lock_for_writes(&self) -> io::Result<()> {
        self.lock(File::try_lock, "another process serves or changes it")
    }

    /// Keeps the file from being written by servers and commits as long as this is open.
    ///
    /// # Errors
    /// A server writes it, or an overlay is being committed to it ([`ErrorKind::ResourceBusy`]).
    pub fn lock_for_reads(&self) -> io::Result<()> {
        self.lock(File::try_lock_shared, "another process writes it: a server, or a commit")
    }

    fn lock(&self, lock: fn(&File) -> Result<(), TryLockError>, busy: &str) -> io::Result<()> {
        if !self.is_file {
            return Ok(());
        }
        match lock(&self.file) {
            Err(TryLockError::WouldBlock) => Err(io::Error::new(ErrorKind::ResourceBusy, busy)),
            // Not every file system has locks.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        }
    }

    /// The size of the file at the moment.
    fn bytes_now(&self) -> io::Result<u64> {
        Ok(rustix::fs::seek(&self.file, rustix::fs::SeekFrom::End(0))?)
    }

    /// An error if the file has shrunk and does not reach to `end`: a write there would make it
    /// long again, with zeroes in place of what it has lost.
    fn check_reaches(&self, end: u64) -> io::Result<()> {
        if self.is_file && self.bytes_now()? < end.min(self.bytes()) {
            return Err(Errno::IO.into());
        }
        Ok(())
    }

    /// The file, with the kernel's page cache.
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl Store for FileStore {
    fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    fn direct_file(&self) -> Option<BorrowedFd<'_>> {
        let direct = self.direct.as_ref().filter(|_| !self.refuses_pages.load(Relaxed));
        direct.map(AsFd::as_fd)
    }

    fn refresh(&self) -> io::Result<u64> {
        let bytes = self.bytes_now()?;
        // An export keeps its size when its source shrinks.
        self.bytes.fetch_max(bytes, Relaxed);
        Ok(bytes)
    }

    fn read(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        if let Some(direct) = &self.direct {
            match preadv2(direct, buffers, offset, ReadWriteFlags::empty()) {
                // The device has larger sectors than our pages, or the file system requires more
                // alignment.
                Err(Errno::INVAL) => self.refuses_pages.store(true, Relaxed),
                result => return Ok(result?),
            }
        }
        Ok(preadv2(&self.file, buffers, offset, ReadWriteFlags::empty())?)
    }

    fn write(&self, buffers: &[IoSlice<'_>], offset: u64, durable: bool) -> io::Result<usize> {
        let flags = if durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        let len: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        self.check_reaches(offset + len as u64)?;
        if let Some(direct) = self.direct.as_ref().filter(|_| len.is_multiple_of(PAGE)) {
            match pwritev2(direct, buffers, offset, flags) {
                Err(Errno::INVAL) => {}
                result => return Ok(result?),
            }
        }
        Ok(pwritev2(&self.file, buffers, offset, flags)?)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn zero(&self, offset: u64, len: u64, hole: bool) -> io::Result<bool> {
        self.check_reaches(offset.saturating_add(len))?;
        let way = if hole { FallocateFlags::PUNCH_HOLE } else { FallocateFlags::ZERO_RANGE };
        match fallocate(&self.file, way | FallocateFlags::KEEP_SIZE, offset, len) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn run(&self, offset: u64) -> io::Result<(u64, bool)> {
        use rustix::fs::{SeekFrom, seek};
        let bytes = self.bytes();
        let data = match seek(&self.file, SeekFrom::Data(offset)) {
            Ok(data) => data,
            // No data from here on: a hole up to the end of the file, which may have shrunk.
            Err(Errno::NXIO) => {
                let end = self.bytes_now()?.min(bytes);
                return Ok(if end > offset { (end, true) } else { (bytes, false) });
            }
            // A file system without holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok((bytes, false)),
            Err(error) => return Err(error.into()),
        };
        if data > offset {
            return Ok((data.min(bytes), true));
        }
        let hole = seek(&self.file, SeekFrom::Hole(offset))?;
        Ok((hole.clamp(offset + 1, bytes.max(offset + 1)), false))
    }

    fn zeroes_fast(&self) -> bool {
        self.zeroes
    }
}

/// Whether the file system of a file can deallocate space. A file without a name is tried: any try
/// on the file itself would change its times, by which overlays know their base.
fn can_zero(path: &Path) -> bool {
    let Ok(path) = fs::canonicalize(path) else { return false };
    let folder = path.parent().unwrap_or(Path::new("/"));
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let tried = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR);
    tried.is_ok_and(|file| fallocate(file, hole, 0, PAGE as u64).is_ok())
}

/// Memory that is zero until it is written.
#[derive(Debug)]
pub struct MemoryStore {
    bytes: u64,
    /// Chunks by their numbers; a group that nothing was written to has none.
    groups: Vec<OnceLock<Group>>,
}

/// Neighbouring chunks.
type Group = Box<[RwLock<Option<Box<[u8]>>>]>;

/// Bytes that memory is taken by, and chunks whose locks are made at once.
const CHUNK: usize = 64 << 10;
const GROUP: usize = 4096;

impl MemoryStore {
    /// The most bytes of a store: the table of its groups takes 6 MiB then.
    pub const BYTES_MAX: u64 = 64 << 40;

    /// A store of `bytes` bytes, at most [`BYTES_MAX`](Self::BYTES_MAX). Memory is taken on use.
    ///
    /// # Panics
    /// With more bytes than that.
    pub fn new(bytes: u64) -> Self {
        assert!(bytes <= Self::BYTES_MAX, "64 TiB at most");
        let count = bytes.div_ceil((CHUNK * GROUP) as u64);
        Self { bytes, groups: (0..count).map(|_| OnceLock::new()).collect() }
    }

    /// Calls `f` with each chunk of a range: its number, the place in it, and the bytes.
    fn each(&self, offset: u64, len: u64, mut f: impl FnMut(usize, usize, usize)) {
        let (mut at, end) = (offset, (offset + len).min(self.bytes));
        while at < end {
            let (number, start) = ((at / CHUNK as u64) as usize, (at % CHUNK as u64) as usize);
            let count = (end - at).min((CHUNK - start) as u64) as usize;
            f(number, start, count);
            at += count as u64;
        }
    }

    /// The lock of a chunk; none in a group that nothing was written to.
    fn known(&self, number: usize) -> Option<&RwLock<Option<Box<[u8]>>>> {
        let group = self.groups[number / GROUP].get()?;
        Some(&group[number % GROUP])
    }

    /// The lock of a chunk, made if it is the first of its group.
    fn lock(&self, number: usize) -> &RwLock<Option<Box<[u8]>>> {
        let group = &self.groups[number / GROUP];
        let group = group.get_or_init(|| (0..GROUP).map(|_| RwLock::new(None)).collect());
        &group[number % GROUP]
    }

    fn is_hole(&self, number: usize) -> bool {
        let is_none = |chunk: &RwLock<Option<_>>| {
            chunk.read().unwrap_or_else(PoisonError::into_inner).is_none()
        };
        self.known(number).is_none_or(is_none)
    }
}

impl Store for MemoryStore {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        for buffer in buffers {
            let mut filled = 0;
            let place = offset + done as u64;
            self.each(place, buffer.len() as u64, |number, start, count| {
                let chunk = self.known(number);
                let chunk = chunk.map(|it| it.read().unwrap_or_else(PoisonError::into_inner));
                let target = &mut buffer[filled..filled + count];
                match chunk.as_ref().and_then(|chunk| chunk.as_ref()) {
                    Some(bytes) => target.copy_from_slice(&bytes[start..start + count]),
                    None => target.fill(0),
                }
                filled += count;
            });
            done += filled;
        }
        Ok(done)
    }

    fn write(&self, buffers: &[IoSlice<'_>], offset: u64, _durable: bool) -> io::Result<usize> {
        let mut done = 0;
        for buffer in buffers {
            let mut taken = 0;
            let place = offset + done as u64;
            self.each(place, buffer.len() as u64, |number, start, count| {
                let mut chunk = self.lock(number).write().unwrap_or_else(PoisonError::into_inner);
                let bytes = chunk.get_or_insert_with(|| vec![0; CHUNK].into());
                bytes[start..start + count].copy_from_slice(&buffer[taken..taken + count]);
                taken += count;
            });
            done += taken;
        }
        Ok(done)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn zero(&self, offset: u64, len: u64, _hole: bool) -> io::Result<bool> {
        self.each(offset, len, |number, start, count| {
            let Some(chunk) = self.known(number) else { return };
            let mut chunk = chunk.write().unwrap_or_else(PoisonError::into_inner);
            match &mut *chunk {
                Some(_) if count == CHUNK => *chunk = None,
                Some(bytes) => bytes[start..start + count].fill(0),
                None => {}
            }
        });
        Ok(true)
    }

    fn run(&self, offset: u64) -> io::Result<(u64, bool)> {
        let count = self.bytes.div_ceil(CHUNK as u64) as usize;
        let first = (offset / CHUNK as u64) as usize;
        let hole = self.is_hole(first);
        let mut next = first + 1;
        while next < count && self.is_hole(next) == hole {
            let is_empty = self.groups[next / GROUP].get().is_none();
            next += if is_empty { GROUP - next % GROUP } else { 1 };
        }
        Ok(((next as u64 * CHUNK as u64).min(self.bytes), hole))
    }

    fn zeroes_fast(&self) -> bool {
        true
    }
}

/// Another store, made slow: each read and each write takes at least so long, and all bytes pass
/// one after another at a rate.
#[derive(Debug)]
pub struct SlowStore {
    inner: Arc<dyn Store>,
    delay: Duration,
    /// Bytes a second; zero for any.
    rate: u64,
    /// When the bytes that have been taken will have passed.
    free: Mutex<Instant>,
}

impl SlowStore {
    /// Makes a store slow.
    pub fn new(inner: Arc<dyn Store>, delay: Duration, rate: u64) -> Self {
        Self { inner, delay, rate, free: Mutex::new(Instant::now()) }
    }

    fn pass(&self, bytes: usize) {
        let now = Instant::now();
        let mut until = now + self.delay;
        if let Some(nanos) = (bytes as u64 * 1_000_000_000).checked_div(self.rate) {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            *free = (*free).max(now) + Duration::from_nanos(nanos);
            until = until.max(*free);
        }
        thread::sleep(until.saturating_duration_since(now));
    }
}

impl Store for SlowStore {
    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    fn read(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        self.pass(buffers.iter().map(|buffer| buffer.len()).sum());
        self.inner.read(buffers, offset)
    }

    fn write(&self, buffers: &[IoSlice<'_>], offset: u64, durable: bool) -> io::Result<usize> {
        self.pass(buffers.iter().map(|buffer| buffer.len()).sum());
        self.inner.write(buffers, offset, durable)
    }

    fn flush(&self) -> io::Result<()> {
        self.pass(0);
        self.inner.flush()
    }

    fn zero(&self, offset: u64, len: u64, hole: bool) -> io::Result<bool> {
        self.pass(0);
        self.inner.zero(offset, len, hole)
    }

    fn run(&self, offset: u64) -> io::Result<(u64, bool)> {
        self.inner.run(offset)
    }

    fn zeroes_fast(&self) -> bool {
        self.inner.zeroes_fast()
    }

    fn refresh(&self) -> io::Result<u64> {
        self.inner.refresh()
    }

    fn requests(&self) -> Option<Requests> {
        self.inner.requests()
    }

    fn watch(&self, watch: SourceWatch) {
        self.inner.watch(watch);
    }
}
