//! A server without sockets: connections, the path, stores, and what each answer is compared with.

use std::collections::VecDeque;
use std::fmt::Debug;

use forebay_core::io::{IoError, RequestKind};
use forebay_core::serving::{DiskCopy, DiskOp, DiskOutput, DiskPath};
use forebay_core::time::{Duration, Instant};

use super::history::{Finding, Histories, Moment, NEVER, Number, WriteRecord};
use super::random::{DiskScenario, random_op};
use super::store::{CELL, PAGE_CELLS, Page, Store, StoreWork, WorkKind};
use super::{BrokenRule, DiskCounts};
use crate::rng::Rng;

/// The path, and everything around it.
#[derive(Debug)]
pub(super) struct Server {
    scenario: DiskScenario,
    path: DiskPath,
    frames: Vec<Page>,
    stores: Vec<Store>,
    works: Vec<StoreWork>,
    clients: Vec<Client>,
    requests: Vec<Option<InFlight>>,
    histories: Histories,
    /// Failed writes of each export that were reported to no connection.
    unreported: Vec<bool>,
    /// The last failure of each export, and of its reads.
    failed: Vec<(Moment, Moment)>,
    now: Instant,
    moment: Moment,
    numbers: Number,
    /// Connections so far.
    names: u64,
    vanished_at: Moment,
    /// When the stores that are full have room again.
    heals: Option<Instant>,
    slow: u64,
    rng: Rng,
    counts: DiskCounts,
    recent: VecDeque<String>,
    broken: Option<BrokenRule>,
}

#[derive(Debug)]
struct Client {
    number: u32,
    name: u64,
    export: usize,
    in_flight: u32,
    /// It has vanished and sends no more requests.
    is_gone: bool,
    /// A failed write that its next flush reports.
    is_owed: bool,
    /// Where its last read ended.
    at: u64,
}

#[derive(Debug)]
struct InFlight {
    client: usize,
    op: DiskOp,
    number: Number,
    began: Moment,
    since: Instant,
    /// The data read.
    cells: Vec<Number>,
}

impl Server {
    pub(super) fn new(scenario: DiskScenario) -> Self {
        let mut histories = Histories::default();
        let mut stores = Vec::new();
        for (export, cells) in scenario.exports.iter().enumerate() {
            let number = export as u64 + 1;
            histories.add_export(number, *cells);
            let mut store = Store::new(*cells, number);
            store.fail_ppm = scenario.fail_ppm;
            store.no_zero_ppm = scenario.no_zero_ppm;
            stores.push(store);
        }
        let exports = stores.len();
        let mut server = Self {
            path: new_path(&scenario),
            frames: vec![[0; PAGE_CELLS]; scenario.config.frames as usize],
            requests: (0..scenario.config.requests_max).map(|_| None).collect(),
            rng: scenario.rng.fork("server", 0),
            scenario,
            stores,
            works: Vec::new(),
            clients: Vec::new(),
            histories,
            unreported: vec![false; exports],
            failed: vec![(0, 0); exports],
            now: Instant::ZERO,
            moment: 1,
            numbers: exports as u64,
            names: 0,
            vanished_at: 0,
            heals: None,
            slow: 1,
            counts: DiskCounts::default(),
            recent: VecDeque::new(),
            broken: None,
        };
        (0..server.scenario.clients).for_each(|place| server.connect(place));
        server
    }

    /// Runs to the end, and looks whether all is where it was promised to be.
    pub(super) fn run(&mut self) -> Result<DiskCounts, BrokenRule> {
        let mut left = self.scenario.steps;
        let mut next_step = self.now;
        while left > 0 && self.broken.is_none() {
            let event = self.next_event();
            if event.is_none_or(|at| at >= next_step) {
                self.now = self.now.max(next_step);
                left -= 1;
                next_step = self.now + self.rng.exponential(self.scenario.interval);
                self.step();
            } else {
                self.advance();
            }
            self.disturb();
        }
        self.finish();
        match self.broken.take() {
            Some(broken) => Err(BrokenRule { events: self.recent.drain(..).collect(), ..broken }),
            None => Ok(self.counts.clone()),
        }
    }

