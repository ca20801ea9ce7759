//! Encryption of connections, by rustls: certificates from a folder, as nbdkit and qemu have them.
//!
//! ```text
//!   ca-cert.pem       the authority; needed if clients have to show a certificate
//!   ca-crl.pem        the certificates that it has withdrawn; may be absent
//!   server-cert.pem   the server's certificate, and those up to the root
//!   server-key.pem    its private key
//! ```
//!
//! TLS 1.2 and 1.3. rustls has no external pre-shared keys, so there are none here.

use std::fmt;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, pem};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use thiserror::Error;

/// Certificates that connections are encrypted with.
pub struct TlsKeys {
    folder: PathBuf,
    verify_peer: bool,
    config: Mutex<Arc<ServerConfig>>,
}

/// Why certificates cannot be used.
#[derive(Debug, Error)]
#[error("'{}': {why}", file.display())]
pub struct TlsError {
    /// The file.
    pub file: PathBuf,
    /// The error.
    pub why: String,
}

impl TlsKeys {
    /// Reads a folder. If `verify_peer`, a client has to show a certificate that the folder's
    /// authority has signed.
    ///
    /// # Errors
    /// A file cannot be read, or is invalid.
    pub fn load(folder: &Path, verify_peer: bool) -> Result<Self, TlsError> {
        let config = Mutex::new(config(folder, verify_peer)?);
        Ok(Self { folder: folder.to_owned(), verify_peer, config })
    }

    /// Reads the folder again, for connections to come. After an error the old certificates stay.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = config(&self.folder, self.verify_peer)?;
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// The server's side of a connection.
    pub(super) fn accept(&self) -> Result<TlsStream, String> {
        let config = Arc::clone(&self.config.lock().unwrap_or_else(PoisonError::into_inner));
        let mut connection = ServerConnection::new(config).map_err(|error| error.to_string())?;
        // The client's budget bounds the queue.
        connection.set_buffer_limit(None);
        Ok(TlsStream(Box::new(connection)))
    }
}

impl fmt::Debug for TlsKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsKeys").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// A connection's encryption, without its socket.
#[derive(Debug)]
pub(super) struct TlsStream(Box<ServerConnection>);

impl TlsStream {
    /// Takes bytes as they arrive. `plain` gets their plain text, `out` the messages of TLS itself,
    /// even after an error.
    pub(super) fn open(
        &mut self,
        mut bytes: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let mut result = Ok(());
        while !bytes.is_empty() && result.is_ok() {
            result = self.open_some(&mut bytes, plain);
        }
        self.take_records(out);
        result
    }

    fn open_some(&mut self, bytes: &mut &[u8], plain: &mut Vec<u8>) -> Result<(), String> {
        self.0.read_tls(bytes).map_err(|error| error.to_string())?;
        let state = self.0.process_new_packets().map_err(|error| {
            // A client does not send one that another authority has signed.
            if error == rustls::Error::NoCertificatesPresented {
                return "TLS: the client has no certificate of the authority in ca-cert.pem"
                    .to_owned();
            }
            format!("TLS: {error}")
        })?;
        let start = plain.len();
        plain.resize(start + state.plaintext_bytes_to_read(), 0);
        let read = self.0.reader().read_exact(&mut plain[start..]);
        read.map_err(|error| error.to_string())
    }

    /// Whether the connection is not established yet.
    pub(super) fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Encrypts bytes.
    pub(super) fn seal<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
        for part in parts {
            self.0.writer().write_all(part).expect("what is queued has no limit");
        }
        self.take_records(out);
    }

    /// Announces the end of the connection.
    pub(super) fn close(&mut self, out: &mut Vec<u8>) {
        self.0.send_close_notify();
        self.take_records(out);
    }

    fn take_records(&mut self, out: &mut Vec<u8>) {
        while self.0.wants_write() {
            self.0.write_tls(out).expect("memory takes all bytes");
        }
    }
}

fn config(folder: &Path, verify_peer: bool) -> Result<Arc<ServerConfig>, TlsError> {
    let file = |name: &str| folder.join(name);
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let own = file("server-cert.pem");
    let chain = read(&own, CertificateDer::pem_file_iter(&own))?;
    let key_file = file("server-key.pem");
    let key = PrivateKeyDer::from_pem_file(&key_file);
    let key = key.map_err(|why| wrong(&key_file, &described(&why)))?;
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|why| wrong(folder, &why))?;
    let builder = if verify_peer {
        let authority = file("ca-cert.pem");
        let mut roots = RootCertStore::empty();
        for certificate in read(&authority, CertificateDer::pem_file_iter(&authority))? {
            roots.add(certificate).map_err(|why| wrong(&authority, &why))?;
        }
        let withdrawn = file("ca-crl.pem");
        let lists = if withdrawn.exists() {
            read(&withdrawn, CertificateRevocationListDer::pem_file_iter(&withdrawn))?
        } else {
            Vec::new()
        };
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.with_crls(lists).build().map_err(|why| wrong(&authority, &why))?;
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let config = builder.with_single_cert(chain, key).map_err(|why| wrong(&own, &why))?;
    Ok(Arc::new(config))
}

/// All sections of a file, of which there is one at least.
fn read<T>(
    file: &Path,
    sections: Result<impl Iterator<Item = Result<T, pem::Error>>, pem::Error>,
) -> Result<Vec<T>, TlsError> {
    let found: Result<Vec<T>, pem::Error> = sections.and_then(Iterator::collect);
    let found = found.map_err(|why| wrong(file, &described(&why)))?;
    if found.is_empty() {
        return Err(wrong(file, &"it holds nothing of the kind"));
    }
    Ok(found)
}

fn wrong(file: &Path, why: &dyn fmt::Display) -> TlsError {
    TlsError { file: file.to_owned(), why: why.to_string() }
}

fn described(error: &pem::Error) -> String {
    if let pem::Error::Io(error) = error { error.to_string() } else { error.to_string() }
}
