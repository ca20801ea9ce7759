//! One run: a machine, its policies, files on its disk, and tasks.

use forebay_core::block::QueueConfig;
use forebay_core::control;
use forebay_core::dispatch;
use forebay_core::drive::drive;
use forebay_core::elevator;
use forebay_core::engine::{self, Config, Engine};
use forebay_core::flush;
use forebay_core::io::Op;
use forebay_core::packed::{self, BlockMap};
use forebay_core::readahead::{self, Readahead, Settings};
use forebay_core::reclaim;
use forebay_core::stats::Stats;
use forebay_core::throttle;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{DeviceId, FileId, HandleId, KIB, PAGE_SECTORS, PAGE_SIZE};
use forebay_core::workload::{Step, Workload};

use crate::machine::{Kernel, Machine, MachineError};
use crate::rng::Rng;
use crate::world::{AtExit, Observer, Record, SimWorld, Traits};

pub use own::{MakePolicy, OwnPolicies};

mod own;

/// A policy for each slot of the path.
#[derive(Clone, Debug)]
pub struct PolicySet {
    /// Which pages to fetch.
    pub readahead: readahead::Spec,
    /// When and how much to write.
    pub flush: flush::Spec,
    /// How the flush rule's knobs follow the load.
    pub controller: control::Spec,
    /// How long a writer waits.
    pub throttle: throttle::Spec,
    /// Which pages leave when memory is short.
    pub reclaim: reclaim::Spec,
    /// In which order the device works.
    pub elevator: elevator::Spec,
    /// Which task runs while it works.
    pub dispatch: dispatch::Spec,
    /// Policies without a name.
    pub own: OwnPolicies,
}

/// A file to be made, by its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewFile {
    /// Its size at the start.
    pub bytes: u64,
    /// Its maximum size.
    pub room: u64,
    /// Whether it has metadata that change with its writes.
    pub inode: bool,
    /// The device that it lies on.
    pub device: u32,
}

/// A machine that is set up and has not started.
pub struct Scenario {
    engine: Engine,
    /// The machine of each device; the first one has the processors and the memory too.
    machines: Vec<Machine>,
    /// For the files of each device.
    readahead: Vec<readahead::Spec>,
    own_readahead: Option<MakePolicy<dyn Readahead>>,
    /// The device of each file, and its first sector.
    files: Vec<(DeviceId, u64)>,
    seed: u64,
    traits: Vec<Traits>,
}

/// What a run came to, apart from its calls, which the observer has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// From the start to the end of the last task.
    pub elapsed: Duration,
    /// From the start until all that was written was safe.
    pub durable: Duration,
    /// How long at least one request was at the device, to the very end.
    pub device_busy: Duration,
    /// How long pages were dirty while the device had no request.
    pub idle_while_dirty: Duration,
    /// What the engine had counted when all was safe.
    pub stats: Stats,
    /// What the engine had counted when the last task ended.
    pub stats_at_exit: Stats,
    /// Pages that were not on the device when the last task ended.
    pub residue: u64,
}

/// What is said of a run that is cut, behind its name.
pub const PAST_CLOCK: &str = "goes on past the end of the virtual clock, 584 years after the start";

impl Outcome {
    /// Whether the run was not over when the clock was.
    pub fn is_cut(&self) -> bool {
        self.elapsed == Instant::END.since(Instant::ZERO)
    }
}

impl PolicySet {
    /// The policies of a machine's kernel.
    ///
    /// # Errors
    /// The machine names a policy that does not exist; says of which key.
    pub fn of(kernel: &Kernel) -> Result<Self, (&'static str, forebay_core::policy::SpecError)> {
        Ok(Self {
            readahead: readahead::Spec::parse(&kernel.readahead)
                .map_err(|error| ("kernel.readahead", error))?,
            flush: flush::Spec::parse(&kernel.flush).map_err(|error| ("kernel.flush", error))?,
            controller: control::Spec::parse(&kernel.controller)
                .map_err(|error| ("kernel.controller", error))?,
            throttle: throttle::Spec::parse(&kernel.throttle)
                .map_err(|error| ("kernel.throttle", error))?,
            reclaim: reclaim::Spec::parse(&kernel.reclaim)
                .map_err(|error| ("kernel.reclaim", error))?,
            elevator: elevator::Spec::parse(&kernel.elevator)
                .map_err(|error| ("kernel.elevator", error))?,
            dispatch: dispatch::Spec::parse(&kernel.dispatch)
                .map_err(|error| ("kernel.dispatch", error))?,
            own: OwnPolicies::default(),
        })
    }

