//! An object of S3, Google's and Azure's stores, or behind a URL, read by ranges.
//!
//! ```text
//!   read_at --> GET, Range: bytes=a-b, If-Match: "etag" --> 206, the same ETag: bytes
//!                                                           412, or another: Changed
//! ```
//!
//! Each range request requires the version that was found at opening, so bytes of two versions are
//! never mixed. For a server without versions only the size is checked.

use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore};
use thiserror::Error;

pub use address::{is_object, local_path, scrubbed};

use super::{Backend, Requests};
use address::ObjectAddress;
use client::RequestCounts;

mod address;
mod client;
#[cfg(test)]
mod server;
#[cfg(test)]
mod tests;

/// An object, opened.
#[derive(Debug)]
pub struct ObjectBackend {
    store: Box<dyn ObjectStore>,
    address: ObjectAddress,
    version: ObjectMeta,
    counts: Arc<RequestCounts>,
    first_backoff: Duration,
}

/// Why an object cannot be opened or read.
#[derive(Debug, Error)]
pub enum ObjectError {
    /// The text is no address.
    #[error("'{address}' is no address of an object: {why}")]
    Address {
        /// The text, without secrets.
        address: String,
        /// The error in it.
        why: String,
    },
    /// It cannot be opened.
    #[error("cannot open {address}: {failure}")]
    Open {
        /// The object.
        address: String,
        /// Why.
        failure: RequestFailure,
    },
    /// Some of its bytes cannot be read.
    #[error("cannot read bytes {} to {} of {address}: {failure}", range.start, range.end)]
    Read {
        /// The object.
        address: String,
        /// The bytes; the end is exclusive.
        range: Range<u64>,
        /// Why.
        failure: RequestFailure,
    },
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestFailure {
    /// There is no such object.
    #[error("there is no such object ({0})")]
    Missing(String),
    /// The store refuses.
    #[error("access is denied ({0})")]
    Denied(String),
    /// The object has changed since it was opened.
    #[error("the object was changed after it was opened")]
    Changed,
    /// The server sends whole objects only.
    #[error("the server does not send ranges of it")]
    NoRanges,
    /// The reply has fewer or more bytes than requested.
    #[error("the reply has {got} bytes, not {wanted}")]
    Length {
        /// Bytes that came.
        got: u64,
        /// The requested number of bytes.
        wanted: u64,
    },
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl ObjectBackend {
    /// Opens an object: `s3://BUCKET/KEY`, `gs://BUCKET/KEY`, `az://CONTAINER/KEY`, `http://` or
    /// `https://`. Keys and endpoints are those of the environment: `AWS_*`, `GOOGLE_*`, `AZURE_*`.
    ///
    /// # Errors
    /// There is no such object, it may not be read, or the server does not send ranges.
    pub fn open(address: &str) -> Result<Self, ObjectError> {
        Self::open_with(address, Duration::from_millis(100))
    }

    /// The same, with the delay before the first retry of a request.
    fn open_with(address: &str, first_backoff: Duration) -> Result<Self, ObjectError> {
        let wrong = |why| ObjectError::Address { address: scrubbed(address), why };
        let address = ObjectAddress::parse(address).map_err(wrong)?;
        Self::open_address(address, first_backoff)
    }

    fn open_address(address: ObjectAddress, first_backoff: Duration) -> Result<Self, ObjectError> {
        let failed = |failure| ObjectError::Open { address: address.to_string(), failure };
        let runtime = client::runtime();
        let runtime = runtime.map_err(|why| failed(RequestFailure::Other(why.to_string())))?;
        let counts = Arc::default();
        let opened = {
            let _inside = runtime.enter();
            client::store(&address, &counts, first_backoff)
        };
        let store = opened.map_err(|error| failed(failure_of(&error)))?;
        let version = runtime.block_on(version(store.as_ref(), &address));
        let version = version.map_err(|error| failed(failure_of(&error)))?;
        Ok(Self { store, address, version, counts, first_backoff })
    }

    /// Its address, without secrets.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    fn read(&self, buffers: &mut [IoSliceMut<'_>], range: &Range<u64>) -> io::Result<usize> {
        let read = client::runtime()?.block_on(self.fetch(buffers, range));
        read.map_err(|failure| {
            let kind = failure.kind();
            let (address, range) = (self.address.to_string(), range.clone());
            io::Error::new(kind, ObjectError::Read { address, range, failure })
        })
    }

    /// Brings a range, by as many requests as it takes to get through.
    async fn fetch(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        range: &Range<u64>,
    ) -> Result<usize, RequestFailure> {
        let wanted = range.end - range.start;
        let mut options =
            GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
        match self.strong_etag() {
            Some(etag) => options.if_match = Some(etag.to_owned()),
            // A date is as exact as the server makes it, to a second.
            None if has_date(&self.version) => {
                options.if_unmodified_since = Some(self.version.last_modified);
            }
            None => {}
        }
        let reply = self.store.get_opts(&self.address.key, options).await;
        let reply = reply.map_err(|error| failure_of(&error))?;
        if !self.is_same(&reply) {
            return Err(RequestFailure::Changed);
        }
        let mut body = reply.into_stream();
        let mut got = 0;
        let mut targets = buffers.iter_mut().flat_map(|buffer| buffer.chunks_mut(usize::MAX));
        let mut target: &mut [u8] = &mut [];
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(|error| failure_of(&error))?;
            got += piece.len() as u64;
            self.counts.add_bytes(piece.len() as u64);
            if got > wanted {
                return Err(RequestFailure::Length { got, wanted });
            }
            let mut piece = &piece[..];
            while !piece.is_empty() {
                if target.is_empty() {
                    target = targets.next().unwrap_or_default();
                    if target.is_empty() {
                        break;
                    }
                }
                let len = piece.len().min(target.len());
                let (now, later) = target.split_at_mut(len);
                now.copy_from_slice(&piece[..len]);
                (target, piece) = (later, &piece[len..]);
            }
        }
        if got < wanted {
            return Err(RequestFailure::Length { got, wanted });
        }
        Ok(usize::try_from(got).unwrap_or(usize::MAX))
    }

