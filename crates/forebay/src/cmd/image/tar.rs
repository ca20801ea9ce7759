//! An image's tree as a tar archive on standard output.

use std::io::{self, BufWriter, IsTerminal, Read, StdoutLock, Write};

use anyhow::{Context, Result, bail};
use forebay_image::walk::{Item, Tree};
use forebay_image::{Cause, Content, Fault, Image, Kind, Node, Piece, Xattr, shown};
use forebay_report::messages::{Complaint, note};
use forebay_report::program::answered;
use tar::{Builder, EntryType, Header};

use super::{OF_DAMAGE, WHAT_IS_THERE, complain, open, select};
use crate::args::image::Tar;
use crate::{ERROR, NO};

/// Files up to this size are decoded before their header is written, others twice.
const BUFFERED_MAX: u64 = 32 << 20;

/// Writes it; damaged files are left out.
pub(super) fn run(arguments: &Tar) -> Result<u8> {
    let image = open(&arguments.opened)?;
    if io::stdout().is_terminal() {
        let what = "standard output is a terminal, and an archive is not text";
        bail!(Complaint::new(what).hint("`forebay image tar IMAGE > FILE`, or into a pipe"))
    }
    let (tree, missing) = select::tree(&*image, &arguments.paths, &arguments.patterns)?;
    missing.iter().for_each(|fault| complain(fault));
    if !missing.is_empty() && missing.len() == arguments.paths.len() {
        return Ok(super::ended(ERROR));
    }
    tree.faults.iter().for_each(|fault| complain(fault));
    let out = BufWriter::with_capacity(256 << 10, io::stdout().lock());
    let mut archive = Archive {
        image: &*image,
        tree: &tree,
        content: Content::new(&*image),
        to: Builder::new(out),
    };
    let mut failed = !missing.is_empty() || !tree.faults.is_empty();
    // The name of each node that was written first, by the place of its first name.
    let mut written = vec![None; tree.items().len()];
    for place in depth_first(tree.items()) {
        let node = tree.items()[place].first.unwrap_or(place);
        match archive.add(place, written[node]) {
            Ok(()) => written[node] = written[node].or(Some(place)),
            Err(Refusal::Image(cause)) => {
                complain(&Fault::new(tree.path(place), cause));
                failed = true;
            }
            Err(Refusal::Socket) => {
                note(&format!(
                    "{}: tar knows no sockets",
                    Fault::new(tree.path(place), Cause::NotFile(Kind::Socket))
                ));
            }
            Err(Refusal::Write(error)) => {
                let stopped = Err(error).context("cannot write the archive");
                return answered(if failed { NO } else { 0 }, stopped);
            }
        }
    }
    let flushed = archive.to.into_inner().and_then(|mut out| out.flush());
    if failed {
        super::hint(if missing.is_empty() { OF_DAMAGE } else { WHAT_IS_THERE });
    }
    answered(if failed { NO } else { 0 }, flushed.context("cannot write the archive"))
}

/// The places of all names, a directory directly before what is below it: programs that unpack set
/// its time when they come to a name elsewhere.
fn depth_first(items: &[Item]) -> Vec<usize> {
    let mut below = vec![Vec::new(); items.len()];
    for (place, item) in items.iter().enumerate().skip(1) {
        below[item.parent].push(place);
    }
    let (mut order, mut rest) = (Vec::with_capacity(items.len()), vec![0]);
    while let Some(place) = rest.pop() {
        order.push(place);
        rest.extend(below[place].drain(..).rev());
    }
    order
}

/// Why a name is not in the archive.
enum Refusal {
    /// The image cannot be read there.
    Image(Cause),
    Socket,
    /// The archive cannot be written: nothing more will be.
    Write(io::Error),
}

impl From<forebay_image::Error> for Refusal {
    fn from(error: forebay_image::Error) -> Self {
        Self::Image(error.into())
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

struct Archive<'a> {
    image: &'a dyn Image,
    tree: &'a Tree,
    content: Content<'a>,
    to: Builder<BufWriter<StdoutLock<'static>>>,
}

impl Archive<'_> {
    /// Adds a name; `first` is the place of another one of the same node that is there already.
    fn add(&mut self, place: usize, first: Option<usize>) -> Result<(), Refusal> {
        let item = &self.tree.items()[place];
        let node = self.image.node(item.node)?;
        if node.kind != item.kind {
            let cause = Cause::Kinds { entry: item.kind, node: node.kind };
            return Err(Refusal::Image(cause));
        }
        let path = self.path(place, item);
        let mut header = header(&node);
        if let Some(first) = first {
            header.set_entry_type(EntryType::Link);
            header.set_size(0);
            let target = self.tree.path(first);
            self.extensions(&node, &[], &target)?;
            set_target(&mut header, &target)?;
            return Ok(self.to.append_data(&mut header, os(&path), io::empty())?);
        }
        let target =
            if node.kind == Kind::Symlink { self.image.link(node.id)? } else { Vec::new() };
        let xattrs = self.image.xattrs(node.id)?;
        let bytes = self.checked(&node)?;
        let kind = match node.kind {
            Kind::File => EntryType::Regular,
            Kind::Directory => EntryType::Directory,
            Kind::Symlink => EntryType::Symlink,
            Kind::BlockDevice => EntryType::Block,
            Kind::CharDevice => EntryType::Char,
            Kind::Fifo => EntryType::Fifo,
            Kind::Socket => return Err(Refusal::Socket),
        };
        header.set_entry_type(kind);
        self.extensions(&node, &xattrs, &target)?;
        set_target(&mut header, &target)?;
        match (node.kind, bytes) {
            (Kind::File, Some(bytes)) => {
                self.to.append_data(&mut header, os(&path), &bytes[..])?;
            }
            (Kind::File, None) => {
                let file = FileBytes { content: &mut self.content, node: &node, at: 0 };
                self.to.append_data(&mut header, os(&path), file)?;
            }
            _ => self.to.append_data(&mut header, os(&path), io::empty())?,
        }
        Ok(())
    }

