//! The file that is read: an unnamed scratch file, or an existing one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::{READ, shuffle};

/// A file that is removed when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Scratch {
    file: File,
}

/// A file or block device that is read.
#[derive(Debug)]
pub(crate) enum Subject {
    /// One that was made for it.
    Scratch(Scratch),
    /// An existing file, which is not changed.
    Present(PathBuf),
}

impl Scratch {
    /// Creates and fills a file of `bytes` bytes in a folder.
    ///
    /// # Errors
    /// There is no room, or the folder cannot be written to.
    pub(crate) fn new(folder: &Path, bytes: u64) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mut file: File = match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => file.into(),
            // Some file systems have no files without a name.
            Err(_) => {
                let path = folder.join(format!(".forebay-bench-{}", std::process::id()));
                let file = File::options().read(true).write(true).create_new(true).open(&path)?;
                fs::remove_file(&path)?;
                file
            }
        };
        let mut state = 1_u64;
        let mut block = vec![0; 1 << 20];
        let mut left = bytes;
        while left > 0 {
            // Bytes that no layer below can make smaller (xorshift).
            for word in block.chunks_exact_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                word.copy_from_slice(&state.to_le_bytes());
            }
            let len = left.min(block.len() as u64);
            file.write_all(&block[..len as usize])?;
            left -= len;
        }
        // Dirty pages cannot be dropped from the page cache.
        file.sync_all()?;
        Ok(Self { file })
    }
}

impl Subject {
    /// A path that opens it.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Scratch(scratch) => format!("/proc/self/fd/{}", scratch.file.as_raw_fd()).into(),
            Self::Present(path) => path.clone(),
        }
    }

    /// The place of every whole page, each once, in an order that no reader foresees; no more than
    /// the first [`BYTES_MAX`] bytes.
    pub(super) fn places(&self) -> io::Result<Vec<u64>> {
        let pages = bytes(&File::open(self.path())?)? / READ as u64;
        if pages < PAGES_MIN {
            let what = format!("it has {pages} pages of 4096 bytes, at least {PAGES_MIN} are read");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut places: Vec<u64> = (0..pages).map(|page| page * READ as u64).collect();
        shuffle(&mut places, 0);
        Ok(places)
    }
}

/// Brings everything that is read into the page cache.
pub(super) fn read_through(file: &File) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let (mut block, mut at, end) = (vec![0; 1 << 20], 0, bytes(file)?);
    while at < end {
        match file.read_at(&mut block, at)? {
            0 => break,
            read => at += read as u64,
        }
    }
    Ok(())
}

/// The bytes that are read of a file or a block device.
fn bytes(mut file: &File) -> io::Result<u64> {
    use std::io::Seek;
    Ok(file.seek(io::SeekFrom::End(0))?.min(BYTES_MAX))
}

/// The most that is read: it has to stay in the page cache.
const BYTES_MAX: u64 = 128 << 20;

/// A round reads no page twice.
const PAGES_MIN: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_its_turn_once() {
        let folder = tempfile::tempdir().unwrap();
        let subject = Subject::Scratch(Scratch::new(folder.path(), 1500 * 4096 + 5).unwrap());
        let mut places = subject.places().unwrap();
        assert!(!places.is_sorted());
        places.sort_unstable();
        assert!(places.iter().enumerate().all(|(page, place)| *place == page as u64 * 4096));
        assert_eq!(places.len(), 1500);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "it has no name");
    }

    #[test]
    fn a_small_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let small = Subject::Scratch(Scratch::new(folder.path(), 4096).unwrap());
        assert!(small.places().unwrap_err().to_string().contains("it has 1 pages"));
    }
}
