//! A machine under a load, by a clock that is set.

use std::collections::BTreeSet;
use std::path::Path;

use forebay_core::time::{Duration, Instant};
use forebay_live::daemon::{Wakes, Woken, World};
use forebay_live::knob::{Knob, OpenFile, Value};
use forebay_live::machine::{Bdi, Device, Kind, Machine, Queue};
use forebay_live::number::{DevNumber, FileKey};
use forebay_live::signal::{BdiCounts, DiskCounts, Sample};
use forebay_live::steer::User;
use forebay_live::steer::file::{Held, Unreachable};
use forebay_live::steer::files::Progress;
use forebay_live::steer::temporary::{FileNow, WrittenFile};
use forebay_live::steer::writers::Written;
use forebay_live::trace::{DirtiedInode, Drained, Event, Readahead, TraceError, What, Why};

use crate::model::{DISK, FINE, Model, STRICT, WBT, open_file};

/// Something that happens.
pub(crate) type Act = fn(&mut Script);

/// The machine under a load, until the script ends.
pub(crate) struct Script {
    pub(crate) model: Model,
    pub(crate) now: Instant,
    pub(crate) end: Instant,
    /// Process 77 faults in this file, in no order, while it runs.
    pub(crate) faults: Option<OpenFile>,
    pub(crate) exits: Option<Instant>,
    /// Process 80 does the same with a descriptor of its own, and whether the kernel says that both
    /// are of one description.
    pub(crate) partner: Option<(OpenFile, Option<bool>)>,
    pub(crate) progress: u64,
    /// Events that were not handed out.
    pub(crate) events: u64,
    pub(crate) rest: f64,
    /// A writer that still wants to write so many bytes.
    pub(crate) wants: u64,
    pub(crate) bdi: BdiCounts,
    pub(crate) disk: DiskCounts,
    /// The name of the file that it writes.
    pub(crate) written_file: Option<&'static str>,
    /// The most that was unwritten.
    pub(crate) peak: u64,
    /// What happens at a time.
    pub(crate) acts: Vec<(Instant, Act)>,
    pub(crate) closed: bool,
    /// How long it takes to read the counters.
    pub(crate) slow: Duration,
    /// How often it was waited for a burst, if what becomes dirty ends a wait; something always
    /// does.
    pub(crate) bursts: Option<u64>,
    pub(crate) page_size: u64,
    /// How often the counters were read, those of disks, and those of the disk's writeback.
    pub(crate) looks: u64,
    pub(crate) disk_looks: u64,
    pub(crate) bdi_looks: u64,
    /// When process 77 began.
    pub(crate) started: u64,
    /// What a knob was at some time.
    pub(crate) seen: Option<Value>,
    /// Why it was changed, as the journal has it.
    pub(crate) why: Option<String>,
    /// Whether something calls fsync on the disk at each look.
    pub(crate) syncs: bool,
}

impl Script {
    pub(crate) fn new(model: &Model, seconds: u64) -> Self {
        let (number, name) = (DISK, "loop0".to_owned());
        Self {
            model: model.clone(),
            now: Instant::ZERO + Duration::from_secs(100),
            end: Instant::ZERO + Duration::from_secs(100 + seconds),
            faults: None,
            exits: None,
            partner: None,
            progress: 0,
            events: 0,
            rest: 0.0,
            wants: 0,
            written_file: None,
            bdi: BdiCounts { number: DISK, ..BdiCounts::default() },
            disk: DiskCounts { number, name, ..DiskCounts::default() },
            peak: 0,
            acts: Vec::new(),
            closed: false,
            slow: Duration::ZERO,
            bursts: None,
            page_size: 4_096,
            looks: 0,
            disk_looks: 0,
            bdi_looks: 0,
            started: 1_234,
            seen: None,
            why: None,
            syncs: true,
        }
    }

    pub(crate) fn at(&mut self, second: u64, act: Act) {
        self.acts.push((Instant::ZERO + Duration::from_secs(100 + second), act));
    }

    pub(crate) fn window(&self, file: &OpenFile) -> u64 {
        self.model.world().windows[file]
    }

