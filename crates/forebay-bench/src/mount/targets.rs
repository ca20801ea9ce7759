//! Whether our mount meets its targets.

use crate::args::MountWorkload as Workload;
use crate::measure::mount::{Figures, Round, ratio};

use super::mounted::BUDGET;
use super::rounds::Results;
use super::set::Format;
use super::ways::{DEFAULT, How, KERNEL, OURS, POLICIES, REPLAY, SQUASHFUSE_LL};
use crate::verdict::{Target, Verdict};

/// The verdicts that these results allow: a target whose two sides were not measured is left out.
pub(super) fn verdicts(results: &Results) -> Vec<Verdict> {
    let mut found = Vec::new();
    let mut note = |what: &str, measured: Option<f64>, target| {
        found.extend(measured.map(|measured| Verdict::new(what, measured, target)));
    };
    let zlib = Format::SquashZlib;
    let time = |workload, other: &str, of: Figures| {
        let ours = results.find(workload, zlib, OURS)?;
        ratio(ours, results.find(workload, zlib, other)?, of)
    };
    for workload in RANDOM {
        let name = workload.name();
        let alternatives = ["off", "selective"].map(|policy| format!("{OURS} {policy}"));
        for (figure, of) in [("total", WALL), ("p99", P99)] {
            // Of two ratios the larger one is that to the better alternative.
            let ratios = alternatives.iter().filter_map(|other| time(workload, other, of));
            let what = format!("{name}: {figure} of the better of off and selective x");
            note(&what, ratios.max_by(f64::total_cmp), Target::AtMost(1.05));
        }
        let brought = time(workload, &alternatives[0], |round| round.image);
        note(&format!("{name}: bytes of image of off x"), brought, Target::AtMost(1.1));
        let most = if workload.is_slow() { 1.0 } else { 0.6 };
        let total = time(workload, SQUASHFUSE_LL, WALL);
        note(&format!("{name}: total of squashfuse_ll x"), total, Target::AtMost(most));
        let p99 = time(workload, SQUASHFUSE_LL, P99);
        note(&format!("{name}: p99 of squashfuse_ll x"), p99, Target::AtMost(1.0));
    }
    for (format, peer) in user_space(results).into_iter().filter(|(format, _)| *format != zlib) {
        let ours = results.find(Workload::Preads, format, OURS);
        let theirs = results.find(Workload::Preads, format, &peer);
        let measured = ours.zip(theirs).and_then(|(ours, theirs)| ratio(ours, theirs, WALL));
        let what = format!("preads, {}: total of {peer} x", format.name());
        note(&what, measured, Target::AtMost(0.6));
    }
    let start = time(Workload::Start, SQUASHFUSE_LL, WALL);
    note("start: time of squashfuse_ll x", start, Target::AtMost(0.78));
    let start = time(Workload::Start, KERNEL, WALL);
    note("start: time of the kernel's squashfs x", start, Target::AtMost(0.65));
    for (workload, least) in [(Workload::Tree, 2.3), (Workload::Tree4, 3.0)] {
        let what = format!("{}: speed of squashfuse_ll x", workload.name());
        let speed = time(workload, SQUASHFUSE_LL, WALL).map(f64::recip);
        note(&what, speed, Target::AtLeast(least));
    }
    note("start: pages decoded for nothing", useless(results, OURS), Target::AtMost(0.1));
    let eager = time(Workload::Start, &format!("{OURS} {}", POLICIES[0]), WALL);
    note("start: time of answering in full x", eager, Target::AtMost(1.0));
    note("MiB beside the budget, the most of all work", memory(results), Target::AtMost(24.0));
    note("start by a profile: time of ext4 x", replay(results), Target::AtMost(1.08));
    found
}

/// The share of pages decoded at a start that were not requested. A server that answers only single
/// pages decodes exactly the requested pages: this is our mount without readahead.
pub(super) fn useless(results: &Results, name: &str) -> Option<f64> {
    let decoded = |name: &str| {
        let rounds = results.find(Workload::Start, Format::SquashZlib, name)?;
        Round::median(rounds, |round| round.decoded)
    };
    let (wanted, decoded) = (decoded(&format!("{OURS} off"))?, decoded(name)?);
    (decoded > 0.0).then(|| (1.0 - wanted / decoded).max(0.0))
}

/// Servers that are not ours, with the formats that they serve.
fn user_space(results: &Results) -> Vec<(Format, String)> {
    let servers = results.ways.iter().filter(|way| match way.how {
        How::Server(_) => true,
        How::Ours(_) | How::Kernel { .. } => false,
    });
    servers.map(|way| (way.format, way.name.clone())).collect()
}

