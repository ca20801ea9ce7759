//! Worker threads that execute jobs in parallel.
//!
//! ```text
//!   send --> [ jobs ] --> a worker --> the answer to its sender: job, result, time
//! ```
//!
//! A panic affects only its job: the waiter gets an error and the job back, and the worker
//! continues with the next one.
//!
//! Waking a halted processor is what costs most on a virtual machine, so one worker at a time may
//! look for the next job for a while before it sleeps.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};

/// Threads that take jobs `J`, each of which has a result `R`.
pub(crate) struct Workers<J, R> {
    /// Workers end when it is gone.
    jobs: Option<Sender<Sent<J, R>>>,
    threads: Vec<JoinHandle<()>>,
}

/// A job and where its answer goes.
struct Sent<J, R> {
    job: J,
    answer: Sender<Finish<J, R>>,
}

/// An executed job.
pub(crate) struct Finish<J, R> {
    pub(crate) job: J,
    pub(crate) result: Result<R, Panicked>,
    /// How long its execution took.
    pub(crate) took: Duration,
    pub(crate) at: Instant,
}

/// The work on a job panicked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Panicked {
    /// Its message.
    pub(crate) message: String,
}

impl<J: Send + 'static, R: Send + 'static> Workers<J, R> {
    /// Starts the threads, of which one at a time polls for the next job for `look`.
    pub(crate) fn start(
        count: usize,
        look: Duration,
        work: impl Fn(&mut J) -> R + Clone + Send + 'static,
    ) -> io::Result<Self> {
        assert!(count > 0, "there is at least one worker");
        let (jobs, receiver) = unbounded::<Sent<J, R>>();
        let mut workers = Self { jobs: Some(jobs), threads: Vec::new() };
        let looking = Arc::new(AtomicBool::new(false));
        for number in 0..count {
            let (work, jobs, looking) = (work.clone(), receiver.clone(), Arc::clone(&looking));
            let serve = move || {
                while let Some(Sent { job, answer }) = next(&jobs, &looking, look) {
                    // The receiver may have ended.
                    let _ = answer.send(carry_out(job, &work));
                }
            };
            let thread = thread::Builder::new().name(format!("forebay-{number}")).spawn(serve)?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    /// Hands a job to a worker; it comes back through `answer`.
    pub(crate) fn send(&self, job: J, answer: &Sender<Finish<J, R>>) {
        let jobs = self.jobs.as_ref().expect("the queue is open until the end");
        let sent = jobs.send(Sent { job, answer: answer.clone() });
        assert!(sent.is_ok(), "workers live as long as the senders of their jobs");
    }
}

impl<J, R> Drop for Workers<J, R> {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic is caught per job, so a thread has nothing to say here.
            let _ = thread.join();
        }
    }
}

impl<J, R> fmt::Debug for Workers<J, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} workers", self.threads.len())
    }
}

/// Carries a job out on the spot. A panic is reported; what the job holds may be half done then.
pub(crate) fn carry_out<J, R>(mut job: J, work: impl Fn(&mut J) -> R) -> Finish<J, R> {
    let begin = Instant::now();
    let result = panic::catch_unwind(AssertUnwindSafe(|| work(&mut job)));
    let result = result.map_err(|payload| Panicked { message: words(&*payload) });
    let at = Instant::now();
    Finish { job, result, took: at - begin, at }
}

fn words(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let message = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    message.unwrap_or("without words").to_owned()
}

/// The next job: at once, soon, or after a sleep. None if there will be no more.
fn next<T>(jobs: &Receiver<T>, looking: &AtomicBool, look: Duration) -> Option<T> {
    if !look.is_zero() && !looking.swap(true, Ordering::Relaxed) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Halves even numbers, which leaves them so, and breaks down at odd ones.
    fn halve(number: &mut u64) -> u64 {
        match *number {
            1 => panic!("one is odd"),
            odd if odd % 2 == 1 => panic!("{odd} is odd"),
            even => {
                *number = even / 2;
                even / 2
            }
        }
    }

    #[test]
    fn a_panic_comes_back_with_its_job_and_the_worker_goes_on() {
        for look in [Duration::ZERO, Duration::from_micros(50)] {
            let workers = Workers::start(1, look, halve).unwrap();
            let (answer, answers) = unbounded();
            for number in [1, 3, 8] {
                workers.send(number, &answer);
            }
            let finish = || answers.recv().map(|finish| (finish.job, finish.result)).unwrap();
            let panicked = |message: &str| Err(Panicked { message: message.to_owned() });
            assert_eq!(finish(), (1, panicked("one is odd")));
            assert_eq!(finish(), (3, panicked("3 is odd")));
            assert_eq!(finish(), (4, Ok(4)));
        }
    }

    #[test]
    fn as_many_panics_as_workers_leave_all_of_them_at_work() {
        let workers = Workers::start(3, Duration::ZERO, halve).unwrap();
        let (answer, answers) = unbounded();
        (0..100).for_each(|number| workers.send(number, &answer));
        let results = (0..100).map(|_| answers.recv().unwrap().result);
        assert_eq!(results.filter(Result::is_ok).count(), 50);
    }

    #[test]
    fn the_asker_may_be_gone() {
        let workers = Workers::start(2, Duration::ZERO, halve).unwrap();
        let (answer, gone) = unbounded();
        drop(gone);
        (0..10).for_each(|number| workers.send(number, &answer));
        let (answer, answers) = unbounded();
        workers.send(6, &answer);
        assert_eq!(answers.recv().unwrap().result, Ok(3));
    }
}
