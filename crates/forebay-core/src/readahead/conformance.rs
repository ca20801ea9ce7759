//! What every policy of the table keeps, whatever it decides.
//!
//! The bench itself asserts that no page is added past the end of the file, twice, or out of its
//! folio's alignment. Its path reads pages singly that a policy leaves out.

use std::string::String;
use std::vec::Vec;

use super::testing::Bench;
use super::{
    Access, AddressSpace, Found, MapAdvice, Mapping, POLICIES, Pattern, Readahead, Settings,
};
use crate::testing::{Random, specs};
use crate::units::{PAGE_SIZE, PageIndex};

/// The far end of the page numbers that files are tested with.
const FAR: PageIndex = 1 << 40;

/// A stream of calls that is mostly local, drawn with its own weights.
struct Stream {
    random: Random,
    /// The pages that calls are made in; its end may lie past the end of the file.
    within: core::ops::Range<PageIndex>,
    weights: [u64; 7],
    last: PageIndex,
}

impl Stream {
    fn new(seed: u64, within: core::ops::Range<PageIndex>) -> Self {
        let mut random = Random(seed);
        // Some calls are off, others dominate.
        let weights = core::array::from_fn(|_| {
            let order = random.below(6);
            (1 << order) / 2
        });
        let last = within.start;
        Self { random, within, weights, last }
    }

    fn page(&mut self) -> PageIndex {
        let pages = self.within.end - self.within.start;
        let page = match self.random.below(8) {
            0 => self.within.start + self.random.below(pages),
            1 => self.last + self.random.below(64),
            2 => self.last.saturating_sub(self.random.below(8)),
            _ => self.last,
        };
        page.clamp(self.within.start, self.within.end - 1)
    }

    /// The next call's log.
    fn step(&mut self, bench: &mut Bench) -> String {
        let total = self.weights.iter().sum::<u64>() + 8;
        let mut drawn = self.random.below(total);
        let call = self.weights.iter().position(|weight| {
            let found = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            found
        });
        let page = self.page();
        let mapped = page.min(bench.pages.file_pages - 1);
        let order = self.random.below(9);
        let count = 1 + self.random.below(1 << order);
        self.last = page + count;
        match call {
            Some(0) => bench.fault(mapped),
            Some(1) => self.advised_fault(mapped, bench),
            Some(2) => bench.will_need(page, count),
            Some(3) => {
                let patterns = [Pattern::Normal, Pattern::Sequential, Pattern::Random];
                bench.pattern(patterns[usize::try_from(self.random.below(3)).unwrap()]);
                String::new()
            }
            Some(4) => self.reclaim(bench),
            Some(5) => {
                bench.pages.congested = self.random.below(3) == 0;
                bench.policy.on_error();
                String::new()
            }
            Some(6) => {
                let offset = page * PAGE_SIZE + self.random.below(PAGE_SIZE);
                bench.read_bytes(offset, 1 + self.random.below(2 * PAGE_SIZE))
            }
            Some(_) | None => bench.read(page, count),
        }
    }

    fn advised_fault(&mut self, page: PageIndex, bench: &mut Bench) -> String {
        let advice = [MapAdvice::Normal, MapAdvice::Sequential, MapAdvice::Random, MapAdvice::Huge]
            [usize::try_from(self.random.below(4)).unwrap()];
        let mapping = Mapping {
            first: page.saturating_sub(self.random.below(100)),
            end: page + 1 + self.random.below(100),
            advice,
            executable: self.random.below(2) == 0,
        };
        bench.fault_in(page, self.random.below(4) == 0, mapping)
    }

    fn reclaim(&mut self, bench: &mut Bench) -> String {
        let folios: Vec<_> = bench.pages.folios.keys().copied().collect();
        for first in folios {
            if self.random.below(2) == 0 {
                bench.evict(first);
            }
        }
        if let Some(memory) = &mut bench.pages.memory {
            *memory = self.random.below(100);
        }
        String::new()
    }
}

/// The log and the last state of 100 calls under a seed.
fn plan(spec: &str, seed: u64, file_pages: u64, memory: Option<u64>) -> (Vec<String>, String) {
    let mut bench = Bench::with_pages(spec, file_pages);
    bench.pages.memory = memory;
    let mut stream = Stream::new(seed, file_pages.saturating_sub(4000)..file_pages + 100);
    let log = (0..100).map(|_| stream.step(&mut bench)).collect();
    (log, bench.state())
}

#[test]
fn the_same_calls_lead_to_the_same_plan() {
    for spec in specs::<dyn Readahead>("") {
        for seed in 0..8 {
            assert_eq!(plan(&spec, seed, 3000, None), plan(&spec, seed, 3000, None), "{spec}");
        }
    }
}

#[test]
fn files_of_few_pages_are_not_left() {
    for spec in specs::<dyn Readahead>("") {
        for file_pages in 1..20 {
            plan(&spec, file_pages, file_pages, None);
        }
    }
}

#[test]
fn page_numbers_far_out_do_not_overflow() {
    for spec in specs::<dyn Readahead>("") {
        for seed in 0..8 {
            // The largest limits would fill millions of pages without a budget.
            plan(&spec, seed, FAR + seed, Some(5_000));
        }
    }
}

#[test]
fn short_memory_is_survived() {
    for spec in specs::<dyn Readahead>("") {
        for seed in 0..8 {
            plan(&spec, seed, 3000, Some(seed * 10));
        }
    }
}

#[test]
fn a_request_without_end_stops_at_the_end_of_the_file() {
    for spec in specs::<dyn Readahead>("") {
        for first in [0, 1, 50, 99] {
            let mut bench = Bench::with_pages(&spec, 100);
            bench.read(first, FAR);
            bench.will_need(first, FAR);
            assert!((first..100).all(|page| bench.pages.contains(page)), "{spec}");
        }
    }
}

#[test]
fn a_request_without_end_stops_when_memory_runs_out() {
    for spec in specs::<dyn Readahead>("") {
        for page in [0, 1, FAR] {
            let mut bench = Bench::with_pages(&spec, 2 * FAR);
            bench.pages.memory = Some(1000);
            let access = Access { page, remaining: FAR, first: true, found: Found::Absent };
            bench.policy.on_read(&access, &mut bench.pages);
            bench.policy.on_will_need(page, FAR, &mut bench.pages);
            assert!(bench.resident() <= 1000, "{spec}");
        }
    }
}

#[test]
fn a_new_descriptor_knows_nothing_of_the_one_before() {
    for spec in specs::<dyn Readahead>("") {
        let mut bench = Bench::new(&spec);
        let fresh = bench.state();
        let first = bench.read(10, 3);
        bench.reopen();
        assert_eq!(bench.state(), fresh, "{spec}");
        while let Some(page) = bench.pages.folios.keys().next().copied() {
            bench.evict(page);
        }
        assert_eq!(bench.read(10, 3), first, "{spec}");
    }
}

#[test]
fn the_limits_of_every_device_are_within_range() {
    for policy in POLICIES {
        for pages in [0, 1, 1 << 30] {
            let settings =
                Settings { ra_pages: Some(pages), io_pages: Some(pages), large_folios: Some(true) };
            let spec = super::Spec::parse(policy.name).unwrap().with(settings);
            let mut bench = Bench::with_pages(policy.name, 300);
            bench.policy = spec.build();
            bench.read(7, 100);
            bench.fault(200);
        }
    }
}
