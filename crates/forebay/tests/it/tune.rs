//! The running daemon from outside: refusals, and its work on a disk of the test.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use forebay_core::time::Instant;
use forebay_live::knob::{Change, Knob, Steering, Terms, Value};
use forebay_live::tree::Tree;

use super::support::{Scene, for_everybody, stderr};

#[test]
fn bad_words_and_files_are_refused_with_their_place() {
    let mut scene = Scene::new()
        .file("key.toml", "[writeback]\n\nflor_mib = 3\n")
        .file("value.toml", "[readahead]\nfloor_kib = 0\n")
        .file("bytes.toml", b"# \xff\n")
        .file("crossed.toml", "[readahead]\n# floor_kib\ncap_kib = 32\nfloor_kib = 64\n")
        .file("no.toml", "[daemon\n")
        .file("within.toml", "[scope]\nwithin = [\"nothing-of-this-name\"]\n");
    scene
        .refused("tune --dry-run --policy key.toml")
        .refused("tune --dry-run --policy value.toml")
        .refused("tune --dry-run --policy no.toml")
        .refused("tune --dry-run --policy bytes.toml")
        .refused("tune --dry-run --policy crossed.toml")
        .refused("tune --dry-run --policy within.toml")
        .refused("tune --dry-run --policy .")
        .refused("tune --dry-run --policy absent.toml")
        .refused("tune --dry-run --scope nothing-of-this-name")
        .refused("tune --dry-run --protect 7:1048575")
        .refused("tune --dry-run --scope ..")
        .refused("tune --dry-run --scope 1 --protect 1")
        .refused("tune --dry-run --scope a\u{1b}b")
        .refused("tune --interval 99ms")
        .refused("tune --only elevator")
        .refused("tune --profile databse");
    scene.matches("tune_refused.txt");
}

/// A disk of root's test, or a message about what is missing.
struct Rig {
    folder: tempfile::TempDir,
    device: PathBuf,
    is_mounted: bool,
}

impl Rig {
    /// A loop disk with a file system, seen by all processes for the test's time.
    fn new() -> Option<Self> {
        let skip = |why: &str| {
            eprintln!("skip: a disk to steer: needs {why}");
            None
        };
        if !rustix::process::geteuid().is_root() {
            return skip("root");
        }
        for tool in ["losetup", "mkfs.ext4", "mount", "umount"] {
            if !Command::new("which").arg(tool).output().is_ok_and(|found| found.status.success()) {
                return skip(tool);
            }
        }
        let folder = tempfile::tempdir().ok()?;
        let image = folder.path().join("disk");
        fs::File::create(&image).ok()?.set_len(256 << 20).ok()?;
        let output = Command::new("losetup").args(["-f", "--show"]).arg(&image).output().ok()?;
        if !output.status.success() {
            return skip("a loop device");
        }
        let device = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
        let mut rig = Self { folder, device, is_mounted: false };
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&rig.device).status().ok()?;
        fs::create_dir(rig.mounted()).ok()?;
        let mount = Command::new("mount").arg(&rig.device).arg(rig.mounted()).status().ok()?;
        rig.is_mounted = mount.success();
        if made.success() && rig.is_mounted { Some(rig) } else { skip("an ext4 that mounts") }
    }

    fn mounted(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    fn name(&self) -> &str {
        self.device.file_name().and_then(|name| name.to_str()).expect("it is a device's name")
    }

    /// Every knob that could be tuned.
    fn knobs(&self) -> Vec<String> {
        let block = Path::new("/sys/block").join(self.name());
        let number = fs::read_to_string(block.join("dev")).expect("a disk has a number");
        let bdi = Path::new("/sys/class/bdi").join(number.trim());
        ["read_ahead_kb", "max_ratio_fine", "strict_limit", "min_ratio"]
            .iter()
            .map(|knob| fs::read_to_string(bdi.join(knob)).unwrap_or_default())
            .collect()
    }

    fn tune(&self, words: &str) -> Child {
        Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(["tune", "--scope", self.name(), "--state"])
            .arg(self.folder.path().join("state"))
            .args(words.split_whitespace())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs")
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = Command::new("umount").arg(self.mounted()).status();
        }
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}

