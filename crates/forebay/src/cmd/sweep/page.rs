//! The page of a sweep: heat maps over two dimensions, Pareto fronts of two figures, and a list of
//! all settings.
//!
//! Inputs and machines are not averaged: each pair of them that is no axis has figures of its own.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use forebay_report::messages::Complaint;
use forebay_report::page::{
    Axis, Digits, Figure, HeatAxis, HeatCell, HeatMap, Join, Layout, Page, Point, Scale, Series,
};
use forebay_report::table::{Cell, Table};
use serde_json::Value;

use super::axes::{self, Dimension, Spanned};
use super::front::{Goal, front};
use super::means::{Means, SeedRow, Settings, mean};
use super::plan::Plan;
use super::ranked::{COLUMNS, Ranked, cells, ranked};
use crate::args::sweep::SweepPage;

/// What is on the page.
#[derive(Debug)]
pub(super) struct Chosen {
    by: Goal,
    against: Option<Goal>,
    /// All dimensions, with the values that are on the page.
    dimensions: Vec<Spanned>,
    /// Those of which one value was chosen.
    narrowed: BTreeSet<usize>,
    /// Rows and columns of heat maps, by their places among the dimensions.
    axes: Vec<usize>,
}

/// The column that a page shows if none is named: the first p99 that was measured.
pub(super) fn goal(means: &Means<'_>, typed: Option<&str>) -> Result<Goal> {
    if let Some(typed) = typed {
        return Goal::parse(typed, means);
    }
    let measured = LATENCIES.into_iter().find(|column| is_measured(means, column));
    Ok(Goal::of(measured.unwrap_or(THROUGHPUT)))
}

/// Whether a row has a value of a column above zero.
fn is_measured(means: &Means<'_>, column: &str) -> bool {
    let value = |row: &serde_json::Map<String, Value>| row.get(column).and_then(Value::as_f64);
    means.rows().any(|row| value(row).is_some_and(|value| value > 0.0))
}

const THROUGHPUT: &str = "throughput_mb_s";

/// The columns that stand against throughput, the first one first.
const LATENCIES: [&str; 3] = ["read_p99_us", "write_p99_us", "sync_p99_us"];

impl Chosen {
    /// What was typed, or what is natural; an error if it does not exist.
    pub(super) fn new(plan: &Plan, means: &Means<'_>, typed: &SweepPage, by: Goal) -> Result<Self> {
        let natural = if by.column == THROUGHPUT { &LATENCIES[..] } else { &[THROUGHPUT] };
        let natural = || natural.iter().find(|column| is_measured(means, column));
        let against = match &typed.against {
            Some(typed) => Some(Goal::parse(typed, means)?),
            None => natural().map(|column| Goal::of(*column)),
        };
        if against.as_ref().is_some_and(|against| against.column == by.column) {
            let what = format!("--against {}: the column is the one of --by", by.column);
            bail!(Complaint::new(what).hint("a Pareto front has two figures"));
        }
        let (mut dimensions, mut narrowed) = (axes::all(plan), BTreeSet::new());
        for chosen in &typed.at {
            let Some((key, value)) = chosen.split_once('=') else {
                bail!(
                    Complaint::new(format!("--at takes KEY=VALUE, not '{chosen}'"))
                        .hint("`--at seed=1` shows the points of one seed")
                );
            };
            let place = find(&dimensions, "--at", key)?;
            narrowed.insert(place);
            let Spanned { dimension, values, .. } = &mut dimensions[place];
            let is_it = |known: &String| known == value || dimension.shown(known) == value;
            if !values.iter().any(is_it) {
                let shown: Vec<String> = values.iter().map(|it| dimension.shown(it)).collect();
                bail!(
                    Complaint::new(format!("--at {chosen}: no point has this value"))
                        .nearest(value, shown.iter().map(String::as_str))
                );
            }
            let dimension = *dimension;
            values.retain(|known| known == value || dimension.shown(known) == value);
        }
        let axes = match &typed.axes[..] {
            [] => natural_axes(&dimensions),
            [rows, columns] if rows != columns => {
                vec![find(&dimensions, "--axes", rows)?, find(&dimensions, "--axes", columns)?]
            }
            other => bail!(
                Complaint::new(format!("--axes takes two names, not '{}'", other.join(",")))
                    .hint("`--axes machine,seed` has a row for each machine")
            ),
        };
        Ok(Self { by, against, dimensions, narrowed, axes })
    }

