//! A mounted image: what its threads share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use forebay_core::packed::Ahead;
use forebay_core::units::PAGE_SIZE;
use forebay_image::profile::ProfileRecorder;
use forebay_image::{Image, NodeId};
use fuser::INodeNo;

use super::Stopper;
use super::inodes::{self, Inodes};
use super::log::{Log, panic_message};
use super::push::Queue;
use super::recording::RecordingFile;
use super::replay::ReplayTrigger;
use super::request::PendingRead;
use super::stats::{self, MountStats};
use super::workers::Workers;
use super::xattrs::XattrPresence;
use crate::image_path::{Buffers, Content, ImageFault, PathStats};
use crate::lock::Mutex;

/// A mounted image.
#[derive(Debug)]
pub(super) struct Mount {
    pub(super) image: Arc<dyn Image>,
    pub(super) inodes: Arc<Inodes>,
    pub(super) xattrs: Arc<XattrPresence>,
    pub(super) content: Arc<Content<Box<PendingRead>>>,
    pub(super) buffers: Buffers,
    /// What reads ahead.
    pub(super) ahead: Ahead,
    pub(super) queue: Queue,
    pub(super) workers: Workers,
    pub(super) stats: Arc<MountStats>,
    pub(super) path_stats: Arc<PathStats>,
    pub(super) log: Arc<Log>,
    /// Records a profile.
    pub(super) recorder: Option<Arc<Mutex<ProfileRecorder>>>,
    /// Restarts the replay of a profile.
    pub(super) replay_trigger: ReplayTrigger,
    /// Records READ requests.
    pub(super) recording: Option<Arc<RecordingFile>>,
    /// Ends the mount if the server fails.
    pub(super) stopper: Stopper,
}

impl Mount {
    /// Answers a request. After a panic the reply is an error, and the mount ends.
    pub(super) fn guarded(&self, answer: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(answer)) {
            self.stopper.fail(panic_message(&*panic).to_owned());
        }
    }

    /// Counts and logs an error of a node. To find its path takes a walk, so the request is
    /// answered first, and the thread that takes requests leaves the walk to a worker.
    pub(super) fn report_fault(&self, id: NodeId, fault: ImageFault) {
        self.stats.errors.add(1);
        if let Err(fault) = self.workers.report_fault(id, fault) {
            self.log_fault(id, &fault);
        }
    }

    /// Logs an error of a node.
    pub(super) fn log_fault(&self, id: NodeId, fault: &ImageFault) {
        self.log.say_rarely((id.0, fault.offset), || {
            let path = inodes::path_of(&*self.image, id);
            let path = path.unwrap_or_else(|| format!("node {}", id.0).into_bytes());
            let path = String::from_utf8_lossy(&path);
            format!("{}: {fault}", path.escape_debug())
        });
    }

    /// All counters as text.
    pub(super) fn statistics(&self) -> String {
        let (resident, own) = stats::resident();
        let cache = self.content.path.resident_pages() * PAGE_SIZE;
        let levels =
            [("cache_bytes", cache), ("resident_bytes", resident), ("resident_own_bytes", own)];
        stats::text(&self.stats, &self.path_stats, &levels)
    }

    /// The kernel has dropped a node.
    pub(super) fn forget(&self, number: INodeNo) {
        let file = self.inodes.node(number).0;
        if self.content.path.with(|rules, _| rules.forget(file)) {
            self.replay_trigger.on_loss();
        }
    }

    /// Answers a request that needs nothing of the image.
    pub(super) fn request(&self, answer: impl FnOnce()) {
        self.stats.requests.add(1);
        self.guarded(answer);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.content.path.close();
    }
}
