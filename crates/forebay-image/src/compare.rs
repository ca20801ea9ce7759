//! Compares two trees: images, or an image and a directory.
//!
//! ```text
//!   names of a ──┐
//!                ├─ in step, sorted ──> pairs ──all threads──> differences, in order of pairs
//!   names of b ──┘       └─> what only one of them has
//! ```
//!
//! What a format does not keep at all is not compared: [`Kept`].

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use crate::content::Content;
use crate::error::Result as ImageResult;
use crate::fault::{Cause, Fault};
use crate::image::Image;
use crate::node::{Kind, Node, NodeId, Time, Xattr};
use crate::printable::shown;
use crate::verify::node_of;
use crate::walk::Tree;
use crate::work;

mod folder;
mod pairs;

pub use folder::Folder;
use pairs::{Pair, pairs};

/// Bytes that are compared at once.
const CHUNK: usize = 256 << 10;

/// What a tree keeps of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Times, and to the nanosecond.
    pub times: Precision,
    /// That two names are one file.
    pub links: bool,
    /// Extended attributes.
    pub xattrs: bool,
}

/// How precise times are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// There are none.
    None,
    /// Seconds.
    Seconds,
    /// Nanoseconds.
    Nanos,
}

impl Kept {
    /// Everything, as a directory does.
    pub const ALL: Self = Self { times: Precision::Nanos, links: true, xattrs: true };

    /// What a format keeps, by the name that its summary has.
    pub fn by_format(format: &str) -> Self {
        match format {
            "cramfs" => Self { times: Precision::None, links: false, xattrs: false },
            "squashfs" => Self { times: Precision::Seconds, ..Self::ALL },
            _ => Self::ALL,
        }
    }

    /// What both keep.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            times: self.times.min(other.times),
            links: self.links && other.links,
            xattrs: self.xattrs && other.xattrs,
        }
    }
}

/// A tree that is compared.
#[derive(Clone, Copy, Debug)]
pub enum Side<'a> {
    /// Of an image.
    Image(&'a dyn Image, &'a Tree),
    /// On disk.
    Folder(&'a Folder),
}

impl<'a> Side<'a> {
    /// Its names.
    pub fn tree(self) -> &'a Tree {
        match self {
            Self::Image(_, tree) => tree,
            Self::Folder(folder) => folder.tree(),
        }
    }

    /// The attributes that it stores.
    pub fn kept(self) -> Kept {
        match self {
            Self::Image(image, _) => Kept::by_format(image.summary().format),
            Self::Folder(_) => Kept::ALL,
        }
    }
}

/// What two trees do not agree on.
#[derive(Debug)]
pub enum Difference {
    /// Only the first has it, and everything below it.
    OnlyFirst,
    /// Only the second has it, and everything below it.
    OnlySecond,
    /// Its type.
    Kind(Kind, Kind),
    /// How many bytes it has.
    Size(u64, u64),
    /// The bytes; this one is the first that differs.
    Bytes(u64),
    /// Permissions, set-user-id, set-group-id, sticky.
    Mode(u16, u16),
    /// User and group.
    Owner((u32, u32), (u32, u32)),
    /// When it was changed last.
    Time(Time, Time),
    /// An attribute by its name, and whether the first and the second have it.
    Xattr(Vec<u8>, [bool; 2]),
    /// Major and minor number.
    Device((u32, u32), (u32, u32)),
    /// Where a link leads.
    Target(Vec<u8>, Vec<u8>),
    /// Which earlier name is the same file: paths, none if there is no earlier one.
    Links(Option<Vec<u8>>, Option<Vec<u8>>),
    /// It cannot be compared, since one of them cannot be read.
    Unreadable(Cause),
}

impl Difference {
    /// One word for it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::OnlyFirst => "only-first",
            Self::OnlySecond => "only-second",
            Self::Kind(..) => "type",
            Self::Size(..) => "size",
            Self::Bytes(..) => "bytes",
            Self::Mode(..) => "mode",
            Self::Owner(..) => "owner",
            Self::Time(..) => "time",
            Self::Xattr(..) => "xattr",
            Self::Device(..) => "device",
            Self::Target(..) => "target",
            Self::Links(..) => "links",
            Self::Unreadable(..) => "unreadable",
        }
    }

    /// The rest of it, for people: first and second; empty if the kind says it all.
    pub fn detail(&self) -> String {
        match self {
            Self::OnlyFirst | Self::OnlySecond => String::new(),
            Self::Kind(a, b) => format!("{} and {}", a.name(), b.name()),
            Self::Size(a, b) => format!("{a} and {b}"),
            Self::Bytes(at) => format!("from byte {at} on"),
            Self::Mode(a, b) => format!("{a:04o} and {b:04o}"),
            Self::Owner(a, b) | Self::Device(a, b) => {
                format!("{}:{} and {}:{}", a.0, a.1, b.0, b.1)
            }
            Self::Time(a, b) => {
                format!("{a}.{:09} and {b}.{:09}", a.nanos, b.nanos)
            }
            Self::Xattr(name, [true, false]) => format!("{}, only in the first", shown(name)),
            Self::Xattr(name, [false, true]) => format!("{}, only in the second", shown(name)),
            Self::Xattr(name, _) => shown(name),
            Self::Target(a, b) => format!("'{}' and '{}'", shown(a), shown(b)),
            Self::Links(a, b) => format!("{} and {}", same_as(a.as_ref()), same_as(b.as_ref())),
            Self::Unreadable(cause) => cause.to_string(),
        }
    }
}

