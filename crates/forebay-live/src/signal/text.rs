//! A file's text with its name, so that an error says where it is.

/// What a file of the kernel held.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// Its path, as errors name it.
    pub file: &'a str,
    /// Its contents.
    pub text: &'a str,
}

/// A text that is not what the kernel writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A field is not what it should be.
    #[error("{file}, line {line}: {field} is '{found}', not {wanted}")]
    Field {
        /// The file.
        file: String,
        /// Its line, from 1 on.
        line: usize,
        /// The field's name.
        field: &'static str,
        /// What stands there, at most [`SHOWN_MAX`] characters of it, without control characters.
        found: String,
        /// What should stand there.
        wanted: &'static str,
    },
    /// A line or field is not there.
    #[error("{file} has no {field}")]
    Missing {
        /// The file.
        file: String,
        /// The field's name.
        field: &'static str,
    },
    /// Bytes that are no text.
    #[error("{file}, line {line}: bytes that are no text")]
    Bytes {
        /// The file.
        file: String,
        /// The line in which they begin, from 1 on.
        line: usize,
    },
}

impl<'a> Text<'a> {
    /// A text and the name of its file.
    pub const fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text }
    }

    /// Bytes as they were read, if they are a text.
    pub fn of_bytes(file: &'a str, bytes: &'a [u8]) -> Result<Self, Malformed> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self { file, text }),
            Err(error) => {
                let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
                let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
                Err(Malformed::Bytes { file: file.to_owned(), line })
            }
        }
    }

    /// The lines with their numbers, from 1 on.
    pub fn lines(self) -> impl Iterator<Item = (usize, &'a str)> {
        (1..).zip(self.text.lines())
    }

    /// A whole number that stands on a line.
    pub fn number(
        &self,
        line: usize,
        field: &'static str,
        word: Option<&str>,
    ) -> Result<u64, Malformed> {
        let word = word.unwrap_or_default();
        word.parse().map_err(|_| self.wrong(line, field, word, "a whole number"))
    }

    /// The text is one number and nothing else.
    pub fn only_number(&self, field: &'static str) -> Result<u64, Malformed> {
        self.number(1, field, Some(self.text.trim()))
    }

    /// The error for what stands on a line.
    pub fn wrong(
        &self,
        line: usize,
        field: &'static str,
        found: &str,
        wanted: &'static str,
    ) -> Malformed {
        let visible = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
        let found = found.chars().take(SHOWN_MAX).map(visible).collect();
        Malformed::Field { file: self.file.to_owned(), line, field, found, wanted }
    }

    /// The error for what is not there.
    pub fn missing(&self, field: &'static str) -> Malformed {
        Malformed::Missing { file: self.file.to_owned(), field }
    }
}

/// How much of a wrong value an error shows, in characters.
pub const SHOWN_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_file_line_and_field() {
        let text = Text::new("/proc/vmstat", "nr_dirty 1\nnr_writeback many\n");
        let error = text.number(2, "nr_writeback", Some("many")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "/proc/vmstat, line 2: nr_writeback is 'many', not a whole number"
        );
        assert_eq!(text.missing("nr_dirty").to_string(), "/proc/vmstat has no nr_dirty");
    }

    #[test]
    fn bytes_that_are_no_text_are_found_by_line() {
        let error = Text::of_bytes("/proc/diskstats", b"one\ntw\xffo\n").unwrap_err();
        assert_eq!(error, Malformed::Bytes { file: "/proc/diskstats".to_owned(), line: 2 });
    }

    /// A value of two lines was an error of two lines, and an escape sequence reached the terminal.
    #[test]
    fn control_characters_are_not_shown() {
        let error = Text::new("f", "1\n\u{1b}[2J\n").only_number("n").unwrap_err();
        assert_eq!(error.to_string(), "f, line 1: n is '1\u{fffd}\u{fffd}[2J', not a whole number");
    }

    #[test]
    fn a_long_value_is_shown_in_part() {
        let text = Text::new("f", "");
        let error = text.number(1, "n", Some(&"x".repeat(5_000))).unwrap_err();
        assert!(error.to_string().len() < 100, "{error}");
    }
}
