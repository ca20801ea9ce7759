//! What the thread of a connection waits for: its client's bytes, and the reads that it has begun.
//!
//! ```text
//!   no read in flight    recv: polled as long as the dispatch rule says, then it sleeps
//!   reads in flight      one io_uring_enter waits for them and for the client's bytes
//! ```
//!
//! A client that waits for each reply is like a device with a short latency: sleeping until its
//! next request costs two switches, most of it the wake-up of a halted processor. So a dispatch
//! rule decides, as it does for devices. Reads that go through the ring need no thread of the
//! store, and one call submits and collects many of them.

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use forebay_core::dispatch::{self, Class, Medium};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::job::Job;
use crate::frames::{PAGE, Page};
use crate::polled_wait::PolledWait;
use crate::uring::{Access, Lend, Outcome, Ring};

/// The input of a connection's thread.
pub(super) struct ClientIo {
    wait: PolledWait,
    ring: ReadRing,
    /// Reads in the ring.
    reads: usize,
    /// A receive is in the ring.
    receives: bool,
    /// What a receive in the ring has brought.
    received: Option<Outcome>,
    /// Memory for the client's bytes. It has none while a receive is in the ring, and before the
    /// first byte after a silence.
    buffer: Vec<Page>,
}

enum ReadRing {
    Untried,
    Ready(Box<Ring<Tag, Vec<Page>>>),
    /// The kernel has none, or forbids it.
    Refused,
}

/// What a buffer in the ring belongs to.
enum Tag {
    Read(Job, Instant),
    Receive,
}

/// A read that the ring has carried out.
pub(super) struct RingRead {
    pub(super) job: Job,
    pub(super) result: Outcome,
    pub(super) took: Duration,
}

impl ClientIo {
    /// Nothing is in flight. The rule decides how long a client behind such a `medium` is polled.
    pub(super) fn new(rule: &dispatch::Spec, medium: Medium) -> Self {
        Self {
            wait: PolledWait::new(rule, medium),
            ring: ReadRing::Untried,
            reads: 0,
            receives: false,
            received: None,
            buffer: Vec::new(),
        }
    }

    /// Reads in flight.
    pub(super) fn reads(&self) -> usize {
        self.reads
    }

    /// Whether a receive is in flight, which only the client's bytes or its end complete.
    pub(super) fn receives(&self) -> bool {
        self.receives
    }

    /// The memory of received bytes, to be [put back](Self::put_back).
    pub(super) fn take_buffer(&mut self) -> Vec<Page> {
        std::mem::take(&mut self.buffer)
    }

    pub(super) fn put_back(&mut self, buffer: Vec<Page>) {
        self.buffer = buffer;
    }

    /// Gives up the memory of the client's bytes until some have arrived.
    pub(super) fn release_buffer(&mut self) {
        self.buffer = Vec::new();
    }

    /// Sleeps until the client has sent something or has left. Nothing may be in flight.
    pub(super) fn sleep(&self, socket: impl AsFd) -> rustix::io::Result<()> {
        loop {
            match poll(&mut [PollFd::new(&socket, PollFlags::IN)], None) {
                Err(Errno::INTR) => {}
                result => return result.map(drop),
            }
        }
    }

