//! The thread of a connection: bytes of the client in, requests to the disk, replies in batches.
//!
//! ```text
//!   recv --> Session --> requests --> Disk --ended--> Batch --> Connection
//! ```

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::io::IoError;
use forebay_core::serving::DiskOp;
use forebay_core::time;
use forebay_nbd::{Agreed, Command, Ending, Errno, Event, Export, Request, Session, TlsPolicy};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::batch::Batch;
use super::{Connection, Outgoing, Refusal, RequestLine};
use crate::processor::nanos;
use crate::serve::client_io::{ClientIo, RingRead};
use crate::serve::disk::{Disk, EndedRequest, Outcome, Owner};
use crate::serve::event::ServeEvent;
use crate::serve::status;
use crate::uring::Lend;

/// Serves a client until it leaves, and logs it.
pub(in crate::serve) fn serve_client(
    connection: &Arc<Connection>,
    exports: &Arc<[Export]>,
    disk: &Disk,
) {
    let (client, log) = (connection.number, &connection.monitor.log);
    log(&ServeEvent::Connected { client, peer: &connection.peer });
    let serve = || serve_requests(connection, exports, disk);
    let ended = catch_unwind(AssertUnwindSafe(serve)).unwrap_or_else(|_| {
        connection.hang_up();
        Err("serving it broke down".to_owned())
    });
    let (counters, why) = (connection.lock().counters, ended.err());
    log(&ServeEvent::Left { client, counters, why: why.as_deref() });
}

/// Serves a client until it leaves. Says why, if that is not its own will.
fn serve_requests(
    connection: &Arc<Connection>,
    exports: &Arc<[Export]>,
    disk: &Disk,
) -> Result<(), String> {
    let mut serving = Serving::new(connection, disk);
    let ended = serving.run(exports);
    // Requests that are under way are answered before the client's descriptions are closed.
    let mut outgoing = connection.lock();
    while outgoing.requests > 0 {
        outgoing = connection.wait(outgoing);
    }
    let unsent = |outgoing: &Outgoing| outgoing.queue.len() + outgoing.sending > 0;
    while unsent(&outgoing) && !outgoing.is_broken {
        outgoing = connection.wait(outgoing);
    }
    if let Some(mut tls) = outgoing.tls.take() {
        let mut batch = Batch::default();
        tls.close(&mut batch.control);
        connection.push(outgoing, &mut batch);
    } else {
        drop(outgoing);
    }
    if let Some(client) = serving.client() {
        disk.close(client);
    }
    connection.hang_up();
    ended
}

/// What a connection's thread works with.
struct Serving<'a> {
    connection: &'a Arc<Connection>,
    /// What arrived encrypted, in plain text.
    plain: Vec<u8>,
    is_secure: bool,
    disk: &'a Disk,
    io: ClientIo,
    client: Option<(u32, Agreed)>,
    batch: Batch,
    outcome: Outcome,
    /// Memory for data of reads.
    spare: Vec<Vec<u8>>,
}

impl<'a> Serving<'a> {
    fn new(connection: &'a Arc<Connection>, disk: &'a Disk) -> Self {
        let io = ClientIo::new(&connection.monitor.dispatch, connection.peer.medium());
        Self {
            connection,
            plain: Vec::new(),
            is_secure: false,
            disk,
            io,
            client: None,
            batch: Batch::default(),
            outcome: Outcome::default(),
            spare: Vec::new(),
        }
    }

    /// Serves the client until it leaves; the reads of its thread have ended then. Says why it was
    /// left, if that is not its own will.
    fn run(&mut self, exports: &Arc<[Export]>) -> Result<(), String> {
        let ended = self.receive_requests(exports);
        self.end_reads();
        ended
    }

    /// The client of the disk, if the handshake has ended.
    fn client(&self) -> Option<u32> {
        self.client.map(|(client, _)| client)
    }

