//! Objects as images, their cost, and the errors of unreadable ones.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use forebay_host::backend::{
    Backend, BackendSource, BlockCache, ObjectBackend, ObjectError, RequestFailure, is_object,
};
use forebay_image::Source;
use forebay_report::messages::{Complaint, note, printable};

mod bounded;

use bounded::BoundedFailures;

/// The address of an object, if the path is one.
pub(crate) fn address(path: &Path) -> Option<&str> {
    path.to_str().filter(|typed| is_object(typed))
}

/// Opens an object as the source of an image, for a command that ends, with a cache of `cache`
/// bytes.
pub(crate) fn source(address: &str, cache: u64) -> Result<Arc<dyn Source>> {
    Ok(Arc::new(BoundedFailures::new(BackendSource::new(cached(address, cache)?))))
}

/// Opens an object, with a cache of `cache` bytes.
pub(crate) fn cached(address: &str, cache: u64) -> Result<Arc<BlockCache>> {
    let object = Arc::new(ObjectBackend::open(address).map_err(|error| complaint(&error))?);
    let name = printable(&object.address());
    let cached = BlockCache::new(Arc::clone(&object) as Arc<dyn Backend>, cache);
    let cached = Arc::new(cached.context("cannot start a thread")?);
    OPENED.lock().unwrap_or_else(PoisonError::into_inner).push((name, object));
    Ok(cached)
}

/// Reports the cost of objects that were opened as images.
pub(crate) fn say_cost() {
    for (name, object) in OPENED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let sent = object.requests().unwrap_or_default();
        let (count, bytes, len) = (sent.count, sent.bytes, object.len());
        note(&format!("{name}: {count} requests brought {bytes} bytes of {len}"));
    }
}

/// Names and objects that were opened as images.
static OPENED: Mutex<Vec<(String, Arc<ObjectBackend>)>> = Mutex::new(Vec::new());

/// What an object's cache has without a word about it, in bytes.
pub(crate) const CACHE: u64 = 64 << 20;

/// The error, with a hint.
pub(crate) fn complaint(error: &ObjectError) -> Complaint {
    let hint = match error {
        ObjectError::Address { .. } => {
            "s3://BUCKET/KEY, gs://BUCKET/KEY, az://CONTAINER@ACCOUNT/KEY, or https://HOST/PATH"
        }
        ObjectError::Open { failure, address } | ObjectError::Read { failure, address, .. } => {
            hint(failure, address.starts_with("http"))
        }
    };
    Complaint::new(printable(&error.to_string()).to_string()).hint(hint)
}

/// What can be done about a failure; `is_web` of an address that has no bucket.
const fn hint(failure: &RequestFailure, is_web: bool) -> &'static str {
    match failure {
        RequestFailure::Missing(_) if is_web => "`curl -I URL` asks the server",
        RequestFailure::Denied(_) if is_web => {
            "https://USER:PASSWORD@HOST/PATH is sent as a name and a password; `curl -I URL` asks"
        }
        RequestFailure::Length { .. } | RequestFailure::Other(_) if is_web => {
            "`curl -I URL` asks the server; HTTPS_PROXY names a proxy"
        }
        RequestFailure::Missing(_) => "the key is what follows the bucket, letter by letter",
        RequestFailure::Denied(_) => {
            "keys come from the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
                 GOOGLE_SERVICE_ACCOUNT, AZURE_STORAGE_ACCOUNT_KEY; AWS_SKIP_SIGNATURE=true for a \
                 public bucket"
        }
        RequestFailure::Changed => "open it again",
        RequestFailure::NoRanges => "download it, and name the file",
        RequestFailure::Length { .. } | RequestFailure::Other(_) => {
            "AWS_ENDPOINT_URL and AWS_REGION say where S3 is"
        }
    }
}