    fn lives(&self) -> bool {
        self.exits.is_none_or(|exit| self.now < exit)
    }

    /// 3000 requests and 125 MiB a second for reads, 20 MB a second for writes.
    fn pass(&mut self, length: Duration) {
        let seconds = length.as_nanos() as f64 / 1e9;
        self.now += length;
        if let Some(file) = self.faults.filter(|_| self.lives()) {
            let window = self.window(&file) as f64 * 1_024.0;
            let rate = (131_072_000.0 / window).min(3_000.0);
            self.rest += rate * seconds;
            self.progress += self.rest as u64;
            self.events += self.rest as u64;
            self.rest = self.rest.fract();
        }
        let number = |knob: Knob| match self.model.stands(knob) {
            Value::Number(number) => number,
            Value::Ratio(_) | Value::Bytes(_) => 0,
        };
        let global = 4_096_000_000;
        let limit = if number(STRICT) == 1 { global / 1_000_000 * number(FINE) } else { global };
        let dirty = self.bdi.reclaimable + self.bdi.writeback;
        let written = ((20_000_000.0 * seconds) as u64).min(dirty + self.wants);
        let left = dirty + self.wants - written;
        let dirty = left.min((limit / 8 * 7).max(dirty.saturating_sub(written)));
        self.wants = left - dirty;
        self.peak = self.peak.max(dirty);
        let before = self.bdi.reclaimable + self.bdi.writeback;
        self.bdi.dirtied += (dirty + written).saturating_sub(before);
        self.bdi.written += written;
        self.bdi.writeback = dirty.min(1 << 22);
        self.bdi.reclaimable = dirty - self.bdi.writeback;
        self.disk.writes.sectors += written / 512;
    }
}

impl World for Script {
    fn now(&mut self) -> Instant {
        self.now
    }

    fn levels(&mut self, into: &mut Sample) -> Result<(), String> {
        self.now += self.slow;
        self.looks += 1;
        assert!(self.now < self.end + Duration::from_secs(60), "it does not end");
        into.at = self.now;
        into.vm.dirty_threshold = 1_000_000;
        into.vm.writeback = self.bdi.writeback / 4_096;
        into.vm.dirtied = (self.bdi.written + self.bdi.reclaimable + self.bdi.writeback) / 4_096;
        (into.vm.kib_in, into.vm.kib_out) = (self.progress, 1 + self.disk.writes.sectors / 2);
        Ok(())
    }

    fn rest(&mut self, into: &mut Sample) -> Result<(), String> {
        self.disk_looks += 1;
        into.available = 20 << 30;
        into.disks = vec![self.disk.clone()];
        Ok(())
    }

    fn machine(&mut self) -> Machine {
        let bdi = Bdi {
            read_ahead_kb: 8_192,
            max_ratio: 100,
            max_ratio_fine: Some(1_000_000),
            min_ratio: 0,
            strict_limit: Some(false),
        };
        let name = "loop0".to_owned();
        let bdi = Some(bdi);
        let wbt_lat_usec = match self.model.stands(WBT) {
            Value::Number(us) => Some(us),
            Value::Ratio(_) | Value::Bytes(_) => None,
        };
        let queue = Some(Queue { wbt_lat_usec, ..Queue::default() });
        let disk = Device { number: DISK, name, kind: Kind::Loop, queue, bdi, ..Device::default() };
        Machine { devices: vec![disk], page_size: self.page_size, ..Machine::default() }
    }

    fn drain(&mut self, each: &mut dyn FnMut(Event)) -> Result<Drained, TraceError> {
        if self.syncs {
            for _ in 0..2 {
                each(Event { at: self.now.0, pid: 79, what: What::Sync { dev: DISK } });
            }
        }
        let count = std::mem::take(&mut self.events);
        let Some(file) = self.faults else { return Ok(Drained::default()) };
        let partner = self.partner.map(|(file, _)| (81, file));
        for (pid, file) in [(78, file)].into_iter().chain(partner) {
            let window = self.window(&file) / 4;
            for step in 0..count {
                let (why, pages, index) = (Why::Order, window, step * 7_919 % 1_000_003);
                let what =
                    What::Readahead(Readahead { why, file: file.file, index, pages, window });
                each(Event { at: self.now.0, pid, what });
            }
        }
        Ok(Drained { events: count, lost: 0 })
    }

