//! How scattered over an image that is which a start reads, and in which order it should lie.
//!
//! ```text
//!   image    |..a1..|........|.b1.|....|.a2.|.......|..c1..|      4 runs, 3 of them behind a jump
//!   sorted   |..a1..|.a2.|.b1.|..c1..|......................      1 run, read front to back
//! ```
//!
//! Writers place whole files, so files are sorted, by their first read. A block that several files
//! share lies with the first of them. Unread blocks of a file lie between its read ones, so a
//! sorted image does not mean one run. Positions are compared by pages of 4096 bytes of the image,
//! as readers read them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use crate::content::Content;
use crate::image::{Block, Coding, Image};
use crate::node::{Kind, NodeId};
use crate::resolve::{Follow, resolve};

/// Bytes of a page of a recorded start.
const PAGE: u64 = 4096;
/// Bytes of a request at most, for counting requests.
const REQUEST_MAX: u64 = 128 << 10;

/// Pages of a file that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPages {
    /// The file's path, which all reads of a profile's file share.
    pub path: Arc<[u8]>,
    /// The first page of 4096 bytes.
    pub page: u64,
    /// How many.
    pub pages: u64,
}

/// Where the blocks lie that are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scatter {
    /// Runs of the image's pages without a gap.
    pub runs: u64,
    /// Blocks that begin elsewhere than in the pages of the one that is read before them, or behind
    /// these.
    pub jumps: u64,
    /// Bytes from the beginning of the first run to the end of the last one.
    pub span: u64,
    /// Requests of at most 128 KiB for all runs.
    pub requests: u64,
}

/// How a start lies in an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartLayout {
    /// Files that are read.
    pub files: u64,
    /// Blocks that are read; each counts once.
    pub blocks: u64,
    /// Their bytes in the image.
    pub raw_bytes: u64,
    /// As the image has them.
    pub present: Scatter,
    /// With the files first and in the order of their first reads.
    pub sorted: Scatter,
    /// Paths that are read and are no regular files of the image, each once.
    pub missing: Vec<Vec<u8>>,
}

/// The files of some reads in the order of their first ones, each once.
pub fn file_order<'a>(reads: impl IntoIterator<Item = &'a ReadPages>) -> Vec<Vec<u8>> {
    let mut seen = HashSet::new();
    let paths = reads.into_iter().map(|read| &read.path);
    paths.filter(|path| seen.insert(*path)).map(|path| path.to_vec()).collect()
}

/// Finds the positions of the read blocks, in this image and in one whose files are sorted. Invalid
/// parts of the image are left out.
pub fn start_layout(image: &dyn Image, reads: &[ReadPages]) -> StartLayout {
    let content = Content::new(image);
    let mut found = StartLayout::default();
    let mut files: HashMap<&[u8], (NodeId, u64)> = HashMap::new();
    let (mut order, mut looked_up) = (Vec::new(), HashSet::new());
    for path in reads.iter().map(|read| &read.path[..]).filter(|path| looked_up.insert(*path)) {
        let at = resolve(image, path, Follow::Last).ok();
        match at.and_then(|at| image.node(at.node).ok()) {
            Some(node) if node.kind == Kind::File => {
                files.insert(path, (node.id, node.size));
                order.push((node.id, node.size));
            }
            Some(_) | None => found.missing.push(path.to_vec()),
        }
    }
    found.files = order.len() as u64;
    let (mut blocks, mut seen) = (Vec::new(), HashSet::new());
    for read in reads {
        let Some(&(id, size)) = files.get(&read.path[..]) else { continue };
        let start = read.page.saturating_mul(PAGE);
        let end = read.page.saturating_add(read.pages).saturating_mul(PAGE).min(size);
        each_block(&content, id, start..end, |block| {
            if seen.insert((block.raw.start, block.raw.end)) {
                blocks.push(block.raw);
            }
        });
    }
    found.blocks = blocks.len() as u64;
    found.raw_bytes = blocks.iter().map(|raw| raw.end - raw.start).sum();
    found.present = scatter(&blocks);
    // The new place of each block of the files.
    let (mut places, mut end) = (BTreeMap::new(), 0);
    for (id, size) in order {
        each_block(&content, id, 0..size, |block| {
            places.entry((block.raw.start, block.raw.end)).or_insert_with(|| {
                let start = end;
                end += block.raw.end - block.raw.start;
                start
            });
        });
    }
    let moved = |raw: &Range<u64>| {
        let start = places.get(&(raw.start, raw.end)).copied()?;
        Some(start..start + (raw.end - raw.start))
    };
    let moved: Vec<Range<u64>> = blocks.iter().filter_map(moved).collect();
    found.sorted = scatter(&moved);
    found
}

