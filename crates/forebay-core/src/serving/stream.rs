//! The tasks that read one file: what each of their READ requests is, and whether it is answered.
//!
//! A file and a task are one stream, with a fill rule of its own. Tasks that share a descriptor are
//! told apart.
//!
//! ```text
//!   READ      reads ahead       what it is                          decision
//!   1 page    anyone            a demand                            answered
//!   wide      Kernel            a window                            as the fill rule has it
//!   wide      Both              behind the last demand, or at the   answered: a reader's window
//!                               beginning of a file that is read
//!                               elsewhere: around a fault           refused, once
//! ```
//!
//! A refused window comes back as demands of single pages. The kernel's window cannot be set for
//! each file, and a window cannot be answered in part.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use super::ProgramPages;
use crate::packed::{Ahead, Demand, Fill, Pages, Plan, Spec};

/// What is known of a file and of the tasks that read it.
#[derive(Debug, Default)]
pub struct FileStreams {
    streams: Vec<Stream>,
    kind: Kind,
    /// What a loader will touch, until the file is seen to be mapped, and what is code.
    program: ProgramPages,
    /// Counts uses of streams.
    uses: u64,
}

/// A READ request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// The task that waits for it.
    pub task: u32,
    /// The pages; at least one.
    pub pages: Pages,
    /// The pages of the file; a partial last one counts.
    pub file_pages: u64,
}

/// What is done about a READ request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadDecision {
    /// What is fetched, decoded and pushed.
    pub plan: Plan,
    /// It is answered in full; otherwise it is refused, and its pages are demanded one by one.
    pub is_answered: bool,
}

/// How a file is used, by its first bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Unknown,
    /// By `read`.
    Plain,
    /// By mapping it: programs and libraries.
    Program,
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
    is_reader: bool,
    used: u64,
}

impl FileStreams {
    /// Nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// The first bytes were seen: those of a program, or not.
    pub fn set_kind(&mut self, program: Option<ProgramPages>) {
        self.kind = if program.is_some() { Kind::Program } else { Kind::Plain };
        self.program = program.unwrap_or_default();
    }

    /// Whether the first bytes were seen.
    pub fn is_known(&self) -> bool {
        self.kind != Kind::Unknown
    }

    /// The pages that a loader will touch; they are returned once, when the file is seen to be
    /// mapped.
    pub fn take_loaded(&mut self) -> Vec<Pages> {
        mem::take(&mut self.program.loaded)
    }

    /// Decides about a READ request. `is_fetched` says whether the raw bytes of its pages are in
    /// memory; only rules that defer within the kernel's windows ask.
    pub fn on_read(
        &mut self,
        spec: &Spec,
        ahead: Ahead,
        request: &ReadRequest,
        is_fetched: impl FnOnce() -> bool,
    ) -> ReadDecision {
        let ReadRequest { task, pages: read, file_pages } = *request;
        // No request says which page of a window was demanded: the first one, then.
        let first = Pages::new(read.start, read.start.saturating_add(1));
        let pair = Some(pair_of(first)).filter(|page| self.program.has_code(page.start));
        let is_program = self.kind == Kind::Program;
        let stream = self.stream(task, spec);
        let goes_on = stream.learn(read);
        // Nor does it say whether it is a read or a fault.
        let copied = stream.is_reader || !is_program;
        let is_wide = read.len() > 1;
        let is_repeated = is_wide && stream.refused == Some(read.start);
        if ahead == Ahead::Both
            && is_wide
            && !goes_on
            && !is_repeated
            && !(copied && read.start == 0)
        {
            stream.refused = Some(read.start);
            // Around a fault, or behind a jump: the demand will show which page it was.
            let later = Pages::none(first.end);
            let plan = Plan { fetch: read, bulk: true, now: first, later };
            return ReadDecision { plan, is_answered: false };
        }
        let demand = match ahead {
            Ahead::Kernel => {
                let deferred = !is_wide && is_fetched();
                Demand { wanted: first, window: read, file_pages, copied: goes_on, deferred }
            }
            Ahead::Both if is_wide => {
                Demand { wanted: first, window: read, file_pages, copied, deferred: false }
            }
            Ahead::Both | Ahead::Ours => {
                let window = window(read, goes_on, file_pages);
                Demand { wanted: read, window, file_pages, copied, deferred: false }
            }
        };
        let mut plan = stream.fill.on_demand(&demand);
        let reach = plan.now.end.max(plan.later.end);
        if ahead == Ahead::Both && !is_wide && !copied && plan.later.is_empty() {
            plan.later = pair.unwrap_or(plan.later);
        }
        let is_answered = match ahead {
            Ahead::Ours => true,
            Ahead::Kernel => !is_wide || is_repeated || plan.now.covers(read),
            // A reader goes on through its window, which can be larger than the rule's.
            Ahead::Both => {
                is_repeated || reach >= read.end || copied && (goes_on || reach > first.end)
            }
        };
        if is_wide {
            stream.refused = (!is_answered).then_some(read.start);
        }
        // Behind a refused window the stream goes on where it is demanded.
        (stream.demanded, stream.end) =
            if is_answered { (read.end, read.end.max(reach)) } else { (read.start, read.start) };
        ReadDecision { plan, is_answered }
    }

