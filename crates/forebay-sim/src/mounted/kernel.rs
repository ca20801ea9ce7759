//! The kernel's end of a mount: the pages it has, its windows, READs in flight, and what waits.
//!
//! ```text
//!             READ                answer
//!   absent ---------> locked --------------> ready <--- STORE, unless it is locked: that waits
//!                       |  refusal, error      ^
//!                       '-----> stale ---------' a READ of this page alone
//! ```
//!
//! Source:     Linux 6.18, fs/fuse/file.c, fs/fuse/dev.c (`fuse_notify_store`), mm/filemap.c.
//! Behaviour:  a window is a READ that locks its pages. A refused window leaves pages that are not
//!             up to date, each of which is read singly when it is touched.
//! Differs:    pages are never reclaimed; a store takes no time between its pages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use forebay_core::packed::{Ahead, Pages};
use forebay_core::readahead::{
    Access, AddressSpace, Fault, Folio, Found, Mapping, Readahead, Spec,
};
use forebay_core::serving::FilePages;
use forebay_core::units::{PAGE_SIZE, PageIndex};

use super::{PackedImage, has_windows};

/// The kernel's end.
#[derive(Debug)]
pub(super) struct Kernel {
    /// The kernel's readahead; none if only the mount reads ahead.
    windows: Option<Spec>,
    files: BTreeMap<u64, CachedFile>,
    /// READs that were sent and not answered.
    reads: BTreeMap<u32, SentRead>,
    /// Of these, the ones that no thread has taken.
    queue: VecDeque<u32>,
    sent: u32,
    /// Threads that wait for a page.
    waiters: BTreeMap<(u64, PageIndex), Vec<usize>>,
    /// Threads whose page could not be read.
    failed: BTreeSet<usize>,
    /// Woken threads.
    woken: Vec<usize>,
    is_unmounted: bool,
}

/// A READ request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentRead {
    pub(super) task: u32,
    pub(super) of: FilePages,
    /// Its page was touched, and no other one.
    is_alone: bool,
}

/// The result of a touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touched {
    /// All pages are cached.
    Ready,
    /// The page at this place is waited for.
    Waits(PageIndex),
    /// A page cannot be read.
    Failed,
}

/// The result of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// The kernel has taken all pages.
    Whole,
    /// It waits for a READ of the page at this place.
    Waits(PageIndex),
    /// There is no mount any more.
    Over,
}

#[derive(Debug)]
struct CachedFile {
    space: Space,
    is_program: bool,
    /// The readahead of each task's description.
    policies: BTreeMap<u32, Box<dyn Readahead>>,
}

/// The pages of a file.
#[derive(Debug)]
struct Space {
    pages: BTreeMap<PageIndex, CachedPage>,
    file_pages: u64,
    /// Pages that were added and are not sent.
    batch: Vec<PageIndex>,
    /// Runs that were submitted.
    runs: Vec<Pages>,
}

#[derive(Clone, Copy, Debug)]
struct CachedPage {
    state: PageState,
    is_marked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageState {
    /// A READ is in flight.
    Locked,
    /// It could not be read.
    Stale,
    Ready,
}

impl Kernel {
    pub(super) fn new(ahead: Ahead) -> Self {
        let windows = || Spec::parse("linux-6.18:max=32").expect("the table has it");
        Self {
            windows: has_windows(ahead).then(windows),
            files: BTreeMap::new(),
            reads: BTreeMap::new(),
            queue: VecDeque::new(),
            sent: 0,
            waiters: BTreeMap::new(),
            failed: BTreeSet::new(),
            woken: Vec::new(),
            is_unmounted: false,
        }
    }

    /// The next request, which a thread takes.
    pub(super) fn take(&mut self) -> Option<u32> {
        self.queue.pop_front()
    }

    /// Whether a request waits to be taken.
    pub(super) fn has_requests(&self) -> bool {
        !self.queue.is_empty()
    }

    /// A READ that is not answered; none after an unmount.
    pub(super) fn read(&self, number: u32) -> Option<SentRead> {
        self.reads.get(&number).copied()
    }

    /// READs that were sent so far.
    pub(super) fn sent(&self) -> u64 {
        u64::from(self.sent)
    }

    /// Threads woken since the last call.
    pub(super) fn take_woken(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.woken)
    }

