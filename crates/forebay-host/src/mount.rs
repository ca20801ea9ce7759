//! A compressed image as a folder: programs start, map and execute from it.
//!
//! ```text
//!   kernel     LOOKUP, GETATTR, READDIR, ...        READ                        ^ STORE
//!                        |                           |                          |
//!   one thread       session ---------- jobs -------------- what is slow --> workers
//!                                        |     \                                |
//!                                       ask    read                            push, replay
//!                                        |       |                              |
//!                                     inodes  content: parts of the image       |
//!                                        |       |                              |
//!   forebay-image                      tree    path: lock, bytes, jobs <--------+
//!                                        |       |
//!   forebay-core                         |     serving: what is answered, decoded, pushed
//!                                        |       |
//!   the image file                     image_file: through the page cache, or past it
//! ```
//!
//! A READ is a request to the core ([`forebay_core::serving`]): its engine has the page cache, the
//! table of pages under way, and the rules. This module moves bytes: it locates them in the image,
//! reads and decodes outside of the lock, and talks to the kernel. The thread that takes requests
//! waits for no device, whatever they are about: what a name, a node or the place of a block needs
//! of the image's tree is in memory, or a worker sees to the request.
//!
//! **What reads ahead.** The kernel's window cannot be set for each file, and a READ that covers a
//! window has to be answered in full or refused; then each page is demanded by itself. The rules
//! `eager` and `selective` get the kernel's window and answer it, or refuse it as their papers have
//! it. `off` has none. Ours has the kernel's for files that are read, and refuses it for files that
//! are mapped: a fault costs its own page, and what is likely to follow is pushed. `--window ours`
//! does without the kernel's, and pushes ahead of readers too.
//!
//! **Which thread answers.** Two threads that take requests in turn, each on its own processor,
//! cost a start of a program twice the processor time of one (110 to 160 ms against 70 to 80), as
//! every second request wakes the other processor. So one takes all requests and answers what is
//! near; what needs a device or a large block, or has others behind it, goes to a worker.
//!
//! **State of an open file** hangs on the node and the task that reads it, so that opening and
//! closing need no request at all.
//!
//! A connection that hangs is ended by writing to `/sys/fs/fuse/connections/NUMBER/abort`, with
//! the minor device number that `mountpoint -d` shows; `serving/pushes.rs` of the core says how it
//! could come to that.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use forebay_core::packed::{Ahead, Spec};
use forebay_core::serving::{MountConfig, PathConfig, ProgramPages};
use forebay_core::units::PAGE_SIZE;
use forebay_image::{FileSource, Image, Source, Time};
use fuser::{Config, Session, SessionACL};
use rustix::fs::{Mode, OFlags};

use attach::{Identity, Terms};
use buffers::Buffers;
use content::Content;
use image_file::{ImageFile, Opened};
use inodes::Inodes;
use jobs::Workers;
use log::Log;
use profile::{Fingerprint, Profile, Recorder};
use push::{Pusher, Queue};
use recording::RecordingFile;
use replay::{Again, Replay};
use session::{Answers, Broke, Served};
use stats::Stats;

pub use arenas::allocate_together;
pub use attach::{Attachable, attachable};
pub use log::Sink;
pub use profile::ProfileError;
pub use profile_reads::{ProfileRead, profile_reads};
pub use stats::{ATTRIBUTE, of_mount};

mod arenas;
mod ask;
mod attach;
mod buffers;
mod content;
mod fault;
mod image_file;
mod inodes;
mod jobs;
mod lock;
mod log;
mod path;
mod profile;
mod profile_reads;
mod program;
mod push;
mod read;
mod recording;
mod replay;
mod session;
mod stats;
mod strict;

