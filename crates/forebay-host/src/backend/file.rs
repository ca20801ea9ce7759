//! A regular file or a block device; written only if it was opened for it.

use std::fs::{self, File};
use std::io::{self, IoSliceMut, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, OFlags, fadvise};

use super::Backend;
use crate::pattern;

/// An open file. Its length is that at opening: a file that is cut short afterwards shows by ending
/// before it, and one that is removed stays readable.
#[derive(Debug)]
pub struct FileBackend {
    file: File,
    path: PathBuf,
    len: u64,
}

impl FileBackend {
    /// Opens a regular file or a block device.
    ///
    /// Advises the kernel that reads are random, so that its readahead does not interfere with the
    /// one under test. The kernel's page cache remains below.
    ///
    /// # Errors
    /// The path cannot be opened, or is something else (a directory, a pipe, a terminal).
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        kind_of(&path)?;
        Self::of(File::open(&path)?, path)
    }

    /// Opens a regular file or a block device for reading and writing, in its present length.
    ///
    /// # Errors
    /// As [`open`](Self::open); a block device that is mounted, or otherwise in use, is busy.
    pub fn open_writable(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        // On a block device, and only there, this flag requests exclusive access.
        let flags = if kind_of(&path)?.is_block_device() { OFlags::EXCL } else { OFlags::empty() };
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        let file = File::options().read(true).write(true).custom_flags(flags).open(&path)?;
        Self::of(file, path)
    }

    /// Makes a file of `len` bytes without a name in `folder`, for reading and writing. It is gone
    /// with the last descriptor, also after a crash. Its bytes differ from place to place, are on
    /// disk and not in the page cache.
    ///
    /// # Errors
    /// The file cannot be made, or there is no space for it.
    pub fn create_in(folder: &Path, len: u64) -> io::Result<Self> {
        let name = format!(".forebay-run-{}", std::process::id());
        let named = folder.join(name);
        let file = File::options().read(true).write(true).create_new(true).open(&named)?;
        fs::remove_file(&named)?;
        let mut chunk = vec![0; FILL_BYTES];
        let mut at = 0;
        while at < len {
            let part = usize::try_from(len - at).unwrap_or(usize::MAX).min(FILL_BYTES);
            pattern::fill(&mut chunk[..part], at, 0);
            file.write_all_at(&chunk[..part], at)?;
            at += part as u64;
        }
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        Self::of(file, path)
    }

    fn of(mut file: File, path: PathBuf) -> io::Result<Self> {
        // The metadata of a block device have no length.
        let len = file.seek(SeekFrom::End(0))?;
        fadvise(&file, 0, None, Advice::Random)?;
        Ok(Self { file, path, len })
    }

    /// Where it was found.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Backend for FileBackend {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn reopen(&self) -> io::Result<Arc<dyn Backend>> {
        Ok(Arc::new(Self::open(&self.path)?))
    }

    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::preadv(&self.file, buffers, offset)?)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// The type of a path that can be a backend. Asked before opening, because opening a pipe waits
/// for its writer.
fn kind_of(path: &Path) -> io::Result<fs::FileType> {
    let kind = fs::metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        let what = "neither a regular file nor a block device";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    Ok(kind)
}

/// Bytes of a new file that one call writes.
const FILL_BYTES: usize = 1 << 20;