    /// A thread of a task touches pages, from the first one that it has not had.
    pub(super) fn touch(
        &mut self,
        image: &dyn PackedImage,
        thread: usize,
        task: u32,
        of: &FilePages,
        at: PageIndex,
    ) -> Touched {
        if self.is_unmounted || self.failed.remove(&thread) {
            return Touched::Failed;
        }
        let file = of.file;
        self.files.entry(file).or_insert_with(|| CachedFile::new(image, file));
        for page in at..of.pages.end {
            let (is_first, rest) = (page == of.pages.start, Pages::new(page, of.pages.end));
            self.ask(task, file, rest, is_first, Found::Marked);
            if !self.is_ready(file, page) {
                self.bring(task, file, rest, is_first);
                self.waiters.entry((file, page)).or_default().push(thread);
                return Touched::Waits(page);
            }
        }
        if let Some(policy) = self.files.get_mut(&file).and_then(|it| it.policies.get_mut(&task)) {
            policy.on_read_end(of.pages.end * PAGE_SIZE);
        }
        Touched::Ready
    }

    /// Whether no page of a touch has to be waited for.
    pub(super) fn has(&self, of: &FilePages) -> bool {
        (of.pages.start..of.pages.end).all(|page| self.is_ready(of.file, page))
    }

    /// A READ is answered.
    pub(super) fn answer(&mut self, number: u32) {
        self.end(number, PageState::Ready);
    }

    /// A READ is refused.
    pub(super) fn refuse(&mut self, number: u32) {
        let read = self.reads.get(&number);
        assert!(read.is_none_or(|read| read.of.pages.len() > 1), "a single page is not refused");
        self.end(number, PageState::Stale);
    }

    /// A READ is answered with an error.
    pub(super) fn fail(&mut self, number: u32) {
        if let Some(SentRead { of, is_alone: true, .. }) = self.reads.get(&number) {
            let waiters = self.waiters.get(&(of.file, of.pages.start));
            self.failed.extend(waiters.into_iter().flatten());
        }
        self.end(number, PageState::Stale);
    }

    /// A thread stores pages, from the first one that the kernel has not taken.
    pub(super) fn store(
        &mut self,
        image: &dyn PackedImage,
        thread: usize,
        of: &FilePages,
        at: PageIndex,
    ) -> Stored {
        if self.is_unmounted {
            return Stored::Over;
        }
        let file = self.files.entry(of.file);
        let file = file.or_insert_with(|| CachedFile::new(image, of.file));
        for page in at..of.pages.end {
            let ready = CachedPage { state: PageState::Ready, is_marked: false };
            let cached = file.space.pages.entry(page).or_insert(ready);
            if cached.state == PageState::Locked {
                self.waiters.entry((of.file, page)).or_default().push(thread);
                return Stored::Waits(page);
            }
            cached.state = PageState::Ready;
        }
        Stored::Whole
    }

    /// The file system is unmounted: requests are dropped, and all waiters continue.
    pub(super) fn unmount(&mut self) {
        self.is_unmounted = true;
        self.queue.clear();
        self.reads.clear();
        let waiters = std::mem::take(&mut self.waiters);
        self.woken.extend(waiters.into_values().flatten());
    }

    /// Asserts that each page that is locked has a READ.
    pub(super) fn check(&self) {
        if self.is_unmounted {
            return;
        }
        let of_reads: u64 = self.reads.values().map(|read| read.of.pages.len()).sum();
        let is_locked = |page: &&CachedPage| page.state == PageState::Locked;
        let pages = self.files.values().flat_map(|file| file.space.pages.values());
        let locked = pages.filter(is_locked).count() as u64;
        assert_eq!(locked, of_reads, "each page that is locked is of one READ");
    }

    fn is_ready(&self, file: u64, page: PageIndex) -> bool {
        let cached = self.files.get(&file).and_then(|file| file.space.pages.get(&page));
        cached.is_some_and(|page| page.state == PageState::Ready)
    }

