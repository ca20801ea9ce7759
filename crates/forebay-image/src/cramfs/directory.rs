//! Directories: the entries of one, and which bytes belong to which.
//!
//! A directory is a list of entries without an index. Linux reads it from the beginning until it
//! meets the name, or, if a flag says that names are sorted, one behind it.
//!
//! A crafted image can have a directory contain itself, or have many share one list, so that the
//! tree has no end. Therefore each directory *claims* the bytes of its entries when it is first
//! read, and a directory that overlaps the claim of another is refused. So every entry is in one
//! directory, and the tree is no larger than the image. In an image where two overlap it is the one
//! that is read first that can be read.

use std::collections::BTreeMap;
use std::ops::Range;

use super::layout::{INODE_LEN, Inode, Order};
use crate::error::{Error, Result};
use crate::listing::{EntryTarget, Lookup, Promise, Stored, wrong_name};
use crate::node::NodeId;

/// Entries of all directories that can be read of one image.
pub(super) const ENTRIES_MAX: usize = 1 << 20;
/// Bytes of a name of 253 bytes and more, with its padding. Its length in words is one more than
/// the field for it can say, so that writers that do not look store 0.
const LONG_NAME: usize = 256;
const LONG_NAME_DEFECT: &str =
    "the format has no length for names above 252 bytes; Linux shows nothing from here on";

/// The entries of a directory; each with its inode.
pub(super) type Listing = crate::listing::Listing<Inode>;

/// The entries in `bytes`, which begin at `base` of the image and are `sorted` if they are as the
/// image says.
///
/// # Errors
///
/// If an entry does not fit in: nothing behind it can be found.
pub(super) fn list(bytes: &[u8], base: u64, order: Order, sorted: bool) -> Result<Listing> {
    let mut fields = order.reader(bytes, base);
    let mut stored = Vec::new();
    let mut search = Search { sorted, ..Search::default() };
    let mut is_found = Vec::new();
    while fields.left() > 0 {
        let at = fields.offset();
        if fields.left() < INODE_LEN {
            return Err(invalid(at, format!("{} bytes are left for it", fields.left())));
        }
        let inode = Inode::parse(&mut fields, order)?;
        let begin = bytes.len() - fields.left();
        let len = if inode.name_len() == 0 && is_long(&bytes[begin..]) {
            LONG_NAME
        } else {
            inode.name_len()
        };
        if fields.left() < len {
            return Err(invalid(
                at,
                format!("a name of {len} bytes, but {} are left", fields.left()),
            ));
        }
        let padded = fields.take(len, "name")?;
        let name = &padded[..padded.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)];
        let is_long = len > inode.name_len();
        is_found.push(!is_long && search.passes(name));
        let target = EntryTarget { ino: at, kind: inode.kind() };
        stored.push(Stored { name: name.to_vec(), node: NodeId(at), target, extra: inode });
    }
    let found = is_found.iter().all(|found| *found);
    let promise = Promise { sorted, found, name_max: LONG_NAME - 1, dots: None };
    Ok(Listing::new(stored, promise, |stored, place| {
        if stored[place].name.len() > LONG_NAME - 4 {
            Lookup::Refused(LONG_NAME_DEFECT)
        } else if is_found[place] {
            Lookup::At(place)
        } else {
            Lookup::Nothing
        }
    }))
}

/// Whether a name with its padding begins here that is too long for its length field.
fn is_long(bytes: &[u8]) -> bool {
    let Some(padded) = bytes.get(..LONG_NAME) else { return false };
    let len = padded.iter().position(|byte| *byte == 0).unwrap_or(LONG_NAME);
    let is_padded = padded[len..].iter().all(|byte| *byte == 0);
    (LONG_NAME - 3..LONG_NAME).contains(&len) && is_padded && wrong_name(&padded[..len]).is_none()
}

/// What Linux meets before it comes to a name.
#[derive(Default)]
struct Search<'a> {
    /// Whether the image says that names are sorted: a lookup ends at a name that is greater.
    sorted: bool,
    /// The greatest first byte so far.
    first: u8,
    /// The greatest name of each length so far.
    greatest: BTreeMap<usize, &'a [u8]>,
}

impl<'a> Search<'a> {
    /// Whether Linux would find a name at this position. An empty name, at which it stops, hides no
    /// other.
    fn passes(&mut self, name: &'a [u8]) -> bool {
        let Some(first) = name.first() else { return false };
        let greatest = self.greatest.entry(name.len()).or_insert(name);
        let is_hidden = self.sorted && (*first < self.first || name < *greatest);
        *greatest = name.max(*greatest);
        self.first = self.first.max(*first);
        !is_hidden
    }
}

fn invalid(entry_at: u64, found: impl Into<String>) -> Error {
    Error::field("directory entry", entry_at, found)
}

