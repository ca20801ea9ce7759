//! A script performed by the engine, with a policy that is watched from outside.
//!
//! ```text
//!   Player -> Engine -> Recorder -> the policy
//!                          |           |
//!                          |        Recorded -> the engine's pages
//!                          '----> Log <---'
//! ```

use std::sync::{Arc, Mutex};

use forebay_core::readahead::{
    Access, AddressSpace, Fault, Folio, Pattern, Readahead, Spec, Window,
};
use forebay_core::units::PageIndex;
use forebay_sim::plan::{Outcome, Player, Step};

use super::seen::{Details, Windows};

/// The pages that each step makes resident, and the policy's decisions.
pub(super) fn perform(
    spec: &Spec,
    file_bytes: u64,
    script: &[Step],
) -> (Vec<Outcome>, Vec<Details>) {
    let log = Arc::new(Mutex::new(Details::default()));
    let open = || -> Box<dyn Readahead> {
        Box::new(Recorder { policy: spec.build(), log: Arc::clone(&log) })
    };
    let mut player = Player::new(file_bytes, open);
    let mut windows = Windows::default();
    let steps = script.iter().map(|&step| {
        windows.begin(step);
        let outcome = player.step(step);
        let mut details = std::mem::take(&mut *log.lock().expect("one thread has the log"));
        details.windows.retain(|window| windows.is_news(step, *window));
        (outcome, details)
    });
    steps.unzip()
}

/// A policy whose decisions are written down.
#[derive(Debug)]
struct Recorder {
    policy: Box<dyn Readahead>,
    log: Arc<Mutex<Details>>,
}

/// The engine's pages, with a note of each folio that is added.
struct Recorded<'a> {
    pages: &'a mut dyn AddressSpace,
    added: Vec<(PageIndex, u8)>,
}

impl Recorder {
    /// Runs the policy and records the pages that it added, and the page that the engine will read
    /// singly because the policy left it absent.
    fn record(
        &mut self,
        wanted: Option<PageIndex>,
        pages: &mut dyn AddressSpace,
        act: impl FnOnce(&mut dyn Readahead, &mut dyn AddressSpace),
    ) {
        let mut recorded = Recorded { pages, added: Vec::new() };
        act(&mut *self.policy, &mut recorded);
        if let Some(page) = wanted
            && !recorded.contains(page)
        {
            recorded.added.push((page, 0));
        }
        let mut log = self.log.lock().expect("one thread has the log");
        log.added.append(&mut recorded.added);
        log.windows.extend(self.policy.window());
    }
}

impl Readahead for Recorder {
    fn on_read(&mut self, access: &Access, pages: &mut dyn AddressSpace) {
        self.record(Some(access.page), pages, |policy, pages| policy.on_read(access, pages));
    }

    fn on_fault(&mut self, fault: &Fault, pages: &mut dyn AddressSpace) {
        self.record(Some(fault.page), pages, |policy, pages| policy.on_fault(fault, pages));
    }

    fn on_will_need(&mut self, first: PageIndex, count: u64, pages: &mut dyn AddressSpace) {
        let mut recorded = Recorded { pages, added: Vec::new() };
        self.policy.on_will_need(first, count, &mut recorded);
        self.log.lock().expect("one thread has the log").added.append(&mut recorded.added);
    }

    fn on_no_reuse(&mut self, first: PageIndex, count: u64, pages: &mut dyn AddressSpace) {
        let mut recorded = Recorded { pages, added: Vec::new() };
        self.policy.on_no_reuse(first, count, &mut recorded);
        self.log.lock().expect("one thread has the log").added.append(&mut recorded.added);
    }

    fn on_pattern(&mut self, pattern: Pattern) {
        self.policy.on_pattern(pattern);
    }

    fn on_read_end(&mut self, position: u64) {
        self.policy.on_read_end(position);
    }

    fn on_error(&mut self) {
        self.policy.on_error();
    }

    fn sees_hits(&self) -> bool {
        self.policy.sees_hits()
    }

    fn window(&self) -> Option<Window> {
        self.policy.window()
    }
}

impl AddressSpace for Recorded<'_> {
    fn file_pages(&self) -> u64 {
        self.pages.file_pages()
    }

    fn folio(&self, page: PageIndex) -> Option<Folio> {
        self.pages.folio(page)
    }

    fn add(&mut self, first: PageIndex, order: u8, marked: bool) -> bool {
        let added = self.pages.add(first, order, marked);
        if added {
            self.added.push((first, order));
        }
        added
    }

    fn submit(&mut self) {
        self.pages.submit();
    }

    fn clear_marker(&mut self, page: PageIndex) {
        self.pages.clear_marker(page);
    }

    fn congested(&self) -> bool {
        self.pages.congested()
    }

    fn available_pages(&self) -> u64 {
        self.pages.available_pages()
    }

    fn contains(&self, page: PageIndex) -> bool {
        self.pages.contains(page)
    }
}
