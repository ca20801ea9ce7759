//! Readahead: which pages to fetch, and when.
//!
//! A policy is one file below this one and one line in [`POLICIES`]. It keeps the state of one open
//! file description and acts on the [`AddressSpace`] it is given: it looks up which pages are
//! cached and adds pages to be read. It never knows the time or the contents of a page.
//!
//! ```text
//!  read(2) of n pages      for every page, in order
//!        |                   1  end of file?                       -> stop
//!        v                   2  policy sees the page (Access)      -> may add pages
//!   [ p  p+1  ...  p+n )     3  still absent?                      -> the path reads it alone
//!                            4  came in with a marker?             -> policy sees it once more
//!                            5  wait until it is up to date, copy
//! ```
//!
//! The path calls a policy for a page that is present and unmarked only if the policy [sees
//! hits](Readahead::sees_hits): current kernels are called only on a miss and on a marker.
//!
//! # A policy without an engine
//!
//! Any cache of pages can ask a policy. Here a program reads eight pages one by one:
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use forebay_core::readahead::{Access, AddressSpace, Folio, Found, Spec};
//! use forebay_core::units::PageIndex;
//!
//! /// The pages of a file that are there, and whether each carries the marker.
//! struct File(BTreeMap<PageIndex, bool>);
//!
//! impl AddressSpace for File {
//!     fn file_pages(&self) -> u64 {
//!         1000
//!     }
//!
//!     fn folio(&self, page: PageIndex) -> Option<Folio> {
//!         self.0.get(&page).map(|marked| Folio { first: page, order: 0, marked: *marked })
//!     }
//!
//!     fn add(&mut self, first: PageIndex, order: u8, marked: bool) -> bool {
//!         assert_eq!(order, 0, "folios of several pages are asked for with `folios=on`");
//!         self.0.insert(first, marked).is_none()
//!     }
//!
//!     fn submit(&mut self) {}
//!
//!     fn clear_marker(&mut self, page: PageIndex) {
//!         self.0.insert(page, false);
//!     }
//!
//!     fn congested(&self) -> bool {
//!         false
//!     }
//!
//!     fn available_pages(&self) -> u64 {
//!         1000
//!     }
//! }
//!
//! let mut policy = Spec::parse("linux-6.18").unwrap().build();
//! let mut file = File(BTreeMap::new());
//! let mut asked = Vec::new();
//! for page in 0..8 {
//!     let found = match file.folio(page) {
//!         None => Found::Absent,
//!         Some(folio) if folio.marked => Found::Marked,
//!         Some(_) => continue,
//!     };
//!     let before = file.0.len();
//!     policy.on_read(&Access { page, remaining: 1, first: true, found }, &mut file);
//!     asked.push((page, file.0.len() - before));
//! }
//! assert_eq!(asked, [(0, 4), (1, 8), (4, 16)], "windows double, and each page waits for none");
//! ```

use core::fmt;

use crate::policy::{self, Slot};
use crate::units::PageIndex;

pub use crate::policy::{Parameter, SpecError};

mod before_ondemand;
#[cfg(test)]
mod conformance;
mod fixed;
mod linux_2_6_21;
mod linux_2_6_7;
mod linux_6_12;
mod linux_6_18;
mod off;
mod ondemand;
mod request_size;
mod serial;
#[cfg(test)]
pub(crate) mod testing;

/// Every readahead policy: the one table that names them.
pub static POLICIES: &[Policy] = &[
    off::POLICY,
    fixed::POLICY,
    linux_2_6_7::POLICY,
    request_size::POLICY,
    request_size::LITERAL,
    linux_2_6_21::POLICY,
    linux_6_12::POLICY,
    linux_6_18::POLICY,
];

/// One line of the table of policies.
pub type Policy = policy::Policy<dyn Readahead>;

/// A readahead policy and the values of its parameters.
pub type Spec = policy::Spec<dyn Readahead>;

impl Slot for dyn Readahead {
    const NAME: &'static str = "readahead";

    fn policies() -> &'static [Policy] {
        POLICIES
    }
}