    /// When a store answers or the path has a timeout.
    fn next_event(&self) -> Option<Instant> {
        let due = self.works.iter().map(|work| work.due).min();
        [due, self.path.poll_timeout(), self.heals].into_iter().flatten().min()
    }

    /// The next event happens.
    fn advance(&mut self) {
        let Some(at) = self.next_event() else { return };
        self.now = self.now.max(at);
        if self.heals.is_some_and(|at| at <= self.now) {
            self.heals = None;
            self.stores.iter_mut().for_each(|store| store.is_full = false);
            self.note("room", &());
        }
        let due = |work: &StoreWork| work.due <= self.now;
        if let Some(place) = self.works.iter().position(due) {
            let work = self.works.swap_remove(place);
            self.answer(&work);
        } else {
            self.path.timeout(self.now);
            self.take();
        }
        self.look_at_ages();
    }

    /// A connection sends a request, or vanishes.
    fn step(&mut self) {
        let place = self.rng.below(self.clients.len() as u64) as usize;
        if self.rng.chance(self.scenario.vanish_ppm) {
            self.clients[place].is_gone = true;
            self.vanished_at = self.tick();
            self.counts.vanished += 1;
        }
        if self.clients[place].is_gone {
            if self.clients[place].in_flight == 0 {
                self.path.close(self.clients[place].number);
                self.connect(place);
            }
            return;
        }
        let export = self.clients[place].export;
        let cells = self.scenario.exports[export];
        let mut op = random_op(&mut self.rng, &self.scenario.weights, cells);
        if let DiskOp::Read { offset, len } = &mut op
            && self.rng.chance(500_000)
        {
            let at = self.clients[place].at;
            *offset = if at >= cells as u64 * CELL { 0 } else { at };
            *len = (*len).min(cells as u64 * CELL - *offset);
        }
        self.begin(place, op);
    }

    /// Stores become full or slow, power is lost, the server is killed.
    fn disturb(&mut self) {
        if self.heals.is_none() && self.rng.chance(self.scenario.full_ppm) {
            let place = self.rng.below(self.stores.len() as u64) as usize;
            self.stores[place].is_full = true;
            let most = [9_000, 200_000][self.rng.below(2) as usize];
            self.heals = Some(self.now + Duration::from_millis(self.rng.below(most)));
            self.note("full", &place);
        }
        if self.rng.chance(5_000) {
            self.slow = [1, 1, 30][self.rng.below(3) as usize];
        }
        let restarts = self.rng.chance(self.scenario.restart_ppm);
        if restarts || self.rng.chance(self.scenario.cut_ppm) {
            let is_cut = self.rng.chance(700_000);
            self.cut_power(is_cut, restarts);
        }
    }

    fn connect(&mut self, place: usize) {
        self.names += 1;
        let export = self.rng.below(self.stores.len() as u64) as usize;
        let number = self.path.open(export as u32);
        let is_owed = self.unreported[export];
        let (name, in_flight, is_gone, at) = (self.names, 0, false, 0);
        let client = Client { number, name, export, in_flight, is_gone, is_owed, at };
        if place < self.clients.len() {
            self.clients[place] = client;
        } else {
            self.clients.push(client);
        }
    }

    fn begin(&mut self, client: usize, op: DiskOp) {
        let Some(slot) = self.requests.iter().position(Option::is_none) else { return };
        let began = self.tick();
        let (first, end) = cells_of(&op);
        let export = self.clients[client].export;
        self.numbers += 1;
        let number = self.numbers;
        if changes(&op) {
            let is_zero = matches!(op, DiskOp::Zero { .. });
            let name = self.clients[client].name;
            let record = WriteRecord {
                client: name,
                export,
                is_zero,
                begin: began,
                end: NEVER,
                cells: (first, end),
            };
            self.histories.begin(number, record);
        }
        self.note("begin", &(slot, client, number, op));
        let cells = if matches!(op, DiskOp::Read { .. }) { vec![0; end - first] } else { vec![] };
        let since = self.now;
        self.requests[slot] = Some(InFlight { client, op, number, began, since, cells });
        self.clients[client].in_flight += 1;
        let number = self.clients[client].number;
        self.path.request(self.now, slot as u32, number, op);
        self.take();
    }

