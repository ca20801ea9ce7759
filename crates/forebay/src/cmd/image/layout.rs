//! How a start lies in an image, and how it could.

use std::path::Path;

use anyhow::Result;
use forebay_image::layout::{ReadPages, Scatter, StartLayout, file_order, start_layout};
use forebay_image::profile::{Profile, ProfileError};
use forebay_image::shown;
use forebay_report::messages::{Complaint, note};
use serde_json::{Value, json};

use super::{open, print_bytes, show};
use crate::args::image::{Layout, SortList};

/// Shows it, or prints the order.
pub(super) fn run(arguments: &Layout) -> Result<u8> {
    let opened = open(&arguments.opened)?;
    let reads = reads(&arguments.profile)?;
    let found = start_layout(&*opened, &reads);
    let (profile, image) = (arguments.profile.display(), arguments.opened.image.display());
    if found.files == 0 && found.missing.is_empty() {
        let what = format!("the profile {profile} has no read of a file");
        return Err(Complaint::new(what).hint("was its copy cut off?").into());
    }
    if found.files == 0 {
        let what = format!("no file of the profile {profile} is in the image {image}");
        return Err(Complaint::new(what).hint("give the image that was mounted with it").into());
    }
    if !found.missing.is_empty() {
        let count = found.missing.len();
        let first = shown(&found.missing[0]);
        note(&format!("{count} files of the profile are not in the image, such as {first}"));
    }
    let bytes = match arguments.sort {
        Some(kind) => {
            let there = |path: &&Vec<u8>| !found.missing.contains(path);
            let order = file_order(&reads);
            let (ours, others): (Vec<&Vec<u8>>, Vec<_>) =
                order.iter().filter(there).partition(|path| !path.contains(&b'\n'));
            if let Some(first) = others.first() {
                let count = others.len();
                let name = shown(first);
                note(&format!("{count} names with a line break are left out, such as {name}"));
            }
            sort_list(kind, ours.into_iter())
        }
        None if arguments.answer.json => format!("{:#}\n", object(&found)).into_bytes(),
        None => text(&found).into_bytes(),
    };
    print_bytes(&bytes, "report")?;
    Ok(0)
}

/// What a profile says was read.
pub(super) fn reads(profile: &Path) -> Result<Vec<ReadPages>> {
    let reads = Profile::reads_of(profile).map_err(|error| {
        let complaint = Complaint::new(error.to_string());
        match error {
            ProfileError::Line { .. } => {
                complaint.hint("`forebay mount IMAGE DIR --profile FILE` writes one")
            }
            ProfileError::File { .. } => complaint,
        }
    })?;
    Ok(reads)
}

/// Paths from the root, the first one first.
fn sort_list<'a>(kind: SortList, paths: impl Iterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let mut list = Vec::new();
    for (rank, path) in paths.enumerate() {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        match kind {
            // A name may begin like a flag.
            SortList::Paths => list.extend([b"./", path].concat()),
            SortList::Mksquashfs => {
                // It would begin a comment.
                if path.starts_with(b"#") {
                    list.push(b'\\');
                }
                for byte in path {
                    if byte.is_ascii_whitespace() || *byte == b'\\' {
                        list.push(b'\\');
                    }
                    list.push(*byte);
                }
                // Files of one priority lie in the order of the tree.
                let priority = i64::from(PRIORITY_MAX) - i64::try_from(rank).unwrap_or(i64::MAX);
                let priority = priority.max(1);
                list.extend_from_slice(format!(" {priority}").as_bytes());
            }
        }
        list.push(b'\n');
    }
    list
}

/// The highest priority of mksquashfs; 0 is that of files that have none.
const PRIORITY_MAX: i16 = i16::MAX;

fn text(found: &StartLayout) -> String {
    let mut rows = vec![
        ("files", found.files.to_string()),
        ("blocks", found.blocks.to_string()),
        ("raw bytes", found.raw_bytes.to_string()),
    ];
    for (name, scatter) in [("present", &found.present), ("sorted", &found.sorted)] {
        let Scatter { runs, jumps, span, requests } = scatter;
        rows.push((
            name,
            format!("{runs} runs over {span} bytes, {jumps} jumps, {requests} requests of 128 KiB"),
        ));
    }
    show::columns(&rows)
}

fn object(found: &StartLayout) -> Value {
    let scatter = |scatter: &Scatter| {
        json!({
            "runs": scatter.runs,
            "jumps": scatter.jumps,
            "span": scatter.span,
            "requests": scatter.requests,
        })
    };
    json!({
        "files": found.files,
        "blocks": found.blocks,
        "raw_bytes": found.raw_bytes,
        "present": scatter(&found.present),
        "sorted": scatter(&found.sorted),
        "missing": found.missing.iter().map(|path| shown(path)).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sort_file_has_descending_priorities_and_escaped_blanks() {
        let paths = [b"/bin/a b".to_vec(), b"/lib\\x".to_vec(), b"/#c#".to_vec()];
        let list = |kind| String::from_utf8(sort_list(kind, paths.iter())).unwrap();
        assert_eq!(list(SortList::Mksquashfs), "bin/a\\ b 32767\nlib\\\\x 32766\n\\#c# 32765\n");
        assert_eq!(list(SortList::Paths), "./bin/a b\n./lib\\x\n./#c#\n");
        let many = vec![b"/x".to_vec(); 40_000];
        let list = sort_list(SortList::Mksquashfs, many.iter());
        assert!(list.ends_with(b"x 1\nx 1\n"));
    }
}
