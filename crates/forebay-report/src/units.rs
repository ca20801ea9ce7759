//! Sizes and lengths of time, as every flag takes them.

use std::time::Duration;

use anyhow::Result;

use crate::messages::Complaint;

/// Units of sizes with all their names, in any case of letters, and their powers of two.
pub const SIZE_UNITS: &[(&[&str], u32)] = &[
    (&["", "b"], 0),
    (&["k", "kb", "kib"], 10),
    (&["m", "mb", "mib"], 20),
    (&["g", "gb", "gib"], 30),
    (&["t", "tb", "tib"], 40),
];

/// Units of times, and their nanoseconds.
pub const TIME_UNITS: &[(&str, u64)] = &[
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A number of bytes with an optional binary unit: `4096`, `64k`, `8M`, `2GiB`; or a hexadecimal
/// one without: `0x3e8`.
///
/// # Errors
/// The text is no such number; the error names the flag.
pub fn bytes(flag: &str, typed: &str) -> Result<u64> {
    if let Some(digits) = typed.strip_prefix("0x")
        && let Ok(bytes) = i64::from_str_radix(digits, 16)
        && digits.starts_with(|first: char| first.is_ascii_hexdigit())
    {
        return Ok(bytes.unsigned_abs());
    }
    let split = typed.find(|c: char| !c.is_ascii_digit()).unwrap_or(typed.len());
    let (digits, unit) = typed.split_at(split);
    let unit = unit.to_ascii_lowercase();
    let shift = SIZE_UNITS.iter().find(|(names, _)| names.contains(&unit.as_str()));
    let shift = shift.map(|(_, shift)| *shift);
    let (Some(shift), false) = (shift, digits.is_empty()) else {
        let what = format!("{flag} takes a whole number of bytes, not '{typed}'");
        let hint = "a unit is one of k, M, G, T, each 1024 times the one before";
        return Err(Complaint::new(what).hint(hint).into());
    };
    let bytes = digits.parse().ok().and_then(|number: u64| number.checked_mul(1 << shift));
    bytes.filter(|bytes| i64::try_from(*bytes).is_ok()).ok_or_else(|| {
        Complaint::new(format!("{flag} is less than 2^63 bytes, which '{typed}' is not"))
            .hint("8388607T is the most")
            .into()
    })
}

/// Takes `1` and `1s`, `0.5` and `500ms`, `10min`, `2h`: a number without a unit is one of seconds.
/// The bounds, both included, are written in the same way.
pub fn within(
    shortest: &'static str,
    longest: &'static str,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    let bound = |text| time(text).expect("a bound is a length of time");
    let bounds = bound(shortest)..=bound(longest);
    move |text| match time(text) {
        Some(length) if bounds.contains(&length) => Ok(length),
        Some(_) => Err(format!("'{text}' is not between {shortest} and {longest}")),
        None => Err(format!("'{text}' is not a time such as 500ms, 90s, 10min or 2h")),
    }
}

/// A length of time: `1`, `1s`, `500ms`, `0.5`. None for anything else.
pub fn time(text: &str) -> Option<Duration> {
    let number = |c: char| c.is_ascii_digit() || c == '.';
    let end = text.find(|c| !number(c)).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let unit = if unit.is_empty() { "s" } else { unit };
    let (_, nanos) = TIME_UNITS.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let whole: u64 = whole.parse().ok()?;
    let ends_in_digits = !fraction.is_empty();
    let fraction: f64 = format!("0.{fraction}").parse().ok().filter(|_| ends_in_digits)?;
    let fraction = (fraction * *nanos as f64).round() as u64;
    Some(Duration::from_nanos(whole.checked_mul(*nanos)?.checked_add(fraction)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(bytes("--memory", "64M").unwrap(), 64 << 20);
        assert_eq!(bytes("--memory", "10").unwrap(), 10);
        assert_eq!(bytes("--offset", "0x3e8").unwrap(), 1_000);
        for bad in ["", "M", "64X", "-1", "99999999999G", "9223372036854775808"] {
            assert!(bytes("--memory", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_may_have_a_unit_and_has_bounds() {
        let duration = within("10ms", "8760h");
        for (text, millis) in [
            ("1", 1_000),
            ("1s", 1_000),
            ("0.5", 500),
            ("500ms", 500),
            ("10000us", 10),
            ("1.25min", 75_000),
            ("2h", 7_200_000),
            ("8760h", 8_760 * 3_600_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "-1s", "1.s", ".5", "1..5", "1.5.5", "1 s", "1d", "nan", "1e3", "é"]
        {
            assert!(duration(text).unwrap_err().contains("is not a time"), "{text}");
        }
        assert!(duration("99999999999999999999s").unwrap_err().contains("is not a time"));
        for text in ["0", "0s", "9ms", "9.9ms", "8761h", "5124095h"] {
            assert!(duration(text).unwrap_err().contains("is not between"), "{text}");
        }
        assert!(duration("18446744073709551615h").unwrap_err().contains("is not a time"));
    }
}
