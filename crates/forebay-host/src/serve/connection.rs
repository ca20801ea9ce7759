//! One client: its socket, its session, and what it has not taken yet.
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

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use forebay_core::io::IoError;
use forebay_core::serving::DiskOp;
use forebay_nbd::{Agreed, Command, Ending, Errno, Event, Export, Request, Session};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg, shutdown};

use super::disk::{Disk, EndedRequest, Outcome, Owner, answer};
use super::status;

/// A client's connection.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    outgoing: Mutex<Outgoing>,
    /// Rings when a request has been answered and when replies have been taken.
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Outgoing {
    agreed: Option<Agreed>,
    /// Requests without a reply, and their bytes.
    requests: u32,
    held: usize,
    /// Replies that the client has not taken.
    queue: Vec<u8>,
    /// Bytes that a thread of its own is sending.
    sending: usize,
    is_broken: bool,
    /// Nothing more is carried out.
    is_draining: bool,
}

/// Replies that are sent together.
#[derive(Debug, Default)]
struct Batch {
    /// Headers and short replies, one behind the other.
    control: Vec<u8>,
    /// Data, each behind the part of `control` that ends here.
    data: Vec<(usize, Vec<u8>)>,
}

/// What a connection's thread works with.
struct Serving<'a> {
    connection: &'a Arc<Connection>,
    disk: &'a Disk,
    client: Option<(u32, Agreed)>,
    batch: Batch,
    outcome: Outcome,
    /// Memory for data of reads.
    spare: Vec<Vec<u8>>,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, outgoing: Mutex::default(), bell: Condvar::new() }
    }

    /// Serves the client until it leaves. Says why, if that is not its own will.
    pub(super) fn serve(
        self: &Arc<Self>,
        exports: &Arc<[Export]>,
        disk: &Disk,
    ) -> Result<(), String> {
        let mut serving = Serving {
            connection: self,
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
        drop(outgoing);
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
    ) {
        let mut outgoing = self.lock();
        let mut batch = Batch::default();
        let agreed = outgoing.agreed.expect("requests come after the handshake");
        batch.add(&agreed, request, bytes, result);
        outgoing.end(request);
        self.send(outgoing, &mut batch);
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

    /// Sends a batch, or queues what the client does not take at once.
    fn send(self: &Arc<Self>, mut outgoing: MutexGuard<'_, Outgoing>, batch: &mut Batch) {
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

    /// Has a thread send what is queued.
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
        let mut session = Session::new(Arc::clone(exports), &mut self.batch.control);
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
            session.receive(&buffer[..received], &mut self.batch.control, &mut events);
            let mut ending = None;
            for event in events.drain(..) {
                match event {
                    Event::Begin(agreed) => {
                        set_socket_timeout(socket, Timeout::Recv, None).map_err(described)?;
                        self.client = Some((self.disk.open(agreed.export), agreed));
                        self.connection.lock().agreed = Some(agreed);
                    }
                    Event::Request(request, payload) => self.take(&request, payload),
                    Event::End(end) => ending = Some(end),
                }
            }
            // What came in whole may be the last for a while.
            self.disk.dispatch(&mut self.outcome, received < RECEIVE_BYTES);
            self.collect(&mut session);
            self.send_batch();
            match ending {
                Some(Ending::Aborted | Ending::Disconnected) => return Ok(()),
                Some(Ending::Broken(why)) => return Err(why.to_owned()),
                None => {}
            }
            self.await_budget();
        }
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
                match status::extents(self.disk, agreed.export, request) {
                    Ok(extents) => agreed.extents(request, &extents, &mut self.batch.control),
                    Err(error) => {
                        let text = error.to_string();
                        agreed.error(request, Errno::Io, &text, &mut self.batch.control);
                    }
                }
                self.connection.lock().end(request);
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

    /// Puts replies of what has ended into the batch; those of others are sent.
    fn collect(&mut self, session: &mut Session) {
        let mut others = Vec::new();
        for ended in self.outcome.ended.drain(..) {
            let EndedRequest { owner, bytes, result } = ended;
            match &owner {
                Owner::Client(connection, request) if Arc::ptr_eq(connection, self.connection) => {
                    let (_, agreed) = self.client.expect("requests come after the handshake");
                    self.connection.lock().end(request);
                    if request.command == Command::Read {
                        self.batch.add(&agreed, request, bytes, result);
                    } else {
                        session.recycle(bytes);
                        self.batch.add(&agreed, request, Vec::new(), result);
                    }
                }
                Owner::Client(..) | Owner::Call(_) => {
                    others.push(EndedRequest { owner, bytes, result });
                }
            }
        }
        answer(others);
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

impl Outgoing {
    /// A request has been answered.
    fn end(&mut self, request: &Request) {
        self.requests -= 1;
        self.held -= cost(request);
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

impl Batch {
    fn add(
        &mut self,
        agreed: &Agreed,
        request: &Request,
        bytes: Vec<u8>,
        result: Result<(), IoError>,
    ) {
        match result {
            Ok(()) if request.command == Command::Read => {
                self.control.extend_from_slice(agreed.read_header(request).as_bytes());
                self.data.push((self.control.len(), bytes));
            }
            Ok(()) => agreed.ok(request, &mut self.control),
            Err(error) => {
                let errno = match error {
                    IoError::NoSpace => Errno::NoSpace,
                    IoError::ReadOnly => Errno::Permission,
                    IoError::Device
                    | IoError::Truncated
                    | IoError::BeyondEnd
                    | IoError::Corrupt
                    | IoError::NoMemory => Errno::Io,
                };
                agreed.error(request, errno, &error.to_string(), &mut self.control);
            }
        }
    }

    /// All bytes in their order.
    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        let ranges = self.data.iter().map(move |(end, bytes)| {
            let range = Range { start, end: *end };
            start = *end;
            (range, bytes)
        });
        let rest = self.data.last().map_or(0, |(end, _)| *end);
        let paired = ranges.flat_map(|(range, bytes)| [&self.control[range], &bytes[..]]);
        paired.chain([&self.control[rest..]]).filter(|part| !part.is_empty())
    }

    /// Appends all bytes but the first `sent`.
    fn flatten(&self, sent: usize, queue: &mut Vec<u8>) {
        let mut skip = sent;
        for part in self.parts() {
            let left = part.get(skip..).unwrap_or(&[]);
            skip = skip.saturating_sub(part.len());
            queue.extend_from_slice(left);
        }
    }
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

/// Parts of replies that one call sends.
const SLICES: usize = 64;

/// Memory for data of reads that is kept.
const SPARE_MAX: usize = 64;
const SPARE_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_sent_is_queued_wherever_the_client_stopped() {
        let batch = Batch {
            control: b"abcdef".to_vec(),
            data: vec![(2, b"XYZ".to_vec()), (4, Vec::new())],
        };
        let whole = b"abXYZcdef";
        for sent in 0..=whole.len() {
            let mut queue = b"-".to_vec();
            batch.flatten(sent, &mut queue);
            assert_eq!(queue[1..], whole[sent..], "{sent}");
        }
    }
}
