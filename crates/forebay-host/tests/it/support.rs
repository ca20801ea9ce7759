//! What the tests are written with.

use std::io::{self, Write};
use std::sync::Arc;

use forebay_core::io::{IoError, Op};
use forebay_core::readahead::{POLICIES, Spec};
use forebay_core::time::Instant;
use forebay_core::units::{FileId, HandleId, PAGE_SIZE};
use forebay_core::workload::{Step, Workload};
use forebay_host::backend::{Backend, MemBackend};
use forebay_host::files::FileMap;
use forebay_host::run::{Outcome, Setup, run};
use tempfile::NamedTempFile;

/// Numbers from a seed (splitmix64).
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0) % end
    }
}

/// Bytes that differ from place to place and from page to page.
pub(crate) fn contents(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng(seed);
    (0..len).map(|_| rng.below(256) as u8).collect()
}

/// The byte at a place of a file too large to hold.
pub(crate) fn byte_at(offset: u64) -> u8 {
    mix(offset / 8).to_le_bytes()[(offset % 8) as usize]
}

fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A temporary file.
pub(crate) fn file_of(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file can be made");
    file.write_all(bytes).expect("a temporary file can be written");
    file
}

/// A backend in memory.
pub(crate) fn mem(bytes: &[u8]) -> Arc<dyn Backend> {
    Arc::new(MemBackend::new(bytes))
}

/// Every way to execute requests.
pub(crate) const DISPATCHES: [Dispatch; 4] =
    [("inline", 1), ("deferred", 1), ("deferred", 4), ("adaptive", 4)];

/// Only the engine's own thread.
pub(crate) const INLINE: Dispatch = ("inline", 1);

/// A rule of dispatch and a number of workers.
pub(crate) type Dispatch = (&'static str, usize);

/// Runs a test for every policy of the table and every dispatch, under verification.
pub(crate) fn for_every_setup(frames: u64, test: impl Fn(&Setup)) {
    for policy in POLICIES {
        for dispatch in DISPATCHES {
            test(&setup(policy.name, frames, dispatch));
        }
    }
}

/// A verified run of a policy with `frames` frames.
pub(crate) fn setup(policy: &str, frames: u64, dispatch: Dispatch) -> Setup {
    let readahead = Spec::parse(policy).expect("a test names a policy");
    let (rule, workers) = dispatch;
    let dispatch = forebay_core::dispatch::Spec::parse(rule).expect("a test names a rule");
    Setup { dispatch, workers, verify: true, ..Setup::new(readahead, frames * PAGE_SIZE) }
}

/// A task that is a closure.
pub(crate) struct Each<F>(pub(crate) F);

impl<F: FnMut(Instant) -> Step> Workload for Each<F> {
    fn next(&mut self, now: Instant) -> Step {
        (self.0)(now)
    }
}

/// A task that takes these steps and exits.
pub(crate) fn script(steps: impl IntoIterator<Item = Step>) -> Box<dyn Workload> {
    let mut steps = steps.into_iter().collect::<Vec<_>>().into_iter();
    Box::new(Each(move |_| steps.next().unwrap_or(Step::Exit)))
}

/// A read as a step.
pub(crate) fn read(handle: HandleId, offset: u64, len: u64) -> Step {
    Step::Call(Op::Read { handle, offset, len })
}

/// What a call came to: its result and its bytes.
pub(crate) type Answer = (Result<u64, IoError>, Vec<u8>);

/// One task reads ranges of one backend's only file.
pub(crate) fn read_ranges(
    setup: &Setup,
    backend: Arc<dyn Backend>,
    ranges: &[(u64, u64)],
) -> (Outcome, Vec<Answer>) {
    let mut answers = Vec::new();
    let outcome = run(
        setup,
        FileMap::one_each([backend]),
        |opener| {
            let handle = opener.open(FileId(0));
            vec![script(ranges.iter().map(|(offset, len)| read(handle, *offset, *len)))]
        },
        |finished, bytes| answers.push((finished.result, bytes.to_vec())),
    );
    (outcome.expect("a test's run begins"), answers)
}

/// A backend whose reads are a closure; its truth is another backend.
pub(crate) struct Odd<F> {
    pub(crate) truth: Arc<dyn Backend>,
    pub(crate) read: F,
}

impl<F> Backend for Odd<F>
where
    F: Fn(&dyn Backend, &mut [u8], u64) -> io::Result<usize> + Send + Sync,
{
    fn len(&self) -> u64 {
        self.truth.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (self.read)(&*self.truth, buffer, offset)
    }

    fn reopen(&self) -> io::Result<Arc<dyn Backend>> {
        Ok(Arc::clone(&self.truth))
    }
}
