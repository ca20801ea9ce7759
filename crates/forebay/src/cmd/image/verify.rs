//! Whether an image is sound.

use std::collections::HashSet;

use anyhow::Result;
use forebay_image::verify::{Finding, Report, strict, verify};
use forebay_image::walk::{Limits, Tree};
use forebay_image::{Cause, Fault};
use forebay_report::messages::progress;
use forebay_report::program::answered;
use forebay_report::screen::{self, Mood};
use serde_json::{Value, json};

use super::{No, open, print, show};
use crate::args::image::Verify;
use crate::{ERROR, NO};

/// Checks it and prints the result.
pub(super) fn run(arguments: &Verify) -> Result<u8> {
    let image = match open(&arguments.opened) {
        Err(error) if arguments.answer.json => return unopened(error),
        opened => opened?,
    };
    let tree = Tree::whole(&*image, Limits::default());
    let findings = arguments.strict.then(|| strict(&*image, &tree)).transpose()?;
    let bar = progress(tree.items().len() as u64, "verifying");
    let report = verify(&*image, tree, arguments.threads.count(), &|names| bar.inc(names));
    bar.finish_and_clear();
    let faults = Faults::of(&report);
    let text = if arguments.answer.json {
        format!("{:#}\n", object(&report, &faults, findings.as_deref()))
    } else {
        text(&report, &faults, findings.as_deref())
    };
    let has_findings = findings.is_some_and(|findings| !findings.is_empty());
    let code = match (faults.damage.is_empty() && !has_findings, faults.unread.is_empty()) {
        (false, _) => NO,
        (true, false) => ERROR,
        (true, true) => 0,
    };
    answered(code, print(&text, "report"))
}

/// The object of an image that is too damaged to be opened; another error is handed on.
fn unopened(error: anyhow::Error) -> Result<u8> {
    let Some(No(complaint)) = error.downcast_ref() else { return Err(error) };
    let mut object = object(&Report::default(), &Faults::default(), None);
    object["damage"] = json!([{ "path": "/", "offset": null, "error": complaint.what() }]);
    answered(NO, print(&format!("{object:#}\n"), "report"))
}

/// What was found wrong, by what it says of the image.
#[derive(Default)]
struct Faults<'a> {
    /// Damage to the image.
    damage: Vec<&'a Fault>,
    /// What the file that holds the image did not give.
    unread: Vec<&'a Fault>,
}

impl<'a> Faults<'a> {
    fn of(report: &'a Report) -> Self {
        let of_image = report.damage.iter().filter(|it| !it.is_unread() && !is_summary(it));
        let damaged: HashSet<&[u8]> = of_image.map(|fault| fault.path.as_slice()).collect();
        let (unread, damage) = report.damage.iter().partition(|fault| {
            fault.is_unread() || is_summary(fault) && !damaged.contains(fault.path.as_slice())
        });
        Self { damage, unread }
    }
}

/// Whether a fault only says that there were others before it.
const fn is_summary(fault: &Fault) -> bool {
    matches!(fault.cause, Cause::More(_))
}

fn text(report: &Report, faults: &Faults<'_>, findings: Option<&[Finding]>) -> String {
    let blocks = &report.blocks;
    let mut rows = vec![
        ("names", report.names.to_string()),
        ("files", report.files.to_string()),
        ("bytes", report.bytes.to_string()),
        (
            "blocks",
            format!(
                "{}: {} packed, {} stored, {} holes",
                blocks.count(),
                blocks.packed,
                blocks.stored,
                blocks.holes
            ),
        ),
        ("raw bytes", blocks.raw_bytes.to_string()),
    ];
    rows.extend(report.checks.iter().map(|check| ("checked", check.clone())));
    rows.extend(faults.damage.iter().map(|fault| ("damage", fault.to_string())));
    rows.extend(faults.unread.iter().map(|fault| ("unread", fault.to_string())));
    if let Some(findings) = findings {
        rows.extend(findings.iter().map(|finding| ("finding", finding.to_string())));
    }
    let (verdict, mood) = verdict(faults, findings.unwrap_or_default());
    format!("{}{}\n", show::columns(&rows), screen::painted(&verdict, mood))
}

/// The last line: `OK`, or the number of errors.
fn verdict(faults: &Faults<'_>, findings: &[Finding]) -> (String, Mood) {
    let [damaged, unknown] = [&faults.damage, &faults.unread].map(|faults| places(faults));
    match (damaged.is_empty(), unknown.is_empty(), findings.len()) {
        (true, true, 0) => ("OK".to_owned(), Mood::Good),
        (true, true, count) => {
            (format!("OK, but {} of --strict", plural(count, "finding")), Mood::Mixed)
        }
        (true, false, _) => (format!("NOT VERIFIED: {unknown} cannot be read"), Mood::Mixed),
        (false, true, _) => (format!("DAMAGED: {damaged}"), Mood::Bad),
        (false, false, _) => (format!("DAMAGED: {damaged}; {unknown} cannot be read"), Mood::Bad),
    }
}

/// How many files faults are about, and whether the root or the image as a whole is among them.
fn places(faults: &[&Fault]) -> String {
    let mut paths: Vec<&[u8]> = faults.iter().map(|fault| fault.path.as_slice()).collect();
    paths.sort_unstable();
    paths.dedup();
    let files = paths.iter().filter(|path| !path.is_empty()).count();
    let mut parts = Vec::new();
    if files > 0 {
        parts.push(plural(files, "file"));
    }
    if files < paths.len() {
        parts.push("the image itself".to_owned());
    }
    parts.join(" and ")
}

fn plural(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

fn object(report: &Report, faults: &Faults<'_>, findings: Option<&[Finding]>) -> Value {
    let Faults { damage, unread } = faults;
    let mut object = json!({
        "names": report.names,
        "files": report.files,
        "bytes": report.bytes,
        "blocks": {
            "packed": report.blocks.packed,
            "stored": report.blocks.stored,
            "holes": report.blocks.holes,
            "raw_bytes": report.blocks.raw_bytes,
        },
        "checks": report.checks,
        "damage": damage.iter().copied().map(show::fault).collect::<Vec<_>>(),
        "unread": unread.iter().copied().map(show::fault).collect::<Vec<_>>(),
    });
    if let Some(findings) = findings {
        object["findings"] = findings.iter().map(finding_object).collect();
    }
    object
}

fn finding_object(finding: &Finding) -> Value {
    let mut object = json!({ "kind": finding.kind(), "text": finding.to_string() });
    if let Some(bytes) = finding.bytes() {
        object["offset"] = bytes.start.into();
        object["bytes"] = (bytes.end - bytes.start).into();
    }
    object
}
