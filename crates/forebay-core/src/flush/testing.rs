//! Dirty pages without a device, for the flush rules' vectors.
//!
//! A device takes up to its slots of pages and keeps them until a test completes them. A rule that
//! does not come to an end at one moment is stopped by a budget of calls.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use std::collections::VecDeque;

use super::{Demand, DirtyFile, DirtyPages, Flush, Sent, Spec, Written};
use crate::time::{Duration, Instant};
use crate::units::{DeviceId, FileId, PageIndex};
use crate::writeback::{Knobs, Levels};

/// What a rule may call in one run for every page that is dirty, and besides.
const CALLS: (u64, u64) = (4, 1_000);

/// One written page, or a piece of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) at: Instant,
    pub(super) file: FileId,
    /// None for metadata.
    pub(super) page: Option<PageIndex>,
}

/// A file of the model.
#[derive(Debug, Default)]
struct File {
    /// Dirty pages and their place in the order of age.
    dirty: BTreeMap<PageIndex, u64>,
    /// Pages that became dirty under writeback, and when they become old.
    again: BTreeMap<PageIndex, Instant>,
    since: Option<Instant>,
    /// When its metadata changed first.
    changed: Option<Instant>,
}

/// A device of the model.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) slots: usize,
    pub(super) drain: Option<u64>,
    in_flight: VecDeque<Write>,
    levels: Levels,
}

/// All dirty pages. File `n` lies on device `n % devices`.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) now: Instant,
    pub(super) knobs: Knobs,
    pub(super) total: u64,
    pub(super) short: bool,
    pub(super) devices: Vec<Device>,
    /// Everything that was written so far.
    pub(super) log: Vec<Write>,
    /// How many pages each pass wrote.
    pub(super) passes: Vec<usize>,
    files: BTreeMap<FileId, File>,
    /// From the page that has been dirty longest on.
    order: BTreeMap<u64, (FileId, PageIndex, Instant)>,
    turn: u64,
    logged: usize,
    calls: u64,
}

impl Model {
    fn new(knobs: Knobs, devices: usize) -> Self {
        let device = || Device {
            slots: usize::MAX,
            drain: None,
            in_flight: VecDeque::new(),
            levels: Levels::default(),
        };
        Self {
            now: Instant::ZERO,
            knobs,
            total: 100_000,
            short: false,
            devices: (0..devices).map(|_| device()).collect(),
            log: Vec::new(),
            passes: Vec::new(),
            files: BTreeMap::new(),
            order: BTreeMap::new(),
            turn: 0,
            logged: 0,
            calls: 0,
        }
    }

    fn device_of(&self, file: FileId) -> usize {
        file.index() % self.devices.len()
    }

    /// Makes a page dirty; whether it was clean.
    fn dirty(&mut self, file: FileId, page: PageIndex) -> bool {
        let (now, device) = (self.now, self.device_of(file));
        let entry = self.files.entry(file).or_default();
        entry.changed.get_or_insert(now);
        if entry.dirty.contains_key(&page) || entry.again.contains_key(&page) {
            return false;
        }
        entry.since.get_or_insert(now);
        let due = now + self.knobs.expire;
        let lane = &mut self.devices[device];
        lane.levels.dirtied += 1;
        if lane.in_flight.iter().any(|way| way.file == file && way.page == Some(page)) {
            entry.again.insert(page, due);
        } else {
            self.join(file, page, due);
        }
        true
    }

    /// Puts a page at the end of the dirty ones.
    fn join(&mut self, file: FileId, page: PageIndex, due: Instant) {
        let entry = self.files.get_mut(&file).expect("a dirty file has been changed");
        entry.dirty.insert(page, self.turn);
        self.order.insert(self.turn, (file, page, due));
        self.turn += 1;
        let device = self.device_of(file);
        self.devices[device].levels.dirty += 1;
    }

    /// Ends a write.
    fn end(&mut self, write: Write) {
        let Some(page) = write.page else { return };
        let device = self.device_of(write.file);
        self.devices[device].levels.writeback -= 1;
        self.devices[device].levels.written += 1;
        let entry = self.files.get_mut(&write.file).expect("a written file has been changed");
        if let Some(due) = entry.again.remove(&page) {
            self.join(write.file, page, due);
        }
    }

    fn send(&mut self, file: FileId, page: Option<PageIndex>) -> Sent {
        let device = self.device_of(file);
        let (write, device) = (Write { at: self.now, file, page }, &mut self.devices[device]);
        if device.in_flight.len() >= device.slots {
            return Sent::Full;
        }
        device.in_flight.push_back(write);
        self.log.push(write);
        let entry = self.files.get_mut(&file).expect("a written file has been changed");
        if let Some(page) = page {
            device.levels.dirty -= 1;
            device.levels.writeback += 1;
            let turn = entry.dirty.remove(&page).expect("a written page is dirty");
            self.order.remove(&turn);
            if entry.dirty.is_empty() && entry.again.is_empty() {
                entry.since = None;
            }
        } else {
            entry.changed = None;
        }
        Sent::Page
    }

    fn count(&mut self) {
        self.calls += 1;
        let budget = self.turn * CALLS.0 + CALLS.1;
        assert!(self.calls <= budget, "a rule does not come to an end at one moment");
    }
}

impl DirtyPages for Model {
    fn now(&self) -> Instant {
        self.now
    }

    fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    fn total(&self) -> u64 {
        self.total
    }

    fn all(&self) -> Levels {
        let mut all = Levels::default();
        for device in &self.devices {
            all.dirty += device.levels.dirty;
            all.writeback += device.levels.writeback;
            all.dirtied += device.levels.dirtied;
            all.written += device.levels.written;
        }
        all
    }

