//! A machine that is watched with a trace: the file that is meant is named, not the largest one.
//!
//! The child is this test program again, which faults in a file until it is killed.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use forebay_core::time::{Duration, Instant};
use forebay_live::advise::{Gatherer, Subject, Traced, advise};
use forebay_live::pattern::Pattern;
use forebay_live::tree::Tree;

use crate::disk::{Disk, forget, key};

#[test]
fn a_watch_names_the_process_and_the_file_that_it_faults_in() {
    let test = "a_watch_names_the_process_and_the_file_that_it_faults_in";
    let Some(disk) = Disk::new(test, 96) else { return };
    let mut traced = match Traced::new() {
        Ok(traced) => traced,
        Err(error) => {
            eprintln!("skip: {test}: needs tracepoints of readahead: {error}");
            return;
        }
    };
    disk.set("read_ahead_kb", 512);
    let (table, decoy) = (disk.file("table", 64), disk.file("decoy", 1));
    // A larger mapping, which a guess would take.
    decoy.set_len(256 << 20).unwrap();
    let tree = Tree::machine();
    let mut gatherer = Gatherer::new(&tree);
    gatherer.tick(second(1)).unwrap();

    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "traced::child", "--nocapture", "--test-threads=1"]);
    let ours = std::process::id();
    child.env(TOLD, format!("{ours} {} {}", table.as_raw_fd(), decoy.as_raw_fd()));
    child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = child.spawn().unwrap();
    // Kept until it is killed: without a reader of its output it would end.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let rounds = lines.by_ref().filter(|line| line == "round").take(ROUNDS);
    assert_eq!(rounds.count(), ROUNDS);
    gatherer.tick(second(3)).unwrap();
    traced.tick(&tree).unwrap();
    let files = traced.finish();
    let seen = files.iter().find(|file| file.pid == child.id() && file.key == key(&table));
    let found = seen.map(|file| (file.pattern, file.path.clone()));
    gatherer.traced(files);
    let findings = advise(&gatherer.finish(second(3)));
    child.kill().unwrap();
    child.wait().unwrap();
    drop(lines);

    assert_eq!(found, Some((Pattern::RandomFaults, Some("/table".to_owned()))));
    let named = findings.iter().find_map(|finding| match &finding.subject {
        Subject::Process { pid, file, .. } if *pid == child.id() => Some((finding.id, file)),
        Subject::Process { .. }
        | Subject::Device { .. }
        | Subject::File { .. }
        | Subject::Machine => None,
    });
    assert_eq!(named, Some(("read-amplification", &Some("/table".to_owned()))));
}

/// The child: not a test, and without its argument it does nothing.
#[test]
fn child() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let words: Vec<&str> = told.split(' ').collect();
    let open = |fd: &str| File::open(format!("/proc/{}/fd/{fd}", words[0])).unwrap();
    let (table, decoy) = (open(words[1]), open(words[2]));
    // SAFETY: no process writes to the files while they are mapped.
    let _decoy = unsafe { memmap2::Mmap::map(&decoy) }.unwrap();
    for round in 0.. {
        forget(&table);
        // SAFETY: as above.
        let map = unsafe { memmap2::Mmap::map(&table) }.unwrap();
        for step in 0..40 {
            // Of a window 128 pages long the next place is hardly ever a neighbour.
            let page = (round * 40 + step) * 7_919 % (map.len() / 4_096);
            std::hint::black_box(map[page * 4_096]);
        }
        println!("\nround");
    }
}

fn second(second: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(second)
}

/// How the child is told: whose descriptors, the file, and the one that is only mapped.
const TOLD: &str = "FOREBAY_CHILD_FAULTS";

/// Rounds of forty faults.
const ROUNDS: usize = 8;
