//! An image in memory for tests, which can be made to lie.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, Result};
use crate::image::{Block, Coding, Image, Summary, UsedBytes};
use crate::node::{Entry, Kind, Node, NodeId, Time, Xattr};
use crate::source::Source;

/// Content in a block at most.
const BLOCK: usize = 4_096;

/// The image; a node's name is its place in the list.
#[derive(Clone)]
pub(crate) struct Memory {
    summary: Summary,
    nodes: Vec<Item>,
    bytes: Vec<u8>,
    source: Arc<dyn Source>,
    decoded: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct Item {
    node: Node,
    entries: Vec<Entry>,
    damaged: bool,
    target: Vec<u8>,
    blocks: Vec<Block>,
    xattrs: Vec<Xattr>,
}

impl Memory {
    pub(crate) fn new() -> Self {
        let summary = Summary {
            format: "memory",
            block_size: u32::try_from(BLOCK).unwrap(),
            raw_max: BLOCK as u64,
            ..Summary::default()
        };
        let bytes = vec![0; 16];
        let source: Arc<dyn Source> = Arc::new(bytes.clone());
        let mut image = Self { summary, nodes: Vec::new(), bytes, source, decoded: Arc::default() };
        image.add(Kind::Directory, 0o755);
        image
    }

    /// A file and the directories above it.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) -> NodeId {
        let id = self.add(Kind::File, 0o644);
        let mut blocks = Vec::new();
        for (number, plain) in content.chunks(BLOCK).enumerate() {
            let start = (number * BLOCK) as u64;
            let range = start..start + plain.len() as u64;
            let at = self.bytes.len() as u64;
            if plain.iter().all(|byte| *byte == 0) {
                blocks.push(Block::hole(range));
                continue;
            }
            let stored = number % 3 == 2;
            if stored {
                self.bytes.extend_from_slice(plain);
            } else {
                self.bytes.push(plain.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte)));
                self.bytes.extend(plain.iter().map(|byte| byte ^ 0x55));
            }
            blocks.push(Block {
                plain: range,
                raw: at..self.bytes.len() as u64,
                coding: if stored { Coding::Stored } else { Coding::Packed },
                decoded: if stored { 0 } else { u32::try_from(plain.len()).unwrap() },
                inside: 0,
                variant: 0,
            });
        }
        let item = self.item(id);
        item.blocks = blocks;
        item.node.size = content.len() as u64;
        self.source = Arc::new(self.bytes.clone());
        self.name(path, id);
        id
    }

    pub(crate) fn symlink(&mut self, path: &str, target: &str) -> NodeId {
        let id = self.special(path, Kind::Symlink, 0o777);
        self.item(id).target = target.as_bytes().to_vec();
        self.item(id).node.size = target.len() as u64;
        id
    }

    pub(crate) fn special(&mut self, path: &str, kind: Kind, permissions: u16) -> NodeId {
        let id = self.add(kind, permissions);
        self.name(path, id);
        id
    }

    /// A directory, which may be there, and those above it.
    pub(crate) fn directory(&mut self, path: &str) -> NodeId {
        let mut at = self.root();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            at = match self.lookup(at, part.as_bytes()).unwrap() {
                Some(found) => found,
                None => {
                    let id = self.add(Kind::Directory, 0o755);
                    let entry = self.entry(part.as_bytes(), id);
                    self.item(at).entries.push(entry);
                    id
                }
            };
        }
        at
    }

    /// A directory in another one.
    pub(crate) fn directory_in(&mut self, above: NodeId, name: &[u8]) -> NodeId {
        let id = self.add(Kind::Directory, 0o755);
        self.name_in(above, name, id);
        id
    }

    /// One more entry of a directory.
    pub(crate) fn name_in(&mut self, above: NodeId, name: &[u8], id: NodeId) {
        let entry = self.entry(name, id);
        self.item(above).entries.push(entry);
    }

    /// One more name for a node.
    pub(crate) fn name(&mut self, path: &str, id: NodeId) {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.raw_name(above, name.as_bytes(), id);
    }

    /// The same with a name that may be none.
    pub(crate) fn raw_name(&mut self, directory: &str, name: &[u8], id: NodeId) {
        let directory = self.directory(directory);
        let entry = self.entry(name, id);
        self.item(directory).entries.push(entry);
        self.item(id).node.links += 1;
    }

    /// Changes the attributes of a node.
    pub(crate) fn change(&mut self, id: NodeId, change: impl Fn(&mut Node)) {
        change(&mut self.item(id).node);
    }

    pub(crate) fn change_blocks(&mut self, id: NodeId, change: impl Fn(&mut Block)) {
        self.item(id).blocks.iter_mut().for_each(change);
    }

    pub(crate) fn change_block(
        &mut self,
        id: NodeId,
        number: usize,
        change: impl FnOnce(&mut Block),
    ) {
        change(&mut self.item(id).blocks[number]);
    }

    pub(crate) fn describe(&mut self, change: impl FnOnce(&mut Summary)) {
        change(&mut self.summary);
    }

    pub(crate) fn xattr(&mut self, id: NodeId, name: &str, value: &[u8]) {
        let xattr = Xattr { name: name.as_bytes().to_vec(), value: value.to_vec() };
        self.item(id).xattrs.push(xattr);
    }

    pub(crate) fn damage_directory(&mut self, id: NodeId) {
        self.item(id).damaged = true;
    }

    /// Flips a bit of a block's raw bytes; says where.
    pub(crate) fn damage_block(&mut self, id: NodeId, number: usize) -> u64 {
        let at = self.item(id).blocks[number].raw.start;
        self.bytes[usize::try_from(at).unwrap() + 1] ^= 1;
        self.source = Arc::new(self.bytes.clone());
        at
    }

    pub(crate) fn format(&mut self, format: &'static str) {
        self.summary.format = format;
    }

    /// How many blocks were decoded.
    pub(crate) fn decoded(&self) -> usize {
        self.decoded.load(Ordering::Relaxed)
    }

    fn add(&mut self, kind: Kind, permissions: u16) -> NodeId {
        let id = NodeId(self.nodes.len() as u64);
        let node = Node {
            id,
            ino: id.0 + 1,
            kind,
            permissions,
            uid: 0,
            gid: 0,
            size: 0,
            blocks: 0,
            links: 0,
            modified: Some(Time {
                seconds: 1_000_000_000 + i64::try_from(id.0).unwrap(),
                nanos: 5,
            }),
            device: (0, 0),
        };
        self.nodes.push(Item {
            node,
            entries: Vec::new(),
            damaged: false,
            target: Vec::new(),
            blocks: Vec::new(),
            xattrs: Vec::new(),
        });
        id
    }

    fn item(&mut self, id: NodeId) -> &mut Item {
        &mut self.nodes[usize::try_from(id.0).unwrap()]
    }

    fn entry(&self, name: &[u8], id: NodeId) -> Entry {
        Entry { name: name.to_vec(), node: id, ino: id.0 + 1, kind: self.at(id).unwrap().node.kind }
    }

    fn at(&self, id: NodeId) -> Result<&Item> {
        let found = usize::try_from(id.0).ok().and_then(|place| self.nodes.get(place));
        found.ok_or_else(|| Error::field("node", id.0, "is none"))
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Memory")
    }
}

