//! Programs that write: a copy, temporary files, a file that is rewritten; with concurrent commits.

use anyhow::Result;

use super::files::fio;
use super::python::{PYTHON, last_number};
use super::rig::{Rig, Running};

/// Makes the database of the commits, and writes a little, so that the kernel knows the device's
/// rate.
pub(super) fn make_source(rig: &mut Rig<'_>) -> Result<()> {
    rig.run(&[PYTHON, "-c", COMMITS, &rig.path("db"), "1"])?;
    rig.order("slow")?;
    let warm = "dd if=/dev/zero of=\"$0\" bs=1M count=48 conv=fsync status=none && rm \"$0\"";
    rig.run(&["sh", "-c", warm, &rig.path("warm")])?;
    rig.order("reset")
}

/// Seconds of the longest commit during a copy.
pub(super) fn copy_commit(rig: &Rig<'_>, _: u64) -> Result<f64> {
    let commits = commits(rig)?;
    let copy = "dd if=/dev/zero of=\"$0\" bs=1M count=400 conv=fsync status=none";
    let copied = rig.run(&["sh", "-c", copy, &rig.path("copy")]);
    let longest = commits.end("TERM");
    rig.run(&["rm", "-f", &rig.path("copy")])?;
    copied?;
    last_number(&longest?)
}

/// Seconds of six files that are written and removed.
pub(super) fn temporary(rig: &Rig<'_>, _: u64) -> Result<f64> {
    let each = "for file in 1 2 3 4 5 6; do \
                dd if=/dev/zero of=\"$0$file\" bs=1M count=60 status=none && rm \"$0$file\"; done";
    rig.seconds(&["sh", "-c", each, &rig.path("temporary")])
}

/// The same with concurrent commits.
pub(super) fn temporary_commit(rig: &Rig<'_>, seed: u64) -> Result<f64> {
    let commits = commits(rig)?;
    let seconds = temporary(rig, seed);
    commits.end("TERM")?;
    seconds
}

/// MB in a second of a reader and writer of a file that is in memory.
pub(super) fn hot(rig: &Rig<'_>, seed: u64) -> Result<f64> {
    let (file, seed) = (format!("--filename={}", rig.path("hot")), format!("--randseed={seed}"));
    let words = ["--name=hot", "--rw=randrw", "--rwmixread=90", "--bs=4k", "--size=64m"];
    let rest = [
        "--ioengine=psync",
        "--time_based",
        "--runtime=8",
        "--norandommap",
        "--fallocate=none",
        "--fadvise_hint=0",
    ];
    let pace = ["--rate=,40m", "--invalidate=0", "--pre_read=1"];
    let read = fio(rig, &[&words[..], &rest, &pace, &[&file, &seed]].concat());
    rig.run(&["rm", "-f", &rig.path("hot")])?;
    read
}

/// The same with concurrent commits.
pub(super) fn hot_commit(rig: &Rig<'_>, seed: u64) -> Result<f64> {
    let commits = commits(rig)?;
    let read = hot(rig, seed);
    commits.end("TERM")?;
    read
}

/// Starts to commit, and waits until it does.
fn commits<'a>(rig: &Rig<'a>) -> Result<Running<'a>> {
    let running = rig.start(&[PYTHON, "-c", COMMITS, &rig.path("db"), "100000"])?;
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    Ok(running)
}

const COMMITS: &str = "
import signal, sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute('create table if not exists t(id integer primary key, v blob)')
is_over = False
def end(*_):
    global is_over
    is_over = True
signal.signal(signal.SIGTERM, end)
longest = 0
for _ in range(int(sys.argv[2])):
    begun = time.monotonic()
    db.execute('insert into t(v) values(zeroblob(2000))')
    longest = max(longest, time.monotonic() - begun)
    if is_over:
        break
    time.sleep(0.1)
print(longest)
";
