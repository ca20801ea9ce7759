//! A block trace replayed below the page cache: requests arrive at the block layer of the engine,
//! go through elevator and queue, and are served by modelled devices.
//!
//! ```text
//!   trace --Arrival--> Op::Direct --> engine: merge, elevator, depth --> device --> Reply
//! ```
//!
//! There are no tasks and no processors: a request costs nothing before its device, and dispatch
//! rules, which choose the task that runs in the meantime, have no effect. The replay reads the
//! trace in a stream, in bounded memory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use forebay_core::drive::{World, drive};
use forebay_core::elevator;
use forebay_core::engine::{self, Config, Engine};
use forebay_core::io::{Input, IoError, Op, Output, Request, RequestKind};
use forebay_core::stats::Stats;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{CallId, DeviceId, RequestId};

use crate::device::{Command, Device, DeviceAccess, Outcome as DeviceOutcome};
use crate::machine::Machine;
use crate::scenario;

pub use volume::{VolumeOutcome, VolumeRequest, VolumeTotals};

mod volume;

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it arrived, since the trace began.
    pub at: Instant,
    /// The volume, which is the number of a row of the outcome.
    pub volume: u32,
    /// The first sector, in units of 512 bytes.
    pub sector: u64,
    /// The number of sectors; none for a flush.
    pub sectors: u64,
    /// Its kind: anything but [`RequestKind::Inode`].
    pub kind: RequestKind,
}

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At the times of the trace, divided by a speed in millionths.
    Open {
        /// 1,000,000 for the speed of the trace.
        speed_ppm: u64,
    },
    /// As soon as fewer than `depth` of the same volume are in flight, whatever the times.
    Closed {
        /// At least one.
        depth: u32,
    },
}

/// Where the volumes of a trace lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The device.
    pub device: u32,
    /// The sector of the device that the volume begins at.
    pub sector: u64,
}

/// A trace and the devices that replay it.
pub struct Replay<'a> {
    /// The machines that the devices are of, at least for those that volumes lie on.
    pub devices: &'a [&'a Machine],
    /// In which order each device works.
    pub elevator: &'a elevator::Spec,
    /// Names the run.
    pub seed: u64,
    /// When requests are issued.
    pub pace: Pace,
    /// Where each volume lies, by number.
    pub volumes: &'a [Placement],
}

/// What a replay came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Each volume, by number.
    pub volumes: Vec<VolumeOutcome>,
    /// All volumes together.
    pub all: VolumeOutcome,
    /// How long at least one request was at a device, summed over the devices.
    pub busy: Duration,
    /// What the engine has counted.
    pub stats: Stats,
    /// The most requests in flight at once.
    pub in_flight_max: u32,
    /// Requests that came when as many were in flight as the engine takes, and waited outside.
    pub held_back: u64,
}

impl Replay<'_> {
    /// Replays requests, which come in the order of their times, until there are no more and all
    /// have ended.
    pub fn run(&self, next: &mut dyn FnMut() -> Option<Arrival>) -> Outcome {
        let mut engine = Engine::new(Config { frames: 1, calls_max: engine::CALLS_MAX });
        let dispatch = forebay_core::dispatch::Spec::parse("deferred").expect("the table has it");
        let mut world = ReplayWorld::new(self.pace, self.volumes, next);
        for (number, machine) in (0u64..).zip(self.devices) {
            let device = engine.add_device(scenario::queue(machine));
            engine.set_rules(device, self.elevator, &dispatch);
            let device = machine.device(scenario::device_seed(self.seed, number));
            world.devices.push(Serving::new(device));
        }
        drive(&mut engine, &mut world);
        assert!(engine.is_quiet(), "a replay ends when all requests have ended");
        world.into_outcome(engine.stats())
    }
}

/// A device and when it was in use.
struct Serving {
    device: Box<dyn Device>,
    busy_until: Instant,
    busy: Duration,
}

/// A request of the trace in flight.
#[derive(Clone, Copy)]
struct Issued {
    volume: u32,
    kind: RequestKind,
    bytes: u64,
    at: Instant,
}

#[derive(Default)]
struct VolumeState {
    totals: VolumeTotals,
    /// Requests in flight, and requests that were read ahead of their turn.
    in_flight: u32,
    waiting: VecDeque<Arrival>,
}