/// How an image is mounted.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the image begins in its file, in bytes.
    pub offset: u64,
    /// Read past the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Fill short blocks with zeros.
    pub lenient: bool,
    /// Check all that the image promises before it is mounted, and refuse damage.
    pub strict: bool,
    /// Bytes of raw and decoded blocks that are kept.
    pub cache: u64,
    /// Threads that answer what takes longer, beside the one that takes requests.
    pub threads: usize,
    /// The fill rule.
    pub policy: Spec,
    /// Who reads ahead.
    pub window: Window,
    /// What every node shows as its time; its own if none.
    pub time: Option<Time>,
    /// Others than who mounts may use it.
    pub allow_other: bool,
    /// Set-user-id bits and device nodes count.
    pub trusted: bool,
    /// What a start touches: brought in by this file, or recorded in it if there is none.
    pub profile: Option<PathBuf>,
    /// Record the profile anew.
    pub profile_update: bool,
    /// What the kernel asks is written to this new file.
    pub record: Option<PathBuf>,
}

impl Default for Options {
    /// What the command line does if nothing is typed.
    fn default() -> Self {
        Self {
            offset: 0,
            direct: false,
            lenient: false,
            strict: false,
            cache: 32 << 20,
            threads: 2,
            policy: Spec::parse("selective-then-idle").expect("the table has it"),
            window: Window::Rule,
            time: None,
            allow_other: false,
            trusted: false,
            profile: None,
            profile_update: false,
            record: None,
        }
    }
}

/// Who reads ahead of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// As the rule wants it.
    #[default]
    Rule,
    /// Nobody but us.
    Ours,
    /// The kernel.
    Kernel,
}

/// Why an image cannot be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The file cannot be opened.
    #[error("cannot read '{}': {why}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// The image is none, or damaged.
    #[error("{}: {why}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: forebay_image::Error,
    },
    /// The image does not keep what it promises.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The cache holds no block.
    #[error(
        "a cache of {cache} bytes is too small for blocks of {block} bytes: one and its raw bytes \
         take {}",
        2 * block
    )]
    Cache {
        /// Bytes of the cache.
        cache: u64,
        /// Bytes of a block.
        block: u64,
    },
    /// The profile cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The recording cannot be written.
    #[error("recording '{}': {why}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// The kernel's end of such mounts cannot be had.
    #[error("cannot open /dev/fuse: {why}")]
    Device {
        /// What the system said.
        why: io::Error,
    },
    /// The system did not mount it.
    #[error("cannot mount on '{}': {why}", folder.display())]
    Mount {
        /// The mount point.
        folder: PathBuf,
        /// What the system said.
        why: io::Error,
    },
}

/// How a mount ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Somebody has unmounted it.
    Unmounted,
    /// It was told to.
    Stopped,
    /// Answering broke down.
    Broke(String),
}

/// An image that is mounted. Dropping it unmounts.
#[derive(Debug)]
pub struct Mounted {
    folder: PathBuf,
    /// What tells this mount from others on the same folder, if it is known.
    identity: Option<Identity>,
    is_over: bool,
    stop: Arc<AtomicBool>,
    ends: Receiver<Ended>,
    ending: Sender<Ended>,
    recording: Option<Recording>,
    reads: Option<Arc<RecordingFile>>,
    image: Arc<dyn Image>,
    log: Arc<Log>,
}

/// Ends a mount from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Sender<Ended>);

impl Stopper {
    /// Ends it; its [`Mounted::wait`] returns.
    pub fn stop(&self) {
        // One reason to end is enough.
        let _ = self.0.try_send(Ended::Stopped);
    }
}

impl Broke for Stopper {
    fn broke(&self, what: String) {
        let _ = self.0.try_send(Ended::Broke(what));
    }
}

