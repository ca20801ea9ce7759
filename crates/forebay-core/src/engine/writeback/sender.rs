//! Pages leave for their device: what the flush rule may do, and a call that waits for some.

use super::State;
use crate::block::{Bio, BlockQueues};
use crate::cache::{Dirtied, PageCache};
use crate::engine::File;
use crate::flush::{DirtyFile, DirtyPages, Sent, Written};
use crate::io::RequestKind;
use crate::time::Instant;
use crate::units::{CallId, DeviceId, FileId, PageIndex, RequestId};
use crate::writeback::{Knobs, Levels};

/// The dirty pages, lent to a rule or a call that sends some.
pub(in crate::engine) struct Sender<'a> {
    pub(super) now: Instant,
    pub(super) origin: SendOrigin,
    pub(super) cache: &'a mut PageCache,
    pub(super) block: &'a mut BlockQueues,
    pub(super) files: &'a [File],
    pub(super) state: &'a mut State,
}

/// What sends pages to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendOrigin {
    /// The flush rule, which makes room for calls.
    Rule,
    /// A call that waits for them.
    Call(CallId),
}

impl Sender<'_> {
    /// Sends the dirty pages of a file that follow each other from `first` on, up to `most`;
    /// returns how many.
    pub(in crate::engine) fn send(
        &mut self,
        file: FileId,
        first: PageIndex,
        most: u64,
        kind: RequestKind,
    ) -> u64 {
        let pages = self.cache.dirty_run(file, first, most);
        let (mut guess, mut frame) = (None, None);
        for page in first..first + pages {
            let hit = self.cache.lookup_at(file, page, guess).expect("a dirty page is there");
            self.cache.start_writeback(hit.frame);
            guess = Some(hit.frame.next());
            frame = frame.or(Some(hit.frame));
        }
        let place = &self.files[file.index()];
        let own = &mut self.state.devices[place.device.index()];
        for levels in [&mut self.state.all, &mut own.levels] {
            levels.dirty -= pages;
            levels.writeback += pages;
        }
        own.drain.begin(self.now);
        let (task, ahead) = self.origin.asks();
        let bio = Bio { frame, task, ahead, ..place.bio(kind, file, first, pages) };
        self.block.submit_bio(self.now, place.device, bio);
        pages
    }

    /// Sends a file's metadata if they have changed.
    pub(in crate::engine) fn send_inode(&mut self, file: FileId) -> Option<RequestId> {
        let inode = &mut self.state.inodes[file.index()];
        inode.changed.take()?;
        inode.moving = true;
        let sector = inode.sector.expect("only a file with metadata changes them");
        self.state.changed.retain(|changed| *changed != file);
        let place = &self.files[file.index()];
        let bio = place.bio(RequestKind::Inode, file, 0, 1);
        let bio = Bio { sector, ..bio };
        Some(self.block.submit_alone(self.now, place.device, bio))
    }

    /// Has a file's device empty its cache.
    pub(in crate::engine) fn send_flush(&mut self, file: FileId) -> RequestId {
        let place = &self.files[file.index()];
        let bio = place.bio(RequestKind::Flush, file, 0, 0);
        self.block.submit_alone(self.now, place.device, bio)
    }

    /// Pages that a device takes now, if it takes any.
    fn room(&self, device: DeviceId) -> Option<u64> {
        let calls_wait = self.state.devices[device.index()].calls_wait;
        let calls_first = self.origin == SendOrigin::Rule && calls_wait;
        if calls_first || !self.block.takes_write(device) {
            return None;
        }
        let request = self.block.request_pages_max(device);
        let Some(in_flight) = self.state.knobs.in_flight else { return Some(request) };
        let in_flight = in_flight.max(1);
        let left = in_flight.saturating_sub(self.block.write_pages(device));
        // Small rests are left until they have become a request worth the device's while.
        let least = (in_flight / 2).clamp(1, request);
        (left >= least).then_some(left.min(request))
    }

    /// Whether as many pages are at a device as the knobs allow.
    fn is_in_flight(&self, device: DeviceId) -> bool {
        let most = self.state.knobs.in_flight;
        most.is_some_and(|most| self.block.write_pages(device) >= most.max(1))
    }

    /// A device takes no more: nothing that it has room for is held back from it.
    fn full(&mut self, device: DeviceId) -> Sent {
        self.block.unplug(self.now, device);
        Sent::Full
    }

    /// Runs reclaim's background writer until it sleeps; returns the pages that it has sent and
    /// whether it waits for a device.
    pub(super) fn reclaim(&mut self) -> (u64, bool) {
        let mut pages = 0;
        while let Some(found) = self.cache.reclaim_background(self.now) {
            if self.write_one(Some(found)) != Sent::Page {
                return (pages, true);
            }
            pages += 1;
        }
        (pages, false)
    }

    /// The device of the next page accepts no writes for now: the file that has been dirty longest
    /// among the others is written instead, so that no call waits for that device.
    fn write_elsewhere(&mut self) -> Sent {
        let takes = |file: &FileId| {
            let device = self.files[file.index()].device;
            !self.state.devices[device.index()].is_stalled
        };
        let files = (0..self.files.len() as u32).map(FileId).filter(takes);
        let oldest = files.filter(|file| self.cache.file_dirty(*file).0 > 0);
        let Some(file) = oldest.min_by_key(|file| self.cache.file_dirty(*file).1) else {
            return Sent::Nothing;
        };
        self.write_file(file, 0, 1).end
    }

    fn write_one(&mut self, found: Option<Dirtied>) -> Sent {
        let Some(Dirtied { file, page, .. }) = found else { return Sent::Nothing };
        if self.state.devices[self.files[file.index()].device.index()].is_stalled {
            return self.write_elsewhere();
        }
        let place = &self.files[file.index()];
        let device = place.device;
        // A page that joins a held-back request needs no slot of its own.
        let joins = self.block.joins(device, &place.bio(RequestKind::Write, file, page, 1));
        let full = if joins { self.is_in_flight(device) } else { self.room(device).is_none() };
        if full {
            return self.full(device);
        }
        self.send(file, page, 1, RequestKind::Write);
        Sent::Page
    }
}

