//! What the format can hold: each node's inode, where directories lie, in which order contents do.

use std::collections::BTreeMap;

use super::super::layout::{INODE_LEN, Inode, NAME_WORDS_MAX, Order, SIZE_MAX};
use super::tree::{Content, Extra, Place, Tree};
use super::{OFFSET_MAX, Settings, WriteError};
use crate::node::Kind;

const SET_USER_ID: u16 = 0o4000;
const SET_GROUP_ID: u16 = 0o2000;
/// The longest target of a link, in bytes.
const LINK_MAX: u64 = 4095;
/// The longest name, in bytes.
const NAME_MAX: usize = NAME_WORDS_MAX as usize * 4;

/// What an image will hold, and where.
#[derive(Debug)]
pub(super) struct Plan {
    /// By place; none for nodes that are left out.
    pub(super) inodes: Vec<Option<Inode>>,
    /// Nodes with bytes, depth-first.
    pub(super) contents: Vec<Place>,
    pub(super) files: u32,
    /// Where the directories end.
    pub(super) end: usize,
    pub(super) warnings: Warnings,
    /// The directories, in the order of their entries.
    directories: Vec<Place>,
}

impl Plan {
    /// Brings the contents of some paths to the front, in their order.
    fn bring_first(&mut self, tree: &Tree, paths: &[Vec<u8>]) {
        let mut ranks = BTreeMap::new();
        for (rank, path) in paths.iter().enumerate() {
            let path = path.strip_prefix(b"/").unwrap_or(path);
            ranks.entry(path).or_insert(rank);
        }
        if !ranks.is_empty() {
            let rank = |place: &Place| ranks.get(&tree.bytes_path(*place)[..]).copied();
            self.contents.sort_by_cached_key(|place| rank(place).unwrap_or(usize::MAX));
        }
    }

    pub(super) fn root(&self) -> Inode {
        self.inodes[0].unwrap_or_default()
    }

    /// The bytes of all directories.
    pub(super) fn entries(&self, tree: &Tree, order: Order) -> Vec<u8> {
        let mut bytes = Vec::new();
        for directory in &self.directories {
            for (name, place) in &tree.node(*directory).children {
                let Some(inode) = self.inodes[place.0] else { continue };
                bytes.extend(inode.to_bytes(order));
                bytes.extend(name);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
        }
        bytes
    }

    /// Gives a directory its place behind those that have theirs, if it has entries.
    fn place(&mut self, tree: &Tree, directory: Place, settings: &Settings) -> Fits<()> {
        let mut len = 0;
        for (name, place) in &tree.node(directory).children {
            let Some(inode) = fit(tree, *place, name, settings, &mut self.warnings)? else {
                continue;
            };
            len += INODE_LEN + inode.name_len();
            self.inodes[place.0] = Some(inode);
            self.files += 1;
        }
        if len == 0 {
            return Ok(());
        }
        if self.end > OFFSET_MAX {
            return Err(beyond(tree, directory));
        }
        let limit = |what| WriteError::Limit { path: tree.path(directory), what };
        let size = u32::try_from(len).ok().filter(|size| *size <= SIZE_MAX).ok_or_else(|| {
            limit(format!("{len} bytes of entries, but a directory has {SIZE_MAX} at most"))
        })?;
        if let Some(inode) = &mut self.inodes[directory.0] {
            (inode.size, inode.offset_words) = (size, words(self.end));
        }
        self.end += len;
        self.directories.push(directory);
        Ok(())
    }
}

type Fits<T> = Result<T, WriteError>;

/// A place that is no later than [`OFFSET_MAX`], in words.
pub(super) fn words(offset: usize) -> u32 {
    u32::try_from(offset / 4).expect("the last offset has 26 bits")
}

pub(super) fn beyond(tree: &Tree, place: Place) -> WriteError {
    let what =
        format!("it would begin behind byte {OFFSET_MAX} of the image, the last that can be");
    WriteError::Limit { path: tree.path(place), what }
}

/// Plans an image whose directories begin at a byte.
pub(super) fn plan(tree: &Tree, settings: &Settings, start: usize) -> Fits<Plan> {
    let mut plan = Plan {
        inodes: vec![None; tree.nodes()],
        contents: Vec::new(),
        files: 1,
        end: start,
        warnings: Warnings::default(),
        directories: Vec::new(),
    };
    plan.inodes[0] = fit(tree, tree.root(), &[], settings, &mut plan.warnings)?;
    let mut todo = vec![tree.root()];
    while let Some(place) = todo.pop() {
        let node = tree.node(place);
        if node.content != Content::Directory {
            plan.contents.push(place);
            continue;
        }
        plan.place(tree, place, settings)?;
        for child in node.children.values().rev() {
            let content = &tree.node(*child).content;
            let goes_on = *content == Content::Directory || content.len() > 0;
            if goes_on && plan.inodes[child.0].is_some() {
                todo.push(*child);
            }
        }
    }
    plan.bring_first(tree, &settings.first);
    Ok(plan)
}

/// The inode of a node, without a place for its content; none if the node is left out.
fn fit(
    tree: &Tree,
    place: Place,
    name: &[u8],
    settings: &Settings,
    warnings: &mut Warnings,
) -> Fits<Option<Inode>> {
    let node = tree.node(place);
    let warn = |warnings: &mut Warnings, what| warnings.add(what, || tree.path(place));
    let (kind, size) = match &node.content {
        Content::Directory => (Kind::Directory, Ok(0)),
        Content::Bytes(_) | Content::File { .. } => {
            let len = node.content.len();
            (Kind::File, u32::try_from(len).ok().filter(|len| *len <= SIZE_MAX).ok_or(Loss::Size))
        }
        Content::Link(_) => {
            let len = node.content.len();
            let size = u32::try_from(len).ok().filter(|_| (1..=LINK_MAX).contains(&len));
            (Kind::Symlink, size.ok_or(Loss::Link))
        }
        Content::BlockDevice(major, minor) => (Kind::BlockDevice, device(*major, *minor)),
        Content::CharDevice(major, minor) => (Kind::CharDevice, device(*major, *minor)),
        Content::Fifo => (Kind::Fifo, Ok(0)),
        Content::Socket => (Kind::Socket, Ok(0)),
    };
    let name_fits = if name.len() > NAME_MAX { Err(Loss::Name) } else { Ok(()) };
    let size = match name_fits.and(size) {
        Ok(size) => size,
        Err(loss) if !settings.lossy => {
            return Err(WriteError::Limit { path: tree.path(place), what: loss.refusal() });
        }
        Err(loss) => {
            warn(warnings, loss.warning());
            if loss != Loss::Size {
                return Ok(None);
            }
            SIZE_MAX
        }
    };
    let attributes = node.attributes;
    let owner = (attributes.uid > u16::MAX.into()).then_some(Loss::Owner(attributes.uid));
    let group = (attributes.gid > u8::MAX.into()).then_some(Loss::Group(attributes.gid));
    for loss in owner.into_iter().chain(group).chain(node.extras.iter().copied().map(Loss::Extra)) {
        if !settings.lossy {
            return Err(WriteError::Limit { path: tree.path(place), what: loss.refusal() });
        }
        warn(warnings, loss.warning());
    }
    // What runs as its owner would run as the one that the cut makes of it.
    let mut permissions = attributes.permissions & 0o7777;
    if kind == Kind::File {
        permissions &= !(if owner.is_some() { SET_USER_ID } else { 0 });
        permissions &= !(if group.is_some() { SET_GROUP_ID } else { 0 });
    }
    let [gid, ..] = attributes.gid.to_le_bytes();
    let [uid_low, uid_high, ..] = attributes.uid.to_le_bytes();
    Ok(Some(Inode {
        mode: kind.mode() | permissions,
        uid: u16::from_le_bytes([uid_low, uid_high]),
        gid,
        size,
        offset_words: 0,
        name_words: words(name.len().next_multiple_of(4)),
    }))
}

/// The old form of a device number.
fn device(major: u32, minor: u32) -> Result<u32, Loss> {
    if major.max(minor) > 0xff { Err(Loss::Device) } else { Ok(major << 8 | minor) }
}

/// What the format cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Size,
    Link,
    Device,
    Name,
    Owner(u32),
    Group(u32),
    Extra(Extra),
}

