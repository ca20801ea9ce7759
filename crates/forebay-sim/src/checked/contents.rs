//! What files and frames hold in symbols, and what must never be lost of it.
//!
//! The model of a file is flat: the newest version of each byte, as the copies were executed page
//! by page. A frame holds the result of a read and of later copies. Bytes after the end of a file
//! do not count until the file has grown over them, which only a write can do.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use forebay_core::io::Copy;
use forebay_core::units::{FileId, FrameId, PAGE_SIZE};

use super::disk::{INODE, Place};
use super::runs::{FIRST, INITIAL, Runs, Version, ZERO, pieces};

/// All files and frames.
#[derive(Debug)]
pub(super) struct Contents {
    files: Vec<Model>,
    frames: BTreeMap<FrameId, Held>,
    /// Where each version was written, from [`FIRST`] on.
    written: Vec<(FileId, Range<u64>)>,
}

/// The pages of a file of which something is known.
pub(super) type Pages = BTreeMap<u64, Rc<Runs>>;

/// One file.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) size: u64,
    /// Its maximum since it was last durably empty.
    pub(super) extent: u64,
    /// How often it has been cut.
    pub(super) cuts: u64,
    /// The newest copy.
    pub(super) newest: Version,
    /// The newest version of each byte.
    pages: Pages,
    /// The newest version of each byte whose write failed.
    failed: Pages,
    /// The version of each byte that a power cut must not undo.
    safe: Pages,
    inode_failed: Version,
    inode_safe: Version,
}

/// A promise that a call makes when it ends well.
#[derive(Clone, Debug, Default)]
pub(super) struct Promise {
    pages: Pages,
    inode: Version,
    cuts: u64,
}

#[derive(Clone, Debug)]
struct Held {
    place: Place,
    /// Nothing while the page is being read.
    runs: Option<Rc<Runs>>,
}

impl Contents {
    /// Files of these sizes, as they are at first.
    pub(super) fn new(sizes: impl Iterator<Item = u64>) -> Self {
        let model = |size| Model {
            size,
            extent: size,
            cuts: 0,
            newest: INITIAL,
            pages: Pages::new(),
            failed: Pages::new(),
            safe: Pages::new(),
            inode_failed: INITIAL,
            inode_safe: INITIAL,
        };
        Self { files: sizes.map(model).collect(), frames: BTreeMap::new(), written: Vec::new() }
    }

    pub(super) fn file(&self, file: FileId) -> &Model {
        &self.files[file.index()]
    }

    /// A file is cut to nothing; nothing that it held is promised any longer.
    pub(super) fn cut(&mut self, file: FileId) {
        let model = &mut self.files[file.index()];
        model.extent = model.extent.max(model.size);
        (model.size, model.cuts) = (0, model.cuts + 1);
        (model.pages, model.failed, model.safe) = Default::default();
    }

    /// A cut has come to its end: no page is left.
    pub(super) fn end_cut(&mut self, file: FileId) {
        self.files[file.index()].extent = 0;
    }

    /// A page is being read into a frame.
    pub(super) fn begin_read(&mut self, frame: FrameId, place: Place) {
        self.frames.insert(frame, Held { place, runs: None });
    }

    /// The read of a page has completed, with or without data. Its data may be older than the last
    /// write only if a write failed.
    pub(super) fn end_read(&mut self, frame: FrameId, place: Place, brought: Option<Rc<Runs>>) {
        let Some(runs) = brought else {
            self.frames.remove(&frame);
            return;
        };
        let (file, page) = place;
        let model = &mut self.files[file.index()];
        let visible = 0..model.size.saturating_sub(page * PAGE_SIZE).min(PAGE_SIZE);
        let wanted = of(&model.pages, page);
        let failed = of(&model.failed, page);
        for (bytes, [brought, wanted, failed]) in pieces([&*runs, &wanted, &failed], &visible) {
            if brought != wanted {
                assert_eq!(
                    wanted, failed,
                    "a page of the device that was written well holds what was written: \
                     bytes {bytes:?} of {place:?} are {brought}"
                );
                change(&mut model.pages, page).stamp(&bytes, brought);
                change(&mut model.failed, page).stamp(&bytes, INITIAL);
            }
        }
        self.frames.insert(frame, Held { place, runs: Some(runs) });
    }

