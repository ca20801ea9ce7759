//! Rounds and their figures, by stage and way.

use std::collections::{BTreeMap, BTreeSet};

use super::figure::Figure;
use super::stage::{Stage, Way};
use crate::measure::live::Measured;
use crate::measure::median;

/// One round.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    pub(super) figures: BTreeMap<Figure, f64>,
    /// The steps of the toucher, from which it is seen when it has come to speed.
    pub(super) curve: Option<Measured>,
    /// Names of the device's knobs that were tuned.
    pub(super) steered: Vec<String>,
}

impl Round {
    pub(super) fn put(&mut self, figure: Figure, value: Option<f64>) {
        self.figures.extend(value.map(|value| (figure, value)));
    }
}

/// All rounds.
#[derive(Debug, Default)]
pub(super) struct Results {
    lines: Vec<Line>,
}

/// The rounds of one way in one stage.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) stage: Stage,
    pub(super) way: Way,
    /// How the device was made slow.
    pub(super) device: &'static str,
    /// By turn.
    pub(super) rounds: BTreeMap<u32, Round>,
}

impl Line {
    /// The median of a figure.
    pub(super) fn median(&self, figure: Figure) -> Option<f64> {
        known(median(self.rounds.values().filter_map(|round| round.figures.get(&figure).copied())))
    }

    /// The largest of a figure.
    pub(super) fn most(&self, figure: Figure) -> Option<f64> {
        let figures = self.rounds.values().filter_map(|round| round.figures.get(&figure).copied());
        figures.max_by(f64::total_cmp)
    }

    /// How many times another's figure: the median of ratios within a turn.
    pub(super) fn ratio(&self, other: &Self, figure: Figure) -> Option<f64> {
        let pair = |(turn, round): (&u32, &Round)| {
            let other = other.rounds.get(turn)?.figures.get(&figure)?;
            (*other > 0.0).then_some(round.figures.get(&figure)? / other)
        };
        known(median(self.rounds.iter().filter_map(pair)))
    }

    /// Names of the device's knobs that were tuned in any round.
    pub(super) fn steered(&self) -> BTreeSet<&str> {
        self.rounds.values().flat_map(|round| round.steered.iter().map(String::as_str)).collect()
    }

    /// Seconds until the toucher keeps `rate` touches a second: the median, infinite for a round in
    /// which it never does.
    pub(super) fn settled(&self, rate: f64) -> Option<f64> {
        let curves = self.rounds.values().filter_map(|round| round.curve.as_ref());
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        known(median(curves.map(|curve| curve.settled(rate).map_or(f64::INFINITY, seconds))))
    }
}

impl Results {
    /// The lines in order of stages.
    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Takes in a round.
    pub(super) fn put(
        &mut self,
        (stage, way): (Stage, &Way),
        device: &'static str,
        turn: u32,
        round: Round,
    ) {
        let is_it = |line: &&mut Line| line.stage == stage && line.way == *way;
        if let Some(line) = self.lines.iter_mut().find(is_it) {
            line.rounds.insert(turn, round);
            return;
        }
        let rounds = BTreeMap::from([(turn, round)]);
        self.lines.push(Line { stage, way: way.clone(), device, rounds });
    }

    /// The lines in the order of stages and ways.
    pub(super) fn sort(&mut self, order: impl Fn(Stage) -> Vec<Way>) {
        self.lines.sort_by_key(|line| {
            let place = order(line.stage).iter().position(|way| *way == line.way);
            (line.stage, place)
        });
    }

    /// The line of a way.
    pub(super) fn find(&self, stage: Stage, name: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.stage == stage && line.way.name == name)
    }

    /// Of the ways without us, the one whose figure is largest.
    pub(super) fn best(&self, stage: Stage, figure: Figure) -> Option<&Line> {
        let others = self.lines.iter().filter(|line| line.stage == stage && !line.way.is_ours());
        let known = others.filter_map(|line| Some((line, line.median(figure)?)));
        Some(known.max_by(|a, b| a.1.total_cmp(&b.1))?.0)
    }
}

fn known(number: f64) -> Option<f64> {
    (!number.is_nan()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::super::stage::{DEFAULT, OURS};
    use super::*;

    fn results(figures: &[(&str, u32, f64)]) -> Results {
        let mut results = Results::default();
        for (name, turn, figure) in figures {
            let ways = Stage::Faults.ways(&[]);
            let way = ways.iter().find(|way| way.name == *name).unwrap();
            let mut round = Round::default();
            round.put(Figure::Touches, Some(*figure));
            results.put((Stage::Faults, way), "limits", *turn, round);
        }
        results
    }

    #[test]
    fn ratios_are_those_of_one_turn() {
        // The machine was ten times as slow in the second turn, and the other was not there in
        // the third.
        let results = results(&[
            (OURS, 0, 100.0),
            (DEFAULT, 0, 50.0),
            (OURS, 1, 10.0),
            (DEFAULT, 1, 5.0),
            (OURS, 2, 70.0),
        ]);
        let (ours, default) = (
            results.find(Stage::Faults, OURS).unwrap(),
            results.find(Stage::Faults, DEFAULT).unwrap(),
        );
        assert_eq!(ours.ratio(default, Figure::Touches), Some(2.0));
        assert_eq!(ours.median(Figure::Touches), Some(70.0));
        assert_eq!(ours.most(Figure::Touches), Some(100.0));
        assert_eq!(ours.ratio(default, Figure::Rest), None);
    }

    #[test]
    fn the_best_of_the_others_is_not_us() {
        let results = results(&[
            (DEFAULT, 0, 1.0),
            ("fixed 32 KiB", 0, 9.0),
            ("fixed 64 KiB", 0, 7.0),
            (OURS, 0, 10.0),
        ]);
        let best = results.best(Stage::Faults, Figure::Touches).unwrap();
        assert_eq!(best.way.name, "fixed 32 KiB");
    }

    #[test]
    fn lines_stand_in_the_order_of_the_ways() {
        let mut results = results(&[(OURS, 0, 1.0), ("fixed 64 KiB", 0, 1.0), (DEFAULT, 0, 1.0)]);
        results.sort(|stage| stage.ways(&[]));
        let names: Vec<&str> = results.lines().iter().map(|line| &*line.way.name).collect();
        assert_eq!(names, [DEFAULT, "fixed 64 KiB", OURS]);
    }
}