struct ReplayWorld<'a> {
    now: Instant,
    pace: Pace,
    placements: &'a [Placement],
    source: &'a mut dyn FnMut() -> Option<Arrival>,
    /// The next request of an open loop, at its time.
    upcoming: Option<Arrival>,
    is_over: bool,
    devices: Vec<Serving>,
    volumes: Vec<VolumeState>,
    /// Requests of a closed loop that were read ahead of their turn, and volumes that may issue.
    read_ahead: usize,
    may_issue: VecDeque<u32>,
    calls: Vec<Option<Issued>>,
    free: Vec<CallId>,
    woken: VecDeque<CallId>,
    events: BinaryHeap<Reverse<(Instant, u64, RequestId, bool)>>,
    sequence: u64,
    in_flight_max: u32,
    held_back: u64,
    is_held_back: bool,
}

/// Requests of a closed loop that are read ahead of their turn, because those of other volumes
/// stand before the next one of a volume.
const READ_AHEAD_MAX: usize = 1 << 16;

impl Serving {
    fn new(device: Box<dyn Device>) -> Self {
        Self { device, busy_until: Instant::ZERO, busy: Duration::ZERO }
    }
}

impl<'a> ReplayWorld<'a> {
    fn new(
        pace: Pace,
        placements: &'a [Placement],
        source: &'a mut dyn FnMut() -> Option<Arrival>,
    ) -> Self {
        let volumes = placements.iter().map(|_| VolumeState::default()).collect();
        let depth = match pace {
            Pace::Open { .. } => 0,
            Pace::Closed { depth } => depth.max(1),
        };
        let may_issue = (0..depth).flat_map(|_| 0..placements.len() as u32).collect();
        Self {
            now: Instant::ZERO,
            pace,
            placements,
            source,
            upcoming: None,
            is_over: false,
            devices: Vec::new(),
            volumes,
            read_ahead: 0,
            may_issue,
            calls: vec![None; engine::CALLS_MAX as usize],
            free: (0..engine::CALLS_MAX).rev().map(CallId).collect(),
            woken: VecDeque::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            in_flight_max: 0,
            held_back: 0,
            is_held_back: false,
        }
    }

    /// When the next request of an open loop arrives.
    fn arrival(&mut self) -> Option<Instant> {
        let Pace::Open { speed_ppm } = self.pace else { return None };
        if self.upcoming.is_none() && !self.is_over {
            self.upcoming = (self.source)();
            self.is_over = self.upcoming.is_none();
            if let Some(arrival) = &mut self.upcoming {
                let nanos = u128::from(arrival.at.0) * 1_000_000 / u128::from(speed_ppm.max(1));
                arrival.at = Instant(u64::try_from(nanos).unwrap_or(u64::MAX));
            }
        }
        self.upcoming.map(|arrival| arrival.at)
    }

    /// A request whose turn has come.
    fn issue(&mut self, arrival: Arrival, at: Instant) -> Input {
        let call = self.free.pop().expect("the caller has looked for a free number");
        let Arrival { volume, sector, sectors, kind, .. } = arrival;
        let bytes = sectors * forebay_core::units::SECTOR_SIZE;
        self.calls[call.index()] = Some(Issued { volume, kind, bytes, at });
        let state = &mut self.volumes[volume as usize];
        state.in_flight += 1;
        let in_flight = engine::CALLS_MAX - self.free.len() as u32;
        self.in_flight_max = self.in_flight_max.max(in_flight);
        let placement = self.placements[volume as usize];
        let device = DeviceId(placement.device);
        let sector = placement.sector + sector;
        Input::Call(call, Op::Direct { device, sector, sectors, kind, is_sync: false })
    }

    /// The next request of a closed loop that may be issued.
    fn next_closed(&mut self) -> Option<Input> {
        while let Some(volume) = self.may_issue.front().copied() {
            if self.free.is_empty() {
                return None;
            }
            let next = self.next_of(volume);
            if next.is_none() && !self.is_over {
                // The window is full of other volumes' requests, which go first.
                self.may_issue.rotate_left(1);
                let ready = |volume: &u32| !self.volumes[*volume as usize].waiting.is_empty();
                if !self.may_issue.iter().any(ready) {
                    return None;
                }
                continue;
            }
            self.may_issue.pop_front();
            if let Some(arrival) = next {
                let now = self.now;
                return Some(self.issue(arrival, now));
            }
        }
        None
    }

