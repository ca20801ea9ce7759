//! A trace above the page cache: each stream is a task, each file or device a file.
//!
//! ```text
//!   trace --> Demux: a bounded queue for each stream --> a Workload for each --> SimWorld
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use anyhow::{Result, bail};
use forebay_core::io::Op as Call;
use forebay_core::time::Instant;
use forebay_core::units::{HandleId, PAGE_SIZE};
use forebay_core::workload::{Finished, Step, Workload};
use forebay_report::messages::Complaint;
use forebay_sim::machine::Machine;
use forebay_sim::scenario::{NewFile, Scenario};
use forebay_sim::stats::{Latencies, Summary};
use forebay_sim::tally::RunTotals;
use forebay_trace::{Flags, Layer, Op, Record, SORT_WINDOW};

use super::{ReplayProgress, Survey, kind_of, think_time};
use crate::args::simulate::Simulate;
use crate::args::trace::TraceInput;
use crate::choice;
use crate::progress::Progress;
use crate::results::{Results, Row};
use crate::slots;
use crate::traces::TraceSource;

/// The most streams: each is a task.
const STREAMS_MAX: usize = 1_024;

/// Requests that are read ahead of their turn, because those of other streams stand before them.
const READ_AHEAD_MAX: usize = 1 << 18;

/// Replays above the page cache.
pub(super) fn run(
    arguments: &Simulate,
    machine: &Machine,
    input: &TraceInput,
    survey: &Survey,
    shown: Progress,
) -> Result<Results> {
    let place = |key: &str| format!("machine '{}', {key}", arguments.machine);
    let chosen = slots::sets(&arguments.policies, &machine.kernel(), place)?;
    let name = choice::name(&input.file);
    let streams = streams(survey, &name)?;
    let options = &arguments.trace;
    if options.devices.is_some() || options.depth.is_some() {
        bail!(
            Complaint::new("--devices and --depth are for replays at the block layer")
                .hint("--layer block replays there")
        );
    }
    let is_open = options.open_loop || (!options.closed_loop && survey.layer == Some(Layer::Block));
    let speed_ppm = options.speed.unwrap_or(1_000_000);
    let mut results = Results {
        title: format!("{name} on {}", machine.name()),
        shown: chosen.shown,
        ..Results::default()
    };
    let frames = machine.page_cache_bytes() / PAGE_SIZE;
    let files: Vec<NewFile> =
        survey.volumes.iter().map(|(_, end)| NewFile::fixed((*end).max(PAGE_SIZE))).collect();
    let mut progress = ReplayProgress::new(shown, chosen.runs.len(), survey);
    for filled in &chosen.runs {
        if let Some(why) = filled.policies.contradiction(machine.page_cache_bytes()) {
            bail!(Complaint::new(why).hint("lower the background level or raise the limit"));
        }
        let seed = arguments.seed;
        let scenario = Scenario::new(machine, &filled.policies, seed, streams.len() as u32, &files);
        let mut scenario = scenario.map_err(Complaint::from)?;
        let handles: BTreeMap<(u32, u32), HandleId> =
            survey.pairs.iter().map(|pair| (*pair, scenario.open(pair.1))).collect();
        let demux = Demux::new(TraceSource::open(input)?.sorted(SORT_WINDOW as u64), &streams);
        let demux = Rc::new(RefCell::new(demux));
        let task = |(place, stream): (usize, &u32)| -> Box<dyn Workload> {
            let handles = handles.iter().filter(|((of, _), _)| of == stream);
            Box::new(TraceTask {
                demux: Rc::clone(&demux),
                place,
                handles: handles.map(|((_, object), handle)| (*object, *handle)).collect(),
                is_open,
                speed_ppm,
                before: None,
                upcoming: None,
            })
        };
        let tasks = streams.iter().enumerate().map(task).collect();
        let mut counted = Counted::default();
        let mut count = |finished: &Finished| {
            if counted.add(finished, streams.len()) {
                progress.count();
            }
        };
        let (outcome, record) = scenario.run(tasks, &mut count);
        if let Some(error) = demux.borrow_mut().error.take() {
            return Err(error);
        }
        let labels = filled.labels.clone().map(Some);
        let run = Some(RunTotals::of(&outcome, &record, frames));
        results.rows.push(Row { run, elapsed: outcome.elapsed, ..counted.row(labels) });
    }
    let pace = if is_open { "open loop" } else { "closed loop" };
    results.notes.push(format!(
        "above the page cache, {pace} at speed {}, {} tasks, {} files",
        speed_ppm as f64 / 1e6,
        streams.len(),
        survey.volumes.len()
    ));
    Ok(results)
}

/// The streams of a trace, each of which becomes a task.
fn streams(survey: &Survey, name: &str) -> Result<Vec<u32>> {
    let mut streams: Vec<u32> = survey.pairs.iter().map(|(stream, _)| *stream).collect();
    streams.dedup();
    if streams.len() > STREAMS_MAX {
        let what = format!("{name}: {} processes or threads, at most {STREAMS_MAX}", streams.len());
        bail!(Complaint::new(what).hint("--layer block replays it without tasks"));
    }
    Ok(streams)
}

