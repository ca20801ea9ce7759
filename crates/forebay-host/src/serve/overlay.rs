//! A writable layer over a base that is never written: copy on write by pages of 4 KiB.
//!
//! ```text
//!   layer   | head | map of bits | page 0 | page 1 | page 2 | ...     a sparse file
//!                       0 1 0         -    changed      -
//!   base                         | page 0 | page 1 | page 2 | ...
//!   read                            base     layer    base
//! ```
//!
//! A written page goes to its own position in the layer, as a whole; nothing is read for it. Its
//! bit is set in memory when the write has returned. A flush sets the bit on disk, after it has
//! synced the page itself. A bit on disk therefore never stands for missing bytes. After a power
//! failure, each page that no flush covers has the old content of the layer or the base, or the
//! written one.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

use thiserror::Error;

use super::store::{SourceWatch, Store};
use crate::backend::Requests;
use crate::frames::{PAGE, Page};
pub use file::{create_layer, follow_moved, identify, open_layer, stamp};
use head::{Head, Phase};
use layout::Layout;
pub use mark::{CommitMark, check_base, mark_commit, unmark_commit};

mod file;
mod head;
mod layout;
mod mark;

/// What an overlay is made over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseIdentity {
    /// Where the base is: a path. At most 1,024 bytes.
    pub name: String,
    /// What changes when the base does. At most 1,024 bytes.
    pub stamp: String,
}

/// A file among all of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileNode {
    /// The device of its file system.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

impl FileNode {
    fn at(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|found| Self::of(&found))
    }

    fn of(found: &Metadata) -> Self {
        Self { device: found.dev(), inode: found.ino() }
    }
}

/// Why an overlay cannot be used.
#[derive(Debug, Error)]
pub enum OverlayError {
    /// It cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is something else, or damaged.
    #[error("it is no overlay: {0}")]
    NotAnOverlay(&'static str),
    /// It was made over another base, or the base has been changed since.
    #[error("it was made over {}", difference(.made, .found))]
    OtherBase {
        /// The base at the time.
        made: Box<BaseIdentity>,
        /// The one that was given.
        found: Box<BaseIdentity>,
    },
    /// The base has another size than the overlay was made for.
    #[error("it was made for a base of {made} bytes, and this one has {found}")]
    OtherSize {
        /// Bytes.
        made: u64,
        /// Bytes.
        found: u64,
    },
    /// A commit has begun and not ended: the base is partly changed.
    #[error("its commit into '{0}' was interrupted")]
    HalfCommitted(String),
    /// Its base cannot be opened, read or written.
    #[error("its base '{name}': {why}")]
    Base {
        /// Where it is.
        name: String,
        /// The commit has begun.
        begun: bool,
        /// Why.
        why: io::Error,
    },
    /// The commit has begun in another file.
    #[error("its commit was begun in another file than the one at '{0}'")]
    OtherFile(String),
    /// The commit of another overlay into the base has begun and not ended.
    #[error("a commit of the overlay '{}' into '{base}' has begun and not ended",
        .overlay.display())]
    Marked {
        /// Where it is.
        base: String,
        /// The overlay.
        overlay: PathBuf,
    },
    /// A name or stamp is too long for the head.
    #[error("the base's name and stamp take more than {HEAD_TEXT_MAX} bytes each")]
    LongName,
    /// The base has more bytes than a layer can stand over.
    #[error("a base of {0} bytes is larger than 64 TiB")]
    LargeBase(u64),
}

/// What a base was, and in what the one that was given differs.
fn difference(made: &BaseIdentity, found: &BaseIdentity) -> String {
    let BaseIdentity { name, stamp } = found;
    if made.name == *name {
        format!("'{name}' as it was ({}), which has changed since ({stamp})", made.stamp)
    } else if made.stamp == *stamp {
        format!("'{}', and this is '{name}', another one ({stamp})", made.name)
    } else {
        format!("'{}' ({}), and this is '{name}' ({stamp})", made.name, made.stamp)
    }
}

/// What an overlay holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayInfo {
    /// Its base.
    pub base: BaseIdentity,
    /// Bytes of the disk.
    pub bytes: u64,
    /// Pages of 4 KiB that differ from the base, or may.
    pub changed_pages: u64,
    /// A commit has begun and not ended.
    pub is_half_committed: bool,
    /// The file into which a commit has begun, if it is known.
    pub node: Option<FileNode>,
}