    /// The next request of a volume; nothing if there is none, or none within what may be read
    /// ahead.
    fn next_of(&mut self, volume: u32) -> Option<Arrival> {
        if let Some(arrival) = self.volumes[volume as usize].waiting.pop_front() {
            self.read_ahead -= 1;
            return Some(arrival);
        }
        while !self.is_over && self.read_ahead < READ_AHEAD_MAX {
            let Some(arrival) = (self.source)() else {
                self.is_over = true;
                break;
            };
            if arrival.volume == volume {
                return Some(arrival);
            }
            self.volumes[arrival.volume as usize].waiting.push_back(arrival);
            self.read_ahead += 1;
        }
        None
    }

    fn end(&mut self, call: CallId, result: Result<u64, IoError>) {
        let issued = self.calls[call.index()].take();
        let Issued { volume, kind, bytes, at } = issued.expect("a reply answers a call in flight");
        self.free.push(call);
        let state = &mut self.volumes[volume as usize];
        let request = match kind {
            RequestKind::Read => VolumeRequest::Read,
            RequestKind::Write | RequestKind::DurableWrite => VolumeRequest::Write,
            RequestKind::Flush => VolumeRequest::Flush,
            RequestKind::Discard => VolumeRequest::Discard,
            RequestKind::Inode => unreachable!("a trace has no inodes"),
        };
        state.totals.count(request, (at, self.now), &result.map(|_| bytes));
        state.in_flight -= 1;
        if matches!(self.pace, Pace::Closed { .. }) {
            self.may_issue.push_back(volume);
        }
    }

    fn submit(&mut self, request: &Request) {
        let command = match request.kind {
            RequestKind::Read => Command::Read,
            RequestKind::Write => Command::Write,
            RequestKind::DurableWrite => Command::DurableWrite,
            RequestKind::Flush => Command::Flush,
            RequestKind::Discard => Command::Discard,
            RequestKind::Inode => unreachable!("a trace has no inodes"),
        };
        let access = DeviceAccess { sector: request.sector, sectors: request.sectors, command };
        let serving = &mut self.devices[request.device.index()];
        let completion = serving.device.service(self.now, &access);
        let from = completion.start.max(serving.busy_until);
        serving.busy += completion.done.since(from);
        serving.busy_until = serving.busy_until.max(completion.done);
        self.sequence += 1;
        let success = completion.outcome == DeviceOutcome::Success;
        self.events.push(Reverse((completion.done, self.sequence, request.id, success)));
    }

    fn into_outcome(self, stats: Stats) -> Outcome {
        let totals = || self.volumes.iter().map(|state| &state.totals);
        Outcome {
            volumes: totals().map(VolumeTotals::outcome).collect(),
            all: VolumeTotals::sum(totals()).outcome(),
            busy: self.devices.iter().fold(Duration::ZERO, |sum, one| sum + one.busy),
            stats,
            in_flight_max: self.in_flight_max,
            held_back: self.held_back,
        }
    }
}

