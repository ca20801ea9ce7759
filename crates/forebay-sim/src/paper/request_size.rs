//! Request-size readahead on Linux 2.6.7.
//!
//! Source:     J. Seol, K. Lee, "Linux 2.6.7 readahead performance improvement using read request
//!             size", Dongguk University; figures 3 to 5 and the text of section 4.
//! Behaviour:  sysbench reads 1000 random blocks of 128 files of 32 MiB, with blocks of 16 KiB to 1
//!             MiB, on a cold cache; sequential and interleaved readers test the claims of sections
//!             3.2 and 3.3.
//! Differs:    the paper names no disk and prints its figures without numbers; the statements of
//!             its text about them are checked here. Its requests come from sysbench 0.4.5 to 0.4.9
//!             with the generator in its default state, which is the same on every machine.
//! Not for:    the paper's absolute times, which no disk can have at all block sizes at once.

use forebay_core::readahead::Spec;
use forebay_core::units::{KIB, MIB, PAGE_SIZE};
use forebay_core::workload::{Finished, Workload};

use super::claim::{Claim, OPEN, between, percent};
use super::{Experiment, Headline, Measured, Paper, Results, RunCost};
use crate::machine::{Machine, MachineError};
use crate::report::{Role, Row};
use crate::scenario::{NewFile, PolicySet, Scenario};
use crate::workload::reads::{Calls, interleaved, sequential, sysbench};
use crate::workload::sysbench::Rndrd;

/// The table's line.
pub(super) const PAPER: Paper = Paper {
    name: "readahead",
    citation: "J. Seol, K. Lee: Linux 2.6.7 readahead performance improvement using read request \
               size",
    machine: "desktop-2004",
    claim: "Readahead that starts from the size of the request makes random reads about 10 % \
            faster from 128 KiB requests on, and reads 12 000 to 30 000 fewer pages.",
    headline: Headline::change(
        "throughput, 128K reads",
        ["rndrd 128 KiB", "throughput gain", AFTER],
    ),
    cost: RunCost { fixed: [0.0; 3], draw: [0.45, 0.75, 0.75], draws_max: [8, u32::MAX, u32::MAX] },
    about: "Modelled: the readahead of Linux 2.6.7 and of the proposal page by page, a page cache \
            of two lists, the 2.6 request plug, one disk of the period. Calibrated only on the \
            unmodified kernel. Not claimed: absolute times, which depend on a disk that the paper \
            does not name.",
    measured: super::MEDIAN_OVER_DRAWS,
    keeps_series: false,
    scaled: "",
    alone: None,
    unfit: super::ANY_MACHINE,
    experiments: |_| experiments(),
    rows: |results, _| rows(results),
};

/// The workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// sysbench `rndrd` with blocks of this many bytes.
    Random(u64),
    /// One file from end to end, with reads of this many bytes.
    Sequential(u64),
    /// Two streams of single pages in turn.
    Interleaved,
}

const BEFORE: &str = "linux-2.6.7";
const AFTER: &str = "request-size";
const COMPETITORS: [&str; 4] = [BEFORE, AFTER, "linux-2.6.21", "linux-6.18"];

/// The proposal with one of its changes taken back, and as its printed text has it.
const ABLATIONS: [&str; 4] = [
    "request-size:request=off",
    "request-size:previous=off",
    "request-size:first=16,max=32",
    "request-size-literal",
];

const BLOCKS: [u64; 7] = [16, 32, 64, 128, 256, 512, 1024];
const ABLATED_BLOCKS: [u64; 3] = [16, 128, 256];
const SEQUENTIAL: [Kind; 2] = [Kind::Sequential(4 * KIB), Kind::Sequential(64 * KIB)];
const SEQUENTIAL_BYTES: u64 = 64 * MIB;
const INTERLEAVED_ROUNDS: u64 = 1_000;
/// The first pages of the two streams, as the paper prints them.
const STREAMS: [u64; 2] = [1_000, 3_001];