/// A base and the layer over it, as one store.
#[derive(Debug)]
pub struct OverlayStore {
    base: Arc<dyn Store>,
    layer: Arc<dyn Store>,
    layout: Layout,
    /// A bit for each page that the layer holds.
    present: Vec<AtomicU64>,
    /// Pages of the map that a flush has to write, a bit for each. It is set after the bit in
    /// `present`, and cleared before that one is looked at.
    behind: Vec<AtomicU64>,
    /// The map on disk; one thread at a time writes it.
    saved: Mutex<Vec<u64>>,
}

impl OverlayStore {
    /// The bytes of a layer over a base of `base_bytes` bytes.
    pub fn layer_bytes(base_bytes: u64) -> u64 {
        Layout::new(base_bytes).layer_bytes()
    }

    /// Makes an empty layer: all zeroes behind a head. The layer has
    /// [`layer_bytes`](Self::layer_bytes) and reads as zeroes.
    ///
    /// # Errors
    /// It cannot be written, or the base's name is too long.
    pub fn format(
        layer: &dyn Store,
        base_bytes: u64,
        base: &BaseIdentity,
    ) -> Result<(), OverlayError> {
        let (phase, base) = (Phase::InUse, base.clone());
        Head { phase, bytes: base_bytes, base, node: None }.write(layer)
    }

    /// What a layer holds.
    ///
    /// # Errors
    /// It cannot be read or is none.
    pub fn info(layer: &dyn Store) -> Result<OverlayInfo, OverlayError> {
        let (head, words) = read_layer(layer)?;
        Ok(OverlayInfo {
            base: head.base,
            bytes: head.bytes,
            changed_pages: words.iter().map(|word| u64::from(word.count_ones())).sum(),
            is_half_committed: head.phase == Phase::Committing,
            node: head.node,
        })
    }

    /// A base with the layer that was made over it.
    ///
    /// # Errors
    /// The layer cannot be read, is none, was made over another base, or its commit has begun.
    pub fn open(
        base: Arc<dyn Store>,
        layer: Arc<dyn Store>,
        identity: &BaseIdentity,
    ) -> Result<Self, OverlayError> {
        let (head, words) = read_layer(&*layer)?;
        if head.phase == Phase::Committing {
            return Err(OverlayError::HalfCommitted(head.base.name));
        }
        if head.bytes != base.bytes() {
            return Err(OverlayError::OtherSize { made: head.bytes, found: base.bytes() });
        }
        if head.base != *identity {
            let (made, found) = (Box::new(head.base), Box::new(identity.clone()));
            return Err(OverlayError::OtherBase { made, found });
        }
        let layout = Layout::new(head.bytes);
        let present = words.iter().map(|word| AtomicU64::new(*word)).collect();
        let behind = (0..layout.map_pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { base, layer, layout, present, behind, saved: Mutex::new(words) })
    }

    /// Writes the contents of a layer to its base, whose file is kept in the head, and empties the
    /// layer. When a commit that is run again would write no page, `stamp` is called for the base's
    /// stamp. After an interruption, it is completed by running it again.
    ///
    /// # Errors
    /// The layer or the base cannot be read or written; they are of different sizes.
    pub fn commit(
        (base, node): (&dyn Store, Option<FileNode>),
        layer: &dyn Store,
        stamp: impl FnOnce() -> io::Result<String>,
    ) -> Result<u64, OverlayError> {
        let (mut head, words) = read_layer(layer)?;
        let layout = Layout::new(head.bytes);
        if head.bytes != base.bytes() {
            return Err(OverlayError::OtherSize { made: head.bytes, found: base.bytes() });
        }
        head.phase = Phase::Committing;
        head.node = node;
        head.write(layer)?;
        layer.flush()?;
        let mut pages = 0;
        let mut next = first_from(&words, 0, true);
        while let Some(first) = next {
            let end = first_from(&words, first, false).unwrap_or(layout.pages).min(layout.pages);
            copy_run(base, layer, &head, first..end)?;
            pages += end - first;
            next = first_from(&words, end, true);
        }
        base.flush().map_err(|why| head.base_failed(why))?;
        for page in 0..layout.map_pages {
            if words_of(&words, page).iter().any(|word| *word != 0) {
                write_page(layer, &Page([0; PAGE]), layout.map_place(page), false)?;
            }
        }
        layer.flush()?;
        // Room that is not given back is no error.
        let _ = layer.zero(layout.place(0), layout.layer_bytes() - layout.place(0), true);
        head.base.stamp = stamp().map_err(|why| head.base_failed(why))?;
        head.phase = Phase::InUse;
        head.write(layer)?;
        layer.flush()?;
        Ok(pages)
    }