#[test]
fn knobs_of_a_disk_are_as_before_after_the_end() {
    let Some(rig) = Rig::new() else { return };
    let before = rig.knobs();
    let mut daemon = rig.tune("--for 4s");
    let mut steers = String::new();
    let mut pipe = BufReader::new(daemon.stderr.take().expect("it is a pipe"));
    pipe.read_line(&mut steers).expect("it says what it steers");
    // Two calls of fsync show that more will wait for dirty data. A dirty MiB is a burst, and stays
    // dirty for longer than the interval between samples.
    let log = File::create(rig.mounted().join("log")).expect("a file can be made");
    for line in [b"one", b"two"] {
        log.write_all_at(line, 0).and_then(|()| log.sync_all()).expect("it is written");
    }
    let burst = vec![7_u8; 32 << 20];
    let written = fs::write(rig.mounted().join("burst"), burst);
    let mut said = String::new();
    pipe.read_to_string(&mut said).expect("it speaks until its end");
    assert!(written.is_ok() && daemon.wait().expect("it ends").success(), "{said}");
    assert!(said.contains(&format!("dirty limit of {}", rig.name())), "{said}");
    assert!(said.contains("was restored"), "{said}");
    assert_eq!(rig.knobs(), before, "{said}");
}

#[test]
fn writers_that_block_nothing_get_no_limit() {
    let Some(rig) = Rig::new() else { return };
    let mut daemon = rig.tune("--for 2s");
    let mut steers = String::new();
    let mut pipe = BufReader::new(daemon.stderr.take().expect("it is a pipe"));
    pipe.read_line(&mut steers).expect("it says what it steers");
    let written = fs::write(rig.mounted().join("burst"), vec![7_u8; 32 << 20]);
    let mut said = String::new();
    pipe.read_to_string(&mut said).expect("it speaks until its end");
    assert!(written.is_ok() && daemon.wait().expect("it ends").success(), "{said}");
    assert!(!said.contains("dirty limit"), "{said}");
}

#[test]
fn a_remedy_is_shown_asked_about_made_and_put_back() {
    let Some(rig) = Rig::new() else { return };
    let block = Path::new("/sys/block").join(rig.name());
    let window = block.join("queue/read_ahead_kb");
    let stands = || fs::read_to_string(&window).expect("a disk has a window");
    fs::write(&window, "8192\n").expect("root may write it");
    let state = rig.folder.path().join("fixes");
    let advise = |words: &[&str], typed: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.arg("advise").args(words).arg("--state").arg(&state);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        let mut input = child.stdin.take().expect("it is a pipe");
        // It may not ask at all.
        let _ = input.write_all(typed.as_bytes());
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text + &String::from_utf8_lossy(&output.stderr))
    };
    let (code, said) = advise(&["--fix", "no-such-advice"], "");
    assert_eq!(code, Some(2), "{said}");
    for typed in ["", "n\n", "what?\n"] {
        let (code, said) = advise(&["--fix", rig.name()], typed);
        assert_eq!((code, stands().as_str()), (Some(1), "8192\n"), "{typed:?}: {said}");
        assert!(said.contains("8192 KiB -> 128 KiB"), "{said}");
        assert!(said.contains("when files are opened again"), "{said}");
    }
    let (code, said) = advise(&["--fix", rig.name()], "y\n");
    assert_eq!((code, stands().as_str()), (Some(0), "128\n"), "{said}");
    let undo = format!("`forebay advise --undo --state {}` puts it back", state.display());
    assert!(said.contains(&undo), "{said}");
    let (code, said) = advise(&["--undo"], "");
    assert_eq!((code, stands().as_str()), (Some(0), "8192\n"), "{said}");
    let (code, said) = advise(&["--fix", rig.name(), "--yes"], "");
    assert_eq!((code, stands().as_str()), (Some(0), "128\n"), "{said}");
    let (code, said) = advise(&["--undo"], "");
    assert_eq!((code, stands().as_str()), (Some(0), "8192\n"), "{said}");
}

