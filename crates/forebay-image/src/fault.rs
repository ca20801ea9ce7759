//! An error at one path, of an image or of a tree of files.

use std::fmt;
use std::io;

use crate::error::Error;
use crate::listing::EntryDefect;
use crate::node::Kind;
use crate::printable::shown;

/// An error, and its path.
#[derive(Debug)]
pub struct Fault {
    /// From the root, without a slash in front; empty for the root itself.
    pub path: Vec<u8>,
    /// The error.
    pub cause: Cause,
}

impl Fault {
    /// An error at a path.
    pub fn new(path: impl Into<Vec<u8>>, cause: impl Into<Cause>) -> Self {
        Self { path: path.into(), cause: cause.into() }
    }

    /// Whether the file that holds the image cannot be read there, which says nothing of the image.
    pub fn is_unread(&self) -> bool {
        self.cause.is_unread()
    }

    /// The byte of the image that it is about, if it is about one.
    pub const fn offset(&self) -> Option<u64> {
        match &self.cause {
            Cause::Image(error) => error.offset(),
            Cause::Loop
            | Cause::TwoNames
            | Cause::Untold(_)
            | Cause::Many(_)
            | Cause::Name(_)
            | Cause::Double(_)
            | Cause::Entry(_)
            | Cause::Kinds { .. }
            | Cause::Missing
            | Cause::NotDirectory
            | Cause::NotFile(_)
            | Cause::Links(_)
            | Cause::Owner(_)
            | Cause::First(_)
            | Cause::More(_)
            | Cause::Unsafe(_)
            | Cause::Xattr { .. }
            | Cause::System { .. } => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}: {}", shown(&self.path), self.cause)
    }
}

/// Without a source: the text has all of it.
impl std::error::Error for Fault {}

/// What can be wrong.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The image cannot be read here.
    #[error("{0}")]
    Image(Error),
    /// A directory is among its own ancestors.
    #[error("the directory holds itself")]
    Loop,
    /// A directory was reached by another path before.
    #[error("the directory has a second name")]
    TwoNames,
    /// There are more faults than are listed.
    #[error("{0} more faults, which are not listed")]
    Untold(u64),
    /// There are too many names.
    #[error("more than {0} names are in the tree; the rest is left out")]
    Many(usize),
    /// An entry's name is none.
    #[error("'{}' is no name of a file", shown(.0))]
    Name(Vec<u8>),
    /// A directory has a name twice.
    #[error("the name '{}' is there twice", shown(.0))]
    Double(Vec<u8>),
    /// An entry of a directory is not as it should be.
    #[error("{0}")]
    Entry(Box<EntryDefect>),
    /// Directory and node do not agree.
    #[error("the directory says {}, the node says {}", entry.name(), node.name())]
    Kinds {
        /// What the directory says.
        entry: Kind,
        /// What the node says.
        node: Kind,
    },
    /// Nothing has this path.
    #[error("there is nothing of this name")]
    Missing,
    /// A path continues below a node that is not a directory.
    #[error("is no directory")]
    NotDirectory,
    /// The operation needs a regular file.
    #[error("is a {}, no regular file", .0.name())]
    NotFile(Kind),
    /// A path leads through too many symbolic links.
    #[error("more than {0} symbolic links on the way")]
    Links(usize),
    /// The number that means "leave unchanged" cannot be an owner.
    #[error("the owner or group {0} cannot be given")]
    Owner(u32),
    /// Another name of the same file was not made.
    #[error("is the same file as '/{}', which was not made", shown(.0))]
    First(Vec<u8>),
    /// More is wrong than is worth telling.
    #[error("{0} errors in a row; the rest of the file is left out")]
    More(usize),
    /// It is left out because only safe files are requested.
    #[error("goes without {0}: it is not safe")]
    Unsafe(&'static str),
    /// The target refused an extended attribute.
    #[error("goes without its extended attribute '{}': {source}", shown(name))]
    Xattr {
        /// The attribute.
        name: Vec<u8>,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The reported error.
        source: io::Error,
    },
}

impl Cause {
    /// The system refused.
    pub fn system(what: &'static str, source: impl Into<io::Error>) -> Self {
        Self::System { what, source: source.into() }
    }

    /// Whether the file that holds the image cannot be read, which says nothing of the image.
    pub fn is_unread(&self) -> bool {
        let Self::Image(Error::Read { source, .. }) = self else { return false };
        source.kind() != io::ErrorKind::UnexpectedEof
    }

    /// What the place written to is, if it is so that nothing else will go well either: words that
    /// the fault follows.
    pub fn ends_all(&self) -> Option<&'static str> {
        use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        match self {
            Self::System { source, .. } => {
                let said = [
                    (StorageFull, "has no room for"),
                    (QuotaExceeded, "has no quota left for"),
                    (ReadOnlyFilesystem, "is read-only:"),
                ];
                said.into_iter().find(|(kind, _)| *kind == source.kind()).map(|(_, words)| words)
            }
            Self::Image(_)
            | Self::Loop
            | Self::TwoNames
            | Self::Untold(_)
            | Self::Many(_)
            | Self::Name(_)
            | Self::Double(_)
            | Self::Entry(_)
            | Self::Kinds { .. }
            | Self::Missing
            | Self::NotDirectory
            | Self::NotFile(_)
            | Self::Links(_)
            | Self::Owner(_)
            | Self::First(_)
            | Self::More(_)
            | Self::Unsafe(_)
            | Self::Xattr { .. } => None,
        }
    }
}

impl From<Error> for Cause {
    fn from(error: Error) -> Self {
        Self::Image(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_nothing_more_says_why() {
        use rustix::io::Errno;
        let said = |error| Cause::system("make the file", error).ends_all();
        assert_eq!(said(Errno::NOSPC), Some("has no room for"));
        assert_eq!(said(Errno::DQUOT), Some("has no quota left for"));
        assert_eq!(said(Errno::ROFS), Some("is read-only:"));
        assert_eq!((said(Errno::ACCESS), Cause::Loop.ends_all()), (None, None));
    }

    #[test]
    fn a_fault_names_path_and_place() {
        let error = Error::Block { offset: 4_711, len: 12, why: "no zlib stream".to_owned() };
        let fault = Fault::new("usr/bin/x", error);
        assert_eq!(fault.offset(), Some(4_711));
        let expected = "/usr/bin/x: block at byte 4711 of the image (12 raw bytes): no zlib stream";
        assert_eq!(fault.to_string(), expected);
    }
}
