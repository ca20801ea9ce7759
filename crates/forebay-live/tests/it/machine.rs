//! The knobs of this machine: those of a loop device that the test has made.
//!
//! The child is this test program again; it steers until it is killed.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use forebay_core::time::Instant;
use forebay_live::journal::{Folder, Journal};
use forebay_live::knob::{
    Brief, Change, Event, Knob, OpenFile, Steering, Terms, Value, WindowOf, boot, started,
};
use forebay_live::number::{DevNumber, FileKey};
use forebay_live::tree::Tree;
use forebay_live::undo::undo;
use rustix::fs::{Advice, fadvise};

use crate::disk::numbers;

#[test]
fn after_a_kill_the_knobs_of_a_device_are_as_before() {
    let Some(disk) = LoopDisk::new() else { return };
    let before = disk.knobs();
    let mut child = disk.child("knobs");
    assert_eq!(disk.stands("read_ahead_kb"), "64");
    assert_eq!(disk.stands("strict_limit"), "1");
    assert_eq!(disk.stands("max_ratio_fine"), "100000");
    child.kill().unwrap();
    child.wait().unwrap();
    let events = disk.undo();
    assert_eq!(events.len(), 3, "{events:?}");
    assert!(events.iter().all(|event| matches!(event, Event::Restored { .. })), "{events:?}");
    assert_eq!(disk.knobs(), before);
    assert_eq!(disk.undo(), []);
}

// Linux 6.18 keeps the bdi of a loop device when another file is bound to it, with its knobs, and
// counts diskseq up. By diskseq alone the change would be taken for another device's, and stay.
#[test]
fn a_loop_device_that_is_bound_anew_gets_its_knobs_back() {
    let Some(disk) = LoopDisk::new() else { return };
    let before = disk.stands("strict_limit");
    let mut child = disk.child("knobs");
    child.kill().unwrap();
    child.wait().unwrap();
    {
        let _numbers = numbers();
        disk.losetup(&["-d"], None);
        disk.losetup(&[], Some(&disk.image()));
    }
    assert_eq!(disk.stands("strict_limit"), "1");
    disk.undo();
    assert_eq!(disk.stands("strict_limit"), before);
}

#[test]
fn after_a_kill_an_open_file_has_its_old_window() {
    let Some(disk) = LoopDisk::new() else { return };
    disk.write("read_ahead_kb", "8192");
    let file = File::open(&disk.node).unwrap();
    let before = disk.brought_in(&file);
    let mut child = disk.child(&format!("file {} {}", std::process::id(), file.as_raw_fd()));
    let during = disk.brought_in(&file);
    assert_eq!(disk.stands("read_ahead_kb"), "8192");
    assert!(during < before, "{during} sectors, {before} before");
    child.kill().unwrap();
    child.wait().unwrap();
    let events = disk.undo();
    assert!(matches!(events[..], [Event::FileRestored { to_kb: 8192, .. }]), "{events:?}");
    assert_eq!(disk.brought_in(&file), before);
}

#[test]
fn what_the_kernel_resets_is_set_again_once() {
    let Some(disk) = LoopDisk::new() else { return };
    let mut steering = Steering::start(&Tree::machine(), &disk.state(), terms()).unwrap().0;
    set(&mut steering, Knob::ReadAheadKb(disk.number), 16);
    disk.write_queue("max_sectors_kb", "64");
    if disk.stands("read_ahead_kb") == "16" {
        eprintln!("skip: a reset by the kernel: needs one that resets the window");
        return;
    }
    assert!(matches!(steering.watch_foreign()[..], [Event::Reasserted { .. }]));
    assert_eq!(disk.stands("read_ahead_kb"), "16");
    disk.write_queue("max_sectors_kb", "128");
    assert!(matches!(steering.watch_foreign()[..], [Event::Foreign { .. }]));
}

/// The child: not a test, and without its argument it does nothing.
#[test]
fn child() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let mut words = told.split(' ');
    let (state, device) = (PathBuf::from(words.next().unwrap()), words.next().unwrap());
    let device: DevNumber = device.parse().unwrap();
    let mut steering = Steering::start(&Tree::machine(), &state, terms()).unwrap().0;
    if words.next() == Some("file") {
        let mut number = || words.next().unwrap().parse::<u32>().unwrap();
        let (pid, fd) = (number(), number());
        let found = fs::metadata(format!("/proc/{pid}/fd/{fd}")).unwrap();
        let file = FileKey { dev: DevNumber::from_stat(found.dev()), ino: found.ino() };
        let file = OpenFile { pid, started: started(pid).unwrap(), fd, file };
        let brief = Brief { bdi: device, kb: 16, why: "a test".to_owned(), name: String::new() };
        let told = steering.set_windows(&brief, &[WindowOf { file, before_kb: 8192 }]).unwrap();
        assert!(told[0].is_ok(), "{told:?}");
    } else {
        set(&mut steering, Knob::ReadAheadKb(device), 64);
        set(&mut steering, Knob::MaxRatioFine(device), 100_000);
        set(&mut steering, Knob::StrictLimit(device), 1);
    }
    println!("\nsteers");
    loop {
        std::thread::park();
    }
}