    /// What changes when the object does: its size, and what names its version.
    #[must_use]
    pub fn stamp(&self) -> String {
        let ObjectMeta { size, e_tag, last_modified, .. } = &self.version;
        match e_tag {
            Some(etag) => format!("{size} bytes, version {etag}"),
            None => format!("{size} bytes, changed at {}", last_modified.timestamp()),
        }
    }

    /// Identifies the bytes of a version exactly. A weak one only identifies equivalent versions.
    fn strong_etag(&self) -> Option<&str> {
        self.version.e_tag.as_deref().filter(|etag| !etag.starts_with("W/"))
    }

    /// Whether a reply is of the version that was opened. Not every server honours conditions.
    fn is_same(&self, reply: &GetResult) -> bool {
        let (opened, found) = (&self.version, &reply.meta);
        let same_etag = match (&opened.e_tag, &found.e_tag) {
            (Some(opened), Some(found)) => opened == found,
            (None, _) | (_, None) => true,
        };
        // Servers behind one name may have different dates of one version.
        let dates = self.strong_etag().is_none() && has_date(opened) && has_date(found);
        let same_date = !dates || opened.last_modified == found.last_modified;
        opened.size == found.size && same_etag && same_date
    }
}

impl Backend for ObjectBackend {
    fn len(&self) -> u64 {
        self.version.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_vectored_at(&mut [IoSliceMut::new(buffer)], offset)
    }

    fn reopen(&self) -> io::Result<Arc<dyn Backend>> {
        let opened = Self::open_address(self.address.clone(), self.first_backoff);
        Ok(Arc::new(opened.map_err(io::Error::from)?))
    }

