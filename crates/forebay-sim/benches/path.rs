//! The whole path in virtual time: engine, world, device and workload.
//!
//! Throughput is pages that reads met, or events (inputs and outputs) that passed between engine
//! and world, per second of real time on one core.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use forebay_core::block::QueueConfig;
use forebay_core::control;
use forebay_core::drive::{World, drive};
use forebay_core::engine::{Config, Engine, Policies};
use forebay_core::flush;
use forebay_core::io::{Input, Op, Output};
use forebay_core::readahead::Spec;
use forebay_core::throttle;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::{HandleId, PAGE_SIZE};
use forebay_core::workload::{Finished, Step, Workload};
use forebay_sim::device::{Fast, FastParameters};
use forebay_sim::price::Prices;
use forebay_sim::rng::Rng;
use forebay_sim::world::SimWorld;

/// Page memory of every case.
const FRAMES: u64 = 65_536;
/// Pages that one round meets.
const PAGES: u64 = 400_000;

/// Calls of `pages` pages at random places of a file, aligned to their size.
struct Calls {
    handle: HandleId,
    writes: bool,
    file_pages: u64,
    pages: u64,
    left: u64,
    rng: Rng,
}

impl Workload for Calls {
    fn next(&mut self, _now: Instant) -> Step {
        if self.left == 0 {
            return Step::Exit;
        }
        self.left -= 1;
        let (handle, len) = (self.handle, self.pages * PAGE_SIZE);
        let offset = self.rng.below(self.file_pages / self.pages) * len;
        Step::Call(match self.writes {
            true => Op::Write { handle, offset, len, durable: false },
            false => Op::Read { handle, offset, len },
        })
    }
}

/// Pages of the file that is overwritten: four times page memory.
const WRITTEN_PAGES: u64 = 4 * FRAMES;

/// An engine with a file to be overwritten and today's writeback.
fn overwritten(throttle: &str) -> (Engine, HandleId) {
    let mut engine = Engine::new(Config { frames: FRAMES as u32, calls_max: 1 });
    let queue = QueueConfig { plug: None, ..QueueConfig::default() };
    let device = engine.add_device(queue);
    let file = engine.add_file(device, WRITTEN_PAGES * PAGE_SIZE, 0);
    let flush = flush::Spec::parse("linux-6").expect("the rule exists");
    let fixed = control::Spec::parse("fixed").expect("the controller exists");
    let throttle = throttle::Spec::parse(throttle).expect("the throttle exists");
    engine.set_policies(Policies::build(&flush, &fixed, &throttle));
    let handle = engine.open(file, Spec::parse("off").expect("the policy exists").build());
    (engine, handle)
}

/// A case: how large reads are, and how large the file is compared with memory.
struct Case {
    pages: u64,
    file_pages: u64,
    policy: &'static str,
}

impl Case {
    /// An engine whose memory holds as much of the file as it can.
    fn warm(&self) -> (Engine, HandleId) {
        let mut engine = Engine::new(Config { frames: FRAMES as u32, calls_max: 1 });
        let queue = QueueConfig { plug: None, request_pages_max: 1024, ..QueueConfig::default() };
        let device = engine.add_device(queue);
        let file = engine.add_file(device, self.file_pages * PAGE_SIZE, 0);
        let spec = Spec::parse(self.policy).expect("the policy exists");
        let handle = engine.open(file, spec.build());
        let fill = self.file_pages.min(FRAMES) / 64;
        let once = (0..fill).map(|n| Op::Read { handle, offset: n * 262_144, len: 262_144 });
        play(&mut engine, Box::new(Script(once)));
        (engine, handle)
    }

    fn reads(&self, handle: HandleId) -> Box<dyn Workload> {
        let (file_pages, pages) = (self.file_pages, self.pages);
        let (writes, left, rng) = (false, PAGES / pages, Rng::new(7));
        Box::new(Calls { handle, writes, file_pages, pages, left, rng })
    }
}

struct Script<I>(I);

impl<I: Iterator<Item = Op>> Workload for Script<I> {
    fn next(&mut self, _now: Instant) -> Step {
        self.0.next().map_or(Step::Exit, Step::Call)
    }
}

