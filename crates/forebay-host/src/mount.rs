//! A compressed image as a folder: programs start, map and execute from it.
//!
//! ```text
//!   kernel     LOOKUP, GETATTR, READDIR, ...        READ                        ^ STORE
//!                        |                           |                          |
//!   one thread       session ---------- jobs -------------- what is slow --> workers
//!                                        |     \                                |
//!                                       ask    read                             |
//!                                        |       |                              |
//!                                     inodes   handle: the rule, a stream       |
//!                                        |       |  \                           |
//!                                        |       |   +-- pages ahead --> push, fetch, replay
//!                                        |     content                          |
//!   forebay-image                      tree      |                              |
//!                                        |     decode: once, in part  <---------+
//!                                        |       |
//!   the image                           raw: the page cache, or chunks past it
//! ```
//!
//! A READ is answered from decoded bytes, or from raw bytes in memory, or from a read of the image
//! that is on its way, or by a read of its own: the piece that it needs, while another thread has
//! the kernel bring in a large piece around it. The thread that takes requests waits for no device,
//! whatever they are about: what a name, a node or the place of a block needs of the image's tree
//! is in memory, or somebody else sees to the request.
//!
//! **Who reads ahead.** The kernel's window cannot be set for each file, and a READ that covers a
//! window has to be answered in full or refused; then each page is demanded by itself. The rules
//! `eager` and `selective` get the kernel's window and answer it, or refuse it as their papers have
//! it. `off` has none. Ours has the kernel's for files that are read, and refuses it for files that
//! are mapped: a fault costs its own page, and what is likely to follow is pushed. `--window ours`
//! does without the kernel's, and pushes ahead of readers too. As it stood when this was decided,
//! on a machine with two processors and four times as much to do, the image in memory, blocks of
//! 4 KiB by zlib (`docs/benchmarks.md` has what it comes to on a device):
//!
//! ```text
//!                                          both     ours alone   squashfuse_ll
//!   isolated fault in a mapping, p50 us    38-52    21-25        870-1020
//!   start of a program of 80 modules:
//!     READ requests                        1000     1150-1340
//!     major faults                         113-144  565-660      85-99
//!     useless share of decoded pages       0.10     0.07-0.12    0.31, all windows answered
//! ```
//!
//! So with both the single fault took twice as long, and a program had a fifth of the faults and
//! fewer requests, which count for more.
//!
//! **Who answers.** Two threads that take requests in turn, each on its own processor, cost a
//! start of a program twice the processor time of one (110 to 160 ms against 70 to 80), as every
//! second request wakes the other processor. So one takes all requests and answers what is near;
//! what needs a device or a large block, or has others behind it, goes to a worker.
//!
//! **What is read, what is mapped.** The kernel does not say. A file that begins like a program
//! is taken to be mapped, others to be read. Replayed from a recorded start of that program, with
//! pushes that take no time, the rule then has 0.42 of the pages demanded and 0.07 of the decoded
//! ones useless; without the hint 0.43 and 0.09.
//!
//! **What is known without having seen it.** The loader of a program reads all of its symbols and
//! corrects all of its data, so these pages are pushed when a program is first seen to be mapped
//! (`program.rs`). Whoever reads the files of a folder in order is given the next one while it asks
//! for this one (`walk.rs`).
//!
//! **State of an open file** hangs on the inode and the asking task, so that opening and closing
//! need no request at all.
//!
//! A connection that hangs is ended by writing to `/sys/fs/fuse/connections/NUMBER/abort`, with
//! the minor device number that `mountpoint -d` shows; see `push.rs` for how it could come to that.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use forebay_core::packed::Spec;
use forebay_image::{FileSource, Image, Source, Time};
use fuser::{Config, Session, SessionACL};
use rustix::fs::{Mode, OFlags};

use attach::{Identity, Terms};
use content::Content;
use handle::{Ahead, Files};
use inodes::Inodes;
use jobs::Workers;
use log::Log;
use profile::{Fingerprint, Profile, Recorder};
use push::{Outstanding, Pusher, Queue};
use raw::{Opened, Raw};
use replay::{Again, Replay};
use session::{Answers, Broke, Served};
use stats::Stats;
use walk::Walks;

pub use arenas::allocate_together;
pub use attach::{Attachable, attachable};
pub use log::Sink;
pub use profile::ProfileError;
pub use stats::{ATTRIBUTE, of_mount};

