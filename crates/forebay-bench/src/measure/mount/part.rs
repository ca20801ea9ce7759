//! The parts: the work of one process in a mounted tree, and the line with its results.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Instant;

use forebay_host::mapped::Mapped;
use rustix::time::{ClockId, clock_gettime};

use super::process::Spent;
use crate::measure::{READ, shuffle};

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Touches pages of a mapped file at random.
    Faults,
    /// Touches all pages of a mapped file in order.
    Mapped,
    /// Reads pages of a file at random.
    Preads,
    /// Reads a file from its begin to its end.
    Sequential,
    /// Reads every file below a folder.
    Tree,
    /// Runs a program whose root folder is the tree.
    Start,
}

/// One process's share of the work.
#[derive(Clone, Debug)]
pub(crate) struct Work<'a> {
    /// The work.
    pub(crate) part: Part,
    /// A file, or the root of a tree for [`Part::Tree`] and [`Part::Start`].
    pub(crate) place: &'a Path,
    /// Names the order of pages.
    pub(crate) seed: u64,
    /// Pages that are touched or read, at most one in every four windows of 32 pages of the file.
    pub(crate) pages: usize,
    /// The number of this process, and the count of processes that read the tree.
    pub(crate) share: (usize, usize),
    /// The program of [`Part::Start`] and its arguments.
    pub(crate) program: &'a [String],
}

/// How it went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// When the work began, on the clock that all processes share, in nanoseconds.
    pub(crate) begin: u64,
    /// When it ended.
    pub(crate) end: u64,
    /// Bytes that were read or touched.
    pub(crate) bytes: u64,
    /// Major faults of the process, or of the program.
    pub(crate) faults: u64,
    /// Their processor time in nanoseconds.
    pub(crate) cpu: u64,
    /// How long each page, block or file took, in nanoseconds, in order of time.
    pub(crate) took: Vec<u64>,
}

/// Does the work.
///
/// # Errors
/// A file cannot be read, or the program fails.
pub(crate) fn perform(work: &Work<'_>) -> io::Result<Measured> {
    let mut measured = Measured::default();
    let before = Spent::own()?;
    let mut spent = None;
    measured.begin = now();
    match work.part {
        Part::Faults => {
            let offsets = offsets(work, &File::open(work.place)?)?;
            faults(work, offsets, &mut measured)?;
        }
        Part::Mapped => {
            let pages = File::open(work.place)?.metadata()?.len() / READ as u64;
            let offsets = (0..pages).map(|page| page * READ as u64);
            faults(work, offsets, &mut measured)?;
        }
        Part::Preads => preads(work, &mut measured)?,
        Part::Sequential => measured.bytes = whole(work.place, &mut measured.took)?,
        Part::Tree => {
            let mut files = Vec::new();
            list(work.place, &mut files)?;
            let (number, count) = work.share;
            for file in files.iter().skip(number).step_by(count.max(1)) {
                let begin = Instant::now();
                measured.bytes += whole(file, &mut Vec::new())?;
                measured.took.push(begin.elapsed().as_nanos() as u64);
            }
        }
        Part::Start => spent = Some(start(work)?),
    }
    measured.end = now();
    let spent = spent.map_or_else(|| Spent::own().map(|after| after.since(before)), Ok)?;
    measured.faults = spent.faults;
    measured.cpu = spent.cpu.as_nanos() as u64;
    Ok(measured)
}

fn faults(
    work: &Work<'_>,
    offsets: impl IntoIterator<Item = u64>,
    measured: &mut Measured,
) -> io::Result<()> {
    let map = Mapped::new(&File::open(work.place)?)?;
    for offset in offsets {
        let begin = Instant::now();
        map.touch(offset);
        measured.took.push(begin.elapsed().as_nanos() as u64);
        measured.bytes += READ as u64;
    }
    Ok(())
}

fn preads(work: &Work<'_>, measured: &mut Measured) -> io::Result<()> {
    let file = File::open(work.place)?;
    let mut page = [0; READ];
    for offset in offsets(work, &file)? {
        let begin = Instant::now();
        file.read_exact_at(&mut page, offset)?;
        measured.took.push(begin.elapsed().as_nanos() as u64);
        measured.bytes += READ as u64;
    }
    Ok(())
}

/// Offsets of whole pages, none twice, in random order, few enough that most find no page that an
/// earlier one has read.
fn offsets(work: &Work<'_>, file: &File) -> io::Result<Vec<u64>> {
    let pages = file.metadata()?.len() / READ as u64;
    let mut offsets: Vec<u64> = (0..pages).map(|page| page * READ as u64).collect();
    shuffle(&mut offsets, work.seed);
    offsets.truncate(work.pages.min(offsets.len().div_ceil(WINDOW * SPARSE)));
    Ok(offsets)
}

