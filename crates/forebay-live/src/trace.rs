//! What the kernel's tracepoints say, as values.
//!
//! Source:     Linux `include/trace/events/readahead.h` and `writeback.h`; the tracing itself is
//!             described in `Documentation/trace/ftrace.rst` and `events.rst`.
//! Behaviour:  an instance of its own keeps events apart from other tracing and is
//!             removed with the [`Tracer`]. Only events are switched on that fire when pages are
//!             brought in or writers pause; a read that the cache answers costs nothing.
//! Differs:    nothing.
//! Not for:    the order of events of several processors: each one's come by themselves.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

use self::decode::{KINDS, Kind, OPTIONAL};
use self::tracefs::{Folder, Instance};
use crate::number::{DevNumber, FileKey};

pub use self::block::{BlockRecorder, threads_of};
#[doc(hidden)]
pub use self::pages::PageDecoder;
pub use self::wakeup::{DirtiedInode, Wakeup};

mod block;
mod decode;
mod format;
mod pages;
#[cfg(test)]
mod recorded;
mod ring;
mod tracefs;
mod wakeup;

/// Records events and hands them out.
#[derive(Debug)]
pub struct Tracer {
    // Dropped in this order: an instance whose files are open cannot be removed.
    buffers: Vec<OwnedFd>,
    page: Vec<u8>,
    /// Pages that a buffer holds, and the two that are being written and read.
    pages_max: usize,
    decoder: PageDecoder,
    /// The events that are recorded.
    kinds: Vec<(&'static str, Kind)>,
    absent: Vec<&'static str>,
    instance: Instance,
}

/// Whose events are recorded. The kernel leaves out all others, at hardly any cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Numbers of file systems, for their readahead, and of disks, for their writeback; empty for
    /// all.
    pub devices: Vec<DevNumber>,
    /// Threads, each by its own number, as a process has them in `/proc/PID/task`; empty for all.
    pub threads: Vec<u32>,
}

/// What [`Tracer::drain`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Events that were handed out.
    pub events: u64,
    /// Events that were overwritten before; at least so many.
    pub lost: u64,
}

