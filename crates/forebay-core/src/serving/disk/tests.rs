//! The path against a flat array: random requests, devices that answer in any order, fail, are
//! full, and lose power.
//!
//! A cell is 512 bytes that hold one number. The model keeps, for each cell, the numbers that it
//! may hold after a loss of power: the one that the last acknowledged flush covers, and all later
//! ones.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::testing::Random;

mod full;

const CELL: u64 = 512;
const PAGE_CELLS: u64 = PAGE_SIZE / CELL;
const CLIENTS: u32 = 3;
/// The last page is not a whole one.
const CELLS: u64 = 40 * PAGE_CELLS - 3;

/// A device: what it has, and what survives a loss of power.
#[derive(Clone)]
struct Device {
    cells: Vec<u64>,
    durable: Vec<u64>,
    is_full: bool,
    /// One in so many writes and flushes fails; zero for none.
    fails: u64,
    zeroes: bool,
}

/// What a device was asked for and has not answered.
enum Asked {
    Request(io::Request, Vec<u64>),
    Zero(ZeroRange),
}

struct InFlight {
    client: usize,
    op: DiskOp,
    number: u64,
    cells: Vec<u64>,
    /// What the flush covers: the newest acknowledged number of each cell.
    covers: Vec<u64>,
    /// Write errors that it has to report.
    owes: bool,
}

struct Rig {
    path: DiskPath,
    frames: Vec<[u64; PAGE_CELLS as usize]>,
    device: Device,
    asked: Vec<Asked>,
    now: Instant,
    clients: Vec<u32>,
    requests: Vec<Option<InFlight>>,
    /// The newest acknowledged number of each cell.
    model: Vec<u64>,
    /// Numbers that a cell may hold after a loss of power, the oldest first.
    allowed: Vec<Vec<u64>>,
    /// Whether a client has a write error to hear of.
    owed: [bool; CLIENTS as usize],
    next: u64,
    /// The numbers of requests that zero: what they leave in a cell is zero.
    zeroes: BTreeSet<u64>,
    failures: u64,
    results: Vec<Result<(), IoError>>,
}

impl Rig {
    fn new(frames: u32, policies: Policies) -> Self {
        Self::with_readahead(frames, policies, "linux-6.18")
    }

    fn with_readahead(frames: u32, policies: Policies, readahead: &str) -> Self {
        Self::with(frames, policies, readahead, "two-lists")
    }

    fn with_reclaim(frames: u32, reclaim: &str) -> Self {
        Self::with(frames, Policies::default(), "linux-6.18", reclaim)
    }

    fn with(frames: u32, policies: Policies, readahead: &str, reclaim: &str) -> Self {
        let config = DiskConfig {
            frames,
            requests_max: 8,
            exports_max: 1,
            readahead: readahead::Spec::parse(readahead).unwrap(),
            reclaim: reclaim::Spec::parse(reclaim).unwrap(),
        };
        let mut path = DiskPath::new(&config, policies);
        path.add_export(CELLS * CELL);
        let clients = (0..CLIENTS).map(|_| path.open(0)).collect();
        let cells = vec![0; CELLS as usize];
        let durable = cells.clone();
        let device = Device { cells, durable, is_full: false, fails: 0, zeroes: true };
        Self {
            path,
            frames: vec![[0; PAGE_CELLS as usize]; frames as usize],
            device,
            asked: Vec::new(),
            now: Instant::ZERO,
            clients,
            requests: (0..8).map(|_| None).collect(),
            model: vec![0; CELLS as usize],
            allowed: vec![vec![0]; CELLS as usize],
            owed: [false; CLIENTS as usize],
            next: 0,
            zeroes: BTreeSet::new(),
            failures: 0,
            results: Vec::new(),
        }
    }

    fn range(op: &DiskOp) -> core::ops::Range<usize> {
        let (offset, len) = match *op {
            DiskOp::Read { offset, len }
            | DiskOp::Write { offset, len, .. }
            | DiskOp::Zero { offset, len, .. } => (offset, len),
            DiskOp::Flush | DiskOp::Prefetch { .. } => (0, 0),
        };
        (offset / CELL) as usize..((offset + len) / CELL) as usize
    }

