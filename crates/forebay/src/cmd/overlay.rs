//! `forebay overlay`: what a writable layer of `serve` holds, and its end.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};
use forebay_core::units::PAGE_SIZE;
use forebay_host::serve::{
    BaseIdentity, FileStore, NbdAddress, OverlayError, OverlayInfo, OverlayStore, RemoteStore,
    Store, open_layer, stamp,
};
use forebay_report::messages::{note, printable, shown};
use serde_json::json;

use super::serve::{is_never_written, overlay_complaint, remote_stamp};
use crate::args::serve::{OverlayFile, OverlayInfoOf, OverlayWhat};

/// Runs a subcommand.
pub(crate) fn run(what: &OverlayWhat) -> Result<u8> {
    match what {
        OverlayWhat::Info(arguments) => info(arguments),
        OverlayWhat::Commit(arguments) => of_file(&arguments.file, commit),
        OverlayWhat::Discard(OverlayFile { file }) => of_file(file, discard),
    }
}

fn of_file(file: &Path, act: fn(&Path) -> Result<String, OverlayError>) -> Result<u8> {
    let said = act(file).map_err(|error| overlay_complaint(&error, file))?;
    note(&said);
    Ok(0)
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
        commit_to_file(&layer, &found)?
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
    OverlayStore::commit(&store, layer, || Ok(remote_stamp(&store)))
}

fn commit_to_file(layer: &dyn Store, found: &OverlayInfo) -> Result<u64, OverlayError> {
    let base = Path::new(&found.base.name);
    // An interrupted commit has changed the base itself.
    let now = stamp(base)?;
    if !found.is_half_committed && now != found.base.stamp {
        let made = Box::new(found.base.clone());
        let found = Box::new(BaseIdentity { stamp: now, ..found.base.clone() });
        return Err(OverlayError::OtherBase { made, found });
    }
    let store = FileStore::open(base, false, false)?;
    // Another overlay over the same base would show a mix of two.
    store.lock_for_writes().map_err(|error| {
        io::Error::new(error.kind(), format!("'{}': {error}", printable(&found.base.name)))
    })?;
    OverlayStore::commit(&store, layer, || {
        // The time of the last change is known when all is on disk.
        File::open(base)?.sync_all()?;
        stamp(base)
    })
}

fn discard(file: &Path) -> Result<String, OverlayError> {
    let layer = open_layer(file, false)?;
    let found = OverlayStore::info(&layer)?;
    fs::remove_file(file)?;
    Ok(format!("{} changed pages given up; '{}' is gone", found.changed_pages, shown(file)))
}
