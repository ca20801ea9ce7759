//! One run: readers on the paper's board, alone or with other tasks.

use std::ops::Range;

use forebay_core::dispatch;
use forebay_core::io::{Advice, Op};
use forebay_core::readahead;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{HandleId, KIB, PAGE_SIZE};
use forebay_core::workload::{Step, Workload};

use crate::machine::{Machine, MachineError};
use crate::paper::Measured;
use crate::rng::Rng;
use crate::scenario::{NewFile, PolicySet, Scenario};
use crate::workload::company::{Computes, Ended, Rereads};
use crate::world::{Record, Switches, Traits};

/// The order in which a reader reads its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    Random,
    Sequential,
}

/// What else runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    /// Nothing.
    Alone,
    /// This many tasks that only compute.
    Compute(u32),
    /// This many tasks that read cached pages.
    Reread(u32),
}

/// A task that reads pages and computes in between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    pub(super) pattern: Pattern,
    /// Reads of one page, each of a page that is not cached.
    pub(super) reads: u64,
    /// Its compute time after each read.
    pub(super) computes: Duration,
    /// Its data, in addition to the data of every task.
    pub(super) footprint: u64,
    /// Its weight under a scheduler that shares fairly; 1024 is that of the company.
    pub(super) weight: u32,
}

/// Readers of the same kind, their company, and the rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) reader: Reader,
    pub(super) readers: u32,
    pub(super) company: Company,
    pub(super) dispatch: &'static str,
    pub(super) scheduler: &'static str,
    pub(super) cores: u32,
    /// Nothing but the run's length: its times are multiplied by it.
    pub(super) scale: u64,
    /// How long the readers sleep before they begin; their time counts from then on.
    pub(super) rest: Duration,
}

/// Figures of a run: the time until the last reader ends, in ms.
pub(super) const TIME: &str = "time";
/// Per read: processor time of the whole machine in us, voluntary switches of the readers,
/// involuntary ones, requests executed inline.
pub(super) const PER_READ: [(&str, &str); 4] = [
    ("processor per read", "us"),
    ("voluntary switches per read", "count"),
    ("involuntary switches per read", "count"),
    ("inline share", "ratio"),
];

/// Pages that are read; with the company's they fit on the board's flash.
const FILE_PAGES: u64 = 24_000;

/// Pages that a rereading task goes through.
const REREAD_PAGES: u64 = 16;

impl Load {
    /// Runs it on a machine.
    pub(super) fn measure(&self, machine: &Machine, seed: u64) -> Result<Measured, MachineError> {
        let mut machine = machine.clone();
        machine.set("cpu.cores", &self.cores.to_string())?;
        machine.set("kernel.scheduler", self.scheduler)?;
        let known = "an experiment names its policies";
        let policies = PolicySet {
            readahead: readahead::Spec::parse("off").expect(known),
            dispatch: dispatch::Spec::parse(self.dispatch).expect(known),
            ..PolicySet::of(&machine.kernel()).expect("a paper's machine names policies")
        };
        let pages = FILE_PAGES / u64::from(self.readers);
        let company = self.company.tasks();
        let all_pages = FILE_PAGES + u64::from(company) * REREAD_PAGES;
        let file = NewFile::fixed(all_pages * PAGE_SIZE);
        let tasks = self.readers + company;
        let mut scenario = Scenario::new(&machine, &policies, seed, tasks, &[file])?;
        let (ended, rng) = (Ended::default(), Rng::new(seed));
        let mut all: Vec<Box<dyn Workload>> = Vec::new();
        let mut traits = Vec::new();
        for number in 0..self.readers {
            let (handle, rng) = (scenario.open(0), rng.fork("pages", number.into()));
            let first = u64::from(number) * pages;
            let reads = (self.reader.reads / self.scale).max(1);
            let reader = Reader { reads, ..self.reader };
            let begins = Instant::ZERO + self.rest;
            let reader = PageReader::new(reader, handle, first..first + pages, begins, rng);
            all.push(Box::new(ended.measure(reader)));
            let Reader { footprint, weight, .. } = self.reader;
            traits.push(Traits { footprint, weight });
        }
        for number in 0..company {
            all.push(match self.company {
                Company::Reread(_) => Box::new(Rereads {
                    until: ended.clone(),
                    handle: scenario.open(0),
                    first: FILE_PAGES + u64::from(number) * REREAD_PAGES,
                    pages: REREAD_PAGES,
                    at: 0,
                }),
                Company::Alone | Company::Compute(_) => {
                    Box::new(Computes { until: ended.clone(), stretch: Duration::from_millis(1) })
                }
            });
        }
        let mut ignore = |_: &_| {};
        let (outcome, record) = scenario.with_traits(traits).run(all, &mut ignore);
        let time = ended.at().expect("every reader ends").since(Instant::ZERO + self.rest);
        let millis = time.as_nanos() as f64 / 1e6 * self.scale as f64;
        let mut figures = vec![(TIME, millis)];
        figures.extend(self.per_read(&record, outcome.stats.requests_inline));
        let bytes = self.reader.reads * u64::from(self.readers) * PAGE_SIZE;
        Ok(Measured { bytes, outcome, figures, series: Vec::new() })
    }

