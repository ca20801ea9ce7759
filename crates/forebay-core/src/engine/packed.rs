//! Packed files: pages that are decoded from blocks of an image, which is cached as a file itself.
//!
//! A demand for a page that is not ready becomes a *job*: the plan of the fill rule, executed step
//! by step on behalf of the call, which parks whenever it must wait.
//!
//! ```text
//!              bulk                                 for each block that is decoded now
//!   plan --> pointer words --> raw bytes --+--> pointer words --> raw bytes --> claim, decode --+
//!     |      of all that is    sent, not   |                                                    |
//!     |      fetched           waited for  +<---------------------------------------------------+
//!     +---- else ------------------------->+                                            the end
//! ```
//!
//! A page is *claimed* when its decoding begins: it is in the cache, being read, and a call that
//! needs it waits. Before that nothing is held, so a job without memory blocks no other; one that
//! keeps losing its raw bytes to others may hold them from then on, one such job at a time.
//!
//! | file | what |
//! | --- | --- |
//! | `job`, `advance` | a job, and its steps |
//! | `raw` | raw bytes: from the image's pages, or through its two buffers |
//! | `decode` | claims; decodes by calls and by idle processors |
//! | `space` | what a readahead policy sees of a packed file |
//!
//! The most frames that one block needs at once is the pages of the image that its raw bytes lie in
//! and one more; with fewer in all, a demand for it fails.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::wait::Wait;
use super::{CALLS_MAX, Engine, File, FileKind};
use crate::io::{Decode, IoError};
use crate::packed::buffers::Buffers;
use crate::packed::{self, Ahead, BlockMap, Demand, Fill, Flags, Pages};
use crate::readahead::Readahead;
use crate::units::{CallId, FileId, HandleId, PageIndex};
use crate::writeback::Levels;

mod advance;
mod decode;
mod job;
mod raw;
mod space;

pub(super) use job::Job;

/// Decodes that idle processors may do at once.
const IDLE_MAX: u32 = 64;

/// Runs of pages that are offered to idle processors at once; the oldest ones give way.
const OFFERS_MAX: usize = 64;

/// All that is known of packed files.
#[derive(Debug, Default)]
pub(super) struct PackedFiles {
    files: Vec<PackedFile>,
    images: Vec<Image>,
    /// Decodes in progress: of calls, by their ids, then of idle processors.
    decodes: Vec<Option<Decode>>,
    offers: VecDeque<Offer>,
    /// The first of the offers can be decoded.
    offer_is_ready: bool,
    /// The call that may hold raw pages while it waits for others.
    holder: Option<CallId>,
    /// Calls that wait to be it, the first to wait first.
    holder_waiters: VecDeque<CallId>,
    /// The pages that a readahead policy has requested and that belong to no job yet.
    asked: Pages,
}

#[derive(Debug)]
struct PackedFile {
    map: Box<dyn BlockMap>,
    /// The index of its image in the table.
    image: usize,
    /// Pages that readahead has read and no call has demanded; absent from the cache.
    deferred: Flags,
    /// Those among them that carry the marker.
    marked: Flags,
}

/// A file that packed files lie in.
#[derive(Debug)]
struct Image {
    file: FileId,
    buffers: Buffers,
    /// The call that uses the buffers, and those that wait for them, the first to wait first.
    owner: Option<CallId>,
    waiters: VecDeque<CallId>,
}

/// Pages that an idle processor may decode.
#[derive(Clone, Copy, Debug)]
struct Offer {
    file: FileId,
    pages: Pages,
}

/// The request of a call for a packed file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) handle: HandleId,
    pub(super) file: FileId,
    /// The current page, and the page after the last one of its request.
    pub(super) page: PageIndex,
    pub(super) end: PageIndex,
    /// It copies bytes out.
    pub(super) copied: bool,
    /// It has asked before, and the page did not stay.
    pub(super) again: bool,
}

