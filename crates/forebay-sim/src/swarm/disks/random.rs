//! What a scenario of served disks is made of, and the requests of its connections.

#[cfg(feature = "seeded-bugs")]
use forebay_core::bugs::Bug;
use forebay_core::engine::Policies;
use forebay_core::policy::{Slot, Spec};
use forebay_core::serving::{DiskConfig, DiskOp};
use forebay_core::time::Duration;
use forebay_core::{control, flush, reclaim, throttle};

use super::store::{CELL, PAGE_CELLS};
use crate::rng::Rng;
use crate::swarm::draw::random_policy;

/// A scenario of served disks.
#[derive(Debug)]
pub(super) struct DiskScenario {
    pub(super) config: DiskConfig,
    /// Of each export the number of its cells.
    pub(super) exports: Vec<usize>,
    pub(super) clients: usize,
    /// Requests that connections begin.
    pub(super) steps: u64,
    /// The mean time between two of them.
    pub(super) interval: Duration,
    /// A store's time for a request, at most; a slow spell multiplies it.
    pub(super) latency: Duration,
    /// Of a million events: losses of power that are looked at, and restarts.
    pub(super) cut_ppm: u64,
    pub(super) restart_ppm: u64,
    pub(super) vanish_ppm: u64,
    /// Of a million requests of a healthy store: it becomes full.
    pub(super) full_ppm: u64,
    pub(super) fail_ppm: u64,
    pub(super) no_zero_ppm: u64,
    /// How likely each kind of request is.
    pub(super) weights: [u64; 6],
    pub(super) policies: [String; 3],
    #[cfg(feature = "seeded-bugs")]
    pub(super) bug: Option<Bug>,
    pub(super) rng: Rng,
}

impl DiskScenario {
    /// The scenario of a seed.
    pub(super) fn draw(seed: u64) -> Self {
        let rng = Rng::new(seed).fork("served disks", 0);
        let mut own = rng.fork("setup", 0);
        let mut one_of = |choices: &[u64]| choices[own.below(choices.len() as u64) as usize];
        let frames = one_of(&[4, 4, 5, 8, 20, 64, 200]) as u32;
        let requests_max = one_of(&[2, 4, 8, 16]) as u32;
        let exports_max = one_of(&[1, 1, 2]) as u32;
        let interval = Duration::from_micros(one_of(&[5, 100, 2_000, 100_000]));
        let latency = Duration::from_micros(one_of(&[20, 300, 10_000]));
        let clients = one_of(&[1, 2, 3, 5]) as usize;
        let cut_ppm = one_of(&[0, 20_000, 60_000]);
        let restart_ppm = one_of(&[0, 0, 3_000]);
        let vanish_ppm = one_of(&[0, 10_000]);
        let full_ppm = one_of(&[0, 0, 8_000]);
        let fail_ppm = one_of(&[0, 0, 20_000, 200_000]);
        let no_zero_ppm = one_of(&[0, 300_000, 1_000_000]);
        let weights = std::array::from_fn(|kind| {
            let rare = [10, 10, 4, 3, 2, 2][kind];
            one_of(&[0, rare, rare, 3 * rare])
        });
        let exports = (0..exports_max)
            .map(|_| {
                (one_of(&[3, 12, 40, 90]) as usize * PAGE_CELLS) - one_of(&[0, 0, 1, 5]) as usize
            })
            .collect();
        let steps = one_of(&[60, 200, 400]);
        let policies = [
            typed::<dyn flush::Flush>(&mut own),
            typed::<dyn control::Controller>(&mut own),
            typed::<dyn throttle::Throttle>(&mut own),
        ];
        let reclaim = typed::<dyn reclaim::Reclaim>(&mut own);
        let reclaim = Spec::parse(&reclaim).expect("a policy of the table has a name");
        let readahead = random_policy(&mut own);
        let config = DiskConfig { frames, requests_max, exports_max, readahead, reclaim };
        Self {
            config,
            exports,
            clients,
            steps,
            interval,
            latency,
            cut_ppm,
            restart_ppm,
            vanish_ppm,
            full_ppm,
            fail_ppm,
            no_zero_ppm,
            weights,
            policies,
            #[cfg(feature = "seeded-bugs")]
            bug: None,
            rng,
        }
    }

    /// Fresh policies.
    pub(super) fn policies(&self) -> Policies {
        let [flush, control, throttle] = &self.policies;
        let none = "a policy of the table has a name";
        Policies::build(
            &Spec::parse(flush).expect(none),
            &Spec::parse(control).expect(none),
            &Spec::parse(throttle).expect(none),
        )
    }
}

/// The name of a policy of a slot. Its parameters keep their defaults: at their ends, waits take
/// hours.
fn typed<T: Slot + ?Sized>(rng: &mut Rng) -> String {
    let policies = T::policies();
    policies[rng.below(policies.len() as u64) as usize].name.to_owned()
}

/// A request for some of an export's cells.
pub(super) fn random_op(rng: &mut Rng, weights: &[u64; 6], cells: usize) -> DiskOp {
    let page = PAGE_CELLS as u64;
    let start = rng.below(cells as u64);
    let left = cells as u64 - start;
    let len = match rng.below(4) {
        0 => 1 + rng.below(left.min(6)),
        1 => 1 + rng.below(left.min(4 * page)),
        2 => 1 + rng.below(left),
        _ => page.min(left),
    };
    // Many requests are of whole pages.
    let is_whole = rng.chance(500_000);
    let start = if is_whole { start - start % page } else { start };
    let len = if is_whole { len.next_multiple_of(page).min(cells as u64 - start) } else { len };
    let (offset, len) = (start * CELL, len * CELL);
    let (durable, hole) = (rng.chance(150_000), rng.chance(500_000));
    let mut pick = rng.below(weights.iter().sum::<u64>().max(1));
    let kind = weights.iter().position(|weight| {
        let is_it = pick < *weight;
        pick = pick.saturating_sub(*weight);
        is_it
    });
    match kind {
        Some(0) => DiskOp::Read { offset, len },
        Some(2) => DiskOp::Flush,
        Some(3) => DiskOp::Zero { offset, len, hole, durable },
        Some(4) => DiskOp::Prefetch { offset, len },
        // The same offset again, so that pages are written while they are under writeback.
        Some(5) => DiskOp::Write { offset: 0, len: len.min(2 * page * CELL), durable },
        Some(_) | None => DiskOp::Write { offset, len, durable },
    }
}