/// The usual read-ahead limit of a device, 128 KiB in pages.
const RA_PAGES_DEFAULT: u64 = 32;

/// Limits that the device and file system set for every policy that knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The device's read-ahead limit in pages (`max`), if it differs from the policy's own.
    pub ra_pages: Option<u64>,
    /// The largest request of the device in pages (`io`).
    pub io_pages: Option<u64>,
    /// Whether the file system caches in large folios (`folios`).
    pub large_folios: Option<bool>,
}

impl Spec {
    /// Lets the device's limits stand where the user gave none; values beyond a parameter's range
    /// become its nearest end. A policy's own `max` is meant for a device of 32 pages and grows
    /// with the device's limit: one that doubles it keeps doubling it.
    #[must_use]
    pub fn with(mut self, settings: Settings) -> Self {
        if let Some(limit) = settings.ra_pages {
            let scaled = |own: &Parameter| limit.saturating_mul(own.default) / RA_PAGES_DEFAULT;
            self = self.unless_given("max", scaled);
        }
        if let Some(pages) = settings.io_pages {
            self = self.unless_given("io", |_| pages);
        }
        match settings.large_folios {
            Some(large) => self.unless_given("folios", |_| u64::from(large)),
            None => self,
        }
    }
}

/// What a policy may see and do of one file's pages.
pub trait AddressSpace {
    /// The file's size in pages, the partial last page included.
    fn file_pages(&self) -> u64;

    /// The folio that holds `page`, or nothing if the page is absent.
    fn folio(&self, page: PageIndex) -> Option<Folio>;

    /// Adds the absent pages of one folio and queues them for reading; returns whether there was
    /// memory for it. `first` is a multiple of the folio's size and no page of it is present.
    fn add(&mut self, first: PageIndex, order: u8, marked: bool) -> bool;

    /// Ends a batch: the pages added so far go to the device as separate bios.
    fn submit(&mut self);

    /// Takes the marker from the folio that holds `page`.
    fn clear_marker(&mut self, page: PageIndex);

    /// Whether the device refuses further readahead for now.
    fn congested(&self) -> bool;

    /// Pages that are free or could be reclaimed without hurting the active ones.
    fn available_pages(&self) -> u64;

    /// Whether `page` is present, up to date or not.
    fn contains(&self, page: PageIndex) -> bool {
        self.folio(page).is_some()
    }
}

/// A run of 2^order pages that live and die together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folio {
    /// Its first page, a multiple of its size.
    pub first: PageIndex,
    /// Log2 of its pages.
    pub order: u8,
    /// Whether it has the marker that triggers the next window.
    pub marked: bool,
}

impl Folio {
    /// The number of pages.
    pub const fn pages(self) -> u64 {
        1 << self.order
    }
}

/// How a page was when an access met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Not in the page cache.
    Absent,
    /// In the page cache, its folio carries the marker.
    Marked,
    /// In the page cache, no marker.
    Present,
}

/// One page of a read, as the policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The page.
    pub page: PageIndex,
    /// Pages from this one to the end of the request, this one included, not limited to the file.
    pub remaining: u64,
    /// Whether this is the first page of the request.
    pub first: bool,
    /// How the page was found.
    pub found: Found,
}

/// One fault through a mapping, as the policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The page.
    pub page: PageIndex,
    /// Whether the access is a write.
    pub write: bool,
    /// The mapping that was touched.
    pub mapping: Mapping,
    /// How the page was found.
    pub found: Found,
}

/// A mapping of a file's pages into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The first page of the file that it maps.
    pub first: PageIndex,
    /// The page behind the last one it maps.
    pub end: PageIndex,
    /// What madvise(2) said of it.
    pub advice: MapAdvice,
    /// Whether it may be executed.
    pub executable: bool,
}

impl Mapping {
    /// An unadvised mapping of a whole file, not executable.
    pub const WHOLE: Self =
        Self { first: 0, end: PageIndex::MAX, advice: MapAdvice::Normal, executable: false };
}

