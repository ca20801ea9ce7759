//! A prefetch profile: what a program start looks up and reads, recorded by one mount of an image
//! and prefetched by later ones.
//!
//! ```text
//!   forebay-profile 1               the format
//!   image 63782912 9f86d081884c7d65 length in bytes, and a hash of the image's two ends
//!   name /lib/python3.11            a path that was looked up, found or not
//!   file /lib/libc.so.6             the next file; the first one is 0
//!   read 0 17 2                     pages 17 and 18 of file 0 were demanded
//! ```
//!
//! Lines are in the order of the events. A byte of a path that is not a graphic ASCII character is
//! `%` and two hexadecimal digits. While a profile is recorded nothing is read ahead and nothing is
//! pushed, so each page is recorded when it is first touched.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::image::Image;
use crate::layout::ReadPages;
use crate::node::NodeId;
use crate::source::Source;
use crate::walk::{Limits, Tree};

/// The events of a mount, from which a profile is made.
#[derive(Debug, Default)]
pub struct ProfileRecorder {
    seen: HashSet<(NodeId, u64)>,
    names: HashSet<(NodeId, Vec<u8>)>,
    events: Vec<Event>,
    /// There were more events than a profile holds.
    is_cut: bool,
}

#[derive(Debug)]
enum Event {
    Lookup(NodeId, Vec<u8>),
    Read(NodeId, u64),
}

/// A profile as stored in its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The image that it was recorded of.
    pub image: Fingerprint,
    /// Its events, in their order.
    pub steps: Vec<ProfileStep>,
}

/// A line of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileStep {
    /// A path was looked up.
    Name(Vec<u8>),
    /// Pages of a file were read.
    Read(ReadPages),
}

/// Identifies an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    /// The length of the image in bytes.
    pub bytes: u64,
    /// A hash of its first and last 4096 bytes.
    pub hash: u64,
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file cannot be read or written.
    #[error("profile '{}': {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// A line is not of a profile.
    #[error("profile '{}', line {line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The error.
        what: String,
    },
}

impl ProfileRecorder {
    /// Records that a name was looked up.
    pub fn lookup(&mut self, parent: NodeId, name: &[u8]) {
        if self.has_room() && self.names.insert((parent, name.to_vec())) {
            self.events.push(Event::Lookup(parent, name.to_vec()));
        }
    }

    /// Records that pages were read.
    pub fn read(&mut self, id: NodeId, pages: std::ops::Range<u64>) {
        for page in pages {
            if self.has_room() && self.seen.insert((id, page)) {
                self.events.push(Event::Read(id, page));
            }
        }
    }

    /// Whether events are left out because there were too many.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Writes the profile to a file: all of it, or nothing.
    ///
    /// # Errors
    ///
    /// [`ProfileError::File`].
    pub fn write(
        &self,
        image: &dyn Image,
        of: Fingerprint,
        path: &Path,
    ) -> Result<(), ProfileError> {
        let steps = self.steps(image);
        let text = Profile { image: of, steps }.text();
        let wrong = |why| ProfileError::File { path: path.to_owned(), why };
        let partial = partial(path);
        let written = create(&partial)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&partial, path));
        written.map_err(|why| {
            // A partial profile is of no use; the first error is the one to report.
            let _ = fs::remove_file(&partial);
            wrong(why)
        })
    }

    /// The events with paths instead of nodes; adjacent pages are one step.
    fn steps(&self, image: &dyn Image) -> Vec<ProfileStep> {
        let paths = paths(image, &self.events);
        let mut steps: Vec<ProfileStep> = Vec::new();
        for event in &self.events {
            match event {
                Event::Lookup(parent, name) => {
                    let Some(parent) = paths.get(parent) else { continue };
                    steps.push(ProfileStep::Name([parent, &b"/"[..], name].concat()));
                }
                Event::Read(id, page) => {
                    let Some(path) = paths.get(id) else { continue };
                    match steps.last_mut() {
                        Some(ProfileStep::Read(last))
                            if last.path == *path && last.page + last.pages == *page =>
                        {
                            last.pages += 1;
                        }
                        _ => {
                            let read = ReadPages { path: path.clone(), page: *page, pages: 1 };
                            steps.push(ProfileStep::Read(read));
                        }
                    }
                }
            }
        }
        steps
    }

    fn has_room(&mut self) -> bool {
        self.is_cut |= self.events.len() >= EVENTS_MAX;
        !self.is_cut
    }
}

