//! cramfs: a tree without tables, and files of 4 KiB blocks.
//!
//! ```text
//!  [ 512 bytes for boot code ]
//!  superblock                       with the root's inode at its end
//!  [ a file for others, padded to 4 ]
//!  directories                      inode, name, inode, name, ...
//!  content                          for each file: block pointers, blocks, padding to 4
//! ```
//!
//! Nothing is indexed, so each directory is read as a whole and its names are sorted and cached
//! (`directory.rs`), and pointers are read and cached in pieces (`map.rs`). All caches are bounded,
//! to about 12 MiB together.
//!
//! A node is named by the place of its directory entry. The kernel takes the place of its content
//! instead, so that files of equal content share owner and mode; here they share only blocks.
//!
//! Times are not kept. The block size is not either: blocks are those of machines with 4 KiB pages.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cache::Cache;
use crate::codec::{self, Codec, Crc32, Failure};
use crate::error::{Error, Result};
use crate::image::{Block, Image, Options, Summary, UsedBytes};
use crate::listing::{EntryDefect, Oddities};
use crate::node::{Entry, Kind, Node, NodeId};
use crate::read;
use crate::source::Source;

mod directory;
mod layout;
mod map;
mod used;
pub mod write;

use directory::{Claims, Listing};
use layout::{
    BLOCK_LEN, BOOT_LEN, CRC_AT, INODE_LEN, Inode, Order, ROOT_AT, SIGNATURE, SUPERBLOCK_LEN,
    Superblock, flag,
};
use map::Map;

/// Inodes that are cached; each takes about 100 bytes.
const INODES_MAX: usize = 32 << 10;
/// Memory for cached directories, in bytes. Of those with more than an eighth of this only the last
/// one is cached, in addition.
const LISTED_MAX: usize = 8 << 20;
/// The longest target of a link, in bytes: a path of the kernel without its zero byte.
const LINK_MAX: u64 = 4095;

/// Opens an image of this format; none if it does not begin like one.
///
/// # Errors
///
/// If it begins like one and is invalid.
pub fn open(source: &Arc<dyn Source>, options: Options) -> Result<Option<Arc<dyn Image>>> {
    let Some((superblock, base, order)) = read_superblock(source.as_ref())? else {
        return Ok(None);
    };
    Ok(Some(Arc::new(Cramfs::new(source, superblock, base, order, options)?)))
}

/// What the superblock alone says of an image, whose end may be missing.
pub(crate) fn summary_of_superblock(source: &dyn Source) -> Result<Option<Summary>> {
    let found = read_superblock(source)?;
    Ok(found.map(|(superblock, base, order)| {
        let end = superblock.size.into();
        summary(&superblock, base, order, end, end)
    }))
}

/// The superblock, with its place and byte order; none if there is none.
fn read_superblock(source: &dyn Source) -> Result<Option<(Superblock, u64, Order)>> {
    let Some((base, order)) = find(source)? else { return Ok(None) };
    let found = source.len();
    let expected = base + SUPERBLOCK_LEN as u64;
    if found < expected {
        return Err(Error::Truncated { expected, found });
    }
    let mut bytes = [0; SUPERBLOCK_LEN];
    source.fill(&mut bytes, base)?;
    Ok(Some((Superblock::parse(&bytes, base, order)?, base, order)))
}

/// Where the superblock is, and in which byte order.
fn find(source: &dyn Source) -> Result<Option<(u64, Order)>> {
    for base in [0, BOOT_LEN] {
        let mut magic = [0; 4];
        if source.len() < base + magic.len() as u64 {
            break;
        }
        source.fill(&mut magic, base)?;
        if let Some(order) = Superblock::order(magic) {
            return Ok(Some((base, order)));
        }
    }
    Ok(None)
}

/// An open image.
struct Cramfs {
    source: Arc<dyn Source>,
    options: Options,
    summary: Summary,
    superblock: Superblock,
    /// Where the superblock is.
    base: u64,
    order: Order,
    root: NodeId,
    map: Map,
    inodes: Cache<Inode>,
    listings: Cache<Arc<Listing>>,
    claims: Mutex<Claims>,
    oddities: Oddities,
}

