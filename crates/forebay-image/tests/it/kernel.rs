//! Directories that no writer makes, as this machine's kernel shows them and as we do.
//!
//! Each image has hundreds of directories with names in any order, some of them several times, and
//! with indexes that lead anywhere. Whatever `stat` finds under a name, and whether it finds
//! anything, must be what a lookup of ours finds; a listing has the names that are found.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use forebay_image::{Options, Source, open};

use crate::erofs::craft::{Craft as Erofs, DIRECTORY, FILE, PLAIN, ROOT_NID};
use crate::squashfs_craft::{Craft as Squashfs, reference};

/// Directories of an image.
const DIRECTORIES: u32 = 300;
/// Names in a directory at most.
const NAMES: u64 = 9;

/// Numbers that look random, the same for the same seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn number(&mut self, limit: usize) -> usize {
        usize::try_from(self.below(limit as u64)).unwrap()
    }

    /// A short name of few letters, so that names are often equal or share their beginning.
    fn name(&mut self) -> String {
        let len = 1 + self.below(4);
        (0..len).map(|_| ['a', 'b', 'c'][self.number(3)]).collect()
    }

    /// Names, sometimes sorted, with at most a few out of order.
    fn names(&mut self, count: u64) -> Vec<String> {
        let mut names: Vec<String> = (0..count).map(|_| self.name()).collect();
        if self.below(3) > 0 {
            names.sort();
            names.dedup();
            for _ in 0..self.below(3) {
                let places = (self.number(names.len()), self.number(names.len()));
                names.swap(places.0, places.1);
            }
        }
        names
    }
}

/// A mount of the kernel's, which ends with it.
pub(crate) struct Mounted {
    pub(crate) folder: PathBuf,
    _scratch: tempfile::TempDir,
}

impl Mounted {
    /// Mounts an image file; none, with a word on stderr, where that cannot be.
    pub(crate) fn new(image: &Path, format: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skip: {format} by the kernel: needs root");
            return None;
        }
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("mount");
        fs::create_dir(&folder).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", format, "-o", "loop,ro"])
            .args([image, &folder])
            .output();
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        match mounted {
            Ok(done) if done.status.success() => Some(Self { folder, _scratch: scratch }),
            // It knows the format, so a refusal is a bug of ours.
            Ok(done) if known.contains(format) && Path::new("/dev/loop-control").exists() => {
                panic!("{format}: {}", String::from_utf8_lossy(&done.stderr));
            }
            _ => {
                eprintln!("skip: {format} by the kernel: not mounted");
                None
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The kernel gives the loop device back with the mount.
        let _ = Command::new("umount").arg(&self.folder).status();
    }
}

/// Compares all directories of the root; returns how many names were found and how many were not.
fn compare(bytes: Vec<u8>, format: &str) -> Option<(u32, u32)> {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("image");
    fs::write(&file, &bytes).unwrap();
    let mounted = Mounted::new(&file, format)?;
    let source: Arc<dyn Source> = Arc::new(bytes);
    let image = open(&source, Options::default()).unwrap();
    let (mut found, mut missing) = (0, 0);
    for number in 0..DIRECTORIES {
        let path = format!("d{number:03}");
        let id = image.lookup(image.root(), path.as_bytes()).unwrap().unwrap();
        let entries = image.entries(id).unwrap();
        let defects = image.defects(id).unwrap();
        let listed: BTreeSet<Vec<u8>> = entries.iter().map(|entry| entry.name.clone()).collect();
        assert_eq!(listed.len(), entries.len(), "{path}: a name twice");
        let folder = mounted.folder.join(&path);
        let theirs: BTreeSet<Vec<u8>> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_encoded_bytes())
            .collect();
        let told: BTreeSet<Vec<u8>> = defects.iter().map(|defect| defect.name.clone()).collect();
        assert!(theirs.iter().all(|name| listed.contains(name) || told.contains(name)), "{path}");
        for name in all_names() {
            let ours = image.lookup(id, name.as_bytes()).unwrap();
            let ours = ours.map(|node| image.node(node).unwrap().ino);
            let kernel = match fs::symlink_metadata(folder.join(&name)) {
                Ok(metadata) => Some(metadata.ino()),
                // Where an index leads to no entries the kernel reports that it cannot read them.
                Err(error) if [Some(2), Some(5)].contains(&error.raw_os_error()) => None,
                Err(error) => panic!("{path}/{name}: {error}"),
            };
            // Its search of erofs confuses some names, so that it finds names that are not listed.
            let is_listed = theirs.contains(name.as_bytes());
            if is_listed || ours.is_some() {
                assert_eq!(ours, kernel, "{format}: {path}/{name}: {theirs:?} {defects:?}");
            }
            if is_listed {
                assert_eq!(listed.contains(name.as_bytes()), kernel.is_some(), "{path}/{name}");
                *(if kernel.is_some() { &mut found } else { &mut missing }) += 1;
            }
        }
    }
    Some((found, missing))
}

/// All names that can be drawn.
fn all_names() -> Vec<String> {
    let mut names = vec![String::new()];
    let mut begin = 0;
    for _ in 0..4 {
        let end = names.len();
        for at in begin..end {
            for letter in ['a', 'b', 'c'] {
                names.push(format!("{}{letter}", names[at]));
            }
        }
        begin = end;
    }
    names.split_off(1)
}

