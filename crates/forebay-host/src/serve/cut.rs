//! A store in memory that loses power: each page that no flush covers survives or not.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::store::Store;
use crate::frames::PAGE;

/// A store whose writes reach the disk when it is flushed, or by chance before.
#[derive(Debug)]
pub(super) struct CutStore(Mutex<State>);

#[derive(Debug)]
struct State {
    now: Vec<u8>,
    on_disk: Vec<u8>,
    /// Writes of parts of a page that no flush covers, the oldest first.
    pending: Vec<(usize, Vec<u8>)>,
    /// Writes and flushes that succeed before all fail.
    left: u64,
}

impl CutStore {
    /// A store of `bytes` zero bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let now = vec![0; bytes as usize];
        let on_disk = now.clone();
        Self(Mutex::new(State { now, on_disk, pending: Vec::new(), left: u64::MAX }))
    }

    /// After `count` more writes and flushes all of them fail.
    pub(super) fn fail_after(&self, count: u64) {
        self.lock().left = count;
    }

    /// The power goes and comes back: of the writes that no flush covers, those are on disk for
    /// which `stays` says so.
    pub(super) fn cut(&self, mut stays: impl FnMut() -> bool) {
        let mut state = self.lock();
        let State { now, on_disk, pending, .. } = &mut *state;
        for (at, bytes) in pending.drain(..) {
            if stays() {
                on_disk[at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
        now.clone_from(on_disk);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn count(&mut self) -> io::Result<()> {
        let left = self.left.checked_sub(1);
        self.left = left.ok_or(ErrorKind::Other)?;
        Ok(())
    }

    /// Writes within one page.
    fn write(&mut self, at: usize, bytes: &[u8], durable: bool) {
        self.now[at..at + bytes.len()].copy_from_slice(bytes);
        self.pending.push((at, bytes.to_vec()));
        if durable {
            // With earlier writes to the same page.
            let (same, others) =
                self.pending.drain(..).partition(|(other, _)| other / PAGE == at / PAGE);
            self.pending = others;
            let same: Vec<(usize, Vec<u8>)> = same;
            for (at, bytes) in same {
                self.on_disk[at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
    }
}

impl Store for CutStore {
    fn bytes(&self) -> u64 {
        self.lock().now.len() as u64
    }

    fn read(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let state = self.lock();
        let mut done = 0;
        for buffer in buffers {
            let at = (offset as usize + done).min(state.now.len());
            let len = buffer.len().min(state.now.len() - at);
            buffer[..len].copy_from_slice(&state.now[at..at + len]);
            done += len;
        }
        Ok(done)
    }

    fn write(&self, buffers: &[IoSlice<'_>], offset: u64, durable: bool) -> io::Result<usize> {
        let mut state = self.lock();
        state.count()?;
        let mut done = 0;
        for part in buffers.iter().flat_map(|buffer| buffer.chunks(PAGE)) {
            state.write(offset as usize + done, part, durable);
            done += part.len();
        }
        Ok(done)
    }

    fn flush(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.count()?;
        let State { now, on_disk, pending, .. } = &mut *state;
        pending.clear();
        on_disk.clone_from(now);
        Ok(())
    }

    fn zero(&self, offset: u64, len: u64, _hole: bool) -> io::Result<bool> {
        let mut state = self.lock();
        state.count()?;
        let zeroes = vec![0; len as usize];
        let mut done = 0;
        for part in zeroes.chunks(PAGE) {
            state.write(offset as usize + done, part, false);
            done += part.len();
        }
        Ok(true)
    }

    /// Pages of zeroes are holes.
    fn run(&self, offset: u64) -> io::Result<(u64, bool)> {
        let state = self.lock();
        let first = offset as usize / PAGE * PAGE;
        let mut pages = state.now[first..].chunks(PAGE);
        let is_hole = |page: &[u8]| page.iter().all(|byte| *byte == 0);
        let hole = pages.next().is_none_or(is_hole);
        let alike = 1 + pages.take_while(|page| is_hole(page) == hole).count();
        Ok(((first + alike * PAGE).min(state.now.len()) as u64, hole))
    }

    fn zeroes_fast(&self) -> bool {
        true
    }
}
