//! Two daemons that steer one machine with journals of their own, and borrow its windows.
//!
//! The child is this test program again, which steers a folder of knobs until it is killed.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use forebay_core::time::{Duration, Instant};
use forebay_live::journal::{Folder, Journal, STATE_FOLDER};
use forebay_live::knob::{
    Applied, Brief, Change, Event, Knob, Patience, Refused, Steering, Terms, Value, boot, turn,
};
use forebay_live::number::DevNumber;
use forebay_live::tree::Tree;
use forebay_live::undo::undo;
use rustix::process::{Signal, getpid, kill_process};

#[test]
fn a_window_that_one_daemon_borrows_is_no_choice_for_the_other() {
    let scene = Scene::new();
    let mut steering = scene.steering("ours");
    assert_eq!(set(&mut steering, 256).unwrap().before, Value::Number(8192));
    let mut child = scene.child("borrow");
    let mut told = 0;
    for _ in 0..LOOKS {
        assert_eq!(steering.watch_foreign(), [], "no program has chosen another window");
        // None if the other one had the turn whenever it was asked for.
        if let Some(kb) = steering.window(DISK) {
            assert_eq!(kb, 256);
            told += 1;
        }
    }
    assert!(told > LOOKS / 10, "{told} of {LOOKS} looks had a turn");
    child.kill().unwrap();
    child.wait().unwrap();
    // It may have been killed in the midst of a moment.
    assert_eq!(steering.watch_foreign(), []);
    assert_eq!(scene.stands(), "256\n");
    let restored = steering.restore(WINDOW, "a test ends");
    assert!(matches!(restored, Some(Event::Restored { .. })), "{restored:?}");
    drop(steering);
    scene.undo("theirs");
    assert_eq!(scene.stands(), "8192\n");
}

#[test]
fn lasting_changes_stay_when_their_steering_ends_and_go_back_by_their_journal() {
    let scene = Scene::new();
    let lasting = || {
        let state = scene.folder.path().join("fixes");
        let terms = Terms { period: Duration::ZERO, ..Terms::default() };
        Steering::lasting(&tree(scene.folder.path()), &state, terms).unwrap().0
    };
    set(&mut lasting(), 128).unwrap();
    assert_eq!(scene.stands(), "128\n", "nothing steers, and it stays");
    let strict = Change { knob: STRICT, to: Value::Number(1), why: "a test".to_owned() };
    let mut second = lasting();
    second.set(&strict, Instant(0)).unwrap();
    assert_eq!(second.state().open(), 2, "the first change is on record still");
    drop(second);
    // A steering with a journal of its own takes it for the default.
    let mut steering = scene.steering("ours");
    assert_eq!(set(&mut steering, 256).unwrap().before, Value::Number(128));
    drop(steering);
    assert_eq!(scene.stands(), "128\n");
    let events = scene.undo("fixes");
    assert!(matches!(events[..], [Event::Restored { .. }, Event::Restored { .. }]), "{events:?}");
    assert_eq!(scene.stands(), "8192\n");
}

#[test]
fn what_was_borrowed_by_a_killed_daemon_is_given_back_by_the_next() {
    let scene = Scene::new();
    let mut child = scene.child("die");
    child.wait().unwrap();
    assert_eq!(scene.stands(), "64\n", "it was killed while it had borrowed the window");
    let mut steering = scene.steering("ours");
    assert_eq!(steering.window(DISK), Some(8192));
    assert_eq!(scene.stands(), "8192\n");
    // The change of its own is on record for the default as it was.
    assert_eq!(set(&mut steering, 256).unwrap().before, Value::Number(8192));
    let events = steering.finish("a test ends");
    assert!(matches!(events[..], [Event::Restored { .. }]), "{events:?}");
    let events = scene.undo("theirs");
    assert!(matches!(events[..], [Event::AsBefore { .. }]), "{events:?}");
    assert_eq!(scene.stands(), "8192\n");
}

#[test]
fn a_holder_that_does_not_release_keeps_others_from_windows_and_from_nothing_else() {
    let scene = Scene::new();
    let mut steering = scene.steering("ours");
    set(&mut steering, 256).unwrap();
    let tree = tree(scene.folder.path());
    let held = turn(&tree, Patience::Short).unwrap();
    for _ in 0..20 {
        let refused = set(&mut steering, 512).unwrap_err();
        assert!(matches!(refused, Refused::NoTurn { .. }), "{refused}");
        let brief = Brief { bdi: DISK, kb: 16, why: "a test".to_owned(), name: String::new() };
        let refused = steering.with_window(&brief, &[], |_| panic!("it is not borrowed"));
        assert!(matches!(refused, Err(Refused::NoTurn { .. })), "{refused:?}");
    }
    fs::write(scene.window(), "16\n").unwrap();
    assert_eq!(steering.watch_foreign(), [], "it may be borrowed, so nothing is said of it");
    fs::write(scene.window(), "256\n").unwrap();
    let strict = Change { knob: STRICT, to: Value::Number(1), why: "a test".to_owned() };
    steering.set(&strict, Instant(0)).unwrap();
    let events = steering.finish("a test ends");
    assert!(matches!(events[..], [Event::Restored { .. }, Event::Failed { .. }]), "{events:?}");
    assert_eq!(steering.state().open(), 1, "the window stays on record");
    drop(held);
    assert!(matches!(steering.finish("a test ends")[..], [Event::Restored { .. }]));
    assert_eq!(scene.stands(), "8192\n");
}

