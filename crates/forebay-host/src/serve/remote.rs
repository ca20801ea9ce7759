//! The export of another NBD server as a store.
//!
//! ```text
//!   threads of the store --request--> writer lock --> socket --> server
//!            ^                                                     |
//!            '--- replies <--- ClientSession <--- one thread ------'
//! ```
//!
//! Each thread has one request in flight, so the server has as many as `--threads` says. A broken
//! connection is opened again, and requests without a reply are sent again, for at most
//! [`RETRY_TIME`]. A server that was killed may have lost what it had acknowledged and no FLUSH had
//! covered: these changes are kept and sent again first. If the server refuses one of them, the
//! next FLUSH fails, once.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use forebay_nbd::{ClientEvent, ClientReply, ClientSession, Command, Errno, RemoteExport, Request};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SendFlags, Shutdown, shutdown};

use super::store::{SourceWatch, Store};
use crate::backend::Requests;
use crate::frames::PAGE;
use address::Place;
use unflushed::{Change, Unflushed};

mod address;
mod unflushed;

pub use address::NbdAddress;

/// An export of another server.
pub struct RemoteStore(Arc<Remote>);

struct Remote {
    address: NbdAddress,
    export: RemoteExport,
    link: Mutex<Link>,
    /// Rings when a reply has come and when the connection has broken.
    bell: Condvar,
    /// Held while a request is written, so that its bytes stay together.
    writer: Mutex<()>,
    sent: AtomicU64,
    brought: AtomicU64,
    watch: OnceLock<SourceWatch>,
}

struct Link {
    live: Option<Live>,
    /// Connections so far.
    generation: u64,
    replies: BTreeMap<u64, ClientReply>,
    unflushed: Unflushed,
    /// Acknowledged changes are lost.
    has_lost: bool,
    /// Why there is no connection.
    fault: String,
}

struct Live {
    socket: Arc<OwnedFd>,
    session: ClientSession,
}

impl RemoteStore {
    /// Connects to a server.
    ///
    /// # Errors
    /// It cannot be reached, or refuses the export, or has blocks larger than a page.
    pub fn open(address: NbdAddress) -> io::Result<Self> {
        let (live, export) = connect(&address)?;
        if export.block_min as usize > PAGE {
            let what = format!("its blocks of {} bytes are larger than a page", export.block_min);
            return Err(io::Error::new(ErrorKind::Unsupported, what));
        }
        let link = Link {
            live: None,
            generation: 0,
            replies: BTreeMap::new(),
            unflushed: Unflushed::default(),
            has_lost: false,
            fault: String::new(),
        };
        let remote = Arc::new(Remote {
            address,
            export,
            link: Mutex::new(link),
            bell: Condvar::new(),
            writer: Mutex::default(),
            sent: AtomicU64::new(0),
            brought: AtomicU64::new(0),
            watch: OnceLock::new(),
        });
        remote.adopt(&mut remote.lock(), live)?;
        Ok(Self(remote))
    }

    /// Whether the server refuses writes.
    pub fn is_read_only(&self) -> bool {
        self.0.export.read_only
    }
}

impl Drop for RemoteStore {
    fn drop(&mut self) {
        if let Some(live) = self.0.lock().live.take() {
            let mut out = Vec::new();
            live.session.disconnect(&mut out);
            let _ = rustix::net::send(&live.socket, &out, SendFlags::NOSIGNAL);
            let _ = shutdown(&live.socket, Shutdown::Both);
        }
    }
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteStore").field("address", &self.0.address).finish_non_exhaustive()
    }
}

impl Store for RemoteStore {
    fn bytes(&self) -> u64 {
        self.0.export.size
    }

