//! Many accesses in flight, from one thread.
//!
//! ```text
//!   read, write --> [ in flight: at most depth ] --> wait
//! ```
//!
//! With io_uring, new orders are submitted when a caller waits and nothing has completed: one
//! system call submits all new orders and returns all completed ones. A read of cached bytes
//! completes in that same call. The ring therefore makes the attempt that `RWF_NOWAIT` makes
//! elsewhere, for many reads at once.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use forebay_core::dispatch::Class;

pub use super::file::Completion;
use super::file::{Inner, limit, no_ring};
use super::judge::{Guess, Hits, Judge};
use super::medium::Device;
use super::{AccessError, Buffer, File, Finish, Mode, Order, Refused, Workers, plain};
use crate::uring::{Access, Ring};

/// The greatest depth of a queue.
pub const DEPTH_MAX: usize = 4096;

/// A file with room for many accesses in flight. It stays on the thread that made it.
#[derive(Debug)]
pub struct Queue {
    /// Dropped first: it waits for accesses in flight.
    way: Way,
    file: Arc<Inner>,
    depth: usize,
    in_flight: usize,
    /// What ended before a caller waited.
    done: VecDeque<Completion>,
    hits: Hits,
    spare: Vec<Buffer>,
    note: Option<String>,
    /// The kernel optimizes a ring that only one thread uses.
    stays: PhantomData<Rc<()>>,
}

enum Way {
    Inline,
    Workers { workers: Workers, answer: Sender<Finish>, answers: Receiver<Finish> },
    Ring { ring: Box<OrderRing>, looks: Looks },
}

/// A ring whose buffers belong to an offset, a direction and a token.
type OrderRing = Ring<(Access, u64), Buffer>;

/// How long a waiter polls the ring for a completion.
enum Looks {
    Never,
    Always,
    /// By the rule, which learns the waits of this queue: not how long an access takes, but how
    /// long it is until the first of many has completed. They vary with the sizes of the accesses.
    Rule {
        judge: Box<Judge>,
        class: Class,
        offset: u64,
    },
}

impl Queue {
    /// A queue of a file, for 1 to [`DEPTH_MAX`] accesses; `depth` beyond it is cut.
    ///
    /// # Errors
    /// Worker threads cannot be started.
    pub fn new(file: &File, depth: usize) -> Result<Self, AccessError> {
        let depth = depth.clamp(1, DEPTH_MAX);
        let file = Arc::clone(file.inner());
        let mode = file.options.mode;
        let mut note = None;
        let mut way = (mode == Mode::Inline).then_some(Way::Inline);
        if mode.uses_ring() && file.options.uring {
            match Ring::new(depth as u32) {
                Ok(ring) => {
                    way = Some(Way::Ring { ring: Box::new(ring), looks: Looks::of(mode, &file) });
                }
                Err(error) => note = Some(no_ring(mode, &error.to_string())),
            }
        }
        let way = match way {
            Some(way) => way,
            None => {
                let workers = file.workers(depth)?;
                let (answer, answers) = unbounded();
                Way::Workers { workers, answer, answers }
            }
        };
        let (done, hits, spare) = (VecDeque::new(), Hits::new(), Vec::new());
        let stays = PhantomData;
        Ok(Self { way, file, depth, in_flight: 0, done, hits, spare, note, stays })
    }

    /// Adds a read that fills the buffer, or what there is before the end of the file.
    ///
    /// # Errors
    /// All places are taken, or the read is not aligned past the page cache; with the buffer.
    pub fn read(&mut self, offset: u64, buffer: Buffer, token: u64) -> Result<(), Refused> {
        self.add(Order { write: false, offset, buffer, token })
    }

    /// Adds a write of the whole buffer. Accesses in flight that overlap have no order.
    ///
    /// # Errors
    /// All slots are used, the file is open read-only, or the write is not aligned for direct I/O;
    /// with the buffer.
    pub fn write(&mut self, offset: u64, buffer: Buffer, token: u64) -> Result<(), Refused> {
        self.add(Order { write: true, offset, buffer, token })
    }

    /// Waits until an access has ended; none if none is in flight.
    pub fn wait(&mut self) -> Option<Completion> {
        if self.in_flight == 0 {
            return None;
        }
        self.in_flight -= 1;
        if let Some(done) = self.done.pop_front() {
            return Some(done);
        }
        match &mut self.way {
            Way::Inline => unreachable!("what is carried out on the spot is done"),
            Way::Workers { answers, .. } => {
                Some(answers.recv().expect("a sender of answers is kept here").into())
            }
            Way::Ring { ring, looks } => loop {
                if let Some(((access, token), buffer, outcome)) = ring.reap() {
                    let (write, offset) = match access {
                        Access::Write(offset) => (true, offset),
                        Access::Read(offset) => (false, offset),
                        Access::Receive => unreachable!("a file is no socket"),
                    };
                    let order = Order { write, offset, buffer, token };
                    return Some(self.file.end(order, outcome));
                }
                looks.wait(ring);
            },
        }
    }

