//! Names of an image, short or as `ls -l` has them.

use std::io::{self, Write};

use anyhow::{Context, Result};
use forebay_image::walk::{Inside, Limits, Tree};
use forebay_image::{Cause, Fault, Follow, Image, Kind, Node, NodeId};
use forebay_report::messages::note;
use serde_json::Value;

use super::select::{Matcher, is_at_or_below};
use super::{No, Out, complain, find, open, show};
use crate::NO;
use crate::args::image::{Ls, Trait};

/// Lists the requested files. An unreadable one is reported, and the rest is listed.
pub(super) fn run(arguments: &Ls) -> Result<u8> {
    let image = open(&arguments.opened)?;
    let follow = if arguments.long { Follow::Above } else { Follow::Last };
    let found = find(&*image, &arguments.path, follow)?;
    let mut list = List::new(&*image, arguments);
    let node = match image.node(found.node) {
        Ok(node) => node,
        Err(error) => {
            list.fault(&Fault::new(found.path, error));
            return list.finish();
        }
    };
    if !arguments.find.is_empty() {
        list.finds(&found.path)?;
    } else if node.kind != Kind::Directory {
        list.chosen(&found.path)?;
        if list.unmatched.is_none() {
            list.file(found.path, node)?;
        }
    } else if arguments.recursive || !Matcher::new(&arguments.patterns)?.is_empty() {
        list.tree(&found.path)?;
    } else {
        let listed =
            image.entries(node.id).and_then(|entries| Ok((entries, image.defects(node.id)?)));
        match listed {
            Ok((entries, defects)) => {
                let names = entries.iter().map(|entry| (entry.name.clone(), entry.node));
                list.directory(&found.path, names.collect())?;
                for defect in defects.iter() {
                    list.fault(&Fault::new(
                        &found.path[..],
                        Cause::Entry(Box::new(defect.clone())),
                    ));
                }
            }
            Err(error) => list.fault(&Fault::new(found.path, error)),
        }
    }
    list.finish()
}

