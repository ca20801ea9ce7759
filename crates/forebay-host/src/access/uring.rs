//! io_uring: many accesses in one system call, and completions that can be waited for by looking.
//!
//! ```text
//!   push --> [ submission ring ] --enter--> kernel --> [ completion ring ] --> reap
//!                 |                                          ^
//!                 +--- slots: the order and its buffer ------+   from push to reap
//! ```
//!
//! All unsafe code of accesses is here. The kernel is lent memory in two ways: a buffer that a
//! slot owns until its completion, or a caller's slice in a call that returns only then.

#![expect(unsafe_code, reason = "the kernel is lent memory while accesses are in flight")]

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::process;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, squeue, types};

use super::Order;

/// One ring. It stays on the thread that made it, which the kernel takes advantage of.
pub(super) struct Ring {
    ring: IoUring,
    slots: Vec<Option<Order>>,
    free: Vec<u32>,
}

/// What a completion says: bytes, or why not.
pub(super) type Outcome = io::Result<usize>;

impl Ring {
    /// A ring for at most `depth` orders.
    ///
    /// # Errors
    /// The kernel has no io_uring, or forbids it.
    pub(super) fn new(depth: u32) -> io::Result<Self> {
        let mut ring = Self {
            ring: build(depth)?,
            slots: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
        };
        ring.probe()?;
        Ok(ring)
    }

    /// Adds an order; the next `wait` submits it. The file of `fd` must stay open until then, or
    /// the access fails or uses another file.
    pub(super) fn push(&mut self, fd: BorrowedFd<'_>, mut order: Order) {
        let slot = self.free.pop().expect("there are no more orders than slots");
        let (offset, write) = (order.offset, order.write);
        let entry = entry(fd, write, order.buffer.as_mut_ptr(), order.buffer.len(), offset);
        self.slots[slot as usize] = Some(order);
        // SAFETY: The buffer is in the slot, and stays there untouched until its completion; its
        // bytes do not move with it. Dropping the ring waits for all slots.
        unsafe { self.push_entry(&entry.user_data(u64::from(slot))) };
    }

    /// An order that is done, without a system call.
    pub(super) fn reap(&mut self) -> Option<(Order, Outcome)> {
        let completion = self.ring.completion().next()?;
        let slot = u32::try_from(completion.user_data()).expect("only slots are pushed here");
        let order = self.slots[slot as usize].take().expect("a slot completes once");
        self.free.push(slot);
        Some((order, outcome(completion.result())))
    }

    /// Submits new orders. Returns whether an order has completed without waiting.
    pub(super) fn submit(&mut self) -> bool {
        self.enter(0);
        !self.ring.completion().is_empty()
    }

    /// Submits new orders and waits until one has completed: polls for `spin`, then sleeps. Returns
    /// whether one had completed at once, without a wait.
    pub(super) fn wait(&mut self, spin: Duration) -> bool {
        if spin.is_zero() {
            self.enter(1);
            return false;
        }
        if self.submit() {
            return true;
        }
        let begin = Instant::now();
        loop {
            // Completions of this ring are made by its own thread, when it enters the kernel.
            let submission = self.ring.submission();
            let has_work = submission.taskrun() || !submission.is_empty();
            drop(submission);
            if has_work {
                self.enter(0);
            }
            if !self.ring.completion().is_empty() {
                return false;
            }
            if begin.elapsed() >= spin {
                self.enter(1);
                return false;
            }
            std::hint::spin_loop();
        }
    }

    /// How many orders leave with the next `submit` or `wait`.
    pub(super) fn unsubmitted(&mut self) -> usize {
        self.ring.submission().len()
    }

    /// Whether no order is pushed that was not yet reaped.
    pub(super) fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Reads into a slice and waits for it. Also returns whether it was done at once.
    pub(super) fn read_now(
        &mut self,
        fd: BorrowedFd<'_>,
        bytes: &mut [u8],
        offset: u64,
        spin: Duration,
    ) -> (Outcome, bool) {
        let entry = entry(fd, false, bytes.as_mut_ptr(), bytes.len(), offset);
        // SAFETY: `now` returns after the completion, and the slice is borrowed until then.
        unsafe { self.now(&entry, spin) }
    }

    /// Writes a slice and waits for it.
    pub(super) fn write_now(
        &mut self,
        fd: BorrowedFd<'_>,
        bytes: &[u8],
        offset: u64,
        spin: Duration,
    ) -> (Outcome, bool) {
        // The kernel only reads the bytes that it writes to a file.
        let entry = entry(fd, true, bytes.as_ptr().cast_mut(), bytes.len(), offset);
        // SAFETY: `now` returns after the completion, and the slice is borrowed until then.
        unsafe { self.now(&entry, spin) }
    }

