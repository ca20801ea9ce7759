//! Requests to a store of objects: their contents and their number.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use std::{fmt, io};

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use tokio::runtime::{Builder, Runtime};

use super::super::Requests;
use super::address::{ObjectAddress, Page, Service};

/// What the reads of an object cost.
#[derive(Debug, Default)]
pub(super) struct RequestCounts {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl RequestCounts {
    pub(super) fn read(&self) -> Requests {
        Requests { count: self.requests.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }

    pub(super) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }
}

/// Makes the client of a store, with keys and endpoints of the environment.
pub(super) fn store(
    address: &ObjectAddress,
    counts: &Arc<RequestCounts>,
    first_backoff: Duration,
) -> object_store::Result<Box<dyn ObjectStore>> {
    // One that was installed before is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig {
        backoff: BackoffConfig { init_backoff: first_backoff, ..BackoffConfig::default() },
        max_retries: RETRIES,
        retry_timeout: RETRY_TIME,
    };
    let connector = Connector { counts: Arc::clone(counts), page: address.page.clone() };
    let bucket = address.bucket.as_str();
    Ok(match address.service {
        Service::S3 => {
            let builder = AmazonS3Builder::from_env().with_url(bucket).with_retry(retry);
            let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
            let builder = builder.with_http_connector(connector);
            // An endpoint without TLS was typed in full.
            if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
                Box::new(builder.with_allow_http(true).build()?)
            } else {
                Box::new(builder.build()?)
            }
        }
        Service::Google => {
            let builder = GoogleCloudStorageBuilder::from_env().with_url(bucket).with_retry(retry);
            Box::new(builder.with_http_connector(connector).build()?)
        }
        Service::Azure => {
            let builder = MicrosoftAzureBuilder::from_env().with_url(bucket).with_retry(retry);
            Box::new(builder.with_http_connector(connector).build()?)
        }
        Service::Http => {
            let options = ClientOptions::new().with_allow_http(true);
            let builder = HttpBuilder::new().with_url(bucket).with_retry(retry);
            let builder = builder.with_client_options(options).with_http_connector(connector);
            Box::new(builder.build()?)
        }
    })
}

/// The runtime that all objects of this process share.
pub(super) fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, io::ErrorKind>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(WORKERS).thread_name("objects").enable_io().enable_time();
        builder.build().map_err(|error| error.kind())
    });
    made.as_ref().map_err(|kind| io::Error::from(*kind))
}

/// Connects as usual, and counts.
#[derive(Debug)]
struct Connector {
    counts: Arc<RequestCounts>,
    page: Option<Page>,
}

struct Counted {
    inner: HttpClient,
    counts: Arc<RequestCounts>,
    page: Option<Page>,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        let (counts, page) = (Arc::clone(&self.counts), self.page.clone());
        Ok(HttpClient::new(Counted { inner, counts, page }))
    }
}

/// What a trait's asynchronous function returns.
type Reply<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for Counted {
    fn call<'a, 'b>(&'a self, mut request: HttpRequest) -> Reply<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            if let Some(page) = &self.page {
                page.put_into(&mut request)?;
            }
            self.counts.requests.fetch_add(1, Relaxed);
            self.inner.execute(request).await
        })
    }
}

impl Page {
    /// Makes a request read this page, whatever its own address.
    fn put_into(&self, request: &mut HttpRequest) -> Result<(), HttpError> {
        let wrong = |error| HttpError::new(HttpErrorKind::Unknown, error);
        *request.uri_mut() = self.url.parse().map_err(|error| wrong(io::Error::other(error)))?;
        if let Some(authorization) = &self.authorization {
            let value = authorization.parse().map_err(|error| wrong(io::Error::other(error)))?;
            request.headers_mut().insert("authorization", value);
        }
        Ok(())
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").finish_non_exhaustive()
    }
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").finish_non_exhaustive()
    }
}

/// How often a request is tried again: what passes in a second, as a restart behind a balancer,
/// is not seen.
const RETRIES: usize = 4;

/// After this time nothing is tried again. A reader of a disk gives up after 30 s too.
const RETRY_TIME: Duration = Duration::from_secs(30);

/// Threads of the runtime: they decrypt, at about 1 GB/s each.
const WORKERS: usize = 2;
