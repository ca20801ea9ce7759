//! How we speak: errors with a place, hints with a way out, progress that disappears.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use forebay_core::policy::SpecError;
use forebay_sim::fio::{JobError, JobErrorKind};
use forebay_sim::machine::{Machine, MachineError};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::screen;

/// An error and what to do about it.
#[derive(Debug)]
pub struct Complaint {
    what: String,
    hint: Option<String>,
}

impl Complaint {
    /// An error in words, lower case and without a full stop.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None }
    }

    /// The error in words, without its way out.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// With a way out.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// With the place that it is about.
    #[must_use]
    pub fn at(self, place: &str) -> Self {
        Self { what: format!("{place}: {}", self.what), ..self }
    }

    /// With the nearest of the names that could have been typed, or with all of them.
    #[must_use]
    pub fn nearest<'a>(self, given: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.collect();
        match nearest(given, &known) {
            Some(name) => self.hint(format!("did you mean '{name}'?")),
            None => self.hint(format!("known are {}", known.join(", "))),
        }
    }
}

impl From<SpecError> for Complaint {
    fn from(error: SpecError) -> Self {
        let complaint = Self::new(error.to_string());
        match &error {
            SpecError::UnknownPolicy { given, known, .. } => {
                complaint.nearest(given, known.iter().copied())
            }
            SpecError::UnknownParameter { given, known, .. } if !known.is_empty() => {
                complaint.nearest(given, known.iter().copied())
            }
            SpecError::UnknownParameter { .. }
            | SpecError::BadValue { .. }
            | SpecError::Twice { .. }
            | SpecError::Contradiction { .. } => {
                complaint.hint("`forebay policies` lists the policies and what they take")
            }
        }
    }
}

impl From<MachineError> for Complaint {
    /// The suggested name becomes a hint, and is no part of the error.
    fn from(mut error: MachineError) -> Self {
        let meant = match &mut error {
            MachineError::UnknownMachine { nearest, .. }
            | MachineError::UnknownKey { nearest, .. }
            | MachineError::BadValue { nearest, .. } => nearest.take(),
            MachineError::Syntax { .. }
            | MachineError::MissingKey { .. }
            | MachineError::NoRoom { .. } => None,
        };
        let complaint = Self::new(error.to_string());
        match (meant, error) {
            (Some(meant), _) => complaint.hint(format!("did you mean '{meant}'?")),
            (None, MachineError::UnknownMachine { .. }) => {
                let known: Vec<&str> = Machine::names().collect();
                let known = known.join(", ");
                complaint
                    .hint(format!("known are {known}, and files with a '/' or '.' in the name"))
            }
            (None, MachineError::NoRoom { .. }) => {
                complaint.hint("--set device.capacity or layout.span makes room")
            }
            (None, MachineError::MissingKey { .. }) => complaint.hint(
                "`forebay machines NAME` shows it in another machine, with unit and source; \
                 docs/devices.md says how a machine is written",
            ),
            (None, MachineError::UnknownKey { .. }) => {
                complaint.hint("`forebay machines NAME` lists a machine's keys")
            }
            (None, MachineError::Syntax { .. }) => complaint.hint(
                "TOML has lines `[table]`, `key = value` and `# comment`; docs/devices.md says how \
                 a machine is written",
            ),
            (None, MachineError::BadValue { .. }) => complaint.hint(
                "`forebay help units` has the units; docs/devices.md says how a machine is written",
            ),
        }
    }
}

impl From<JobError> for Complaint {
    fn from(mut error: JobError) -> Self {
        let hint = match &mut *error.kind {
            JobErrorKind::UnknownOption { nearest, .. }
            | JobErrorKind::UnknownValue { nearest, .. } => {
                nearest.take().map(|meant| format!("did you mean '{meant}'?"))
            }
            JobErrorKind::NoJob => {
                let hint = "a job is a section such as [reader] with options such as rw=randread";
                Some(hint.to_owned())
            }
            JobErrorKind::OutsideSection { .. } | JobErrorKind::BadSection { .. } => {
                Some("a section such as [reader] comes first, or [global]".to_owned())
            }
            JobErrorKind::NoValue { .. } | JobErrorKind::BadValue { .. } => {
                Some("`forebay help units` has the units of job files".to_owned())
            }
            JobErrorKind::LongLine { .. }
            | JobErrorKind::NotSupported { .. }
            | JobErrorKind::Refused { .. }
            | JobErrorKind::TooMany { .. } => None,
        };
        let listed = || "`forebay help job-files` lists what is understood".to_owned();
        let what = without_line(&error.to_string());
        Self { what, hint: Some(hint.unwrap_or_else(listed)) }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Complaint {}

/// The known name that `given` was most likely meant to be.
pub fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    const LIKELY: f64 = 0.7;
    let likeness = |name: &str| strsim::jaro_winkler(given, name);
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) >= LIKELY).then_some(*best)
}

