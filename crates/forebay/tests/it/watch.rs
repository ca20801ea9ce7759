//! `forebay watch` as scripts meet it: tables, objects, figures over HTTP, refusals, signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Scene, stderr, stdout};

#[test]
fn what_watch_does_not_take_is_refused() {
    let mut scene = Scene::new();
    scene
        .refused("watch")
        .refused("watch --interval 0.05 --once")
        .refused("watch --interval 61 --once")
        .refused("watch --interval nan --once")
        .refused("watch --prometheus 0.0.0.0:9464")
        .refused("watch --prometheus [::]:9464")
        .refused("watch --prometheus localhost")
        .refused("watch --prometheus 127.0.0.1:9464 --once");
    scene.matches("watch_refused.txt");
}

#[test]
fn once_prints_tables_or_an_object() {
    let scene = Scene::new();
    let output = scene.command("watch --once --interval 0.1").output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let text = stdout(&output);
    for part in ["stall ", "unwritten ", "background ", "limit ", "device", "file", "process"] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    let output = scene.command("watch --once --json --interval 0.1 --no-trace").output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let object: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
    assert!(object["dirty"]["limit"].as_u64().unwrap() > 0, "{object}");
    assert!(object["period"].as_f64().unwrap() >= 0.1, "{object}");
    assert!(object["gaps"][0].as_str().unwrap().contains("--no-trace"), "{object}");
}

#[test]
fn objects_come_until_a_signal_and_leave_nothing_behind() {
    let scene = Scene::new();
    let mut child = scene.command("watch --json --interval 0.1").spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let line = lines.next().unwrap().unwrap();
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(object["devices"].is_array(), "{object}");
    }
    end(child);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let scene = Scene::new();
    let mut child = scene.command("watch --json --interval 0.1").spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn figures_are_served_to_proper_requests() {
    let scene = Scene::new();
    let mut command = scene.command("watch --prometheus 127.0.0.1:0 --interval 0.1");
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    // A silent client blocks others for a while only.
    let silent = TcpStream::connect(&address).unwrap();
    let ask = |request: &str| {
        let mut client = TcpStream::connect(&address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        reply
    };
    let mut reply = ask("GET /metrics HTTP/1.1\r\n\r\n");
    while !reply.contains("\nforebay_dirty_limit_bytes ") {
        let answered = ["200 OK", "503 "].map(|it| format!("HTTP/1.1 {it}"));
        assert!(answered.iter().any(|it| reply.starts_with(it)), "{reply}");
        reply = ask("GET /metrics HTTP/1.1\r\n\r\n");
    }
    assert!(ask("what is this\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(ask("GET /else HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    drop(silent);
    end(child);
}

/// Ends a process by a signal, which is no error.
fn end(mut child: Child) {
    kill_process(Pid::from_child(&child), Signal::TERM)
        .expect("a process of ours can be told to end");

    assert_eq!(child.wait().expect("a child can be waited for").code(), Some(0));
}