    /// Whether a request in flight touches a range, of which one of both changes it.
    fn is_in_the_way(&self, op: &DiskOp) -> bool {
        let (own, changes) = (Self::range(op), !matches!(op, DiskOp::Read { .. }));
        self.requests.iter().flatten().any(|other| {
            let range = Self::range(&other.op);
            let writes = !matches!(other.op, DiskOp::Read { .. });
            (writes || changes) && own.start < range.end && range.start < own.end
        })
    }

    fn begin(&mut self, client: usize, op: DiskOp) -> bool {
        let Some(place) = self.requests.iter().position(Option::is_none) else { return false };
        if self.is_in_the_way(&op) {
            return false;
        }
        self.next += 1;
        let number = self.next;
        if matches!(op, DiskOp::Zero { .. }) {
            self.zeroes.insert(number);
        }
        if matches!(op, DiskOp::Write { .. } | DiskOp::Zero { .. }) {
            Self::range(&op).for_each(|cell| self.allowed[cell].push(number));
        }
        let owes = op == DiskOp::Flush && self.owed[client];
        let covers = if op == DiskOp::Flush { self.model.clone() } else { Vec::new() };
        let len = Self::range(&op).len();
        self.requests[place] =
            Some(InFlight { client, op, number, cells: vec![0; len], covers, owes });
        self.path.request(self.now, place as u32, self.clients[client], op);
        self.take();
        true
    }

    fn take(&mut self) {
        while let Some(output) = self.path.poll_output() {
            match output {
                DiskOutput::Submit(request) => {
                    let of = |frame: FrameId| self.frames[frame.index()];
                    let cells = self.path.frames_of(&request).flat_map(of).collect();
                    self.asked.push(Asked::Request(request, cells));
                }
                DiskOutput::Zero(range) => self.asked.push(Asked::Zero(range)),
                DiskOutput::Copy(copy) => self.copy(&copy),
                DiskOutput::End(number, result) => self.end(number, result),
            }
        }
        self.path.check();
    }

    fn copy(&mut self, copy: &DiskCopy) {
        let request = self.requests[copy.request as usize].as_mut().unwrap();
        assert_eq!(copy.zeroes, matches!(request.op, DiskOp::Zero { .. }));
        for cell in 0..copy.len / CELL {
            let place = copy.start / CELL + cell;
            let frame = copy.frame.index() + (place / PAGE_CELLS) as usize;
            let frame = &mut self.frames[frame][(place % PAGE_CELLS) as usize];
            if copy.to_frames {
                *frame = if copy.zeroes { 0 } else { request.number };
            } else {
                request.cells[(copy.at / CELL + cell) as usize] = *frame;
            }
        }
    }

    fn end(&mut self, number: u32, result: Result<(), IoError>) {
        self.results.push(result);
        let request = self.requests[number as usize].take().unwrap();
        let range = Self::range(&request.op);
        match request.op {
            DiskOp::Read { .. } if result.is_ok() && self.failures == 0 => {
                assert!(request.cells == self.values()[range], "a read gives what was written");
            }
            DiskOp::Write { durable, .. } | DiskOp::Zero { durable, .. } if result.is_ok() => {
                for cell in range {
                    self.model[cell] = request.number;
                    if durable {
                        self.allowed[cell] = vec![request.number];
                    }
                }
            }
            DiskOp::Flush => {
                assert!(!request.owes || result.is_err(), "a failed write is reported");
                match result {
                    Ok(()) => self.cover(&request.covers),
                    Err(_) => {
                        // It is told once, to whichever of its flushes ends first.
                        self.owed[request.client] = false;
                        let others = self.requests.iter_mut().flatten();
                        others
                            .filter(|other| other.client == request.client)
                            .for_each(|other| other.owes = false);
                    }
                }
            }
            DiskOp::Read { .. }
            | DiskOp::Write { .. }
            | DiskOp::Zero { .. }
            | DiskOp::Prefetch { .. } => {}
        }
    }

    /// All numbers are gone that are older than what a flush covers.
    fn cover(&mut self, covers: &[u64]) {
        for (allowed, covered) in self.allowed.iter_mut().zip(covers) {
            if let Some(place) = allowed.iter().rposition(|number| number == covered) {
                allowed.drain(..place);
            }
        }
    }

