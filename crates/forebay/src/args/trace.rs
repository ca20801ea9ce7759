//! Arguments of `forebay trace`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use forebay_report::page::PageChoice;
use forebay_trace::{Format, SORT_WINDOW, WriteFormat};

/// Arguments of `trace`.
#[derive(Debug, Args)]
pub(crate) struct Trace {
    #[command(subcommand)]
    pub(crate) what: TraceWhat,
}

/// Subcommands of `trace`.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceWhat {
    /// Print format, time span, operations and volumes
    Info(TraceInfo),
    /// Print the first requests
    Head(TraceHead),
    /// Write the trace in another format
    ///
    /// Requests are sorted by time. Requests that the format has no word for, such as opens, are
    /// left out and counted. The file appears when it is complete.
    Convert(TraceConvert),
    /// Write the requests of a random share of all addresses
    ///
    /// Volumes are divided into regions of 1 MiB. The requests that begin in a region are all kept
    /// or none of them, so that sequential requests stay sequential and pages keep their accesses;
    /// a request that reaches into the next region is kept as a whole.
    Sample(TraceSample),
    /// Print request sizes, sequentiality, arrival and reuse distances
    Stats(TraceStats),
}

/// The trace, and how it is read.
#[derive(Debug, Args)]
pub(crate) struct TraceInput {
    /// The trace, plain or compressed by gzip or zstd; `-` reads standard input
    pub(crate) file: PathBuf,
    /// The format; by default detected from the first bytes
    #[arg(long, value_parser = read_format())]
    pub(crate) format: Option<Format>,
    /// Skip up to N bad lines or records, and report their number
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) skip_bad: u64,
    /// Read only the requests of one file or device
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Option<String>,
}

/// Arguments of `trace info`.
#[derive(Debug, Args)]
pub(crate) struct TraceInfo {
    #[command(flatten)]
    pub(crate) input: TraceInput,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `trace head`.
#[derive(Debug, Args)]
pub(crate) struct TraceHead {
    #[command(flatten)]
    pub(crate) input: TraceInput,
    /// The number of requests
    #[arg(
        long,
        short = 'n',
        value_name = "N",
        default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=100_000)
    )]
    pub(crate) count: u64,
    /// Print a JSON array of objects
    #[arg(long)]
    pub(crate) json: bool,
}

/// The output of a trace.
#[derive(Debug, Args)]
pub(crate) struct TraceOutput {
    /// The format to write
    #[arg(long, value_parser = write_format(), default_value = "fio-iolog-v3")]
    pub(crate) to: WriteFormat,
    /// The file to write, replaced if it is there; `-` writes to standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Number of requests that are buffered to sort them by time
    #[arg(
        long,
        value_name = "N",
        default_value_t = SORT_WINDOW as u64,
        value_parser = clap::value_parser!(u64).range(1..=1 << 26)
    )]
    pub(crate) sort_window: u64,
}

/// Arguments of `trace convert`.
#[derive(Debug, Args)]
pub(crate) struct TraceConvert {
    #[command(flatten)]
    pub(crate) input: TraceInput,
    #[command(flatten)]
    pub(crate) output: TraceOutput,
}

/// Arguments of `trace sample`.
#[derive(Debug, Args)]
pub(crate) struct TraceSample {
    #[command(flatten)]
    pub(crate) input: TraceInput,
    #[command(flatten)]
    pub(crate) output: TraceOutput,
    /// Keep one region in N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) one_in: u64,
    /// Seed of the choice of regions
    #[arg(long, default_value_t = 1, value_parser = super::seed)]
    pub(crate) seed: u64,
}

/// Arguments of `trace stats`.
#[derive(Debug, Args)]
pub(crate) struct TraceStats {
    #[command(flatten)]
    pub(crate) input: TraceInput,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) page: PageChoice,
}

/// A format that is read, by its name.
pub(crate) fn read_format() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name)).map(|typed: String| {
        let found = Format::ALL.into_iter().find(|format| format.name() == typed);
        found.expect("the parser takes these names only")
    })
}

