//! Trees, images of them, and mounts that never stay behind.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use forebay_host::mount::{self, Ended, Mounted, Options, Stopper};
use forebay_image::cramfs::write::{Settings, Tree, write};
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

use crate::support::Rng;

/// A source tree, its image, and a folder to mount it on.
pub(crate) struct Scene {
    pub(crate) folder: TempDir,
}

/// A mounted image. It is gone when this is dropped, whatever happened, and if a test takes too
/// long its connection is aborted, so that no process waits for ever.
pub(crate) struct Guard {
    pub(crate) root: PathBuf,
    stopper: Stopper,
    end: Option<JoinHandle<Ended>>,
    said: Arc<Mutex<Vec<String>>>,
    /// The watchdog sleeps until it is gone.
    _alive: mpsc::Sender<()>,
}

/// Why mounts cannot be tested here; said on standard error.
pub(crate) fn skip() -> bool {
    let why = if fs::File::open("/dev/fuse").is_err() {
        "/dev/fuse cannot be opened"
    } else if !rustix::process::geteuid().is_root() {
        "only root can end a connection that hangs"
    } else {
        return false;
    };
    eprintln!("skip: mounted images: {why}");
    true
}

/// Whether a program is there; said on standard error if not.
pub(crate) fn has(program: &str, package: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !found {
        eprintln!("skip: mounted images: needs {program}; apt-get install {package}");
    }
    found
}

impl Scene {
    /// A tree with files of every awkward length.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder can be made");
        let scene = Self { folder };
        let source = scene.source();
        fs::create_dir_all(source.join("deep/er")).expect(MADE);
        fs::create_dir(source.join("empty")).expect(MADE);
        fs::create_dir(scene.mount_point()).expect(MADE);
        for len in [0, 1, 4095, 4096, 4097, 8192, 100_000] {
            fs::write(source.join(format!("of-{len}")), plausible(len as u64, len)).expect(MADE);
        }
        fs::write(source.join("deep/er/large"), plausible(7, 3 << 20)).expect(MADE);
        fs::write(source.join("deep/random"), crate::support::contents(9, 50_000)).expect(MADE);
        let mut holes = vec![0; 200_000];
        holes[100_000] = 1;
        fs::write(source.join("holes"), holes).expect(MADE);
        symlink("deep/er/large", source.join("link")).expect(MADE);
        scene
    }

    pub(crate) fn source(&self) -> PathBuf {
        self.folder.path().join("source")
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Writes the image.
    pub(crate) fn pack(&self) -> Vec<u8> {
        let tree = Tree::scan(&self.source()).expect("the tree can be read");
        let settings = Settings { holes: true, level: 6, ..Settings::default() };
        let written = write(&tree, &settings, &mut |_| {}).expect("the tree fits");
        fs::write(self.image(), &written.image).expect(MADE);
        written.image
    }

    /// Mounts it.
    pub(crate) fn mount(&self, options: &Options) -> Guard {
        self.try_mount(options).expect("the image can be mounted")
    }

    pub(crate) fn try_mount(&self, options: &Options) -> Result<Guard, mount::MountError> {
        let said = Arc::<Mutex<Vec<String>>>::default();
        let sink = Arc::clone(&said);
        let sink = Box::new(move |line: &str| sink.lock().expect(CALM).push(line.to_owned()));
        let options = Options { allow_other: true, ..options.clone() };
        let root = self.mount_point();
        let mounted: Mounted = mount::mount(&self.image(), &root, &options, sink)?;
        let stopper = mounted.stopper();
        let end = Some(thread::spawn(move || mounted.wait().expect("the profile can be written")));
        let (alive, gone) = mpsc::channel::<()>();
        let watched = root.clone();
        thread::spawn(move || {
            if gone.recv_timeout(Duration::from_secs(60)) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("a mount took too long and is aborted");
                // Force aborts the connection: every request of it fails at once.
                let _ = unmount(&watched, UnmountFlags::FORCE | UnmountFlags::DETACH);
            }
        });
        Ok(Guard { root, stopper, end, said, _alive: alive })
    }
}

impl Guard {
    /// Where a file of the image is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A counter by its name.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let counters = mount::of_mount(&self.root).expect("a mount has counters");
        counters.iter().find(|(other, _)| other == name).expect("the counter is there").1
    }

    /// The log so far.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().expect(CALM).clone()
    }

    /// The log, once it is complete: a line follows the reply that it describes.
    pub(crate) fn said_at_last(&self, is_enough: impl Fn(&[String]) -> bool) -> Vec<String> {
        loop {
            let said = self.said();
            if is_enough(&said) {
                return said;
            }
            thread::yield_now();
        }
    }

    /// Waits for its end, which another process has caused, and says how it ended.
    pub(crate) fn ended(mut self) -> Ended {
        self.end.take().expect("it is running").join().expect("it ends without a panic")
    }

    /// Ends it and says how it ended.
    pub(crate) fn end(mut self) -> Ended {
        self.stopper.stop();
        self.end.take().expect("it is running").join().expect("it ends without a panic")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(end) = self.end.take() {
            let _ = end.join();
        }
        // Nothing is there if all went well.
        let _ = unmount(&self.root, UnmountFlags::DETACH);
    }
}

/// Bytes that pack, as those of programs do.
pub(crate) fn plausible(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng(seed);
    let words: Vec<[u8; 6]> = (0..64).map(|_| [0; 6].map(|_: u8| rng.below(256) as u8)).collect();
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(words[rng.below(64) as usize]);
        bytes.push(rng.below(256) as u8);
    }
    bytes.truncate(len);
    bytes
}

/// Everything below a folder: path, type, and content or target.
pub(crate) fn listing(folder: &Path) -> Vec<(PathBuf, String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(directory) = open.pop() {
        let mut names: Vec<OsString> = fs::read_dir(&directory)
            .expect(READ)
            .map(|entry| entry.expect(READ).file_name())
            .collect();
        names.sort();
        for name in names {
            let path = directory.join(name);
            let seen = fs::symlink_metadata(&path).expect(READ);
            let kind = format!("{:?} {:?}", seen.file_type(), seen.permissions());
            let content = if seen.is_symlink() {
                fs::read_link(&path).expect(READ).into_os_string().into_encoded_bytes()
            } else if seen.is_file() {
                assert_eq!(fs::read(&path).expect(READ).len() as u64, seen.len(), "{path:?}");
                fs::read(&path).expect(READ)
            } else {
                open.push(path.clone());
                Vec::new()
            };
            found.push((path.strip_prefix(folder).expect(READ).to_owned(), kind, content));
        }
    }
    found
}

const MADE: &str = "a scratch file can be made";
const READ: &str = "a tree can be read";
const CALM: &str = "no thread panics with a lock";