    /// The stream of a task; the one that was used longest ago makes room.
    fn stream(&mut self, task: u32, spec: &Spec) -> &mut Stream {
        self.uses += 1;
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
        stream.used = self.uses;
        stream
    }
}

impl Stream {
    fn new(task: u32, spec: &Spec) -> Self {
        let (fill, refused) = (spec.build(), None);
        Self { task, fill, demanded: 0, end: 0, refused, in_order: 0, is_reader: false, used: 0 }
    }

    /// Whether a READ goes on where the last demand or its offer ended; also learns from it.
    ///
    /// Programs and libraries are read too, by programs that copy them: in order, or with a first
    /// window that is larger than the kernel's for a header.
    fn learn(&mut self, read: Pages) -> bool {
        let goes_on = read.start > 0 && (self.demanded..=self.end).contains(&read.start);
        if read.start == 0 && read.len() > HEADER_PAGES {
            self.is_reader = true;
        } else if goes_on {
            self.in_order = self.in_order.saturating_add(1);
            self.is_reader |= self.in_order >= IN_ORDER;
        } else if read.len() == 1 {
            (self.in_order, self.is_reader) = (0, false);
        }
        goes_on
    }
}

/// The page that shares an aligned pair with one that was touched in a mapping. In a recorded start
/// of a program of 80 modules three of four were touched too, and with them 0.43 of the demands
/// were gone; the pages on either side would save a little more, of which more are for nothing.
/// Of constants, which are looked at here and there, three of five were, so only code has pairs.
fn pair_of(page: Pages) -> Pages {
    let other = page.start ^ 1;
    Pages::new(other, other.saturating_add(1))
}

/// The window around a READ where the kernel has none: behind it for a stream, around it
/// otherwise, as the kernel reads around a fault (`mm/filemap.c`).
fn window(read: Pages, is_stream: bool, file_pages: u64) -> Pages {
    let before = if is_stream || read.start == 0 { 0 } else { WINDOW / 2 };
    let start = read.start.saturating_sub(before);
    let end = start.saturating_add(WINDOW).max(read.end).min(file_pages.max(read.end));
    Pages::new(start, end)
}

/// Pages that the kernel reads when a page or less is asked for at a file's beginning, as loaders
/// do (`get_init_ra_size` in `mm/readahead.c`).
pub const HEADER_PAGES: u64 = 4;

/// Demands in order that are no accident.
const IN_ORDER: u32 = 4;

/// Pages: the kernel's own default, 128 KiB.
const WINDOW: u64 = 32;

