//! squashfs 4.0: blocks of up to 1 MiB, tails in shared fragments, metadata packed as well.
//!
//! ```text
//!   superblock | options | blocks and fragments | inodes | directories
//!              | fragment table | export table | id table | xattrs | padding
//! ```
//!
//! A node is named by the reference of its inode, which hard links share. This is a reader of our
//! own, since `backhand` reads files as streams only and `lamfold-squash` neither tells where a
//! block lies nor knows xattrs, so that neither serves `locate` and `decode`.
//!
//! Memory is bounded: 4 MiB of decoded metadata, 4 MiB of inodes with their maps, and 16 MiB of
//! listings with the last one that is too large for that, in addition to the positions of the
//! tables' blocks.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::cache::Cache;
use crate::codec;
use crate::error::{Error, Result};
use crate::image::{Block, Coding, Image, Options, Summary, UsedBytes};
use crate::listing::{EntryDefect, EntryTarget, Oddities, wrong_name};
use crate::node::{Entry, Node, NodeId, Xattr};
use crate::source::Source;

mod directory;
mod inode;
mod kind;
mod layout;
mod lookup;
mod map;
mod metadata;
mod summary;
mod table;
mod used;
mod verify;
mod xattr;

use directory::{Directory, Index, Named, Walk};
use inode::{Around, Content, Inode, Tail};
use layout::{METADATA_LEN, NO_TABLE, Superblock};
use lookup::Listing;
use map::Word;
use metadata::{Metadata, Place, Stream};
use table::{Shape, Table};
use xattr::Xattrs;

/// Decoded inodes in memory, in bytes.
const INODE_CACHE: usize = 4 << 20;
/// Memory for cached listings, in bytes. Of those larger than an eighth of this only the last one
/// is cached, in addition.
const LISTING_CACHE: usize = 16 << 20;
/// In a directory of more bytes than this a name is looked up by the index, unless the listing is
/// in memory already.
const LISTED_MAX: u32 = 256 << 10;

/// Opens an image of this format; none if it does not begin like one.
///
/// # Errors
///
/// If it begins like one and is invalid.
pub fn open(source: &Arc<dyn Source>, options: Options) -> Result<Option<Arc<dyn Image>>> {
    let image = Squashfs::open(source, options)?;
    Ok(image.map(|image| Arc::new(image) as Arc<dyn Image>))
}

/// What the superblock alone says of an image, whose end may be missing.
pub(crate) fn summary_of_superblock(source: &dyn Source) -> Result<Option<Summary>> {
    let superblock = Superblock::read(source)?;
    Ok(superblock.map(|superblock| summary::of_superblock(&superblock)))
}

/// An open image.
pub struct Squashfs {
    source: Arc<dyn Source>,
    options: Options,
    superblock: Superblock,
    metadata: Metadata,
    /// The bytes of the image that the table takes.
    inode_table: Range<u64>,
    directory_table: Range<u64>,
    ids: Box<[u32]>,
    id_table: Table,
    fragments: Table,
    exports: Option<Table>,
    xattrs: Option<Xattrs>,
    inodes: Cache<Arc<Inode>>,
    listings: Cache<Arc<Listing>>,
    oddities: Oddities,
    summary: Summary,
}

impl Squashfs {
    /// Opens an image; none if it does not begin like squashfs.
    ///
    /// # Errors
    ///
    /// If the superblock, the list of a table, an id or the root directory is invalid.
    pub fn open(source: &Arc<dyn Source>, options: Options) -> Result<Option<Self>> {
        let Some(superblock) = Superblock::read(source.as_ref())? else {
            return Ok(None);
        };
        let (expected, found) = (superblock.bytes, source.len());
        if expected > found {
            return Err(Error::Truncated { expected, found });
        }
        let metadata = Metadata::new(Arc::clone(source), superblock.compressor.codec());
        let bytes: &dyn Source = source.as_ref();
        // From the end to the beginning: each table ends where the one behind it begins.
        let mut end = superblock.bytes;
        let mut xattrs = None;
        if superblock.xattr_table != NO_TABLE {
            let table = Xattrs::read(bytes, superblock.xattr_table, superblock.id_table, end)?;
            end = table.start();
            xattrs = Some(table);
        }
        let least = superblock.directory_table;
        let mut read = |name, list, count, entry| {
            let table = Table::read(bytes, Shape { name, list, count, entry }, least, end)?;
            end = table.start();
            Ok::<_, Error>(table)
        };
        let id_table = read("id table", superblock.id_table, superblock.ids.into(), 4)?;
        let mut exports = None;
        if superblock.export_table != NO_TABLE {
            exports = Some(read("export table", superblock.export_table, superblock.inodes, 8)?);
        }
        let has_fragments = superblock.fragments > 0;
        let list = if has_fragments { superblock.fragment_table } else { end };
        let fragments = Table::read(
            bytes,
            Shape { name: "fragment table", list, count: superblock.fragments, entry: 16 },
            least,
            end,
        )?;
        let mut image = Self {
            source: Arc::clone(source),
            options,
            inode_table: superblock.inode_table..superblock.directory_table,
            directory_table: superblock.directory_table..fragments.start(),
            ids: read_ids(&id_table, &metadata)?,
            id_table,
            metadata,
            fragments,
            exports,
            xattrs,
            inodes: Cache::new(INODE_CACHE),
            listings: Cache::with_heavy(LISTING_CACHE),
            oddities: Oddities::default(),
            summary: Summary::default(),
            superblock,
        };
        image.directory(image.root())?;
        image.summary = summary::of(&image)?;
        Ok(Some(image))
    }