fn experiments() -> Vec<Experiment> {
    let mut experiments = Vec::new();
    let mut add = |policy, kind: Kind| {
        let run = move |machine: &Machine, seed| kind.run(machine, policy, seed);
        let experiment = Experiment::new(kind.name(), policy, run);
        let counts = matches!(kind, Kind::Random(_)) && [BEFORE, AFTER].contains(&policy);
        experiments.push(if counts { experiment.counted() } else { experiment });
    };
    for policy in COMPETITORS {
        BLOCKS.iter().for_each(|kib| add(policy, Kind::Random(kib * KIB)));
    }
    for policy in ABLATIONS {
        ABLATED_BLOCKS.iter().for_each(|kib| add(policy, Kind::Random(kib * KIB)));
    }
    for policy in COMPETITORS.into_iter().chain(ABLATIONS) {
        SEQUENTIAL.iter().for_each(|kind| add(policy, *kind));
        add(policy, Kind::Interleaved);
    }
    experiments
}

impl Kind {
    /// Runs it once on a machine.
    fn run(self, machine: &Machine, policy: &str, seed: u64) -> Result<Measured, MachineError> {
        let files = match self {
            Self::Random(block) => {
                let run = Rndrd::of_paper(block);
                vec![run.file_bytes(); run.files as usize]
            }
            Self::Sequential(_) => vec![SEQUENTIAL_BYTES],
            Self::Interleaved => vec![(STREAMS[1] + 2 * INTERLEAVED_ROUNDS) * PAGE_SIZE],
        };
        let readahead = Spec::parse(policy).expect("an experiment names a policy");
        let kernel = PolicySet::of(&machine.kernel()).expect("a paper's machine names policies");
        let policies = PolicySet { readahead, ..kernel };
        let files: Vec<NewFile> = files.into_iter().map(NewFile::fixed).collect();
        let mut scenario = Scenario::new(machine, &policies, seed, 1, &files)?;
        let handles: Vec<_> = (0..files.len() as u32).map(|file| scenario.open(file)).collect();
        let first = handles[0];
        let task: Box<dyn Workload> = match self {
            Self::Random(block) => {
                let requests = Rndrd::of_paper(block).requests();
                let requests = requests.expect("the paper's sizes fit each other");
                Box::new(Calls(sysbench(handles, requests)))
            }
            Self::Sequential(block) => Box::new(Calls(sequential(first, SEQUENTIAL_BYTES, block))),
            Self::Interleaved => {
                Box::new(Calls(interleaved(first, STREAMS.to_vec(), INTERLEAVED_ROUNDS)))
            }
        };
        let mut bytes = 0;
        let mut count = |finished: &Finished| bytes += finished.result.unwrap_or(0);
        let (outcome, _) = scenario.run(vec![task], &mut count);
        Ok(Measured::new(bytes, outcome))
    }

    fn name(self) -> String {
        match self {
            Self::Random(block) => format!("rndrd {} KiB", block / KIB),
            Self::Sequential(block) => format!("sequential {} KiB", block / KIB),
            Self::Interleaved => "interleaved 1000, 3001, 1001, ...".to_owned(),
        }
    }
}

fn rows(results: &Results<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for kib in BLOCKS {
        let kind = Kind::Random(kib * KIB);
        for policy in COMPETITORS {
            rows.push(throughput(results, kind, kib, policy));
            rows.push(total_time(results, kind, policy));
            rows.push(pages(results, kind, policy));
        }
        rows.extend(claims(results, kind, kib));
        rows.push(repeats(results, kib));
    }
    for policy in COMPETITORS[1..].iter().copied().chain(ABLATIONS) {
        SEQUENTIAL.iter().for_each(|kind| rows.push(no_loss(results, *kind, policy)));
        rows.push(kept_windows(results, policy));
    }
    for policy in ABLATIONS {
        for kib in ABLATED_BLOCKS {
            rows.extend(ablated(results, Kind::Random(kib * KIB), policy));
        }
    }
    rows
}

