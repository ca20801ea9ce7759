//! `forebay serve` as real clients meet it, killed under a writer, mistyped.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};
use std::{env, thread};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::support::{Scene, has, stderr, stdout};

fn path_of_programs() -> String {
    env::var("PATH").unwrap_or_default()
}

/// Numbers as bytes; the last page of the file is not a whole one.
fn source() -> String {
    (0..200_000).map(|number| format!("{number}\n")).collect()
}

/// Runs a command of the shell with a server.
pub(crate) fn run_with(scene: &Scene, line: &str, command: &str) -> Output {
    let mut serve = scene.command(line);
    serve.env("PATH", path_of_programs()).args(["--run", command]);
    serve.output().expect("the program runs")
}

/// Runs a shell command with a server; returns its output.
fn run(scene: &Scene, line: &str, command: &str) -> String {
    let output = run_with(scene, line, command);
    assert_eq!(output.status.code(), Some(0), "{command}: {}{}", stdout(&output), stderr(&output));
    stdout(&output).to_owned()
}

/// A server in the background, once it listens.
pub(crate) fn background(scene: &Scene, line: &str) -> Child {
    let child = scene.command(line).stderr(Stdio::null()).spawn().expect("the program runs");
    let begin = Instant::now();
    while UnixStream::connect(scene.path("socket")).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the server listens");
        thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn nbdinfo_and_nbdcopy_see_the_file() {
    if !(has("nbdinfo", "forebay serve") && has("nbdcopy", "forebay serve")) {
        return;
    }
    let scene = Scene::new().file("disk", source());
    let size = source().len();
    let printed = run(&scene, "serve disk", "nbdinfo --size \"$uri\"");
    assert_eq!(printed.trim(), size.to_string());
    for can in ["multi-conn", "flush", "fua", "zero", "fast-zero", "cache", "trim", "df"] {
        run(&scene, "serve disk", &format!("nbdinfo --can {can} \"$uri\""));
    }
    run(&scene, "serve disk", "nbdcopy --connections=4 --requests=64 \"$uri\" copy");
    assert!(fs::read_to_string(scene.path("copy")).unwrap() == source());
    let line = "serve memory:2M --cache 64k";
    run(&scene, line, "nbdcopy --flush disk \"$uri\" && nbdcopy \"$uri\" back");
    let back = fs::read(scene.path("back")).unwrap();
    assert!(back[..size] == *source().as_bytes());
    let list = run(&scene, "serve disk two=memory:1M", "nbdinfo --list \"$uri\"");
    assert!(list.contains("export=\"two\""), "{list}");
}

#[test]
fn qemu_io_reads_writes_zeroes_and_trims() {
    if !has("qemu-io", "forebay serve") {
        return;
    }
    let scene = Scene::new().file("disk", vec![7; 4 << 20]);
    let line = "serve disk --cache 1M";
    let steps = "-c 'write -P 0xab 65000 64k' -c 'read -P 0xab 65000 64k' -c 'read -P 7 0 65000' \
                 -c 'write -z -u 1M 1M' -c 'discard 2M 1M' -c flush -c 'read -P 0 1M 2M'";
    for style in ["", "-t none", "-t writeback"] {
        let printed = run(&scene, line, &format!("qemu-io {style} -f raw {steps} \"$uri\""));
        assert!(!printed.contains("failed"), "{style}: {printed}");
    }
    let bytes = fs::read(scene.path("disk")).unwrap();
    assert!(bytes[1 << 20..3 << 20].iter().all(|byte| *byte == 0));
    assert!(bytes[65_000..130_536].iter().all(|byte| *byte == 0xab));
    let printed = run(
        &scene,
        &format!("{line} --read-only"),
        "qemu-io -r -f raw -c 'read -P 7 3M 1M' \"$uri\"",
    );
    assert!(!printed.contains("failed"), "{printed}");
}

#[test]
fn fio_verifies_what_it_has_written() {
    if !has("fio", "forebay serve") {
        return;
    }
    let scene = Scene::new().file("disk", vec![0; 16 << 20]);
    let job = "fio --name=job --ioengine=nbd --uri=\"$uri\" --rw=randwrite --bsrange=512-64k \
               --bs_unaligned --iodepth=16 --size=16m --verify=crc32c --do_verify=1 --fsync=64 \
               --output-format=terse";
    let printed = run(&scene, "serve disk --cache 2M", job);
    assert!(!printed.contains("verify: bad"), "{printed}");
}

/// The bytes of a request with its payload.
pub(crate) fn request(kind: u16, flags: u16, offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend(offset.to_be_bytes());
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A client that has chosen the default export of a size below 4 GiB by EXPORT_NAME.
pub(crate) fn client(socket: &Path) -> UnixStream {
    use std::io::Read;
    let mut stream = UnixStream::connect(socket).expect("the server answers");
    stream.read_exact(&mut [0; 18]).expect("the server answers");
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").expect("the server answers");
    stream.read_exact(&mut [0; 10]).expect("the server answers");
    stream
}

/// Whether a simple reply without data says success; false at the end of the stream.
pub(crate) fn succeeds(stream: &mut UnixStream) -> bool {
    use std::io::Read;
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).is_ok() && reply[4..8] == [0; 4]
}

const PAGES: u64 = 256;

#[test]
fn a_killed_server_has_what_was_flushed_and_no_page_is_mixed() {
    for round in 0..4 {
        kill_under_a_writer(round, "serve disk --listen unix:socket", |_| {});
    }
}

#[test]
fn a_killed_server_has_what_was_flushed_in_its_overlay_and_the_base_is_as_it_was() {
    for round in 0..4 {
        let line = "serve disk --listen unix:socket --overlay over";
        kill_under_a_writer(round, line, |scene| {
            let bytes = fs::read(scene.path("disk")).unwrap();
            assert!(bytes.iter().all(|byte| *byte == 0), "the base is never written");
            let committed = scene.command("overlay commit over").output().unwrap();
            assert_eq!(committed.status.code(), Some(0), "{}", stderr(&committed));
        });
    }
}

/// Kills a server while a client writes to its disk of zeroes. `bring` makes the disk's file what
/// the next server would show.
fn kill_under_a_writer(round: u64, line: &str, bring: fn(&Scene)) {
    let scene = Scene::new().file("disk", vec![0; PAGES as usize * 4096]);
    let mut server = background(&scene, &format!("{line} --cache 256k"));
    let mut stream = client(&scene.path("socket"));
    // Each page tells the number of its last write: the newest, and the one that was flushed.
    let (mut newest, mut flushed) = (vec![0; PAGES as usize], vec![0; PAGES as usize]);
    let pid = Pid::from_child(&server);
    for number in 1_u64.. {
        let page = number.wrapping_mul(0x9e37_79b9) % PAGES;
        newest[page as usize] = number;
        let payload = number.to_le_bytes().repeat(512);
        let durable = u16::from(number % 10 == 0);
        let sent = stream.write_all(&request(1, durable, page * 4096, &payload));
        if number == 60 + 110 * round {
            kill_process(pid, Signal::KILL).expect("it runs");
        }
        if sent.is_err() || !succeeds(&mut stream) {
            break;
        }
        if durable > 0 {
            flushed[page as usize] = number;
        }
        if number % 35 == 0 {
            if stream.write_all(&request(3, 0, 0, &[])).is_err() || !succeeds(&mut stream) {
                break;
            }
            flushed.clone_from(&newest);
        }
    }
    server.wait().expect("it ends");
    bring(&scene);
    let bytes = fs::read(scene.path("disk")).expect("it is there");
    for (page, content) in bytes.chunks(4096).enumerate() {
        let number = u64::from_le_bytes(content[..8].try_into().expect("eight bytes"));
        assert!(content == number.to_le_bytes().repeat(512), "page {page} is mixed");
        assert!(number >= flushed[page] && number <= newest[page], "page {page}");
    }
    // It begins anew over the socket that was left.
    let mut again = background(&scene, line);
    kill_process(Pid::from_child(&again), Signal::TERM).expect("it runs");
    assert_eq!(again.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_signal_brings_all_to_disk_and_is_no_error() {
    let scene = Scene::new().file("disk", vec![0; 1 << 20]);
    let mut server = background(&scene, "serve disk --listen unix:socket");
    let mut stream = client(&scene.path("socket"));
    stream.write_all(&request(1, 0, 4096, &[5; 9000])).unwrap();
    assert!(succeeds(&mut stream));
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
    assert!(fs::read(scene.path("disk")).unwrap()[4096..13_096].iter().all(|byte| *byte == 5));
    assert!(!scene.path("socket").exists());
}

#[test]
fn an_overlay_is_kept_between_servers_and_is_one_server_s_and_one_base_s() {
    let scene = Scene::new().file("disk", vec![1; 10_000]).file("other", vec![1; 10_000]);
    let say = |line: &str| {
        let output = scene.command(line).output().unwrap();
        (output.status.code().unwrap(), format!("{}{}", stdout(&output), stderr(&output)))
    };
    let line = "serve disk --listen unix:socket --overlay over";
    let mut server = background(&scene, line);
    let mut stream = client(&scene.path("socket"));
    stream.write_all(&request(1, 1, 9000, &[5; 1000])).unwrap();
    assert!(succeeds(&mut stream));
    for busy in ["overlay info over", "overlay commit over", "overlay discard over"] {
        let (code, said) = say(busy);
        assert!(code == 2 && said.contains("another process uses it"), "{busy}: {said}");
    }
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
    let (code, said) = say("overlay info over --json");
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("\"changed_bytes\": 4096") && said.contains("\"bytes\": 10000"),
        "{said}"
    );
    let (code, said) = say("serve other --overlay over --run true");
    assert!(code == 2 && said.contains("it was made over"), "{said}");
    let (code, said) = say("overlay commit over");
    assert!(code == 0 && said.contains("1 pages written"), "{said}");
    let bytes = fs::read(scene.path("disk")).unwrap();
    assert!(bytes.len() == 10_000 && bytes[9000..].iter().all(|byte| *byte == 5));
    assert!(bytes[..9000].iter().all(|byte| *byte == 1));
    assert_eq!(say("serve disk --overlay over --run true").0, 0, "it goes on, empty");
    fs::write(scene.path("disk"), [2; 10_000]).unwrap();
    let (code, said) = say("serve disk --overlay over --run true");
    assert!(code == 2 && said.contains("forebay overlay discard"), "{said}");
    assert_eq!(say("overlay discard over").0, 0);
    assert!(!scene.path("over").exists());
}

#[test]
fn what_is_no_overlay_is_left_alone() {
    let scene = Scene::new().file("disk", "x").file("mine", vec![7; 9000]);
    for (line, why) in [
        ("serve disk --overlay mine --run true", "does not begin like one"),
        ("overlay discard mine", "does not begin like one"),
        ("overlay commit mine", "does not begin like one"),
        ("overlay info nothing", "No such file"),
        ("serve a=disk --overlay over --run true", "every source has a name"),
        ("serve disk --overlay b=over --run true", "no source has the name 'b'"),
        ("serve disk --overlay over --overlay over --run true", "has an overlay already"),
        ("serve memory:1M --overlay over --run true", "nothing of 'memory:1M'"),
        ("serve disk --overlay nothing --read-only --run true", "No such file"),
    ] {
        let output = scene.command(line).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(stderr(&output).contains(why), "{line}: {}", stderr(&output));
    }
    assert_eq!(fs::read(scene.path("mine")).unwrap(), vec![7; 9000]);
    assert!(!scene.path("over").exists() && !scene.path("nothing").exists());
}

#[test]
fn a_client_that_asks_for_much_and_reads_nothing_takes_little_memory() {
    let scene = Scene::new();
    let mut server = background(&scene, "serve memory:32M --listen unix:socket --cache 16M");
    let pid = Pid::from_child(&server);
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let taken = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let taken: u64 = taken.trim().trim_end_matches(" kB").parse().unwrap();
    let most = Some(taken * 1024 + (1 << 30));
    prlimit(Some(pid), Resource::As, Rlimit { current: most, maximum: most }).unwrap();
    // 64 GB in one piece.
    let mut greedy = client(&scene.path("socket"));
    let mut read = request(0, 0, 0, &[]);
    read[24..28].copy_from_slice(&(32_u32 << 20).to_be_bytes());
    greedy.write_all(&read.repeat(2_000)).unwrap();
    let mut other = client(&scene.path("socket"));
    for number in 0..200 {
        other.write_all(&request(1, 0, number * 4096, &[5; 4096])).unwrap();
        assert!(succeeds(&mut other), "request {number}");
    }
    // When it has left, the rest of what it asked for is not begun.
    drop(greedy);
    for number in 0..200 {
        other.write_all(&request(1, 0, number * 4096, &[6; 4096])).unwrap();
        assert!(succeeds(&mut other), "request {number}");
    }
    drop(other);
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn the_base_of_an_overlay_is_written_by_no_other_process() {
    let scene = Scene::new().file("disk", vec![1; 8192]);
    let say = |line: &str| {
        let output = scene.command(line).output().unwrap();
        (output.status.code().unwrap(), stderr(&output).to_owned())
    };
    let end = |mut server: Child| {
        kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
        assert_eq!(server.wait().unwrap().code(), Some(0));
    };
    assert_eq!(say("serve disk --overlay one --run true").0, 0);
    let server = background(&scene, "serve disk --overlay two --listen unix:socket");
    let (code, why) = say("serve disk --run true");
    assert!(code == 2 && why.contains("another process serves or changes it"), "{why}");
    let (code, why) = say("overlay commit one");
    assert!(code == 2 && why.contains("another process serves or changes it"), "{why}");
    assert_eq!(say("serve disk --overlay one --run true").0, 0, "each has its own changes");
    assert_eq!(say("serve disk --read-only --run true").0, 0);
    end(server);
    let server = background(&scene, "serve disk --listen unix:socket");
    let (code, why) = say("serve disk --overlay one --run true");
    assert!(code == 2 && why.contains("another process writes it"), "{why}");
    assert_eq!(say("serve disk --run true").0, 2, "each server has a memory of its own");
    assert_eq!(say("serve disk --read-only --run true").0, 0);
    end(server);
    assert_eq!(say("overlay commit one").0, 0);
}

#[test]
fn what_is_opened_and_not_written_keeps_its_times() {
    let scene = Scene::new().file("disk", vec![1; 8192]);
    let file = fs::File::options().write(true).open(scene.path("disk")).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    file.set_modified(old).unwrap();
    for (line, code) in [
        ("serve disk --run true", 0),
        ("serve disk --overlay disk --run true", 2),
        ("overlay discard disk", 2),
    ] {
        let output = scene.command(line).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}: {}", stderr(&output));
        assert_eq!(file.metadata().unwrap().modified().unwrap(), old, "{line}");
    }
}

#[test]
fn a_server_that_is_stopped_hides_no_other_from_the_status() {
    let [stopped, answers] = [Scene::new(), Scene::new()];
    let mut servers =
        [&stopped, &answers].map(|scene| background(scene, "serve memory:1M --listen unix:socket"));
    let pids = [Pid::from_child(&servers[0]), Pid::from_child(&servers[1])];
    kill_process(pids[0], Signal::STOP).unwrap();
    let output = answers.command("serve status").output().unwrap();
    for pid in pids {
        kill_process(pid, Signal::KILL).unwrap();
    }
    servers.iter_mut().for_each(|server| drop(server.wait()));
    let why = format!("process {} does not tell its status: no answer", pids[0]);
    assert!(stderr(&output).contains(&why), "{}", stderr(&output));
    assert!(stdout(&output).contains(&pids[1].to_string()), "{}", stdout(&output));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn figures_are_answered_in_the_format_of_prometheus() {
    use std::io::{BufRead, BufReader, Read};
    let scene = Scene::new().file("disk", vec![0; 1 << 20]);
    let mut serve = scene.command("serve disk --listen unix:socket --prometheus 127.0.0.1:0");
    let mut server = serve.spawn().expect("the program runs");
    let said = BufReader::new(server.stderr.take().expect("it is a pipe"));
    let mut lines = said.lines().map(|line| line.expect("it is text"));
    let address = lines.find_map(|line| {
        let behind = line.split_once("serving http://")?.1;
        Some(behind.strip_suffix("/metrics")?.to_owned())
    });
    // The line about the export comes when it listens.
    assert!(lines.any(|line| line.contains("disk (1048576 bytes)")));
    let mut stream = client(&scene.path("socket"));
    stream.write_all(&request(1, 1, 0, &[5; 8192])).unwrap();
    assert!(succeeds(&mut stream));
    let mut asked = TcpStream::connect(address.expect("it says where")).unwrap();
    asked.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    asked.read_to_string(&mut page).unwrap();
    for line in [
        "forebay_serve_connections 1",
        "forebay_serve_resident_bytes 8192",
        "forebay_serve_dirty_bytes{export=\"\"} 0",
        "forebay_serve_store_written_bytes_total{export=\"\"} 8192",
        "forebay_serve_store_full{export=\"\"} 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} in {page}");
    }
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn the_command_decides_the_exit_code() {
    let scene = Scene::new().file("disk", "x");
    let code = |command: &str| {
        let mut serve = scene.command("serve disk --run");
        serve.env("PATH", path_of_programs()).arg(command).status().unwrap().code()
    };
    assert_eq!(code("test -S \"$unixsocket\""), Some(0));
    assert_eq!(code("exit 7"), Some(7));
}

#[test]
fn what_cannot_be_served_is_refused() {
    let mut scene = Scene::new().file("disk", "x");
    fs::create_dir(scene.path("folder")).unwrap();
    for line in [
        "serve",
        "serve disk",
        "serve disk --listen disk.sock",
        "serve disk --listen unix:",
        "serve disk --listen tcp:nowhere",
        "serve nothing --listen unix:socket",
        "serve folder --listen unix:socket",
        "serve memory:x --listen unix:socket",
        "serve memory:0 --listen unix:socket",
        "serve memory:65T --listen unix:socket",
        "serve disk disk --listen unix:socket",
        "serve a=disk a=disk --listen unix:socket",
        "serve disk --listen unix:socket --cache 1k",
        "serve disk --listen unix:folder",
        "serve disk --listen unix:socket --policy elevator=noop",
        "serve disk --listen unix:socket --prometheus 0.0.0.0:9",
        "serve disk --listen unix:socket --policy readahead=linux-6.18:folios=on",
    ] {
        scene.refused(line);
    }
    scene.matches("serve_refused.txt");
}
