//! A machine to try things on: knobs that behave like the kernel's, processes with open files, a
//! disk for the journal, and a moment at which everything ends.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use forebay_live::journal::{Disk, Found, Journal, Note};
use forebay_live::knob::{FileGone, Held, Kernel, Knob, OpenFile, Steering, Terms, Value};
use forebay_live::number::{DevNumber, FileKey};

pub(crate) const DISK: DevNumber = DevNumber { major: 7, minor: 0 };
pub(crate) const SHARE: DevNumber = DevNumber { major: 0, minor: 45 };
pub(crate) const WINDOW: Knob = Knob::ReadAheadKb(DISK);
pub(crate) const STRICT: Knob = Knob::StrictLimit(DISK);
pub(crate) const WBT: Knob = Knob::WbtLatUsec(DISK);
pub(crate) const FINE: Knob = Knob::MaxRatioFine(DISK);

/// The machine. Clones are the same machine.
#[derive(Clone)]
pub(crate) struct Model(Arc<Mutex<World>>);

/// What there is.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) numbers: BTreeMap<String, u64>,
    pub(crate) texts: BTreeMap<String, String>,
    pub(crate) nodes: BTreeMap<String, u64>,
    /// Descriptions and their windows, in KiB.
    pub(crate) windows: BTreeMap<OpenFile, u64>,
    /// Errors of writes, by path.
    pub(crate) refuses: BTreeMap<String, i32>,
    pub(crate) journal: Option<Vec<u8>>,
    /// What a loss of power would leave of it.
    pub(crate) durable: Option<Vec<u8>>,
    /// Bytes that the journal's disk has room for.
    pub(crate) room: Option<usize>,
    /// Steps so far: whatever changes something.
    pub(crate) steps: u64,
    pub(crate) dies: Option<Death>,
    pub(crate) is_dead: bool,
    /// Files in the order in which they were written.
    pub(crate) written: Vec<String>,
    /// Knobs that were written without being on record.
    pub(crate) unrecorded: Vec<String>,
    /// The disk's window whenever a description was taken hold of, in KiB.
    pub(crate) held_under: Vec<u64>,
}

/// When everything ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Death {
    /// Before this step, counted from 0.
    pub(crate) step: u64,
    /// Bytes of the step that still happen, if it adds to the journal.
    pub(crate) torn: usize,
}

impl Model {
    /// A loop disk and a network share, on a machine with the usual limits.
    pub(crate) fn new() -> Self {
        let mut world = World::default();
        for (number, node, window, fine) in
            [(DISK, 6990, 8192, 1_000_000), (SHARE, 7001, 128, 10_000)]
        {
            let bdi = format!("/sys/class/bdi/{number}");
            world.nodes.insert(bdi.clone(), node);
            for (name, value) in [
                ("read_ahead_kb", window),
                ("strict_limit", 0),
                ("max_ratio_fine", fine),
                ("max_ratio", fine / 10_000),
            ] {
                world.numbers.insert(format!("{bdi}/{name}"), value);
            }
        }
        let queue = [
            ("rotational", 1),
            ("max_sectors_kb", 4096),
            ("optimal_io_size", 0),
            ("wbt_lat_usec", 2000),
        ];
        for (name, value) in queue {
            world.numbers.insert(format!("/sys/dev/block/{DISK}/queue/{name}"), value);
        }
        world.numbers.insert(format!("/sys/dev/block/{DISK}/diskseq"), 9);
        world.numbers.insert(format!("/sys/dev/block/{DISK}/size"), 1 << 20);
        let vm = [
            ("dirty_ratio", 20),
            ("dirty_bytes", 0),
            ("dirty_background_ratio", 10),
            ("dirty_background_bytes", 0),
            ("dirty_expire_centisecs", 3000),
        ];
        for (name, value) in vm {
            world.numbers.insert(format!("/proc/sys/vm/{name}"), value);
        }
        let mounts = "70 1 0:45 / /mnt rw - nfs4 server:/home rw\n";
        world.texts.insert("/proc/self/mountinfo".to_owned(), mounts.to_owned());
        let disk = "MAJOR=7\nMINOR=0\nDEVNAME=loop0\n";
        world.texts.insert(format!("/sys/dev/block/{DISK}/uevent"), disk.to_owned());
        world.texts.insert("/proc/vmstat".to_owned(), "nr_dirty_threshold 1000000\n".to_owned());
        world.windows.extend((3..6).map(|fd| (open_file(fd), 8192)));
        Self(Arc::new(Mutex::new(world)))
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub(crate) fn opened(&self) -> (Journal, Vec<Note>) {
        Journal::open(Box::new(self.clone()), "boot").unwrap()
    }

    /// Steers it: everything is allowed, at any time.
    pub(crate) fn steering(&self) -> Steering {
        self.steering_on(Terms {
            period: forebay_core::time::Duration::ZERO,
            machine: true,
            wbt: true,
        })
    }

    pub(crate) fn steering_on(&self, terms: Terms) -> Steering {
        Steering::on(Box::new(self.clone()), self.opened().0, terms).unwrap().0
    }

    pub(crate) fn stands(&self, knob: Knob) -> Value {
        knob.read(self).unwrap()
    }

    /// Why a knob is changed, as the journal has it.
    pub(crate) fn reason(&self, knob: Knob) -> Option<String> {
        let found = Found::of(self.world().journal.as_deref().unwrap_or_default());
        found.state.entries.get(&knob).map(|entry| entry.why.clone())
    }

    /// Another program writes.
    pub(crate) fn write_as_other(&self, knob: Knob, value: Value) {
        let (Value::Number(number) | Value::Ratio(number) | Value::Bytes(number)) = value;
        self.world().store(&knob.path(value), number);
    }

    /// After a crash: with what was written, or with what a loss of power had left of the journal.
    pub(crate) fn revive(&self, power_was_lost: bool) {
        let mut world = self.world();
        world.is_dead = false;
        world.dies = None;
        if power_was_lost {
            world.journal = world.durable.clone();
        }
    }
}

impl World {
    /// Counts a step; an error if everything ends before it.
    fn step(&mut self) -> io::Result<()> {
        if self.is_dead || self.dies.is_some_and(|death| death.step == self.steps) {
            self.is_dead = true;
            return Err(io::Error::other("killed"));
        }
        self.steps += 1;
        Ok(())
    }

