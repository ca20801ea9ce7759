//! Lines, fields and numbers of text formats. No floating point: a decimal number of seconds is two
//! integers.

use std::io::{self, Read};

use crate::error::Fault;

/// The longest line; strace prints long ones.
pub(crate) const LINE_MAX: usize = 1 << 20;

/// Lines of a stream, without their ends.
pub(crate) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    is_over: bool,
    /// Lines that were given so far.
    pub(crate) number: u64,
    /// The last line had no end.
    pub(crate) is_cut: bool,
}

/// One line.
pub(crate) enum Line<'a> {
    /// Its bytes.
    Text(&'a [u8]),
    /// It is longer than [`LINE_MAX`]; its beginning.
    TooLong(&'a [u8]),
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        let buffer = vec![0; 1 << 16];
        Self { input, buffer, start: 0, end: 0, is_over: false, number: 0, is_cut: false }
    }

    /// The next line; nothing at the end of the stream.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(at) = memchr::memchr(b'\n', &unread[searched..]) {
                let line = self.start..self.start + searched + at;
                self.start = line.end + 1;
                self.number += 1;
                return Ok(Some(Line::Text(without_return(&self.buffer[line]))));
            }
            searched = unread.len();
            if self.is_over {
                let line = self.start..self.end;
                self.start = self.end;
                self.number += u64::from(!line.is_empty());
                self.is_cut |= !line.is_empty();
                let text = without_return(&self.buffer[line.clone()]);
                return Ok((!line.is_empty()).then_some(Line::Text(text)));
            }
            if searched >= LINE_MAX {
                return self.skip_line().map(Some);
            }
            self.fill()?;
        }
    }

    /// Drops the rest of a line that is too long.
    fn skip_line(&mut self) -> io::Result<Line<'_>> {
        const SHOWN: usize = 64;
        let shown = self.buffer[self.start..self.start + SHOWN].to_vec();
        self.number += 1;
        loop {
            match memchr::memchr(b'\n', &self.buffer[self.start..self.end]) {
                Some(at) => {
                    self.start += at + 1;
                    break;
                }
                None if self.is_over => {
                    self.start = self.end;
                    break;
                }
                None => {
                    self.start = self.end;
                    self.fill()?;
                }
            }
        }
        // The beginning is kept below the next read.
        if self.start < SHOWN {
            let unread = self.buffer[self.start..self.end].to_vec();
            self.buffer.resize(self.buffer.len().max(SHOWN + unread.len()), 0);
            self.buffer[SHOWN..SHOWN + unread.len()].copy_from_slice(&unread);
            (self.start, self.end) = (SHOWN, SHOWN + unread.len());
        }
        self.buffer[..SHOWN].copy_from_slice(&shown);
        Ok(Line::TooLong(&self.buffer[..SHOWN]))
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let read = read_some(&mut self.input, &mut self.buffer[self.end..])?;
        self.end += read;
        self.is_over = read == 0;
        Ok(())
    }
}

/// Reads, again if a signal interrupted it.
pub(crate) fn read_some(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Fields between separators.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> Fields<'a> {
    /// Fields between commas.
    pub(crate) fn commas(line: &'a [u8]) -> Self {
        Self { rest: Some(line), separator: b',' }
    }

    /// Words between blanks and tabs, any number of them.
    pub(crate) fn words(line: &'a [u8]) -> Self {
        Self { rest: Some(line), separator: b' ' }
    }

    /// The next field, if there is one.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<&'a [u8]> {
        let mut rest = self.rest?;
        if self.separator == b' ' {
            rest = rest.trim_ascii_start();
            if rest.is_empty() {
                self.rest = None;
                return None;
            }
        }
        let separator = self.separator;
        let is_end =
            |byte: &u8| *byte == separator || (separator == b' ' && byte.is_ascii_whitespace());
        match rest.iter().position(is_end) {
            Some(at) => {
                self.rest = Some(&rest[at + 1..]);
                Some(&rest[..at])
            }
            None => {
                self.rest = None;
                Some(rest)
            }
        }
    }

    /// The next field, which must be there.
    #[inline]
    pub(crate) fn field(&mut self, name: &'static str) -> Result<&'a [u8], Fault> {
        self.next().ok_or_else(|| Fault::new(name, "a field", b""))
    }

    /// The next field as a whole number.
    #[inline]
    pub(crate) fn number(&mut self, name: &'static str) -> Result<u64, Fault> {
        number(name, self.field(name)?)
    }

    /// Nothing may follow.
    #[inline]
    pub(crate) fn end(&mut self) -> Result<(), Fault> {
        match self.next() {
            None => Ok(()),
            Some(field) => Err(Fault::new("end of line", "no further field", field)),
        }
    }
}

/// A whole number in decimal digits.
#[inline]
pub(crate) fn number(name: &'static str, field: &[u8]) -> Result<u64, Fault> {
    decimal(field).ok_or_else(|| Fault::new(name, "a whole number below 2^64", field))
}