/// Why nothing can be recorded.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Neither is it mounted nor may it be.
    #[error("there is no tracefs, and none can be mounted: {0}")]
    NoTracefs(#[source] io::Error),
    /// A file of it.
    #[error("cannot {verb} {path} of tracefs: {source}")]
    File {
        /// What was tried.
        verb: &'static str,
        /// Below the top of tracefs, or of the instance.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// A file that says what cannot be.
    #[error("cannot make sense of {path} of tracefs: {problem}")]
    Format {
        /// Below the top of the instance.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// None of the events.
    #[error("this kernel has none of the events that are recorded")]
    NoEvents,
    /// A scope that the kernel cannot filter by.
    #[error("{count} {what} are more than the {max} that the kernel can filter by")]
    ScopeTooWide {
        /// Devices or threads.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// Events are laid out otherwise.
    #[error("the trace of a big-endian machine cannot be read")]
    BigEndian,
}

impl TraceError {
    /// Whether more rights would help.
    pub fn is_denied(&self) -> bool {
        match self {
            Self::NoTracefs(source) | Self::File { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
            Self::Format { .. } | Self::NoEvents | Self::ScopeTooWide { .. } | Self::BigEndian => {
                false
            }
        }
    }
}

impl Tracer {
    /// Begins to record, in an instance of its own.
    pub fn new(scope: &Scope) -> Result<Self, TraceError> {
        if cfg!(target_endian = "big") {
            return Err(TraceError::BigEndian);
        }
        let instance = Instance::new(Folder::top()?)?;
        let folder = instance.folder();
        folder.write("tracing_on", "0")?;
        folder.write("trace_clock", "mono")?;
        let names = instance.buffers()?;
        let buffer_kib = buffer_kib(names.len());
        folder.write("buffer_size_kb", &buffer_kib.to_string())?;
        // One event is enough to wake a reader; before Linux 5.0 one always was.
        let _ = folder.write("buffer_percent", "0");
        let problem = |problem| TraceError::Format { path: "events/header_page".into(), problem };
        let page = folder.text("events/header_page")?;
        let decoder = PageDecoder::new(&page, &folder.text("events/header_event")?);
        let mut decoder = decoder.map_err(problem)?;
        let (mut kinds, mut absent) = (Vec::new(), Vec::new());
        for (event, kind) in KINDS.into_iter().chain(OPTIONAL) {
            let path = format!("events/{event}/format");
            if folder.has(&format!("events/{event}")) {
                let problem = |problem| TraceError::Format { path: path.clone(), problem };
                decoder.learn(event, &folder.text(&path)?).map_err(problem)?;
                kinds.push((event, kind));
            } else if kind != Kind::Sync {
                absent.push(event);
            }
        }
        if absent.len() == KINDS.len() {
            return Err(TraceError::NoEvents);
        }
        let mut buffers = Vec::new();
        for name in names {
            let path = format!("per_cpu/{name}/trace_pipe_raw");
            buffers.push(instance.folder().open(&path, OFlags::RDONLY | OFlags::NONBLOCK)?);
        }
        let page = vec![0; decoder.page_size()];
        let pages_max = buffer_kib * 1024 / decoder.page_size().max(1) + 2;
        let mut tracer = Self { buffers, page, pages_max, decoder, kinds, absent, instance };
        tracer.set_scope(scope)?;
        for (event, _) in &tracer.kinds {
            tracer.instance.folder().write(&format!("events/{event}/enable"), "1")?;
        }
        tracer.resume()?;
        Ok(tracer)
    }

    /// Records others from now on.
    pub fn set_scope(&mut self, scope: &Scope) -> Result<(), TraceError> {
        scope.check()?;
        for (event, kind) in &self.kinds {
            let filter = scope.filter(*kind);
            self.instance.folder().write(&format!("events/{event}/filter"), &filter)?;
        }
        Ok(())
    }

    /// Hands out what was recorded since the last call, each processor's events in their order.
    /// It ends also if events come faster than they are taken.
    pub fn drain(&mut self, each: &mut impl FnMut(Event)) -> Result<Drained, TraceError> {
        let mut drained = Drained::default();
        for buffer in &self.buffers {
            for _ in 0..self.pages_max {
                let length = match rustix::io::read(buffer, &mut self.page[..]) {
                    Ok(0) | Err(Errno::AGAIN) => break,
                    Ok(length) => length,
                    Err(Errno::INTR) => continue,
                    Err(errno) => {
                        let (path, source) = ("per_cpu/*/trace_pipe_raw".into(), errno.into());
                        return Err(TraceError::File { verb: "read", path, source });
                    }
                };
                self.decoder.decode(&self.page[..length], each, &mut drained);
            }
        }
        Ok(drained)
    }

    /// What becomes readable with the first event.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.buffers.iter().map(AsFd::as_fd)
    }

    /// Records nothing until [`resume`](Self::resume); what was recorded stays.
    pub fn pause(&mut self) -> Result<(), TraceError> {
        self.instance.folder().write("tracing_on", "0")
    }

    /// Records again.
    pub fn resume(&mut self) -> Result<(), TraceError> {
        self.instance.folder().write("tracing_on", "1")
    }

    /// Events that this kernel does not have, as `GROUP/NAME`.
    pub fn absent(&self) -> &[&'static str] {
        &self.absent
    }

    /// Whether the kernel says of files what they are asked: it has all events of the group
    /// `readahead`.
    pub fn sees_files(&self) -> bool {
        !self.absent.iter().any(|event| event.starts_with("readahead/"))
    }
}

impl Scope {
    fn check(&self) -> Result<(), TraceError> {
        for (what, count) in [("devices", self.devices.len()), ("threads", self.threads.len())] {
            if count > SCOPE_MAX {
                return Err(TraceError::ScopeTooWide { what, count, max: SCOPE_MAX });
            }
        }
        Ok(())
    }

    /// The filter of an event in the kernel's words; `0` is none.
    fn filter(&self, kind: Kind) -> String {
        let device = |device: &DevNumber| match kind {
            Kind::Readahead(_) => format!("s_dev == {}", device.to_kernel()),
            Kind::Sync => format!("dev == {}", device.to_kernel()),
            // File systems append their own name to some.
            Kind::Pause | Kind::Bandwidth => {
                format!("bdi == \"{device}\" || bdi ~ \"{device}-*\"")
            }
        };
        let mut parts = vec![any(self.devices.iter().map(device))];
        // The bandwidth of a device belongs to no thread: the one that updates it is chance.
        if kind != Kind::Bandwidth {
            parts.push(any(self.threads.iter().map(|thread| format!("common_pid == {thread}"))));
        }
        if kind == Kind::Pause {
            parts.push("pause > 0".to_owned());
        }
        parts.retain(|part| !part.is_empty());
        if parts.is_empty() { "0".to_owned() } else { parts.join(" && ") }
    }
}

/// One of the terms, or nothing.
fn any(terms: impl Iterator<Item = String>) -> String {
    let terms: Vec<String> = terms.collect();
    if terms.is_empty() { String::new() } else { format!("({})", terms.join(" || ")) }
}

/// The buffer of a processor in KiB, so many processors there are. All of them together stay small
/// on large machines, where events are spread over many.
fn buffer_kib(processors: usize) -> usize {
    (BUFFERS_KIB / processors.max(1)).clamp(BUFFER_KIB_MIN, BUFFER_KIB_MAX)
}

/// The largest buffer of a processor in KiB. A fault's event takes 56 bytes, so that three seconds
/// of 3000 faults a second fit; a stream's are fewer.
pub const BUFFER_KIB_MAX: usize = 512;

/// The smallest one: a tenth of a second of ten thousand faults a second.
pub const BUFFER_KIB_MIN: usize = 64;

/// All buffers together, in KiB, as long as each has the least.
pub const BUFFERS_KIB: usize = 4096;

/// The most devices, and the most threads, that a [`Scope`] can have: the kernel takes a filter of
/// a page, and tests one condition after the other.
pub const SCOPE_MAX: usize = 64;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, by the monotonic clock, in nanoseconds.
    pub at: u64,
    /// The thread that ran.
    pub pid: u32,
    /// What happened.
    pub what: What,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Pages are about to be brought in.
    Readahead(Readahead),
    /// A writer pauses (`writeback/balance_dirty_pages` with a pause above 0).
    Pause(Pause),
    /// A new estimate of a device's write bandwidth (`writeback/bdi_dirty_ratelimit`).
    Bandwidth {
        /// The backing device.
        bdi: DevNumber,
        /// Bytes a second, smoothed.
        bandwidth: u64,
    },
    /// A file is made durable (`ext4/ext4_sync_file_enter` and its like).
    Sync {
        /// The file system.
        dev: DevNumber,
    },
}

/// An event of the group `readahead`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readahead {
    /// Why.
    pub why: Why,
    /// The file.
    pub file: FileKey,
    /// The first page, from the file's begin.
    pub index: u64,
    /// Pages that were asked for (`Sync`, `Async`) or are brought in (`Order`, `Unbounded`).
    pub pages: u64,
    /// The description's largest window, in pages; 0 where the event does not say.
    pub window: u64,
}

/// Why pages come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// A read found a page absent (`page_cache_sync_ra`).
    Sync,
    /// A reader reached the marker of its window (`page_cache_async_ra`).
    Async,
    /// A window goes out: a stream's, or one around a fault (`page_cache_ra_order`).
    Order,
    /// A plain range goes out (`page_cache_ra_unbounded`).
    Unbounded,
}