struct List<'a> {
    image: &'a dyn Image,
    arguments: &'a Ls,
    out: Out,
    /// Objects that were printed.
    objects: u64,
    /// What `--find` has found.
    found: u64,
    is_damaged: bool,
    /// Why patterns leave nothing to list.
    unmatched: Option<No>,
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
        Self {
            image,
            arguments,
            out: Out::new(),
            objects: 0,
            found: 0,
            is_damaged: false,
            unmatched: None,
        }
    }

    fn file(&mut self, path: Vec<u8>, node: Node) -> Result<()> {
        let name = show::absolute(&path);
        if self.arguments.long || self.arguments.answer.json {
            let target = self.target(&path, &node);
            let row = Row { path, name, node, target };
            return if self.arguments.answer.json { self.object(&row) } else { self.rows(&[row]) };
        }
        self.short(&name).context(WRITING)
    }

    /// Lists the files with a requested property, with their paths.
    fn finds(&mut self, start: &[u8]) -> Result<()> {
        let tree = self.chosen(start)?;
        let mut rows = Vec::new();
        for (place, item) in tree.items().iter().enumerate() {
            let path = tree.path(place);
            // The directories above belong to the tree too.
            if !is_at_or_below(&path, start) {
                continue;
            }
            let node = match self.image.node(item.node) {
                Ok(node) => node,
                Err(error) => {
                    self.fault(&Fault::new(path, error));
                    continue;
                }
            };
            let traits = self.arguments.find.iter().map(|what| has(self.image, &node, *what));
            match traits.collect::<Result<Vec<bool>, _>>() {
                Ok(traits) if traits.contains(&true) => {
                    let row = Row { name: show::absolute(&path), path, node, target: None };
                    if self.arguments.answer.json {
                        self.object(&row)?;
                    } else {
                        rows.push(row);
                    }
                    self.found += 1;
                }
                Ok(_) => {}
                Err(error) => self.fault(&Fault::new(path, error)),
            }
        }
        self.rows(&rows)?;
        tree.faults.iter().for_each(|fault| self.fault(fault));
        Ok(())
    }

    /// The tree below a directory, as far as patterns take it.
    fn chosen(&mut self, start: &[u8]) -> Result<Tree> {
        let starts = [start.to_vec()];
        let mut tree = Tree::of(self.image, &starts, Limits::default());
        self.unmatched = Matcher::new(&self.arguments.patterns)?.choose(&mut tree, &starts).err();
        Ok(tree)
    }

    fn tree(&mut self, start: &[u8]) -> Result<()> {
        let tree = self.chosen(start)?;
        if self.unmatched.is_some() {
            tree.faults.iter().for_each(|fault| self.fault(fault));
            return Ok(());
        }
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
            let names = places.iter().map(|place| &items[*place]);
            let names = names.map(|item| (item.name.to_vec(), item.node));
            self.directory(&path, names.collect())?;
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

    fn directory(&mut self, path: &[u8], mut names: Vec<(Vec<u8>, NodeId)>) -> Result<()> {
        names.sort_by(|one, two| one.0.cmp(&two.0));
        if !self.arguments.long && !self.arguments.answer.json {
            return names.iter().try_for_each(|(name, _)| self.short(name)).context(WRITING);
        }
        // Columns are as wide as the widest line; JSON objects need no columns.
        let mut rows = Vec::new();
        for (name, id) in names {
            let between: &[u8] = if path.is_empty() { b"" } else { b"/" };
            let path = [path, between, &name].concat();
            match self.image.node(id) {
                Ok(node) => {
                    let target = self.target(&path, &node);
                    let row = Row { path, name, node, target };
                    if self.arguments.answer.json {
                        self.object(&row)?;
                    } else {
                        rows.push(row);
                    }
                }
                Err(error) => self.fault(&Fault::new(path, error)),
            }
        }
        self.rows(&rows)
    }

    /// Prints a row as an element of an array.
    fn object(&mut self, row: &Row) -> Result<()> {
        let mut object = show::object(&row.path, &row.node);
        if let Some(target) = &row.target {
            show::put_name(&mut object, "target", target);
        }
        let begin = if self.objects == 0 { "[\n  " } else { ",\n  " };
        self.objects += 1;
        let text = format!("{:#}", Value::Object(object)).replace('\n', "\n  ");
        write!(self.out.to, "{begin}{text}").context(WRITING)
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

    fn rows(&mut self, rows: &[Row]) -> Result<()> {
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
        self.is_damaged = true;
    }

    fn finish(mut self) -> Result<u8> {
        if self.arguments.answer.json {
            let end: &[u8] = if self.objects == 0 { b"[]\n" } else { b"\n]\n" };
            self.out.to.write_all(end).context(WRITING)?;
        }
        self.out.finish("list")?;
        if self.is_damaged {
            return Ok(super::ended(NO));
        }
        if let Some(No(complaint)) = self.unmatched {
            complain(&complaint);
            return Ok(NO);
        }
        if self.arguments.find.is_empty() || self.found > 0 {
            return Ok(0);
        }
        note("no name has what --find asks for");
        Ok(NO)
    }
}

const WRITING: &str = "cannot write the list";

/// Whether a node has a trait.
fn has(image: &dyn Image, node: &Node, what: Trait) -> forebay_image::Result<bool> {
    let (permissions, kind) = (node.permissions, node.kind);
    Ok(match what {
        Trait::Setuid => kind == Kind::File && permissions & 0o4000 != 0,
        Trait::Setgid => matches!(kind, Kind::File | Kind::Directory) && permissions & 0o2000 != 0,
        Trait::Capability => {
            kind == Kind::File
                && image.xattrs(node.id)?.iter().any(|xattr| xattr.name == b"security.capability")
        }
        Trait::WorldWritable => {
            let is_shared = kind == Kind::Directory && permissions & 0o1000 != 0;
            kind != Kind::Symlink && permissions & 0o002 != 0 && !is_shared
        }
        Trait::Device => matches!(kind, Kind::BlockDevice | Kind::CharDevice),
    })
}

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
