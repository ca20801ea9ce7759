//! Whether an image is sound.

use anyhow::Result;
use forebay_image::verify::{Finding, Report, strict, verify};
use forebay_image::walk::{Limits, Tree};
use serde_json::{Value, json};

use super::{open, print, show};
use crate::NO;
use crate::args::image::Verify;
use crate::messages::progress;

/// Checks it and prints what was found.
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
    rows.push(("damages", report.damage.len().to_string()));
    if let Some(findings) = findings {
        rows.extend(findings.iter().map(|finding| ("finding", finding.to_string())));
        rows.push(("findings", findings.len().to_string()));
    }
    show::columns(&rows)
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