/// Tasks that read one file and are told apart.
const STREAMS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::String;

    use super::*;
    use crate::testing::{Random, specs};

    /// A file of 1000 pages under a rule, asked by hand.
    struct Bench {
        streams: FileStreams,
        spec: Spec,
        ahead: Ahead,
    }

    impl Bench {
        fn new(rule: &str) -> Self {
            let spec = Spec::parse(rule).unwrap();
            let ahead = spec.build().ahead();
            Self { streams: FileStreams::new(), spec, ahead }
        }

        /// What is done about pages from `start` to `end`, as a short text.
        fn read(&mut self, start: u64, end: u64) -> String {
            self.read_by(1, start, end)
        }

        fn read_by(&mut self, task: u32, start: u64, end: u64) -> String {
            let request = ReadRequest { task, pages: Pages::new(start, end), file_pages: 1000 };
            let found = self.streams.on_read(&self.spec, self.ahead, &request, || true);
            let Plan { now, later, .. } = found.plan;
            let mut text = String::from(if found.is_answered { "answer" } else { "refuse" });
            if now.end > end {
                text += &format!(" ..{}", now.end);
            }
            if !later.is_empty() && found.is_answered {
                text += &format!(" +[{},{})", later.start, later.end);
            }
            text
        }
    }

    fn library() -> ProgramPages {
        ProgramPages { loaded: Vec::from([Pages::new(0, 10)]), code: [Pages::new(10, 500)].into() }
    }

    #[test]
    fn a_reader_of_a_plain_file_has_its_windows_answered() {
        let mut bench = Bench::new("selective-then-idle");
        bench.streams.set_kind(None);
        let rows = [((0, 4), "answer +[1,4)"), ((4, 12), "answer ..12"), ((12, 44), "answer")];
        for ((start, end), said) in rows {
            let found = bench.read(start, end);
            assert!(found.starts_with("answer"), "[{start},{end}): {found}, like {said}");
        }
    }

    #[test]
    fn a_window_around_a_fault_is_refused_once_and_its_demand_answered() {
        let mut bench = Bench::new("selective-then-idle");
        bench.streams.set_kind(Some(library()));
        assert_eq!(bench.read(84, 116), "refuse");
        assert_eq!(bench.read(100, 101), "answer +[101,103)");
        assert_eq!(bench.read(484, 516), "refuse");
        assert!(bench.read(484, 516).starts_with("answer"), "what comes again is answered");
    }

    #[test]
    fn code_has_pairs_and_other_pages_have_none() {
        let mut bench = Bench::new("selective-then-idle:first=0");
        bench.streams.set_kind(Some(library()));
        assert_eq!(bench.read(100, 101), "answer +[101,102)");
        assert_eq!(bench.read(301, 302), "answer +[300,301)");
        assert_eq!(bench.read(700, 701), "answer");
    }

    #[test]
    fn tasks_are_streams_of_their_own() {
        let mut bench = Bench::new("selective-then-idle");
        bench.streams.set_kind(None);
        assert!(bench.read_by(1, 0, 4).starts_with("answer"));
        assert!(bench.read_by(2, 500, 532).starts_with("refuse"), "a jump");
        assert!(bench.read_by(1, 4, 12).starts_with("answer"), "goes on");
        for task in 0..100 {
            bench.read_by(task, 0, 4);
        }
        assert_eq!(bench.streams.streams.len(), STREAMS_MAX);
    }

    #[test]
    fn rules_of_papers_answer_or_refuse_the_kernels_windows() {
        let rows = [("eager", "answer"), ("selective", "refuse"), ("off", "answer")];
        for (rule, said) in rows {
            let mut bench = Bench::new(rule);
            let found = bench.read(32, 64);
            assert!(found.starts_with(said), "{rule}: {found}");
            let again = bench.read(32, 64);
            assert!(again.starts_with("answer"), "{rule}: what comes again is answered");
        }
    }

    #[test]
    fn what_a_loader_touches_is_returned_once() {
        let mut streams = FileStreams::new();
        assert!(!streams.is_known() && streams.take_loaded().is_empty());
        streams.set_kind(Some(library()));
        assert!(streams.is_known());
        assert_eq!(streams.take_loaded(), [Pages::new(0, 10)]);
        assert!(streams.take_loaded().is_empty());
    }

    #[test]
    fn any_requests_are_decided_alike_twice_and_demands_are_never_refused() {
        for rule in specs::<dyn Fill>("") {
            let run = |seed| {
                let (mut bench, mut random) = (Bench::new(&rule), Random(seed));
                let mut decisions = Vec::new();
                for _ in 0..500 {
                    let octave = 1 + random.below(63);
                    let start = random.below(1 << octave);
                    let len = if random.below(2) == 0 { 1 } else { 1 + random.below(300) };
                    let pages = Pages::new(start, start.saturating_add(len));
                    let file_pages = random.below(2000);
                    let task = random.below(12) as u32;
                    let request = ReadRequest { task, pages, file_pages };
                    let found = bench.streams.on_read(&bench.spec, bench.ahead, &request, || true);
                    assert!(found.is_answered || pages.len() > 1, "{rule}: {request:?}");
                    decisions.push(found);
                }
                decisions
            };
            assert_eq!(run(3), run(3), "{rule}");
        }
    }
}