/// Counts what passes between the engine and the world.
struct Counted<W> {
    inner: W,
    events: u64,
}

impl<W: World> World for Counted<W> {
    fn now(&mut self) -> Instant {
        self.inner.now()
    }

    fn carry_out(&mut self, engine: &Engine, output: Output) {
        self.events += 1;
        self.inner.carry_out(engine, output);
    }

    fn settled(&mut self, engine: &Engine) {
        self.inner.settled(engine);
    }

    fn next(&mut self, deadline: Option<Instant>) -> Option<Input> {
        self.events += 1;
        self.inner.next(deadline)
    }
}

/// Lets one task run to its end; returns the number of events.
fn play(engine: &mut Engine, task: Box<dyn Workload + '_>) -> u64 {
    let prices = Prices {
        syscall: Duration(100),
        page_lookup: Duration(30),
        page_alloc: Duration(200),
        copy_picos_per_kib: 100_000,
        context_switch: Duration(1_000),
        interrupt: Duration(500),
        request_submit: Duration(500),
        ..Prices::FREE
    };
    let device = FastParameters { delay_ns: 10_000, units: 8, ..FastParameters::null() };
    let mut ignore = |_: &Finished| {};
    let world = SimWorld::new(
        engine,
        prices,
        vec![Box::new(Fast::new(device, 1))],
        vec![task],
        &mut ignore,
    );
    let mut world = Counted { inner: world, events: 0 };
    drive(engine, &mut world);
    world.events
}

fn path(criterion: &mut Criterion) {
    let cached = |pages, policy| Case { pages, file_pages: FRAMES / 2, policy };
    let cases = [
        ("cached/64-KiB-reads/linux-6.18", cached(16, "linux-6.18")),
        ("cached/4-KiB-reads/linux-6.18", cached(1, "linux-6.18")),
        ("cached/64-KiB-reads/fixed", cached(16, "fixed")),
        (
            "30-percent-missed/64-KiB-reads/linux-6.18",
            Case { pages: 16, file_pages: FRAMES * 10 / 7, policy: "linux-6.18" },
        ),
        (
            "30-percent-missed/4-KiB-reads/linux-6.18",
            Case { pages: 1, file_pages: FRAMES * 10 / 7, policy: "linux-6.18" },
        ),
    ];
    for (name, case) in &cases {
        let mut group = criterion.benchmark_group("pages");
        group.throughput(Throughput::Elements(PAGES));
        group.bench_function(*name, |bencher| {
            bencher.iter_batched_ref(
                || case.warm(),
                |(engine, handle)| play(engine, case.reads(*handle)),
                BatchSize::LargeInput,
            );
        });
    }
    for (pages, throttle) in [(1, "off"), (1, "linux-3.18"), (1, "paced"), (16, "linux-3.18")] {
        let mut group = criterion.benchmark_group("pages");
        group.throughput(Throughput::Elements(PAGES));
        group.bench_function(
            format!("overwritten/{}-KiB-writes/{throttle}", 4 * pages),
            |bencher| {
                bencher.iter_batched_ref(
                    || overwritten(throttle),
                    |(engine, handle)| {
                        let (handle, rng) = (*handle, Rng::new(7));
                        let (file_pages, left) = (WRITTEN_PAGES, PAGES / pages);
                        let writes = true;
                        play(
                            engine,
                            Box::new(Calls { handle, writes, file_pages, pages, left, rng }),
                        )
                    },
                    BatchSize::LargeInput,
                );
            },
        );
    }
    let case = Case { pages: 1, file_pages: FRAMES * 10 / 7, policy: "off" };
    let (mut engine, handle) = case.warm();
    let events = play(&mut engine, case.reads(handle));
    let mut group = criterion.benchmark_group("events");
    group.throughput(Throughput::Elements(events));
    group.bench_function("30-percent-missed/4-KiB-reads/off", |bencher| {
        bencher.iter_batched_ref(
            || case.warm(),
            |(engine, handle)| play(engine, case.reads(*handle)),
            BatchSize::LargeInput,
        );
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = path
}
criterion_main!(benches);