    /// Whether a point is on the page.
    fn has(&self, settings: &Settings<'_>, seed: u64) -> bool {
        let narrowed = self.narrowed.iter().map(|place| &self.dimensions[*place]);
        let mut is_there =
            narrowed.map(|one| one.values.contains(&one.dimension.value(settings, seed)));
        is_there.all(|is_there| is_there)
    }

    /// Dimensions that are neither averaged nor axes.
    fn apart(&self) -> impl Iterator<Item = &Spanned> {
        let is_axis = |place: &usize| self.axes.contains(place);
        let all = self.dimensions.iter().enumerate().filter(move |(place, _)| !is_axis(place));
        let is_apart =
            |one: &&Spanned| matches!(one.dimension, Dimension::Input | Dimension::Machine);
        all.map(|(_, one)| one).filter(is_apart)
    }

    /// What a figure is of, if there are several.
    fn group(&self, settings: &Settings<'_>) -> String {
        let several = self.apart().filter(|one| one.values.len() > 1);
        let words = several.map(|one| one.dimension.shown(&one.dimension.value(settings, 0)));
        words.collect::<Vec<_>>().join(", ")
    }

    /// Over what a cell of a heat map is a mean.
    fn averaged(&self) -> String {
        let is_apart = |one: &Spanned| self.apart().any(|other| other.name == one.name);
        let rest = self.dimensions.iter().enumerate().filter(|(place, one)| {
            !self.axes.contains(place) && one.values.len() > 1 && !is_apart(one)
        });
        let words: Vec<String> =
            rest.map(|(_, one)| format!("{} {}", one.values.len(), plural(&one.name))).collect();
        match words.is_empty() {
            true => String::new(),
            false => format!(" Each cell is a mean over {}.", words.join(", ")),
        }
    }
}

fn plural(name: &str) -> String {
    match name {
        "seed" => "seeds".to_owned(),
        other => format!("values of {other}"),
    }
}

/// The place of a dimension.
fn find(dimensions: &[Spanned], option: &str, name: &str) -> Result<usize> {
    let place = dimensions.iter().position(|one| one.name == name);
    place.ok_or_else(|| {
        Complaint::new(format!("{option}: no key of the sweep is named '{name}'"))
            .nearest(name, dimensions.iter().map(|one| one.name.as_str()))
            .into()
    })
}

/// The first two dimensions with several values; the longer one goes down, where there is room.
fn natural_axes(dimensions: &[Spanned]) -> Vec<usize> {
    let several = (0..dimensions.len()).filter(|place| dimensions[*place].values.len() > 1);
    let mut axes: Vec<usize> = several.take(2).collect();
    axes.sort_by_key(|place| std::cmp::Reverse(dimensions[*place].values.len()));
    axes
}

/// The page; `means` holds the settings that keep the limits.
pub(super) fn of(
    plan: &Plan,
    means: &Means<'_>,
    chosen: &Chosen,
    limits: &[String],
    notes: &[String],
) -> Page {
    let on_page = Means { keys: means.keys, all: on_page(means, chosen) };
    let fixed = |one: &&Spanned| one.values.len() == 1;
    let fixed = chosen.dimensions.iter().filter(fixed);
    let fixed = fixed.map(|one| format!("{}={}", one.name, one.dimension.shown(&one.values[0])));
    let facts = [
        ("version", format!("forebay {}", plan.version)),
        ("time", "virtual".to_owned()),
        ("points", on_page.all.values().map(Vec::len).sum::<usize>().to_string()),
        ("settings", on_page.all.len().to_string()),
        ("the same in all", fixed.collect::<Vec<_>>().join(", ")),
        ("limits", limits.join(", ")),
    ];
    let Goal { column, .. } = &chosen.by;
    let mut page = Page::new(&format!("Sweep by {column}"), &facts);
    page.notes(notes);
    page.heading(&format!("{column}, {}", chosen.by.words()));
    let maps = heat_maps(&on_page, chosen);
    if maps.is_empty() {
        page.paragraph("No setting has several values, so there is no map.");
    }
    maps.iter().take(FIGURES_MAX).for_each(|map| page.heat_map(map));
    left_out(&mut page, maps.len());
    if let Some(against) = &chosen.against {
        page.heading(&format!("{column} against {}", against.column));
        let fronts = fronts(&on_page, chosen, against);
        page.figures(fronts.iter().take(FIGURES_MAX));
        left_out(&mut page, fronts.len());
    }
    page.heading("All settings");
    page.table(&list(&on_page, chosen), "", Digits::All);
    page
}