    fn process(&mut self, thread: u32) -> Option<u32> {
        match thread {
            78 => Some(77),
            81 => Some(80),
            _ => None,
        }
    }

    fn progress(&mut self, process: u32) -> Option<Progress> {
        let (started, major_faults) = (self.started, self.progress);
        let progress = Progress { started, major_faults, ..Progress::default() };
        ([77, 80].contains(&process) && self.lives()).then_some(progress)
    }

    fn is_open(&self, file: &OpenFile) -> bool {
        let partner = self.partner.map(|(file, _)| file);
        self.lives() && self.faults.into_iter().chain(partner).any(|open| open == *file)
    }

    fn is_there(&mut self, process: u32) -> bool {
        [77, 80].contains(&process) && self.lives()
    }

    fn held(&mut self, user: &User) -> Result<Held, Unreachable> {
        if !self.lives() {
            return Err(Unreachable::Exited(user.process));
        }
        if self.closed {
            return Err(Unreachable::Closed(*user));
        }
        let partner = self.partner.map(|(file, _)| file);
        let all = self.faults.into_iter().chain(partner);
        let is_its = |file: &OpenFile| (file.pid, file.file) == (user.process, user.file);
        let descriptors: Vec<OpenFile> = all.filter(is_its).collect();
        match descriptors.is_empty() {
            true => Err(Unreachable::None(*user)),
            false => Ok(Held { descriptors, size: Some(8 << 30), direct: false }),
        }
    }

    fn shares(&mut self, _: &User, _: &User) -> Option<bool> {
        self.partner.and_then(|(_, shares)| shares)
    }

    fn held_on(&mut self, pool: &User, _: &BTreeSet<FileKey>) -> Result<Held, Unreachable> {
        Err(Unreachable::None(*pool))
    }

    fn free(&mut self, _: &Path) -> Option<u64> {
        None
    }

    fn dirtied(&mut self, each: &mut dyn FnMut(DirtiedInode)) {
        if self.written_file.is_some() {
            each(DirtiedInode { file: open_file(3).file, thread: 78 });
        }
    }

    fn written_file(&mut self, _: &User) -> Option<WrittenFile> {
        let path = self.written_file?.into();
        Some(WrittenFile { path, ..WrittenFile::default() })
    }

    fn file_now(&mut self, _: &User, _: &WrittenFile) -> Option<FileNow> {
        let size = self.bdi.reclaimable + self.bdi.writeback;
        self.written_file.map(|_| FileNow { size, is_unlinked: false })
    }

    fn written(&mut self, _: u32, _: &dyn Fn(DevNumber) -> bool) -> Option<Written> {
        None
    }

    fn wait(&mut self, length: Duration, wakes: Wakes) -> Woken {
        let is_dirty = wakes.dirty && self.bursts.is_some();
        let soon = Duration::from_millis(1);
        let would_wake = wakes.events && self.faults.is_some() && self.lives();
        self.pass(if is_dirty || would_wake { soon } else { length });
        while let Some(place) = self.acts.iter().position(|(at, _)| *at <= self.now) {
            let (_, act) = self.acts.remove(place);
            act(self);
        }
        match is_dirty {
            _ if self.now >= self.end => Woken::Stop,
            true => Woken::Dirty,
            false if wakes.events && self.events > 0 => Woken::Events,
            false => Woken::Time,
        }
    }

    fn pause(&mut self, length: Duration) {
        self.bursts = self.bursts.map(|bursts| bursts + 1);
        self.pass(length);
    }

    fn wakes(&self) -> bool {
        self.bursts.is_some()
    }

    fn watched(&self) -> BTreeSet<DevNumber> {
        self.bursts.map(|_| DISK).into_iter().collect()
    }

    fn bdi(&mut self, number: DevNumber) -> Option<BdiCounts> {
        self.bdi_looks += 1;
        (number == DISK).then_some(self.bdi)
    }
}
