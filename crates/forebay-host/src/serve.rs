//! A server of disks: files, block devices, memory and objects, to clients that speak NBD.
//!
//! ```text
//!   listener --> Connection --requests--> Disk --jobs--> threads of a Store
//!                    ^                     |  ^                |
//!                    '------- replies -----'  '----------------'
//! ```
//!
//! The core ([`DiskPath`](forebay_core::serving::DiskPath)) decides what is cached and read ahead,
//! when dirty pages are written, and what a flush waits for. `forebay-nbd` parses the bytes of a
//! connection. This module has sockets, threads and bytes.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_core::dispatch;
use forebay_core::engine::Policies;
use forebay_core::io::IoError;
use forebay_core::readahead;
use forebay_core::reclaim;
use forebay_core::serving::{DiskConfig, ExportLevels};
use forebay_core::time;
use forebay_core::units::PAGE_SIZE;
use forebay_nbd::{Export, NAME_MAX};
use rustix::event::{EventfdFlags, eventfd};
use thiserror::Error;

mod budget;
mod client_io;
mod connection;
#[cfg(test)]
mod cut;
mod disk;
mod event;
mod folder;
mod job;
mod job_threads;
mod listen;
mod memory;
mod meter;
mod overlay;
mod read_store;
mod remote;
mod report;
mod source_state;
mod status;
mod store;
mod tls;

pub use event::{ServeEvent, ServeLog, export_label};
pub use forebay_nbd::TlsPolicy;
pub use listen::{ListenAddress, Peer};
pub use meter::{ClientCounters, LatencyReport, REQUEST_KINDS};
pub use overlay::{
    BaseIdentity, CommitMark, FileNode, OverlayError, OverlayInfo, OverlayStore, check_base,
    create_layer, follow_moved, identify, mark_commit, open_layer, stamp, unmark_commit,
};
pub use read_store::ReadStore;
pub use remote::{NbdAddress, RemoteStore};
pub use report::{ClientReport, ExportReport, ServerReport};
pub use store::{FileStore, MemoryStore, SlowStore, SourceWatch, Store};
pub use tls::{TlsError, TlsKeys};

use budget::{Budget, CLIENTS_MEMORY};
use connection::serving::serve_client;
use connection::{Connection, Monitor};
use disk::{Disk, DiskEvent};
use folder::ExportFolder;
use listen::{Listener, SocketFile};
use meter::ExportMeter;

use crate::processor::nanos;

use crate::attach::AttachError;

/// The exports, and how they are served.
pub struct ServeOptions {
    /// The exports, the default one first.
    pub exports: Vec<ServedExport>,
    /// Where clients come in.
    pub listen: Vec<ListenAddress>,
    /// Sockets that listen already, such as systemd's.
    pub inherited: Vec<OwnedFd>,
    /// Certificates of encrypted connections, and whether there may be others.
    pub tls: Option<(TlsKeys, TlsPolicy)>,
    /// A request that takes so long is logged.
    pub slow: Duration,
    /// A folder in which exports are shown as files, and the function that is called when it is
    /// unmounted.
    pub folder: Option<(PathBuf, UnmountCall)>,
    /// Page memory in bytes.
    pub cache: u64,
    /// The readahead of each stream.
    pub readahead: readahead::Spec,
    /// Which pages leave when memory is short.
    pub reclaim: reclaim::Spec,
    /// The policies that decide about dirty pages.
    pub policies: Policies,
    /// How long a client of this machine is polled for its next request.
    pub dispatch: dispatch::Spec,
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
    /// The description for people.
    pub description: String,
    /// Writes are refused.
    pub read_only: bool,
    /// Its bytes.
    pub store: Arc<dyn Store>,
}

