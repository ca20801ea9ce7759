//! What happened to a knob, in sentences that a stranger understands.

use std::fmt;

use super::{Identity, Knob, OpenFile, Value};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A knob was written.
    Set {
        /// Which, and whose.
        of: Of,
        /// What it stood at.
        from: Value,
        /// What was asked for.
        asked: Value,
        /// What it stands at.
        to: Value,
        /// Why.
        why: String,
    },
    /// The kernel had reset it, and it was written again.
    Reasserted {
        /// Which, and whose.
        of: Of,
        /// What the kernel had made of it.
        found: Value,
        /// What it stands at again.
        to: Value,
    },
    /// It stands where it stood before us.
    Restored {
        /// Which, and whose.
        of: Of,
        /// What it stood at.
        from: Value,
        /// What it stands at.
        to: Value,
        /// Why.
        why: String,
    },
    /// It stood where it stood before us already.
    AsBefore {
        /// Which, and whose.
        of: Of,
        /// What it stands at.
        at: Value,
    },
    /// Another program has written it; it is left as it is.
    Foreign {
        /// Which, and whose.
        of: Of,
        /// What we had left there.
        last: Value,
        /// What stands there.
        found: Value,
    },
    /// Its device is gone, or another device has its number.
    Gone {
        /// Which, and whose.
        of: Of,
    },
    /// It could not be restored.
    Failed {
        /// Which, and whose.
        of: Of,
        /// What it should stand at.
        to: Value,
        /// Why.
        error: String,
    },
    /// A file that a process has open was given a window.
    FileSet {
        /// Which.
        file: OpenFile,
        /// The window that it had, in KiB.
        from_kb: u64,
        /// The window that it has, in KiB.
        to_kb: u64,
        /// Why.
        why: String,
        /// The file and its process as people know them; empty if unknown.
        name: String,
    },
    /// It has its old window again.
    FileRestored {
        /// Which.
        file: OpenFile,
        /// The window, in KiB.
        to_kb: u64,
        /// As people know it; empty if unknown.
        name: String,
    },
    /// The file was closed, or the process has ended.
    FileGone {
        /// Which.
        file: OpenFile,
        /// As people know it; empty if unknown.
        name: String,
    },
    /// It could not be told.
    FileFailed {
        /// Which.
        file: OpenFile,
        /// Why.
        error: String,
        /// As people know it; empty if unknown.
        name: String,
    },
}

/// A knob and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Of {
    /// Which.
    pub knob: Knob,
    /// Whose.
    pub identity: Identity,
}

impl Event {
    /// Whether something is left that should not be.
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::FileFailed { .. })
    }

    /// What happened, in a word.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Set { .. } => "set",
            Self::Reasserted { .. } => "set-again",
            Self::Restored { .. } => "restored",
            Self::AsBefore { .. } => "as-before",
            Self::Foreign { .. } => "left",
            Self::Gone { .. } => "gone",
            Self::Failed { .. } => "failed",
            Self::FileSet { .. } => "file-set",
            Self::FileRestored { .. } => "file-restored",
            Self::FileGone { .. } => "file-gone",
            Self::FileFailed { .. } => "file-failed",
        }
    }

    /// The name of the knob or the file.
    pub fn about(&self) -> String {
        match self {
            Self::Set { of, .. }
            | Self::Reasserted { of, .. }
            | Self::Restored { of, .. }
            | Self::AsBefore { of, .. }
            | Self::Foreign { of, .. }
            | Self::Gone { of }
            | Self::Failed { of, .. } => of.knob.to_string(),
            Self::FileSet { file, .. }
            | Self::FileRestored { file, .. }
            | Self::FileGone { file, .. }
            | Self::FileFailed { file, .. } => {
                format!("{}/fd{}/{}/{}", file.pid, file.fd, file.file.dev, file.file.ino)
            }
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set { of, from, asked, to, why } => {
                let show = |value| of.knob.show(value);
                write!(out, "{of} was set from {} to {}", show(*from), show(*to))?;
                if asked != to {
                    write!(out, " ({} was asked for)", show(*asked))?;
                }
                write!(out, ", because {why}")
            }
            Self::Reasserted { of, found, to } => {
                let (found, to) = (of.knob.show(*found), of.knob.show(*to));
                write!(
                    out,
                    "{of} was set to {to} again, because the kernel had reset it to {found}"
                )
            }
            Self::Restored { of, from, to, why } => {
                let (from, to) = (of.knob.show(*from), of.knob.show(*to));
                write!(out, "{of} was restored from {from} to {to}, because {why}")?;
                if let Knob::WbtLatUsec(_) = of.knob {
                    // Any write is taken for an administrator's, for good.
                    out.write_str("; that the kernel chose it by itself cannot come back")?;
                }
                Ok(())
            }
            Self::AsBefore { of, at } => {
                let at = of.knob.show(*at);
                write!(out, "{of} is still {at}; nothing had to be restored")
            }
            Self::Foreign { of, last, found } => {
                let (last, found) = (of.knob.show(*last), of.knob.show(*found));
                write!(
                    out,
                    "{of} is {found}, written by another program, instead of our {last}; it is \
                     left alone from now on"
                )
            }
            Self::Gone { of } => {
                write!(out, "{of} is gone with its device; there is nothing to restore")
            }
            Self::Failed { of, to, error } => {
                let path = of.knob.path(*to);
                let to = of.knob.show(*to);
                write!(out, "{of} could not be restored to {to}: {path}: {error}")
            }
            Self::FileSet { file, from_kb, to_kb, why, name } => {
                let file = NamedFile { name, file };
                write!(
                    out,
                    "the readahead window of {file} was set from {from_kb} KiB to {to_kb} KiB, \
                     because {why}"
                )
            }
            Self::FileRestored { file, to_kb, name } => {
                let file = NamedFile { name, file };
                write!(out, "the readahead window of {file} was restored to {to_kb} KiB")
            }
            Self::FileGone { file, name } => {
                let file = NamedFile { name, file };
                write!(out, "{file} is closed, and its readahead window is gone with it")
            }
            Self::FileFailed { file, error, name } => {
                let file = NamedFile { name, file };
                write!(out, "the readahead window of {file} could not be restored: {error}")
            }
        }
    }
}

/// An open file by its name, or by its numbers if it has none.
struct NamedFile<'a> {
    name: &'a str,
    file: &'a OpenFile,
}

impl fmt::Display for NamedFile<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() { self.file.fmt(out) } else { out.write_str(self.name) }
    }
}

impl fmt::Display for Of {
    /// `the readahead window (read_ahead_kb) of loop0 (7:0)`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = self.knob.rule();
        write!(out, "{} ({}) of {}", rule.meaning, rule.name, self.identity.show())
    }
}
