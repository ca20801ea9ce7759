//! Real processes, real kills: at a step of the writer, and at no step in particular.
//!
//! The child is this test program again, which steers a folder of knobs until it is killed.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay_core::time::{Duration as Span, Instant};
use forebay_live::journal::{Disk, Folder, Journal, Lock};
use forebay_live::knob::{
    Brief, Change, FileGone, Held, Kernel, Knob, NoTurn, OpenFile, Patience, Steering, Terms, Turn,
    Value, boot,
};
use forebay_live::number::DevNumber;
use forebay_live::tree::Tree;
use forebay_live::undo::undo;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};

use crate::random::Random;

#[test]
fn after_a_kill_at_a_random_step_all_knobs_are_as_before() {
    let random = &mut Random(1);
    let mut undone = 0;
    for seed in 0..KILLS {
        let scene = Scene::new();
        let (step, torn) = (random.below(120), random.below(400));
        let mut child = scene.child(&format!("{seed} {step} {torn}"));
        let status = child.wait().unwrap();
        assert!(status.signal() == Some(9) || status.success(), "{status}");
        let when = format!("seed {seed}, step {step}, torn {torn}");
        undone += scene.take_back_and_check(&when);
    }
    assert!(undone > KILLS as usize, "only {undone} changes were left to be undone");
}

