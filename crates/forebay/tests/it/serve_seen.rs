//! What a server reports: status, log, latencies; what it reloads; how it ends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::serve::{background, client, request, succeeds};
use crate::support::{Scene, stderr, stdout};

fn signal(server: &Child, signal: Signal) {
    kill_process(Pid::from_child(server), signal).expect("it runs");
}

/// What the status of a server says, as JSON.
fn status(scene: &Scene, server: &Child) -> Value {
    let line = format!("serve status --json --pid {}", server.id());
    let output = scene.command(&line).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let all: Value = serde_json::from_str(stdout(&output)).expect("it is JSON");
    all[0].clone()
}

/// Waits until a file holds a text.
pub(crate) fn await_text(scene: &Scene, file: &str, text: &str) -> String {
    let begin = Instant::now();
    loop {
        let found = fs::read_to_string(scene.path(file)).unwrap_or_default();
        if found.contains(text) {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "'{text}' in {found}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a READ and takes its reply.
fn read(stream: &mut UnixStream, offset: u64, len: u32) {
    let mut bytes = request(0, 0, offset, &[]);
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&len.to_be_bytes());
    stream.write_all(&bytes).expect("the server answers");
    assert!(succeeds(stream));
    stream.read_exact(&mut vec![0; len as usize]).expect("the server answers");
}

#[test]
fn status_tells_what_each_export_and_client_has_and_waits_for() {
    let scene = Scene::new().file("disk", vec![7; 1 << 20]).file("other", vec![8; 8192]);
    let mut server =
        background(&scene, "serve disk b=other --listen unix:socket --store-delay 20ms");
    let mut stream = client(&scene.path("socket"));
    read(&mut stream, 0, 4096);
    read(&mut stream, 0, 4096);
    stream.write_all(&request(1, 0, 1 << 19, &[5; 8192])).expect("the test works");
    assert!(succeeds(&mut stream));
    stream.write_all(&request(1, 0, 2 << 20, &[5; 512])).expect("the test works");
    assert!(!succeeds(&mut stream), "behind the end");
    let told = status(&scene, &server);
    let (disk, other, own) = (&told["exports"][0], &told["exports"][1], &told["clients"][0]);
    assert_eq!((&disk["name"], &disk["bytes"]), (&"".into(), &(1 << 20).into()), "{told}");
    let count = |value: &Value, key: &str| value[key].as_u64().unwrap_or_else(|| panic!("{key}"));
    assert!(count(disk, "cached_bytes") >= 12288 && count(other, "cached_bytes") == 0, "{told}");
    let not_lost = ["dirty_bytes", "writeback_bytes", "written_back_bytes"];
    assert_eq!(not_lost.iter().map(|key| count(disk, key)).sum::<u64>(), 8192, "{told}");
    // One page was requested; the other pages were read ahead.
    assert_eq!(count(disk, "used_bytes"), 4096, "{told}");
    assert!(count(disk, "brought_in_bytes") >= 4096, "{told}");
    let reads = &disk["latency"]["read"];
    assert_eq!(count(reads, "count"), 2);
    // The first took the store's 20 ms, the second did not.
    let seconds = |key: &str| reads[key].as_f64().unwrap_or_else(|| panic!("{told}"));
    assert!(seconds("p50") < 0.02 && seconds("p99") >= 0.02 && seconds("mean") >= 0.01, "{told}");
    assert_eq!(own["export"], "");
    assert!(
        own["peer"]
            .as_str()
            .expect("the test works")
            .starts_with(&format!("process {}", std::process::id()))
    );
    assert_eq!((count(own, "requests"), count(own, "refused")), (3, 1), "{told}");
    assert_eq!((count(own, "read_bytes"), count(own, "written_bytes")), (8192, 8192));
    assert!(
        count(own, "waited") >= 1 && own["wait"].as_f64().expect("the test works") >= 0.02,
        "{told}"
    );
    stream.write_all(&request(3, 0, 0, &[])).expect("the test works");
    assert!(succeeds(&mut stream));
    let told = status(&scene, &server);
    assert_eq!(count(&told["exports"][0], "dirty_bytes"), 0, "{told}");
    assert_eq!(count(&told["exports"][0], "written_back_bytes"), 8192, "{told}");
    // As people see it.
    let output = scene
        .command(&format!("serve status --pid {}", server.id()))
        .output()
        .expect("the test works");
    let text = stdout(&output);
    assert!(text.contains("written back") && text.contains("8 KiB"), "{text}");
    assert!(text.contains("(default)") && text.contains("p99.9 us"), "{text}");
    signal(&server, Signal::TERM);
    assert_eq!(server.wait().expect("the test works").code(), Some(0));
    let output = scene
        .command(&format!("serve status --pid {}", server.id()))
        .output()
        .expect("the test works");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("is no server of this user"), "{}", stderr(&output));
}

#[test]
fn latencies_are_a_histogram_of_prometheus() {
    let scene = Scene::new().file("disk", vec![0; 1 << 20]);
    let mut serve = scene.command("serve disk --listen unix:socket --prometheus 127.0.0.1:0");
    let mut server = serve.spawn().expect("the program runs");
    let said = BufReader::new(server.stderr.take().expect("it is a pipe"));
    let mut lines = said.lines().map(|line| line.expect("it is text"));
    let address = lines.find_map(|line| {
        let behind = line.split_once("serving http://")?.1;
        Some(behind.strip_suffix("/metrics")?.to_owned())
    });
    assert!(lines.any(|line| line.contains("disk (1048576 bytes)")));
    let mut stream = client(&scene.path("socket"));
    (0..5).for_each(|page| read(&mut stream, page * 4096, 4096));
    let mut asked = TcpStream::connect(address.expect("it says where")).expect("the test works");
    asked.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("the test works");
    let mut page = String::new();
    asked.read_to_string(&mut page).expect("the test works");
    let labels = "export=\"\",request=\"read\"";
    for line in [
        "# TYPE forebay_serve_request_seconds histogram".to_owned(),
        format!("forebay_serve_request_seconds_bucket{{{labels},le=\"17.179869184\"}} 5"),
        format!("forebay_serve_request_seconds_bucket{{{labels},le=\"+Inf\"}} 5"),
        format!("forebay_serve_request_seconds_count{{{labels}}} 5"),
        "forebay_serve_client_read_bytes_total{client=\"1\",export=\"\"} 20480".to_owned(),
    ] {
        assert!(page.lines().any(|found| found == line), "{line} in {page}");
    }
    let buckets = page.lines().filter(|line| line.contains("_bucket{"));
    let counts: Vec<u64> = buckets
        .map(|line| {
            line.rsplit(' ').next().expect("the test works").parse().expect("the test works")
        })
        .collect();
    assert!(counts.len() == 26 && counts.is_sorted(), "{counts:?}");
    signal(&server, Signal::TERM);
    server.wait().expect("the test works");
}

#[test]
fn the_log_has_a_line_for_connections_errors_refusals_and_slow_requests() {
    let scene = Scene::new().file("disk", vec![0; 1 << 20]);
    let line = "serve disk --listen unix:socket --log log --store-delay 20ms --slow 15ms";
    let mut server = background(&scene, line);
    let mut stream = client(&scene.path("socket"));
    read(&mut stream, 4096, 512);
    stream.write_all(&request(4, 0, 1 << 20, &[])).expect("the test works");
    assert!(succeeds(&mut stream), "a TRIM of nothing");
    stream.write_all(&request(1, 1, 2 << 20, &[1; 3])).expect("the test works");
    assert!(!succeeds(&mut stream));
    // The source shrinks: reads behind its end fail.
    fs::File::options()
        .write(true)
        .open(scene.path("disk"))
        .expect("the test works")
        .set_len(8192)
        .expect("the test works");
    stream
        .write_all(&{
            let mut bytes = request(0, 0, 500_000, &[]);
            let at = bytes.len() - 4;
            bytes[at..].copy_from_slice(&100_u32.to_be_bytes());
            bytes
        })
        .expect("the test works");
    assert!(!succeeds(&mut stream));
    let mut broken = client(&scene.path("socket"));
    broken.write_all(&[9; 28]).expect("the test works");
    await_text(&scene, "log", "a request begins with a wrong number");
    drop(stream);
    let log = await_text(&scene, "log", "1 failed, 1 refused");
    let begins = |text: &str| {
        let found = log.lines().any(|line| {
            line.split_once("Z ").is_some_and(|(time, rest)| {
                time.len() == 23 && time.as_bytes()[10] == b'T' && rest.contains(text)
            })
        });
        assert!(found, "'{text}' in {log}");
    };
    begins(&format!("connected: process {} of user", std::process::id()));
    begins("export (default)");
    begins("slow: read of 512 bytes at 4096: ");
    let slow = log.lines().find_map(|line| line.split_once("slow: read of 512 bytes at 4096: "));
    // In milliseconds, or, if the machine is very busy, in seconds.
    let took = slow.map_or("", |(_, took)| took);
    let millis = took.strip_suffix("ms").map(str::parse::<f64>);
    let is_long = millis.map_or_else(
        || took.ends_with('s') && !took.ends_with("\u{b5}s"),
        |millis| millis.is_ok_and(|millis| millis >= 20.0),
    );
    assert!(is_long, "the store's delay and more: {log}");
    begins("refused: write of 3 bytes at 2097152 with FUA: the range ends beyond the export");
    begins("failed: read of 100 bytes at 500000: ");
    begins("a client was sent away: a request begins with a wrong number");
    begins("left; 2 requests, 512 bytes read, 0 written, 1 failed, 1 refused");
    // The log was renamed: SIGHUP opens it anew, and the server goes on.
    fs::rename(scene.path("log"), scene.path("old")).expect("the test works");
    signal(&server, Signal::HUP);
    let begin = Instant::now();
    while !scene.path("log").exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the log is opened anew");
        thread::sleep(Duration::from_millis(5));
    }
    drop(client(&scene.path("socket")));
    await_text(&scene, "log", "connected");
    signal(&server, Signal::TERM);
    assert_eq!(server.wait().expect("the test works").code(), Some(0));
}

