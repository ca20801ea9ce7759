//! Images inside a larger file.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use forebay_image::scan::{Found, Hit, NESTED_MAX, Suspect, UImage, scan};
use forebay_image::{Source, shown};
use forebay_report::messages::{self, Complaint, progress};
use forebay_report::units;
use forebay_report::whole::Draft;
use serde_json::{Value, json};

use super::{print, show, source};
use crate::NO;
use crate::args::image::Scan;

/// Bytes that are copied at once.
const CHUNK: u64 = 1 << 20;
/// What the length of a written image is a multiple of.
const PAGE: u64 = 4 << 10;

/// Finds them, writes them to files if asked, and lists them.
pub(super) fn run(arguments: &Scan) -> Result<u8> {
    let file: Arc<dyn Source> = source(&arguments.file, "--offset", 0)?;
    let bar = progress(file.len(), "scanning");
    let found = scan(&file, &mut |bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    let Found { hits, suspects, skipped } =
        found.with_context(|| format!("cannot read '{}'", messages::shown(&arguments.file)))?;
    let mut files = Vec::new();
    if let Some(folder) = arguments.extract.as_ref().filter(|_| !hits.is_empty()) {
        let cannot = || format!("cannot make '{}'", folder.display());
        check_size(&hits, file.len(), arguments.max_bytes.as_deref())?;
        fs::create_dir_all(folder).with_context(cannot)?;
        for hit in &hits {
            let is_here = |other: &&Hit| {
                (other.offset, other.summary.format) == (hit.offset, hit.summary.format)
            };
            let nth = hits[..files.len()].iter().filter(is_here).count();
            files.push(extract(&file, hit, nth, folder)?);
        }
    }
    let text = if arguments.answer.json {
        let objects = hits.iter().enumerate().map(|(at, hit)| object(hit, files.get(at)));
        format!("{:#}\n", Value::Array(objects.collect()))
    } else {
        hits.iter().enumerate().fold(String::new(), |mut text, (at, hit)| {
            text += &line(hit, files.get(at));
            text
        })
    };
    print(&text, "list")?;
    suspects.iter().for_each(|suspect| messages::note(&of_suspect(suspect)));
    if skipped > 0 {
        let why = format!("each begins inside {NESTED_MAX} others, or behind too much unpacked");
        messages::complain(&format_args!("{skipped} gzip or xz streams are not searched: {why}"));
    }
    if hits.is_empty() {
        messages::note(&format!("no image found in '{}'", messages::shown(&arguments.file)));
    }
    let is_damaged = |hit: &Hit| hit.wrapper.as_ref().is_some_and(|it| it.damage.is_some());
    Ok(if hits.is_empty() || skipped > 0 || hits.iter().any(is_damaged) { NO } else { 0 })
}

/// Refuses images that have more bytes than may be written. Nothing is written yet.
fn check_size(hits: &[Hit], len: u64, limit: Option<&str>) -> Result<()> {
    let limit = match limit {
        Some(limit) => units::bytes("--max-bytes", limit)?,
        None => len.saturating_mul(8).max(1 << 30),
    };
    let sum = hits.iter().map(|hit| hit.len_in(len)).fold(0, u64::saturating_add);
    if sum <= limit {
        return Ok(());
    }
    let what = format!("the {} images have {sum} bytes, and --max-bytes is {limit}", hits.len());
    bail!(Complaint::new(what).hint("nothing was extracted; name another limit"))
}

/// Writes an image to a new file. `nth` others have the same offset and format.
fn extract(file: &Arc<dyn Source>, hit: &Hit, nth: usize, folder: &Path) -> Result<PathBuf> {
    let number = if nth == 0 { String::new() } else { format!("-{}", nth + 1) };
    let path = folder.join(format!("{:#x}{number}.{}", hit.offset, hit.summary.format));
    let cannot = || format!("cannot write '{}'", path.display());
    copy(file, hit, &path).with_context(cannot)?;
    Ok(path)
}

fn copy(file: &Arc<dyn Source>, hit: &Hit, path: &Path) -> Result<()> {
    let mut target = Draft::of_new(path)?;
    let image = hit.source(file)?;
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < image.len() {
        buffer.resize(usize::try_from(CHUNK.min(image.len() - at))?, 0);
        image.fill(&mut buffer, at)?;
        target.write_all(&buffer)?;
        at += buffer.len() as u64;
    }
    // A block device has whole sectors only, and the kernel reads whole pages.
    buffer.clear();
    buffer.resize(usize::try_from(at.next_multiple_of(PAGE) - at)?, 0);
    target.write_all(&buffer)?;
    Ok(target.finish()?)
}

/// What is not listed, since it cannot be opened.
fn of_suspect(suspect: &Suspect) -> String {
    let Suspect { offset, format, wrapper, why } = suspect;
    let inside = wrapper.map_or_else(String::new, |wrapper| format!(" in {wrapper}"));
    format!("{offset:#x}: begins like {format}{inside} and cannot be listed: {why}")
}

fn line(hit: &Hit, file: Option<&PathBuf>) -> String {
    let Hit { offset, summary, .. } = hit;
    let mut text = format!("{offset:#x}  {}  {} bytes", summary.format, summary.bytes);
    let mut add = |word: &str| {
        text += ", ";
        text += word;
    };
    if !summary.codecs.is_empty() {
        add(&summary.codecs.join("+"));
    }
    add(hit.byte_order());
    if summary.block_size > 0 {
        add(&format!("blocks of {}", summary.block_size));
    }
    if hit.truncated {
        add("truncated");
    }
    if let Some(wrapper) = &hit.wrapper {
        let inside = if wrapper.inside == 0 {
            String::new()
        } else {
            format!(", at byte {:#x} of what it unpacks to", wrapper.inside)
        };
        add(&format!("in {} bytes of {}{inside}", wrapper.bytes, wrapper.format));
        if let Some(why) = &wrapper.damage {
            add(&format!("damaged: {why}"));
        }
    }
    if let Some(uimage) = &hit.uimage {
        let UImage { offset, bytes, name } = uimage;
        add(&format!("in the uImage '{}' at {offset:#x}, of {bytes} bytes", shown(name)));
    }
    let file = file.map_or_else(String::new, |file| format!(" -> {}", file.display()));
    format!("{text}{file}\n")
}

fn object(hit: &Hit, file: Option<&PathBuf>) -> Value {
    let Hit { offset, summary, .. } = hit;
    let mut object = json!({
        "offset": offset,
        "format": summary.format,
        "bytes": summary.bytes,
        "codecs": summary.codecs,
        "endianness": hit.byte_order().trim_end_matches("-endian"),
        "block_size": summary.block_size,
        "nodes": summary.nodes,
        "truncated": hit.truncated,
        "wrapper": hit.wrapper.as_ref().map(|wrapper| json!({
            "format": wrapper.format,
            "bytes": wrapper.bytes,
            "inside": wrapper.inside,
            "damage": wrapper.damage,
        })),
    });
    object["uimage"] = hit.uimage.as_ref().map_or(Value::Null, |uimage| {
        let mut object = serde_json::Map::new();
        object.insert("offset".to_owned(), uimage.offset.into());
        object.insert("bytes".to_owned(), uimage.bytes.into());
        show::put_name(&mut object, "name", &uimage.name);
        Value::Object(object)
    });
    if let Some(file) = file {
        object["file"] = file.display().to_string().into();
    }
    object
}
