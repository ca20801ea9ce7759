//! Requests in the order of their times, although a trace has them slightly out of order.

use std::collections::VecDeque;

use crate::error::TraceError;
use crate::reader::Reader;
use crate::record::Record;

/// Requests that are buffered by default.
pub const SORT_WINDOW: usize = 1 << 16;

/// A reader whose requests come in the order of their times; those of one moment in the order of
/// the trace.
pub struct Sorted<'a> {
    reader: Reader<'a>,
    /// Requests that are held back, in order.
    held: VecDeque<Record>,
    window: usize,
    /// The time of the request that was given last.
    given: u64,
    is_over: bool,
}

impl<'a> Sorted<'a> {
    /// Sorts within a window of `window` requests, at least one.
    pub fn new(reader: Reader<'a>, window: usize) -> Self {
        let (window, held) = (window.max(1), VecDeque::new());
        Self { reader, held, window, given: 0, is_over: false }
    }

    /// The next request; nothing at the end.
    ///
    /// # Errors
    /// As the reader's; and if a request is older than one that was given already.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend and fail for good")]
    pub fn next(&mut self) -> Result<Option<Record>, TraceError> {
        while !self.is_over && self.held.len() < self.window {
            match self.reader.next()? {
                Some(record) => self.insert(record)?,
                None => self.is_over = true,
            }
        }
        let record = self.held.pop_front();
        if let Some(record) = &record {
            self.given = record.time;
        }
        Ok(record)
    }

    /// The reader below.
    pub fn reader(&self) -> &Reader<'a> {
        &self.reader
    }

    fn insert(&mut self, record: Record) -> Result<(), TraceError> {
        if record.time < self.given {
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
