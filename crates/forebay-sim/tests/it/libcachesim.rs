//! Reclaim policies compared with libCacheSim: the same requests give the same hits, one by one.
//!
//! Its Python package is `libcachesim` (`pip install libcachesim`, tried with 0.3.5).

use std::io::Write as _;
use std::process::{Command, Stdio};

use forebay_core::block::QueueConfig;
use forebay_core::engine::{Config, Engine};
use forebay_core::io::{Input, Op, Output};
use forebay_core::readahead;
use forebay_core::reclaim;
use forebay_core::time::Instant;
use forebay_core::units::{CallId, PAGE_SIZE};
use forebay_sim::rng::Rng;

/// Prints, for the requests on its input and a cache of the given number of objects, a line of hits
/// and misses for LRU and one for S3-FIFO.
const SCRIPT: &str = r#"
import sys, libcachesim
frames, requests = int(sys.argv[1]), sys.stdin.read().split()
for cache in (libcachesim.LRU(cache_size=frames), libcachesim.S3FIFO(cache_size=frames)):
    request = libcachesim.Request()
    request.obj_size = 1
    hits = []
    for page in requests:
        request.obj_id = int(page)
        hits.append("1" if cache.get(request) else "0")
    print("".join(hits))
"#;

/// Pages of the file.
const PAGES: u64 = 3_000;

/// A hit or a miss for each request, under a policy of the engine.
fn ours(policy: &str, frames: u32, requests: &[u64]) -> String {
    let mut engine = Engine::new(Config { frames, calls_max: 1 });
    engine.set_reclaim(reclaim::Spec::parse(policy).expect("the policy exists").build());
    let device = engine.add_device(QueueConfig { plug: None, ..QueueConfig::default() });
    let file = engine.add_file(device, PAGES * PAGE_SIZE, 0);
    let handle =
        engine.open(file, readahead::Spec::parse("off").expect("the policy exists").build());
    let call = CallId(0);
    let mut line = String::new();
    for page in requests {
        line.push(if engine.is_resident(file, *page) { '1' } else { '0' });
        let op = Op::Read { handle, offset: page * PAGE_SIZE, len: PAGE_SIZE };
        let mut inputs = vec![Input::Call(call, op)];
        while let Some(input) = inputs.pop() {
            engine.handle(Instant::ZERO, input);
            while let Some(output) = engine.poll_output() {
                match output {
                    Output::Submit(request) => inputs.push(Input::Done(request.id, Ok(()), None)),
                    Output::Wake(call) => inputs.push(Input::Resume(call)),
                    Output::Copy(_) | Output::Reply(..) => {}
                    Output::Pause(..) | Output::Gather(_) | Output::Decode(_) => {
                        panic!("a read of a plain file asks for none")
                    }
                }
            }
        }
        engine.check();
    }
    line
}

/// The same by libCacheSim, for LRU and S3-FIFO; nothing if it is not there.
fn theirs(frames: u32, requests: &[u64]) -> Option<[String; 2]> {
    let mut python = Command::new("python3")
        .args(["-c", SCRIPT, &frames.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let text: Vec<String> = requests.iter().map(u64::to_string).collect();
    // A Python without the package ends without reading.
    let mut input = python.stdin.take().expect("it was piped");
    let sent = input.write_all(text.join(" ").as_bytes());
    drop(input);
    let output = python.wait_with_output().expect("it was started");
    if !output.status.success() {
        return None;
    }
    sent.expect("a script that ended well has read all");
    let text = String::from_utf8(output.stdout).expect("it prints digits");
    let mut lines = text.lines().map(str::to_owned);
    Some([lines.next()?, lines.next()?])
}

/// Requests in which few pages are frequent, with scans between them.
fn requests(seed: u64, scans: bool) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    let mut all = Vec::new();
    while all.len() < 20_000 {
        if scans && rng.chance(2_000) {
            let first = rng.below(PAGES / 2);
            all.extend(first..first + rng.below(PAGES / 2));
            continue;
        }
        // The least of three is small more often than not.
        let page = (0..3).map(|_| rng.below(PAGES)).min().unwrap_or(0);
        all.push(page * page / PAGES);
    }
    all
}

#[test]
fn lru_and_s3_fifo_hit_and_miss_as_in_libcachesim() {
    for (seed, frames) in (1..).zip([20, 64, 100, 333, 1_000]) {
        let requests = requests(seed, seed % 2 == 0);
        let Some(theirs) = theirs(frames, &requests) else {
            eprintln!("skip: hits beside libCacheSim: needs its package; pip install libcachesim");
            return;
        };
        for (policy, theirs) in ["lru", "s3-fifo"].into_iter().zip(theirs) {
            let ours = ours(policy, frames, &requests);
            let differs = ours.bytes().zip(theirs.bytes()).position(|(one, other)| one != other);
            let hits = |line: &str| line.bytes().filter(|&digit| digit == b'1').count();
            assert_eq!(differs, None, "{policy}, {frames} frames: the first request that differs");
            assert_eq!(hits(&ours), hits(&theirs), "{policy}, {frames} frames");
            assert_eq!(ours.len(), requests.len());
            assert!(hits(&ours) > 1_000, "the requests tell policies apart");
        }
    }
}
