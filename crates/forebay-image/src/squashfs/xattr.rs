//! Extended attributes: a table of rows, each of which points to a list of names and values.
//!
//! ```text
//!   xattr table   8 start of the lists   4 rows   4 unused   places of the blocks of rows
//!   row           8 reference of the list   4 attributes   4 bytes
//!   attribute     2 prefix and flag   2 length, name without prefix   4 length, value
//! ```
//!
//! With the flag the value is eight bytes: a reference to where length and value really are.

use std::ops::Range;

use super::metadata::{Metadata, Place, Stream};
use super::table::{Shape, Table};
use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::node::Xattr;
use crate::source::Source;

/// Attributes of a node at most, as many as Linux can list: 64 KiB of names.
pub(super) const ATTRIBUTES_MAX: u32 = 1 << 13;
/// Bytes of a value at most, as in Linux.
pub(super) const VALUE_MAX: usize = 64 << 10;
/// Bytes of a name at most, as in Linux.
pub(super) const NAME_MAX: usize = 255;
/// Bytes of all names and values of a node at most.
pub(super) const BYTES_MAX: usize = 4 << 20;
/// Bytes of a row.
const ROW: usize = 16;
/// Bytes before the places.
const HEADER: u64 = 16;
/// Flag in the prefix: the value is elsewhere.
const ELSEWHERE: u16 = 0x100;

/// The table of an image.
#[derive(Debug)]
pub(super) struct Xattrs {
    /// Where the lists are in the image.
    lists: Range<u64>,
    rows: Table,
}

impl Xattrs {
    /// Reads the table's header at `table`. The lists begin at `least` or behind it.
    pub(super) fn read(source: &dyn Source, table: u64, least: u64, end: u64) -> Result<Self> {
        let mut header = [0; HEADER as usize];
        let list = table.saturating_add(HEADER);
        if list > end {
            return Err(Error::field("xattr table", table, format!("no room before {end}")));
        }
        source.fill(&mut header, table)?;
        let mut fields = Reader::new(&header, table);
        let start = fields.u64("xattr lists")?;
        let count = fields.u32("xattr rows")?;
        let shape = Shape { name: "xattr table", list, count, entry: ROW };
        if start < least || start > table {
            let found = format!("begin at {start}, not in {least}..={table}");
            return Err(Error::field("xattr lists", table, found));
        }
        let rows = Table::read(source, shape, start, end)?;
        // Without rows the place behind the table's own header would count as an end.
        let lists = start..rows.start().min(table);
        Ok(Self { lists, rows })
    }

    /// The bytes of the lists.
    pub(super) fn lists(&self) -> Range<u64> {
        self.lists.clone()
    }

    /// The table of rows.
    pub(super) const fn rows(&self) -> &Table {
        &self.rows
    }

    /// The bytes of the header before the places of the blocks of rows.
    pub(super) const fn header(&self) -> Range<u64> {
        let end = self.rows.list().start;
        end - HEADER..end
    }

    /// Where its first byte is in the image.
    pub(super) const fn start(&self) -> u64 {
        self.lists.start
    }

    /// The number of rows.
    pub(super) const fn count(&self) -> u32 {
        self.rows.count()
    }

    /// The attributes of a row.
    pub(super) fn of_row(&self, metadata: &Metadata, row: u32) -> Result<Vec<Xattr>> {
        let bytes: [u8; ROW] = self.rows.entry(metadata, row)?;
        let mut fields = Reader::new(&bytes, self.lists.end);
        let reference = fields.u64("xattr list")?;
        let count = fields.u32("xattr count")?;
        if count > ATTRIBUTES_MAX {
            let found = format!("{count} of one node, more than {ATTRIBUTES_MAX}");
            return Err(Error::field("xattr count", self.lists.end, found));
        }
        let mut xattrs = Vec::new();
        if count == 0 {
            return Ok(xattrs);
        }
        let mut list = self.stream(metadata, reference)?;
        let mut left = BYTES_MAX;
        for _ in 0..count {
            let xattr = self.read_one(metadata, &mut list)?;
            let len = xattr.name.len() + xattr.value.len();
            left = left.checked_sub(len).ok_or_else(|| Error::Unsupported {
                what: format!("a node with more than {BYTES_MAX} bytes of xattrs"),
                offset: list.block(),
            })?;
            xattrs.push(xattr);
        }
        Ok(xattrs)
    }

    /// What Linux adds to the space of a node with these attributes, in units of 512 bytes.
    pub(super) fn blocks_of_row(&self, metadata: &Metadata, row: u32) -> Result<u64> {
        let bytes: [u8; ROW] = self.rows.entry(metadata, row)?;
        let [.., a, b, c, d] = bytes;
        let size = u32::from_le_bytes([a, b, c, d]);
        Ok(u64::from(size).div_ceil(512))
    }

    fn read_one(&self, metadata: &Metadata, list: &mut Stream<'_>) -> Result<Xattr> {
        let at = list.block();
        let bytes: [u8; 4] = list.array()?;
        let mut fields = Reader::new(&bytes, at);
        let kind = fields.u16("xattr prefix")?;
        let len = usize::from(fields.u16("xattr name")?);
        let prefix: &[u8] = match kind & !ELSEWHERE {
            0 => b"user.",
            1 => b"trusted.",
            2 => b"security.",
            prefix => {
                return Err(Error::field("xattr prefix", at, format!("{prefix}, not in 0..=2")));
            }
        };
        if !(1..=NAME_MAX - prefix.len()).contains(&len) {
            return Err(Error::field("xattr name", at, format!("{len} bytes")));
        }
        let mut name = prefix.to_vec();
        name.resize(prefix.len() + len, 0);
        list.fill(&mut name[prefix.len()..])?;
        if name.contains(&0) {
            return Err(Error::field("xattr name", at, name.escape_ascii().to_string()));
        }
        let value = if kind & ELSEWHERE == 0 {
            read_value(list)?
        } else {
            let len = u32::from_le_bytes(list.array()?);
            if len != 8 {
                return Err(Error::field("xattr value", at, format!("a reference of {len} bytes")));
            }
            let reference = u64::from_le_bytes(list.array()?);
            read_value(&mut self.stream(metadata, reference)?)?
        };
        Ok(Xattr { name, value })
    }

    fn stream<'a>(&self, metadata: &'a Metadata, reference: u64) -> Result<Stream<'a>> {
        let place = Place::of_reference(reference, self.lists.start);
        metadata.stream(self.lists.clone(), place)
    }
}

fn read_value(stream: &mut Stream<'_>) -> Result<Vec<u8>> {
    let at = stream.block();
    let len = u32::from_le_bytes(stream.array()?) as usize;
    if len > VALUE_MAX {
        let found = format!("{len} bytes, more than {VALUE_MAX}");
        return Err(Error::field("xattr value", at, found));
    }
    let mut value = vec![0; len];
    stream.fill(&mut value)?;
    Ok(value)
}
