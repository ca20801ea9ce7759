//! `forebay unmount`, and the list of `forebay mount --list`.

use std::io::{self, Write};

use anyhow::{Context, Result};
use forebay_host::mounts::{UnmountError, mounted_images, unmount_image};
use forebay_report::messages::{Complaint, complain, printable, shown};
use serde_json::{Value, json};

use crate::ERROR;
use crate::args::Unmount;

/// Unmounts each folder; one that cannot be unmounted does not keep the others.
pub(crate) fn run(arguments: &Unmount) -> Result<u8> {
    let mut code = 0;
    for folder in &arguments.folders {
        if let Err(error) = unmount_image(folder, arguments.lazy) {
            complain(&complaint(error));
            code = ERROR;
        }
    }
    Ok(code)
}

fn complaint(error: UnmountError) -> Complaint {
    let complaint = Complaint::new(printable(&error.to_string()));
    match error {
        UnmountError::NotMounted { .. } => {
            complaint.hint("`forebay mount --list` shows the images that are mounted")
        }
        UnmountError::Busy(folder) => complaint.hint(format!(
            "`fuser -vm '{0}'` shows by what; `forebay unmount --lazy '{0}'` takes it away all \
             the same",
            shown(&folder)
        )),
        UnmountError::System { ref why, .. } if why.kind() == io::ErrorKind::NotFound => {
            complaint.hint("the package fuse3 has fusermount3; root needs none")
        }
        UnmountError::System { .. } => {
            complaint.hint("root can unmount everything; others what they have mounted")
        }
        UnmountError::List(_) | UnmountError::Folder { .. } => complaint,
    }
}

/// Prints the images that are mounted.
pub(super) fn list(json: bool) -> Result<u8> {
    let images = mounted_images().context("cannot list what is mounted")?;
    let mut out = io::stdout().lock();
    if json {
        let objects: Vec<Value> = images
            .iter()
            .map(|mounted| {
                json!({
                    "folder": mounted.folder.to_string_lossy(),
                    "image": mounted.image.to_string_lossy(),
                    "user": mounted.user,
                    "server": mounted.server.name(),
                })
            })
            .collect();
        writeln!(out, "{:#}", Value::Array(objects))?;
        return Ok(0);
    }
    for mounted in &images {
        let (folder, image) = (shown(&mounted.folder), shown(&mounted.image));
        let user = mounted.user.map_or_else(|| "-".to_owned(), |user| user.to_string());
        writeln!(out, "{:<7} {user:>6} {image} on {folder}", mounted.server.name())?;
    }
    Ok(0)
}
