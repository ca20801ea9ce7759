//! What can be wrong with a machine.

use std::fmt;

use thiserror::Error;

/// Where something wrong stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file, at a line counted from one.
    Line {
        /// The name of the file as it was given.
        file: Box<str>,
        /// The line.
        line: usize,
    },
    /// In an override.
    Override,
}

/// Errors of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MachineError {
    /// No machine has this name.
    #[error("no machine `{given}`{}", or_nearest(nearest))]
    UnknownMachine {
        /// The text found.
        given: String,
        /// The name nearest to it.
        nearest: Option<Box<str>>,
    },
    /// The file is not TOML.
    #[error("{place}: not a TOML file: {message}")]
    Syntax {
        /// Where reading ended.
        place: Place,
        /// What the reader of TOML says.
        message: String,
    },
    /// There is no such key, or this machine's device has none.
    #[error("{place}: unknown key `{key}`{}", or_nearest(nearest))]
    UnknownKey {
        /// Where it stands.
        place: Place,
        /// The key.
        key: String,
        /// The known key nearest to it.
        nearest: Option<Box<str>>,
    },
    /// A key is missing.
    #[error("{place}: missing `{key}`, expected {expected}")]
    MissingKey {
        /// Where it should stand: its table, or the start of the file.
        place: Place,
        /// The key.
        key: String,
        /// What should stand there.
        expected: String,
    },
    /// A key holds something impossible.
    #[error("{place}: `{key}` is {found}, expected {expected}{}", or_nearest(nearest))]
    BadValue {
        /// Where it stands.
        place: Place,
        /// The key.
        key: String,
        /// What stands there.
        found: Box<str>,
        /// What should stand there.
        expected: String,
        /// The possible value nearest to it.
        nearest: Option<Box<str>>,
    },
    /// The files do not fit into the part of the disk that they are to lie in.
    #[error("{} in a span of {span_bytes} bytes", match files {
        1 => format!("a file of {file_bytes} bytes does not fit"),
        _ => format!(
            "{files} files, each with room for the largest of {file_bytes} bytes, do not fit"
        ),
    })]
    NoRoom {
        /// The number of files.
        files: u32,
        /// The bytes of the largest one.
        file_bytes: u64,
        /// The bytes of the span.
        span_bytes: u64,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { file, line } => write!(f, "{file}:{line}"),
            Self::Override => f.write_str("--set"),
        }
    }
}

/// The known word that is nearest to `given`, if one is near at all.
pub(super) fn nearest<'a>(
    given: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<Box<str>> {
    // Beyond this length no known word is near, and the distance takes the product of the lengths.
    if given.len() > 100 {
        return None;
    }
    let distance = |word: &str| {
        let (given, word) = compared(given, word);
        strsim::damerau_levenshtein(given, word)
    };
    let word = known.into_iter().min_by_key(|word| distance(word))?;
    let length = compared(given, word).1.len().max(4);
    (distance(word) * 2 <= length).then(|| word.into())
}

/// The parts of two words that are compared: within one table only the part after the dot, because
/// `device.` makes no two keys similar.
fn compared<'a>(given: &'a str, word: &'a str) -> (&'a str, &'a str) {
    match (given.split_once('.'), word.split_once('.')) {
        (Some((table, name)), Some((other, tail))) if table == other => (name, tail),
        (Some(_) | None, Some(_) | None) => (given, word),
    }
}

fn or_nearest(nearest: &Option<Box<str>>) -> String {
    nearest.as_ref().map(|word| format!("; did you mean `{word}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_near_if_half_of_it_stands() {
        let known = ["device.rate_outer", "device.rotation", "cpu.cores"];
        let near = |given| nearest(given, known);
        assert_eq!(near("device.rate_uoter").as_deref(), Some("device.rate_outer"));
        assert_eq!(near("rate_outer").as_deref(), Some("device.rate_outer"));
        assert_eq!(near("device.units"), None);
        assert_eq!(near("zzz"), None);
        assert_eq!(nearest(&"device".repeat(1_000), known), None);
    }
}
