//! Sockets that are handed over, and those of virtual machines.

use std::fs;
use std::process::Command;

use crate::serve::run_with;
use crate::support::{Scene, has, stderr, stdout};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

#[test]
fn libnbd_starts_a_server_by_handing_over_its_socket() {
    if !has("nbdinfo", "sockets that are handed over") {
        return;
    }
    let scene = Scene::new().file("disk", vec![7; 123_456]);
    let mut nbdinfo = Command::new("nbdinfo");
    nbdinfo.current_dir(scene.path(".")).args(["--size", "[", PROGRAM, "serve", "disk", "]"]);
    let output = nbdinfo.output().expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output).trim(), "123456");
}

/// Binds a socket of TCP as descriptor 3, says its port, and becomes the server.
const HAND_OVER: &str = r#"
import os, socket, sys
sock = socket.create_server(("127.0.0.1", 0))
port = sock.getsockname()[1]
if sock.fileno() != 3:
    os.dup2(sock.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=sys.argv[1] if len(sys.argv) > 1 else str(os.getpid()))
command = f'test -z "$LISTEN_FDS" && nbdinfo --size nbd://127.0.0.1:{port}'
os.execv(os.environ["SERVER"], ["forebay", "serve", "disk", "--run", command])
"#;

#[test]
fn a_socket_of_systemd_is_taken_if_it_is_for_this_process() {
    if !(has("python3", "sockets that are handed over") && has("nbdinfo", "handed-over sockets")) {
        return;
    }
    let scene = Scene::new().file("disk", vec![7; 4096]);
    let run = |for_process: &[&str]| {
        let mut python = Command::new("python3");
        python.current_dir(scene.path(".")).env("SERVER", PROGRAM);
        python.args(["-c", HAND_OVER]).args(for_process).output().expect("it runs")
    };
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output).trim(), "4096");
    assert!(stderr(&output).contains("at descriptor 3"), "{}", stderr(&output));
    // Meant for another process: it makes a new socket, and the port is not answered.
    let text = HAND_OVER.replace("nbdinfo --size nbd://", "timeout 1 nbdinfo --size nbd://");
    let mut python = Command::new("python3");
    python.current_dir(scene.path(".")).env("SERVER", PROGRAM).args(["-c", &text, "1"]);
    let output = python.output().expect("it runs");
    assert_ne!(output.status.code(), Some(0), "{}", stdout(&output));
}

#[test]
fn virtual_machines_reach_it_by_vsock() {
    let what = "vsock";
    if !has("nbdinfo", what) || !std::path::Path::new("/dev/vsock").exists() {
        eprintln!("skip: {what}: it takes nbdinfo and /dev/vsock");
        return;
    }
    let scene = Scene::new().file("disk", vec![7; 4096]);
    let line = "serve disk --listen vsock:10810";
    let bound = run_with(&scene, line, "test \"$uri\" = nbd+vsock://1:10810");
    assert_eq!(bound.status.code(), Some(0), "{}", stderr(&bound));
    assert!(stderr(&bound).contains("at vsock:10810"), "{}", stderr(&bound));
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    if !modules.contains("vsock_loopback") && !symbols.contains("vsock_loopback") {
        eprintln!("skip: a client over vsock: this kernel has no vsock_loopback");
        return;
    }
    let asked = run_with(&scene, line, "nbdinfo --size \"$uri\"");
    assert_eq!(stdout(&asked).trim(), "4096", "{}", stderr(&asked));
}
