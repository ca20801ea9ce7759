//! Extended attributes: those behind an inode, and those that inodes share.
//!
//! ```text
//!   header, 12 bytes: 0 filter  4 number of shared ones  5 reserved
//!   shared ones:      4 bytes each, the place / 4 behind the shared attributes' block
//!   own ones:         0 length of the name  1 prefix  2 length of the value  4 name, value
//!                     each at a multiple of 4
//!   long prefixes:    0 length (16 bits)  2 prefix that it begins with  3 what follows
//!                     each at a multiple of 4, in the image or in the packed inode or the metabox
//! ```
//!
//! A prefix is the number of a namespace, or with its highest bit set that of a long prefix.

use std::ops::Range;

use crate::error::Result;
use crate::node::Xattr;

use super::core::Core;
use super::inode::Inode;
use super::metadata::MetadataReader;
use super::place::Place;
use super::superblock;

/// A long prefix: that of a namespace, and what follows.
pub(super) type Prefix = Vec<u8>;

/// The attributes of an inode.
pub(super) fn read(core: &Core, prefixes: &[Prefix], inode: &Inode) -> Result<Vec<Xattr>> {
    let mut xattrs = Vec::new();
    if inode.xattrs == 0 {
        return Ok(xattrs);
    }
    let begin = inode.place.plus(inode.len);
    let mut header = [0; HEADER];
    core.metadata(begin, &mut header, "xattrs")?;
    let shared = u64::from(header[4]);
    let own = HEADER as u64 + 4 * shared;
    if own > inode.xattrs {
        let found = format!("{shared} shared ones in {} bytes", inode.xattrs);
        return Err(begin.error("xattrs", found));
    }
    let mut at = own;
    while at < inode.xattrs {
        let place = begin.plus(at);
        let entry = Head::read(core, place)?;
        if entry.len() > inode.xattrs - at {
            let found = format!("{} bytes, {} are left", entry.len(), inode.xattrs - at);
            return Err(place.error("xattr", found));
        }
        xattrs.extend(entry.xattr(core, prefixes)?);
        at += entry.len();
    }
    for entry in shared_heads(core, begin, shared) {
        xattrs.extend(entry?.xattr(core, prefixes)?);
    }
    Ok(xattrs)
}

/// The shared attributes of an inode whose header lies at a place.
fn shared_heads(core: &Core, begin: Place, count: u64) -> impl Iterator<Item = Result<Head>> {
    let metabox = core.superblock().compatible & superblock::SHARED_IN_METABOX != 0
        && core.superblock().metabox.is_some();
    (0..count).map(move |number| {
        let mut id = [0; 4];
        core.metadata(begin.plus(HEADER as u64 + 4 * number), &mut id, "shared xattr")?;
        let at = core.superblock().shared_xattrs + 4 * u64::from(u32::from_le_bytes(id));
        Head::read(core, Place { at, metabox })
    })
}

/// Where the attributes are that an inode shares, and their bytes.
pub(super) fn shared(core: &Core, inode: &Inode) -> Result<Vec<(Place, u64)>> {
    if inode.xattrs == 0 {
        return Ok(Vec::new());
    }
    let begin = inode.place.plus(inode.len);
    let mut header = [0; HEADER];
    core.metadata(begin, &mut header, "xattrs")?;
    let heads = shared_heads(core, begin, u64::from(header[4]));
    heads.map(|head| head.map(|head| (head.place, head.len()))).collect()
}

/// Where the long prefixes are, if not in another inode.
pub(super) fn plain_prefixes(core: &Core) -> Result<Option<Range<u64>>> {
    let superblock = core.superblock();
    let is_plain = superblock.compatible & superblock::PLAIN_PREFIXES != 0
        || superblock.metabox.or(superblock.packed).is_none();
    if superblock.prefixes == 0 || !is_plain {
        return Ok(None);
    }
    let (start, mut end) = (superblock.prefixes_at, superblock.prefixes_at);
    for _ in 0..superblock.prefixes {
        let mut len = [0; 2];
        core.metadata(Place { at: end, metabox: false }, &mut len, "xattr prefix")?;
        end = (end + 2 + u64::from(u16::from_le_bytes(len))).next_multiple_of(4);
    }
    Ok(Some(start..end))
}