/// The line of the first byte that is not UTF-8, and which byte of the file it is.
fn not_utf8(error: &FromUtf8Error) -> (usize, String) {
    let place = error.utf8_error().valid_up_to();
    let before = error.as_bytes()[..place].iter().filter(|byte| **byte == b'\n').count();
    (before + 1, format!("byte {place} is not UTF-8"))
}

/// Checks before anything is recorded that a profile can be written to `path`. A file that is
/// neither empty nor a profile is not replaced.
///
/// # Errors
///
/// [`ProfileError`].
pub fn try_write(path: &Path) -> Result<(), ProfileError> {
    let wrong = |why| ProfileError::File { path: path.to_owned(), why };
    if let Some(file) = open(path).map_err(wrong)? {
        let mut start = Vec::new();
        file.take(WORD.len() as u64).read_to_end(&mut start).map_err(wrong)?;
        if !start.is_empty() && start != WORD.as_bytes() {
            let what = "not a profile, so it is not replaced".to_owned();
            return Err(ProfileError::Line { path: path.to_owned(), line: 1, what });
        }
    }
    let partial = partial(path);
    let tried = create(&partial).and_then(|_file| fs::remove_file(&partial));
    tried.map_err(wrong)
}

/// Opens a file that may be a profile; none if there is no file.
fn open(path: &Path) -> io::Result<Option<fs::File>> {
    // Opening a pipe without a writer does not block.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = match fs::OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if file.metadata()?.is_file() {
        Ok(Some(file))
    } else {
        Err(io::Error::other("not a regular file"))
    }
}

/// Where a profile is written before it gets its name.
fn partial(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}", std::process::id()));
    PathBuf::from(partial)
}

/// Creates a new file, replacing one that was left behind. A symbolic link is not followed.
fn create(path: &Path) -> io::Result<fs::File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::File::create_new(path)
}

impl Profile {
    /// Reads a profile; none if there is no file.
    ///
    /// # Errors
    ///
    /// [`ProfileError`].
    pub fn read(path: &Path) -> Result<Option<Self>, ProfileError> {
        let wrong = |why| ProfileError::File { path: path.to_owned(), why };
        let line = |(line, what)| ProfileError::Line { path: path.to_owned(), line, what };
        let Some(file) = open(path).map_err(wrong)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(wrong)?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(line((1, format!("more than the {BYTES_MAX} bytes that are read"))));
        }
        let text = String::from_utf8(bytes).map_err(|error| line(not_utf8(&error)))?;
        Self::parse(&text).map(Some).map_err(line)
    }

    /// The reads, in their order.
    ///
    /// # Errors
    ///
    /// [`ProfileError`]; also if there is no file.
    pub fn reads_of(path: &Path) -> Result<Vec<ReadPages>, ProfileError> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "no such file");
        let file = || ProfileError::File { path: path.to_owned(), why: missing() };
        let steps = Self::read(path)?.ok_or_else(file)?.steps.into_iter();
        let reads = steps.filter_map(|step| match step {
            ProfileStep::Read(read) => Some(read),
            ProfileStep::Name(_) => None,
        });
        Ok(reads.collect())
    }

    /// Parses the text of a profile; an error is a line, from 1, and its description.
    ///
    /// # Errors
    ///
    /// The first line that is not of a profile.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let (_, magic) = lines.next().unwrap_or((1, ""));
        if magic != MAGIC {
            let found: String = magic.chars().take(40).collect();
            return Err((1, format!("'{MAGIC}' is expected, not '{}'", found.escape_default())));
        }
        let image = lines.next().and_then(|(_, line)| Fingerprint::parse(line));
        let image = image.ok_or((2, "'image BYTES HASH' is expected".to_owned()))?;
        let (mut files, mut steps) = (Vec::new(), Vec::new());
        for (number, line) in lines {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "name" => {
                    let path = unescaped(rest).ok_or((number, bad(line)))?;
                    steps.push(ProfileStep::Name(path));
                }
                "file" => files.push(unescaped(rest).ok_or((number, bad(line)))?.into()),
                "read" => steps.push(read_step(rest, &files).ok_or((number, bad(line)))?),
                "" => {}
                _ => return Err((number, bad(line))),
            }
        }
        Ok(Self { image, steps })
    }

    /// The text of the profile, which reads back.
    pub fn text(&self) -> String {
        let Fingerprint { bytes, hash } = self.image;
        let mut text = format!("{MAGIC}\nimage {bytes} {hash:016x}\n");
        let mut files: HashMap<&[u8], usize> = HashMap::new();
        for step in &self.steps {
            match step {
                ProfileStep::Name(path) => text += &format!("name {}\n", escaped(path)),
                ProfileStep::Read(ReadPages { path, page, pages }) => {
                    let next = files.len();
                    let file = *files.entry(path).or_insert_with(|| {
                        text += &format!("file {}\n", escaped(path));
                        next
                    });
                    text += &format!("read {file} {page} {pages}\n");
                }
            }
        }
        text
    }
}

