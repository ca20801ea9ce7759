//! Writable layers over sources: `--overlay [NAME=]FILE`.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use forebay_host::serve::{
    BaseIdentity, OverlayError, OverlayStore, Store, create_layer, open_layer,
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
        OverlayStore::open(base, Arc::new(layer), identity)
    };
    match lay() {
        Ok(store) => Ok(Arc::new(store)),
        Err(error) => Err(complaint(&error, file).into()),
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
        OverlayError::Io(error) if error.kind() == ErrorKind::ResourceBusy => {
            what.hint("a server that has it open must end first")
        }
        OverlayError::Io(_) | OverlayError::LongName | OverlayError::LargeBase(_) => what,
    }
}