impl DirtyPages for Sender<'_> {
    fn now(&self) -> Instant {
        self.now
    }

    fn knobs(&self) -> &Knobs {
        &self.state.knobs
    }

    fn total(&self) -> u64 {
        self.state.total
    }

    fn all(&self) -> Levels {
        self.state.all
    }

    fn device(&self, device: DeviceId) -> Levels {
        self.state.devices[device.index()].levels
    }

    fn drain(&self, device: DeviceId) -> Option<u64> {
        self.state.devices[device.index()].drain.pages_per_second()
    }

    fn memory_is_short(&self) -> bool {
        self.state.memory_short
    }

    fn file(&self, file: FileId) -> DirtyFile {
        let (dirty, since) = self.cache.file_dirty(file);
        DirtyFile { device: self.files[file.index()].device, dirty, since }
    }

    fn oldest_due(&self) -> Option<Instant> {
        self.cache.oldest_due()
    }

    fn write_oldest(&mut self) -> Sent {
        let found = self.cache.oldest_dirty();
        self.write_one(found)
    }

    fn write_due(&mut self) -> Sent {
        let found = self.cache.old_dirty(self.now);
        self.write_one(found)
    }

    fn write_file(&mut self, file: FileId, from: PageIndex, most: u64) -> Written {
        let device = self.files[file.index()].device;
        let (mut pages, mut next) = (0, from);
        let end = loop {
            if pages == most {
                break Sent::Page;
            }
            // A page that was dirtied again under writeback waits for that write to complete.
            let mut found = self.cache.next_dirty(file, next);
            while let Some((page, true)) = found {
                found = self.cache.next_dirty(file, page + 1);
            }
            let Some((page, _)) = found else { break Sent::Nothing };
            let Some(room) = self.room(device) else { break self.full(device) };
            let sent = self.send(file, page, room.min(most - pages), RequestKind::Write);
            (pages, next) = (pages + sent, page + sent);
        };
        Written { pages, next, end }
    }

    fn write_inodes(&mut self, changed: Instant) -> Sent {
        let state = &*self.state;
        let inode = |file: &FileId| &state.inodes[file.index()];
        let old = |file: &&FileId| inode(file).changed.is_some_and(|since| since <= changed);
        let mut files = state.changed.iter().filter(old);
        let Some(&file) = files.clone().find(|file| !inode(file).moving) else {
            // Metadata that changed under writeback are written again when that write has
            // completed.
            return if files.next().is_some() { Sent::Full } else { Sent::Nothing };
        };
        let device = self.files[file.index()].device;
        if self.room(device).is_none() {
            return self.full(device);
        }
        self.send_inode(file);
        Sent::Page
    }

    fn count_walk(&mut self) {
        self.state.pages_walked += self.state.all.unsafe_pages();
    }

    fn end_pass(&mut self) {
        self.block.unplug_all(self.now);
        self.state.pass_ended = true;
    }
}

impl SendOrigin {
    /// The call that waits for the submitted pages, and whether there is none.
    fn asks(self) -> (Option<CallId>, bool) {
        match self {
            Self::Rule => (None, true),
            Self::Call(call) => (Some(call), false),
        }
    }
}