impl Image for Memory {
    fn summary(&self) -> &Summary {
        &self.summary
    }

    fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    fn root(&self) -> NodeId {
        NodeId(0)
    }

    fn node(&self, id: NodeId) -> Result<Node> {
        Ok(self.at(id)?.node)
    }

    fn entries(&self, directory: NodeId) -> Result<Arc<[Entry]>> {
        let item = self.at(directory)?;
        if item.damaged {
            return Err(Error::field("directory", directory.0, "is damaged"));
        }
        Ok(item.entries.clone().into())
    }

    fn link(&self, id: NodeId) -> Result<Vec<u8>> {
        Ok(self.at(id)?.target.clone())
    }

    fn xattrs(&self, id: NodeId) -> Result<Vec<Xattr>> {
        Ok(self.at(id)?.xattrs.clone())
    }

    fn locate(&self, id: NodeId, offset: u64) -> Result<Block> {
        let number = usize::try_from(offset).unwrap() / BLOCK;
        let found = self.at(id)?.blocks.get(number).cloned();
        found.ok_or_else(|| Error::field("block", offset, "is none"))
    }

    fn decode(&self, block: &Block, raw: &[u8], upto: usize, content: &mut [u8]) -> Result<usize> {
        self.decoded.fetch_add(1, Ordering::Relaxed);
        let wrong = |why: &str| Error::Block {
            offset: block.raw.start,
            len: block.raw.end - block.raw.start,
            why: why.to_owned(),
        };
        let (sum, packed) = raw.split_first().ok_or_else(|| wrong("is empty"))?;
        let plain: Vec<u8> = packed.iter().map(|byte| byte ^ 0x55).collect();
        if plain.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte)) != *sum {
            return Err(wrong("the sum is wrong"));
        }
        let len = plain.len().min(content.len()).max(upto.min(plain.len().min(content.len())));
        content[..len].copy_from_slice(&plain[..len]);
        Ok(len)
    }

    fn used(&self) -> Result<Vec<UsedBytes>> {
        Ok(vec![UsedBytes { bytes: 0..16, what: "the head" }])
    }

    fn used_by(&self, _id: NodeId) -> Result<Vec<UsedBytes>> {
        Ok(Vec::new())
    }
}
