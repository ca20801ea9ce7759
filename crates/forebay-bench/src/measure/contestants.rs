//! The contestants: plain `pread`, and the modes of [`access`](forebay_host::access).

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use forebay_host::access::{Buffer, File, Mode, Options, Queue};
use rustix::fs::{Advice, OFlags, fadvise};

use super::{Cell, Contestant, Entrant, Pages, READ};

/// `pread`, one read after the other, whatever the depth: what a program does that knows of nothing
/// else.
pub(crate) fn pread<'a>() -> Box<Entrant<'a>> {
    Box::new(|cell, path| {
        let flags = if is_direct(cell) { OFlags::DIRECT } else { OFlags::empty() };
        let flags = flags.bits().cast_signed();
        let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        fadvise(&file, 0, None, Advice::Random)?;
        Ok(Some(Box::new(Pread { file, buffer: Buffer::new(READ) })))
    })
}

/// A mode of our own: at depth 1 a [`File`], beyond it a [`Queue`].
pub(crate) fn ours<'a>(mode: Mode) -> Box<Entrant<'a>> {
    Box::new(move |cell, path| {
        let file = open(mode, cell, path)?;
        Ok(Some(if cell.depth == 1 {
            Box::new(OneByOne { file, buffer: Buffer::new(READ) })
        } else {
            let queue = Queue::new(&file, cell.depth).map_err(io::Error::other)?;
            let begun = vec![Instant::now(); cell.depth];
            Box::new(Many { queue, begun, name: mode.name() })
        }))
    })
}

fn open(mode: Mode, cell: &Cell, path: &Path) -> io::Result<File> {
    let direct = is_direct(cell);
    let options = Options { mode, direct, random: true, ..Options::default() };
    File::open(path, options).map_err(io::Error::other)
}

fn is_direct(cell: &Cell) -> bool {
    cell.pages == Pages::ColdDirect
}

struct Pread {
    file: fs::File,
    buffer: Buffer,
}

impl Contestant for Pread {
    fn name(&self) -> &'static str {
        "pread"
    }

    fn run(&mut self, offsets: &[u64], took: &mut Vec<u64>) -> io::Result<()> {
        for offset in offsets {
            let begin = Instant::now();
            let read = self.file.read_at(&mut self.buffer, *offset)?;
            took.push(nanos(begin));
            whole(read)?;
        }
        Ok(())
    }
}

struct OneByOne {
    file: File,
    buffer: Buffer,
}

impl Contestant for OneByOne {
    fn name(&self) -> &'static str {
        self.file.mode().name()
    }

    fn run(&mut self, offsets: &[u64], took: &mut Vec<u64>) -> io::Result<()> {
        for offset in offsets {
            let begin = Instant::now();
            let read = self.file.read_at(&mut self.buffer, *offset).map_err(io::Error::other)?;
            took.push(nanos(begin));
            whole(read)?;
        }
        Ok(())
    }
}

struct Many {
    queue: Queue,
    /// When the read of each place of the queue began.
    begun: Vec<Instant>,
    name: &'static str,
}

impl Contestant for Many {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, offsets: &[u64], took: &mut Vec<u64>) -> io::Result<()> {
        let mut offsets = offsets.iter();
        for (token, offset) in (0..self.queue.depth() as u64).zip(offsets.by_ref()) {
            let buffer = self.queue.buffer(READ);
            self.begun[token as usize] = Instant::now();
            self.queue.read(*offset, buffer, token).map_err(io::Error::other)?;
        }
        while let Some(done) = self.queue.wait() {
            took.push(nanos(self.begun[done.token as usize]));
            whole(done.result.map_err(io::Error::other)?)?;
            match offsets.next() {
                Some(offset) => {
                    self.begun[done.token as usize] = Instant::now();
                    let read = self.queue.read(*offset, done.buffer, done.token);
                    read.map_err(io::Error::other)?;
                }
                None => self.queue.recycle(done.buffer),
            }
        }
        Ok(())
    }
}

fn nanos(begin: Instant) -> u64 {
    begin.elapsed().as_nanos() as u64
}

fn whole(read: usize) -> io::Result<()> {
    if read == READ { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