/// Figure 3.
fn throughput(results: &Results<'_>, kind: Kind, kib: u64, policy: &str) -> Row {
    let (published, role, tolerance, note) = match (policy, kib) {
        (BEFORE, 512) => (
            Some(20.0),
            Role::Calibrated,
            between(15.0, 25.0),
            "the text's 10 % for 2 MB/s make 20 MB/s; held at this size alone",
        ),
        (BEFORE, 128) => (
            Some(20.0),
            Role::Context,
            between(15.0, 25.0),
            "20 MB/s leave 6.6 ms a request, less than one average positioning of the arm",
        ),
        (BEFORE, 256 | 1024) => (
            Some(20.0),
            Role::Context,
            between(15.0, 25.0),
            "the time of a request grows with its size; one rate cannot hold from 128 KiB on",
        ),
        _ => (None, Role::Context, OPEN, "figure 3 carries no numbers"),
    };
    let row = kind.name();
    Claim { row, metric: "throughput", unit: "MB/s", policy, published, role, tolerance, note }
        .row(results, results.figures(policy, &kind.name(), Measured::megabytes_per_second))
}

/// Figure 4.
fn total_time(results: &Results<'_>, kind: Kind, policy: &str) -> Row {
    Claim::context(kind.name(), ("total time", "s"), policy, "figure 4 carries no numbers")
        .row(results, results.figures(policy, &kind.name(), Measured::seconds))
}

/// Figure 5.
fn pages(results: &Results<'_>, kind: Kind, policy: &str) -> Row {
    Claim::context(kind.name(), ("pages allocated", "pages"), policy, "figure 5 carries no numbers")
        .row(results, results.figures(policy, &kind.name(), pages_read))
}

/// The statements of the text about figures 3 to 5, and the same for the other competitors.
fn claims(results: &Results<'_>, kind: Kind, kib: u64) -> Vec<Row> {
    let large = kib >= 128;
    let mut rows = Vec::new();
    for policy in &COMPETITORS[1..] {
        let predicted = *policy == AFTER;
        let role = if predicted { Role::Predicted } else { Role::Context };
        let claim = |metric, unit, published: Option<f64>, tolerance, note| Claim {
            row: kind.name(),
            metric,
            unit,
            policy,
            published: published.filter(|_| predicted && large),
            role,
            tolerance: if predicted { tolerance } else { OPEN },
            note,
        };
        let gain = if large { between(5.0, 20.0) } else { between(-6.0, 6.0) };
        rows.push(claim("throughput gain", "%", Some(10.0), gain, "").row(
            results,
            results.compared((policy, BEFORE), &kind.name(), |after, before| {
                percent(after.megabytes_per_second(), before.megabytes_per_second())
            }),
        ));
        // The same band, expressed on the time: 1 / 1.20 - 1 and 1 / 1.05 - 1.
        let less = if large { between(-16.7, -4.8) } else { between(-6.0, 6.0) };
        rows.push(claim("total time change", "%", Some(-10.0), less, "").row(
            results,
            results.compared((policy, BEFORE), &kind.name(), |after, before| {
                percent(after.seconds(), before.seconds())
            }),
        ));
        let (published, tolerance, role) = match kib {
            128 => (Some(12_000.0), between(10_500.0, 13_500.0), role),
            256.. => (Some(30_000.0), between(27_000.0, 33_000.0), role),
            _ => (None, OPEN, Role::Context),
        };
        let note = match kib {
            0..128 => "",
            128 => "1000 requests without repeats would save 11 897",
            256 => {
                "\"30 000 or more\" in the text; 30 209 without repeats, but what 2.6.7 reads \
                 beyond a request is not wasted if a later request of this sequence reads it, and \
                 the kept window costs pages here: see the ablation previous=off"
            }
            _ => {
                "\"30 000 or more\" in the text; 34 303 without repeats, but what 2.6.7 reads \
                 beyond a request is not wasted if a later request of this sequence reads it"
            }
        };
        rows.push(Claim { role, ..claim("pages saved", "pages", published, tolerance, note) }.row(
            results,
            results.compared((policy, BEFORE), &kind.name(), |after, before| {
                pages_read(before) - pages_read(after)
            }),
        ));
    }
    rows
}

