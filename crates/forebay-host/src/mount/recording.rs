//! READ requests, recorded for a simulation.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use forebay_core::serving::{ReadCall, RecordedRead, Recording};
use forebay_core::time::Instant;

use super::MountError;
use crate::lock::{Mutex, lock};

/// A recording that is being written.
#[derive(Debug)]
pub(super) struct RecordingFile {
    path: PathBuf,
    writing: Mutex<Writing>,
}

#[derive(Debug)]
struct Writing {
    file: BufWriter<File>,
    /// Requests that were recorded.
    reads: usize,
    /// The first error; nothing is written after it.
    error: Option<io::Error>,
}

impl RecordingFile {
    /// Creates a new file for a recording of an image.
    pub(super) fn create(path: &Path, image: (u64, u64)) -> io::Result<Self> {
        let mut file = BufWriter::new(File::create_new(path)?);
        file.write_all(Recording::header(image).as_bytes())?;
        Ok(Self {
            path: path.to_owned(),
            writing: Mutex::new(Writing { file, reads: 0, error: None }),
        })
    }

    /// Records a READ that was answered.
    pub(super) fn read(&self, call: &ReadCall, bytes: &Range<u64>, begin: Instant, end: Instant) {
        let (task, node) = (call.task, call.file);
        let (offset, len) = (bytes.start, bytes.end - bytes.start);
        let line = RecordedRead { begin, end, task, node, offset, len };
        let mut writing = lock(&self.writing);
        if writing.error.is_none() {
            writing.error = writeln!(writing.file, "{line}").err();
            writing.reads += 1;
        }
    }

    /// Writes the rest and the last line; fails if the recording is not complete.
    pub(super) fn finish(&self) -> Result<(), MountError> {
        let mut writing = lock(&self.writing);
        let end = Recording::end(writing.reads);
        let written = match writing.error.take() {
            Some(error) => Err(error),
            None => writing.file.write_all(end.as_bytes()).and_then(|()| writing.file.flush()),
        };
        written.map_err(|why| MountError::Recording { path: self.path.clone(), why })
    }
}
