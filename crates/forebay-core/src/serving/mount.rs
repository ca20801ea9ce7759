//! A mounted image: READ requests of a kernel in, answers and pushes out.
//!
//! ```text
//!   READ --> read ------ refused: the kernel asks for each page by itself
//!             |
//!             +--------- parts of its bytes --> path --> answered --> pushes, reads ahead
//!                        (the world locates                             |
//!                         them in the image)                next_push --+--> parts --> path
//!                                                                                        |
//!                                                           begin_push, the kernel, end_push
//! ```
//!
//! The world that drives it knows where the bytes of a file lie in the image, moves bytes, and
//! talks to a kernel: a real one, or one in virtual time. The world numbers files and tasks.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{
    FilePages, FileStreams, FolderWalks, GivenPages, HEADER_PAGES, PathConfig, ProgramPages,
    Pushes, RawAhead, RawRead, ReadDecision, ReadRequest,
};
use crate::packed::{Ahead, Pages, Plan, RawBytes, Spec};
use crate::time::{Duration, Instant};
use crate::units::PAGE_SIZE;

/// How an image is mounted.
#[derive(Clone, Debug)]
pub struct MountConfig {
    /// The path.
    pub path: PathConfig,
    /// The fill rule.
    pub policy: Spec,
    /// What reads ahead.
    pub ahead: Ahead,
    /// No page comes that was not asked for: files of a folder are not pushed ahead of a walk.
    pub only_asked: bool,
}

/// What is decided about a mounted image; its bytes are the [path's](super::ImagePath).
#[derive(Debug)]
pub struct MountRules {
    policy: Spec,
    ahead: Ahead,
    only_asked: bool,
    files: BTreeMap<u64, OpenFile>,
    /// Counts uses of files.
    uses: u64,
    /// Words of pages that were given, of all files.
    words: usize,
    walks: FolderWalks,
    raw: RawAhead,
    pushes: Pushes,
}

/// What is known of a file.
#[derive(Debug)]
pub struct OpenFile {
    bytes: u64,
    streams: FileStreams,
    given: GivenPages,
    used: u64,
}

/// A READ request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadCall {
    /// The task that waits for it.
    pub task: u32,
    /// The file.
    pub file: u64,
    /// The pages, inside the file; at least one.
    pub pages: Pages,
    /// It goes past the kernel's page cache.
    pub is_direct: bool,
}

/// What is done about a READ request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is answered in full. The plan is made now, or when it has been answered.
    Answer(Option<Plan>),
    /// Its pages are asked for one by one.
    Refuse {
        /// The page that was most likely touched.
        touched: Option<u64>,
        /// Pages whose raw bytes are brought in.
        fetch: Pages,
    },
}

/// What follows an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aftermath {
    /// Pages whose raw bytes are brought in, these alone.
    pub fetch: Pages,
    /// Pages around which the image may be read ahead, if that was not asked before.
    pub window: Pages,
    /// The kernel had been given one of the pages and has dropped it.
    pub is_lost: bool,
    /// Pages that were to be pushed when too many waited.
    pub dropped: u64,
}

impl MountRules {
    /// Nothing is known.
    pub fn new(config: &MountConfig) -> Self {
        Self {
            policy: config.policy.clone(),
            ahead: config.ahead,
            only_asked: config.only_asked,
            files: BTreeMap::new(),
            uses: 0,
            words: 0,
            walks: FolderWalks::new(),
            raw: RawAhead::default(),
            pushes: Pushes::new(),
        }
    }

    /// The bytes of a file that is known.
    pub fn file_bytes(&self, file: u64) -> Option<u64> {
        self.files.get(&file).map(|open| open.bytes)
    }

    /// Learns of a file. Those that were used longest ago are forgotten if there are too many.
    pub fn open_file(&mut self, file: u64, bytes: u64) {
        if self.files.contains_key(&file) {
            return;
        }
        if self.files.len() >= FILES_MAX {
            self.forget_oldest();
        }
        self.uses += 1;
        let (streams, given) = (FileStreams::new(), GivenPages::default());
        self.files.insert(file, OpenFile { bytes, streams, given, used: self.uses });
    }

    /// Forgets a quarter of the files at once, as finding the oldest takes a look at each.
    fn forget_oldest(&mut self) {
        let mut uses: Vec<u64> = self.files.values().map(|open| open.used).collect();
        let last = *uses.select_nth_unstable(FILES_MAX / 4 - 1).1;
        self.files.retain(|_, open| open.used > last);
        self.words = self.files.values().map(|open| open.given.words()).sum();
    }

    /// Whether the first bytes of the file should be seen before a READ is decided.
    pub fn wants_first_bytes(&self, read: &ReadCall) -> bool {
        let begins = read.pages.start == 0 && (2..=HEADER_PAGES).contains(&read.pages.len());
        let is_known = self.files.get(&read.file).is_none_or(|open| open.streams.is_known());
        self.ahead == Ahead::Both && begins && !read.is_direct && !is_known
    }

