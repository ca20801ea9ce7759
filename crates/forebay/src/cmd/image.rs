//! `forebay image`: compressed images, looked into, extracted, checked, compared, made.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use forebay_host::backend::local_path;
use forebay_image::{
    self as images, Cause, Fault, FileSource, Follow, Options, Resolved, Source, Window,
};
use forebay_report::messages::{Complaint, complain, shown};
use forebay_report::units;
use rustix::fs::{Mode, OFlags};

use crate::args::image::{Image, Opened, What};
use crate::{ERROR, NO, objects};

mod cat;
mod compare;
mod extract;
mod info;
mod layout;
mod ls;
mod make;
mod scan;
mod select;
mod show;
mod stat;
mod tar;
mod verify;

pub(super) use show::put_name;

/// Runs a subcommand.
pub(crate) fn run(arguments: &Image) -> Result<u8> {
    let done = perform(arguments).or_else(|error| {
        if let Some(No(complaint)) = error.downcast_ref() {
            complain(complaint);
            return Ok(NO);
        }
        match code_of_error(&error) {
            NO => {
                complain(&format_args!("{error:#}"));
                Ok(ended(NO))
            }
            _ => Err(error),
        }
    });
    objects::say_cost();
    done
}

fn perform(arguments: &Image) -> Result<u8> {
    match &arguments.what {
        What::Info(arguments) => info::run(arguments),
        What::Scan(arguments) => scan::run(arguments),
        What::Ls(arguments) => ls::run(arguments),
        What::Stat(arguments) => stat::run(arguments),
        What::Cat(arguments) => cat::run(arguments),
        What::Extract(arguments) => extract::run(arguments),
        What::Tar(arguments) => tar::run(arguments),
        What::Verify(arguments) => verify::run(arguments),
        What::Make(arguments) => make::run(arguments),
        What::Compare(arguments) => compare::run(arguments),
        What::Layout(arguments) => layout::run(arguments),
    }
}

/// Opens the image that was typed.
fn open(opened: &Opened) -> Result<Arc<dyn images::Image>> {
    let offset = units::bytes("--offset", &opened.offset)?;
    let cache = units::bytes("--object-cache", &opened.object_cache)?;
    let place = Place { path: &opened.image, flag: "--offset", offset, cache };
    open_at(&place, Options { lenient: opened.lenient })
}

/// Where an image begins.
struct Place<'a> {
    path: &'a Path,
    /// The typed offset.
    flag: &'a str,
    offset: u64,
    /// Bytes of an object that are kept.
    cache: u64,
}

/// Opens an image that begins at a byte of a file.
fn open_at(place: &Place<'_>, options: Options) -> Result<Arc<dyn images::Image>> {
    let source = source_cached(place.path, place.flag, place.offset, place.cache)?;
    let source: Arc<dyn Source> = Arc::new(Window::new(source, place.offset));
    let opened = images::open(&source, options);
    opened.map_err(|error| {
        let complaint = no_image(place.path, place.offset, &error);
        if is_damage(&error) { No(complaint).into() } else { complaint.into() }
    })
}

/// Whether an error is about the content of an image, and not about what can be read.
const fn is_damage(error: &images::Error) -> bool {
    match error {
        images::Error::Truncated { .. }
        | images::Error::Field { .. }
        | images::Error::Block { .. } => true,
        images::Error::Read { .. }
        | images::Error::Unknown { .. }
        | images::Error::Unsupported { .. } => false,
    }
}

/// An answer of no, in words: the exit code is [`NO`].
#[derive(Debug)]
struct No(Complaint);

impl fmt::Display for No {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for No {}

/// Opens the file, device or object that holds an image.
pub(crate) fn source(path: &Path, flag: &str, offset: u64) -> Result<Arc<dyn Source>> {
    source_cached(path, flag, offset, objects::CACHE)
}

fn source_cached(path: &Path, flag: &str, offset: u64, cache: u64) -> Result<Arc<dyn Source>> {
    let source = match objects::address(path) {
        Some(address) => objects::source(address, cache)?,
        None => Arc::new(file(path)?),
    };
    let (name, len) = (shown(path), source.len());
    if len == 0 {
        bail!(Complaint::new(format!("'{name}' is empty")).hint("was its copy cut off?"));
    }
    if offset >= len {
        let what =
            format!("{flag} {offset} is not before the end of '{name}', which has {len} bytes");
        bail!(Complaint::new(what).hint(format!("{flag} is where the image begins in the file")));
    }
    Ok(source)
}

fn file(path: &Path) -> Result<FileSource> {
    let local = path.to_str().and_then(local_path);
    let path = local.as_deref().unwrap_or(path);
    let name = shown(path);
    let cannot = || format!("cannot read '{name}'");
    // A pipe without a writer is not waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from);
    let file = File::from(file.with_context(cannot)?);
    let kind = file.metadata().with_context(cannot)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        bail!(
            Complaint::new(format!("'{name}' is neither a file nor a block device"))
                .hint("an image is a file, or a device such as /dev/mmcblk0p2")
        );
    }
    FileSource::new(file).with_context(cannot)
}

