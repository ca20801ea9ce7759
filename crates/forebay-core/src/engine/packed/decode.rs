//! Decodes: pages are claimed, decoded by the world, and ready or absent again.

use super::super::Engine;
use super::{IDLE_MAX, OFFERS_MAX, Offer};
use crate::io::{Decode, IoError, Output};
use crate::packed::{Coding, Pages, RawBytes};
use crate::units::{CallId, DecodeId, FileId, FrameId, PageIndex};

/// The mark of a page that has been decoded and not been accessed. Marks above it say which decode
/// fills the page.
const UNUSED: u32 = 1;

impl Engine {
    /// The pages of a decode in flight that it fills, and their frames, in order.
    pub fn filled_by(&self, decode: &Decode) -> impl Iterator<Item = (PageIndex, FrameId)> + '_ {
        let Decode { id, file, pages, .. } = *decode;
        (pages.start..pages.end).filter_map(move |page| {
            let hit = self.cache.lookup(file, page)?;
            let filled = hit.reading && self.cache.mark(hit.frame) == mark_of(id);
            filled.then_some((page, hit.frame))
        })
    }

    /// The frames of the pages of the image that the raw bytes of a decode in flight lie in, in
    /// order; none if they are in a buffer, or if there are none.
    pub fn raw_frames_of(&self, decode: &Decode) -> impl Iterator<Item = FrameId> + '_ {
        let image = decode.image;
        let pages = held_pages(decode);
        (pages.start..pages.end).map(move |page| {
            let hit = self.cache.lookup(image, page);
            hit.expect("raw pages stay while they are decoded").frame
        })
    }

    /// Whether there is something that an idle processor can decode.
    pub fn has_idle_work(&self) -> bool {
        self.packed.offer_is_ready
    }

    /// Decodes that have not ended.
    pub(in super::super) fn decodes(&self) -> impl Iterator<Item = &Decode> {
        self.packed.decodes.iter().flatten()
    }

    /// Begins to decode a block up to the last of `pages`, its first ones: claims the page `at` and
    /// those of the others that are absent. False if there is no memory for it.
    pub(super) fn begin_decode(
        &mut self,
        (id, call): (DecodeId, Option<CallId>),
        file: FileId,
        at: PageIndex,
        pages: Pages,
        buffer: Option<usize>,
    ) -> bool {
        if !self.claim(id, file, at) {
            return false;
        }
        let behind = (at + 1..pages.end).chain(pages.start..at);
        for page in behind {
            if self.cache.lookup(file, page).is_none() && !self.claim(id, file, page) {
                break;
            }
        }
        let place = self.packed_place(file).expect("the file is packed");
        let block = self.packed.files[place].map.block(at);
        if block.coding == Coding::Packed {
            self.stats.pages_decoded += pages.len();
        }
        let image = self.image_of(place);
        let (coding, raw) = (block.coding, block.raw);
        let decode = Decode { id, call, file, pages, coding, image, raw, buffer };
        let held = held_pages(&decode);
        for page in held.start..held.end {
            let hit = self.cache.lookup(image, page).expect("raw pages are up to date");
            self.cache.touch(hit.frame);
        }
        self.packed.decodes[id.index()] = Some(decode);
        // The reads of the call are submitted before it decodes.
        self.push_ready();
        self.outputs.push(Output::Decode(decode));
        true
    }

    /// A decode has ended.
    pub(in super::super) fn decoded(&mut self, id: DecodeId, result: Result<(), IoError>) {
        let decode = self.packed.decodes[id.index()].take().expect("a decode ends once");
        let Decode { call, file, pages, coding, image, .. } = decode;
        let packed = coding == Coding::Packed;
        for page in pages.start..pages.end {
            let Some(hit) = self.cache.lookup(file, page) else { continue };
            if !hit.reading || self.cache.mark(hit.frame) != mark_of(id) {
                continue;
            }
            let waiter = self.cache.take_waiters(hit.frame);
            if result.is_ok() {
                self.cache.end_read(hit.frame);
                self.cache.set_mark(hit.frame, if packed { UNUSED } else { 0 });
                self.stats.pages_unpacked += u64::from(packed);
                self.stats.pages_unpacked_idle += u64::from(packed && call.is_none());
            }
            self.wake_page_waiters(waiter, hit.frame, (result.is_ok(), None));
            if result.is_err() {
                self.cache.fail_read(hit.frame);
            }
        }
        let held = held_pages(&decode);
        for page in held.start..held.end {
            let hit = self.cache.lookup(image, page).expect("raw pages stay");
            self.cache.unpin(hit.frame);
        }
        self.wake_memory_waiters();
        if let Some(call) = call {
            self.end_job_decode(call, pages, result);
        }
    }

    /// A page of a packed file is accessed.
    pub(in super::super) fn count_use(&mut self, frame: FrameId) {
        if self.cache.mark(frame) == UNUSED {
            self.cache.set_mark(frame, 0);
            self.stats.pages_unpacked_used += 1;
        }
    }

    /// Pages may be decoded by a processor that has nothing to do.
    pub(super) fn offer(&mut self, offer: Offer) {
        if self.packed.offers.len() >= OFFERS_MAX {
            self.packed.offers.pop_front();
        }
        self.packed.offers.push_back(offer);
    }

    /// A processor has nothing to do.
    pub(in super::super) fn idle(&mut self) {
        let first = self.calls.len() as u32;
        let mut ids = (first..first + IDLE_MAX).map(DecodeId);
        let is_free =
            |id: &DecodeId| self.packed.decodes.get(id.index()).is_some_and(Option::is_none);
        let Some(id) = ids.find(is_free) else { return };
        if !self.packed.offer_is_ready {
            return;
        }
        let Some(offer) = self.packed.offers.front_mut() else { return };
        let Offer { file, pages } = *offer;
        let (place, at) = (self.packed_place(file).expect("the file is packed"), pages.start);
        let block = self.packed.files[place].map.block(at);
        let image = self.image_of(place);
        let raw = raw_pages(block.coding, block.raw);
        for page in raw.start..raw.end {
            let hit = self.cache.lookup(image, page).expect("the offer was looked at");
            self.cache.pin_alone(hit.frame);
        }
        let upto = block.pages.end.min(pages.end);
        let pages = Pages::new(block.pages.start, upto);
        if self.begin_decode((id, None), file, at, pages, None) {
            return;
        }
        for page in raw.start..raw.end {
            let hit = self.cache.lookup(image, page).expect("a page that is held stays");
            self.cache.unpin(hit.frame);
        }
        // Memory is short, and no call asked for it.
        self.packed.offers.pop_front();
    }

    /// Finds out whether an offer can be taken; what can no longer be done without a device is
    /// dropped.
    pub(in super::super) fn look_at_offers(&mut self) {
        self.packed.offer_is_ready = false;
        while let Some(Offer { file, pages }) = self.packed.offers.front().copied() {
            let place = self.packed_place(file).expect("the file is packed");
            let open = |page: &PageIndex| self.packed.files[place].deferred.has(*page);
            let Some(at) = (pages.start..pages.end).find(open) else {
                self.packed.offers.pop_front();
                continue;
            };
            let block = self.packed.files[place].map.block(at);
            let image = self.image_of(place);
            let raw = raw_pages(block.coding, block.raw);
            let mut hits = (raw.start..raw.end).map(|page| self.cache.lookup(image, page));
            let lost = hits.clone().any(|hit| hit.is_none());
            let moving = hits.any(|hit| hit.is_some_and(|hit| hit.reading));
            let start = if lost { block.pages.end.max(at + 1) } else { at };
            if let Some(front) = self.packed.offers.front_mut() {
                front.pages.start = start;
            }
            if !lost {
                self.packed.offer_is_ready = !moving;
                return;
            }
        }
    }

    fn claim(&mut self, id: DecodeId, file: FileId, page: PageIndex) -> bool {
        let place = self.packed_place(file).expect("the file is packed");
        let marked = self.packed.files[place].marked.has(page);
        if self.cache.claim(file, page, (marked, mark_of(id))).is_none() {
            return false;
        }
        self.packed.files[place].deferred.clear(page);
        self.packed.files[place].marked.clear(page);
        true
    }
}

/// The mark of the pages that a decode fills.
const fn mark_of(id: DecodeId) -> u32 {
    id.0 + UNUSED + 1
}

/// The pages of the image that stay while a block is decoded.
fn held_pages(decode: &Decode) -> Pages {
    if decode.buffer.is_some() {
        return Pages::none(decode.raw.pages().start);
    }
    raw_pages(decode.coding, decode.raw)
}

/// The pages of the image that a block is made of: none of a hole, whatever its map says.
fn raw_pages(coding: Coding, raw: RawBytes) -> Pages {
    let pages = raw.pages();
    if coding == Coding::Hole { Pages::none(pages.start) } else { pages }
}
