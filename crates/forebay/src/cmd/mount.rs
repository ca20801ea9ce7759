//! `forebay mount`: an image as a folder, in the background by default.
//!
//! ```text
//!   forebay mount IMAGE DIR            forebay mount IMAGE DIR --foreground --announce
//!     starts itself anew  ------------>  a session of its own; mounts
//!     waits for a line    <------------  "ready", then gives its standard streams back
//!     exits 0                            serves until it is unmounted or told to end
//! ```
//!
//! An error before that line comes out on the caller's standard error, and the exit code is its.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, fs, process, thread};

use anyhow::{Context, Result, anyhow, bail};
use forebay_core::packed::Spec;
use forebay_host::attach::AttachError;
use forebay_host::backend::{BlockCache, local_path, scrubbed};
use forebay_host::mount::{
    self, CACHE_MAX, CACHE_MIN, Ended, MountError, OpenError, Options, Sink, Stopper, Window,
};
use forebay_host::mounts::answer_of;
use forebay_image::Time;
use forebay_image::profile::ProfileError;
use forebay_report::messages::{self, Complaint, note, shown};
use forebay_report::units;
use rustix::fs::OFlags;
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::{Mount, MountWindow};
use crate::cmd::image::{no_image, source};
use crate::objects;

/// Mounts, or shows what a mount has done.
pub(crate) fn run(arguments: &Mount) -> Result<u8> {
    if let Some(folder) = &arguments.stats {
        return statistics(folder, arguments);
    }
    if arguments.list {
        return super::unmount::list(arguments.json);
    }
    let (Some(image), Some(folder)) = (&arguments.image, &arguments.folder) else {
        bail!("mount takes an image and a folder");
    };
    let options = options(arguments)?;
    if !arguments.foreground {
        return in_background();
    }
    serve(arguments, image, folder, &options)
}

/// The typed options, for the mount.
fn options(arguments: &Mount) -> Result<Options> {
    let policy = Spec::parse(&arguments.policy).map_err(Complaint::from)?;
    let time = match arguments.time.as_str() {
        "keep" => None,
        typed => {
            let seconds = typed.parse().map_err(|_| {
                Complaint::new(format!("--time takes seconds since 1970 or keep, not '{typed}'"))
                    .hint("`date +%s` prints such seconds for now")
            })?;
            Some(Time { seconds, nanos: 0 })
        }
    };
    let root = rustix::process::geteuid().is_root();
    if arguments.trusted && !root {
        let what = "--trusted takes root: set-user-id bits and devices of the image would count";
        return Err(Complaint::new(what)
            .hint("without it nothing in the image has such rights")
            .into());
    }
    messages::detail(|| {
        let Mount { policy, cache, threads, window, .. } = arguments;
        let window = window.name();
        format!("mount: fill rule {policy}, window {window}, cache {cache}, {threads} threads")
    });
    let profile = arguments.profile.as_deref().map(std::path::absolute).transpose()?;
    let record = arguments.record.as_deref().map(std::path::absolute).transpose()?;
    let log = arguments.log.as_deref().map(std::path::absolute).transpose()?;
    for (one, other, what) in [
        (&record, &profile, "--record and --profile"),
        (&record, &log, "--record and --log"),
        (&profile, &log, "--profile and --log"),
    ] {
        if one.is_some() && one == other {
            let what = format!("{what} name the same file");
            return Err(Complaint::new(what).hint("each writes a file of its own").into());
        }
    }
    Ok(Options {
        cached: None,
        offset: units::bytes("--offset", &arguments.offset)?,
        direct: arguments.direct,
        lenient: arguments.lenient,
        strict: arguments.strict,
        cache: page_memory(&arguments.cache)?,
        threads: arguments.threads as usize,
        policy,
        window: match arguments.window {
            MountWindow::Rule => Window::Rule,
            MountWindow::Ours => Window::Ours,
            MountWindow::Kernel => Window::Kernel,
        },
        time,
        allow_other: arguments.allow_other || root,
        trusted: arguments.trusted,
        profile,
        profile_update: arguments.profile_update,
        record,
    })
}

