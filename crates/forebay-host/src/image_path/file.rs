//! The file that holds the image: pages of it for the engine, bytes of its tree for the parser.
//!
//! The tree is read through the kernel's page cache, and so are blocks, unless `O_DIRECT` is asked
//! for. The file is open twice: for long runs, which the kernel reads ahead of, and for random
//! reads, which it does not read around.
//!
//! A thread at [`Pace::Quick`] does not wait for a device: a read of the tree that is not in memory
//! fails with [`Absent`].

use std::cell::Cell;
use std::fs::File;
use std::io::{self, ErrorKind, IoSliceMut};
use std::num::NonZero;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use forebay_core::units::PAGE_SIZE;
use forebay_image::Source;
use rustix::fs::{Advice, fadvise};
use rustix::io::ReadWriteFlags;

use super::fault::{Absent, Pace};
use super::stats::PathStats;
use crate::access::Buffer;
use crate::backend::{Backend, BlockCache};
use crate::frames::{Bytes, PAGE, PageBytes};

/// The image file.
#[derive(Debug)]
pub(crate) struct ImageFile {
    bytes: ImageBytes,
    /// Where the image begins in the file.
    base: u64,
    /// What the image may be as long as; reads beyond what is there fail.
    len: u64,
    /// What the file itself had when it was opened.
    file_len: u64,
    stats: Arc<PathStats>,
}

/// Where the bytes are.
#[derive(Debug)]
enum ImageBytes {
    File(Opened),
    /// Elsewhere; those that came are in a cache.
    Cached {
        cache: Arc<BlockCache>,
        /// Requests and bytes that are counted.
        counted: [AtomicU64; 2],
    },
}

/// An image file that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    /// For long runs.
    pub(crate) file: File,
    /// For random reads, through the page cache.
    pub(crate) random: File,
    /// Whether `file` goes past the page cache.
    pub(crate) direct: bool,
}

impl ImageFile {
    /// Over an open file; the image lies at `place`.
    pub(crate) fn new(opened: Opened, place: Range<u64>, stats: Arc<PathStats>) -> Self {
        // A file system that has no use for advice reads as it likes.
        let _ = fadvise(&opened.random, 0, None, Advice::Random);
        Self::over(ImageBytes::File(opened), place, stats)
    }

    /// Over a cache of what is elsewhere; the image begins at `offset`.
    pub(crate) fn cached(cache: Arc<BlockCache>, offset: u64, stats: Arc<PathStats>) -> Self {
        let place = offset..cache.len();
        Self::over(ImageBytes::Cached { cache, counted: Default::default() }, place, stats)
    }

    fn over(bytes: ImageBytes, place: Range<u64>, stats: Arc<PathStats>) -> Self {
        let len = place.end.saturating_sub(place.start);
        Self { bytes, base: place.start, len, file_len: place.end, stats }
    }

    /// The same file, as if the image were `len` bytes long.
    pub(crate) fn with_len(self, len: u64) -> Self {
        Self { len, ..self }
    }

    /// The bytes of the image that are in the file.
    pub(crate) fn present_bytes(&self) -> u64 {
        self.len.min(self.file_len.saturating_sub(self.base))
    }

