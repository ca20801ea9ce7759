//! Directories: the entries of one, and which bytes belong to which.
//!
//! A directory is a list of entries without an index. Its names are sorted when it is read, so the
//! flag that says they are is never relied on.
//!
//! A crafted image can have a directory contain itself, or have many share one list, so that the
//! tree has no end. Therefore each directory *claims* the bytes of its entries when it is first
//! read, and a directory that overlaps the claim of another is refused. So every entry is in one
//! directory, and the tree is no larger than the image. In an image where two overlap it is the one
//! that is read first that can be read.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::layout::{INODE_LEN, Inode, Order};
use crate::error::{Error, Result};
use crate::image::{Entry, NodeId};

/// Directories below each other, at most.
pub(super) const DEPTH_MAX: u16 = 256;
/// Entries of all directories that can be read of one image.
pub(super) const ENTRIES_MAX: usize = 1 << 20;

/// The valid entries of a directory.
#[derive(Debug)]
pub(super) struct Listing {
    /// In the image's order.
    pub(super) entries: Arc<[Entry]>,
    /// The inode of each.
    pub(super) inodes: Box<[Inode]>,
    /// Numbers of entries, by name.
    sorted: Box<[u32]>,
    /// What is hidden, and why.
    pub(super) hidden: Vec<String>,
}

impl Listing {
    /// The entries in `bytes`, which begin at `base` of the image.
    ///
    /// # Errors
    ///
    /// If any entry is invalid: nothing behind it can be found.
    pub(super) fn parse(bytes: &[u8], base: u64, order: Order) -> Result<Self> {
        let mut fields = order.reader(bytes, base);
        let (mut entries, mut inodes, mut hidden) = (Vec::new(), Vec::new(), Vec::new());
        while fields.left() > 0 {
            let at = fields.offset();
            if fields.left() < INODE_LEN {
                return Err(invalid(at, format!("{} bytes are left for it", fields.left())));
            }
            let inode = Inode::parse(&mut fields, order)?;
            if fields.left() < inode.name_len() {
                let (len, left) = (inode.name_len(), fields.left());
                return Err(invalid(at, format!("a name of {len} bytes, but {left} are left")));
            }
            let name = name(fields.take(inode.name_len(), "name")?, at)?;
            let Some(kind) = inode.kind() else {
                let name = name.escape_ascii();
                let mode = inode.mode;
                hidden.push(format!("`{name}` at byte {at}: hidden, mode {mode:o} has no type"));
                continue;
            };
            entries.push(Entry { name: name.to_vec(), node: NodeId(at), kind });
            inodes.push(inode);
        }
        Ok(Self::sort(entries, inodes, hidden))
    }

    /// Sorts the names, and hides all but the first of each.
    fn sort(entries: Vec<Entry>, mut inodes: Vec<Inode>, mut hidden: Vec<String>) -> Self {
        let by_name = |entries: &[Entry]| -> Vec<u32> {
            // There are fewer than 2^20, so no number is cut.
            let mut sorted: Vec<u32> = (0..).take(entries.len()).collect();
            sorted.sort_by(|&a, &b| entries[a as usize].name.cmp(&entries[b as usize].name));
            sorted
        };
        let mut sorted = by_name(&entries);
        let name = |number: u32| &entries[number as usize].name;
        let twice = sorted.windows(2).filter(|pair| name(pair[0]) == name(pair[1]));
        let mut twice: Vec<u32> = twice.map(|pair| pair[1]).collect();
        if twice.is_empty() {
            let (entries, inodes) = (entries.into(), inodes.into());
            return Self { entries, inodes, sorted: sorted.into(), hidden };
        }
        twice.sort_unstable();
        let is_first = |number: usize| {
            u32::try_from(number).is_ok_and(|number| twice.binary_search(&number).is_err())
        };
        let mut kept = Vec::new();
        for (number, entry) in entries.into_iter().enumerate() {
            if is_first(number) {
                kept.push(entry);
            } else {
                let name = entry.name.escape_ascii();
                hidden.push(format!("`{name}` at byte {}: hidden, a second one", entry.node.0));
            }
        }
        let mut number = 0;
        inodes.retain(|_| {
            number += 1;
            is_first(number - 1)
        });
        sorted = by_name(&kept);
        Self { entries: kept.into(), inodes: inodes.into(), sorted: sorted.into(), hidden }
    }

    /// The entry of a name, and its inode.
    pub(super) fn find(&self, name: &[u8]) -> Option<(&Entry, &Inode)> {
        let entry = |number: &u32| &self.entries[*number as usize];
        let at = self.sorted.binary_search_by(|number| entry(number).name.as_slice().cmp(name));
        let number = self.sorted[at.ok()?] as usize;
        Some((&self.entries[number], &self.inodes[number]))
    }

