//! erofs: clusters of a fixed number of raw bytes, each of which holds as much content as fits.
//!
//! ```text
//!   1024 bytes | superblock | codecs' parameters | inodes, each with its attributes, its map and
//!              | maybe its end | shared attributes | content | ...          in any order
//! ```
//!
//! Our own reader, from the public format: `erofs-rs` keeps its maps to itself and hands out plain
//! bytes only, and `lamfold-erofs` refuses fragments, so that neither serves `locate` and `decode`.
//!
//! All formats of inodes, indexes and extents are read, with all codecs, packed tails, compressed
//! metadata and 48-bit addresses. Images that keep content on other devices are refused. A
//! truncated image is opened with a warning, and its remaining part can be read.

use std::fmt;
use std::sync::Arc;

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::image::{Block, Image, Options, Summary, UsedBytes};
use crate::listing::{EntryDefect, Oddities};
use crate::node::{Entry, Kind, Node, NodeId, Time, Xattr};
use crate::source::{Source, within};

mod cluster;
mod codec_parameters;
mod codecs;
mod compressed;
mod core;
mod directory;
mod extent;
mod extents;
mod flat;
mod id;
mod inode;
mod located;
mod lookup;
mod map;
mod map_header;
mod metadata;
mod place;
mod superblock;
mod used;
mod xattr;

use self::core::Core;
use self::directory::Directory;
use self::inode::Inode;
use self::metadata::MetadataReader;
use self::superblock::Superblock;

/// Opens an image of this format; none if it does not begin like one.
///
/// # Errors
///
/// If it begins like one and is invalid.
pub fn open(source: &Arc<dyn Source>, _options: Options) -> Result<Option<Arc<dyn Image>>> {
    let Some(superblock) = Superblock::read(source.as_ref())? else {
        return Ok(None);
    };
    let core = Core::new(Arc::clone(source), superblock);
    let prefixes = match check_root(&core).and_then(|()| xattr::prefixes(&core)) {
        Ok(prefixes) => prefixes,
        Err(error) => {
            // Where the end is missing, that is what is wrong.
            within(source.as_ref(), core.superblock().bytes())?;
            return Err(error);
        }
    };
    let summary = summary(core.superblock(), source.len());
    let directories = Cache::with_heavy(DIRECTORIES_MAX);
    let oddities = Oddities::default();
    Ok(Some(Arc::new(Erofs { core, prefixes, summary, directories, oddities })))
}

/// What the superblock alone says of an image, whose end may be missing.
pub(crate) fn summary_of_superblock(source: &dyn Source) -> Result<Option<Summary>> {
    let superblock = Superblock::read(source)?;
    Ok(superblock.map(|superblock| summary(&superblock, source.len())))
}

fn check_root(core: &Core) -> Result<()> {
    let root = core.inode(core.superblock().root)?;
    let is_directory = root.node.kind == Kind::Directory;
    if is_directory { Ok(()) } else { Err(root.place.error("root inode", "no directory")) }
}

/// An open image.
struct Erofs {
    core: Core,
    prefixes: Vec<xattr::Prefix>,
    summary: Summary,
    directories: Cache<Arc<Directory>>,
    oddities: Oddities,
}

impl Erofs {
    /// The inode of a name.
    fn inode(&self, id: NodeId) -> Result<Arc<Inode>> {
        let inode = self.core.inode(id::nid(id))?;
        if id::is_stray(id) {
            return Err(inode.place.error("inode", "a directory that has another parent"));
        }
        if inode.node.id != id {
            let found = "not of the kind that the directory says";
            return Err(inode.place.error("inode", found));
        }
        Ok(inode)
    }

    fn directory(&self, id: NodeId) -> Result<Arc<Directory>> {
        let inode = self.inode(id)?;
        let number = inode.node.ino;
        if let Some(directory) = self.directories.find(number) {
            return Ok(directory);
        }
        let directory = Arc::new(directory::list(&self.core, &inode)?);
        self.oddities.add(number, &directory.listing.defects);
        Ok(self.directories.keep(number, directory.weight(), directory))
    }
}

impl Image for Erofs {
    fn summary(&self) -> &Summary {
        &self.summary
    }

    fn source(&self) -> &Arc<dyn Source> {
        &self.core.image().source
    }

    fn root(&self) -> NodeId {
        id::tagged(self.core.superblock().root, Kind::Directory)
    }

