//! The first write to a device wakes the daemon.
//!
//! Source:     `writeback_dirty_inode_enqueue` of `include/trace/events/writeback.h`.
//! Behaviour:  an instance of its own with this one event, which fires when a clean inode becomes
//!             dirty: once for each file that is written, not for each write. Its buffers are
//!             readable as soon as they hold an event, which names the file and the thread.
//! Differs:    nothing.
//! Not for:    knowing how much is written: a file whose times alone change is dirty too.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;

use super::format::{Field, Format};
use super::ring::{Entries, PageLayout};
use super::tracefs::{Folder, Instance};
use super::{Scope, TraceError};
use crate::number::{DevNumber, FileKey};

/// Becomes readable when files of some devices become dirty.
#[derive(Debug)]
pub struct Wakeup {
    // Closed before the instance is removed.
    buffers: Vec<OwnedFd>,
    devices: Vec<DevNumber>,
    layout: EventLayout,
    page: Vec<u8>,
    _instance: Instance,
}

/// A file that became dirty, and the thread that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtiedInode {
    /// The file.
    pub file: FileKey,
    /// The thread.
    pub thread: u32,
}

/// Where the fields of the event lie.
#[derive(Clone, Copy, Debug)]
struct EventLayout {
    page: PageLayout,
    thread: Field,
    dev: Field,
    ino: Field,
}

impl EventLayout {
    fn parse(page: &str, header: &str, event: &str) -> Result<Self, String> {
        let page = PageLayout::parse(page, header)?;
        let event = Format::parse(event)?;
        let number = |name| event.number(name);
        Ok(Self { page, thread: number("common_pid")?, dev: number("dev")?, ino: number("ino")? })
    }

    /// The files of a page, in the order of its events.
    fn files<'a>(&'a self, page: &'a [u8]) -> impl Iterator<Item = DirtiedInode> + 'a {
        let entries = Entries::new(page, &self.page).into_iter().flatten();
        entries.filter_map(|(_, event)| {
            let dev = DevNumber::from_kernel(u32::try_from(self.dev.value(event)?).ok()?);
            let thread = u32::try_from(self.thread.value(event)?).ok()?;
            Some(DirtiedInode { file: FileKey { dev, ino: self.ino.value(event)? }, thread })
        })
    }
}

impl Wakeup {
    /// For the devices of a scope, which must be some.
    pub fn new(scope: &Scope) -> Result<Self, TraceError> {
        scope.check()?;
        let instance = Instance::new(Folder::top()?)?;
        let folder = instance.folder();
        if !folder.has(EVENT) {
            return Err(TraceError::NoEvents);
        }
        let layout = EventLayout::parse(
            &folder.text("events/header_page")?,
            &folder.text("events/header_event")?,
            &folder.text(&format!("{EVENT}/format"))?,
        );
        let path = format!("{EVENT}/format");
        let layout = layout.map_err(|problem| TraceError::Format { path, problem })?;
        folder.write("buffer_size_kb", BUFFER_KIB)?;
        folder.write("buffer_percent", "0")?;
        let devices = scope.devices.iter().map(|device| format!("dev == {}", device.to_kernel()));
        folder.write(&format!("{EVENT}/filter"), &super::any(devices))?;
        let mut buffers = Vec::new();
        for name in instance.buffers()? {
            let path = format!("per_cpu/{name}/trace_pipe_raw");
            buffers.push(folder.open(&path, OFlags::RDONLY | OFlags::NONBLOCK)?);
        }
        folder.write(&format!("{EVENT}/enable"), "1")?;
        let (devices, page) = (scope.devices.clone(), vec![0; layout.page.size().max(PAGE_MAX)]);
        Ok(Self { buffers, devices, layout, page, _instance: instance })
    }

    /// What becomes readable.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.buffers.iter().map(AsFd::as_fd)
    }

    /// The file systems of its scope.
    pub fn devices(&self) -> &[DevNumber] {
        &self.devices
    }

    /// Hands out the files that became dirty since the last call, so that only new ones wake us.
    pub fn take(&mut self, each: &mut dyn FnMut(DirtiedInode)) {
        for buffer in &self.buffers {
            for _ in 0..TAKEN_MAX {
                match rustix::io::read(buffer, &mut self.page[..]) {
                    Ok(length @ 1..) => {
                        self.layout.files(&self.page[..length]).for_each(&mut *each);
                    }
                    Ok(0) | Err(_) => break,
                }
            }
        }
    }
}

const EVENT: &str = "events/writeback/writeback_dirty_inode_enqueue";

/// Of each processor; what is overwritten has woken us already.
const BUFFER_KIB: &str = "8";

/// A page of the ring.
const PAGE_MAX: usize = 65_536;

/// Pages that are taken at once; if more come, we are woken again.
const TAKEN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::recorded;

    fn layout() -> EventLayout {
        // An event of another group whose fields have these types, under the names of this one.
        let format = recorded::format("readahead/page_cache_ra_order");
        let format = format.replace("s_dev;", "dev;").replace("i_ino;", "ino;");
        EventLayout::parse(recorded::HEADER_PAGE, recorded::HEADER_EVENT, &format).unwrap()
    }

    #[test]
    fn events_name_files_and_threads() {
        let layout = layout();
        let files: Vec<DirtiedInode> =
            recorded::PAGES.chunks(4_096).flat_map(|page| layout.files(page)).collect();
        let mut expected = Vec::new();
        recorded::decode(recorded::PAGES, &mut |event| {
            if let crate::trace::What::Readahead(readahead) = event.what {
                expected.push(DirtiedInode { file: readahead.file, thread: event.pid });
            }
        });
        assert!(!expected.is_empty());
        assert!(expected.iter().all(|file| files.contains(file)));
    }

    #[test]
    fn any_bytes_are_files_or_none() {
        let layout = layout();
        for page in recorded::damaged_pages() {
            let _ = layout.files(&page).count();
        }
        let missing = EventLayout::parse(recorded::HEADER_PAGE, recorded::HEADER_EVENT, "");
        assert!(missing.is_err());
    }
}
