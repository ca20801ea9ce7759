//! `forebay mount` as a user meets it: in the background, by signals, killed, mistyped.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use forebay_image::cramfs::write::{Settings, Tree, write};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Scene, assert_refused, stderr, stdout};

/// A scene with an image of a small tree, and a folder to mount it on that nothing stays on.
struct Mount {
    scene: Scene,
    folder: PathBuf,
}

impl Mount {
    /// None if images cannot be mounted here, which is reported on standard error.
    fn new() -> Option<Self> {
        if fs::File::open("/dev/fuse").is_err() || !rustix::process::geteuid().is_root() {
            eprintln!("skip: forebay mount: needs root and /dev/fuse");
            return None;
        }
        let scene = Scene::new();
        let (source, folder) = (scene.path("source"), scene.path("folder"));
        for path in [&source, &folder] {
            fs::create_dir(path).expect("a scratch folder can be made");
        }
        fs::write(source.join("text"), "water behind the dam\n".repeat(1_000)).expect("a file");
        fs::copy(true_program()?, source.join("true")).expect("a program can be copied");
        symlink("text", source.join("link")).expect("a link can be made");
        let tree = Tree::scan(&source).expect("the tree can be read");
        let image = write(&tree, &Settings::default(), &mut |_| {}).expect("the tree fits").image;
        fs::write(scene.path("image"), image).expect("the image can be written");
        Some(Self { scene, folder })
    }

    /// Runs the program; it must say nothing and succeed.
    fn run(&self, line: &str) -> String {
        let output = self.scene.command(line).output().expect("the program runs");
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{line}");
        stdout(&output).to_owned()
    }

    /// Mounts in the foreground and waits until it is there.
    fn foreground(&self) -> Child {
        let mut command = self.scene.command("mount image folder --foreground");
        let child = command.stderr(Stdio::null()).spawn().expect("the program runs");
        wait_until("it is mounted", || self.is_mounted());
        child
    }

    fn is_mounted(&self) -> bool {
        let device = |path: &Path| fs::metadata(path).map(|seen| seen.dev()).ok();
        device(&self.folder) != device(&self.scene.path("."))
    }

    fn check(&self) {
        let read = |name: &str| fs::read(self.folder.join(name)).expect("a file can be read");
        let truth = fs::read(self.scene.path("source/text")).expect("the source can be read");
        assert!(read("text") == truth && read("link") == truth);
        let status = Command::new(self.folder.join("true")).status();
        assert!(status.expect("a program starts").success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Mostly it is gone already.
        let mut umount = Command::new("umount");
        let _ = umount.arg("-l").arg(&self.folder).stderr(Stdio::null()).status();
    }
}

#[test]
fn the_mount_is_usable_when_the_command_returns() {
    let Some(mount) = Mount::new() else { return };
    mount.run("mount image folder --time 1700000000 --threads 1");
    mount.check();
    let seen = fs::metadata(mount.folder.join("text")).unwrap();
    assert_eq!(seen.mtime(), 1_700_000_000);
    let text = mount.run("mount --stats folder");
    assert!(text.lines().any(|line| line.starts_with("pages decoded ")), "{text}");
    assert_eq!(text.lines().count(), 12, "{text}");
    let all = mount.run("mount --stats folder --all");
    let has_line = |line: &str| all.lines().any(|other| other.starts_with(&line[..24]));
    assert!(text.lines().all(has_line) && all.contains("pushes forgone"), "{all}");
    let json: serde_json::Value =
        serde_json::from_str(&mount.run("mount --stats folder --json")).unwrap();
    assert!(json["pages_answered"].as_u64().unwrap() > 0, "{json}");

    let status = Command::new("umount").arg(&mount.folder).status().unwrap();
    assert!(status.success() && !mount.is_mounted());
    let name = mount.scene.path("image");
    wait_until("its process has ended", || !is_served(&name));
}

#[test]
fn signals_unmount_and_are_no_error() {
    let Some(mount) = Mount::new() else { return };
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut child = mount.foreground();
        mount.check();
        // An open file does not block it.
        let open = fs::File::open(mount.folder.join("text")).unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal:?}");
        assert!(!mount.is_mounted());
        drop(open);
    }
}

