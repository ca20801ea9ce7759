//! Any bytes as a trace: shared by the fuzz target and the tests.

use allocation_counter::measure;
use forebay_trace::{
    Format, Layer, Names, Op, Options, Place, Reader, Record, Sorted, Statistics, TraceError,
    WriteError, WriteFormat, Writer,
};

/// Takes the first byte as the format, or as that the bytes tell it, and the rest as a trace. It is
/// read up to the first error, with errors skipped, and as each format writes it.
///
/// # Panics
/// If an error names no line or byte of the trace, a request has no name, a written trace is not
/// read as it was, or memory grows beyond the bytes.
pub(crate) fn survives(bytes: &[u8]) {
    let Some((&choice, rest)) = bytes.split_first() else { return };
    let format = Format::ALL.get(usize::from(choice) % (Format::ALL.len() + 1)).copied();
    let is_packed = rest.starts_with(&[0x1f, 0x8b]) || rest.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    // A packed trace is as long as its packer likes: little of it is enough.
    let rest = if is_packed { &rest[..rest.len().min(PACKED_MAX)] } else { rest };
    let used = measure(|| {
        strictly(rest, format, is_packed);
        sorted(rest, format);
        let Some(trace) = all(rest, format, RECORDS_MAX) else { return };
        counted(&trace);
        if trace.layer != Layer::Object {
            WriteFormat::ALL.into_iter().for_each(|format| written(&trace, format));
        }
    });
    let most = MEMORY_MAX + if is_packed { PACKED_MEMORY_MAX } else { 256 * rest.len() as u64 };
    assert!(used.bytes_max <= most, "{} bytes of memory for {}", used.bytes_max, rest.len());
}

/// What a trace holds.
struct Trace {
    layer: Layer,
    records: Vec<Record>,
    names: Names,
    origin: u64,
}

/// Reads up to the first error, which says where it is.
fn strictly(bytes: &[u8], format: Option<Format>, is_packed: bool) {
    let read = || -> Result<(), TraceError> {
        let mut reader = Reader::new(bytes, &Options { format, skip_bad: 0 })?;
        for _ in 0..RECORDS_MAX {
            if reader.next()?.is_none() {
                return Ok(());
            }
        }
        Ok(())
    };
    match read() {
        Ok(()) => {}
        Err(TraceError::Bad { place, fault } | TraceError::Lost { place, fault }) => {
            let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            let is_there = match place {
                Place::Line(line) => (1..=lines).contains(&line),
                Place::Byte(byte) => byte < bytes.len() as u64,
            };
            assert!(is_there || is_packed, "{place} of {} bytes", bytes.len());
            let said = fault.to_string();
            assert!(!said.contains(char::is_control) && said.len() < 400, "{said:?}");
        }
        Err(TraceError::Unsorted { .. }) => panic!("nothing is sorted"),
        Err(TraceError::Io(error)) => assert!(is_packed, "bytes can be read: {error}"),
        Err(TraceError::UnknownFormat { .. }) => assert_eq!(format, None, "it was given"),
        Err(error @ TraceError::NoRequests { .. }) => assert!(!error.to_string().is_empty()),
    }
}

/// All requests whatever is wrong between them; none if there are none.
fn all(bytes: &[u8], format: Option<Format>, most: usize) -> Option<Trace> {
    let mut reader = Reader::new(bytes, &Options { format, skip_bad: u64::MAX }).ok()?;
    let layer = reader.format().layer();
    let mut records = Vec::new();
    while records.len() < most {
        let Ok(Some(record)) = reader.next() else { break };
        assert!((record.object as usize) < reader.names().len(), "a number has a name");
        assert!(!record.op.moves_data() || record.len > 0, "{record:?}");
        if layer != Layer::Object {
            let end = record.offset.checked_add(record.len);
            assert!(end.is_some_and(|end| end <= i64::MAX as u64), "{record:?}");
        }
        records.push(record);
    }
    let report = reader.report();
    assert!(report.requests >= records.len() as u64, "{report:?}");
    assert_eq!(report.first_bad.is_some(), report.bad > 0, "{report:?}");
    let (names, origin) = (reader.names().clone(), reader.origin());
    (!records.is_empty()).then_some(Trace { layer, records, names, origin })
}

