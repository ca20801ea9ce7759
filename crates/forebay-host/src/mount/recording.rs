//! What the kernel asks, written down for a simulation.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use forebay_core::serving::{ReadCall, RecordedRead, Recording};
use forebay_core::time::Instant;

use super::lock::lock;
use super::profile::ProfileError;

/// A recording that is being written.
#[derive(Debug)]
pub(super) struct RecordingFile {
    path: PathBuf,
    writing: Mutex<Writing>,
}

#[derive(Debug)]
struct Writing {
    file: BufWriter<File>,
    /// The first thing that went wrong; nothing is written behind it.
    error: Option<io::Error>,
}

impl RecordingFile {
    /// Begins a recording of an image in a new file.
    pub(super) fn create(path: &Path, image: (u64, u64)) -> io::Result<Self> {
        let mut file = BufWriter::new(File::create_new(path)?);
        file.write_all(Recording::header(image).as_bytes())?;
        Ok(Self { path: path.to_owned(), writing: Mutex::new(Writing { file, error: None }) })
    }

    /// Writes a READ down that was answered.
    pub(super) fn read(&self, call: &ReadCall, bytes: &Range<u64>, begin: Instant, end: Instant) {
        let (task, node) = (call.task, call.file);
        let (offset, len) = (bytes.start, bytes.end - bytes.start);
        let line = RecordedRead { begin, end, task, node, offset, len };
        let mut writing = lock(&self.writing);
        if writing.error.is_none() {
            writing.error = writeln!(writing.file, "{line}").err();
        }
    }

    /// Writes the rest, and says what went wrong if it is not whole.
    pub(super) fn finish(&self) -> Result<(), ProfileError> {
        let mut writing = lock(&self.writing);
        let written = writing.error.take().map_or_else(|| writing.file.flush(), Err);
        written.map_err(|why| ProfileError::Recording { path: self.path.clone(), why })
    }
}
