//! Above the page cache: each stream is a task, each file or device a file.
//!
//! ```text
//!   trace --> Demux: a bounded queue for each stream --> a Workload for each --> SimWorld
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use forebay_core::io::{Op as Call, RequestKind};
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{DeviceId, HandleId, PAGE_SIZE};
use forebay_core::workload::{Finished, Step, Workload};
use forebay_sim::machine::Machine;
use forebay_sim::replay::{VolumeOutcome, VolumeRequest, VolumeTotals};
use forebay_sim::scenario::{NewFile, PolicySet, Scenario};
use forebay_sim::span::Span;
use forebay_sim::stats::Summary;
use forebay_sim::tally::RunTotals;
use forebay_sim::world::Pauses;
use forebay_trace::{Flags, Op, Record};

use crate::below::{kind_of, sectors};
use crate::error::ReplayError;
use crate::survey::{Survey, Volume};

/// A trace and the machine that replays it above the page cache.
pub struct CachedReplay<'a> {
    /// What is known of the trace.
    pub survey: &'a Survey,
    /// The machine, and others whose devices volumes lie on in turn.
    pub machines: &'a [&'a Machine],
    /// The device of each volume.
    pub spread: &'a [u32],
    /// A policy for each slot.
    pub policies: &'a PolicySet,
    /// Names the run.
    pub seed: u64,
    /// Whether calls are issued at the times of the trace, or each after the previous one of its
    /// stream and the recorded pause.
    pub is_open: bool,
    /// Times and pauses are divided by it: 1,000,000 for the speed of the trace.
    pub speed_ppm: u64,
}

/// What a replay came to.
#[derive(Clone, Debug)]
pub struct CachedOutcome {
    /// Each file or device, by number.
    pub volumes: Vec<VolumeOutcome>,
    /// All of them together.
    pub all: VolumeOutcome,
    /// What belongs to no volume.
    pub run: RunTotals,
    /// How streams were paused after writes.
    pub pauses: StreamPauses,
    /// How many streams there were.
    pub streams: usize,
}

/// The pauses of all streams.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamPauses {
    /// How many and how long.
    pub sum: Pauses,
    /// Their lengths.
    pub lengths: Summary,
    /// The time of the streams from first call to last answer, summed.
    pub alive: Duration,
}

/// The most streams: each is a task.
pub const STREAMS_MAX: usize = 1_024;

/// Requests that are read ahead of their turn, because those of other streams stand before them.
const READ_AHEAD_MAX: usize = 1 << 18;

