//! Many exports, many clients, and sources that fail.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::serve::{background, client, request, run_with, succeeds};
use crate::serve_seen::await_text;
use crate::support::{Scene, has, stderr, stdout};

fn end(mut server: Child) {
    kill_process(Pid::from_child(&server), Signal::TERM).expect("it runs");
    assert_eq!(server.wait().expect("it ends").code(), Some(0));
}

/// A line of `/proc/PID/status` as a number.
fn figure(server: &Child, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).expect("it runs");
    let value = status.lines().find_map(|line| line.strip_prefix(key)).expect("the kernel says so");
    value.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect("it is a number")
}

fn read(offset: u64, len: u32) -> Vec<u8> {
    let mut read = request(0, 0, offset, &[]);
    read[24..28].copy_from_slice(&len.to_be_bytes());
    read
}

/// libnbd's list takes two options for each export.
#[test]
fn two_hundred_exports_are_listed() {
    if !has("nbdinfo", "a list of many exports") {
        return;
    }
    let scene = Scene::new();
    let exports: String = (0..200).map(|number| format!(" e{number}=memory:1M")).collect();
    let output = run_with(&scene, &format!("serve{exports}"), "nbdinfo --list \"$uri\"");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output).matches("export-size: 1048576").count(), 200);
}

/// NBD has no such names, and clients refused the whole list.
#[test]
fn names_that_nbd_does_not_have_are_refused() {
    let scene = Scene::new().file("disk", "x");
    for (length, code) in [(4096, 0), (4097, 2)] {
        let line = format!("serve {}=disk --run true", "n".repeat(length));
        let output = scene.command(&line).env("PATH", "/usr/bin:/bin").output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{length}: {}", stderr(&output));
    }
}

#[test]
fn a_file_with_an_equals_sign_is_hinted_at() {
    let scene = Scene::new().file("k=v.img", "x");
    let output = scene.command("serve k=v.img --run true").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("./k=v.img is the file"), "{}", stderr(&output));
}

#[test]
fn an_export_without_clients_has_no_threads() {
    let scene = Scene::new();
    let exports: String = (0..1000).map(|number| format!(" e{number}=memory:1M")).collect();
    let server = background(&scene, &format!("serve{exports} --listen unix:socket"));
    assert!(figure(&server, "Threads") < 20, "{}", figure(&server, "Threads"));
    let mut stream = client(&scene.path("socket"));
    stream.write_all(&request(1, 1, 0, &[5; 8192])).unwrap();
    assert!(succeeds(&mut stream));
    assert!(figure(&server, "Threads") < 40);
    drop(stream);
    end(server);
}

#[test]
fn clients_that_read_nothing_share_a_limit_of_memory() {
    let scene = Scene::new();
    let server = background(&scene, "serve memory:32M --listen unix:socket --cache 16M");
    let asked = read(0, 4 << 20).repeat(64);
    let mut clients: Vec<UnixStream> = (0..30).map(|_| client(&scene.path("socket"))).collect();
    for stream in &mut clients {
        stream.write_all(&asked).unwrap();
    }
    // All have read what they could when the oldest is answered no further.
    let (mut last, mut since) = (0, Instant::now());
    while since.elapsed() < Duration::from_millis(500) {
        let found = figure(&server, "VmRSS");
        if found.abs_diff(last) > 1024 {
            (last, since) = (found, Instant::now());
        }
        thread::sleep(Duration::from_millis(20));
    }
    // 30 clients of 64 MiB would have 2 GB.
    assert!(figure(&server, "VmHWM") < 1 << 20, "{} kB", figure(&server, "VmHWM"));
    for mut stream in clients {
        let mut reply = vec![0; 64 * (16 + (4 << 20))];
        stream.read_exact(&mut reply).expect("each is answered when it reads");
    }
    end(server);
}

#[test]
fn clients_that_are_sent_away_are_a_line_a_second() {
    let scene = Scene::new().file("disk", "x");
    let mut serve = scene.command("serve disk --listen unix:socket --connections 1");
    serve.stderr(File::create(scene.path("said")).unwrap());
    let server = serve.spawn().expect("the program runs");
    await_text(&scene, "said", " at unix:socket");
    let only = client(&scene.path("socket"));
    let begin = Instant::now();
    for _ in 0..200 {
        let mut stream = UnixStream::connect(scene.path("socket")).unwrap();
        assert!(matches!(stream.read(&mut [0; 18]), Ok(0) | Err(_)), "it is sent away");
    }
    let (took, said) = (begin.elapsed(), await_text(&scene, "said", "sent away"));
    let lines = said.matches("sent away").count() as u64;
    assert!(lines <= 1 + took.as_secs() + 1, "{lines} lines in {took:?}");
    drop(only);
    end(server);
}