    /// The node of an inode number; none if there is no such number, or no table of them.
    ///
    /// # Errors
    ///
    /// If the table is invalid where the number is.
    pub fn node_of_ino(&self, ino: u64) -> Result<Option<NodeId>> {
        let Some(table) = &self.exports else { return Ok(None) };
        let Some(index) = ino.checked_sub(1).and_then(|index| u32::try_from(index).ok()) else {
            return Ok(None);
        };
        if index >= table.count() {
            return Ok(None);
        }
        let reference = u64::from_le_bytes(table.entry(&self.metadata, index)?);
        Ok(Some(NodeId(reference)))
    }

    fn inode(&self, id: NodeId) -> Result<Arc<Inode>> {
        if let Some(inode) = self.inodes.find(id.0) {
            return Ok(inode);
        }
        let place = Place::of_reference(id.0, self.inode_table.start);
        let around = Around {
            ids: &self.ids,
            block_size: self.superblock.block_size,
            directories: self.directory_table.start,
            table_len_max: decoded_len_max(&self.inode_table),
        };
        let mut inode = Inode::read(id, &mut self.inode_stream(place)?, around)?;
        if let (Some(xattrs), Some(row)) = (&self.xattrs, inode.xattr) {
            // A row that cannot be read is an error of the attributes, and not of the node.
            inode.node.blocks += xattrs.blocks_of_row(&self.metadata, row).unwrap_or(0);
        }
        let inode = Arc::new(inode);
        Ok(self.inodes.keep(id.0, inode.weight(), inode))
    }