    /// A buffer of `len` bytes, one of the returned buffers if one fits; its contents are
    /// arbitrary.
    pub fn buffer(&mut self, len: usize) -> Buffer {
        match self.spare.pop() {
            Some(buffer) if buffer.len() == len => buffer,
            Some(_) | None => Buffer::new(len),
        }
    }

    /// Takes a buffer back, to be used again.
    pub fn recycle(&mut self, buffer: Buffer) {
        if self.spare.len() < self.depth {
            self.spare.push(buffer);
        }
    }

    /// How many accesses are in flight: added, and not yet returned by [`wait`](Self::wait).
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many there may be.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// One line that reports a difference from the request: there is no ring of this depth.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    fn add(&mut self, mut order: Order) -> Result<(), Refused> {
        if self.in_flight == self.depth {
            let error = AccessError::Full { depth: self.depth };
            return Err(Refused { error, buffer: order.buffer });
        }
        if let Err(error) = self.file.check(order.write, &order.buffer, order.offset) {
            return Err(Refused { error, buffer: order.buffer });
        }
        self.in_flight += 1;
        if self.is_done_at_once(&mut order) {
            let (token, result) = (order.token, Ok(order.buffer.len()));
            self.done.push_back(Completion { token, result, buffer: order.buffer });
            return Ok(());
        }
        let adaptive = self.file.options.mode == Mode::Adaptive;
        match &mut self.way {
            Way::Inline => self.done.push_back(self.file.carry_out(order)),
            // The thread that brings bytes copies them to the page cache: few file systems take
            // them without waiting, and for the others the ring would wake a thread.
            Way::Workers { .. } | Way::Ring { .. }
                if adaptive && order.write && !self.file.options.direct =>
            {
                self.done.push_back(self.file.carry_out(order));
            }
            Way::Workers { workers, answer, .. } => workers.send(order, answer),
            Way::Ring { ring, looks } => {
                looks.see(&order);
                let Order { write, offset, buffer, token } = order;
                let access = if write { Access::Write(offset) } else { Access::Read(offset) };
                ring.push(self.file.file.as_fd(), access, (access, token), buffer);
            }
        }
        Ok(())
    }

    /// Tries a read of cached data, if the way does not do so itself and it may help.
    fn is_done_at_once(&mut self, order: &mut Order) -> bool {
        let options = self.file.options;
        if order.write || options.direct {
            return false;
        }
        match (&self.way, options.mode) {
            (Way::Inline, _) => {
                plain::read_cached(&self.file.file, &mut order.buffer, order.offset)
            }
            (Way::Workers { .. }, Mode::Adaptive) => {
                if self.hits.guess(order.buffer.len()) == Guess::Miss {
                    return false;
                }
                let hit = plain::read_cached(&self.file.file, &mut order.buffer, order.offset);
                self.hits.learn(order.buffer.len(), hit);
                hit
            }
            (Way::Workers { .. } | Way::Ring { .. }, _) => false,
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Buffers are dropped, but writes complete.
        while self.wait().is_some() {}
    }
}

impl Looks {
    fn of(mode: Mode, file: &Inner) -> Self {
        match mode {
            Mode::Spin => Self::Always,
            Mode::Adaptive => {
                let judge = Box::new(Judge::new(Device::of(&file.file)));
                let class = Class { write: false, bytes: 0, ahead: false };
                Self::Rule { judge, class, offset: 0 }
            }
            Mode::Inline | Mode::Deferred | Mode::Uring => Self::Never,
        }
    }

    /// Remembers the last access.
    fn see(&mut self, order: &Order) {
        if let Self::Rule { class, offset, .. } = self {
            let bytes = order.buffer.len() as u64;
            (*class, *offset) = (Class { write: order.write, bytes, ahead: false }, order.offset);
        }
    }

    /// Submits what is new and waits until something has ended.
    fn wait(&mut self, ring: &mut OrderRing) {
        match self {
            Self::Never => _ = ring.wait(Duration::ZERO),
            Self::Always => _ = ring.wait(Duration::MAX),
            Self::Rule { judge, class, offset } => {
                let (_, how) = judge.choose(class);
                let spin = limit(how);
                // The time of many submissions is none that was waited for.
                if spin.is_zero() && ring.unsubmitted() > 1 {
                    ring.wait(spin);
                    return;
                }
                if !spin.is_zero() && ring.submit() {
                    return;
                }
                let begin = Instant::now();
                ring.wait(spin);
                judge.learn(begin, *offset, class, how);
            }
        }
    }
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Inline => "Inline",
            Self::Workers { .. } => "Workers",
            Self::Ring { .. } => "Ring",
        })
    }
}
