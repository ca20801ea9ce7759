//! io_uring: many accesses in one system call, and completions that can be waited for by looking.
//!
//! ```text
//!   push --> [ submission ring ] --enter--> kernel --> [ completion ring ] --> reap
//!                 |                                          ^
//!                 +--- slots: the buffer and its tag --------+   from push to reap
//! ```
//!
//! The kernel is lent memory in two ways: a buffer that a slot owns until its completion, or a
//! caller's slice in a call that returns only then.

#![expect(unsafe_code, reason = "the kernel is lent memory while accesses are in flight")]

use std::cell::RefCell;
use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::process;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, squeue, types};

/// One ring. It stays on the thread that made it, which the kernel takes advantage of.
pub(crate) struct Ring<T, B> {
    ring: IoUring,
    slots: Vec<Option<(T, B)>>,
    free: Vec<u32>,
}

/// Memory that the kernel uses while a ring owns it.
///
/// # Safety
/// The bytes stay where they are when the value is moved, and are reached through it alone.
pub(crate) unsafe trait Lend {
    /// The bytes.
    fn lend(&mut self) -> &mut [u8];
}

/// What the kernel does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Fills it from an offset of a file on.
    Read(u64),
    /// Writes it there.
    Write(u64),
    /// Fills it with what arrives at a socket.
    Receive,
}

/// What a completion says: bytes, or why not.
pub(crate) type Outcome = io::Result<usize>;

impl<T, B: Lend> Ring<T, B> {
    /// A ring for at most `depth` accesses.
    ///
    /// # Errors
    /// The kernel has no io_uring, or forbids it.
    pub(crate) fn new(depth: u32) -> io::Result<Self> {
        let mut ring = Self {
            ring: build(depth)?,
            slots: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
        };
        ring.probe()?;
        Ok(ring)
    }

    /// Adds an access; it leaves with the next `wait`. The file of `fd` must stay open meanwhile,
    /// or the access fails or meets another file.
    pub(crate) fn push(&mut self, fd: BorrowedFd<'_>, access: Access, tag: T, mut buffer: B) {
        let slot = self.free.pop().expect("there are no more accesses than slots");
        let bytes = buffer.lend();
        let entry = entry(fd, access, bytes.as_mut_ptr(), bytes.len());
        self.slots[slot as usize] = Some((tag, buffer));
        // SAFETY: The buffer is in the slot, and stays there untouched until its completion; its
        // bytes do not move with it. Dropping the ring waits for all slots.
        unsafe { self.push_entry(&entry.user_data(u64::from(slot))) };
    }

    /// An access that is done, without a system call.
    pub(crate) fn reap(&mut self) -> Option<(T, B, Outcome)> {
        let completion = self.ring.completion().next()?;
        let slot = u32::try_from(completion.user_data()).expect("only slots are pushed here");
        let (tag, buffer) = self.slots[slot as usize].take().expect("a slot completes once");
        self.free.push(slot);
        Some((tag, buffer, outcome(completion.result())))
    }

    /// Submits what is new. Returns whether an access is done without waiting.
    pub(crate) fn submit(&mut self) -> bool {
        self.enter(0);
        !self.ring.completion().is_empty()
    }