fn left_out(page: &mut Page, count: usize) {
    if count > FIGURES_MAX {
        let words = "inputs and machines; --at chooses one of them";
        page.paragraph(&format!("The first {FIGURES_MAX} of {count} pairs of {words}."));
    }
}

/// Settings with the rows that are on the page.
fn on_page<'a>(means: &Means<'a>, chosen: &Chosen) -> BTreeMap<Settings<'a>, Vec<SeedRow<'a>>> {
    let all = means.all.iter().map(|(settings, rows)| {
        let rows = rows.iter().filter(|one| chosen.has(settings, one.seed)).copied();
        (*settings, rows.collect::<Vec<_>>())
    });
    all.filter(|(_, rows)| !rows.is_empty()).collect()
}

/// A map for each group of settings.
fn heat_maps(means: &Means<'_>, chosen: &Chosen) -> Vec<HeatMap> {
    let axis = |place: usize| chosen.axes.get(place).map(|axis| &chosen.dimensions[*axis]);
    let (Some(rows), columns) = (axis(0), axis(1)) else { return Vec::new() };
    let width = columns.map_or(1, |columns| columns.values.len());
    let mut groups: Vec<(String, Vec<Sum>)> = Vec::new();
    for (settings, seeds) in &means.all {
        let group = chosen.group(settings);
        let known = groups.iter().position(|(known, _)| *known == group);
        let place = known.unwrap_or_else(|| {
            groups.push((group, vec![Sum::default(); rows.values.len() * width]));
            groups.len() - 1
        });
        let at = |one: &Spanned, seed| {
            let value = one.dimension.value(settings, seed);
            one.values.iter().position(|known| *known == value).unwrap_or(0)
        };
        for SeedRow { seed, row } in seeds {
            let column = columns.map_or(0, |columns| at(columns, *seed));
            let value = row.get(&chosen.by.column).and_then(Value::as_f64);
            groups[place].1[at(rows, *seed) * width + column].add(value);
        }
    }
    let labels = |one: &Spanned| HeatAxis {
        name: one.name.clone(),
        values: one.values.iter().map(|value| one.dimension.shown(value)).collect(),
    };
    let lonely = || HeatAxis { name: String::new(), values: vec![chosen.by.column.clone()] };
    let map = |(group, sums): (String, Vec<Sum>)| {
        let between = if group.is_empty() { "" } else { ": " };
        HeatMap {
            title: format!("{}{between}{group}", chosen.by.column),
            caption: format!("The best mean has a frame.{}", chosen.averaged()),
            rows: labels(rows),
            columns: columns.map_or_else(lonely, labels),
            cells: sums.iter().map(Sum::cell).collect(),
            is_max: chosen.by.is_max,
        }
    };
    groups.into_iter().map(map).collect()
}

/// The values of a cell.
#[derive(Clone, Debug, Default)]
struct Sum {
    total: f64,
    count: u64,
    /// A point without a value leaves no mean.
    is_broken: bool,
    ends: Option<(f64, f64)>,
}

impl Sum {
    fn add(&mut self, value: Option<f64>) {
        let Some(value) = value else {
            self.is_broken = true;
            return;
        };
        self.total += value;
        self.count += 1;
        let (least, greatest) = self.ends.unwrap_or((value, value));
        self.ends = Some((least.min(value), greatest.max(value)));
    }

    fn cell(&self) -> HeatCell {
        let Some((least, greatest)) = self.ends.filter(|_| !self.is_broken) else {
            return HeatCell::default();
        };
        let (mean, count) = (self.total / self.count as f64, self.count);
        let title = match count {
            1 => format!("{mean:.2}"),
            _ => format!("mean {mean:.2} of {count} points, from {least:.2} to {greatest:.2}"),
        };
        HeatCell { value: Some(mean), title }
    }
}

/// A figure for each group of settings.
fn fronts(means: &Means<'_>, chosen: &Chosen, against: &Goal) -> Vec<Figure> {
    let mut groups: Vec<(String, Vec<Pair<'_>>)> = Vec::new();
    for pair in pairs(means, &chosen.by, against) {
        let group = chosen.group(pair.settings);
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, pairs)) => pairs.push(pair),
            None => groups.push((group, vec![pair])),
        }
    }
    groups.iter().map(|(group, pairs)| figure(means, chosen, against, group, pairs)).collect()
}

/// Settings with their means.
struct Pair<'a> {
    settings: &'a Settings<'a>,
    by: f64,
    against: f64,
}

