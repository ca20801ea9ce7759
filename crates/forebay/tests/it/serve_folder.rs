//! `forebay serve --fuse`: exports as files, and a file system on a loop device over one.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::support::{Scene, has, stderr};

/// Whether exports can be shown here; if not, the skipped test is named.
pub(crate) fn can(what: &str, programs: &[&str]) -> bool {
    if !geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("skip: {what}: it takes root and /dev/fuse");
        return false;
    }
    programs.iter().all(|program| has(program, what))
}

/// A server whose folder is there.
pub(crate) fn served(scene: &Scene, line: &str, file: &str) -> Child {
    let child = scene.command(line).stderr(Stdio::null()).spawn().expect("the program runs");
    let begin = Instant::now();
    while !scene.path(file).exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the folder is there");
        thread::sleep(Duration::from_millis(5));
    }
    child
}

pub(crate) fn stop(mut server: Child, signal: Signal) -> Option<i32> {
    kill_process(Pid::from_child(&server), signal).expect("it runs");
    server.wait().expect("it ends").code()
}

pub(crate) fn done(command: &mut Command) -> Output {
    let output = command.output().expect("the program runs");
    let said = stderr(&output);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

#[test]
fn exports_are_files_of_their_size_and_content() {
    if !can("exports as files", &[]) {
        return;
    }
    let scene = Scene::new().file("one", vec![7; 10_000]).file("two", vec![8; 5000]);
    fs::create_dir(scene.path("dir")).unwrap();
    let server = served(&scene, "serve one b=two --fuse dir --cache 64k", "dir/disk");
    let mut names: Vec<_> =
        fs::read_dir(scene.path("dir")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["b", "disk"]);
    assert_eq!(fs::read(scene.path("dir/disk")).unwrap(), vec![7; 10_000]);
    assert_eq!(fs::read(scene.path("dir/b")).unwrap(), vec![8; 5000]);
    let refused = [
        File::create(scene.path("dir/new")).map(drop),
        fs::create_dir(scene.path("dir/new")),
        fs::remove_file(scene.path("dir/b")),
        fs::rename(scene.path("dir/b"), scene.path("dir/c")),
    ];
    for result in refused {
        assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    }
    let file = OpenOptions::new().read(true).write(true).open(scene.path("dir/disk")).unwrap();
    file.write_all_at(&[1; 3000], 4000).unwrap();
    assert!(file.write_at(&[2; 100], 10_000).is_err(), "a disk does not grow");
    assert_eq!(file.write_at(&[2; 100], 9950).unwrap(), 50);
    assert!(file.set_len(5).is_err() && fs::remove_file(scene.path("dir/b")).is_err());
    let mut expected = vec![7; 10_000];
    expected[4000..7000].fill(1);
    expected[9950..].fill(2);
    assert_eq!(fs::read(scene.path("dir/disk")).unwrap(), expected, "another open file sees it");
    file.sync_all().unwrap();
    assert_eq!(fs::read(scene.path("one")).unwrap(), expected, "and the source after fsync");
    done(
        Command::new("fallocate")
            .arg("-p")
            .args(["-o", "4096", "-l", "4096"])
            .arg(scene.path("dir/disk")),
    );
    expected[4096..8192].fill(0);
    assert_eq!(fs::read(scene.path("dir/disk")).unwrap(), expected);
    drop(file);
    assert_eq!(stop(server, Signal::TERM), Some(0));
    assert_eq!(fs::read(scene.path("one")).unwrap(), expected);
    assert_eq!(fs::read_dir(scene.path("dir")).unwrap().count(), 0, "it is unmounted");
}

#[test]
fn unmounting_ends_a_server_that_has_no_other_way_in() {
    if !can("exports as files", &["umount"]) {
        return;
    }
    let scene = Scene::new().file("one", "x");
    fs::create_dir(scene.path("dir")).unwrap();
    let mut server = served(&scene, "serve one --fuse dir --read-only", "dir/disk");
    let opened = OpenOptions::new().write(true).open(scene.path("dir/disk"));
    assert!(opened.is_err(), "it is read-only");
    done(Command::new("umount").arg(scene.path("dir")));
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_file_that_is_in_use_when_the_server_ends_gives_errors_and_keeps_what_was_written() {
    if !can("exports as files", &[]) {
        return;
    }
    let scene = Scene::new().file("one", vec![0; 8192]);
    fs::create_dir(scene.path("dir")).unwrap();
    let server = served(&scene, "serve one --fuse dir", "dir/disk");
    let file = OpenOptions::new().read(true).write(true).open(scene.path("dir/disk")).unwrap();
    file.write_all_at(&[5; 4096], 0).unwrap();
    assert_eq!(stop(server, Signal::TERM), Some(0));
    assert!(file.read_at(&mut [0; 10], 0).is_err());
    assert!(fs::read(scene.path("one")).unwrap()[..4096].iter().all(|byte| *byte == 5));
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let mut scene = Scene::new().file("one", "x");
    fs::create_dir(scene.path("dir")).unwrap();
    for line in ["serve one --fuse one", "serve one --fuse nothing", "serve ..=one --fuse dir"] {
        scene.refused(line);
    }
    scene.matches("serve_folder_refused.txt");
}

/// A loop device that is detached at the end of the test.
pub(crate) struct Loop(pub(crate) String);

impl Loop {
    pub(crate) fn over(file: &Path) -> Self {
        let made = done(Command::new("losetup").args(["--find", "--show"]).arg(file));
        Self(String::from_utf8(made.stdout).expect("it is text").trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// A mount that is unmounted at the end of the test.
pub(crate) struct Mount(std::path::PathBuf);

impl Mount {
    pub(crate) fn of(device: &Loop, folder: std::path::PathBuf) -> Self {
        fs::create_dir_all(&folder).expect("there is room");
        done(Command::new("mount").arg(&device.0).arg(&folder));
        Self(folder)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_file_system_on_a_loop_device_is_sound_after_its_server_was_killed() {
    let programs = ["losetup", "mkfs.ext4", "mount", "umount", "e2fsck"];
    if !can("a file system over an export", &programs) {
        return;
    }
    let scene = Scene::new();
    File::create(scene.path("one")).unwrap().set_len(64 << 20).unwrap();
    fs::create_dir(scene.path("dir")).unwrap();
    let line = "serve one --fuse dir --cache 8M";
    for round in 0_u8..3 {
        let server = served(&scene, line, "dir/disk");
        let device = Loop::over(&scene.path("dir/disk"));
        if round == 0 {
            done(Command::new("mkfs.ext4").args(["-q", &device.0]));
        }
        let mount = Mount::of(&device, scene.path("mnt"));
        // What earlier rounds had synced is there.
        for earlier in 0..round {
            let bytes = fs::read(scene.path(&format!("mnt/synced-{earlier}"))).unwrap();
            assert!(bytes == vec![earlier; 3 << 20], "round {round}, file {earlier}");
        }
        let synced = scene.path(&format!("mnt/synced-{round}"));
        fs::write(&synced, vec![round; 3 << 20]).unwrap();
        File::open(&synced).unwrap().sync_all().unwrap();
        fs::write(scene.path(&format!("mnt/other-{round}")), vec![9; 5 << 20]).unwrap();
        // A file of the folder is in use, and the server is gone at once.
        assert_eq!(stop(server, Signal::KILL), None);
        drop(mount);
        drop(device);
        done(Command::new("umount").arg("--lazy").arg(scene.path("dir")));
        let server = served(&scene, line, "dir/disk");
        let device = Loop::over(&scene.path("dir/disk"));
        let checked = Command::new("e2fsck").args(["-f", "-p", &device.0]).status().unwrap();
        assert!(matches!(checked.code(), Some(0 | 1)), "round {round}: {checked}");
        drop(device);
        assert_eq!(stop(server, Signal::TERM), Some(0));
    }
}