#[test]
fn one_client_cannot_fill_the_log() {
    let scene = Scene::new().file("disk", vec![0; 1 << 20]);
    let mut server = background(&scene, "serve disk --listen unix:socket --log log");
    let mut stream = client(&scene.path("socket"));
    for _ in 0..1500 {
        stream.write_all(&request(9, 0, 0, &[])).expect("the test works");
        assert!(!succeeds(&mut stream));
    }
    drop(stream);
    let log = await_text(&scene, "log", "1500 refused");
    assert_eq!(log.matches("refused: unknown command").count(), 999);
    assert_eq!(log.matches("counted and not logged").count(), 1);
    signal(&server, Signal::TERM);
    assert_eq!(server.wait().expect("the test works").code(), Some(0));
}

#[test]
fn sighup_shows_clients_to_come_what_a_source_has_grown_by() {
    let scene = Scene::new().file("disk", vec![7; 8192]).file("odd", vec![7; 5000]);
    let line = "serve disk odd=odd --listen unix:socket --log log";
    let mut serve = scene.command(line);
    serve.stderr(fs::File::create(scene.path("said")).expect("the test works"));
    let mut server = serve.spawn().expect("the program runs");
    await_text(&scene, "said", "at unix:socket");
    let mut old = client(&scene.path("socket"));
    read(&mut old, 0, 8192);
    for (file, bytes) in [("disk", 16384), ("odd", 9000)] {
        let grown = fs::File::options().write(true).open(scene.path(file)).expect("the test works");
        grown.set_len(bytes).expect("the test works");
    }
    signal(&server, Signal::HUP);
    let said = await_text(&scene, "said", "reloaded");
    assert!(said.contains("export (default): 16384 bytes, for clients to come"), "{said}");
    assert!(said.contains("export 'odd': it keeps its 5000 bytes"), "{said}");
    old.write_all(&request(1, 0, 8192, &[1; 4096])).expect("the test works");
    assert!(!succeeds(&mut old), "a client keeps the size that it was told");
    let mut new = client(&scene.path("socket"));
    read(&mut new, 4096, 12288);
    new.write_all(&request(1, 1, 12288, &[1; 4096])).expect("the test works");
    assert!(succeeds(&mut new));
    assert_eq!(fs::read(scene.path("disk")).expect("the test works")[12288..], [1; 4096]);
    fs::File::options()
        .write(true)
        .open(scene.path("disk"))
        .expect("the test works")
        .set_len(4096)
        .expect("the test works");
    signal(&server, Signal::HUP);
    await_text(&scene, "said", "has 4096 bytes now; it keeps its 16384");
    signal(&server, Signal::TERM);
    server.wait().expect("the test works");
}