/// Opens an image file and mounts it.
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
    let (stats, log) = (Arc::<Stats>::default(), Arc::new(Log::new(sink)));
    let failed = |why| MountError::Mount { folder: folder.to_owned(), why };
    let (image, file) = open(path, options, &stats, &log)?;
    check(&*image, path, options)?;
    let ProfilePlan { steps, recorder } = ProfilePlan::of(options, &image, &log)?;
    let recording = begin_recording(options, &image)?;
    let config = core_config(options, &file, recorder.is_some());
    let content = Arc::new(Content::new(Arc::clone(&image), file, &config, &stats));
    let (stop, inodes) = (Arc::<AtomicBool>::default(), Inodes::new(image.root(), options.time));
    let (queue, pusher) = Queue::new(&content, inodes, &stop, &stats, &log);
    let (ending, ends) = bounded(1);
    let (again, wake) = Again::new();
    let served = Arc::new(Served {
        inodes,
        image: Arc::clone(&image),
        content: Arc::clone(&content),
        crowd: Mutex::default(),
        buffers: Buffers::default(),
        ahead: config.ahead,
        queue,
        workers: Workers::new(),
        stats: Arc::clone(&stats),
        log: Arc::clone(&log),
        recorder: recorder.as_ref().map(|recording| Arc::clone(&recording.recorder)),
        again,
        recording: recording.clone(),
        broke: Box::new(Stopper(ending.clone())),
    });
    pusher.connect(&served);
    served.workers.start(options.threads.max(1), &served).map_err(failed)?;
    let (allow_other, trusted) = (options.allow_other, options.trusted);
    let terms = Terms { source: path.to_string_lossy().into_owned(), allow_other, trusted };
    let device = attach::attach(folder, &terms)?;
    let identity = Identity::of(folder);
    let mounted = Mounted {
        folder: folder.to_owned(),
        identity,
        is_over: false,
        stop: Arc::clone(&stop),
        ends,
        ending: ending.clone(),
        recording: recorder,
        reads: recording,
        image,
        log,
    };
    served.workers.connect(device.as_fd().try_clone_to_owned().map_err(failed)?);
    let mut config = Config::default();
    config.n_threads = Some(1);
    let acl = if allow_other { SessionACL::All } else { SessionACL::Owner };
    let session = Session::from_fd(Answers(served), device, acl, config).map_err(failed)?;
    let (notifier, pusher) = (session.notifier(), Arc::new(pusher));
    let asked = move || {
        let broke = |error| Ended::Broke(format!("asking the kernel: {error}"));
        let ended = session.run().map_or_else(broke, |()| Ended::Unmounted);
        // If somebody has ended it, that is how it ended.
        let _ = ending.try_send(ended);
    };
    let start = |name: &str| thread::Builder::new().name(format!("forebay-{name}"));
    start("session").spawn(asked).map_err(failed)?;
    if !steps.is_empty() {
        let pusher = Arc::clone(&pusher);
        let replay = Replay { steps, inodes, content, pusher, stats, stop, wake };
        let (folder, notifier) = (folder.to_owned(), notifier.clone());
        start("replay").spawn(move || replay.run(&folder, &notifier)).map_err(failed)?;
    }
    Pusher::start(pusher, notifier).map_err(failed)?;
    Ok(mounted)
}

/// What the core is made with. Only what is asked for can be recorded in a profile, so nothing may
/// come beforehand then.
fn core_config(options: &Options, file: &ImageFile, is_recorded: bool) -> MountConfig {
    let mut config = config(options, file.present_bytes());
    config.path.keeps_raw = file.is_direct();
    if is_recorded {
        config.policy = Spec::parse("off").expect("the table has it");
        (config.ahead, config.is_recorded) = (Ahead::Ours, true);
    }
    config
}

/// The frames of a budget; the largest block of a format and its raw bytes need some at once.
fn frames(cache: u64) -> u32 {
    u32::try_from(cache / PAGE_SIZE).unwrap_or(u32::MAX).max(FRAMES_MIN)
}

