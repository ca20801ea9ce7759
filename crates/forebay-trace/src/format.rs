//! The formats, and which one the first bytes of a trace have.

use std::fmt;

use crate::error::{Fault, TraceError};
use crate::formats::{
    alibaba, biosnoop, blkparse, blktrace, ftrace, iolog, mqsim, msr, oracle, strace, sysbench,
    tencent, vscsi,
};
use crate::record::{Layer, Names, Record};

/// A format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// MSR Cambridge, CSV.
    Msr,
    /// Alibaba cloud disks of 2020, CSV.
    Alibaba,
    /// Tencent cloud disks of 2018, CSV.
    Tencent,
    /// CloudPhysics virtual disks, binary.
    Vscsi,
    /// Cache traces of libCacheSim, binary.
    OracleGeneral,
    /// fio's log of its requests, versions 2 and 3.
    FioIolog,
    /// What blktrace writes, binary.
    Blktrace,
    /// What blkparse prints.
    Blkparse,
    /// Block events as tracefs, trace-cmd and perf script print them.
    Ftrace,
    /// What biosnoop prints.
    Biosnoop,
    /// File calls as strace prints them.
    Strace,
    /// What sysbench fileio prints with `--debug=on`.
    Sysbench,
    /// Text traces of MQSim.
    Mqsim,
}

/// A line of a text format becomes a request, or nothing. Its time is not yet relative.
pub(crate) trait LineParser {
    /// Takes one line.
    fn line(&mut self, line: &[u8], names: &mut Names) -> Result<Option<Record>, Fault>;

    /// The second request of the line before, if it had two.
    fn second(&mut self) -> Option<Record> {
        None
    }

    /// What a reader of the trace should know.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A record of a binary format becomes a request, or nothing.
pub(crate) trait RecordParser {
    /// The bytes that are enough for one record.
    fn record_max(&self) -> usize;

    /// Takes the first record of `bytes`, which are fewer than [`record_max`](Self::record_max)
    /// only at the end of the trace. Returns how many bytes it has; with none, nothing behind it
    /// can be found.
    fn record(&mut self, bytes: &[u8], names: &mut Names) -> (usize, Parsed);
}

/// What a line or a record came to.
pub(crate) type Parsed = Result<Option<Record>, Fault>;

/// The parser of a format.
pub(crate) enum AnyParser {
    Lines(Box<dyn LineParser>),
    Records(Box<dyn RecordParser>),
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 13] = [
        Self::Msr,
        Self::Alibaba,
        Self::Tencent,
        Self::Vscsi,
        Self::OracleGeneral,
        Self::FioIolog,
        Self::Blktrace,
        Self::Blkparse,
        Self::Ftrace,
        Self::Biosnoop,
        Self::Strace,
        Self::Sysbench,
        Self::Mqsim,
    ];

