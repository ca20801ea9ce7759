//! Bugs that can be seeded in the path of served disks, one for each rule of durability and more.
//!
//! They prove that the simulator's swarm finds such bugs. Without the feature `seeded-bugs`, which
//! no shipped build has, no bug can be seeded and no check for one is compiled.

/// A bug, named by what the path does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A write with FUA is written back like any other.
    FuaIsForgotten,
    /// A flush does not empty the device's cache.
    FlushSkipsTheDevice,
    /// Some pages that are written stay clean.
    WriteIsNotMarked,
    /// The last 512 bytes of a copy of a page or more are left out.
    CopyIsCutShort,
    /// Reads and writes do not wait for zeroing.
    GateIsOpen,
    /// An error that was reported to one client counts as reported to all.
    OneReportServesAll,
    /// A write that failed counts as written.
    ErrorIsSwallowed,
    /// The bytes before the first whole page are not zeroed.
    ZeroSkipsItsHead,
    /// A flush is answered with the one that is under way.
    FlushJoinsTheRunningOne,
    /// Writers wait for as long as the store is full.
    FullStoreIsIgnored,
    /// All of memory can become dirty.
    NoReserve,
    /// The flushes that wait when a client leaves are never answered.
    LeavingForgetsFlushes,
    /// Requests that waited for zeroing are never started.
    GateStaysShut,
    /// Streams are read from the first export.
    StreamsMixExports,
    /// A last page that is not whole is not written.
    TailIsNotWritten,
    /// An error that was reported only on an internal description counts as reported.
    InternalReportCounts,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::FuaIsForgotten,
        Self::FlushSkipsTheDevice,
        Self::WriteIsNotMarked,
        Self::CopyIsCutShort,
        Self::GateIsOpen,
        Self::OneReportServesAll,
        Self::ErrorIsSwallowed,
        Self::ZeroSkipsItsHead,
        Self::FlushJoinsTheRunningOne,
        Self::FullStoreIsIgnored,
        Self::NoReserve,
        Self::LeavingForgetsFlushes,
        Self::GateStaysShut,
        Self::StreamsMixExports,
        Self::TailIsNotWritten,
        Self::InternalReportCounts,
    ];

    /// The rule that it breaks.
    pub const fn rule(self) -> &'static str {
        match self {
            Self::FuaIsForgotten | Self::FlushSkipsTheDevice => "D1",
            Self::WriteIsNotMarked => "D2",
            Self::CopyIsCutShort => "D3",
            Self::GateIsOpen => "D4",
            Self::OneReportServesAll => "D5",
            Self::ErrorIsSwallowed | Self::InternalReportCounts => "D6",
            Self::ZeroSkipsItsHead => "D7",
            Self::FlushJoinsTheRunningOne => "D8",
            Self::FullStoreIsIgnored => "D9",
            Self::NoReserve => "D10",
            Self::LeavingForgetsFlushes => "D11",
            Self::GateStaysShut => "D12",
            Self::StreamsMixExports => "D13",
            Self::TailIsNotWritten => "D14",
        }
    }
}

/// The bug that is seeded, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SeededBug {
    #[cfg(feature = "seeded-bugs")]
    bug: Option<Bug>,
}

impl SeededBug {
    #[cfg(feature = "seeded-bugs")]
    pub(crate) fn seed(bug: Option<Bug>) -> Self {
        Self { bug }
    }

    /// Whether a bug is seeded.
    #[cfg(feature = "seeded-bugs")]
    pub(crate) fn is(self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Whether a bug is seeded: there is none in this build.
    #[cfg(not(feature = "seeded-bugs"))]
    pub(crate) const fn is(self, _bug: Bug) -> bool {
        false
    }
}