fn same_as(first: Option<&Vec<u8>>) -> String {
    first.map_or_else(|| "a file of its own".to_owned(), |path| format!("'/{}'", shown(path)))
}

/// The number of comparisons, and the differences.
#[derive(Debug, Default)]
pub struct Report {
    /// Names that both have.
    pub names: u64,
    /// Bytes of files that both have, compared.
    pub bytes: u64,
    /// Paths and differences.
    pub differences: Vec<(Vec<u8>, Difference)>,
}

/// Compares the readable parts of two trees: their faults are [`unreadable`], for the caller to
/// add. `progress` gets the number of further names that are done.
pub fn compare(
    first: Side<'_>,
    second: Side<'_>,
    kept: Kept,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Report {
    let (pairs, mut found) = pairs(first.tree(), second.tree());
    if kept.links {
        found.extend(links(first.tree(), second.tree(), &pairs));
    }
    let start = || Worker {
        first: Cursor::new(first),
        second: Cursor::new(second),
        buffers: [Vec::new(), Vec::new()],
        kept,
        bytes: 0,
        found: Vec::new(),
    };
    let workers = work::each(threads, pairs.len(), start, |worker, number| {
        worker.compare(pairs[number]);
        progress(1);
        ControlFlow::Continue(())
    });
    let mut report = Report { names: pairs.len() as u64, ..Report::default() };
    for worker in workers {
        report.bytes += worker.bytes;
        for (place, difference) in worker.found {
            found.push((first.tree().path(place), difference));
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    report.differences = found;
    report
}

/// Pairs of names that are another name of an earlier file on one side only.
fn links(first: &Tree, second: &Tree, pairs: &[Pair]) -> Vec<(Vec<u8>, Difference)> {
    let mut seen: [HashMap<NodeId, usize>; 2] = [HashMap::new(), HashMap::new()];
    let mut found = Vec::new();
    for (number, pair) in pairs.iter().enumerate() {
        let items = [&first.items()[pair.first], &second.items()[pair.second]];
        if items.iter().any(|item| item.kind == Kind::Directory) {
            continue;
        }
        let [a, b] = [0, 1].map(|side| {
            let earlier: usize = *seen[side].entry(items[side].node).or_insert(number);
            (earlier != number).then_some(earlier)
        });
        if a != b {
            let path = |earlier: usize| first.path(pairs[earlier].first);
            let difference = Difference::Links(a.map(path), b.map(path));
            found.push((first.path(pair.first), difference));
        }
    }
    found
}

struct Worker<'a> {
    first: Cursor<'a>,
    second: Cursor<'a>,
    buffers: [Vec<u8>; 2],
    kept: Kept,
    bytes: u64,
    /// With the place in the first tree.
    found: Vec<(usize, Difference)>,
}

impl Worker<'_> {
    fn compare(&mut self, pair: Pair) {
        if let Err(cause) = self.compare_nodes(pair) {
            self.found.push((pair.first, Difference::Unreadable(cause)));
        }
    }

    fn compare_nodes(&mut self, pair: Pair) -> Result<(), Cause> {
        let (a, b) = (self.first.node(pair.first)?, self.second.node(pair.second)?);
        let mut differs = |different: bool, difference: Difference| {
            if different {
                self.found.push((pair.first, difference));
            }
        };
        if a.kind != b.kind {
            differs(true, Difference::Kind(a.kind, b.kind));
            return Ok(());
        }
        // Linux gives every link all permissions, whatever an image says.
        let modes = a.kind != Kind::Symlink && a.permissions != b.permissions;
        differs(modes, Difference::Mode(a.permissions, b.permissions));
        let owners = ((a.uid, a.gid), (b.uid, b.gid));
        differs(owners.0 != owners.1, Difference::Owner(owners.0, owners.1));
        if let Some((a, b)) = self.kept.times.of(a.modified, b.modified) {
            differs(a != b, Difference::Time(a, b));
        }
        let is_device = matches!(a.kind, Kind::BlockDevice | Kind::CharDevice);
        differs(is_device && a.device != b.device, Difference::Device(a.device, b.device));
        if self.kept.xattrs {
            let (a, b) = (self.first.xattrs(pair.first)?, self.second.xattrs(pair.second)?);
            unequal(&a, &b).into_iter().for_each(|difference| differs(true, difference));
        }
        match a.kind {
            Kind::File => self.compare_files(pair, &a, &b)?,
            Kind::Symlink => {
                let (a, b) = (self.first.link(pair.first)?, self.second.link(pair.second)?);
                differs(a != b, Difference::Target(a, b));
            }
            Kind::Directory | Kind::BlockDevice | Kind::CharDevice | Kind::Fifo | Kind::Socket => {}
        }
        Ok(())
    }

    fn compare_files(&mut self, pair: Pair, a: &Node, b: &Node) -> Result<(), Cause> {
        if a.size != b.size {
            self.found.push((pair.first, Difference::Size(a.size, b.size)));
            return Ok(());
        }
        let mut at = 0;
        while at < a.size {
            let len = usize::try_from(a.size - at).unwrap_or(CHUNK).min(CHUNK);
            for buffer in &mut self.buffers {
                buffer.resize(len, 0);
            }
            let [first, second] = &mut self.buffers;
            self.first.fill(pair.first, a, at, first)?;
            self.second.fill(pair.second, b, at, second)?;
            if first != second {
                let same = first.iter().zip(&*second).take_while(|(a, b)| a == b).count();
                self.found.push((pair.first, Difference::Bytes(at + same as u64)));
                return Ok(());
            }
            at += len as u64;
            self.bytes += len as u64;
        }
        Ok(())
    }
}

impl Precision {
    /// Two times as far as they can be compared.
    fn of(self, a: Option<Time>, b: Option<Time>) -> Option<(Time, Time)> {
        let (a, b) = a.zip(b)?;
        let whole = |time: Time| Time { nanos: 0, ..time };
        match self {
            Self::None => None,
            Self::Seconds => Some((whole(a), whole(b))),
            Self::Nanos => Some((a, b)),
        }
    }
}

/// The attributes that are not the same, by name.
fn unequal(a: &[Xattr], b: &[Xattr]) -> Vec<Difference> {
    let names: BTreeSet<&[u8]> = a.iter().chain(b).map(|xattr| xattr.name.as_slice()).collect();
    let differs = |name: &[u8]| {
        let [first, second] = [a, b].map(|side| {
            let named = side.iter().filter(|xattr| xattr.name == name);
            named.map(|xattr| &xattr.value).collect::<BTreeSet<_>>()
        });
        let has = [!first.is_empty(), !second.is_empty()];
        (first != second).then(|| Difference::Xattr(name.to_vec(), has))
    };
    names.into_iter().filter_map(differs).collect()
}

/// One thread's access to a side.
enum Cursor<'a> {
    Image(&'a dyn Image, &'a Tree, Content<'a>),
    Folder(folder::Cursor<'a>),
}

impl<'a> Cursor<'a> {
    fn new(side: Side<'a>) -> Self {
        match side {
            Side::Image(image, tree) => Self::Image(image, tree, Content::new(image)),
            Side::Folder(folder) => Self::Folder(folder.cursor()),
        }
    }

    fn node(&self, place: usize) -> Result<Node, Cause> {
        match self {
            Self::Image(image, tree, _) => {
                let item = &tree.items()[place];
                node_of(*image, item.node, item.kind)
            }
            Self::Folder(cursor) => Ok(cursor.node(place)),
        }
    }

    fn link(&mut self, place: usize) -> Result<Vec<u8>, Cause> {
        match self {
            Self::Image(image, tree, _) => Ok(image.link(tree.items()[place].node)?),
            Self::Folder(cursor) => cursor.link(place),
        }
    }

    fn xattrs(&mut self, place: usize) -> Result<Vec<Xattr>, Cause> {
        match self {
            Self::Image(image, tree, _) => Ok(image.xattrs(tree.items()[place].node)?),
            Self::Folder(cursor) => cursor.xattrs(place),
        }
    }

    fn fill(&mut self, place: usize, node: &Node, at: u64, buffer: &mut [u8]) -> Result<(), Cause> {
        match self {
            Self::Image(_, _, content) => {
                let filled: ImageResult<()> = content.fill(node.id, node.size, at, buffer);
                Ok(filled?)
            }
            Self::Folder(cursor) => cursor.fill(place, at, buffer),
        }
    }
}

/// The faults of a tree as differences.
pub fn unreadable(faults: Vec<Fault>) -> impl Iterator<Item = (Vec<u8>, Difference)> {
    faults.into_iter().map(|fault| (fault.path, Difference::Unreadable(fault.cause)))
}

#[cfg(test)]
mod tests;