fn pairs<'m>(means: &'m Means<'m>, by: &Goal, against: &Goal) -> Vec<Pair<'m>> {
    let pair = |(settings, rows): (&'m Settings<'m>, &Vec<SeedRow<'m>>)| {
        let (by, against) = (mean(rows, &by.column)?, mean(rows, &against.column)?);
        Some(Pair { settings, by, against })
    };
    means.all.iter().filter_map(pair).collect()
}

/// The places of the pairs on the front.
fn front_of(pairs: &[Pair<'_>], by: &Goal, against: &Goal) -> Vec<usize> {
    let cost = |pair: &Pair<'_>| (against.cost(pair.against), by.cost(pair.by));
    front(&pairs.iter().map(cost).collect::<Vec<_>>())
}

fn figure(
    means: &Means<'_>,
    chosen: &Chosen,
    against: &Goal,
    group: &str,
    pairs: &[Pair<'_>],
) -> Figure {
    let by = &chosen.by;
    let front = front_of(pairs, by, against);
    let on_front: BTreeSet<usize> = front.iter().copied().collect();
    let point = |pair: &Pair<'_>| Point {
        at: pair.against,
        value: Some(pair.by),
        title: format!(
            "{}: {} {:.2}, {} {:.2}",
            means.words(pair.settings),
            by.column,
            pair.by,
            against.column,
            pair.against
        ),
        ..Point::default()
    };
    let rest: Vec<&Pair<'_>> = (0..pairs.len())
        .filter(|place| !on_front.contains(place))
        .map(|place| &pairs[place])
        .collect();
    let every = rest.len().div_ceil(DOMINATED_MAX).max(1);
    let thinned = match every {
        1 => String::new(),
        _ => format!(" One in {every} of the others is drawn."),
    };
    let between = if group.is_empty() { "" } else { ": " };
    Figure {
        title: format!("Pareto front{between}{group}"),
        caption: format!(
            "{} of {} settings are on the front: {} of {}, {} of {}.{thinned}",
            front.len(),
            pairs.len(),
            by.words(),
            by.column,
            against.words(),
            against.column
        ),
        layout: Layout::Across,
        along: Axis {
            label: against.column.clone(),
            scale: scale(pairs.iter().map(|pair| pair.against)),
        },
        value: Axis { label: by.column.clone(), scale: scale(pairs.iter().map(|pair| pair.by)) },
        range: "",
        series: vec![
            Series {
                label: "on the front".to_owned(),
                join: Join::Steps,
                points: front.iter().map(|place| point(&pairs[*place])).collect(),
            },
            Series {
                label: "other settings".to_owned(),
                join: Join::Apart,
                points: rest.into_iter().step_by(every).map(point).collect(),
            },
        ],
    }
}

/// Logarithmic over a wide range: a front lies at the low ends of axes.
fn scale(values: impl Iterator<Item = f64>) -> Scale {
    let ends = values.fold((f64::INFINITY, 0.0), |(least, greatest): (f64, f64), value| {
        (least.min(value), greatest.max(value))
    });
    if ends.0 > 0.0 && ends.1 / ends.0 >= WIDE { Scale::Log } else { Scale::Linear }
}

/// Every setting, the best one first.
fn list(means: &Means<'_>, chosen: &Chosen) -> Table {
    let Chosen { by, against, .. } = chosen;
    let mut columns = COLUMNS.to_vec();
    if against.is_some() {
        columns.extend([("against", "against"), ("front", "front")]);
    }
    let mut table = Table::new("", &columns);
    let of_groups = against.as_ref().map(|against| {
        let mut groups: BTreeMap<String, Vec<Pair<'_>>> = BTreeMap::new();
        for pair in pairs(means, by, against) {
            groups.entry(chosen.group(pair.settings)).or_default().push(pair);
        }
        let on_front = groups.values().flat_map(|pairs| {
            front_of(pairs, by, against).into_iter().map(move |place| *pairs[place].settings)
        });
        (against, on_front.collect::<BTreeSet<Settings<'_>>>())
    });
    for (place, one) in ranked(means, by).iter().enumerate() {
        let mut cells = cells(means, place, one, by);
        if let Some((against, on_front)) = &of_groups {
            let Ranked { settings, rows, .. } = one;
            cells.push(Cell::maybe(mean(rows, &against.column), 2));
            cells.push(if on_front.contains(*settings) { "on it" } else { "" }.into());
        }
        table.rows.push(cells);
    }
    table
}

/// The most maps and fronts of a page.
const FIGURES_MAX: usize = 12;

/// The most settings of a figure that are not on its front.
const DOMINATED_MAX: usize = 1_000;

/// A wider range has a logarithmic axis.
const WIDE: f64 = 20.0;
