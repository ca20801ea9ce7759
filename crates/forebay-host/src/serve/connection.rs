//! One client: its socket, its session, and its unsent replies.
//!
//! ```text
//!   recv --> Session --> requests --> Disk --ended--> sendmsg without waiting
//!                                                        | the client is slow
//!                                                        v
//!                                      queue --> a thread that waits for the client
//! ```
//!
//! The thread of a connection stops receiving while the client's requests and the replies that it
//! has not taken are more than a budget, so a client that never reads costs a bounded amount of
//! memory and no other client's time.

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use forebay_core::io::IoError;
use forebay_core::serving::DiskOp;
use forebay_core::time;
use forebay_nbd::{Agreed, Command, Ending, Errno, Event, Export, Request, Session, TlsPolicy};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg, shutdown};

mod batch;

use self::batch::Batch;
use super::disk::{Disk, EndedRequest, Outcome, Owner};
use super::event::{ServeEvent, ServeLog};
use super::listen::Peer;
use super::meter::{ClientCounters, ExportMeter};
use super::report::ClientReport;
use super::status;
use super::tls::{TlsKeys, TlsStream};
use crate::processor::nanos;

/// A client's connection.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    number: u64,
    peer: Peer,
    monitor: Arc<Monitor>,
    outgoing: Mutex<Outgoing>,
    /// Rings when a request has been answered and when replies have been taken.
    bell: Condvar,
}

/// Where all connections report to.
pub(super) struct Monitor {
    pub(super) log: ServeLog,
    /// A request that takes so long is logged.
    pub(super) slow: time::Duration,
    /// Latencies of the exports in their order.
    pub(super) exports: Vec<ExportMeter>,
    /// Certificates, and whether connections may do without.
    pub(super) tls: Option<(TlsKeys, TlsPolicy)>,
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor").field("tls", &self.tls).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Outgoing {
    agreed: Option<Agreed>,
    tls: Option<TlsStream>,
    counters: ClientCounters,
    /// Lines of the log about its requests.
    lines: u32,
    /// Requests without a reply, and their bytes.
    requests: u32,
    held: usize,
    /// Replies that the client has not taken.
    queue: Vec<u8>,
    /// Bytes that a separate thread is sending.
    sending: usize,
    is_broken: bool,
    /// No more requests are executed.
    is_draining: bool,
}

