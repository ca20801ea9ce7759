//! Events of the running kernel about a file system of the test's own.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use forebay_core::time::Instant;
use forebay_live::number::DevNumber;
use forebay_live::pattern::{Pattern, Patterns};
use forebay_live::trace::{Event, Scope, TraceError, Tracer, What};
use rustix::time::{ClockId, clock_gettime};

use crate::disk::{Disk, forget, key};

#[test]
fn readers_of_a_file_are_recognised() {
    let Some((disk, mut tracer)) = traced("readers_of_a_file_are_recognised") else { return };
    disk.set("read_ahead_kb", 128);
    let names = ["random faults", "sequential reads", "random reads", "sequential faults"];
    let files = names.map(|name| disk.file(name, 32));
    // So large that hardly a fault meets what an earlier one brought in; holes are read too.
    files[0].set_len(128 * PAGES * 4096).unwrap();
    tracer.drain(&mut |_| {}).unwrap();
    let begin = now();

    let reopened = |file: &File| File::open(format!("/proc/self/fd/{}", fd(file))).unwrap();
    let [faults, stream, reads, walk] = files.each_ref().map(reopened);
    fault(&faults, (0..400).map(|step| scattered(step, 128 * PAGES)));
    let mut buffer = vec![0; 64 << 10];
    while (&stream).read(&mut buffer).unwrap() > 0 {}
    for step in 0..200 {
        reads
            .read_exact_at(&mut buffer[..16 << 10], 4 * scattered(step, PAGES / 4) * 4096)
            .unwrap();
    }
    fault(&walk, 0..PAGES);

    let mut patterns = Patterns::new();
    let drained = tracer.drain(&mut |event| {
        assert!((begin..=now()).contains(&event.at), "{event:?} from {begin}");
        patterns.record(&event);
    });
    let drained = drained.unwrap();
    assert_eq!(drained.lost, 0);
    let seen: Vec<_> = patterns.settle(Instant(now())).to_vec();
    let find = |file: &File| *seen.iter().find(|seen| seen.file == key(file)).unwrap();
    let found = files.each_ref().map(find);
    let expected = [
        Pattern::RandomFaults,
        Pattern::Stream,
        Pattern::RandomReads { request: 4 },
        Pattern::Stream,
    ];
    for ((name, seen), expected) in names.iter().zip(&found).zip(expected) {
        eprintln!("{name}: {:?} {:?}", seen.pattern, seen.counts);
        assert_eq!(seen.pattern, expected, "{name}: {:?}", seen.counts);
        let threads: Vec<u32> = seen.threads.iter().map(|seen| seen.thread).collect();
        assert_eq!(threads, [thread()], "{name}");
    }
    assert_eq!(found[0].window, 32);
    // A window of 32 pages for each page; of streams nearly all is used.
    let amplification = found.map(|seen| seen.counts.amplification().unwrap());
    assert!((2_000..=3_300).contains(&amplification[0]), "{amplification:?}");
    assert!(amplification[1..].iter().all(|share| *share < 110), "{amplification:?}");
}

#[test]
fn nothing_is_recorded_while_the_tracer_pauses_nor_out_of_scope() {
    let test = "nothing_is_recorded_while_the_tracer_pauses_nor_out_of_scope";
    let Some((disk, mut tracer)) = traced(test) else { return };
    let file = disk.file("file", 1);
    let events = |tracer: &mut Tracer| {
        forget(&file);
        file.read_exact_at(&mut [0; 4096], 0).unwrap();
        tracer.drain(&mut |_| {}).unwrap().events
    };
    assert!(events(&mut tracer) > 0);
    tracer.pause().unwrap();
    assert_eq!(events(&mut tracer), 0);
    tracer.resume().unwrap();
    assert!(events(&mut tracer) > 0);
    let elsewhere = Scope { devices: vec![DevNumber { major: 4000, minor: 1 }], threads: vec![] };
    tracer.set_scope(&elsewhere).unwrap();
    assert_eq!(events(&mut tracer), 0);
    let others = Scope { devices: vec![disk.number()], threads: vec![thread() + 1] };
    tracer.set_scope(&others).unwrap();
    assert_eq!(events(&mut tracer), 0);
    let me = Scope { devices: vec![disk.number()], threads: vec![thread()] };
    tracer.set_scope(&me).unwrap();
    assert!(events(&mut tracer) > 0);
}

