//! The kernel as the steering sees it: files that are read and written, descriptors that are told.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;

use crate::journal::STATE_FOLDER;
use crate::tree::Tree;

use super::files::{self, FileGone, Held, OpenFile};
use super::turn::{NoTurn, Patience, Turn};

/// Whatever holds the knobs: this machine, a folder, a model.
pub trait Kernel {
    /// The text of a file.
    fn text(&self, path: &str) -> io::Result<String>;

    /// Writes a number to a file, at once or not at all.
    fn write(&self, path: &str, number: u64) -> io::Result<()>;

    /// The inode number of a folder. The kernel gives a new one to each object that it shows, so it
    /// tells a device from another one that came in its place.
    fn node(&self, path: &str) -> io::Result<u64>;

    /// Takes hold of a description that a process has: all that may take long.
    fn hold(&self, file: &OpenFile) -> Result<Held, FileGone> {
        Ok(Held::by_name(*file))
    }

    /// Has a description take over its device's window as it is at present.
    fn latch(&self, held: &Held) -> Result<(), FileGone>;

    /// The right to borrow windows and to judge them, for the whole machine.
    fn turn(&self, _patience: Patience) -> Result<Turn, NoTurn> {
        Ok(Turn::alone())
    }

    /// The number in a file.
    fn number(&self, path: &str) -> io::Result<u64> {
        let text = self.text(path)?;
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("'{}'", text.trim()));
        text.trim().parse().map_err(|_| wrong())
    }
}

impl Kernel for Tree {
    fn text(&self, path: &str) -> io::Result<String> {
        Tree::text(self, path).map_err(|unread| unread.source)
    }

    fn write(&self, path: &str, number: u64) -> io::Result<()> {
        let place = self.place(path);
        let text = format!("{number}\n");
        if !self.is_machine() {
            // A folder has no kernel that would take the text in one piece.
            fs::metadata(&place)?;
            let draft = place.with_extension("draft");
            fs::write(&draft, text)?;
            return fs::rename(draft, place);
        }
        // One call: the kernel judges each on its own.
        let written = OpenOptions::new().write(true).open(place)?.write(text.as_bytes())?;
        if written == text.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    fn node(&self, path: &str) -> io::Result<u64> {
        fs::metadata(self.place(path)).map(|found| found.ino())
    }

    fn hold(&self, file: &OpenFile) -> Result<Held, FileGone> {
        if self.is_machine() { files::hold(file) } else { Err(FileGone::NoProcess) }
    }

    fn latch(&self, held: &Held) -> Result<(), FileGone> {
        files::latch(held)
    }

    fn turn(&self, patience: Patience) -> Result<Turn, NoTurn> {
        // Only root writes the machine's knobs.
        if self.is_machine() && !rustix::process::geteuid().is_root() {
            return Ok(Turn::alone());
        }
        Turn::take(&self.place(STATE_FOLDER), patience)
    }
}