    fn receive_requests(&mut self, exports: &Arc<[Export]>) -> Result<(), String> {
        let begin = Instant::now();
        let socket = &self.connection.socket;
        let tls = self.connection.monitor.tls.as_ref();
        let policy = tls.map_or(TlsPolicy::Off, |(_, policy)| *policy);
        let mut session = Session::new(Arc::clone(exports), policy, &mut self.batch.control);
        self.send_batch();
        let mut events = Vec::new();
        loop {
            if !session.has_begun() {
                let left = HANDSHAKE_TIME.saturating_sub(begin.elapsed());
                let left = left.max(Duration::from_millis(1));
                set_socket_timeout(socket, Timeout::Recv, Some(left)).map_err(described)?;
            }
            let received = match self.wait(&mut session) {
                Ok(0) => return Ok(()),
                Ok(received) => received,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) if session.has_begun() => {
                    self.release_memory();
                    session.release_memory();
                    self.io.sleep(socket).map_err(described)?;
                    continue;
                }
                Err(rustix::io::Errno::AGAIN) => {
                    return Err("the handshake took more than 10 s".to_owned());
                }
                // It hung up.
                Err(rustix::io::Errno::CONNRESET) => return Ok(()),
                Err(error) => return Err(described(error)),
            };
            let mut buffer = self.io.take_buffer();
            let bytes = &buffer.lend()[..received];
            let taken = self.receive(&mut session, bytes, &mut events);
            let is_full = received == buffer.lend().len();
            self.io.put_back(buffer);
            taken?;
            let (mut ending, mut starts_tls) = (None, false);
            for event in events.drain(..) {
                match event {
                    Event::StartTls => starts_tls = true,
                    Event::Begin(agreed) => {
                        let idle = Some(IDLE_TIME);
                        set_socket_timeout(socket, Timeout::Recv, idle).map_err(described)?;
                        self.begin(agreed, &exports[agreed.export].name);
                    }
                    Event::Refused(request, _, why) => self.note_refusal(request, why),
                    Event::Request(request, payload) => self.take(&mut session, &request, payload),
                    Event::End(end) => ending = Some(end),
                }
            }
            // What came in whole may be the last for a while.
            self.disk.dispatch(&mut self.outcome, !is_full, Some(&mut self.io));
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
        }
    }

    /// Waits for bytes of the client, and finishes the reads that end meanwhile.
    fn wait(&mut self, session: &mut Session) -> rustix::io::Result<usize> {
        let mut done = Vec::new();
        loop {
            self.await_room(session);
            let received = self.io.wait(&self.connection.socket, &mut done);
            if let Some(received) = received {
                return received;
            }
            self.finish_reads(&mut done);
            self.disk.dispatch(&mut self.outcome, false, Some(&mut self.io));
            self.collect(session);
            self.send_batch();
        }
    }

    /// Begins what was taken, and waits until the client's requests and untaken replies are few
    /// enough for another one.
    fn await_room(&mut self, session: &mut Session) {
        loop {
            let outgoing = self.connection.lock();
            if outgoing.may_receive(&self.connection.monitor.budget) {
                return;
            }
            let before = outgoing.holdings();
            drop(outgoing);
            self.make_room(session, before);
        }
    }

    /// Begins what was taken, and waits until the client has not the requests and untaken replies
    /// that it had `before`.
    fn make_room(&mut self, session: &mut Session, before: (u32, usize)) {
        self.disk.dispatch(&mut self.outcome, true, Some(&mut self.io));
        self.collect(session);
        self.send_batch();
        if self.io.reads() == 0 {
            if !self.connection.monitor.budget.has_room() {
                self.spare = Vec::new();
            }
            self.connection.await_change(before);
        } else {
            let mut done = Vec::new();
            self.io.wait_for_reads(&mut done);
            self.finish_reads(&mut done);
        }
    }

    fn finish_reads(&mut self, done: &mut Vec<RingRead>) {
        for read in done.drain(..) {
            self.disk.finish_read(read, &mut self.outcome);
        }
    }

    /// Gives up memory that a client without requests in flight does not need.
    fn release_memory(&mut self) {
        (self.spare, self.plain, self.batch) = (Vec::new(), Vec::new(), Batch::default());
        self.io.release_buffer();
    }

    /// Finishes all reads of this thread's ring.
    fn end_reads(&mut self) {
        while self.disk.finish_reads(&mut self.io, &mut self.outcome) {
            self.disk.dispatch(&mut self.outcome, false, None);
            self.disk.answer(mem::take(&mut self.outcome.ended));
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
    fn take(&mut self, session: &mut Session, request: &Request, payload: Vec<u8>) {
        let (client, agreed) = self.client.expect("requests come after the handshake");
        // Requests that came in one piece may ask for any amount of memory.
        if !self.admit(session, request) {
            // A client that connects again sends it again; an error would be for good.
            return;
        }
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
        let Self { disk, io, outcome, .. } = self;
        disk.request(client, op, (owner, bytes), outcome, |outcome| disk.finish_reads(io, outcome));
    }

    /// Waits until there is room for a request, and counts it. False if nothing is carried out any
    /// more.
    fn admit(&mut self, session: &mut Session, request: &Request) -> bool {
        loop {
            let mut outgoing = self.connection.lock();
            if outgoing.is_draining || outgoing.is_broken {
                return false;
            }
            if outgoing.admit(request, &self.connection.monitor.budget) {
                return true;
            }
            let before = outgoing.holdings();
            drop(outgoing);
            self.make_room(session, before);
        }
    }

    /// Puts replies of what has ended into the batch; those of others are sent.
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
}

impl Drop for Serving<'_> {
    /// Its reads are under way for others, too, so they end also where serving it broke down.
    fn drop(&mut self) {
        if self.io.receives() {
            self.connection.hang_up();
        }
        self.end_reads();
    }
}

fn described(error: rustix::io::Errno) -> String {
    std::io::Error::from(error).to_string()
}

/// Time for a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// After so long without a request the memory for requests is given up.
const IDLE_TIME: Duration = Duration::from_secs(1);

/// Memory for data of reads that is kept.
const SPARE_MAX: usize = 64;
const SPARE_BYTES: usize = 256 << 10;