impl Cramfs {
    fn new(
        source: &Arc<dyn Source>,
        mut superblock: Superblock,
        base: u64,
        order: Order,
        options: Options,
    ) -> Result<Self> {
        check_flags(&superblock, base)?;
        let end = image_end(&superblock, base, source.len())?;
        check_root(&superblock, base, end)?;
        // Old writers left the permissions of the root out; the kernel completes them as well.
        superblock.root.mode |= 0o555;
        let extended = superblock.flags & flag::EXTENDED != 0;
        let cramfs = Self {
            source: Arc::clone(source),
            options,
            summary: summary(&superblock, base, order, end, source.len()),
            base,
            order,
            root: NodeId(base + ROOT_AT),
            map: Map::new(order, extended, end, options.lenient),
            inodes: Cache::new(INODES_MAX),
            listings: Cache::with_heavy(LISTED_MAX),
            claims: Mutex::default(),
            oddities: Oddities::default(),
            superblock,
        };
        // The root keeps its bytes before any other directory that claims them.
        let root = &cramfs.superblock.root;
        if root.content_len() > 0 {
            cramfs.lock_claims().claim(cramfs.root, &range(root))?;
        }
        Ok(cramfs)
    }

    fn inode(&self, id: NodeId) -> Result<Inode> {
        if id == self.root {
            return Ok(self.superblock.root);
        }
        if let Some(inode) = self.inodes.find(id.0) {
            return Ok(inode);
        }
        let at = id.0;
        let fits = at.checked_add(INODE_LEN as u64).is_some_and(|end| end <= self.map.end);
        if at < self.first_byte() || !at.is_multiple_of(4) || !fits {
            return Err(Error::field("node", at, "no inode can be here"));
        }
        let mut bytes = [0; INODE_LEN];
        self.source.fill(&mut bytes, at)?;
        let inode = Inode::parse(&mut self.order.reader(&bytes, at), self.order)?;
        Ok(self.inodes.keep(id.0, 1, inode))
    }

    fn kind(&self, id: NodeId, inode: &Inode) -> Result<Kind> {
        inode.kind().ok_or_else(|| {
            Error::field("mode", id.0, format!("{:o} is of no known type", inode.mode))
        })
    }

    /// The inode of a node that must be of a kind.
    fn inode_of(&self, id: NodeId, kind: Kind, wrong: &'static str) -> Result<Inode> {
        let inode = self.inode(id)?;
        if self.kind(id, &inode)? == kind {
            Ok(inode)
        } else {
            Err(Error::field("node", id.0, wrong))
        }
    }

    /// The entries of a directory, from the cache or the image.
    fn listing(&self, id: NodeId) -> Result<Arc<Listing>> {
        if let Some(listing) = self.listings.find(id.0) {
            return Ok(listing);
        }
        let inode = self.inode_of(id, Kind::Directory, "it is not a directory")?;
        let listing = Arc::new(self.read_listing(id, &inode)?);
        self.oddities.add(id.0, &listing.defects);
        let nodes = listing.entries.iter().map(|entry| entry.node).zip(listing.extras());
        // A directory that is too large would only push everything else out.
        for (node, inode) in nodes.take(INODES_MAX / 4) {
            self.inodes.keep(node.0, 1, *inode);
        }
        Ok(self.listings.keep(id.0, listing.weight, listing))
    }

    fn read_listing(&self, id: NodeId, inode: &Inode) -> Result<Listing> {
        if inode.content_len() == 0 {
            return directory::list(&[], 0, self.order, true);
        }
        let range = range(inode);
        self.check_directory(id, &range)?;
        self.lock_claims().claim(id, &range)?;
        // Below 16 MiB, and inside the image.
        let mut bytes = vec![0; usize::try_from(inode.content_len()).unwrap_or(0)];
        self.source.fill(&mut bytes, range.start)?;
        let sorted = self.superblock.flags & flag::SORTED != 0;
        let listing = directory::list(&bytes, range.start, self.order, sorted)?;
        self.lock_claims().count(id, &range, listing.entries.len() + listing.defects.len())?;
        Ok(listing)
    }