    /// Sees to it that a page that is not there is read.
    fn bring(&mut self, task: u32, file: u64, rest: Pages, is_first: bool) {
        self.ask(task, file, rest, is_first, Found::Absent);
        let space = &mut self.files.get_mut(&file).expect("it was made by the touch").space;
        let page = rest.start;
        let state = space.pages.get(&page).map(|page| page.state);
        if matches!(state, Some(PageState::Locked | PageState::Ready)) {
            return;
        }
        // Without windows the request is as long as the touch; a failed page is read singly.
        let mut end = page + 1;
        if self.windows.is_none() && state.is_none() {
            end = (page..rest.end).find(|page| space.pages.contains_key(page)).unwrap_or(rest.end);
        }
        for page in page..end {
            let locked = CachedPage { state: PageState::Locked, is_marked: false };
            space.pages.insert(page, locked);
        }
        self.send(task, FilePages { file, pages: Pages::new(page, end) }, end == page + 1);
    }

    /// Asks the kernel's readahead about a page, if it is found so.
    fn ask(&mut self, task: u32, file: u64, rest: Pages, is_first: bool, found: Found) {
        let Some(spec) = &self.windows else { return };
        let open = self.files.get_mut(&file).expect("it was made by the touch");
        let page = rest.start;
        let is_so = match open.space.pages.get(&page) {
            None => found == Found::Absent,
            Some(cached) => cached.is_marked && found == Found::Marked,
        };
        if !is_so {
            return;
        }
        let policy = open.policies.entry(task).or_insert_with(|| spec.build());
        if open.is_program {
            let fault = Fault { page, write: false, mapping: Mapping::WHOLE, found };
            policy.on_fault(&fault, &mut open.space);
        } else {
            let access = Access { page, remaining: rest.len(), first: is_first, found };
            policy.on_read(&access, &mut open.space);
        }
        open.space.submit();
        let runs = std::mem::take(&mut open.space.runs);
        for pages in runs {
            self.send(task, FilePages { file, pages }, false);
        }
    }

    fn send(&mut self, task: u32, of: FilePages, is_alone: bool) {
        let number = self.sent;
        self.sent += 1;
        self.reads.insert(number, SentRead { task, of, is_alone });
        self.queue.push_back(number);
    }

    fn end(&mut self, number: u32, state: PageState) {
        let Some(SentRead { of, .. }) = self.reads.remove(&number) else { return };
        let space = &mut self.files.get_mut(&of.file).expect("it was read").space;
        for page in of.pages.start..of.pages.end {
            let cached = space.pages.get_mut(&page).expect("a READ locks its pages");
            assert_eq!(cached.state, PageState::Locked, "a READ locks its pages");
            cached.state = state;
            self.woken.extend(self.waiters.remove(&(of.file, page)).into_iter().flatten());
        }
    }
}

impl CachedFile {
    fn new(image: &dyn PackedImage, file: u64) -> Self {
        let bytes = image.file_bytes(file).unwrap_or(0);
        let space = Space {
            pages: BTreeMap::new(),
            file_pages: bytes.div_ceil(PAGE_SIZE),
            batch: Vec::new(),
            runs: Vec::new(),
        };
        let is_program = image.program(file).is_some();
        Self { space, is_program, policies: BTreeMap::new() }
    }
}

impl AddressSpace for Space {
    fn file_pages(&self) -> u64 {
        self.file_pages
    }

    fn folio(&self, page: PageIndex) -> Option<Folio> {
        let cached = self.pages.get(&page)?;
        Some(Folio { first: page, order: 0, marked: cached.is_marked })
    }

    fn add(&mut self, first: PageIndex, _order: u8, marked: bool) -> bool {
        let page = CachedPage { state: PageState::Locked, is_marked: marked };
        self.pages.insert(first, page);
        self.batch.push(first);
        true
    }

    fn submit(&mut self) {
        for page in self.batch.drain(..) {
            match self.runs.last_mut() {
                Some(run) if run.end == page && run.len() < READ_PAGES_MAX => run.end += 1,
                _ => self.runs.push(Pages::new(page, page + 1)),
            }
        }
    }

    fn clear_marker(&mut self, page: PageIndex) {
        if let Some(page) = self.pages.get_mut(&page) {
            page.is_marked = false;
        }
    }

    fn congested(&self) -> bool {
        false
    }

    fn available_pages(&self) -> u64 {
        1 << 20
    }
}

/// Pages of a READ at most (`FUSE_DEFAULT_MAX_PAGES_LIMIT`).
const READ_PAGES_MAX: u64 = 256;