    /// Whether blocks are read past the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        matches!(&self.bytes, ImageBytes::File(opened) if opened.direct)
    }

    /// Reads pages of the image if that takes no device; says whether it did.
    pub(crate) fn read_near(&self, first: u64, pages: &mut [Box<Bytes>]) -> bool {
        let wanted = self.bytes_at(first, pages.len());
        let near = match &self.bytes {
            ImageBytes::File(opened) if opened.direct => return false,
            ImageBytes::File(opened) => {
                let near = self.preadv(&opened.random, first, pages, ReadWriteFlags::NOWAIT);
                near.is_ok_and(|read| read >= wanted)
            }
            ImageBytes::Cached { cache, .. } => {
                let offset = self.base.saturating_add(first * PAGE_SIZE);
                slices(pages, wanted).all(|(at, page)| cache.read_near(page, offset + at))
            }
        };
        self.stats.raw_near.add(u64::from(near));
        near
    }

    /// Reads pages of the image; the last one may reach beyond its end.
    pub(crate) fn read(&self, first: u64, pages: &mut [Box<Bytes>]) -> io::Result<()> {
        let begin = Instant::now();
        let wanted = self.bytes_at(first, pages.len());
        match &self.bytes {
            ImageBytes::File(opened) if opened.direct => {
                self.read_direct(&opened.file, first, pages, wanted)?;
            }
            ImageBytes::File(opened) => self.read_buffered(opened, first, pages, wanted)?,
            ImageBytes::Cached { cache, .. } => {
                let offset = self.base.saturating_add(first * PAGE_SIZE);
                for (at, page) in slices(pages, wanted) {
                    cache.read_exact_at(page, offset + at)?;
                }
                self.count_requests();
            }
        }
        self.stats.raw_operations.add(1);
        self.stats.raw_bytes.add(wanted as u64);
        self.stats.raw_nanos.add(crate::processor::nanos(begin.elapsed()));
        Ok(())
    }

    /// Whether a range is in memory.
    pub(crate) fn has(&self, range: &Range<u64>) -> bool {
        let mut bytes = vec![0; index(range.end.saturating_sub(range.start))];
        self.copy_near(range, &mut bytes)
    }

    /// Begins to read a range into the page cache.
    pub(crate) fn will_need(&self, range: &Range<u64>) {
        let len = NonZero::new(range.end.saturating_sub(range.start));
        let Some(len) = len.filter(|_| !self.is_direct()) else { return };
        // If it cannot, the next read waits for the device.
        self.advise(self.base.saturating_add(range.start), len);
        self.stats.raw_advised.add(len.get());
    }

    /// The bytes of the image that lie in pages.
    fn bytes_at(&self, first: u64, pages: usize) -> usize {
        let there = self.present_bytes().saturating_sub(first.saturating_mul(PAGE_SIZE));
        usize::try_from(there).unwrap_or(usize::MAX).min(pages * PAGE)
    }

    /// Begins to read bytes of the file into memory.
    fn advise(&self, offset: u64, len: NonZero<u64>) {
        match &self.bytes {
            ImageBytes::File(opened) => {
                let _ = fadvise(&opened.random, offset, Some(len), Advice::WillNeed);
            }
            ImageBytes::Cached { cache, .. } => {
                cache.will_need(&(offset..offset.saturating_add(len.get())));
            }
        }
    }

    /// Adds what was sent since the last time.
    fn count_requests(&self) {
        if let ImageBytes::Cached { cache, counted } = &self.bytes {
            let sent = cache.requests().unwrap_or_default();
            let add = |at: usize, now: u64| now.saturating_sub(counted[at].fetch_max(now, Relaxed));
            self.stats.object_requests.add(add(0, sent.count));
            self.stats.object_bytes.add(add(1, sent.bytes));
        }
    }

    fn read_buffered(
        &self,
        opened: &Opened,
        first: u64,
        pages: &mut [Box<Bytes>],
        wanted: usize,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < wanted {
            // A read that ended early goes on at a page.
            let whole = done / PAGE;
            let file = if pages.len() >= LONG { &opened.file } else { &opened.random };
            let (rest, flags) = (&mut pages[whole..], ReadWriteFlags::empty());
            let read = self.preadv(file, first + whole as u64, rest, flags)?;
            if read == 0 || whole * PAGE + read <= done {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            done = whole * PAGE + read;
        }
        Ok(())
    }

    fn preadv(
        &self,
        file: &File,
        first: u64,
        pages: &mut [Box<Bytes>],
        flags: ReadWriteFlags,
    ) -> io::Result<usize> {
        let offset = self.base.saturating_add(first * PAGE_SIZE);
        let mut slices: Vec<IoSliceMut<'_>> =
            pages.iter_mut().map(|page| IoSliceMut::new(page.bytes_mut())).collect();
        loop {
            match rustix::io::preadv2(file, &mut slices, offset, flags) {
                Err(rustix::io::Errno::INTR) => {}
                read => return Ok(read?),
            }
        }
    }

    /// A device wants aligned memory and places; the image need not begin at one.
    fn read_direct(
        &self,
        file: &File,
        first: u64,
        pages: &mut [Box<Bytes>],
        wanted: usize,
    ) -> io::Result<()> {
        let start = self.base.saturating_add(first * PAGE_SIZE);
        let before = index(start % DIRECT);
        let aligned = start - start % DIRECT;
        let len = (before + wanted).next_multiple_of(index(DIRECT));
        let mut memory = Buffer::new(len);
        let mut done = 0;
        while done < before + wanted {
            if !(done as u64).is_multiple_of(DIRECT) {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            match file.read_at(&mut memory[done..], aligned + done as u64) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => done += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let bytes = &memory[before..before + wanted];
        for (page, bytes) in pages.iter_mut().zip(bytes.chunks(PAGE)) {
            page.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Copies a range through the page cache if that takes no device; says whether it did.
    fn copy_near(&self, range: &Range<u64>, target: &mut [u8]) -> bool {
        let offset = self.base.saturating_add(range.start);
        let wanted = target.len();
        match &self.bytes {
            ImageBytes::File(opened) => {
                let mut target = [IoSliceMut::new(target)];
                let flags = ReadWriteFlags::NOWAIT;
                let near = rustix::io::preadv2(&opened.random, &mut target, offset, flags);
                near == Ok(wanted)
            }
            ImageBytes::Cached { cache, .. } => cache.read_near(target, offset),
        }
    }
}

impl Source for ImageFile {
    fn len(&self) -> u64 {
        self.len
    }

    /// What reads through this is the tree.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.len);
        let range = offset..end.ok_or(ErrorKind::UnexpectedEof)?;
        if self.copy_near(&range, buffer) {
            return Ok(());
        }
        if QUICK.get() {
            return Err(io::Error::new(ErrorKind::WouldBlock, Absent(range)));
        }
        let begin = Instant::now();
        let at = self.base.saturating_add(offset);
        match &self.bytes {
            ImageBytes::File(opened) => {
                // A reader of some of the tree reads more of it.
                let around = at / TREE * TREE;
                let _ = fadvise(&opened.random, around, NonZero::new(TREE), Advice::WillNeed);
                opened.random.read_exact_at(buffer, at)?;
            }
            ImageBytes::Cached { cache, .. } => {
                cache.read_exact_at(buffer, at)?;
                self.count_requests();
            }
        }
        self.stats.raw_operations.add(1);
        self.stats.raw_bytes.add(buffer.len() as u64);
        self.stats.raw_nanos.add(crate::processor::nanos(begin.elapsed()));
        Ok(())
    }
}

/// Runs `what` at a pace; see [`Absent`].
pub(crate) fn at_pace<T>(pace: Pace, what: impl FnOnce() -> T) -> T {
    /// Restores the pace, also after a panic.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            QUICK.set(self.0);
        }
    }
    let _before = Before(QUICK.replace(pace == Pace::Quick));
    what()
}

/// Whether this thread is at [`Pace::Quick`].
pub(crate) fn is_quick() -> bool {
    QUICK.get()
}

/// The bytes of pages that are wanted, page by page, each with its place.
fn slices(pages: &mut [Box<Bytes>], wanted: usize) -> impl Iterator<Item = (u64, &mut [u8])> {
    pages.iter_mut().enumerate().map_while(move |(at, page)| {
        let len = wanted.saturating_sub(at * PAGE).min(PAGE);
        (len > 0).then(|| ((at * PAGE) as u64, &mut page.bytes_mut()[..len]))
    })
}

/// A number that is no larger than a buffer.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

thread_local! {
    /// Whether this thread must not wait for a device.
    static QUICK: Cell<bool> = const { Cell::new(false) };
}

/// Pages that are read as a long run.
const LONG: usize = 8;

/// Bytes of the tree that are read where some are wanted.
const TREE: u64 = 128 << 10;

/// What places past the page cache are multiples of at most, on any device we know.
const DIRECT: u64 = 4096;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A file of `len` bytes, the image in it from `base` on; read aligned as if it were past the
    /// page cache, which any file allows.
    fn opened(len: usize, base: u64, direct: bool) -> (ImageFile, Vec<u8>) {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let random = file.try_clone().unwrap();
        let opened = Opened { file, random, direct };
        let image = ImageFile::new(opened, base..len as u64, Arc::default());
        (image, bytes[index(base)..].to_vec())
    }

    fn pages(count: usize) -> Vec<Box<Bytes>> {
        (0..count).map(|_| Bytes::new()).collect()
    }

    #[test]
    fn any_pages_read_as_the_file_does() {
        for (base, direct) in [(0, false), (0, true), (777, false), (777, true)] {
            let (image, bytes) = opened(100_000, base, direct);
            for (first, count) in [(0, 1), (3, 20), (0, 25), (24, 1)] {
                let mut target = pages(count);
                image.read(first, &mut target).unwrap();
                let found: Vec<u8> = target.iter().flat_map(|page| *page.bytes()).collect();
                let wanted = &bytes[index(first) * PAGE..];
                let len = wanted.len().min(found.len());
                assert_eq!(found[..len], wanted[..len], "{first} {count} from {base} {direct}");
                target = pages(count);
                assert_eq!(image.read_near(first, &mut target), !direct);
            }
        }
    }

    #[test]
    fn a_file_that_shrank_is_an_error() {
        for direct in [false, true] {
            let (image, _) = opened(100_000, 0, direct);
            let ImageBytes::File(file) = &image.bytes else { unreachable!("it is a file") };
            file.file.set_len(50_000).unwrap();
            image.read(0, &mut pages(12)).unwrap();
            assert!(image.read(12, &mut pages(2)).is_err());
            assert!(!image.read_near(12, &mut pages(2)));
        }
    }

    #[test]
    fn beyond_the_end_is_an_error_and_what_lies_before_it_is_there() {
        let (image, bytes) = opened(20_000, 0, false);
        let image = image.with_len(1 << 30);
        assert_eq!(image.present_bytes(), 20_000);
        let mut target = [0; 100];
        assert!(image.read_exact_at(&mut target, 19_950).is_err());
        assert!(image.read_exact_at(&mut target, 1 << 25).is_err());
        assert!(image.read_exact_at(&mut target, u64::MAX - 10).is_err());
        image.read_exact_at(&mut target, 19_900).unwrap();
        assert_eq!(target, bytes[19_900..]);
    }

    #[test]
    fn the_quick_pace_is_this_threads_alone_and_ends() {
        at_pace(Pace::Quick, || {
            assert!(is_quick());
            std::thread::scope(|scope| scope.spawn(|| assert!(!is_quick())).join().unwrap());
            at_pace(Pace::Patient, || assert!(!is_quick()));
            assert!(is_quick());
        });
        assert!(!is_quick());
    }
}
