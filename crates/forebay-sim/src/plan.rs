//! Scripts of reads, faults and advice on one file, and what each step makes resident.
//!
//! One step is one line. A script may have empty lines and comments.
//!
//! ```text
//! r OFFSET BYTES   pread(2) through the descriptor
//! t PAGE           touch a page through a mapping, which has a descriptor of its own
//! f ADVICE         posix_fadvise(2) over the whole file: 0 normal, 1 random, 2 sequential,
//!                  3 willneed, 4 dontneed, 5 noreuse
//! n                a new descriptor
//! d                drop the file's pages; the mapping is made anew with a new descriptor
//! # ...            a comment
//! ```
//!
//! The result of a step is the step, the runs of pages that became resident and how many pages the
//! file has in the cache: `r 0 4096 -> 0+4  | resident 4`.

use core::fmt;

use forebay_core::units::PageIndex;

pub use play::Player;

mod play;

/// One step of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A read through the descriptor.
    Read {
        /// Its first byte.
        offset: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// A read of one byte of a page through the mapping.
    Touch {
        /// The page.
        page: PageIndex,
    },
    /// Advice about the whole file, given to the descriptor.
    Advise(Advice),
    /// A new descriptor, as another program would open the file.
    Open,
    /// The file's pages leave the cache, and the mapping is made anew.
    Drop,
}

/// What posix_fadvise(2) can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// No advice.
    Normal,
    /// Pages will be read in random order.
    Random,
    /// Pages will be read in ascending order.
    Sequential,
    /// Pages will be needed soon.
    WillNeed,
    /// Pages will not be needed soon.
    DontNeed,
    /// Pages will be needed once.
    NoReuse,
}

/// Errors in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepError {
    /// No step begins with this word.
    UnknownStep(String),
    /// The step takes another number of arguments.
    Arguments {
        /// The step's letter and arguments.
        usage: &'static str,
        /// How many arguments were given.
        given: usize,
    },
    /// An argument is not a number in range.
    BadNumber {
        /// The argument.
        argument: &'static str,
        /// The expected arguments.
        expected: &'static str,
        /// The arguments found.
        given: String,
    },
    /// The bytes of a read end beyond the largest file.
    TooFar {
        /// The read's first byte.
        offset: u64,
        /// Its length.
        len: u64,
    },
}

/// Errors in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The line, counted from one.
    pub line: usize,
    /// The error.
    pub error: StepError,
}

/// What a step did to the page cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The pages that became resident, in ascending order, no two runs adjacent.
    pub runs: Vec<Run>,
    /// The file's resident pages after the step.
    pub resident: u64,
}

/// Pages in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first page.
    pub start: PageIndex,
    /// How many pages.
    pub count: u64,
}

/// Reads a script.
///
/// # Errors
/// Names the first line that is no step.
pub fn parse_script(text: &str) -> Result<Vec<Step>, ScriptError> {
    step_lines(text)
        .map(|(line, text)| Step::parse(text).map_err(|error| ScriptError { line, error }))
        .collect()
}

/// The lines of a script that are steps, with their numbers counted from one.
pub fn step_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

impl Step {
    /// Reads one line.
    ///
    /// # Errors
    /// Names the word that is not a step, or the argument that is missing, too many or no number.
    pub fn parse(line: &str) -> Result<Self, StepError> {
        let mut words = line.split_whitespace();
        let letter = words.next().unwrap_or("");
        let words: Vec<&str> = words.collect();
        match letter {
            "r" => {
                let [offset, len] = arguments("r OFFSET BYTES", &words)?;
                let (offset, len) = (number("OFFSET", offset)?, number("BYTES", len)?);
                match offset.checked_add(len) {
                    Some(end) if end <= FILE_BYTES_MAX => Ok(Self::Read { offset, len }),
                    Some(_) | None => Err(StepError::TooFar { offset, len }),
                }
            }
            "t" => {
                let [page] = arguments("t PAGE", &words)?;
                Ok(Self::Touch { page: number("PAGE", page)? })
            }
            "f" => {
                let [given] = arguments("f ADVICE", &words)?;
                let advice = Advice::ALL.into_iter().find(|advice| advice.code() == given);
                let expected = "a number from 0 to 5";
                advice.map(Self::Advise).ok_or_else(|| StepError::BadNumber {
                    argument: "ADVICE",
                    expected,
                    given: given.into(),
                })
            }
            "n" => arguments("n", &words).map(|[]| Self::Open),
            "d" => arguments("d", &words).map(|[]| Self::Drop),
            _ => Err(StepError::UnknownStep(letter.into())),
        }
    }
}

impl Advice {
    /// Every advice, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Normal,
        Self::Random,
        Self::Sequential,
        Self::WillNeed,
        Self::DontNeed,
        Self::NoReuse,
    ];

    /// The digit that a script uses; Linux has the same number for it on most machines.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Normal => "0",
            Self::Random => "1",
            Self::Sequential => "2",
            Self::WillNeed => "3",
            Self::DontNeed => "4",
            Self::NoReuse => "5",
        }
    }
}

