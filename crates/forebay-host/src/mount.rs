//! A compressed image as a folder: programs start, map and execute from it.
//!
//! ```text
//!   kernel     LOOKUP, GETATTR, READDIR, ...        READ                        ^ STORE
//!                        |                           |                          |
//!   one thread       session --------------------- read -- what is slow --> workers
//!                        |                           |                          |
//!                     inodes                      handle: the rule, a stream    |
//!                        |                           |  \                       |
//!                        |                           |   +-- pages ahead --> push, fetch, replay
//!                        |                        content                       |
//!   forebay-image      tree                       decode: once, in part  <------+
//!                        |                           |
//!   the image           raw: in chunks, in bulk, each once
//! ```
//!
//! A READ is answered from decoded bytes, or from raw bytes in memory, or from a read of the image
//! that is on its way, or by a read of its own: the piece that it needs, while another thread has
//! the kernel bring in a large piece around it.
//!
//! **Who reads ahead.** The kernel's window cannot be set for each file, and a READ that covers a
//! window has to be answered in full or refused; then each page is demanded by itself. The rules
//! `eager` and `selective` get the kernel's window and answer it, or refuse it as their papers have
//! it. `off` has none. Ours has the kernel's for files that are read, and refuses it for files that
//! are mapped: a fault costs its own page, and what is likely to follow is pushed. `--window ours`
//! does without the kernel's, and pushes ahead of readers too. Measured on a machine with two
//! processors and four times as much to do, the image in memory, blocks of 4 KiB by zlib:
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
//! So with both the single fault takes twice as long, and a program has a fifth of the faults and
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
//! **State of an open file** hangs on the inode and the asking task, so that opening and closing
//! need no request at all.
//!
//! A connection that hangs is ended by writing to `/sys/fs/fuse/connections/NUMBER/abort`, with
//! the minor device number that `mountpoint -d` shows; see `push.rs` for how it could come to that.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use forebay_core::packed::Spec;
use forebay_image::{FileSource, Image, Source, Time};
use fuser::{Config, MountOption, Session, SessionACL};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use content::Content;
use handle::{Ahead, Files};
use inodes::Inodes;
use log::Log;
use profile::{Fingerprint, Profile, Recorder};
use push::{Outstanding, Queue};
use raw::Raw;
use read::Workers;
use replay::Replay;
use session::{Answers, Broke, Served};
use stats::Stats;

pub use log::Sink;
pub use profile::ProfileError;
pub use stats::{ATTRIBUTE, of_mount};

mod clock;
mod content;
mod decode;
mod handle;
mod inodes;
mod log;
mod profile;
mod push;
mod raw;
mod read;
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
    /// The number by which this mount is told from others on the same folder, if it is known.
    device: Option<(u32, u32)>,
    is_over: bool,
    stop: Arc<AtomicBool>,
    ends: Receiver<Ended>,
    ending: Sender<Ended>,
    recording: Option<Recording>,
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

    fn over(&self) {
        let _ = self.0.try_send(Ended::Unmounted);
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
    let plan = ProfilePlan::of(options, &image, &log)?;
    let recorder = plan.recorder.as_ref().map(|recording| Arc::clone(&recording.recorder));
    let content = Content::new(Arc::clone(&image), raw, options.cache / 2, Arc::clone(&stats));
    let (content, files) = (Arc::new(content), Arc::new(Files::new()));
    let (outstanding, stop) = (Arc::<Outstanding>::default(), Arc::<AtomicBool>::default());
    let (reading, counting) = (Arc::clone(&outstanding), Arc::clone(&stats));
    let (queue, pusher) = Queue::new(Arc::clone(&content), reading, counting, Arc::clone(&stop));
    let (ending, ends) = bounded(1);
    let inodes = Inodes::new(image.root(), options.time);
    // Only what is asked for can be recorded, so nothing may come beforehand.
    let off = || Spec::parse("off").expect("the table has it");
    let policy = if recorder.is_some() { off() } else { options.policy.clone() };
    let served = Served {
        inodes,
        image,
        content: Arc::clone(&content),
        files: Arc::clone(&files),
        ahead: match (options.window, policy.policy().name) {
            _ if recorder.is_some() => Ahead::Ours,
            (Window::Ours, _) | (Window::Rule, "off") => Ahead::Ours,
            (Window::Rule | Window::Kernel, "eager" | "selective") => Ahead::Kernel,
            (Window::Rule | Window::Kernel, _) => Ahead::Both,
        },
        policy,
        outstanding,
        queue,
        workers: Workers::new(),
        stats: Arc::clone(&stats),
        log: Arc::clone(&log),
        recorder,
        broke: Box::new(Stopper(ending.clone())),
    };
    let served = Arc::new(served);
    served.workers.start(options.threads.max(1), &served).map_err(failed)?;
    let answers = Answers(Arc::clone(&served));
    let session = Session::new(answers, folder, &config(path, options)).map_err(failed)?;
    served.workers.connect(session.as_fd().try_clone_to_owned().map_err(failed)?);
    drop(served);
    let notifier = session.notifier();
    // What belongs to the session unmounts when it ends: fuser 0.18 takes a device that is gone for
    // one that is mounted, and unmounts whatever is on the folder by then. So it does not get to
    // it, and the end is heard of by `destroy`.
    mem::forget(session.spawn().map_err(failed)?);
    let mounted = Mounted {
        folder: folder.to_owned(),
        device: device_of(folder),
        is_over: false,
        stop: Arc::clone(&stop),
        ends,
        ending,
        recording: plan.recorder,
        log,
    };
    let pusher = Arc::new(pusher);
    if !plan.steps.is_empty() {
        let pusher = Arc::clone(&pusher);
        let replay = Replay { steps: plan.steps, inodes, files, content, pusher, stats, stop };
        let (folder, notifier) = (folder.to_owned(), notifier.clone());
        thread::Builder::new()
            .name("forebay-replay".to_owned())
            .spawn(move || replay.run(&folder, &notifier))
            .map_err(failed)?;
    }
    pusher.start(notifier).map_err(failed)?;
    Ok(mounted)
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
    image: Arc<dyn Image>,
    of: Fingerprint,
    path: PathBuf,
}