/// The share of requests that repeat an earlier one, which the tool's generator decides.
fn repeats(results: &Results<'_>, kib: u64) -> Row {
    let run = Rndrd::of_paper(kib * KIB);
    let requests = run.requests().expect("the paper's sizes fit each other");
    let mut places: Vec<(u32, u64)> = requests.map(|one| (one.file, one.offset)).collect();
    places.sort_unstable();
    places.dedup();
    let repeated = 100.0 * (1.0 - places.len() as f64 / f64::from(run.requests));
    let (published, tolerance, note) = match kib {
        16 => (Some(1.0), between(-1.0, 3.0), ""),
        1024 => (
            Some(14.0),
            between(12.0, 16.0),
            "the tool's own sequence; 1000 uniform draws give 11.3 on average",
        ),
        _ => (None, OPEN, ""),
    };
    Claim {
        row: Kind::Random(kib * KIB).name(),
        metric: "repeated requests",
        unit: "%",
        policy: "any",
        published,
        role: Role::Derived,
        tolerance,
        note,
    }
    .row(results, vec![repeated])
}

/// Section 3.3: sequential readers hardly lose.
fn no_loss(results: &Results<'_>, kind: Kind, policy: &str) -> Row {
    let (role, tolerance, note) = match policy {
        AFTER => (Role::Predicted, (Some(-3.0), None), "the text says: hardly any loss"),
        "request-size-literal" => {
            (Role::Context, OPEN, "the printed text alone never reads its second window")
        }
        _ => (Role::Context, OPEN, ""),
    };
    let metric = "throughput gain";
    let row = kind.name();
    Claim { row, metric, unit: "%", policy, published: None, role, tolerance, note }.row(
        results,
        results.compared((policy, BEFORE), &kind.name(), |after, before| {
            percent(after.megabytes_per_second(), before.megabytes_per_second())
        }),
    )
}

/// Section 3.2: interleaved streams keep their windows, so that fewer requests reach the disk.
fn kept_windows(results: &Results<'_>, policy: &str) -> Row {
    let (role, tolerance) = match policy {
        AFTER => (Role::Predicted, (None, Some(-50.0))),
        _ => (Role::Context, OPEN),
    };
    Claim {
        row: Kind::Interleaved.name(),
        metric: "device requests change",
        unit: "%",
        policy,
        published: None,
        role,
        tolerance,
        note: "the text says that windows no longer shrink; at least half of the requests go",
    }
    .row(
        results,
        results.compared((policy, BEFORE), &Kind::Interleaved.name(), |after, before| {
            percent(after.outcome.stats.requests as f64, before.outcome.stats.requests as f64)
        }),
    )
}

/// The remaining gain with one change switched off.
fn ablated(results: &Results<'_>, kind: Kind, policy: &str) -> Vec<Row> {
    let claim = |metric, unit| Claim::context(kind.name(), (metric, unit), policy, "ablation");
    let gain = results.compared((policy, BEFORE), &kind.name(), |after, before| {
        percent(after.megabytes_per_second(), before.megabytes_per_second())
    });
    let saved = results.compared((policy, BEFORE), &kind.name(), |after, before| {
        pages_read(before) - pages_read(after)
    });
    vec![
        claim("throughput gain", "%").row(results, gain),
        claim("pages saved", "pages").row(results, saved),
    ]
}

fn pages_read(measured: &Measured) -> f64 {
    measured.outcome.stats.pages_read as f64
}
