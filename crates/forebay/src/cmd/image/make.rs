//! An image of a directory.

use std::io::{ErrorKind, Write};
use std::num::NonZero;

use anyhow::{Context, Result, bail};
use forebay_image::cramfs::write::{Settings, Tree, WriteError, Written, write};
use forebay_image::layout::file_order;
use forebay_report::hints;
use forebay_report::messages::{Complaint, note, progress, shown};
use forebay_report::whole::{self, Draft};
use serde_json::json;

use super::{layout, print, show};
use crate::args::image::{Make, MakeFormat};

/// Makes it.
pub(super) fn run(arguments: &Make) -> Result<u8> {
    whole::has_folder("IMAGE", &arguments.image)?;
    draft(arguments).map(drop)?;
    let written = match arguments.format {
        MakeFormat::Cramfs => cramfs(arguments)?,
    };
    let mut image = draft(arguments)?;
    let stored = image.write_all(&written.image).and_then(|()| image.finish());
    stored.with_context(|| format!("cannot write '{}'", shown(&arguments.image)))?;
    let mut warnings = written.warnings;
    warnings.push("cramfs keeps no times".to_owned());
    warnings.iter().for_each(|warning| note(warning));
    let text = if arguments.answer.json {
        let object = json!({
            "format": "cramfs",
            "bytes": written.image.len(),
            "nodes": written.files,
            "blocks": written.blocks,
            "duplicates": written.duplicates,
            "warnings": warnings,
        });
        format!("{object:#}\n")
    } else {
        show::columns(&[
            ("bytes", written.image.len().to_string()),
            ("nodes", written.files.to_string()),
            ("blocks", written.blocks.to_string()),
            ("duplicates", written.duplicates.to_string()),
        ])
    };
    print(&text, "report")?;
    Ok(0)
}

fn cramfs(arguments: &Make) -> Result<Written> {
    let first = match &arguments.profile {
        Some(profile) => file_order(&layout::reads(profile)?),
        None => Vec::new(),
    };
    let settings = Settings {
        big_endian: arguments.big_endian,
        boot: arguments.pad.then(|| Box::new([0; 512])),
        shifted: Vec::new(),
        holes: arguments.holes,
        stored: arguments.stored,
        edition: arguments.edition,
        name: arguments.name.clone().into_bytes(),
        level: arguments.level,
        threads: NonZero::new(arguments.threads.count()).unwrap_or(NonZero::<usize>::MIN),
        lossy: arguments.lossy,
        first,
    };
    let tree = Tree::scan(&arguments.directory).map_err(|error| said(&error))?;
    let bar = progress(tree.bytes(), "packing");
    let written = write(&tree, &settings, &mut |bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    Ok(written.map_err(|error| said(&error))?)
}

/// What cannot be made, with what usually helps where the system said no.
fn said(error: &WriteError) -> Complaint {
    let complaint = Complaint::new(error.to_string());
    let hint = match error {
        WriteError::Read { source, .. } => hints::of_kind(source.kind()),
        WriteError::Limit { .. } => Some("--lossy cuts or leaves out what does not fit"),
        WriteError::Changed { .. } | WriteError::Setting { .. } | WriteError::Name { .. } => None,
    };
    match hint {
        Some(hint) => complaint.hint(hint),
        None => complaint,
    }
}

/// The image, not yet written: it takes the place of a regular file only, and with `--force`.
fn draft(arguments: &Make) -> Result<Draft> {
    let path = &arguments.image;
    let draft = if arguments.force { Draft::new(path) } else { Draft::of_new(path) };
    let cannot = format!("cannot make '{}'", shown(path));
    match draft {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!(Complaint::new(format!("{cannot}: {error}")).hint("--force replaces it"))
        }
        draft => draft.context(cannot),
    }
}
