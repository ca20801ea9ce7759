//! Blocks of another backend in memory, fetched ahead of readers as the core says
//! ([`BlockAhead`]).
//!
//! A block has 256 KiB. A request for one over 10 ms and 100 MB/s takes 12.6 ms: half the size
//! saves 1.3 ms and sees half as much of the neighbourhood, four times the size costs 8 ms and four
//! times the bytes where a reader jumps. Sequential readers do not depend on it: up to 4 MiB are
//! fetched ahead of them, in requests of up to 1 MiB, several at once, which hides 10 ms up to
//! 400 MB/s.
//!
//! A reader of a block that is being fetched waits for it: no block is requested twice at a time.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use forebay_core::serving::BlockAhead;

use super::{Backend, Requests};

/// A cache of a backend's blocks, of a stated size.
pub struct BlockCache {
    shared: Arc<Shared>,
    /// Runs of blocks to be fetched ahead; threads end when it is dropped.
    ahead: Sender<Range<u64>>,
}

struct Shared {
    inner: Arc<dyn Backend>,
    blocks_max: usize,
    state: Mutex<State>,
    /// Rings when blocks have come, or have failed.
    bell: Condvar,
}

struct State {
    blocks: BTreeMap<u64, Slot>,
    ahead: BlockAhead,
    /// Counts reads: which block was used last.
    clock: u64,
}

enum Slot {
    /// On its way.
    Coming,
    Here {
        bytes: Arc<[u8]>,
        used: u64,
    },
}

impl BlockCache {
    /// Keeps up to `bytes` of a backend; at least [`CACHE_MIN`].
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn new(inner: Arc<dyn Backend>, bytes: u64) -> io::Result<Self> {
        let blocks_max = usize::try_from(bytes.max(CACHE_MIN) / BLOCK).unwrap_or(usize::MAX);
        // Blocks ahead of streams must not push out what others use.
        let ahead = BlockAhead::new(blocks_max as u64 / 4);
        let state = Mutex::new(State { blocks: BTreeMap::new(), ahead, clock: 0 });
        let shared = Arc::new(Shared { inner, blocks_max, state, bell: Condvar::new() });
        let (ahead, jobs) = bounded(QUEUE);
        for _ in 0..THREADS {
            let (shared, jobs): (_, Receiver<Range<u64>>) = (Arc::clone(&shared), jobs.clone());
            let bring = move || {
                for run in jobs {
                    // A reader that needs it asks again, and gets the error.
                    let _ = shared.bring(run);
                }
            };
            thread::Builder::new().name("ahead".to_owned()).spawn(bring)?;
        }
        Ok(Self { shared, ahead })
    }

    /// Copies bytes that are in memory; returns whether all of them were.
    pub fn read_near(&self, buffer: &mut [u8], offset: u64) -> bool {
        let end = offset.saturating_add(buffer.len() as u64);
        if end > self.len() {
            return false;
        }
        let blocks = blocks_of(&(offset..end));
        let here = {
            let mut state = self.shared.lock();
            let here: Option<Vec<Arc<[u8]>>> = blocks.clone().map(|at| state.find(at)).collect();
            self.follow(&mut state, &blocks);
            here
        };
        let Some(here) = here else { return false };
        for (at, bytes) in blocks.zip(here) {
            copy(at, &bytes, buffer, offset);
        }
        true
    }

    /// Begins to bring a range.
    pub fn will_need(&self, range: &Range<u64>) {
        let blocks = blocks_of(&(range.start..range.end.min(self.len())));
        let mut state = self.shared.lock();
        self.bring_ahead(&mut state, blocks);
    }

    /// Starts to fetch the blocks that are likely to be read next.
    fn follow(&self, state: &mut State, blocks: &Range<u64>) {
        state.clock += 1;
        let ahead = state.ahead.on_read(blocks);
        self.bring_ahead(state, ahead.start..ahead.end.min(self.shared.blocks()));
    }

    /// Makes threads fetch those of the blocks that are neither cached nor being fetched. Runs that
    /// do not fit into their queue are dropped.
    fn bring_ahead(&self, state: &mut State, blocks: Range<u64>) {
        let mut at = blocks.start;
        while at < blocks.end {
            let run = state.missing(at..blocks.end);
            if run.is_empty() {
                return;
            }
            at = run.end;
            if self.ahead.try_send(run.clone()).is_err() {
                return;
            }
            state.begin(run);
        }
    }
}

impl Shared {
    fn blocks(&self) -> u64 {
        self.inner.len().div_ceil(BLOCK)
    }

