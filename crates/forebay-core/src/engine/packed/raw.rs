//! Raw bytes: pages of the image in the cache, and the two buffers.

use super::super::Engine;
use super::super::wait::Wait;
use super::job::Job;
use crate::block::Bio;
use crate::cache::Hit;
use crate::io::{Gather, IoError, Output, RequestKind};
use crate::packed::{Pages, RawBytes};
use crate::readahead::Folio;
use crate::units::{CallId, FileId, PageIndex};

/// Whether pages of the image are up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ensured {
    /// They are.
    Ready,
    /// The call is parked until one of them is, or could be.
    Wait,
    /// There is no memory for one of them, and none of them is being read.
    NoMemory,
    /// One of them cannot be read.
    Failed(IoError),
}

/// How long a page of the image is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stay {
    /// It is looked at when it has come.
    Passing,
    /// All are needed at one moment.
    Together,
}

impl Engine {
    /// Has pages of the image up to date: those that are absent are read, in pieces that are as
    /// large as can be, and waited for. A call that needs all together, and has lost some several
    /// times, keeps them as they come; one call at a time may do so, others wait for it.
    pub(super) fn ensure(
        &mut self,
        call: CallId,
        job: &mut Job,
        pages: Pages,
        stay: Stay,
    ) -> Ensured {
        let image = self.image_of(job.place);
        if let Some(page) = job.asked.take()
            && self.cache.lookup(image, page).is_none()
        {
            if let Some(error) = self.take_error(call) {
                return Ensured::Failed(error);
            }
            job.alone = true;
        }
        if stay == Stay::Together && job.reads >= LOST_MAX && !self.may_hold(call) {
            return Ensured::Wait;
        }
        let (first, missing) = self.look(call, job, (image, pages), stay);
        if let Some((page, hit)) = first {
            job.asked = Some(page);
            self.end_turn(call);
            self.wait_for_page(call, image, hit.frame);
            return Ensured::Wait;
        }
        match missing {
            None => Ensured::Ready,
            Some(Missing::Place) => {
                let device = self.files[image.index()].device;
                self.wait_for_read_place(call, device, true);
                Ensured::Wait
            }
            Some(Missing::Memory) => Ensured::NoMemory,
        }
    }

    /// Makes a call the one that keeps raw pages as they come; otherwise it is parked until it is.
    fn may_hold(&mut self, call: CallId) -> bool {
        match self.packed.holder {
            None => self.packed.holder = Some(call),
            Some(holder) if holder == call => {}
            Some(_) => {
                self.packed.holder_waiters.push_back(call);
                self.calls[call.index()].wait = Wait::Holder;
                return false;
            }
        }
        true
    }

    /// Looks up pages of the image and submits reads for absent ones; returns the first that is
    /// being read, and what was missing.
    fn look(
        &mut self,
        call: CallId,
        job: &mut Job,
        (image, pages): (FileId, Pages),
        stay: Stay,
    ) -> (Option<(PageIndex, Hit)>, Option<Missing>) {
        let device = self.files[image.index()].device;
        let mut run = Pages::none(pages.start);
        let (mut first, mut missing) = (None, None);
        let holds = stay == Stay::Together && self.packed.holder == Some(call);
        for page in pages.start + job.held + job.seen..pages.end {
            let found = self.cache.lookup(image, page);
            if let Some(hit) = found {
                if hit.reading {
                    first = first.or(Some((page, hit)));
                } else if holds && first.is_none() {
                    self.cache.pin_alone(hit.frame);
                    job.held += 1;
                } else if stay == Stay::Passing && first.is_none() {
                    job.seen += 1;
                }
            } else if job.alone && first.is_some() {
                break;
            } else if !self.block.takes_read(self.now, device, call) {
                missing = Some(Missing::Place);
                break;
            } else if self.cache.add(image, Folio { first: page, order: 0, marked: false }) {
                self.stats.raw_pages += 1;
                if run.end != page {
                    self.submit_raw(call, image, run, false);
                    run = Pages::none(page);
                }
                run.end = page + 1;
                let hit = self.cache.lookup(image, page).expect("it has been added");
                first = first.or(Some((page, hit)));
            } else {
                missing = Some(Missing::Memory);
                break;
            }
        }
        if !run.is_empty() {
            job.reads += 1;
            self.submit_raw(call, image, run, false);
        }
        (first, missing)
    }

    /// Sends for the absent ones of the pages that some bytes of the image lie in, and does not
    /// wait for them; stops where there is no memory.
    pub(super) fn send_for(&mut self, call: CallId, place: usize, raw: RawBytes, ahead: bool) {
        let image = self.image_of(place);
        let pages = raw.pages();
        let mut run = Pages::none(pages.start);
        for page in pages.start..pages.end {
            if self.cache.lookup(image, page).is_some() {
                continue;
            }
            if !self.cache.add(image, Folio { first: page, order: 0, marked: false }) {
                break;
            }
            self.stats.raw_pages += 1;
            if run.end != page {
                self.submit_raw(call, image, run, ahead);
                run = Pages::none(page);
            }
            run.end = page + 1;
        }
        self.submit_raw(call, image, run, ahead);
    }

