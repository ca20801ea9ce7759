//! A server of disks: files, block devices, memory and objects, to clients that speak NBD.
//!
//! ```text
//!   listener --> Connection --requests--> Disk --jobs--> threads of a Store
//!                    ^                     |  ^                |
//!                    '------- replies -----'  '----------------'
//! ```
//!
//! The core ([`DiskPath`](forebay_core::serving::DiskPath)) decides what is cached and read ahead,
//! when dirty pages are written, and what a flush waits for. `forebay-nbd` knows what the bytes of
//! a connection mean. Here are sockets, threads and bytes.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_core::engine::Policies;
use forebay_core::io::IoError;
use forebay_core::readahead;
use forebay_core::reclaim;
use forebay_core::serving::{DiskConfig, ExportLevels};
use forebay_core::stats::Stats;
use forebay_core::units::PAGE_SIZE;
use forebay_nbd::Export;
use rustix::net::{Shutdown, shutdown};
use thiserror::Error;

mod connection;
#[cfg(test)]
mod cut;
mod disk;
mod folder;
mod memory;
mod overlay;
mod read_store;
mod status;
mod store;

pub use overlay::{
    BaseIdentity, OverlayError, OverlayInfo, OverlayStore, create_layer, identify, open_layer,
    stamp,
};
pub use read_store::ReadStore;
pub use store::{FileStore, MemoryStore, SlowStore, Store};

use crate::backend::Requests;
use connection::Connection;
use disk::Disk;
use folder::ExportFolder;

use crate::attach::AttachError;

/// What is served, and how.
pub struct ServeOptions {
    /// The exports, the default one first.
    pub exports: Vec<ServedExport>,
    /// Where clients come in.
    pub listen: Vec<ListenAddress>,
    /// A folder where exports are shown as files, and what is called when it is unmounted.
    pub folder: Option<(PathBuf, UnmountCall)>,
    /// Page memory in bytes.
    pub cache: u64,
    /// The readahead of each stream.
    pub readahead: readahead::Spec,
    /// Which pages leave when memory is short.
    pub reclaim: reclaim::Spec,
    /// The policies that decide about dirty pages.
    pub policies: Policies,
    /// Threads that read, for each export; half as many write.
    pub threads: usize,
    /// Clients at once.
    pub connections: usize,
}

/// Is called when a folder of exports was unmounted, by the server or from outside.
pub type UnmountCall = Box<dyn FnOnce() + Send>;

/// One export.
#[derive(Debug)]
pub struct ServedExport {
    /// Its name.
    pub name: String,
    /// What people are told.
    pub description: String,
    /// Writes are refused.
    pub read_only: bool,
    /// Its bytes.
    pub store: Arc<dyn Store>,
}

/// Where clients come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A socket in the file system.
    Unix(PathBuf),
    /// An address and a port; port 0 takes a free one.
    Tcp(SocketAddr),
}

