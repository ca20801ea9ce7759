//! What is known of an open file: which pages the kernel was given, and a fill rule for each task
//! that reads it.
//!
//! The kernel is told that opening needs no request, so there is no handle. A READ names the task
//! that waits for it; a file and a task are one stream, with a rule of its own. Tasks that share a
//! descriptor are told apart, which a handle could not do.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay_core::packed::{Demand, Fill, Pages, Plan, Spec};
use forebay_core::units::PAGE_SIZE;
use forebay_image::NodeId;

use super::clock::{Clock, lock};
use super::program::Program;

/// A regular file that is read.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) id: NodeId,
    pub(super) size: u64,
    /// Programs and libraries are mapped, others are read.
    begins_like: AtomicU8,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    streams: Vec<Stream>,
    /// Pages that were answered or pushed.
    given: Words,
    /// What a loader will touch, until somebody maps the file, and what is run.
    program: Program,
    clock: u64,
}

/// Pages, 64 a word, by the number of the word.
#[derive(Debug)]
struct Words {
    words: HashMap<u64, Word>,
    /// The words of all files.
    all: Arc<AtomicUsize>,
}

/// 64 pages of a file.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    /// Those that the kernel was given.
    pages: u64,
    /// When one of them was pushed last.
    pushed: Option<Instant>,
}

#[derive(Debug)]
struct Stream {
    task: u32,
    fill: Box<dyn Fill>,
    /// Where its last demand ended, and what was offered behind it.
    demanded: u64,
    end: u64,
    /// Where the window began that was refused last: one that comes again is answered.
    refused: Option<u64>,
    /// Demands that followed each other in order.
    in_order: u32,
    /// It reads the file, whatever the file is like.
    reads: bool,
    used: u64,
}

/// Who reads ahead of readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    /// The kernel, and the rule answers or refuses its windows: nothing is pushed.
    Kernel,
    /// The kernel for whoever reads. For whoever maps its windows are refused and pages pushed.
    Both,
    /// Nobody but us.
    Ours,
}

/// The files that are read.
#[derive(Debug)]
pub(super) struct Files {
    files: Clock<NodeId, Arc<Open>>,
    /// The words of all files.
    words: Arc<AtomicUsize>,
}

impl Files {
    pub(super) fn new() -> Self {
        Self { files: Clock::new(FILES_MAX, 8), words: Arc::default() }
    }

    /// A file by its node; `size` asks for its size if nobody has, which only files have.
    pub(super) fn open<E>(
        &self,
        id: NodeId,
        size: impl FnOnce() -> Result<Option<u64>, E>,
    ) -> Result<Option<Arc<Open>>, E> {
        if let Some(open) = self.files.get(&id) {
            return Ok(Some(open));
        }
        let Some(size) = size()? else { return Ok(None) };
        let (begins_like, words) = (AtomicU8::new(UNKNOWN), Words::of(&self.words));
        let (streams, program) = (Vec::new(), Program::default());
        let state = Mutex::new(State { streams, given: words, program, clock: 0 });
        let open = Arc::new(Open { id, size, begins_like, state });
        self.files.insert(id, Arc::clone(&open), 1);
        Ok(Some(open))
    }

    /// The kernel has forgotten a node and what it had of it. Says whether it was given pages
    /// unasked.
    pub(super) fn forget(&self, id: NodeId) -> bool {
        self.files.get(&id).is_some_and(|open| open.forget())
    }
}

impl Open {
    /// The pages of the file; a partial last one counts.
    pub(super) fn pages(&self) -> u64 {
        self.size.div_ceil(PAGE_SIZE)
    }

