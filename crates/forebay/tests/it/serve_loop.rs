//! File systems on a loop device over `serve --fuse`: random operations against a model, killed
//! servers, repair, and a build.

use std::env;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command};

use rustix::process::Signal;

use crate::serve_folder::{Loop, Mount, can, done, served, stop};
use crate::support::Scene;

/// Random reads, writes, mapped reads and writes, truncations and punched holes of a file, each
/// compared with bytes in memory: what fsx does. Arguments: file, seed, operations, size.
const EXERCISE: &str = r#"
import ctypes, mmap, os, random, sys
path, seed, count, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
choose = random.Random(seed)
file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
model = bytearray()

def say(step, what):
    sys.exit(f"seed {seed}, step {step}: {what} differs from the model")

def mapped(at, length, step):
    page = mmap.PAGESIZE
    base = at // page * page
    with mmap.mmap(file, at - base + length, offset=base) as area:
        if area[at - base:] != model[at:at + length]:
            say(step, f"mapped read of {length} at {at}")
        if choose.random() < 0.5:
            new = choose.randbytes(length)
            area[at - base:] = new
            model[at:at + length] = new
            if choose.random() < 0.3:
                area.flush()

for step in range(count):
    kind = choose.choice(["write"] * 4 + ["read"] * 3 + ["map"] * 3 + ["cut", "punch", "sync"])
    at = choose.randrange(most)
    length = choose.randrange(1, min(64 << 10, most - at) + 1)
    if kind == "write":
        new = choose.randbytes(length)
        if at > len(model):
            model.extend(bytes(at - len(model)))
        assert os.pwrite(file, new, at) == length
        model[at:at + length] = new
    elif kind == "read":
        if os.pread(file, length, at) != model[at:at + length]:
            say(step, f"read of {length} at {at}")
    elif kind == "map" and at < len(model):
        mapped(at, min(length, len(model) - at), step)
    elif kind == "cut":
        os.ftruncate(file, at)
        del model[at:]
        model.extend(bytes(at - len(model)))
    elif kind == "punch" and at < len(model):
        if libc.fallocate(file, 3, at, length) == 0:
            end = min(at + length, len(model))
            model[at:end] = bytes(end - at)
    elif kind == "sync":
        os.fsync(file)
os.fsync(file)
open(sys.argv[5], "wb").write(model)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
if os.pread(file, most + 1, 0) != model:
    say(count, "the whole")
"#;

/// A kind of file system.
struct Kind {
    name: &'static str,
    make: &'static [&'static str],
    bytes: u64,
    programs: &'static [&'static str],
    /// Checks a device that is not mounted and changes nothing that was sound.
    check: fn(&Loop, &Scene),
}

const EXT4: Kind = Kind {
    name: "ext4",
    make: &["mkfs.ext4", "-q"],
    bytes: 64 << 20,
    programs: &["mkfs.ext4", "e2fsck"],
    check: |device, _| {
        // The journal is replayed, and then nothing is amiss.
        let replayed =
            Command::new("e2fsck").args(["-p", &device.0]).status().expect("the test works");
        assert!(matches!(replayed.code(), Some(0 | 1)), "{replayed}");
        done(Command::new("e2fsck").args(["-f", "-n", &device.0]));
    },
};

const XFS: Kind = Kind {
    name: "xfs",
    make: &["mkfs.xfs", "-q"],
    // mkfs.xfs takes no less.
    bytes: 320 << 20,
    programs: &["mkfs.xfs", "xfs_repair"],
    check: |device, scene| {
        // Mounting replays the log.
        drop(Mount::of(device, scene.path("mnt")));
        done(Command::new("xfs_repair").args(["-n", &device.0]));
    },
};

/// Whether a file system can be made over an export, and mounted.
fn can_mount(kind: &Kind) -> bool {
    let what = format!("{} over an export", kind.name);
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.lines().any(|line| line.trim() == kind.name) {
        eprintln!("skip: {what}: this kernel does not have it");
        return false;
    }
    can(&what, &["losetup", "mount", "umount", "python3"])
        && kind.programs.iter().all(|program| crate::support::has(program, &what))
}