    /// Submits what is new and waits until an access is done: looks for it as long as `spin`, then
    /// sleeps. Returns whether one was done at once, so that nothing was waited for.
    pub(crate) fn wait(&mut self, spin: Duration) -> bool {
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

    /// How many accesses leave with the next `submit` or `wait`.
    pub(crate) fn unsubmitted(&mut self) -> usize {
        self.ring.submission().len()
    }

    /// Whether no access is pushed that was not yet reaped.
    pub(crate) fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Reads into a slice and waits for it. Also returns whether it was done at once.
    pub(crate) fn read_now(
        &mut self,
        fd: BorrowedFd<'_>,
        bytes: &mut [u8],
        offset: u64,
        spin: Duration,
    ) -> (Outcome, bool) {
        let entry = entry(fd, Access::Read(offset), bytes.as_mut_ptr(), bytes.len());
        // SAFETY: `now` returns after the completion, and the slice is borrowed until then.
        unsafe { self.now(&entry, spin) }
    }

    /// Writes a slice and waits for it.
    pub(crate) fn write_now(
        &mut self,
        fd: BorrowedFd<'_>,
        bytes: &[u8],
        offset: u64,
        spin: Duration,
    ) -> (Outcome, bool) {
        // The kernel only reads what it writes to a file.
        let entry = entry(fd, Access::Write(offset), bytes.as_ptr().cast_mut(), bytes.len());
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
        enter(&mut self.ring, want);
    }
}

impl<T, B> Drop for Ring<T, B> {
    fn drop(&mut self) {
        while self.free.len() < self.slots.len() {
            while let Some(completion) = self.ring.completion().next() {
                self.free.push(completion.user_data() as u32);
            }
            if self.free.len() < self.slots.len() {
                enter(&mut self.ring, 1);
            }
        }
    }
}

/// Submits what is new and waits for so many completions.
fn enter(ring: &mut IoUring, want: usize) {
    loop {
        let Err(error) = ring.submit_and_wait(want) else { return };
        // A signal, or no memory or room for the moment: nothing is lost, and taking what is
        // complete makes room.
        let passes = [ErrorKind::Interrupted, ErrorKind::WouldBlock, ErrorKind::ResourceBusy];
        if !passes.contains(&error.kind()) {
            abandon(&error);
        }
        if want == 0 || !ring.completion().is_empty() {
            return;
        }
    }
}

/// A ring for calls that wait: it owns no buffer.
pub(crate) type CallRing = Ring<Infallible, Nothing>;

/// No memory.
pub(crate) enum Nothing {}

// SAFETY: There is no value of it.
unsafe impl Lend for Nothing {
    fn lend(&mut self) -> &mut [u8] {
        match *self {}
    }
}

/// Lends this thread's own ring, or says why there is none.
pub(crate) fn with_own<T>(use_ring: impl FnOnce(Result<&mut CallRing, &io::Error>) -> T) -> T {
    thread_local! {
        static OWN: RefCell<Option<io::Result<CallRing>>> = const { RefCell::new(None) };
    }
    OWN.with_borrow_mut(|own| {
        let own = own.get_or_insert_with(|| Ring::new(OWN_DEPTH));
        use_ring(own.as_mut().map_err(|error| &*error))
    })
}

/// A call that waits has one access in flight.
const OWN_DEPTH: u32 = 1;

/// The most bytes that one access moves; the kernel moves no more than 2 GiB less a page at once.
pub(crate) const BYTES_MAX: usize = 1 << 30;

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

fn entry(fd: BorrowedFd<'_>, access: Access, bytes: *mut u8, len: usize) -> squeue::Entry {
    let fd = types::Fd(fd.as_raw_fd());
    let len = len.min(BYTES_MAX) as u32;
    match access {
        Access::Read(offset) => opcode::Read::new(fd, bytes, len).offset(offset).build(),
        Access::Write(offset) => opcode::Write::new(fd, bytes, len).offset(offset).build(),
        Access::Receive => opcode::Recv::new(fd, bytes, len).build(),
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
            ring.push(file.as_fd(), Access::Read(token << 12), token, Buffer::new(1 << 12));
        }
        assert!(!ring.is_idle());
        ring.wait(Duration::ZERO);
        assert!(ring.reap().is_some());
        drop(ring);
    }

    #[test]
    fn an_error_of_the_kernel_is_an_outcome() {
        let read_only = std::fs::File::open("/dev/null").unwrap();
        let mut ring = CallRing::new(1).unwrap();
        let (result, _) = ring.write_now(read_only.as_fd(), &[1], 0, Duration::MAX);
        assert!(result.is_err());
    }
}