    /// As it is typed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Msr => "msr",
            Self::Alibaba => "alibaba",
            Self::Tencent => "tencent",
            Self::Vscsi => "vscsi",
            Self::OracleGeneral => "oracle-general",
            Self::FioIolog => "fio-iolog",
            Self::Blktrace => "blktrace",
            Self::Blkparse => "blkparse",
            Self::Ftrace => "ftrace",
            Self::Biosnoop => "biosnoop",
            Self::Strace => "strace",
            Self::Sysbench => "sysbench",
            Self::Mqsim => "mqsim",
        }
    }

    /// Where its requests were recorded.
    pub const fn layer(self) -> Layer {
        match self {
            Self::FioIolog | Self::Strace | Self::Sysbench => Layer::File,
            Self::OracleGeneral => Layer::Object,
            Self::Msr
            | Self::Alibaba
            | Self::Tencent
            | Self::Vscsi
            | Self::Blktrace
            | Self::Blkparse
            | Self::Ftrace
            | Self::Biosnoop
            | Self::Mqsim => Layer::Block,
        }
    }

    /// Its times: a unit, and the treatment of a coarse one.
    pub const fn times(self) -> &'static str {
        match self {
            Self::Msr => "100 ns",
            Self::Alibaba | Self::Vscsi | Self::FioIolog | Self::Ftrace | Self::Biosnoop => "1 us",
            Self::Strace => "as strace was told",
            Self::Tencent => "1 s; requests of one second are spread evenly over it",
            Self::OracleGeneral => "1 s",
            Self::Blktrace | Self::Blkparse | Self::Mqsim => "1 ns",
            Self::Sysbench => "none",
        }
    }

    /// A parser for a trace with these first bytes.
    pub(crate) fn parser(self, head: &[u8]) -> AnyParser {
        let lines: Box<dyn LineParser> = match self {
            Self::Vscsi => return AnyParser::Records(Box::new(vscsi::Vscsi::new(head))),
            Self::OracleGeneral => {
                return AnyParser::Records(Box::new(oracle::OracleGeneral::default()));
            }
            Self::Blktrace => return AnyParser::Records(Box::new(blktrace::Blktrace::new(head))),
            Self::Msr => Box::new(msr::Msr::default()),
            Self::Alibaba => Box::new(alibaba::Alibaba::default()),
            Self::Tencent => Box::new(tencent::Tencent::new(head)),
            Self::FioIolog => Box::new(iolog::Iolog::default()),
            Self::Blkparse => Box::new(blkparse::Blkparse::new(head)),
            Self::Ftrace => Box::new(ftrace::Ftrace::new(head)),
            Self::Biosnoop => Box::new(biosnoop::Biosnoop::default()),
            Self::Strace => Box::new(strace::Strace::default()),
            Self::Sysbench => Box::new(sysbench::Sysbench),
            Self::Mqsim => Box::new(mqsim::Mqsim),
        };
        AnyParser::Lines(lines)
    }

    /// The format of a trace with these first bytes, of which the last line may be cut.
    ///
    /// # Errors
    /// No format, or an old one that is not read.
    pub(crate) fn detect(head: &[u8]) -> Result<Self, TraceError> {
        let unknown = |found: &str| Err(TraceError::UnknownFormat { found: found.to_owned() });
        if head.is_empty() {
            return unknown("the file is empty");
        }
        if head.starts_with(b"fio version") {
            return Ok(Self::FioIolog);
        }
        if blktrace::is_blktrace(head) {
            return Ok(Self::Blktrace);
        }
        if !head.contains(&0) {
            return Self::detect_text(head);
        }
        if vscsi::version(head).is_some() {
            return Ok(Self::Vscsi);
        }
        if oracle::is_oracle(head) {
            return Ok(Self::OracleGeneral);
        }
        unknown("binary data without a known mark")
    }

    /// Parses the first lines as each text format: the one wins that makes most of them.
    fn detect_text(head: &[u8]) -> Result<Self, TraceError> {
        const LINES: usize = 200;
        let whole = head.iter().rposition(|byte| *byte == b'\n').unwrap_or(head.len());
        let lines = || head[..whole].split(|byte| *byte == b'\n').take(LINES);
        let score = |format: Self| {
            let AnyParser::Lines(mut parser) = format.parser(head) else { return 0 };
            let (mut names, mut records, mut faults) = (Names::default(), 0i64, 0i64);
            for line in lines() {
                match parser.line(line.strip_suffix(b"\r").unwrap_or(line), &mut names) {
                    Ok(Some(_)) => records += 1,
                    Ok(None) => {}
                    Err(_) => faults += 1,
                }
            }
            // A format that takes a line in ten is not the one.
            if records > faults { records * 2 - faults } else { 0 }
        };
        let scored = Self::ALL.into_iter().map(|format| (score(format), format));
        // Of formats that make the same of it, the first one.
        let best = scored.rev().max_by_key(|(score, _)| *score);
        match best {
            Some((score, format)) if score > 0 => Ok(format),
            _ if iolog::is_version_1(head) => Err(TraceError::UnknownFormat {
                found: "an iolog of fio before 1.20, which has no version line and is not read"
                    .to_owned(),
            }),
            _ => {
                let line = lines().next().unwrap_or_default();
                let shown = Fault::new("line", "", line).found;
                Err(TraceError::UnknownFormat { found: format!("the first line is '{shown}'") })
            }
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
