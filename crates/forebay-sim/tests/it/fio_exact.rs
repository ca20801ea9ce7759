//! The requests of a parsed job are those of the installed fio, one by one.
//!
//! Job files are drawn from a seed and run by the real tool, which logs its requests and syncs. The
//! logs are compared with the streams. `FOREBAY_FIO_JOBS` sets how many job files are drawn and
//! `FOREBAY_FIO_SEED` where the drawing starts.
#![expect(clippy::disallowed_methods, reason = "the number of jobs is set from outside")]
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]
#![expect(clippy::print_stderr, reason = "a skipped test and a seed must be seen")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use forebay_sim::fio::{Action, Compat, Io, Job, JobErrorKind, JobFile, Sync, SyncKind};

use crate::fio_jobs::{Dice, Drawn};

#[test]
fn streams_equal_the_logs_of_the_installed_fio() {
    let Some(compat) = installed() else {
        eprintln!("skipped: fio is not installed");
        return;
    };
    let count = number("FOREBAY_FIO_JOBS", 150);
    let seed = number("FOREBAY_FIO_SEED", 2005);
    eprintln!("comparing {count} job files from seed {seed}");
    let mut tally = Tally::default();
    let mut running: Vec<(u64, Drawn, Run)> = Vec::new();
    for number in 0..count {
        let drawn = Drawn::new(&mut Dice::new(seed, number));
        let run = Run::start(&drawn.text, number);
        running.push((number, drawn, run));
        if running.len() == RUNS_AT_ONCE {
            let (number, drawn, run) = running.remove(0);
            tally.compare(number, &drawn, run, compat);
        }
    }
    for (number, drawn, run) in running {
        tally.compare(number, &drawn, run, compat);
    }
    eprintln!("seed {seed}: {tally:?}");
    assert!(tally.different.is_empty(), "seed {seed}: {} differ", tally.different.len());
    assert!(tally.jobs > count, "most job files must be accepted: {tally:?}");
}

#[test]
fn units_mean_what_they_mean_to_fio() {
    let Some(compat) = installed() else {
        eprintln!("skipped: fio is not installed");
        return;
    };
    for (number, bs) in
        ["4k", "4ki", "4kib", "4kb", "4K", "0x1000", "4096", "+4k", "4096b"].into_iter().enumerate()
    {
        for base in ["1024", "1000"] {
            let text =
                format!("[u]\nrw=write\nsize=64k\nbs={bs}\nkb_base={base}\nwrite_iolog=0.log\n");
            let run = Run::start(&text, UNIT_RUNS + number as u64);
            let logs = run.finish();
            let job = JobFile::parse(&text, "u").unwrap().jobs.remove(0);
            let found: Vec<Line> = logs[0].lines.clone();
            assert_eq!(found, stream(&job, compat, found.len()), "bs={bs} kb_base={base}");
        }
    }
}

/// The comparisons so far.
#[derive(Debug, Default)]
struct Tally {
    jobs: u64,
    requests: u64,
    refused: u64,
    unclear: u64,
    different: Vec<u64>,
}

impl Tally {
    fn compare(&mut self, number: u64, drawn: &Drawn, run: Run, compat: Compat) {
        let chunks = run.finish();
        let file = match JobFile::parse(&drawn.text, "drawn") {
            Ok(file) => file,
            Err(error) => {
                let unclear = |why: &str| {
                    why.ends_with("would depend on completions")
                        || why == "a file that is not laid out cannot be read"
                };
                if matches!(*error.kind, JobErrorKind::NotSupported { why, .. } if unclear(why)) {
                    self.unclear += 1;
                    return;
                }
                assert!(
                    matches!(*error.kind, JobErrorKind::Refused { .. }),
                    "job file {number}: {error}\n{}",
                    drawn.text
                );
                self.refused += 1;
                let requests: usize = chunks.iter().map(|chunk| chunk.lines.len()).sum();
                // fio refuses a single clone, the parser its whole file.
                let single = drawn.sections == 1 && !drawn.text.contains("numjobs");
                if single && requests > 0 {
                    eprintln!("job file {number}: {error}, but fio made {requests} requests");
                    eprintln!("{}", drawn.text);
                    self.different.push(number);
                }
                return;
            }
        };
        for log in 0..drawn.sections {
            let jobs: Vec<&Job> = file.jobs.iter().filter(|job| section_of(job) == log).collect();
            let found: Vec<&Chunk> = chunks.iter().filter(|chunk| chunk.log == log).collect();
            if let Err(why) = self.compare_clones(&jobs, &found, compat) {
                eprintln!("job file {number}, section {log}: {why}\n{}", drawn.text);
                self.different.push(number);
                return;
            }
        }
    }

