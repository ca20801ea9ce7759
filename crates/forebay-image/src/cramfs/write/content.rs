//! Contents: packed by many threads in units, placed by one in order.
//!
//! ```text
//!  units 0 1 2 3 4 ...   next ──> thread ─┐
//!                             ──> thread ─┼─ channel ──> in order ──> image
//!                             ──> thread ─┘              equal to an earlier content? take that
//! ```
//!
//! A unit is a part of one content. Threads take the next one, so results come out of order by
//! about as many units as there are threads.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::super::layout::{BLOCK_LEN, Order};
use super::fit::{Plan, beyond, words};
use super::tree::{Content, Place, Tree};
use super::{OFFSET_MAX, PAGE_LEN, Settings, WriteError, pad};
use crate::codec::{Crc32, Deflater};

/// Bytes of content in a unit.
const UNIT_LEN: u64 = 256 * BLOCK_LEN;
/// Packed units that wait for their turn, for each thread.
const WAITING_MAX: usize = 4;
/// The flag of a pointer whose block is stored.
const STORED: u32 = 1 << 31;

/// The positions of the contents.
#[derive(Debug, Default)]
pub(super) struct Placed {
    pub(super) blocks: u32,
    pub(super) duplicates: u32,
}

/// A part of a content.
#[derive(Clone, Debug)]
struct Unit {
    place: Place,
    bytes: Range<u64>,
    is_last: bool,
}

/// A unit's blocks, one behind the other.
#[derive(Debug, Default)]
struct Packed {
    raw: Vec<u8>,
    /// Where each ends in `raw`, and whether it is stored.
    ends: Vec<(u32, bool)>,
}