    fn per_read(&self, record: &Record, inline: u64) -> Vec<(&'static str, f64)> {
        let readers = self.readers as usize;
        let reads = ((self.reader.reads / self.scale).max(1) * readers as u64) as f64;
        let of_readers = &record.tasks[..readers];
        let sum = |count: fn(&Switches) -> u64| {
            of_readers.iter().map(|task| count(&task.switches)).sum::<u64>() as f64 / reads
        };
        let processor = record.cpu_busy.as_nanos() as f64 / 1e3 / reads;
        let values = [
            processor,
            sum(|one| one.voluntary),
            sum(|one| one.involuntary),
            inline as f64 / reads,
        ];
        PER_READ.iter().map(|(name, _)| *name).zip(values).collect()
    }
}

impl Company {
    pub(super) fn is_alone(self) -> bool {
        self == Self::Alone
    }

    fn tasks(self) -> u32 {
        match self {
            Self::Alone => 0,
            Self::Compute(tasks) | Self::Reread(tasks) => tasks,
        }
    }
}

/// Reads pages of a file, each once; then drops them, as an unmount does, and continues.
pub(super) struct PageReader {
    reader: Reader,
    handle: HandleId,
    order: Vec<u64>,
    /// Reads that are still to come, and the place of the next one.
    left: u64,
    place: usize,
    /// It has read and computes before it continues.
    has_read: bool,
    begins: Instant,
}

impl PageReader {
    pub(super) fn new(
        reader: Reader,
        handle: HandleId,
        pages: Range<u64>,
        begins: Instant,
        mut rng: Rng,
    ) -> Self {
        let mut order: Vec<u64> = pages.collect();
        if reader.pattern == Pattern::Random {
            rng.shuffle(&mut order);
        }
        Self { reader, handle, order, left: reader.reads, place: 0, has_read: false, begins }
    }
}

impl Workload for PageReader {
    fn next(&mut self, now: Instant) -> Step {
        if now < self.begins {
            return Step::Sleep(self.begins);
        }
        let computes = self.reader.computes;
        if std::mem::take(&mut self.has_read) && computes > Duration::ZERO {
            return Step::Compute(computes);
        }
        if self.left == 0 {
            return Step::Exit;
        }
        let handle = self.handle;
        let Some(page) = self.order.get(self.place) else {
            self.place = 0;
            let first = self.order.iter().min().copied().unwrap_or(0);
            let (offset, len) = (first * PAGE_SIZE, self.order.len() as u64 * PAGE_SIZE);
            let advice = Advice::DontNeed;
            return Step::Call(Op::Advise { handle, advice, offset, len });
        };
        self.place += 1;
        self.left -= 1;
        self.has_read = true;
        let offset = page * PAGE_SIZE;
        Step::Call(Op::Read { handle, offset, len: PAGE_SIZE })
    }
}

/// Data of a task of the paper's table, in addition to the data of every task.
pub(super) const DATA: u64 = 100 * KIB;