    /// Whether it is known what kind of file it is.
    pub fn is_known(&self, file: u64) -> bool {
        self.files.get(&file).is_none_or(|open| open.streams.is_known())
    }

    /// The first bytes of a file were seen: those of a program, or not.
    pub fn set_kind(&mut self, file: u64, program: Option<ProgramPages>) {
        if let Some(open) = self.files.get_mut(&file) {
            open.streams.set_kind(program);
        }
    }

    /// Takes a READ of a file that is known. It counts as unanswered until
    /// [`answered`](Self::answered) or [`failed`](Self::failed), unless it is refused. `is_fetched`
    /// says whether the raw bytes of its pages are in memory.
    pub fn read(&mut self, read: &ReadCall, is_fetched: impl FnOnce() -> bool) -> Verdict {
        // What a program reads past the page cache is no window. Where windows are ours, the rule
        // is asked when the caller has gone on.
        if self.ahead == Ahead::Ours || read.is_direct {
            self.pushes.begin_read(pages_of(read));
            return Verdict::Answer(None);
        }
        let ReadDecision { plan, is_answered } = self.decide(read, is_fetched);
        if is_answered {
            self.pushes.begin_read(pages_of(read));
            return Verdict::Answer(Some(plan));
        }
        let Pages { start, end } = read.pages;
        // The kernel's window lies around the page that was touched (`mm/filemap.c`). If a device
        // has to bring it, it begins while the kernel comes back for it.
        let touched = Some(start + FAULT_AROUND).filter(|page| start > 0 && *page < end);
        let mut fetch = Pages::none(start);
        if self.ahead == Ahead::Kernel {
            fetch = plan.fetch;
        } else if start > 0 {
            self.push_loaded(read.file);
        }
        Verdict::Refuse { touched, fetch }
    }

    /// A device has to be waited for before a READ is answered that was planned so. Returns the
    /// pages around which the image may be read ahead meanwhile.
    pub fn missed(&self, plan: Option<Plan>) -> Pages {
        match plan {
            Some(plan) if plan.bulk && self.ahead != Ahead::Kernel => plan.fetch,
            _ => Pages::none(0),
        }
    }

    /// A READ was answered, after it `waited` for the device or not.
    pub fn answered(
        &mut self,
        now: Instant,
        read: &ReadCall,
        plan: Option<Plan>,
        waited: bool,
    ) -> Aftermath {
        self.pushes.end_read(pages_of(read));
        // The kernel keeps no page of a read past its cache.
        let is_lost = !read.is_direct
            && self.give(read.file, |given, room| given.answer(read.pages, now, room));
        // Else the image was read ahead when the device began to be waited for.
        let has_window = !waited || plan.is_none();
        let plan = plan.unwrap_or_else(|| self.decide(read, || false).plan);
        let is_exact = self.ahead == Ahead::Kernel;
        let none = Pages::none(read.pages.end);
        let (mut fetch, mut window) = (none, none);
        if plan.bulk && is_exact && waited && !read.pages.covers(plan.fetch) {
            fetch = plan.fetch;
        } else if plan.bulk && !is_exact && has_window {
            window = plan.fetch;
        }
        let mut dropped = 0;
        // Behind a window that was answered the kernel asks for the next one.
        let has_next = self.ahead == Ahead::Both && read.pages.len() > 1;
        if !(is_exact || read.is_direct || has_next) {
            if self.ahead == Ahead::Both && read.pages.start > 0 {
                dropped += self.push_loaded(read.file);
            }
            for pages in [Pages::new(read.pages.end, plan.now.end), plan.later] {
                dropped += self.push(FilePages { file: read.file, pages });
            }
        }
        Aftermath { fetch, window, is_lost, dropped }
    }

    /// A READ was answered with an error.
    pub fn failed(&mut self, read: &ReadCall) {
        self.pushes.end_read(pages_of(read));
    }

    /// A folder was listed: its files, in the order of their names.
    pub fn list_folder(&mut self, files: &[u64]) {
        self.walks.list(files);
    }

    /// A task asks for the beginning of a file: the file that it will ask for next.
    pub fn next_file(&mut self, read: &ReadCall) -> Option<u64> {
        let is_known = read.pages.start == 0 && !read.is_direct;
        if !is_known || self.only_asked || self.ahead == Ahead::Kernel {
            return None;
        }
        self.walks.begin(read.task, read.file)
    }

    /// Has a small file pushed that is known. Returns the pages for which too many waited.
    pub fn push_small(&mut self, file: u64) -> u64 {
        let pages = self.file_bytes(file).unwrap_or(0).div_ceil(PAGE_SIZE);
        if pages > SMALL {
            return 0;
        }
        self.push(FilePages { file, pages: Pages::new(0, pages) })
    }

