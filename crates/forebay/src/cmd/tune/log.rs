//! `forebay tune log`: all changes, the oldest first, or those at one time, with their reasons and
//! effects.

use std::io::{self, Write};

use anyhow::Result;
use forebay_image::Time;
use forebay_live::journal::{History, Past};
use forebay_report::messages::Complaint;
use serde_json::json;

use crate::NO;
use crate::args::tune::Log;

use super::folder;

/// Prints the log.
pub(super) fn run(arguments: &Log) -> Result<u8> {
    let lines = match folder(&arguments.place.state)? {
        Some(folder) => History::of(&folder).read().map_err(|error| {
            let may_not = error.kind() == io::ErrorKind::PermissionDenied;
            let hint =
                if may_not { "root can" } else { "it can be removed: nothing depends on it" };
            Complaint::new(format!("cannot read the log: {error}")).hint(hint)
        })?,
        None => Vec::new(),
    };
    let mut out = io::stdout().lock();
    if let Some(moment) = &arguments.at {
        return answer(&mut out, &lines, moment, arguments.json);
    }
    if lines.is_empty() && !arguments.json {
        writeln!(out, "No change is on record.")?;
    }
    for line in &lines {
        if arguments.json {
            writeln!(out, "{}", object(line))?;
        } else {
            writeln!(out, "{} {}", time(line), line.sentence)?;
        }
    }
    Ok(0)
}

/// The changes at one time, with their reasons and results.
fn answer(out: &mut impl Write, lines: &[Past], moment: &str, is_json: bool) -> Result<u8> {
    let is_dated = moment.contains(' ');
    let is_then = |line: &Past| {
        let shown = time(line);
        let of_day = shown.split_once(' ').map_or("", |(_, time)| time);
        if is_dated { shown.starts_with(moment) } else { of_day.starts_with(moment) }
    };
    let changed = lines.iter().enumerate().filter(|(_, line)| line.is_change() && is_then(line));
    let mut is_none = true;
    for (place, line) in changed {
        is_none = false;
        let outcome = line.outcome(&lines[place + 1..]);
        if is_json {
            let mut object = object(line);
            object["outcome"] = outcome.map_or(serde_json::Value::Null, self::object);
            writeln!(out, "{object}")?;
            continue;
        }
        writeln!(out, "{} {}", time(line), line.sentence)?;
        match outcome {
            Some(outcome) => writeln!(out, "  {} {}", time(outcome), outcome.sentence)?,
            None => writeln!(out, "  nothing has come of it so far")?,
        }
    }
    if is_none && !is_json {
        writeln!(out, "No change at {moment} (UTC) is on record.")?;
        if let Some(first) = lines.first() {
            writeln!(out, "The record begins at {}.", time(first))?;
        }
        if let Some(last) = lines.iter().rfind(|line| line.is_change()) {
            writeln!(out, "The last change was at {}: {}", time(last), last.sentence)?;
        }
    }
    Ok(if is_none { NO } else { 0 })
}

fn time(line: &Past) -> String {
    Time { seconds: line.at.cast_signed(), nanos: 0 }.to_string()
}

fn object(line: &Past) -> serde_json::Value {
    let (what, knob, sentence) = (&line.what, &line.knob, &line.sentence);
    json!({ "at": line.at, "what": what, "knob": knob, "sentence": sentence })
}
