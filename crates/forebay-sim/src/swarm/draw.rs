//! The random parts of a scenario's machine: queues, devices, sizes, policies, prices.

use forebay_core::block::{Plug, QueueConfig};
use forebay_core::dispatch::{self, Medium, MediumKind};
use forebay_core::elevator;
use forebay_core::engine::Policies;
use forebay_core::policy::{self, Slot};
use forebay_core::readahead::{POLICIES, Settings, Spec};
use forebay_core::reclaim;
use forebay_core::time::Duration;
use forebay_core::units::{KIB, PAGE_SIZE};

use crate::device::{Device, Fast, FastParameters, FaultPlan, Faulty, OneNand, OneNandParameters};
use crate::price::{Prices, Scheduler};
use crate::rng::Rng;

pub(super) fn random_queue(rng: &mut Rng) -> QueueConfig {
    let plug =
        Plug { requests: 1 + rng.below(5) as u32, delay: Duration::from_micros(rng.below(5_000)) };
    let congestion_off = 1 + rng.below(8) as u32;
    let kinds = [MediumKind::Solid, MediumKind::Solid, MediumKind::Rotating, MediumKind::Remote];
    let kind = kinds[rng.below(4) as usize];
    QueueConfig {
        plug: rng.chance(500_000).then_some(plug),
        request_pages_max: 1 + rng.below(40),
        congestion_on: congestion_off + rng.below(8) as u32,
        congestion_off,
        read_requests_max: [128, 1, 2, 7][rng.below(4) as usize],
        write_requests_max: 1 + rng.below(12) as u32,
        depth: [0, 0, 1, 2, 5][rng.below(5) as usize],
        medium: Medium { kind, programmed: rng.chance(300_000) },
    }
}

pub(super) fn random_device(rng: &mut Rng) -> Box<dyn Device> {
    let parameters = FastParameters {
        units: 1 + rng.below(4) as u32,
        delay_ns: 1_000 + rng.below(2_000_000),
        jitter_sigma_ppm: rng.below(400_000),
        ..FastParameters::null()
    };
    let fast: Box<dyn Device> = if rng.chance(250_000) {
        Box::new(OneNand::new(random_onenand(rng), rng.next_u64()))
    } else {
        Box::new(Fast::new(parameters, rng.next_u64()))
    };
    if rng.chance(500_000) {
        return fast;
    }
    let mut rate = || [0, 0, 10_000, 300_000][rng.below(4) as usize];
    let plan = FaultPlan {
        fail_ppm: rate(),
        fail_write_ppm: rate(),
        fail_flush_ppm: rate(),
        late_ppm: [0, 100_000][rng.below(2) as usize],
        late_by: Duration::from_millis(7),
        ..FaultPlan::default()
    };
    Box::new(Faulty::new(fast, plan, rng.next_u64()))
}

fn random_onenand(rng: &mut Rng) -> OneNandParameters {
    let (polls, overlap) = (rng.chance(500_000), rng.chance(500_000));
    let mut up_to = |nanos| 1 + rng.below(nanos);
    OneNandParameters {
        load_ns: up_to(60_000),
        transfer_ns: up_to(100_000),
        command_ns: up_to(50_000),
        register_ns: up_to(5_000),
        polls,
        overlap,
        program_ns: up_to(400_000),
        jitter_sigma_ppm: rng.below(400_000),
    }
}

pub(super) fn random_size(rng: &mut Rng) -> u64 {
    let pages = [0, 1, 7, 64, 300][rng.below(5) as usize];
    (pages * PAGE_SIZE + [0, 1, 2048, 4095][rng.below(4) as usize]).max(1)
}

pub(super) fn random_policy(rng: &mut Rng) -> Spec {
    let policy = &POLICIES[rng.below(POLICIES.len() as u64) as usize];
    let settings = Settings {
        ra_pages: rng.chance(500_000).then(|| rng.below(130)),
        io_pages: rng.chance(500_000).then(|| 1 + rng.below(400)),
        large_folios: Some(rng.chance(500_000)),
    };
    Spec::parse(policy.name).expect("a policy of the table has a name").with(settings)
}

pub(super) fn random_policies(rng: &mut Rng) -> Policies {
    Policies::build(&random_spec(rng), &random_spec(rng), &random_spec(rng))
}

/// A reclaim policy.
pub(super) fn random_reclaim(rng: &mut Rng) -> reclaim::Spec {
    random_spec(rng)
}

/// An elevator and a rule of dispatch.
pub(super) fn random_rules(rng: &mut Rng) -> (elevator::Spec, dispatch::Spec) {
    (random_spec(rng), random_spec(rng))
}

/// Any policy of a slot; its parameters are defaults, small, or any valid value.
fn random_spec<T: Slot + ?Sized>(rng: &mut Rng) -> policy::Spec<T> {
    let policies = T::policies();
    let policy = &policies[rng.below(policies.len() as u64) as usize];
    let mut typed = format!("{}:", policy.name);
    for parameter in policy.parameters {
        let (low, high) = (parameter.low, parameter.high);
        let value = match rng.below(4) {
            0 => low + rng.below((high - low).saturating_add(1)),
            1 => low + rng.below((high - low).saturating_add(1).min(50)),
            _ => continue,
        };
        typed += &format!("{}={value},", parameter.name);
    }
    // Values that contradict each other are not typed.
    let plain = || policy::Spec::parse(policy.name).expect("a policy of the table has a name");
    policy::Spec::parse(&typed).unwrap_or_else(|_| plain())
}

pub(super) fn random_prices(rng: &mut Rng) -> Prices {
    let schedulers = [Scheduler::RoundRobin, Scheduler::O1, Scheduler::Fair];
    let scheduler = schedulers[rng.below(3) as usize];
    let cache_bytes = [0, 32 * KIB, 1024 * KIB][rng.below(3) as usize];
    let footprint_bytes = rng.below(40 * KIB);
    let mut up_to = |nanos| Duration(rng.below(nanos));
    let syscall = up_to(1_000);
    Prices {
        syscall,
        fault: syscall,
        page_lookup: up_to(100),
        page_alloc: up_to(2_000),
        folio_alloc: Duration::ZERO,
        write_call: Duration::ZERO,
        copy_picos_per_kib: 1_000_000,
        context_switch: up_to(20_000),
        interrupt: up_to(5_000),
        request_submit: up_to(10_000),
        page_dirty: up_to(1_000),
        flush_page: up_to(3_000),
        flush_scan: up_to(100),
        frame_scan: up_to(300),
        scheduler,
        cache_bytes,
        footprint_bytes,
        refill: up_to(20_000),
        decode_page: Duration::ZERO,
        decode_block: Duration::ZERO,
        decode_cold: Duration::ZERO,
        cores: 1 + rng.below(3) as u32,
    }
}