impl CachedReplay<'_> {
    /// Replays the requests that `next` gives, which are those of the survey in the order of their
    /// times; `name` is what errors call them.
    ///
    /// # Errors
    /// The trace has too many streams, one of which may be too far behind the others; its volumes
    /// do not fit on their devices; or an error of `next`.
    pub fn run<E: From<ReplayError>>(
        &self,
        name: &str,
        next: &mut dyn FnMut() -> Result<Option<Record>, E>,
    ) -> Result<CachedOutcome, E> {
        let Self { survey, machines, policies, seed, .. } = *self;
        let mut streams: Vec<u32> = survey.pairs.iter().map(|(stream, _)| *stream).collect();
        streams.dedup();
        if streams.len() > STREAMS_MAX {
            let (name, streams, most) = (name.to_owned(), streams.len(), STREAMS_MAX);
            return Err(ReplayError::Streams { name, streams, most }.into());
        }
        let files = self.files();
        let scenario =
            Scenario::with_devices(machines, policies, seed, streams.len() as u32, &files);
        let mut scenario = scenario.map_err(ReplayError::from)?;
        let places: Vec<_> = (0..files.len() as u32).map(|file| scenario.place(file)).collect();
        let open = |pair: &(u32, u32)| (*pair, scenario.open(pair.1));
        let handles: BTreeMap<(u32, u32), HandleId> = survey.pairs.iter().map(open).collect();
        let demux = RefCell::new(Demux::new(name, next, &streams));
        let task = |(place, stream): (usize, &u32)| -> Box<dyn Workload + '_> {
            let handles = handles.iter().filter(|((of, _), _)| of == stream);
            let place_of = |object: u32| places[object as usize];
            Box::new(TraceTask {
                demux: &demux,
                place,
                files: handles
                    .map(|((_, object), handle)| (*object, (*handle, place_of(*object))))
                    .collect(),
                is_open: self.is_open,
                speed_ppm: self.speed_ppm,
                before: None,
                upcoming: None,
                discard: None,
            })
        };
        let tasks = streams.iter().enumerate().map(task).collect();
        let volume_of = handles.iter().map(|((_, object), handle)| (*handle, *object)).collect();
        let mut counted = Counted::new(files.len(), volume_of, streams.len());
        let mut count = |finished: &Finished| counted.add(finished);
        let (outcome, record) = scenario.run(tasks, &mut count);
        if let Some(error) = demux.borrow_mut().error.take() {
            return Err(error);
        }
        if outcome.is_cut() {
            return Err(ReplayError::PastClock { name: name.to_owned() }.into());
        }
        let frames = machines[0].page_cache_bytes() / PAGE_SIZE;
        let run = RunTotals::of(&outcome, &record, frames);
        let (volumes, all) = counted.outcomes(outcome.elapsed);
        let mut sum = Pauses::default();
        record.pauses.iter().for_each(|of_stream| sum += *of_stream);
        let lengths = record.pause_lengths.summary();
        let pauses = StreamPauses { sum, lengths, alive: counted.alive() };
        Ok(CachedOutcome { volumes, all, run, pauses, streams: streams.len() })
    }

    /// A file for each volume.
    fn files(&self) -> Vec<NewFile> {
        let volumes = self.survey.volumes.iter().zip(self.spread);
        let file = |(volume, device): (&Volume, &u32)| {
            NewFile::fixed(volume.end.max(PAGE_SIZE)).on(*device)
        };
        volumes.map(file).collect()
    }
}

/// A trace whose streams advance independently of each other.
struct Demux<'a, E> {
    name: &'a str,
    next: &'a mut dyn FnMut() -> Result<Option<Record>, E>,
    streams: BTreeMap<u32, usize>,
    queues: Vec<VecDeque<Record>>,
    read_ahead: usize,
    is_over: bool,
    error: Option<E>,
}

impl<'a, E: From<ReplayError>> Demux<'a, E> {
    fn new(
        name: &'a str,
        next: &'a mut dyn FnMut() -> Result<Option<Record>, E>,
        streams: &[u32],
    ) -> Self {
        Self {
            name,
            next,
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
                let name = self.name.to_owned();
                self.fail(ReplayError::Behind { name, most: READ_AHEAD_MAX }.into());
                return None;
            }
            match (self.next)() {
                Ok(Some(record)) if kind_of(&record).is_none() => {}
                Ok(Some(record)) => {
                    let place = self.streams[&record.stream];
                    self.queues[place].push_back(record);
                    self.read_ahead += 1;
                }
                Ok(None) => self.is_over = true,
                Err(error) => self.fail(error),
            }
        }
    }

    /// Ends the run.
    fn fail(&mut self, error: E) {
        self.error = Some(error);
        self.is_over = true;
        self.queues.iter_mut().for_each(VecDeque::clear);
    }
}

/// A stream as a task.
struct TraceTask<'a, 'd, E> {
    demux: &'d RefCell<Demux<'a, E>>,
    place: usize,
    /// The open file of each volume, and where it lies.
    files: BTreeMap<u32, (HandleId, (DeviceId, u64))>,
    is_open: bool,
    speed_ppm: u64,
    before: Option<Record>,
    /// The next request, whose time has been waited for.
    upcoming: Option<Record>,
    /// A discard whose pages have left the cache, and which the device has not seen.
    discard: Option<Record>,
}