    /// Whether pages wait to be pushed.
    pub fn has_pushes(&self) -> bool {
        !self.pushes.is_empty()
    }

    /// The next pages to be pushed.
    pub fn next_push(&mut self) -> Option<FilePages> {
        self.pushes.next_push()
    }

    /// The part of pages that the kernel was not given and no READ asks for, of at most `max`
    /// pages, and how many in front of it a READ asks for.
    pub fn absent(&self, push: &FilePages, max: u64) -> (FilePages, u64) {
        let FilePages { file, pages } = *push;
        let mut forgone = 0;
        let Some(open) = self.files.get(&file) else {
            return (FilePages { file, pages: Pages::none(pages.end) }, 0);
        };
        let end = pages.end.min(open.bytes.div_ceil(PAGE_SIZE));
        let mut at = pages.start.min(end);
        loop {
            let mut run = FilePages { file, pages: open.given.absent(Pages::new(at, end), max) };
            if !run.pages.is_empty() && self.pushes.is_asked(&run) {
                run.pages.end = run.pages.start + 1;
                if self.pushes.is_asked(&run) {
                    forgone += 1;
                    at = run.pages.end;
                    continue;
                }
            }
            return (run, forgone);
        }
    }

    /// A push goes to the kernel, unless a READ asks for one of its pages. Says whether it does.
    pub fn begin_push(&mut self, now: Instant, push: &FilePages) -> bool {
        let begins = self.pushes.begin_push(*push);
        if begins {
            self.give(push.file, |given, room| given.push(push.pages, now, room));
        }
        begins
    }

    /// The kernel has taken a push, or not.
    pub fn end_push(&mut self, push: &FilePages) {
        self.pushes.end_push(*push);
    }

    /// The kernel has forgotten a file. Says whether it had been given pages unasked.
    pub fn forget(&mut self, file: u64) -> bool {
        self.give(file, |given, _| given.clear())
    }

    /// A read of these bytes of the image waited for the device for so long.
    pub fn device_read(&mut self, raw: RawBytes, took: Duration) {
        self.raw.on_device(raw, took);
    }

    /// Raw bytes were needed. Returns those that are read ahead.
    pub fn read_ahead(&mut self, now: Instant, read: &RawRead) -> Option<RawBytes> {
        self.raw.on_read(read, now)
    }

    /// Asserts all invariants.
    pub fn check(&self) {
        let words: usize = self.files.values().map(|open| open.given.words()).sum();
        assert_eq!(words, self.words, "the words of all files are counted");
        assert!(words <= WORDS_MAX && self.files.len() <= FILES_MAX, "what is known has a limit");
    }

    fn decide(&mut self, read: &ReadCall, is_fetched: impl FnOnce() -> bool) -> ReadDecision {
        let Self { files, policy, ahead, uses, .. } = self;
        let Some(open) = files.get_mut(&read.file) else {
            // It was forgotten meanwhile: nothing is known of it.
            let none = Pages::none(read.pages.end);
            let plan = Plan { fetch: none, bulk: false, now: read.pages, later: none };
            return ReadDecision { plan, is_answered: true };
        };
        *uses += 1;
        open.used = *uses;
        let file_pages = open.bytes.div_ceil(PAGE_SIZE);
        let request = ReadRequest { task: read.task, pages: read.pages, file_pages };
        open.streams.on_read(policy, *ahead, &request, is_fetched)
    }

    /// Has pushed what the loader of a program touches, when it is seen to be mapped.
    fn push_loaded(&mut self, file: u64) -> u64 {
        let Some(open) = self.files.get_mut(&file) else { return 0 };
        let loaded = open.streams.take_loaded();
        loaded.into_iter().map(|pages| self.push(FilePages { file, pages })).sum()
    }

    fn push(&mut self, push: FilePages) -> u64 {
        if push.pages.is_empty() || self.pushes.ask(push) { 0 } else { push.pages.len() }
    }

    /// Changes what the kernel was given of a file, with the words that may be added.
    fn give<T: Default>(
        &mut self,
        file: u64,
        change: impl FnOnce(&mut GivenPages, usize) -> T,
    ) -> T {
        let Some(open) = self.files.get_mut(&file) else { return T::default() };
        let before = open.given.words();
        let changed = change(&mut open.given, WORDS_MAX.saturating_sub(self.words));
        self.words = self.words - before + open.given.words();
        changed
    }
}

const fn pages_of(read: &ReadCall) -> FilePages {
    FilePages { file: read.file, pages: read.pages }
}

/// Half of a mount's default window of 128 KiB.
const FAULT_AROUND: u64 = 16;

/// Pages of a file that is brought in as a whole; larger ones have the kernel's readahead.
const SMALL: u64 = 16;

/// Files whose state is kept.
const FILES_MAX: usize = 4096;

/// Words of 64 pages of all files: 16 GiB of pages, in some MiB.
const WORDS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests;