mod arenas;
mod ask;
mod attach;
mod clock;
mod content;
mod decode;
mod flights;
mod handle;
mod inodes;
mod jobs;
mod log;
mod pool;
mod profile;
mod program;
mod push;
mod raw;
mod read;
mod replay;
mod session;
mod stats;
mod strict;
mod walk;

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
    /// The profile cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
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
    let (image, raw) = open(path, options, &stats, &log)?;
    if options.strict {
        let damaged = |what| MountError::Damaged { path: path.into(), what };
        strict::check(&*image, options.threads + 1).map_err(damaged)?;
    }
    let ProfilePlan { steps, recorder } = ProfilePlan::of(options, &image, &log)?;
    let budget = if raw.is_direct() { options.cache / 2 } else { options.cache };
    let content = Arc::new(Content::new(Arc::clone(&image), raw, budget));
    let (outstanding, stop) = (Arc::<Outstanding>::default(), Arc::<AtomicBool>::default());
    let (queue, pusher) = Queue::new(&content, &outstanding, &stop, &stats, &log);
    let (ending, ends) = bounded(1);
    let (inodes, files) = (Inodes::new(image.root(), options.time), Arc::new(Files::new()));
    let (policy, ahead) = ahead(options, recorder.is_some());
    let (again, wake) = Again::new();
    let served = Arc::new(Served {
        inodes,
        image: Arc::clone(&image),
        content: Arc::clone(&content),
        files: Arc::clone(&files),
        ahead,
        policy,
        outstanding,
        queue,
        workers: Workers::new(),
        stats: Arc::clone(&stats),
        log: Arc::clone(&log),
        recorder: recorder.as_ref().map(|recording| Arc::clone(&recording.recorder)),
        again,
        walks: Walks::new(),
        broke: Box::new(Stopper(ending.clone())),
    });
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
        let replay = Replay { steps, inodes, files, content, pusher, stats, stop, wake };
        let (folder, notifier) = (folder.to_owned(), notifier.clone());
        start("replay").spawn(move || replay.run(&folder, &notifier)).map_err(failed)?;
    }
    Pusher::start(pusher, notifier).map_err(failed)?;
    Ok(mounted)
}

/// The rule and who reads ahead. Only what is asked for can be recorded, so nothing may come
/// beforehand then.
fn ahead(options: &Options, is_recorded: bool) -> (Spec, Ahead) {
    if is_recorded {
        return (Spec::parse("off").expect("the table has it"), Ahead::Ours);
    }
    let ahead = match (options.window, options.policy.policy().name) {
        (Window::Ours, _) | (Window::Rule, "off") => Ahead::Ours,
        (Window::Rule | Window::Kernel, "eager" | "selective") => Ahead::Kernel,
        (Window::Rule | Window::Kernel, _) => Ahead::Both,
    };
    (options.policy.clone(), ahead)
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
            Err(error @ ProfileError::File { .. }) => return Err(error.into()),
            Ok(None) => {
                profile::try_write(path)?;
                let recorder = Some(Recording { recorder: Arc::default(), of, path: path.clone() });
                return Ok(Self { steps: Vec::new(), recorder });
            }
        }
        Ok(Self::default())
    }
}

/// Opens the image; one that is cut short is opened as if it were whole, unless that is refused.
fn open(
    path: &Path,
    options: &Options,
    stats: &Arc<Stats>,
    log: &Log,
) -> Result<(Arc<dyn Image>, Arc<Raw>), MountError> {
    let cannot = |why| MountError::Open { path: path.to_owned(), why };
    let wrong = |why| MountError::Image { path: path.to_owned(), why };
    // A pipe that nobody writes to is not waited for.
    let direct = options.direct;
    let flags = if direct { OFlags::DIRECT } else { OFlags::empty() };
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = || -> Result<Raw, MountError> {
        // A pipe that nobody writes to is not waited for.
        let file = rustix::fs::open(path, flags, Mode::empty());
        let file = File::from(file.map_err(|error| cannot(error.into()))?);
        let kind = file.metadata().map_err(cannot)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(cannot(io::Error::other("it is neither a file nor a block device")));
        }
        // The very same file, whatever the path is of by this time.
        let again = format!("/proc/self/fd/{}", file.as_raw_fd());
        let random = match rustix::fs::open(again, flags, Mode::empty()) {
            Ok(random) => File::from(random),
            Err(_) => file.try_clone().map_err(cannot)?,
        };
        let source = FileSource::new(file).map_err(cannot)?;
        let place = options.offset..source.len();
        let file = source.file().try_clone().map_err(cannot)?;
        let opened = Opened { file, random, direct };
        Ok(Raw::new(opened, place, options.cache / 2, Arc::clone(stats)))
    };
    let read = |raw: Raw| {
        let raw = Arc::new(raw);
        let source: Arc<dyn Source> = Arc::clone(&raw) as Arc<dyn Source>;
        let lenient = forebay_image::Options { lenient: options.lenient };
        forebay_image::open(&source, lenient).map(|image| (image, raw))
    };
    let (image, raw) = match read(open()?) {
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
    Ok((image, raw))
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
    /// If it was to be recorded, and the profile cannot be written.
    pub fn wait(mut self) -> Result<Ended, ProfileError> {
        let ended = self.ends.recv().unwrap_or(Ended::Stopped);
        self.stop.store(true, Relaxed);
        self.detach(&ended);
        self.is_over = true;
        for oddity in self.image.oddities() {
            self.log.say(&oddity);
        }
        self.log.close();
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
