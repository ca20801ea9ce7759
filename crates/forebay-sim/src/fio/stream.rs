//! The requests of a job, one after another.
//!
//! Source:     fio 3.33, `backend.c` (loops and ends), `io_u.c` (direction, file, size),
//!             `libfio.c` (what a loop resets)
//! Behaviour:  Per request: a file, a direction, an offset, a size. A file from which no request
//!             can be made is done. A loop ends when the bytes or requests are used up or no file
//!             is left; the job ends when the loops are used up and less than a block is missing.
//! Differs:    Where fio would draw sizes forever because none with a share above zero fits, the
//!             file is done. Behaviour after 3.35 is derived from its source, not measured.
//! Not for:    the end by runtime and the pauses of think time, which are the driver's

use std::sync::Arc;

use super::Compat;
use super::offsets::{FileState, Wanted};
use super::plan::{Plan, RANDSEED};
use super::random::{Purpose, Random, Seeds};
use super::rate::Rate;
use super::settings::Service;
use super::sync::{Sync, SyncKind, Syncs};

/// One request of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// The file, as an index into [`Job::files`](super::Job::files).
    pub file: u32,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
    /// Whether it writes.
    pub write: bool,
}

/// What a job does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Makes a request.
    Io(Io),
    /// Syncs a file.
    Sync(Sync),
    /// Keeps its rate: nothing happens until this many microseconds after the job's start.
    Wait(u64),
    /// Ends.
    End,
}

/// The requests of one job; made by [`Job::stream`](super::Job::stream).
///
/// As an iterator it gives only the reads and writes, as if no time passed between them.
#[derive(Clone, Debug)]
pub struct Stream {
    plan: Arc<Plan>,
    files: Vec<FileState>,
    seeds: Seeds,
    offset_seed: u64,
    random: Generators,
    round: Round,
    issued: [u64; 2],
    bytes: u64,
    mix_write: bool,
    mix_until: u64,
    loops_left: u32,
    next_file: usize,
    current_file: Option<usize>,
    current_left: u32,
    open_files: usize,
    done_files: usize,
    /// Requests until the next new offset of `rw=...:N`.
    until_new: u32,
    wide: bool,
    /// The request leaves no mark in the random map. Once set, it stays until a request is made:
    /// after a sequential try that found the file done, so does the try in the next file.
    unmarked: bool,
    syncs: Syncs,
    rate: Rate,
    /// A request that waits for its moment: file, direction, moment.
    held: Option<(usize, bool, u64)>,
    /// The driver has ended the job.
    stopped: bool,
}

/// The generators that a loop may start afresh.
#[derive(Clone, Debug)]
struct Generators {
    offset: Random,
    size: [Random; 2],
    mix: Random,
    file: Random,
    sequential: [Random; 2],
}

/// Where the job stands between its loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// Before the first loop.
    Fresh,
    /// In a loop that has issued this many bytes.
    Running(u64),
    /// At the end of a loop of this many bytes, with the next file to be synced.
    Syncing(u64, usize),
    /// After a loop.
    Between,
    /// At the end.
    Over,
}

/// The result of an attempt to make a request.
enum Made {
    Io(Io),
    Sync(Sync),
    Wait(u64),
    Nothing,
}

/// How the search for a file ended.
enum Found {
    File(usize),
    /// The chosen file is closed and no more may be opened: choose again.
    Busy,
    None,
}