/// Begins to write down what the kernel asks, if that is wanted.
fn begin_recording(
    options: &Options,
    image: &Arc<dyn Image>,
) -> Result<Option<Arc<RecordingFile>>, MountError> {
    let Some(path) = &options.record else { return Ok(None) };
    let wrong = |why| MountError::Recording { path: path.clone(), why };
    let of = Fingerprint::of(&**image).map_err(wrong)?;
    RecordingFile::create(path, of.numbers()).map(|file| Some(Arc::new(file))).map_err(wrong)
}

/// How the core serves an image of so many bytes that is mounted with some options.
pub fn config(options: &Options, image_bytes: u64) -> MountConfig {
    let ahead = match (options.window, options.policy.build().ahead()) {
        (Window::Ours, _) => Ahead::Ours,
        (Window::Rule, ahead) => ahead,
        (Window::Kernel, Ahead::Kernel) => Ahead::Kernel,
        (Window::Kernel, Ahead::Both | Ahead::Ours) => Ahead::Both,
    };
    let path = PathConfig {
        frames: frames(options.cache),
        requests_max: REQUESTS_MAX,
        keeps_raw: options.direct,
        image_bytes,
    };
    MountConfig { path, policy: options.policy.clone(), ahead, is_recorded: false }
}

/// What tells an image from others in a recording: its length and a hash of its two ends.
///
/// # Errors
///
/// If it cannot be read.
pub fn fingerprint(image: &dyn Image) -> io::Result<(u64, u64)> {
    Fingerprint::of(image).map(Fingerprint::numbers)
}

/// The pages of a program by the headers at the beginning of its file; none if it does not begin
/// like one.
pub fn program_pages(bytes: &[u8]) -> Option<ProgramPages> {
    program::pages(bytes)
}

/// What is done with a profile.
#[derive(Debug, Default)]
struct ProfilePlan {
    /// To be brought in.
    steps: Vec<profile::Step>,
    recorder: Option<Recording>,
}

/// A profile that is being recorded.
#[derive(Debug)]
struct Recording {
    recorder: Arc<Recorder>,
    of: Fingerprint,
    path: PathBuf,
}

impl ProfilePlan {
    fn of(options: &Options, image: &Arc<dyn Image>, log: &Log) -> Result<Self, MountError> {
        let Some(path) = &options.profile else { return Ok(Self::default()) };
        let wrong = |why| ProfileError::File { path: path.clone(), why };
        let of = Fingerprint::of(&**image).map_err(wrong)?;
        let found = if options.profile_update { Ok(None) } else { Profile::read(path) };
        match found {
            Ok(Some(profile)) if profile.image == of => {
                return Ok(Self { steps: profile.steps, recorder: None });
            }
            Ok(Some(_)) => {
                let path = path.display();
                log.say(&format!("profile '{path}' is of another image and is not used"));
            }
            Err(error @ ProfileError::Line { .. }) => log.say(&format!("{error}; it is not used")),
            Err(error @ (ProfileError::File { .. } | ProfileError::Recording { .. })) => {
                return Err(error.into());
            }
            Ok(None) => {
                profile::try_write(path)?;
                let recorder = Some(Recording { recorder: Arc::default(), of, path: path.clone() });
                return Ok(Self { steps: Vec::new(), recorder });
            }
        }
        Ok(Self::default())
    }
}

/// Whether the image can be mounted so.
fn check(image: &dyn Image, path: &Path, options: &Options) -> Result<(), MountError> {
    let (cache, block) = (options.cache, u64::from(image.summary().block_size));
    if cache < 2 * block {
        return Err(MountError::Cache { cache, block });
    }
    if options.strict {
        let damaged = |what| MountError::Damaged { path: path.into(), what };
        strict::check(image, options.threads + 1).map_err(damaged)?;
    }
    Ok(())
}

