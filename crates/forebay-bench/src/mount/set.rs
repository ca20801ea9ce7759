//! The images: one tree of this machine's own files in each format.
//!
//! ```text
//!   FOLDER/tree/usr/...   the selection, with the links of a root folder beside it
//!              /bulk      one long file: libraries one behind the other
//!              /warm      read before each round, and never measured
//!   FOLDER/small/...      the same for cramfs: its bulk is within the limit of the format
//!   FOLDER/NAME.img       the images
//!   FOLDER/set            what the images were made of; written last
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::process::{self, MeasuredProgram, Stop, answer, program};
use super::select::{Candidate, FILE_MAX, Group, select};

/// The measured formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Format {
    /// The uncompressed reference.
    Ext4,
    /// zlib, 4 KiB blocks: the format of the targets.
    SquashZlib,
    /// Zstandard, 128 KiB blocks.
    SquashZstd,
    /// LZ4, 4 KiB clusters.
    Erofs,
    /// zlib, 4 KiB blocks, by our own writer.
    Cramfs,
}

/// Every image and its source.
#[derive(Debug)]
pub(super) struct Set {
    folder: PathBuf,
    /// Makes images of our own writer, and mounts them.
    pub(super) forebay: MeasuredProgram,
    /// Formats whose image exists, in the order of the table.
    pub(super) formats: Vec<Format>,
    /// The program whose start is measured, with its path inside the tree, and its arguments.
    pub(super) start: Option<Vec<String>>,
    /// The selected files, and missing ones with the reason.
    pub(super) notes: Vec<String>,
}

/// What a set is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// The tree that files are taken from.
    pub(super) tree: &'a Path,
    /// All files together, in bytes.
    pub(super) bytes: u64,
}

impl Format {
    pub(super) const ALL: [Self; 5] =
        [Self::Ext4, Self::SquashZlib, Self::SquashZstd, Self::Erofs, Self::Cramfs];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::SquashZlib => "squashfs-zlib-4k",
            Self::SquashZstd => "squashfs-zstd-128k",
            Self::Erofs => "erofs-lz4-4k",
            Self::Cramfs => "cramfs-zlib-4k",
        }
    }

    /// What the kernel and `mount` call it.
    pub(super) fn kernel_name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::SquashZlib | Self::SquashZstd => "squashfs",
            Self::Erofs => "erofs",
            Self::Cramfs => "cramfs",
        }
    }

    /// The program that writes it and its Debian package; none is needed for our own.
    pub(super) fn writer(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Ext4 => Some(("mkfs.ext4", "e2fsprogs")),
            Self::SquashZlib | Self::SquashZstd => Some(("mksquashfs", "squashfs-tools")),
            Self::Erofs => Some(("mkfs.erofs", "erofs-utils")),
            Self::Cramfs => None,
        }
    }
}

impl Set {
    /// Makes the set in a folder, or uses an existing one with the same contents.
    pub(super) fn new(
        folder: &Path,
        forebay: MeasuredProgram,
        wanted: Wanted<'_>,
        stop: &Stop,
    ) -> Result<Self> {
        let (folder, formats, notes) = (folder.to_owned(), Vec::new(), Vec::new());
        let mut set = Self { folder, forebay, formats, start: None, notes };
        let mark = format!(
            "forebay {} {} {}\n",
            env!("CARGO_PKG_VERSION"),
            wanted.tree.display(),
            wanted.bytes
        );
        let found = fs::read_to_string(set.mark()).unwrap_or_default();
        let is_there = found.starts_with(&mark);
        if !is_there {
            let took = set.stage(wanted, stop).context("cannot copy the files")?;
            set.notes.push(took);
        } else {
            set.notes.push(found.trim_start_matches(&mark).trim().to_owned());
        }
        set.choose_start(stop)?;
        for format in Format::ALL {
            match set.make(format, is_there, stop) {
                Ok(None) => set.formats.push(format),
                Ok(Some(missing)) => set.notes.push(missing),
                Err(error) => {
                    stop.check()?;
                    set.notes.push(format!("skip: {}: {error:#}", format.name()));
                }
            }
        }
        if !is_there {
            let took = set.notes.first().cloned().unwrap_or_default();
            fs::write(set.mark(), format!("{mark}{took}\n"))?;
        }
        Ok(set)
    }