/// A format that is written, by its name.
fn write_format() -> impl TypedValueParser<Value = WriteFormat> {
    PossibleValuesParser::new(WriteFormat::ALL.map(WriteFormat::name)).map(|typed: String| {
        let found = WriteFormat::ALL.into_iter().find(|format| format.name() == typed);
        found.expect("the parser takes these names only")
    })
}

/// How traces are replayed.
#[derive(Debug, Args)]
pub(crate) struct TraceReplay {
    /// The file is a trace in this format; by default the first bytes distinguish traces from job
    /// files
    #[arg(long, value_parser = read_format())]
    pub(crate) trace_format: Option<Format>,
    /// Trace: where requests enter. By default block traces enter at the block layer, below the
    /// page cache, where only the slot elevator has an effect; traces of file calls enter above the
    /// page cache
    #[arg(long, value_enum)]
    pub(crate) layer: Option<EntryLayer>,
    /// Trace: issue requests at the recorded times; the default of block traces
    #[arg(long, conflicts_with = "closed_loop")]
    pub(crate) open_loop: bool,
    /// Trace: issue a request when the previous one has completed: at the block layer, of the same
    /// volume; above the page cache, of the same process and after the recorded pause. The default
    /// of traces of file calls
    #[arg(long)]
    pub(crate) closed_loop: bool,
    /// Trace: divide the recorded times, or the pauses between file calls, by this factor
    #[arg(long, value_name = "X", value_parser = speed)]
    pub(crate) speed: Option<u64>,
    /// Trace, closed loop at the block layer: requests of each volume in flight
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=65_535)
    )]
    pub(crate) depth: Option<u32>,
    /// Trace: the number of devices over which the volumes are distributed in turn; by default one
    /// for each volume of a block trace, and one for each machine of a trace of file calls
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_024)
    )]
    pub(crate) devices: Option<u32>,
    /// Trace: skip up to N bad lines or records
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) skip_bad: u64,
    /// Trace: replay only the requests of one file or device
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Option<String>,
}

impl TraceReplay {
    /// An option that has no effect without a trace.
    pub(crate) fn for_traces_only(&self) -> Option<&'static str> {
        self.typed().into_iter().map(|(option, _)| option).find(|one| *one != "--trace-format")
    }

    /// The options as words of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let words = self.typed().into_iter();
        words.flat_map(|(option, value)| [option.to_owned()].into_iter().chain(value)).collect()
    }

    /// Each option that was typed, and its value.
    fn typed(&self) -> Vec<(&'static str, Option<String>)> {
        let layer = |layer: EntryLayer| match layer {
            EntryLayer::Block => "block".to_owned(),
            EntryLayer::Cache => "cache".to_owned(),
        };
        let format = self.trace_format.map(|format| format.name().to_owned());
        let speed = self.speed.map(|ppm| (ppm as f64 / 1e6).to_string());
        let skip_bad = (self.skip_bad > 0).then(|| self.skip_bad.to_string());
        let of = |option, value: Option<String>| value.map(|value| (option, Some(value)));
        let flag = |option, is_typed: bool| is_typed.then_some((option, None));
        [
            of("--trace-format", format),
            of("--layer", self.layer.map(layer)),
            flag("--open-loop", self.open_loop),
            flag("--closed-loop", self.closed_loop),
            of("--speed", speed),
            of("--depth", self.depth.map(|depth| depth.to_string())),
            of("--devices", self.devices.map(|devices| devices.to_string())),
            of("--skip-bad", skip_bad),
            of("--only", self.only.clone()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Where the requests of a trace enter the I/O path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EntryLayer {
    /// At the block layer, bypassing the page cache
    Block,
    /// Above the page cache, as calls of tasks
    Cache,
}

/// A factor in millionths.
fn speed(typed: &str) -> Result<u64, String> {
    const SPEED_MAX: f64 = 1e6;
    let factor = typed.parse::<f64>().ok().filter(|factor| (1e-6..=SPEED_MAX).contains(factor));
    let ppm = factor.map(|factor| (factor * 1e6).round() as u64);
    ppm.ok_or_else(|| "a number from 0.000001 to 1000000".to_owned())
}
