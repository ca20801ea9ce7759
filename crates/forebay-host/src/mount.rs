//! A compressed image as a folder: programs start, map and execute from it.
//!
//! ```text
//!   kernel     LOOKUP, GETATTR, READDIR, ...        READ                        ^ STORE
//!                        |                           |                          |
//!   one thread       session ---------- jobs -------------- what is slow --> workers
//!                                        |     \                                |
//!                                   metadata   read                           push, replay
//!                                        |       |                              |
//!   forebay-image                      tree     image_path <--------------------+
//!                                                |
//!   forebay-core                              serving: what is answered, decoded, pushed
//! ```
//!
//! A READ is a request to the core ([`forebay_core::serving`]). The core's engine has the page
//! cache, the table of pages under way, and the rules. The image's I/O path (`image_path.rs`)
//! locates, reads and decodes bytes outside the lock. This module talks to the kernel. The thread
//! that takes requests never waits for a device: a name, a node or the place of a block that is not
//! in memory is left to a worker.
//!
//! **What reads ahead.** FUSE has one readahead window for a whole mount, and a READ that covers a
//! window must be answered in full or refused. After a refusal the kernel asks for each page alone.
//! The rules `eager` and `selective` use the kernel's window and answer or refuse it, as their
//! papers do. `off` has no window. The default uses the kernel's window for files that are read and
//! refuses it for files that are mapped: a page fault fetches its own page, and likely next pages
//! are pushed. `--window ours` turns the kernel's window off and pushes ahead of readers as well.
//!
//! **Which thread answers.** With two threads that take requests in turn, a program start costs
//! twice the processor time (110 to 160 ms instead of 70 to 80), because every second request wakes
//! the other processor. So one thread takes all requests and answers those that need no device. A
//! worker gets those that need a device or a large block, or have other requests behind them.
//!
//! **State of an open file** belongs to the node and the task that reads it, so opening and closing
//! need no request.
//!
//! A connection that hangs is ended by writing to `/sys/fs/fuse/connections/NUMBER/abort`, with
//! the minor device number that `mountpoint -d` shows; `serving/pushes.rs` of the core says how it
//! could come to that.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use forebay_core::packed::{Ahead, Spec};
use forebay_core::serving::{MountConfig, ProgramPages};
use forebay_image::Image;
use forebay_image::profile::{self, Fingerprint, Profile, ProfileError, ProfileRecorder};
use forebay_image::verify::verify;
use forebay_image::walk::{Limits, Tree};
use fuser::{Config, Session, SessionACL};

use crate::attach::{self, AttachError, AttachOptions, MountIdentity};
use crate::image_path::{self, Buffers, Content, OpenOptions, PathStats};
use crate::lock::{Mutex, lock};
use inodes::Inodes;
use log::Log;
use push::{Pusher, Queue};
use recording::RecordingFile;
use replay::{Replay, ReplayTrigger};
use session::FuseSession;
use state::Mount;
use stats::MountStats;
use workers::Workers;
use xattrs::XattrPresence;

pub use crate::image_path::OpenError;
pub use arenas::allocate_together;
pub use log::Sink;
pub use options::{CACHE_MAX, CACHE_MIN, Options, Window, config};
pub use stats::of_mount;

mod arenas;
mod inodes;
mod jobs;
mod log;
mod metadata;
mod options;
mod program;
mod push;
mod read;
mod recording;
mod replay;
mod request;
mod session;
mod state;
mod stats;
mod workers;
mod xattrs;

/// Why an image cannot be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The image cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Verification found damage.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// The image.
        path: PathBuf,
        /// The damage.
        what: String,
    },
    /// The cache does not hold a block and its raw bytes.
    #[error("a cache of {cache} bytes is too small for this image, which needs {least} bytes")]
    Cache {
        /// Bytes of the cache.
        cache: u64,
        /// Bytes that suffice.
        least: u64,
    },
    /// The profile cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The recording cannot be written.
    #[error("recording '{}': {why}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// The system does not mount it.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A thread cannot be started.
    #[error("cannot start a thread of the mount: {0}")]
    Thread(io::Error),
}

/// How a mount ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was unmounted.
    Unmounted,
    /// [`Stopper::stop`] was called.
    Stopped,
    /// The server failed.
    Broke(String),
}

/// An image that is mounted. Dropping it unmounts.
#[derive(Debug)]
pub struct Mounted {
    folder: PathBuf,
    /// Identifies the mount, if the system tells its number.
    identity: Option<MountIdentity>,
    is_over: bool,
    stop: Arc<AtomicBool>,
    ends: Receiver<Ended>,
    ending: Sender<Ended>,
    profile: Option<NewProfile>,
    recording: Option<Arc<RecordingFile>>,
    image: Arc<dyn Image>,
    log: Arc<Log>,
}

/// Ends a mount from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Sender<Ended>);

impl Stopper {
    /// Ends it; its [`Mounted::wait`] returns.
    pub fn stop(&self) {
        // The first reason to end is reported; later ones are dropped.
        let _ = self.0.try_send(Ended::Stopped);
    }

