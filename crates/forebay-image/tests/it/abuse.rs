//! What damage does to a reader: every truncation and every flipped bit of a small image.
//!
//! The damaged image is opened and everything reachable is read. The reader may report an error, or
//! return data. It must not panic, read or decode without end, or use unbounded memory. After a
//! truncation, the returned data must also be right.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use allocation_counter::measure;
use forebay_image::{Block, Coding, Error, Image, Kind, Node, NodeId, Result, Source, Xattr};

/// How a format is opened: `cramfs::open` with options.
pub(crate) type Open<'a> = &'a dyn Fn(&Arc<dyn Source>) -> Result<Option<Arc<dyn Image>>>;

/// The contents read from an image, by path.
pub(crate) type Walk = BTreeMap<Vec<u8>, Found>;

/// The result of reading a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// All of it.
    Whole(Node, Content, Vec<Xattr>),
    /// Its error, or that of a part of it.
    Damaged(String),
}

/// What a node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A directory's names.
    Names(Vec<Vec<u8>>),
    /// The bytes of a file, its first [`FILE_BYTES_MAX`] at most.
    Bytes(Vec<u8>),
    /// Where a link leads.
    Target(Vec<u8>),
    /// Nothing.
    None,
}

/// Nodes that a walk visits at most; a small damaged image must not have as many.
const NODES_MAX: usize = 20_000;
/// Bytes that are read of a file at most.
const FILE_BYTES_MAX: usize = 256 << 10;
/// Bytes that are decoded in one walk at most; of files behind that nothing is read.
const WALK_BYTES_MAX: usize = 16 << 20;
/// Blocks that are read of a file at most.
const FILE_BLOCKS_MAX: usize = 512;
/// Directories below each other, at most.
const DEPTH_MAX: usize = 512;
/// A block may decode to this, in bytes, at most.
const DECODED_MAX: u32 = 16 << 20;
/// Reads of the source in one walk of a small image, at most.
const READS_MAX: u64 = 500_000;
/// Memory that a walk of a small image may use, in bytes: two of the largest blocks, raw and
/// decoded, with the data read.
const MEMORY_MAX: u64 = 64 << 20;

/// Reads everything that can be reached from the root, within the bounds above.
///
/// # Errors
///
/// If a bound is exceeded, or a promise of [`Image`] is broken.
pub(crate) fn walk_all(image: &dyn Image) -> Result<Walk, String> {
    let mut walk = Walk::new();
    let mut todo = vec![(Vec::new(), image.root(), Vec::new())];
    let mut left = WALK_BYTES_MAX;
    while let Some((path, id, mut above)) = todo.pop() {
        let depth = above.len();
        if walk.len() == NODES_MAX || depth > DEPTH_MAX {
            return Err(format!("{} nodes, depth {depth}: a tree without end", walk.len()));
        }
        above.push(id);
        let found = visit(image, id, &mut left, &mut |name, child| {
            // A directory that holds itself is a fault that a walk of the tree finds.
            if !above.contains(&child) {
                todo.push(([&path, name].join(&b'/'), child, above.clone()));
            }
        })?;
        walk.insert(path, found);
    }
    Ok(walk)
}

/// Reads a node and returns the nodes below it.
fn visit(
    image: &dyn Image,
    id: NodeId,
    left: &mut usize,
    below: &mut dyn FnMut(&[u8], NodeId),
) -> Result<Found, String> {
    let mut read = || -> Checked<(Node, Content, Vec<Xattr>)> {
        let node = image.node(id)?;
        let content = match node.kind {
            Kind::Directory => match names(image, id, below)? {
                Ok(names) => Content::Names(names),
                Err(broken) => return Ok(Err(broken)),
            },
            Kind::File => match bytes(image, id, node.size, left)? {
                Ok(bytes) => Content::Bytes(bytes),
                Err(broken) => return Ok(Err(broken)),
            },
            Kind::Symlink => Content::Target(image.link(id)?),
            Kind::BlockDevice | Kind::CharDevice | Kind::Fifo | Kind::Socket => Content::None,
        };
        Ok(Ok((node, content, image.xattrs(id)?)))
    };
    match read() {
        Ok(Ok((node, content, xattrs))) => Ok(Found::Whole(node, content, xattrs)),
        Ok(Err(broken)) => Err(format!("{id:?}: {broken}")),
        Err(error) => Ok(Found::Damaged(clear(&error)?)),
    }
}