/// The page memory of a mount, in bytes.
pub(crate) fn page_memory(typed: &str) -> Result<u64> {
    let bytes = units::bytes("--cache", typed)?;
    if !(CACHE_MIN..=CACHE_MAX).contains(&bytes) {
        let what = format!("the cache has from {CACHE_MIN} to {CACHE_MAX} bytes, not {bytes}");
        return Err(Complaint::new(what).hint("`--cache 32M` is the default").into());
    }
    Ok(bytes)
}

/// Starts this program anew without a terminal, and waits until the mount is usable.
fn in_background() -> Result<u8> {
    let mut child = Command::new("/proc/self/exe");
    child.arg0(env::args_os().next().unwrap_or_else(|| OsString::from("forebay")));
    // Behind the user's `--` they would be names.
    let (before, after) = typed_arguments();
    child.args(before).args(["--foreground", "--announce"]).args(after);
    child.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = child.spawn().context("cannot start a process for the mount")?;
    let said = child.stdout.take().context("the mount's process has no standard output")?;
    let mut line = String::new();
    // A process that ended without a line has said why.
    let _ = BufReader::new(said).read_line(&mut line);
    if line == READY {
        return Ok(0);
    }
    let status = child.wait().context("cannot wait for the mount's process")?;
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) if code != 0 => Ok(code),
        Some(_) | None => bail!("the mount's process ended: {status}"),
    }
}

/// This program's arguments up to `--`, and the others.
fn typed_arguments() -> (Vec<OsString>, Vec<OsString>) {
    let mut before: Vec<OsString> = env::args_os().skip(1).collect();
    let end = before.iter().position(|one| one == "--").unwrap_or(before.len());
    let after = before.split_off(end);
    (before, after)
}

/// Mounts and serves until the mount ends.
fn serve(arguments: &Mount, image: &Path, folder: &Path, options: &Options) -> Result<u8> {
    mount::allocate_together();
    if arguments.announce {
        // It fails only for the leader of a group, which a child is not.
        let _ = rustix::process::setsid();
        // Started as /proc/self/exe, it is `exe` in lists of processes.
        let _ = rustix::thread::set_name(c"forebay");
    }
    // Signals that come while it is being mounted must not leave a mount behind.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot wait for signals")?;
    let (path, cached) = bytes(arguments, image, options.offset)?;
    let options = &Options { cached, ..options.clone() };
    let folder = place(folder)?;
    // Before there is a mount that nothing would end.
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null");
    let nothing = nothing.context("cannot open /dev/null")?;
    let last_words = sink(arguments)?;
    let mounted = mount::mount(&path, &folder, options, sink(arguments)?);
    let mounted = mounted.map_err(|error| hinted(error, image, options.offset))?;
    stop_on(signals, mounted.stopper())?;
    if arguments.announce {
        announce(&nothing)?;
    } else {
        note(&format!("{} is mounted on {}", path.display(), folder.display()));
    }
    let ended = match mounted.wait() {
        Ok(Ended::Unmounted | Ended::Stopped) => Ok(0),
        Ok(Ended::Broke(what)) => Err(anyhow!("the mount broke down: {what}")),
        Err(error) => Err(error.into()),
    };
    if arguments.announce
        && let Err(error) = &ended
    {
        // Standard error is closed.
        last_words(&format!("{error:#}"));
    }
    ended
}

/// The image by its path from the root, or by its address and with its bytes.
fn bytes(
    arguments: &Mount,
    image: &Path,
    offset: u64,
) -> Result<(PathBuf, Option<Arc<BlockCache>>)> {
    if let Some(address) = objects::address(image) {
        let cache = units::bytes("--object-cache", &arguments.object_cache)?;
        return Ok((scrubbed(address).into(), Some(objects::cached(address, cache)?)));
    }
    // An invalid image gives the same error as `forebay image`.
    source(image, "--offset", offset)?;
    let local = image.to_str().and_then(local_path);
    let path = fs::canonicalize(local.as_deref().unwrap_or(image));
    Ok((path.with_context(|| format!("cannot read '{}'", shown(image)))?, None))
}