/// The most memory that a server of ours held under our default, without its budget, in MiB.
fn memory(results: &Results) -> Option<f64> {
    let budget = BUDGET as f64 / f64::from(1 << 20);
    let all = Workload::ROUNDS.into_iter().flat_map(|workload| results.of(workload));
    let ours = all.filter(|(way, _)| match way.how {
        How::Ours(ours) => ours.policy == DEFAULT,
        How::Server(_) | How::Kernel { .. } => false,
    });
    let each = ours.filter_map(|(_, rounds)| Round::median(rounds, |round| round.rss));
    each.max_by(f64::total_cmp).map(|most| most - budget)
}

fn replay(results: &Results) -> Option<f64> {
    let ours = results.find(Workload::Start, Format::SquashZlib, REPLAY)?;
    ratio(ours, results.find(Workload::Start, Format::Ext4, KERNEL)?, WALL)
}

/// All but a hundredth of the pages took no longer.
const P99: Figures = |round| round.p99;

/// Random accesses, where the default may do no harm.
const RANDOM: [Workload; 4] =
    [Workload::Faults, Workload::FaultsSlow, Workload::Preads, Workload::PreadsSlow];

/// The time of all of it.
pub(super) const WALL: Figures = |round| Some(round.wall);

#[cfg(test)]
mod tests {
    use super::super::ways::{Way, all};
    use super::*;

    fn results(figures: &[(Workload, Format, &str, Round)]) -> Results {
        let (mut ways, _) = all(&Format::ALL);
        // This machine may not have it.
        let theirs =
            Way { name: SQUASHFUSE_LL.to_owned(), format: ZLIB, how: How::Server(SQUASHFUSE_LL) };
        ways.retain(|way| (way.format, &way.name) != (ZLIB, &theirs.name));
        ways.push(theirs);
        let mut results = Results::new(ways);
        for (workload, format, name, round) in figures {
            results.put(*workload, *format, name, vec![round.clone(); 3]);
        }
        results
    }

    fn said(results: &Results) -> Vec<String> {
        verdicts(results).iter().map(ToString::to_string).collect()
    }

    const ZLIB: Format = Format::SquashZlib;

    #[test]
    fn random_accesses_are_compared_with_the_better_alternative_and_the_other_server() {
        let round = |wall, p99, image| {
            let (p99, image) = (Some(p99), Some(image));
            Round { wall, p99, image, ..Round::default() }
        };
        for workload in RANDOM {
            let bound = if workload.is_slow() { 1.0 } else { 0.6 };
            let results = |over: f64| {
                let ours = round(10.5 * over, 105.0 * over, 2.2 * over);
                results(&[
                    (workload, ZLIB, OURS, ours),
                    (workload, ZLIB, "forebay off", round(10.0, 130.0, 2.0)),
                    (workload, ZLIB, "forebay selective", round(20.0, 100.0, 9.0)),
                    (workload, ZLIB, SQUASHFUSE_LL, round(10.5 / bound, 105.0, 3.0)),
                ])
            };
            let met = |results: &Results| -> Vec<bool> {
                verdicts(results).iter().map(Verdict::is_met).collect()
            };
            assert_eq!(met(&results(0.999)), [true; 5], "{workload:?}");
            assert_eq!(met(&results(1.001)), [false; 5], "{workload:?}");
        }
    }

    #[test]
    fn what_was_not_asked_for_is_known_from_a_server_that_brings_nothing_else() {
        let round = |decoded| Round { wall: 1.0, decoded: Some(decoded), ..Round::default() };
        let starts = results(&[
            (Workload::Start, ZLIB, OURS, round(8000.0)),
            (Workload::Start, ZLIB, "forebay off", round(7000.0)),
        ]);
        assert_eq!(useless(&starts, OURS), Some(0.125));
        assert_eq!(useless(&starts, "forebay off"), Some(0.0));
        assert_eq!(useless(&starts, KERNEL), None);
    }

    #[test]
    fn memory_is_judged_beside_the_budget_and_where_it_is_most() {
        let round = |mebibytes: f64| Round { rss: Some(mebibytes), ..Round::default() };
        let results = results(&[
            (Workload::Tree, ZLIB, OURS, round(36.0)),
            (Workload::Tree4, Format::Erofs, OURS, round(41.0)),
            (Workload::Faults, ZLIB, "forebay eager", round(99.0)),
        ]);
        assert_eq!(memory(&results), Some(25.0));
    }

    #[test]
    fn without_its_other_side_a_target_is_left_out() {
        let round = Round { wall: 5.0, ..Round::default() };
        assert!(said(&results(&[(Workload::Start, ZLIB, OURS, round)])).is_empty());
    }
}
