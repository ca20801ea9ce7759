//! Worker threads that carry out accesses while others go on.
//!
//! Waking a halted processor is what costs most on a virtual machine, so one worker at a time
//! looks for the next access as long as that takes before it sleeps.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};

use super::Order;
use super::file::{Completion, Inner};
use crate::processor;

/// The most threads of one queue: beyond it devices have enough to choose from.
const WORKERS_MAX: usize = 64;

/// Threads over one file.
#[derive(Debug)]
pub(super) struct Workers {
    /// Workers end when it is gone.
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

/// An order and who waits for it.
#[derive(Debug)]
struct Job {
    order: Order,
    answer: Sender<Completion>,
}

impl Workers {
    /// Starts a thread for each of `depth` accesses.
    pub(super) fn start(file: &Arc<Inner>, depth: usize) -> io::Result<Self> {
        let (jobs, receiver) = unbounded::<Job>();
        let mut workers = Self { jobs: Some(jobs), threads: Vec::new() };
        let looking = Arc::new(AtomicBool::new(false));
        let look = processor::costs().idle;
        for number in 0..depth.min(WORKERS_MAX) {
            let (file, jobs, looking) = (Arc::clone(file), receiver.clone(), Arc::clone(&looking));
            let work = move || {
                while let Some(job) = next(&jobs, &looking, look) {
                    // Whoever asked may be gone.
                    let _ = job.answer.send(file.carry_out(job.order));
                }
            };
            let thread = thread::Builder::new().name(format!("forebay-{number}")).spawn(work)?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    /// Hands an order to a worker; its completion comes through `answer`.
    pub(super) fn send(&self, order: Order, answer: &Sender<Completion>) {
        let jobs = self.jobs.as_ref().expect("the queue is open until the end");
        let sent = jobs.send(Job { order, answer: answer.clone() });
        assert!(sent.is_ok(), "workers live as long as their queue");
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A worker that broke down has told so on standard error.
            let _ = thread.join();
        }
    }
}

/// The next job: at once, soon, or after a sleep. None if there will be no more.
fn next(jobs: &Receiver<Job>, looking: &AtomicBool, look: Duration) -> Option<Job> {
    if !looking.swap(true, Ordering::Relaxed) {
        let begin = Instant::now();
        let found = loop {
            match jobs.try_recv() {
                Err(TryRecvError::Empty) if begin.elapsed() < look => std::hint::spin_loop(),
                found => break found,
            }
        };
        looking.store(false, Ordering::Relaxed);
        match found {
            Ok(job) => return Some(job),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => {}
        }
    }
    jobs.recv().ok()
}