#[test]
fn a_server_that_hangs_is_said_to_and_can_be_taken_away() {
    let Some(mount) = Mount::new() else { return };
    let mut child = mount.foreground();
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    for line in ["mount --stats folder", "mount image folder"] {
        let output = mount.scene.command(line).output().unwrap();
        let said = stderr(&output);
        let (what, hint) =
            ("'folder': the mount's server does not answer", "`forebay unmount 'folder'`");
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(what) && said.contains(hint), "{said}");
    }
    mount.run("unmount folder");
    assert!(!mount.is_mounted());
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_mount_is_named_forebay_and_listed_by_the_bytes_of_its_folder() {
    let Some(mount) = Mount::new() else { return };
    let odd = mount.scene.path(".").join(OsStr::from_bytes(b"odd\xff"));
    fs::create_dir(&odd).unwrap();
    let mut command = mount.scene.command("mount image");
    assert!(command.arg(&odd).status().unwrap().success());
    let json: serde_json::Value = serde_json::from_str(&mount.run("mount --list --json")).unwrap();
    let is_odd = |one: &&serde_json::Value| {
        one["folder_hex"].as_str().is_some_and(|hex| hex.ends_with("6f6464ff"))
    };
    let listed = json.as_array().unwrap().iter().find(is_odd).cloned();
    let server = server_of(&mount.scene.path("image"));
    let name = server.map(|process| fs::read_to_string(process.join("comm")).unwrap());
    assert!(Command::new("umount").arg(&odd).status().unwrap().success());
    assert!(listed.is_some(), "{json}");
    assert_eq!(name.as_deref(), Some("forebay\n"));
}

#[test]
fn a_killed_mount_can_be_taken_away_and_made_again() {
    let Some(mount) = Mount::new() else { return };
    let mut child = mount.foreground();
    child.kill().unwrap();
    child.wait().unwrap();
    let error = fs::read_dir(&mount.folder).err().map(|error| error.raw_os_error());
    assert_eq!(error, Some(Some(ENOTCONN)));
    let output = mount.scene.command("mount image folder").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let hint = "hint: the mount's server has died: `forebay unmount 'folder'`";
    assert!(stderr(&output).contains(hint), "{}", stderr(&output));
    let output = mount.scene.command("mount --stats folder").output().unwrap();
    assert!(stderr(&output).contains(hint), "{}", stderr(&output));
    match Command::new("fusermount3").arg("-u").arg(&mount.folder).status() {
        Ok(status) => assert!(status.success()),
        Err(_) => {
            eprintln!("skip: fusermount3 -u: needs fusermount3; apt-get install fuse3");
            return;
        }
    }
    assert!(!mount.is_mounted());
    mount.run("mount image folder");
    mount.check();
}

#[test]
fn unmount_takes_images_away_and_nothing_else() {
    let Some(mount) = Mount::new() else { return };
    let folder = mount.folder.display().to_string();
    let refused = |line: &str| {
        let output = mount.scene.command(line).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        stderr(&output).to_owned()
    };
    assert!(refused("unmount folder").starts_with("error: no image is mounted on '"));
    assert!(refused("unmount /proc").contains("'/proc', but proc\n"));
    mount.run("mount image folder");
    let line = format!("alive        0 {} on {folder}\n", mount.scene.path("image").display());
    assert!(mount.run("mount --list").contains(&line));
    let json: serde_json::Value = serde_json::from_str(&mount.run("mount --list --json")).unwrap();
    let is_ours = |object: &&serde_json::Value| object["folder"] == folder.as_str();
    let found = json.as_array().unwrap().iter().find(is_ours).unwrap();
    assert_eq!((&found["server"], &found["user"]), (&"alive".into(), &0.into()));

    let open = fs::File::open(mount.folder.join("text")).unwrap();
    let said = refused("unmount folder");
    assert!(said.contains("is in use\nhint: `fuser -vm '"), "{said}");
    assert!(mount.is_mounted());
    // The second folder is unmounted although the first cannot be.
    drop(open);
    assert!(refused("unmount /proc folder").contains("'/proc'"));
    assert!(!mount.is_mounted() && !mount.run("mount --list").contains(&folder));
    let name = mount.scene.path("image");
    wait_until("its process has ended", || !is_served(&name));

    mount.run("mount image folder");
    let open = fs::File::open(mount.folder.join("text")).unwrap();
    mount.run("unmount --lazy folder");
    assert!(!mount.is_mounted());
    drop(open);
    wait_until("its process has ended", || !is_served(&name));
}