/// Which bytes of the image belong to which directory.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// By the first byte. No two overlap.
    by_start: BTreeMap<u64, Claim>,
    /// Of all directories that were read.
    entries: usize,
}

#[derive(Debug)]
struct Claim {
    end: u64,
    owner: NodeId,
    entries: usize,
}

impl Claims {
    /// Gives the bytes of a directory's entries to it.
    ///
    /// # Errors
    ///
    /// If another directory has some of them.
    pub(super) fn claim(&mut self, owner: NodeId, range: &Range<u64>) -> Result<()> {
        if let Some((start, other)) = self.overlapping(range) {
            if other.owner != owner {
                let found = format!(
                    "its entries at bytes {} to {} overlap those of the directory at byte {}",
                    range.start, range.end, other.owner.0,
                );
                return Err(Error::field("directory", owner.0, found));
            }
            if (start, other.end) == (range.start, range.end) {
                return Ok(());
            }
            // The image changed under us.
            self.entries -= other.entries;
            self.by_start.remove(&start);
            return self.claim(owner, range);
        }
        self.by_start.insert(range.start, Claim { end: range.end, owner, entries: 0 });
        Ok(())
    }

    /// Counts the entries of a directory that has its claim.
    ///
    /// # Errors
    ///
    /// If those of all directories are too many.
    pub(super) fn count(
        &mut self,
        owner: NodeId,
        range: &Range<u64>,
        entries: usize,
    ) -> Result<()> {
        let Some(claim) = self.by_start.get_mut(&range.start) else { return Ok(()) };
        let all = self.entries - claim.entries + entries;
        if all > ENTRIES_MAX {
            let found = format!("with its {entries} entries more than {ENTRIES_MAX} were read");
            return Err(Error::field("directory", owner.0, found));
        }
        (claim.entries, self.entries) = (entries, all);
        Ok(())
    }

