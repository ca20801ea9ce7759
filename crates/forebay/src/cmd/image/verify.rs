//! Whether an image is sound.

use anyhow::Result;
use forebay_image::verify::{Finding, Report, strict, verify};
use forebay_image::walk::{Limits, Tree};
use forebay_report::messages::progress;
use forebay_report::screen::{self, Mood};
use serde_json::{Value, json};

use super::{open, print, show};
use crate::NO;
use crate::args::image::Verify;

/// Checks it and prints the result.
pub(super) fn run(arguments: &Verify) -> Result<u8> {
    let image = open(&arguments.opened)?;
    let tree = Tree::whole(&*image, Limits::default());
    let findings = arguments.strict.then(|| strict(&*image, &tree)).transpose()?;
    let bar = progress(tree.items().len() as u64, "verifying");
    let report = verify(&*image, tree, arguments.threads.count(), &|names| bar.inc(names));
    bar.finish_and_clear();
    let text = if arguments.answer.json {
        format!("{:#}\n", object(&report, findings.as_deref()))
    } else {
        text(&report, findings.as_deref())
    };
    print(&text, "report")?;
    let is_sound = report.damage.is_empty() && findings.is_none_or(|findings| findings.is_empty());
    Ok(if is_sound { 0 } else { NO })
}

fn text(report: &Report, findings: Option<&[Finding]>) -> String {
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
    rows.extend(report.damage.iter().map(|fault| ("damage", fault.to_string())));
    if let Some(findings) = findings {
        rows.extend(findings.iter().map(|finding| ("finding", finding.to_string())));
    }
    let (verdict, mood) = verdict(report, findings.unwrap_or_default());
    format!("{}{}\n", show::columns(&rows), screen::painted(&verdict, mood))
}

/// The last line: `OK`, or the number of errors.
fn verdict(report: &Report, findings: &[Finding]) -> (String, Mood) {
    let plural = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let files = report.damage.iter().filter(|fault| !fault.path.is_empty());
    let mut files: Vec<&[u8]> = files.map(|fault| fault.path.as_slice()).collect();
    files.sort_unstable();
    files.dedup();
    let mut parts = Vec::new();
    if !files.is_empty() {
        parts.push(plural(files.len(), "file"));
    }
    if report.damage.iter().any(|fault| fault.path.is_empty()) {
        parts.push("the image itself".to_owned());
    }
    match (parts.is_empty(), findings.len()) {
        (true, 0) => ("OK".to_owned(), Mood::Good),
        (true, count) => (format!("OK, but {} of --strict", plural(count, "finding")), Mood::Mixed),
        (false, _) => (format!("DAMAGED: {}", parts.join(" and ")), Mood::Bad),
    }
}

fn object(report: &Report, findings: Option<&[Finding]>) -> Value {
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
        "damage": report.damage.iter().map(show::fault).collect::<Vec<_>>(),
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