    fn node(&self, id: NodeId) -> Result<Node> {
        Ok(self.inode(id)?.node)
    }

    fn entries(&self, directory: NodeId) -> Result<Arc<[Entry]>> {
        Ok(Arc::clone(&self.directory(directory)?.listing.entries))
    }

    fn defects(&self, directory: NodeId) -> Result<Arc<[EntryDefect]>> {
        Ok(Arc::clone(&self.directory(directory)?.listing.defects))
    }

    fn lookup(&self, directory: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
        Ok(self.directory(directory)?.find(name))
    }

    fn link(&self, id: NodeId) -> Result<Vec<u8>> {
        let inode = self.inode(id)?;
        if inode.node.kind != Kind::Symlink {
            return Err(inode.place.error("inode", "no symbolic link"));
        }
        let size = inode.node.size;
        let len = usize::try_from(size).unwrap_or(usize::MAX);
        if !(1..=TARGET_MAX).contains(&len) {
            return Err(inode.place.error("symbolic link", format!("{size} bytes")));
        }
        let mut target = vec![0; len];
        self.core.content(&inode, 0, &mut target)?;
        if target.contains(&0) {
            return Err(inode.place.error("symbolic link", "a zero in its target"));
        }
        Ok(target)
    }

    fn xattrs(&self, id: NodeId) -> Result<Vec<Xattr>> {
        xattr::read(&self.core, &self.prefixes, self.inode(id)?.as_ref())
    }

    fn locate(&self, id: NodeId, offset: u64) -> Result<Block> {
        let inode = self.inode(id)?;
        if inode.node.kind != Kind::File {
            return Err(inode.place.error("inode", "no regular file"));
        }
        if offset >= inode.node.size {
            let found = format!("{} bytes, but byte {offset} is asked for", inode.node.size);
            return Err(inode.place.error("file size", found));
        }
        self.core.locate(&inode, offset)
    }

    fn decode(&self, block: &Block, raw: &[u8], upto: usize, content: &mut [u8]) -> Result<usize> {
        self.core.decode(block, raw, upto, content)
    }

    fn verify(&self) -> Result<Vec<String>> {
        let superblock = self.core.superblock();
        within(self.core.image().source.as_ref(), superblock.bytes())?;
        // Checked when the image was opened.
        let checksum = superblock.has_checksum().then(|| "checksum of the superblock".to_owned());
        Ok(checksum.into_iter().collect())
    }

    fn used(&self) -> Result<Vec<UsedBytes>> {
        used::fixed(self)
    }

    fn used_by(&self, id: NodeId) -> Result<Vec<UsedBytes>> {
        used::by(&self.core, self.inode(id)?.as_ref())
    }

    fn oddities(&self) -> Vec<String> {
        self.oddities.all()
    }
}

impl fmt::Debug for Erofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Erofs").field("superblock", self.core.superblock()).finish_non_exhaustive()
    }
}

fn summary(superblock: &Superblock, found: u64) -> Summary {
    let mut warnings = Vec::new();
    let expected = superblock.bytes();
    if found < expected {
        warnings.push(Error::Truncated { expected, found }.to_string());
    }
    let uuid = superblock.uuid.map(|byte| format!("{byte:02x}")).concat();
    let mut details = vec![("features", superblock.features().join(" ")), ("uuid", uuid)];
    if !superblock.volume.is_empty() {
        details.push(("volume", String::from_utf8_lossy(&superblock.volume).into_owned()));
    }
    let seconds = superblock.epoch.saturating_add(superblock.build_time.into());
    details.push(("built", format!("{} UTC", Time { seconds, nanos: 0 })));
    for (name, inode) in [("packed inode", superblock.packed), ("metabox", superblock.metabox)] {
        details.extend(inode.map(|inode| (name, inode.to_string())));
    }
    Summary {
        format: "erofs",
        bytes: expected,
        block_size: u32::try_from(superblock.block_size()).expect("64 KiB at most"),
        raw_max: superblock.raw_max,
        nodes: Some(superblock.inodes),
        codecs: codec_parameters::names(superblock.codecs),
        details,
        warnings,
    }
}

/// Memory for cached listings, in bytes. Of those larger than an eighth of this only the last one
/// is cached, in addition.
const DIRECTORIES_MAX: usize = 8 << 20;
/// The largest target of a symbolic link, in bytes, as Linux has it.
const TARGET_MAX: usize = 4095;