    /// The last claim that has one of these bytes.
    fn overlapping(&self, range: &Range<u64>) -> Option<(u64, &Claim)> {
        let (start, claim) = self.by_start.range(..range.end).next_back()?;
        (claim.end > range.start).then_some((*start, claim))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITTLE: Order = Order { big_endian: false };
    const FILE: u16 = 0o100_644;

    fn entry(mode: u16, padded_name: &[u8]) -> Vec<u8> {
        let name_words = u32::try_from(padded_name.len() / 4).unwrap();
        let inode = Inode { mode, name_words, ..Inode::default() };
        [&inode.to_bytes(LITTLE), padded_name].concat()
    }

    fn parse(bytes: &[u8]) -> Result<Listing> {
        list(bytes, 100, LITTLE, true)
    }

    fn shown(listing: &Listing) -> Vec<&[u8]> {
        listing.entries.iter().map(|entry| &entry.name[..]).collect()
    }

    fn said(listing: &Listing) -> Vec<String> {
        listing.defects.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_lose_their_padding_and_nothing_else() {
        for (padded, name) in [
            (&b"a\0\0\0"[..], &b"a"[..]),
            (b"abcd", b"abcd"),
            (b"...\0", b"..."),
            (b"abcdefg\0", b"abcdefg"),
        ] {
            assert_eq!(parse(&entry(FILE, padded)).unwrap().entries[0].name, name);
        }
        let longest = [b'x'; 252];
        assert_eq!(parse(&entry(FILE, &longest)).unwrap().entries[0].name, longest);
    }

    #[test]
    fn a_name_that_cannot_be_costs_only_itself() {
        for (padded, found) in [
            (&b""[..], "the name is empty"),
            (b"\0\0\0\0", "the name is empty"),
            (b".\0\0\0", "only the directory"),
            (b"..\0\0", "only the directory"),
            (b"a\0b\0", "zero byte"),
            (b"\0abc", "zero byte"),
            (b"a/b\0", "slash"),
        ] {
            let bytes = [entry(FILE, padded), entry(FILE, b"zz name ")].concat();
            let listing = parse(&bytes).unwrap();
            assert_eq!(shown(&listing), [b"zz name "], "{found}");
            assert!(said(&listing)[0].contains(found), "{:?}", said(&listing));
            assert_eq!(listing.defects[0].target.ino, 100);
        }
    }

    #[test]
    fn a_name_whose_length_is_not_said_costs_only_itself() {
        for len in 253..256 {
            let mut padded = vec![b'l'; len];
            padded.resize(256, 0);
            let mut long = entry(FILE, &[]);
            long.extend(&padded);
            let bytes = [entry(FILE, b"a\0\0\0"), long, entry(FILE, b"z\0\0\0")].concat();
            let listing = parse(&bytes).unwrap();
            assert_eq!(shown(&listing), [b"a", b"z"]);
            assert_eq!(listing.defects[0].name.len(), len);
        }
    }

    #[test]
    fn an_entry_ends_with_its_directory() {
        let bytes = entry(FILE, b"name");
        for len in 1..bytes.len() {
            let text = parse(&bytes[..len]).unwrap_err().to_string();
            assert!(text.contains("left"), "{len}: {text}");
        }
        assert!(parse(&[]).unwrap().entries.is_empty());
        assert_eq!(parse(&bytes).unwrap().entries.len(), 1);
    }

    #[test]
    fn the_first_of_two_equal_names_is_shown() {
        let names = [(FILE, b"b\0\0\0"), (0o040_755, b"b\0\0\0"), (FILE, b"c\0\0\0")];
        let bytes = names.map(|(mode, name)| entry(mode, name)).concat();
        let listing = parse(&bytes).unwrap();
        assert_eq!(shown(&listing), [b"b", b"c"]);
        let (found, inode) = listing.find(b"b").unwrap();
        assert_eq!((found.node, inode.mode), (NodeId(100), FILE));
        let twice = "the name 'b' is there twice: inode 100 (file) is shown, inode 116 (directory) \
                     is left out";
        assert_eq!(said(&listing), [twice]);
    }

    #[test]
    fn what_the_flag_makes_of_unsorted_names() {
        let names: [&[u8]; 5] = [b"zz\0\0", b"a\0\0\0", b"zzzzz\0\0\0", b"zy\0\0", b"zx1\0"];
        let bytes = names.map(|name| entry(FILE, name)).concat();
        let free = list(&bytes, 100, LITTLE, false).unwrap();
        assert_eq!(free.entries.len(), 5);
        assert!(free.defects.is_empty() && free.find(b"zzz").is_none());
        for entry in free.entries.iter() {
            assert_eq!(free.find(&entry.name).unwrap().0, entry);
        }
        // A lookup of "a" ends at "zz", and one of "zy" at the greater name of the same length.
        let listing = list(&bytes, 100, LITTLE, true).unwrap();
        assert_eq!(shown(&listing), [&b"zz"[..], b"zzzzz", b"zx1"]);
        let is_shown = |defect: &crate::EntryDefect| (defect.name.clone(), defect.is_shown());
        let defects: Vec<_> = listing.defects.iter().map(is_shown).collect();
        let wanted = [(b"a".to_vec(), false), (b"zy".to_vec(), false), (b"zx1".to_vec(), true)];
        assert_eq!(defects, wanted);
    }

    #[test]
    fn a_type_that_is_unknown_is_left_out() {
        let listing = parse(&[entry(FILE, b"even"), entry(0o070_644, b"odd\0")].concat()).unwrap();
        assert_eq!(shown(&listing), [b"even"]);
        assert!(listing.find(b"odd").is_none());
        let left_out =
            "the entry 'odd' of inode 116 (unknown type) is left out: no such type of file";
        assert_eq!(said(&listing), [left_out]);
    }

    #[test]
    fn directories_may_touch_but_not_overlap() {
        let mut claims = Claims::default();
        claims.claim(NodeId(64), &(100..200)).unwrap();
        claims.claim(NodeId(64), &(100..200)).unwrap();
        claims.claim(NodeId(100), &(200..300)).unwrap();
        claims.claim(NodeId(120), &(76..100)).unwrap();
        for range in [100..200, 199..200, 299..301, 90..91, 0..1000, 120..130] {
            let text = claims.claim(NodeId(140), &range).unwrap_err().to_string();
            assert!(text.contains("overlap"), "{text}");
        }
        claims.claim(NodeId(140), &(300..301)).unwrap();
    }

    #[test]
    fn a_directory_that_moved_gives_its_old_bytes_up() {
        let mut claims = Claims::default();
        claims.claim(NodeId(64), &(100..200)).unwrap();
        claims.count(NodeId(64), &(100..200), 5).unwrap();
        claims.claim(NodeId(64), &(150..250)).unwrap();
        assert_eq!(claims.entries, 0);
        claims.claim(NodeId(80), &(100..150)).unwrap();
    }

    #[test]
    fn entries_have_a_bound() {
        let mut claims = Claims::default();
        for (owner, range) in [(64, 100..200), (100, 200..300)] {
            claims.claim(NodeId(owner), &range).unwrap();
        }
        claims.count(NodeId(64), &(100..200), 1).unwrap();
        claims.count(NodeId(100), &(200..300), ENTRIES_MAX - 1).unwrap();
        claims.count(NodeId(100), &(200..300), ENTRIES_MAX - 1).unwrap();
        let text = claims.count(NodeId(100), &(200..300), ENTRIES_MAX).unwrap_err().to_string();
        assert!(text.contains("1048576"), "{text}");
    }
}
