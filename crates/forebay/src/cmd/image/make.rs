//! An image of a directory.

use std::fs;
use std::io;
use std::num::NonZero;
use std::path::Path;

use anyhow::{Context, Result, bail};
use forebay_image::cramfs::write::{Settings, Tree, WriteError, Written, write};
use forebay_image::layout::file_order;
use forebay_report::hints;
use forebay_report::messages::{Complaint, note, progress};
use forebay_report::whole;
use serde_json::json;

use super::{layout, print, show};
use crate::args::image::{Make, MakeFormat};

/// Makes it.
pub(super) fn run(arguments: &Make) -> Result<u8> {
    whole::has_folder("IMAGE", &arguments.image)?;
    check_place(&arguments.image, arguments.force)?;
    let written = match arguments.format {
        MakeFormat::Cramfs => cramfs(arguments)?,
    };
    whole::write(&arguments.image, &written.image)?;
    written.warnings.iter().for_each(|warning| note(warning));
    note("cramfs keeps no times");
    let text = if arguments.answer.json {
        let object = json!({
            "format": "cramfs",
            "bytes": written.image.len(),
            "nodes": written.files,
            "blocks": written.blocks,
            "duplicates": written.duplicates,
            "warnings": written.warnings,
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

/// Whether an image may be written there: it takes the place of a file only.
fn check_place(path: &Path, force: bool) -> Result<()> {
    let name = path.display();
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => {
            let what = format!("'{name}' is there and no regular file");
            bail!(Complaint::new(what).hint("name another one: only files are replaced"))
        }
        Ok(_) if !force => {
            bail!(Complaint::new(format!("'{name}' is there")).hint("--force replaces it"))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot make '{name}'")),
    }
}