    /// Ends it because the server failed.
    fn fail(&self, what: String) {
        let _ = self.0.try_send(Ended::Broke(what));
    }
}

/// Opens an image file and mounts it. If its bytes are elsewhere, the path is the name alone.
///
/// # Errors
///
/// [`MountError`].
pub fn mount(
    path: &Path,
    folder: &Path,
    options: &Options,
    sink: Sink,
) -> Result<Mounted, MountError> {
    let (stats, path_stats) = (Arc::<MountStats>::default(), Arc::<PathStats>::default());
    let log = Arc::new(Log::new(sink));
    let Options { offset, direct, lenient, strict, allow_other, trusted, .. } = *options;
    let cached = options.cached.clone();
    let opened = OpenOptions { cached, offset, direct, lenient, is_whole: strict };
    let (image, file) = image_path::open(path, &opened, &path_stats, |line| log.say(line))?;
    check(&*image, path, options)?;
    let (steps, profile) = profile_plan(options, &image, &log)?;
    let recording = begin_recording(options, &image)?;
    let mut config = config(options, file.present_bytes());
    if profile.is_some() {
        record_all(&mut config);
    }
    let content = Arc::new(Content::new(Arc::clone(&image), file, &config, &path_stats));
    let (stop, inodes) = (Arc::<AtomicBool>::default(), Inodes::new(image.root(), options.time));
    let (queue, pusher) = Queue::new(&content, &inodes, &stop, &stats, &log);
    let (ending, ends) = bounded(1);
    let (replay_trigger, wake) = ReplayTrigger::new();
    let server = Arc::new(Mount {
        inodes: Arc::clone(&inodes),
        xattrs: Arc::new(XattrPresence::of(&*image)),
        image: Arc::clone(&image),
        content: Arc::clone(&content),
        buffers: Buffers::default(),
        ahead: config.ahead,
        queue,
        workers: Workers::new(),
        stats: Arc::clone(&stats),
        path_stats,
        log: Arc::clone(&log),
        recorder: profile.as_ref().map(|profile| Arc::clone(&profile.recorder)),
        replay_trigger,
        recording: recording.clone(),
        stopper: Stopper(ending.clone()),
    });
    start_workers(&server, &pusher, options.threads.max(1)).map_err(MountError::Thread)?;
    let source = path.to_string_lossy().into_owned();
    let how = AttachOptions { source, kind: "forebay", writable: false, allow_other, trusted };
    let device = attach::attach(folder, &how)?;
    let mounted = Mounted {
        folder: folder.to_owned(),
        identity: MountIdentity::of(folder),
        is_over: false,
        stop: Arc::clone(&stop),
        ends,
        ending: ending.clone(),
        profile,
        recording,
        image,
        log,
    };
    let session = open_session(server, device, allow_other)
        .map_err(|why| AttachError::Mount { folder: folder.to_owned(), why })?;
    let (notifier, pusher) = (session.notifier(), Arc::new(pusher));
    let serve = move || {
        let broke = |error| Ended::Broke(format!("asking the kernel: {error}"));
        let ended = session.run().map_or_else(broke, |()| Ended::Unmounted);
        // The first reason to end is reported; later ones are dropped.
        let _ = ending.try_send(ended);
    };
    start("session", serve)?;
    if !steps.is_empty() {
        let pusher = Arc::clone(&pusher);
        let replay = Replay { steps, content, pusher, stats, stop, wake };
        let (folder, notifier) = (folder.to_owned(), notifier.clone());
        start("replay", move || replay.run(&folder, &notifier))?;
    }
    Pusher::start(pusher, notifier).map_err(MountError::Thread)?;
    Ok(mounted)
}

/// Starts the workers, and has what they and the pusher finish answered. They hold no mount that is
/// not used otherwise.
fn start_workers(server: &Arc<Mount>, pusher: &Pusher, count: usize) -> io::Result<()> {
    let mount = Arc::downgrade(server);
    pusher.connect(move |ended| {
        if let Some(mount) = mount.upgrade() {
            mount.answer_ended(ended);
        }
    });
    let mount = Arc::downgrade(server);
    server.workers.start(count, move |job| {
        let Some(mount) = mount.upgrade() else { return false };
        mount.guarded(|| mount.finish(job));
        true
    })
}

/// Only pages that are asked for can be recorded, so nothing may be prefetched.
fn record_all(config: &mut MountConfig) {
    config.policy = Spec::parse("off").expect("the table has it");
    (config.ahead, config.only_asked) = (Ahead::Ours, true);
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), MountError> {
    let thread = thread::Builder::new().name(format!("forebay-{name}")).spawn(run);
    thread.map(drop).map_err(MountError::Thread)
}

/// A session that takes requests in one thread.
fn open_session(
    server: Arc<Mount>,
    device: OwnedFd,
    allow_other: bool,
) -> io::Result<Session<FuseSession>> {
    let mut config = Config::default();
    config.n_threads = Some(1);
    server.workers.connect(device.as_fd().try_clone_to_owned()?);
    let acl = if allow_other { SessionACL::All } else { SessionACL::Owner };
    Session::from_fd(FuseSession(server), device, acl, config)
}