    pub(super) fn image(&self, format: Format) -> PathBuf {
        self.folder.join(format!("{}.img", format.name()))
    }

    /// The same files, not in an image.
    pub(super) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    fn mark(&self) -> PathBuf {
        self.folder.join("set")
    }

    /// Copies the selection, and returns what it copied.
    fn stage(&self, wanted: Wanted<'_>, stop: &Stop) -> Result<String> {
        let (tree, bulk) = (self.tree(), wanted.bytes / 4 / PAGE * PAGE);
        for old in ["tree", "small"] {
            if self.folder.join(old).exists() {
                fs::remove_dir_all(self.folder.join(old))?;
            }
        }
        fs::create_dir_all(tree.join("usr"))?;
        // Some programs open it for want of a script.
        fs::create_dir(tree.join("dev"))?;
        File::create(tree.join("dev/null"))?;
        for name in ["bin", "sbin", "lib", "lib64"] {
            symlink(format!("usr/{name}"), tree.join(name))?;
        }
        let groups = groups(wanted.tree)?;
        let selected = select(&groups, wanted.bytes - bulk);
        if selected
            .iter()
            .zip(&groups)
            .any(|((name, taken), group)| *name == PROGRAM && taken.len() < group.candidates.len())
        {
            bail!("--size is too small for the program whose start is measured");
        }
        for candidate in selected.iter().flat_map(|(_, taken)| taken) {
            stop.check()?;
            copy(wanted.tree, candidate, &tree.join("usr"))?;
        }
        let libraries = selected
            .iter()
            .flat_map(|(_, taken)| taken)
            .filter(|file| file.bytes >= 64 << 10 && file.path.starts_with("lib"));
        let libraries: Vec<PathBuf> = libraries.map(|file| wanted.tree.join(&file.path)).collect();
        concatenate(&libraries, &tree.join("bulk"), bulk)?;
        concatenate(&libraries, &tree.join("warm"), WARM)?;
        compile_modules(&tree, stop)?;
        let mut links = program("cp");
        links.arg("-al").arg(&tree).arg(self.folder.join("small"));
        answer(links, LONG, stop)?;
        fs::remove_file(self.folder.join("small/bulk"))?;
        let small = self.folder.join("small/bulk");
        concatenate(&libraries, &small, bulk.min(FILE_MAX / PAGE * PAGE))?;
        let part = |(name, taken): &(&str, Vec<Candidate>)| {
            let bytes: u64 = taken.iter().map(|file| file.bytes).sum();
            format!("{name} {} files of {} MB", taken.len(), bytes / 1_000_000)
        };
        let parts: Vec<String> = selected.iter().map(part).collect();
        let from = wanted.tree.display();
        Ok(format!("files: from {from}: {}; bulk {} MB", parts.join(", "), bulk / 1_000_000))
    }

    /// The first program that starts inside the copied tree.
    fn choose_start(&mut self, stop: &Stop) -> Result<()> {
        for (name, program, flags, script) in STARTS {
            let words = [&[*program], *flags, &[*script]].concat();
            let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
            let mut command = process::program("chroot");
            command.arg(self.tree()).args(&words);
            match answer(command, LONG, stop) {
                Ok(_) => {
                    self.notes.push(format!("start: {name} of the tree, run by chroot"));
                    self.start = Some(words);
                    return Ok(());
                }
                Err(error) => {
                    stop.check()?;
                    self.notes.push(format!("skip: the start of {name}: {error:#}"));
                }
            }
        }
        Ok(())
    }

