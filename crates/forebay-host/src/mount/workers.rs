//! The worker threads, their queue, and the wait of the thread that takes requests.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::{io, thread};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use forebay_core::dispatch::{Class, Medium, Spec};
use forebay_core::serving::work::WORKER_QUEUE_MAX;
use forebay_image::NodeId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::request::Job;
use crate::image_path::{ImageFault, is_quick};
use crate::lock::{Mutex, lock};
use crate::polled_wait::PolledWait;

/// The worker threads and their queue.
#[derive(Debug)]
pub(super) struct Workers {
    pub(super) jobs: Sender<Job>,
    receiver: Receiver<Job>,
    /// The session's descriptor, to see whether another request waits.
    device: OnceLock<OwnedFd>,
    count: OnceLock<usize>,
    /// How the thread that takes requests waits for the next one.
    next: Mutex<NextRequest>,
}

/// The wait for a request.
#[derive(Debug)]
struct NextRequest {
    wait: PolledWait,
    /// What was answered before it, if it has begun.
    behind: Option<Class>,
}

impl Workers {
    pub(super) fn new() -> Self {
        let (jobs, receiver) = bounded(WORKER_QUEUE_MAX);
        let rule = Spec::parse(NEXT_REQUEST).expect("the core has the rule");
        let wait = PolledWait::new(&rule, Medium::default());
        let next = Mutex::new(NextRequest { wait, behind: None });
        Self { jobs, receiver, device: OnceLock::new(), count: OnceLock::new(), next }
    }

    /// Starts `count` threads, which carry jobs out until `carry_out` says that the mount is gone.
    pub(super) fn start(
        &self,
        count: usize,
        carry_out: impl Fn(Job) -> bool + Clone + Send + 'static,
    ) -> io::Result<()> {
        let _ = self.count.set(count);
        for number in 0..count {
            let (jobs, carry_out) = (self.receiver.clone(), carry_out.clone());
            thread::Builder::new()
                .name(format!("forebay-read-{number}"))
                .spawn(move || while jobs.recv().is_ok_and(&carry_out) {})?;
        }
        Ok(())
    }

    /// The number of threads.
    pub(super) fn count(&self) -> usize {
        self.count.get().copied().unwrap_or(1)
    }

    /// Sets the session's descriptor.
    pub(super) fn connect(&self, device: OwnedFd) {
        // It is set once.
        let _ = self.device.set(device);
    }

    /// Has a worker log an error, if this is the thread that takes requests. Otherwise, and if the
    /// queue is full, returns it.
    pub(super) fn report_fault(&self, id: NodeId, fault: ImageFault) -> Result<(), ImageFault> {
        if !is_quick() {
            return Err(fault);
        }
        match self.jobs.try_send(Job::Report(id, fault)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => match job {
                Job::Report(_, fault) => Err(fault),
                Job::Metadata(_) | Job::ReadRequest(_) | Job::PendingRead(_) | Job::Work(_) => {
                    Ok(())
                }
            },
        }
    }

    /// The thread that takes requests has got one.
    pub(super) fn end_wait(&self) {
        let mut next = lock(&self.next);
        if let Some(class) = next.behind.take() {
            next.wait.end(&class);
        }
    }

    /// A request was answered: polls for the next one, if that pays.
    pub(super) fn wait_for_next(&self, class: Class) {
        let mut next = lock(&self.next);
        next.wait.begin(&class);
        next.behind = Some(class);
        next.wait.poll(|| self.is_behind().then_some(()));
    }

    /// Whether another request waits.
    pub(super) fn is_behind(&self) -> bool {
        let Some(device) = self.device.get() else { return false };
        let mut device = [PollFd::new(device, PollFlags::IN)];
        matches!(poll(&mut device, Some(&Timespec::default())), Ok(1))
    }
}

/// The rule of the wait for a request.
const NEXT_REQUEST: &str = "adaptive";
