//! The traces of one replay, read as one, or one volume of them.

use forebay_trace::{
    Format, Layer, MergeError, Merged, Names, ReadReport, Reader, Record, SORT_WINDOW,
};

use crate::error::ReplayError;

/// Traces that are read as one.
pub struct TraceSet<'a> {
    merged: Merged<'a>,
    files: Vec<String>,
    format: Format,
    only: Option<String>,
    /// A request of the wanted volume was seen.
    has_only: bool,
}

impl<'a> TraceSet<'a> {
    /// Reads traces with their names, at least one; of one file or device, if one is named.
    ///
    /// # Errors
    /// The traces are of different formats, or hold objects of a cache.
    ///
    /// # Panics
    /// If there is no trace.
    pub fn new(traces: Vec<(String, Reader<'a>)>, only: Option<&str>) -> Result<Self, ReplayError> {
        let files: Vec<String> = traces.iter().map(|(name, _)| name.clone()).collect();
        let (name, reader) = traces.first().expect("there is at least one trace");
        let format = reader.format();
        if format.layer() == Layer::Object {
            return Err(ReplayError::NoAddresses { name: name.clone() });
        }
        let merged = Merged::new(traces, SORT_WINDOW);
        let merged = merged.map_err(|error| of_merge(&files, error))?;
        Ok(Self { merged, files, format, only: only.map(str::to_owned), has_only: false })
    }

    /// The next request in the order of times; nothing at the end.
    ///
    /// # Errors
    /// A trace cannot be read, or no request was of the wanted file or device.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend and fail for good")]
    pub fn next(&mut self) -> Result<Option<Record>, ReplayError> {
        while let Some(record) = self.merged.next().map_err(|error| of_merge(&self.files, error))? {
            let Some(only) = &self.only else { return Ok(Some(record)) };
            if self.merged.names().name(record.object) == only {
                self.has_only = true;
                return Ok(Some(record));
            }
        }
        match &self.only {
            Some(only) if !self.has_only => Err(ReplayError::Absent {
                name: self.name(),
                only: only.clone(),
                known: self.merged.names().iter().take(KNOWN_MAX).map(str::to_owned).collect(),
            }),
            Some(_) | None => Ok(None),
        }
    }

    /// The files and devices so far.
    pub fn names(&self) -> &Names {
        self.merged.names()
    }

    /// Where the requests were recorded.
    pub fn layer(&self) -> Layer {
        self.format.layer()
    }

    /// Their format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What messages call the traces together.
    pub fn name(&self) -> String {
        self.files.join(", ")
    }

    /// Each trace with the report of its reading so far.
    pub fn reports(&self) -> impl Iterator<Item = (&str, ReadReport)> {
        let reports = self.merged.readers().map(Reader::report);
        self.files.iter().map(String::as_str).zip(reports)
    }
}

/// Names that an error lists.
const KNOWN_MAX: usize = 10;

fn of_merge(files: &[String], error: MergeError) -> ReplayError {
    match error {
        MergeError::Trace { input, error } => {
            ReplayError::Trace { name: files[input].clone(), error }
        }
        MergeError::Formats { input, first, found } => ReplayError::Formats {
            first_name: files[0].clone(),
            first,
            name: files[input].clone(),
            found,
        },
        MergeError::Objects => {
            ReplayError::Volumes { name: files.join(", "), most: forebay_trace::OBJECTS_MAX }
        }
    }
}