#[test]
fn a_mount_whose_server_died_is_listed_and_unmounted() {
    let Some(mount) = Mount::new() else { return };
    let mut child = mount.foreground();
    let open = fs::File::open(mount.folder.join("text")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let end = format!(" on {}", mount.folder.display());
    let listed = mount.run("mount --list");
    let line = listed.lines().find(|line| line.ends_with(&end));
    assert!(line.is_some_and(|line| line.starts_with("dead ")), "{listed}");
    mount.run("unmount folder");
    assert!(!mount.is_mounted());
    drop(open);
}

/// Each answer came from the upper one: a dead mount below a live one was called alive.
#[test]
fn a_mount_below_another_is_listed_as_hidden() {
    let Some(mount) = Mount::new() else { return };
    mount.run("mount image folder");
    fs::copy(mount.scene.path("image"), mount.scene.path("upper")).unwrap();
    let above = mount.scene.command("mount upper folder").output().unwrap();
    assert_eq!(above.status.code(), Some(0), "{}", stderr(&above));
    let states = || {
        let listed = mount.run("mount --list");
        let end = format!(" on {}", mount.folder.display());
        let ours = listed.lines().filter(|line| line.ends_with(&end));
        ours.filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(states(), ["hidden", "alive"]);
    mount.run("unmount folder");
    assert_eq!(states(), ["alive"]);
    mount.run("unmount folder");
    assert_eq!(states(), [""; 0]);
}

#[test]
fn a_profile_is_recorded_once_and_used_then() {
    let Some(mount) = Mount::new() else { return };
    let mut child = {
        let mut command = mount.scene.command("mount image folder --foreground --profile start");
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        wait_until("it is mounted", || mount.is_mounted());
        child
    };
    mount.check();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    child.wait().unwrap();
    let text = fs::read_to_string(mount.scene.path("start")).unwrap();
    assert!(text.contains("name /text\n") && text.contains("file /true\nread "), "{text}");

    mount.run("mount image folder --profile start");
    let replayed = || {
        let text = mount.run("mount --stats folder --json");
        let counters: serde_json::Value = serde_json::from_str(&text).unwrap();
        counters["pages_pushed"].as_u64().unwrap()
    };
    wait_until("pages have come in", || replayed() > 0);
    mount.check();
}

#[test]
fn a_profile_that_cannot_be_written_is_an_error() {
    let Some(mount) = Mount::new() else { return };
    fs::create_dir(mount.scene.path("profiles")).unwrap();
    let line = "mount image folder --foreground --profile profiles/start";
    let child = mount.scene.command(line).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it is mounted", || mount.is_mounted());
    fs::remove_dir(mount.scene.path("profiles")).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("profiles/start"), "{}", stderr(&output));
    assert!(!mount.is_mounted());
}

#[test]
fn a_mount_in_the_background_logs_why_it_lost_its_profile() {
    let Some(mount) = Mount::new() else { return };
    fs::create_dir(mount.scene.path("profiles")).unwrap();
    mount.run("mount image folder --profile profiles/start --log log");
    mount.check();
    fs::remove_dir(mount.scene.path("profiles")).unwrap();
    mount.run("unmount folder");
    let log = || fs::read_to_string(mount.scene.path("log")).unwrap();
    wait_until("it is logged", || log().contains("profiles/start"));
}

#[test]
fn without_readahead_no_file_comes_unasked() {
    let Some(mount) = Mount::new() else { return };
    let files: Vec<String> = (0..40).map(|number| format!("f{number:02}")).collect();
    for name in &files {
        fs::write(mount.scene.path("source").join(name), name.repeat(100)).unwrap();
    }
    let tree = Tree::scan(&mount.scene.path("source")).unwrap();
    let image = write(&tree, &Settings::default(), &mut |_| {}).unwrap().image;
    fs::write(mount.scene.path("image"), image).unwrap();
    // A name behind `--` may begin with a dash.
    for (line, pushes) in
        [("mount --policy off -- image folder", false), ("mount image folder", true)]
    {
        mount.run(line);
        assert_eq!(fs::read_dir(&mount.folder).unwrap().count(), 43);
        for name in &files[..10] {
            assert!(fs::read(mount.folder.join(name)).unwrap().starts_with(name.as_bytes()));
        }
        let pushed = || {
            let text = mount.run("mount --stats folder --json");
            let counters: serde_json::Value = serde_json::from_str(&text).unwrap();
            counters["pages_pushed"].as_u64().unwrap()
        };
        if pushes {
            wait_until("the next files come in", || pushed() > 0);
        }
        assert_eq!(pushed() > 0, pushes, "{line}");
        mount.run("unmount folder");
    }
}

#[test]
fn what_a_mount_hides_is_noted() {
    let Some(mount) = Mount::new() else { return };
    fs::write(mount.folder.join("file"), "hidden").unwrap();
    let said = || {
        let output = mount.scene.command("mount image folder").output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        stderr(&output).to_owned()
    };
    assert_eq!(said(), "note: 'folder' is not empty; what is in it is hidden\n");
    let text = said();
    assert!(text.starts_with("note: 'folder' is a mount point already"), "{text}");
    for _ in 0..2 {
        assert!(Command::new("umount").arg(&mount.folder).status().unwrap().success());
    }
    assert_eq!(fs::read(mount.folder.join("file")).unwrap(), b"hidden");
}

/// Unprivileged users mount through a privileged program. It opens `/dev/fuse` as the user, so the
/// device is replaced by one that all may open, in a namespace that ends with the script.
#[test]
fn a_user_without_privileges_mounts_and_unmounts() {
    let Some(mount) = Mount::new() else { return };
    for program in ["fusermount3", "setpriv", "unshare"] {
        if Command::new(program).arg("--version").output().is_err() {
            eprintln!("skip: mounting without privileges: needs {program}");
            return;
        }
    }
    // The user reaches none of the folders that this program was built in.
    fs::copy(env!("CARGO_BIN_EXE_forebay"), mount.scene.path("forebay")).unwrap();
    fs::set_permissions(mount.scene.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    chown(&mount.folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "sh", "-c", AS_NOBODY]);
    let output = unshare.current_dir(mount.scene.path(".")).output().unwrap();
    if output.status.code() == Some(SKIPPED) {
        eprintln!("skip: mounting without privileges: {}", stderr(&output));
        return;
    }
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{}", stdout(&output));
    assert_eq!(
        stdout(&output),
        "refused\nnot trusted\nread\nonly its owner\nunmounted\nby unmount\nended\ntaken away\n"
    );
}

/// First with the device that only root may open, if it is one, then with one for all.
const AS_NOBODY: &str = r#"
nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"; }
mounted() { grep -q "$PWD/folder " /proc/self/mountinfo; }
mknod fuse c 10 229 && chmod 600 fuse && mount --bind fuse /dev/fuse || exit 77
nobody ./forebay mount image folder 2>said && exit 1
grep -q 'hint: run it as root, or have root allow it' said && echo refused
chmod 666 fuse
nobody ./forebay mount image folder --trusted 2>said && exit 1
grep -q 'trusted takes root' said && echo not trusted
nobody ./forebay mount image folder && nobody cmp folder/text source/text && echo read
nobody folder/true || exit 1
cat folder/text >/dev/null 2>&1 || echo only its owner
mounted && nobody fusermount3 -u folder && ! mounted && echo unmounted
listed() { nobody ./forebay mount --list | grep -q "^$1 *65534 .* on $PWD/folder\$"; }
seen_by_root() { ./forebay mount --list | grep -q "^$1 *65534 .* on $PWD/folder\$"; }
nobody ./forebay mount image folder && listed alive && seen_by_root alive \
    && nobody ./forebay unmount folder \
    && ! mounted && ! listed alive && echo by unmount
serve() {
    setpriv --reuid 65534 --regid 65534 --clear-groups -- ./forebay mount image folder \
        --foreground 2>said & server=$!
    until mounted; do kill -0 $server || exit 1; done
}
serve
kill -TERM $server && wait $server && ! mounted && echo ended
serve
{ kill -KILL $server; wait $server; } 2>/dev/null
listed dead && seen_by_root dead && nobody ./forebay unmount folder && ! mounted && echo taken away
"#;

/// The exit code of the script if it cannot have a private device.
const SKIPPED: i32 = 77;

#[test]
fn what_cannot_be_mounted_is_refused_with_a_reason() {
    let mut scene = Scene::new().file("text", "no image at all");
    for name in ["folder", "source"] {
        fs::create_dir(scene.path(name)).unwrap();
    }
    let tree = Tree::scan(&scene.path("source")).unwrap();
    let image = write(&tree, &Settings::default(), &mut |_| {}).unwrap().image;
    fs::write(scene.path("image"), &image).unwrap();
    fs::write(scene.path("cut"), &image[..100]).unwrap();
    mknodat(CWD, scene.path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    scene
        .refused("mount")
        .refused("mount image")
        .refused("mount nothing folder")
        .refused("mount image nowhere")
        .refused("mount image image")
        .refused("mount text folder")
        .refused("mount cut folder --strict")
        .refused("mount image folder --offset 1T")
        .refused("mount image folder --policy selectif")
        .refused("mount image folder --policy selective:window=0")
        .refused("mount image folder --time now")
        .refused("mount image folder --cache much")
        .refused("mount image folder --cache 4k")
        .refused("mount image folder --cache 999999999G")
        .refused("mount image folder --record start --profile ./start")
        .refused("mount image folder --log pipe")
        .refused("mount image folder --log folder")
        .refused("mount image folder --profile nowhere/start")
        .refused("mount image folder --profile text --profile-update")
        .refused("mount --stats folder")
        .refused("mount --stats folder image")
        .refused("mount --all");
    let folder = fs::canonicalize(scene.path(".")).unwrap().display().to_string();
    scene.matches_after("mount_refused.txt", |text| text.replace(&folder, "FOLDER"));
}

#[test]
fn a_bad_image_is_refused_as_it_is_when_it_is_looked_into() {
    let scene = Scene::new().file("empty", "").file("text", "no image at all");
    for name in ["folder", "source"] {
        fs::create_dir(scene.path(name)).unwrap();
    }
    fs::write(scene.path("source/file"), "water").unwrap();
    let tree = Tree::scan(&scene.path("source")).unwrap();
    let image = write(&tree, &Settings::default(), &mut |_| {}).unwrap().image;
    fs::write(scene.path("cut"), &image[..80]).unwrap();
    for words in [
        "empty",
        "text",
        "text --offset 3",
        "text --offset 1G",
        "source",
        "absent",
        "/dev/null",
        "cut",
    ] {
        let (image, flags) = words.split_once(' ').unwrap_or((words, ""));
        let looked_into = scene.command(&format!("image info {words}")).output().unwrap();
        // Without --strict the existing part of a truncated image is mounted.
        let line = format!("mount {image} folder --strict {flags}");
        let mounted = scene.command(&line).output().unwrap();
        assert_refused(&line, &mounted);
        assert_eq!(stderr(&mounted), stderr(&looked_into), "{line}");
    }
}

/// Whether a process has the image's path among its open files.
fn is_served(image: &Path) -> bool {
    server_of(image).is_some()
}

/// The folder in /proc of a process that has the image open.
fn server_of(image: &Path) -> Option<PathBuf> {
    let image = fs::canonicalize(image).expect("the image is there");
    let processes = fs::read_dir("/proc").expect("there are processes").flatten();
    processes.map(|process| process.path()).find(|process| {
        let Ok(files) = fs::read_dir(process.join("fd")) else { return false };
        files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|path| path == image))
    })
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(30), "waited for: {what}");
        thread::yield_now();
    }
}

fn true_program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("true")).find(|path| path.is_file())
}

/// The server is gone (`include/uapi/asm-generic/errno.h`).
const ENOTCONN: i32 = 107;

/// The user and the group that own nothing.
const NOBODY: u32 = 65534;