/// The error of an invalid image, with a hint.
pub(crate) fn no_image(path: &Path, offset: u64, error: &images::Error) -> Complaint {
    let from = if offset == 0 { String::new() } else { format!(" from byte {offset} on") };
    let hint = match error {
        images::Error::Unknown { .. } if offset == 0 => {
            "`forebay image scan FILE` finds images inside a larger file, for --offset"
        }
        images::Error::Read { source, .. } if source.kind() != io::ErrorKind::UnexpectedEof => {
            "nothing is known of the image: what holds it cannot be read"
        }
        images::Error::Unsupported { .. } => {
            "cramfs, squashfs and erofs are read, and without this"
        }
        images::Error::Unknown { .. }
        | images::Error::Read { .. }
        | images::Error::Truncated { .. }
        | images::Error::Field { .. }
        | images::Error::Block { .. } => OF_IMAGE,
    };
    Complaint::new(error.to_string()).at(&format!("'{}'{from}", shown(path))).hint(hint)
}

/// What can be done about an image that does not open.
const OF_IMAGE: &str =
    "cramfs, squashfs and erofs are read; one that was cut off has to be copied again";

/// Finds a path of an image.
fn find(image: &dyn images::Image, path: &Path, follow: Follow) -> Result<Resolved> {
    let typed = path.as_os_str().as_bytes();
    match images::resolve(image, typed, follow) {
        Ok(found) => Ok(found),
        // If no link was followed, the fault names the typed path.
        Err(fault) if typed.strip_prefix(b"/").unwrap_or(typed) == fault.path => bail!(fault),
        Err(fault) => Err(fault).with_context(|| format!("'{}'", images::shown(typed))),
    }
}

/// The exit code of an error: the image is damaged; or the path was not one of its files, or the
/// image could not be read.
fn code_of(cause: &Cause) -> u8 {
    let is_of_path =
        matches!(cause, Cause::Missing | Cause::NotDirectory | Cause::NotFile(_) | Cause::Links(_));
    if is_of_path || cause.is_unread() { ERROR } else { NO }
}

/// The same of an error with context.
fn code_of_error(error: &anyhow::Error) -> u8 {
    error.downcast_ref::<Fault>().map_or(ERROR, |fault| code_of(&fault.cause))
}

/// Prints what to do next, if anything, and returns the exit code.
fn ended(code: u8) -> u8 {
    match code {
        NO => hint(OF_DAMAGE),
        ERROR => hint(WHAT_IS_THERE),
        _ => {}
    }
    code
}

/// Prints a hint about an error.
fn hint(what: &str) {
    // As for what went wrong.
    let _ = writeln!(io::stderr(), "hint: {what}");
}

/// What can be done about damage.
pub(crate) const OF_DAMAGE: &str = "`forebay image verify IMAGE` lists all damage";

/// What can be done about a path that is not there, or of another kind.
pub(crate) const WHAT_IS_THERE: &str = "`forebay image ls -lR IMAGE` lists what is in an image";

/// Standard output for data.
struct Out {
    to: BufWriter<StdoutLock<'static>>,
    /// Whether a terminal would obey control characters.
    terminal: bool,
}

impl Out {
    fn new() -> Self {
        let to = BufWriter::with_capacity(64 << 10, io::stdout().lock());
        Self { to, terminal: io::stdout().is_terminal() }
    }

    /// A name: its bytes, or what can be shown of them on a terminal.
    fn name(&mut self, name: &[u8]) -> io::Result<()> {
        if self.terminal {
            self.to.write_all(images::shown(name).as_bytes())
        } else {
            self.to.write_all(name)
        }
    }

    fn finish(mut self, what: &'static str) -> Result<()> {
        self.to.flush().with_context(|| format!("cannot write the {what}"))
    }
}

/// Prints lines or an object, and names the output if that fails.
fn print(text: &str, what: &'static str) -> Result<()> {
    print_bytes(text.as_bytes(), what)
}

/// The same of what may hold names that are no text.
fn print_bytes(bytes: &[u8], what: &'static str) -> Result<()> {
    let mut out = Out::new();
    out.to.write_all(bytes).with_context(|| format!("cannot write the {what}"))?;
    out.finish(what)
}