    fn check_directory(&self, id: NodeId, range: &Range<u64>) -> Result<()> {
        let (first, end) = (self.first_byte(), self.map.end);
        if range.start < first {
            let found = format!("its entries begin at byte {}, before byte {first}", range.start);
            return Err(Error::field("directory", id.0, found));
        }
        if range.end > end {
            let found = format!("its entries end at byte {}, beyond the image's {end}", range.end);
            return Err(Error::field("directory", id.0, found));
        }
        Ok(())
    }

    /// The first byte behind the superblock.
    const fn first_byte(&self) -> u64 {
        self.base + SUPERBLOCK_LEN as u64
    }

    fn lock_claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of a block that decodes to more than a full one, if it is otherwise valid.
fn other_block_size(raw: &[u8], len: usize) -> Option<String> {
    if len as u64 != BLOCK_LEN {
        return None;
    }
    let mut content = vec![0; OTHER_BLOCK_MAX];
    let len = codec::decode(Codec::Zlib, raw, content.len(), &mut content).ok()?;
    Some(format!("the block size is not {BLOCK_LEN}: this block decodes to {len} bytes"))
}

/// The largest page of a machine that writes images, in bytes.
const OTHER_BLOCK_MAX: usize = 64 << 10;

/// The bytes of a directory's entries.
fn range(inode: &Inode) -> Range<u64> {
    inode.offset()..inode.offset() + inode.content_len()
}

/// Whether bytes from a magic number on are a superblock: the signature is there, or the flags are
/// known and one of them says that it need not be.
pub(crate) fn is_superblock(bytes: &[u8]) -> bool {
    let order = bytes.first_chunk().and_then(|magic| Superblock::order(*magic));
    let parsed = order.and_then(|order| Superblock::parse(bytes, 0, order).ok());
    parsed.is_some_and(|it| it.signature == *SIGNATURE || check_flags(&it, 0).is_ok())
}

fn check_flags(superblock: &Superblock, base: u64) -> Result<()> {
    let known = flag::NAMES.iter().fold(flag::HARMLESS, |known, (bit, _)| known | bit);
    let unknown = superblock.flags & !known;
    if unknown != 0 {
        let what = format!("flag {:#x} of cramfs", 1_u32 << unknown.trailing_zeros());
        return Err(Error::Unsupported { what, offset: base + 8 });
    }
    if superblock.signature != *SIGNATURE && superblock.flags & flag::WRONG_SIGNATURE == 0 {
        let found = format!("`{}`", superblock.signature.escape_ascii());
        return Err(Error::field("signature", base + 16, found));
    }
    Ok(())
}

/// The number of bytes that belong to the image.
fn image_end(superblock: &Superblock, base: u64, found: u64) -> Result<u64> {
    if superblock.flags & flag::VERSION_2 == 0 {
        return Ok(found);
    }
    let (expected, first) = (u64::from(superblock.size), base + SUPERBLOCK_LEN as u64);
    if expected < first {
        let found = format!("{expected} bytes, but the superblock ends at byte {first}");
        return Err(Error::field("size", base + 4, found));
    }
    if expected > found {
        return Err(Error::Truncated { expected, found });
    }
    if superblock.files == 0 {
        return Err(Error::field("files", base + 44, "0, but the root is one"));
    }
    Ok(expected)
}

fn check_root(superblock: &Superblock, base: u64, end: u64) -> Result<()> {
    let root = &superblock.root;
    let (at, first) = (base + ROOT_AT, base + SUPERBLOCK_LEN as u64);
    if root.kind() != Some(Kind::Directory) {
        let found = format!("its mode {:o} is not that of a directory", root.mode);
        return Err(Error::field("root", at, found));
    }
    let offset = root.offset();
    let usual = [0, SUPERBLOCK_LEN as u64, BOOT_LEN + SUPERBLOCK_LEN as u64];
    if superblock.flags & flag::SHIFTED_ROOT == 0 && !usual.contains(&offset) {
        let found = format!("its entries begin at byte {offset}, but not one of {usual:?}");
        return Err(Error::field("root", at, found));
    }
    if offset == 0 && root.size != 0 {
        return Err(Error::field("root", at, format!("{} bytes of entries nowhere", root.size)));
    }
    let range = range(root);
    if root.content_len() > 0 && (range.start < first || range.end > end) {
        let found = format!("its entries, bytes {range:?}, are not between {first} and {end}");
        return Err(Error::field("root", at, found));
    }
    Ok(())
}

fn summary(superblock: &Superblock, base: u64, order: Order, end: u64, found: u64) -> Summary {
    let version_2 = superblock.flags & flag::VERSION_2 != 0;
    let named = flag::NAMES.iter().filter(|(bit, _)| superblock.flags & bit != 0);
    let flags: Vec<&str> = named.map(|(_, name)| *name).collect();
    let name = superblock.name.split(|byte| *byte == 0).next().unwrap_or_default();
    let order = if order.big_endian { "big-endian" } else { "little-endian" };
    let mut details = vec![
        ("byte order", order.to_owned()),
        ("superblock", format!("at byte {base}")),
        ("name", name.escape_ascii().to_string()),
        ("flags", format!("{:#05x} {}", superblock.flags, flags.join(" ")).trim().to_owned()),
        ("root entries", format!("at byte {}", superblock.root.offset())),
    ];
    let mut warnings = Vec::new();
    if version_2 {
        details.extend([
            ("edition", superblock.edition.to_string()),
            ("data blocks", superblock.blocks.to_string()),
            ("crc", format!("{:08x}", superblock.crc)),
        ]);
        if found > end {
            let more = found - end;
            warnings.push(format!("{more} bytes behind the end of the image, which are ignored"));
        }
    } else {
        warnings.push(format!("the image does not say its size: all {end} bytes are taken for it"));
    }
    Summary {
        format: "cramfs",
        bytes: end,
        block_size: 4096,
        raw_max: 4096,
        nodes: version_2.then_some(superblock.files.into()),
        codecs: vec!["zlib"],
        details,
        warnings,
    }
}

impl fmt::Debug for Cramfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cramfs").field("summary", &self.summary).finish_non_exhaustive()
    }
}

