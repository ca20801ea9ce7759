//! One run: a machine, a readahead policy, files on its disk, and tasks.

use forebay_core::block::QueueConfig;
use forebay_core::drive::drive;
use forebay_core::engine::{Config, Engine};
use forebay_core::readahead::{Settings, Spec};
use forebay_core::stats::Stats;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{FileId, HandleId, KIB, PAGE_SIZE};
use forebay_core::workload::Workload;

use crate::machine::{Kernel, Machine, MachineError};
use crate::world::{Observer, SimWorld};

/// A machine that is set up and has not started.
pub struct Scenario {
    engine: Engine,
    machine: Machine,
    readahead: Spec,
    seed: u64,
}

/// What a run came to, apart from its calls, which the observer has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// From the start to the end of the last task.
    pub elapsed: Duration,
    /// How long at least one request was at the device.
    pub device_busy: Duration,
    /// What the engine counted.
    pub stats: Stats,
}

impl Scenario {
    /// Sets a machine up with one file of each size, numbered in order, and room for `tasks`.
    ///
    /// # Errors
    /// The files do not fit on the device.
    pub fn new(
        machine: &Machine,
        readahead: &Spec,
        seed: u64,
        tasks: u32,
        files: &[u64],
    ) -> Result<Self, MachineError> {
        let kernel = machine.kernel();
        let frames = (machine.page_cache_bytes() / PAGE_SIZE).clamp(1, u64::from(u32::MAX) / 2);
        let mut engine = Engine::new(Config { frames: frames as u32, calls_max: tasks.max(1) });
        let device = engine.add_device(queue(&kernel));
        let largest = files.iter().copied().max().unwrap_or(0);
        let places = machine.layout().place(files.len() as u32, largest, seed)?;
        for (bytes, sector) in files.iter().zip(places) {
            engine.add_file(device, *bytes, sector);
        }
        let readahead = readahead.clone().with(settings(&kernel));
        Ok(Self { engine, machine: machine.clone(), readahead, seed })
    }

    /// Opens a file, by its place in the list of sizes.
    pub fn open(&mut self, file: u32) -> HandleId {
        self.engine.open(FileId(file), self.readahead.build())
    }

    /// Lets the tasks run to their ends.
    pub fn run<'a>(
        mut self,
        tasks: Vec<Box<dyn Workload + 'a>>,
        observer: &'a mut Observer<'a>,
    ) -> Outcome {
        let device = self.machine.device(self.seed);
        let prices = self.machine.prices();
        let mut world = SimWorld::new(&self.engine, prices, vec![device], tasks, observer);
        drive(&mut self.engine, &mut world);
        world.assert_all_exited();
        Outcome {
            elapsed: world.last_exit().since(Instant::ZERO),
            device_busy: world.device_busy(),
            stats: self.engine.stats(),
        }
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

fn queue(kernel: &Kernel) -> QueueConfig {
    let request_pages_max = (kernel.max_sectors_kib * KIB / PAGE_SIZE).max(1);
    QueueConfig { plug: kernel.plug, request_pages_max, ..QueueConfig::default() }
}
