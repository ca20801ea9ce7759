//! Files that the user names, read whole: no pipe is waited for, and no file fills the memory.
//!
//! ```text
//!   regular file     read, up to a limit
//!   null device      an empty file; links to it switch a file off
//!   anything else    refused: a pipe may never be written to, a device may never end
//! ```

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{OFlags, makedev};
use rustix::io::Errno;

/// Why a file that was named is not read.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The system says so.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is none whose bytes are there and end.
    #[error("it is {kind} and no regular file")]
    Irregular {
        /// What it is.
        kind: &'static str,
    },
    /// It has more bytes than are read.
    #[error("it is longer than the {most} bytes that are read")]
    Long {
        /// The most bytes that are read.
        most: u64,
    },
    /// It is no text.
    #[error("byte {place} is not UTF-8")]
    NotUtf8 {
        /// How many bytes before are.
        place: usize,
    },
}

impl From<InputError> for io::Error {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Io(error) => error,
            InputError::Long { .. } => Self::new(io::ErrorKind::FileTooLarge, error),
            InputError::Irregular { .. } => Self::new(io::ErrorKind::InvalidInput, error),
            InputError::NotUtf8 { .. } => Self::new(io::ErrorKind::InvalidData, error),
        }
    }
}

/// Opens a regular file to read, or the null device.
///
/// # Errors
/// [`InputError::Io`] and [`InputError::Irregular`].
pub fn open(path: &Path) -> Result<File, InputError> {
    let file =
        OpenOptions::new().read(true).custom_flags(AT_ONCE.bits().cast_signed()).open(path)?;
    let found = file.metadata()?;
    if !is_null(&found) {
        regular(&found)?;
    }
    Ok(file)
}

/// All bytes of a file, `most` at most.
///
/// # Errors
/// [`InputError`], but for [`InputError::NotUtf8`].
pub fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, InputError> {
    bytes_of(open(path)?, most)
}

/// The text of a file, [`TEXT_MAX`] bytes at most.
///
/// # Errors
/// [`InputError`].
pub fn text(path: &Path) -> Result<String, InputError> {
    text_of(open(path)?)
}

/// The text of a stream that may have no end, [`TEXT_MAX`] bytes at most.
///
/// # Errors
/// [`InputError`], but for [`InputError::Irregular`].
pub fn text_of(source: impl Read) -> Result<String, InputError> {
    let bytes = bytes_of(source, TEXT_MAX)?;
    let not_utf8 = |place| InputError::NotUtf8 { place };
    String::from_utf8(bytes).map_err(|error| not_utf8(error.utf8_error().valid_up_to()))
}

/// Refuses what is no regular file.
pub(crate) fn regular(found: &Metadata) -> Result<(), InputError> {
    if found.is_dir() {
        return Err(io::Error::from(Errno::ISDIR).into());
    }
    if !found.is_file() {
        return Err(InputError::Irregular { kind: kind(found.file_type()) });
    }
    Ok(())
}

fn bytes_of(source: impl Read, most: u64) -> Result<Vec<u8>, InputError> {
    let mut bytes = Vec::new();
    source.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(InputError::Long { most });
    }
    Ok(bytes)
}

fn is_null(found: &Metadata) -> bool {
    found.file_type().is_char_device() && found.rdev() == makedev(NULL.0, NULL.1)
}

fn kind(found: FileType) -> &'static str {
    if found.is_fifo() {
        "a pipe"
    } else if found.is_char_device() || found.is_block_device() {
        "a device"
    } else {
        "something else"
    }
}

/// The longest text that is read whole: a table of mounts of thousands of containers fits.
pub const TEXT_MAX: u64 = 16 << 20;

/// Opening never waits, and makes no terminal ours.
pub(crate) const AT_ONCE: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);

/// Major and minor of `/dev/null` (`Documentation/admin-guide/devices.txt`).
const NULL: (u32, u32) = (1, 3);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use rustix::fs::{CWD, FileType as Kind, Mode, mknodat};

    use super::*;

    fn fifo(folder: &tempfile::TempDir) -> PathBuf {
        let path = folder.path().join("pipe");
        mknodat(CWD, &path, Kind::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        path
    }

    #[test]
    fn a_pipe_without_a_writer_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let error = text(&fifo(&folder)).unwrap_err();
        assert_eq!(error.to_string(), "it is a pipe and no regular file");
        let error = text(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.to_string(), "it is a device and no regular file");
        assert_eq!(text(Path::new("/dev/null")).unwrap(), "");
        let error = io::Error::from(text(folder.path()).unwrap_err());
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn the_first_byte_too_many_and_the_first_that_is_no_text_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        fs::write(&path, b"ab\xff").unwrap();
        assert!(matches!(text(&path), Err(InputError::NotUtf8 { place: 2 })));
        assert_eq!(bytes(&path, 3).unwrap(), b"ab\xff");
        assert!(matches!(bytes(&path, 2), Err(InputError::Long { most: 2 })));
        assert!(matches!(text_of(io::repeat(b' ')), Err(InputError::Long { most: TEXT_MAX })));
    }
}
