//! One client: its socket and its unsent replies.
//!
//! ```text
//!   ended requests --> replies --> sendmsg without waiting
//!                                     | the client is slow
//!                                     v
//!                                  queue --> a thread that waits for the client
//! ```
//!
//! The [thread of a connection](serving) stops receiving while the client's requests and the
//! replies that it has not taken are more than a budget, so a client that never reads costs a
//! bounded amount of memory and no other client's time.

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use forebay_core::dispatch;
use forebay_core::io::IoError;
use forebay_core::time;
use forebay_nbd::{Agreed, Command, Request, TlsPolicy};
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg, shutdown};

mod batch;
pub(super) mod serving;

use self::batch::Batch;
use super::budget::Budget;
use super::event::{ServeEvent, ServeLog};
use super::listen::Peer;
use super::meter::{ClientCounters, ExportMeter};
use super::report::ClientReport;
use super::tls::{TlsKeys, TlsStream};

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
    /// How long a connection's thread polls for the next request.
    pub(super) dispatch: dispatch::Spec,
    /// Certificates, and whether connections may do without.
    pub(super) tls: Option<(TlsKeys, TlsPolicy)>,
    /// What requests and replies of all connections may take.
    pub(super) budget: Budget,
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
    /// Bytes of requests and replies that are taken of the budget.
    charged: usize,
    /// Replies that the client has not taken.
    queue: Vec<u8>,
    /// Bytes that a separate thread is sending.
    sending: usize,
    is_broken: bool,
    /// The connection's thread waits for the bell.
    is_awaited: bool,
    /// Nothing more is carried out.
    is_draining: bool,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, number: u64, peer: Peer, monitor: Arc<Monitor>) -> Self {
        let (outgoing, bell) = (Mutex::default(), Condvar::new());
        Self { socket, number, peer, monitor, outgoing, bell }
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
        // Its reply stays charged until it is sent.
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

    /// The client's requests are left without a reply from now on, and its connection ends.
    pub(super) fn drain(&self) {
        let mut outgoing = self.lock();
        outgoing.is_draining = true;
        // Its thread receives nothing any more and ends when all is answered.
        let _ = shutdown(&self.socket, Shutdown::Read);
        self.ring(&outgoing);
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
            outgoing.queue = Vec::new();
            // Its thread shall notice.
            self.hang_up();
        } else if outgoing.sending == 0 && !outgoing.queue.is_empty() {
            self.send_later(&mut outgoing);
        }
        outgoing.charge(&self.monitor.budget);
        self.ring(&outgoing);
    }

    /// Rings the bell if that is waited for.
    fn ring(&self, outgoing: &Outgoing) {
        if outgoing.is_awaited {
            self.bell.notify_all();
        }
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
            bytes = std::mem::take(&mut outgoing.queue);
            if outgoing.is_broken {
                bytes = Vec::new();
            }
            outgoing.sending = bytes.len();
            outgoing.charge(&connection.monitor.budget);
            connection.ring(&outgoing);
            drop(outgoing);
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

    /// Waits until the client has other requests and untaken replies than `before`, or ends.
    fn await_change(&self, before: (u32, usize)) {
        let mut outgoing = self.lock();
        while outgoing.holdings() == before && !outgoing.is_broken && !outgoing.is_draining {
            outgoing = self.wait(outgoing);
        }
    }

    fn wait<'a>(&self, mut outgoing: MutexGuard<'a, Outgoing>) -> MutexGuard<'a, Outgoing> {
        outgoing.is_awaited = true;
        let mut outgoing = self.bell.wait(outgoing).unwrap_or_else(PoisonError::into_inner);
        outgoing.is_awaited = false;
        outgoing
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let outgoing = self.outgoing.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.monitor.budget.adjust(outgoing.charged, 0);
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

    /// Whether its requests and untaken replies are few enough for more, or nothing is to come.
    /// However much others have, a connection without any may have one: it waits for no other.
    fn may_receive(&self, budget: &Budget) -> bool {
        let has_room = self.requests < REQUESTS_MAX && self.bytes() <= BUDGET;
        has_room && (self.has_nothing() || budget.has_room()) || self.is_broken || self.is_draining
    }

    /// Neither a request nor an untaken reply.
    fn has_nothing(&self) -> bool {
        self.holdings() == (0, 0)
    }

    /// Takes a request in if there is room for it.
    fn admit(&mut self, request: &Request, budget: &Budget) -> bool {
        let cost = cost(request);
        let is_first = self.has_nothing();
        if !self.may_receive(budget) || !(is_first || budget.try_take(cost)) {
            return false;
        }
        if !is_first {
            self.charged += cost;
        }
        self.requests += 1;
        self.held += cost;
        self.charge(budget);
        true
    }

    /// Has the budget know what it holds.
    fn charge(&mut self, budget: &Budget) {
        let bytes = self.bytes();
        budget.adjust(self.charged, bytes);
        self.charged = bytes;
    }

    /// Its requests, and the bytes of these and of untaken replies.
    fn holdings(&self) -> (u32, usize) {
        (self.requests, self.bytes())
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

/// Requests of one client in flight at most, and the bytes of these and of untaken replies from
/// which on nothing more is received. [All clients](Budget) share a limit, too.
const REQUESTS_MAX: u32 = 512;
const BUDGET: usize = 64 << 20;

/// Lines of the log about the requests of one client at most.
const LINES_MAX: u32 = 1000;

/// Parts of replies that one call sends.
const SLICES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(length: u64) -> Request {
        let (command, cookie, offset) = (Command::Read, 0, 0);
        Request { cookie, command, offset, length, fua: false, no_hole: false, one_extent: false }
    }

    fn end(outgoing: &mut Outgoing, length: usize, budget: &Budget) {
        outgoing.requests -= 1;
        outgoing.held -= length;
        outgoing.charge(budget);
    }

    #[test]
    fn clients_share_memory_and_each_may_have_one_request() {
        let budget = Budget::new(100);
        let [mut greedy, mut other] = [Outgoing::default(), Outgoing::default()];
        assert!(greedy.admit(&read(60), &budget) && greedy.admit(&read(40), &budget));
        assert!(!greedy.may_receive(&budget) && !greedy.admit(&read(1), &budget));
        assert!(other.may_receive(&budget), "it has nothing");
        assert!(other.admit(&read(30), &budget));
        assert!(!other.admit(&read(1), &budget), "it has one request");
        end(&mut greedy, 60, &budget);
        assert!(!other.admit(&read(31), &budget), "30 are left");
        assert!(other.admit(&read(30), &budget) && !other.may_receive(&budget));
        for length in [30, 30] {
            end(&mut other, length, &budget);
        }
        end(&mut greedy, 40, &budget);
        assert!(budget.try_take(100), "nothing is left behind");
    }

    #[test]
    fn a_request_that_is_larger_than_all_memory_is_carried_out_alone() {
        let (budget, mut outgoing) = (Budget::new(10), Outgoing::default());
        assert!(outgoing.admit(&read(50), &budget) && !outgoing.admit(&read(1), &budget));
        end(&mut outgoing, 50, &budget);
        assert!(outgoing.admit(&read(50), &budget));
    }
}