impl Outcome {
    /// The outcome of a step that made `pages` resident, given in ascending order.
    pub fn new(pages: impl IntoIterator<Item = PageIndex>, resident: u64) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        for page in pages {
            match runs.last_mut() {
                Some(run) if run.start + run.count == page => run.count += 1,
                Some(_) | None => runs.push(Run { start: page, count: 1 }),
            }
        }
        Self { runs, resident }
    }

    /// The line of a result.
    pub fn line(&self, step: Step) -> String {
        format!("{step} -> {self}")
    }
}

impl fmt::Display for Step {
    /// The form that [`Step::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { offset, len } => write!(f, "r {offset} {len}"),
            Self::Touch { page } => write!(f, "t {page}"),
            Self::Advise(advice) => write!(f, "f {}", advice.code()),
            Self::Open => f.write_str("n"),
            Self::Drop => f.write_str("d"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, run) in self.runs.iter().enumerate() {
            let blank = if index == 0 { "" } else { " " };
            write!(f, "{blank}{}+{}", run.start, run.count)?;
        }
        write!(f, "  | resident {}", self.resident)
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownStep(word) => {
                write!(f, "no step is named '{word}', but r, t, f, n and d")
            }
            Self::Arguments { usage, given } => {
                let plural = if *given == 1 { "" } else { "s" };
                write!(f, "'{usage}' has {given} argument{plural}")
            }
            Self::BadNumber { argument, expected, given } => {
                write!(f, "{argument} takes {expected}, not '{given}'")
            }
            Self::TooFar { offset, len } => {
                write!(f, "no file is large enough for {len} bytes from {offset} on")
            }
        }
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.error)
    }
}

impl std::error::Error for StepError {}

impl std::error::Error for ScriptError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

fn arguments<'a, const N: usize>(
    usage: &'static str,
    words: &[&'a str],
) -> Result<[&'a str; N], StepError> {
    words.try_into().map_err(|_| StepError::Arguments { usage, given: words.len() })
}

fn number(argument: &'static str, given: &str) -> Result<u64, StepError> {
    let number = given.parse().ok().filter(|&number| number <= FILE_BYTES_MAX);
    let is_number = !given.is_empty() && given.bytes().all(|byte| byte.is_ascii_digit());
    let expected = if is_number { UP_TO_MAX } else { "a number" };
    number.ok_or_else(|| StepError::BadNumber { argument, expected, given: given.into() })
}

/// File positions are signed in Linux.
const FILE_BYTES_MAX: u64 = i64::MAX.unsigned_abs();

const UP_TO_MAX: &str = "a number up to 9223372036854775807";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_prints_as_it_was_written() {
        for line in ["r 0 4096", "r 123 0", "t 7", "f 0", "f 5", "n", "d"] {
            assert_eq!(Step::parse(line).unwrap().to_string(), line);
        }
        assert_eq!(Step::parse(" r  0\t1 "), Ok(Step::Read { offset: 0, len: 1 }));
        for advice in Advice::ALL {
            let step = Step::Advise(advice);
            assert_eq!(Step::parse(&step.to_string()), Ok(step));
        }
    }

    #[test]
    fn a_script_has_comments_and_empty_lines() {
        let script = parse_script("# a stream\nr 0 4096\n\n  t 3\nd\n").unwrap();
        assert_eq!(
            script,
            [Step::Read { offset: 0, len: 4096 }, Step::Touch { page: 3 }, Step::Drop]
        );
        assert_eq!(parse_script(""), Ok(Vec::new()));
    }

    #[test]
    fn errors_name_the_line_and_what_is_wrong_with_it() {
        let message = |text| parse_script(text).unwrap_err().to_string();
        assert_eq!(message("n\n\nx 3"), "line 3: no step is named 'x', but r, t, f, n and d");
        assert_eq!(message("r 0"), "line 1: 'r OFFSET BYTES' has 1 argument");
        assert_eq!(message("n 1"), "line 1: 'n' has 1 argument");
        assert_eq!(message("r 0 4k"), "line 1: BYTES takes a number, not '4k'");
        assert_eq!(message("t -1"), "line 1: PAGE takes a number, not '-1'");
        assert_eq!(message("f 6"), "line 1: ADVICE takes a number from 0 to 5, not '6'");
        let great = "line 1: OFFSET takes a number up to 9223372036854775807, not \
                     '18446744073709551615'";
        assert_eq!(message("r 18446744073709551615 4096"), great);
        assert!(UP_TO_MAX.ends_with(&format!(" {FILE_BYTES_MAX}")));
        let far = "r 9223372036854775807 1";
        let expected = "line 1: no file is large enough for 1 bytes from 9223372036854775807 on";
        assert_eq!(message(far), expected);
    }

    #[test]
    fn an_outcome_names_the_new_runs_and_the_resident_pages() {
        let read = Step::Read { offset: 0, len: 4096 };
        assert_eq!(Outcome::new(0..4, 4).line(read), "r 0 4096 -> 0+4  | resident 4");
        let split = Outcome::new([8, 9, 12, 14, 15], 11);
        assert_eq!(split.to_string(), "8+2 12+1 14+2  | resident 11");
        assert_eq!(Outcome::new([], 0).line(Step::Drop), "d ->   | resident 0");
    }
}