/// A socket that does not listen makes accept(2) fail for ever.
#[test]
fn a_socket_that_does_not_listen_is_refused() {
    if !has("python3", "sockets that are handed over") {
        return;
    }
    let scene = Scene::new().file("disk", "x");
    let script = "import os, socket\n\
                  sock = socket.socket(socket.AF_UNIX)\n\
                  sock.bind('socket')\n\
                  os.dup2(sock.fileno(), 3) if sock.fileno() != 3 else None\n\
                  os.set_inheritable(3, True)\n\
                  os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))\n\
                  os.execv(os.environ['SERVER'], ['forebay', 'serve', 'disk'])";
    let mut python = Command::new("python3");
    python.current_dir(scene.path(".")).env("SERVER", env!("CARGO_BIN_EXE_forebay"));
    let output = python.args(["-c", script]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("the socket does not listen"), "{}", stderr(&output));
}

/// Clients got errors and nothing said why.
#[test]
fn a_source_that_fails_and_answers_again_is_told() {
    let scene = Scene::new().file("disk", vec![7; 1 << 20]);
    let line = "serve disk --listen unix:socket --log log --cache 64k --policy readahead=off";
    let mut serve = scene.command(line);
    serve.stderr(File::create(scene.path("said")).unwrap());
    let server = serve.spawn().expect("the program runs");
    await_text(&scene, "said", " at unix:socket");
    let mut stream = client(&scene.path("socket"));
    let source = OpenOptions::new().write(true).open(scene.path("disk")).unwrap();
    source.set_len(0).unwrap();
    for page in 0..20 {
        stream.write_all(&read(page * 4096, 4096)).unwrap();
        assert!(!succeeds(&mut stream));
    }
    let said = await_text(&scene, "said", "export (default): source fails: ");
    assert_eq!(said.matches("source fails").count(), 1, "{said}");
    source.set_len(1 << 20).unwrap();
    let begin = Instant::now();
    while !fs::read_to_string(scene.path("said")).unwrap().contains("source answers again") {
        assert!(begin.elapsed() < Duration::from_secs(60), "the log has it");
        // Pages in memory are not read from the source.
        for page in (0..256).step_by(3) {
            stream.write_all(&read(page * 4096, 4096)).unwrap();
            assert!(succeeds(&mut stream));
            stream.read_exact(&mut [0; 4096]).unwrap();
        }
    }
    let log = fs::read_to_string(scene.path("log")).unwrap();
    for line in ["export (default): source fails: ", "export (default): source answers again"] {
        assert_eq!(log.matches(line).count(), 1, "{log}");
    }
    drop(stream);
    end(server);
}

#[test]
fn a_far_server_that_is_gone_and_comes_back_is_in_the_log() {
    let scene = Scene::new();
    let far = |socket: &str| {
        let line = format!("serve memory:1M --listen unix:{socket}");
        let server = scene.command(&line).spawn().expect("the program runs");
        let begin = Instant::now();
        while UnixStream::connect(scene.path(socket)).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(60), "the server listens");
            thread::sleep(Duration::from_millis(5));
        }
        server
    };
    let mut first = far("far");
    let mut serve =
        scene.command("serve vm=nbd+unix:///?socket=far --listen unix:socket --log log");
    serve.stderr(File::create(scene.path("said")).unwrap());
    let server = serve.spawn().expect("the program runs");
    await_text(&scene, "said", " at unix:socket");
    let mut stream = client(&scene.path("socket"));
    first.kill().unwrap();
    first.wait().unwrap();
    await_text(&scene, "said", "export 'vm': source fails: the server has hung up");
    let second = far("far");
    let begin = Instant::now();
    for page in (0..256_u64).cycle() {
        stream.write_all(&request(1, 1, page * 4096, &[1; 4096])).unwrap();
        assert!(succeeds(&mut stream));
        if fs::read_to_string(scene.path("log")).unwrap().contains("source answers again") {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "the log has it");
    }
    drop(stream);
    end(server);
    end(second);
}