    fn is_present(&self, page: u64) -> bool {
        let word = self.present.get((page / 64) as usize);
        word.is_some_and(|word| word.load(Relaxed) & bit(page) != 0)
    }

    /// The end of the run of pages from one on that the same side holds, before `most`.
    fn run_end(&self, page: u64, most: u64) -> u64 {
        let side = self.is_present(page);
        let alike = if side { u64::MAX } else { 0 };
        let mut at = page + 1;
        while at < most {
            let is_word = at.is_multiple_of(64);
            if is_word && self.present[(at / 64) as usize].load(Relaxed) == alike {
                at += 64;
            } else if self.is_present(at) == side {
                at += 1;
            } else {
                break;
            }
        }
        at.min(most)
    }

    /// The layer holds these pages from now on.
    fn enter(&self, pages: Range<u64>, durable: bool) -> io::Result<()> {
        let mut page = pages.start;
        while page < pages.end {
            // A trim may be of billions of pages.
            let end = pages.end.min((page / 64 + 1) * 64);
            let bits = u64::MAX >> (64 - (end - page)) << (page % 64);
            if self.present[(page / 64) as usize].fetch_or(bits, Relaxed) & bits != bits {
                self.note_behind(layout::map_page_of(page));
            }
            page = end;
        }
        if durable { self.save(pages) } else { Ok(()) }
    }

    fn note_behind(&self, map_page: u64) {
        self.behind[(map_page / 64) as usize].fetch_or(bit(map_page), Release);
    }

    /// Syncs the bits of these pages, whose bytes are on disk.
    fn save(&self, pages: Range<u64>) -> io::Result<()> {
        let mut saved = self.lock();
        for map_page in Layout::map_pages_of(&pages) {
            let mut words = words_of(&saved, map_page).to_vec();
            for page in pages.clone().filter(|page| layout::map_page_of(*page) == map_page) {
                words[(page / 64 % WORDS_OF_MAP_PAGE) as usize] |= bit(page);
            }
            if words != words_of(&saved, map_page) {
                self.write_map_page(map_page, &words, true)?;
                set_words(&mut saved, map_page, &words);
            }
        }
        Ok(())
    }

    /// Brings to disk what these pages of the map are now.
    fn save_map(&self, saved: &mut [u64], map_pages: &[u64]) -> io::Result<()> {
        // Bits of writes that return from here on may wait for the next flush.
        let of = |map_page| self.present[words_range(self.present.len(), map_page)].iter();
        let now = |map_page: &u64| of(*map_page).map(|word| word.load(Relaxed)).collect();
        let found: Vec<Vec<u64>> = map_pages.iter().map(now).collect();
        self.layer.flush()?;
        if map_pages.is_empty() {
            return Ok(());
        }
        for (map_page, words) in map_pages.iter().zip(&found) {
            self.write_map_page(*map_page, words, false)?;
        }
        self.layer.flush()?;
        for (map_page, words) in map_pages.iter().zip(&found) {
            set_words(saved, *map_page, words);
        }
        Ok(())
    }

    fn write_map_page(&self, map_page: u64, words: &[u64], durable: bool) -> io::Result<()> {
        write_page(&*self.layer, &packed(words), self.layout.map_place(map_page), durable)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads pages that the same side holds.
    fn read_side(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        if !self.is_present(offset / PAGE_BYTES) {
            return self.base.read(buffers, offset);
        }
        let read = self.layer.read(buffers, self.layout.place(offset))?;
        // The layer's last page is whole, the disk's need not be.
        Ok(read.min((self.layout.bytes - offset) as usize))
    }

    /// The first page of a transfer, and the page behind what of it lies in the disk.
    fn pages_of(&self, offset: u64, len: u64) -> (u64, u64) {
        let end = offset.saturating_add(len).min(self.layout.bytes);
        (offset / PAGE_BYTES, end.div_ceil(PAGE_BYTES))
    }
}

impl Store for OverlayStore {
    fn bytes(&self) -> u64 {
        self.layout.bytes
    }

    /// Reads up to where the other side's pages begin.
    fn read(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let len: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let (first, end) = self.pages_of(offset, len as u64);
        if first >= end {
            return Ok(0);
        }
        let run = ((self.run_end(first, end) - first) * PAGE_BYTES) as usize;
        let mut inside = 0;
        let ends = buffers.iter().take_while(|buffer| {
            inside += buffer.len();
            inside <= run
        });
        let count = ends.count();
        if count == 0 {
            let part = &mut buffers[0][..run];
            return self.read_side(&mut [IoSliceMut::new(part)], offset);
        }
        self.read_side(&mut buffers[..count], offset)
    }

