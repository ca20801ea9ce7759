//! Writable layers over sources: `--overlay [NAME=]FILE`.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use forebay_host::serve::{
    BaseIdentity, CommitMark, FileStore, OverlayError, OverlayStore, Store, create_layer,
    follow_moved, open_layer,
};
use forebay_report::messages::{Complaint, note, printable, shown};

/// A base with the layer in a file over it; the file is made if it is not there.
pub(super) fn over(
    base: Arc<dyn Store>,
    identity: &BaseIdentity,
    file: &Path,
    read_only: bool,
) -> Result<Arc<dyn Store>> {
    let lay = || -> Result<OverlayStore, OverlayError> {
        let layer = match open_layer(file, read_only) {
            Err(error) if error.kind() == ErrorKind::NotFound && !read_only => {
                create_layer(file, base.bytes(), identity)?;
                note(&format!("a new overlay: '{}'", shown(file)));
                open_layer(file, read_only)?
            }
            result => result?,
        };
        let mut identity = identity.clone();
        if let Some(old) = follow_moved(&layer, read_only, &identity)? {
            let (file, old) = (shown(file), printable(&old));
            note(&format!("overlay '{file}': its base was moved here from '{old}'"));
            if read_only {
                identity.name = old;
            }
        }
        OverlayStore::open(base, Arc::new(layer), &identity)
    };
    match lay() {
        Ok(store) => Ok(Arc::new(store)),
        Err(error) => Err(complaint(&error, file).into()),
    }
}

/// Refuses a source that the commit of an overlay has changed in part, unless it is served through
/// that overlay.
pub(super) fn check_mark(source: &str, store: &FileStore, overlay: Option<&Path>) -> Result<()> {
    // One that cannot be read protects nothing.
    let mark = CommitMark::of(store).unwrap_or(CommitMark::Unsupported);
    let CommitMark::Of(path) = &mark else { return Ok(()) };
    if overlay.is_some_and(|overlay| mark.names(overlay)) {
        return Ok(());
    }
    let error = OverlayError::Marked { base: source.to_owned(), overlay: path.clone() };
    let what = format!("cannot serve '{}': {}", printable(source), printable(&error.to_string()));
    bail!(Complaint::new(what).hint(mark_hint(source, path)));
}

fn mark_hint(base: &str, overlay: &Path) -> String {
    let base = printable(base);
    if overlay.exists() {
        format!("`forebay overlay commit '{}'` finishes it", shown(overlay))
    } else {
        format!(
            "the overlay is not there: commit it from where it is now; if it is lost, \
             `setfattr -x user.forebay.commit '{base}'` gives the base free, partly changed"
        )
    }
}

/// The error of an overlay, with a hint.
pub(crate) fn complaint(error: &OverlayError, file: &Path) -> Complaint {
    let what =
        Complaint::new(format!("overlay '{}': {}", shown(file), printable(&error.to_string())));
    let file = shown(file);
    match error {
        OverlayError::HalfCommitted(_) => {
            what.hint(format!("`forebay overlay commit '{file}'` finishes it"))
        }
        OverlayError::OtherBase { .. } | OverlayError::OtherSize { .. } => what.hint(format!(
            "its pages belong to the base as it was; `forebay overlay discard '{file}'` gives \
             them up"
        )),
        OverlayError::NotAnOverlay(_) => {
            what.hint("--overlay takes a file that is not there yet, or one that it has made")
        }
        OverlayError::Base { begun: true, .. } => what.hint(format!(
            "the commit is half done: when that is mended, `forebay overlay commit '{file}'` \
             finishes it"
        )),
        OverlayError::Base { why, .. } if why.kind() == ErrorKind::NotFound => what.hint(format!(
            "if it was moved, `forebay serve NEW-PATH --overlay '{file}'` keeps the new path"
        )),
        OverlayError::Base { why, .. } if why.kind() == ErrorKind::ResourceBusy => {
            what.hint("what uses the base must end first; `forebay serve status` lists the servers")
        }
        OverlayError::OtherFile(_) => what.hint(format!(
            "it goes on when that file is back at its path; `forebay overlay discard --force \
             '{file}'` gives it up"
        )),
        OverlayError::Marked { base, overlay } => what.hint(mark_hint(base, overlay)),
        OverlayError::Io(error) if error.kind() == ErrorKind::ResourceBusy => {
            what.hint("a server that has it open must end first")
        }
        OverlayError::Io(_)
        | OverlayError::Base { .. }
        | OverlayError::LongName
        | OverlayError::LargeBase(_) => what,
    }
}