    fn read(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let remote = &self.0;
        let wanted = buffers.iter().map(|buffer| buffer.len()).sum::<usize>() as u64;
        let end = remote.export.size.min(offset.saturating_add(wanted));
        let len = end.saturating_sub(offset).min(remote.request_max());
        if len == 0 {
            return Ok(0);
        }
        let reply = remote.ask(&request(Command::Read, offset, len), &NOTHING)?;
        let mut rest = &reply.data[..];
        for buffer in buffers {
            let count = buffer.len().min(rest.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
        }
        remote.brought.fetch_add(len, Relaxed);
        Ok(len as usize)
    }

    fn write(&self, buffers: &[IoSlice<'_>], offset: u64, durable: bool) -> io::Result<usize> {
        let remote = &self.0;
        let (mut payload, most) = (Vec::new(), remote.request_max() as usize);
        for buffer in buffers {
            payload.extend_from_slice(&buffer[..buffer.len().min(most - payload.len())]);
        }
        let mut write = request(Command::Write, offset, payload.len() as u64);
        write.fua = durable && remote.export.fua;
        let payload = Arc::new(payload);
        remote.ask(&write, &payload)?;
        remote.bound_unflushed()?;
        if durable && !write.fua {
            self.flush()?;
        }
        Ok(payload.len())
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }

    fn zero(&self, offset: u64, len: u64, hole: bool) -> io::Result<bool> {
        let remote = &self.0;
        let block = u64::from(remote.export.block_min);
        if !remote.export.zeroes || !offset.is_multiple_of(block) || !len.is_multiple_of(block) {
            return Ok(false);
        }
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let mut zero = request(Command::WriteZeroes, at, (end - at).min(ZERO_MAX));
            zero.no_hole = !hole;
            at += zero.length;
            remote.ask(&zero, &NOTHING)?;
            remote.bound_unflushed()?;
        }
        Ok(true)
    }

    fn run(&self, offset: u64) -> io::Result<(u64, bool)> {
        let remote = &self.0;
        let size = remote.export.size;
        if !remote.export.allocation {
            return Ok((size, false));
        }
        let block = u64::from(remote.export.block_min);
        let start = offset / block * block;
        let status = request(Command::BlockStatus, start, (size - start).min(STATUS_MAX));
        let reply = remote.ask(&status, &NOTHING)?;
        let hole = reply.extents[0].zero;
        let alike = reply.extents.iter().take_while(|extent| extent.zero == hole);
        let end = start + alike.map(|extent| extent.length).sum::<u64>();
        Ok((end.clamp(offset + 1, size.max(offset + 1)), hole))
    }

    fn zeroes_fast(&self) -> bool {
        self.0.export.zeroes
    }

    fn requests(&self) -> Option<Requests> {
        let (count, bytes) = (self.0.sent.load(Relaxed), self.0.brought.load(Relaxed));
        Some(Requests { count, bytes })
    }

    fn watch(&self, watch: SourceWatch) {
        // The first one stays.
        let _ = self.0.watch.set(watch);
    }
}

impl Remote {
    /// Sends a request and waits for its reply; over a new connection where the old one breaks.
    fn ask(self: &Arc<Self>, request: &Request, payload: &Arc<Vec<u8>>) -> io::Result<ClientReply> {
        let until = Instant::now() + RETRY_TIME;
        let mut pause = PAUSE_MIN;
        loop {
            let tried = self.ask_once(request, payload);
            match tried {
                Ok(reply) => {
                    return match reply.result {
                        Ok(()) => Ok(reply),
                        Err(number) => Err(io::Error::from_raw_os_error(number as i32)),
                    };
                }
                // What a FLUSH should have covered is gone: to send it again is no help.
                Err(error) if request.command == Command::Flush && self.lock().has_lost => {
                    return Err(error);
                }
                Err(error) if Instant::now() + pause >= until => return Err(error),
                Err(_) => {}
            }
            thread::sleep(pause);
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    /// The same over the existing connection, or a new one.
    fn ask_once(
        self: &Arc<Self>,
        request: &Request,
        payload: &Arc<Vec<u8>>,
    ) -> io::Result<ClientReply> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut link = self.lock();
        if link.live.is_none() {
            let connected = self.reconnect(&mut link);
            self.report(connected.as_ref().err().map(ToString::to_string).as_deref());
            connected?;
        }
        let generation = link.generation;
        let live = link.live.as_mut().expect("it was made");
        let mut header = Vec::with_capacity(28);
        let (cookie, socket) = (live.session.request(request, &mut header), live.socket.clone());
        // The thread that receives needs the lock while the server does not take our bytes.
        drop(link);
        self.sent.fetch_add(1, Relaxed);
        if let Err(error) = send(&socket, &header).and_then(|()| send(&socket, payload)) {
            // This also ends the thread that receives notices.
            let _ = shutdown(&*socket, Shutdown::Both);
            drop(writer);
            self.lose(generation, &error.to_string());
            return Err(error);
        }
        drop(writer);
        let until = Instant::now() + REPLY_TIME;
        let mut link = self.lock();
        loop {
            if link.generation != generation || link.live.is_none() {
                return Err(io::Error::new(ErrorKind::ConnectionAborted, link.fault.clone()));
            }
            if let Some(reply) = link.replies.remove(&cookie) {
                if reply.result == Err(Errno::Shutdown as u32) {
                    drop(link);
                    let _ = shutdown(&*socket, Shutdown::Both);
                    let why = "the server is about to end";
                    self.lose(generation, why);
                    return Err(io::Error::new(ErrorKind::ConnectionAborted, why));
                }
                let changes = matches!(request.command, Command::Write | Command::WriteZeroes);
                if changes && reply.result.is_ok() {
                    link.unflushed.add(*request, Arc::clone(payload));
                }
                return Ok(reply);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(link);
                let _ = shutdown(&*socket, Shutdown::Both);
                self.lose(generation, "a request had no reply for a minute");
                return Err(ErrorKind::TimedOut.into());
            }
            let waited = self.bell.wait_timeout(link, left);
            link = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Connects again, and sends what the server may have lost.
    fn reconnect(self: &Arc<Self>, link: &mut Link) -> io::Result<()> {
        let (mut live, export) = connect(&self.address)?;
        if export != self.export {
            return Err(io::Error::other("the export was changed"));
        }
        if !live.send_again(&link.unflushed)? {
            link.has_lost = true;
            link.unflushed = Unflushed::default();
        }
        self.adopt(link, live)
    }

    /// Reports that the server answers, or why it does not.
    fn report(&self, fault: Option<&str>) {
        if let Some(watch) = self.watch.get() {
            watch(fault.map_or(Ok(()), Err));
        }
    }

    fn flush(self: &Arc<Self>) -> io::Result<()> {
        let mut link = self.lock();
        let covered = link.unflushed.mark();
        let has_lost = std::mem::take(&mut link.has_lost);
        drop(link);
        let flush = request(Command::Flush, 0, 0);
        let result = match has_lost {
            true => Err(lost()),
            false if self.export.flush => self.ask(&flush, &NOTHING).map(drop),
            false => Ok(()),
        };
        let mut link = self.lock();
        // A connection that broke in the meantime lost writes that this FLUSH should cover.
        if std::mem::take(&mut link.has_lost) && result.is_ok() {
            return Err(lost());
        }
        if result.is_ok() {
            link.unflushed.forget(covered);
        }
        result
    }

    /// Has the server flush if what it may lose takes too much memory here.
    fn bound_unflushed(self: &Arc<Self>) -> io::Result<()> {
        let is_full = self.lock().unflushed.is_full();
        if is_full { self.flush() } else { Ok(()) }
    }

    /// A connection is established; a thread receives from it.
    fn adopt(self: &Arc<Self>, link: &mut Link, live: Live) -> io::Result<()> {
        link.generation += 1;
        link.replies.clear();
        let (generation, socket) = (link.generation, Arc::clone(&live.socket));
        let remote = Arc::downgrade(self);
        let receive = move || {
            let mut buffer = vec![0; RECEIVE_BYTES];
            loop {
                let received = match rustix::io::read(&*socket, &mut buffer) {
                    Ok(0) => Err("the server has hung up".to_owned()),
                    Ok(count) => Ok(count),
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(error) => Err(io::Error::from(error).to_string()),
                };
                let Some(remote) = remote.upgrade() else { return };
                let taken = received.and_then(|count| remote.take(generation, &buffer[..count]));
                if let Err(fault) = taken {
                    let _ = shutdown(&*socket, Shutdown::Both);
                    remote.lose(generation, &fault);
                    return;
                }
            }
        };
        thread::Builder::new().name("remote".to_owned()).spawn(receive)?;
        link.live = Some(live);
        Ok(())
    }

    fn take(&self, generation: u64, bytes: &[u8]) -> Result<(), String> {
        let mut link = self.lock();
        if link.generation != generation {
            return Err("there is a newer connection".to_owned());
        }
        let Some(live) = &mut link.live else { return Err("it has ended".to_owned()) };
        let mut events = Vec::new();
        live.session.receive(bytes, &mut Vec::new(), &mut events);
        for event in events {
            match event {
                ClientEvent::Reply(reply) => drop(link.replies.insert(reply.cookie, reply)),
                ClientEvent::Broken(fault) => return Err(fault),
                ClientEvent::Ready(_) => {}
            }
        }
        drop(link);
        self.bell.notify_all();
        Ok(())
    }

    /// A connection has broken.
    fn lose(&self, generation: u64, fault: &str) {
        let mut link = self.lock();
        let is_lost = link.generation == generation && link.live.take().is_some();
        if is_lost {
            fault.clone_into(&mut link.fault);
        }
        drop(link);
        self.bell.notify_all();
        if is_lost {
            self.report(Some(fault));
        }
    }

    /// Bytes of one request at most: whole pages.
    fn request_max(&self) -> u64 {
        let most = u64::from(self.export.payload_max).max(PAGE as u64);
        most / PAGE as u64 * PAGE as u64
    }

    fn lock(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    /// Sends changes again over a connection that nothing else uses yet. Returns whether the server
    /// took all of them.
    fn send_again(&mut self, unflushed: &Unflushed) -> io::Result<bool> {
        let mut on_their_way: Vec<&Change> = Vec::new();
        let mut took_all = true;
        for change in unflushed.changes() {
            // A server may carry out in any order what it has at the same time.
            let must_wait = on_their_way.iter().any(|earlier| earlier.overlaps(change));
            if must_wait || on_their_way.len() == AGAIN_MAX {
                took_all &= self.await_replies(on_their_way.len())?;
                on_their_way.clear();
            }
            let mut header = Vec::with_capacity(28);
            self.session.request(&change.request, &mut header);
            send(&self.socket, &header)?;
            send(&self.socket, &change.payload)?;
            on_their_way.push(change);
        }
        Ok(self.await_replies(on_their_way.len())? && took_all)
    }

    /// Takes so many replies; returns whether all of them are of success.
    fn await_replies(&mut self, mut count: usize) -> io::Result<bool> {
        let (mut buffer, mut events, mut succeeded) = ([0; 4096], Vec::new(), true);
        set_socket_timeout(&self.socket, Timeout::Recv, Some(REPLY_TIME))?;
        while count > 0 {
            let received = match rustix::io::read(&self.socket, &mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(received) => received,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => return Err(ErrorKind::TimedOut.into()),
                Err(error) => return Err(error.into()),
            };
            self.session.receive(&buffer[..received], &mut Vec::new(), &mut events);
            for event in events.drain(..) {
                match event {
                    ClientEvent::Reply(reply) if reply.result == Err(Errno::Shutdown as u32) => {
                        return Err(ErrorKind::ConnectionAborted.into());
                    }
                    ClientEvent::Reply(reply) => {
                        succeeded &= reply.result.is_ok();
                        count -= 1;
                    }
                    ClientEvent::Broken(why) => return Err(io::Error::other(why)),
                    ClientEvent::Ready(_) => {}
                }
            }
        }
        set_socket_timeout(&self.socket, Timeout::Recv, None)?;
        Ok(succeeded)
    }
}

fn lost() -> io::Error {
    io::Error::other("the server has lost acknowledged writes and refuses to take them again")
}

fn request(command: Command, offset: u64, length: u64) -> Request {
    Request { cookie: 0, command, offset, length, fua: false, no_hole: false, one_extent: false }
}

/// Connects and shakes hands.
fn connect(address: &NbdAddress) -> io::Result<(Live, RemoteExport)> {
    let socket: OwnedFd = match &address.place {
        Place::Unix(path) => UnixStream::connect(path)?.into(),
        Place::Tcp(host, port) => {
            let mut last = io::Error::new(ErrorKind::NotFound, "the host has no address");
            let places = (host.as_str(), *port).to_socket_addrs()?;
            let mut found = None;
            for place in places {
                match TcpStream::connect_timeout(&place, CONNECT_TIME) {
                    Ok(stream) => {
                        found = Some(stream);
                        break;
                    }
                    Err(error) => last = error,
                }
            }
            let stream = found.ok_or(last)?;
            stream.set_nodelay(true)?;
            rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
            stream.into()
        }
    };
    let session = ClientSession::new(&address.export);
    let mut session =
        session.map_err(|_| io::Error::new(ErrorKind::InvalidInput, "the name is too long"))?;
    let until = Instant::now() + CONNECT_TIME;
    let (mut buffer, mut out, mut events) = ([0; 4096], Vec::new(), Vec::new());
    loop {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        set_socket_timeout(&socket, Timeout::Recv, Some(left))?;
        let count = match rustix::io::read(&socket, &mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => continue,
            Err(rustix::io::Errno::AGAIN) => return Err(ErrorKind::TimedOut.into()),
            Err(error) => return Err(error.into()),
        };
        session.receive(&buffer[..count], &mut out, &mut events);
        match events.pop() {
            Some(ClientEvent::Ready(export)) => {
                set_socket_timeout(&socket, Timeout::Recv, None)?;
                return Ok((Live { socket: Arc::new(socket), session }, export));
            }
            Some(ClientEvent::Broken(why)) => return Err(io::Error::other(why)),
            Some(ClientEvent::Reply(_)) | None => {}
        }
        send(&socket, &out)?;
        out.clear();
    }
}

fn send(socket: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The payload of requests without one.
static NOTHING: LazyLock<Arc<Vec<u8>>> = LazyLock::new(Arc::default);

/// Changes that are sent again without waiting for the replies to earlier ones.
const AGAIN_MAX: usize = 64;
/// Time for a connection, and again for its handshake.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How long a request is tried again after connections break.
const RETRY_TIME: Duration = Duration::from_secs(30);
/// How long a server may take for a request.
const REPLY_TIME: Duration = Duration::from_secs(60);
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Bytes that are received at once.
const RECEIVE_BYTES: usize = 128 << 10;
/// The most bytes that one request zeroes or queries the status of: multiples of any block.
const ZERO_MAX: u64 = 1 << 30;
const STATUS_MAX: u64 = 1 << 30;