const LINE: &str = "serve one --fuse dir --cache 8M";

fn start(scene: &Scene) -> (Child, Loop) {
    let server = served(scene, LINE, "dir/disk");
    (server, Loop::over(&scene.path("dir/disk")))
}

fn scene_of(kind: &Kind) -> Scene {
    let scene = Scene::new();
    File::create(scene.path("one"))
        .expect("the test works")
        .set_len(kind.bytes)
        .expect("the test works");
    fs::create_dir(scene.path("dir")).expect("the test works");
    let (server, device) = start(&scene);
    done(Command::new(kind.make[0]).args(&kind.make[1..]).arg(&device.0));
    drop(device);
    assert_eq!(stop(server, Signal::TERM), Some(0));
    scene
}

/// Exercises a file, and kills the server during other writes; synced data survives, and the file
/// system is consistent.
fn survives_cuts(kind: &Kind) {
    if !can_mount(kind) {
        return;
    }
    let scene = scene_of(kind);
    for round in 0..3 {
        let (server, device) = start(&scene);
        let mount = Mount::of(&device, scene.path("mnt"));
        for earlier in 0..round {
            let (on_disk, model) = (format!("mnt/file-{earlier}"), format!("model-{earlier}"));
            let read = |name: &str| fs::read(scene.path(name)).expect("the test works");
            assert!(read(&on_disk) == read(&model), "round {round}, file {earlier}");
        }
        let mut python = Command::new("python3");
        python.args(["-c", EXERCISE]).arg(scene.path(&format!("mnt/file-{round}")));
        let seed = format!("{}", 100 + round);
        python.args([&seed, "1500", "3000000"]).arg(scene.path(&format!("model-{round}")));
        done(&mut python);
        fs::write(scene.path(&format!("mnt/other-{round}")), vec![9; 5 << 20])
            .expect("the test works");
        assert_eq!(stop(server, Signal::KILL), None);
        drop(mount);
        drop(device);
        done(Command::new("umount").arg("--lazy").arg(scene.path("dir")));
        let (server, device) = start(&scene);
        (kind.check)(&device, &scene);
        drop(device);
        assert_eq!(stop(server, Signal::TERM), Some(0));
    }
}

#[test]
fn random_operations_on_ext4_over_an_export_hold_and_survive_cuts() {
    survives_cuts(&EXT4);
}

#[test]
fn random_operations_on_xfs_over_an_export_hold_and_survive_cuts() {
    survives_cuts(&XFS);
}

#[test]
fn a_crate_is_built_and_tested_on_a_loop_device() {
    if !can_mount(&EXT4) {
        return;
    }
    let Some(cargo) = env::var_os("CARGO") else {
        eprintln!("skip: a build on a loop device: it takes cargo");
        return;
    };
    let scene = scene_of(&EXT4);
    let (server, device) = start(&scene);
    let mount = Mount::of(&device, scene.path("mnt"));
    // The protocol's crate, which depends on nothing.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../forebay-nbd/src");
    done(Command::new("cp").arg("-r").arg(source).arg(scene.path("mnt/src")));
    let manifest = "[package]\nname = \"forebay-nbd\"\nversion = \"0.0.0\"\nedition = \"2024\"\n";
    fs::write(scene.path("mnt/Cargo.toml"), manifest).expect("the test works");
    let mut build = Command::new(cargo);
    build.current_dir(scene.path("mnt")).env("CARGO_TARGET_DIR", scene.path("mnt/target"));
    let output = done(build.args(["test", "--offline", "--lib", "--quiet"]));
    let said = crate::support::stdout(&output);
    assert!(said.contains("test result: ok."), "{said}");
    drop(mount);
    (EXT4.check)(&device, &scene);
    drop(device);
    assert_eq!(stop(server, Signal::TERM), Some(0));
}