impl Stream {
    /// The stream of `plan` from its start.
    pub(super) fn new(plan: &Arc<Plan>, compat: Compat) -> Self {
        let seeds = Seeds::new(plan.settings.randseed.unwrap_or(RANDSEED), plan.job_number);
        let overridden = plan.repeatable_at_first && plan.settings.mode.is_random();
        let offset_seed = seeds.offset(overridden, compat);
        let wide = plan.settings.wide.unwrap_or(false);
        let mut files: Vec<FileState> = Vec::with_capacity(plan.files.len());
        for file in &plan.files {
            let state = FileState::new(plan, file, offset_seed, compat, files.last());
            files.push(state);
        }
        Self {
            random: Generators::new(seeds, offset_seed, wide),
            // fio notices only after seeding that a file has more blocks than 32 bits count.
            wide: wide || (plan.settings.wide.is_none() && plan.needs_wide()),
            files,
            seeds,
            offset_seed,
            round: Round::Fresh,
            issued: [0; 2],
            bytes: 0,
            mix_write: false,
            mix_until: 0,
            loops_left: plan.settings.loops,
            next_file: 0,
            current_file: None,
            current_left: 0,
            open_files: 0,
            done_files: 0,
            until_new: 1,
            unmarked: false,
            syncs: Syncs::new(plan, compat),
            rate: Rate::new(plan),
            held: None,
            stopped: false,
            plan: Arc::clone(plan),
        }
    }

    /// What the job does next, `now_us` microseconds after its start.
    pub fn step(&mut self, now_us: u64) -> Action {
        loop {
            if let Some(sync) = self.syncs.next_closed() {
                return Action::Sync(sync);
            }
            match self.round {
                Round::Over => return Action::End,
                Round::Fresh | Round::Between => {
                    if !self.start_round() {
                        return Action::End;
                    }
                }
                Round::Running(bytes) => match self.request(bytes, now_us) {
                    Made::Io(io) => {
                        self.round = Round::Running(bytes.saturating_add(io.len));
                        return Action::Io(io);
                    }
                    Made::Sync(sync) => return Action::Sync(sync),
                    Made::Wait(until_us) => return Action::Wait(until_us),
                    Made::Nothing if self.syncs.ends_loop() => {
                        self.round = Round::Syncing(bytes, 0);
                    }
                    Made::Nothing => self.end_round(bytes),
                },
                Round::Syncing(bytes, next) if next < self.files.len() => {
                    self.round = Round::Syncing(bytes, next + 1);
                    let file = u32::try_from(next).expect("the parser bounds the files");
                    let last = bytes == 0 || !self.would_go_on();
                    return Action::Sync(Sync { file, kind: SyncKind::End { last } });
                }
                Round::Syncing(bytes, _) => self.end_round(bytes),
            }
        }
    }

    /// Makes no further request: only the syncs of the end remain.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// The driver has paused after a request; the rate may depend on it.
    pub fn paused(&mut self, write: bool, pause_us: u64) {
        self.rate.paused(usize::from(write), pause_us);
    }

    /// Starts the next loop if there is one.
    fn start_round(&mut self) -> bool {
        if !self.would_go_on() {
            self.round = Round::Over;
            return false;
        }
        if !self.plan.time_based {
            self.loops_left = self.loops_left.saturating_sub(1);
        }
        if self.round == Round::Between {
            self.reset();
        }
        self.round = Round::Running(0);
        true
    }

    fn would_go_on(&self) -> bool {
        if self.stopped {
            return false;
        }
        if self.plan.time_based || self.loops_left > 0 {
            return true;
        }
        let io_size = self.plan.settings.io_size.bytes;
        let limit = if io_size > 0 { io_size } else { self.plan.size };
        let missing = limit.saturating_sub(self.bytes);
        let all_done = self.files.iter().all(|file| file.done);
        !self.count_reached()
            && missing > 0
            && missing >= self.plan.block_max()
            && (!all_done || io_size > 0)
    }

    /// What fio forgets between two loops. The count of requests, the file next in turn and the
    /// last direction are not among it.
    fn reset(&mut self) {
        self.mix_until = 0;
        self.syncs.begins_loop();
        let settings = &self.plan.settings;
        if self.plan.time_based || settings.loops > 1 || settings.do_verify {
            self.done_files = 0;
        }
        self.open_files = 0;
        for (index, file) in self.files.iter_mut().enumerate() {
            if file.open {
                self.syncs.closed(index);
            }
            file.close_for_next_loop();
        }
        if self.plan.repeatable {
            self.random = Generators::new(self.seeds, self.offset_seed, self.wide);
        }
    }

    fn end_round(&mut self, round_bytes: u64) {
        self.round = if round_bytes == 0 { Round::Over } else { Round::Between };
    }