    /// Makes an image, or returns what is missing for it.
    fn make(&self, format: Format, is_there: bool, stop: &Stop) -> Result<Option<String>> {
        if let Some((name, package)) = format.writer().filter(|(name, _)| !process::find(name)) {
            let format = format.name();
            return Ok(Some(format!("skip: {format}: no {name}; apt-get install {package}")));
        }
        let image = self.image(format);
        if is_there && image.exists() {
            return Ok(None);
        }
        if image.exists() {
            fs::remove_file(&image)?;
        }
        let tree = self.tree();
        let command = match format {
            Format::Ext4 => {
                let (files, bytes) = measure(&tree)?;
                let mut command = program("mkfs.ext4");
                command.args(["-q", "-F", "-b", "4096", "-m", "0", "-O", "^has_journal", "-N"]);
                command.arg((files + 1024).to_string()).arg("-d").arg(&tree).arg(&image);
                // Inodes of 256 bytes, maps, and room for folders.
                let kilobytes = (bytes + bytes / 50 + files * 512 + (16 << 20)) >> 10;
                command.arg(format!("{kilobytes}k"));
                command
            }
            Format::SquashZlib => squash(&tree, &image, &["-comp", "gzip", "-b", "4096"]),
            Format::SquashZstd => {
                let level = ["-Xcompression-level", "9"];
                squash(&tree, &image, &[&["-comp", "zstd", "-b", "131072"], &level[..]].concat())
            }
            Format::Erofs => {
                let mut command = program("mkfs.erofs");
                command.args(["-zlz4hc", "-T0"]).arg(&image).arg(&tree);
                command
            }
            Format::Cramfs => {
                let mut command = self.forebay.command();
                command.args(["image", "make"]).arg(self.folder.join("small")).arg(&image);
                command
            }
        };
        answer(command, LONG, stop)?;
        // Dirty pages cannot be dropped from the page cache.
        File::open(&image)?.sync_all()?;
        Ok(None)
    }
}

impl Set {
    /// Makes the image of our own writer anew, sorted by a profile.
    pub(super) fn make_sorted(&self, profile: &Path, image: &Path, stop: &Stop) -> Result<()> {
        let mut command = self.forebay.command();
        command.args(["image", "make", "--force", "--profile"]).arg(profile);
        command.arg(self.folder.join("small")).arg(image);
        answer(command, LONG, stop)?;
        Ok(File::open(image)?.sync_all()?)
    }
}

fn squash(tree: &Path, image: &Path, arguments: &[&str]) -> Command {
    let mut command = program("mksquashfs");
    command.arg(tree).arg(image).args(["-noappend", "-no-progress", "-quiet"]);
    command.args(["-mkfs-time", "0", "-all-time", "0"]).args(arguments);
    command
}

/// What there is to take.
fn groups(tree: &Path) -> Result<Vec<Group>> {
    let (mut modules, mut packages) = (Vec::new(), Vec::new());
    for name in names(&tree.join("lib"))?.iter().filter(|name| name.starts_with("python3")) {
        // A version's own modules are what a start needs; what others added comes behind.
        let own = if name.contains('.') { &mut modules } else { &mut packages };
        walk(tree, &Path::new("lib").join(name), own)?;
    }
    let triplet = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let (mut programs, mut libraries) = (Vec::new(), Vec::new());
    flat(tree, Path::new("bin"), &mut programs)?;
    flat(tree, Path::new(&triplet), &mut libraries)?;
    walk(tree, &Path::new(&triplet).join("perl-base"), &mut modules)?;
    if programs.is_empty() || libraries.is_empty() {
        bail!("{}: no programs in bin, or no libraries in {triplet}", tree.display());
    }
    let needed = needed(tree, &modules)?;
    let group = |name, candidates, percent| Group { name, candidates, percent };
    Ok(vec![
        group(PROGRAM, needed, 100),
        group("modules", modules, 100),
        group("packages", packages, 20),
        group("programs", programs, 33),
        group("libraries", libraries, 100),
    ])
}

/// The program that is measured, the loader, and the libraries that it and its own modules name.
fn needed(tree: &Path, modules: &[Candidate]) -> Result<Vec<Candidate>> {
    let mut found = BTreeSet::new();
    let Some(itself) = ["bin/python3", "bin/perl"].iter().find(|name| tree.join(name).exists())
    else {
        return Ok(Vec::new());
    };
    let itself = tree.join(itself);
    take_link(tree, &itself, &mut found);
    for name in names(&tree.join("lib64")).unwrap_or_default() {
        take_link(tree, &tree.join("lib64").join(name), &mut found);
    }
    let extensions = modules.iter().filter(|file| is_shared(&file.path));
    let mut ldd = program("ldd");
    ldd.arg(&itself).args(extensions.map(|file| tree.join(&file.path)));
    // It fails if one of the files is not dynamic; its output about the others is complete.
    let listed = ldd.output().context("cannot run ldd")?.stdout;
    for path in libraries(&String::from_utf8_lossy(&listed)) {
        take_link(tree, Path::new(path), &mut found);
    }
    let candidate = |path: PathBuf| {
        let meta = fs::symlink_metadata(tree.join(&path)).ok()?;
        Some(Candidate { bytes: length(&meta), path })
    };
    Ok(found.into_iter().filter_map(candidate).collect())
}