    /// What the kernel does with a number.
    fn store(&mut self, path: &str, number: u64) {
        let present = self.numbers.get(path).copied();
        let mut put = |path: String, number| assert!(self.numbers.insert(path, number).is_some());
        let other = |from, to| path.replace(from, to);
        match path.rsplit('/').next().unwrap() {
            "read_ahead_kb" => put(path.to_owned(), number / 4 * 4),
            "max_ratio" => {
                put(path.to_owned(), number);
                put(other("max_ratio", "max_ratio_fine"), number * 10_000);
            }
            "max_ratio_fine" => {
                put(path.to_owned(), number);
                put(other("max_ratio_fine", "max_ratio"), number / 10_000);
            }
            "dirty_ratio" if present == Some(number) => {}
            "dirty_ratio" | "dirty_background_ratio" => {
                put(path.to_owned(), number);
                put(other("ratio", "bytes"), 0);
            }
            "dirty_bytes" | "dirty_background_bytes" => {
                put(path.to_owned(), number);
                put(other("bytes", "ratio"), 0);
            }
            _ => put(path.to_owned(), number),
        }
    }

    /// Whether a knob is on record durably: its writer may be killed right after.
    fn is_recorded(&self, path: &str) -> bool {
        let found = Found::of(self.durable.as_deref().unwrap_or_default());
        let kinds = [Value::Number(0), Value::Ratio(0), Value::Bytes(0)];
        found.state.entries.keys().any(|knob| kinds.iter().any(|kind| knob.path(*kind) == path))
    }
}

impl Kernel for Model {
    fn text(&self, path: &str) -> io::Result<String> {
        let world = self.world();
        let number = world.numbers.get(path).map(|number| format!("{number}\n"));
        number.or_else(|| world.texts.get(path).cloned()).ok_or_else(absent)
    }

    fn write(&self, path: &str, number: u64) -> io::Result<()> {
        let mut world = self.world();
        world.step()?;
        if let Some(errno) = world.refuses.get(path) {
            return Err(io::Error::from_raw_os_error(*errno));
        }
        if !world.numbers.contains_key(path) {
            return Err(absent());
        }
        if !world.is_recorded(path) {
            world.unrecorded.push(path.to_owned());
        }
        world.store(path, number);
        world.written.push(path.rsplit('/').next().unwrap().to_owned());
        Ok(())
    }

    fn node(&self, path: &str) -> io::Result<u64> {
        self.world().nodes.get(path).copied().ok_or_else(absent)
    }

    fn hold(&self, file: &OpenFile) -> Result<Held, FileGone> {
        let mut world = self.world();
        let present = world.numbers[&WINDOW.path(Value::Number(0))];
        world.held_under.push(present);
        Ok(Held::by_name(*file))
    }

    fn latch(&self, held: &Held) -> Result<(), FileGone> {
        let mut world = self.world();
        let killed = |source| FileGone::Refused { step: "fadvise", source };
        world.step().map_err(killed)?;
        let present = world.numbers[&WINDOW.path(Value::Number(0))];
        *world.windows.get_mut(held.file()).ok_or(FileGone::NoProcess)? = present;
        Ok(())
    }
}

impl Disk for Model {
    fn load(&self) -> io::Result<Vec<u8>> {
        Ok(self.world().journal.clone().unwrap_or_default())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.world();
        let was_alive = !world.is_dead;
        if let Err(error) = world.step() {
            if was_alive {
                let torn = world.dies.map_or(0, |death| death.torn.min(bytes.len()));
                world.journal.get_or_insert_default().extend(&bytes[..torn]);
            }
            return Err(error);
        }
        let length = world.journal.as_ref().map_or(0, Vec::len) + bytes.len();
        if world.room.is_some_and(|room| length > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        world.journal.get_or_insert_default().extend(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut world = self.world();
        world.step()?;
        world.durable = world.journal.clone();
        Ok(())
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.world();
        world.step()?;
        if world.room.is_some_and(|room| bytes.len() > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        world.journal = Some(bytes.to_vec());
        world.durable = world.journal.clone();
        Ok(())
    }

    fn set_aside(&mut self) -> io::Result<String> {
        self.world().step().map(|()| "a copy".to_owned())
    }

    fn clear(&mut self) -> io::Result<()> {
        let mut world = self.world();
        world.step()?;
        world.journal = None;
        world.durable = None;
        Ok(())
    }
}

/// One of the files that process 77 has open.
pub(crate) fn open_file(fd: u32) -> OpenFile {
    let file = FileKey { dev: DISK, ino: u64::from(fd) + 100 };
    OpenFile { pid: 77, started: 1234, fd, file }
}

fn absent() -> io::Error {
    io::Error::from_raw_os_error(2)
}