    /// Executes the outputs of the path.
    fn take(&mut self) {
        while let Some(output) = self.path.poll_output() {
            self.tick();
            match output {
                DiskOutput::Submit(request) => {
                    let image = |frame: forebay_core::units::FrameId| self.frames[frame.index()];
                    let writes = request.kind.is_data_write();
                    let mut pages = Vec::new();
                    if writes {
                        pages.extend(self.path.frames_of(&request).map(image));
                    }
                    let (export, _) = self.path.place_of(&request);
                    self.submit(export as usize, WorkKind::Request(request, pages));
                }
                DiskOutput::Zero(range) => {
                    let request = self.requests[range.request as usize].as_ref();
                    let number = request.map_or(0, |request| request.number);
                    self.submit(range.export as usize, WorkKind::Zero(range, number));
                }
                DiskOutput::Copy(copy) => self.copy(&copy),
                DiskOutput::End(slot, result) => self.end(slot as usize, result),
            }
        }
        self.path.check();
    }

    fn submit(&mut self, export: usize, kind: WorkKind) {
        let most = self.scenario.latency.as_nanos() * self.slow;
        let due = self.now + Duration(1 + self.rng.below(most));
        let work = StoreWork { due, began: self.moment, export, kind };
        self.note("submit", &work);
        let (first, end, changes) = work.reach();
        let is_write = matches!(work.kind, WorkKind::Request(..));
        for other in self.works.iter().filter(|other| other.export == export) {
            let (other_first, other_end, other_changes) = other.reach();
            let both = changes && other_changes && first < other_end && other_first < end;
            if both && (is_write || matches!(other.kind, WorkKind::Request(..))) {
                let text = format!("pages {first} to {end} are written twice at once");
                self.broken.get_or_insert(BrokenRule::new("D4", text));
            }
        }
        self.works.push(work);
    }

    fn copy(&mut self, copy: &DiskCopy) {
        let Some(request) = &mut self.requests[copy.request as usize] else { return };
        for cell in 0..copy.len / CELL {
            let place = (copy.start / CELL + cell) as usize;
            let frame = copy.frame.index() + place / PAGE_CELLS;
            let frame = &mut self.frames[frame][place % PAGE_CELLS];
            if copy.to_frames {
                *frame = request.number;
            } else if let Some(own) = request.cells.get_mut((copy.at / CELL + cell) as usize) {
                *own = *frame;
            }
        }
    }

    /// A store ends its work.
    fn answer(&mut self, work: &StoreWork) {
        let moment = self.tick();
        let fails = self.rng.chance(self.stores[work.export].fail_ppm);
        self.note("answer", &(work, fails));
        let export = work.export;
        match &work.kind {
            WorkKind::Zero(range, _) => {
                let store = &self.stores[export];
                let result = match () {
                    () if self.rng.chance(store.no_zero_ppm) => Ok(false),
                    () if fails => Err(IoError::Device),
                    () => Ok(true),
                };
                let lands = result == Ok(true) || result.is_err() && self.rng.chance(500_000);
                if lands {
                    self.land(work, false);
                }
                if result.is_err() {
                    self.failed[export].1 = moment;
                }
                self.path.zeroed(self.now, range.request, result);
            }
            WorkKind::Request(request, _) => {
                let result = match request.kind {
                    RequestKind::Read => self.read(work, fails),
                    RequestKind::Write | RequestKind::DurableWrite => self.write(work, fails),
                    RequestKind::Flush => self.flush(export, work.began, fails),
                    RequestKind::Inode | RequestKind::Discard => Ok(()),
                };
                let took = Duration::from_micros(1 + self.rng.below(500));
                if result.is_err() {
                    self.failed[export].1 = moment;
                }
                self.path.done(self.now, request, result, took);
            }
        }
        self.take();
    }

    fn read(&mut self, work: &StoreWork, fails: bool) -> Result<(), IoError> {
        let WorkKind::Request(request, _) = &work.kind else { return Ok(()) };
        if fails {
            return Err(IoError::Device);
        }
        let frames: Vec<_> = self.path.frames_of(request).collect();
        for (page, frame) in (request.first as usize..).zip(frames) {
            self.frames[frame.index()] = self.stores[work.export].pages[page].current;
        }
        Ok(())
    }