/// Creates the file that READ requests are recorded to, if one is asked for.
fn begin_recording(
    options: &Options,
    image: &Arc<dyn Image>,
) -> Result<Option<Arc<RecordingFile>>, MountError> {
    let Some(path) = &options.record else { return Ok(None) };
    let wrong = |why| MountError::Recording { path: path.clone(), why };
    let of = Fingerprint::of(&**image).map_err(wrong)?;
    let file = RecordingFile::create(path, (of.bytes, of.hash)).map_err(wrong)?;
    Ok(Some(Arc::new(file)))
}

/// The pages of a program by the headers at the beginning of its file; none if it does not begin
/// like one.
pub fn program_pages(bytes: &[u8]) -> Option<ProgramPages> {
    program::pages(bytes)
}

/// A profile that is being recorded.
#[derive(Debug)]
struct NewProfile {
    recorder: Arc<Mutex<ProfileRecorder>>,
    of: Fingerprint,
    path: PathBuf,
}

/// The steps to replay, or the profile to record. Neither if there is a profile of another image,
/// or a file that is not a profile.
fn profile_plan(
    options: &Options,
    image: &Arc<dyn Image>,
    log: &Log,
) -> Result<(Vec<profile::ProfileStep>, Option<NewProfile>), MountError> {
    let Some(path) = &options.profile else { return Ok((Vec::new(), None)) };
    let wrong = |why| ProfileError::File { path: path.clone(), why };
    let of = Fingerprint::of(&**image).map_err(wrong)?;
    let found = if options.profile_update { Ok(None) } else { Profile::read(path) };
    match found {
        Ok(Some(profile)) if profile.image == of => return Ok((profile.steps, None)),
        Ok(Some(_)) => {
            let path = path.display();
            log.say(&format!("profile '{path}' is of another image and is not used"));
        }
        Err(error @ ProfileError::Line { .. }) => log.say(&format!("{error}; it is not used")),
        Err(error @ ProfileError::File { .. }) => return Err(error.into()),
        Ok(None) => {
            profile::try_write(path)?;
            let new = NewProfile { recorder: Arc::default(), of, path: path.clone() };
            return Ok((Vec::new(), Some(new)));
        }
    }
    Ok((Vec::new(), None))
}

/// Checks that the cache holds a block and, if asked for, that the whole image can be read.
fn check(image: &dyn Image, path: &Path, options: &Options) -> Result<(), MountError> {
    let summary = image.summary();
    let block = u64::from(summary.block_size).max(summary.raw_max);
    let (cache, least) = (options.cache, (2 * block).max(CACHE_MIN));
    if cache < least {
        return Err(MountError::Cache { cache, least });
    }
    if options.strict {
        let tree = Tree::whole(image, Limits::default());
        let damage = verify(image, tree, options.threads + 1, &|_| {}).damage;
        if let Some(first) = damage.first() {
            let what = match damage.len() - 1 {
                0 => first.to_string(),
                more => format!("{first}; and {more} more"),
            };
            return Err(MountError::Damaged { path: path.into(), what });
        }
    }
    Ok(())
}

impl Mounted {
    /// A handle that ends it from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.ending.clone())
    }

    /// Waits until it has ended, and unmounts it if it is still mounted.
    ///
    /// # Errors
    ///
    /// If the profile or the recording cannot be written.
    pub fn wait(mut self) -> Result<Ended, MountError> {
        let ended = self.ends.recv().unwrap_or(Ended::Stopped);
        self.stop.store(true, Relaxed);
        self.detach(&ended);
        self.is_over = true;
        for oddity in self.image.oddities() {
            self.log.say(&oddity);
        }
        self.log.close();
        let recorded = self.recording.as_ref().map_or(Ok(()), |recording| recording.finish());
        if !matches!(ended, Ended::Broke(_)) {
            self.write_profile()?;
        }
        recorded?;
        Ok(ended)
    }

    /// Unmounts, if the mount on the folder is still this one. Open files stay usable until this
    /// process ends.
    fn detach(&self, ended: &Ended) {
        match (self.identity, MountIdentity::of(&self.folder)) {
            (Some(ours), there) if there != Some(ours) => {}
            // A device number that is free again may belong to another mount.
            (Some(MountIdentity::Device(..)) | None, _) if *ended == Ended::Unmounted => {}
            _ => attach::detach(&self.folder),
        }
    }

    /// Writes the profile, if one was recorded.
    fn write_profile(&mut self) -> Result<(), ProfileError> {
        let Some(NewProfile { recorder, of, path }) = self.profile.take() else { return Ok(()) };
        let recorder = lock(&recorder);
        if recorder.is_cut() {
            let path = path.display();
            self.log.say(&format!("profile '{path}' has the beginning alone: there was too much"));
        }
        recorder.write(&*self.image, of, &path)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if !self.is_over {
            self.detach(&Ended::Stopped);
        }
    }
}
