//! A trace as a stream of records.

use std::collections::VecDeque;
use std::io::{self, Cursor, Read};

use crate::compressed::{Input, decompressed, read_head};
use crate::detect::detect;
use crate::error::{Fault, Place, TraceError};
use crate::format::Format;
use crate::formats::{AnyParser, LineParser, RecordParser};
use crate::record::{Layer, Names, Record};
use crate::text::{Line, Lines, read_some};

/// How a trace is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The format; without one the first bytes tell it.
    pub format: Option<Format>,
    /// How many bad lines or records are skipped before one ends the reading.
    pub skip_bad: u64,
}

/// Counts of the lines or records of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// Lines or records that were read.
    pub read: u64,
    /// Requests among them.
    pub requests: u64,
    /// Bad ones that were skipped.
    pub bad: u64,
    /// The first of them.
    pub first_bad: Option<(Place, Fault)>,
    /// Requests for no bytes, which are left out.
    pub empty: u64,
    /// Requests that are older than the one before them, and the most by which one is, in
    /// nanoseconds.
    pub backwards: u64,
    /// See `backwards`.
    pub backwards_max: u64,
    /// What a reader of the trace should know.
    pub warnings: Vec<String>,
}

impl ReadReport {
    /// What was left out, and what a reader of the trace should know.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = self.warnings.clone();
        if let Some((place, fault)) = &self.first_bad {
            let what = match self.bad {
                1 => "1 bad line or record skipped".to_owned(),
                bad => format!("{bad} bad lines or records skipped; the first"),
            };
            sentences.push(format!("{what}: {place}: {fault}"));
        }
        if self.empty > 0 {
            sentences.push(format!("{} requests for no bytes left out", self.empty));
        }
        if self.backwards > 0 {
            sentences.push(format!(
                "out of order by time: {} of {} requests, by at most {:.6} s",
                self.backwards,
                self.requests,
                self.backwards_max as f64 / 1e9
            ));
        }
        sentences
    }
}

/// A trace that is being read.
pub struct Reader<'a> {
    source: Source<'a>,
    format: Format,
    names: Names,
    skip_bad: u64,
    report: ReadReport,
    /// The time of the first request, as the trace has it.
    origin: Option<u64>,
    /// The latest time so far.
    latest: u64,
    spread: Option<Spread>,
    is_over: bool,
}

enum Source<'a> {
    Lines(Lines<Input<'a>>, Box<dyn LineParser>),
    Records(Bytes<'a>, Box<dyn RecordParser>),
}

/// Bytes of a stream, buffered up to the needs of a parser.
struct Bytes<'a> {
    input: Input<'a>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    is_over: bool,
    /// The place of the next byte in the stream.
    place: u64,
}

/// Requests of one second, to be spread over it.
#[derive(Default)]
struct Spread {
    /// Those of the present second.
    second: Vec<Record>,
    /// The first one of the next second.
    next: Option<Record>,
    /// Those that have their times.
    ready: VecDeque<Record>,
}

/// The bytes by which a format is recognized.
const HEAD: usize = 1 << 18;

/// The requests of one second that are spread; further ones follow as the next second does.
const SECOND_MAX: usize = 1 << 20;

/// The largest address that a request may reach.
const ADDRESS_MAX: u64 = i64::MAX as u64;

impl<'a> Reader<'a> {
    /// Begins to read a trace.
    ///
    /// # Errors
    /// The first bytes cannot be read, or have no format.
    pub fn new(input: impl Read + 'a, options: &Options) -> Result<Self, TraceError> {
        let mut input = decompressed(Box::new(input))?;
        let mut head = read_head(&mut input, HEAD)?;
        // Editors of other systems put it before a text. In a binary format it is data.
        const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
        if let Some(text) = head.strip_prefix(BYTE_ORDER_MARK) {
            let format = options.format.or_else(|| detect(text).ok());
            if format.is_some_and(|it| matches!(AnyParser::new(it, text), AnyParser::Lines(_))) {
                head.drain(..BYTE_ORDER_MARK.len());
            }
        }
        let format = match options.format {
            Some(format) => format,
            None => detect(&head)?,
        };
        let parser = AnyParser::new(format, &head);
        let input: Input<'a> = Box::new(Cursor::new(head).chain(input));
        let source = match parser {
            AnyParser::Lines(parser) => Source::Lines(Lines::new(input), parser),
            AnyParser::Records(parser) => Source::Records(Bytes::new(input), parser),
        };
        Ok(Self {
            source,
            format,
            names: Names::default(),
            skip_bad: options.skip_bad,
            report: ReadReport::default(),
            origin: None,
            latest: 0,
            spread: (format == Format::Tencent).then(Spread::default),
            is_over: false,
        })
    }