/// An attribute, up to its name.
#[derive(Clone, Copy, Debug)]
struct Head {
    place: Place,
    name: u8,
    prefix: u8,
    value: u16,
}

impl Head {
    fn read(core: &Core, place: Place) -> Result<Self> {
        let mut head = [0; 4];
        core.metadata(place, &mut head, "xattr")?;
        let value = u16::from_le_bytes([head[2], head[3]]);
        Ok(Self { place, name: head[0], prefix: head[1], value })
    }

    /// Bytes up to the next one.
    fn len(&self) -> u64 {
        (4 + u64::from(self.name) + u64::from(self.value)).next_multiple_of(4)
    }

    /// The attribute; none if its namespace is not known, as for bytes kept free.
    fn xattr(&self, core: &Core, prefixes: &[Prefix]) -> Result<Option<Xattr>> {
        let prefix = if self.prefix & LONG != 0 {
            let number = usize::from(self.prefix & !LONG);
            prefixes.get(number).map(Vec::as_slice).ok_or_else(|| {
                self.place.error("xattr", format!("there is no long prefix {number}"))
            })?
        } else if let Some(prefix) = namespace(self.prefix) {
            prefix
        } else {
            return Ok(None);
        };
        let mut name = prefix.to_vec();
        name.resize(prefix.len() + usize::from(self.name), 0);
        core.metadata(self.place.plus(4), &mut name[prefix.len()..], "xattr name")?;
        if name.is_empty() || name.contains(&0) {
            let found = format!("{:?}", String::from_utf8_lossy(&name));
            return Err(self.place.error("xattr name", found));
        }
        let mut value = vec![0; usize::from(self.value)];
        core.metadata(self.place.plus(4 + u64::from(self.name)), &mut value, "xattr value")?;
        Ok(Some(Xattr { name, value }))
    }
}

/// The long prefixes of an image.
pub(super) fn prefixes(core: &Core) -> Result<Vec<Prefix>> {
    let superblock = core.superblock();
    let plain = superblock.compatible & superblock::PLAIN_PREFIXES != 0;
    let holder = superblock.metabox.or(superblock.packed).filter(|_| !plain);
    let mut prefixes = Vec::new();
    if superblock.prefixes == 0 {
        return Ok(prefixes);
    }
    let holder = holder.map(|nid| core.inode(nid)).transpose()?;
    let read = |at: u64, buffer: &mut [u8]| {
        let place = Place { at, metabox: false };
        let Some(inode) = &holder else {
            return core.metadata(place, buffer, "xattr prefix");
        };
        if at.saturating_add(buffer.len() as u64) > inode.node.size {
            return Err(inode.place.error("xattr prefix", format!("lies at byte {at} of it")));
        }
        core.content(inode, at, buffer)
    };
    let mut at = superblock.prefixes_at;
    for _ in 0..superblock.prefixes {
        let mut head = [0; 3];
        read(at, &mut head)?;
        let len = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let place = holder.as_ref().map_or(Place { at, metabox: false }, |inode| inode.place);
        let base = namespace(head[2]).filter(|_| (1..=PREFIX_MAX).contains(&len));
        let Some(base) = base else {
            let found = format!("namespace {}, {len} bytes", head[2]);
            return Err(place.error("xattr prefix", found));
        };
        let mut prefix = base.to_vec();
        prefix.resize(base.len() + len - 1, 0);
        read(at + 3, &mut prefix[base.len()..])?;
        prefixes.push(prefix);
        at = (at + 2 + len as u64).next_multiple_of(4);
    }
    Ok(prefixes)
}

/// What names of a namespace begin with.
const fn namespace(number: u8) -> Option<&'static [u8]> {
    Some(match number {
        1 => b"user.",
        2 => b"system.posix_acl_access",
        3 => b"system.posix_acl_default",
        4 => b"trusted.",
        5 => b"lustre.",
        6 => b"security.",
        _ => return None,
    })
}

const HEADER: usize = 12;
/// The number of a long prefix, rather than of a namespace.
const LONG: u8 = 0x80;
/// Bytes of a long prefix at most, its namespace's number included.
const PREFIX_MAX: usize = 256;
