//! The vectors of the proposal, under a limit of 64 pages and a first window of 4.

use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use super::super::serial::OFF;
use super::super::testing::{Bench, Shown};
use super::*;
use crate::testing::Random;
use crate::units::PAGE_SIZE;

impl Shown for RequestSize {
    fn clauses(&self) -> Vec<String> {
        let window = |name, window: Window, pending| {
            let declared = if pending { "p" } else { "" };
            match window {
                Window { start: 0, size: 0 } => format!("{name} -"),
                Window { start, size } => format!("{name} {start}/{size}{declared}"),
            }
        };
        let state = &self.state;
        let next = if state.next == OFF { "OFF".to_string() } else { state.next.to_string() };
        vec![
            window("cur", state.current, false),
            window("ahead", state.ahead, self.pending),
            window("PW", self.previous.current, false),
            window("PW ahead", self.previous.ahead, self.previous.pending),
            format!("next {next}"),
            format!("prev {}", state.prev),
            format!("ser {}", state.run),
            format!("avg {}", state.average),
        ]
    }
}

const RULE: Rule =
    Rule { max: 64, first: 4, request: true, previous: true, declared: Declared::Read };

fn bench() -> Bench<RequestSize> {
    bench_of(RULE)
}

fn bench_of(rule: Rule) -> Bench<RequestSize> {
    Bench::of(RequestSize::new(rule), 1_000_000)
}

/// Everything that is submitted for sequential requests, with the page at which it is.
fn sequence(bench: &mut Bench<RequestSize>, request: u64, end: u64) -> Vec<(u64, String)> {
    let first_pages = (0..end).step_by(usize::try_from(request).unwrap());
    let calls = first_pages.map(|page| (page, bench.read(page, request)));
    calls.filter(|(_, submitted)| !submitted.is_empty()).collect()
}

fn submitted(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
    expected.iter().map(|(page, log)| (*page, (*log).to_string())).collect()
}

#[test]
fn p1_reads_a_sequence_of_single_pages() {
    let mut bench = bench();
    let mut log = sequence(&mut bench, 1, 69);
    bench.shows("cur 68/32, ser 69, avg 32, ahead -");
    for page in 69..=96 {
        log.push((page, bench.read(page, 1)));
    }
    bench.shows("cur 68/32, next 64, ahead 100/64, ser 97");
    for page in 97..=165 {
        log.push((page, bench.read(page, 1)));
    }
    log.retain(|(_, submitted)| !submitted.is_empty());
    let expected = submitted(&[
        (0, "+[0,4)"),
        (4, "+[4,36)"),
        (36, "+[36,68)"),
        (68, "+[68,100)"),
        (96, "+[100,164)"),
        (101, "+[164,228)"),
        (165, "+[228,292)"),
    ]);
    assert_eq!(log, expected);
}

#[test]
fn p2_turns_off_at_the_sixth_random_page() {
    bench().follow(&[
        (1000, 1, "+[1000,1004)", "next 4"),
        (9000, 1, "+[9000,9016)", "next 16"),
        (3000, 1, "+[3000,3008)", "next 8"),
        (7000, 1, "+[7000,7004)", "next 4"),
        (5000, 1, "+[5000,5002)", "next 2"),
        (2000, 1, "S 2000", "next OFF"),
        (8000, 1, "S 8000", "next OFF"),
    ]);
}

#[test]
fn p3_reads_random_requests_of_32_pages_exactly() {
    bench().follow(&[
        (1000, 32, "+[1000,1032)", "cur 1000/32, ahead 1032/32p, avg 32"),
        (5000, 32, "+[5000,5032)", "cur 5000/32, ahead 5032/32p, avg 32"),
        (3000, 32, "+[3000,3032)", "cur 3000/32, ahead 3032/32p, avg 32"),
        (7000, 32, "+[7000,7032)", "cur 7000/32, ahead 7032/32p, avg 32"),
    ]);
}

#[test]
fn p4_does_not_cap_random_requests_of_256_pages() {
    bench().follow(&[
        (1000, 256, "+[1000,1256)", "ahead 1256/32p"),
        (5000, 256, "+[5000,5256)", "ahead 5256/81p"),
        (3000, 256, "+[3000,3256)", "ahead 3256/105p"),
    ]);
}

#[test]
fn p5_reads_a_sequence_of_16_pages() {
    let mut bench = bench();
    bench.follow(&[
        (0, 16, "+[0,16)", "ahead 16/32p"),
        (16, 16, "+[16,48)", "ahead -"),
        (32, 16, "", "ahead -"),
        (48, 16, "+[48,64)", ""),
        (64, 16, "+[64,96)", ""),
        (80, 16, "", ""),
        (96, 16, "+[96,112)", ""),
        (112, 16, "+[112,144), +[144,208)", "ahead 144/64, ser 128"),
        (128, 16, "", ""),
        (144, 16, "+[208,272)", ""),
        (160, 16, "", ""),
        (176, 16, "", ""),
        (192, 16, "", ""),
        (208, 16, "+[272,336)", ""),
    ]);
}