    /// Clones write one log; each writes it in one piece, but in any order.
    fn compare_clones(
        &mut self,
        jobs: &[&Job],
        found: &[&Chunk],
        compat: Compat,
    ) -> Result<(), String> {
        if jobs.len() != found.len() {
            return Err(format!("{} jobs but {} logs", jobs.len(), found.len()));
        }
        let mut left: Vec<&&Chunk> = found.iter().collect();
        for job in jobs {
            let wanted = |chunk: &Chunk| stream(job, compat, chunk.lines.len() + 1);
            let same = |chunk: &Chunk| {
                let mut wanted = wanted(chunk);
                if job.time_based {
                    // Where the time ends is chance, and the syncs of the end follow there.
                    let made = |line: &Line| line.act == "read" || line.act == "write";
                    let end = chunk.lines.iter().rposition(made).map_or(0, |last| last + 1);
                    wanted.truncate(end);
                    return wanted == chunk.lines[..end];
                }
                wanted == chunk.lines
            };
            let Some(at) = left.iter().position(|chunk| same(chunk)) else {
                let names: Vec<&str> = job.files.iter().map(|file| file.name.as_str()).collect();
                let like = left.iter().find(|chunk| chunk.names == names).or(left.first());
                let like = like.map_or(Vec::new(), |chunk| chunk.lines.clone());
                return Err(difference(&like, &stream(job, compat, like.len() + 1), job));
            };
            let chunk = left.remove(at);
            self.jobs += 1;
            self.requests += chunk.lines.len() as u64;
        }
        Ok(())
    }
}

fn difference(found: &[Line], wanted: &[Line], job: &Job) -> String {
    let at = found.iter().zip(wanted).take_while(|(a, b)| a == b).count();
    let around = |lines: &[Line]| {
        let from = at.saturating_sub(3);
        format!("{:?}", lines.iter().skip(from).take(6).collect::<Vec<_>>())
    };
    format!(
        "job {} clone {}: request {at} of {}: fio {}, stream of at least {} {}, files {:?}",
        job.job_number,
        job.clone_number,
        found.len(),
        around(found),
        wanted.len(),
        around(wanted),
        job.files,
    )
}

/// One request or sync, with the name of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    file: String,
    act: &'static str,
    offset: u64,
    len: u64,
}

fn stream(job: &Job, compat: Compat, most: usize) -> Vec<Line> {
    let mut stream = job.stream(compat);
    let name = |file: u32| job.files[file as usize].name.clone();
    let mut lines = Vec::new();
    while lines.len() < most {
        lines.push(match stream.step(u64::MAX) {
            Action::Io(Io { file, offset, len, write }) => {
                let act = if write { "write" } else { "read" };
                Line { file: name(file), act, offset, len }
            }
            Action::Sync(Sync { file, kind }) => {
                let act = match kind {
                    SyncKind::Fsync | SyncKind::End { .. } => "sync",
                    SyncKind::Fdatasync => "datasync",
                    SyncKind::Close => continue,
                };
                Line { file: name(file), act, offset: 0, len: 0 }
            }
            Action::Wait(_) => panic!("at the end of time nothing waits"),
            Action::End => break,
        });
    }
    lines
}

/// The sections are named `j0`, `j1` and so on.
fn section_of(job: &Job) -> usize {
    job.name.trim_start_matches('j').parse().unwrap()
}

/// A running fio and its directory.
struct Run {
    child: Child,
    directory: PathBuf,
}

/// What one job logged.
struct Chunk {
    log: usize,
    names: Vec<String>,
    lines: Vec<Line>,
}

impl Run {
    fn start(text: &str, number: u64) -> Self {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let directory = base.join(format!("forebay-fio-{}-{number}", std::process::id()));
        fs::create_dir_all(directory.join("d")).unwrap();
        fs::create_dir_all(directory.join("e")).unwrap();
        fs::write(directory.join("job"), text).unwrap();
        // A job that fio would never finish must fail the test, not stop it. Such a fio does not
        // listen to the gentle signal.
        let child = Command::new("timeout")
            .args(["-s", "KILL", "20", "fio", "--output=/dev/null", "job"])
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, directory }
    }

    fn finish(mut self) -> Vec<Chunk> {
        self.child.wait().unwrap();
        let mut logs = BTreeMap::new();
        for entry in fs::read_dir(&self.directory).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "log") {
                let number: usize = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
                logs.insert(number, fs::read_to_string(&path).unwrap());
            }
        }
        fs::remove_dir_all(&self.directory).unwrap();
        logs.iter().flat_map(|(log, text)| chunks(*log, text)).collect()
    }
}

fn chunks(log: usize, text: &str) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    for line in text.lines() {
        if line == "fio version 3 iolog" {
            chunks.push(Chunk { log, names: Vec::new(), lines: Vec::new() });
            continue;
        }
        let chunk = chunks.last_mut().expect("a log starts with its header");
        match line.split(' ').collect::<Vec<_>>()[..] {
            [_, name, "add"] => chunk.names.push(name.to_owned()),
            [_, _, "open" | "close"] => {}
            [_, name, act, offset, len] => {
                let known = ["read", "write", "sync", "datasync"];
                let act = known.into_iter().find(|known| *known == act).unwrap();
                // What fio logs as the place of a sync is the place of some request before.
                let place = |text: &str| text.parse().unwrap();
                let (offset, len) =
                    if act.ends_with("sync") { (0, 0) } else { (place(offset), place(len)) };
                chunk.lines.push(Line { file: name.to_owned(), act, offset, len });
            }
            _ => panic!("line not understood: {line}"),
        }
    }
    chunks
}

fn installed() -> Option<Compat> {
    let output = Command::new("fio").arg("--version").output().ok()?;
    Some(Compat::for_version(&String::from_utf8_lossy(&output.stdout)))
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Runs of fio at a time: it waits more than it works.
const RUNS_AT_ONCE: usize = 8;

/// The numbers of the runs that check units start here.
const UNIT_RUNS: u64 = 1 << 40;
