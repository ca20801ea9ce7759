//! Overlays whose base is moved, replaced, in use, or half changed by a commit.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Output};

use rustix::fs::{XattrFlags, setxattr};
use rustix::process::{Pid, Signal, kill_process};

use crate::PROGRAM;
use crate::serve::{background, client, request, succeeds};
use crate::serve_folder::{Loop, Mount, can, done};
use crate::support::{Scene, has, stderr, stdout};

const BYTES: usize = 16 << 20;
const FAR: u64 = 12 << 20;

fn say(scene: &Scene, line: &str) -> (i32, String) {
    let output = scene.command(line).output().expect("the program runs");
    code_and_text(&output)
}

fn code_and_text(output: &Output) -> (i32, String) {
    let code = output.status.code().unwrap_or(-1);
    (code, format!("{}{}", stdout(output), stderr(output)))
}

/// The line fails, and says all of the texts.
fn refused(scene: &Scene, line: &str, texts: &[&str]) {
    let (code, said) = say(scene, line);
    assert!(code == 2 && texts.iter().all(|text| said.contains(text)), "{line}: {code}: {said}");
}

fn passes(scene: &Scene, line: &str) -> String {
    let (code, said) = say(scene, line);
    assert_eq!(code, 0, "{line}: {said}");
    said
}

fn end(mut server: Child) {
    kill_process(Pid::from_child(&server), Signal::TERM).expect("it runs");
    assert_eq!(server.wait().expect("it ends").code(), Some(0));
}

/// A file `disk`, and an overlay `over` with a page at its start and one far behind.
fn changed() -> Scene {
    let scene = Scene::new().file("disk", vec![1; BYTES]);
    let server = background(&scene, "serve disk --overlay over --listen unix:socket");
    let mut stream = client(&scene.path("socket"));
    for offset in [0, FAR] {
        stream.write_all(&request(1, 1, offset, &[5; 4096])).expect("the server answers");
        assert!(succeeds(&mut stream));
    }
    end(server);
    scene
}

/// Commits `over` until the far page: files may be written in their first MiBs alone. `trap` says
/// whether the signal of that limit ends the program or is an error of the write.
fn commit_in_part(scene: &Scene, trap: &str) -> (i32, String) {
    let mut shell = Command::new("sh");
    let script = format!("{trap}ulimit -c 0 && ulimit -f 2048 && exec \"$0\" \"$@\"");
    shell.args(["-c", &script, PROGRAM.1, "overlay", "commit", "over"]);
    shell.current_dir(scene.path(".")).env_clear();
    let found = code_and_text(&shell.output().expect("the program runs"));
    let bytes = fs::read(scene.path("disk")).expect("it is there");
    assert!(bytes[0] == 5 && bytes[FAR as usize] == 1, "it is half done: {found:?}");
    found
}

fn check_committed(scene: &Scene) {
    let bytes = fs::read(scene.path("disk")).expect("it is there");
    let is_new = |at: usize| at < 4096 || (FAR as usize..FAR as usize + 4096).contains(&at);
    assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == if is_new(at) { 5 } else { 1 }));
}

/// Whether files here have extended attributes.
fn has_marks(scene: &Scene) -> bool {
    let has = setxattr(scene.path("disk"), "user.test", b"x", XattrFlags::empty()).is_ok();
    if !has {
        eprintln!("skip: marks of half committed bases: no extended attributes here");
    }
    has
}

/// A commit that goes on would put its pages over what a server has written in between.
#[test]
fn the_base_of_an_interrupted_commit_is_not_served_until_the_commit_is_finished() {
    let scene = changed();
    if !has_marks(&scene) {
        return;
    }
    commit_in_part(&scene, "");
    let why = ["a commit of the overlay", "has begun and not ended", "forebay overlay commit"];
    for line in ["", " --read-only", " --overlay other"] {
        refused(&scene, &format!("serve disk{line} --run true"), &why);
    }
    let why = ["was interrupted", "forebay overlay commit 'over'` finishes it"];
    refused(&scene, "serve disk --overlay over --run true", &why);
    assert!(!scene.path("other").exists());
    // The mark has the path that the overlay had.
    fs::rename(scene.path("over"), scene.path("moved")).unwrap();
    refused(&scene, "serve disk --run true", &["setfattr -x user.forebay.commit 'disk'"]);
    assert!(passes(&scene, "overlay commit moved").contains("2 pages written"));
    check_committed(&scene);
    passes(&scene, "serve disk --run true");
    passes(&scene, "serve disk --overlay moved --run true");
}

