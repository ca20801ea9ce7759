//! Names of an image, short or as `ls -l` has them.

use std::io::{self, Write};

use anyhow::{Context, Result, bail};
use forebay_image::walk::{Inside, Limits, Tree};
use forebay_image::{Entry, Fault, Follow, Image, Kind, Node};
use serde_json::Value;

use super::{Out, complain, find, open, print, show};
use crate::args::image::Ls;

/// Lists what was asked for. What cannot be read is said, and the rest is listed.
pub(super) fn run(arguments: &Ls) -> Result<u8> {
    let image = open(&arguments.opened)?;
    let follow = if arguments.long { Follow::Above } else { Follow::Last };
    let found = find(&*image, &arguments.path, follow)?;
    let node = match image.node(found.node) {
        Ok(node) => node,
        Err(error) => bail!(Fault::new(found.path, error)),
    };
    let mut list = List::new(&*image, arguments);
    if node.kind != Kind::Directory {
        list.file(found.path, node)?;
    } else if arguments.recursive {
        list.tree(&found.path)?;
    } else {
        match image.entries(node.id) {
            Ok(entries) => list.directory(&found.path, entries.to_vec())?,
            Err(error) => bail!(Fault::new(found.path, error)),
        }
    }
    list.finish()
}

struct List<'a> {
    image: &'a dyn Image,
    arguments: &'a Ls,
    out: Out,
    objects: Vec<Value>,
    failed: bool,
}

/// One line of the long form.
struct Row {
    path: Vec<u8>,
    name: Vec<u8>,
    node: Node,
    target: Option<Vec<u8>>,
}

impl<'a> List<'a> {
    fn new(image: &'a dyn Image, arguments: &'a Ls) -> Self {
        Self { image, arguments, out: Out::new(), objects: Vec::new(), failed: false }
    }

    fn file(&mut self, path: Vec<u8>, node: Node) -> Result<()> {
        let name = show::absolute(&path);
        if self.arguments.long || self.arguments.answer.json {
            let target = self.target(&path, &node);
            return self.rows(vec![Row { path, name, node, target }]);
        }
        self.short(&name).context(WRITING)
    }

    fn tree(&mut self, start: &[u8]) -> Result<()> {
        let tree = Tree::of(self.image, &[start.to_vec()], Limits::default());
        let items = tree.items();
        let inside = Inside::new(&tree);
        let begin = (0..items.len()).find(|place| tree.path(*place) == start).unwrap_or(0);
        let mut stack = vec![begin];
        while let Some(place) = stack.pop() {
            let path = tree.path(place);
            if !self.arguments.answer.json {
                self.heading(&path, place != begin).context(WRITING)?;
            }
            let places = inside.names(place);
            let entry = |place: &usize| {
                let item = &items[*place];
                Entry { name: item.name.to_vec(), node: item.node, kind: item.kind }
            };
            self.directory(&path, places.iter().map(entry).collect())?;
            let directories = places.iter().rev().filter(|p| items[**p].kind == Kind::Directory);
            stack.extend(directories);
        }
        for fault in &tree.faults {
            self.fault(fault);
        }
        Ok(())
    }

    fn heading(&mut self, path: &[u8], further: bool) -> io::Result<()> {
        if further {
            self.out.to.write_all(b"\n")?;
        }
        self.out.name(&show::absolute(path))?;
        self.out.to.write_all(b":\n")
    }

    fn directory(&mut self, path: &[u8], mut entries: Vec<Entry>) -> Result<()> {
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        if !self.arguments.long && !self.arguments.answer.json {
            return entries.iter().try_for_each(|entry| self.short(&entry.name)).context(WRITING);
        }
        let mut rows = Vec::with_capacity(entries.len());
        for entry in entries {
            let between: &[u8] = if path.is_empty() { b"" } else { b"/" };
            let path = [path, between, &entry.name].concat();
            match self.image.node(entry.node) {
                Ok(node) => {
                    let target = self.target(&path, &node);
                    rows.push(Row { path, name: entry.name, node, target });
                }
                Err(error) => self.fault(&Fault::new(path, error)),
            }
        }
        self.rows(rows)
    }

    fn target(&mut self, path: &[u8], node: &Node) -> Option<Vec<u8>> {
        if node.kind != Kind::Symlink {
            return None;
        }
        match self.image.link(node.id) {
            Ok(target) => Some(target),
            Err(error) => {
                self.fault(&Fault::new(path, error));
                None
            }
        }
    }

    fn short(&mut self, name: &[u8]) -> io::Result<()> {
        self.out.name(name)?;
        self.out.to.write_all(b"\n")
    }

    fn rows(&mut self, rows: Vec<Row>) -> Result<()> {
        if self.arguments.answer.json {
            for row in rows {
                let mut object = show::object(&row.path, &row.node);
                if let Some(target) = &row.target {
                    show::put_name(&mut object, "target", target);
                }
                self.objects.push(Value::Object(object));
            }
            return Ok(());
        }
        let cells: Vec<[String; 6]> = rows.iter().map(cells).collect();
        let width = |column: usize| cells.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        for (row, [mode, links, uid, gid, size, time]) in rows.iter().zip(&cells) {
            let [_, links_width, uid_width, gid_width, size_width, time_width] = widths;
            let text = format!(
                "{mode} {links:>links_width$} {uid:>uid_width$} {gid:>gid_width$} \
                 {size:>size_width$} {time:>time_width$} "
            );
            self.line(&text, row).context(WRITING)?;
        }
        Ok(())
    }

    fn line(&mut self, text: &str, row: &Row) -> io::Result<()> {
        self.out.to.write_all(text.as_bytes())?;
        self.out.name(&row.name)?;
        if let Some(target) = &row.target {
            self.out.to.write_all(b" -> ")?;
            self.out.name(target)?;
        }
        self.out.to.write_all(b"\n")
    }

    fn fault(&mut self, fault: &Fault) {
        complain(fault);
        self.failed = true;
    }

    fn finish(self) -> Result<u8> {
        self.out.finish("list")?;
        if self.arguments.answer.json {
            print(&format!("{:#}\n", Value::Array(self.objects)), "list")?;
        }
        Ok(if self.failed { super::failed() } else { 0 })
    }
}

const WRITING: &str = "cannot write the list";

/// Mode, names, owner, group, size or device, time.
fn cells(row: &Row) -> [String; 6] {
    let node = &row.node;
    let size = match node.kind {
        Kind::BlockDevice | Kind::CharDevice => format!("{}, {}", node.device.0, node.device.1),
        Kind::File | Kind::Directory | Kind::Symlink | Kind::Fifo | Kind::Socket => {
            node.size.to_string()
        }
    };
    [
        show::mode(node.kind, node.permissions),
        node.links.to_string(),
        node.uid.to_string(),
        node.gid.to_string(),
        size,
        node.modified.map_or_else(|| "-".to_owned(), |time| time.to_string()),
    ]
}
