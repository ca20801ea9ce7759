//! `forebay unmount`, and the list of `forebay mount --list`.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, Result};
use forebay_host::mounts::{MountedImage, UnmountError, mounted_images, unmount_image};
use forebay_report::messages::{Complaint, complain, printable, shown};
use serde_json::{Map, Value};

use crate::ERROR;
use crate::args::Unmount;
use crate::cmd::image::put_name;

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
        UnmountError::NotMounted { .. } | UnmountError::Folder { .. } | UnmountError::List(_) => {
            complaint.hint("`forebay mount --list` shows the images that are mounted")
        }
    }
}

/// Prints the images that are mounted.
pub(super) fn list(json: bool) -> Result<u8> {
    let images = mounted_images().context("cannot list what is mounted")?;
    let text = if json {
        let objects: Vec<Value> = images.iter().map(object).collect();
        format!("{:#}\n", Value::Array(objects))
    } else {
        images.iter().map(line).collect()
    };
    io::stdout().lock().write_all(text.as_bytes()).context("cannot write the list")?;
    Ok(0)
}

fn object(mounted: &MountedImage) -> Value {
    let mut object = Map::new();
    put_name(&mut object, "folder", mounted.folder.as_os_str().as_bytes());
    put_name(&mut object, "image", mounted.image.as_os_str().as_bytes());
    object.insert("user".to_owned(), mounted.user.into());
    object.insert("server".to_owned(), mounted.server.name().into());
    Value::Object(object)
}

fn line(mounted: &MountedImage) -> String {
    let (folder, image) = (shown(&mounted.folder), shown(&mounted.image));
    let user = mounted.user.map_or_else(|| "-".to_owned(), |user| user.to_string());
    format!("{:<7} {user:>6} {image} on {folder}\n", mounted.server.name())
}
