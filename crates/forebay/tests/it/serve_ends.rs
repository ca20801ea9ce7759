//! What ends a server: signals, its command, its folder; and with which exit code.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::serve::{client, request, succeeds};
use crate::serve_folder::{can, done};
use crate::serve_seen::await_text;
use crate::support::Scene;

/// A server with a command, its messages in the file `said`.
fn running(scene: &Scene, line: &str, command: &str) -> Child {
    let mut serve = scene.command(line);
    serve.env("PATH", env::var("PATH").unwrap_or_default()).args(["--run", command]);
    serve
        .stderr(File::create(scene.path("said")).expect("the test works"))
        .spawn()
        .expect("the program runs")
}

/// A server without one.
fn listening(scene: &Scene, line: &str) -> Child {
    let mut serve = scene.command(line);
    let server = serve.stderr(File::create(scene.path("said")).expect("the test works")).spawn();
    await_text(scene, "said", " at unix:socket");
    server.expect("the program runs")
}

fn signal(server: &Child, signal: Signal) {
    kill_process(Pid::from_child(server), signal).expect("it runs");
}

/// The exit code of a server that ends by itself.
fn code(server: &mut Child) -> Option<i32> {
    let begin = Instant::now();
    loop {
        if let Some(status) = server.try_wait().expect("it can be waited for") {
            return status.code();
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "it ends");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the process whose number is in a file is gone.
fn await_end(scene: &Scene, file: &str) {
    let number = fs::read_to_string(scene.path(file)).expect("the test works");
    let stat = format!("/proc/{}/stat", number.trim());
    let begin = Instant::now();
    // Not every init collects those that have ended.
    let is_alive = |stat: &str| {
        fs::read_to_string(stat).is_ok_and(|text| !text.contains(") Z ") && !text.contains(") X "))
    };
    while is_alive(&stat) {
        assert!(begin.elapsed() < Duration::from_secs(30), "process {number} ends");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn sighup_reloads_a_server_with_a_command() {
    let scene = Scene::new().file("disk", "x");
    let command = "kill -HUP $PPID; until grep -q reloaded said; do sleep 0.02; done; exit 7";
    let mut server = running(&scene, "serve disk --log log", command);
    assert_eq!(code(&mut server), Some(7), "{}", fs::read_to_string(scene.path("said")).unwrap());
}

/// A shell alone would leave what it has started as an orphan.
#[test]
fn sigterm_ends_the_command_with_all_that_it_has_started() {
    let scene = Scene::new().file("disk", "x");
    let command = "sleep 1000 & echo $! > pid; echo begun > begun; wait; wait";
    let mut server = running(&scene, "serve disk", command);
    await_text(&scene, "begun", "begun");
    signal(&server, Signal::TERM);
    assert_eq!(code(&mut server), Some(143));
    await_end(&scene, "pid");
}

#[test]
fn an_interrupt_is_one_for_the_command() {
    let scene = Scene::new().file("disk", "x");
    let command = "trap 'exit 5' INT; echo begun > begun; while :; do sleep 0.02; done";
    let mut server = running(&scene, "serve disk", command);
    await_text(&scene, "begun", "begun");
    signal(&server, Signal::INT);
    assert_eq!(code(&mut server), Some(5));
}

/// A command that ignores SIGTERM kept the server for ever.
#[test]
fn a_second_signal_kills_the_command_and_ends_the_server() {
    let scene = Scene::new().file("disk", "x");
    let command = "trap '' TERM; echo $$ > pid; echo begun > begun; while :; do sleep 0.02; done";
    let mut server = running(&scene, "serve disk", command);
    await_text(&scene, "begun", "begun");
    let begin = Instant::now();
    while server.try_wait().unwrap().is_none() {
        signal(&server, Signal::TERM);
        assert!(begin.elapsed() < Duration::from_secs(60), "it ends");
        thread::sleep(Duration::from_millis(100));
    }
    assert!(begin.elapsed() >= Duration::from_secs(1), "signals within a second are one");
    assert_eq!(code(&mut server), Some(2));
    await_end(&scene, "pid");
    let said = fs::read_to_string(scene.path("said")).unwrap();
    assert!(said.contains("ended by a second signal"), "{said}");
}

#[test]
fn signals_count_also_after_the_folder_was_unmounted() {
    if !can("a folder with a command", &["umount"]) {
        return;
    }
    let scene = Scene::new().file("disk", "x");
    fs::create_dir(scene.path("dir")).unwrap();
    let mut server = running(&scene, "serve disk --fuse dir", "echo $$ > pid; exec sleep 1000");
    await_text(&scene, "said", "in 'dir'");
    await_text(&scene, "pid", "\n");
    done(std::process::Command::new("umount").arg(scene.path("dir")));
    signal(&server, Signal::TERM);
    assert_eq!(code(&mut server), Some(143));
}

/// timeout(1) sends SIGTERM to its child and to its group.
#[test]
fn a_signal_that_comes_twice_is_one() {
    let scene = Scene::new().file("disk", vec![0; 1 << 20]);
    let mut server = listening(&scene, "serve disk --listen unix:socket --store-delay 200ms");
    let mut stream = client(&scene.path("socket"));
    stream.write_all(&request(1, 0, 4096, &[5; 9000])).unwrap();
    assert!(succeeds(&mut stream));
    signal(&server, Signal::TERM);
    await_text(&scene, "said", "are being brought to disk");
    signal(&server, Signal::TERM);
    signal(&server, Signal::TERM);
    assert_eq!(code(&mut server), Some(0));
    assert!(fs::read(scene.path("disk")).unwrap()[4096..13_096].iter().all(|byte| *byte == 5));
}

#[test]
fn a_source_that_hangs_loses_nothing_that_was_never_written() {
    for flags in ["--read-only", ""] {
        let scene = Scene::new().file("disk", vec![0; 1 << 20]);
        let line = "serve disk --listen unix:socket --store-delay 60s --drain-timeout 300ms";
        let mut server = listening(&scene, &format!("{line} {flags}"));
        let mut stream = client(&scene.path("socket"));
        let mut read = request(0, 0, 0, &[]);
        read[24..28].copy_from_slice(&4096_u32.to_be_bytes());
        stream.write_all(&read).unwrap();
        await_in_flight(&scene, &server);
        signal(&server, Signal::TERM);
        let ended = code(&mut server);
        let said = fs::read_to_string(scene.path("said")).unwrap();
        assert_eq!(ended, Some(0), "{said}");
        assert!(said.contains("1 requests were left unanswered"), "{said}");
    }
}

fn await_in_flight(scene: &Scene, server: &Child) {
    let line = format!("serve status --json --pid {}", server.id());
    let begin = Instant::now();
    loop {
        let output = scene.command(&line).output().expect("the test works");
        if crate::support::stdout(&output).contains("\"in_flight\": 1") {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "the request arrives");
    }
}

#[test]
fn a_server_that_ends_leaves_the_socket_of_its_successor() {
    let scene = Scene::new().file("disk", "x");
    let mut old = listening(&scene, "serve disk --read-only --listen unix:socket");
    fs::remove_file(scene.path("socket")).unwrap();
    let mut new = listening(&scene, "serve disk --read-only --listen unix:socket");
    signal(&old, Signal::TERM);
    assert_eq!(code(&mut old), Some(0));
    assert!(Path::new(&scene.path("socket")).exists());
    drop(client(&scene.path("socket")));
    signal(&new, Signal::TERM);
    assert_eq!(code(&mut new), Some(0));
    assert!(!scene.path("socket").exists());
}