    fn submit_raw(&mut self, call: CallId, image: FileId, run: Pages, ahead: bool) {
        if run.is_empty() {
            return;
        }
        let file = self.files[image.index()];
        assert!(run.end <= file.pages(), "raw bytes lie in their image");
        let bio = file.bio(RequestKind::Read, image, run.start, run.len());
        let bio = Bio { task: Some(call), ahead, ..bio };
        self.block.submit_bio(self.now, file.device, bio);
    }

    /// Has bytes of the image in one of its buffers, which the call may use.
    pub(super) fn gather(&mut self, call: CallId, job: &mut Job, bytes: RawBytes) -> Ensured {
        let at = self.packed.files[job.place].image;
        let image = self.packed.images[at].file;
        let pages = self.files[image.index()].pages();
        loop {
            let buffers = &mut self.packed.images[at].buffers;
            if buffers.covering(bytes).is_some() {
                return Ensured::Ready;
            }
            let Some((page, place)) = buffers.missing(bytes, pages) else {
                let filled = buffers.close();
                let has = buffers.covering(bytes) == Some(filled);
                let error = job.error.take().unwrap_or(IoError::Corrupt);
                return if has { Ensured::Ready } else { Ensured::Failed(error) };
            };
            let buffer = buffers.next();
            match self.ensure(call, job, Pages::new(page, page + 1), Stay::Passing) {
                Ensured::Ready => {
                    job.seen = 0;
                    let hit = self.cache.lookup(image, page).expect("it is up to date");
                    let frame = hit.frame;
                    self.cache.touch(frame);
                    let gather = Gather { call, image, page, frame, buffer, place };
                    self.outputs.push(Output::Gather(gather));
                    self.packed.images[at].buffers.add();
                }
                Ensured::Failed(error) => {
                    job.error = Some(error);
                    job.alone = false;
                    self.packed.images[at].buffers.cut();
                }
                other @ (Ensured::Wait | Ensured::NoMemory) => return other,
            }
        }
    }

    /// The buffer that has some bytes.
    pub(super) fn buffer_of(&self, place: usize, bytes: RawBytes) -> Option<usize> {
        let image = self.packed.files[place].image;
        self.packed.images[image].buffers.covering(bytes)
    }

    /// Makes a call the one that uses the buffers of an image; otherwise it is parked until it is.
    pub(super) fn take_buffers(&mut self, call: CallId, place: usize) -> bool {
        let image = &mut self.packed.images[self.packed.files[place].image];
        match image.owner {
            None => image.owner = Some(call),
            Some(owner) if owner == call => {}
            Some(_) => {
                image.waiters.push_back(call);
                self.calls[call.index()].wait = Wait::Buffers;
                return false;
            }
        }
        true
    }

    /// The buffers of an image go to the call that has waited longest for them.
    pub(super) fn give_buffers_back(&mut self, call: CallId, place: usize) {
        let image = &mut self.packed.images[self.packed.files[place].image];
        if image.owner != Some(call) {
            return;
        }
        image.buffers.abandon();
        image.owner = image.waiters.pop_front();
        if let Some(next) = image.owner {
            self.wake(next, None);
        }
    }

    /// Keeps all pages that raw bytes lie in, those not yet held among them; they are up to date.
    pub(super) fn hold_all(&mut self, job: &mut Job, raw: RawBytes) {
        let (image, pages) = (self.image_of(job.place), raw.pages());
        for page in pages.start + job.held..pages.end {
            let hit = self.cache.lookup(image, page).expect("raw pages are up to date");
            self.cache.pin_alone(hit.frame);
        }
        job.held = pages.len();
    }

    /// Lets go of the pages that a job holds of raw bytes.
    pub(super) fn let_go(&mut self, job: &mut Job, raw: RawBytes) {
        let (image, pages) = (self.image_of(job.place), raw.pages());
        for page in pages.start..pages.start + core::mem::take(&mut job.held) {
            let hit = self.cache.lookup(image, page).expect("a page that is held stays");
            self.cache.unpin(hit.frame);
        }
    }

    /// The image of a packed file.
    pub(super) fn image_of(&self, place: usize) -> FileId {
        self.packed.images[self.packed.files[place].image].file
    }
}

/// What a page of the image could not be sent for without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Memory,
    Place,
}

/// How often a block's raw bytes are read before they are held as they come.
const LOST_MAX: u32 = 3;