/// Advice about a mapping (madvise).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapAdvice {
    /// `MADV_NORMAL`.
    Normal,
    /// `MADV_SEQUENTIAL`.
    Sequential,
    /// `MADV_RANDOM`.
    Random,
    /// `MADV_HUGEPAGE`.
    Huge,
}

/// Advice about an open file that changes its readahead (`posix_fadvise`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// `POSIX_FADV_NORMAL`.
    Normal,
    /// `POSIX_FADV_SEQUENTIAL`.
    Sequential,
    /// `POSIX_FADV_RANDOM`.
    Random,
}

/// The pages that a policy asked for last, as far as it works with windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The first page.
    pub start: PageIndex,
    /// How many pages.
    pub size: u64,
    /// How many of them, at the end, were read in advance; a marker precedes them.
    pub tail: u64,
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "win({},{},{})", self.start, self.size, self.tail)
    }
}

/// The readahead state of one open file description and the rule that moves it.
pub trait Readahead: fmt::Debug + Send {
    /// A read meets a page. If the page is still absent afterwards, the path reads it singly.
    fn on_read(&mut self, access: &Access, pages: &mut dyn AddressSpace);

    /// A fault meets a page. If the page is still absent afterwards, the path reads it singly.
    fn on_fault(&mut self, fault: &Fault, pages: &mut dyn AddressSpace);

    /// `POSIX_FADV_WILLNEED` for `count` pages from `first` on.
    fn on_will_need(&mut self, first: PageIndex, count: u64, pages: &mut dyn AddressSpace) {
        force(first, count, pages);
    }

    /// `count` pages from `first` will be used once (`POSIX_FADV_NOREUSE`).
    fn on_no_reuse(&mut self, _first: PageIndex, _count: u64, _pages: &mut dyn AddressSpace) {}

    /// The application described how it will read.
    fn on_pattern(&mut self, _pattern: Pattern) {}

    /// A read ended with the file position at byte `position`.
    fn on_read_end(&mut self, _position: u64) {}

    /// A page that this description waited for could not be read.
    fn on_error(&mut self) {}

    /// The most recent window, for observers.
    fn window(&self) -> Option<Window> {
        None
    }

    /// Whether [`on_read`](Self::on_read) has to be called for present, unmarked pages too.
    fn sees_hits(&self) -> bool {
        false
    }
}

/// Adds the absent pages among `count` from `first`, clipped to the file, as single pages. The page
/// that lies `tail` pages before the end of the unclipped range gets the marker if it is new; a
/// `tail` of zero marks nothing. Stops when memory runs out. Returns the number of pages added.
fn range_read(first: PageIndex, count: u64, tail: u64, pages: &mut dyn AddressSpace) -> u64 {
    let end = first.saturating_add(count).min(pages.file_pages());
    let marked = (tail > 0 && tail <= count).then(|| first + count - tail);
    let mut added = 0;
    for page in first..end {
        if pages.contains(page) {
            continue;
        }
        if !pages.add(page, 0, marked == Some(page)) {
            break;
        }
        added += 1;
    }
    pages.submit();
    added
}

/// The size of the first window for a request of `requested` pages, which is not zero, under a
/// limit of `max`: the rule of Linux since 2.6.11.
fn first_window(requested: u64, max: u64) -> u64 {
    let size = requested.next_power_of_two();
    if size <= max / 32 {
        4 * size
    } else if size <= max / 4 {
        2 * size
    } else {
        max
    }
}

/// A forced read, as `POSIX_FADV_WILLNEED` does it before on-demand readahead: no window and no
/// congestion test, at most half of the pages that memory could give, in chunks of 2 MiB.
fn force(first: PageIndex, count: u64, pages: &mut dyn AddressSpace) {
    const CHUNK: u64 = 512;
    let count = count.min(pages.available_pages() / 2);
    let end = first.saturating_add(count).min(pages.file_pages());
    let mut at = first;
    while at < end {
        let length = CHUNK.min(end - at);
        range_read(at, length, 0, pages);
        at += length;
    }
}