impl Engine {
    /// Adds a packed file: its pages are decoded from raw bytes of `image`, an ordinary file, which
    /// cannot be changed from then on.
    ///
    /// # Panics
    /// If the image is itself packed, if pages are dirty, or if more calls may be in flight than
    /// [`CALLS_MAX`] less 64.
    pub fn add_packed_file(&mut self, image: FileId, map: Box<dyn BlockMap>) -> FileId {
        let lower = self.files[image.index()];
        assert!(!matches!(lower.kind, FileKind::Packed(_)), "an image is not packed itself");
        assert!(self.levels() == Levels::default(), "packed files come before the first write");
        self.files[image.index()].kind = FileKind::Image;
        // A page counts the calls and idle processors that it stays for in 16 bits.
        let stays = self.calls.len() as u64 + u64::from(IDLE_MAX);
        assert!(stays <= u64::from(CALLS_MAX), "idle processors decode beside the calls");
        let packed = &mut self.packed;
        if packed.decodes.is_empty() {
            let most = self.calls.len() + IDLE_MAX as usize;
            packed.decodes = core::iter::repeat_with(|| None).take(most).collect();
            packed.offers = VecDeque::with_capacity(OFFERS_MAX);
            packed.holder_waiters = VecDeque::with_capacity(self.calls.len());
        }
        let known = packed.images.iter().position(|known| known.file == image);
        let place = known.unwrap_or_else(|| {
            packed.images.push(Image {
                file: image,
                buffers: Buffers::default(),
                owner: None,
                waiters: VecDeque::with_capacity(self.calls.len()),
            });
            packed.images.len() - 1
        });
        let bytes = map.bytes();
        let kind = FileKind::Packed(packed.files.len() as u32);
        let file = File { kind, device: lower.device, bytes, room: bytes, sector: 0 };
        let pages = file.pages();
        let (deferred, marked) = (Flags::new(pages), Flags::new(pages));
        packed.files.push(PackedFile { map, image: place, deferred, marked });
        self.files.push(file);
        self.writeback.add_file();
        FileId(self.files.len() as u32 - 1)
    }

    /// Opens a packed file: a fresh description with its own readahead state and fill rule.
    ///
    /// # Panics
    /// If the file is not packed.
    pub fn open_packed(
        &mut self,
        file: FileId,
        readahead: Box<dyn Readahead>,
        fill: Box<dyn Fill>,
    ) -> HandleId {
        assert!(self.packed_place(file).is_some(), "a packed file has a fill rule");
        let handle = self.open(file, readahead);
        self.opened_mut(handle).fill = Some(fill);
        handle
    }

    /// Whether a page of a packed file was read ahead and is not decoded.
    pub fn is_deferred(&self, file: FileId, page: PageIndex) -> bool {
        self.packed_place(file).is_some_and(|place| self.packed.files[place].deferred.has(page))
    }

    /// Whether the file is packed.
    pub fn is_packed(&self, file: FileId) -> bool {
        self.packed_place(file).is_some()
    }

    /// Pages of images added to the cache so far.
    pub fn raw_pages_added(&self) -> u64 {
        self.stats.raw_pages
    }

    /// The fill rule of a packed file that was opened without one.
    pub(super) fn plain_fill(&self, file: FileId) -> Option<Box<dyn Fill>> {
        self.packed_place(file)?;
        let eager = packed::Spec::parse("eager").expect("the table has the kernel's rule");
        Some(eager.build())
    }

    /// The index of a packed file in the table.
    pub(super) fn packed_place(&self, file: FileId) -> Option<usize> {
        match self.files[file.index()].kind {
            FileKind::Packed(place) => Some(place as usize),
            FileKind::Plain | FileKind::Image => None,
        }
    }

    /// Why a file cannot be changed, if it cannot.
    pub(super) fn read_only(&self, file: FileId) -> Option<IoError> {
        match self.files[file.index()].kind {
            FileKind::Plain => None,
            FileKind::Image | FileKind::Packed(_) => Some(IoError::ReadOnly),
        }
    }

    /// Pages of a packed file are dropped: they are no longer deferred.
    pub(super) fn forget_deferred(&mut self, file: FileId, pages: Pages) {
        if let Some(place) = self.packed_place(file) {
            self.packed.files[place].deferred.clear_all(pages);
            self.packed.files[place].marked.clear_all(pages);
        }
    }

    /// Whether readahead has requested pages of a packed file that have no job yet.
    pub(super) fn owes_window(&self) -> bool {
        !self.packed.asked.is_empty()
    }