/// The text of an error, if it says something.
fn clear(error: &Error) -> Result<String, String> {
    let text = error.to_string();
    if matches!(error, Error::Read { source, .. } if source.kind() == io::ErrorKind::QuotaExceeded)
    {
        return Err(format!("reads without end: {text}"));
    }
    if text.len() < 8 || text.contains('\n') {
        return Err(format!("an error that says nothing: `{text}`"));
    }
    Ok(text)
}

/// The contents of a node; the inner error is damage, the outer one an error of the reader.
type Checked<T> = Result<Result<T, String>>;

fn names(
    image: &dyn Image,
    id: NodeId,
    below: &mut dyn FnMut(&[u8], NodeId),
) -> Checked<Vec<Vec<u8>>> {
    let entries = image.entries(id)?;
    let mut names: Vec<Vec<u8>> = Vec::new();
    for entry in entries.iter() {
        let name = &entry.name;
        if name.is_empty() || name.contains(&b'/') || name.contains(&0) || name == b"." {
            return Ok(Err(format!("an entry named {name:?}")));
        }
        if image.lookup(id, name)? != Some(entry.node) {
            return Ok(Err(format!("{name:?} is listed and not found")));
        }
        names.push(name.clone());
        below(name, entry.node);
    }
    names.sort();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Ok(Err("a name twice".to_owned()));
    }
    image.lookup(id, b"\xff no such name")?;
    Ok(Ok(names))
}

/// The beginning of a file, with a look at the last block and beyond.
fn bytes(image: &dyn Image, id: NodeId, size: u64, left: &mut usize) -> Checked<Vec<u8>> {
    let mut plain = Vec::new();
    let mut at = 0;
    for _ in 0..FILE_BLOCKS_MAX {
        if at >= size || plain.len() >= FILE_BYTES_MAX || *left == 0 {
            break;
        }
        let block = image.locate(id, at)?;
        if let Err(broken) = valid(&block, at, size) {
            return Ok(Err(broken));
        }
        let start = plain.len();
        decoded(image, &block, &mut plain)?;
        *left = left.saturating_sub((block.decoded as usize).max(plain.len() - start));
        at = block.plain.end;
    }
    if image.locate(id, size).is_ok() {
        return Ok(Err("a block beyond the end".to_owned()));
    }
    if size > 0 {
        image.locate(id, size - 1)?;
    }
    Ok(Ok(plain))
}

/// What [`Block`] promises.
fn valid(block: &Block, at: u64, size: u64) -> Result<(), String> {
    let Range { start, end } = block.plain;
    let plain = end.saturating_sub(start);
    let fits = match block.coding {
        Coding::Hole => block.raw.is_empty(),
        Coding::Stored => {
            block.raw.end.saturating_sub(block.raw.start) >= plain + u64::from(block.inside)
        }
        Coding::Packed => {
            block.decoded <= DECODED_MAX
                && u64::from(block.decoded) >= plain + u64::from(block.inside)
                && block.raw.end.saturating_sub(block.raw.start) <= 2 * u64::from(DECODED_MAX)
        }
    };
    let broken = start > at || end <= at || end > size || !fits;
    if broken { Err(format!("at {at} of {size}: {block:?}")) } else { Ok(()) }
}