#[test]
fn the_time_to_drain_is_bounded_and_what_is_lost_is_said() {
    let scene = Scene::new();
    // 64 KiB a second: the flush would take minutes.
    let line = "serve memory:64M --listen unix:socket --store-rate 64k --drain-timeout 300ms";
    let mut serve = scene.command(line);
    let mut server = serve.spawn().expect("the program runs");
    let begin = Instant::now();
    while UnixStream::connect(scene.path("socket")).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the server listens");
        thread::sleep(Duration::from_millis(5));
    }
    let mut stream = client(&scene.path("socket"));
    stream.write_all(&request(1, 0, 0, &vec![5; 8 << 20])).expect("the test works");
    assert!(succeeds(&mut stream));
    signal(&server, Signal::TERM);
    let mut said = String::new();
    server
        .stderr
        .take()
        .expect("the test works")
        .read_to_string(&mut said)
        .expect("the test works");
    assert_eq!(server.wait().expect("the test works").code(), Some(2), "{said}");
    assert!(said.contains("are being brought to disk, for 300ms at most"), "{said}");
    assert!(said.contains("could not be written: the time to drain is over"), "{said}");
}

#[test]
fn pages_whose_write_failed_are_in_the_status() {
    let scene = Scene::new().file("disk", vec![7; 1 << 20]);
    let server = background(&scene, "serve disk --listen unix:socket");
    let text = || {
        let output = scene.command("serve status").output().expect("the program runs");
        stdout(&output).to_owned()
    };
    assert_eq!(status(&scene, &server)["pages_lost"], 0);
    // A file that was cut off cannot be written behind the cut.
    let file = fs::File::options().write(true).open(scene.path("disk")).expect("the test works");
    file.set_len(8192).expect("the test works");
    let mut stream = client(&scene.path("socket"));
    stream.write_all(&request(1, 1, 1 << 19, &[5; 8192])).expect("the test works");
    assert!(!succeeds(&mut stream));
    assert_eq!(status(&scene, &server)["pages_lost"], 2);
    assert!(text().contains("2 pages lost: their write failed"), "{}", text());
    signal(&server, Signal::KILL);
    let mut server = server;
    server.wait().expect("the test works");
}