    /// The block, fetched if it is not cached. `end` is the end of the reader's own blocks.
    fn block(&self, at: u64, end: u64) -> io::Result<Arc<[u8]>> {
        let mut state = self.lock();
        loop {
            match state.blocks.get(&at) {
                Some(Slot::Here { .. }) => {
                    if let Some(bytes) = state.find(at) {
                        return Ok(bytes);
                    }
                }
                Some(Slot::Coming) => {
                    state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                None => {
                    let run = state.missing(at..end);
                    state.begin(run.clone());
                    drop(state);
                    return self.bring(run);
                }
            }
        }
    }

    /// Fetches blocks that the caller has marked as being fetched; returns the first.
    fn bring(&self, run: Range<u64>) -> io::Result<Arc<[u8]>> {
        /// Removes blocks that were not fetched, also after a panic.
        struct Begun<'a>(&'a Shared, Range<u64>);
        impl Drop for Begun<'_> {
            fn drop(&mut self) {
                let mut state = self.0.lock();
                for at in self.1.clone() {
                    if matches!(state.blocks.get(&at), Some(Slot::Coming)) {
                        state.blocks.remove(&at);
                    }
                }
                drop(state);
                self.0.bell.notify_all();
            }
        }
        let _begun = Begun(self, run.clone());
        let (start, end) = (run.start * BLOCK, (run.end * BLOCK).min(self.inner.len()));
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(usize::MAX)];
        self.inner.read_exact_at(&mut bytes, start)?;
        let mut state = self.lock();
        let mut first = None;
        for (at, bytes) in run.zip(bytes.chunks(BLOCK as usize)) {
            let bytes: Arc<[u8]> = bytes.into();
            let used = state.clock;
            first.get_or_insert_with(|| Arc::clone(&bytes));
            state.blocks.insert(at, Slot::Here { bytes, used });
        }
        while state.blocks.len() > self.blocks_max && state.drop_oldest() {}
        first.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn find(&mut self, at: u64) -> Option<Arc<[u8]>> {
        match self.blocks.get_mut(&at)? {
            Slot::Here { bytes, used } => {
                *used = self.clock;
                Some(Arc::clone(bytes))
            }
            Slot::Coming => None,
        }
    }

    /// The first run of blocks that are neither cached nor being fetched, at most one request long.
    fn missing(&self, blocks: Range<u64>) -> Range<u64> {
        let missing = |at: &u64| !self.blocks.contains_key(at);
        let start = blocks.clone().find(missing).unwrap_or(blocks.end);
        let end = (start..blocks.end).take(RUN as usize).take_while(missing).count() as u64 + start;
        start..end
    }

    fn begin(&mut self, run: Range<u64>) {
        self.blocks.extend(run.map(|at| (at, Slot::Coming)));
    }

    fn drop_oldest(&mut self) -> bool {
        let used = |(at, slot): (&u64, &Slot)| match slot {
            Slot::Here { used, .. } => Some((*used, *at)),
            Slot::Coming => None,
        };
        let Some((_, oldest)) = self.blocks.iter().filter_map(used).min() else { return false };
        self.blocks.remove(&oldest).is_some()
    }
}

impl Backend for BlockCache {
    fn len(&self) -> u64 {
        self.shared.inner.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = offset.saturating_add(buffer.len() as u64).min(self.len());
        if end <= offset {
            return Ok(0);
        }
        let wanted = &mut buffer[..usize::try_from(end - offset).unwrap_or(usize::MAX)];
        let blocks = blocks_of(&(offset..end));
        self.follow(&mut self.shared.lock(), &blocks);
        for at in blocks.clone() {
            let bytes = self.shared.block(at, blocks.end)?;
            copy(at, &bytes, wanted, offset);
        }
        Ok(wanted.len())
    }

    fn reopen(&self) -> io::Result<Arc<dyn Backend>> {
        self.shared.inner.reopen()
    }

    fn requests(&self) -> Option<Requests> {
        self.shared.inner.requests()
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache").field("blocks_max", &self.shared.blocks_max).finish()
    }
}

/// The blocks that a range lies in.
fn blocks_of(range: &Range<u64>) -> Range<u64> {
    let end = if range.is_empty() { range.start / BLOCK } else { range.end.div_ceil(BLOCK) };
    range.start / BLOCK..end
}

/// Copies what a block has of a buffer that begins at `offset`.
fn copy(at: u64, bytes: &[u8], buffer: &mut [u8], offset: u64) {
    let start = at * BLOCK;
    let (skip, into) = (offset.saturating_sub(start), start.saturating_sub(offset));
    let (skip, into) = (skip as usize, into as usize);
    let len = (buffer.len() - into).min(bytes.len() - skip);
    buffer[into..into + len].copy_from_slice(&bytes[skip..skip + len]);
}

/// The least size of a cache: a run for each of four streams.
pub const CACHE_MIN: u64 = 4 << 20;