impl Image for Cramfs {
    fn summary(&self) -> &Summary {
        &self.summary
    }

    fn rules_out_xattrs(&self) -> bool {
        true
    }

    fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    fn root(&self) -> NodeId {
        self.root
    }

    fn node(&self, id: NodeId) -> Result<Node> {
        let inode = self.inode(id)?;
        let kind = self.kind(id, &inode)?;
        let (size, device) = match kind {
            Kind::File | Kind::Directory | Kind::Symlink => (inode.content_len(), (0, 0)),
            // The old form of a device number, of which writers keep 24 bits: eight too many.
            Kind::BlockDevice | Kind::CharDevice => {
                (0, (inode.size >> 8 & 0xff, inode.size & 0xff))
            }
            Kind::Fifo | Kind::Socket => (0, (0, 0)),
        };
        Ok(Node {
            id,
            ino: id.0,
            kind,
            permissions: inode.mode & 0o7777,
            uid: inode.uid.into(),
            gid: inode.gid.into(),
            size,
            blocks: size.div_ceil(512),
            links: 1,
            modified: None,
            device,
        })
    }

    fn entries(&self, directory: NodeId) -> Result<Arc<[Entry]>> {
        Ok(Arc::clone(&self.listing(directory)?.entries))
    }

    fn defects(&self, directory: NodeId) -> Result<Arc<[EntryDefect]>> {
        Ok(Arc::clone(&self.listing(directory)?.defects))
    }

