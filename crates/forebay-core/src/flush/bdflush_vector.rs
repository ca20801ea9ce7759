//! The nine integers of `/proc/sys/vm/bdflush`, as Linux 2.2 read and wrote them.
//!
//! ```text
//!   40     500    64      256       500      3000       500       1884   2
//!   nfract ndirty nrefill nref_dirt interval age_buffer age_super dummy1 dummy2
//! ```
//!
//! Linux 2.2.19 (kernel/sysctl.c, fs/buffer.c) reports no error for a number out of its range: the
//! field keeps its value. Worse, it walks two columns, of minima and of maxima, and a number that
//! is too small does not advance the second one: every later field is compared with the maximum of
//! the field before it. [`Vector::as_kernel`] does the same, so that an old line of a tuning guide
//! has its old effect; [`Vector::strict`] reports the error instead.

use alloc::string::{String, ToString};
use core::fmt;

use crate::policy::Parameter;
use crate::time::Duration;
use crate::writeback::{Amount, Knobs};

/// The tick of Linux 2.2 on x86, which counted 100 of them a second.
pub const JIFFY: Duration = Duration::from_millis(10);

/// The fields with their ranges and defaults, in the order of the line.
pub const FIELDS: &[Parameter] = &[
    Parameter::new(
        "nfract",
        40,
        (0, 100),
        "dirty pages above which writers wait, in percent of memory",
    ),
    Parameter::new("ndirty", 500, (10, 5_000), "pages that bdflush writes in one pass"),
    Parameter::new("nrefill", 64, (5, 2_000), "never read"),
    Parameter::new("nref_dirt", 256, (25, 2_000), "never read"),
    Parameter::new("interval", 500, (0, 6_000), "jiffies between passes of kupdate; 0 stops it"),
    Parameter::new("age_buffer", 3_000, (100, 60_000), "jiffies until a dirty page is old"),
    Parameter::new(
        "age_super",
        500,
        (100, 60_000),
        "jiffies until changed metadata and newly allocated pages are old",
    ),
    Parameter::new("dummy1", 1_884, (1, 2_047), "never read"),
    Parameter::new("dummy2", 2, (1, 5), "never read"),
];

/// The nine fields, each inside its range unless [`as_kernel`](Vector::as_kernel) let it slip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector(pub [u64; 9]);

/// Errors of a line of nine integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VectorError {
    /// Fewer or more than nine.
    Count {
        /// How many were given.
        given: usize,
    },
    /// Something else than a number.
    NotANumber {
        /// The field.
        field: &'static str,
        /// The value found.
        given: String,
    },
    /// A number out of the field's range.
    OutOfRange {
        /// The field.
        field: &'static str,
        /// The value found.
        given: String,
        /// The least value.
        low: u64,
        /// The greatest value.
        high: u64,
    },
}

impl Vector {
    /// What the kernel starts with.
    pub const DEFAULT: Self = Self([40, 500, 64, 256, 500, 3_000, 500, 1_884, 2]);

    /// Reads nine integers, each inside the range of its field.
    ///
    /// # Errors
    /// Names the first field that is missing, no number or out of range.
    pub fn strict(text: &str) -> Result<Self, VectorError> {
        let given = text.split_ascii_whitespace().count();
        if given != FIELDS.len() {
            return Err(VectorError::Count { given });
        }
        let mut vector = Self::DEFAULT;
        for ((value, field), word) in
            vector.0.iter_mut().zip(FIELDS).zip(text.split_ascii_whitespace())
        {
            let Some(number) = integer(word) else {
                return Err(VectorError::NotANumber { field: field.name, given: word.to_string() });
            };
            *value = u64::try_from(number)
                .ok()
                .filter(|number| (field.low..=field.high).contains(number))
                .ok_or_else(|| VectorError::OutOfRange {
                    field: field.name,
                    given: word.to_string(),
                    low: field.low,
                    high: field.high,
                })?;
        }
        Ok(vector)
    }

    /// Reads integers over the current values as Linux 2.2.19 does: a value out of range is skipped
    /// silently, after a number that is too small the maxima are those of the field before, and the
    /// first word that is no decimal number ends the reading.
    #[must_use]
    pub fn as_kernel(mut self, text: &str) -> Self {
        let mut highs = FIELDS.iter().map(|field| i128::from(field.high));
        for ((value, field), word) in
            self.0.iter_mut().zip(FIELDS).zip(text.split_ascii_whitespace())
        {
            let Some(number) = integer(word) else { break };
            if number < i128::from(field.low) {
                continue;
            }
            if highs.next().is_some_and(|high| number <= high) {
                *value = u64::try_from(number).unwrap_or(field.low);
            }
        }
        self
    }

    /// The field of this name.
    pub fn of(&self, name: &str) -> Option<u64> {
        let place = FIELDS.iter().position(|field| field.name == name)?;
        Some(self.0[place])
    }

    /// What the fields mean to a flush rule; a value beyond its range counts as its nearest end.
    pub fn knobs(&self) -> Knobs {
        let [nfract, ndirty, _, _, interval, age_buffer, age_super, ..] = self.0;
        let knobs = Knobs {
            background: Amount::Pages(0),
            limit: Amount::Pages(0),
            batch: None,
            in_flight: None,
            interval: Duration::ZERO,
            expire: JIFFY.times(age_buffer),
            expire_new: Some(JIFFY.times(age_super)),
        };
        turned(knobs, nfract, ndirty, interval)
    }
}