    fn device(&self, device: DeviceId) -> Levels {
        self.devices[device.index()].levels
    }

    fn drain(&self, device: DeviceId) -> Option<u64> {
        self.devices[device.index()].drain
    }

    fn memory_is_short(&self) -> bool {
        self.short
    }

    fn file(&self, file: FileId) -> DirtyFile {
        let device = DeviceId(self.device_of(file) as u32);
        match self.files.get(&file) {
            Some(entry) => {
                DirtyFile { device, dirty: entry.dirty.len() as u64, since: entry.since }
            }
            None => DirtyFile { device, dirty: 0, since: None },
        }
    }

    fn oldest_due(&self) -> Option<Instant> {
        self.order.values().next().map(|&(_, _, due)| due)
    }

    fn write_oldest(&mut self) -> Sent {
        self.count();
        match self.order.values().next() {
            Some(&(file, page, _)) => self.send(file, Some(page)),
            None => Sent::Nothing,
        }
    }

    fn write_due(&mut self) -> Sent {
        self.count();
        match self.order.values().find(|(_, _, due)| *due <= self.now) {
            Some(&(file, page, _)) => self.send(file, Some(page)),
            None => Sent::Nothing,
        }
    }

    fn write_file(&mut self, file: FileId, from: PageIndex, most: u64) -> Written {
        self.count();
        let mut written = Written { pages: 0, next: from, end: Sent::Page };
        while written.pages < most {
            let next =
                self.files.get(&file).and_then(|entry| entry.dirty.range(written.next..).next());
            let Some((&page, _)) = next else {
                return Written { end: Sent::Nothing, ..written };
            };
            if self.send(file, Some(page)) == Sent::Full {
                return Written { end: Sent::Full, ..written };
            }
            written.pages += 1;
            written.next = page + 1;
        }
        written
    }

    fn write_inodes(&mut self, changed: Instant) -> Sent {
        self.count();
        let old = self.files.iter().find(|(_, file)| file.changed.is_some_and(|at| at < changed));
        match old {
            Some((&file, _)) => self.send(file, None),
            None => Sent::Nothing,
        }
    }

    fn end_pass(&mut self) {
        self.count();
        let written = self.log.iter().skip(self.logged).filter(|write| write.page.is_some());
        self.passes.push(written.count());
        self.logged = self.log.len();
    }
}

/// A rule and the pages that it writes.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) rule: Box<dyn Flush>,
    pub(super) pages: Model,
}

impl Bench {
    /// A fresh rule, 100 000 pages of memory, one device that takes everything.
    pub(super) fn new(spec: &str) -> Self {
        Self::with_devices(spec, 1)
    }

    /// The same with several devices.
    pub(super) fn with_devices(spec: &str, devices: usize) -> Self {
        let rule = Spec::parse(spec).unwrap().build();
        let pages = Model::new(rule.knobs(), devices);
        Self { rule, pages }
    }

    /// Makes a page dirty and runs the rule if the page requests it.
    pub(super) fn dirty(&mut self, file: u32, page: PageIndex) -> Demand {
        let demand = self.touch(file, page);
        if demand != Demand::Nothing {
            self.run();
        }
        demand
    }

    /// Makes a range of pages dirty, one by one.
    pub(super) fn dirty_range(&mut self, file: u32, pages: core::ops::Range<PageIndex>) {
        for page in pages {
            self.dirty(file, page);
        }
    }

    /// Makes a page dirty without running the rule.
    pub(super) fn touch(&mut self, file: u32, page: PageIndex) -> Demand {
        match self.pages.dirty(FileId(file), page) {
            true => self.rule.on_dirtied(FileId(file), &self.pages),
            false => Demand::Nothing,
        }
    }

    /// Runs the rule.
    pub(super) fn run(&mut self) {
        self.pages.calls = 0;
        self.rule.run(&mut self.pages);
    }

    /// Lets time pass, with the rule's timeouts; completes nothing.
    pub(super) fn advance_to(&mut self, then: Instant) {
        let mut runs = 0;
        while let Some(timeout) = self.rule.timeout().filter(|at| *at <= then) {
            assert!(timeout > self.pages.now || runs == 0, "a timeout lies ahead after its run");
            self.pages.now = timeout.max(self.pages.now);
            self.run();
            runs += 1;
        }
        self.pages.now = then;
    }

    /// Ends up to `most` writes of a device, oldest first, and runs the rule if there were any.
    pub(super) fn complete(&mut self, device: usize, most: usize) -> usize {
        let lane = &mut self.pages.devices[device];
        let most = most.min(lane.in_flight.len());
        let ended: Vec<_> = lane.in_flight.drain(..most).collect();
        for write in ended {
            self.pages.end(write);
        }
        if most > 0 {
            self.run();
        }
        most
    }

    /// Ends all writes, and those that follow, until the devices are idle.
    pub(super) fn complete_all(&mut self) {
        while (0..self.pages.devices.len())
            .map(|device| self.complete(device, usize::MAX))
            .sum::<usize>()
            > 0
        {}
    }

    /// The pages written since the last call, as `file:first+count` in the order of their going.
    pub(super) fn take_log(&mut self) -> Vec<(u32, PageIndex, u64)> {
        let mut runs: Vec<(u32, PageIndex, u64)> = Vec::new();
        for write in self.pages.log.drain(..) {
            let Some(page) = write.page else { continue };
            match runs.last_mut() {
                Some((file, first, count)) if *file == write.file.0 && *first + *count == page => {
                    *count += 1;
                }
                Some(_) | None => runs.push((write.file.0, page, 1)),
            }
        }
        self.pages.logged = 0;
        runs
    }
}

/// Jiffies of Linux 2.2.
pub(super) fn jiffies(count: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(10 * count)
}