    fn write(&mut self, work: &StoreWork, fails: bool) -> Result<(), IoError> {
        let WorkKind::Request(request, _) = &work.kind else { return Ok(()) };
        let is_full = self.stores[work.export].is_full;
        if is_full {
            self.stores[work.export].no_space += 1;
            return Err(IoError::NoSpace);
        }
        if !fails || self.rng.chance(500_000) {
            self.land(work, request.kind == RequestKind::DurableWrite && !fails);
        }
        if fails {
            let (first, end, _) = work.reach();
            self.lose(work.export, (first, end));
            return Err(IoError::Device);
        }
        Ok(())
    }

    fn flush(&mut self, export: usize, began: Moment, fails: bool) -> Result<(), IoError> {
        if !fails {
            self.stores[export].flush(began);
            return Ok(());
        }
        let pages = self.stores[export].drop_cached(&mut self.rng);
        self.lose(export, (0, 0));
        for page in pages {
            self.lose(export, (page, page + 1));
        }
        Err(IoError::Device)
    }

    /// Written data arrives.
    fn land(&mut self, work: &StoreWork, is_durable: bool) {
        let moment = self.moment;
        let (_, len) = match &work.kind {
            WorkKind::Request(request, _) => self.path.place_of(request),
            WorkKind::Zero(range, _) => (range.export, range.len),
        };
        for (count, (page, mut image)) in work.images().into_iter().enumerate() {
            let cells = self.stores[work.export].cells_of(page);
            let before = self.stores[work.export].pages[page].current;
            // What the path does not name as part of the export is not written.
            let named = (len / CELL) as usize - (count * PAGE_CELLS).min((len / CELL) as usize);
            let named = named.min(cells);
            image[named..].copy_from_slice(&before[named..]);
            for (new, old) in image[..cells].iter().zip(&before) {
                if self.histories.is_older(*new, *old) {
                    let text = format!("write {new} arrives on page {page} after the later {old}");
                    self.broken.get_or_insert(BrokenRule::new("D4", text));
                }
            }
            self.stores[work.export].put(moment, page, image, is_durable);
        }
    }

    /// A write failed: it is to be reported to all connections of the export.
    fn lose(&mut self, export: usize, (first, end): (usize, usize)) {
        let cells = self.scenario.exports[export];
        let place = |page: usize| (page * PAGE_CELLS).min(cells);
        self.histories.lose(export, (place(first), place(end)), self.moment);
        self.failed[export].0 = self.moment;
        self.failed[export].1 = self.moment;
        self.unreported[export] = true;
        for client in self.clients.iter_mut().filter(|client| client.export == export) {
            client.is_owed = true;
        }
    }

    /// A request has ended.
    fn end(&mut self, slot: usize, result: Result<(), IoError>) {
        self.note("end", &(slot, result));
        let Some(request) = self.requests[slot].take() else { return };
        let moment = self.moment;
        let client = &mut self.clients[request.client];
        client.in_flight -= 1;
        let export = client.export;
        self.counts.longest_ns = self.counts.longest_ns.max(self.now.since(request.since).0);
        match result {
            Ok(()) => self.counts.requests += 1,
            Err(_) => self.counts.errors += 1,
        }
        if changes(&request.op) {
            let durable = is_durable(&request.op);
            self.histories.end(request.number, moment, result.is_ok(), durable);
            self.counts.promises += u64::from(durable && result.is_ok());
        }
        if result == Err(IoError::NoSpace) {
            self.counts.refusals += 1;
            let writes = changes(&request.op) || request.op == DiskOp::Flush;
            if self.stores[export].no_space == 0 || !writes {
                self.fail("D9", &request, "refused, though its store was never full");
            }
            return;
        }
        match request.op {
            DiskOp::Read { offset, len } if result.is_ok() => {
                self.clients[request.client].at = offset + len;
                self.judge_read(export, &request);
            }
            DiskOp::Zero { len, .. } if result.is_ok() => self.counts.zeroed += len,
            DiskOp::Flush => self.judge_flush(&request, result),
            DiskOp::Read { .. }
            | DiskOp::Write { .. }
            | DiskOp::Zero { .. }
            | DiskOp::Prefetch { .. } => {
                if result.is_err() && self.failed[export].1 < request.began {
                    self.fail("D5", &request, "an error without a failure");
                }
            }
        }
    }