    /// A device answers one of its requests.
    fn answer(&mut self, random: &mut Random) {
        if self.asked.is_empty() {
            return;
        }
        self.now += Duration::from_micros(random.below(300));
        self.answer_at(random.below(self.asked.len() as u64) as usize, random);
    }

    fn answer_at(&mut self, place: usize, random: &mut Random) {
        match self.asked.swap_remove(place) {
            Asked::Zero(range) => {
                let result = Ok(self.device.zeroes);
                if self.device.zeroes {
                    let cells = (range.offset / CELL) as usize..;
                    self.device.cells[cells][..(range.len / CELL) as usize].fill(0);
                }
                self.path.zeroed(self.now, range.request, result);
            }
            Asked::Request(request, sent) => {
                let result = self.carry_out(&request, &sent, random);
                self.path.done(self.now, &request, result, Duration::from_micros(50));
            }
        }
        self.take();
    }

    fn carry_out(
        &mut self,
        request: &io::Request,
        sent: &[u64],
        random: &mut Random,
    ) -> Result<(), IoError> {
        let (_, len) = self.path.place_of(request);
        let first = (request.first * PAGE_CELLS) as usize;
        let cells = first..first + (len / CELL) as usize;
        let device = &mut self.device;
        if !request.kind.is_read() {
            if device.fails > 0 && random.below(device.fails) == 0 {
                self.failures += 1;
                self.owed = [true; CLIENTS as usize];
                return Err(IoError::Device);
            }
            if device.is_full && request.kind.is_data_write() {
                return Err(IoError::NoSpace);
            }
        }
        match request.kind {
            RequestKind::Read => {
                let mut values = device.cells[cells].iter();
                for frame in self.path.frames_of(request) {
                    for cell in &mut self.frames[frame.index()] {
                        *cell = values.next().copied().unwrap_or(0);
                    }
                }
            }
            RequestKind::Write | RequestKind::DurableWrite => {
                let sent = &sent[..cells.len()];
                if request.kind == RequestKind::DurableWrite {
                    device.durable[cells.clone()].copy_from_slice(sent);
                }
                device.cells[cells].copy_from_slice(sent);
            }
            RequestKind::Flush => device.durable.clone_from(&device.cells),
            RequestKind::Inode | RequestKind::Discard => unreachable!("exports have none"),
        }
        Ok(())
    }

    /// What a request leaves in a cell.
    fn value(&self, number: u64) -> u64 {
        if self.zeroes.contains(&number) { 0 } else { number }
    }

    /// What all cells are to hold.
    fn values(&self) -> Vec<u64> {
        self.model.iter().map(|number| self.value(*number)).collect()
    }

    /// Power is lost: of what was not flushed, some pages have arrived.
    fn assert_survives(&self, random: &mut Random) {
        for (page, cells) in self.allowed.chunks(PAGE_CELLS as usize).enumerate() {
            let kept = if random.below(2) == 0 { &self.device.durable } else { &self.device.cells };
            for (place, allowed) in cells.iter().enumerate() {
                let cell = page * PAGE_CELLS as usize + place;
                let found = kept[cell];
                let fits = allowed.iter().any(|number| self.value(*number) == found);
                assert!(fits, "cell {cell}: {found}, not of {allowed:?}");
            }
        }
    }

    /// Time passes until the path wants to be called.
    fn wait(&mut self) {
        if let Some(at) = self.path.poll_timeout() {
            self.now = self.now.max(at);
            self.path.timeout(self.now);
            self.take();
        }
    }

    /// The device answers until so many requests have ended.
    fn answer_until(&mut self, random: &mut Random, count: usize) {
        while self.results.len() < count {
            assert!(!self.asked.is_empty(), "the device has something to answer");
            self.answer(random);
        }
    }

    /// All requests end.
    fn finish(&mut self, random: &mut Random) {
        for _ in 0..100_000 {
            if self.requests.iter().all(Option::is_none) && self.asked.is_empty() {
                assert!(self.path.is_quiet(), "nothing is left in the engine");
                return;
            }
            if self.asked.is_empty() {
                self.wait();
            }
            self.answer(random);
        }
        panic!("requests wait for ever");
    }