impl Fingerprint {
    /// The fingerprint of an image. Its superblock, which is hashed, has the time of creation or a
    /// hash of the content.
    ///
    /// # Errors
    ///
    /// If the image cannot be read.
    pub fn of(image: &dyn Image) -> io::Result<Self> {
        let source: &dyn Source = &**image.source();
        let bytes = image.summary().bytes.min(source.len());
        let ends = [0, bytes.saturating_sub(END)];
        let mut hash = 0xcbf2_9ce4_8422_2325;
        for offset in ends {
            let mut end = vec![0; usize::try_from(END.min(bytes)).unwrap_or(0)];
            match source.read_exact_at(&mut end, offset) {
                // A truncated image counts as zeros there.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => end[..].fill(0),
                read => read?,
            }
            for byte in end {
                // FNV-1a, 64 bits.
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        Ok(Self { bytes, hash })
    }

    fn parse(line: &str) -> Option<Self> {
        let (bytes, hash) = line.strip_prefix("image ")?.split_once(' ')?;
        Some(Self { bytes: bytes.parse().ok()?, hash: u64::from_str_radix(hash, 16).ok()? })
    }
}

/// The paths of all nodes in events, found by one walk.
fn paths(image: &dyn Image, events: &[Event]) -> HashMap<NodeId, Arc<[u8]>> {
    let wanted: HashSet<NodeId> = events
        .iter()
        .map(|event| match event {
            Event::Lookup(id, _) | Event::Read(id, _) => *id,
        })
        .collect();
    let tree = Tree::whole(image, Limits::default());
    let found = tree.items().iter().enumerate().filter(|(_, item)| wanted.contains(&item.node));
    let mut paths = HashMap::new();
    for (place, item) in found {
        paths.entry(item.node).or_insert_with(|| match tree.path(place) {
            root if root.is_empty() => root.into(),
            path => [b"/", &path[..]].concat().into(),
        });
    }
    paths
}

fn read_step(rest: &str, files: &[Arc<[u8]>]) -> Option<ProfileStep> {
    let mut numbers = rest.split(' ').map(str::parse::<u64>);
    let (file, page, pages) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
    let path = Arc::clone(files.get(usize::try_from(file).ok()?)?);
    let fits = numbers.next().is_none() && page.checked_add(pages)? <= PAGES_MAX;
    fits.then_some(ProfileStep::Read(ReadPages { path, page, pages }))
}

fn bad(line: &str) -> String {
    let line: String = line.chars().take(40).collect();
    format!("'{}' is not a name, a file, or a read of a file named above", line.escape_default())
}

fn escaped(path: &[u8]) -> String {
    path.iter().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_graphic() && *byte != b'%' {
            text.push(char::from(*byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02x}");
        }
        text
    })
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut path = Vec::new();
    while let Some(byte) = bytes.next() {
        path.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            _ => byte,
        });
    }
    path.starts_with(b"/").then_some(path)
}