    fn judge_read(&mut self, export: usize, request: &InFlight) {
        let (first, _) = cells_of(&request.op);
        for (place, number) in request.cells.iter().enumerate() {
            let cell = first + place;
            let start = (cell / PAGE_CELLS * PAGE_CELLS).max(first) - first;
            let page = &request.cells[start..];
            let page = &page[..PAGE_CELLS.min(page.len())];
            let found = Finding { export, cell, number: *number };
            if let Err(broken) = self.histories.judge_read(found, request.began, page) {
                return self.fail(broken.rule, request, &broken.text);
            }
        }
    }

    fn judge_flush(&mut self, request: &InFlight, result: Result<(), IoError>) {
        let client = &mut self.clients[request.client];
        let export = client.export;
        let name = client.name;
        let is_owed = core::mem::replace(&mut client.is_owed, false);
        if result.is_ok() {
            if is_owed {
                // Whether it was reported to another connection.
                let rule = if self.unreported[export] { "D6" } else { "D5" };
                return self.fail(rule, request, "success, though a write has failed");
            }
            self.counts.promises += 1;
            self.histories.flush(export, request.began, name);
            return;
        }
        self.counts.reports += 1;
        self.unreported[export] = false;
        if !is_owed && self.failed[export].0 < request.began {
            self.fail("D5", request, "a failed write is reported once more");
        }
    }

    /// Power is lost, or the server killed: everything that was acknowledged has to survive.
    fn cut_power(&mut self, is_cut: bool, restarts: bool) {
        self.note("cut", &(is_cut, restarts));
        self.counts.cuts += 1;
        let mut left = Vec::new();
        for export in 0..self.stores.len() {
            let works: Vec<_> = self.works.iter().filter(|work| work.export == export).collect();
            let pages = match is_cut {
                true => self.stores[export].cut(&works, &mut self.rng),
                false => self.stores[export].kill(&works, &mut self.rng),
            };
            self.judge_survivors(export, &pages, is_cut);
            left.push(pages);
        }
        if restarts {
            self.restart(&left);
        }
    }

    fn judge_survivors(&mut self, export: usize, pages: &[Page], is_cut: bool) {
        for (place, page) in pages.iter().enumerate() {
            let first = place * PAGE_CELLS;
            let page = &page[..self.stores[export].cells_of(place)];
            let mut judged = self.histories.judge_page(export, first, page);
            for (cell, number) in (first..).zip(page) {
                let found = Finding { export, cell, number: *number };
                judged = judged.and_then(|()| self.histories.judge_survivor(found, is_cut));
            }
            if let Err(broken) = judged {
                let text =
                    format!("after {}: {}", if is_cut { "a cut" } else { "a kill" }, broken.text);
                self.broken.get_or_insert(BrokenRule { text, ..broken });
            }
        }
    }

    /// The server starts again on the surviving data.
    fn restart(&mut self, left: &[Vec<Page>]) {
        self.counts.restarts += 1;
        let moment = self.tick();
        for (store, pages) in self.stores.iter_mut().zip(left) {
            store.restart(pages);
        }
        let numbers: Vec<Vec<Number>> = left.iter().map(|pages| pages.concat()).collect();
        self.histories.restart(moment, &numbers);
        self.works.clear();
        self.requests.iter_mut().for_each(|request| *request = None);
        self.frames.fill([0; PAGE_CELLS]);
        self.unreported.fill(false);
        self.tick();
        self.path = new_path(&self.scenario);
        (0..self.clients.len()).for_each(|place| self.connect(place));
    }