/// A writer's pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The backing device that it writes to.
    pub bdi: DevNumber,
    /// Its length in ms.
    pub pause_ms: u32,
}

/// The events that this kernel lacks of those that a [`Tracer`] records, as `GROUP/NAME`. Nothing
/// is made or switched on for it.
///
/// # Errors
///
/// There is no tracefs, or it may not be read.
pub fn absent_events() -> Result<Vec<&'static str>, TraceError> {
    let top = Folder::top()?;
    let names = KINDS.iter().map(|(event, _)| *event);
    Ok(names.filter(|event| !top.has(&format!("events/{event}"))).collect())
}

/// Removes the instances that tracers of killed processes have left in this machine's kernel.
///
/// # Errors
///
/// There is no tracefs, or it may not be read.
pub fn sweep() -> Result<(), TraceError> {
    Folder::top()?.sweep()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_pages_become_events() {
        let mut seen = Vec::new();
        let drained = recorded::decode(recorded::PAGES, &mut |event| seen.push(event));
        assert_eq!(drained.events, seen.len() as u64);
        assert_eq!(drained.lost, 0);
        let of = |why| {
            seen.iter().filter(move |event| {
            matches!(event.what, What::Readahead(readahead) if readahead.why == why)
        })
        };
        for why in [Why::Sync, Why::Async, Why::Order, Why::Unbounded] {
            assert!(of(why).count() > 0, "{why:?}");
        }
        assert!(seen.iter().any(|event| matches!(event.what, What::Pause(_))));
        assert!(seen.iter().any(|event| matches!(event.what, What::Bandwidth { .. })));
    }

    #[test]
    fn any_bytes_are_decoded_or_left_out() {
        for page in recorded::damaged_pages() {
            recorded::decode(&page, &mut |_| {});
        }
    }

    #[test]
    fn a_scope_is_a_filter_in_the_kernels_words() {
        let all = Scope::default();
        assert_eq!(all.filter(Kind::Readahead(Why::Sync)), "0");
        assert_eq!(all.filter(Kind::Pause), "pause > 0");
        let (disk, part) = ("8:0".parse().unwrap(), "8:1".parse().unwrap());
        let scope = Scope { devices: vec![disk, part], threads: vec![12, 13] };
        let threads = "(common_pid == 12 || common_pid == 13)";
        let devices = "(s_dev == 8388608 || s_dev == 8388609)";
        assert_eq!(scope.filter(Kind::Readahead(Why::Order)), format!("{devices} && {threads}"));
        let disk = "bdi == \"8:0\" || bdi ~ \"8:0-*\"";
        let devices = format!("({disk} || {})", disk.replace("8:0", "8:1"));
        assert_eq!(scope.filter(Kind::Pause), format!("{devices} && {threads} && pause > 0"));
        assert_eq!(scope.filter(Kind::Bandwidth), devices);
    }

    #[test]
    fn buffers_shrink_with_the_number_of_processors() {
        assert_eq!([0, 1, 8, 16, 64, 1024].map(buffer_kib), [512, 512, 512, 256, 64, 64]);
    }

    #[test]
    fn a_scope_that_is_too_wide_is_refused() {
        let threads = Scope { threads: vec![1; SCOPE_MAX + 1], ..Scope::default() };
        assert!(threads.check().unwrap_err().to_string().contains("65 threads"));
        let most = Scope { threads: vec![1; SCOPE_MAX], ..Scope::default() };
        assert!(most.check().is_ok());
    }
}
