//! A page cache without time or limits, for the policies' vectors.
//!
//! It logs which pages became resident: `+[a,b)` is a submitted run of single pages, `+[a,b)o2` one
//! of folios of order 2, `S p` a page read singly.

use std::boxed::Box;
use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::vec::Vec;

use super::{
    Access, AddressSpace, Fault, Folio, Found, MapAdvice, Mapping, Pattern, Readahead, Settings,
    Spec,
};
use crate::units::{PAGE_SIZE, PageIndex, pages_touched};

/// One file of absent pages.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// Folio by first page.
    pub(super) folios: BTreeMap<PageIndex, Folio>,
    pub(super) file_pages: u64,
    pub(super) congested: bool,
    /// Pages that `add` may still take, if memory is short.
    pub(super) memory: Option<u64>,
    /// Added since the last submit.
    batch: Vec<Folio>,
    log: Vec<String>,
}

impl AddressSpace for Pages {
    fn file_pages(&self) -> u64 {
        self.file_pages
    }

    fn folio(&self, page: PageIndex) -> Option<Folio> {
        let (_, folio) = self.folios.range(..=page).next_back()?;
        (page < folio.first + folio.pages()).then_some(*folio)
    }

    fn add(&mut self, first: PageIndex, order: u8, marked: bool) -> bool {
        let folio = Folio { first, order, marked };
        if let Some(memory) = &mut self.memory {
            let Some(left) = memory.checked_sub(folio.pages()) else {
                return false;
            };
            *memory = left;
        }
        self.insert(folio);
        self.batch.push(folio);
        true
    }

    fn submit(&mut self) {
        // Each maximal run of equal folios of the batch is one entry of the log.
        let mut runs: Vec<(PageIndex, PageIndex, u8)> = Vec::new();
        for folio in self.batch.drain(..) {
            match runs.last_mut() {
                Some((_, end, order)) if *end == folio.first && *order == folio.order => {
                    *end += folio.pages();
                }
                _ => runs.push((folio.first, folio.first + folio.pages(), folio.order)),
            }
        }
        for (start, end, order) in runs {
            let suffix = if order == 0 { String::new() } else { format!("o{order}") };
            self.log.push(format!("+[{start},{end}){suffix}"));
        }
    }

    fn clear_marker(&mut self, page: PageIndex) {
        let first = self.folio(page).expect("only a present folio has a marker").first;
        self.folios.get_mut(&first).expect("just found").marked = false;
    }

    fn congested(&self) -> bool {
        self.congested
    }

    fn available_pages(&self) -> u64 {
        self.memory.unwrap_or(1 << 20)
    }
}

impl Pages {
    fn insert(&mut self, folio: Folio) {
        let Folio { first, .. } = folio;
        assert_eq!(first % folio.pages(), 0, "a folio is aligned to its size");
        assert!(first + folio.pages() <= self.file_pages, "no page is past the end of the file");
        assert!((0..folio.pages()).all(|page| !self.contains(first + page)), "pages are absent");
        self.folios.insert(first, folio);
    }
}

/// A policy and the file it reads. A test that looks at a policy's state names the policy's type.
#[derive(Debug)]
pub(super) struct Bench<P: Readahead + ?Sized = dyn Readahead> {
    pub(super) policy: Box<P>,
    pub(super) pages: Pages,
    spec: Option<Spec>,
}

/// A policy that tells its state, one clause for each column of a vector.
pub(super) trait Shown: Readahead {
    fn clauses(&self) -> Vec<String>;
}

impl Bench {
    /// A fresh descriptor of a cold file of a million pages.
    pub(super) fn new(spec: &str) -> Self {
        Self::with_pages(spec, 1_000_000)
    }

    /// A fresh descriptor of a cold file of `file_pages`.
    pub(super) fn with_pages(spec: &str, file_pages: u64) -> Self {
        let spec = Spec::parse(spec).unwrap().with(Settings::default());
        let pages = Pages { file_pages, ..Pages::default() };
        Self { policy: spec.build(), pages, spec: Some(spec) }
    }

    /// A new descriptor of the same file.
    pub(super) fn reopen(&mut self) {
        self.policy = self.spec.as_ref().expect("the bench was made from a spec").build();
    }
}

impl<P: Shown> Bench<P> {
    /// A fresh descriptor of a cold file of `file_pages`, whose state can be looked at.
    pub(super) fn of(policy: P, file_pages: u64) -> Self {
        let pages = Pages { file_pages, ..Pages::default() };
        Self { policy: Box::new(policy), pages, spec: None }
    }