/// Appends all contents to an image, and says in the plan where they are.
pub(super) fn place(
    tree: &Tree,
    plan: &mut Plan,
    settings: &Settings,
    image: &mut Vec<u8>,
    progress: &mut dyn FnMut(u64),
) -> Result<Placed, WriteError> {
    let units = units(plan);
    let next = AtomicUsize::new(0);
    let threads = settings.threads.get().min(units.len());
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(threads * WAITING_MAX);
        for _ in 0..threads {
            let sender = sender.clone();
            let (next, units) = (&next, &units);
            scope.spawn(move || {
                let mut packer = Packer::new(settings);
                while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let packed = packer.pack(&tree.node(unit.place).content, &unit.bytes);
                    // The receiver is gone after an error.
                    if sender.send((unit.place, unit.bytes.start, packed)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut placer = Placer::new(settings, image);
        let mut early = BTreeMap::new();
        let mut done = 0;
        for unit in &units {
            let key = (unit.place, unit.bytes.start);
            let packed = loop {
                if let Some(packed) = early.remove(&key) {
                    break packed;
                }
                let (place, start, packed) = receiver.recv().expect("each unit is packed once");
                early.insert((place, start), packed);
            };
            placer.add(tree, plan, unit, &packed?)?;
            done += unit.bytes.end - unit.bytes.start;
            progress(done);
        }
        Ok(placer.placed)
    })
}

fn units(plan: &Plan) -> Vec<Unit> {
    let mut units = Vec::new();
    for &place in &plan.contents {
        let len = plan.inodes[place.0].map_or(0, |inode| u64::from(inode.size));
        let mut start = 0;
        while start < len {
            let end = len.min(start + UNIT_LEN);
            units.push(Unit { place, bytes: start..end, is_last: end == len });
            start = end;
        }
    }
    units
}

/// A thread's working memory.
struct Packer {
    deflater: Deflater,
    holes: bool,
    stored: bool,
    plain: Vec<u8>,
}

impl Packer {
    fn new(settings: &Settings) -> Self {
        let deflater = Deflater::new(settings.level).expect("the level was checked");
        Self { deflater, holes: settings.holes, stored: settings.stored, plain: Vec::new() }
    }

    fn pack(&mut self, content: &Content, bytes: &Range<u64>) -> Result<Packed, WriteError> {
        let range = index(bytes.start)..index(bytes.end);
        match content {
            Content::Bytes(all) | Content::Link(all) => Ok(self.pack_blocks(&all[range])),
            Content::File { path, len } => {
                let mut plain = std::mem::take(&mut self.plain);
                plain.resize(range.len(), 0);
                let read = File::open(path)
                    .and_then(|file| file.read_exact_at(&mut plain, bytes.start))
                    .map_err(|source| {
                        if source.kind() == io::ErrorKind::UnexpectedEof {
                            WriteError::Changed { path: path.clone(), len: *len }
                        } else {
                            WriteError::Read { path: path.clone(), source }
                        }
                    });
                let packed = read.map(|()| self.pack_blocks(&plain));
                self.plain = plain;
                packed
            }
            Content::Directory
            | Content::BlockDevice(..)
            | Content::CharDevice(..)
            | Content::Fifo
            | Content::Socket => Ok(Packed::default()),
        }
    }

    fn pack_blocks(&mut self, plain: &[u8]) -> Packed {
        let mut packed = Packed::default();
        for block in plain.chunks(PAGE_LEN) {
            let start = packed.raw.len();
            let mut is_stored = false;
            if !(self.holes && block.iter().all(|byte| *byte == 0)) {
                self.deflater.append(block, &mut packed.raw);
                if self.stored && packed.raw.len() - start >= block.len() {
                    packed.raw.truncate(start);
                    packed.raw.extend(block);
                    is_stored = true;
                }
            }
            packed.ends.push((short(packed.raw.len()), is_stored));
        }
        packed
    }
}

/// Writes packed units to the image, and drops duplicate contents.
struct Placer<'a> {
    order: Order,
    image: &'a mut Vec<u8>,
    /// Where the pointers of the content begin that is being placed.
    start: usize,
    /// Where its next pointer is.
    pointer: usize,
    /// By checksum, size and number of bytes, where contents are.
    known: BTreeMap<(u32, u32, usize), Vec<usize>>,
    placed: Placed,
}

impl<'a> Placer<'a> {
    fn new(settings: &Settings, image: &'a mut Vec<u8>) -> Self {
        Self {
            order: Order { big_endian: settings.big_endian },
            image,
            start: 0,
            pointer: 0,
            known: BTreeMap::new(),
            placed: Placed::default(),
        }
    }

    fn add(
        &mut self,
        tree: &Tree,
        plan: &mut Plan,
        unit: &Unit,
        packed: &Packed,
    ) -> Result<(), WriteError> {
        let Some(inode) = &mut plan.inodes[unit.place.0] else { return Ok(()) };
        if unit.bytes.start == 0 {
            self.start = self.image.len();
            self.pointer = self.start;
            let blocks = inode.size.div_ceil(u32::try_from(PAGE_LEN).unwrap_or(1));
            self.image.resize(self.start + 4 * blocks as usize, 0);
        }
        let base = short(self.image.len());
        self.image.extend(&packed.raw);
        for (end, is_stored) in &packed.ends {
            let word = (base + end) | if *is_stored { STORED } else { 0 };
            let pointer = &mut self.image[self.pointer..self.pointer + 4];
            pointer.copy_from_slice(&self.order.bytes(word));
            self.pointer += 4;
        }
        if unit.is_last {
            let blocks = (self.pointer - self.start) / 4;
            let at = self.settle(inode.size, blocks);
            if at > OFFSET_MAX {
                return Err(beyond(tree, unit.place));
            }
            inode.offset_words = words(at);
        }
        Ok(())
    }

    /// Says where a content is that was placed last: there, or where it already was.
    fn settle(&mut self, size: u32, blocks: usize) -> usize {
        let len = self.image.len() - self.start;
        let data = 4 * blocks;
        let mut crc = Crc32::default();
        crc.update(&self.image[self.start + data..]);
        let key = (crc.value(), size, len);
        let known = self.known.entry(key).or_default();
        let (image, start, order) = (&*self.image, self.start, self.order);
        let is_equal = |other: usize| {
            // Pointers are equal if they are as far from the beginning of their content.
            let pointers = |from: usize| {
                image[from..from + data].chunks_exact(4).map(move |word| {
                    order.u32([word[0], word[1], word[2], word[3]]).wrapping_sub(short(from))
                })
            };
            image[other + data..other + len] == image[start + data..]
                && pointers(other).eq(pointers(start))
        };
        if let Some(other) = known.iter().copied().find(|other| is_equal(*other)) {
            self.image.truncate(self.start);
            self.placed.duplicates += 1;
            return other;
        }
        known.push(self.start);
        self.placed.blocks += short(blocks);
        pad(self.image, 4);
        self.start
    }
}

/// A number of bytes of an image, of which no content begins behind [`OFFSET_MAX`].
fn short(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("an image is below 4 GiB")
}

/// A number of bytes below 16 MiB.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a content is below 16 MiB")
}