    fn request(&mut self, round_bytes: u64, now_us: u64) -> Made {
        loop {
            if self.stopped {
                return Made::Nothing;
            }
            let (index, write) = match self.held.take() {
                Some((index, write, until_us)) if until_us <= now_us => (index, write),
                Some(held) => {
                    self.held = Some(held);
                    return Made::Wait(held.2);
                }
                None => {
                    if self.used_up(round_bytes) {
                        return Made::Nothing;
                    }
                    let index = match self.choose_file() {
                        Found::File(index) => index,
                        Found::Busy => continue,
                        Found::None => return Made::Nothing,
                    };
                    if let Some(kind) = self.syncs.due(self.issued[1]) {
                        let file = u32::try_from(index).expect("the parser bounds the files");
                        return Made::Sync(Sync { file, kind });
                    }
                    let (write, until_us) = self.choose_direction(now_us);
                    if let Some(until_us) = until_us {
                        self.held = Some((index, write, until_us));
                        return Made::Wait(until_us);
                    }
                    (index, write)
                }
            };
            if let Some(io) = self.issue(index, write) {
                return Made::Io(io);
            }
            self.files[index].finish();
            self.open_files -= 1;
            self.done_files += 1;
            self.syncs.closed(index);
            if let Some(sync) = self.syncs.next_closed() {
                return Made::Sync(sync);
            }
        }
    }

    /// Makes a request of the file, unless it is done.
    fn issue(&mut self, index: usize, write: bool) -> Option<Io> {
        let (offset, len) = self.place(index, write)?;
        self.files[index].issued(usize::from(write), offset, len);
        self.issued[usize::from(write)] += 1;
        self.bytes = self.bytes.saturating_add(len);
        self.syncs.issued(write);
        self.rate.issued(usize::from(write), len);
        let file = u32::try_from(index).expect("the parser bounds the files");
        Some(Io { file, offset, len, write })
    }

    fn used_up(&self, round_bytes: u64) -> bool {
        if self.plan.time_based {
            return false;
        }
        let settings = &self.plan.settings;
        let io_size = settings.io_size.bytes;
        let limit = if io_size > 0 { io_size } else { self.plan.size };
        let limit = limit.saturating_mul(u64::from(settings.loops.max(1)));
        // Engines that queue let fio count the bytes of the loop, the others do not.
        let free_writes = settings.mode.writes() && settings.mode.is_random() && !self.plan.use_map;
        let loop_limit = if free_writes { self.plan.size.max(io_size) } else { self.plan.size };
        self.bytes >= limit
            || self.count_reached()
            || (settings.ioengine.queues() && round_bytes >= loop_limit)
    }

    fn count_reached(&self) -> bool {
        let settings = &self.plan.settings;
        let limit = settings.number_ios.saturating_mul(u64::from(settings.loops.max(1)));
        settings.number_ios > 0 && self.issued[0] + self.issued[1] >= limit
    }

    fn choose_file(&mut self) -> Found {
        if self.done_files >= self.files.len() {
            return Found::None;
        }
        let service = self.plan.settings.service;
        if let Some(current) = self.current_file
            && self.files[current].open
        {
            if service == Service::Sequential {
                return Found::File(current);
            }
            if self.current_left > 0 {
                self.current_left -= 1;
                return Found::File(current);
            }
        }
        let found = match service {
            Service::RoundRobin | Service::Sequential => self.next_in_turn(),
            Service::Random => self.draw_file(),
        };
        let index = match found {
            Found::File(index) => Some(index),
            Found::Busy => return Found::Busy,
            Found::None => None,
        };
        self.current_file = index;
        self.current_left = self.plan.settings.service_run.wrapping_sub(1);
        index.map_or(Found::None, Found::File)
    }

    fn next_in_turn(&mut self) -> Found {
        for _ in 0..self.files.len() {
            let index = self.next_file;
            self.next_file = (index + 1) % self.files.len();
            if !self.files[index].done {
                return self.open(index);
            }
        }
        Found::None
    }