/// Appends the content of a block, as far as a walk wants it.
fn decoded(image: &dyn Image, block: &Block, plain: &mut Vec<u8>) -> Result<()> {
    let room = FILE_BYTES_MAX.saturating_sub(plain.len());
    let len = usize::try_from(block.plain.end - block.plain.start).unwrap_or(room).min(room);
    let start = plain.len();
    match block.coding {
        Coding::Hole => plain.resize(start + len, 0),
        Coding::Stored => {
            let mut content = vec![0; len];
            image.source().fill(&mut content, block.raw.start + u64::from(block.inside))?;
            plain.extend(content);
        }
        Coding::Packed => {
            // The raw bytes are read first: a length that lies ends here, not in an allocation.
            let raw_len = block.raw.end - block.raw.start;
            if block.raw.end > image.source().len() {
                image.source().fill(&mut [0; 1], block.raw.end - 1)?;
            }
            let mut raw = vec![0; usize::try_from(raw_len).unwrap()];
            image.source().fill(&mut raw, block.raw.start)?;
            let mut content = vec![0; block.decoded as usize];
            let upto = block.upto(block.plain.end);
            let there = image.decode(block, &raw, upto, &mut content)?;
            assert!(there <= content.len(), "{there} of {}", content.len());
            if there < upto {
                let (offset, len) = (block.raw.start, raw_len);
                return Err(Error::Block { offset, len, why: format!("{there} of {upto}") });
            }
            plain.extend_from_slice(&content[block.inside as usize..][..len]);
        }
    }
    Ok(())
}

/// Opens each beginning of an image and reads everything. Nothing, or an error, or a part of the
/// same tree.
pub(crate) fn every_truncation(image: &[u8], open: Open<'_>) {
    let whole = survives(image.to_vec(), "the whole image", open).expect("a valid image");
    for len in 0..image.len() {
        let what = format!("the first {len} bytes");
        let Ok(part) = survives(image[..len].to_vec(), &what, open) else { continue };
        for (path, found) in part {
            let path_text = String::from_utf8_lossy(&path);
            match found {
                Found::Damaged(_) => {}
                Found::Whole(..) => {
                    assert_eq!(Some(&found), whole.get(&path), "{what}: {path_text}");
                }
            }
        }
    }
}

/// Opens an image with each bit of some of its bytes flipped, and reads everything. Returns how
/// many of these images could be opened.
pub(crate) fn every_bit_flip(image: &[u8], bytes: Range<usize>, open: Open<'_>) -> usize {
    let mut damaged = image.to_vec();
    let mut opened = 0;
    for at in bytes {
        for bit in 0..8 {
            damaged[at] ^= 1 << bit;
            let what = format!("bit {bit} of byte {at} flipped");
            // Whether it is an error or other data is the format's: many fields have no check.
            opened += usize::from(survives(damaged.clone(), &what, open).is_ok());
            damaged[at] ^= 1 << bit;
        }
    }
    opened
}

/// Opens an image and reads everything.
///
/// # Errors
///
/// The clear error of an image that cannot be opened.
///
/// # Panics
///
/// If the reader breaks a promise.
pub(crate) fn survives(image: Vec<u8>, what: &str, open: Open<'_>) -> Result<Walk, String> {
    let source: Arc<dyn Source> = Arc::new(Metered { bytes: image, reads: AtomicU64::new(0) });
    let mut walk = Err(String::new());
    let memory = measure(|| {
        walk = match open(&source) {
            Ok(Some(image)) => Ok(walk_all(image.as_ref())),
            Ok(None) => Err("not of this format".to_owned()),
            Err(error) => match clear(&error) {
                Ok(text) => Err(text),
                Err(broken) => Ok(Err(broken)),
            },
        };
    });
    assert!(memory.bytes_max < MEMORY_MAX, "{what}: {} bytes of memory", memory.bytes_max);
    match walk {
        Ok(Ok(walk)) => Ok(walk),
        Ok(Err(broken)) => panic!("{what}: {broken}"),
        Err(clear) => Err(clear),
    }
}

/// Bytes that can be read so often and no more.
struct Metered {
    bytes: Vec<u8>,
    reads: AtomicU64,
}

impl Source for Metered {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if self.reads.fetch_add(1, Ordering::Relaxed) > READS_MAX {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        self.bytes.read_exact_at(buffer, offset)
    }
}