impl ProfilePlan {
    fn of(options: &Options, image: &Arc<dyn Image>, log: &Log) -> Result<Self, MountError> {
        let Some(path) = &options.profile else { return Ok(Self::default()) };
        let wrong = |why| ProfileError::File { path: path.clone(), why };
        let of = Fingerprint::of(&**image).map_err(wrong)?;
        let found = if options.profile_update { None } else { Profile::read(path)? };
        match found {
            Some(profile) if profile.image == of => {
                Ok(Self { steps: profile.steps, recorder: None })
            }
            Some(_) => {
                let path = path.display();
                log.say(&format!("profile '{path}' is of another image and is not used"));
                Ok(Self::default())
            }
            None => {
                let (recorder, image) = (Arc::default(), Arc::clone(image));
                let recorder = Some(Recording { recorder, image, of, path: path.clone() });
                Ok(Self { steps: Vec::new(), recorder })
            }
        }
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
    let flags = if options.direct { OFlags::DIRECT } else { OFlags::empty() } | OFlags::NONBLOCK;
    let open = || -> Result<Raw, MountError> {
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | flags, Mode::empty());
        let file = File::from(file.map_err(|error| cannot(error.into()))?);
        let kind = file.metadata().map_err(cannot)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(cannot(io::Error::other("it is neither a file nor a block device")));
        }
        let file = FileSource::new(file);
        let file = file.map_err(cannot)?;
        let place = options.offset..file.len();
        let file = file.file().try_clone().map_err(cannot)?;
        Ok(Raw::new(file, place, options.direct, options.cache / 2, Arc::clone(stats)))
    };
    let read = |raw: Raw| {
        let raw = Arc::new(raw);
        let source: Arc<dyn Source> = Arc::clone(&raw) as Arc<dyn Source>;
        let lenient = forebay_image::Options { lenient: options.lenient };
        forebay_image::open(&source, lenient).map(|image| (image, raw))
    };
    match read(open()?) {
        Err(forebay_image::Error::Truncated { expected, found }) if !options.strict => {
            let opened = read(open()?.with_len(expected)).map_err(wrong)?;
            let path = path.display();
            log.say(&format!(
                "{path}: the image is truncated: it says {expected} bytes and has {found}; \
                 what lies beyond cannot be read"
            ));
            Ok(opened)
        }
        opened => opened.map_err(wrong),
    }
}

fn config(path: &Path, options: &Options) -> Config {
    let name = path.to_string_lossy().replace(',', "_");
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::RO,
        MountOption::NoAtime,
        MountOption::DefaultPermissions,
        MountOption::FSName(name),
        MountOption::Subtype("forebay".to_owned()),
    ];
    if options.trusted {
        config.mount_options.extend([MountOption::Suid, MountOption::Dev]);
    }
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(1);
    config
}

impl Mounted {
    /// Who can end it.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.ending.clone())
    }

    /// Waits until it has ended, and unmounts it if nobody has.
    pub fn wait(mut self) -> Ended {
        let ended = self.ends.recv().unwrap_or(Ended::Stopped);
        self.stop.store(true, Relaxed);
        if ended != Ended::Unmounted {
            self.detach();
        }
        self.is_over = true;
        self.write_profile();
        ended
    }

    /// Takes the mount away, if it is still the one on its folder; who has files of it open keeps
    /// them until this process ends.
    fn detach(&self) {
        if self.device.is_some() && device_of(&self.folder) != self.device {
            return;
        }
        if unmount(&self.folder, UnmountFlags::DETACH) == Err(Errno::PERM) {
            // Who may not unmount has mounted by this program.
            let mut command = Command::new("fusermount3");
            let _ = command.args(["-u", "-z", "--"]).arg(&self.folder).status();
        }
    }

    /// Writes the profile, if one was recorded.
    fn write_profile(&mut self) {
        let Some(Recording { recorder, image, of, path }) = self.recording.take() else { return };
        if let Err(error) = recorder.write(&*image, of, &path) {
            self.log.say(&error.to_string());
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if !self.is_over {
            self.detach();
        }
    }
}

/// The number of what is mounted on a folder, without asking who serves it.
fn device_of(folder: &Path) -> Option<(u32, u32)> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let found = statx(CWD, folder, flags, StatxFlags::empty()).ok()?;
    Some((found.stx_dev_major, found.stx_dev_minor))
}
