//! Faults through a mapping.
//!
//! Source:     Linux 6.12 and 6.18, mm/filemap.c.
//! Behaviour:  An absent page is read in the middle of a window of `ra_pages` with a tail of a
//!             quarter, unless the mapping is advised or too many faults missed. A marked page
//!             reads the next window as a read of `ra_pages` would.
//! Differs:    Whole large folios are not mapped at once. The counter of misses assumes that the
//!             file's 16-page blocks are those of the addresses, and that all pages are up to date.
//! Not for:    Pages that are mapped already: they fault no more.
//!
//! ```text
//!        page - max/2         page              start+max*3/4   page + max/2
//!          [                   x                      M              )
//! ```

use super::super::{AddressSpace, Fault, Found, MapAdvice, Window};
use super::{FOLIO_ORDER_MAX, Ondemand};

impl Ondemand {
    /// A fault, its retry after the read included.
    pub(super) fn fault(&mut self, fault: &Fault, pages: &mut dyn AddressSpace) {
        self.fault_around(fault, pages);
        match fault.found {
            Found::Absent => self.fault_absent(fault, pages),
            Found::Present if !fault.write => return,
            Found::Marked | Found::Present => self.fault_cached(fault, pages),
        }
        self.fault_around(fault, pages);
    }

    /// Maps the cached pages around the fault and counts each of them as a hit. Only read faults do
    /// so. Marked folios are left for a separate fault.
    fn fault_around(&mut self, fault: &Fault, pages: &dyn AddressSpace) {
        if fault.write {
            return;
        }
        let block = fault.page / AROUND * AROUND;
        let first = block.max(fault.mapping.first);
        let end = (block + AROUND).min(fault.mapping.end).min(pages.file_pages());
        let mapped = (first..end).filter_map(|page| pages.folio(page)).filter(|it| !it.marked);
        let mapped = u64::try_from(mapped.count()).expect("a block has few pages");
        self.mmap_miss = self.mmap_miss.saturating_sub(mapped);
    }

    /// A page that is cached, but was not mapped with its neighbours.
    fn fault_cached(&mut self, fault: &Fault, pages: &mut dyn AddressSpace) {
        if fault.mapping.advice == MapAdvice::Random || self.ra_pages == 0 {
            return;
        }
        self.mmap_miss = self.mmap_miss.saturating_sub(1);
        let folio = pages.folio(fault.page).expect("a page that was found is cached");
        if folio.marked {
            self.async_ra(fault.page, folio, self.ra_pages, pages);
        }
    }

    fn fault_absent(&mut self, fault: &Fault, pages: &mut dyn AddressSpace) {
        let forward = self.version.executable_forward && fault.mapping.executable;
        match fault.mapping.advice {
            MapAdvice::Huge => return self.fault_huge(fault, pages),
            MapAdvice::Random if !forward => return,
            MapAdvice::Normal | MapAdvice::Sequential | MapAdvice::Random => {}
        }
        if self.ra_pages == 0 {
            return;
        }
        if fault.mapping.advice == MapAdvice::Sequential {
            return self.sync_ra(fault.page, self.ra_pages, pages);
        }
        self.mmap_miss = MISS_MAX.min(self.mmap_miss + 1);
        if self.mmap_miss > MISS_LOTS {
            return;
        }
        let size = self.ra_pages;
        self.window = if forward {
            let end = fault.mapping.end.min(fault.page.saturating_add(size));
            Window { start: fault.page, size: end - fault.page, tail: 0 }
        } else {
            Window { start: fault.page.saturating_sub(size / 2), size, tail: size / 4 }
        };
        self.order = if forward { 0 } else { self.version.miss_order };
        self.submit(self.window.start, pages);
    }

    /// Reads the huge page around the fault and the next one, even if readahead is off. The
    /// window's start does not change.
    fn fault_huge(&mut self, fault: &Fault, pages: &mut dyn AddressSpace) {
        let start = fault.page / HUGE * HUGE;
        self.window = Window { start: self.window.start, size: 2 * HUGE, tail: HUGE };
        self.order = FOLIO_ORDER_MAX;
        self.submit(start, pages);
    }
}

/// Pages of the block around a fault that are mapped with it.
const AROUND: u64 = 16;

/// Misses, minus the hits, above which a fault reads only its page.
const MISS_LOTS: u64 = 100;

/// Where the count of misses stops.
const MISS_MAX: u64 = 1000;

/// Pages of a huge page.
const HUGE: u64 = 1 << FOLIO_ORDER_MAX;
