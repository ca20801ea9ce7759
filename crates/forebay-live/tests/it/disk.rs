//! An ext4 file system of a test's own, on a loop device, that no other process sees.
//!
//! Its mount has no place in the tree of files. The loop device goes away by itself when the last
//! descriptor does, also if the test is killed.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_live::number::{DevNumber, FileKey};
use rustix::fs::{Mode, OFlags, fadvise, fstat, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};
use tempfile::TempDir;

/// The file system, with its files.
pub(crate) struct Disk {
    mount: OwnedFd,
    /// Knobs that were set, as they were: the bdi of a loop device outlives its file.
    before: RefCell<Vec<(PathBuf, String)>>,
    _folder: TempDir,
}

impl Disk {
    /// None if there is no root, no loop device or no mkfs.ext4, which is said.
    pub(crate) fn new(test: &str, mebibytes: u64) -> Option<Self> {
        match Self::make(mebibytes) {
            Ok(disk) => Some(disk),
            Err(missing) => {
                eprintln!("skip: {test}: needs root, a loop device and ext4: {missing}");
                None
            }
        }
    }

    fn make(mebibytes: u64) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("not root".to_owned());
        }
        let folder = tempfile::tempdir_in("/var/tmp").map_err(|error| error.to_string())?;
        let image = folder.path().join("image");
        let file = File::create(&image).expect("a scratch file can be made");
        file.set_len(mebibytes << 20).expect("a scratch file can be sparse");
        run("mkfs.ext4", &["-q", "-F"], &image)?;
        let device = {
            let _numbers = numbers();
            run("losetup", &["-f", "--show"], &image)?
        };
        let mounted = mount(&device);
        // In use, it is only marked to go away later.
        run("losetup", &["-d"], Path::new(&device))?;
        Ok(Self { mount: mounted?, before: RefCell::default(), _folder: folder })
    }

    /// Makes a file of bytes that are not all alike, on the device and not in memory.
    pub(crate) fn file(&self, name: &str, mebibytes: usize) -> File {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(&self.mount, name, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(file.expect("a file can be made"));
        let piece: Vec<u8> = (0..1 << 20).map(|place: u32| place.to_le_bytes()[1]).collect();
        for _ in 0..mebibytes {
            file.write_all(&piece).expect("the file system has room");
        }
        file.sync_all().expect("the device takes it");
        forget(&file);
        file
    }

    /// The device's number.
    pub(crate) fn number(&self) -> DevNumber {
        DevNumber::from_stat(fstat(&self.mount).expect("a mount has a number").st_dev)
    }

    /// Sets a knob of its bdi until the end of the test.
    pub(crate) fn set(&self, knob: &str, value: u64) {
        let path = format!("/sys/class/bdi/{}/{knob}", self.number());
        self.keep(&path);
        fs::write(path, value.to_string()).expect("the knob takes the value");
    }

    /// Has a knob be as it is now at the end of the test, before those that were kept earlier.
    pub(crate) fn keep(&self, path: &str) {
        let before = fs::read_to_string(path).expect("the knob can be read");
        self.before.borrow_mut().push((PathBuf::from(path), before));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for (path, before) in self.before.take().into_iter().rev() {
            if let Err(error) = fs::write(&path, before) {
                eprintln!("warning: {} stays changed: {error}", path.display());
            }
        }
    }
}

/// Drops a file's pages.
pub(crate) fn forget(file: &File) {
    fadvise(file, 0, None, rustix::fs::Advice::DontNeed).expect("pages can be dropped");
}

/// By what events name it.
pub(crate) fn key(file: &File) -> FileKey {
    let stat = fstat(file).expect("a file has a number");
    FileKey { dev: DevNumber::from_stat(stat.st_dev), ino: stat.st_ino }
}

fn mount(device: &str) -> Result<OwnedFd, String> {
    let made = || -> rustix::io::Result<OwnedFd> {
        let context = fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, "source", device)?;
        fsconfig_create(&context)?;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
    };
    made().map_err(|error| format!("{device} cannot be mounted: {error}"))
}

fn run(program: &str, options: &[&str], path: &Path) -> Result<String, String> {
    let output = Command::new(program).args(options).arg(path).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Held while a free loop device is taken, or given up and taken again: tests run in parallel.
pub(crate) fn numbers() -> MutexGuard<'static, ()> {
    static NUMBERS: Mutex<()> = Mutex::new(());
    NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}