    /// The name in the archive: that of a directory ends with a slash.
    fn path(&self, place: usize, item: &Item) -> Vec<u8> {
        let mut path = self.tree.path(place);
        if path.is_empty() {
            path = b".".to_vec();
        }
        if item.kind == Kind::Directory {
            path.push(b'/');
        }
        path
    }

    /// Decodes a file before anything of it is written; a large one only to see that it can be.
    fn checked(&mut self, node: &Node) -> Result<Option<Vec<u8>>, Refusal> {
        if node.kind != Kind::File {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let mut at = 0;
        while at < node.size {
            let piece = self.content.piece(node.id, node.size, at)?;
            at += piece.len();
            if node.size > BUFFERED_MAX {
                continue;
            }
            match piece {
                Piece::Zeros(len) => bytes.resize(bytes.len() + in_memory(len), 0),
                Piece::Bytes(piece) => bytes.extend_from_slice(piece),
            }
        }
        Ok((node.size <= BUFFERED_MAX).then_some(bytes))
    }

    /// What the header has no place for: attributes, long targets, and times that are no whole
    /// seconds since 1970.
    fn extensions(&mut self, node: &Node, xattrs: &[Xattr], target: &[u8]) -> Result<(), Refusal> {
        let mut records: Vec<(String, Vec<u8>)> = Vec::new();
        if target.len() > TARGET_MAX {
            records.push(("linkpath".to_owned(), target.to_vec()));
        }
        if let Some(time) = node.modified.filter(|time| time.nanos > 0 || time.seconds < 0) {
            // Before 1970 the fraction counts back from the next second.
            let whole = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
            let (sign, parts) = (if whole < 0 { "-" } else { "" }, whole.unsigned_abs());
            let text = format!("{sign}{}.{:09}", parts / 1_000_000_000, parts % 1_000_000_000);
            records.push(("mtime".to_owned(), text.into_bytes()));
        }
        for Xattr { name, value } in xattrs {
            // Keys of an archive are text.
            match str::from_utf8(name) {
                Ok(name) => records.push((key_of_xattr(name), value.clone())),
                Err(_) => note(&format!("tar cannot name the attribute '{}'", shown(name))),
            }
        }
        let records = records.iter().map(|(key, value)| (&key[..], &value[..]));
        Ok(self.to.append_pax_extensions(records)?)
    }
}

/// The key of an attribute. An equals sign would end it; GNU tar writes and reads it like this.
fn key_of_xattr(name: &str) -> String {
    format!("SCHILY.xattr.{}", name.replace('%', "%25").replace('=', "%3D"))
}

/// Sets the target of a link, byte for byte; one that is too long goes into an extension.
fn set_target(header: &mut Header, target: &[u8]) -> Result<(), Refusal> {
    let len = target.len().min(TARGET_MAX);
    Ok(header.set_link_name_literal(&target[..len])?)
}

/// Bytes of a link's target in a header.
const TARGET_MAX: usize = 100;

fn header(node: &Node) -> Header {
    let mut header = Header::new_gnu();
    header.set_mode(node.permissions.into());
    header.set_uid(node.uid.into());
    header.set_gid(node.gid.into());
    header.set_size(if node.kind == Kind::File { node.size } else { 0 });
    let seconds = node.modified.map_or(0, |time| time.seconds);
    header.set_mtime(u64::try_from(seconds).unwrap_or(0));
    if let Kind::BlockDevice | Kind::CharDevice = node.kind {
        let (major, minor) = node.device;
        // A header of this form has places for them.
        let _ = header.set_device_major(major).and_then(|()| header.set_device_minor(minor));
    }
    header
}

/// A file's bytes as a stream.
struct FileBytes<'a, 'b> {
    content: &'a mut Content<'b>,
    node: &'a Node,
    at: u64,
}

impl Read for FileBytes<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.node.size || buffer.is_empty() {
            return Ok(0);
        }
        let piece = self.content.piece(self.node.id, self.node.size, self.at);
        let piece = piece.map_err(io::Error::other)?;
        let len = in_memory(piece.len()).min(buffer.len());
        match piece {
            Piece::Zeros(_) => buffer[..len].fill(0),
            Piece::Bytes(bytes) => buffer[..len].copy_from_slice(&bytes[..len]),
        }
        self.at += len as u64;
        Ok(len)
    }
}

fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn os(path: &[u8]) -> &std::path::Path {
    use std::os::unix::ffi::OsStrExt;
    std::path::Path::new(std::ffi::OsStr::from_bytes(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_named_as_gnu_tar_names_it() {
        assert_eq!(key_of_xattr("user.a"), "SCHILY.xattr.user.a");
        assert_eq!(key_of_xattr("user.k=e%3D"), "SCHILY.xattr.user.k%3De%253D");
    }
}