    /// What the rule of a task says to a READ, and whether it is answered in full; otherwise its
    /// pages are to be demanded one by one.
    pub(super) fn plan(
        &self,
        spec: &Spec,
        ahead: Ahead,
        task: u32,
        read: Pages,
        fetched: impl FnOnce() -> bool,
    ) -> (Plan, bool) {
        let mut state = lock(&self.state);
        let file_pages = self.pages();
        // Of a window nobody says which page was demanded: the first one, then.
        let first = Pages::new(read.start, read.start + 1);
        let beside = Some(beside(first)).filter(|page| state.program.runs(page.start));
        let stream = state.stream(task, spec);
        let goes_on = stream.meets(read);
        // Nobody says either whether it is a read or a fault.
        let copied = stream.reads || self.begins_like.load(Relaxed) != MAPPED;
        let wide = read.len() > 1;
        let again = wide && stream.refused == Some(read.start);
        if ahead == Ahead::Both && wide && !goes_on && !again && !(copied && read.start == 0) {
            stream.refused = Some(read.start);
            // It is around a fault, or behind a jump: which page was demanded will be seen.
            let later = Pages::none(first.end);
            return (Plan { fetch: read, bulk: true, now: first, later }, false);
        }
        let demand = match ahead {
            Ahead::Kernel => {
                let deferred = read.len() == 1 && fetched();
                Demand { wanted: first, window: read, file_pages, copied: goes_on, deferred }
            }
            Ahead::Both if wide => {
                Demand { wanted: first, window: read, file_pages, copied, deferred: false }
            }
            Ahead::Both | Ahead::Ours => {
                let window = window(read, goes_on, file_pages);
                Demand { wanted: read, window, file_pages, copied, deferred: false }
            }
        };
        let mut plan = stream.fill.on_demand(&demand);
        let reach = plan.now.end.max(plan.later.end);
        if ahead == Ahead::Both && !wide && !copied && plan.later.is_empty() {
            plan.later = beside.unwrap_or(plan.later);
        }
        let whole = match ahead {
            Ahead::Ours => true,
            Ahead::Kernel => !wide || again || plan.now.covers(read),
            // Whoever reads takes what follows for granted; a window can be larger than the rule's.
            Ahead::Both => again || reach >= read.end || copied && (goes_on || reach > first.end),
        };
        if wide {
            stream.refused = (!whole).then_some(read.start);
        }
        // Behind a refused window the stream goes on where it is demanded.
        (stream.demanded, stream.end) =
            if whole { (read.end, read.end.max(reach)) } else { (read.start, read.start) };
        (plan, whole)
    }

    /// Learns what kind of file it is from its first bytes.
    pub(super) fn begins(&self, bytes: &[u8]) {
        let kind = if bytes.starts_with(ELF) { MAPPED } else { READ };
        self.begins_like.store(kind, Relaxed);
        if kind == MAPPED {
            lock(&self.state).program = Program::of(bytes);
        }
    }

    /// What the loader of a program will touch; asked once, by whoever sees that it is mapped.
    pub(super) fn take_loaded(&self) -> Vec<Pages> {
        if self.begins_like.load(Relaxed) != MAPPED {
            return Vec::new();
        }
        std::mem::take(&mut lock(&self.state).program.loaded)
    }

    /// Whether its first bytes were seen.
    pub(super) fn is_known(&self) -> bool {
        self.begins_like.load(Relaxed) != UNKNOWN
    }

    /// Notes that pages are pushed.
    pub(super) fn push(&self, pages: Pages) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        for page in pages.start..pages.end {
            let word = state.given.word(page / 64);
            word.pages |= 1 << (page % 64);
            word.pushed = Some(now);
        }
    }

    /// Notes that pages are answered. Says whether the kernel was given one of them long ago: then
    /// it has dropped it, and most likely those around it, which are forgotten.
    pub(super) fn answer(&self, pages: Pages) -> bool {
        let mut state = lock(&self.state);
        let mut lost = false;
        for page in pages.start..pages.end {
            let word = state.given.word(page / 64);
            let bit = 1 << (page % 64);
            // One that was pushed a moment ago was asked for a moment before.
            let crossed = word.pushed.is_some_and(|pushed| pushed.elapsed() < CROSSING);
            if word.pages & bit != 0 && !crossed {
                *word = Word::default();
                lost = true;
            }
            word.pages |= bit;
        }
        lost
    }

    /// The kernel has none of the pages any more. Says whether it was given some unasked.
    fn forget(&self) -> bool {
        let mut state = lock(&self.state);
        let pushed = state.given.words.values().any(|word| word.pushed.is_some());
        state.given = Words::of(&state.given.all);
        pushed
    }

    /// The first run of pages that the kernel was not given, of at most `max`.
    pub(super) fn absent(&self, pages: Pages, max: u64) -> Pages {
        let state = lock(&self.state);
        let is_given = |page: &u64| {
            let word = state.given.words.get(&(page / 64));
            word.is_some_and(|word| word.pages & (1 << (page % 64)) != 0)
        };
        let end = pages.end.min(self.pages());
        let Some(start) = (pages.start..end).find(|page| !is_given(page)) else {
            return Pages::none(end);
        };
        let end = (start..end).take_while(|page| !is_given(page)).take(max as usize).last();
        Pages::new(start, end.map_or(start, |last| last + 1))
    }
}