    /// Submits one entry on an idle ring and waits for it.
    ///
    /// # Safety
    /// The entry's memory is valid until this returns.
    unsafe fn now(&mut self, entry: &squeue::Entry, spin: Duration) -> (Outcome, bool) {
        assert!(self.is_idle(), "a call that waits has the ring to itself");
        // SAFETY: By the caller's promise.
        unsafe { self.push_entry(entry) };
        let mut at_once = self.wait(spin);
        loop {
            if let Some(completion) = self.ring.completion().next() {
                return (outcome(completion.result()), at_once);
            }
            at_once = false;
            self.enter(1);
        }
    }

    /// # Safety
    /// The entry's memory is valid until its completion.
    unsafe fn push_entry(&mut self, entry: &squeue::Entry) {
        // SAFETY: By the caller's promise.
        let pushed = unsafe { self.ring.submission().push(entry) };
        assert!(pushed.is_ok(), "the ring has as many entries as slots");
    }

    /// Whether the kernel lets this ring be entered: one may be made and yet not be used.
    fn probe(&mut self) -> io::Result<()> {
        let nothing = opcode::Nop::new().build();
        // SAFETY: Doing nothing needs no memory.
        unsafe { self.push_entry(&nothing) };
        self.ring.submit_and_wait(1)?;
        self.ring.completion().next().map(drop).ok_or_else(|| ErrorKind::Other.into())
    }

    fn enter(&mut self, want: usize) {
        loop {
            let Err(error) = self.ring.submit_and_wait(want) else { return };
            // A signal, or a temporary lack of memory or space: nothing is lost, and taking
            // completions frees space.
            let passes = [ErrorKind::Interrupted, ErrorKind::WouldBlock, ErrorKind::ResourceBusy];
            if !passes.contains(&error.kind()) {
                abandon(&error);
            }
            if want == 0 || !self.ring.completion().is_empty() {
                return;
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while !self.is_idle() {
            if self.reap().is_none() {
                self.enter(1);
            }
        }
    }
}

/// Lends this thread's own ring, or says why there is none.
pub(super) fn with_own<T>(use_ring: impl FnOnce(Result<&mut Ring, &io::Error>) -> T) -> T {
    thread_local! {
        static OWN: RefCell<Option<io::Result<Ring>>> = const { RefCell::new(None) };
    }
    OWN.with_borrow_mut(|own| {
        let own = own.get_or_insert_with(|| Ring::new(OWN_DEPTH));
        use_ring(own.as_mut().map_err(|error| &*error))
    })
}

/// A call that waits has one access in flight.
const OWN_DEPTH: u32 = 1;

/// The most bytes that one access moves; the kernel moves no more than 2 GiB less a page at once.
pub(super) const BYTES_MAX: usize = 1 << 30;

/// The ring with what the kernel has to make it cheap; older kernels know less.
fn build(depth: u32) -> io::Result<IoUring> {
    let plain = || IoUring::builder();
    let mut deferred = plain();
    deferred.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    let mut cooperative = plain();
    cooperative.setup_coop_taskrun().setup_taskrun_flag();
    let mut error = io::Error::from(ErrorKind::Unsupported);
    for builder in [deferred, cooperative, plain()] {
        match builder.build(depth) {
            Ok(ring) => return Ok(ring),
            Err(refused) if refused.kind() == ErrorKind::InvalidInput => error = refused,
            Err(refused) => return Err(refused),
        }
    }
    Err(error)
}

fn entry(
    fd: BorrowedFd<'_>,
    write: bool,
    bytes: *mut u8,
    len: usize,
    offset: u64,
) -> squeue::Entry {
    let fd = types::Fd(fd.as_raw_fd());
    let len = len.min(BYTES_MAX) as u32;
    if write {
        opcode::Write::new(fd, bytes, len).offset(offset).build()
    } else {
        opcode::Read::new(fd, bytes, len).offset(offset).build()
    }
}

fn outcome(result: i32) -> Outcome {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

/// The kernel may still write to lent memory, and does not report when it is done: continuing is
/// not safe.
fn abandon(error: &io::Error) -> ! {
    eprintln!("io_uring broke down with accesses in flight: {error}");
    process::abort();
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;
    use crate::access::Buffer;

    #[test]
    fn a_dropped_ring_has_waited_for_what_was_in_flight() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 1 << 16]).unwrap();
        let mut ring = Ring::new(4).unwrap();
        for token in 0..4 {
            let (offset, buffer) = (token << 12, Buffer::new(1 << 12));
            ring.push(file.as_fd(), Order { write: false, offset, buffer, token });
        }
        assert!(!ring.is_idle());
        ring.wait(Duration::ZERO);
        assert!(ring.reap().is_some());
        drop(ring);
    }

    #[test]
    fn an_error_of_the_kernel_is_an_outcome() {
        let read_only = std::fs::File::open("/dev/null").unwrap();
        let mut ring = Ring::new(1).unwrap();
        let (result, _) = ring.write_now(read_only.as_fd(), &[1], 0, Duration::MAX);
        assert!(result.is_err());
    }
}