/// Opens the image; one that is cut short is opened as if it were whole, unless that is refused.
fn open(
    path: &Path,
    options: &Options,
    stats: &Arc<Stats>,
    log: &Log,
) -> Result<(Arc<dyn Image>, Arc<ImageFile>), MountError> {
    let cannot = |why| MountError::Open { path: path.to_owned(), why };
    let wrong = |why| MountError::Image { path: path.to_owned(), why };
    // A pipe that nobody writes to is not waited for.
    let direct = options.direct;
    let flags = if direct { OFlags::DIRECT } else { OFlags::empty() };
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = || -> Result<ImageFile, MountError> {
        // A pipe that nobody writes to is not waited for.
        let file = rustix::fs::open(path, flags, Mode::empty());
        let file = File::from(file.map_err(|error| cannot(error.into()))?);
        let kind = file.metadata().map_err(cannot)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(cannot(io::Error::other("it is neither a file nor a block device")));
        }
        // The very same file, whatever the path is of by this time.
        let again = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let random = match rustix::fs::open(again, flags, Mode::empty()) {
            Ok(random) => File::from(random),
            Err(_) => file.try_clone().map_err(cannot)?,
        };
        let source = FileSource::new(file).map_err(cannot)?;
        let place = options.offset..source.len();
        let file = source.file().try_clone().map_err(cannot)?;
        let opened = Opened { file, random, direct };
        Ok(ImageFile::new(opened, place, Arc::clone(stats)))
    };
    let read = |file: ImageFile| {
        let file = Arc::new(file);
        let source: Arc<dyn Source> = Arc::clone(&file) as Arc<dyn Source>;
        let lenient = forebay_image::Options { lenient: options.lenient };
        forebay_image::open(&source, lenient).map(|image| (image, file))
    };
    let (image, file) = match read(open()?) {
        Err(forebay_image::Error::Truncated { expected, found }) if !options.strict => {
            // Where not even the tree can be read, it is the cut that matters.
            let cut = |_| wrong(forebay_image::Error::Truncated { expected, found });
            let opened = read(open()?.with_len(expected)).map_err(cut)?;
            let path = path.display();
            log.say(&format!(
                "{path}: the image is truncated: it says {expected} bytes and has {found}; \
                 what lies beyond cannot be read"
            ));
            opened
        }
        opened => opened.map_err(wrong)?,
    };
    for warning in &image.summary().warnings {
        log.say(&format!("{}: {warning}", path.display()));
    }
    Ok((image, file))
}

impl Mounted {
    /// Who can end it.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.ending.clone())
    }

    /// Waits until it has ended, and unmounts it if nobody has.
    ///
    /// # Errors
    ///
    /// If it was to be recorded, and the profile or the recording cannot be written.
    pub fn wait(mut self) -> Result<Ended, ProfileError> {
        let ended = self.ends.recv().unwrap_or(Ended::Stopped);
        self.stop.store(true, Relaxed);
        self.detach(&ended);
        self.is_over = true;
        for oddity in self.image.oddities() {
            self.log.say(&oddity);
        }
        self.log.close();
        if let Some(reads) = &self.reads {
            reads.finish()?;
        }
        if !matches!(ended, Ended::Broke(_)) {
            self.write_profile()?;
        }
        Ok(ended)
    }

    /// Takes the mount away, if it is still the one on its folder; who has files of it open keeps
    /// them until this process ends.
    fn detach(&self, ended: &Ended) {
        match (self.identity, Identity::of(&self.folder)) {
            (Some(ours), there) if there != Some(ours) => {}
            // A number that is free again may be somebody else's.
            (Some(Identity::Device(..)) | None, _) if *ended == Ended::Unmounted => {}
            _ => attach::detach(&self.folder),
        }
    }

    /// Writes the profile, if one was recorded.
    fn write_profile(&mut self) -> Result<(), ProfileError> {
        let Some(Recording { recorder, of, path }) = self.recording.take() else { return Ok(()) };
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

/// Frames that there are at least.
const FRAMES_MIN: u32 = 64;

/// Requests in flight at most.
const REQUESTS_MAX: u32 = 512;