/// What a connection's thread works with.
struct Serving<'a> {
    connection: &'a Arc<Connection>,
    /// What arrived encrypted, in plain text.
    plain: Vec<u8>,
    is_secure: bool,
    disk: &'a Disk,
    client: Option<(u32, Agreed)>,
    batch: Batch,
    outcome: Outcome,
    /// Memory for data of reads.
    spare: Vec<Vec<u8>>,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, number: u64, peer: Peer, monitor: Arc<Monitor>) -> Self {
        let (outgoing, bell) = (Mutex::default(), Condvar::new());
        Self { socket, number, peer, monitor, outgoing, bell }
    }

    /// Serves the client until it leaves, and logs it.
    pub(super) fn serve(self: &Arc<Self>, exports: &Arc<[Export]>, disk: &Disk) {
        let client = self.number;
        (self.monitor.log)(&ServeEvent::Connected { client, peer: &self.peer });
        let serve = || self.serve_requests(exports, disk);
        let ended = catch_unwind(AssertUnwindSafe(serve)).unwrap_or_else(|_| {
            self.hang_up();
            Err("serving it broke down".to_owned())
        });
        let (counters, why) = (self.lock().counters, ended.err());
        (self.monitor.log)(&ServeEvent::Left { client, counters, why: why.as_deref() });
    }

    /// The current state of the client.
    pub(super) fn report(&self) -> ClientReport {
        let outgoing = self.lock();
        ClientReport {
            number: self.number,
            peer: self.peer.clone(),
            tls: outgoing.tls.is_some(),
            export: outgoing.agreed.map(|agreed| agreed.export),
            in_flight: outgoing.requests,
            untaken: (outgoing.queue.len() + outgoing.sending) as u64,
            counters: outgoing.counters,
        }
    }

    /// Serves the client until it leaves. Says why, if that is not its own will.
    fn serve_requests(
        self: &Arc<Self>,
        exports: &Arc<[Export]>,
        disk: &Disk,
    ) -> Result<(), String> {
        let mut serving = Serving {
            connection: self,
            plain: Vec::new(),
            is_secure: false,
            disk,
            client: None,
            batch: Batch::default(),
            outcome: Outcome::default(),
            spare: Vec::new(),
        };
        let ended = serving.run(exports);
        // Requests that are under way are answered before the client's descriptions are closed.
        let mut outgoing = self.lock();
        while outgoing.requests > 0 {
            outgoing = self.wait(outgoing);
        }
        let unsent = |outgoing: &Outgoing| outgoing.queue.len() + outgoing.sending > 0;
        while unsent(&outgoing) && !outgoing.is_broken && !outgoing.is_draining {
            outgoing = self.wait(outgoing);
        }
        if let Some(mut tls) = outgoing.tls.take() {
            let mut batch = Batch::default();
            tls.close(&mut batch.control);
            self.push(outgoing, &mut batch);
        } else {
            drop(outgoing);
        }
        if let Some((client, _)) = serving.client {
            disk.close(client);
        }
        self.hang_up();
        ended
    }

    /// Answers one request, from whichever thread.
    pub(super) fn answer_one(
        self: &Arc<Self>,
        request: &Request,
        bytes: Vec<u8>,
        result: Result<(), IoError>,
        took: time::Duration,
    ) {
        let mut outgoing = self.lock();
        let mut batch = Batch::default();
        let agreed = outgoing.agreed.expect("requests come after the handshake");
        batch.add(&agreed, request, bytes, result);
        let event = self.end(&mut outgoing, request, (took, true), result.err());
        self.send(outgoing, &mut batch);
        self.tell(event);
    }

    /// A request has been answered, after `took`, part of which it may have waited. Returns the
    /// line to log.
    fn end(
        &self,
        outgoing: &mut Outgoing,
        request: &Request,
        (took, waited): (time::Duration, bool),
        error: Option<IoError>,
    ) -> Option<RequestLine> {
        outgoing.requests -= 1;
        outgoing.held -= cost(request);
        outgoing.counters.record(request, waited.then_some(took.0), error.is_none());
        let export = outgoing.agreed.expect("requests come after the handshake").export;
        self.monitor.exports[export].record(request.command, took.0);
        if error.is_none() && took < self.monitor.slow {
            return None;
        }
        outgoing.line(RequestLine { request: *request, took, error, refusal: None })
    }

    /// Logs a line about a request.
    fn tell(&self, line: Option<RequestLine>) {
        let Some(RequestLine { request, took, error, refusal }) = line else { return };
        let (client, request, log) = (self.number, &request, &self.monitor.log);
        match (refusal, error) {
            (Some(Refusal::Last), _) => log(&ServeEvent::Muted { client }),
            (Some(Refusal::Of(why)), _) => log(&ServeEvent::Refused { client, request, why }),
            (None, Some(error)) => {
                log(&ServeEvent::Failed { client, request, why: &error.to_string() });
            }
            (None, None) => {
                let took = Duration::from_nanos(took.0);
                log(&ServeEvent::Slow { client, request, took });
            }
        }
    }

    /// The client's requests are refused from now on.
    pub(super) fn drain(&self) {
        self.lock().is_draining = true;
        // Its thread receives nothing any more and ends when all is answered.
        let _ = shutdown(&self.socket, Shutdown::Read);
        self.bell.notify_all();
    }

    /// Nothing more goes to the client.
    pub(super) fn hang_up(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Takes what arrived through TLS, and answers what TLS itself asks. Returns whether it is
    /// established.
    fn open(self: &Arc<Self>, bytes: &[u8], plain: &mut Vec<u8>) -> Result<bool, String> {
        let mut outgoing = self.lock();
        let tls = outgoing.tls.as_mut().expect("TLS has begun");
        let mut batch = Batch::default();
        let opened = tls.open(bytes, plain, &mut batch.control);
        let is_established = !tls.is_handshaking();
        self.push(outgoing, &mut batch);
        opened.map(|()| is_established)
    }

    /// Sends a batch, encrypted where that was agreed on.
    fn send(self: &Arc<Self>, mut outgoing: MutexGuard<'_, Outgoing>, batch: &mut Batch) {
        if let Some(tls) = &mut outgoing.tls {
            let mut sealed = Vec::new();
            tls.seal(batch.parts(), &mut sealed);
            batch.data.clear();
            batch.control = sealed;
        }
        self.push(outgoing, batch);
    }

    /// Sends a batch, or queues the part that the client does not read at once.
    fn push(self: &Arc<Self>, mut outgoing: MutexGuard<'_, Outgoing>, batch: &mut Batch) {
        let is_queueing = outgoing.sending > 0 || !outgoing.queue.is_empty();
        if !outgoing.is_broken {
            let sent = if is_queueing { Ok(0) } else { self.send_now(batch) };
            match sent {
                Ok(sent) => batch.flatten(sent, &mut outgoing.queue),
                Err(_) => outgoing.is_broken = true,
            }
        }
        batch.control.clear();
        if outgoing.is_broken {
            outgoing.queue.clear();
            // Its thread shall notice.
            self.hang_up();
        } else if outgoing.sending == 0 && !outgoing.queue.is_empty() {
            self.send_later(&mut outgoing);
        }
        drop(outgoing);
        self.bell.notify_all();
    }

    /// Sends without waiting for the client; returns how many bytes went.
    fn send_now(&self, batch: &Batch) -> io::Result<usize> {
        let mut total = 0;
        let mut first = 0;
        loop {
            let (mut slices, mut asked) = ([IoSlice::new(&[]); SLICES], 0);
            let mut count = 0;
            for (slice, part) in slices.iter_mut().zip(batch.parts().skip(first)) {
                *slice = IoSlice::new(part);
                asked += part.len();
                count += 1;
            }
            if count == 0 {
                return Ok(total);
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let mut nothing = SendAncillaryBuffer::default();
            match sendmsg(&self.socket, &slices[..count], &mut nothing, flags) {
                Ok(sent) => {
                    total += sent;
                    if sent < asked {
                        return Ok(total);
                    }
                    first += count;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(total),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Makes a thread send the queue.
    fn send_later(self: &Arc<Self>, outgoing: &mut Outgoing) {
        let mut bytes = std::mem::take(&mut outgoing.queue);
        outgoing.sending = bytes.len();
        let connection = Arc::clone(self);
        let send = move || loop {
            let sent = connection.send_waiting(&bytes);
            let mut outgoing = connection.lock();
            outgoing.is_broken |= sent.is_err();
            bytes.clear();
            std::mem::swap(&mut bytes, &mut outgoing.queue);
            if outgoing.is_broken {
                bytes.clear();
            }
            outgoing.sending = bytes.len();
            drop(outgoing);
            connection.bell.notify_all();
            if bytes.is_empty() {
                return;
            }
        };
        if thread::Builder::new().name("send".to_owned()).spawn(send).is_err() {
            (outgoing.is_broken, outgoing.sending) = (true, 0);
        }
    }

    fn send_waiting(&self, bytes: &[u8]) -> rustix::io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::net::send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, outgoing: MutexGuard<'a, Outgoing>) -> MutexGuard<'a, Outgoing> {
        self.bell.wait(outgoing).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Serving<'_> {
    fn run(&mut self, exports: &Arc<[Export]>) -> Result<(), String> {
        let begin = Instant::now();
        let socket = &self.connection.socket;
        let tls = self.connection.monitor.tls.as_ref();
        let policy = tls.map_or(TlsPolicy::Off, |(_, policy)| *policy);
        let mut session = Session::new(Arc::clone(exports), policy, &mut self.batch.control);
        self.send_batch();
        let (mut buffer, mut events) = (vec![0; RECEIVE_BYTES], Vec::new());
        loop {
            if !session.has_begun() {
                let left = HANDSHAKE_TIME.saturating_sub(begin.elapsed());
                let left = left.max(Duration::from_millis(1));
                set_socket_timeout(socket, Timeout::Recv, Some(left)).map_err(described)?;
            }
            let received = match rustix::io::read(socket, &mut buffer) {
                Ok(0) => return Ok(()),
                Ok(received) => received,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => {
                    return Err("the handshake took more than 10 s".to_owned());
                }
                // It hung up.
                Err(rustix::io::Errno::CONNRESET) => return Ok(()),
                Err(error) => return Err(described(error)),
            };
            self.receive(&mut session, &buffer[..received], &mut events)?;
            let (mut ending, mut starts_tls) = (None, false);
            for event in events.drain(..) {
                match event {
                    Event::StartTls => starts_tls = true,
                    Event::Begin(agreed) => {
                        set_socket_timeout(socket, Timeout::Recv, None).map_err(described)?;
                        self.begin(agreed, &exports[agreed.export].name);
                    }
                    Event::Refused(request, _, why) => self.note_refusal(request, why),
                    Event::Request(request, payload) => self.take(&request, payload),
                    Event::End(end) => ending = Some(end),
                }
            }
            // What came in whole may be the last for a while.
            self.disk.dispatch(&mut self.outcome, received < RECEIVE_BYTES);
            self.collect(&mut session);
            self.send_batch();
            if starts_tls && ending.is_none() {
                let (keys, _) = tls.expect("the session takes STARTTLS by this policy");
                self.connection.lock().tls = Some(keys.accept()?);
                self.is_secure = true;
            }
            match ending {
                Some(Ending::Aborted | Ending::Disconnected) => return Ok(()),
                Some(Ending::Broken(why)) => return Err(why.to_owned()),
                None => {}
            }
            self.await_budget();
        }
    }

    /// Hands bytes on to the session, in plain text.
    fn receive(
        &mut self,
        session: &mut Session,
        bytes: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), String> {
        if !self.is_secure {
            session.receive(bytes, &mut self.batch.control, events);
            return Ok(());
        }
        self.plain.clear();
        if self.connection.open(bytes, &mut self.plain)? && session.is_securing() {
            session.secured();
        }
        session.receive(&self.plain, &mut self.batch.control, events);
        Ok(())
    }

    fn begin(&mut self, agreed: Agreed, export: &str) {
        self.client = Some((self.disk.open(agreed.export), agreed));
        self.connection.lock().agreed = Some(agreed);
        let (client, tls) = (self.connection.number, self.is_secure);
        (self.connection.monitor.log)(&ServeEvent::Opened { client, export, tls });
    }

    fn note_refusal(&self, request: Request, why: &'static str) {
        let mut outgoing = self.connection.lock();
        outgoing.counters.refused += 1;
        let (took, refusal) = (time::Duration::ZERO, Some(Refusal::Of(why)));
        let line = outgoing.line(RequestLine { request, took, error: None, refusal });
        drop(outgoing);
        self.connection.tell(line);
    }

    /// Begins a request that was checked.
    fn take(&mut self, request: &Request, payload: Vec<u8>) {
        let (client, agreed) = self.client.expect("requests come after the handshake");
        let mut outgoing = self.connection.lock();
        if outgoing.is_draining {
            let text = "the server is about to end";
            agreed.error(request, Errno::Shutdown, text, &mut self.batch.control);
            return;
        }
        outgoing.requests += 1;
        outgoing.held += cost(request);
        drop(outgoing);
        let (offset, len, durable) = (request.offset, request.length, request.fua);
        let op = match request.command {
            Command::Read => DiskOp::Read { offset, len },
            Command::Write => DiskOp::Write { offset, len, durable },
            Command::Flush => DiskOp::Flush,
            Command::Trim => DiskOp::Zero { offset, len, hole: true, durable },
            Command::WriteZeroes => DiskOp::Zero { offset, len, hole: !request.no_hole, durable },
            Command::Cache => DiskOp::Prefetch { offset, len },
            Command::BlockStatus => {
                let begun = Instant::now();
                let found = status::extents(self.disk, agreed.export, request);
                match &found {
                    Ok(extents) => agreed.extents(request, extents, &mut self.batch.control),
                    Err(error) => {
                        let text = error.to_string();
                        agreed.error(request, Errno::Io, &text, &mut self.batch.control);
                    }
                }
                let (took, error) =
                    (time::Duration(nanos(begun.elapsed())), found.err().map(|_| IoError::Device));
                let mut outgoing = self.connection.lock();
                let line = self.connection.end(&mut outgoing, request, (took, false), error);
                drop(outgoing);
                self.connection.tell(line);
                return;
            }
            Command::Unknown => unreachable!("the session refuses it"),
        };
        let bytes = if request.command == Command::Read {
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.reserve(usize::try_from(len).unwrap_or(0));
            bytes
        } else {
            payload
        };
        let owner = Owner::Client(Arc::clone(self.connection), *request);
        self.disk.request(client, op, (owner, bytes), &mut self.outcome);
    }

    /// Puts replies of completed requests into the batch; those of other clients are sent.
    fn collect(&mut self, session: &mut Session) {
        if self.outcome.ended.is_empty() {
            return;
        }
        let (mut others, mut lines, now) = (Vec::new(), Vec::new(), self.disk.now());
        let mut outgoing = self.connection.lock();
        for ended in self.outcome.ended.drain(..) {
            let EndedRequest { owner, bytes, result, begun, waited } = ended;
            match &owner {
                Owner::Client(connection, request) if Arc::ptr_eq(connection, self.connection) => {
                    let (_, agreed) = self.client.expect("requests come after the handshake");
                    let took = now.since(begun);
                    let took = (took, waited);
                    let line = self.connection.end(&mut outgoing, request, took, result.err());
                    lines.extend(line);
                    if request.command == Command::Read {
                        self.batch.add(&agreed, request, bytes, result);
                    } else {
                        session.recycle(bytes);
                        self.batch.add(&agreed, request, Vec::new(), result);
                    }
                }
                Owner::Client(..) | Owner::Call(_) => {
                    others.push(EndedRequest { owner, bytes, result, begun, waited });
                }
            }
        }
        drop(outgoing);
        lines.into_iter().for_each(|line| self.connection.tell(Some(line)));
        self.disk.answer(others);
    }

    fn send_batch(&mut self) {
        if self.batch.control.is_empty() {
            return;
        }
        self.connection.send(self.connection.lock(), &mut self.batch);
        for (_, mut bytes) in self.batch.data.drain(..) {
            if self.spare.len() < SPARE_MAX && bytes.capacity() <= SPARE_BYTES {
                bytes.clear();
                self.spare.push(bytes);
            }
        }
    }

    /// Waits until the client's requests and untaken replies are few enough to receive more.
    fn await_budget(&self) {
        let mut outgoing = self.connection.lock();
        while !outgoing.is_broken
            && !outgoing.is_draining
            && (outgoing.requests >= REQUESTS_MAX || outgoing.bytes() > BUDGET)
        {
            outgoing = self.connection.wait(outgoing);
        }
    }
}

/// The log line of a request.
#[derive(Clone, Copy, Debug)]
struct RequestLine {
    request: Request,
    took: time::Duration,
    error: Option<IoError>,
    refusal: Option<Refusal>,
}

#[derive(Clone, Copy, Debug)]
enum Refusal {
    Of(&'static str),
    /// Nothing more is logged of the client's requests.
    Last,
}

impl Outgoing {
    /// A line of the log, unless there were too many.
    fn line(&mut self, line: RequestLine) -> Option<RequestLine> {
        self.lines = self.lines.saturating_add(1);
        match self.lines {
            ..LINES_MAX => Some(line),
            LINES_MAX => Some(RequestLine { refusal: Some(Refusal::Last), ..line }),
            _ => None,
        }
    }

    fn bytes(&self) -> usize {
        self.held + self.queue.len() + self.sending
    }
}

/// The memory that a request takes.
fn cost(request: &Request) -> usize {
    let moves = matches!(request.command, Command::Read | Command::Write);
    if moves { usize::try_from(request.length).unwrap_or(usize::MAX) } else { 0 }
}

fn described(error: rustix::io::Errno) -> String {
    io::Error::from(error).to_string()
}

/// Time for a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Bytes that are received at once.
const RECEIVE_BYTES: usize = 128 << 10;

/// Requests of one client in flight at most, and the bytes of these and of untaken replies from
/// which on nothing more is received.
const REQUESTS_MAX: u32 = 512;
const BUDGET: usize = 64 << 20;

/// Lines of the log about the requests of one client at most.
const LINES_MAX: u32 = 1000;

/// Parts of replies that one call sends.
const SLICES: usize = 64;

/// Memory for data of reads that is kept.
const SPARE_MAX: usize = 64;
const SPARE_BYTES: usize = 256 << 10;
