//! Requests in the order of their times, although a trace has them slightly out of order.

use std::collections::VecDeque;

use crate::error::TraceError;
use crate::reader::Reader;
use crate::record::Record;

/// Requests that are buffered by default.
pub const SORT_WINDOW: usize = 1 << 16;

/// A reader whose requests come in the order of their times, which begin at the earliest one; those
/// of one moment in the order of the trace.
pub struct Sorted<'a> {
    reader: Reader<'a>,
    /// Requests that are held back, in order, with the times of the trace's clock.
    held: VecDeque<Record>,
    window: usize,
    /// Whether one that comes too late is given all the same.
    lenient: bool,
    /// The time of the earliest request.
    origin: Option<u64>,
    /// The latest time of the requests that were given.
    given: u64,
    is_over: bool,
}

impl<'a> Sorted<'a> {
    /// Sorts within a window of `window` requests, at least one.
    pub fn new(reader: Reader<'a>, window: usize) -> Self {
        let (window, held) = (window.max(1), VecDeque::new());
        Self { reader, held, window, lenient: false, origin: None, given: 0, is_over: false }
    }

    /// The same; but requests that are further out of order come as soon as they are read, as is
    /// good enough for counting them.
    pub fn lenient(reader: Reader<'a>, window: usize) -> Self {
        Self { lenient: true, ..Self::new(reader, window) }
    }

    /// The next request; nothing at the end.
    ///
    /// # Errors
    /// As the reader's; and if a request is older than one that was given already.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend and fail for good")]
    pub fn next(&mut self) -> Result<Option<Record>, TraceError> {
        let next = self.next_by_clock()?;
        Ok(next.map(|record| record.since(self.origin())))
    }

    /// The next request, with the time that the trace's clock has; nothing at the end.
    pub(crate) fn next_by_clock(&mut self) -> Result<Option<Record>, TraceError> {
        while !self.is_over && self.held.len() < self.window {
            match self.reader.next_by_clock()? {
                Some(record) => self.insert(record)?,
                None => self.is_over = true,
            }
        }
        let record = self.held.pop_front();
        if let Some(record) = &record {
            self.given = self.given.max(record.time);
            self.origin.get_or_insert(record.time);
        }
        Ok(record)
    }

    /// The time of the earliest request as the trace has it, in nanoseconds; zero before one was
    /// given.
    pub fn origin(&self) -> u64 {
        self.origin.unwrap_or(0)
    }

    /// The reader below.
    pub fn reader(&self) -> &Reader<'a> {
        &self.reader
    }

    fn insert(&mut self, record: Record) -> Result<(), TraceError> {
        if record.time < self.given && !self.lenient {
            let (place, back) = (self.reader.place(), self.given - record.time);
            return Err(TraceError::Unsorted { place, back, window: self.window });
        }
        if self.held.back().is_none_or(|last| last.time <= record.time) {
            self.held.push_back(record);
        } else {
            let place = self.held.partition_point(|held| held.time <= record.time);
            self.held.insert(place, record);
        }
        Ok(())
    }
}
