//! Numbers near the ends of their ranges take neither memory nor time without end.

use std::fmt::Write as _;
use std::fs::File;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{Scene, assert_refused, fed, printed, stderr, stdout};

/// Address space for a run that needs little: a few threads, the tables of a large page memory.
const MEBIBYTES: u64 = 2_048;

#[test]
fn a_plan_of_a_huge_file_is_no_longer_than_its_script() {
    let scene = Scene::new();
    let script = "r 0 4096\nr 4096 4096\nr 9223372036854775806 1\nf 3\nf 4\nt 0\nd\n";
    let mut plans = String::new();
    for policy in ["off", "linux-2.6.7", "request-size", "linux-6.18"] {
        for size in ["1T", "9223372036854775807"] {
            // Advice to read the whole file is limited by memory in 2.6, which takes a while.
            let script = if policy == "linux-6.18" {
                script.to_owned()
            } else {
                script.replace("f 3\n", "")
            };
            let line = format!("plan --policy readahead={policy} --file-size {size}");
            let output = fed(scene.limited(MEBIBYTES, &line), &script);
            assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{line}");
            write!(plans, "$ forebay {line}\n{}\n", stdout(&output)).expect("a string takes text");
        }
    }
    crate::support::matches(&plans, "plan_huge.txt");
}

#[test]
fn a_read_ahead_limit_beyond_the_policy_is_refused() {
    let scene = Scene::new();
    for policy in
        ["fixed", "linux-2.6.7", "request-size", "linux-2.6.21", "linux-6.12", "linux-6.18"]
    {
        let line = format!("plan --policy readahead={policy} --ra-kb 1099511627776");
        let output = fed(scene.limited(MEBIBYTES, &line), "r 0 4096\n");
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{line}");
        let said = "error: --ra-kb: 'max' takes a number from ";
        assert!(stderr(&output).starts_with(said), "{line}: {}", stderr(&output));
    }
}

/// Page memory reserved its tables for all of its frames at once, and `run` wrote to one of them:
/// a petabyte of page cache ended the program, 15 TiB filled the computer. Both grow with use.
#[test]
fn page_memory_may_be_larger_than_this_computer() {
    let scene = Scene::new().file("job", "[a]\nrw=read\nsize=1M\n").file("file", vec![7; 1 << 20]);
    printed(scene.limited(MEBIBYTES, "simulate job --set memory.page_cache=1000TB"));
    printed(scene.limited(MEBIBYTES, "run job --on file --policy dispatch=inline --memory 15T"));
}

#[test]
fn a_file_as_large_as_the_device_costs_what_is_read_of_it() {
    let text = "[a]\nrw=randread\nnorandommap\nsize=400T\nnumber_ios=20\n";
    let scene = Scene::new().file("job", text);
    printed(scene.limited(MEBIBYTES, "simulate job --set device.capacity=1000TB"));
}

/// Two hundred maps of 32 MiB each ended the program when memory did.
#[test]
fn random_maps_are_limited_together() {
    let text = "[a]\nrw=randread\nsize=1T\nnumber_ios=10\nnumjobs=200\n";
    let mut scene = Scene::new().file("job", text);
    scene.refused("simulate job --set device.capacity=1000TB");
    scene.matches("random_maps.txt");
}

/// Each request in flight is a task: four thousand jobs could request 10^12 of them.
#[test]
fn requests_in_flight_are_limited() {
    let most = "[a]\nrw=randread\nsize=64k\nioengine=io_uring\niodepth=1023\nnumjobs=64\n";
    let mut scene = Scene::new().file("most", most).file(
        "many",
        "[a]\nrw=read\nsize=64k\nioengine=io_uring\niodepth=2147483647\nnumjobs=4096\n",
    );
    printed(scene.limited(MEBIBYTES, "simulate most"));
    scene.refused("simulate many").matches("in_flight.txt");
}

/// A block of 3 GiB ended the program when memory did: each read in flight has its own buffer.
#[test]
fn buffers_of_a_real_run_are_limited_together() {
    let mut scene = Scene::new().file("job", "[a]\nrw=read\nsize=8G\nbs=5G\n").file("file", "");
    let deep = "[a]\nrw=read\nsize=1G\nbs=1M\nioengine=io_uring\niodepth=5000\n";
    let file = File::options().write(true).open(scene.path("file")).expect("the file is there");
    file.set_len(8 << 30).expect("a file may have a hole");
    scene.refused("run job --on file").refused_reading(deep, "run - --on file");
    scene.matches("buffers.txt");
}

