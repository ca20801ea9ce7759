//! Why bytes are not delivered.

use std::fmt;
use std::ops::Range;

use forebay_image::Error;

/// An error of the image at some place.
#[derive(Clone, Debug)]
pub(crate) struct ImageFault {
    /// The first byte of the image that is concerned.
    pub(crate) offset: u64,
    pub(crate) what: String,
}

/// Bytes of the image that are not in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Absent(pub(crate) Range<u64>);

/// Why a request was not carried out.
#[derive(Clone, Debug)]
pub(crate) enum NotReady {
    /// The image is damaged or cannot be read.
    Fault(ImageFault),
    /// Part of the image's tree is not in memory, and the caller must not wait for a device.
    Absent(Absent),
    /// It takes longer than the caller may spend.
    Slow,
}

/// How long a thread may spend on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Other requests wait: no device and no large block.
    Quick,
    /// As long as it takes.
    Patient,
}

impl From<Error> for ImageFault {
    fn from(error: Error) -> Self {
        Self { offset: error.offset().unwrap_or(0), what: error.to_string() }
    }
}

impl From<ImageFault> for NotReady {
    fn from(fault: ImageFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Error> for NotReady {
    fn from(error: Error) -> Self {
        if let Error::Read { source, .. } = &error
            && let Some(absent) = source.get_ref().and_then(|why| why.downcast_ref::<Absent>())
        {
            return Self::Absent(absent.clone());
        }
        Self::Fault(error.into())
    }
}

impl fmt::Display for ImageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Absent {}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes {:?} of the image are not in memory", self.0)
    }
}