    fn draw_file(&mut self) -> Found {
        loop {
            let drawn = self.random.file.below(self.files.len() as u64);
            let index = usize::try_from(drawn).expect("an index below a length fits");
            if self.files.get(index).is_some_and(|file| !file.done) {
                return self.open(index);
            }
        }
    }

    fn open(&mut self, index: usize) -> Found {
        if !self.files[index].open {
            let most = self.plan.settings.openfiles as usize;
            if most > 0 && self.open_files >= most {
                return Found::Busy;
            }
            self.files[index].start();
            self.open_files += 1;
        }
        Found::File(index)
    }

    /// The direction of the next request, and the moment that it has to wait for.
    fn choose_direction(&mut self, now_us: u64) -> (bool, Option<u64>) {
        let wanted = usize::from(self.mixed_direction());
        let (direction, until_us) = self.rate.choose(wanted, now_us);
        self.mix_write = direction == 1;
        (self.mix_write, until_us)
    }

    fn mixed_direction(&mut self) -> bool {
        let mode = self.plan.settings.mode;
        if !(mode.reads() && mode.writes()) {
            return mode.writes();
        }
        let rwmixread = self.plan.settings.rwmixread;
        if self.issued[usize::from(self.mix_write)] >= self.mix_until {
            let write = self.random.mix.percent() > rwmixread;
            if write != self.mix_write {
                let other = if self.mix_write { rwmixread } else { 100 - rwmixread };
                self.mix_until = self.issued[usize::from(self.mix_write)] * other / 100;
            }
            self.mix_write = write;
        }
        self.mix_write
    }

    /// An offset and a size in file `index`, or nothing if the file is done.
    fn place(&mut self, index: usize, write: bool) -> Option<(u64, u64)> {
        let direction = usize::from(write);
        let wanted = self.wanted(direction);
        self.unmarked |= wanted != Wanted::New;
        let file = &mut self.files[index];
        let (offset, drawn) =
            file.offset(&self.plan, direction, wanted, &mut self.random.offset)?;
        let by = if self.plan.settings.bs_is_seq_rand { usize::from(drawn) } else { direction };
        let room = file.room(offset);
        let len = self.plan.size_of(by, room, &mut self.random.size[by])?;
        let file = &mut self.files[index];
        if offset.checked_add(len)? > file.real_size() {
            return None;
        }
        let len =
            if self.unmarked { len } else { file.mark(offset, len, self.plan.block[direction].0) };
        self.unmarked = false;
        Some((offset, len))
    }

    /// What kind of offset the next request takes.
    fn wanted(&mut self, direction: usize) -> Wanted {
        let settings = &self.plan.settings;
        if settings.repeat > 0 {
            self.until_new -= 1;
        }
        if settings.repeat == 0 || self.until_new > 0 {
            return Wanted::Again;
        }
        self.until_new = settings.repeat;
        if !settings.mode.is_random() {
            return Wanted::Sequential;
        }
        let share = settings.percentage_random[direction];
        if share == 100 || self.random.sequential[direction].percent() <= share {
            Wanted::New
        } else {
            Wanted::Sequential
        }
    }
}

impl Iterator for Stream {
    type Item = Io;

    fn next(&mut self) -> Option<Io> {
        loop {
            match self.step(u64::MAX) {
                Action::Io(io) => return Some(io),
                Action::Sync(_) | Action::Wait(_) => {}
                Action::End => return None,
            }
        }
    }
}

impl std::iter::FusedIterator for Stream {}

impl Generators {
    fn new(seeds: Seeds, offset_seed: u64, wide: bool) -> Self {
        let of = |purpose| Random::new(seeds.of(purpose), wide);
        let narrow = |purpose| Random::narrow(seeds.of(purpose));
        let sequential = narrow(Purpose::SequentialOrRandom);
        Self {
            offset: Random::new(offset_seed, wide),
            size: [of(Purpose::ReadSize), of(Purpose::WriteSize)],
            mix: narrow(Purpose::Mix),
            file: of(Purpose::FileChoice),
            sequential: [sequential.clone(), sequential],
        }
    }
}