#[test]
fn p5l_the_literal_variant_reads_what_it_declared_page_by_page() {
    let alone = |range: core::ops::Range<u64>| {
        range.map(|page| format!("S {page}")).collect::<Vec<_>>().join(", ")
    };
    bench_of(Rule { declared: Declared::Forgotten, ..RULE }).follow(&[
        (0, 16, "+[0,16)", "ahead 16/32"),
        (16, 16, &alone(16..32), "cur 16/32"),
        (32, 16, &alone(32..48), "cur 16/32"),
    ]);
}

#[test]
fn p6_reads_a_sequence_of_64_pages() {
    bench().follow(&[
        (0, 64, "+[0,64)", ""),
        (64, 64, "+[64,128), +[128,192)", ""),
        (128, 64, "+[192,256)", ""),
    ]);
}

#[test]
fn p7_keeps_two_interleaved_streams() {
    let mut bench = bench();
    bench.follow(&[
        (1000, 1, "+[1000,1004)", "cur 1000/4"),
        (3001, 1, "+[3001,3017)", "cur 3001/16, PW 1000/4, avg 16, next 16"),
    ]);
    for (page, current, previous) in [
        (1001, "1000/4", "3001/16"),
        (3002, "3001/16", "1000/4"),
        (1002, "1000/4", "3001/16"),
        (3003, "3001/16", "1000/4"),
        (1003, "1000/4", "3001/16"),
        (3004, "3001/16", "1000/4"),
    ] {
        let state = format!("cur {current}, PW {previous}, avg 16, next 16");
        bench.follow(&[(page, 1, "", &state)]);
    }
    bench.follow(&[(1004, 1, "+[1004,1020)", "cur 1004/16, PW 3001/16")]);
}

/// The vector belongs to a variant that only omits the two extra pages of the next window. Its
/// submissions and averages are those without a previous window; only the size of the next window
/// differs.
#[test]
fn p7k_the_average_of_interleaved_streams_decays_without_an_exchange() {
    bench_of(Rule { previous: false, ..RULE }).follow(&[
        (1000, 1, "+[1000,1004)", "cur 1000/4, avg 32"),
        (3001, 1, "+[3001,3017)", "cur 3001/16, avg 16"),
        (1001, 1, "+[1004,1009)", "cur 1001/8, avg 8"),
        (3002, 1, "", "cur 3002/4, avg 4"),
        (1002, 1, "", "cur 1002/2, avg 2"),
        (3003, 1, "", "cur 3003/1, avg 1"),
    ]);
}

#[test]
fn p8_the_declared_average_decides_the_next_allocation() {
    bench().follow(&[
        (1000, 4, "+[1000,1004)", ""),
        (2000, 4, "+[2000,2004)", ""),
        (3000, 4, "+[3000,3004)", "ahead 3004/11p, avg 11"),
        (3004, 1, "+[3004,3015)", "cur 3004/11, ahead -"),
    ]);
}

#[test]
fn p9_counts_the_pages_that_an_unaligned_request_touches() {
    let mut bench = bench();
    assert_eq!(bench.read_bytes(1000 * PAGE_SIZE + PAGE_SIZE / 2, 2 * PAGE_SIZE), "+[1000,1003)");
    bench.shows("ahead 1003/32p");
}

#[test]
fn a_return_to_page_0_opens_a_window() {
    bench().follow(&[
        (1000, 1, "+[1000,1004)", ""),
        (0, 1, "+[0,16)", "cur 0/16, PW 1000/4"),
        (1, 1, "", ""),
    ]);
}

#[test]
fn a_declared_window_survives_a_jump() {
    bench().follow(&[
        (1000, 8, "+[1000,1008)", "ahead 1008/32p, next 18"),
        (5000, 1, "+[5000,5020)", "cur 5000/20, ahead -, PW 1000/8, PW ahead 1008/32p"),
        (1008, 1, "+[1008,1040)", "cur 1008/32, ahead -, PW 5000/20, PW ahead -"),
    ]);
}

/// A declaration once outlived its window: a miss that resumes readahead drops the ahead window
/// without reaching it. The next ahead window, which was read, then counted as declared, and the
/// reader that reached it opened a window of the request.
#[test]
fn a_resume_forgets_what_was_declared() {
    let mut bench = bench();
    bench.read(1000, 8);
    bench.policy.state.next = OFF;
    bench.policy.state.current.size = 63;
    bench.evict(1001);
    bench.policy.state.prev = 1000;
    bench.follow(&[(1001, 1, "S 1001", "cur 937/64, ahead -, next 64")]);
    assert!(!bench.policy.pending);
}

#[test]
fn a_first_window_respects_a_smaller_limit() {
    bench_of(Rule { max: 2, ..RULE }).follow(&[(10, 1, "+[10,12)", "cur 10/2")]);
}

