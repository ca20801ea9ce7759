//! Everything about a file of an image.

use anyhow::Result;
use forebay_image::verify::Blocks;
use forebay_image::{Fault, Follow, Image, Kind, Node, Xattr, shown};
use serde_json::{Map, Value, json};

use super::{complain, find, open, print, show};
use crate::args::image::Stat;

/// Shows each path; a failing one is reported, and the others follow.
pub(super) fn run(arguments: &Stat) -> Result<u8> {
    let image = open(&arguments.opened)?;
    let (mut texts, mut objects, mut code) = (Vec::new(), Vec::new(), 0);
    for path in &arguments.paths {
        let seen = find(&*image, path, Follow::Above)
            .and_then(|found| Ok(Seen::of(&*image, found.node, found.path)?));
        match seen {
            Ok(seen) if arguments.answer.json => objects.push(seen.json()),
            Ok(seen) => texts.push(show::columns(&seen.rows())),
            Err(error) => {
                complain(&format_args!("{error:#}"));
                code = code.max(super::code_of_error(&error));
            }
        }
    }
    let text = if arguments.answer.json {
        format!("{:#}\n", Value::Array(objects))
    } else {
        texts.join("\n")
    };
    print(&text, "answer")?;
    Ok(super::ended(code))
}

struct Seen {
    path: Vec<u8>,
    node: Node,
    target: Option<Vec<u8>>,
    xattrs: Vec<Xattr>,
    blocks: Option<Blocks>,
}

impl Seen {
    fn of(image: &dyn Image, id: forebay_image::NodeId, path: Vec<u8>) -> Result<Self, Fault> {
        let read = || -> forebay_image::Result<_> {
            let node = image.node(id)?;
            let target = (node.kind == Kind::Symlink).then(|| image.link(id)).transpose()?;
            let is_file = node.kind == Kind::File;
            let blocks = is_file.then(|| Blocks::of(image, &node)).transpose()?;
            Ok((node, target, image.xattrs(id)?, blocks))
        };
        match read() {
            Ok((node, target, xattrs, blocks)) => Ok(Self { path, node, target, xattrs, blocks }),
            Err(error) => Err(Fault::new(path, error)),
        }
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let node = &self.node;
        let mode = show::mode(node.kind, node.permissions);
        let mut rows = vec![
            ("path", shown(&show::absolute(&self.path))),
            ("kind", node.kind.name().to_owned()),
            ("inode", node.ino.to_string()),
            ("mode", format!("{:04o} {mode}", node.permissions)),
            ("owner", format!("{}:{}", node.uid, node.gid)),
            ("links", node.links.to_string()),
            ("size", node.size.to_string()),
        ];
        if let Some(time) = node.modified {
            rows.push(("modified", format!("{time}.{:09} UTC", time.nanos)));
        }
        if let Kind::BlockDevice | Kind::CharDevice = node.kind {
            rows.push(("device", format!("{}, {}", node.device.0, node.device.1)));
        }
        rows.extend(self.target.iter().map(|target| ("target", shown(target))));
        for Xattr { name, value } in &self.xattrs {
            rows.push(("xattr", format!("{} = {}", shown(name), shown(value))));
        }
        if let Some(blocks) = &self.blocks {
            let Blocks { holes, stored, packed, raw_bytes } = blocks;
            let count = blocks.count();
            rows.push((
                "blocks",
                format!("{count}: {packed} packed, {stored} stored, {holes} holes"),
            ));
            let ratio = ratio(*raw_bytes, node.size);
            let ratio = ratio.map_or_else(String::new, |ratio| format!(", {ratio:.3} of the size"));
            rows.push(("raw bytes", format!("{raw_bytes}{ratio}")));
        }
        rows
    }

    fn json(&self) -> Value {
        let mut object = show::object(&self.path, &self.node);
        if let Some(target) = &self.target {
            show::put_name(&mut object, "target", target);
        }
        let xattrs = self.xattrs.iter().map(|xattr| {
            let mut object = Map::new();
            show::put_name(&mut object, "name", &xattr.name);
            show::put_name(&mut object, "value", &xattr.value);
            Value::Object(object)
        });
        object.insert("xattrs".to_owned(), xattrs.collect());
        if let Some(blocks) = &self.blocks {
            let value = json!({
                "packed": blocks.packed,
                "stored": blocks.stored,
                "holes": blocks.holes,
                "raw_bytes": blocks.raw_bytes,
                "ratio": ratio(blocks.raw_bytes, self.node.size),
            });
            object.insert("blocks".to_owned(), value);
        }
        Value::Object(object)
    }
}

/// Raw bytes for each byte of content, to three places.
fn ratio(raw: u64, size: u64) -> Option<f64> {
    (size > 0).then(|| (raw as f64 / size as f64 * 1_000.0).round() / 1_000.0)
}
