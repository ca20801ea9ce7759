//! How a round is run: with or without `forebay tune`, and settings by hand.

use std::fmt;

/// How a round is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// The kernel with the device's defaults.
    Default,
    /// The same with `forebay tune`.
    Tune,
    /// Another window for all files, in KiB.
    ReadAhead(u64),
    /// A dirty limit in MiB.
    Cap(u64),
}

/// The scope of `forebay tune`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tuned {
    /// The device by name.
    Named,
    /// The machine, without the devices of others.
    Unnamed,
}

impl Way {
    /// Its kind, as typed.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Tune => "tune",
            Self::ReadAhead(_) | Self::Cap(_) => "fixed",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default | Self::Tune => f.write_str(self.kind()),
            Self::ReadAhead(kib) => write!(f, "{kib} KiB"),
            Self::Cap(mib) => write!(f, "limit {mib} MiB"),
        }
    }
}