/// The knobs after the three fields that matter most have been written.
pub fn turned(knobs: Knobs, nfract: u64, ndirty: u64, interval: u64) -> Knobs {
    let nfract = nfract.min(100) as u32;
    Knobs {
        limit: Amount::percent(nfract),
        // Exactly half, so that odd percentages are not rounded.
        background: Amount::Share(nfract * 5_000),
        batch: Some(ndirty),
        interval: JIFFY.times(interval),
        ..knobs
    }
}

/// A decimal number, with or without a sign; one without end counts as very large.
fn integer(word: &str) -> Option<i128> {
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, word),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| sign * digits.parse().unwrap_or(i128::MAX))
}

impl fmt::Display for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, value) in self.0.iter().enumerate() {
            let separator = if place == 0 { "" } else { " " };
            write!(f, "{separator}{value}")?;
        }
        Ok(())
    }
}

impl fmt::Display for VectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { given } => write!(f, "bdflush takes nine integers, not {given}"),
            Self::NotANumber { field, given } => {
                write!(f, "field '{field}' of bdflush takes a number, not '{given}'")
            }
            Self::OutOfRange { field, given, low, high } => write!(
                f,
                "field '{field}' of bdflush takes a number from {low} to {high}, not '{given}'"
            ),
        }
    }
}

impl core::error::Error for VectorError {}

#[cfg(test)]
mod tests {
    use super::*;

    const SOL: &str = "100 1200 128 512 15 5000 500 1884 2";

    fn wrong(text: &str) -> String {
        Vector::strict(text).unwrap_err().to_string()
    }

    #[test]
    fn the_default_line_is_the_fields_defaults() {
        let defaults: alloc::vec::Vec<_> = FIELDS.iter().map(|field| field.default).collect();
        assert_eq!(defaults, Vector::DEFAULT.0);
        let text = "40 500 64 256 500 3000 500 1884 2";
        assert_eq!(Vector::DEFAULT.to_string(), text);
        assert_eq!(Vector::strict(text), Ok(Vector::DEFAULT));
    }

    #[test]
    fn a_line_of_a_tuning_guide_is_read_the_same_both_ways() {
        let vector = Vector::strict(SOL).unwrap();
        assert_eq!(vector.to_string(), SOL);
        assert_eq!(Vector::DEFAULT.as_kernel(SOL), vector);
        assert_eq!((vector.of("interval"), vector.of("age")), (Some(15), None));
    }

    #[test]
    fn the_kernel_keeps_a_field_whose_number_is_too_large_and_stores_the_rest() {
        let text = "200 500 64 256 500 3000 500 1884 2";
        assert_eq!(Vector::DEFAULT.as_kernel(text), Vector::DEFAULT);
        let text = "200 501 65 257 501 3001 501 1885 3";
        let expected = Vector([40, 501, 65, 257, 501, 3_001, 501, 1_885, 3]);
        assert_eq!(Vector::DEFAULT.as_kernel(text), expected);
    }

    #[test]
    fn after_a_number_that_is_too_small_the_greatest_values_are_those_of_the_field_before() {
        // ndirty 9 is too small. Then nrefill is held against 5000 instead of 2000, interval
        // against 2000 instead of 6000, age_buffer against 6000, and dummy2 against 2047.
        let text = "40 9 3000 256 2001 6001 500 1884 2000";
        let expected = Vector([40, 500, 3_000, 256, 500, 3_000, 500, 1_884, 2_000]);
        assert_eq!(Vector::DEFAULT.as_kernel(text), expected);
    }

    #[test]
    fn the_kernel_reads_a_short_line_and_stops_at_what_is_no_number() {
        let expected = Vector([30, 600, 64, 256, 500, 3_000, 500, 1_884, 2]);
        assert_eq!(Vector::DEFAULT.as_kernel("30 600"), expected);
        assert_eq!(Vector::DEFAULT.as_kernel("30 600 x 300"), expected);
        assert_eq!(Vector::DEFAULT.as_kernel("-1 600").0[..2], [40, 500], "held against 100");
    }

    #[test]
    fn a_strict_reader_names_field_and_range() {
        assert_eq!(
            wrong("200 500 64 256 500 3000 500 1884 2"),
            "field 'nfract' of bdflush takes a number from 0 to 100, not '200'"
        );
        assert_eq!(
            wrong("40 500 64 256 500 3000 99 1884 2"),
            "field 'age_super' of bdflush takes a number from 100 to 60000, not '99'"
        );
        assert_eq!(
            wrong("40 500 64 256 -1 3000 500 1884 2"),
            "field 'interval' of bdflush takes a number from 0 to 6000, not '-1'"
        );
        let huge = "9".repeat(60);
        assert!(wrong(&alloc::format!("40 500 64 {huge} 1 1 1 1 1")).contains("'nref_dirt'"));
        assert_eq!(wrong("40 500"), "bdflush takes nine integers, not 2");
        assert_eq!(
            wrong("40 500 64 256 5s 3000 500 1884 2"),
            "field 'interval' of bdflush takes a number, not '5s'"
        );
    }

    #[test]
    fn the_asynchronous_level_is_exactly_half_of_the_other() {
        let knobs = turned(Vector::DEFAULT.knobs(), 45, 500, 15);
        assert_eq!(knobs.limit, Amount::Share(450_000));
        assert_eq!(knobs.background, Amount::Share(225_000));
        assert_eq!(knobs.interval, Duration::from_millis(150));
        assert_eq!(knobs.expire, Duration::from_secs(30));
        assert_eq!(knobs.expire_new, Some(Duration::from_secs(5)), "that of metadata");
    }
}
