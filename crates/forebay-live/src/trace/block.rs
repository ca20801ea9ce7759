//! Block requests as the kernel prints them, from an instance of our own.
//!
//! Source:     `block_bio_queue` of `include/trace/events/block.h`; `trace_pipe` and
//!             `set_event_pid` of `Documentation/trace/ftrace.rst`.
//! Behaviour:  an instance with this one event, filtered by devices or by processes and those that
//!             they start; its text is handed out line by line. It is removed when it is dropped.
//! Differs:    nothing.
//! Not for:    requests that the flusher submits for a process: they carry the flusher's number.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::tracefs::{Folder, Instance};
use super::{SCOPE_MAX, Scope, TraceError};

/// Records the arrival of block requests.
#[derive(Debug)]
pub struct BlockRecorder {
    // Closed before the instance is removed.
    pipe: OwnedFd,
    /// What was read of a line whose end has not come.
    rest: Vec<u8>,
    lost: u64,
    _instance: Instance,
}

impl BlockRecorder {
    /// Begins to record the requests of a scope: of some devices, of some threads and those that
    /// they start, or both.
    ///
    /// # Errors
    /// There is no tracefs, it may not be written, or the kernel has no such event.
    pub fn new(scope: &Scope) -> Result<Self, TraceError> {
        scope.check()?;
        let instance = Instance::new(Folder::top()?)?;
        let folder = instance.folder();
        if !folder.has(EVENT) {
            return Err(TraceError::NoEvents);
        }
        folder.write("trace_clock", "mono")?;
        folder.write("buffer_size_kb", BUFFER_KIB)?;
        if !scope.threads.is_empty() {
            let threads: Vec<String> = scope.threads.iter().map(u32::to_string).collect();
            folder.write("options/event-fork", "1")?;
            folder.write("set_event_pid", &threads.join(" "))?;
        }
        let devices = scope.devices.iter().map(|device| format!("dev == {}", device.to_kernel()));
        let filter = super::any(devices);
        folder.write(&format!("{EVENT}/filter"), if filter.is_empty() { "0" } else { &filter })?;
        let pipe = folder.open("trace_pipe", OFlags::RDONLY | OFlags::NONBLOCK)?;
        folder.write(&format!("{EVENT}/enable"), "1")?;
        Ok(Self { pipe, rest: Vec::new(), lost: 0, _instance: instance })
    }

    /// Hands out the lines that have come since the last call, each with its end; returns how many.
    ///
    /// # Errors
    /// The kernel's pipe cannot be read.
    pub fn drain(&mut self, each: &mut impl FnMut(&[u8])) -> Result<u64, TraceError> {
        let mut buffer = vec![0; READ_BYTES];
        let mut count = 0;
        for _ in 0..READS_MAX {
            let length = match rustix::io::read(&self.pipe, &mut buffer[..]) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(length) => length,
                Err(Errno::INTR) => continue,
                Err(errno) => {
                    let (path, source) = ("trace_pipe".to_owned(), errno.into());
                    return Err(TraceError::File { verb: "read", path, source });
                }
            };
            self.rest.extend_from_slice(&buffer[..length]);
            count += self.take_lines(each);
        }
        Ok(count)
    }

    /// Events that were overwritten before they were read.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn take_lines(&mut self, each: &mut impl FnMut(&[u8])) -> u64 {
        let mut count = 0;
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in self.rest[..whole].split_inclusive(|byte| *byte == b'\n') {
            match lost_in(line) {
                Some(lost) => self.lost += lost,
                None => {
                    count += 1;
                    each(line);
                }
            }
        }
        self.rest.drain(..whole);
        count
    }
}

/// The threads of a process.
///
/// # Errors
/// There is no such process, or it has more threads than the kernel can be asked for.
pub fn threads_of(pid: u32) -> std::io::Result<Vec<u32>> {
    let mut threads = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = entry?.file_name();
        threads.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    if threads.len() > SCOPE_MAX {
        let what =
            format!("it has {} threads, of {SCOPE_MAX} that can be told apart", threads.len());
        return Err(std::io::Error::new(ErrorKind::InvalidInput, what));
    }
    Ok(threads)
}

/// The number in `CPU:1 [LOST 23 EVENTS]`; the kernel may leave it out.
fn lost_in(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line).ok()?.trim();
    let rest = text.strip_prefix("CPU:")?.split_once("[LOST ")?.1;
    let number = rest.split(' ').next()?;
    Some(number.parse().unwrap_or(1))
}

const EVENT: &str = "events/block/block_bio_queue";

/// Of each processor: half a second of a hundred thousand requests a second.
const BUFFER_KIB: &str = "4096";

/// Text that is read at once.
const READ_BYTES: usize = 1 << 16;

/// Reads of one call, so that it ends also if events come faster than they are taken.
const READS_MAX: u32 = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_tells_of_lost_events_is_none_of_them() {
        assert_eq!(lost_in(b"CPU:1 [LOST 23 EVENTS]\n"), Some(23));
        assert_eq!(lost_in(b"CPU:0 [LOST EVENTS]\n"), Some(1));
        let event = b" dd-12 [000] ..... 1.5: block_bio_queue: 254,0 R 8 + 8 [dd]\n";
        assert_eq!(lost_in(event), None);
    }

    #[test]
    fn this_process_has_threads_and_none_has_so_large_a_number() {
        let threads = threads_of(std::process::id()).unwrap();
        assert!(threads.contains(&std::process::id()), "{threads:?}");
        assert!(threads_of(u32::MAX).is_err());
    }
}