    fn allocate_buffer(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = vec![Page([0; PAGE]); RECEIVE_PAGES];
        }
    }

    /// Begins a read of a file that stays open; returns it if the ring has no room or there is
    /// none.
    pub(super) fn begin_read(&mut self, file: BorrowedFd<'_>, mut job: Job) -> Result<(), Job> {
        if let ReadRing::Untried = self.ring {
            self.ring = match Ring::new(RING_DEPTH) {
                Ok(ring) => ReadRing::Ready(Box::new(ring)),
                Err(_) => ReadRing::Refused,
            };
        }
        match &mut self.ring {
            ReadRing::Ready(ring) if self.reads < READS_MAX => {
                let (access, buffer) = (Access::Read(job.offset()), job.take_buffer());
                ring.push(file, access, Tag::Read(job, Instant::now()), buffer);
                self.reads += 1;
                Ok(())
            }
            ReadRing::Untried | ReadRing::Ready(_) | ReadRing::Refused => Err(job),
        }
    }

    /// Waits for reads, or for bytes of the client; returns how many of these lie in the buffer.
    pub(super) fn wait(
        &mut self,
        socket: impl AsFd,
        done: &mut Vec<RingRead>,
    ) -> Option<rustix::io::Result<usize>> {
        let is_idle = self.received.is_none() && self.reads == 0 && !self.receives;
        if !self.receives {
            self.allocate_buffer();
        }
        let ReadRing::Ready(ring) = &mut self.ring else {
            return Some(self.receive(socket.as_fd()));
        };
        if is_idle {
            return Some(self.receive(socket.as_fd()));
        }
        if self.received.is_none() && !self.receives {
            let buffer = std::mem::take(&mut self.buffer);
            ring.push(socket.as_fd(), Access::Receive, Tag::Receive, buffer);
            self.receives = true;
        }
        loop {
            self.reap(done);
            if !done.is_empty() {
                return None;
            }
            if let Some(received) = self.received.take() {
                return Some(received.map_err(|error| errno(&error)));
            }
            self.enter();
        }
    }

    /// Waits until a read has ended, if one is in flight.
    pub(super) fn wait_for_reads(&mut self, done: &mut Vec<RingRead>) {
        while self.reads > 0 && done.is_empty() {
            self.reap(done);
            if done.is_empty() {
                self.enter();
            }
        }
    }

    /// Takes what the ring has completed.
    fn reap(&mut self, done: &mut Vec<RingRead>) {
        let ReadRing::Ready(ring) = &mut self.ring else { return };
        while let Some((tag, buffer, outcome)) = ring.reap() {
            match tag {
                Tag::Read(mut job, begun) => {
                    job.put_back(buffer);
                    self.reads -= 1;
                    done.push(RingRead { job, result: outcome, took: begun.elapsed() });
                }
                Tag::Receive => {
                    (self.buffer, self.receives) = (buffer, false);
                    self.received = Some(outcome);
                }
            }
        }
    }

    /// Submits what is new and waits for a completion.
    fn enter(&mut self) {
        let ReadRing::Ready(ring) = &mut self.ring else { return };
        self.wait.begin(&COMPLETION);
        ring.wait(self.wait.limit());
        self.wait.end(&COMPLETION);
    }

    /// Receives without a ring.
    fn receive(&mut self, socket: BorrowedFd<'_>) -> rustix::io::Result<usize> {
        self.wait.begin(&REQUEST);
        let bytes = self.buffer.lend();
        let polled = self.wait.poll(|| match recv(socket, &mut *bytes, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN) => None,
            result => Some(result.map(|(received, _)| received)),
        });
        let received = polled.unwrap_or_else(|| rustix::io::read(socket, bytes));
        self.wait.end(&REQUEST);
        received
    }
}

fn errno(error: &io::Error) -> Errno {
    let passes = error.kind() == ErrorKind::WouldBlock;
    Errno::from_io_error(error).filter(|_| !passes).unwrap_or(Errno::INTR)
}

impl fmt::Debug for ClientIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientIo({:?}, {} reads in flight)", self.wait, self.reads)
    }
}

/// What the rule tells apart: waits for a request alone, and waits that reads can end, too.
const REQUEST: Class = Class { write: false, bytes: PAGE as u64, ahead: false };
const COMPLETION: Class = Class { bytes: 0, ..REQUEST };

/// Pages that are received at once: 128 KiB.
pub(super) const RECEIVE_PAGES: usize = 32;

