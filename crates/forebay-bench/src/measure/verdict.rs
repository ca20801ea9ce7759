//! Whether the adaptive mode meets its targets.

use forebay_host::access::Mode;

use super::{Cell, Pages, Row};
use crate::verdict::{Target, Verdict};

/// The targets for these rows. The one about tokio is there if it took part under this name.
pub(crate) fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut found = Vec::new();
    for ours in rows.iter().filter(|row| row.name == Mode::Adaptive.name()) {
        let cell = ours.cell;
        let others = || rows.iter().filter(move |row| row.cell == cell);
        let named = |name: &str| others().find(|row| row.name == name);
        let quiet = |pages, depth| cell == Cell { pages, depth, busy: false };
        let mut note = |what: String, measured, target| {
            found.push(Verdict::new(format!("{cell}: {what}"), measured, target));
        };
        if let Some(pread) = named("pread").filter(|_| quiet(Pages::Cached, 1)) {
            note("time of pread x".to_owned(), pread.speed(ours), Target::AtMost(1.2));
            note("switches".to_owned(), ours.switches, Target::AtMost(0.001));
        }
        if let Some(tokio) = named(TOKIO).filter(|_| quiet(Pages::Cold, 32)) {
            let what = format!("processor time of {TOKIO} x");
            note(what, ours.cpu_ratio(tokio), Target::AtMost(1.0 / 8.0));
        }
        let fixed = Mode::ALL.into_iter().filter(|mode| *mode != Mode::Adaptive);
        let beside = fixed.filter_map(|mode| Some((mode, ours.speed(named(mode.name())?))));
        if let Some((mode, speed)) = beside.min_by(|a, b| a.1.total_cmp(&b.1)) {
            note(format!("speed of {} x", mode.name()), speed, Target::AtLeast(0.97));
        }
    }
    found
}

/// What the reader on a runtime is called.
pub(crate) const TOKIO: &str = "tokio::fs";

#[cfg(test)]
mod tests {
    use super::super::Round;
    use super::*;

    fn row(name: &'static str, rate: f64) -> Row {
        let round = Round { rate, cpu: 1.0 / rate, ..Round::default() };
        Row::new(Cell { pages: Pages::Cached, depth: 1, busy: false }, name, vec![round; 3])
    }

    #[test]
    fn the_best_fixed_mode_counts() {
        let rows = [row("pread", 100.0), row("inline", 99.0), row("uring", 60.0)];
        let all = |rate| [rows.to_vec(), vec![row("adaptive", rate)]].concat();
        let met = |rate| verdicts(&all(rate)).iter().map(Verdict::is_met).collect::<Vec<_>>();
        assert_eq!(met(98.0), [true, true, true]);
        assert_eq!(met(90.0), [true, true, false]);
        assert_eq!(met(50.0), [false, true, false]);
        let said = verdicts(&all(90.0))[2].to_string();
        assert_eq!(said, "missed cached qd1 idle: speed of inline x 0.909, at least 0.970");
    }
}
