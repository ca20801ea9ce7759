//! Places of metadata: in the image, or in the metabox.

use crate::error::Error;

/// A byte of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Its offset.
    pub(super) at: u64,
    /// In the metabox rather than in the image.
    pub(super) metabox: bool,
}

impl Place {
    /// A byte behind this one.
    pub(super) const fn plus(self, bytes: u64) -> Self {
        Self { at: self.at.saturating_add(bytes), metabox: self.metabox }
    }

    /// The first byte from here on whose offset is a multiple of a power of two.
    pub(super) const fn align(self, unit: u64) -> Self {
        Self { at: (self.at.saturating_add(unit - 1)) & !(unit - 1), metabox: self.metabox }
    }

    /// An error of a field that is here.
    pub(super) fn error(self, field: &'static str, found: impl Into<String>) -> Error {
        let mut found = found.into();
        if self.metabox {
            found.push_str(" (the offset is that in the metabox)");
        }
        Error::field(field, self.at, found)
    }
}