/// A directory of squashfs of several runs, with an index whose entries may lead anywhere.
fn squashfs_directory(craft: &mut Squashfs, draw: &mut Draw, ino: u32, files: &[u64]) -> u64 {
    let begin = craft.directories.len();
    let mut runs = Vec::new();
    for _ in 0..1 + draw.below(3) {
        let count = 1 + draw.below(NAMES);
        let names = draw.names(count);
        let at = craft.directories.len() - begin;
        runs.push((at, names[0].clone()));
        let entries: Vec<_> = names
            .iter()
            .map(|name| {
                let file = draw.number(files.len());
                (name.as_bytes(), files[file], 2 + u32::try_from(file).unwrap(), 6)
            })
            .collect();
        craft.run(&entries);
    }
    let mut index = Vec::new();
    let mut count = 0_u16;
    if draw.below(2) == 0 {
        for (at, first) in &runs[1..] {
            let mut at = *at;
            let name = if draw.below(3) == 0 { draw.name() } else { first.clone() };
            match draw.below(8) {
                0 => at = runs[draw.number(runs.len())].0,
                1 => at += 12,
                _ => {}
            }
            // The block is that of the run, whatever the rest leads to.
            let block = u32::try_from((begin + at) / 8192 * 8194).unwrap();
            let len = u32::try_from(name.len() - 1).unwrap();
            index.extend([u32::try_from(at).unwrap(), block, len].map(u32::to_le_bytes).concat());
            index.extend(name.as_bytes());
            count += 1;
        }
    }
    let place = reference(begin);
    let size = u32::try_from(craft.directories.len() - begin + 3).unwrap();
    let block = u32::try_from(place >> 16).unwrap();
    let fields = [2, size, block, 1].map(u32::to_le_bytes).concat();
    let inside = ((place & 0xffff) as u16).to_le_bytes();
    let no_xattr = u32::MAX.to_le_bytes();
    craft.inode(8, ino, &[&fields, &count.to_le_bytes(), &inside, &no_xattr, &index])
}

#[test]
fn lookups_in_hostile_directories_of_squashfs_are_those_of_the_kernel() {
    for seed in 1..4 {
        let mut draw = Draw(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let mut craft = Squashfs::default();
        let files: Vec<u64> =
            (0..20).map(|number| craft.inode(6, 2 + number, &[&1_u32.to_le_bytes()])).collect();
        let mut below = Vec::new();
        for number in 0..DIRECTORIES {
            let ino = 100 + number;
            let at = squashfs_directory(&mut craft, &mut draw, ino, &files);
            below.push((format!("d{number:03}"), at, ino));
        }
        let begin = craft.directories.len();
        for (name, at, ino) in &below {
            craft.run(&[(name.as_bytes(), *at, *ino, 1)]);
        }
        let size = u32::try_from(craft.directories.len() - begin + 3).unwrap();
        let place = reference(begin);
        let block = u32::try_from(place >> 16).unwrap();
        let fields = [2, size, block, 99].map(u32::to_le_bytes).concat();
        let inside = ((place & 0xffff) as u16).to_le_bytes();
        craft.root = craft.inode(8, 1, &[&fields, &[0; 2], &inside, &u32::MAX.to_le_bytes()]);
        let mut image = craft.image();
        // The kernel refuses a table of no attributes: the ids, of which there is one, are the end.
        let ids = u64::from_le_bytes(image[48..56].try_into().unwrap());
        image[40..48].copy_from_slice(&(ids + 8).to_le_bytes());
        image[56..64].fill(0xff);
        image.resize(image.len().next_multiple_of(4096), 0);
        let Some((found, missing)) = compare(image, "squashfs") else { return };
        assert!(found > 500 && missing > 100, "seed {seed}: {found} found, {missing} not");
    }
}

#[test]
fn lookups_in_hostile_directories_of_erofs_are_those_of_the_kernel() {
    for seed in 1..4 {
        let mut draw = Draw(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let directories = usize::try_from(DIRECTORIES).unwrap();
        // Inodes have 64 bytes; those of the directories begin at block 4, and their blocks behind.
        let first = 4 + directories.div_ceil(64);
        let nid = |number: usize| 4 * 128 + 2 * number as u64;
        let mut craft = Erofs::new(first + 4 * directories + 4);
        // Some numbers of block 1 are those of the files.
        let files: Vec<u64> = (0..20).map(|number| 130 + 2 * number).collect();
        for &file in &files {
            craft.inode(file, FILE, PLAIN, 0, 2);
        }
        let mut root: Vec<(u64, u8, String)> =
            vec![(ROOT_NID, 2, ".".into()), (ROOT_NID, 2, "..".into())];
        for number in 0..directories {
            let blocks = 1 + draw.number(4);
            let begin = first + 4 * number;
            for block in 0..blocks {
                let mut entries = Vec::new();
                if block == 0 {
                    entries.push((nid(number), 2, ".".to_owned()));
                    entries.push((ROOT_NID, 2, "..".to_owned()));
                }
                let count = 1 + draw.below(NAMES);
                for name in draw.names(count) {
                    entries.push((files[draw.number(files.len())], 1, name));
                }
                let entries: Vec<_> =
                    entries.iter().map(|(n, k, name)| (*n, *k, &name[..])).collect();
                craft.directory(begin + block, &entries);
            }
            let size = 4096 * blocks as u64;
            craft.inode(nid(number), DIRECTORY, PLAIN, size, u32::try_from(begin).unwrap());
            root.push((nid(number), 2, format!("d{number:03}")));
        }
        // The root takes the last blocks.
        let begin = first + 4 * directories;
        for (block, entries) in root.chunks(150).enumerate() {
            let entries: Vec<_> = entries.iter().map(|(n, k, name)| (*n, *k, &name[..])).collect();
            craft.directory(begin + block, &entries);
        }
        let size = 4096 * root.len().div_ceil(150) as u64;
        craft.inode(ROOT_NID, DIRECTORY, PLAIN, size, u32::try_from(begin).unwrap());
        let Some((found, missing)) = compare(craft.bytes, "erofs") else { return };
        assert!(found > 500 && missing > 100, "seed {seed}: {found} found, {missing} not");
    }
}
