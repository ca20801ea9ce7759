//! The formats: what they are called, where their requests were recorded, their times.

use std::fmt;

use crate::record::Layer;

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
            Self::Strace => "set by -t, -tt, -ttt or -r of strace",
            Self::Tencent => "1 s; requests of one second are spread evenly over it",
            Self::OracleGeneral => "1 s",
            Self::Blktrace | Self::Blkparse | Self::Mqsim => "1 ns",
            Self::Sysbench => "none",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
