//! A trace that is read in batches, by a thread of its own, so that Python works on one batch while
//! the next one is parsed.

use std::fs::File;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::{mem, process, thread};

use forebay_trace::{Format, Op, Options, Reader, TraceError};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::{Column, Columns, whole};
use crate::stop::INTERRUPTED;

/// The requests of a trace.
#[pyclass(frozen, module = "forebay")]
pub(crate) struct TraceReader {
    batches: Mutex<Receiver<Result<Batch, String>>>,
    /// The process whose thread reads.
    process: u32,
    format: &'static str,
    layer: &'static str,
}

/// Requests in a row.
#[derive(Default)]
struct Batch {
    columns: Columns,
    /// Files or devices that are new with this batch, in the order of their numbers.
    names: Vec<String>,
    /// What a reader of the trace should know, at its end.
    warnings: Vec<String>,
    is_last: bool,
}

/// Columns, new names, warnings, and whether it is the last batch.
type GivenBatch<'py> = (Bound<'py, PyDict>, Vec<String>, Vec<String>, bool);

/// Batches that are parsed ahead.
const AHEAD: usize = 2;

#[pymethods]
impl TraceReader {
    #[new]
    #[pyo3(signature = (path, format, skip_bad, batch))]
    fn new(
        py: Python<'_>,
        path: String,
        format: Option<&str>,
        skip_bad: u64,
        batch: usize,
    ) -> PyResult<Self> {
        let options = Options { format: parse_format(format)?, skip_bad };
        if batch == 0 {
            return Err(PyValueError::new_err("a batch has at least one request"));
        }
        let (begin, begun) = sync_channel(1);
        let (send, batches) = sync_channel(AHEAD);
        thread::Builder::new().spawn(move || read(&path, &options, batch, &begin, &send))?;
        let begun = Mutex::new(begun);
        let (format, layer) = receive(py, &begun)?
            .ok_or_else(|| PyRuntimeError::new_err("the reader of the trace has gone"))?
            .map_err(PyValueError::new_err)?;
        Ok(Self { batches: Mutex::new(batches), process: process::id(), format, layer })
    }

    #[getter]
    fn format(&self) -> &str {
        self.format
    }

    #[getter]
    fn layer(&self) -> &str {
        self.layer
    }

    /// The columns of the next batch, new names, warnings, and whether it is the last one.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<GivenBatch<'py>>> {
        if self.is_copy() {
            let what = "a process that was forked cannot read on in a trace; iterate it anew";
            return Err(PyRuntimeError::new_err(what));
        }
        match receive(py, &self.batches)? {
            None => Ok(None),
            Some(Err(why)) => Err(PyValueError::new_err(why)),
            Some(Ok(Batch { columns, names, warnings, is_last })) => {
                Ok(Some((columns.into_dict(py)?, names, warnings, is_last)))
            }
        }
    }
}

impl TraceReader {
    /// Whether this is the copy of a forked process, which has no thread that reads.
    fn is_copy(&self) -> bool {
        self.process != process::id()
    }
}

impl Drop for TraceReader {
    fn drop(&mut self) {
        if self.is_copy() {
            // The thread may have held a lock of the channel when the process was forked.
            let (_, ended) = sync_channel(1);
            mem::forget(mem::replace(&mut self.batches, Mutex::new(ended)));
        }
    }
}

/// What a channel brings, without the interpreter's lock; nothing at its end. An interrupt ends it.
fn receive<T: Send>(py: Python<'_>, from: &Mutex<Receiver<T>>) -> PyResult<Option<T>> {
    loop {
        let received = py.detach(|| {
            let from = from.lock().unwrap_or_else(PoisonError::into_inner);
            from.recv_timeout(INTERRUPTED)
        });
        match received {
            Ok(received) => return Ok(Some(received)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
        }
    }
}

/// Format and layer, or why a trace cannot be read.
type Begun = Result<(&'static str, &'static str), String>;

/// Reads until the end, an error, or until Python has dropped the reader.
fn read(
    path: &str,
    options: &Options,
    size: usize,
    begin: &SyncSender<Begun>,
    send: &SyncSender<Result<Batch, String>>,
) {
    let mut reader = match open(path, options) {
        Ok(reader) => reader,
        Err(why) => {
            // The other side is waiting for it.
            let _ = begin.send(Err(why));
            return;
        }
    };
    let _ = begin.send(Ok((reader.format().name(), reader.format().layer().name())));
    let mut named = 0;
    loop {
        let batch = next_batch(&mut reader, size, &mut named);
        let batch = batch.map_err(|error| format!("{path}: {error}"));
        let is_last = batch.as_ref().map_or(true, |batch| batch.is_last);
        if send.send(batch).is_err() || is_last {
            return;
        }
    }
}

fn next_batch(
    reader: &mut Reader<'_>,
    size: usize,
    named: &mut usize,
) -> Result<Batch, TraceError> {
    let room = size.min(1 << 20);
    let column = || Vec::with_capacity(room);
    let (mut time, mut took, mut offset, mut length) = (column(), column(), column(), column());
    let (mut object, mut stream, mut op) = (column(), column(), Vec::with_capacity(room));
    let mut batch = Batch::default();
    while time.len() < size {
        let Some(record) = reader.next()? else {
            batch.is_last = true;
            break;
        };
        time.push(whole(record.time));
        took.push(record.took.map_or(-1, whole));
        op.push(Op::ALL.iter().position(|known| *known == record.op).unwrap_or(0) as u8);
        offset.push(whole(record.offset));
        length.push(whole(record.len));
        object.push(i64::from(record.object));
        stream.push(i64::from(record.stream));
    }
    for (name, values) in [
        ("time_ns", time),
        ("took_ns", took),
        ("offset", offset),
        ("length", length),
        ("object", object),
        ("stream", stream),
    ] {
        batch.columns.add(name, Column::Whole(values));
    }
    batch.columns.add("op", Column::Byte(op));
    batch.names = reader.names().iter().skip(*named).map(str::to_owned).collect();
    *named += batch.names.len();
    if batch.is_last {
        batch.warnings = reader.report().sentences();
    }
    Ok(batch)
}

/// Opens a trace.
pub(crate) fn open(path: &str, options: &Options) -> Result<Reader<'static>, String> {
    let file = File::open(path).map_err(|error| format!("cannot read '{path}': {error}"))?;
    Reader::new(file, options).map_err(|error| format!("{path}: {error}"))
}

/// A format by its name.
pub(crate) fn parse_format(typed: Option<&str>) -> PyResult<Option<Format>> {
    let Some(typed) = typed else { return Ok(None) };
    let found = Format::ALL.into_iter().find(|format| format.name() == typed);
    found.map(Some).ok_or_else(|| {
        let names = Format::ALL.map(Format::name).join(", ");
        PyValueError::new_err(format!("no format is named '{typed}' (known: {names})"))
    })
}

/// Whether a file is a trace, by its first bytes.
#[pyfunction]
pub(crate) fn is_trace(py: Python<'_>, path: &str) -> bool {
    py.detach(|| open(path, &Options::default()).is_ok())
}

/// The names of the operations of a trace, in the order of their numbers.
pub(crate) fn ops() -> Vec<&'static str> {
    Op::ALL.map(Op::name).to_vec()
}