    fn lookup(&self, directory: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
        let listing = self.listing(directory)?;
        let Some((entry, inode)) = listing.find(name) else { return Ok(None) };
        // A lookup is followed by a request for the inode.
        self.inodes.keep(entry.node.0, 1, *inode);
        Ok(Some(entry.node))
    }

    fn link(&self, id: NodeId) -> Result<Vec<u8>> {
        let inode = self.inode_of(id, Kind::Symlink, "it is not a symbolic link")?;
        let len = inode.content_len();
        if len == 0 || len > LINK_MAX {
            let found = format!("a target of {len} bytes, but 1 to {LINK_MAX} are possible");
            return Err(Error::field("symbolic link", id.0, found));
        }
        // A path at most.
        let mut target = vec![0; usize::try_from(len).unwrap_or(0)];
        // A truncated target in a lenient image is two blocks: the existing bytes, and zeros.
        let locate = |at| self.map.locate(&*self.source, id, &inode, at);
        read::fill(&*self.source, 0, &mut target, locate, |block, raw, upto, content| {
            self.decode(block, raw, upto, content)
        })?;
        if target.contains(&0) {
            return Err(Error::field("symbolic link", id.0, "a zero byte inside the target"));
        }
        Ok(target)
    }

    fn locate(&self, id: NodeId, offset: u64) -> Result<Block> {
        let inode = self.inode_of(id, Kind::File, "it is not a regular file")?;
        self.map.locate(&*self.source, id, &inode, offset)
    }

    fn decode(&self, block: &Block, raw: &[u8], _upto: usize, content: &mut [u8]) -> Result<usize> {
        let broken =
            |why: String| Error::Block { offset: block.raw.start, len: raw.len() as u64, why };
        // Blocks are so small that a part of one costs as much as the whole.
        let len = content.len();
        let there = codec::decode(Codec::Zlib, raw, len, content).map_err(|failure| {
            let longer = matches!(failure, Failure::Longer { .. });
            let other = if longer { other_block_size(raw, len) } else { None };
            broken(other.unwrap_or_else(|| failure.to_string()))
        })?;
        if there < len && !self.options.lenient {
            return Err(broken(format!("it decodes to {there} bytes instead of {len}")));
        }
        content[there..].fill(0);
        Ok(len)
    }

    fn verify(&self) -> Result<Vec<String>> {
        if self.superblock.flags & flag::VERSION_2 == 0 {
            return Ok(Vec::new());
        }
        let field = self.base + CRC_AT;
        let mut crc = Crc32::default();
        let mut piece = vec![0; VERIFY_PIECE];
        let mut at = self.base;
        while at < self.map.end {
            let len =
                usize::try_from(self.map.end - at).map_or(VERIFY_PIECE, |l| l.min(VERIFY_PIECE));
            let bytes = &mut piece[..len];
            self.source.fill(bytes, at)?;
            if at == self.base {
                // The superblock is in the first piece whole.
                bytes[CRC_RANGE].fill(0);
            }
            crc.update(bytes);
            at += len as u64;
        }
        let (said, found) = (self.superblock.crc, crc.value());
        if said != found && !cfg!(fuzzing) {
            let found = format!("{said:08x}, but that of the image is {found:08x}");
            return Err(Error::field("crc", field, found));
        }
        let bytes = self.map.end - self.base;
        Ok(vec![format!("crc {found:08x} of {bytes} bytes")])
    }

    fn used(&self) -> Result<Vec<UsedBytes>> {
        Ok(used::fixed(self))
    }

    fn used_by(&self, id: NodeId) -> Result<Vec<UsedBytes>> {
        used::by(self, id)
    }

    fn oddities(&self) -> Vec<String> {
        self.oddities.all()
    }
}

/// Bytes that are checked at once.
const VERIFY_PIECE: usize = 256 << 10;
/// The checksum in a superblock.
const CRC_RANGE: Range<usize> = 32..36;