    /// Does something at random.
    fn step(&mut self, random: &mut Random) {
        let client = random.below(u64::from(CLIENTS)) as usize;
        let start = random.below(CELLS);
        let most = if random.below(4) == 0 { CELLS } else { 20 };
        let offset = start * CELL;
        let len = (1 + random.below(most.min(CELLS - start))) * CELL;
        let durable = random.below(6) == 0;
        match random.below(20) {
            0..5 => drop(self.begin(client, DiskOp::Read { offset, len })),
            5..10 => drop(self.begin(client, DiskOp::Write { offset, len, durable })),
            10 => drop(self.begin(client, DiskOp::Flush)),
            11 => {
                let hole = random.below(2) == 0;
                self.begin(client, DiskOp::Zero { offset, len, hole, durable });
            }
            12 => drop(self.begin(client, DiskOp::Prefetch { offset, len })),
            13 if random.below(8) == 0 => self.wait(),
            _ => self.answer(random),
        }
    }
}

/// Limits that a test reaches: few dirty pages, and writers that pause.
fn tight() -> Policies {
    Policies::build(
        &crate::flush::Spec::parse("linux-6").unwrap(),
        &crate::control::Spec::parse("drain").unwrap(),
        &crate::throttle::Spec::parse("paced").unwrap(),
    )
}

/// Four pages are the least memory that is promised to be enough.
const MEMORIES: [u32; 4] = [4, 8, 20, 64];

#[test]
fn reads_give_what_was_written_and_flushed_cells_survive_a_loss_of_power() {
    for seed in 1..=60 {
        let mut random = Random(seed);
        let policies = if seed % 2 == 0 { tight() } else { Policies::default() };
        let mut rig = Rig::new(MEMORIES[seed as usize % 4], policies);
        rig.device.zeroes = seed % 3 != 0;
        for step in 0..400 {
            rig.step(&mut random);
            if step % 20 == 0 {
                rig.assert_survives(&mut random);
            }
        }
        rig.finish(&mut random);
        assert!(rig.results.iter().all(Result::is_ok), "seed {seed}: nothing fails by itself");
        rig.begin(0, DiskOp::Flush);
        rig.finish(&mut random);
        assert!(rig.device.durable == rig.values(), "seed {seed}: a flush leaves nothing behind");
    }
}

#[test]
fn each_client_hears_of_a_failed_write_at_its_next_flush() {
    let mut failed = 0;
    for seed in 1..=40 {
        let mut random = Random(seed);
        let mut rig = Rig::new(MEMORIES[seed as usize % 4], Policies::default());
        rig.device.fails = 12;
        (0..300).for_each(|_| rig.step(&mut random));
        rig.finish(&mut random);
        rig.device.fails = 0;
        failed += rig.failures;
        for client in 0..CLIENTS as usize {
            let owed = rig.owed[client];
            rig.begin(client, DiskOp::Flush);
            rig.finish(&mut random);
            assert!(!owed || rig.results.last() == Some(&Err(IoError::Device)), "seed {seed}");
            // Once each.
            rig.begin(client, DiskOp::Flush);
            rig.finish(&mut random);
            assert_eq!(rig.results.last(), Some(&Ok(())), "seed {seed}");
        }
    }
    assert!(failed > 100, "writes have failed");
}

#[test]
fn a_failed_write_is_an_error_of_the_first_flush_of_a_later_client() {
    // The path's own fsync gets the error first. That must not count as a report: the FLUSH of a
    // client that comes after the writer has left fails.
    let mut rig = Rig::new(64, Policies::default());
    let mut random = Random(7);
    rig.begin(0, DiskOp::Write { offset: 0, len: PAGE_SIZE, durable: false });
    rig.finish(&mut random);
    for client in [0, 1, 2] {
        rig.path.close(rig.clients[client]);
    }
    rig.device.fails = 1;
    // The write-back that its age demands fails.
    for _ in 0..100 {
        rig.wait();
        rig.answer(&mut random);
    }
    assert_eq!(rig.failures, 1);
    rig.device.fails = 0;
    rig.clients = (0..CLIENTS).map(|_| rig.path.open(0)).collect();
    rig.begin(0, DiskOp::Write { offset: 0, len: PAGE_SIZE, durable: false });
    rig.finish(&mut random);
    rig.path.close(rig.clients[1]);
    rig.clients[1] = rig.path.open(0);
    rig.results.clear();
    for client in [0, 1, 1] {
        rig.begin(client, DiskOp::Flush);
        rig.finish(&mut random);
    }
    assert_eq!(rig.results, [Err(IoError::Device), Err(IoError::Device), Ok(())]);
}