    /// Lets the fill rule plan the request of a call and the window of readahead, and executes the
    /// plan. Returns whether the call continues at once.
    pub(super) fn bring(&mut self, call: CallId, ask: &Ask) -> bool {
        let window = core::mem::take(&mut self.packed.asked);
        let demand = self.demand(ask, window);
        let fill = self.opened_mut(ask.handle).fill.as_mut().expect("a packed file has a rule");
        let plan = fill.on_demand(&demand).fitted(&demand);
        let place = self.packed_place(ask.file).expect("the file is packed");
        for page in window.start..window.end {
            if !plan.fetch.contains(page) {
                self.packed.files[place].deferred.clear(page);
                self.packed.files[place].marked.clear(page);
            }
        }
        let stands_at = (!demand.wanted.is_empty()).then_some(ask.page);
        self.calls[call.index()].job = Some(Job::new(ask.file, place, plan, stands_at));
        self.advance_job(call)
    }

    /// The same for a call that needs none of the pages.
    pub(super) fn bring_ahead(&mut self, call: CallId, ask: &Ask) -> bool {
        let window = self.packed.asked;
        let outside = if window.start > 0 { 0 } else { window.end };
        self.bring(call, &Ask { page: outside, ..*ask })
    }

    /// The demand that is passed to the fill rule.
    fn demand(&mut self, ask: &Ask, window: Pages) -> Demand {
        let Ask { file, page, end, copied, again, .. } = *ask;
        let file_pages = self.files[file.index()].pages();
        let demand =
            |wanted, window, deferred| Demand { wanted, window, file_pages, copied, deferred };
        let present = self.cache.lookup(file, page).is_some();
        if present || (!window.is_empty() && !window.contains(page)) {
            return demand(Pages::none(window.start), window, false);
        }
        let place = self.packed_place(file).expect("the file is packed");
        let own = Pages::new(page, page + 1);
        if again {
            return demand(own, own, true);
        }
        let end = end.min(file_pages);
        let packed = &self.packed.files[place];
        if window.is_empty() && packed.deferred.has(page) {
            self.stats.demands_deferred += 1;
            let goes_on = |page: &PageIndex| {
                packed.deferred.has(*page) && self.cache.lookup(file, *page).is_none()
            };
            let last = (page + 1..end).take_while(goes_on).last().unwrap_or(page);
            let wanted = Pages::new(page, last + 1);
            return demand(wanted, wanted, true);
        }
        let fill = self.opened(ask.handle).fill.as_ref().expect("a packed file has a rule");
        let brought = if fill.ahead() != Ahead::Ours { window.end.max(page + 1) } else { end };
        // What lies behind it in the same block would be decoded again.
        let block = packed.map.block(brought - 1).pages.end.min(file_pages);
        let wanted = Pages::new(page, end.min(brought.max(block)).max(page + 1));
        demand(wanted, window.hull(wanted), false)
    }

    /// Asserts the invariants of packed files.
    pub(super) fn check_packed(&self) {
        let waits = |wait| self.calls.iter().filter(|call| call.wait == wait).count();
        let decoding = self.decodes().filter(|decode| decode.call.is_some()).count();
        assert_eq!(waits(Wait::Decode), decoding, "each call that decodes has one decode");
        let queued: usize = self.packed.images.iter().map(|image| image.waiters.len()).sum();
        assert_eq!(waits(Wait::Buffers), queued, "each call without buffers is queued once");
        for image in &self.packed.images {
            let owned = image.owner.is_some_and(|owner| self.calls[owner.index()].job.is_some());
            assert!(image.owner.is_none() || owned, "buffers are used by a job");
            assert!(image.owner.is_some() || image.waiters.is_empty(), "free buffers have a user");
        }
        let holder = self.packed.holder;
        let holds = holder.is_none_or(|call| self.calls[call.index()].job.is_some());
        assert!(holds, "raw pages are held by a job");
        let queued = self.packed.holder_waiters.len();
        assert_eq!(waits(Wait::Holder), queued, "each call that wants to hold is queued once");
        assert!(holder.is_some() || queued == 0, "no call waits for what is free");
        for decode in self.decodes() {
            let filled = self.filled_by(decode).count();
            assert!(filled > 0, "a decode fills something");
            self.raw_frames_of(decode).for_each(drop);
        }
        assert!(self.packed.asked.is_empty(), "what readahead asks for is planned at once");
        let stats = &self.stats;
        assert!(stats.pages_unpacked_used <= stats.pages_unpacked, "a page is used once ready");
        assert!(stats.pages_unpacked <= stats.pages_decoded, "a page is ready once decoded");
    }

    /// Whether readahead is used for a file's pages through an open description.
    pub(super) fn reads_ahead(&self, handle: HandleId) -> bool {
        self.opened(handle).fill.as_ref().is_none_or(|fill| fill.ahead() != Ahead::Ours)
    }
}