    fn inode_stream(&self, place: Place) -> Result<Stream<'_>> {
        self.metadata.stream(self.inode_table.clone(), place)
    }

    /// A directory, which must be one.
    fn directory(&self, id: NodeId) -> Result<Directory> {
        let inode = self.inode(id)?;
        match &inode.content {
            Content::Directory(directory) => Ok(*directory),
            Content::File { .. } | Content::Symlink(_) | Content::Special => {
                Err(wrong_kind(&inode, "directory"))
            }
        }
    }

    /// A walk over the entries of a directory from some run on; none if it is empty.
    fn walk(&self, place: Place, bytes: u32) -> Result<Option<Walk<'_>>> {
        if bytes == 0 {
            return Ok(None);
        }
        let stream = self.metadata.stream(self.directory_table.clone(), place)?;
        Ok(Some(Walk::new(stream, bytes)))
    }

    fn listing(&self, id: NodeId) -> Result<Arc<Listing>> {
        let directory = self.directory(id)?;
        if let Some(listing) = self.listings.find(id.0) {
            return Ok(listing);
        }
        if directory.bytes > directory::BYTES_MAX {
            let what = format!("a directory of {} bytes", directory.bytes);
            return Err(Error::Unsupported { what, offset: directory.place.block });
        }
        let listing = Arc::new(lookup::list(self, &directory)?);
        self.oddities.add(self.inode(id)?.node.ino, &listing.defects);
        Ok(self.listings.keep(id.0, listing.weight, listing))
    }

    /// The index of a directory; none if it has none or it is not where it should be.
    fn index(&self, directory: &Directory) -> Option<Index<'_>> {
        let (place, count) = directory.index?;
        Some(Index::new(self.inode_stream(place).ok()?, count))
    }

    /// Looks a name up as Linux does, without the listing.
    fn search(&self, directory: &Directory, name: &[u8]) -> Result<Option<Named>> {
        let (mut place, mut before) = (directory.place, 0);
        if let Some(index) = self.index(directory) {
            (place, before) = directory.seek(name, self.directory_table.start, index);
        }
        let left = directory.bytes.saturating_sub(before);
        let Some(mut walk) = self.walk(place, left)? else { return Ok(None) };
        let mut buffer = [0; directory::NAME_MAX];
        while let Some((here, named)) = walk.next(&mut buffer)? {
            // Only the first bytes say that the name cannot follow.
            if here[0] > name[0] {
                break;
            }
            if here == name {
                return Ok(named.target.kind.is_some().then_some(named));
            }
        }
        Ok(None)
    }

    /// The inode of an entry, which must be what the entry says.
    fn named(&self, named: Named) -> Result<Arc<Inode>> {
        let inode = self.inode(named.node)?;
        let found = EntryTarget { ino: inode.node.ino, kind: Some(inode.node.kind) };
        if found != named.target {
            let found = format!("{found}, but its directory says {}", named.target);
            return Err(Error::field("inode type and number", inode.at, found));
        }
        Ok(inode)
    }

    /// The tail of a file in its fragment.
    fn locate_tail(&self, tail: Tail, plain: Range<u64>) -> Result<Block> {
        let bytes: [u8; 16] = self.fragments.entry(&self.metadata, tail.fragment)?;
        let at = self.superblock.fragment_table;
        let mut fields = crate::bytes::Reader::new(&bytes, at);
        let start = fields.u64("fragment start")?;
        let word = Word(fields.u32("fragment length")?);
        let block_size = self.superblock.block_size;
        if word.is_hole() || !word.is_valid(block_size) {
            let found = format!("{:#x} in blocks of {block_size} bytes", word.0);
            return Err(Error::field("fragment length", at, found));
        }
        let raw = self.raw(start, word)?;
        let room = if word.is_stored() { word.len() } else { block_size };
        let end = u64::from(tail.inside) + (plain.end - plain.start);
        if end > room.into() {
            let found = format!("a tail that ends at {end} of {room} bytes");
            return Err(Error::field("file fragment offset", raw.start, found));
        }
        let (coding, decoded) = coding(word, block_size);
        Ok(Block { plain, raw, coding, decoded, inside: tail.inside, variant: FRAGMENT })
    }

    /// The raw bytes of a block, which must lie inside the image.
    fn raw(&self, start: u64, word: Word) -> Result<Range<u64>> {
        let data = self.superblock.data();
        let end = start.checked_add(word.len().into()).filter(|end| *end <= data.end);
        let Some(end) = end.filter(|_| start >= data.start) else {
            let found = format!("{} raw bytes, not in {data:?}", word.len());
            return Err(Error::field("block of data", start, found));
        };
        Ok(start..end)
    }
}

impl Image for Squashfs {
    fn summary(&self) -> &Summary {
        &self.summary
    }

    fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    fn root(&self) -> NodeId {
        NodeId(self.superblock.root)
    }

    fn node(&self, id: NodeId) -> Result<Node> {
        Ok(self.inode(id)?.node)
    }

    fn entries(&self, directory: NodeId) -> Result<Arc<[Entry]>> {
        Ok(Arc::clone(&self.listing(directory)?.entries))
    }

    fn lookup(&self, directory: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
        let found = self.directory(directory)?;
        if wrong_name(name).is_some() {
            return Ok(None);
        }
        let named = match self.listings.find(directory.0) {
            Some(listing) => lookup::named(&listing, name),
            None if found.bytes > LISTED_MAX => self.search(&found, name)?,
            None => lookup::named(&*self.listing(directory)?, name),
        };
        named.map(|named| Ok(self.named(named)?.node.id)).transpose()
    }

    fn link(&self, id: NodeId) -> Result<Vec<u8>> {
        let inode = self.inode(id)?;
        let Content::Symlink(place) = inode.content else {
            return Err(wrong_kind(&inode, "symlink"));
        };
        let len = usize::try_from(inode.node.size).expect("checked when the inode was read");
        let mut target = vec![0; len];
        self.inode_stream(place)?.fill(&mut target)?;
        if target.contains(&0) {
            let found = target.escape_ascii().to_string();
            return Err(Error::field("symlink target", place.block, found));
        }
        Ok(target)
    }

    fn rules_out_xattrs(&self) -> bool {
        self.xattrs.is_none()
    }