impl World for ReplayWorld<'_> {
    fn now(&mut self) -> Instant {
        self.now
    }

    fn carry_out(&mut self, _engine: &Engine, output: Output) {
        match output {
            Output::Submit(request) => self.submit(&request),
            Output::Wake(call) => self.woken.push_back(call),
            Output::Reply(call, result) => self.end(call, result),
            Output::Copy(_) | Output::Pause(..) | Output::Gather(_) | Output::Decode(_) => {
                unreachable!("nothing is cached, paused or packed")
            }
        }
    }

    fn next(&mut self, deadline: Option<Instant>) -> Option<Input> {
        if let Some(call) = self.woken.pop_front() {
            return Some(Input::Resume(call));
        }
        if let Some(input) = self.next_closed() {
            return Some(input);
        }
        let done = self.events.peek().map(|Reverse((at, ..))| *at);
        let arrival = self.arrival();
        if let Some(at) = arrival
            && done.is_none_or(|done| at < done)
            && deadline.is_none_or(|deadline| at <= deadline.max(self.now))
        {
            if !self.free.is_empty() {
                self.is_held_back = false;
                let arrival = self.upcoming.take().expect("it has a time");
                // One that was held back counts from the time of the trace.
                self.now = self.now.max(at);
                return Some(self.issue(arrival, at));
            }
            if !std::mem::replace(&mut self.is_held_back, true) {
                self.held_back += 1;
            }
        }
        if let Some(at) = done
            && deadline.is_none_or(|deadline| at <= deadline)
        {
            let Reverse((_, _, request, success)) = self.events.pop().expect("it was seen");
            self.now = self.now.max(at);
            let result = if success { Ok(()) } else { Err(IoError::Device) };
            return Some(Input::Done(request, result, None));
        }
        let deadline = deadline?;
        self.now = self.now.max(deadline);
        Some(Input::Timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(pace: Pace, arrivals: &[Arrival], devices: u32) -> Outcome {
        let machine = Machine::builtin("nvme-2026").unwrap();
        let elevator = elevator::Spec::parse("none").unwrap();
        let volumes: Vec<Placement> =
            (0..3).map(|n| Placement { device: n % devices, sector: 0 }).collect();
        let devices = vec![&machine; devices as usize];
        let replay =
            Replay { devices: &devices, elevator: &elevator, seed: 1, pace, volumes: &volumes };
        let mut left = arrivals.iter().copied();
        replay.run(&mut || left.next())
    }

    fn arrivals(count: u64) -> Vec<Arrival> {
        let one = |n: u64| Arrival {
            at: Instant(n * 50_000),
            volume: (n % 3) as u32,
            sector: n * 7919 % 100_000 * 8,
            sectors: n % 9 + 1,
            kind: if n.is_multiple_of(4) { RequestKind::Write } else { RequestKind::Read },
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn every_request_ends_once_at_any_pace() {
        let all = arrivals(3_000);
        let bytes: u64 = all.iter().map(|one| one.sectors * 512).sum();
        for pace in [
            Pace::Open { speed_ppm: 1_000_000 },
            Pace::Open { speed_ppm: u64::MAX },
            Pace::Closed { depth: 1 },
            Pace::Closed { depth: 64 },
        ] {
            let outcome = replay(pace, &all, 3);
            let counted = outcome.all.reads.count + outcome.all.writes.count;
            assert_eq!((counted, outcome.all.bytes, outcome.all.errors), (3_000, bytes, 0));
            assert_eq!(outcome.volumes[0].reads.count + outcome.volumes[0].writes.count, 1_000);
        }
    }

    #[test]
    fn an_open_loop_keeps_the_times_of_the_trace_and_a_closed_one_its_depth() {
        let all = arrivals(1_000);
        let open = replay(Pace::Open { speed_ppm: 1_000_000 }, &all, 1);
        let twice = replay(Pace::Open { speed_ppm: 2_000_000 }, &all, 1);
        assert!(open.all.elapsed.as_nanos() >= 999 * 50_000);
        assert!(twice.all.elapsed.as_nanos() < 999 * 26_000);
        let closed = replay(Pace::Closed { depth: 4 }, &all, 1);
        assert_eq!(closed.in_flight_max, 12, "four of each of three volumes");
    }

    #[test]
    fn requests_of_one_moment_outnumber_what_the_engine_takes() {
        let one = Arrival { at: Instant(0), ..arrivals(2)[1] };
        let many = vec![one; engine::CALLS_MAX as usize + 10];
        let outcome = replay(Pace::Open { speed_ppm: 1_000_000 }, &many, 1);
        assert_eq!(outcome.all.reads.count, many.len() as u64);
        assert!(outcome.held_back > 0 && outcome.in_flight_max == engine::CALLS_MAX);
    }

    #[test]
    fn discards_take_time_and_are_counted_apart() {
        let one = Arrival { at: Instant(0), ..arrivals(2)[1] };
        let discard = Arrival { kind: RequestKind::Discard, sectors: 1 << 21, ..one };
        let outcome = replay(Pace::Closed { depth: 1 }, &[discard, one], 1);
        let all = &outcome.all;
        assert_eq!((all.discards.count, all.reads.count, all.writes.count), (1, 1, 0));
        assert_eq!(all.bytes, one.sectors * 512);
        assert!(all.discards.mean > Duration::ZERO);
    }

    #[test]
    fn each_device_has_the_machine_that_it_was_given() {
        let fast = Machine::builtin("nvme-2026").unwrap();
        let slow = Machine::builtin("desktop-2004").unwrap();
        let elevator = elevator::Spec::parse("none").unwrap();
        let volumes = [0, 1].map(|device| Placement { device, sector: 0 });
        let pace = Pace::Closed { depth: 1 };
        let devices = [&fast, &slow];
        let replay =
            Replay { devices: &devices, elevator: &elevator, seed: 1, pace, volumes: &volumes };
        let read = |n: u64| Arrival { volume: (n % 2) as u32, ..arrivals(2)[1] };
        let mut left = (0..100).map(|n| Arrival { sector: n * 7919 % 1_000 * 8, ..read(n) });
        let outcome = replay.run(&mut || left.next());
        let [fast, slow] = &outcome.volumes[..] else { panic!("two volumes") };
        assert!(slow.reads.mean > fast.reads.mean.times(10));
    }
}
