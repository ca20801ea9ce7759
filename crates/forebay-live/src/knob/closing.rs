//! Descriptors that are closed elsewhere: a server that hangs blocks the thread that closes its
//!                                        file.
//!
//! Source:     close(2): a file system may wait for its server, as FUSE does to flush and NFS to
//!             write, also for a copy of a descriptor that another process keeps open.
//! Behaviour:  what is given here is closed by a thread that lives as long as there is something to
//!             close. One that hangs leaves the others their turn.
//! Differs:    nothing.
//! Not for:    the end of the process, which the kernel lets wait for the same server.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Closes a descriptor as soon as its file system lets it.
pub(super) fn close(descriptor: OwnedFd) {
    static CLOSING: Mutex<Option<Closing<OwnedFd>>> = Mutex::new(None);
    let mut closing = CLOSING.lock().unwrap_or_else(PoisonError::into_inner);
    closing.get_or_insert_with(Closing::new).give(descriptor);
}

/// Things whose end may take long.
struct Closing<T>(Arc<Mutex<State<T>>>);

struct State<T> {
    waiting: VecDeque<T>,
    threads: usize,
}

impl<T: Send + 'static> Closing<T> {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(State { waiting: VecDeque::new(), threads: 0 })))
    }

    /// Takes a thing and returns at once. If so many hang that no thread is left, it waits.
    fn give(&self, thing: T) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.push_back(thing);
        if state.threads >= THREADS_MAX {
            return;
        }
        let shared = Arc::clone(&self.0);
        let thread = thread::Builder::new().name("closing".to_owned()).stack_size(STACK);
        if thread.spawn(move || work(&shared)).is_ok() {
            state.threads += 1;
        } else if state.threads == 0 {
            // No other thread will.
            let thing = state.waiting.pop_back();
            drop(state);
            drop(thing);
        }
    }
}

fn work<T>(shared: &Mutex<State<T>>) {
    loop {
        let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(thing) = state.waiting.pop_front() else {
            state.threads -= 1;
            return;
        };
        drop(state);
        drop(thing);
    }
}

/// Servers that hang at once, before the next one's files stay open.
const THREADS_MAX: usize = 8;

/// Bytes: a thread does nothing but a call of the system.
const STACK: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Says that it ends, and ends when it may.
    struct Slow {
        says: Sender<u32>,
        number: u32,
        may: Option<Receiver<()>>,
    }

    impl Drop for Slow {
        fn drop(&mut self) {
            self.says.send(self.number).unwrap();
            if let Some(may) = &self.may {
                let _ = may.recv();
            }
        }
    }

    #[test]
    fn what_hangs_blocks_neither_its_sender_nor_what_comes_after() {
        let (says, said) = channel();
        let closing = Closing::new();
        let mut hang = Vec::new();
        for number in 0..THREADS_MAX as u32 - 1 {
            let (may, waits) = channel();
            hang.push(may);
            closing.give(Slow { says: says.clone(), number, may: Some(waits) });
            assert_eq!(said.recv(), Ok(number), "it has begun to end, and hangs");
        }
        for number in 100..200 {
            closing.give(Slow { says: says.clone(), number, may: None });
        }
        let mut others: Vec<u32> = (100..200).map(|_| said.recv().unwrap()).collect();
        others.sort_unstable();
        assert_eq!(others, (100..200).collect::<Vec<_>>());
        drop(hang);
    }

    #[test]
    fn a_descriptor_is_closed() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        close(write);
        // The end of the pipe comes when its other side is closed.
        assert_eq!(rustix::io::read(&read, &mut [0; 1]), Ok(0));
    }
}