/// The paths in what `ldd` prints: `libz.so.1 => /lib/libz.so.1 (0x...)`, `/lib64/ld.so (0x...)`.
fn libraries(listed: &str) -> impl Iterator<Item = &str> {
    listed.lines().filter_map(|line| {
        let (before, _) = line.trim().split_once(" (0x")?;
        let path = before.rsplit_once("=> ").map_or(before, |(_, path)| path);
        path.starts_with('/').then_some(path)
    })
}

/// Adds a path inside the tree and the target of its links.
fn take_link(tree: &Path, path: &Path, found: &mut BTreeSet<PathBuf>) {
    let Ok(tree) = tree.canonicalize() else { return };
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let itself = folder.zip(path.file_name()).map(|(folder, name)| folder.join(name));
    for path in itself.into_iter().chain(path.canonicalize()) {
        if let Ok(inside) = path.strip_prefix(&tree) {
            found.insert(inside.to_owned());
        }
    }
}

/// The files and links of one folder.
fn flat(tree: &Path, folder: &Path, into: &mut Vec<Candidate>) -> Result<()> {
    for name in names(&tree.join(folder)).unwrap_or_default() {
        let path = folder.join(name);
        let meta = fs::symlink_metadata(tree.join(&path))?;
        if meta.is_file() || meta.is_symlink() {
            into.push(Candidate { bytes: length(&meta), path });
        }
    }
    Ok(())
}

/// The files and links below a folder, without those that no program imports.
fn walk(tree: &Path, folder: &Path, into: &mut Vec<Candidate>) -> Result<()> {
    flat(tree, folder, into)?;
    for name in names(&tree.join(folder)).unwrap_or_default() {
        let path = folder.join(&name);
        let is_folder = fs::symlink_metadata(tree.join(&path))?.is_dir();
        let is_used = !UNUSED.iter().any(|unused| name.starts_with(unused));
        if is_folder && is_used {
            walk(tree, &path, into)?;
        }
    }
    Ok(())
}

/// The names in a folder that are text.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}

fn length(meta: &Metadata) -> u64 {
    if meta.is_file() { meta.len() } else { 0 }
}

fn is_shared(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "so")
}

fn copy(tree: &Path, candidate: &Candidate, to: &Path) -> Result<()> {
    let (from, to) = (tree.join(&candidate.path), to.join(&candidate.path));
    let folder = to.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder)?;
    let link = fs::symlink_metadata(&from)?.is_symlink();
    let done =
        if link { symlink(fs::read_link(&from)?, &to) } else { fs::copy(&from, &to).map(drop) };
    done.with_context(|| from.display().to_string())
}

/// Files one behind the other, again from the first if need be, up to a length.
fn concatenate(files: &[PathBuf], to: &Path, bytes: u64) -> Result<()> {
    if files.is_empty() {
        bail!("no library of 64 KiB or more among the files");
    }
    let (mut out, mut left) = (File::create(to)?, bytes);
    for file in files.iter().cycle() {
        let mut part = File::open(file)?.take(left);
        left -= std::io::copy(&mut part, &mut out)?;
        if left == 0 {
            break;
        }
    }
    Ok(out.flush()?)
}

/// Compiled modules that name no time: a mounted image may have none, and stale ones would be
/// compiled anew at each start.
fn compile_modules(tree: &Path, stop: &Stop) -> Result<()> {
    let python = tree.join("usr/bin/python3");
    if !python.exists() {
        return Ok(());
    }
    for name in names(&tree.join("usr/lib"))? {
        if name.starts_with("python3.") {
            let mut command = program("chroot");
            command.arg(tree).args(["/usr/bin/python3", "-I", "-m", "compileall", "-q"]);
            command.args(["--invalidation-mode", "unchecked-hash"]);
            command.arg(format!("/usr/lib/{name}"));
            // Sources for other versions do not compile, and are never imported.
            let _ = answer(command, LONG, stop);
            stop.check()?;
        }
    }
    Ok(())
}