#[test]
fn flushes_that_come_together_share_one() {
    let mut rig = Rig::new(64, Policies::default());
    let mut random = Random(7);
    rig.begin(0, DiskOp::Write { offset: 0, len: PAGE_SIZE, durable: false });
    for client in [0, 1, 2, 0, 1] {
        assert!(rig.begin(client, DiskOp::Flush));
    }
    rig.finish(&mut random);
    assert_eq!(rig.path.stats().flushes, 2, "one that was under way, and one for the other four");
}

#[test]
fn a_flush_covers_what_is_being_zeroed() {
    // Zeroing dropped dirty pages, so a flush beside it did not see them: it was acknowledged while
    // neither they nor the zeroes were on disk, and a zeroing that failed lost them for good.
    let mut rig = Rig::new(64, Policies::default());
    let mut random = Random(7);
    for durable in [true, false] {
        rig.begin(0, DiskOp::Write { offset: 0, len: PAGE_SIZE, durable });
        rig.finish(&mut random);
    }
    rig.begin(1, DiskOp::Zero { offset: 0, len: PAGE_SIZE, hole: false, durable: false });
    rig.begin(2, DiskOp::Flush);
    let is_request = |asked: &Asked| matches!(asked, Asked::Request(..));
    while let Some(place) = rig.asked.iter().position(is_request) {
        rig.answer_at(place, &mut random);
    }
    assert_eq!(rig.results, [Ok(()); 3], "the writes and the flush");
    (0..20).for_each(|_| rig.assert_survives(&mut random));
    rig.finish(&mut random);
}

#[test]
fn a_zeroing_that_fails_leaves_no_page_that_was_read_beside_it() {
    // The device had zeroed the page before it failed, and a prefetch beside it had read the bytes
    // from before: reads gave them, and the next write of a part of the page brought them back.
    let mut rig = Rig::new(64, Policies::default());
    let mut random = Random(7);
    rig.begin(0, DiskOp::Write { offset: 0, len: 2 * PAGE_SIZE, durable: true });
    rig.finish(&mut random);
    rig.begin(0, DiskOp::Zero { offset: 0, len: PAGE_SIZE, hole: false, durable: false });
    rig.begin(1, DiskOp::Prefetch { offset: 0, len: PAGE_SIZE });
    assert_eq!(rig.asked.len(), 2, "the device zeroes a page and reads it");
    rig.answer_at(1, &mut random);
    let Asked::Zero(range) = rig.asked.remove(0) else { panic!("the zeroing is asked first") };
    rig.device.cells[..PAGE_CELLS as usize].fill(0);
    rig.path.zeroed(rig.now, range.request, Err(IoError::Device));
    rig.take();
    assert_eq!(rig.results.last(), Some(&Err(IoError::Device)));
    rig.model[..PAGE_CELLS as usize].fill(*rig.zeroes.first().unwrap());
    rig.begin(1, DiskOp::Read { offset: 0, len: 2 * PAGE_SIZE });
    rig.finish(&mut random);
}

#[test]
fn a_small_write_into_a_trimmed_range_and_an_unaligned_trim_keep_their_neighbours() {
    let mut rig = Rig::new(8, Policies::default());
    let mut random = Random(7);
    let all = CELLS * CELL;
    rig.begin(0, DiskOp::Write { offset: 0, len: all, durable: false });
    rig.finish(&mut random);
    rig.begin(1, DiskOp::Zero { offset: 3 * CELL, len: 30 * CELL, hole: true, durable: true });
    rig.finish(&mut random);
    rig.begin(2, DiskOp::Write { offset: 11 * CELL, len: CELL, durable: false });
    rig.begin(
        2,
        DiskOp::Zero { offset: all - 9 * CELL, len: 9 * CELL, hole: false, durable: true },
    );
    rig.finish(&mut random);
    rig.begin(0, DiskOp::Read { offset: 0, len: all });
    rig.finish(&mut random);
    rig.begin(0, DiskOp::Flush);
    rig.finish(&mut random);
    assert!(rig.device.durable == rig.values());
    let numbers: Vec<bool> = rig.values().iter().map(|number| *number > 0).collect();
    assert_eq!(numbers.iter().filter(|written| !**written).count(), 30 - 1 + 9);
}

