//! What a figure shows: numbers and words, no pixels and no colours.

/// A figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its heading.
    pub title: String,
    /// What must be known to read it; may be empty.
    pub caption: String,
    /// In which direction values grow.
    pub layout: Layout,
    /// Where points stand.
    pub along: Axis,
    /// How great they are.
    pub value: Axis,
    /// What the ends of the points' ranges are.
    pub range: &'static str,
    /// The points, those of one colour together.
    pub series: Vec<Series>,
}

/// How a figure lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Places from left to right, values upwards.
    Across,
    /// Places below each other, which leaves room for their names; values to the right.
    Down,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Its quantity, with its unit.
    pub label: String,
    /// Where its numbers lie.
    pub scale: Scale,
}

/// How numbers become places on an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Equal distances for equal differences.
    Linear,
    /// Numbers above zero; others have no place.
    Log,
    /// 1 / (1 - share) of values that are not longer, so that 90, 99 and 99.9 % have equal
    /// distances.
    Nines,
    /// Number n is the name at place n.
    Names(Vec<String>),
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend says; a policy has the same colour on each page.
    pub label: String,
    /// What is drawn between its points.
    pub join: Join,
    /// In the order in which they are joined.
    pub points: Vec<Point>,
}

/// What lies between two points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// Nothing.
    Apart,
    /// A straight line.
    Line,
    /// The value of a point, until the next one.
    Steps,
}

/// A point, and its description.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Its place along the figure.
    pub at: f64,
    /// The measured number, if there is one.
    pub value: Option<f64>,
    /// Least and greatest.
    pub range: Option<(f64, f64)>,
    /// The number of the paper, drawn as a mark of its own.
    pub published: Option<f64>,
    /// What counts as agreement; an end may be open.
    pub tolerance: (Option<f64>, Option<f64>),
    /// Shown under the pointer.
    pub title: String,
}

impl Figure {
    /// Whether there is nothing to be drawn.
    pub fn is_empty(&self) -> bool {
        self.points().flat_map(Point::numbers).all(|number| !self.has_place(number))
    }

    /// Every number that the axis of values must hold.
    pub(super) fn numbers(&self) -> impl Iterator<Item = f64> {
        let zero = self.has_bars().then_some(0.0);
        let numbers = self.points().flat_map(Point::numbers);
        numbers.filter(|number| self.has_place(*number)).chain(zero)
    }

    /// Whether values are bars from zero: things that are compared, on a linear axis.
    pub(super) fn has_bars(&self) -> bool {
        let is_apart = self.series.iter().all(|series| series.join == Join::Apart);
        let has_names = matches!(self.along.scale, Scale::Names(_));
        let is_drawn = self.points().any(|point| point.value.is_some());
        is_drawn
            && is_apart
            && has_names
            && (self.layout, &self.value.scale) == (Layout::Down, &Scale::Linear)
    }

    /// The figure with a logarithmic axis if a linear one would hide its smaller values.
    pub(super) fn with_readable_axis(&self) -> Self {
        let mut figure = self.clone();
        let values = || self.points().filter_map(|point| point.value).filter(|it| it.is_finite());
        let least = values().fold(f64::INFINITY, f64::min);
        let greatest = values().fold(0.0, f64::max);
        let is_linear = self.value.scale == Scale::Linear;
        if is_linear && least > 0.0 && least.is_finite() && greatest / least >= HIDDEN {
            figure.value.scale = Scale::Log;
        }
        figure
    }

    /// Every place of a point.
    pub(super) fn places(&self) -> impl Iterator<Item = f64> {
        self.points().map(|point| point.at)
    }

    pub(super) fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    /// Whether the axis of values can hold a number.
    pub(super) fn has_place(&self, number: f64) -> bool {
        number.is_finite() && (number > 0.0 || self.value.scale != Scale::Log)
    }

    /// Points whose number has no place on a logarithmic axis.
    pub(super) fn without_place(&self) -> usize {
        let lost = |point: &&Point| {
            point.value.is_some_and(|value| value.is_finite() && !self.has_place(value))
        };
        self.points().filter(lost).count()
    }
}

/// A value that is this many times smaller than another one is a line's width on a linear axis.
const HIDDEN: f64 = 200.0;

impl Point {
    /// All its numbers.
    fn numbers(&self) -> impl Iterator<Item = f64> + use<> {
        let (from, to) = self.tolerance;
        let (low, high) = self.range.unzip();
        [self.value, low, high, self.published, from, to].into_iter().flatten()
    }

    /// Whether it has a tolerance.
    pub(super) fn is_claim(&self) -> bool {
        self.tolerance != (None, None)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A series of values at 0, 1, 2, ...
    pub(crate) fn series(label: &str, join: Join, values: &[Option<f64>]) -> Series {
        let point = |(at, value): (usize, &Option<f64>)| Point {
            at: at as f64,
            value: *value,
            range: value.map(|value| (value * 0.9, value * 1.1)),
            title: format!("{label} {at}"),
            ..Point::default()
        };
        let points = values.iter().enumerate().map(point).collect();
        Series { label: label.to_owned(), join, points }
    }

    /// A figure of these series on plain axes.
    pub(crate) fn figure(title: &str, scale: Scale, series: Vec<Series>) -> Figure {
        Figure {
            title: title.to_owned(),
            caption: title.to_owned(),
            layout: Layout::Across,
            along: Axis { label: title.to_owned(), scale: Scale::Linear },
            value: Axis { label: title.to_owned(), scale },
            range: "range",
            series,
        }
    }

    /// A figure in which all words are the same.
    pub(crate) fn small(words: &str) -> Figure {
        let values = [Some(1.0), None, Some(3.0)];
        let names = vec![words.to_owned(); 3];
        let mut figure = figure(words, Scale::Linear, vec![series(words, Join::Apart, &values)]);
        figure.along.scale = Scale::Names(names);
        figure.layout = Layout::Down;
        figure
    }

    #[test]
    fn an_axis_is_logarithmic_where_small_meets_great() {
        let scale = |values: &[f64]| {
            let values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
            let figure = figure("", Scale::Linear, vec![series("", Join::Apart, &values)]);
            figure.with_readable_axis().value.scale
        };
        assert_eq!(scale(&[0.2, 240.0]), Scale::Log);
        assert_eq!(scale(&[20.0, 240.0]), Scale::Linear);
        assert_eq!(scale(&[0.0, 240.0]), Scale::Linear, "zero has no logarithm");
        assert_eq!(scale(&[-1.0, 0.2, 240.0]), Scale::Linear);
    }

    #[test]
    fn things_that_are_compared_are_bars_from_zero() {
        let figure = small("a");
        assert!(figure.has_bars() && figure.numbers().any(|number| number == 0.0));
        let log = Figure { value: Axis { scale: Scale::Log, ..figure.value.clone() }, ..figure };
        assert!(!log.has_bars() && log.numbers().all(|number| number > 0.0));
    }

    #[test]
    fn what_is_no_number_has_no_place() {
        let values = [Some(f64::NAN), Some(f64::INFINITY), None];
        assert!(figure("", Scale::Linear, vec![series("", Join::Line, &values)]).is_empty());
        let values = [Some(0.0), Some(-1.0), Some(5.0)];
        let log = figure("", Scale::Log, vec![series("", Join::Line, &values)]);
        assert_eq!(log.without_place(), 2);
        assert!(log.numbers().all(|number| number > 0.0));
    }
}