    /// Why the flush rule's levels cannot stand side by side in page memory of `bytes`, if they
    /// cannot: given in different units, they can be compared only there.
    pub fn contradiction(&self, bytes: u64) -> Option<String> {
        let total = bytes / PAGE_SIZE;
        let knobs = self.flush.build().knobs();
        let (background, limit) = (knobs.background.pages(total), knobs.limit.pages(total));
        (background > limit).then(|| {
            format!(
                "{}: the background level of {background} pages lies above the limit of {limit}",
                self.flush
            )
        })
    }
}

impl NewFile {
    /// A file that is only read, or written in place.
    pub const fn fixed(bytes: u64) -> Self {
        Self { bytes, room: bytes, inode: false, device: 0 }
    }

    /// The same on another device.
    #[must_use]
    pub const fn on(self, device: u32) -> Self {
        Self { device, ..self }
    }
}

impl Scenario {
    /// Sets a machine up with its files, numbered in order, and room for `tasks`.
    ///
    /// # Errors
    /// The files do not fit on the device.
    pub fn new(
        machine: &Machine,
        policies: &PolicySet,
        seed: u64,
        tasks: u32,
        files: &[NewFile],
    ) -> Result<Self, MachineError> {
        Self::with_devices(&[machine], policies, seed, tasks, files)
    }

    /// Sets up the first machine with the devices of all in turn, as many as the files lie on.
    ///
    /// # Errors
    /// The files do not fit on their devices.
    ///
    /// # Panics
    /// If there is no machine.
    pub fn with_devices(
        machines: &[&Machine],
        policies: &PolicySet,
        seed: u64,
        tasks: u32,
        files: &[NewFile],
    ) -> Result<Self, MachineError> {
        let machine = *machines.first().expect("there is at least one machine");
        let devices = files.iter().map(|file| file.device).max().unwrap_or(0) + 1;
        let of_devices = || machines.iter().copied().cycle().take(devices as usize);
        let frames = (machine.page_cache_bytes() / PAGE_SIZE).clamp(1, u64::from(u32::MAX) / 2);
        // One call more than tasks: what makes all safe at the end.
        let calls_max = (tasks + 1).min(engine::CALLS_MAX);
        let mut engine = Engine::new(Config { frames: frames as u32, calls_max });
        let PolicySet { flush, controller, throttle, reclaim, own, .. } = policies;
        engine.set_reclaim(own::build(own.reclaim.as_ref(), reclaim));
        engine.let_index_grow();
        let inode = if files.iter().any(|file| file.inode) { PAGE_SIZE } else { 0 };
        let mut places = Vec::new();
        for (number, machine) in (0u32..).zip(of_devices()) {
            let device = engine.add_device(queue(machine));
            engine.set_rules(device, &policies.elevator, &policies.dispatch);
            let here = || files.iter().filter(|file| file.device == number);
            let largest = here().map(|file| file.room).max().unwrap_or(0);
            let starts = machine.layout().place(here().count() as u32, inode + largest, seed)?;
            places.push(starts.into_iter());
        }
        let mut placed = Vec::new();
        for file in files {
            let start = places[file.device as usize].next().expect("each file has a place");
            let sector = start + inode / PAGE_SIZE * PAGE_SECTORS;
            let device = DeviceId(file.device);
            placed.push((device, sector));
            let id = engine.add_growing_file(device, file.bytes, file.room, sector);
            if file.inode {
                engine.set_inode(id, start);
            }
        }
        engine.set_policies(engine::Policies {
            flush: flush.build(),
            controller: controller.build(),
            throttle: own::build(own.throttle.as_ref(), throttle),
        });
        let readahead = of_devices()
            .map(|machine| policies.readahead.clone().with(settings(&machine.kernel())))
            .collect();
        Ok(Self {
            engine,
            machines: of_devices().cloned().collect(),
            readahead,
            own_readahead: own.readahead.clone(),
            files: placed,
            seed,
            traits: Vec::new(),
        })
    }

    /// Where the files begin on their devices, in units of 512 bytes.
    pub fn sectors(&self) -> Vec<u64> {
        self.files.iter().map(|(_, sector)| *sector).collect()
    }

    /// Opens a file, by its place in the list of sizes.
    pub fn open(&mut self, file: u32) -> HandleId {
        let (device, _) = self.files[file as usize];
        let policy = self.readahead(device);
        self.engine.open(FileId(file), policy)
    }