#[test]
fn a_trim_of_a_part_of_a_folio_drops_its_pages() {
    // A window of readahead came as one folio; a TRIM in its midst left it in memory as a whole, so
    // reads went on to give the bytes from before.
    let mut rig = Rig::with_readahead(64, Policies::default(), "linux-6.18:folios=1");
    let mut random = Random(7);
    rig.begin(0, DiskOp::Write { offset: 0, len: CELLS * CELL, durable: true });
    rig.finish(&mut random);
    rig.path.engine.drop_pages(FileId(0), crate::packed::Pages::new(0, 40));
    for page in 0..16 {
        rig.begin(1, DiskOp::Read { offset: page * PAGE_SIZE, len: PAGE_SIZE });
        rig.finish(&mut random);
    }
    rig.begin(0, DiskOp::Write { offset: 9 * PAGE_SIZE, len: PAGE_SIZE, durable: false });
    rig.finish(&mut random);
    for page in [8, 9, 13] {
        let (offset, len) = (page * PAGE_SIZE, PAGE_SIZE);
        rig.begin(1, DiskOp::Zero { offset, len, hole: true, durable: false });
        rig.finish(&mut random);
    }
    rig.begin(2, DiskOp::Read { offset: 0, len: CELLS * CELL });
    rig.finish(&mut random);
    rig.begin(2, DiskOp::Flush);
    rig.finish(&mut random);
    assert!(rig.device.durable == rig.values(), "a page that was dropped is not written back");
}

#[test]
fn random_reads_read_no_more_than_they_were_asked_for_and_streams_are_read_ahead() {
    let mut rig = Rig::new(64, Policies::default());
    let mut random = Random(7);
    for page in [30, 3, 17, 9, 25, 12] {
        rig.begin(0, DiskOp::Read { offset: page * PAGE_SIZE, len: PAGE_SIZE });
        rig.finish(&mut random);
    }
    assert_eq!(rig.path.stats().pages_read, 6);
    let mut rig = Rig::new(64, Policies::default());
    let mut waited = 0;
    for page in 0..20 {
        rig.begin(0, DiskOp::Read { offset: page * PAGE_SIZE, len: PAGE_SIZE });
        waited += u64::from(rig.requests[0].is_some());
        rig.finish(&mut random);
    }
    assert!(waited <= 4, "{waited} of 20 reads waited for the device");
}

#[test]
fn dirty_pages_over_a_hole_are_told() {
    let mut rig = Rig::new(64, Policies::default());
    let mut random = Random(7);
    rig.begin(0, DiskOp::Write { offset: 5 * PAGE_SIZE + CELL, len: PAGE_SIZE, durable: false });
    rig.begin(0, DiskOp::Write { offset: 9 * PAGE_SIZE, len: CELL, durable: false });
    rig.finish(&mut random);
    let runs = [(5 * PAGE_SIZE, 7 * PAGE_SIZE), (9 * PAGE_SIZE, 10 * PAGE_SIZE)];
    assert_eq!(rig.path.unsafe_runs(0, 0, CELLS * CELL, 9), runs);
    assert_eq!(rig.path.unsafe_runs(0, 0, CELLS * CELL, 1), runs[..1]);
    assert_eq!(rig.path.unsafe_runs(0, 0, 9 * PAGE_SIZE, 9), runs[..1]);
    rig.begin(0, DiskOp::Flush);
    rig.finish(&mut random);
    assert!(rig.path.unsafe_runs(0, 0, CELLS * CELL, 9).is_empty());
}

#[test]
fn a_client_can_leave_and_another_one_takes_its_place() {
    let mut rig = Rig::new(8, Policies::default());
    let place = rig.clients[1];
    rig.path.close(place);
    assert_eq!(rig.path.open(0), place);
    assert_eq!(rig.path.open(0), CLIENTS);
}