    /// Reads page by page of a vector: first page, pages, submitted pages, clauses of the state.
    pub(super) fn follow(&mut self, steps: &[(PageIndex, u64, &str, &str)]) {
        for &(page, count, submitted, state) in steps {
            assert_eq!(self.read(page, count), submitted, "R({page},{count})");
            self.shows(state);
        }
    }

    /// Asserts some clauses of the state, separated by a comma.
    pub(super) fn shows(&self, expected: &str) {
        let clauses = self.policy.clauses();
        for clause in expected.split(", ").filter(|clause| !clause.is_empty()) {
            assert!(clauses.iter().any(|shown| shown == clause), "{clause}: {clauses:?}");
        }
    }
}

impl<P: Readahead + ?Sized> Bench<P> {
    /// Reads `count` whole pages from `page` on; returns the submitted pages.
    pub(super) fn read(&mut self, page: PageIndex, count: u64) -> String {
        self.read_bytes(page * PAGE_SIZE, count * PAGE_SIZE)
    }

    /// Reads `len` bytes from byte `offset` on; returns the submitted pages.
    pub(super) fn read_bytes(&mut self, offset: u64, len: u64) -> String {
        let (start, count) = pages_touched(offset, len);
        for page in start..(start + count).min(self.pages.file_pages) {
            let access = |found| Access {
                page,
                remaining: start + count - page,
                first: page == start,
                found,
            };
            let found = self.found(page);
            if found == Found::Absent || (found == Found::Present && self.policy.sees_hits()) {
                self.policy.on_read(&access(found), &mut self.pages);
            }
            if !self.pages.contains(page) {
                self.read_alone(page);
            }
            if self.found(page) == Found::Marked {
                self.policy.on_read(&access(Found::Marked), &mut self.pages);
            }
        }
        self.policy.on_read_end((offset + len).min(self.pages.file_pages * PAGE_SIZE));
        self.take_log()
    }

    /// A read fault through a plain mapping of the whole file.
    pub(super) fn fault(&mut self, page: PageIndex) -> String {
        self.fault_in(page, false, Mapping::WHOLE)
    }

    /// A read fault through a mapping with advice.
    pub(super) fn fault_advised(&mut self, page: PageIndex, advice: MapAdvice) -> String {
        self.fault_in(page, false, Mapping { advice, ..Mapping::WHOLE })
    }

    /// Any fault.
    pub(super) fn fault_in(&mut self, page: PageIndex, write: bool, mapping: Mapping) -> String {
        let found = self.found(page);
        self.policy.on_fault(&Fault { page, write, mapping, found }, &mut self.pages);
        if !self.pages.contains(page) {
            self.read_alone(page);
        }
        self.take_log()
    }

    /// Advice about the access pattern.
    pub(super) fn pattern(&mut self, pattern: Pattern) {
        self.policy.on_pattern(pattern);
    }

    /// `POSIX_FADV_WILLNEED`.
    pub(super) fn will_need(&mut self, first: PageIndex, count: u64) -> String {
        self.policy.on_will_need(first, count, &mut self.pages);
        self.take_log()
    }

    /// Puts single pages into the cache without the policy's knowledge.
    pub(super) fn preload(&mut self, range: core::ops::Range<PageIndex>) {
        for first in range {
            self.pages.folios.entry(first).or_insert(Folio { first, order: 0, marked: false });
        }
    }

    /// Takes the folio that holds `page` out of the cache.
    pub(super) fn evict(&mut self, page: PageIndex) {
        let folio = self.pages.folio(page).expect("only a present page is evicted");
        self.pages.folios.remove(&folio.first);
    }

    /// The number of pages in the cache.
    pub(super) fn resident(&self) -> u64 {
        self.pages.folios.values().map(|folio| folio.pages()).sum()
    }

    /// The policy's state as text.
    pub(super) fn state(&self) -> String {
        format!("{:?}", self.policy)
    }

    fn found(&self, page: PageIndex) -> Found {
        match self.pages.folio(page) {
            None => Found::Absent,
            Some(folio) if folio.marked => Found::Marked,
            Some(_) => Found::Present,
        }
    }

    fn read_alone(&mut self, page: PageIndex) {
        self.pages.insert(Folio { first: page, order: 0, marked: false });
        self.pages.log.push(format!("S {page}"));
    }

    fn take_log(&mut self) -> String {
        let log = self.pages.log.join(", ");
        self.pages.log.clear();
        log
    }
}