#[test]
fn a_sequential_mapping_counts_as_single_pages() {
    let mut bench = bench();
    assert_eq!(bench.fault_advised(100, MapAdvice::Sequential), "+[100,104)");
    bench.shows("cur 100/4, ahead -");
    assert_eq!(bench.fault(200), "+[200,264)");
}

/// One random step of a stream that avoids page 0.
fn step(random: &mut Random, last: u64, bench: &mut Bench) -> (u64, String) {
    let at = match random.below(4) {
        0 => 1 + random.below(3900),
        1 => (last + random.below(40)).clamp(1, 3900),
        _ => last.clamp(1, 3900),
    };
    let order = random.below(8);
    let count = 1 + random.below(1 << order);
    match random.below(40) {
        0 => (at, bench.fault(at)),
        1 => (at, bench.fault_advised(at, MapAdvice::Sequential)),
        2 => {
            bench.pages.congested = !bench.pages.congested;
            (at, String::new())
        }
        3 => {
            let some: Vec<_> = bench.pages.folios.keys().copied().filter(|p| p % 3 == 0).collect();
            some.into_iter().for_each(|page| bench.evict(page));
            (at, String::new())
        }
        4 => {
            bench.pattern(Pattern::Random);
            (at, String::new())
        }
        5..9 => {
            bench.pattern(Pattern::Normal);
            (at, String::new())
        }
        _ => (at + count, bench.read(at, count)),
    }
}

#[test]
fn without_its_three_changes_it_is_2_6_7_away_from_page_0() {
    for policy in ["request-size", "request-size-literal"] {
        for seed in 0..200 {
            let ablated = format!("{policy}:request=off,previous=off,first=16,max=32");
            let mut benches =
                [Bench::with_pages("linux-2.6.7", 4000), Bench::with_pages(&ablated, 4000)];
            let mut randoms = [Random(seed), Random(seed)];
            let mut last = 0;
            for call in 0..200 {
                let left = step(&mut randoms[0], last, &mut benches[0]);
                let right = step(&mut randoms[1], last, &mut benches[1]);
                assert_eq!(left, right, "{policy} seed {seed} call {call}");
                last = left.0;
            }
        }
    }
}

/// What 1000 random requests of `n` aligned pages cost on 128 open files of 8192 pages.
#[derive(Debug, Default, PartialEq, Eq)]
struct Cost {
    pages: u64,
    submissions: u64,
}

fn random_reads(spec: &str, n: u64, seed: u64) -> Cost {
    let mut random = Random(seed);
    let mut files: Vec<_> = (0..128).map(|_| Bench::with_pages(spec, 8192)).collect();
    let mut submissions = 0;
    for _ in 0..1000 {
        let file = &mut files[usize::try_from(random.below(128)).unwrap()];
        let log = file.read(n * random.below(8192 / n), n);
        submissions += log.split(", ").filter(|entry| !entry.is_empty()).count() as u64;
    }
    Cost { pages: files.iter().map(Bench::resident).sum(), submissions }
}

/// The mean of five seeds.
fn mean(spec: &str, n: u64) -> Cost {
    let runs: Vec<_> = (1..=5).map(|seed| random_reads(spec, n, seed)).collect();
    Cost {
        pages: runs.iter().map(|run| run.pages).sum::<u64>() / 5,
        submissions: runs.iter().map(|run| run.submissions).sum::<u64>() / 5,
    }
}

/// Whether two counts differ by at most 2 per cent.
fn near(count: u64, expected: u64) -> bool {
    count.abs_diff(expected) <= expected / 50
}

#[test]
fn random_reads_on_128_files_cost_what_the_authors_measured() {
    for (n, before, after) in [
        (1, (4311, 998), (4659, 998)),
        (4, (6787, 997), (3997, 997)),
        (16, (15_900, 994), (15_902, 993)),
        (32, (43_381, 1615), (31_597, 987)),
        (64, (90_569, 3150), (63_053, 985)),
        (256, (253_643, 8289), (231_027, 937)),
    ] {
        let costs = [mean("linux-2.6.7", n), mean("request-size", n)];
        for (cost, expected) in costs.iter().zip([before, after]) {
            assert!(near(cost.pages, expected.0), "{n} pages: {costs:?}");
            assert!(near(cost.submissions, expected.1), "{n} pages: {costs:?}");
        }
    }
}

#[test]
fn large_random_requests_save_what_the_authors_measured_and_single_pages_lose() {
    for (n, saved) in [(4, 2791), (8, 1902), (32, 11_784), (64, 27_516), (128, 28_324)] {
        let [before, after] = [mean("linux-2.6.7", n), mean("request-size", n)];
        assert!(near(before.pages - after.pages, saved), "{n} pages: {before:?} {after:?}");
    }
    assert!(mean("request-size", 1).pages > mean("linux-2.6.7", 1).pages);
}