/// The folder by its path from the root; what lies below it and will not be seen is noted.
fn place(folder: &Path) -> Result<PathBuf> {
    let shown = shown(folder);
    let typed = folder.to_owned();
    let found = answer_of(move || {
        let path = fs::canonicalize(typed)?;
        // Only the server of a mount knows this.
        rustix::fs::statfs(&path)?;
        io::Result::Ok((fs::read_dir(&path)?, path))
    });
    let Some(found) = found else {
        let what = format!("cannot mount on '{shown}': {SILENT}");
        return Err(Complaint::new(what).hint(unmount_of(&shown)).into());
    };
    let (mut entries, path) = found.map_err(|error| {
        let kind = error.kind();
        let hint = if kind == io::ErrorKind::NotConnected {
            died(&shown)
        } else if kind == io::ErrorKind::NotFound {
            "mkdir makes it".to_owned()
        } else if kind == io::ErrorKind::NotADirectory {
            "an image is mounted on a folder".to_owned()
        } else {
            return anyhow!(error).context(format!("cannot mount on '{shown}'"));
        };
        Complaint::new(format!("cannot mount on '{shown}': {error}")).hint(hint).into()
    })?;
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    if path.parent().is_some_and(|parent| device(parent) != device(&path)) {
        note(&format!("'{shown}' is a mount point already; what is mounted there is hidden"));
    } else if entries.next().is_some() {
        note(&format!("'{shown}' is not empty; what is in it is hidden"));
    }
    Ok(path)
}

/// What can be done about a mount that failed.
fn hinted(error: MountError, image: &Path, offset: u64) -> anyhow::Error {
    match &error {
        MountError::Open(OpenError::Image { why, .. }) => no_image(image, offset, why).into(),
        MountError::Attach(AttachError::Device { why })
            if why.kind() == io::ErrorKind::PermissionDenied =>
        {
            let hint = "run it as root, or have root allow it: `chmod 666 /dev/fuse`";
            Complaint::new(error.to_string()).hint(hint).into()
        }
        MountError::Attach(AttachError::Device { why })
            if why.kind() == io::ErrorKind::NotFound =>
        {
            let hint = "`modprobe fuse` loads what is missing; a container needs the device";
            Complaint::new(error.to_string()).hint(hint).into()
        }
        MountError::Attach(AttachError::Mount { folder, why })
            if why.kind() == io::ErrorKind::NotConnected =>
        {
            Complaint::new(error.to_string()).hint(died(&shown(folder))).into()
        }
        MountError::Cache { .. } => {
            Complaint::new(error.to_string()).hint("`--cache 32M` is the default").into()
        }
        MountError::Damaged { .. } => {
            let hint = "`forebay image verify` lists all damage; without --strict the rest can be \
                        read";
            Complaint::new(error.to_string()).hint(hint).into()
        }
        MountError::Attach(AttachError::Device { .. }) => {
            let hint = "`forebay doctor` says what this machine allows";
            Complaint::new(error.to_string()).hint(hint).into()
        }
        MountError::Profile(ProfileError::Line { .. }) => {
            let hint = "only a profile or an empty file is replaced: name another one";
            Complaint::new(error.to_string()).hint(hint).into()
        }
        MountError::Recording { .. } => {
            let hint = "a recording is a new file: name another one, or remove it";
            Complaint::new(error.to_string()).hint(hint).into()
        }
        MountError::Attach(AttachError::Mount { .. })
        | MountError::Open(OpenError::File { .. })
        | MountError::Profile(ProfileError::File { .. })
        | MountError::Thread(_) => error.into(),
    }
}

fn stop_on(mut signals: Signals, stopper: Stopper) -> Result<()> {
    let watch = move || {
        for _ in signals.forever() {
            stopper.stop();
        }
    };
    thread::Builder::new().name("forebay-signals".to_owned()).spawn(watch)?;
    Ok(())
}

/// Reports that the mount is usable and closes the caller's streams.
fn announce(nothing: &File) -> Result<()> {
    io::stdout().write_all(READY.as_bytes()).and_then(|()| io::stdout().flush())?;
    rustix::stdio::dup2_stdout(nothing)?;
    rustix::stdio::dup2_stderr(nothing)?;
    BACKGROUND.store(true, Relaxed);
    // The caller's folder may go away.
    env::set_current_dir("/")?;
    Ok(())
}