#[test]
fn the_lock_lies_where_no_other_user_can_open_it() {
    use std::os::unix::fs::MetadataExt;
    let scene = Scene::new();
    drop(turn(&tree(scene.folder.path()), Patience::Short).unwrap());
    let folder = scene.folder.path().join(STATE_FOLDER.trim_start_matches('/'));
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&folder) & 0o022, 0);
    assert_eq!(mode(&folder.join("machine.lock")), 0o600);
}

/// The child: not a test, and without its argument it does nothing.
#[test]
fn child() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let (root, told) = told.split_once(' ').unwrap();
    let mut steering = steering(Path::new(root), "theirs");
    println!("\nbegun");
    loop {
        let brief = Brief { bdi: DISK, kb: 64, why: "a test".to_owned(), name: String::new() };
        let told = steering.with_window(&brief, &[], |_| {
            if told == "die" {
                kill_process(getpid(), Signal::KILL).unwrap();
                // Until it arrives.
                std::thread::park();
            }
            // So long that a process that does not wait for its turn meets it.
            std::thread::yield_now();
        });
        match told {
            Ok(()) | Err(Refused::NoTurn { .. }) => {}
            Err(refused) => panic!("{refused}"),
        }
    }
}

fn set(steering: &mut Steering, kb: u64) -> Result<Applied, Refused> {
    let change = Change { knob: WINDOW, to: Value::Number(kb), why: "a test".to_owned() };
    steering.set(&change, Instant(0))
}

/// A folder of knobs, in memory if there is some.
struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let memory = tempfile::TempDir::new_in("/dev/shm");
        let folder = memory.or_else(|_| tempfile::TempDir::new()).unwrap();
        for (path, text) in [
            ("sys/class/bdi/7:0/read_ahead_kb", "8192\n"),
            ("sys/class/bdi/7:0/strict_limit", "0\n"),
            ("sys/class/bdi/7:0/max_ratio_fine", "1000000\n"),
            ("proc/sys/kernel/random/boot_id", "e1276973\n"),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self { folder }
    }

    fn steering(&self, state: &str) -> Steering {
        steering(self.folder.path(), state)
    }

    fn window(&self) -> PathBuf {
        self.folder.path().join("sys/class/bdi/7:0/read_ahead_kb")
    }

    fn stands(&self) -> String {
        fs::read_to_string(self.window()).unwrap()
    }

    fn undo(&self, state: &str) -> Vec<Event> {
        let tree = tree(self.folder.path());
        let folder = Folder::made(&self.folder.path().join(state)).unwrap();
        let (mut journal, _) = Journal::open(Box::new(folder), &boot(&tree).unwrap()).unwrap();
        undo(&tree, &mut journal, "a test ends")
    }

    /// The child, once it steers.
    fn child(&self, told: &str) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "turns::child", "--nocapture", "--test-threads=1"]);
        command.env(TOLD, format!("{} {told}", self.folder.path().display()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let out = child.stdout.as_mut().unwrap();
        let (mut seen, mut byte) = (Vec::new(), [0]);
        while !seen.ends_with(b"begun\n") && out.read(&mut byte).unwrap() == 1 {
            seen.push(byte[0]);
        }
        child
    }
}

fn steering(root: &Path, state: &str) -> Steering {
    let terms = Terms { period: Duration::ZERO, ..Terms::default() };
    Steering::start(&tree(root), &root.join(state), terms).unwrap().0
}

fn tree(root: &Path) -> Tree {
    Tree::recorded(root).unwrap()
}

const DISK: DevNumber = DevNumber { major: 7, minor: 0 };
const WINDOW: Knob = Knob::ReadAheadKb(DISK);
const STRICT: Knob = Knob::StrictLimit(DISK);

/// How the child is told: the folder, and what to do in the moment.
const TOLD: &str = "FOREBAY_CHILD_BORROWS";

/// Looks of one while the other borrows: some hundred milliseconds.
const LOOKS: u32 = 500;