    /// What it weighs in a cache, in entries.
    pub(super) fn weight(&self) -> usize {
        self.entries.len() + 1
    }
}

/// A name without its padding.
fn name(padded: &[u8], entry_at: u64) -> Result<&[u8]> {
    let len = padded.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let name = &padded[..len];
    let wrong = if padded.is_empty() {
        "the name length is 0; some writers store this for names of 253 to 255 bytes"
    } else if name.is_empty() {
        "the name is empty"
    } else if name == b"." || name == b".." {
        "the name is `.` or `..`"
    } else if name.contains(&0) {
        "a zero byte inside the name"
    } else if name.contains(&b'/') {
        "a slash inside the name"
    } else {
        return Ok(name);
    };
    Err(invalid(entry_at, wrong))
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
    depth: u16,
    entries: usize,
}

impl Claims {
    /// Gives the bytes of a directory's entries to it.
    ///
    /// # Errors
    ///
    /// If another directory has some of them, or it lies too deep.
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
        let parent = self.overlapping(&(owner.0..owner.0 + 1));
        let depth = parent.map_or(0, |(_, parent)| parent.depth + 1);
        if depth > DEPTH_MAX {
            let found = format!("it lies deeper than {DEPTH_MAX} directories");
            return Err(Error::field("directory", owner.0, found));
        }
        self.by_start.insert(range.start, Claim { end: range.end, owner, depth, entries: 0 });
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
        Listing::parse(bytes, 100, LITTLE)
    }

    fn error(bytes: &[u8]) -> String {
        parse(bytes).unwrap_err().to_string()
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
    fn names_that_cannot_be_are_errors() {
        for (padded, found) in [
            (&b""[..], "name length is 0"),
            (b"\0\0\0\0", "the name is empty"),
            (b".\0\0\0", "`.` or `..`"),
            (b"..\0\0", "`.` or `..`"),
            (b"a\0b\0", "zero byte"),
            (b"\0abc", "zero byte"),
            (b"a/b\0", "slash"),
        ] {
            let text = error(&entry(FILE, padded));
            assert!(text.contains(found), "{text}");
            assert!(text.contains("at byte 100"), "{text}");
        }
    }

    #[test]
    fn an_entry_ends_with_its_directory() {
        let bytes = entry(FILE, b"name");
        for len in 1..bytes.len() {
            let text = error(&bytes[..len]);
            assert!(text.contains("left"), "{len}: {text}");
        }
        assert!(parse(&[]).unwrap().entries.is_empty());
        assert_eq!(parse(&bytes).unwrap().entries.len(), 1);
    }

    #[test]
    fn the_first_of_two_equal_names_is_kept() {
        let bytes =
            [entry(FILE, b"b\0\0\0"), entry(FILE, b"a\0\0\0"), entry(0o040_755, b"b\0\0\0")]
                .concat();
        let listing = parse(&bytes).unwrap();
        let names: Vec<_> = listing.entries.iter().map(|entry| entry.name.as_slice()).collect();
        assert_eq!(names, [b"b", b"a"]);
        let (found, inode) = listing.find(b"b").unwrap();
        assert_eq!((found.node, inode.mode), (NodeId(100), FILE));
        assert_eq!(listing.hidden, ["`b` at byte 132: hidden, a second one"]);
    }

    #[test]
    fn names_are_found_whether_or_not_they_ascend() {
        let names: [&[u8]; 4] = [b"zz\0\0", b"a\0\0\0", b"zzzzz\0\0\0", b"B\0\0\0"];
        let listing = parse(&names.map(|name| entry(FILE, name)).concat()).unwrap();
        for entry in listing.entries.iter() {
            assert_eq!(listing.find(&entry.name).unwrap().0, entry);
        }
        assert!(listing.find(b"zzz").is_none());
        assert!(listing.find(b"").is_none());
    }

    #[test]
    fn a_type_that_is_unknown_is_hidden() {
        let listing = parse(&[entry(0o070_644, b"odd\0"), entry(FILE, b"even")].concat()).unwrap();
        assert_eq!(listing.entries.len(), 1);
        assert!(listing.find(b"odd").is_none() && listing.find(b"even").is_some());
        assert_eq!(listing.hidden, ["`odd` at byte 100: hidden, mode 70644 has no type"]);
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
    fn depth_has_a_bound() {
        let mut claims = Claims::default();
        claims.claim(NodeId(64), &(100..116)).unwrap();
        let chain =
            |depth: u64| (NodeId(100 + 16 * (depth - 1)), 100 + 16 * depth..116 + 16 * depth);
        for depth in 1..=u64::from(DEPTH_MAX) {
            let (owner, range) = chain(depth);
            claims.claim(owner, &range).unwrap();
        }
        let (owner, range) = chain(u64::from(DEPTH_MAX) + 1);
        assert!(claims.claim(owner, &range).unwrap_err().to_string().contains("deeper than 256"));
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