/// Where the mount's lines go: to a file, to standard error, or, without one, to the system log.
fn sink(arguments: &Mount) -> Result<Sink> {
    let file = match &arguments.log {
        None => None,
        Some(path) => Some(Mutex::new(log(path)?)),
    };
    // The system's logger may run from this very mount: it is not waited for.
    let system = UnixDatagram::unbound().ok().filter(|it| it.set_nonblocking(true).is_ok());
    Ok(Box::new(move |line| {
        // A line that cannot be written has nowhere else to go.
        if let Some(file) = &file {
            let mut file: &File = &file.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = file.write_all(format!("{line}\n").as_bytes());
        } else if !BACKGROUND.load(Relaxed) {
            let _ = writeln!(io::stderr(), "forebay: {line}");
        } else if let Some(system) = &system {
            let line = format!("<{WARNING}>forebay[{}]: {line}", process::id());
            let _ = system.send_to(line.as_bytes(), "/dev/log");
        }
    }))
}

/// Opens the log file. A pipe is refused: opening one without a reader blocks, and one whose reader
/// ends would block the mount.
fn log(path: &Path) -> Result<File> {
    let name = shown(path);
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let opened = OpenOptions::new().append(true).create(true).custom_flags(flags).open(path);
    let is_log = match &opened {
        Ok(file) => file.metadata().map(|seen| seen.is_file() || seen.file_type().is_char_device()),
        // A pipe without a reader, or a socket.
        Err(error) => Ok(error.raw_os_error() != Some(Errno::NXIO.raw_os_error())),
    };
    let cannot = || format!("cannot log to '{name}'");
    if !is_log.with_context(cannot)? {
        bail!(
            Complaint::new(format!("cannot log to '{name}': it is no regular file"))
                .hint("a log is a file, or a device such as /dev/null")
        );
    }
    opened.with_context(cannot)
}

/// Prints the counters of a mount.
fn statistics(folder: &Path, arguments: &Mount) -> Result<u8> {
    let (typed, name) = (folder.to_owned(), shown(folder));
    let Some(counters) = answer_of(move || mount::of_mount(&typed)) else {
        let what = format!("no counters of '{name}': {SILENT}");
        return Err(Complaint::new(what).hint(unmount_of(&name)).into());
    };
    let counters = counters.map_err(|error| {
        let hint = if error.kind() == io::ErrorKind::NotConnected {
            died(&name)
        } else {
            "it takes the folder that an image is mounted on".to_owned()
        };
        // What any other folder says to the ioctl.
        let is_other = error.raw_os_error() == Some(Errno::NOTTY.raw_os_error());
        let what = match is_other {
            true => format!("'{name}' is no mounted image"),
            false => format!("no counters of '{name}': {error}"),
        };
        Complaint::new(what).hint(hint)
    })?;
    let mut text = String::new();
    if arguments.json {
        let object: serde_json::Map<String, serde_json::Value> =
            counters.into_iter().map(|(name, value)| (name, value.into())).collect();
        writeln!(text, "{}", serde_json::Value::Object(object))?;
    } else {
        let is_shown = |name: &str| arguments.all || MAIN_COUNTERS.contains(&name);
        for (name, value) in counters.iter().filter(|(name, _)| is_shown(name)) {
            writeln!(text, "{:<24} {value:>16}", name.replace('_', " "))?;
        }
    }
    io::stdout().lock().write_all(text.as_bytes()).context("cannot write the counters")?;
    Ok(0)
}

/// What a mount whose server hangs makes of everything.
const SILENT: &str = "the mount's server does not answer";

/// What to do about a mount whose server was killed; the path may have a blank.
fn died(folder: &str) -> String {
    format!("the mount's server has died: {}", unmount_of(folder))
}

fn unmount_of(folder: &str) -> String {
    format!("`forebay unmount '{folder}'`")
}

/// The counters that tell most of how a mount does; `--all` shows the others.
const MAIN_COUNTERS: [&str; 12] = [
    "requests",
    "demands",
    "wide_reads",
    "pages_answered",
    "pages_pushed",
    "errors",
    "pages_decoded",
    "raw_operations",
    "raw_bytes",
    "object_requests",
    "object_bytes",
    "resident_bytes",
];

/// What the mount's process says when it is usable.
const READY: &str = "ready\n";

/// Daemon, warning (RFC 3164).
const WARNING: u32 = 3 * 8 + 4;

/// Whether the caller's streams are given back.
static BACKGROUND: AtomicBool = AtomicBool::new(false);