/// Reads a whole file, counts its bytes and times its blocks; an error names the file.
fn whole(path: &Path, took: &mut Vec<u64>) -> io::Result<u64> {
    read_through(path, took)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn read_through(path: &Path, took: &mut Vec<u64>) -> io::Result<u64> {
    let (mut file, mut block, mut bytes) = (File::open(path)?, vec![0; BLOCK], 0);
    loop {
        let begin = Instant::now();
        match file.read(&mut block)? {
            0 => return Ok(bytes),
            read => bytes += read as u64,
        }
        took.push(begin.elapsed().as_nanos() as u64);
    }
}

/// Every regular file below a folder, by name, a folder's own before those of the folders in it.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut folders = Vec::new();
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.metadata()?.file_type();
        if kind.is_dir() {
            folders.push(entry.path());
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    folders.iter().try_for_each(|folder| list(folder, files))
}

fn start(work: &Work<'_>) -> io::Result<Spent> {
    let mut command = Command::new("chroot");
    command.arg(work.place).args(work.program);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.status()?;
    if !status.success() {
        let program = work.program.first().map_or("", String::as_str);
        return Err(io::Error::other(format!("{program} in the mounted tree: {status}")));
    }
    Spent::of_children()
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { begin, end, bytes, faults, cpu, took } = self;
        write!(f, "{begin} {end} {bytes} {faults} {cpu}")?;
        took.iter().try_for_each(|took| write!(f, " {took}"))
    }
}

impl FromStr for Measured {
    type Err = io::Error;

    fn from_str(line: &str) -> io::Result<Self> {
        let bad = || io::Error::other(format!("no measurement: '{line}'"));
        let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
        let numbers = numbers.map_err(|_| bad())?;
        let [begin, end, bytes, faults, cpu, ref took @ ..] = numbers[..] else {
            return Err(bad());
        };
        Ok(Self { begin, end, bytes, faults, cpu, took: took.to_vec() })
    }
}

/// Pages that the kernel requests at a fault, by its defaults.
const WINDOW: usize = 32;

/// One page in this many windows is touched. With one in each, a third of the later ones would meet
/// a cached window.
const SPARSE: usize = 4;

/// What a copying program reads at a time.
const BLOCK: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn work(part: Part, place: &Path) -> Work<'_> {
        Work { part, place, seed: 1, pages: 5, share: (0, 1), program: &[] }
    }

    #[test]
    fn what_is_written_is_what_was_measured() {
        let measured =
            Measured { begin: 1, end: 9, bytes: 8192, faults: 2, cpu: 3, took: vec![4, 5] };
        assert_eq!(measured.to_string().parse::<Measured>().unwrap(), measured);
        assert!("1 2 3".parse::<Measured>().is_err());
        assert!("1 2 3 4 x".parse::<Measured>().is_err());
    }

    #[test]
    fn pages_are_touched_once_and_sparsely() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        for (pages, touched) in [(3, 1), (128, 1), (129, 2), (512, 4), (2000, 5)] {
            fs::write(&file, vec![7; pages * READ + 1]).unwrap();
            for part in [Part::Faults, Part::Preads] {
                let measured = perform(&work(part, &file)).unwrap();
                let expected = (touched, (touched * READ) as u64);
                assert_eq!((measured.took.len(), measured.bytes), expected, "of {pages}");
                assert!(measured.begin <= measured.end);
            }
            let mapped = perform(&work(Part::Mapped, &file)).unwrap();
            assert_eq!(mapped.took.len(), pages, "all pages in order");
            let file = File::open(&file).unwrap();
            let mut offsets = offsets(&work(Part::Faults, Path::new("")), &file).unwrap();
            offsets.sort_unstable();
            offsets.dedup();
            assert_eq!(offsets.len(), touched);
        }
    }

    #[test]
    fn the_shares_of_a_tree_add_up_to_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        for (name, len) in [("a", 1), ("b", 20), ("sub/c", 300), ("sub/d", 4000)] {
            fs::write(folder.path().join(name), vec![0; len]).unwrap();
        }
        let part = |number| {
            let work = Work { share: (number, 2), ..work(Part::Tree, folder.path()) };
            perform(&work).unwrap().bytes
        };
        assert_eq!([part(0), part(1)], [301, 4020]);
    }
}