    /// Whether a frame holds a page, up to date.
    pub(super) fn holds(&self, frame: FrameId, place: Place) -> bool {
        let held = self.frames.get(&frame).filter(|held| held.place == place);
        held.is_some_and(|held| held.runs.is_some())
    }

    /// Bytes go from frames to a task.
    pub(super) fn copy_out(&self, copy: &Copy) {
        let model = self.file(copy.file);
        assert!(copy.offset + copy.len <= model.size, "what is read lies in the file");
        for (frame, page, bytes) in parts(copy) {
            let held = self.frames.get(&frame).filter(|held| held.place == (copy.file, page));
            let runs = held.and_then(|held| held.runs.as_ref());
            let runs = runs.expect("a frame holds what is copied");
            let wanted = of(&model.pages, page);
            for (bytes, [held, wanted]) in pieces([&**runs, &wanted], &bytes) {
                assert_eq!(held, wanted, "a read gives what was written: {bytes:?} of page {page}");
            }
        }
    }

    /// Bytes go from a task to frames; returns their version.
    pub(super) fn copy_in(&mut self, copy: &Copy) -> Version {
        let version = FIRST + self.written.len() as Version;
        let end = copy.offset + copy.len;
        self.written.push((copy.file, copy.offset..end));
        for (frame, page, bytes) in parts(copy) {
            let model = &mut self.files[copy.file.index()];
            let place = (copy.file, page);
            let start = page * PAGE_SIZE;
            let held = self.frames.get_mut(&frame).filter(|held| held.place == place);
            if let Some(held) = held {
                let runs = held.runs.as_mut().expect("a page that is being read is not written");
                Rc::make_mut(runs).stamp(&bytes, version);
            } else {
                let visible = model.size.saturating_sub(start).min(PAGE_SIZE);
                let covered = bytes.start == 0 && bytes.end >= visible;
                assert!(visible == 0 || covered, "a page that is written in part was read before");
                let mut runs = Runs::of(ZERO);
                runs.stamp(&bytes, version);
                self.frames.insert(frame, Held { place, runs: Some(Rc::new(runs)) });
            }
            model.size = model.size.max(start + bytes.end);
            change(&mut model.pages, page).stamp(&bytes, version);
            model.newest = version;
        }
        version
    }

    /// What a frame holds that is to be written.
    pub(super) fn taken(&self, frame: FrameId, place: Place) -> Rc<Runs> {
        let held = self.frames.get(&frame).filter(|held| held.place == place);
        let runs = held.and_then(|held| held.runs.as_ref());
        Rc::clone(runs.expect("what is written is in its frame"))
    }

    /// The write of a page failed that took `runs` along.
    pub(super) fn fail(&mut self, (file, page): Place, runs: &Runs) {
        let model = &mut self.files[file.index()];
        if page == INODE {
            pieces([runs], &(0..1)).for_each(|(_, [version])| model.inode_failed = version);
            return;
        }
        let before = of(&model.failed, page);
        for (bytes, [now, before]) in pieces([runs, &before], &(0..PAGE_SIZE)) {
            change(&mut model.failed, page).stamp(&bytes, now.max(before));
        }
    }

    /// The write of a page went well that took `runs` along.
    pub(super) fn succeed(&mut self, (file, page): Place, runs: &Runs) {
        let failed = &mut self.files[file.index()].failed;
        if let Some(before) = failed.get(&page).map(Rc::clone) {
            for (bytes, [now, before]) in pieces([runs, &before], &(0..PAGE_SIZE)) {
                if now >= before {
                    change(failed, page).stamp(&bytes, INITIAL);
                }
            }
        }
    }

    /// All data written to a file.
    pub(super) fn promise_all(&self, file: FileId) -> Promise {
        let model = self.file(file);
        let mut pages = model.pages.clone();
        // Earlier failures belong to another call.
        for (page, failed) in &model.failed {
            let newest = of(&model.pages, *page);
            for (bytes, [newest, failed]) in pieces([&*newest, &**failed], &(0..PAGE_SIZE)) {
                if newest <= failed {
                    change(&mut pages, *page).stamp(&bytes, INITIAL);
                }
            }
        }
        Promise { pages, inode: model.newest, cuts: model.cuts }
    }

