//! Threads that carry out jobs of a store: started as jobs come, ended when they have none.
//!
//! A server has as many threads as it has jobs at a time, however many exports it has.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};

/// A queue of jobs, and the threads that empty it.
#[derive(Debug)]
pub(super) struct JobThreads<T> {
    sender: Sender<T>,
    receiver: Receiver<T>,
    /// Jobs that are queued or being carried out.
    load: AtomicUsize,
    /// Threads that run. Held while a job is queued, so that no thread ends beside it.
    running: Mutex<usize>,
}

/// A job that no thread will carry out.
#[derive(Debug)]
pub(super) struct Unthreaded<T> {
    pub(super) job: T,
    pub(super) why: io::Error,
}

impl<T> JobThreads<T> {
    pub(super) fn new() -> Self {
        let (sender, receiver) = unbounded();
        Self { sender, receiver, load: AtomicUsize::new(0), running: Mutex::new(0) }
    }

    /// Queues a job; `start` starts a thread that [takes](Self::take) jobs, if there are more jobs
    /// than threads and fewer than `most`.
    ///
    /// # Errors
    /// A thread could not be started and none runs.
    pub(super) fn push(
        &self,
        job: T,
        most: usize,
        start: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), Unthreaded<T>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let load = self.load.fetch_add(1, Relaxed) + 1;
        if load > *running && *running < most {
            match start() {
                Ok(()) => *running += 1,
                // The others will come to it.
                Err(_) if *running > 0 => {}
                Err(why) => {
                    self.load.fetch_sub(1, Relaxed);
                    return Err(Unthreaded { job, why });
                }
            }
        }
        assert!(self.sender.send(job).is_ok(), "the other end is kept beside this one");
        Ok(())
    }

    /// The next job for a thread; none if it has to end. Each job is [done](Self::done) some time.
    pub(super) fn take(&self) -> Option<T> {
        if let Ok(job) = self.receiver.recv_timeout(IDLE_TIME) {
            return Some(job);
        }
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let last = self.receiver.try_recv().ok();
        if last.is_none() {
            *running -= 1;
        }
        last
    }

    /// A job was carried out; its thread is free for the next one.
    pub(super) fn done(&self) {
        self.load.fetch_sub(1, Relaxed);
    }
}

/// After so long without a job a thread ends.
const IDLE_TIME: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_started_for_jobs_that_find_none_and_no_more() {
        let threads = JobThreads::new();
        let mut started = 0;
        let mut push = |job| {
            let pushed = threads.push(job, 2, || {
                started += 1;
                Ok(())
            });
            assert!(pushed.is_ok());
            started
        };
        assert_eq!([push(0), push(1), push(2)], [1, 2, 2], "two at most");
        for expected in 0..3 {
            assert_eq!(threads.take(), Some(expected));
            threads.done();
        }
        assert_eq!([push(3), push(4), push(5)], [2, 2, 2], "both are there");
    }

    #[test]
    fn a_job_is_given_back_if_no_thread_can_be_started() {
        let threads = JobThreads::new();
        let refuse = || Err(io::ErrorKind::WouldBlock.into());
        assert_eq!(threads.push(7, 2, refuse).unwrap_err().job, 7);
        assert!(threads.push(8, 2, || Ok(())).is_ok());
        assert!(threads.push(9, 2, refuse).is_ok(), "the one that runs takes it");
        assert_eq!((threads.take(), threads.take()), (Some(8), Some(9)));
    }
}
