//! `forebay record`, on a loop device of the test's own.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

const PAGE: u64 = 4_096;

/// Pages of the device: a prime, so that a step of 7919 meets each once.
const PAGES: u64 = 16_381;

const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;

/// A loop device over a file of its own; detached when it is dropped.
struct Loop {
    _folder: TempDir,
    node: PathBuf,
}

impl Loop {
    /// None if there cannot be one here, which is said on standard error.
    fn new() -> Option<Self> {
        let skip = |why: &str| eprintln!("skip: a recorded loop device: needs {why}");
        if !rustix::process::geteuid().is_root() {
            skip("root");
            return None;
        }
        let systems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if !systems.lines().any(|line| line.ends_with("\ttracefs")) {
            skip("tracefs");
            return None;
        }
        let folder = tempfile::tempdir().expect("the rig can be made");
        let image = folder.path().join("image");
        File::create(&image)
            .expect("the rig can be made")
            .set_len(PAGES * PAGE)
            .expect("it can be as long");
        let output = Command::new("losetup").args(["--find", "--show"]).arg(image).output();
        let Some(output) = output.ok().filter(|output| output.status.success()) else {
            skip("losetup and a free loop device");
            return None;
        };
        let node =
            PathBuf::from(String::from_utf8(output.stdout).expect("the rig can be made").trim());
        Some(Self { _folder: folder, node })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.node).status();
    }
}

/// A recorder; interrupted when it is dropped, so that it removes its instance.
struct Recorder(Child);

impl Recorder {
    fn interrupt(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let _ = self.0.wait();
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.interrupt();
        }
    }
}

/// Instances of tracefs, seen through a mount that ends with the command.
fn instances() -> Vec<String> {
    let script = "mount -t tracefs none /mnt && ls /mnt/instances";
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .output()
        .expect("the rig can be made");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout)
        .expect("the rig can be made")
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_recording_has_exactly_the_reads_of_its_time() {
    let Some(disk) = Loop::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.txt");
    let mut record = Command::new(env!("CARGO_BIN_EXE_forebay"));
    record.arg("record").arg(&disk.node).arg("-o").arg(&trace);
    record.args(["--time", "2s"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut recorder = Recorder(record.spawn().unwrap());
    let device = OpenOptions::new().read(true).custom_flags(O_DIRECT).open(&disk.node).unwrap();
    let mut memory = vec![0; 2 * PAGE as usize];
    let aligned = memory.as_ptr().align_offset(PAGE as usize);
    let buffer = &mut memory[aligned..aligned + PAGE as usize];
    // Which of them are recorded depends on when the recorder is ready, so each has its own place.
    let mut asked = Vec::new();
    for page in (0..PAGES).map(|number| number * 7_919 % PAGES) {
        if recorder.0.try_wait().unwrap().is_some() {
            break;
        }
        device.read_exact_at(buffer, page * PAGE).unwrap();
        asked.push(page * PAGE);
        thread::sleep(Duration::from_micros(200));
    }
    let status = recorder.0.wait().unwrap();
    let mut said = String::new();
    let mut stderr = recorder.0.stderr.take().unwrap();
    std::io::Read::read_to_string(&mut stderr, &mut said).unwrap();
    assert!(status.success() && !said.contains("lost"), "{said}");
    let mut head = Command::new(env!("CARGO_BIN_EXE_forebay"));
    head.args(["trace", "head", "-n", "100000", "--json"]).arg(&trace);
    let output = head.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let requests: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let requests = requests.as_array().unwrap();
    let offset = |request: &serde_json::Value| request["offset"].as_u64().unwrap();
    let recorded: Vec<u64> = requests.iter().map(offset).collect();
    assert!(requests.iter().all(|one| one["op"] == "read" && one["bytes"] == PAGE));
    let begin = asked.iter().position(|offset| *offset == recorded[0]).unwrap();
    assert_eq!(recorded, asked[begin..begin + recorded.len()]);
    let pid = recorder.0.id().to_string();
    let left = instances();
    let is_ours = |name: &String| name.split('-').any(|part| part == pid);
    assert!(!left.iter().any(is_ours), "an instance is left: {left:?}");
}