/// Requests come in the order of their times, or the trace is refused.
fn sorted(bytes: &[u8], format: Option<Format>) {
    let options = Options { format, skip_bad: u64::MAX };
    let Ok(reader) = Reader::new(bytes, &options) else { return };
    let (mut requests, mut last) = (Sorted::new(reader, 8), 0);
    for _ in 0..RECORDS_MAX {
        let Ok(Some(record)) = requests.next() else { break };
        assert!(record.time >= last, "{record:?} behind {last}");
        last = record.time;
    }
}

/// Statistics count every request once.
fn counted(trace: &Trace) {
    let mut statistics = Statistics::new(Layer::Block, false);
    trace.records.iter().for_each(|record| statistics.add(record));
    assert_eq!(statistics.requests(), trace.records.len() as u64);
    // Reuse takes up to 2^16 pages of a request.
    let mut reuse = Statistics::new(Layer::Block, true);
    trace.records.iter().take(4).for_each(|record| reuse.add(record));
    let histogram = reuse.reuse.as_ref().expect("it was wanted").histogram();
    assert!(histogram.buckets.iter().chain([&histogram.first]).all(|count| count.is_finite()));
}

/// Writes a trace and reads it again; what was read is written and read as it is.
fn written(trace: &Trace, format: WriteFormat) {
    let Some(bytes) = write(trace, format) else { return };
    let Some(read) = all(&bytes, Some(format_of(format)), usize::MAX) else {
        assert!(requests(trace, format).is_empty(), "{format}: nothing of a trace is left");
        return;
    };
    let places = |trace| {
        let requests = requests(trace, format).into_iter();
        let moved = requests.filter(|(record, _)| record.op.moves_data());
        moved.map(|(record, _)| (record.op, record.offset, record.len)).collect::<Vec<_>>()
    };
    assert_eq!(places(&read), places(trace), "{format}: what is moved");
    let bytes = write(&read, format).expect("the format has said it before");
    let again = all(&bytes, Some(format_of(format)), usize::MAX).expect("it has requests");
    assert_eq!(requests(&again, format), requests(&read, format), "{format}");
}

/// The requests that a format has a word for, with the names of their files.
fn requests(trace: &Trace, format: WriteFormat) -> Vec<(Record, &str)> {
    let has_word = |op: Op| match format {
        WriteFormat::FioIologV2 | WriteFormat::FioIologV3 => {
            op.moves_data() || matches!(op, Op::Sync | Op::DataSync | Op::Flush)
        }
        WriteFormat::Msr | WriteFormat::Alibaba | WriteFormat::Vscsi | WriteFormat::Mqsim => {
            matches!(op, Op::Read | Op::Write)
        }
    };
    let records = trace.records.iter().filter(|record| has_word(record.op));
    // Numbers of files follow the order in which they are opened.
    let named = |record: &Record| {
        (Record { object: 0, stream: 0, ..*record }, trace.names.name(record.object))
    };
    records.map(named).collect()
}

/// The bytes of a trace; none if the format cannot say it.
fn write(trace: &Trace, format: WriteFormat) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, format, trace.origin).expect("memory can be written");
    for record in &trace.records {
        match writer.write(record, &trace.names) {
            Ok(()) => {}
            Err(error @ WriteError::Inexpressible { .. }) => {
                assert!(error.to_string().starts_with("request "), "{error}");
                return None;
            }
            Err(WriteError::Io(error)) => panic!("memory can be written: {error}"),
        }
    }
    writer.finish(&trace.names).expect("memory can be written");
    Some(bytes)
}

fn format_of(format: WriteFormat) -> Format {
    match format {
        WriteFormat::FioIologV2 | WriteFormat::FioIologV3 => Format::FioIolog,
        WriteFormat::Msr => Format::Msr,
        WriteFormat::Alibaba => Format::Alibaba,
        WriteFormat::Vscsi => Format::Vscsi,
        WriteFormat::Mqsim => Format::Mqsim,
    }
}

/// Requests of a trace that are read.
const RECORDS_MAX: usize = 20_000;

/// Bytes of a packed trace that are read.
const PACKED_MAX: usize = 4 << 10;

/// What a reader may use whatever it reads, and the requests above: buffers of 256 KiB, a line of
/// 1 MiB.
const MEMORY_MAX: u64 = 32 << 20;

/// What names of a packed trace may take besides.
const PACKED_MEMORY_MAX: u64 = 256 << 20;