/// Files of a tree, and their bytes in blocks of 4 KiB.
fn measure(tree: &Path) -> Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    let mut folders = vec![tree.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            files += 1;
            bytes += meta.len().next_multiple_of(PAGE);
            if meta.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok((files, bytes))
}

/// The programs whose start is measured, the first that works: its name, its path, the option that
/// makes it ignore files outside, and its work. A program that the tree lacks is skipped, for all
/// ways alike.
const STARTS: &[(&str, &str, &[&str], &str)] = &[
    (
        "python3",
        "/usr/bin/python3",
        &["-I", "-c"],
        "import importlib\n\
         for name in 'argparse ast asyncio base64 bisect bz2 calendar codecs collections \
         concurrent.futures configparser contextlib copy csv ctypes dataclasses datetime decimal \
         difflib dis doctest email.mime.text enum filecmp fileinput fractions ftplib functools \
         getopt gettext glob gzip hashlib heapq hmac html.parser http.client http.server imaplib \
         inspect ipaddress json logging.config lzma mailbox mimetypes multiprocessing optparse \
         pathlib pdb pickle pickletools pkgutil platform plistlib pprint pstats pydoc queue random \
         re sched secrets selectors shelve shlex shutil smtplib socketserver sqlite3 ssl \
         statistics subprocess tarfile tempfile textwrap timeit trace unittest.mock urllib.request \
         uuid wave webbrowser wsgiref.simple_server xml.dom.minidom xml.etree.ElementTree \
         xmlrpc.client zipfile zoneinfo'.split():\n \
         try: importlib.import_module(name)\n \
         except ImportError: pass",
    ),
    (
        "perl",
        "/usr/bin/perl",
        &["-e"],
        "for (qw(POSIX Socket IO::Handle IO::File List::Util Scalar::Util Storable Encode \
         File::Glob File::Spec Data::Dumper Text::ParseWords Getopt::Long)) \
         { eval \"require $_\" }",
    ),
];

/// What names of folders begin with that hold tests, compiled modules, and what embedders link.
const UNUSED: [&str; 3] = ["__pycache__", "test", "config-"];

/// The group that is taken whole.
const PROGRAM: &str = "program";

/// Pages of files and blocks of file systems.
pub(super) const PAGE: u64 = 4096;

/// The file that is read before each round.
const WARM: u64 = 256 << 10;

/// Making an image of the largest set takes minutes on a slow machine.
const LONG: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_taken_from_what_the_loader_lists() {
        let listed = "/usr/bin/python3:\n\tlinux-vdso.so.1 (0x00007fb0)\n\
                      \tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007fb0)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007fb0)\n\tnot a dynamic executable\n\
                      \tlibnone.so => not found\n";
        let found: Vec<&str> = libraries(listed).collect();
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"]);
    }

    #[test]
    fn a_bulk_file_has_its_length_whatever_it_is_made_of() {
        let folder = tempfile::tempdir().unwrap();
        let (part, bulk) = (folder.path().join("part"), folder.path().join("bulk"));
        fs::write(&part, b"abc").unwrap();
        concatenate(std::slice::from_ref(&part), &bulk, 8).unwrap();
        assert_eq!(fs::read(&bulk).unwrap(), b"abcabcab");
        assert!(concatenate(&[], &bulk, 8).is_err());
    }

    #[test]
    fn a_link_is_taken_with_what_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path();
        fs::write(tree.join("python3.11"), b"x").unwrap();
        symlink("python3.11", tree.join("python3")).unwrap();
        let mut found = BTreeSet::new();
        take_link(tree, &tree.join("python3"), &mut found);
        take_link(tree, Path::new("/etc/hostname"), &mut found);
        let found: Vec<PathBuf> = found.into_iter().collect();
        assert_eq!(found, [PathBuf::from("python3"), PathBuf::from("python3.11")]);
    }
}