/// Why disks cannot be served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Page memory holds no page, or more than can be numbered.
    #[error("page memory holds from {MEMORY_MIN} to {MEMORY_MAX} bytes, not {bytes}")]
    Memory {
        /// What was asked for.
        bytes: u64,
    },
    /// A socket cannot be made.
    #[error("cannot listen on {address}: {why}")]
    Listen {
        /// Where.
        address: ListenAddress,
        /// Why.
        why: io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// An export cannot be a file of a folder.
    #[error("exports as files: {0}")]
    FileName(String),
    /// The folder cannot be mounted on.
    #[error(transparent)]
    Folder(#[from] AttachError),
}

/// Written data that did not reach a store.
#[derive(Debug, Error)]
#[error("export '{export}': {dirty_bytes} bytes could not be written: {why}")]
pub struct FinalFlushError {
    /// The export.
    pub export: String,
    /// Bytes that differ from the store.
    pub dirty_bytes: u64,
    /// Why.
    pub why: IoError,
}

/// What a server has done so far.
#[derive(Debug)]
pub struct ServerReport {
    /// What the engine counted.
    pub stats: Stats,
    /// Pages in memory.
    pub resident_pages: u64,
    /// Connections at the moment.
    pub connections: usize,
    /// The exports in their order.
    pub exports: Vec<ExportReport>,
}

/// What an export has done so far.
#[derive(Debug)]
pub struct ExportReport {
    /// Its name.
    pub name: String,
    /// Its pages as they are now.
    pub levels: ExportLevels,
    /// Reads of the store, and their bytes.
    pub store_reads: (u64, u64),
    /// Writes to the store, and their bytes.
    pub store_writes: (u64, u64),
    /// Flushes of the store.
    pub store_flushes: u64,
    /// What its reads have cost over a network, if it is behind one.
    pub requests: Option<Requests>,
}

/// What is told to people: why a client was sent away.
pub type ServeLog = Box<dyn Fn(&str) + Send + Sync>;

/// Disks that are served.
pub struct Server {
    shared: Arc<Shared>,
    listeners: Vec<(Listener, JoinHandle<()>)>,
    addresses: Vec<ListenAddress>,
    folder: Option<ExportFolder>,
    /// A client of each export that flushes at the end.
    own: Vec<u32>,
}

/// Tells what a server has done so far.
pub struct Reporter(Arc<Shared>);

struct Shared {
    exports: Arc<[Export]>,
    disk: Arc<Disk>,
    connections: Mutex<Connections>,
    /// Rings when a connection has ended.
    bell: Condvar,
    log: ServeLog,
}

#[derive(Default)]
struct Connections {
    open: Vec<Arc<Connection>>,
    most: usize,
    is_closed: bool,
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Server {
    /// Begins to serve.
    ///
    /// # Errors
    /// What is asked for cannot be had.
    pub fn start(options: ServeOptions, log: ServeLog) -> Result<Self, ServeError> {
        let memory = ServeError::Memory { bytes: options.cache };
        let frames = u32::try_from(options.cache / PAGE_SIZE).ok().filter(|count| *count >= 4);
        let frames = frames.ok_or(memory)?;
        let config = DiskConfig {
            frames,
            requests_max: REQUESTS_MAX,
            exports_max: options.exports.len() as u32,
            readahead: options.readahead,
            reclaim: options.reclaim,
        };
        let exports: Arc<[Export]> = options.exports.iter().map(ServedExport::described).collect();
        let stores = options.exports.into_iter().map(|export| export.store).collect();
        let disk = Arc::new(Disk::new(&config, options.policies, stores));
        disk.start(options.threads).map_err(ServeError::Thread)?;
        let own = (0..exports.len()).map(|export| disk.open(export)).collect();
        let connections = Connections { most: options.connections, ..Connections::default() };
        let connections = Mutex::new(connections);
        let shared = Arc::new(Shared { exports, disk, connections, bell: Condvar::new(), log });
        let (listeners, addresses) = (Vec::new(), Vec::new());
        let mut server = Self { shared, listeners, addresses, folder: None, own };
        match server.begin(options.listen, options.folder) {
            Ok(()) => Ok(server),
            Err(error) => {
                // Nothing was written, so nothing can be lost.
                let _ = server.stop();
                Err(error)
            }
        }
    }

    fn begin(
        &mut self,
        listen: Vec<ListenAddress>,
        folder: Option<(PathBuf, UnmountCall)>,
    ) -> Result<(), ServeError> {
        for address in listen {
            self.listen(&address)?;
        }
        if let Some((path, ended)) = folder {
            let Shared { exports, disk, .. } = &*self.shared;
            if let Some(wrong) = folder::wrong_name(exports) {
                return Err(ServeError::FileName(wrong));
            }
            self.folder = Some(ExportFolder::attach(&path, exports, disk, ended)?);
        }
        Ok(())
    }

    /// Where clients come in, with the ports that were found.
    pub fn addresses(&self) -> &[ListenAddress] {
        &self.addresses
    }

    /// What tells of the server, also while it stops.
    pub fn reporter(&self) -> Reporter {
        Reporter(Arc::clone(&self.shared))
    }

    /// Stops: no client comes in, requests under way are answered, and what was written is brought
    /// to disk. Clients that do not take their replies are cut off after a while.
    ///
    /// # Errors
    /// What was acknowledged did not reach its store.
    pub fn stop(mut self) -> Result<(), FinalFlushError> {
        self.shared.lock().is_closed = true;
        for (listener, thread) in self.listeners.drain(..) {
            listener.close();
            // A panic of it has been said.
            let _ = thread.join();
        }
        for address in &self.addresses {
            if let ListenAddress::Unix(path) = address {
                let _ = fs::remove_file(path);
            }
        }
        if self.folder.as_ref().is_some_and(ExportFolder::detach) {
            (self.shared.log)("files of the folder are still in use; they give errors from now on");
        }
        self.shared.drain();
        let result = self.shared.disk.flush_all(&self.own);
        let (_, _, levels) = self.shared.disk.look();
        self.shared.disk.end();
        result.map_err(|(export, why)| FinalFlushError {
            export: self.shared.exports[export].name.clone(),
            dirty_bytes: levels[export].levels.unsafe_pages() * PAGE_SIZE,
            why,
        })
    }

    fn listen(&mut self, address: &ListenAddress) -> Result<(), ServeError> {
        let failed = |why| ServeError::Listen { address: address.clone(), why };
        let (listener, found) = match address {
            ListenAddress::Unix(path) => {
                remove_dead_socket(path);
                let listener = UnixListener::bind(path).map_err(failed)?;
                (Listener::Unix(listener), address.clone())
            }
            ListenAddress::Tcp(wanted) => {
                let listener = TcpListener::bind(wanted).map_err(failed)?;
                let found = listener.local_addr().map_err(failed)?;
                (Listener::Tcp(listener), ListenAddress::Tcp(found))
            }
        };
        let (shared, taking) = (Arc::clone(&self.shared), listener.try_clone().map_err(failed)?);
        let thread = thread::Builder::new().name("listen".to_owned());
        let thread = thread.spawn(move || shared.accept(&taking)).map_err(ServeError::Thread)?;
        self.listeners.push((listener, thread));
        self.addresses.push(found);
        Ok(())
    }
}

impl Reporter {
    /// What has been done so far.
    pub fn report(&self) -> ServerReport {
        self.0.report()
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").finish_non_exhaustive()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Shared {
    /// Takes clients until the listener is closed.
    fn accept(self: &Arc<Self>, listener: &Listener) {
        loop {
            match listener.accept() {
                Ok(socket) => self.take(socket),
                Err(_) if self.lock().is_closed => return,
                Err(error) => {
                    (self.log)(&format!("cannot take a client: {error}"));
                    // Descriptors may be used up for a while.
                    thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    fn take(self: &Arc<Self>, socket: OwnedFd) {
        let mut connections = self.lock();
        if connections.is_closed {
            return;
        }
        if connections.open.len() >= connections.most {
            let most = connections.most;
            drop(connections);
            (self.log)(&format!("a client was sent away: there are {most} already"));
            return;
        }
        let connection = Arc::new(Connection::new(socket));
        connections.open.push(Arc::clone(&connection));
        drop(connections);
        let (shared, own) = (Arc::clone(self), Arc::clone(&connection));
        let serve = move || {
            let serve = || own.serve(&shared.exports, &shared.disk);
            match catch_unwind(AssertUnwindSafe(serve)) {
                Ok(Ok(())) => {}
                Ok(Err(why)) => (shared.log)(&format!("a client was sent away: {why}")),
                Err(_) => {
                    own.hang_up();
                    (shared.log)("a client was sent away: serving it broke down");
                }
            }
            shared.forget(&own);
        };
        if let Err(error) = thread::Builder::new().name("client".to_owned()).spawn(serve) {
            (self.log)(&format!("a client was sent away: {error}"));
            self.forget(&connection);
        }
    }

    fn forget(&self, connection: &Arc<Connection>) {
        self.lock().open.retain(|open| !Arc::ptr_eq(open, connection));
        self.bell.notify_all();
    }

    /// Waits until all clients have their replies, or do not take them.
    fn drain(&self) {
        let begin = Instant::now();
        let mut connections = self.lock();
        connections.open.iter().for_each(|connection| connection.drain());
        while !connections.open.is_empty() {
            let left = DRAIN_TIME.saturating_sub(begin.elapsed());
            if left.is_zero() {
                connections.open.iter().for_each(|connection| connection.hang_up());
                return;
            }
            let waited = self.bell.wait_timeout(connections, left);
            connections = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn report(&self) -> ServerReport {
        let connections = self.lock().open.len();
        let (stats, resident_pages, levels) = self.disk.look();
        let export = |(number, (export, levels)): (usize, (&Export, ExportLevels))| {
            let counters = self.disk.counters(number);
            ExportReport {
                name: export.name.clone(),
                levels,
                store_reads: (counters.reads.load(Relaxed), counters.read_bytes.load(Relaxed)),
                store_writes: (counters.writes.load(Relaxed), counters.written_bytes.load(Relaxed)),
                store_flushes: counters.flushes.load(Relaxed),
                requests: self.disk.store(number).requests(),
            }
        };
        let exports = self.exports.iter().zip(levels).enumerate().map(export).collect();
        ServerReport { stats, resident_pages, connections, exports }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    fn accept(&self) -> io::Result<OwnedFd> {
        Ok(match self {
            Self::Unix(listener) => listener.accept()?.0.into(),
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                // Replies are put together before they are sent.
                stream.set_nodelay(true)?;
                rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
                stream.into()
            }
        })
    }

    fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(listener) => Self::Unix(listener.try_clone()?),
            Self::Tcp(listener) => Self::Tcp(listener.try_clone()?),
        })
    }

    /// Wakes the thread that waits for clients.
    fn close(&self) {
        let _ = match self {
            Self::Unix(listener) => shutdown(listener, Shutdown::Both),
            Self::Tcp(listener) => shutdown(listener, Shutdown::Both),
        };
    }
}

impl ServedExport {
    fn described(&self) -> Export {
        Export {
            name: self.name.clone(),
            description: self.description.clone(),
            size: self.store.bytes(),
            read_only: self.read_only,
            fast_zero: self.store.zeroes_fast(),
            rotational: false,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// Removes a socket that no process listens on any more.
fn remove_dead_socket(path: &Path) {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let refused = || {
        UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    if is_socket && refused() {
        let _ = fs::remove_file(path);
    }
}

/// Requests of all clients in flight at most.
const REQUESTS_MAX: u32 = 4096;

/// The least page memory: with four pages every request makes progress.
const MEMORY_MIN: u64 = 4 * PAGE_SIZE;
const MEMORY_MAX: u64 = u32::MAX as u64 * PAGE_SIZE;

/// How long a stopping server waits for clients to take their replies.
const DRAIN_TIME: Duration = Duration::from_secs(10);
