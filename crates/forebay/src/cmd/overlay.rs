//! `forebay overlay`: what a writable layer of `serve` holds, and its end.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use forebay_core::units::PAGE_SIZE;
use forebay_host::serve::{
    BaseIdentity, CommitMark, FileStore, NbdAddress, OverlayError, OverlayInfo, OverlayStore,
    RemoteStore, Store, check_base, mark_commit, open_layer, stamp, unmark_commit,
};
use forebay_report::messages::{Complaint, note, printable, shown};
use serde_json::json;

use super::serve::{is_never_written, overlay_complaint, remote_stamp};
use crate::args::serve::{OverlayDiscard, OverlayInfoOf, OverlayWhat};

/// Runs a subcommand.
pub(crate) fn run(what: &OverlayWhat) -> Result<u8> {
    match what {
        OverlayWhat::Info(arguments) => info(arguments),
        OverlayWhat::Commit(arguments) => {
            let file = &arguments.file;
            note(&commit(file).map_err(|error| overlay_complaint(&error, file))?);
            Ok(0)
        }
        OverlayWhat::Discard(arguments) => discard(arguments),
    }
}

fn info(arguments: &OverlayInfoOf) -> Result<u8> {
    let file = &arguments.file;
    let found = open_layer(file, true)
        .map_err(OverlayError::from)
        .and_then(|layer| OverlayStore::info(&layer))
        .map_err(|error| overlay_complaint(&error, file))?;
    let taken = fs::metadata(file).context("cannot look at the overlay")?.blocks() * 512;
    let text = if arguments.json { as_json(&found, taken) } else { as_text(&found, taken) };
    print!("{text}");
    Ok(0)
}

fn as_json(found: &OverlayInfo, taken: u64) -> String {
    let value = json!({
        "base": found.base.name,
        "base_stamp": found.base.stamp,
        "bytes": found.bytes,
        "changed_bytes": changed(found),
        "file_bytes": taken,
        "half_committed": found.is_half_committed,
    });
    format!("{value:#}\n")
}

fn as_text(found: &OverlayInfo, taken: u64) -> String {
    let state = if found.is_half_committed {
        "a commit was interrupted; the base is partly changed"
    } else {
        "in use"
    };
    format!(
        "base           {}\nbase then      {}\ndisk           {} bytes\n\
         changed        {} bytes, in pages of {PAGE_SIZE}\ntakes on disk  {taken} bytes\n\
         state          {state}\n",
        printable(&found.base.name),
        printable(&found.base.stamp),
        found.bytes,
        changed(found),
    )
}

/// Bytes of the pages that differ from the base, or may.
fn changed(found: &OverlayInfo) -> u64 {
    (found.changed_pages * PAGE_SIZE).min(found.bytes)
}

fn commit(file: &Path) -> Result<String, OverlayError> {
    let layer = open_layer(file, false)?;
    let found = OverlayStore::info(&layer)?;
    if is_never_written(&found.base.name) {
        let what = format!("its base is never written: '{}'", found.base.name);
        return Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, what).into());
    }
    let base = &found.base.name;
    let pages = if NbdAddress::is_one(base) {
        commit_to_server(&layer, base)?
    } else {
        commit_to_file(file, &layer, &found)?
    };
    Ok(format!("{pages} pages written to '{}'; the overlay is empty", printable(base)))
}

fn commit_to_server(layer: &dyn Store, base: &str) -> Result<u64, OverlayError> {
    let failed = |why: io::Error| io::Error::new(why.kind(), format!("'{base}': {why}"));
    let address = NbdAddress::parse(base).map_err(io::Error::other).map_err(failed)?;
    let store = RemoteStore::open(address).map_err(failed)?;
    if store.is_read_only() {
        let what = format!("the server of its base refuses writes: '{base}'");
        return Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, what).into());
    }
    OverlayStore::commit((&store, None), layer, || Ok(remote_stamp(&store)))
}

fn commit_to_file(
    file: &Path,
    layer: &dyn Store,
    found: &OverlayInfo,
) -> Result<u64, OverlayError> {
    let base = Path::new(&found.base.name);
    let failed = |why| OverlayError::Base { name: found.base.name.clone(), begun: false, why };
    let store = FileStore::open(base, false, false).map_err(failed)?;
    // Another overlay over the same base would show a mix of two.
    store.lock_for_writes().map_err(failed)?;
    let node = check_base(&store, file, found)?;
    // An interrupted commit has changed the base itself.
    let now = stamp(base).map_err(failed)?;
    if !found.is_half_committed && now != found.base.stamp {
        let made = Box::new(found.base.clone());
        let found = Box::new(BaseIdentity { stamp: now, ..found.base.clone() });
        return Err(OverlayError::OtherBase { made, found });
    }
    if let Err(error) = mark_commit(&store, file) {
        let base = printable(&found.base.name);
        note(&format!(
            "'{base}' takes no mark ({error}): if the commit is interrupted, finish it before the \
             base is served"
        ));
    }
    OverlayStore::commit((&store, node), layer, || unmark_commit(&store, base))
}

fn discard(arguments: &OverlayDiscard) -> Result<u8> {
    let file = &arguments.what.file;
    let read = || -> Result<_, OverlayError> {
        let layer = open_layer(file, false)?;
        Ok((OverlayStore::info(&layer)?, layer))
    };
    let (found, _locked) = read().map_err(|error| overlay_complaint(&error, file))?;
    let base = &found.base.name;
    if found.is_half_committed && !arguments.force {
        let what = OverlayError::HalfCommitted(base.clone());
        let what = format!("overlay '{}': {}", shown(file), printable(&what.to_string()));
        bail!(Complaint::new(what).hint(format!(
            "`forebay overlay commit '{}'` finishes it; --force discards the overlay, and the base \
             stays partly changed",
            shown(file)
        )));
    }
    // The base is opened before: its mark names a file that is there.
    let marked = FileStore::open(base, true, false)
        .ok()
        .filter(|store| CommitMark::of(store).is_ok_and(|mark| mark.names(file)));
    fs::remove_file(file).with_context(|| format!("cannot remove '{}'", shown(file)))?;
    if let Some(Err(error)) = marked.map(|store| unmark_commit(&store, Path::new(base))) {
        note(&format!("'{}' keeps its mark: {error}", printable(base)));
    }
    let rest = if found.is_half_committed {
        format!("; '{}' stays partly changed", printable(base))
    } else {
        String::new()
    };
    let pages = found.changed_pages;
    note(&format!("{pages} changed pages given up; '{}' is gone{rest}", shown(file)));
    Ok(0)
}
