//! Numbers, units and lists as fio writes them.
//!
//! Source:     fio 3.33, `parse.c` and `options.c`, checked by running it
//! Behaviour:  `k`, `m`, `g`, `t`, `p` multiply by powers of `kb_base`. `kib` and its like
//!             multiply by the other base, so that with the default base 1024 `4k` is 4096 and
//!             `4kib` is 4000. `a,b,c` means read, write, trim; the last one given fills the rest.
//! Differs:    What fio takes without complaint and gets wrong is refused: fractions, unknown
//!             unit letters (`10sec` is 10 us to fio), parentheses, numbers beyond 64 bits.
//!             `4ki` has the value of `4k`, because fio looks for all three letters of `kib`.
//! Not for:    values with special meanings, such as `rw` or `bssplit`

/// A quantity of bytes, or a share of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    /// A number of bytes.
    Bytes(u64),
    /// A number of hundredths.
    Percent(u64),
}

/// Bytes or percent: `4k`, `0x1000`, `20%`.
pub(super) fn amount(text: &str, kb_base: u64) -> Option<Amount> {
    if let Some(percent) = text.strip_suffix('%') {
        let percent = digits(percent)?;
        return (percent <= 100).then_some(Amount::Percent(percent));
    }
    bytes(text, kb_base).map(Amount::Bytes)
}

/// An unsigned number with an optional byte unit.
pub(super) fn bytes(text: &str, kb_base: u64) -> Option<u64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let plain = !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        return if plain { i64::from_str_radix(hex, 16).ok()?.try_into().ok() } else { None };
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let value = digits(number)?.checked_mul(unit_bytes(unit, kb_base)?)?;
    (value <= BYTES_MAX).then_some(value)
}

/// A signed number with an optional byte unit.
pub(super) fn signed_bytes(text: &str, kb_base: u64) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(rest) if !rest.starts_with('+') => {
            bytes(rest, kb_base)?.try_into().ok().map(|value: i64| -value)
        }
        Some(_) => None,
        None => bytes(text, kb_base)?.try_into().ok(),
    }
}

/// A time in microseconds; without a unit it counts `unit_us` each.
pub(super) fn micros(text: &str, unit_us: u64) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit_us = if unit.is_empty() {
        unit_us
    } else {
        let unit = unit.to_ascii_lowercase();
        TIME_UNITS.iter().find(|(names, _)| names.contains(&unit.as_str()))?.1
    };
    let value = digits(number)?.checked_mul(unit_us)?;
    (value <= MICROS_MAX).then_some(value)
}

/// Decimal digits and nothing else.
pub(super) fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// A decimal fraction, without an exponent or a sign.
pub(super) fn fraction(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value: f64 = if plain { text.parse().ok()? } else { return None };
    value.is_finite().then_some(value)
}

/// A list for read, write and trim. An empty element keeps the earlier value; the last value given
/// fills the elements after it.
pub(super) fn by_direction<T: Copy>(
    text: &str,
    old: [T; 3],
    parse: impl Fn(&str) -> Option<T>,
) -> Option<[T; 3]> {
    let mut list = old;
    let count = text.split(',').count();
    if count > list.len() || text.split(',').all(str::is_empty) {
        return None;
    }
    for (place, item) in text.split(',').enumerate() {
        if item.is_empty() {
            continue;
        }
        let value = parse(item)?;
        let end = if place + 1 == count { list.len() } else { place + 1 };
        list[place..end].fill(value);
    }
    Some(list)
}

/// A range `low-high` or `low:high` of byte quantities; fio swaps the ends if need be.
pub(super) fn range(text: &str, kb_base: u64) -> Option<(u64, u64)> {
    let (low, high) = text.split_once('-').or_else(|| text.split_once(':'))?;
    let (low, high) = (bytes(low, kb_base)?, bytes(high, kb_base)?);
    Some((low.min(high), low.max(high)))
}

