//! The verifier compares the bytes that a call delivered with a second descriptor, and with earlier
//! writes.
//!
//! Where files are only read, a call is compared when it ends. Where they are written, each copy is
//! compared when it is made: between two copies of one call another call may write.

use std::io;
use std::ops::Range;

use forebay_core::io::Op;
use forebay_core::units::FileId;
use forebay_core::workload::Finished;

use crate::contents::{Contents, wrong_byte};
use crate::failure::{Cause, Failure};
use crate::files::FileMap;

/// Compares the bytes of reads with the files, around the engine.
pub(crate) struct Verifier {
    truth: FileMap,
    /// The file of each handle.
    opened: Vec<FileId>,
    buffer: Box<[u8]>,
    /// The written data, once there is any.
    contents: Contents,
    pub(crate) verified_bytes: u64,
    /// Calls whose bytes were not those of the file.
    pub(crate) errors: u64,
    pub(crate) failure: Option<Failure>,
}

impl Verifier {
    /// A verifier that opens the files' backends again.
    ///
    /// # Errors
    /// A backend cannot be opened again.
    pub(crate) fn new(files: &FileMap, opened: Vec<FileId>) -> io::Result<Self> {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        let truth = files.reopen()?;
        let (contents, verified_bytes, errors, failure) = (Contents::default(), 0, 0, None);
        Ok(Self { truth, opened, buffer, contents, verified_bytes, errors, failure })
    }

    /// Compares what one call delivered.
    pub(crate) fn check(&mut self, finished: &Finished, delivered: &[u8]) {
        let Op::Read { handle, offset, .. } = finished.op else { return };
        let file = self.opened[handle.index()];
        let result = self.compare_with_file(file, offset, delivered);
        self.note(result);
    }

    /// A write of this generation has copied its pattern into pages of the file.
    pub(crate) fn written(&mut self, file: FileId, range: Range<u64>, generation: u64) {
        self.contents.record(file, range, generation);
    }

    /// Compares bytes that were copied from pages of the file.
    pub(crate) fn copied(&mut self, file: FileId, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        for piece in self.contents.pieces(file, offset..end) {
            let Range { start, end } = piece.bytes;
            let part = &bytes[(start - offset) as usize..(end - offset) as usize];
            let result = match piece.generation {
                None => self.compare_with_file(file, start, part),
                Some(generation) => self.compare_with_pattern(file, start, part, generation),
            };
            self.note(result);
        }
    }

    /// Compares all that was written with what the files hold now.
    pub(crate) fn check_files(&mut self) {
        let written: Vec<_> = self.contents.written().collect();
        for (file, range, generation) in written {
            let result = self.check_range(file, range, generation);
            self.note(result);
        }
    }

    fn check_range(
        &mut self,
        file: FileId,
        range: Range<u64>,
        generation: u64,
    ) -> Result<(), Failure> {
        for start in range.clone().step_by(BUFFER_BYTES) {
            let len = (range.end - start).min(BUFFER_BYTES as u64) as usize;
            self.read_truth(file, start, len)?;
            if let Some((offset, expected, found)) =
                wrong_byte(&self.buffer[..len], start, generation)
            {
                let cause = Cause::Lost { expected, found };
                return Err(Failure { file, offset, cause });
            }
            self.verified_bytes += len as u64;
        }
        Ok(())
    }

    fn compare_with_pattern(
        &mut self,
        file: FileId,
        offset: u64,
        delivered: &[u8],
        generation: u64,
    ) -> Result<(), Failure> {
        if let Some((offset, expected, found)) = wrong_byte(delivered, offset, generation) {
            return Err(Failure { file, offset, cause: Cause::Mismatch { expected, found } });
        }
        self.verified_bytes += delivered.len() as u64;
        Ok(())
    }

    fn compare_with_file(
        &mut self,
        file: FileId,
        offset: u64,
        delivered: &[u8],
    ) -> Result<(), Failure> {
        let mut at = offset;
        for part in delivered.chunks(BUFFER_BYTES) {
            self.compare(file, at, part)?;
            at += part.len() as u64;
            self.verified_bytes += part.len() as u64;
        }
        Ok(())
    }

    fn note(&mut self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.errors += 1;
            self.failure.get_or_insert(failure);
        }
    }

    /// Reads bytes of the file itself into the buffer.
    fn read_truth(&mut self, file: FileId, offset: u64, len: usize) -> Result<(), Failure> {
        let base = self.truth.place(file).base;
        let read = self.truth.backend(file).read_exact_at(&mut self.buffer[..len], base + offset);
        read.map_err(|error| Failure { file, offset, cause: Cause::Unverified { error } })
    }

    fn compare(&mut self, file: FileId, offset: u64, delivered: &[u8]) -> Result<(), Failure> {
        self.read_truth(file, offset, delivered.len())?;
        let expected = &self.buffer[..delivered.len()];
        if expected == delivered {
            return Ok(());
        }
        let pairs = expected.iter().zip(delivered);
        let differing = pairs.enumerate().find(|(_, (expected, found))| expected != found);
        let (index, (&expected, &found)) = differing.expect("unequal slices differ in a byte");
        let cause = Cause::Mismatch { expected, found };
        Err(Failure { file, offset: offset + index as u64, cause })
    }
}

/// Bytes that are compared at a time.
const BUFFER_BYTES: usize = 256 * 1024;