    /// Nothing yet, of a file.
    pub(super) fn promise_none(&self, file: FileId) -> Promise {
        Promise { cuts: self.file(file).cuts, ..Promise::default() }
    }

    /// A call has succeeded: everything it acknowledged is durable from now on, unless it failed.
    pub(super) fn keep(
        &mut self,
        file: FileId,
        promise: &Promise,
        durable: impl Fn(Place) -> Rc<Runs>,
    ) {
        let model = &mut self.files[file.index()];
        if promise.cuts != model.cuts {
            return;
        }
        for (page, promised) in &promise.pages {
            let on_disk = durable((file, *page));
            let failed = of(&model.failed, *page);
            let safe = of(&model.safe, *page);
            let all = [&**promised, &*on_disk, &*failed, &*safe];
            for (bytes, [promised, on_disk, failed, safe]) in pieces(all, &(0..PAGE_SIZE)) {
                if promised <= failed || promised <= safe {
                    continue;
                }
                assert!(
                    on_disk >= promised,
                    "what is promised is safe: bytes {bytes:?} of page {page} of {file:?} are \
                     {on_disk} and not {promised}"
                );
                change(&mut model.safe, *page).stamp(&bytes, promised);
            }
        }
        if promise.inode > model.inode_failed {
            let on_disk = durable((file, INODE));
            for (_, [on_disk]) in pieces([&*on_disk], &(0..1)) {
                assert!(
                    on_disk >= promise.inode,
                    "changed metadata are safe: those of {file:?} are {on_disk} and not {}",
                    promise.inode
                );
            }
            model.inode_safe = model.inode_safe.max(promise.inode);
        }
    }

    /// The content of a page after a power failure; returns whether it is the newest.
    pub(super) fn see_survivor(&self, (file, page): Place, runs: &Runs) -> bool {
        let model = self.file(file);
        if page == INODE {
            let [version] = pieces([runs], &(0..1)).next().expect("a page has bytes").1;
            assert!(version >= model.inode_safe, "safe metadata survive");
            return version == model.newest;
        }
        let (safe, wanted) = (of(&model.safe, page), of(&model.pages, page));
        let mut newest = true;
        for (bytes, [left, safe, wanted]) in pieces([runs, &safe, &wanted], &(0..PAGE_SIZE)) {
            assert!(
                left >= safe,
                "what is safe survives: bytes {bytes:?} of page {page} of {file:?} are {left} and \
                 not {safe}"
            );
            newest &= left == wanted;
            if let Some(number) = left.checked_sub(FIRST) {
                let (written, place) = &self.written[number as usize];
                let start = page * PAGE_SIZE;
                let inside = place.start <= start + bytes.start && start + bytes.end <= place.end;
                assert!(*written == file && inside, "what survives was written there");
            }
        }
        newest
    }
}

impl Promise {
    /// A copy belongs to the call that promises it. `metadata` says whether they are promised too.
    pub(super) fn add(&mut self, copy: &Copy, version: Version, metadata: bool) {
        for (_, page, bytes) in parts(copy) {
            change(&mut self.pages, page).stamp(&bytes, version);
        }
        if metadata {
            self.inode = version;
        }
    }

    /// A file that has no metadata promises none.
    pub(super) fn without_metadata(self) -> Self {
        Self { inode: INITIAL, ..self }
    }
}

/// The frames and pages of a copy, and the bytes in each page.
fn parts(copy: &Copy) -> impl Iterator<Item = (FrameId, u64, Range<u64>)> {
    let Copy { offset, len, frame, .. } = *copy;
    let first = offset / PAGE_SIZE;
    (0..copy.pages()).map(move |step| {
        let start = (first + step) * PAGE_SIZE;
        let bytes = offset.max(start) - start..(offset + len).min(start + PAGE_SIZE) - start;
        (FrameId(frame.0 + step as u32), first + step, bytes)
    })
}

fn of(pages: &Pages, page: u64) -> Rc<Runs> {
    pages.get(&page).map_or_else(|| Rc::new(Runs::of(INITIAL)), Rc::clone)
}

fn change(pages: &mut Pages, page: u64) -> &mut Runs {
    Rc::make_mut(pages.entry(page).or_insert_with(|| Rc::new(Runs::of(INITIAL))))
}
