//! A regular file: its bytes, and holes where they are zero.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags};

use super::marks::Marks;
use crate::content::{Content, Piece};
use crate::fault::Cause;
use crate::node::Node;

/// Zeros of this length, at a multiple of it, need not be written.
const HOLE: u64 = 4_096;

/// Writes a new file, with all its attributes; returns how many bytes were written.
pub(super) fn write(
    content: &mut Content<'_>,
    node: &Node,
    directory: BorrowedFd<'_>,
    name: &[u8],
    marks: &mut Marks<'_>,
) -> Result<u64, Cause> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR);
    let file = File::from(file.map_err(|error| Cause::system("make the file", error))?);
    let (mut at, mut written, mut end) = (0, 0, 0);
    while at < node.size {
        let piece = content.piece(node.id, node.size, at)?;
        if let Piece::Bytes(bytes) = piece {
            let dense = write_dense(&file, bytes, at)
                .map_err(|error| Cause::system("write the file", error))?;
            written += dense.written;
            end = end.max(dense.end);
        }
        at += piece.len();
    }
    // It ends with zeros that were not written.
    if end < node.size {
        file.set_len(node.size)
            .map_err(|error| Cause::system("give the file its length", error))?;
    }
    marks.give_open(file.as_fd())?;
    Ok(written)
}

/// The written part.
#[derive(Default)]
struct Dense {
    /// Bytes.
    written: u64,
    /// Where they end in the file.
    end: u64,
}

impl Dense {
    fn write(&mut self, file: &File, bytes: &[u8], start: u64) -> std::io::Result<()> {
        if !bytes.is_empty() {
            file.write_all_at(bytes, start)?;
            self.written += bytes.len() as u64;
            self.end = start + bytes.len() as u64;
        }
        Ok(())
    }
}

/// Writes the bytes but for pages of zeros.
fn write_dense(file: &File, bytes: &[u8], start: u64) -> std::io::Result<Dense> {
    let (mut from, mut at, mut dense) = (0, 0, Dense::default());
    while at < bytes.len() {
        let left = HOLE - (start + at as u64) % HOLE;
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - at);
        // Less than a page may share its page with bytes that are not zero.
        if len as u64 == HOLE && is_zero(&bytes[at..at + len]) {
            dense.write(file, &bytes[from..at], start + from as u64)?;
            from = at + len;
        }
        at += len;
    }
    dense.write(file, &bytes[from..], start + from as u64)?;
    Ok(dense)
}

fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| *word == [0; 16]) && rest.iter().all(|byte| *byte == 0)
}