impl<E: From<ReplayError>> Workload for TraceTask<'_, '_, E> {
    fn next(&mut self, now: Instant) -> Step {
        if let Some(record) = self.discard.take() {
            return Step::Call(self.at_device(&record));
        }
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

impl<E> TraceTask<'_, '_, E> {
    fn call(&mut self, record: &Record) -> Call {
        let (handle, _) = self.files[&record.object];
        let Record { offset, len, flags, .. } = *record;
        match record.op {
            Op::Read => Call::Read { handle, offset, len },
            Op::Write => Call::Write { handle, offset, len, durable: flags.has(Flags::DURABLE) },
            Op::Discard => {
                self.discard = Some(*record);
                Call::Discard { handle, offset, len }
            }
            Op::Sync | Op::DataSync | Op::Flush | Op::Open | Op::Close | Op::Truncate => {
                Call::Sync { handle }
            }
        }
    }

    /// The second half of a discard.
    fn at_device(&self, record: &Record) -> Call {
        let (_, (device, begin)) = self.files[&record.object];
        let (first, end) = sectors(record);
        let (sector, sectors) = (begin + first, end - first);
        Call::Direct { device, sector, sectors, kind: RequestKind::Discard, is_sync: true }
    }
}

/// The pause of a stream between two records, at a speed.
fn think_time(before: &Record, next: &Record, speed_ppm: u64) -> Duration {
    let ended = before.time.saturating_add(before.took.unwrap_or(0));
    let nanos = u128::from(next.time.saturating_sub(ended)) * 1_000_000 / u128::from(speed_ppm);
    Duration(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// What all calls came to.
struct Counted {
    volumes: Vec<VolumeTotals>,
    volume_of: BTreeMap<HandleId, u32>,
    /// Of each task, the volume of a discard under way, and when it was issued.
    discards: Vec<Option<(u32, Instant)>>,
    /// The calls of each task.
    spans: Vec<Span>,
}

impl Counted {
    fn new(volumes: usize, volume_of: BTreeMap<HandleId, u32>, tasks: usize) -> Self {
        let volumes = (0..volumes).map(|_| VolumeTotals::default()).collect();
        let (discards, spans) = (vec![None; tasks], vec![Span::default(); tasks]);
        Self { volumes, volume_of, discards, spans }
    }

    fn add(&mut self, finished: &Finished) {
        // What makes all safe at the end is no call of the trace.
        let Some(discard) = self.discards.get_mut(finished.task.index()) else { return };
        let Finished { mut issued, done, result, .. } = *finished;
        self.spans[finished.task.index()].extend(issued, done);
        let (volume, request) = match finished.op {
            Call::Read { handle, .. } => (self.volume_of[&handle], VolumeRequest::Read),
            Call::Write { handle, .. } => (self.volume_of[&handle], VolumeRequest::Write),
            Call::Sync { handle } => (self.volume_of[&handle], VolumeRequest::Flush),
            Call::Discard { handle, .. } => {
                *discard = Some((self.volume_of[&handle], issued));
                return;
            }
            Call::Direct { .. } => {
                let begun = discard.take();
                let (volume, at) = begun.expect("the cache drops the pages of a discard first");
                issued = at;
                (volume, VolumeRequest::Discard)
            }
            Call::Truncate { .. } | Call::Fault { .. } | Call::Advise { .. } => {
                unreachable!("no request of a trace is such a call")
            }
        };
        self.volumes[volume as usize].count(request, (issued, done), &result);
    }

    /// The time of the tasks from first call to last answer, summed.
    fn alive(&self) -> Duration {
        self.spans.iter().fold(Duration::ZERO, |sum, span| sum + span.length())
    }

    /// Of each volume, and of all in the time of the run.
    fn outcomes(&self, elapsed: Duration) -> (Vec<VolumeOutcome>, VolumeOutcome) {
        let volumes = self.volumes.iter().map(VolumeTotals::outcome).collect();
        let all = VolumeTotals::sum(&self.volumes).outcome();
        (volumes, VolumeOutcome { elapsed, ..all })
    }
}