#[test]
fn an_interrupted_commit_goes_on_in_its_own_file_alone() {
    let scene = changed();
    commit_in_part(&scene, "");
    fs::rename(scene.path("disk"), scene.path("away")).unwrap();
    fs::write(scene.path("disk"), vec![9; BYTES]).unwrap();
    refused(&scene, "overlay commit over", &["begun in another file", "back at its path"]);
    assert!(fs::read(scene.path("disk")).unwrap() == vec![9; BYTES]);
    fs::write(scene.path("disk"), vec![9; 4096]).unwrap();
    refused(&scene, "overlay commit over", &["begun in another file"]);
    fs::rename(scene.path("away"), scene.path("disk")).unwrap();
    passes(&scene, "overlay commit over");
    check_committed(&scene);
}

#[test]
fn a_base_without_room_is_named_and_the_same_command_finishes_the_commit() {
    let scene = changed();
    let (code, said) = commit_in_part(&scene, "trap '' XFSZ; ");
    assert_eq!(code, 2, "{said}");
    for text in ["its base '", "disk': File too large", "the commit is half done"] {
        assert!(said.contains(text), "{said}");
    }
    passes(&scene, "overlay commit over");
    check_committed(&scene);
}

#[test]
fn a_half_committed_overlay_is_discarded_by_force_alone() {
    let scene = changed();
    commit_in_part(&scene, "");
    let why = ["was interrupted", "`forebay overlay commit 'over'` finishes it", "--force"];
    refused(&scene, "overlay discard over", &why);
    assert!(scene.path("over").exists());
    assert!(passes(&scene, "overlay discard over --force").contains("stays partly changed"));
    assert!(!scene.path("over").exists());
    passes(&scene, "serve disk --run true");
}

#[test]
fn a_base_that_was_moved_keeps_its_overlay() {
    let scene = changed();
    fs::create_dir(scene.path("folder")).unwrap();
    fs::rename(scene.path("disk"), scene.path("folder/disk")).unwrap();
    let why = ["its base '", "disk': No such file", "--overlay 'over'` keeps the new path"];
    refused(&scene, "overlay commit over", &why);
    let line = "serve folder/disk --overlay over --run true";
    assert!(passes(&scene, line).contains("its base was moved here from '"));
    assert!(!passes(&scene, line).contains("was moved"), "the path is kept");
    // A copy with the same times is another file.
    done(Command::new("cp").arg("-p").args([scene.path("folder/disk"), scene.path("disk")]));
    refused(&scene, "serve disk --overlay over --run true", &["and this is '", "another one"]);
    assert!(passes(&scene, "overlay commit over").contains("2 pages written"));
    fs::rename(scene.path("folder/disk"), scene.path("disk")).unwrap();
    check_committed(&scene);
    fs::write(scene.path("disk"), vec![2; BYTES]).unwrap();
    refused(&scene, "serve disk --overlay over --run true", &["and this is '"]);
}

#[test]
fn nothing_changes_a_file_that_is_served_read_only() {
    let scene = changed();
    let server = background(&scene, "serve disk --read-only --listen unix:socket");
    let why = ["another process serves or changes it"];
    refused(&scene, "serve disk --run true", &why);
    refused(&scene, "overlay commit over", &why);
    assert!(!passes(&scene, "serve disk --read-only --run true").contains("another process"));
    passes(&scene, "serve disk --overlay over --run true");
    end(server);
    let server = background(&scene, "serve disk --listen unix:socket");
    let said = passes(&scene, "serve disk --read-only --run true");
    assert!(said.contains("another process writes it"), "{said}");
    end(server);
    passes(&scene, "overlay commit over");
    check_committed(&scene);
}

#[test]
fn a_device_is_written_by_one_server_and_not_while_it_is_mounted() {
    let what = "devices that are in use";
    if !can(what, &["losetup", "mount", "umount"]) || !has("mkfs.ext4", what) {
        return;
    }
    let scene = Scene::new().file("file", vec![0; BYTES]);
    let device = Loop::over(&scene.path("file"));
    let why = ["it is mounted or in use by another program", "--read-only"];
    let line = format!("serve {}", device.0);
    let server = background(&scene, &format!("{line} --listen unix:socket"));
    refused(&scene, &format!("{line} --run true"), &why);
    passes(&scene, &format!("{line} --read-only --run true"));
    passes(&scene, &format!("{line} --overlay over --run true"));
    refused(&scene, "overlay commit over", &why[..1]);
    end(server);
    passes(&scene, "overlay commit over");
    done(Command::new("mkfs.ext4").args(["-q", &device.0]));
    let mount = Mount::of(&device, scene.path("mnt"));
    refused(&scene, &format!("{line} --run true"), &why);
    passes(&scene, &format!("{line} --read-only --run true"));
    drop(mount);
    passes(&scene, &format!("{line} --run true"));
}
