//! A script performed by a policy on a page cache without time or limits.

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::readahead::{
    Access, AddressSpace, Fault, Folio, Found, Mapping, Pattern, Readahead, Spec, Window,
};
use forebay_core::units::{PAGE_SIZE, PageIndex, pages_touched};
use forebay_sim::plan::{Advice, Outcome, Step};

use super::seen::{Details, Windows};

/// What each step makes resident.
pub(super) fn run(spec: &Spec, file_bytes: u64, script: &[Step]) -> Vec<Outcome> {
    let mut model = Model::new(spec, file_bytes);
    script.iter().map(|&step| model.perform(step).0).collect()
}

/// What each step does inside.
pub(super) fn watch(spec: &Spec, file_bytes: u64, script: &[Step]) -> Vec<Details> {
    let mut model = Model::new(spec, file_bytes);
    script.iter().map(|&step| model.perform(step).1).collect()
}

struct Model<'a> {
    spec: &'a Spec,
    file_bytes: u64,
    pages: Pages,
    reading: Box<dyn Readahead>,
    mapping: Box<dyn Readahead>,
    /// The pages that were touched and fault no more, not even if they carry a marker.
    mapped: BTreeSet<PageIndex>,
    windows: Windows,
    /// The windows of the step so far.
    step_windows: Vec<Window>,
}

impl<'a> Model<'a> {
    fn new(spec: &'a Spec, file_bytes: u64) -> Self {
        Self {
            spec,
            file_bytes,
            pages: Pages { file_pages: file_bytes.div_ceil(PAGE_SIZE), ..Pages::default() },
            reading: spec.build(),
            mapping: spec.build(),
            mapped: BTreeSet::new(),
            windows: Windows::default(),
            step_windows: Vec::new(),
        }
    }

    fn perform(&mut self, step: Step) -> (Outcome, Details) {
        self.windows.begin(step);
        match step {
            Step::Read { offset, len } => self.read(step, offset, len),
            Step::Touch { page } => self.touch(step, page),
            Step::Advise(advice) => self.advise(advice),
            Step::Open => self.reading = self.spec.build(),
            Step::Drop => {
                self.pages.folios.clear();
                self.mapping = self.spec.build();
                self.mapped.clear();
            }
        }
        let added = std::mem::take(&mut self.pages.added);
        let mut new: Vec<PageIndex> =
            added.iter().flat_map(|&(first, order)| first..first + (1 << order)).collect();
        new.sort_unstable();
        let resident = self.pages.folios.values().map(|folio| folio.pages()).sum();
        let windows = std::mem::take(&mut self.step_windows);
        (Outcome::new(new, resident), Details { added, windows })
    }

    fn read(&mut self, step: Step, offset: u64, len: u64) {
        let (start, count) = pages_touched(offset, len);
        let end = start + count;
        for page in start..end.min(self.pages.file_pages) {
            let access =
                |found| Access { page, remaining: end - page, first: page == start, found };
            if self.pages.found(page) == Found::Absent {
                self.reading.on_read(&access(Found::Absent), &mut self.pages);
                self.note(step);
                self.pages.read_alone(page);
            }
            if self.pages.found(page) == Found::Marked {
                self.reading.on_read(&access(Found::Marked), &mut self.pages);
                self.note(step);
            }
        }
        // A read that copies nothing leaves the position of the last one.
        if len > 0 && offset < self.file_bytes {
            self.reading.on_read_end(self.file_bytes.min(offset + len));
        }
    }

    fn touch(&mut self, step: Step, page: PageIndex) {
        if !self.mapped.insert(page) {
            return;
        }
        let found = self.pages.found(page);
        let fault = Fault { page, write: false, mapping: Mapping::WHOLE, found };
        self.mapping.on_fault(&fault, &mut self.pages);
        self.note(step);
        self.pages.read_alone(page);
    }

    fn advise(&mut self, advice: Advice) {
        match advice {
            Advice::Normal => self.reading.on_pattern(Pattern::Normal),
            Advice::Random => self.reading.on_pattern(Pattern::Random),
            Advice::Sequential => self.reading.on_pattern(Pattern::Sequential),
            Advice::WillNeed => {
                let all = self.pages.file_pages;
                self.reading.on_will_need(0, all, &mut self.pages);
            }
            Advice::DontNeed => self.pages.folios.clear(),
            Advice::NoReuse => {}
        }
    }

    fn note(&mut self, step: Step) {
        let policy = if matches!(step, Step::Touch { .. }) { &self.mapping } else { &self.reading };
        if let Some(window) = policy.window()
            && self.windows.is_news(step, window)
        {
            self.step_windows.push(window);
        }
    }
}

/// The file's pages.
#[derive(Debug, Default)]
struct Pages {
    folios: BTreeMap<PageIndex, Folio>,
    file_pages: u64,
    /// What the step added so far.
    added: Vec<(PageIndex, u8)>,
}

impl Pages {
    fn found(&self, page: PageIndex) -> Found {
        match self.folio(page) {
            None => Found::Absent,
            Some(folio) if folio.marked => Found::Marked,
            Some(_) => Found::Present,
        }
    }

    fn read_alone(&mut self, page: PageIndex) {
        if !self.contains(page) {
            self.add(page, 0, false);
        }
    }
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
        assert_eq!(first % folio.pages(), 0, "a folio is aligned to its size");
        assert!(first + folio.pages() <= self.file_pages, "no page is past the end of the file");
        self.folios.insert(first, folio);
        self.added.push((first, order));
        true
    }

    fn submit(&mut self) {}

    fn clear_marker(&mut self, page: PageIndex) {
        let first = self.folio(page).expect("only a present folio has a marker").first;
        self.folios.get_mut(&first).expect("the folio was just found").marked = false;
    }

    fn congested(&self) -> bool {
        false
    }

    fn available_pages(&self) -> u64 {
        u64::MAX
    }
}
