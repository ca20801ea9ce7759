//! What an image says about itself.

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::show::columns;
use super::{open, print};
use crate::args::image::Info;

/// Prints it.
pub(super) fn run(arguments: &Info) -> Result<u8> {
    let image = open(&arguments.opened)?;
    let summary = image.summary();
    if arguments.answer.json {
        let pairs = summary.details.iter().map(|(name, value)| (*name, value.clone()));
        let details: Map<String, Value> =
            pairs.map(|(name, value)| (name.to_owned(), value.into())).collect();
        let object = json!({
            "format": summary.format,
            "bytes": summary.bytes,
            "block_size": summary.block_size,
            "nodes": summary.nodes,
            "codecs": summary.codecs,
            "details": details,
            "warnings": summary.warnings,
        });
        print(&format!("{object:#}\n"), "summary")?;
        return Ok(0);
    }
    let mut rows = vec![
        ("format", summary.format.to_owned()),
        ("bytes", summary.bytes.to_string()),
        ("block size", summary.block_size.to_string()),
    ];
    rows.extend(summary.nodes.map(|nodes| ("nodes", nodes.to_string())));
    if !summary.codecs.is_empty() {
        rows.push(("codecs", summary.codecs.join(", ")));
    }
    let one_line = |text: &String| forebay_image::shown(text.as_bytes());
    rows.extend(summary.details.iter().map(|(name, value)| (*name, one_line(value))));
    rows.extend(summary.warnings.iter().map(|warning| ("warning", one_line(warning))));
    print(&columns(&rows), "summary")?;
    Ok(0)
}