/// With calls that took no time, a job that was to run for a second ran for ever.
#[test]
fn a_call_takes_time() {
    let text = "[a]\nrw=read\nsize=8k\ntime_based\nruntime=1ms\n";
    let mut scene = Scene::new().file("job", text);
    let free = "--set cpu.page_lookup=0 --set cpu.copy_rate=1e15 --set cpu.context_switch=0";
    printed(scene.limited(MEBIBYTES, &format!("simulate job {free} --set cpu.syscall=1")));
    scene.refused(&format!("simulate job {free} --set cpu.syscall=0")).matches("free_calls.txt");
}

/// A job that waits past the end of the clock waited for ever.
#[test]
fn a_job_longer_than_the_clock_is_refused() {
    let mut scene = Scene::new()
        .file("rate", "[a]\nrw=read\nbs=1g\nsize=30g\nrate=1\n")
        .file("thinktime", "[a]\nrw=randread\nbs=4k\nsize=1m\nthinktime=2000d\n")
        .file("startdelay", "[a]\nrw=read\nsize=8k\nstartdelay=18446744073709551us\n");
    scene
        .refused("simulate rate")
        .refused("simulate thinktime")
        .refused("simulate startdelay")
        .matches("past_clock.txt");
}

#[test]
fn many_jobs_and_files_are_no_trouble() {
    let scene = Scene::new()
        .file("jobs", "[a]\nrw=randread\nsize=64k\nnumjobs=500\n")
        .file("files", "[a]\nrw=read\nsize=40M\nnrfiles=10000\n")
        .file("deep", "[a]\nrw=randread\nsize=4M\nioengine=io_uring\niodepth=1024\n")
        .file("large", "[a]\nrw=read\nsize=64M\nbs=64M\n")
        .file("file", vec![3; 4 << 20]);
    printed(scene.limited(MEBIBYTES, "simulate jobs"));
    printed(scene.limited(MEBIBYTES, "simulate files"));
    printed(scene.limited(MEBIBYTES, "simulate large --set memory.page_cache=1MiB"));
    printed(scene.limited(MEBIBYTES, "simulate deep"));
    printed(
        scene.limited(
            MEBIBYTES,
            "run deep --on file --verify --memory 64k --policy dispatch=inline",
        ),
    );
}

#[test]
fn a_runtime_beyond_the_end_of_time_ends_with_its_job() {
    let text = "[a]\nrw=read\nsize=8k\nruntime=18446744073709551us\n";
    let scene = Scene::new().file("job", text);
    printed(scene.limited(MEBIBYTES, "simulate job"));
}

#[test]
fn the_largest_seed_is_a_seed() {
    let scene = Scene::new().file("job", "[a]\nrw=randread\nsize=1M\n");
    printed(scene.limited(MEBIBYTES, "simulate job --seed 18446744073709551615"));
    let line = "reproduce readahead --draws 2 --format csv --seed 18446744073709551615";
    let table = printed(scene.limited(2 * MEBIBYTES, line));
    assert!(table.lines().skip(1).all(|row| row.ends_with(",18446744073709551615")));
    for seed in ["18446744073709551616", "-1", "x"] {
        let line = format!("simulate job --seed={seed}");
        assert_refused(&line, &scene.command(&line).output().expect("the program runs"));
    }
}

#[test]
fn a_source_without_end_is_no_text() {
    let scene = Scene::new().file("job", "[a]\nrw=read\nsize=8k\n");
    for line in [
        "simulate /dev/zero",
        "machines /dev/zero",
        "plan --policy readahead=off --script /dev/zero",
        "tune --dry-run --policy /dev/zero",
    ] {
        let output = scene.limited(MEBIBYTES, line).output().expect("the program runs");
        assert_refused(line, &output);
    }
    for line in ["simulate -", "plan --policy readahead=off"] {
        let zeros = File::open("/dev/zero").expect("Linux has /dev/zero");
        let output = scene.limited(MEBIBYTES, line).stdin(zeros).output();
        assert_refused(line, &output.expect("the program runs"));
    }
}

#[test]
fn a_pipe_without_a_writer_is_refused_and_not_waited_for() {
    let mut scene = Scene::new().file("job", "[a]\nrw=read\nsize=8k\n");
    std::fs::create_dir(scene.path("folder")).expect("a scratch folder can be made");
    let (kind, mode) = (FileType::Fifo, Mode::from_raw_mode(0o600));
    mknodat(CWD, scene.path("pipe"), kind, mode, 0).expect("a pipe can be made");
    for line in [
        "simulate pipe",
        "simulate job --machine ./pipe",
        "machines ./pipe",
        "plan --policy readahead=off --script pipe",
        "run job --on pipe",
        "tune --dry-run --policy pipe",
        "image info pipe",
        "image compare pipe pipe",
        "mount pipe folder",
        "simulate job --html pipe",
    ] {
        scene.refused(line);
    }
    scene.matches("pipes.txt");
}
