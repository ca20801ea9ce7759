//! Which bytes of an export are allocated: what the store says, unless the cache knows better.

use std::io;

use forebay_nbd::{Extent, Request};

use super::disk::Disk;

/// The extents of a BLOCK_STATUS request, from its offset on. They may end before it does.
pub(super) fn extents(disk: &Disk, export: usize, request: &Request) -> io::Result<Vec<Extent>> {
    let (offset, length) = (request.offset, request.length);
    // The cache is queried first: data written to the store in the meantime is data in both.
    let dirty = disk.unsafe_runs(export, (offset, length), RUNS_MAX);
    let mut end = offset + length;
    if dirty.len() == RUNS_MAX {
        // Behind the last of them nothing is known.
        end = end.min(dirty.last().map_or(end, |run| run.1));
    }
    let mut extents = Extents { from: offset, end, found: Vec::new() };
    let mut at = offset;
    let mut runs = dirty.into_iter().peekable();
    while at < end && extents.found.len() < EXTENTS_MAX {
        while runs.next_if(|run| run.1 <= at).is_some() {}
        let (run_end, hole) = match runs.peek() {
            Some((start, end)) if *start <= at => (*end, false),
            next => {
                let (run_end, hole) = match disk.store(export).run(at)? {
                    // The store knows of nothing there, and a step of one byte would not end.
                    (run_end, _) if run_end <= at => (end, false),
                    run => run,
                };
                (next.map_or(run_end, |(start, _)| run_end.min(*start)), hole)
            }
        };
        extents.push(run_end, hole);
        at = run_end;
    }
    let mut found = extents.found;
    if request.one_extent {
        found.truncate(1);
    }
    Ok(found)
}

struct Extents {
    from: u64,
    end: u64,
    found: Vec<Extent>,
}

impl Extents {
    /// The bytes up to `end` have the same status.
    fn push(&mut self, end: u64, hole: bool) {
        let end = end.min(self.end);
        let length = end - self.from;
        self.from = end;
        match self.found.last_mut() {
            Some(last) if last.hole == hole => last.length += length,
            _ => self.found.push(Extent { length, hole, zero: hole }),
        }
    }
}

/// Runs of dirty pages that one answer takes into account, and extents in it.
const RUNS_MAX: usize = 1024;
const EXTENTS_MAX: usize = 4096;