/// The names in a list divided by `:`, where `\:` is a colon of the name itself.
pub(super) fn names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut letters = text.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '\\' && letters.peek() == Some(&':') {
            letters.next();
            names.last_mut().expect("the list starts with one name").push(':');
        } else if letter == ':' {
            names.push(String::new());
        } else {
            names.last_mut().expect("the list starts with one name").push(letter);
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn unit_bytes(unit: &str, kb_base: u64) -> Option<u64> {
    let other = if kb_base == 1024 { 1000 } else { 1024u64 };
    let unit = unit.to_ascii_lowercase();
    let power = |letter: char| SIZE_LETTERS.find(letter).and_then(|at| u32::try_from(at + 1).ok());
    let mut letters = unit.chars();
    match (letters.next(), letters.as_str()) {
        (None, _) | (Some('b'), "") => Some(1),
        (Some(letter), "ib") => other.checked_pow(power(letter)?),
        (Some(letter), "" | "b" | "i") => kb_base.checked_pow(power(letter)?),
        (Some(_), _) => None,
    }
}

/// Letters of units of bytes, each a thousand or 1024 times the one before: `4k`, `1m`.
pub const SIZE_LETTERS: &str = "kmgtp";

/// Units of times with all their names, and their microseconds.
pub const TIME_UNITS: &[(&[&str], u64)] = &[
    (&["us", "usec"], 1),
    (&["ms", "msec"], 1_000),
    (&["s"], SECOND_US),
    (&["m"], 60 * SECOND_US),
    (&["h"], 3_600 * SECOND_US),
    (&["d"], 86_400 * SECOND_US),
];

/// Microseconds of a second.
pub(super) const SECOND_US: u64 = 1_000_000;

/// fio gives the values above this one other meanings (zones, percent).
const BYTES_MAX: u64 = i64::MAX as u64;

/// The longest time that still fits a count of nanoseconds.
const MICROS_MAX: u64 = u64::MAX / 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_two_by_default_and_the_long_ones_powers_of_ten() {
        for (text, value) in [
            ("7", 7),
            ("512b", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("4kb", 4096),
            ("4ki", 4096),
            ("4kib", 4000),
            ("2m", 2 << 20),
            ("2MiB", 2_000_000),
            ("1g", 1 << 30),
            ("1t", 1 << 40),
            ("1p", 1 << 50),
            ("0x10", 16),
        ] {
            assert_eq!(bytes(text, 1024), Some(value), "{text}");
        }
    }

    #[test]
    fn base_1000_turns_the_units_around() {
        assert_eq!(bytes("4k", 1000), Some(4000));
        assert_eq!(bytes("4kib", 1000), Some(4096));
        assert_eq!(bytes("2mb", 1000), Some(2_000_000));
    }

    #[test]
    fn what_fio_misreads_is_refused() {
        for text in ["", "k", "1.5m", "4kx", "0x", "99999999999g", "(4*2)k", "-4k", "9e3", "4 k"] {
            assert_eq!(bytes(text, 1024), None, "{text}");
        }
        for text in ["10sec", "", "s", "1.5s", "-1"] {
            assert_eq!(micros(text, 1), None, "{text}");
        }
    }

    #[test]
    fn times_without_a_unit_take_the_option_s_own() {
        assert_eq!(micros("10", SECOND_US), Some(10_000_000));
        assert_eq!(micros("10", 1), Some(10));
        assert_eq!(micros("10ms", SECOND_US), Some(10_000));
        assert_eq!(micros("2m", 1), Some(120_000_000));
    }

    #[test]
    fn percent_is_an_amount_of_its_own() {
        assert_eq!(amount("20%", 1024), Some(Amount::Percent(20)));
        assert_eq!(amount("101%", 1024), None);
        assert_eq!(amount("1k", 1024), Some(Amount::Bytes(1024)));
    }

    #[test]
    fn the_last_value_of_a_list_fills_the_rest() {
        let parse = |text: &str| digits(text);
        assert_eq!(by_direction("1", [9; 3], parse), Some([1, 1, 1]));
        assert_eq!(by_direction("1,2", [9; 3], parse), Some([1, 2, 2]));
        assert_eq!(by_direction("1,2,3", [9; 3], parse), Some([1, 2, 3]));
        assert_eq!(by_direction(",2", [9; 3], parse), Some([9, 2, 2]));
        assert_eq!(by_direction("1,", [9; 3], parse), Some([1, 9, 9]));
        assert_eq!(by_direction("1,2,3,4", [9; 3], parse), None);
        assert_eq!(by_direction(",", [9; 3], parse), None);
    }

    #[test]
    fn an_escaped_colon_belongs_to_the_name() {
        assert_eq!(names(r"a:b\:c::d"), ["a", "b:c", "d"]);
    }
}
