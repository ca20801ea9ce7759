//! `forebay tune log`: what was done, the oldest first.

use std::io::{self, Write};

use anyhow::Result;
use forebay_image::Time;
use forebay_live::journal::History;
use serde_json::json;

use crate::args::tune::Log;
use crate::messages::Complaint;

use super::folder;

/// Prints the log.
pub(super) fn run(arguments: &Log) -> Result<u8> {
    let lines = match folder(&arguments.place)? {
        Some(folder) => History::of(&folder).read().map_err(|error| {
            let may_not = error.kind() == io::ErrorKind::PermissionDenied;
            let hint =
                if may_not { "root can" } else { "it can be removed: nothing depends on it" };
            Complaint::new(format!("cannot read the log: {error}")).hint(hint)
        })?,
        None => Vec::new(),
    };
    let mut out = io::stdout().lock();
    if lines.is_empty() && !arguments.json {
        writeln!(out, "Nothing was changed since the machine was started.")?;
    }
    for line in &lines {
        if arguments.json {
            let (what, knob, sentence) = (&line.what, &line.knob, &line.sentence);
            let object = json!({ "at": line.at, "what": what, "knob": knob, "sentence": sentence });
            writeln!(out, "{object}")?;
        } else {
            let time = Time { seconds: line.at.cast_signed(), nanos: 0 };
            writeln!(out, "{time} {}", line.sentence)?;
        }
    }
    Ok(0)
}
