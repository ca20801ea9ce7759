//! An image's tree on disk.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use forebay_host::backend::scrubbed;
use forebay_image::extract::{ExtractError, Report, Settings, extract};
use forebay_image::walk::Tree;
use forebay_image::{Fault, Image, Kind};
use forebay_report::messages::{Complaint, note, progress};
use forebay_report::program::answered;
use forebay_report::units;
use serde_json::{Value, json};

use super::{OF_DAMAGE, WHAT_IS_THERE, complain, open, print, select, show};
use crate::args::image::Extract;
use crate::{ERROR, NO};

/// Extracts, and reports the extracted and the failed files.
pub(super) fn run(arguments: &Extract) -> Result<u8> {
    let image = open(&arguments.opened)?;
    let (tree, missing) = select::tree(&*image, &arguments.paths, &arguments.patterns)?;
    if !arguments.paths.is_empty() && missing.len() == arguments.paths.len() {
        missing.iter().for_each(|fault| complain(fault));
        return Ok(super::ended(ERROR));
    }
    if let Some(limit) = &arguments.max_bytes {
        check_size(&*image, &tree, units::bytes("--max-bytes", limit)?)?;
    }
    let is_root = rustix::process::geteuid().is_root();
    if !is_root && !arguments.no_owner {
        note("the caller is not root, and becomes the owner of everything; as does --no-owner");
    }
    let settings = Settings {
        threads: arguments.threads.count(),
        owners: is_root && !arguments.no_owner,
        replace: arguments.force,
        safe: arguments.safe || !is_root && !arguments.no_safe,
    };
    let target = arguments.target.clone().unwrap_or_else(|| named_after(&arguments.opened.image));
    let bar = progress(tree.items().len() as u64, "extracting");
    let done = extract(&*image, tree, &target, settings, &|names| bar.inc(names));
    bar.finish_and_clear();
    let mut report = match done {
        Ok(report) => report,
        Err(error @ ExtractError::NotEmpty { .. }) => {
            bail!(Complaint::new(error.to_string()).hint("--force replaces what is there"))
        }
        Err(error @ ExtractError::Ended { .. }) => {
            let hint = "make room, or name another DIR; what is complete has its name";
            bail!(Complaint::new(error.to_string()).hint(hint))
        }
        Err(ExtractError::Target { what, path, source }) => {
            let cannot = || format!("cannot {what} '{}'", path.display());
            return Err(source).with_context(cannot);
        }
    };
    let hint = if missing.is_empty() { OF_DAMAGE } else { WHAT_IS_THERE };
    report.failed.splice(0..0, missing);
    let code = if report.failed.is_empty() && report.lost.is_empty() { 0 } else { NO };
    let text = if arguments.answer.json {
        format!("{:#}\n", object(&report))
    } else {
        report.skipped.iter().for_each(|fault| note(&fault.to_string()));
        report.lost.iter().chain(&report.failed).for_each(|fault| complain(fault));
        if !report.failed.is_empty() {
            super::hint(hint);
        }
        text(&report)
    };
    answered(code, print(&text, "report"))
}

/// The folder that an image's tree goes to if no other is named.
fn named_after(image: &Path) -> PathBuf {
    // Of an address, what stands behind the path is no name.
    let scrubbed = crate::objects::address(image).map(scrubbed);
    let image = scrubbed.as_ref().map_or(image, Path::new);
    let mut name = image.file_stem().unwrap_or_default().to_owned();
    name.push("-root");
    name.into()
}

/// Refuses a tree whose files have more bytes than they may; each counts once. Nothing is made yet.
fn check_size(image: &dyn Image, tree: &Tree, limit: u64) -> Result<()> {
    let files = tree.items().iter().filter(|item| item.kind == Kind::File && item.first.is_none());
    // What cannot be read is not extracted either.
    let sizes = files.filter_map(|item| Some(image.node(item.node).ok()?.size));
    let sum = sizes.fold(0, u64::saturating_add);
    if sum <= limit {
        return Ok(());
    }
    let what = format!("the files have {sum} bytes, and --max-bytes is {limit}");
    bail!(Complaint::new(what).hint("nothing was extracted; name some paths, or another limit"))
}

fn text(report: &Report) -> String {
    let rows = [
        ("directories", report.directories),
        ("files", report.files),
        ("links", report.links),
        ("symlinks", report.symlinks),
        ("specials", report.specials),
        ("bytes", report.bytes),
        ("written", report.written),
        ("skipped", report.skipped.len() as u64),
        ("lost", report.lost.len() as u64),
        ("failed", report.failed.len() as u64),
    ];
    show::columns(&rows.map(|(name, count)| (name, count.to_string())))
}

fn object(report: &Report) -> Value {
    let faults = |faults: &[Fault]| faults.iter().map(show::fault).collect::<Vec<_>>();
    json!({
        "directories": report.directories,
        "files": report.files,
        "links": report.links,
        "symlinks": report.symlinks,
        "specials": report.specials,
        "bytes": report.bytes,
        "written": report.written,
        "skipped": faults(&report.skipped),
        "lost": faults(&report.lost),
        "failed": faults(&report.failed),
    })
}