    /// A readahead policy for a file on a device.
    fn readahead(&self, device: DeviceId) -> Box<dyn Readahead> {
        own::build(self.own_readahead.as_ref(), &self.readahead[device.index()])
    }

    /// The device of a file, and its first sector.
    pub fn place(&self, file: u32) -> (DeviceId, u64) {
        self.files[file as usize]
    }

    /// Adds a packed file that lies in a file of the list.
    pub fn add_packed(&mut self, image: u32, map: Box<dyn BlockMap>) -> FileId {
        self.engine.add_packed_file(FileId(image), map)
    }

    /// Opens a packed file with the scenario's readahead policy and a fill rule.
    pub fn open_packed(&mut self, file: FileId, fill: &packed::Spec) -> HandleId {
        let policy = self.readahead(DeviceId(0));
        self.engine.open_packed(file, policy, fill.build())
    }

    /// Opens a file without readahead.
    pub fn open_off(&mut self, file: u32) -> HandleId {
        let off = readahead::Spec::parse("off").expect("the table has it");
        self.engine.open(FileId(file), off.build())
    }

    /// Sets the processor traits of the first tasks; the others have the defaults.
    #[must_use]
    pub fn with_traits(self, traits: Vec<Traits>) -> Self {
        Self { traits, ..self }
    }

    /// Runs the tasks to their ends, and then makes their writes durable.
    pub fn run<'a>(
        mut self,
        tasks: Vec<Box<dyn Workload + 'a>>,
        observer: &'a mut Observer<'a>,
    ) -> (Outcome, Record) {
        let handles = (0..self.files.len() as u32).map(|file| self.open_off(file)).collect();
        let numbered = (0u64..).zip(&self.machines);
        let device =
            |(number, machine): (u64, &Machine)| machine.device(device_seed(self.seed, number));
        let devices = numbered.map(device).collect();
        let prices = self.machines[0].prices();
        let mut finale: Vec<Box<dyn Workload + 'a>> = Vec::new();
        if tasks.len() < engine::CALLS_MAX as usize {
            finale.push(Box::new(SyncAll(handles)));
        }
        let world = SimWorld::new(&self.engine, prices, devices, tasks, observer);
        let mut world = world.with_finale(finale).with_traits(self.traits);
        drive(&mut self.engine, &mut world);
        world.assert_all_exited();
        let busy = world.device_busy();
        let (durable, record) = (world.last_exit(), world.into_record());
        let AtExit { at, stats, levels } = record.at_exit.expect("all tasks have exited");
        let outcome = Outcome {
            elapsed: at.since(Instant::ZERO),
            durable: durable.since(Instant::ZERO),
            device_busy: busy,
            idle_while_dirty: record.idle_while_dirty,
            stats: self.engine.stats(),
            stats_at_exit: stats,
            residue: levels.unsafe_pages(),
        };
        (outcome, record)
    }
}

/// Makes one file after another safe.
pub(crate) struct SyncAll(pub(crate) Vec<HandleId>);

impl Workload for SyncAll {
    fn next(&mut self, _now: Instant) -> Step {
        self.0.pop().map_or(Step::Exit, |handle| Step::Call(Op::Sync { handle }))
    }
}

/// The seed of the jitter of a device; the first one has that of the run.
pub(crate) fn device_seed(seed: u64, number: u64) -> u64 {
    match number {
        0 => seed,
        _ => Rng::new(seed).fork("replay-device", number).next_u64(),
    }
}

/// What the kernel tells its policies about the device.
pub fn settings(kernel: &Kernel) -> Settings {
    Settings {
        ra_pages: Some(kernel.read_ahead_kib * KIB / PAGE_SIZE),
        io_pages: Some(kernel.max_sectors_kib * KIB / PAGE_SIZE),
        large_folios: Some(kernel.large_folios),
    }
}

/// The queue of a machine's device.
pub(crate) fn queue(machine: &Machine) -> QueueConfig {
    let kernel = machine.kernel();
    let request_pages_max = (kernel.max_sectors_kib * KIB / PAGE_SIZE).max(1);
    QueueConfig {
        plug: kernel.plug,
        request_pages_max,
        write_requests_max: kernel.write_requests.max(1),
        depth: kernel.queue_depth,
        medium: machine.medium(),
        ..QueueConfig::default()
    }
}