    /// The next request; nothing at the end. Its time is that since the first one; for one that is
    /// older than the first, zero. [`Sorted`](crate::Sorted) knows which one is the earliest.
    ///
    /// # Errors
    /// The stream cannot be read, a line is bad and no more are skipped, or there was no request at
    /// all.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend and fail for good")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Record>, TraceError> {
        let next = self.next_by_clock()?;
        Ok(next.map(|record| record.since(self.origin())))
    }

    /// The next request, with the time that the trace's clock has; nothing at the end.
    #[inline]
    pub(crate) fn next_by_clock(&mut self) -> Result<Option<Record>, TraceError> {
        match self.spread {
            None => self.next_as_is(),
            Some(_) => self.next_spread(),
        }
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The files and devices so far.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The report so far.
    pub fn report(&self) -> ReadReport {
        let warnings = match &self.source {
            Source::Lines(lines, parser) => {
                let mut warnings = parser.warnings();
                if lines.is_cut {
                    warnings.push(format!(
                        "line {}, the last one, has no end: was it cut?",
                        lines.number
                    ));
                }
                warnings
            }
            Source::Records(..) => Vec::new(),
        };
        ReadReport { warnings, ..self.report.clone() }
    }

    /// The time of the first request as the trace has it, in nanoseconds.
    pub fn origin(&self) -> u64 {
        self.origin.unwrap_or(0)
    }

    /// Where the line or record lies that was read last.
    pub fn place(&self) -> Place {
        match &self.source {
            Source::Lines(lines, _) => Place::Line(lines.number),
            Source::Records(bytes, _) => Place::Byte(bytes.place),
        }
    }

    #[inline]
    fn next_as_is(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            let (place, parsed) = match &mut self.source {
                Source::Lines(lines, parser) => match parser.second() {
                    Some(second) => (None, Ok(Some(second))),
                    None => {
                        let parsed = match lines.next()? {
                            None => return self.end(),
                            Some(Line::Text(line)) => parser.line(line, &mut self.names),
                            Some(Line::TooLong(line)) => {
                                Err(Fault::new("line", "at most 1048576 bytes", line))
                            }
                        };
                        self.report.read += 1;
                        (None, parsed)
                    }
                },
                Source::Records(bytes, parser) => {
                    let data = bytes.at_hand(parser.record_max())?;
                    if data.is_empty() {
                        return self.end();
                    }
                    let place = bytes.place;
                    let data = &bytes.buffer[bytes.start..bytes.end];
                    let (size, parsed) = parser.record(data, &mut self.names);
                    if let (0, Err(fault)) = (size, &parsed) {
                        let (place, fault) = (Place::Byte(place), fault.clone());
                        return Err(TraceError::Lost { place, fault });
                    }
                    bytes.consume(size.max(1));
                    self.report.read += 1;
                    (Some(Place::Byte(place)), parsed)
                }
            };
            match parsed {
                Ok(None) => {}
                Ok(Some(record)) => match self.checked(record) {
                    Ok(None) => {}
                    Ok(record) => return Ok(record),
                    Err(fault) => self.bad(place, fault)?,
                },
                Err(fault) => self.bad(place, fault)?,
            }
        }
    }

    /// A request that is counted; nothing if it has no bytes.
    #[inline]
    fn checked(&mut self, record: Record) -> Result<Option<Record>, Fault> {
        if record.op.moves_data() && record.len == 0 {
            self.report.empty += 1;
            return Ok(None);
        }
        let end = record.offset.checked_add(record.len);
        if end.is_none_or(|end| end > ADDRESS_MAX) && self.format.layer() != Layer::Object {
            return Err(Fault::number("offset", "a request below byte 2^63", record.offset));
        }
        self.report.requests += 1;
        if record.time < self.latest && self.origin.is_some() {
            self.report.backwards += 1;
            let back = self.latest - record.time;
            self.report.backwards_max = self.report.backwards_max.max(back);
        }
        self.latest = self.latest.max(record.time);
        self.origin.get_or_insert(record.time);
        Ok(Some(record))
    }

    #[cold]
    fn bad(&mut self, place: Option<Place>, fault: Fault) -> Result<(), TraceError> {
        let place = place.unwrap_or_else(|| self.place());
        if self.report.bad >= self.skip_bad {
            return Err(TraceError::Bad { place, fault });
        }
        self.report.bad += 1;
        self.report.first_bad.get_or_insert((place, fault));
        Ok(())
    }

    fn end(&mut self) -> Result<Option<Record>, TraceError> {
        self.is_over = true;
        if self.report.requests == 0 {
            return Err(TraceError::NoRequests { format: self.format, read: self.report.read });
        }
        Ok(None)
    }

    /// The next request of a trace whose times are whole seconds.
    fn next_spread(&mut self) -> Result<Option<Record>, TraceError> {
        let Some(mut spread) = self.spread.take() else { return self.next_as_is() };
        let next = self.next_of(&mut spread);
        self.spread = Some(spread);
        next
    }

    fn next_of(&mut self, spread: &mut Spread) -> Result<Option<Record>, TraceError> {
        loop {
            if let Some(record) = spread.ready.pop_front() {
                return Ok(Some(record));
            }
            spread.second.extend(spread.next.take());
            while !self.is_over && spread.second.len() < SECOND_MAX {
                let Some(record) = self.next_as_is()? else { break };
                if spread.second.first().is_some_and(|first| first.time != record.time) {
                    spread.next = Some(record);
                    break;
                }
                spread.second.push(record);
            }
            if spread.second.is_empty() {
                return Ok(None);
            }
            let count = spread.second.len() as u64;
            for (place, record) in spread.second.drain(..).enumerate() {
                let after = place as u64 * 1_000_000_000 / count;
                let time = record.time.saturating_add(after);
                spread.ready.push_back(Record { time, ..record });
            }
        }
    }
}

impl<'a> Bytes<'a> {
    fn new(input: Input<'a>) -> Self {
        let buffer = vec![0; 1 << 18];
        Self { input, buffer, start: 0, end: 0, is_over: false, place: 0 }
    }

    /// At least `most` bytes, or all that are left.
    fn at_hand(&mut self, most: usize) -> io::Result<&[u8]> {
        while self.end - self.start < most && !self.is_over {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            let read = read_some(&mut self.input, &mut self.buffer[self.end..])?;
            self.end += read;
            self.is_over = read == 0;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
        self.place += count as u64;
    }
}
