//! Several traces as one, in the order of their times.
//!
//! ```text
//!   a.csv: src1_2, hm_0  --Sorted--\
//!                                   >-- earliest first --> src1_2, hm_0, usr_1
//!   b.csv: hm_0, usr_1   --Sorted--/
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thiserror::Error;

use crate::error::TraceError;
use crate::format::Format;
use crate::reader::Reader;
use crate::record::{Names, OBJECTS_MAX, Record};
use crate::sort::Sorted;

/// Traces of one format that are read as one. Their times are those of the format's clock, and a
/// name stands for the same file or device in all of them. In a format without names each trace is
/// a device of its own, which has the trace's label.
pub struct Merged<'a> {
    inputs: Vec<Input<'a>>,
    names: Names,
    /// The time of the next request of each input that has one, and the input.
    earliest: BinaryHeap<Reverse<(u64, usize)>>,
    /// The time of the earliest request of all, once it was looked for.
    origin: Option<u64>,
}

/// Why several traces cannot be read as one.
#[derive(Debug, Error)]
pub enum MergeError {
    /// A trace cannot be read.
    #[error("{error}")]
    Trace {
        /// Its place among the traces.
        input: usize,
        /// Why.
        error: TraceError,
    },
    /// Clocks of two formats have no common zero.
    #[error("a trace of format {} beside one of {}", found.name(), first.name())]
    Formats {
        /// The place of the other trace.
        input: usize,
        /// The format of the first trace.
        first: Format,
        /// The other one.
        found: Format,
    },
    /// There are more than [`OBJECTS_MAX`] names in all.
    #[error("more than {OBJECTS_MAX} files or devices in all traces")]
    Objects,
}

struct Input<'a> {
    requests: Sorted<'a>,
    label: String,
    /// The number of each of its objects among all.
    objects: Vec<u32>,
    next: Option<Record>,
}

impl<'a> Merged<'a> {
    /// Reads traces with their labels, each sorted within a window.
    ///
    /// # Errors
    /// The traces are of different formats.
    pub fn new(traces: Vec<(String, Reader<'a>)>, window: usize) -> Result<Self, MergeError> {
        let formats = traces.iter().map(|(_, reader)| reader.format()).enumerate();
        if let Some((_, first)) = formats.clone().next()
            && let Some((input, found)) = formats.skip(1).find(|(_, format)| *format != first)
        {
            return Err(MergeError::Formats { input, first, found });
        }
        let input = |(label, reader)| Input {
            requests: Sorted::new(reader, window),
            label,
            objects: Vec::new(),
            next: None,
        };
        let inputs = traces.into_iter().map(input).collect();
        let (names, earliest) = (Names::default(), BinaryHeap::new());
        Ok(Self { inputs, names, earliest, origin: None })
    }

    /// The next request of any trace; nothing at the end. Requests of one moment come in the order
    /// of the traces.
    ///
    /// # Errors
    /// A trace cannot be read or sorted, or the names are too many.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend and fail for good")]
    pub fn next(&mut self) -> Result<Option<Record>, MergeError> {
        let origin = match self.origin {
            Some(origin) => origin,
            None => self.begin()?,
        };
        let Some(Reverse((_, at))) = self.earliest.pop() else { return Ok(None) };
        let record = self.inputs[at].next.take().expect("an input in the heap has a request");
        let object = self.number(at, record.object)?;
        self.advance(at)?;
        Ok(Some(Record { object, ..record }.since(origin)))
    }

    /// The files and devices so far.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The readers below, in the order of the traces.
    pub fn readers(&self) -> impl Iterator<Item = &Reader<'a>> {
        self.inputs.iter().map(|input| input.requests.reader())
    }

    /// Reads the first request of each trace; returns the time of the earliest one.
    fn begin(&mut self) -> Result<u64, MergeError> {
        for at in 0..self.inputs.len() {
            self.advance(at)?;
        }
        let earliest = self.earliest.peek().map_or(0, |Reverse((time, _))| *time);
        Ok(*self.origin.insert(earliest))
    }

