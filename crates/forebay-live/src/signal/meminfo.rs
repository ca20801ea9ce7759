//! `/proc/meminfo`: how much memory there is, how much is cache, how much could be had.
//!
//! Source:     the kernel's documentation, filesystems/proc.rst
//! Behaviour:  `Name:  N kB` on each line; kB are 1024 bytes.
//! Differs:    only what moves decisions is read.
//! Not for:    limits of control groups.

use super::{Malformed, Text};

/// Its path.
pub const FILE: &str = "/proc/meminfo";

/// Amounts in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// All that the kernel manages.
    pub total: u64,
    /// What could be had without swapping.
    pub available: u64,
    /// The page cache.
    pub cached: u64,
}

/// What is used of the file.
pub fn parse(text: Text<'_>) -> Result<Memory, Malformed> {
    let (mut total, mut available, mut cached) = (None, None, None);
    for (line, words) in text.lines() {
        let Some((name, value)) = words.split_once(':') else { continue };
        let (field, slot) = match name {
            "MemTotal" => ("MemTotal", &mut total),
            "MemAvailable" => ("MemAvailable", &mut available),
            "Cached" => ("Cached", &mut cached),
            _ => continue,
        };
        *slot = Some(kib(text, line, field, value)?);
        if total.is_some() && available.is_some() && cached.is_some() {
            break;
        }
    }
    Ok(Memory {
        total: total.ok_or_else(|| text.missing("MemTotal"))?,
        available: available.ok_or_else(|| text.missing("MemAvailable"))?,
        cached: cached.ok_or_else(|| text.missing("Cached"))?,
    })
}

/// `  4711 kB` in bytes.
pub(super) fn kib(
    text: Text<'_>,
    line: usize,
    field: &'static str,
    value: &str,
) -> Result<u64, Malformed> {
    let number = value.split_ascii_whitespace().next();
    Ok(text.number(line, field, number)?.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_bytes() {
        let text = "MemTotal:       24684084 kB\nMemFree:  1 kB\nMemAvailable:   24216728 kB\n\
                    Cached:           196836 kB\n";
        let wanted =
            Memory { total: 24_684_084 << 10, available: 24_216_728 << 10, cached: 196_836 << 10 };
        assert_eq!(parse(Text::new(FILE, text)), Ok(wanted));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |text: &str| parse(Text::new(FILE, text)).unwrap_err().to_string();
        assert_eq!(said("MemTotal: 1 kB\n"), "/proc/meminfo has no MemAvailable");
        let said = said("MemTotal: lots kB\n");
        assert_eq!(said, "/proc/meminfo, line 1: MemTotal is 'lots', not a whole number");
    }

    #[test]
    fn an_unbelievable_amount_stays_a_number() {
        let text = "MemTotal: 18446744073709551615 kB\nMemAvailable: 1 kB\nCached: 1 kB\n";
        assert_eq!(parse(Text::new(FILE, text)).unwrap().total, u64::MAX);
    }
}
