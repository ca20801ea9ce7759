//! `/proc/pressure/io` and its like.
//!
//! Source:     the kernel's documentation, accounting/psi.rst
//! Behaviour:  two lines, `some` and `full`; each has averages in percent over 10, 60 and 300 s and
//!             the stall time since boot in us. `total` differences are exact, averages are not.
//! Differs:    of the averages only that of 10 s is kept.
//! Not for:    blame: background readers raise it as much as a waiting user does.

use super::{Malformed, Pressure, Text};

/// The file of a machine's stalls for storage.
pub const IO: &str = "/proc/pressure/io";

/// The values of a pressure file.
pub fn parse(text: Text<'_>) -> Result<Pressure, Malformed> {
    let mut found = Pressure::default();
    let mut seen = (false, false);
    for (line, words) in text.lines() {
        let mut words = words.split_ascii_whitespace();
        let (avg, total, seen) = match words.next() {
            Some("some") => (&mut found.some_avg10, &mut found.some_us, &mut seen.0),
            Some("full") => (&mut found.full_avg10, &mut found.full_us, &mut seen.1),
            Some(_) | None => continue,
        };
        *seen = true;
        for word in words {
            match word.split_once('=') {
                Some(("avg10", value)) => *avg = hundredths(text, line, value)?,
                Some(("total", value)) => *total = text.number(line, "total", Some(value))?,
                Some(_) | None => {}
            }
        }
    }
    match seen {
        (true, true) => Ok(found),
        (false, _) => Err(text.missing("line 'some'")),
        (true, false) => Err(text.missing("line 'full'")),
    }
}

/// `12.34` percent as 1234.
fn hundredths(text: Text<'_>, line: usize, value: &str) -> Result<u32, Malformed> {
    let number = || {
        let (whole, part) = value.split_once('.')?;
        let two = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        let part: u32 = if two { part.parse().ok()? } else { return None };
        let whole: u32 = whole.parse().ok()?;
        whole.checked_mul(100)?.checked_add(part)
    };
    number().ok_or_else(|| text.wrong(line, "avg10", value, "a percentage with two decimals"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "some avg10=0.05 avg60=0.49 avg300=3.98 total=1014272521\n\
                            full avg10=12.34 avg60=0.45 avg300=2.95 total=263935253\n";

    #[test]
    fn both_lines_are_read() {
        let found = parse(Text::new(IO, RECORDED)).unwrap();
        let wanted = Pressure {
            some_us: 1_014_272_521,
            full_us: 263_935_253,
            some_avg10: 5,
            full_avg10: 1234,
        };
        assert_eq!(found, wanted);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |text: &str| parse(Text::new(IO, text)).unwrap_err().to_string();
        assert_eq!(said(""), "/proc/pressure/io has no line 'some'");
        let (some, full) = RECORDED.split_once('\n').unwrap();
        assert_eq!(said(some), "/proc/pressure/io has no line 'full'");
        let endless = format!("{some}\n{}", full.replace("263935253", "-1"));
        assert_eq!(said(&endless), "/proc/pressure/io, line 2: total is '-1', not a whole number");
        for avg in ["5", "0.5", "0.-5", "4294967295.99", "nan"] {
            let said = said(&RECORDED.replace("0.05", avg));
            assert!(said.contains("line 1: avg10 is"), "{avg}: {said}");
        }
    }
}