#[test]
fn a_writer_that_is_throttled_is_seen_with_its_pauses() {
    let test = "a_writer_that_is_throttled_is_seen_with_its_pauses";
    let Some((disk, mut tracer)) = traced(test) else { return };
    disk.set("strict_limit", 1);
    // Some megabytes of the machine's limit.
    disk.set("max_ratio_fine", 1_000);
    let mut pauses = Vec::new();
    for round in 0..20 {
        disk.file(&format!("file {round}"), 8);
        let mut note = |event: Event| match event.what {
            What::Pause(pause) => pauses.push((event.pid, pause)),
            What::Bandwidth { .. } | What::Readahead(_) | What::Sync { .. } => {}
        };
        tracer.drain(&mut note).unwrap();
        if !pauses.is_empty() {
            break;
        }
    }
    assert!(!pauses.is_empty());
    for (pid, pause) in pauses {
        assert_eq!((pid, pause.bdi), (thread(), disk.number()));
        assert!((1..=200).contains(&pause.pause_ms), "{pause:?}");
    }
}

#[test]
fn a_file_that_is_made_durable_is_seen_with_its_file_system() {
    let test = "a_file_that_is_made_durable_is_seen_with_its_file_system";
    let Some((disk, mut tracer)) = traced(test) else { return };
    let file = disk.file("file", 1);
    let syncs = |tracer: &mut Tracer| {
        let mut seen = Vec::new();
        let mut note = |event: Event| {
            if let What::Sync { dev } = event.what {
                seen.push((event.pid, dev));
            }
        };
        tracer.drain(&mut note).unwrap();
        seen
    };
    syncs(&mut tracer);
    file.write_all_at(b"new", 0).unwrap();
    assert_eq!(syncs(&mut tracer), [], "not by being written");
    file.sync_data().unwrap();
    assert_eq!(syncs(&mut tracer), [(thread(), disk.number())]);
}

#[test]
fn events_that_are_overwritten_are_counted_as_lost() {
    let test = "events_that_are_overwritten_are_counted_as_lost";
    let Some((disk, mut tracer)) = traced(test) else { return };
    disk.set("read_ahead_kb", 4);
    let file = disk.file("file", 32);
    // Two events each, of 140 bytes together, are more than both processors' buffers hold.
    for page in 0..PAGES {
        file.read_exact_at(&mut [0; 4096], scattered(page, PAGES) * 4096).unwrap();
    }
    let lost = tracer.drain(&mut |_| {}).unwrap().lost;
    assert!(lost > 0);
}

/// A file system whose events are recorded; none if there is none, which is said.
fn traced(test: &str) -> Option<(Disk, Tracer)> {
    let disk = Disk::new(test, 300)?;
    match Tracer::new(&Scope { devices: vec![disk.number()], threads: vec![] }) {
        Ok(tracer) if tracer.absent().is_empty() => Some((disk, tracer)),
        Ok(tracer) => {
            eprintln!("skip: {test}: needs the events {}", tracer.absent().join(", "));
            None
        }
        Err(error @ (TraceError::NoTracefs(_) | TraceError::NoEvents)) => {
            eprintln!("skip: {test}: needs tracefs with events of readahead: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Touches pages of a file through a mapping.
fn fault(file: &File, pages: impl Iterator<Item = u64>) {
    // SAFETY: no other process has the file, and it keeps its length.
    let map = unsafe { memmap2::Mmap::map(file) }.expect("a file can be mapped");
    let sum: u64 = pages.map(|page| u64::from(map[page as usize * 4096])).sum();
    std::hint::black_box(sum);
}

/// The same numbers in every run, each once, in no order.
fn scattered(step: u64, of: u64) -> u64 {
    step * 500_009 % of
}

fn fd(file: &File) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(file)
}

fn thread() -> u32 {
    rustix::thread::gettid().as_raw_pid().cast_unsigned()
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).cast_unsigned()
}

/// Pages of a file of 32 MiB.
const PAGES: u64 = 8192;