    fn requests(&self) -> Option<Requests> {
        Some(self.counts.read())
    }

    /// One request for all of it.
    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let wanted: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let end = offset.saturating_add(wanted).min(self.version.size);
        if end <= offset {
            return Ok(0);
        }
        self.read(buffers, &(offset..end))
    }
}

impl From<ObjectError> for io::Error {
    fn from(error: ObjectError) -> Self {
        let kind = match &error {
            ObjectError::Address { .. } => io::ErrorKind::InvalidInput,
            ObjectError::Open { failure, .. } | ObjectError::Read { failure, .. } => failure.kind(),
        };
        Self::new(kind, error)
    }
}

impl RequestFailure {
    fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Missing(_) => io::ErrorKind::NotFound,
            Self::Denied(_) => io::ErrorKind::PermissionDenied,
            Self::Changed => io::ErrorKind::StaleNetworkFileHandle,
            Self::NoRanges => io::ErrorKind::Unsupported,
            Self::Length { .. } | Self::Other(_) => io::ErrorKind::Other,
        }
    }
}

/// The current size and version of an object, from a range of one byte. This detects a server
/// without ranges, and an address that is signed only for GET is enough.
async fn version(
    store: &dyn ObjectStore,
    address: &ObjectAddress,
) -> object_store::Result<ObjectMeta> {
    let first = GetRange::Bounded(0..1);
    let options = GetOptions { range: Some(first), ..GetOptions::default() };
    match store.get_opts(&address.key, options).await {
        Ok(reply) => Ok(reply.meta),
        Err(error) => {
            // An empty object has no first byte.
            if root(&error).contains("416") {
                let options = GetOptions { head: true, ..GetOptions::default() };
                let found = store.get_opts(&address.key, options).await;
                if let Some(found) = found.ok().filter(|found| found.meta.size == 0) {
                    return Ok(found.meta);
                }
            }
            Err(error)
        }
    }
}

/// Whether a server said when an object was changed; without it there is the beginning of 1970.
fn has_date(version: &ObjectMeta) -> bool {
    version.last_modified.timestamp() != 0
}

fn failure_of(error: &object_store::Error) -> RequestFailure {
    use object_store::Error;
    let why = short(&root(error));
    match error {
        Error::NotFound { .. } => RequestFailure::Missing(why),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            RequestFailure::Denied(why)
        }
        Error::Precondition { .. } => RequestFailure::Changed,
        Error::NotSupported { .. } => RequestFailure::NoRanges,
        Error::Generic { .. } if why.starts_with("Received non-partial response") => {
            RequestFailure::NoRanges
        }
        Error::Generic { .. }
        | Error::InvalidPath { .. }
        | Error::JoinError { .. }
        | Error::AlreadyExists { .. }
        | Error::NotModified { .. }
        | Error::NotImplemented { .. }
        | Error::UnknownConfigurationKey { .. }
        | _ => RequestFailure::Other(why),
    }
}

/// The cause of an error, without what stands around it.
fn root(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// The part of an error that a message shows: the code and message of a store, or a first line.
fn short(text: &str) -> String {
    let element = |name: &str| {
        let (_, after) = text.split_once(&format!("<{name}>"))?;
        after.split_once(&format!("</{name}>")).map(|(inside, _)| inside.trim().to_owned())
    };
    if let Some(code) = element("Code") {
        let message = element("Message").map_or_else(String::new, |text| format!(": {text}"));
        return scrubbed(&format!("{code}{message}")).chars().take(SHOWN).collect();
    }
    let text = text.trim_start_matches("Server returned non-2xx status code: ");
    let line = text.lines().next().unwrap_or("").trim().trim_end_matches(':');
    scrubbed(line).chars().filter(|letter| !letter.is_control()).take(SHOWN).collect()
}

/// Letters of a server's error that are shown.
const SHOWN: usize = 200;
