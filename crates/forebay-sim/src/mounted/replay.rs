//! A recording as programs of tasks.
//!
//! ```text
//!   task 7   [read]--think--[read]--think--[read]
//!                \
//!   task 9        '--delay--[read]--think--[read]      its first READ follows the last one that
//!                                                      had ended, of whichever task
//! ```
//!
//! A program that is started by another one begins earlier when that one gets on faster.

use std::collections::BTreeMap;
use std::fmt;

use forebay_core::packed::Pages;
use forebay_core::serving::{RecordedRead, Recording};
use forebay_core::time::Duration;
use forebay_core::units::PAGE_SIZE;

use super::PackedImage;

/// What a task does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// The task's number in the recording.
    pub(super) task: u32,
    /// The request that its first one follows: a program and an index in it; none for an
    /// independent one.
    pub(super) follows: Option<(usize, usize)>,
    pub(super) touches: Vec<Touch>,
}

/// Pages of a file that are touched, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Touch {
    pub(super) file: u64,
    pub(super) pages: Pages,
    /// The time from the end of the preceding request.
    pub(super) think: Duration,
}

/// A request of a recording that is none of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayError {
    /// Its place among the requests of the recording, from 0.
    pub request: usize,
    /// The error.
    pub reason: ReplayReason,
}

/// Why a request is none of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayReason {
    /// The node is no regular file.
    NoFile {
        /// The node.
        node: u64,
    },
    /// It reaches beyond the end of its file.
    BeyondEnd {
        /// The node.
        node: u64,
        /// The bytes of the file.
        bytes: u64,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}: {}", self.request + 1, self.reason)
    }
}

impl fmt::Display for ReplayReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFile { node } => write!(f, "node {node} is no regular file of the image"),
            Self::BeyondEnd { node, bytes } => {
                write!(f, "it reaches beyond the end of node {node}, which has {bytes} bytes")
            }
        }
    }
}

impl std::error::Error for ReplayError {}

/// The programs of a recording's tasks, in the order of their first requests.
pub(super) fn programs(
    recording: &Recording,
    image: &dyn PackedImage,
) -> Result<Vec<Program>, ReplayError> {
    for (request, read) in recording.reads.iter().enumerate() {
        check(read, image).map_err(|reason| ReplayError { request, reason })?;
    }
    let reads = &recording.reads;
    let mut order: Vec<usize> = (0..reads.len()).collect();
    order.sort_by_key(|place| (reads[*place].begin, *place));
    let mut programs: Vec<Program> = Vec::new();
    let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
    // Where each request went, and the end of the last one of each program.
    let mut places = vec![(0, 0); reads.len()];
    let mut ends = Vec::new();
    let mut by_end = order.clone();
    by_end.sort_by_key(|place| (reads[*place].end, *place));
    let origin = order.first().map(|place| reads[*place].begin);
    for &place in &order {
        let read = &reads[place];
        let number = *numbers.entry(read.task).or_insert(programs.len());
        if number == programs.len() {
            // Only what ended earlier can have caused it, so there is no circle.
            let before = by_end.partition_point(|other| reads[*other].end < read.begin);
            let cause = before.checked_sub(1).map(|last| by_end[last]);
            let follows = cause.map(|cause| places[cause]);
            let since = cause.map(|cause| reads[cause].end).or(origin);
            ends.push(since.unwrap_or(read.begin));
            programs.push(Program { task: read.task, follows, touches: Vec::new() });
        }
        let think =
            if read.begin > ends[number] { read.begin.since(ends[number]) } else { Duration::ZERO };
        let pages =
            Pages::new(read.offset / PAGE_SIZE, (read.offset + read.len).div_ceil(PAGE_SIZE));
        ends[number] = ends[number].max(read.end);
        let program = &mut programs[number];
        places[place] = (number, program.touches.len());
        program.touches.push(Touch { file: read.node, pages, think });
    }
    Ok(programs)
}

fn check(read: &RecordedRead, image: &dyn PackedImage) -> Result<(), ReplayReason> {
    let node = read.node;
    let bytes = image.file_bytes(node).ok_or(ReplayReason::NoFile { node })?;
    let is_inside = read.offset.checked_add(read.len).is_some_and(|end| end <= bytes);
    if is_inside && read.len > 0 { Ok(()) } else { Err(ReplayReason::BeyondEnd { node, bytes }) }
}

#[cfg(test)]
mod tests {
    use forebay_core::serving::{PackedBlock, Part, ProgramPages};
    use forebay_core::time::Instant;

    use super::*;

    /// A single file, number 1.
    #[derive(Debug)]
    struct OneFile;

    impl PackedImage for OneFile {
        fn file_bytes(&self, file: u64) -> Option<u64> {
            (file == 1).then_some(100_000)
        }

        fn parts(&self, _file: u64, _offset: u64, _len: u64) -> Option<Vec<Part>> {
            None
        }

        fn program(&self, _file: u64) -> Option<ProgramPages> {
            None
        }

        fn decode_time(&self, _block: &PackedBlock, _bytes: u64) -> Duration {
            Duration::ZERO
        }
    }

    fn recorded(reads: &[(u64, u64, u32, u64)]) -> Recording {
        let read = |&(begin, end, task, offset): &(u64, u64, u32, u64)| {
            let (begin, end) = (Instant(begin), Instant(end));
            RecordedRead { begin, end, task, node: 1, offset, len: 4096 }
        };
        Recording { image: (0, 0), reads: reads.iter().map(read).collect(), is_whole: true }
    }

    #[test]
    fn a_task_thinks_as_long_as_it_did_and_follows_what_had_ended() {
        let reads = [(100, 200, 7, 0), (250, 300, 7, 4096), (320, 330, 9, 0), (310, 400, 7, 8192)];
        let programs = programs(&recorded(&reads), &OneFile).unwrap();
        let thinks = |program: &Program| -> Vec<u64> {
            program.touches.iter().map(|touch| touch.think.0).collect()
        };
        assert_eq!((programs[0].task, programs[0].follows), (7, None));
        assert_eq!(thinks(&programs[0]), [0, 50, 10]);
        // Task 9 begins 20 ns after the second request of task 7.
        assert_eq!((programs[1].task, programs[1].follows), (9, Some((0, 1))));
        assert_eq!(thinks(&programs[1]), [20]);
    }

    #[test]
    fn requests_that_took_no_time_make_no_circle() {
        let programs = programs(&recorded(&[(5, 5, 1, 0), (5, 5, 2, 0)]), &OneFile).unwrap();
        assert!(programs.iter().all(|program| program.follows.is_none()));
    }

    #[test]
    fn a_request_that_is_none_of_the_image_is_named() {
        let wrong = |offset| programs(&recorded(&[(1, 2, 1, 0), (3, 4, 1, offset)]), &OneFile);
        let reason = ReplayReason::BeyondEnd { node: 1, bytes: 100_000 };
        assert_eq!(wrong(98_304), Err(ReplayError { request: 1, reason }));
        assert_eq!(wrong(u64::MAX), Err(ReplayError { request: 1, reason }));
        let mut other = recorded(&[(1, 2, 1, 0)]);
        other.reads[0].node = 2;
        let reason = ReplayReason::NoFile { node: 2 };
        assert_eq!(programs(&other, &OneFile), Err(ReplayError { request: 0, reason }));
    }
}
