//! Exports of other servers as sources: nbdkit, qemu-nbd, and our own.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::serve::{client, request, run_with, succeeds};
use crate::support::{Scene, has, stderr, stdout};

/// Another server, which ends with the test.
struct Other(Child);

impl Other {
    /// Runs a command of the shell that listens on a socket of the scene.
    fn start(scene: &Scene, command: &str, socket: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.current_dir(scene.path(".")).args(["-c", &format!("exec {command}")]);
        let child = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let other = Self(child.expect("a shell runs"));
        await_socket(&scene.path(socket));
        other
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn await_socket(path: &Path) {
    let begin = Instant::now();
    while UnixStream::connect(path).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "a server listens");
        thread::sleep(Duration::from_millis(5));
    }
}

fn own(source: &str) -> String {
    format!("{} serve {source} --listen unix:far", env!("CARGO_BIN_EXE_forebay"))
}

const LINE: &str = "serve nbd+unix:///?socket=far --cache 1M";

/// Reads, writes, zeroes and trims through us, and looks at the file behind the other server.
fn moves_bytes(other: &str, command: &str) {
    let programs = ["nbdinfo", "nbdcopy", "qemu-io", other];
    if other != "forebay" && !programs.iter().all(|program| has(program, "sources of NBD")) {
        return;
    }
    let content: Vec<u8> = (0..4_000_256_u32).map(|at| (at / 997) as u8).collect();
    let scene = Scene::new().file("disk", &content);
    let _other = Other::start(&scene, command, "far");
    let done = |command: &str| {
        let output = run_with(&scene, LINE, command);
        let said = format!("{other}: {command}: {}{}", stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(!said.contains("failed"), "{said}");
    };
    done("nbdcopy --connections=4 --requests=64 \"$uri\" copy && cmp -n 4000256 copy disk");
    done(
        "qemu-io -f raw -c 'write -P 0xab 65000 64k' -c 'write -z -u 1M 1M' -c 'discard 3M 64k' \
         -c flush -c 'read -P 0xab 65000 64k' -c 'read -P 0 1M 1M' -c 'read -P 0 3M 64k' \"$uri\"",
    );
    done("qemu-io -f raw -t writethrough -c 'write -f -P 0xcd 2M 4k' \"$uri\"");
    let mut expected = content;
    expected[65_000..130_536].fill(0xab);
    expected[1 << 20..2 << 20].fill(0);
    expected[3 << 20..(3 << 20) + (64 << 10)].fill(0);
    expected[2 << 20..(2 << 20) + 4096].fill(0xcd);
    assert!(
        fs::read(scene.path("disk")).expect("the test works")[..expected.len()] == expected,
        "{other}"
    );
}

#[test]
fn an_export_of_nbdkit_is_a_source() {
    moves_bytes("nbdkit", "nbdkit -f -U far file disk");
}

#[test]
fn an_export_of_qemu_nbd_is_a_source() {
    moves_bytes("qemu-nbd", "qemu-nbd -t -e 9 -f raw -k $PWD/far disk");
}

#[test]
fn an_export_of_our_own_is_a_source() {
    if ["nbdinfo", "nbdcopy", "qemu-io"].iter().all(|program| has(program, "sources of NBD")) {
        moves_bytes("forebay", &own("disk"));
    }
}

#[test]
fn holes_of_the_other_server_are_told_and_read_only_exports_are_read_only() {
    if !has("nbdinfo", "sources of NBD") {
        return;
    }
    let scene = Scene::new().file("disk", vec![7; 1 << 20]);
    fs::File::options()
        .write(true)
        .open(scene.path("disk"))
        .expect("the test works")
        .set_len(3 << 20)
        .expect("the test works");
    let _other = Other::start(&scene, &own("disk --read-only"), "far");
    let output = run_with(&scene, LINE, "nbdinfo --map \"$uri\"");
    let map: Vec<Vec<&str>> =
        stdout(&output).lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(map.len(), 2, "{}{}", stdout(&output), stderr(&output));
    assert_eq!((map[0][1], map[0][3]), ("1048576", "data"));
    assert_eq!((map[1][0], map[1][1], map[1][3]), ("1048576", "2097152", "hole,zero"));
    assert_eq!(run_with(&scene, LINE, "nbdinfo --is read-only \"$uri\"").status.code(), Some(0));
    // Below an overlay it can be written.
    let line = format!("{LINE} --overlay over");
    assert_eq!(run_with(&scene, &line, "nbdinfo --is read-only \"$uri\"").status.code(), Some(2));
}

/// Runs the program and returns its exit code and what it said.
fn say(scene: &Scene, line: &str) -> (i32, String) {
    let output = scene.command(line).output().expect("the program runs");
    let said = format!("{}{}", stdout(&output), stderr(&output));
    (output.status.code().expect("it exits"), said)
}

/// Serves the export of `far` under the overlay `over`, into which a client writes and trims.
fn fill_overlay(scene: &Scene) {
    let line = format!("{LINE} --overlay over --listen unix:socket");
    let mut server = scene.command(&line).spawn().expect("the program runs");
    await_socket(&scene.path("socket"));
    let mut stream = client(&scene.path("socket"));
    let mut zero = request(6, 0, 16_384, &[]);
    let at = zero.len() - 4;
    zero[at..].copy_from_slice(&8192_u32.to_be_bytes());
    for bytes in [request(1, 0, 0, &[5; 9000]), request(1, 0, 99_000, &[6; 1000]), zero] {
        stream.write_all(&bytes).expect("the server answers");
        assert!(succeeds(&mut stream));
    }
    kill_process(Pid::from_child(&server), Signal::TERM).expect("it runs");
    assert!(server.wait().expect("it ends").success());
}

/// What the disk of 100,000 bytes 1 then holds.
fn disk_with_overlay() -> Vec<u8> {
    let mut disk = vec![1; 100_000];
    disk[..9000].fill(5);
    disk[16_384..24_576].fill(0);
    disk[99_000..].fill(6);
    disk
}

#[test]
fn an_overlay_is_committed_into_the_export_of_another_server() {
    let scene = Scene::new().file("disk", vec![1; 100_000]);
    let other = Other::start(&scene, &own("disk"), "far");
    fill_overlay(&scene);
    assert!(fs::read(scene.path("disk")).expect("it is there") == [1; 100_000]);
    drop(other);
    let (code, said) = say(&scene, "overlay commit over");
    assert!(code == 2 && said.contains("far'"), "the server is not there: {said}");
    let other = Other::start(&scene, &own("disk --read-only"), "far");
    let (code, said) = say(&scene, "overlay commit over");
    assert!(code == 2 && said.contains("refuses writes"), "{said}");
    drop(other);
    let other = Other::start(&scene, &own("disk"), "far");
    let (code, said) = say(&scene, "overlay commit over");
    assert!(code == 0 && said.contains("6 pages written to 'nbd+unix:///?socket=/"), "{said}");
    // A power cut of the other server takes nothing back: it was flushed.
    other.signal(Signal::KILL);
    drop(other);
    assert!(fs::read(scene.path("disk")).expect("it is there") == disk_with_overlay());
    let _other = Other::start(&scene, &own("disk"), "far");
    let (code, said) = say(&scene, "overlay info over --json");
    assert!(code == 0 && said.contains("\"changed_bytes\": 0"), "{said}");
    assert_eq!(say(&scene, &format!("{LINE} --overlay over --run true")).0, 0, "it goes on");
}

#[test]
fn a_commit_into_another_server_that_fails_is_finished_later() {
    if !has("nbdkit", "sources of NBD") {
        return;
    }
    let scene = Scene::new().file("disk", vec![1; 100_352]).file("bad", "");
    let other = Other::start(&scene, &own("disk"), "far");
    fill_overlay(&scene);
    drop(other);
    fs::remove_file(scene.path("far")).expect("a killed server leaves it");
    // The first pages arrive, and the zeroes behind them fail.
    let failing = "nbdkit -f -U far --filter=error file disk error-zero=EIO \
                   error-zero-rate=100% error-zero-file=$PWD/bad";
    let other = Other::start(&scene, failing, "far");
    let (code, said) = say(&scene, "overlay commit over");
    assert!(code == 2 && said.contains("Input/output error"), "{said}");
    let (_, said) = say(&scene, "overlay info over --json");
    assert!(said.contains("\"half_committed\": true"), "{said}");
    let (code, said) = say(&scene, &format!("{LINE} --overlay over --run true"));
    assert!(code == 2 && said.contains("was interrupted"), "{said}");
    fs::remove_file(scene.path("bad")).expect("it is there");
    let (code, said) = say(&scene, "overlay commit over");
    assert!(code == 0 && said.contains("6 pages written"), "{said}");
    drop(other);
    let mut expected = vec![1; 100_352];
    expected[..100_000].copy_from_slice(&disk_with_overlay());
    assert!(fs::read(scene.path("disk")).expect("it is there") == expected);
}

#[test]
fn a_server_that_is_started_again_is_found_again_and_loses_no_write() {
    let scene = Scene::new().file("disk", vec![7; 1 << 20]);
    let other = Other::start(&scene, &own("disk"), "far");
    let mut serve = scene.command(&format!("{LINE} --listen unix:socket"));
    let mut server = serve.spawn().expect("the program runs");
    await_socket(&scene.path("socket"));
    let mut stream = client(&scene.path("socket"));
    let mut ask = |bytes: &[u8]| {
        stream.write_all(bytes).expect("the server answers");
        succeeds(&mut stream)
    };
    assert!(ask(&request(1, 0, 0, &[1; 4096])) && ask(&request(3, 0, 0, &[])));
    // All of it is covered: the restart of the other server goes unnoticed.
    other.signal(Signal::KILL);
    drop(other);
    let other = Other::start(&scene, &own("disk"), "far");
    assert!(ask(&request(1, 1, 4096, &[2; 4096])), "sent again over a new connection");
    assert!(ask(&request(3, 0, 0, &[])));
    // Here the far server has acknowledged what no FLUSH has covered: zeroes reach it at once.
    assert!(ask(&{
        let mut zero = request(6, 0, 8192, &[]);
        let at = zero.len() - 4;
        zero[at..].copy_from_slice(&4096_u32.to_be_bytes());
        zero
    }));
    other.signal(Signal::KILL);
    drop(other);
    // As if it had been in memory alone.
    let disk = fs::File::options().write(true).open(scene.path("disk")).expect("it is there");
    disk.write_all_at(&[7; 4096], 8192).expect("the test works");
    let other = Other::start(&scene, &own("disk"), "far");
    assert!(ask(&request(3, 0, 0, &[])), "it is sent again");
    let bytes = fs::read(scene.path("disk")).expect("it is there");
    assert!(bytes[..4096] == [1; 4096] && bytes[4096..8192] == [2; 4096]);
    assert!(bytes[8192..12_288] == [0; 4096]);
    kill_process(Pid::from_child(&server), Signal::TERM).expect("the test works");
    server.wait().expect("the test works");
    drop(other);
}

#[test]
fn sources_of_nbd_that_cannot_be_are_refused() {
    let scene = Scene::new().file("disk", vec![7; 4096]).file("text", "x");
    let _other = Other::start(&scene, &own("disk"), "far");
    for (source, why) in [
        ("nbd+unix:///none?socket=far", "there is no such export"),
        ("nbd+unix:///?socket=nothing", "No such file"),
        ("nbd+unix:///", "it ends with ?socket=PATH"),
        ("nbds://localhost/", "are not supported"),
        ("nbd://localhost:x/", "has no port in it"),
    ] {
        let output =
            scene.command(&format!("serve {source} --run true")).output().expect("the test works");
        assert_eq!(output.status.code(), Some(2), "{source}");
        assert!(stderr(&output).contains(why), "{source}: {}", stderr(&output));
    }
}