const MAGIC: &str = "forebay-profile 1";

/// The beginning of a profile of any version.
const WORD: &str = "forebay-profile";

/// Bytes that are hashed at each end of the image.
const END: u64 = 4096;

/// Events in a profile at most: 4 GiB of pages.
const EVENTS_MAX: usize = 1 << 20;

/// Bytes of a profile at most; none that this module writes is longer.
const BYTES_MAX: u64 = 256 << 20;

/// The end of the last page that a file can have: files end before byte 2^64.
const PAGES_MAX: u64 = 1 << 52;

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn read(path: &[u8], page: u64, pages: u64) -> ProfileStep {
        ProfileStep::Read(ReadPages { path: path.into(), page, pages })
    }

    fn profile() -> Profile {
        let steps = vec![
            ProfileStep::Name(b"/a b%\xff".to_vec()),
            read(b"/lib/x", 17, 2),
            read(b"/y", 0, 1),
            read(b"/lib/x", 3, 1),
        ];
        Profile { image: Fingerprint { bytes: 7, hash: 0xab }, steps }
    }

    #[test]
    fn a_profile_reads_as_it_was_written() {
        let text = profile().text();
        assert_eq!(Profile::parse(&text), Ok(profile()));
        assert_eq!(text.lines().filter(|line| line.starts_with("file")).count(), 2);
        assert_eq!(text.lines().nth(2), Some("name /a%20b%25%ff"));
    }

    #[test]
    fn a_bad_line_is_named() {
        let good = profile().text();
        for (line, bad) in [
            (1, "forebay-profile 2\n".to_owned()),
            (1, String::new()),
            (2, format!("{MAGIC}\nimage 7\n")),
            (3, format!("{MAGIC}\nimage 7 ab\nread 0 0 1\n")),
            (9, format!("{good}read 0 1\n")),
            (9, format!("{good}read 0 1 18446744073709551615\n")),
            (9, format!("{good}name no/root\n")),
            (9, format!("{good}file /%f\n")),
            (9, format!("{good}\u{0}\n")),
        ] {
            assert_eq!(Profile::parse(&bad).unwrap_err().0, line, "{bad}");
        }
    }

    #[test]
    fn a_profile_replaces_a_profile_or_an_empty_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("start");
        assert!(try_write(&path).is_ok() && !path.exists());
        for (text, is_replaced) in
            [("", true), ("forebay-profile 2\n", true), ("notes\n", false), ("forebay", false)]
        {
            fs::write(&path, text).unwrap();
            assert_eq!(try_write(&path).is_ok(), is_replaced, "{text}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn what_is_no_text_or_no_file_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("start");
        let said = || Profile::read(&path).unwrap_err().to_string();
        fs::write(&path, b"forebay-profile 1\n\xff\n").unwrap();
        assert!(said().ends_with("start', line 2: byte 18 is not UTF-8"), "{}", said());
        fs::remove_file(&path).unwrap();
        let (kind, mode) = (FileType::Fifo, Mode::from_raw_mode(0o600));
        mknodat(CWD, &path, kind, mode, 0).unwrap();
        assert!(said().ends_with("start': not a regular file"), "{}", said());
    }

    #[test]
    fn a_profile_cut_anywhere_is_an_error_or_a_shorter_one() {
        let text = profile().text();
        for len in 0..text.len() {
            if let Ok(shorter) = Profile::parse(&text[..len]) {
                assert!(shorter.steps.len() <= profile().steps.len());
            }
        }
    }
}