/// A progress line on standard error, shown only on a terminal and only for what takes a while.
pub fn progress(steps: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(steps), progress_target());
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}");
    bar.set_style(style.expect("the template is well formed"));
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

/// A progress line for work whose end is not known.
pub fn spinner() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, progress_target());
    let style = ProgressStyle::with_template("{spinner} {pos} calls {elapsed}");
    bar.set_style(style.expect("the template is well formed"));
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

/// Reports an error of one of several items; the others continue.
pub fn complain(what: &dyn fmt::Display) {
    // Standard error may be closed; the exit code still reports the error.
    let _ = writeln!(io::stderr(), "error: {what}");
}

/// What messages call a text that was typed as options.
pub const COMMAND_LINE: &str = "the command line";

/// An error or a note without the line of the rewritten text, which was not typed.
pub fn without_line(said: &str) -> String {
    let after = said.strip_prefix(COMMAND_LINE).and_then(|rest| rest.strip_prefix(':'));
    match after.and_then(|rest| rest.split_once(": ")) {
        Some((line, what)) if line.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{COMMAND_LINE}: {what}")
        }
        Some(_) | None => said.to_owned(),
    }
}

/// How much is printed on standard error besides errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// Nothing: `--quiet`.
    Quiet,
    /// Notes and progress.
    #[default]
    Normal,
    /// Also what was chosen by default, and timings: `--verbose`.
    Verbose,
}

static VERBOSITY: OnceLock<Verbosity> = OnceLock::new();

/// Sets once how much is printed.
pub fn set_up(verbosity: Verbosity) {
    // A second call comes from a test and changes nothing.
    let _ = VERBOSITY.set(verbosity);
}

fn verbosity() -> Verbosity {
    VERBOSITY.get().copied().unwrap_or_default()
}

/// Whether only errors are printed on standard error.
pub fn is_quiet() -> bool {
    verbosity() == Verbosity::Quiet
}

/// Something worth knowing that changes nothing.
pub fn note(text: &str) {
    if !is_quiet() {
        // Standard error may be closed, and nothing depends on it.
        let _ = writeln!(io::stderr(), "note: {}", printable(text));
    }
}

/// A choice that was made by default, or how long something took; printed under `--verbose`.
pub fn detail(text: impl FnOnce() -> String) {
    if verbosity() == Verbosity::Verbose {
        // Standard error may be closed, and nothing depends on it.
        let _ = writeln!(io::stderr(), "verbose: {}", printable(&text()));
    }
}

/// Where bars are drawn: nowhere under `--quiet`.
pub fn progress_target() -> ProgressDrawTarget {
    if is_quiet() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(4) }
}

/// Words filled up to the width of prose, indented by two, behind a label.
pub fn paragraph(label: &str, words: &str) -> String {
    filled(&format!("  {label}"), words, screen::prose_columns())
}

/// Words filled up to a width, behind a label.
pub fn filled(label: &str, words: &str, columns: usize) -> String {
    let indent = " ".repeat(label.len());
    let mut text = String::new();
    let mut line = label.to_owned();
    let mut is_empty = true;
    for word in printable(words).split(' ') {
        if !is_empty && screen::width_of(&line) + 1 + screen::width_of(word) > columns {
            text += &line;
            text.push('\n');
            line.clone_from(&indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    text + &line + "\n"
}

/// Names come from devices, processes and servers, and may hold what a terminal would obey.
pub fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// A path on one line, or an address without its secrets.
pub fn shown(path: &Path) -> String {
    printable(&forebay_host::backend::scrubbed(&path.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_a_likely_one_or_none() {
        let known = ["linux-2.6.7", "request-size", "off"];
        assert_eq!(nearest("request_size", &known), Some("request-size"));
        assert_eq!(nearest("zebra", &known), None);
    }

    #[test]
    fn a_mistyped_policy_brings_the_nearest_one() {
        let error = forebay_core::readahead::Spec::parse("fixd").unwrap_err();
        let said = Complaint::from(error).to_string();
        assert_eq!(said, "no readahead policy is named 'fixd'\nhint: did you mean 'fixed'?");
    }
}