/// `--fix` recorded the window of a daemon as the one from before, and `--undo` took it for another
/// program's and forgot the record: either way the first window was lost.
#[test]
fn a_window_that_is_tuned_is_neither_fixed_nor_forgotten() {
    let Some(rig) = Rig::new() else { return };
    let block = Path::new("/sys/block").join(rig.name());
    let window = block.join("queue/read_ahead_kb");
    let stands = || fs::read_to_string(&window).expect("a disk has a window");
    fs::write(&window, "2560\n").expect("root may write it");
    let [fixes, tuned] = ["fixes", "tuned"].map(|name| rig.folder.path().join(name));
    // The default folder of `tune` is `tuned` here, and for no other process.
    let advise = |words: &str| {
        let script = format!(
            "mount -t tmpfs none /run && cp -r {0} /run/forebay && exec {1} advise {words} \
             --state {2}",
            tuned.display(),
            env!("CARGO_BIN_EXE_forebay"),
            fixes.display()
        );
        let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output();
        let output = output.expect("unshare runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let number = fs::read_to_string(block.join("dev")).expect("a disk has a number");
    let knob = Knob::ReadAheadKb(number.trim().parse().expect("it is one"));
    let tune = || {
        let (mut steering, _) = Steering::start(&Tree::machine(), &tuned, Terms::default())
            .expect("a journal can be made");
        let change = Change { knob, to: Value::Number(4_096), why: "of a stream".to_owned() };
        steering.set(&change, Instant(0)).expect("a window can be written");
        steering
    };
    let daemon = tune();
    let (code, said) = advise(&format!("--fix {} --yes", rig.name()));
    assert_eq!((code, stands().as_str()), (Some(2), "4096\n"), "{said}");
    assert!(said.contains("`forebay tune undo` ends it"), "{said}");
    drop(daemon);
    assert_eq!(stands(), "2560\n");
    let (code, said) = advise(&format!("--fix {} --yes", rig.name()));
    assert_eq!((code, stands().as_str()), (Some(0), "128\n"), "{said}");
    let daemon = tune();
    let (code, said) = advise("--undo");
    assert_eq!((code, stands().as_str()), (Some(2), "4096\n"), "{said}");
    assert!(said.contains("its old value stays on record"), "{said}");
    drop(daemon);
    let (code, said) = advise("--undo");
    assert_eq!((code, stands().as_str()), (Some(0), "2560\n"), "{said}");
}

#[test]
fn a_lock_that_no_process_holds_is_not_called_held() {
    let scene = Scene::new();
    fs::create_dir_all(scene.path("root/proc")).expect("a folder can be made");
    fs::create_dir(scene.path("state")).expect("a folder can be made");
    std::os::unix::fs::symlink("/dev/null", scene.path("state/lock")).expect("a link can be made");
    let line = "tune --state state --root root --for 10ms";
    let output = scene.command(line).output().expect("the program runs");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("error: state: cannot lock: "), "{said}");
    assert!(said.ends_with("--state DIR takes another folder\n"), "{said}");
}

#[test]
fn a_profile_is_recommended_by_what_runs() {
    let scene = Scene::new();
    let root = scene.path("guest");
    let process = root.join("proc/7");
    fs::create_dir_all(&process).expect("a folder can be made");
    fs::write(process.join("comm"), "mariadbd\n").expect("a file can be made");
    let recommended = |more: &str| {
        let line = format!("tune recommend --root guest{more}");
        let output = scene.command(&line).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let recommend = || recommended("");
    let (code, said) = recommend();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("database: mariadbd runs here\n  forebay tune --profile database\n"));
    assert!(said.contains("limit_ms=500"), "{said}");
    let (code, said) = recommended(" --json");
    let object: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!((code, &object["profile"]), (Some(0), &"database".into()));
    assert_eq!(object["why"], "mariadbd runs here");
    fs::write(process.join("comm"), "sleep\n").expect("a file can be made");
    let (code, said) = recommended(" --json");
    assert_eq!((code, said.trim_end()), (Some(1), "{\n  \"profile\": null\n}"));
    let (code, said) = recommend();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("no profile"), "{said}");
}

#[test]
fn a_dry_run_without_privilege_promises_no_steering_and_ends_with_a_word() {
    let scene = Scene::new();
    let mut command = Command::new(for_everybody(&scene));
    // A process that asks nothing of any device.
    let scope = std::process::id().to_string();
    command.args(["tune", "--dry-run", "--for", "10ms", "--scope", &scope]).env_clear();
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().expect("the program runs");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(!said.contains("steered all the same"), "{said}");
    let would = "; what would become of dirty limits is said all the same\n";
    let files = said.lines().any(|line| line.starts_with("note: files are left alone"));
    assert!(!files || said.contains(would), "{said}");
    assert!(said.ends_with("\nnothing would have been changed\n"), "{said}");
}

#[test]
fn a_second_daemon_is_refused_and_a_dry_run_is_not() {
    let Some(rig) = Rig::new() else { return };
    let before = rig.knobs();
    let mut first = rig.tune("--for 6s");
    let mut line = String::new();
    let mut said = BufReader::new(first.stderr.take().expect("it is a pipe"));
    said.read_line(&mut line).expect("it says what it tunes once it holds the lock");
    assert!(line.starts_with("tuning device "), "{line}");
    let second = rig.tune("--for 1s").wait_with_output().expect("it ends");
    let dry = rig.tune("--for 1s --dry-run").wait_with_output().expect("it ends");
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("it speaks until its end");
    let first = first.wait().expect("it ends by itself");
    assert_eq!(second.status.code(), Some(2), "{}", String::from_utf8_lossy(&second.stderr));
    assert_eq!(dry.status.code(), Some(0), "{}", String::from_utf8_lossy(&dry.stderr));
    assert!(first.success(), "{rest}");
    assert_eq!(rig.knobs(), before);
}