    fn advance(&mut self, at: usize) -> Result<(), MergeError> {
        let input = &mut self.inputs[at];
        let next = input.requests.next_by_clock();
        input.next = next.map_err(|error| MergeError::Trace { input: at, error })?;
        self.earliest.extend(input.next.map(|record| Reverse((record.time, at))));
        Ok(())
    }

    /// The number among all of an object of one trace.
    fn number(&mut self, at: usize, object: u32) -> Result<u32, MergeError> {
        let is_labelled = self.inputs.len() > 1;
        let input = &mut self.inputs[at];
        while input.objects.len() <= object as usize {
            let reader = input.requests.reader();
            let name = if is_labelled && reader.format() == Format::Vscsi {
                input.label.as_str()
            } else {
                reader.names().name(input.objects.len() as u32)
            };
            let number = self.names.intern(name.as_bytes()).ok_or(MergeError::Objects)?;
            input.objects.push(number);
        }
        Ok(input.objects[object as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Options;
    use crate::sort::SORT_WINDOW;
    use crate::write::{WriteFormat, Writer};

    fn merged<'a>(texts: &[(&str, &'a [u8])]) -> Result<Merged<'a>, MergeError> {
        let open = |(label, text): &(&str, &'a [u8])| {
            ((*label).to_owned(), Reader::new(*text, &Options::default()).unwrap())
        };
        Merged::new(texts.iter().map(open).collect(), SORT_WINDOW)
    }

    fn all(mut merged: Merged<'_>) -> Vec<(u64, String, u64)> {
        let mut all = Vec::new();
        while let Some(record) = merged.next().unwrap() {
            let name = merged.names().name(record.object).to_owned();
            all.push((record.time, name, record.offset));
        }
        all
    }

    #[test]
    fn requests_of_several_files_come_by_the_clock_of_the_format() {
        // The second file begins 2 us before the first one.
        let first =
            b"128166372003001000,hm,0,Read,0,512,1\n128166372003001030,hm,1,Read,512,512,1\n";
        let second =
            b"128166372003000980,hm,1,Read,1024,512,1\n128166372003001010,usr,0,Read,1536,512,1\n";
        let merged = merged(&[("a", first), ("b", second)]).unwrap();
        let expected =
            [(0, "hm_1", 1_024), (2_000, "hm_0", 0), (3_000, "usr_0", 1_536), (5_000, "hm_1", 512)];
        assert_eq!(all(merged), expected.map(|(time, name, at)| (time, name.to_owned(), at)));
    }

    #[test]
    fn traces_of_one_unnamed_disk_are_disks_of_their_own() {
        let text = b"128166372003001000,hm,0,Read,4096,512,1\n";
        let mut reader = Reader::new(&text[..], &Options::default()).unwrap();
        let record = reader.next().unwrap().unwrap();
        let mut disk = Vec::new();
        let mut writer = Writer::new(&mut disk, WriteFormat::Vscsi, 0).unwrap();
        writer.write(&record, reader.names()).unwrap();
        writer.finish(reader.names()).unwrap();
        let names: Vec<_> = all(merged(&[("w01", &disk), ("w02", &disk)]).unwrap())
            .into_iter()
            .map(|(_, name, _)| name)
            .collect();
        assert_eq!(names, ["w01", "w02"]);
        assert_eq!(all(merged(&[("w01", &disk)]).unwrap())[0].1, "disk");
    }

    #[test]
    fn two_formats_are_refused_and_a_bad_line_is_one_of_its_trace() {
        let msr: &[u8] = b"128166372003001000,hm,0,Read,4096,512,1\n";
        let alibaba: &[u8] = b"419,W,8192,4096,1577808000000046\n";
        let error = merged(&[("a", msr), ("b", alibaba)]).err().unwrap();
        assert_eq!(error.to_string(), "a trace of format alibaba beside one of msr");
        let bad = [msr, msr, msr, &b"128166372003001001,hm,0,Raed,4096,512,1\n"[..]].concat();
        let mut merged = merged(&[("a", msr), ("b", &bad)]).unwrap();
        let error = merged.next().err().unwrap();
        assert!(matches!(error, MergeError::Trace { input: 1, .. }), "{error}");
    }
}
