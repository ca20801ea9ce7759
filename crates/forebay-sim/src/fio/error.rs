//! What can be wrong with a job file, and where.

/// A job file that is refused: the position, and the error there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {kind}")]
pub struct JobError {
    /// The name the file was given to the parser under.
    pub file: String,
    /// The line, counted from one.
    pub line: u32,
    /// The option at fault; empty if the line is no option.
    pub option: String,
    /// The error.
    pub kind: Box<JobErrorKind>,
}

/// Errors in one line of a job file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobErrorKind {
    /// An option stands before the first section.
    #[error("option '{option}' stands outside a section, expected '[name]' first")]
    OutsideSection {
        /// The line as it stands.
        option: String,
    },
    /// A section header that is empty or not closed.
    #[error("section header '{text}' is not of the form '[name]'")]
    BadSection {
        /// The line as it stands.
        text: String,
    },
    /// A line longer than fio reads in one piece.
    #[error("the line has {found} bytes, at most {most} are read")]
    LongLine {
        /// Bytes found.
        found: usize,
        /// Bytes allowed.
        most: usize,
    },
    /// The file holds no section that is a job.
    #[error("the file defines no job")]
    NoJob,
    /// No option of that name exists in fio.
    #[error("unknown option '{option}'{}", nearest_text(.nearest))]
    UnknownOption {
        /// The name as typed.
        option: String,
        /// The known name nearest to it.
        nearest: Option<&'static str>,
    },
    /// fio knows it, this project does not do it.
    #[error("option '{option}{}' is not supported: {why}", value_text(.value))]
    NotSupported {
        /// The option.
        option: String,
        /// The value that requires it; empty if there is none.
        value: String,
        /// The missing feature.
        why: &'static str,
    },
    /// An option that needs a value has none.
    #[error("option '{option}' needs a value")]
    NoValue {
        /// The option.
        option: String,
    },
    /// A value that is not of the option's form.
    #[error("option '{option}={value}': expected {expected}")]
    BadValue {
        /// The option.
        option: String,
        /// The value as typed.
        value: String,
        /// What would do.
        expected: &'static str,
    },
    /// A value that is none of the option's words.
    #[error(
        "option '{option}={value}': unknown value{}, expected one of {}",
        nearest_text(.nearest),
        .choices.join(", ")
    )]
    UnknownValue {
        /// The option.
        option: String,
        /// The value as typed.
        value: String,
        /// The word nearest to it.
        nearest: Option<&'static str>,
        /// All the words.
        choices: Vec<&'static str>,
    },
    /// The values contradict each other; fio would refuse them or move no byte.
    #[error("job '{job}': {why}")]
    Refused {
        /// The job's name.
        job: String,
        /// The contradiction.
        why: String,
    },
    /// A value above a stated maximum.
    #[error("job '{job}': {what} is {found}, at most {most} are supported")]
    TooMany {
        /// The job's name.
        job: String,
        /// What there is too much of.
        what: &'static str,
        /// The count asked for.
        found: u64,
        /// The count allowed.
        most: u64,
    },
}

/// An accepted line that has no effect here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The line, counted from one.
    pub line: u32,
    /// The option.
    pub option: String,
    /// Why it has no effect.
    pub why: &'static str,
}

impl std::fmt::Display for Note {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "line {}: option '{}' is ignored: {}", self.line, self.option, self.why)
    }
}

/// The word of `known` nearest to `typed`, unless all of them are far off.
///
/// Half of the typed length is as much difference as fio's own hint tolerates.
pub(super) fn nearest<'a>(
    typed: &str,
    known: impl Iterator<Item = &'a &'static str>,
) -> Option<&'static str> {
    let most = typed.chars().count().div_ceil(2);
    known
        .map(|word| (strsim::levenshtein(typed, word), *word))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

fn nearest_text(nearest: &Option<&'static str>) -> String {
    nearest.map_or(String::new(), |word| format!(", the nearest is '{word}'"))
}

fn value_text(value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("={value}") }
}