    fn xattrs(&self, id: NodeId) -> Result<Vec<Xattr>> {
        let inode = self.inode(id)?;
        match (&self.xattrs, inode.xattr) {
            (_, None) => Ok(Vec::new()),
            (Some(xattrs), Some(row)) => xattrs.of_row(&self.metadata, row),
            (None, Some(row)) => {
                let found = format!("row {row}, but there is no xattr table");
                Err(Error::field("inode xattr", inode.at, found))
            }
        }
    }

    fn locate(&self, id: NodeId, offset: u64) -> Result<Block> {
        let inode = self.inode(id)?;
        let Content::File { map, tail } = &inode.content else {
            return Err(wrong_kind(&inode, "file"));
        };
        let (size, block_size) = (inode.node.size, self.superblock.block_size);
        if offset >= size {
            return Err(Error::field("file size", inode.at, format!("{size}, not above {offset}")));
        }
        let index = offset / u64::from(block_size);
        let start = index * u64::from(block_size);
        let plain = start..size.min(start + u64::from(block_size));
        if let (Some(tail), true) = (tail, index == map.blocks()) {
            return self.locate_tail(*tail, plain);
        }
        let found = match map.known(index) {
            Some(found) => found,
            None => map.find(index, |place| self.inode_stream(place))?,
        };
        if found.word.is_hole() {
            return Ok(Block::hole(plain));
        }
        let raw = self.raw(found.start, found.word)?;
        let len = u32::try_from(plain.end - plain.start).expect("a block at most");
        if found.word.is_stored() && found.word.len() != len {
            let says = format!("{} stored bytes for {len} of content", found.word.len());
            return Err(Error::field("length of a block", raw.start, says));
        }
        let (coding, decoded) = coding(found.word, len);
        Ok(Block { plain, raw, coding, decoded, inside: 0, variant: 0 })
    }

    fn decode(&self, block: &Block, raw: &[u8], upto: usize, content: &mut [u8]) -> Result<usize> {
        let failed =
            |why: String| Error::Block { offset: block.raw.start, len: raw.len() as u64, why };
        let codec = self.superblock.compressor.codec();
        let len = content.len().min(block.decoded as usize);
        let content = &mut content[..len];
        let there = codec::decode(codec, raw, upto.min(len), content)
            .map_err(|failure| failed(failure.into()))?;
        // A fragment may hold less than its maximum: a caller that requests more gets the existing
        // bytes.
        let least = if block.variant == FRAGMENT { 0 } else { upto.min(len) };
        if there >= least {
            return Ok(there);
        }
        if self.options.lenient {
            content[there..].fill(0);
            return Ok(len);
        }
        Err(failed(format!("it decodes to {there} bytes, not to {least}")))
    }

    fn verify(&self) -> Result<Vec<String>> {
        verify::verify(self)
    }

    fn defects(&self, directory: NodeId) -> Result<Arc<[EntryDefect]>> {
        Ok(Arc::clone(&self.listing(directory)?.defects))
    }

    fn used(&self) -> Result<Vec<UsedBytes>> {
        used::fixed(self)
    }

    fn used_by(&self, _id: NodeId) -> Result<Vec<UsedBytes>> {
        Ok(Vec::new())
    }

    fn oddities(&self) -> Vec<String> {
        self.oddities.all()
    }
}

impl fmt::Debug for Squashfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Squashfs").field("superblock", &self.superblock).finish_non_exhaustive()
    }
}

/// All ids, of which there are 65535 at most.
fn read_ids(table: &Table, metadata: &Metadata) -> Result<Box<[u32]>> {
    (0..table.count()).map(|index| Ok(u32::from_le_bytes(table.entry(metadata, index)?))).collect()
}

/// How a block that is no hole is decoded, and to how many bytes at most.
const fn coding(word: Word, len: u32) -> (Coding, u32) {
    if word.is_stored() { (Coding::Stored, 0) } else { (Coding::Packed, len) }
}

/// The most that metadata in some bytes of an image can decode to: a packed block has a raw byte
/// and a header at least.
const fn decoded_len_max(table: &Range<u64>) -> u64 {
    let blocks = (table.end - table.start).div_ceil(layout::METADATA_HEADER + 1);
    blocks.saturating_mul(METADATA_LEN as u64)
}

fn wrong_kind(inode: &Inode, wanted: &'static str) -> Error {
    Error::field("inode type", inode.at, format!("{:?}, not a {wanted}", inode.node.kind))
}

/// The variant of a block that may decode to less than it says: a fragment, whose length is kept
/// nowhere.
const FRAGMENT: u64 = 1;