/// Bytes of a block.
const BLOCK: u64 = 256 << 10;
/// Blocks of one request at most: 1 MiB.
const RUN: u64 = 4;
/// Threads that read ahead: what four streams of four runs have under way is waited for by them.
const THREADS: usize = 8;
/// Runs that wait for these threads at most.
const QUEUE: usize = 64;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use super::*;

    /// A backend that records its requests, and fails on demand.
    struct Noted {
        bytes: Vec<u8>,
        reads: Mutex<Vec<Range<u64>>>,
        fails: AtomicBool,
    }

    impl Noted {
        fn new(len: usize) -> Arc<Self> {
            let bytes = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
            Arc::new(Self { bytes, reads: Mutex::default(), fails: AtomicBool::new(false) })
        }

        fn reads(&self) -> Vec<Range<u64>> {
            let mut reads = self.reads.lock().unwrap().clone();
            reads.sort_by_key(|range| range.start);
            reads
        }
    }

    impl Backend for Noted {
        fn len(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            self.reads.lock().unwrap().push(offset..offset + buffer.len() as u64);
            if self.fails.load(Relaxed) {
                return Err(io::Error::other("on purpose"));
            }
            buffer.copy_from_slice(&self.bytes[offset as usize..][..buffer.len()]);
            Ok(buffer.len())
        }

        fn reopen(&self) -> io::Result<Arc<dyn Backend>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn cache(inner: &Arc<Noted>, bytes: u64) -> BlockCache {
        BlockCache::new(Arc::clone(inner) as Arc<dyn Backend>, bytes).unwrap()
    }

    #[test]
    fn any_bytes_read_as_they_are() {
        let inner = Noted::new((10 << 20) + 777);
        let cache = cache(&inner, 0);
        let mut seed = 1_u64;
        for _ in 0..300 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let offset = (seed >> 33) % (11 << 20);
            let mut buffer = vec![0; (seed >> 20) as usize % 700_000];
            let read = cache.read_at(&mut buffer, offset).unwrap();
            let there = inner.bytes.get(offset as usize..).unwrap_or_default();
            assert_eq!(read, buffer.len().min(there.len()));
            assert!(buffer[..read] == there[..read]);
        }
        let kept = cache.shared.lock().blocks.len();
        assert!(kept <= cache.shared.blocks_max, "{kept}");
    }

    #[test]
    fn a_sequential_reader_costs_each_byte_once_in_runs() {
        let inner = Noted::new(32 << 20);
        let cache = cache(&inner, 64 << 20);
        let mut buffer = vec![0; 64 << 10];
        for offset in (0..32 << 20).step_by(buffer.len()) {
            assert_eq!(cache.read_at(&mut buffer, offset).unwrap(), buffer.len());
            assert!(buffer == inner.bytes[offset as usize..][..buffer.len()]);
        }
        let reads = inner.reads();
        assert!(reads.windows(2).all(|pair| pair[0].end == pair[1].start), "{reads:?}");
        let (first, last) = (reads.first().unwrap(), reads.last().unwrap());
        assert_eq!((first.start, last.end), (0, 32 << 20));
        assert!(reads.iter().all(|range| range.end - range.start <= RUN * BLOCK), "{reads:?}");
    }

    #[test]
    fn a_reader_that_jumps_costs_the_blocks_that_it_touches() {
        let inner = Noted::new(64 << 20);
        let cache = cache(&inner, 64 << 20);
        for offset in [40 << 20, 3 << 20, 20 << 20, 50 << 20, 9 << 20, 30 << 20] {
            cache.read_at(&mut [0; 4096], offset).unwrap();
        }
        assert_eq!(inner.reads().len(), 6);
        assert!(inner.reads().iter().all(|range| range.end - range.start == BLOCK));
    }

    #[test]
    fn an_error_is_for_the_reader_and_not_for_good() {
        let inner = Noted::new(1 << 20);
        let cache = cache(&inner, 8 << 20);
        inner.fails.store(true, Relaxed);
        let error = cache.read_at(&mut [0; 100], 0).unwrap_err();
        assert_eq!(error.to_string(), "on purpose");
        inner.fails.store(false, Relaxed);
        assert_eq!(cache.read_at(&mut [0; 100], 0).unwrap(), 100);
    }

    #[test]
    fn what_is_near_is_said_and_what_will_be_needed_comes() {
        let inner = Noted::new(4 << 20);
        let cache = cache(&inner, 8 << 20);
        let mut buffer = vec![0; 1000];
        assert!(!cache.read_near(&mut buffer, 1 << 20));
        cache.will_need(&((1 << 20)..(1 << 20) + 1000));
        // A read waits for blocks that are being fetched and requests nothing.
        cache.read_at(&mut buffer, 1 << 20).unwrap();
        assert!(cache.read_near(&mut buffer, 1 << 20));
        assert!(buffer == inner.bytes[1 << 20..][..1000]);
        assert_eq!(inner.reads().len(), 1);
        assert!(!cache.read_near(&mut buffer, (4 << 20) - 1));
    }

    #[test]
    fn readers_of_one_block_ask_for_it_once() {
        let inner = Noted::new(1 << 20);
        let cache = cache(&inner, 8 << 20);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| cache.read_at(&mut [0; 10], 5).unwrap());
            }
        });
        assert_eq!(inner.reads().iter().filter(|range| range.start == 0).count(), 1);
    }
}
