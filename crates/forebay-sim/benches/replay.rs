//! Block traces through engine and device: requests a second of real time, on one core.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use forebay_core::elevator;
use forebay_core::io::RequestKind;
use forebay_core::time::Instant;
use forebay_sim::machine::Machine;
use forebay_sim::replay::{Arrival, Pace, Placement, Replay};
use forebay_sim::rng::Rng;

/// Requests of a round.
const REQUESTS: u64 = 200_000;

/// Random reads and writes of 4 to 64 KiB over 8 volumes, 100 us apart.
fn arrivals() -> Vec<Arrival> {
    let mut rng = Rng::new(7);
    let one = |n: u64| Arrival {
        at: Instant(n * 100_000),
        volume: rng.below(8) as u32,
        sector: rng.below(1 << 20) * 8,
        sectors: 8 << rng.below(5),
        kind: if rng.below(3) == 0 { RequestKind::Write } else { RequestKind::Read },
    };
    (0..REQUESTS).map(one).collect()
}

fn replay(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("replay");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    let arrivals = arrivals();
    let volumes: Vec<Placement> = (0..8).map(|device| Placement { device, sector: 0 }).collect();
    let open = Pace::Open { speed_ppm: 1_000_000 };
    for (name, machine, elevator, pace) in [
        ("nvme-2026/none/open-loop", "nvme-2026", "none", open),
        ("nvme-2026/mq-deadline/open-loop", "nvme-2026", "mq-deadline", open),
        ("nvme-2026/none/closed-loop-32", "nvme-2026", "none", Pace::Closed { depth: 32 }),
        (
            "hdd-2026/mq-deadline/closed-loop-32",
            "hdd-2026",
            "mq-deadline",
            Pace::Closed { depth: 32 },
        ),
    ] {
        let machine = Machine::builtin(machine).expect("the machine exists");
        let elevator = elevator::Spec::parse(elevator).expect("the elevator exists");
        let devices = [&machine; 8];
        let replay =
            Replay { devices: &devices, elevator: &elevator, seed: 1, pace, volumes: &volumes };
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(
                || arrivals.iter().copied(),
                |left| replay.run(&mut || left.next()),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, replay);
criterion_main!(benches);