fn set(steering: &mut Steering, knob: Knob, to: u64) {
    let change = Change { knob, to: Value::Number(to), why: "a test".to_owned() };
    steering.set(&change, Instant(0)).unwrap();
}

fn terms() -> Terms {
    Terms { period: forebay_core::time::Duration::ZERO, ..Terms::default() }
}

/// A loop device over a file of its own; it is gone with the value, its knobs as they were.
struct LoopDisk {
    folder: tempfile::TempDir,
    node: PathBuf,
    number: DevNumber,
    before: Vec<(String, String)>,
    request_kb: String,
}

impl LoopDisk {
    /// None if there cannot be one here, which is said on standard error.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skip: knobs of a loop device: needs root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        fs::write(&image, vec![1; LENGTH]).unwrap();
        let numbers = numbers();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(image).output();
        drop(numbers);
        let Some(output) = output.ok().filter(|output| output.status.success()) else {
            eprintln!("skip: knobs of a loop device: needs losetup and a free loop device");
            return None;
        };
        let node = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        let number = DevNumber::from_stat(fs::metadata(&node).unwrap().rdev());
        let queue = format!("/sys/dev/block/{number}/queue/max_sectors_kb");
        let request_kb = fs::read_to_string(queue).unwrap().trim().to_owned();
        let mut disk = Self { folder, node, number, before: Vec::new(), request_kb };
        disk.before = disk.knobs();
        // The last user of the number may have left something.
        disk.write("max_ratio_fine", "1000000");
        disk.write("strict_limit", "0");
        Some(disk)
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn losetup(&self, options: &[&str], image: Option<&Path>) {
        let mut command = Command::new("losetup");
        command.args(options).arg(&self.node).args(image);
        assert!(command.status().unwrap().success(), "{command:?}");
    }

    fn bdi(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/sys/class/bdi/{}/{name}", self.number))
    }

    fn stands(&self, name: &str) -> String {
        fs::read_to_string(self.bdi(name)).unwrap().trim().to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.bdi(name), text).unwrap();
    }

    fn knobs(&self) -> Vec<(String, String)> {
        let names = ["max_ratio_fine", "min_ratio_fine", "strict_limit", "read_ahead_kb"];
        names.iter().map(|name| ((*name).to_owned(), self.stands(name))).collect()
    }

    fn write_queue(&self, name: &str, text: &str) {
        fs::write(format!("/sys/dev/block/{}/queue/{name}", self.number), text).unwrap();
    }

    /// Sectors that come in with a page that is touched while nothing is cached: a window.
    fn brought_in(&self, file: &File) -> u64 {
        let stat = || -> Vec<u64> {
            let text = fs::read_to_string(format!("/sys/dev/block/{}/stat", self.number)).unwrap();
            text.split_whitespace().map(|word| word.parse().unwrap()).collect()
        };
        fadvise(file, 0, None, Advice::DontNeed).unwrap();
        let before = stat()[SECTORS_READ];
        // SAFETY: no process writes to the device while it is mapped.
        let map = unsafe { memmap2::MmapOptions::new().len(LENGTH).map(file) }.unwrap();
        assert_eq!(std::hint::black_box(map[LENGTH / 2]), 1);
        // What was read ahead counts when it has come.
        while stat()[IN_FLIGHT] > 0 {
            std::thread::yield_now();
        }
        stat()[SECTORS_READ] - before
    }

    /// A child that has done what it was told.
    fn child(&self, told: &str) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "machine::child", "--nocapture", "--test-threads=1"]);
        command.env(TOLD, format!("{} {} {told}", self.state().display(), self.number));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let out = child.stdout.as_mut().unwrap();
        let (mut seen, mut byte) = (Vec::new(), [0]);
        while !seen.ends_with(b"steers\n") {
            assert_eq!(out.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&seen));
            seen.push(byte[0]);
        }
        child
    }

    fn undo(&self) -> Vec<Event> {
        let tree = Tree::machine();
        let folder = Folder::at(&self.state()).unwrap();
        let (mut journal, _) = Journal::open(Box::new(folder), &boot(&tree).unwrap()).unwrap();
        undo(&tree, &mut journal, "a test ends")
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        // Before the window, which the kernel resets with it.
        let queue = format!("/sys/dev/block/{}/queue/max_sectors_kb", self.number);
        let _ = fs::write(queue, &self.request_kb);
        for (name, text) in &self.before {
            let _ = fs::write(self.bdi(name), text);
        }
        let _ = Command::new("losetup").arg("-d").arg(&self.node).status();
    }
}

/// How the child is told: the folder of its journal, the device, what to do.
const TOLD: &str = "FOREBAY_CHILD_MACHINE";

/// Bytes of the device.
const LENGTH: usize = 16 << 20;

/// Places in a device's `stat`.
const SECTORS_READ: usize = 2;
const IN_FLIGHT: usize = 8;