/// A trace whose streams advance independently of each other.
struct Demux {
    source: TraceSource<'static>,
    streams: BTreeMap<u32, usize>,
    queues: Vec<VecDeque<Record>>,
    read_ahead: usize,
    is_over: bool,
    error: Option<anyhow::Error>,
}

impl Demux {
    fn new(source: TraceSource<'static>, streams: &[u32]) -> Self {
        Self {
            source,
            streams: streams.iter().enumerate().map(|(place, stream)| (*stream, place)).collect(),
            queues: streams.iter().map(|_| VecDeque::new()).collect(),
            read_ahead: 0,
            is_over: false,
            error: None,
        }
    }

    /// The next request of a stream.
    fn next(&mut self, place: usize) -> Option<Record> {
        loop {
            if let Some(record) = self.queues[place].pop_front() {
                self.read_ahead -= 1;
                return Some(record);
            }
            if self.is_over {
                return None;
            }
            if self.read_ahead >= READ_AHEAD_MAX {
                self.error = Some(
                    Complaint::new(format!(
                        "{}: a process is {READ_AHEAD_MAX} requests behind the others",
                        self.source.name
                    ))
                    .hint("--open-loop keeps the recorded times; --only NAME replays one file")
                    .into(),
                );
                self.is_over = true;
                return None;
            }
            match self.source.next() {
                Ok(Some(record)) if kind_of(&record).is_none() => {}
                Ok(Some(record)) => {
                    let place = self.streams[&record.stream];
                    self.queues[place].push_back(record);
                    self.read_ahead += 1;
                }
                Ok(None) => self.is_over = true,
                Err(error) => {
                    self.error = Some(error);
                    self.is_over = true;
                }
            }
        }
    }
}

/// A stream as a task.
struct TraceTask {
    demux: Rc<RefCell<Demux>>,
    place: usize,
    /// The open file of each volume.
    handles: BTreeMap<u32, HandleId>,
    is_open: bool,
    speed_ppm: u64,
    before: Option<Record>,
    /// The next request, whose time has been waited for.
    upcoming: Option<Record>,
}

impl Workload for TraceTask {
    fn next(&mut self, now: Instant) -> Step {
        if let Some(record) = self.upcoming.take() {
            self.before = Some(record);
            return Step::Call(self.call(&record));
        }
        let Some(record) = self.demux.borrow_mut().next(self.place) else { return Step::Exit };
        self.upcoming = Some(record);
        let at = if self.is_open {
            let nanos = u128::from(record.time) * 1_000_000 / u128::from(self.speed_ppm);
            Instant(u64::try_from(nanos).unwrap_or(u64::MAX))
        } else {
            let think = self.before.map(|before| think_time(&before, &record, self.speed_ppm));
            think.map_or(now, |think| now + think)
        };
        Step::Sleep(at)
    }
}

impl TraceTask {
    fn call(&self, record: &Record) -> Call {
        let handle = self.handles[&record.object];
        let Record { offset, len, flags, .. } = *record;
        match record.op {
            Op::Read => Call::Read { handle, offset, len },
            Op::Write => Call::Write { handle, offset, len, durable: flags.has(Flags::DURABLE) },
            Op::Sync
            | Op::DataSync
            | Op::Flush
            | Op::Discard
            | Op::Open
            | Op::Close
            | Op::Truncate => Call::Sync { handle },
        }
    }
}

/// What all calls came to.
#[derive(Default)]
struct Counted {
    reads: Option<Box<Latencies>>,
    writes: Option<Box<Latencies>>,
    syncs: Option<Box<Latencies>>,
    bytes: u64,
    errors: u64,
}

impl Counted {
    /// Returns whether it was a call of the trace.
    fn add(&mut self, finished: &Finished, tasks: usize) -> bool {
        // What makes all safe at the end is no call of the trace.
        if finished.task.index() >= tasks {
            return false;
        }
        let (latencies, moves) = match finished.op {
            Call::Read { .. } => (&mut self.reads, true),
            Call::Write { .. } => (&mut self.writes, true),
            Call::Sync { .. } => (&mut self.syncs, false),
            Call::Truncate { .. }
            | Call::Discard { .. }
            | Call::Direct { .. }
            | Call::Fault { .. }
            | Call::Advise { .. } => return false,
        };
        latencies.get_or_insert_default().record(finished.latency());
        match finished.result {
            Ok(bytes) if moves => self.bytes += bytes,
            Ok(_) => {}
            Err(_) => self.errors += 1,
        }
        true
    }

    fn row(&self, labels: slots::PerSlot<Option<String>>) -> Row {
        let summary = |latencies: &Option<Box<Latencies>>| {
            latencies.as_ref().map_or_else(Summary::default, |latencies| latencies.summary())
        };
        Row {
            labels,
            job: crate::results::ALL.to_owned(),
            bytes: self.bytes,
            errors: self.errors,
            reads: summary(&self.reads),
            writes: summary(&self.writes),
            syncs: summary(&self.syncs),
            ..Row::default()
        }
    }
}