    fn write(&self, buffers: &[IoSlice<'_>], offset: u64, durable: bool) -> io::Result<usize> {
        let written = self.layer.write(buffers, self.layout.place(offset), durable)?;
        let end = offset + written as u64;
        let is_whole = end.is_multiple_of(PAGE_BYTES) || end == self.layout.bytes;
        let first = offset / PAGE_BYTES;
        // Half a page is written again as a whole.
        let last = if is_whole { end.div_ceil(PAGE_BYTES) } else { end / PAGE_BYTES };
        self.enter(first..last, durable)?;
        Ok(written)
    }

    /// First the bytes, then their bits.
    fn flush(&self) -> io::Result<()> {
        let mut saved = self.lock();
        let behind: Vec<u64> = self.behind.iter().map(|word| word.swap(0, Acquire)).collect();
        let map_pages: Vec<u64> = set_bits(&behind).collect();
        let result = self.save_map(&mut saved, &map_pages);
        if result.is_err() {
            map_pages.iter().for_each(|map_page| self.note_behind(*map_page));
        }
        result
    }

    fn zero(&self, offset: u64, len: u64, hole: bool) -> io::Result<bool> {
        let (first, end) = self.pages_of(offset, len);
        let is_whole = offset.is_multiple_of(PAGE_BYTES)
            && ((offset + len).is_multiple_of(PAGE_BYTES) || offset + len == self.layout.bytes);
        if !is_whole {
            return Ok(false);
        }
        let zeroed =
            self.layer.zero(self.layout.place(offset), (end - first) * PAGE_BYTES, hole)?;
        if zeroed {
            self.enter(first..end, false)?;
        }
        Ok(zeroed)
    }

    fn run(&self, offset: u64) -> io::Result<(u64, bool)> {
        let page = offset / PAGE_BYTES;
        let most = self.layout.pages.min(page + RUN_PAGES_MAX);
        let end = (self.run_end(page, most) * PAGE_BYTES).min(self.layout.bytes);
        if !self.is_present(page) {
            let (run, hole) = self.base.run(offset)?;
            return Ok((run.min(end), hole));
        }
        let (run, hole) = self.layer.run(self.layout.place(offset))?;
        Ok((run.saturating_sub(self.layout.place(0)).min(end), hole))
    }

    fn zeroes_fast(&self) -> bool {
        self.layer.zeroes_fast()
    }

    fn requests(&self) -> Option<Requests> {
        self.base.requests()
    }

    fn watch(&self, watch: SourceWatch) {
        self.base.watch(watch);
    }
}

/// The head and the map of a layer.
fn read_layer(layer: &dyn Store) -> Result<(Head, Vec<u64>), OverlayError> {
    let head = Head::read(layer)?;
    let layout = Layout::new(head.bytes);
    if layer.bytes() < layout.layer_bytes() {
        return Err(OverlayError::NotAnOverlay("it is shorter than its head says"));
    }
    let mut words = vec![0; layout.words() as usize];
    let mut page = Page([0; PAGE]);
    for map_page in 0..layout.map_pages {
        read_page(layer, &mut page, layout.map_place(map_page))?;
        let range = words_range(words.len(), map_page);
        for (word, bytes) in words[range].iter_mut().zip(page.0.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
    }
    if first_from(&words, layout.pages, true).is_some() {
        return Err(OverlayError::NotAnOverlay("its map names pages behind the end of the disk"));
    }
    Ok((head, words))
}

/// Writes a run of pages of a layer into its base.
fn copy_run(
    base: &dyn Store,
    layer: &dyn Store,
    head: &Head,
    pages: Range<u64>,
) -> Result<(), OverlayError> {
    let layout = Layout::new(head.bytes);
    let failed = |why| head.base_failed(why);
    let mut at = pages.start * PAGE_BYTES;
    let end = (pages.end * PAGE_BYTES).min(layout.bytes);
    let mut buffer = vec![Page([0; PAGE]); COPY_PAGES];
    while at < end {
        let (run, hole) = layer.run(layout.place(at))?;
        // A hole may end within a page of the layer's device.
        let run = (run - layout.place(0)) / PAGE_BYTES * PAGE_BYTES;
        let stop = run.max(at + PAGE_BYTES).min(end);
        if hole && run > at && base.zero(at, stop - at, true).map_err(failed)? {
            at = stop;
            continue;
        }
        let count = ((stop - at).div_ceil(PAGE_BYTES) as usize).min(COPY_PAGES);
        let pages = &mut buffer[..count];
        read_pages(layer, pages, layout.place(at))?;
        at += write_pages(base, pages, at, end).map_err(failed)?;
    }
    Ok(())
}

/// Writes pages, or one that a disk ends in; returns how many bytes of the disk were written.
fn write_pages(base: &dyn Store, pages: &[Page], at: u64, end: u64) -> io::Result<u64> {
    let whole = ((end - at) / PAGE_BYTES).min(pages.len() as u64) as usize;
    if whole == 0 {
        write_all(base, &pages[0].0[..(end - at) as usize], at, false)?;
        return Ok(end - at);
    }
    let slices: Vec<IoSlice<'_>> =
        pages[..whole].iter().map(|page| IoSlice::new(&page.0)).collect();
    match base.write(&slices, at, false) {
        Ok(written) if written >= PAGE => Ok(written as u64 / PAGE_BYTES * PAGE_BYTES),
        Ok(_) => Err(ErrorKind::StorageFull.into()),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(0),
        Err(error) => Err(error),
    }
}

fn read_pages(store: &dyn Store, pages: &mut [Page], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < pages.len() {
        let mut slices: Vec<IoSliceMut<'_>> =
            pages[done..].iter_mut().map(|page| IoSliceMut::new(&mut page.0)).collect();
        match store.read(&mut slices, offset + done as u64 * PAGE_BYTES) {
            Ok(read) if read >= PAGE => done += read / PAGE,
            Ok(_) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read_page(store: &dyn Store, page: &mut Page, offset: u64) -> io::Result<()> {
    read_pages(store, std::slice::from_mut(page), offset)
}

fn write_page(store: &dyn Store, page: &Page, offset: u64, durable: bool) -> io::Result<()> {
    write_all(store, &page.0, offset, durable)
}

/// Writes a page or the beginning of one.
fn write_all(store: &dyn Store, bytes: &[u8], offset: u64, durable: bool) -> io::Result<()> {
    loop {
        match store.write(&[IoSlice::new(bytes)], offset, durable) {
            Ok(written) if written == bytes.len() => return Ok(()),
            // There is no room for a whole one.
            Ok(_) => return Err(ErrorKind::StorageFull.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A page of the map in its format on disk.
fn packed(words: &[u64]) -> Page {
    let mut page = Page([0; PAGE]);
    for (bytes, word) in page.0.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    page
}

/// The numbers of the bits that are set.
fn set_bits(words: &[u64]) -> impl Iterator<Item = u64> {
    (0..words.len() as u64 * 64).filter(|at| words[(at / 64) as usize] & bit(*at) != 0)
}

/// The first bit from one on that is set, or that is not.
fn first_from(words: &[u64], from: u64, set: bool) -> Option<u64> {
    let mut at = from;
    while at < words.len() as u64 * 64 {
        let word = words[(at / 64) as usize];
        let found = if set { word } else { !word } & (u64::MAX << (at % 64));
        if found != 0 {
            return Some(at / 64 * 64 + u64::from(found.trailing_zeros()));
        }
        at = (at / 64 + 1) * 64;
    }
    None
}

/// The words of a page of the map.
fn words_of(words: &[u64], map_page: u64) -> &[u64] {
    &words[words_range(words.len(), map_page)]
}

fn set_words(all: &mut [u64], map_page: u64, words: &[u64]) {
    let range = words_range(all.len(), map_page);
    all[range].copy_from_slice(words);
}

fn words_range(words: usize, map_page: u64) -> Range<usize> {
    let first = (map_page * WORDS_OF_MAP_PAGE) as usize;
    first..words.min(first + WORDS_OF_MAP_PAGE as usize)
}

const fn bit(page: u64) -> u64 {
    1 << (page % 64)
}

const PAGE_BYTES: u64 = PAGE as u64;

/// Words of 64 bits in a page of the map.
const WORDS_OF_MAP_PAGE: u64 = PAGE_BYTES / 8;

/// Pages that one answer about allocation looks through: 4 GiB.
const RUN_PAGES_MAX: u64 = 1 << 20;

/// Pages that a commit copies at once: 1 MiB.
const COPY_PAGES: usize = 256;

/// Bytes of a base's name and of its stamp.
const HEAD_TEXT_MAX: usize = 1024;

#[cfg(test)]
mod tests;
