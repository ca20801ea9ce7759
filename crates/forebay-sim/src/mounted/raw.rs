//! The image file: its pages in the kernel's page cache, its readahead, its device.
//!
//! ```text
//!   read_near   pages that are there                    no device
//!   send_for    asks the device for what is absent      returns at once
//!   read        the same, and readahead for long runs   the thread waits
//! ```

use std::collections::BTreeMap;

use forebay_core::packed::{Pages, RawBytes};
use forebay_core::readahead::{Access, AddressSpace, Folio, Found, Readahead};
use forebay_core::time::Instant;
use forebay_core::units::{PAGE_SECTORS, PAGE_SIZE, PageIndex};

use crate::device::{Completion, Device, DeviceAccess, Outcome};

/// The image file.
#[derive(Debug)]
pub(super) struct ImageFile {
    pages: Vec<RawPage>,
    marked: Vec<bool>,
    batch: Vec<PageIndex>,
    runs: Vec<Pages>,
    device: Box<dyn Device>,
    sector: u64,
    request_pages_max: u64,
    /// Readahead of the description for long runs.
    long: Option<Box<dyn Readahead>>,
    in_flight: BTreeMap<u32, (Pages, Outcome)>,
    waiters: Vec<(usize, Pages)>,
    sent: u32,
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RawPage {
    Absent,
    InFlight,
    Present,
}

/// A request that the device was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentRequest {
    pub(super) number: u32,
    pub(super) done: Instant,
}

impl ImageFile {
    pub(super) fn new(
        bytes: u64,
        device: Box<dyn Device>,
        sector: u64,
        request_pages_max: u64,
        long: Box<dyn Readahead>,
    ) -> Self {
        let pages = usize::try_from(bytes.div_ceil(PAGE_SIZE)).expect("an image fits in memory");
        Self {
            pages: vec![RawPage::Absent; pages],
            marked: vec![false; pages],
            batch: Vec::new(),
            runs: Vec::new(),
            device,
            sector,
            request_pages_max,
            long: Some(long),
            in_flight: BTreeMap::new(),
            waiters: Vec::new(),
            sent: 0,
            bytes: 0,
        }
    }

    /// Requests that the device was given.
    pub(super) fn requests(&self) -> u64 {
        u64::from(self.sent)
    }

    /// Whether pages are in memory.
    pub(super) fn has(&self, pages: Pages) -> bool {
        self.clipped(pages).all(|page| self.pages[page] == RawPage::Present)
    }

    /// Whether pages are in memory or being read.
    pub(super) fn is_coming(&self, pages: Pages) -> bool {
        self.clipped(pages).all(|page| self.pages[page] != RawPage::Absent)
    }

    /// Begins to read the bytes of a range that are absent.
    pub(super) fn send_for(&mut self, now: Instant, range: RawBytes) -> Vec<SentRequest> {
        self.add_absent(range.pages());
        self.send(now)
    }

    /// Begins to read pages that are absent, a long run with readahead.
    pub(super) fn read(&mut self, now: Instant, pages: Pages) -> Vec<SentRequest> {
        if pages.len() < LONG {
            self.add_absent(pages);
            return self.send(now);
        }
        let mut policy = self.long.take().expect("it is put back");
        for page in self.clipped(pages) {
            let found = match self.pages[page] {
                RawPage::Absent => Found::Absent,
                RawPage::InFlight | RawPage::Present if self.marked[page] => Found::Marked,
                RawPage::InFlight | RawPage::Present => continue,
            };
            let page = page as u64;
            let (remaining, first) = (pages.end - page, page == pages.start);
            policy.on_read(&Access { page, remaining, first, found }, self);
        }
        policy.on_read_end(pages.end * PAGE_SIZE);
        self.long = Some(policy);
        self.add_absent(pages);
        self.send(now)
    }

    /// A thread waits for pages that are being read.
    pub(super) fn wait(&mut self, thread: usize, pages: Pages) {
        self.waiters.push((thread, pages));
    }

    /// A request is over. Returns the threads that need not wait for it any more.
    pub(super) fn complete(&mut self, number: u32) -> Vec<usize> {
        let (done, outcome) = self.in_flight.remove(&number).expect("a request ends once");
        let state = match outcome {
            Outcome::Success => RawPage::Present,
            Outcome::Failure => RawPage::Absent,
        };
        for page in self.clipped(done) {
            self.pages[page] = state;
            if state == RawPage::Absent {
                self.marked[page] = false;
            }
        }
        let mut woken = Vec::new();
        self.waiters.retain(|(thread, pages)| {
            let meets = !pages.within(done).is_empty();
            if meets {
                woken.push(*thread);
            }
            !meets
        });
        woken
    }

    fn clipped(&self, pages: Pages) -> impl Iterator<Item = usize> + use<> {
        let end = usize::try_from(pages.end).unwrap_or(usize::MAX).min(self.pages.len());
        usize::try_from(pages.start).unwrap_or(usize::MAX).min(end)..end
    }

    fn add_absent(&mut self, pages: Pages) {
        for page in self.clipped(pages) {
            if self.pages[page] == RawPage::Absent {
                self.add(page as u64, 0, false);
            }
        }
        self.submit();
    }

    fn send(&mut self, now: Instant) -> Vec<SentRequest> {
        let runs = std::mem::take(&mut self.runs);
        let mut sent = Vec::new();
        for run in runs {
            let access = DeviceAccess::read(
                self.sector + run.start * PAGE_SECTORS,
                run.len() * PAGE_SECTORS,
            );
            let Completion { done, outcome, .. } = self.device.service(now, &access);
            let number = self.sent;
            self.sent += 1;
            self.bytes += access.bytes();
            self.in_flight.insert(number, (run, outcome));
            sent.push(SentRequest { number, done });
        }
        sent
    }
}

impl AddressSpace for ImageFile {
    fn file_pages(&self) -> u64 {
        self.pages.len() as u64
    }

    fn folio(&self, page: PageIndex) -> Option<Folio> {
        let place = usize::try_from(page).ok()?;
        let state = *self.pages.get(place)?;
        let marked = self.marked[place];
        (state != RawPage::Absent).then_some(Folio { first: page, order: 0, marked })
    }

    fn add(&mut self, first: PageIndex, _order: u8, marked: bool) -> bool {
        let place = first as usize;
        (self.pages[place], self.marked[place]) = (RawPage::InFlight, marked);
        self.batch.push(first);
        true
    }

    fn submit(&mut self) {
        for page in self.batch.drain(..) {
            match self.runs.last_mut() {
                Some(run) if run.end == page && run.len() < self.request_pages_max => run.end += 1,
                _ => self.runs.push(Pages::new(page, page + 1)),
            }
        }
    }

    fn clear_marker(&mut self, page: PageIndex) {
        self.marked[page as usize] = false;
    }

    fn congested(&self) -> bool {
        false
    }

    fn available_pages(&self) -> u64 {
        1 << 20
    }
}

/// Pages that are read as a long run, as the mount does.
const LONG: u64 = 8;
