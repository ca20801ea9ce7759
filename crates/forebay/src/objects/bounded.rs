//! An object for a command that reads much of it and ends.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU32, Ordering};

use forebay_image::Source;

/// After this many failed reads in a row, nothing else is read.
const FAILURES_MAX: u32 = 16;

/// A source that is left alone once every read of it fails: a failure may take a server many
/// seconds, and an image has many files.
pub(super) struct BoundedFailures<S> {
    source: S,
    /// Failed reads since the last one that succeeded.
    failures: AtomicU32,
}

impl<S> BoundedFailures<S> {
    /// Reads from a source.
    pub(super) const fn new(source: S) -> Self {
        Self { source, failures: AtomicU32::new(0) }
    }
}

impl<S: Source> Source for BoundedFailures<S> {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if self.failures.load(Ordering::Relaxed) >= FAILURES_MAX {
            let why = format!("not tried, because {FAILURES_MAX} reads in a row failed");
            return Err(io::Error::other(why));
        }
        let read = self.source.read_exact_at(buffer, offset);
        match &read {
            Ok(()) => self.failures.store(0, Ordering::Relaxed),
            // A place beyond the end is an error in the image.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
            Err(_) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::{Arc, Mutex};

    /// A source whose reads return an error, if one is set, and are counted.
    struct Failing(Mutex<(Option<ErrorKind>, u32)>);

    impl Source for Failing {
        fn len(&self) -> u64 {
            1 << 20
        }

        fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
            let mut state = self.0.lock().unwrap();
            state.1 += 1;
            state.0.map_or(Ok(()), |kind| Err(kind.into()))
        }
    }

    #[test]
    fn a_server_that_fails_every_read_is_left_alone() {
        let failing = Arc::new(Failing(Mutex::new((None, 0))));
        let source = BoundedFailures::new(Arc::clone(&failing));
        let expected_reads = Cell::new(0);
        let read = |kind: Option<ErrorKind>, times: u32| {
            failing.0.lock().unwrap().0 = kind;
            for _ in 0..times {
                let read = source.read_exact_at(&mut [0; 8], 0);
                assert_eq!(read.err().map(|error| error.kind()), kind);
            }
            expected_reads.set(expected_reads.get() + times);
            assert_eq!(failing.0.lock().unwrap().1, expected_reads.get());
        };
        read(Some(ErrorKind::PermissionDenied), FAILURES_MAX - 1);
        read(None, 1);
        read(Some(ErrorKind::UnexpectedEof), 2 * FAILURES_MAX);
        read(Some(ErrorKind::PermissionDenied), FAILURES_MAX);
        let error = source.read_exact_at(&mut [0; 8], 0).unwrap_err();
        assert_eq!(error.to_string(), "not tried, because 16 reads in a row failed");
        assert_eq!(failing.0.lock().unwrap().1, expected_reads.get());
    }
}