/// The same in 32 bits.
#[inline]
pub(crate) fn short(name: &'static str, field: &[u8]) -> Result<u32, Fault> {
    let short = decimal(field).and_then(|number| u32::try_from(number).ok());
    short.ok_or_else(|| Fault::new(name, "a whole number below 2^32", field))
}

/// Decimal digits and nothing else.
#[inline]
pub(crate) fn decimal(field: &[u8]) -> Option<u64> {
    // This many digits always fit.
    const FIT: usize = 19;
    if field.is_empty() || field.len() > FIT + 1 {
        return None;
    }
    let mut value = 0u64;
    for byte in &field[..field.len().min(FIT)] {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    let Some(last) = field.get(FIT) else { return Some(value) };
    let digit = last.wrapping_sub(b'0');
    let value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    (digit <= 9).then_some(value)
}

/// Hexadecimal digits, with or without `0x`.
pub(crate) fn hexadecimal(field: &[u8]) -> Option<u64> {
    let digits = field.strip_prefix(b"0x").unwrap_or(field);
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let add = |value: u64, byte: &u8| Some(value << 4 | u64::from(char::from(*byte).to_digit(16)?));
    digits.iter().try_fold(0, add)
}

/// Seconds with a decimal fraction as nanoseconds; digits behind the ninth are cut off.
pub(crate) fn seconds(name: &'static str, field: &[u8]) -> Result<u64, Fault> {
    scaled(field, 9).ok_or_else(|| Fault::new(name, "seconds with a decimal fraction", field))
}

/// Milliseconds with a decimal fraction as nanoseconds.
pub(crate) fn milliseconds(name: &'static str, field: &[u8]) -> Result<u64, Fault> {
    scaled(field, 6).ok_or_else(|| Fault::new(name, "milliseconds with a decimal fraction", field))
}

/// A decimal number in units of ten to the minus `digits`.
fn scaled(field: &[u8], digits: usize) -> Option<u64> {
    let split = field.iter().position(|byte| *byte == b'.').unwrap_or(field.len());
    let (whole, fraction) = field.split_at(split);
    let fraction = fraction.get(1..).unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) || fraction.len() > 32 {
        return None;
    }
    let kept = &fraction[..fraction.len().min(digits)];
    let part = if kept.is_empty() { 0 } else { decimal(kept)? };
    let part = part * 10u64.pow((digits - kept.len()) as u32);
    decimal(whole)?.checked_mul(10u64.pow(digits as u32))?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_that_fit() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        for bad in
            [&b"18446744073709551616"[..], b"", b"-1", b"1 ", b"99999999999999999999", b"1e3"]
        {
            assert_eq!(decimal(bad), None, "{bad:?}");
        }
        assert_eq!(hexadecimal(b"0xff"), Some(255));
        assert_eq!(hexadecimal(b"ffffffffffffffff"), Some(u64::MAX));
        assert_eq!(hexadecimal(b"0x"), None);
    }

    #[test]
    fn fractions_of_a_second_are_exact() {
        assert_eq!(seconds("t", b"1795232544.379847"), Ok(1_795_232_544_379_847_000));
        assert_eq!(seconds("t", b"0.5"), Ok(500_000_000));
        assert_eq!(seconds("t", b"7"), Ok(7_000_000_000));
        assert_eq!(seconds("t", b"0.1234567891"), Ok(123_456_789));
        for bad in [&b""[..], b".5", b"1.x", b"1.2.3", b"99999999999.0", b"-1.0"] {
            assert!(seconds("t", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn lines_are_found_whatever_the_pieces_in_which_they_come() {
        struct Dribble<'a>(&'a [u8]);
        impl Read for Dribble<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let count = self.0.len().min(buffer.len()).min(3);
                buffer[..count].copy_from_slice(&self.0[..count]);
                self.0 = &self.0[count..];
                Ok(count)
            }
        }
        let mut lines = Lines::new(Dribble(b"one\r\n\nthree\nlast"));
        let mut seen = Vec::new();
        while let Some(Line::Text(line)) = lines.next().unwrap() {
            seen.push(line.to_vec());
        }
        assert_eq!(seen, [&b"one"[..], b"", b"three", b"last"]);
        assert_eq!(lines.number, 4);
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_as_a_whole() {
        let mut text = vec![b'x'; LINE_MAX * 3];
        text.extend_from_slice(b"\nnext\n");
        let mut lines = Lines::new(&text[..]);
        assert!(matches!(lines.next(), Ok(Some(Line::TooLong(shown))) if shown == [b'x'; 64]));
        assert!(matches!(lines.next(), Ok(Some(Line::Text(b"next")))));
        assert!(matches!(lines.next(), Ok(None)));
        let short = vec![b'y'; LINE_MAX + 1];
        let mut lines = Lines::new(&short[..]);
        assert!(matches!(lines.next(), Ok(Some(Line::Text(_) | Line::TooLong(_)))));
        assert!(matches!(lines.next(), Ok(None)));
    }
}
