//! `forebay trace convert` and `sample`: a trace written in another format, all of it or a share.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use forebay_report::messages::{self, Complaint, shown};
use forebay_report::whole::{self, Draft};
use forebay_trace::{Layer, Names, Record, Writer};

use crate::args::trace::{TraceConvert, TraceInput, TraceOutput, TraceSample};
use crate::choice::STANDARD_INPUT;
use crate::traces::{self, TraceSource};

/// Writes the whole trace.
pub(crate) fn convert(arguments: &TraceConvert) -> Result<u8> {
    write(&arguments.input, &arguments.output, |_| true)
}

/// Writes a share of its addresses.
pub(crate) fn sample(arguments: &TraceSample) -> Result<u8> {
    let TraceSample { one_in, seed, .. } = *arguments;
    write(&arguments.input, &arguments.output, |record| {
        let region = record.offset / REGION;
        let key = region ^ u64::from(record.object) << 40 ^ seed.wrapping_mul(SPREAD);
        mixed(key).is_multiple_of(one_in)
    })
}

/// Bytes of a region, which is kept as a whole or not at all.
const REGION: u64 = 1 << 20;

/// Makes neighbouring seeds differ in many bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash whose bits are all alike good (the finalizer of SplitMix64).
fn mixed(key: u64) -> u64 {
    let x = key.wrapping_add(SPREAD);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// The program that packs files of such a name.
fn packer_of(path: &Path) -> Option<&'static str> {
    match path.extension()?.to_str()? {
        "gz" => Some("gzip"),
        "zst" => Some("zstd"),
        _ => None,
    }
}

fn write(input: &TraceInput, output: &TraceOutput, wanted: impl Fn(&Record) -> bool) -> Result<u8> {
    let mut source = TraceSource::open(input)?.sorted(output.sort_window);
    if source.layer() == Layer::Object {
        let what = format!("{}: objects of a cache have no addresses to write", source.name);
        bail!(Complaint::new(what).hint("`forebay trace stats` shows their reuse distances"));
    }
    let is_file = input.file != Path::new(STANDARD_INPUT);
    if is_file && whole::is_same(&input.file, &output.output) {
        let what = format!("-o {}: that is the trace itself", shown(&output.output));
        bail!(Complaint::new(what).hint("name another file"));
    }
    if let Some(packer) = packer_of(&output.output) {
        let what = format!("-o {}: a trace is written as it is, not packed", shown(&output.output));
        bail!(Complaint::new(what).hint(format!("-o - | {packer} > FILE packs it")));
    }
    let mut next = source.next()?;
    let mut out = Output::create(&output.output)?;
    let mut writer = Writer::new(&mut out, output.to, source.origin())?;
    let (mut read, mut written) = (0u64, 0u64);
    while let Some(record) = next {
        read += 1;
        if wanted(&record) {
            writer.write(&record, source.reader().names())?;
            written += 1;
        }
        next = source.next()?;
    }
    let renamed = renamed(&writer, source.reader().names());
    let kept = written - writer.finish(source.reader().names())?;
    if kept == 0 {
        let what = format!("{}: none of {read} requests is left to write", source.name);
        bail!(Complaint::new(what).hint("keep more regions, or choose another format"));
    }
    out.finish(&output.output)?;
    traces::warn(&source.name, &source.report());
    messages::note(&format!("{kept} of {read} requests written as {}", output.to));
    if let Some(renamed) = renamed {
        messages::note(&format!("{} has other names for them: {renamed}", output.to));
    }
    Ok(0)
}

/// What the format calls volumes whose names it has no room for; so many are listed.
fn renamed(writer: &Writer<&mut Output>, names: &Names) -> Option<String> {
    const LISTED_MAX: usize = 8;
    let mut renamed = writer.renamed(names).map(|(name, other)| {
        format!("'{}' is {}", messages::printable(name), messages::printable(other))
    });
    let mut listed: Vec<String> = renamed.by_ref().take(LISTED_MAX).collect();
    let more = renamed.count();
    if more > 0 {
        listed.push(format!("and {more} more"));
    }
    (!listed.is_empty()).then(|| listed.join(", "))
}

/// A file that appears when it is complete, or standard output.
enum Output {
    Standard(BufWriter<StdoutLock<'static>>),
    File(Draft),
}

impl Output {
    fn create(path: &Path) -> Result<Self> {
        if path == Path::new(STANDARD_INPUT) {
            return Ok(Self::Standard(BufWriter::new(io::stdout().lock())));
        }
        if path.file_name().is_none() {
            bail!(Complaint::new(format!("-o {}: not the name of a file", shown(path))));
        }
        let draft = Draft::new(path).with_context(|| format!("-o {}", shown(path)))?;
        Ok(Self::File(draft))
    }

    fn finish(self, path: &Path) -> Result<()> {
        match self {
            Self::Standard(mut to) => to.flush().context("cannot write the trace"),
            Self::File(to) => to.finish().with_context(|| format!("-o {}", shown(path))),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(to) => to.write(bytes),
            Self::File(to) => to.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(to) => to.flush(),
            Self::File(to) => to.flush(),
        }
    }
}