impl Loss {
    fn refusal(self) -> String {
        match self {
            Self::Size => format!("a file has {SIZE_MAX} bytes at most"),
            Self::Link => format!("the target of a link has 1 to {LINK_MAX} bytes"),
            Self::Device => "major and minor number of a device are 255 at most".to_owned(),
            Self::Name => format!("a name has {NAME_MAX} bytes at most"),
            Self::Owner(uid) => format!("its owner is {uid}, and the format has 65535 at most"),
            Self::Group(gid) => format!("its group is {gid}, and the format has 255 at most"),
            Self::Extra(extra) => format!("the format cannot hold {}", extra.name()),
        }
    }

    const fn warning(self) -> &'static str {
        match self {
            Self::Size => "files cut to 16777215 bytes",
            Self::Link => "links left out, whose target is empty or longer than 4095 bytes",
            Self::Device => "devices left out, whose numbers are above 255",
            Self::Name => "nodes left out, whose name is longer than 252 bytes",
            Self::Owner(_) => "owners cut to 16 bits, without set-user-id",
            Self::Group(_) => "groups cut to 8 bits, without set-group-id",
            Self::Extra(Extra::Capabilities) => "files without their capabilities",
            Self::Extra(Extra::Acl) => "nodes without their access control lists",
            Self::Extra(Extra::Xattrs) => "nodes without their extended attributes",
            Self::Extra(Extra::Links) => "further names of a file written as files of their own",
        }
    }
}

/// How often something was lost, and where first.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    kinds: BTreeMap<&'static str, (u64, String)>,
}

impl Warnings {
    fn add(&mut self, what: &'static str, path: impl FnOnce() -> String) {
        self.kinds.entry(what).or_insert_with(|| (0, path())).0 += 1;
    }

    pub(super) fn sentences(&self) -> Vec<String> {
        let kinds = self.kinds.iter();
        kinds.map(|(what, (count, first))| format!("{count} {what}; first: /{first}")).collect()
    }
}