impl Words {
    fn of(all: &Arc<AtomicUsize>) -> Self {
        Self { words: HashMap::new(), all: Arc::clone(all) }
    }

    /// A word to note pages in. If there are too many, this file forgets its own: pages that the
    /// kernel has are pushed once more then, which costs a copy.
    fn word(&mut self, number: u64) -> &mut Word {
        let is_new = !self.words.contains_key(&number);
        if is_new && self.all.fetch_add(1, Relaxed) >= WORDS_MAX {
            self.all.fetch_sub(self.words.len(), Relaxed);
            self.words = HashMap::new();
        }
        self.words.entry(number).or_default()
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        self.all.fetch_sub(self.words.len(), Relaxed);
    }
}

impl State {
    /// The stream of a task; the one that was used longest ago makes room.
    fn stream(&mut self, task: u32, spec: &Spec) -> &mut Stream {
        self.clock += 1;
        let found = self.streams.iter().position(|stream| stream.task == task);
        let place = found.unwrap_or_else(|| {
            if self.streams.len() == STREAMS_MAX {
                let oldest = self.streams.iter().enumerate().min_by_key(|(_, stream)| stream.used);
                let place = oldest.map_or(0, |(place, _)| place);
                self.streams.swap_remove(place);
            }
            self.streams.push(Stream::new(task, spec));
            self.streams.len() - 1
        });
        let stream = &mut self.streams[place];
        stream.used = self.clock;
        stream
    }
}

impl Stream {
    fn new(task: u32, spec: &Spec) -> Self {
        let fill = spec.build();
        let refused = None;
        Self { task, fill, demanded: 0, end: 0, refused, in_order: 0, reads: false, used: 0 }
    }

    /// Whether a READ goes on where the last demand or its offer ended; also learns from it.
    ///
    /// Programs and libraries are read too, by whoever copies them: in order, or with a first
    /// window that is larger than the kernel's for a header.
    fn meets(&mut self, read: Pages) -> bool {
        let goes_on = read.start > 0 && (self.demanded..=self.end).contains(&read.start);
        if read.start == 0 && read.len() > HEADER {
            self.reads = true;
        } else if goes_on {
            self.in_order = self.in_order.saturating_add(1);
            self.reads |= self.in_order >= IN_ORDER;
        } else if read.len() == 1 {
            (self.in_order, self.reads) = (0, false);
        }
        goes_on
    }
}

/// The page that shares an aligned pair with one that was touched in a mapping. In a recorded start
/// of a program of 80 modules three of four were touched too, and with them 0.43 of the demands
/// were gone; the pages on either side would save a little more, of which more are for nothing.
/// Of constants, which are looked at here and there, three of five were, so only code has pairs.
fn beside(page: Pages) -> Pages {
    Pages::new(page.start ^ 1, (page.start ^ 1) + 1)
}

/// The window around a READ where the kernel has none: behind it for a stream, around it
/// otherwise, as the kernel reads around a fault (`mm/filemap.c`).
fn window(read: Pages, stream: bool, file_pages: u64) -> Pages {
    let before = if stream || read.start == 0 { 0 } else { WINDOW / 2 };
    let start = read.start.saturating_sub(before);
    let end = start.saturating_add(WINDOW).max(read.end).min(file_pages.max(read.end));
    Pages::new(start, end)
}

/// Pages that the kernel reads for whoever asks for a page or less at a file's beginning, as what
/// starts programs does (`get_init_ra_size` in `mm/readahead.c`).
pub(super) const HEADER: u64 = 4;

/// Demands in order that are no accident.
const IN_ORDER: u32 = 4;

/// Pages: the kernel's own default, 128 KiB.
const WINDOW: u64 = 32;

const UNKNOWN: u8 = 0;
const READ: u8 = 1;
const MAPPED: u8 = 2;

/// What programs and libraries begin with.
const ELF: &[u8] = b"\x7fELF";

/// A READ that was sent before its page was pushed has been answered by then, on a busy machine
/// too.
const CROSSING: Duration = Duration::from_millis(100);

/// Files whose state is kept.
const FILES_MAX: u64 = 4096;

/// Words of all files: 16 GiB of pages, in 3 MiB.
const WORDS_MAX: usize = 1 << 16;

/// Tasks that read one file and are told apart.
const STREAMS_MAX: usize = 8;
