//! Plain readers: any sequence of calls, one after the other.

use forebay_core::io::Op;
use forebay_core::time::Instant;
use forebay_core::units::{HandleId, PAGE_SIZE, PageIndex};
use forebay_core::workload::{Step, Workload};

use super::sysbench::Requests;

/// A task that issues the calls of an iterator and ends with it.
#[derive(Clone, Debug)]
pub struct Calls<I>(pub I);

impl<I: Iterator<Item = Op>> Workload for Calls<I> {
    fn next(&mut self, _now: Instant) -> Step {
        self.0.next().map_or(Step::Exit, Step::Call)
    }
}

/// A file from its first to its last byte, `block` bytes a read.
pub fn sequential(handle: HandleId, bytes: u64, block: u64) -> impl Iterator<Item = Op> {
    let block = block.max(1);
    (0..bytes.div_ceil(block)).map(move |n| Op::Read { handle, offset: n * block, len: block })
}

/// Several sequential streams on one descriptor, one page each in turn: `rounds` pages of every
/// stream from its first page on.
pub fn interleaved(
    handle: HandleId,
    streams: Vec<PageIndex>,
    rounds: u64,
) -> impl Iterator<Item = Op> {
    let pages = (0..rounds)
        .flat_map(move |round| streams.clone().into_iter().map(move |first| first + round));
    pages.map(move |page| Op::Read { handle, offset: page * PAGE_SIZE, len: PAGE_SIZE })
}

/// The reads of a sysbench run; file `n` is read through the `n`th handle.
pub fn sysbench(handles: Vec<HandleId>, requests: Requests) -> impl Iterator<Item = Op> {
    requests.map(move |request| Op::Read {
        handle: handles[request.file as usize],
        offset: request.offset,
        len: request.len,
    })
}