/// Why disks cannot be served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Page memory holds no page, or more than can be numbered.
    #[error("the cache has from {MEMORY_MIN} to {MEMORY_MAX} bytes, not {bytes}")]
    Memory {
        /// The requested size.
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
    /// NBD has no such names.
    #[error("the name of an export has {bytes} bytes, and NBD allows {NAME_MAX}")]
    LongName {
        /// Bytes of the name.
        bytes: usize,
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
#[error("{}: {}: {}", export_label(export), what_is_lost(*dirty_bytes), why_not(*why))]
pub struct FinalFlushError {
    /// The export.
    pub export: String,
    /// Bytes that differ from the store.
    pub dirty_bytes: u64,
    /// Why; nothing if there was not time enough.
    pub why: Option<IoError>,
}

fn what_is_lost(dirty_bytes: u64) -> String {
    match dirty_bytes {
        0 => "what was written and not flushed may be lost".to_owned(),
        _ => format!("{dirty_bytes} bytes could not be written"),
    }
}

fn why_not(why: Option<IoError>) -> String {
    why.map_or_else(|| "the time to drain is over".to_owned(), |why| why.to_string())
}

/// Disks that are served.
pub struct Server {
    shared: Arc<Shared>,
    listeners: Vec<JoinHandle<()>>,
    addresses: Vec<ListenAddress>,
    /// The files of bound sockets.
    socket_files: Vec<SocketFile>,
    folder: Option<ExportFolder>,
    /// A client of each export that flushes at the end.
    own: Vec<u32>,
}

/// Tells what a server has done so far.
pub struct Reporter(Arc<Shared>);

struct Shared {
    disk: Arc<Disk>,
    connections: Mutex<Connections>,
    /// Rings when a connection has ended.
    bell: Condvar,
    /// Can be read once no client comes in any more.
    closed: OwnedFd,
    monitor: Arc<Monitor>,
    begun: Instant,
    cache: u64,
}

struct Connections {
    /// What clients to come can choose.
    exports: Arc<[Export]>,
    open: Vec<Arc<Connection>>,
    most: usize,
    /// Clients so far.
    taken: u64,
    is_closed: bool,
}

impl Server {
    /// Begins to serve.
    ///
    /// # Errors
    /// The requested configuration is not possible.
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
        let long =
            options.exports.iter().map(|export| export.name.len()).find(|len| *len > NAME_MAX);
        if let Some(bytes) = long {
            return Err(ServeError::LongName { bytes });
        }
        let exports: Arc<[Export]> = options.exports.iter().map(ServedExport::described).collect();
        let stores = options.exports.into_iter().map(|export| export.store).collect();
        let disk = Arc::new(Disk::new(&config, options.policies, stores));
        let meters = (0..exports.len()).map(|_| ExportMeter::default()).collect();
        let ServeOptions { slow, tls, cache, dispatch, connections: most, .. } = options;
        let slow = time::Duration(nanos(slow));
        let budget = Budget::new(CLIENTS_MEMORY);
        let monitor = Arc::new(Monitor { log, slow, exports: meters, dispatch, tls, budget });
        let (told, names) = (Arc::clone(&monitor), Arc::clone(&exports));
        let tell = move |export: usize, event: DiskEvent<'_>| {
            log_disk_event(&told.log, &names[export].name, &event);
        };
        disk.start(options.threads, Box::new(tell)).map_err(ServeError::Thread)?;
        let own = (0..exports.len()).map(|export| disk.open(export)).collect();
        let (open, is_closed) = (Vec::new(), false);
        let shared = Arc::new(Shared {
            disk,
            connections: Mutex::new(Connections { exports, open, most, taken: 0, is_closed }),
            bell: Condvar::new(),
            closed: eventfd(0, EventfdFlags::CLOEXEC)
                .map_err(|why| ServeError::Thread(why.into()))?,
            monitor,
            begun: Instant::now(),
            cache,
        });
        let (listeners, addresses, socket_files) = (Vec::new(), Vec::new(), Vec::new());
        let mut server = Self { shared, listeners, addresses, socket_files, folder: None, own };
        match server.begin(options.listen, options.inherited, options.folder) {
            Ok(()) => Ok(server),
            Err(error) => {
                // Nothing was written, so nothing can be lost.
                let _ = server.stop(Duration::ZERO);
                Err(error)
            }
        }
    }

    fn begin(
        &mut self,
        listen: Vec<ListenAddress>,
        inherited: Vec<OwnedFd>,
        folder: Option<(PathBuf, UnmountCall)>,
    ) -> Result<(), ServeError> {
        for address in listen {
            let bound = Listener::bind(&address);
            self.listen(bound.map_err(|why| ServeError::Listen { address, why })?)?;
        }
        for socket in inherited {
            self.listen(Listener::inherited(socket))?;
        }
        if let Some((path, ended)) = folder {
            let (exports, disk) = (&self.shared.exports(), &self.shared.disk);
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

    /// Applies grown stores and changed certificates, for future clients. Returns a report.
    pub fn reload(&self) -> Vec<String> {
        self.shared.reload()
    }

    /// Stops: refuses new clients, answers the requests in flight, and writes all data to disk
    /// within a time limit. Clients that do not read their replies are disconnected after
    /// [`REPLIES_TIME`] of it. Returns how many requests were left unanswered.
    ///
    /// # Errors
    /// Acknowledged data did not reach its store, or not in time.
    pub fn stop(mut self, within: Duration) -> Result<u64, FinalFlushError> {
        let begin = Instant::now();
        self.shared.lock().is_closed = true;
        // While the sockets are open, no other file has their inodes.
        self.socket_files.iter().for_each(SocketFile::remove);
        // It cannot be full.
        let _ = rustix::io::write(&self.shared.closed, &1_u64.to_ne_bytes());
        for thread in self.listeners.drain(..) {
            // A panic of it has been said.
            let _ = thread.join();
        }
        if self.folder.as_ref().is_some_and(ExportFolder::detach) {
            self.shared
                .trouble("files of the folder are still in use; they give errors from now on");
        }
        self.shared.drain(begin + within.min(REPLIES_TIME));
        let failed = self.shared.disk.flush_all(&self.own, begin + within);
        let (_, _, levels) = self.shared.disk.look();
        self.shared.disk.end();
        for (export, why) in failed {
            let dirty_bytes = levels[export].levels.unsafe_pages() * PAGE_SIZE;
            // A source that does not answer has lost nothing if it has all on disk.
            if dirty_bytes > 0 || !self.shared.disk.counters(export).is_flushed() {
                let export = self.shared.exports()[export].name.clone();
                return Err(FinalFlushError { export, dirty_bytes, why });
            }
        }
        Ok(self.shared.lock().open.iter().map(|open| u64::from(open.report().in_flight)).sum())
    }

    fn listen(&mut self, (listener, found): (Listener, ListenAddress)) -> Result<(), ServeError> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name("listen".to_owned());
        let thread = thread.spawn(move || shared.accept(&listener)).map_err(ServeError::Thread)?;
        self.listeners.push(thread);
        self.socket_files.extend(SocketFile::at(&found));
        self.addresses.push(found);
        Ok(())
    }
}

impl Reporter {
    /// The counters so far.
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
            match listener.accept(&self.closed) {
                Ok(Some(client)) => self.take(client),
                Ok(None) => return,
                Err(error) => {
                    self.not_taken(&format!("cannot take a client: {error}"));
                    // Descriptors may be used up for a while.
                    thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    fn take(self: &Arc<Self>, (socket, peer): (OwnedFd, Peer)) {
        let mut connections = self.lock();
        if connections.is_closed {
            return;
        }
        if connections.open.len() >= connections.most {
            let most = connections.most;
            drop(connections);
            self.not_taken(&format!("a client was sent away: {peer}: there are {most} already"));
            return;
        }
        connections.taken += 1;
        let (number, monitor) = (connections.taken, Arc::clone(&self.monitor));
        let connection = Arc::new(Connection::new(socket, number, peer, monitor));
        connections.open.push(Arc::clone(&connection));
        let exports = Arc::clone(&connections.exports);
        drop(connections);
        let (shared, own) = (Arc::clone(self), Arc::clone(&connection));
        let serve = move || {
            serve_client(&own, &exports, &shared.disk);
            shared.forget(&own);
        };
        if let Err(error) = thread::Builder::new().name("client".to_owned()).spawn(serve) {
            self.not_taken(&format!("a client was sent away: {error}"));
            self.forget(&connection);
        }
    }

    fn forget(&self, connection: &Arc<Connection>) {
        self.lock().open.retain(|open| !Arc::ptr_eq(open, connection));
        self.bell.notify_all();
    }

    /// Waits until all clients have their replies, or do not take them.
    fn drain(&self, until: Instant) {
        let mut connections = self.lock();
        connections.open.iter().for_each(|connection| connection.drain());
        while !connections.open.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                connections.open.iter().for_each(|connection| connection.hang_up());
                return;
            }
            let waited = self.bell.wait_timeout(connections, left);
            connections = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Applies the current sizes of stores and the current certificates. Returns a report.
    fn reload(&self) -> Vec<String> {
        let mut said = Vec::new();
        if let Some((keys, _)) = &self.monitor.tls {
            said.push(match keys.reload() {
                Ok(()) => "certificates: read again, for clients to come".to_owned(),
                Err(error) => format!("certificates: the old ones stay: {error}"),
            });
        }
        let mut connections = self.lock();
        let mut exports = connections.exports.to_vec();
        for (number, export) in exports.iter_mut().enumerate() {
            let found = self.disk.store(number).refresh();
            let name = export_label(&export.name);
            match found {
                Err(error) => said.push(format!("{name}: {error}")),
                Ok(bytes) if bytes == export.size => {}
                Ok(bytes) if bytes < export.size => said.push(format!(
                    "{name}: its source has {bytes} bytes now; it keeps its {}, and reads \
                     behind the end fail",
                    export.size
                )),
                Ok(_) if !export.size.is_multiple_of(PAGE_SIZE) => said.push(format!(
                    "{name}: it keeps its {} bytes, which are no multiple of {PAGE_SIZE}",
                    export.size
                )),
                Ok(bytes) => {
                    self.disk.grow(number, bytes);
                    export.size = bytes;
                    said.push(format!("{name}: {bytes} bytes, for clients to come"));
                }
            }
        }
        connections.exports = exports.into();
        said
    }

    fn report(&self) -> ServerReport {
        let connections = self.lock();
        let (open, exports) = (connections.open.clone(), Arc::clone(&connections.exports));
        drop(connections);
        let (stats, resident_pages, levels) = self.disk.look();
        let export = |(number, (export, levels)): (usize, (&Export, ExportLevels))| {
            let counters = self.disk.counters(number);
            ExportReport {
                name: export.name.clone(),
                bytes: export.size,
                read_only: export.read_only,
                levels,
                store_reads: (counters.reads.load(Relaxed), counters.read_bytes.load(Relaxed)),
                store_writes: (counters.writes.load(Relaxed), counters.written_bytes.load(Relaxed)),
                store_flushes: counters.flushes.load(Relaxed),
                requests: self.disk.store(number).requests(),
                latencies: self.monitor.exports[number].latencies(),
            }
        };
        ServerReport {
            stats,
            uptime: self.begun.elapsed(),
            cache: self.cache,
            resident_pages,
            exports: exports.iter().zip(levels).enumerate().map(export).collect(),
            clients: open.iter().map(|connection| connection.report()).collect(),
        }
    }

    fn exports(&self) -> Arc<[Export]> {
        Arc::clone(&self.lock().exports)
    }

    fn trouble(&self, text: &str) {
        (self.monitor.log)(&ServeEvent::Trouble(text));
    }

    fn not_taken(&self, text: &str) {
        (self.monitor.log)(&ServeEvent::NotTaken(text));
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs what happens to the store of an export.
fn log_disk_event(log: &ServeLog, export: &str, event: &DiskEvent<'_>) {
    match *event {
        DiskEvent::Fails(why) => log(&ServeEvent::SourceFails { export, why }),
        DiskEvent::Answers => log(&ServeEvent::SourceAnswers { export }),
        DiskEvent::Unthreaded(why) => {
            let name = export_label(export);
            let text = format!("{name}: cannot start a thread, so its requests queue: {why}");
            log(&ServeEvent::Trouble(&text));
        }
    }
}

impl ServedExport {
    fn described(&self) -> Export {
        let described = self.description.floor_char_boundary(NAME_MAX);
        Export {
            name: self.name.clone(),
            description: self.description[..described].to_owned(),
            size: self.store.bytes(),
            read_only: self.read_only,
            fast_zero: self.store.zeroes_fast(),
            rotational: false,
        }
    }
}

/// Requests of all clients in flight at most.
const REQUESTS_MAX: u32 = 4096;

/// The least page memory: with four pages every request makes progress.
const MEMORY_MIN: u64 = 4 * PAGE_SIZE;
const MEMORY_MAX: u64 = u32::MAX as u64 * PAGE_SIZE;

/// How long a stopping server waits for clients to take their replies.
pub const REPLIES_TIME: Duration = Duration::from_secs(10);