    /// Completes everything in flight, even if a store stays full. Then all stores work again, and
    /// everything is written to disk.
    fn finish(&mut self) {
        if self.heals.is_some() {
            self.heals = Some(self.now + WAIT_MAX + WAIT_MAX);
            self.drain();
        }
        for store in &mut self.stores {
            (store.is_full, store.fail_ppm) = (false, 0);
        }
        (self.heals, self.slow) = (None, 1);
        self.drain();
        // The first flush may have to report what failed.
        for _ in 0..2 {
            for place in 0..self.clients.len() {
                if self.broken.is_none() {
                    self.begin(place, DiskOp::Flush);
                    self.drain();
                }
            }
        }
        self.cut_power(true, true);
        for place in 0..self.clients.len() {
            let len = self.scenario.exports[self.clients[place].export] as u64 * CELL;
            if self.broken.is_none() {
                self.begin(place, DiskOp::Read { offset: 0, len });
                self.drain();
            }
        }
    }

    /// All requests end.
    fn drain(&mut self) {
        for _ in 0..EVENTS_MAX {
            if self.broken.is_some() || self.requests.iter().all(Option::is_none) {
                return;
            }
            if self.next_event().is_none() {
                break;
            }
            self.advance();
        }
        let waits = self.requests.iter().flatten().map(|request| format!("{:?}", request.op));
        let text = format!("{} wait for ever", waits.collect::<Vec<_>>().join(", "));
        let rule = self.rule_of_waits();
        self.broken.get_or_insert(BrokenRule::new(rule, text));
    }

    /// No request waits longer than the stores' time and the bound.
    fn look_at_ages(&mut self) {
        let old = |request: &&InFlight| self.now.since(request.since) > WAIT_MAX;
        if let Some(request) = self.requests.iter().flatten().find(old) {
            let text = format!("{:?} waits longer than {WAIT_MAX:?}", request.op);
            let rule = self.rule_of_waits();
            self.broken.get_or_insert(BrokenRule::new(rule, text));
        }
    }

    /// The rule that is broken when a request is not answered.
    fn rule_of_waits(&self) -> &'static str {
        let oldest = self.requests.iter().flatten().min_by_key(|request| request.began);
        let is_full = self.stores.iter().any(|store| store.is_full);
        match oldest {
            Some(one) if is_full && matches!(one.op, DiskOp::Read { .. }) => "D10",
            Some(_) if is_full => "D9",
            Some(one) if one.began < self.vanished_at => "D11",
            Some(_) | None => "D12",
        }
    }

    fn fail(&mut self, rule: &'static str, request: &InFlight, text: &str) {
        let InFlight { client, op, number, .. } = request;
        let text = format!("{op:?} of connection {client}, write {number}: {text}");
        self.broken.get_or_insert(BrokenRule::new(rule, text));
    }

    fn tick(&mut self) -> Moment {
        self.moment += 1;
        self.moment
    }

    /// Everything that happens goes into the trace.
    fn note(&mut self, what: &str, event: &dyn Debug) {
        const RECENT: usize = 30;
        let line = format!("{} {what} {event:?}", self.now.0);
        for byte in line.bytes() {
            self.counts.trace =
                (self.counts.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(line);
    }
}

fn new_path(scenario: &DiskScenario) -> DiskPath {
    let mut path = DiskPath::new(&scenario.config, scenario.policies());
    #[cfg(feature = "seeded-bugs")]
    if let Some(bug) = scenario.bug {
        path.seed_bug(bug);
    }
    for cells in &scenario.exports {
        path.add_export(*cells as u64 * CELL);
    }
    path
}

/// The cells of a request, from the first to before the second.
fn cells_of(op: &DiskOp) -> (usize, usize) {
    let (offset, len) = match *op {
        DiskOp::Read { offset, len }
        | DiskOp::Write { offset, len, .. }
        | DiskOp::Zero { offset, len, .. }
        | DiskOp::Prefetch { offset, len } => (offset, len),
        DiskOp::Flush => (0, 0),
    };
    ((offset / CELL) as usize, ((offset + len) / CELL) as usize)
}

fn changes(op: &DiskOp) -> bool {
    matches!(op, DiskOp::Write { .. } | DiskOp::Zero { .. })
}

fn is_durable(op: &DiskOp) -> bool {
    matches!(op, DiskOp::Write { durable: true, .. } | DiskOp::Zero { durable: true, .. })
}

/// From when on a request counts as not answered, whatever stores do.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// Events after which requests count as waiting for ever.
const EVENTS_MAX: u32 = 300_000;
