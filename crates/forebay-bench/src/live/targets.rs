//! Whether tuning meets its targets.

use super::figure::Figure;
use super::rounds::{Line, Results};
use super::stage::{DEFAULT, OURS, READS_FIRST, Stage};
use crate::verdict::{Target, Verdict};

/// The verdicts that these results allow: a target whose two sides were not measured is left out.
pub(super) fn verdicts(results: &Results) -> Vec<Verdict> {
    let mut found = Vec::new();
    let mut note = |what: &str, measured: Option<f64>, target| {
        found.extend(measured.map(|measured| Verdict::new(what, measured, target)));
    };
    let ours = |stage| results.find(stage, OURS);
    let of_default = |stage, way, figure| {
        let default = results.find(stage, DEFAULT)?;
        results.find(stage, way)?.ratio(default, figure)
    };
    let beside = |stage, figure| of_default(stage, OURS, figure);
    let of_best = |stage, figure| ours(stage)?.ratio(results.best(stage, figure)?, figure);
    let of = |stage, figure| ours(stage)?.median(figure);

    let (a, touches) = (Stage::Faults, Figure::Touches);
    note("a: touches of the best x", of_best(a, touches), Target::AtLeast(0.95));
    note("a: touches of the default x", beside(a, touches), Target::AtLeast(150.0));
    note("a: seconds until it is at speed", settled(results), Target::AtMost(2.0));
    let b = Stage::FaultsBeside;
    note("b: touches of the default x", beside(b, touches), Target::AtLeast(200.0));
    note("b: stream of the default x", beside(b, Figure::Stream), Target::AtLeast(1.3));
    for (what, stage) in [
        ("c disk: stream of the best x", Stage::StreamDisk),
        ("c link: stream of the best x", Stage::StreamLink),
    ] {
        note(what, of_best(stage, Figure::Stream), Target::AtLeast(0.97));
    }
    let d = Stage::Copy;
    note("d: seconds unwritten after the copy", of(d, Figure::Rest), Target::AtMost(2.0));
    let fsync = of(d, Figure::FsyncMax).map(|millis| millis / 1e3);
    note("d: seconds of the bystander's longest fsync", fsync, Target::AtMost(2.0));
    note("d: total of the default x", beside(d, Figure::Total), Target::AtMost(1.03));
    let e = Stage::Writers;
    let reads_first = |figure| of_default(e, READS_FIRST, figure);
    note("e: read p99 of the default x", reads_first(Figure::ReadP99), Target::AtMost(0.1));
    let light = reads_first(Figure::LightMax);
    note("e: light writer's longest of the default x", light, Target::AtMost(0.1));
    note("e: total of the default x", reads_first(Figure::Total), Target::AtMost(1.1));
    let f = Stage::Untouched;
    note("f: cached read of the default x", beside(f, Figure::Cached), Target::AtMost(1.01));
    note("f: direct read of the default x", beside(f, Figure::Direct), Target::AtMost(1.01));
    let steered = ours(f).and_then(|line| line.most(Figure::Steered));
    note("f: knobs steered", steered, Target::AtMost(0.0));
    note("knobs of the device left changed", most(results, Figure::Left), Target::AtMost(0.0));
    note("the tuner's memory in MiB", most(results, Figure::TunerMemory), Target::AtMost(8.0));
    found
}

/// Seconds until touches are at 95 % of those of the best.
pub(super) fn settled(results: &Results) -> Option<f64> {
    let best = results.best(Stage::Faults, Figure::Touches)?.median(Figure::Touches)?;
    results.find(Stage::Faults, OURS)?.settled(0.95 * best)
}

fn most(results: &Results, figure: Figure) -> Option<f64> {
    let ours = results.lines().iter().filter(|line| line.way.is_ours());
    ours.filter_map(|line: &Line| line.most(figure)).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::super::rounds::Round;
    use super::*;

    fn said(figures: &[(Stage, &str, Figure, f64)]) -> Vec<String> {
        let mut results = Results::default();
        for (stage, name, figure, value) in figures {
            let ways = stage.ways(&[]);
            let way = ways.iter().find(|way| way.name == *name).unwrap();
            let mut round = Round::default();
            round.put(*figure, Some(*value));
            results.put((*stage, way), "limits", 0, round);
        }
        verdicts(&results).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn touches_are_compared_with_the_default_and_the_best() {
        let (stage, figure) = (Stage::Faults, Figure::Touches);
        let said = said(&[
            (stage, DEFAULT, figure, 10.0),
            (stage, "fixed 32 KiB", figure, 2000.0),
            (stage, OURS, figure, 1500.0),
        ]);
        assert_eq!(
            said,
            [
                "missed a: touches of the best x 0.750, at least 0.950",
                "met    a: touches of the default x 150.000, at least 150.000",
            ]
        );
    }

    #[test]
    fn a_fsync_is_judged_in_seconds() {
        let said = said(&[(Stage::Copy, OURS, Figure::FsyncMax, 2500.0)]);
        let expected = "missed d: seconds of the bystander's longest fsync 2.500, at most 2.000";
        assert_eq!(said, [expected]);
    }

    #[test]
    fn one_knob_left_in_any_stage_is_too_many() {
        let left = |count| {
            said(&[
                (Stage::Copy, OURS, Figure::Left, 0.0),
                (Stage::Faults, OURS, Figure::Left, count),
            ])
        };
        let line = |verdict: &str, count: &str| {
            vec![format!("{verdict} knobs of the device left changed {count}, at most 0.000")]
        };
        assert_eq!(left(0.0), line("met   ", "0.000"));
        assert_eq!(left(1.0), line("missed", "1.000"));
    }

    #[test]
    fn without_our_way_there_is_no_verdict() {
        let all = [
            (Stage::Faults, DEFAULT, Figure::Touches, 10.0),
            (Stage::Copy, DEFAULT, Figure::Rest, 10.0),
        ];
        assert!(said(&all).is_empty());
    }
}
