//! What happens to clients, as lines of a file or of standard error.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use forebay_host::serve::{ServeEvent, ServeLog};
use forebay_report::messages::{note, printable, shown};

/// Where lines go.
#[derive(Debug)]
pub(super) struct Log {
    /// Standard error, if there is none.
    path: Option<PathBuf>,
    file: Mutex<Option<File>>,
}

impl Log {
    /// Opens the typed log; without one, errors are notes.
    pub(super) fn open(typed: Option<&Path>) -> Result<Option<Arc<Self>>> {
        let Some(typed) = typed else { return Ok(None) };
        let path = (typed != Path::new("-")).then(|| typed.to_owned());
        let log = Self { path, file: Mutex::default() };
        log.reopen()?;
        Ok(Some(Arc::new(log)))
    }

    /// Opens the file anew: the old one may have been renamed.
    pub(super) fn reopen(&self) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let opened = OpenOptions::new().append(true).create(true).open(path);
        let opened = opened.with_context(|| format!("cannot open the log '{}'", shown(path)))?;
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        Ok(())
    }

    fn line(&self, text: &str) {
        let line = format!("{} {text}\n", timestamp(SystemTime::now()));
        // A full disk costs lines, and no client anything.
        let _ = match &mut *self.file.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(file) => file.write_all(line.as_bytes()),
            None => io::stderr().write_all(line.as_bytes()),
        };
    }
}

/// Receives events: all of them go to the log, errors to standard error. Lines that clients can
/// cause in any number are at most one a second: on standard error each client that is sent away,
/// and in the log clients that were not even taken in.
pub(super) fn sink(log: Option<Arc<Log>>) -> ServeLog {
    let (notes, lines) = (Mutex::<Limit>::default(), Mutex::<Limit>::default());
    Box::new(move |event: &ServeEvent<'_>| {
        let text = printable(&event.to_string());
        let is_shown = log.as_ref().is_none_or(|log| log.path.is_some());
        if event.is_trouble() && is_shown {
            match event.is_sent_away() {
                true => limited(&notes, &text, note),
                false => note(&text),
            }
        }
        if let Some(log) = &log {
            if matches!(event, ServeEvent::NotTaken(_)) {
                limited(&lines, &text, |text| log.line(text));
            } else {
                log.line(&text);
            }
        }
    })
}

/// Writes a line unless there was one within the last second, with the number of those left out.
fn limited(limit: &Mutex<Limit>, text: &str, write: impl Fn(&str)) {
    let passed = limit.lock().unwrap_or_else(PoisonError::into_inner).pass(Instant::now());
    match passed {
        None => {}
        Some(0) => write(text),
        Some(count) => write(&format!("{text} ({count} lines like this were left out)")),
    }
}

/// How many lines may still be written.
#[derive(Debug, Default)]
struct Limit {
    last: Option<Instant>,
    left_out: u64,
}

impl Limit {
    /// How many lines were left out before one that may be written; none if it is left out, too.
    fn pass(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < LINE_INTERVAL) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Between two lines of a kind that clients can cause in any number.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// A time in UTC, to the millisecond: RFC 3339.
fn timestamp(at: SystemTime) -> String {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Years that begin in March, in eras of 400 of them: leap days come last.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + next;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_left_out_and_counted_within_a_second() {
        let (mut limit, begin) = (Limit::default(), Instant::now());
        let mut pass = |millis| limit.pass(begin + Duration::from_millis(millis));
        assert_eq!([pass(0), pass(1), pass(500), pass(999)], [Some(0), None, None, None]);
        assert_eq!([pass(1000), pass(1500), pass(9000)], [Some(3), None, Some(1)]);
        assert_eq!(pass(20_000), Some(0));
    }

    #[test]
    fn times_are_dates_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (1_767_225_599, "2025-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(timestamp(at), expected);
        }
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_234);
        assert_eq!(timestamp(at), "1970-01-01T00:00:01.234Z");
    }
}