#[test]
fn after_a_kill_at_any_moment_all_knobs_are_as_before() {
    let random = &mut Random(2);
    for seed in 0..KILLS {
        let scene = Scene::new();
        let mut child = scene.child(&format!("{seed} {} 0", u64::MAX));
        // How far it gets is random.
        std::thread::sleep(Duration::from_micros(random.below(4_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        scene.take_back_and_check(&format!("seed {seed}"));
    }
}

#[test]
fn a_lock_ends_with_its_process() {
    let scene = Scene::new();
    let mut child = scene.child(&format!("1 {} 0", u64::MAX));
    let folder = Folder::made(&scene.state()).unwrap();
    let said = Lock::take(&folder).unwrap_err().to_string();
    assert_eq!(said, format!("forebay tune runs already, as process {}", child.id()));
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    waitpid(Some(pid), WaitOptions::UNTRACED).unwrap();
    let said = Lock::take(&folder).unwrap_err().to_string();
    assert!(said.ends_with(&format!("process {}, which is stopped", child.id())), "{said}");
    child.kill().unwrap();
    child.wait().unwrap();
    Lock::take(&folder).unwrap();
}

/// The child: not a test, and without its argument it does nothing.
#[test]
fn child() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let mut words = told.split(' ');
    let root = PathBuf::from(words.next().unwrap());
    let mut number = || words.next().unwrap().parse::<u64>().unwrap();
    let (seed, step, torn) = (number(), number(), number());
    let end = End { steps: Arc::default(), dies: step, torn };
    let (tree, folder) = (tree(&root), Folder::made(&root.join("state")).unwrap());
    let _lock = Lock::take(&folder).unwrap();
    let boot = boot(&tree).unwrap();
    let (journal, _) = Journal::open(Box::new(Mortal(folder, end.clone())), &boot).unwrap();
    let terms = Terms { period: Span::ZERO, machine: true, wbt: true };
    let steering = Steering::on(Box::new(Mortal(tree, end)), journal, terms).unwrap().0;
    println!("\nbegun");
    steer(steering, &mut Random(seed));
}

/// Changes at random until it is killed.
fn steer(mut steering: Steering, random: &mut Random) {
    for turn in 0.. {
        let device = DEVICES[random.below(2) as usize];
        let window = Knob::ReadAheadKb(device);
        let (knob, to) = match random.below(7) {
            0 => (window, 16 + 4 * random.below(100)),
            1 => (Knob::StrictLimit(device), 1),
            2 => (Knob::MaxRatioFine(device), 5_000 + random.below(1_000)),
            3 => (Knob::DirtyExpire, 500 + random.below(100)),
            4 => {
                steering.restore(window, "a test");
                continue;
            }
            5 => {
                let brief =
                    Brief { bdi: device, kb: 1_024, why: "a test".to_owned(), name: String::new() };
                steering.with_window(&brief, &[], |_| ()).unwrap();
                continue;
            }
            _ => {
                assert_eq!(steering.watch_foreign(), []);
                continue;
            }
        };
        let change = Change { knob, to: Value::Number(to), why: "a test".to_owned() };
        steering.set(&change, Instant(turn)).unwrap();
    }
}

/// Counts steps and ends the process at one of them.
#[derive(Clone)]
struct End {
    steps: Arc<AtomicU64>,
    dies: u64,
    torn: u64,
}

impl End {
    fn is_last(&self) -> bool {
        self.steps.fetch_add(1, Ordering::Relaxed) == self.dies
    }

    fn step(&self) {
        if self.is_last() {
            die();
        }
    }
}

/// Something that may not outlive a step.
struct Mortal<T>(T, End);

fn die() {
    kill_process(getpid(), Signal::KILL).unwrap();
    // Until it arrives.
    std::thread::park();
}

impl Kernel for Mortal<Tree> {
    fn text(&self, path: &str) -> io::Result<String> {
        Kernel::text(&self.0, path)
    }

    fn write(&self, path: &str, number: u64) -> io::Result<()> {
        self.1.step();
        self.0.write(path, number)
    }

    fn node(&self, path: &str) -> io::Result<u64> {
        self.0.node(path)
    }

    fn hold(&self, file: &OpenFile) -> Result<Held, FileGone> {
        self.0.hold(file)
    }

    fn latch(&self, held: &Held) -> Result<(), FileGone> {
        self.0.latch(held)
    }

    fn turn(&self, patience: Patience) -> Result<Turn, NoTurn> {
        self.0.turn(patience)
    }
}

impl Disk for Mortal<Folder> {
    fn load(&self) -> io::Result<Vec<u8>> {
        self.0.load()
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.1.is_last() {
            let torn = bytes.len().min(self.1.torn as usize);
            self.0.append(&bytes[..torn])?;
            die();
        }
        self.0.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.1.step();
        self.0.sync()
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.1.step();
        self.0.replace(bytes)
    }

    fn set_aside(&mut self) -> io::Result<String> {
        self.1.step();
        self.0.set_aside()
    }

    fn clear(&mut self) -> io::Result<()> {
        self.1.step();
        self.0.clear()
    }
}

/// A folder of knobs, in memory if there is some: an fsync elsewhere costs more than all the rest.
struct Scene {
    folder: tempfile::TempDir,
    before: BTreeMap<PathBuf, String>,
}

impl Scene {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = tempfile::TempDir::new_in(memory).or_else(|_| tempfile::TempDir::new());
        let folder = folder.unwrap();
        let mut before = BTreeMap::new();
        let mut file = |path: String, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            before.insert(path, text.to_owned());
        };
        for device in DEVICES {
            for (name, text) in [
                ("read_ahead_kb", "8192\n"),
                ("strict_limit", "0\n"),
                ("max_ratio_fine", "1000000\n"),
            ] {
                file(format!("sys/class/bdi/{device}/{name}"), text);
            }
        }
        file("proc/sys/vm/dirty_expire_centisecs".to_owned(), "3000\n");
        file("proc/sys/kernel/random/boot_id".to_owned(), "e1276973\n");
        Self { folder, before }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// The child, told what to do behind the folder, once it steers or is dead.
    fn child(&self, told: &str) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "killed::child", "--nocapture", "--test-threads=1"]);
        command.env(TOLD, format!("{} {told}", self.folder.path().display()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        // What the test program itself says before.
        let out = child.stdout.as_mut().unwrap();
        let mut seen = Vec::new();
        let mut byte = [0];
        while !seen.ends_with(b"begun\n") && out.read(&mut byte).unwrap() == 1 {
            seen.push(byte[0]);
        }
        child
    }

    fn take_back_and_check(&self, when: &str) -> usize {
        let folder = Folder::made(&self.state()).unwrap();
        let _lock = Lock::take(&folder).unwrap();
        let (mut journal, notes) = Journal::open(Box::new(folder), "e1276973").unwrap();
        assert_eq!(notes, [], "{when}");
        let undone = undo(&tree(self.folder.path()), &mut journal, "a test ends").len();
        for (path, before) in &self.before {
            assert_eq!(&fs::read_to_string(path).unwrap(), before, "{when}: {}", path.display());
        }
        undone
    }
}

fn tree(root: &Path) -> Tree {
    Tree::recorded(root).unwrap()
}

const DEVICES: [DevNumber; 2] =
    [DevNumber { major: 7, minor: 0 }, DevNumber { major: 0, minor: 45 }];

/// How the child is told: the folder, a seed, the step it dies at, bytes of that step.
const TOLD: &str = "FOREBAY_CHILD_STEERS";

/// Children in each test: a few seconds.
const KILLS: u64 = 150;
