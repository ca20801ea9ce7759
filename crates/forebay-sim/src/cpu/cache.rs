//! What a switch costs: the direct cost, and filling the cache again that others have used.
//!
//! Source:     L. McVoy, C. Staelin, "lmbench: portable tools for performance analysis", USENIX
//!             1996 (rings of processes with data); C. Li, C. Ding, K. Shen, "Quantifying the cost
//!             of context switch", ExpCS 2007 (direct and indirect cost).
//! Behaviour:  a core's cache of C bytes holds the data of its last runners. A runner touches F
//!             bytes, at most C. If others have loaded G bytes since it left the core, F + G - C of
//!             its bytes are evicted, at least none and at most F. It loads them again at the price
//!             of refilling C, in proportion.
//! Differs:    one cache a core, wholly associative in effect; runners share no data; one that
//!             comes twice counts twice, up to C. A runner that was never on the core has lost all.
//! Not for:    caches that cores share, and what a migration costs beyond them.

use forebay_core::time::Duration;

use crate::price::Prices;

/// The caches of all cores.
#[derive(Debug)]
pub(super) struct Caches {
    prices: Prices,
    cores: Vec<Core>,
}

#[derive(Clone, Debug, Default)]
struct Core {
    /// Bytes that runners have loaded so far, each time they got the core.
    brought: u64,
    /// What that was when each runner left, by its number.
    left: Vec<Option<u64>>,
}

impl Caches {
    pub(super) fn new(prices: &Prices) -> Self {
        Self { prices: *prices, cores: vec![Core::default(); prices.cores as usize] }
    }

    /// Whether it matters on which core a runner continues.
    pub(super) const fn matter(&self) -> bool {
        self.prices.cache_bytes > 0
    }

    /// A runner gets a core; `data` are the bytes of its own data that it uses.
    pub(super) fn switch(&mut self, core: usize, runner: usize, data: u64) -> Duration {
        if !self.matter() {
            return self.prices.context_switch;
        }
        let core = &mut self.cores[core];
        let left = core.left.get(runner).copied().flatten();
        let others = left.map_or(u64::MAX, |left| core.brought.saturating_sub(left));
        core.brought = core.brought.saturating_add(footprint(&self.prices, data));
        cost(&self.prices, data, others)
    }

    /// A runner leaves a core.
    pub(super) fn leave(&mut self, core: usize, runner: usize) {
        if !self.matter() {
            return;
        }
        let core = &mut self.cores[core];
        if core.left.len() <= runner {
            core.left.resize(runner + 1, None);
        }
        core.left[runner] = Some(core.brought);
    }
}

/// The bytes of the cache that a runner with `data` bytes of its own fills.
fn footprint(prices: &Prices, data: u64) -> u64 {
    prices.footprint_bytes.saturating_add(data).min(prices.cache_bytes)
}

/// The cost of switching a core to a runner after others have loaded `others` bytes.
fn cost(prices: &Prices, data: u64, others: u64) -> Duration {
    let (own, cache) = (footprint(prices, data), prices.cache_bytes);
    let untouched = cache - others.min(cache);
    let evicted = own.saturating_sub(untouched);
    let refill = u128::from(prices.refill.as_nanos()) * u128::from(evicted);
    // No more than the cache is evicted, so the quotient is no more than the price.
    let refill = (refill / u128::from(cache.max(1))) as u64;
    prices.context_switch + Duration(refill)
}

/// The cost of one switch in a ring of `processes` that wake each other in turn on one core, each
/// using `data_bytes` of its own, in the steady state (lmbench's `lat_ctx`).
pub fn ring_switch(prices: &Prices, processes: u32, data_bytes: u64) -> Duration {
    let others = u64::from(processes.saturating_sub(1));
    cost(prices, data_bytes, others.saturating_mul(footprint(prices, data_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    /// Four runners of 15.7 KB overrun 32 KB by so much that refilling costs 5.96 us.
    fn mips() -> Prices {
        Prices {
            context_switch: Duration(6_940),
            cache_bytes: 32 * 1024,
            footprint_bytes: 15_672,
            refill: Duration(12_460),
            ..Prices::FREE
        }
    }

    /// The mean of the second time round, by going round.
    fn gone_round(prices: &Prices, processes: u32, data: u64) -> u64 {
        let mut caches = Caches::new(prices);
        let mut sum = 0;
        for round in 0..3 {
            for runner in 0..processes as usize {
                let cost = caches.switch(0, runner, data).as_nanos();
                sum += if round == 2 { cost } else { 0 };
                caches.leave(0, runner);
            }
        }
        sum / u64::from(processes)
    }

    #[test]
    fn rings_cost_what_the_model_of_the_paper_s_machine_says() {
        let within = |found: u64, stated: u64| found.abs_diff(stated) <= stated / 200;
        for prices in [mips(), Machine::builtin("mips-2007").unwrap().prices()] {
            for (processes, bare) in [(2, 6_940), (4, 12_900), (6, 12_900), (8, 12_900)] {
                for (data, stated) in [(0, bare), (100 * 1024, 19_400)] {
                    let found = ring_switch(&prices, processes, data).as_nanos();
                    assert!(within(found, stated), "{processes}, {data}: {found} for {stated}");
                    assert_eq!(found, gone_round(&prices, processes, data));
                }
            }
        }
    }

    #[test]
    fn without_a_cache_the_cost_is_flat() {
        let prices = Prices { cache_bytes: 0, ..mips() };
        for processes in [0, 1, 2, 8, u32::MAX] {
            assert_eq!(ring_switch(&prices, processes, u64::MAX), Duration(6_940));
        }
        assert_eq!(gone_round(&prices, 8, 100 << 10), 6_940);
    }

    #[test]
    fn a_runner_that_comes_back_to_an_untouched_cache_pays_no_refill() {
        let prices = mips();
        let mut caches = Caches::new(&prices);
        let cold = caches.switch(0, 3, 1 << 20);
        assert_eq!(cold, Duration(19_400), "nothing of it was there");
        caches.leave(0, 3);
        assert_eq!(caches.switch(0, 3, 1 << 20), prices.context_switch);
        caches.leave(0, 3);
        caches.switch(0, 4, 0);
        let refill = caches.switch(0, 3, 1 << 20) - prices.context_switch;
        assert_eq!(refill, Duration(12_460 * 15_672 / 32_768), "as much as the other brought");
    }

    #[test]
    fn nothing_overflows() {
        let prices = Prices { cache_bytes: u64::MAX, refill: Duration(u64::MAX), ..mips() };
        assert_eq!(ring_switch(&prices, u32::MAX, u64::MAX), Duration(u64::MAX));
    }
}