/// Accesses of a ring, the receive among them.
const RING_DEPTH: u32 = 128;
const READS_MAX: usize = RING_DEPTH as usize - 1;

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use forebay_core::serving::ZeroRange;

    use super::*;
    use crate::serve::job::Work;

    fn io() -> ClientIo {
        ClientIo::new(&dispatch::Spec::parse("deferred").unwrap(), Medium::default())
    }

    /// The ring looks at its offset and its pages alone.
    fn read(page: u64) -> Job {
        let offset = page * PAGE as u64;
        let range = ZeroRange { export: 0, request: 0, offset, len: PAGE as u64, hole: false };
        Job { work: Work::Zero(range), export: 0, buffer: vec![Page([0; PAGE])], len: PAGE }
    }

    fn file(pages: u8) -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        (0..pages).for_each(|page| file.write_all(&[page; PAGE]).unwrap());
        file
    }

    #[test]
    fn reads_and_bytes_of_the_client_are_waited_for_together() {
        let (file, (mut client, server)) = (file(3), UnixStream::pair().unwrap());
        let (mut io, mut done) = (io(), Vec::new());
        for page in [2, 0] {
            assert!(io.begin_read(file.as_fd(), read(page)).is_ok());
        }
        let mut pages = Vec::new();
        while io.reads() > 0 {
            assert!(io.wait(&server, &mut done).is_none());
            for RingRead { mut job, result, .. } in done.drain(..) {
                let bytes = result.unwrap();
                assert!(matches!(job.end_read(Ok(bytes)), Some(Ok(true))));
                let page = job.offset() / PAGE as u64;
                assert_eq!(job.buffer[0].0, [page as u8; PAGE]);
                pages.push(page);
            }
        }
        pages.sort_unstable();
        assert_eq!(pages, [0, 2]);
        assert!(io.receives(), "it has been listening meanwhile");
        client.write_all(b"more").unwrap();
        assert_eq!(io.wait(&server, &mut done), Some(Ok(4)));
        let mut buffer = io.take_buffer();
        assert_eq!(&buffer.lend()[..4], b"more");
        io.put_back(buffer);
        assert!(!io.receives());
        drop(client);
        assert_eq!(io.wait(&server, &mut done), Some(Ok(0)), "without the ring again");
    }

    #[test]
    fn bytes_that_may_not_be_received_yet_are_kept() {
        let (file, (mut client, server)) = (file(1), UnixStream::pair().unwrap());
        let (mut io, mut done) = (io(), Vec::new());
        io.begin_read(file.as_fd(), read(0)).unwrap();
        assert!(io.wait(&server, &mut done).is_none());
        client.write_all(b"request").unwrap();
        io.begin_read(file.as_fd(), read(0)).unwrap();
        done.clear();
        io.wait_for_reads(&mut done);
        assert_eq!(done.len(), 1, "the read, and not the bytes");
        assert_eq!(io.wait(&server, &mut Vec::new()), Some(Ok(7)));
    }

    #[test]
    fn a_silent_client_costs_no_buffer_until_it_sends_something() {
        let (mut client, server) = UnixStream::pair().unwrap();
        let (mut io, mut done) = (io(), Vec::new());
        assert_eq!(io.buffer.capacity(), 0, "nothing has arrived yet");
        client.write_all(b"one").unwrap();
        assert_eq!(io.wait(&server, &mut done), Some(Ok(3)));
        assert_eq!(io.buffer.len(), RECEIVE_PAGES);
        io.release_buffer();
        assert_eq!(io.buffer.capacity(), 0);
        client.write_all(b"more").unwrap();
        io.sleep(&server).unwrap();
        assert_eq!(io.wait(&server, &mut done), Some(Ok(4)));
        assert_eq!(&io.take_buffer().lend()[..4], b"more");
        drop(client);
        io.sleep(&server).unwrap();
        assert_eq!(io.wait(&server, &mut done), Some(Ok(0)), "its end wakes, too");
    }

    #[test]
    fn a_full_ring_returns_the_job_and_what_came_short_is_done_again() {
        let (file, mut io) = (file(1), io());
        for _ in 0..READS_MAX {
            io.begin_read(file.as_fd(), read(1)).unwrap();
        }
        let refused = io.begin_read(file.as_fd(), read(0)).unwrap_err();
        assert_eq!((refused.offset(), refused.buffer.len()), (0, 1), "with its pages");
        let mut done = Vec::new();
        while io.reads() > 0 {
            io.wait_for_reads(&mut done);
            for RingRead { mut job, result, .. } in done.drain(..) {
                assert!(job.end_read(result).is_none(), "the file ends before");
            }
        }
        io.wait_for_reads(&mut done);
        assert!(done.is_empty(), "nothing is in flight");
    }
}
