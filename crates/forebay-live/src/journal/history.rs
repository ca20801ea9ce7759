//! The log: what was done, in sentences, for later.
//!
//! It is not needed to take anything back. So it is never waited for, and a full disk only makes
//! it end earlier.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::knob::Event;

use super::Folder;
use super::disk::{PRIVATE, opened};

/// A log that is being written.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    old: PathBuf,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// When, in seconds since 1970.
    pub at: u64,
    /// What happened, in a word.
    pub what: String,
    /// The knob, or the file.
    pub knob: String,
    /// All of it, in a sentence.
    pub sentence: String,
}

impl History {
    /// The log of a folder.
    pub fn of(folder: &Folder) -> Self {
        Self { path: folder.path().join("log"), old: folder.path().join("log.old") }
    }

    /// Adds what has happened.
    pub fn add(&self, event: &Event) {
        let at = now();
        let clean = |text: String| text.replace(char::is_control, " ");
        let (what, about) = (event.word(), clean(event.about()).replace(' ', "_"));
        self.line(&format!("{at} {what} {about} {}\n", clean(event.to_string())));
    }

    /// Adds what a change has brought; `about` is what it changed.
    pub fn add_outcome(&self, about: &str, sentence: &str) {
        let clean = |text: &str| text.replace(char::is_control, " ");
        let about = clean(about).replace(' ', "_");
        self.line(&format!("{} {OUTCOME} {about} {}\n", now(), clean(sentence)));
    }

    fn line(&self, line: &str) {
        let is_long = fs::metadata(&self.path).is_ok_and(|found| found.len() > LOG_MAX);
        if is_long {
            let _ = fs::rename(&self.path, &self.old);
        }
        let how = &mut OpenOptions::new();
        if let Ok(mut file) = opened(how.append(true).create(true).mode(PRIVATE), &self.path) {
            let _ = file.write_all(line.as_bytes());
        }
    }

    /// All that it still has, the oldest first. Lines that are not whole are left out.
    ///
    /// # Errors
    /// There is a log that cannot be read; the message names it.
    pub fn read(&self) -> io::Result<Vec<Past>> {
        let mut lines = Vec::new();
        for path in [&self.old, &self.path] {
            let text = match text(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read.map_err(|error| {
                    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
                })?,
            };
            let text = String::from_utf8_lossy(&text);
            let whole = text.rfind('\n').map_or(0, |at| at + 1);
            lines.extend(text[..whole].lines().filter_map(Past::parse));
        }
        Ok(lines)
    }
}

fn text(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let file = opened(OpenOptions::new().read(true), path)?;
    file.take(2 * LOG_MAX).read_to_end(&mut text)?;
    Ok(text)
}

impl Past {
    /// Whether something was changed.
    pub fn is_change(&self) -> bool {
        ["set", "set-again", FILE_SET].contains(&self.what.as_str())
    }

    /// What came of a change: of the later lines, the first that is about the same. An outcome of a
    /// file stands for all descriptors of it; further windows on the way to it are none.
    pub fn outcome<'a>(&self, later: &'a [Self]) -> Option<&'a Self> {
        later.iter().find(|line| {
            let is_of_file = || self.knob.ends_with(&format!("/{}", line.knob));
            (line.knob == self.knob && line.what != FILE_SET)
                || (line.what == OUTCOME && is_of_file())
        })
    }

    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.splitn(4, ' ');
        Some(Self {
            at: parts.next()?.parse().ok()?,
            what: parts.next()?.to_owned(),
            knob: parts.next()?.to_owned(),
            sentence: parts.next()?.to_owned(),
        })
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The word of a file that was given a window.
const FILE_SET: &str = "file-set";

/// The word of what a change has brought.
const OUTCOME: &str = "outcome";

/// When a new file is begun, in bytes; one old file is kept.
const LOG_MAX: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_of_a_change_is_found_behind_it() {
        let lines: Vec<Past> = [
            "10 file-set 77/fd3/8:1/12 the window was set",
            "11 file-set 77/fd3/8:1/12 the window was set to another one on the way",
            "11 set max_ratio_fine/8:0 the share was set",
            "12 outcome 8:1/112 another file",
            "13 outcome 8:1/12 31 x the faults/s; kept",
            "14 restored max_ratio_fine/8:0 the share was restored",
        ]
        .into_iter()
        .map(|line| Past::parse(line).unwrap())
        .collect();
        let of = |place: usize| lines[place].outcome(&lines[place + 1..]).map(|line| line.at);
        assert_eq!((of(0), of(1), of(2), of(3)), (Some(13), Some(13), Some(14), None));
        let changes = lines.iter().filter(|line| line.is_change()).count();
        assert_eq!(changes, 3);
    }
}
