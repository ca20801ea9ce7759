//! A trace as commands read it: a file or standard input, one volume of it or all, bad lines
//! counted.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use forebay_report::messages::{self, Complaint};
use forebay_trace::{
    Format, Layer, Options, ReadReport, Reader, Record, SORT_WINDOW, Sorted, TraceError,
};

use crate::args::trace::TraceInput;
use crate::choice;

/// A trace that is being read.
pub(crate) struct TraceSource<'a> {
    /// What messages call it.
    pub(crate) name: String,
    requests: Requests<'a>,
    only: Option<String>,
    /// A request of the wanted volume was seen.
    has_only: bool,
}

enum Requests<'a> {
    AsIs(Reader<'a>),
    Sorted(Sorted<'a>),
}

impl<'a> TraceSource<'a> {
    /// Opens a trace, whose requests come in its own order.
    pub(crate) fn open(input: &TraceInput) -> Result<TraceSource<'a>> {
        let options = Options { format: input.format, skip_bad: input.skip_bad };
        let reader = reader(&input.file, &options)?;
        Ok(Self {
            name: choice::name(&input.file),
            requests: Requests::AsIs(reader),
            only: input.only.clone(),
            has_only: false,
        })
    }

    /// Has requests come in the order of their times.
    #[must_use]
    pub(crate) fn sorted(self, window: u64) -> Self {
        self.ordered(|reader| Sorted::new(reader, usize::try_from(window).unwrap_or(1)))
    }

    /// The same as far as a window of the usual size goes; what is older comes all the same.
    #[must_use]
    pub(crate) fn roughly_sorted(self) -> Self {
        self.ordered(|reader| Sorted::lenient(reader, SORT_WINDOW))
    }

    fn ordered(self, order: impl FnOnce(Reader<'a>) -> Sorted<'a>) -> Self {
        let requests = match self.requests {
            Requests::AsIs(reader) => Requests::Sorted(order(reader)),
            sorted @ Requests::Sorted(_) => sorted,
        };
        Self { requests, ..self }
    }

    /// The time of the earliest request so far, in nanoseconds of the trace's clock.
    pub(crate) fn origin(&self) -> u64 {
        match &self.requests {
            Requests::AsIs(reader) => reader.origin(),
            Requests::Sorted(sorted) => sorted.origin(),
        }
    }

    /// Whether requests of this file or device are given.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == name)
    }

    /// The next request.
    pub(crate) fn next(&mut self) -> Result<Option<Record>> {
        loop {
            let next = match &mut self.requests {
                Requests::AsIs(reader) => reader.next(),
                Requests::Sorted(sorted) => sorted.next(),
            };
            let record = next.map_err(|error| complaint(&self.name, &error))?;
            let Some(record) = record else { break };
            let Some(only) = &self.only else { return Ok(Some(record)) };
            if self.reader().names().name(record.object) == only {
                self.has_only = true;
                return Ok(Some(record));
            }
        }
        if let (Some(only), false) = (&self.only, self.has_only) {
            let names: Vec<&str> = self.reader().names().iter().take(10).collect();
            let what = format!("{}: no request is of '{only}'", self.name);
            bail!(Complaint::new(what).hint(format!("volumes are {}", names.join(", "))));
        }
        Ok(None)
    }

    /// The reader below.
    pub(crate) fn reader(&self) -> &Reader<'a> {
        match &self.requests {
            Requests::AsIs(reader) => reader,
            Requests::Sorted(sorted) => sorted.reader(),
        }
    }

    /// The name of a request's file or device.
    pub(crate) fn volume(&self, record: &Record) -> &str {
        self.reader().names().name(record.object)
    }

    /// The format.
    pub(crate) fn format(&self) -> Format {
        self.reader().format()
    }

    /// Where the requests were recorded.
    pub(crate) fn layer(&self) -> Layer {
        self.format().layer()
    }

    /// Counts of lines and records.
    pub(crate) fn report(&self) -> ReadReport {
        self.reader().report()
    }
}

/// The bytes of a trace.
pub(crate) fn reader<'a>(path: &Path, options: &Options) -> Result<Reader<'a>> {
    let name = choice::name(path);
    let input: Box<dyn Read> = if path == Path::new(choice::STANDARD_INPUT) {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(path).with_context(|| format!("cannot read '{name}'"))?;
        Box::new(file)
    };
    Reader::new(input, options).map_err(|error| complaint(&name, &error).into())
}

/// Whether a file is a trace, by its first bytes.
pub(crate) fn is_trace(path: &Path) -> bool {
    path.is_file() && reader(path, &Options::default()).is_ok()
}

/// Whether bytes begin like a trace.
pub(crate) fn is_format(bytes: &[u8]) -> bool {
    Reader::new(bytes, &Options::default()).is_ok()
}

/// The error of a trace, with a hint.
pub(crate) fn complaint(name: &str, error: &TraceError) -> Complaint {
    let complaint = Complaint::new(format!("{name}: {error}"));
    match error {
        TraceError::Bad { .. } => complaint.hint("--skip-bad N skips up to N bad lines or records"),
        TraceError::Lost { .. } => complaint.hint("where the next record begins is not known"),
        TraceError::UnknownFormat { .. } => {
            let names = Format::ALL.map(Format::name).join(", ");
            complaint.hint(format!("formats are {names}"))
        }
        TraceError::NoRequests { .. } => {
            complaint.hint("is it the file and the format that were meant?")
        }
        TraceError::Unsorted { .. } => {
            complaint.hint("--sort-window N holds more requests back; or sort the trace first")
        }
        TraceError::Io(_) => complaint.hint("is the file whole?"),
    }
}

/// Says on standard error what a reader of the trace should know.
pub(crate) fn warn(name: &str, report: &ReadReport) {
    for warning in report.sentences() {
        messages::note(&format!("{name}: {warning}"));
    }
}
