//! Packed files and the two buffers of their images, watched: every decode has the raw bytes of its
//! block, no page is decoded by two at once, and what fails has a reason.

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::engine::Engine;
use forebay_core::io::{Decode, Gather, IoError};
use forebay_core::packed::{BlockMap, Coding, Pages};
use forebay_core::units::{CallId, DecodeId, FileId, FrameId, PAGE_SIZE};

use super::contents::Contents;
use super::runs::{INITIAL, Runs};
use crate::packed::Blocks;

/// A packed file that is watched.
#[derive(Clone, Debug)]
pub struct PackedFile {
    /// Its number.
    pub file: FileId,
    /// The file that it lies in.
    pub image: FileId,
    /// Where its blocks lie.
    pub blocks: Blocks,
}

/// All packed files.
#[derive(Debug, Default)]
pub(super) struct Packed {
    files: Vec<PackedFile>,
    /// Pages of an image that each buffer holds.
    buffers: BTreeMap<(FileId, usize), Vec<u64>>,
    decodes: BTreeMap<DecodeId, Decoding>,
    /// Blocks that could not be decoded, by their first pages.
    corrupt: BTreeSet<(FileId, u64)>,
    frames: u64,
}

#[derive(Debug)]
struct Decoding {
    decode: Decode,
    fills: Vec<(u64, FrameId)>,
    raw: Vec<FrameId>,
}

impl Packed {
    pub(super) fn new(files: Vec<PackedFile>, frames: u32) -> Self {
        Self { files, frames: frames.into(), ..Self::default() }
    }

    /// Whether a file can be changed.
    pub(super) fn is_fixed(&self, file: FileId) -> bool {
        self.files.iter().any(|one| one.file == file || one.image == file)
    }

    /// The call that decodes for itself.
    pub(super) fn caller(&self, id: DecodeId) -> Option<CallId> {
        self.decodes[&id].decode.call
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.decodes.is_empty()
    }

    /// A page of an image goes into a buffer.
    pub(super) fn see_gather(&mut self, gather: &Gather, contents: &Contents) {
        let Gather { image, page, frame, buffer, place, .. } = *gather;
        assert!(contents.holds(frame, (image, page)), "what is gathered is in its frame");
        assert!(buffer < 2 && place < 4, "there are two buffers of four pages");
        let held = self.buffers.entry((image, buffer)).or_default();
        if place == 0 {
            held.clear();
        }
        assert_eq!(held.len() as u64, place, "a buffer is filled in order");
        assert!(held.last().is_none_or(|last| last + 1 == page), "its pages lie side by side");
        held.push(page);
    }

    /// A block begins to be decoded.
    pub(super) fn see_decode(&mut self, engine: &Engine, decode: &Decode, contents: &mut Contents) {
        let known = self.files.iter().find(|one| one.file == decode.file);
        let known = known.expect("only packed files are decoded");
        let block = known.blocks.block(decode.pages.start);
        assert_eq!(decode.image, known.image, "a file lies in one image");
        assert_eq!((decode.raw, decode.coding), (block.raw, block.coding), "it is that block");
        assert_eq!(decode.pages.start, block.pages.start, "a block is decoded from its front");
        assert!(block.pages.covers(decode.pages), "a block has no other pages");
        let raw: Vec<FrameId> = engine.raw_frames_of(decode).collect();
        match decode.buffer {
            Some(buffer) => {
                let held = &self.buffers[&(known.image, buffer)];
                let pages = block.raw.pages();
                let has = (pages.start..pages.end).all(|page| held.contains(&page));
                assert!(has, "the buffer has the raw bytes");
            }
            None if decode.coding == Coding::Hole => assert!(raw.is_empty(), "nothing is read"),
            None => {
                let pages = block.raw.pages();
                assert_eq!(raw.len() as u64, pages.len(), "all raw pages are there");
                for (page, frame) in (pages.start..pages.end).zip(&raw) {
                    let there = contents.holds(*frame, (known.image, page));
                    assert!(there, "what is decoded is in its frame");
                }
            }
        }
        let fills: Vec<_> = engine.filled_by(decode).collect();
        for (page, frame) in &fills {
            let others = self.decodes.values().filter(|other| other.decode.file == decode.file);
            let mut twice = others.flat_map(|other| &other.fills);
            assert!(twice.all(|(other, _)| other != page), "a page is decoded by one at a time");
            contents.begin_read(*frame, (decode.file, *page));
        }
        let decoding = Decoding { decode: *decode, fills, raw };
        let before = self.decodes.insert(decode.id, decoding);
        assert!(before.is_none(), "an id names one decode at a time");
    }

    /// A block has been decoded, or failed to be.
    pub(super) fn see_decoded(
        &mut self,
        id: DecodeId,
        result: Result<(), IoError>,
        contents: &mut Contents,
    ) {
        let Decoding { decode, fills, raw } = self.decodes.remove(&id).expect("one answer each");
        let pages = decode.raw.pages();
        for (page, frame) in (pages.start..pages.end).zip(raw) {
            let there = contents.holds(frame, (decode.image, page));
            assert!(there, "raw pages stay while they are decoded");
        }
        for (page, frame) in fills {
            let runs = result.is_ok().then(|| std::rc::Rc::new(Runs::of(INITIAL)));
            contents.end_read(frame, (decode.file, page), runs);
        }
        if result.is_err() {
            self.corrupt.insert((decode.file, decode.pages.start));
        }
    }

    /// Whether a page of a packed file has a reason to fail, given the pages of images that did.
    pub(super) fn fails(
        &self,
        (file, page): (FileId, u64),
        error: Option<IoError>,
        failed: &BTreeSet<(FileId, u64)>,
    ) -> bool {
        let inside = |one: &&PackedFile| page < one.blocks.bytes().div_ceil(PAGE_SIZE);
        let known = self.files.iter().find(|one| one.file == file);
        let Some(known) = known.filter(inside) else { return false };
        let block = known.blocks.block(page);
        let pointers = known.blocks.pointers(Pages::new(page, page + 1)).pages();
        let raw = block.raw.pages();
        let mut needed = (pointers.start..pointers.end).chain(raw.start..raw.end);
        let broken = needed.any(|page| failed.contains(&(known.image, page)));
        let corrupt = self.corrupt.contains(&(file, block.pages.start));
        let large = raw.len() >= self.frames;
        match error {
            None => broken || corrupt || large,
            Some(IoError::Device) => broken,
            Some(IoError::Corrupt) => corrupt || broken,
            Some(IoError::NoMemory) => large,
            Some(_) => false,
        }
    }
}
