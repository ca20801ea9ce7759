//! The verifier: what a call delivered against what a second descriptor reads.

use std::io;

use forebay_core::io::Op;
use forebay_core::units::FileId;
use forebay_core::workload::Finished;

use crate::failure::{Cause, Failure};
use crate::files::FileMap;

/// Compares the bytes of reads with the files, around the engine.
pub(crate) struct Verifier {
    truth: FileMap,
    /// The file of each handle.
    opened: Vec<FileId>,
    buffer: Box<[u8]>,
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
        Ok(Self { truth, opened, buffer, verified_bytes: 0, errors: 0, failure: None })
    }

    /// Compares what one call delivered.
    pub(crate) fn check(&mut self, finished: &Finished, delivered: &[u8]) {
        let Op::Read { handle, offset, .. } = finished.op else { return };
        let file = self.opened[handle.index()];
        let mut at = offset;
        for part in delivered.chunks(BUFFER_BYTES) {
            if let Err(failure) = self.compare(file, at, part) {
                self.errors += 1;
                self.failure.get_or_insert(failure);
                return;
            }
            at += part.len() as u64;
            self.verified_bytes += part.len() as u64;
        }
    }

    fn compare(&mut self, file: FileId, offset: u64, delivered: &[u8]) -> Result<(), Failure> {
        let expected = &mut self.buffer[..delivered.len()];
        let base = self.truth.place(file).base;
        let mut filled = 0;
        while filled < expected.len() {
            let at = offset + filled as u64;
            let read = self.truth.backend(file).read_at(&mut expected[filled..], base + at);
            let error = match read {
                Ok(0) => io::Error::from(io::ErrorKind::UnexpectedEof),
                Ok(read) => {
                    filled += read;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            return Err(Failure { file, offset: at, cause: Cause::Unverified { error } });
        }
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