/// Calls for the blocks of a part of a file that have raw bytes, up to the first that is invalid.
fn each_block(content: &Content<'_>, id: NodeId, bytes: Range<u64>, mut call: impl FnMut(Block)) {
    let mut at = bytes.start;
    while at < bytes.end
        && let Ok(block) = content.block(id, at)
    {
        at = block.plain.end;
        if block.coding != Coding::Hole {
            call(block);
        }
    }
}

fn scatter(blocks: &[Range<u64>]) -> Scatter {
    let pages = |raw: &Range<u64>| raw.start / PAGE..raw.end.div_ceil(PAGE);
    let blocks: Vec<Range<u64>> = blocks.iter().map(pages).collect();
    let is_jump = |pair: &&[Range<u64>]| !(pair[0].start..=pair[0].end).contains(&pair[1].start);
    let jumps = blocks.windows(2).filter(is_jump).count() as u64;
    let mut sorted = blocks;
    sorted.sort_by_key(|pages| (pages.start, pages.end));
    let mut runs: Vec<Range<u64>> = Vec::new();
    for pages in sorted {
        match runs.last_mut() {
            Some(run) if pages.start <= run.end => run.end = run.end.max(pages.end),
            _ => runs.push(pages),
        }
    }
    let requests = |run: &Range<u64>| ((run.end - run.start) * PAGE).div_ceil(REQUEST_MAX);
    let span = runs.first().zip(runs.last()).map_or(0, |(first, last)| last.end - first.start);
    Scatter {
        runs: runs.len() as u64,
        jumps,
        span: span * PAGE,
        requests: runs.iter().map(requests).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    fn read(path: &str, page: u64, pages: u64) -> ReadPages {
        ReadPages { path: path.as_bytes().into(), page, pages }
    }

    #[test]
    fn a_start_is_scattered_as_its_blocks_lie() {
        let mut image = Memory::new();
        for path in ["a", "b", "c", "d"] {
            image.file(path, &[1; 4_096 * 2]);
        }
        // Blocks of 4097 raw bytes, two for each file.
        let reads = [read("/d", 0, 2), read("/b", 0, 1), read("/none", 0, 1), read("/b", 0, 1)];
        let found = start_layout(&image, &reads);
        assert_eq!((found.files, found.blocks, found.raw_bytes), (2, 3, 3 * 4_097));
        let present = Scatter { runs: 2, jumps: 1, span: 7 * 4_096, requests: 2 };
        assert_eq!(found.present, present);
        let sorted = Scatter { runs: 1, jumps: 0, span: 4 * 4_096, requests: 1 };
        assert_eq!(found.sorted, sorted);
        assert_eq!(found.missing, [b"/none".to_vec()]);
        assert_eq!(file_order(&reads), [&b"/d"[..], b"/b", b"/none"]);
    }

    #[test]
    fn blocks_between_that_are_not_read_stay_a_gap() {
        let mut image = Memory::new();
        image.file("a", &[1; 4_096 * 3]);
        image.file("b", &[1; 4_096]);
        let found = start_layout(&image, &[read("/a", 0, 1), read("/b", 0, 1)]);
        assert_eq!((found.sorted.runs, found.sorted.jumps), (2, 1));
        assert_eq!(start_layout(&image, &[]), StartLayout::default());
        // Beyond the end there is nothing.
        assert_eq!(start_layout(&image, &[read("/a", 9, u64::MAX)]).blocks, 0);
    }
}
