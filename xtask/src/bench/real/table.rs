//! The table: medians, ratios and targets.

use anyhow::Result;

use super::Rounds;
use super::row::{Better, Row};
use super::way::Way;
use crate::process::say;

/// At least this part of the default.
const OF_DEFAULT: f64 = 0.97;

/// At least this part of the best fixed setting.
const OF_BEST: f64 = 0.8;

/// Prints the table; 1 if a target was missed.
pub(super) fn print(results: &[(&Row, Rounds)], rounds: u32) -> Result<u8> {
    say("| row | unit | default | tune | best fixed | x default | x best | target |")?;
    say("| --- | --- | --- | --- | --- | --- | --- | --- |")?;
    let mut missed = 0;
    for (row, rounds) in results {
        let outcome = Outcome::of(row, rounds);
        missed += u8::from(!outcome.is_met());
        say(&outcome.line(row))?;
    }
    say("")?;
    say(&format!(
        "Medians of {rounds} rounds; ratios are medians of ratios within a round, and say how many \
         times as good. Targets: {OF_DEFAULT} of the default, {OF_BEST} of the best fixed setting."
    ))?;
    Ok(u8::from(missed > 0))
}

/// All figures of a row, a line for each way.
pub(super) fn lines(row: &Row, rounds: &Rounds) -> Vec<String> {
    let line = |(way, figures): (&Way, &Vec<f64>)| {
        let all: Vec<String> = figures.iter().map(|figure| shown(*figure)).collect();
        format!("  {:24} {way}: {} {}", row.name, all.join(", "), row.unit)
    };
    rounds.iter().map(line).collect()
}

/// The result of a row.
struct Outcome {
    medians: Vec<(Way, f64)>,
    best: Option<(Way, f64)>,
    of_default: Option<f64>,
    of_best: Option<f64>,
}

impl Outcome {
    fn of(row: &Row, rounds: &Rounds) -> Self {
        let medians: Vec<(Way, f64)> =
            rounds.iter().map(|(way, figures)| (*way, median(figures.clone()))).collect();
        let fixed = medians.iter().filter(|(way, _)| way.kind() == "fixed").copied();
        let best = fixed.max_by(|(_, a), (_, b)| match row.better {
            Better::More => a.total_cmp(b),
            Better::Less => b.total_cmp(a),
        });
        let ratio = |other: Way| {
            let (ours, others) = (rounds.get(&Way::Tune)?, rounds.get(&other)?);
            let of = |(ours, other): (&f64, &f64)| match row.better {
                Better::More => ours / other,
                Better::Less => other / ours,
            };
            Some(median(ours.iter().zip(others).map(of).collect()))
        };
        let (of_default, of_best) = (ratio(Way::Default), best.and_then(|(way, _)| ratio(way)));
        Self { medians, best, of_default, of_best }
    }

    fn is_met(&self) -> bool {
        let meets = |ratio: Option<f64>, least| ratio.is_none_or(|ratio| ratio >= least);
        meets(self.of_default, OF_DEFAULT) && meets(self.of_best, OF_BEST)
    }

    fn line(&self, row: &Row) -> String {
        let median = |way: Way| {
            let found = self.medians.iter().find(|(known, _)| *known == way);
            found.map_or("-".to_owned(), |(_, figure)| shown(*figure))
        };
        let best = self.best.map_or("-".to_owned(), |(way, it)| format!("{} ({way})", shown(it)));
        let ratio = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |it| format!("{it:.2}"));
        format!(
            "| {} | {} | {} | {} | {best} | {} | {} | {} |",
            row.name,
            row.unit,
            median(Way::Default),
            median(Way::Tune),
            ratio(self.of_default),
            ratio(self.of_best),
            if self.is_met() { "met" } else { "**missed**" },
        )
    }
}

fn shown(figure: f64) -> String {
    if figure < 100.0 { format!("{figure:.2}") } else { format!("{figure:.0}") }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => figures[middle],
        _ => f64::midpoint(figures[middle - 1], figures[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::ROWS;
    use super::*;

    fn outcome(better: Better, figures: &[(Way, &[f64])]) -> Outcome {
        let row = ROWS.iter().find(|row| row.better == better).unwrap();
        let rounds = figures.iter().map(|(way, figures)| (*way, figures.to_vec())).collect();
        Outcome::of(row, &rounds)
    }

    #[test]
    fn ratios_are_those_of_one_round_and_the_best_is_a_fixed_one() {
        let found = outcome(
            Better::More,
            &[
                (Way::Default, &[100.0, 10.0, 1.0]),
                (Way::Tune, &[200.0, 20.0, 2.0]),
                (Way::ReadAhead(16), &[400.0, 50.0, 4.0]),
                (Way::ReadAhead(32), &[1.0, 1.0, 1.0]),
            ],
        );
        assert_eq!(found.best, Some((Way::ReadAhead(16), 50.0)));
        assert_eq!((found.of_default, found.of_best), (Some(2.0), Some(0.5)));
        assert!(!found.is_met(), "0.8 of the best is asked for");
    }

    #[test]
    fn of_times_the_shorter_one_is_better() {
        let found = outcome(
            Better::Less,
            &[(Way::Default, &[9.0]), (Way::Tune, &[3.0]), (Way::Cap(8), &[2.5])],
        );
        assert_eq!((found.of_default, found.of_best), (Some(3.0), Some(2.5 / 3.0)));
        assert!(found.is_met());
    }
}
