//! Colours of names: a policy has the same one on every figure of a page, whatever its parameters.
//!
//! ```text
//!   series are policies          a colour and a shape for each series
//!   places are policies          a colour for each place
//!     with several series        and a shade of a bar, or a shape of a mark, for each series
//! ```

use super::figure::{Figure, Point, Scale};
use super::ink::COLORS;

/// Which colour belongs to which name, on all figures of a page.
#[derive(Debug, Default)]
pub(super) struct Palette {
    names: Vec<String>,
}

/// The colours of one figure.
#[derive(Debug, Default)]
pub(super) struct Colors {
    /// One for each series; its number, if places have the colours.
    pub(super) series: Vec<usize>,
    /// One for each place, where places are policies; then all series share them.
    places: Vec<usize>,
}

impl Palette {
    pub(super) fn of(&mut self, figure: &Figure) -> Colors {
        let labels: Vec<&str> = figure.series.iter().map(|one| one.label.as_str()).collect();
        let is_policy = POLICIES.contains(&figure.along.label.as_str());
        match &figure.along.scale {
            Scale::Names(names) if is_policy => {
                let places =
                    names.iter().map(|name| self.number_of(policy(name)) % COLORS).collect();
                Colors { series: (0..labels.len()).collect(), places }
            }
            Scale::Names(_) | Scale::Linear | Scale::Log | Scale::Nines => {
                Colors { series: self.colors(&labels), places: Vec::new() }
            }
        }
    }

    fn number_of(&mut self, name: &str) -> usize {
        let known = self.names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }

    /// A colour for each series: that of its policy, unless another series of the figure has it.
    fn colors(&mut self, names: &[&str]) -> Vec<usize> {
        let mut colors: Vec<usize> = Vec::new();
        for name in names {
            let mut first = self.number_of(policy(name));
            if colors.contains(&(first % COLORS)) {
                first = self.number_of(name);
            }
            let mut wanted = (first..first + COLORS).map(|color| color % COLORS);
            let free = wanted.find(|color| !colors.contains(color));
            colors.push(free.unwrap_or(first % COLORS));
        }
        colors
    }
}

/// A policy without its parameters and its surroundings.
fn policy(name: &str) -> &str {
    name.split([':', '=', ' ']).next().unwrap_or(name)
}

impl Colors {
    pub(super) fn of(&self, series: usize, point: &Point) -> usize {
        let place = (point.at >= 0.0).then_some(point.at as usize);
        let of_place = place.and_then(|place| self.places.get(place));
        *of_place.unwrap_or(&self.series[series])
    }

    /// Whether a colour says which place it is, and a shape or a shade which series.
    pub(super) fn are_of_places(&self) -> bool {
        !self.places.is_empty()
    }

    /// Whether several series have the same colour at a place.
    pub(super) fn are_shared(&self) -> bool {
        self.are_of_places() && self.series.len() > 1
    }
}

/// What an axis is called whose places are policies.
const POLICIES: [&str; 5] = ["policy", "policies", "throttle", "system", "way"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_color_on_every_figure() {
        let mut palette = Palette::default();
        let mut colors = |names: &[&str]| palette.colors(names);
        assert_eq!(colors(&["fixed", "drain:gain=2 (scaled)"]), [0, 1]);
        assert_eq!(colors(&["drain", "dyn"]), [1, 2]);
        assert_eq!(colors(&["0", "1", "2", "3", "4", "5", "6"]).len(), 7);
        let of_two = colors(&["fixed", "5"]);
        assert_ne!(of_two[0], of_two[1], "two series of one figure differ");
    }

    #[test]
    fn a_variant_beside_its_policy_takes_no_color_of_another() {
        let mut palette = Palette::default();
        assert_eq!(palette.colors(&["sol", "dyn", "dyn:cap=98"]), [0, 1, 2]);
        assert_eq!(palette.colors(&["redhat", "dyn:cap=98"]), [3, 1]);
    }
}
