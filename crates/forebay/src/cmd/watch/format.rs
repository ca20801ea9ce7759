//! Figures for people: few digits and a unit.

/// Bytes: `0`, `512 B`, `8.0 MiB`.
pub(super) fn bytes(bytes: f64) -> String {
    if bytes < 0.5 {
        return "0".to_owned();
    }
    let mut value = bytes;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].iter();
    let mut unit = units.next().expect("there are units");
    // What would be rounded to 1024 belongs to the next unit.
    while value >= 1023.5
        && let Some(next) = units.next()
    {
        value /= 1024.0;
        unit = next;
    }
    if *unit == "B" { format!("{value:.0} B") } else { format!("{} {unit}", digits(value)) }
}

/// Bytes a second.
pub(super) fn rate(rate: f64) -> String {
    if rate < 0.5 { "0".to_owned() } else { format!("{}/s", bytes(rate)) }
}

/// A length of time: `250 us`, `1.5 ms`, `26 s`.
pub(super) fn seconds(seconds: f64) -> String {
    if seconds < 0.5e-6 {
        return "0".to_owned();
    }
    match seconds {
        short if short < 1e-3 => format!("{:.0} us", short * 1e6),
        short if short < 1.0 => format!("{} ms", digits(short * 1e3)),
        _ => format!("{} s", digits(seconds)),
    }
}

/// A number: one decimal below 10, else none.
pub(super) fn digits(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// A share as a percentage.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// `-` where there is nothing.
pub(super) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// Without characters that a terminal would obey: names of files and processes may hold any.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_at_every_size() {
        let shown = [0.0, 1.0, 1023.0, 1023.7, 8_388_608.0, 1e13, 1e30].map(bytes);
        let expected = ["0", "1 B", "1023 B", "1.0 KiB", "8.0 MiB", "9.1 TiB", "867361737988 EiB"];
        assert_eq!(shown, expected);
        assert_eq!([0.0, 0.3, 1e6].map(rate), ["0", "0", "977 KiB/s"]);
        let shown = [0.0, 25e-6, 1.54e-3, 0.2, 26.0, 1e4].map(seconds);
        assert_eq!(shown, ["0", "25 us", "1.5 ms", "200 ms", "26 s", "10000 s"]);
        assert_eq!([0.0, 0.123, 1.0].map(percent), ["0.0 %", "12 %", "100 %"]);
    }

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }
}
