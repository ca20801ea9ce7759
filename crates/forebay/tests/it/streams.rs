//! Standard streams that are closed, full, broken or not a terminal.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::process::Command;

use crate::support::{Scene, assert_refused, fed, printed, stderr, stdout};

const LINES: [&str; 8] = [
    "--help",
    "simulate --help",
    "policies",
    "machines",
    "machines vm-2026 --format json",
    "simulate job",
    "run job --on file",
    "plan --policy readahead=off --script script",
];

#[test]
fn a_full_disk_is_an_error() {
    let scene = scene();
    for line in LINES.into_iter().chain(["reproduce readahead --draws 1 --check"]) {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has /dev/full");
        let output = scene.command(line).stdout(full).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(2), "{line}");
        let why = ": No space left on device (os error 28)\nhint: make room, ";
        let said = stderr(&output);
        assert!(said.starts_with("error: cannot write the ") && said.contains(why), "{said}");
    }
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let scene = scene();
    for line in LINES {
        let mut child = scene.command(line).spawn().expect("the program runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the program ends");
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{line}");
    }
}

#[test]
fn a_long_plan_stops_with_its_reader() {
    let scene = scene().file("long", "r 0 4096\n".repeat(50_000));
    let line = "plan --policy readahead=off --script long";
    let mut child = scene.command(line).spawn().expect("the program runs");
    let mut first = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
    stdout.read_line(&mut first).expect("a line comes");
    drop(stdout);
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(first, "# readahead=off, a file of 16384 pages\n");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
}

/// The shell closes what `std::process` cannot.
#[test]
fn closed_streams_are_empty_ones() {
    let scene = scene();
    for (redirection, code) in [
        ("policies >&-", 0),
        ("policies 2>&-", 0),
        ("plan --policy readahead=off <&-", 0),
        ("simulate - <&-", 2),
        ("simulate missing 2>&-", 2),
        ("simulate missing >&- 2>&- <&-", 2),
    ] {
        let mut shell = scene.command(redirection);
        let program = shell.get_program().to_owned();
        shell = Command::new("sh");
        shell.arg("-c").arg(format!("\"$0\" {redirection}")).arg(program);
        let output = shell.output().expect("the shell runs");
        assert_eq!(output.status.code(), Some(code), "{redirection}");
    }
}

#[test]
fn progress_is_for_terminals() {
    let scene = scene();
    for line in ["reproduce readahead --draws 1", "simulate job", "run job --on file"] {
        printed(scene.command(line));
    }
}

#[test]
fn what_is_ignored_is_said_beside_the_table() {
    let mut scene =
        Scene::new().file("job", "[a]\nrw=read\nsize=4k\ntime_based\ngroup_reporting\n");
    scene.forebay("simulate job --format csv").matches("notes.txt");
}

#[test]
fn a_text_may_come_from_a_descriptor_of_the_caller() {
    let scene = Scene::new().file("job", JOB);
    let of_file = printed(scene.command("simulate job --format csv"));
    for path in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let output = fed(scene.command(&format!("simulate {path} --format csv")), JOB);
        assert_eq!(stdout(&output), of_file, "{path}: {}", stderr(&output));
    }
    let endless = fed(scene.command("simulate /dev/fd/0"), &"# comment\n".repeat(2 << 20));
    assert_refused("simulate /dev/fd/0", &endless);
}

const JOB: &str = "[a]\nrw=read\nsize=64k\n";

#[test]
fn surroundings_change_nothing() {
    let scene = scene();
    for line in ["--help", "policies", "simulate job", "reproduce readahead --draws 1"] {
        let plain = printed(scene.command(line));
        let mut elsewhere = scene.command(line);
        elsewhere.env("COLUMNS", "200").env("LANG", "de_DE.UTF-8").env("LC_ALL", "tr_TR.UTF-8");
        elsewhere.env("TERM", "xterm-256color").env("NO_COLOR", "1");
        if line != "--help" {
            elsewhere.env("COLUMNS", "20");
        }
        assert_eq!(printed(elsewhere), plain, "{line}");
    }
}

/// As many measurements run at once as there are processors that the program may use.
#[test]
fn the_number_of_processors_changes_nothing() {
    let status = fs::read_to_string("/proc/self/status").expect("every process has one");
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = allowed.and_then(|list| list.trim().split(['-', ',']).next());
    let scene = scene();
    let all = scene.command("reproduce readahead --draws 2 --format csv");
    let mut one = Command::new("taskset");
    one.args(["-c", first.expect("a processor runs this")]);
    one.arg(all.get_program()).args(all.get_args());
    match one.output() {
        Ok(output) => assert_eq!(stdout(&output), printed(all)),
        Err(error) => eprintln!("skip: one processor alone: needs taskset: {error}"),
    }
}

fn scene() -> Scene {
    Scene::new()
        .file("job", "[a]\nrw=read\nsize=64k\n")
        .file("file", [5; 65_536])
        .file("script", "r 0 4096\nt 7\n")
}
