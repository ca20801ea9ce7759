//! Mapped files: many at once, one in two ways, one of several processes.

use anyhow::Result;

use super::python::{PYTHON, last_number, number};
use super::rig::Rig;

/// Makes 200 files.
pub(super) fn make_many(rig: &mut Rig<'_>) -> Result<()> {
    (0..200).try_for_each(|file| rig.order(&format!("fill file{file} {}", 40_u64 << 20)))
}

/// Makes one file.
pub(super) fn make_one(rig: &mut Rig<'_>) -> Result<()> {
    rig.order(&format!("fill file {}", 2_u64 << 30))
}

/// Touches in 12 s.
pub(super) fn many(rig: &Rig<'_>, seed: u64) -> Result<f64> {
    number(rig, MANY, &[&rig.path("file"), "200", "12", &seed.to_string()])
}

/// Random touches in 5 s after a scan of 3 s.
pub(super) fn phases_random(rig: &Rig<'_>, seed: u64) -> Result<f64> {
    last_number(&phases(rig, seed)?)
}

/// MB of the scan.
pub(super) fn phases_scan(rig: &Rig<'_>, seed: u64) -> Result<f64> {
    let said = phases(rig, seed)?;
    last_number(said.lines().next().unwrap_or_default())
}

fn phases(rig: &Rig<'_>, seed: u64) -> Result<String> {
    rig.run(&[PYTHON, "-c", PHASES, &rig.path("file"), "3", "5", &seed.to_string()])
}

/// Touches of four workers of one description in 10 s.
pub(super) fn forked(rig: &Rig<'_>, seed: u64) -> Result<f64> {
    number(rig, FORKED, &[&rig.path("file"), "4", "10", &seed.to_string(), "shared"])
}

/// Touches of sixteen workers in 10 s, each of which opens the file.
pub(super) fn opened(rig: &Rig<'_>, seed: u64) -> Result<f64> {
    number(rig, FORKED, &[&rig.path("file"), "16", "10", &seed.to_string(), "own"])
}

const MANY: &str = "
import mmap, os, random, sys, time
path, count, seconds, seed = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
maps = []
for number in range(count):
    fd = os.open(path + str(number), os.O_RDONLY)
    maps.append(mmap.mmap(fd, 0, prot=mmap.PROT_READ))
    os.close(fd)
draw, touches, end = random.Random(seed), 0, time.monotonic() + seconds
while time.monotonic() < end:
    one = maps[draw.randrange(count)]
    one[draw.randrange(len(one))]
    touches += 1
print(touches)
";

const PHASES: &str = "
import mmap, os, random, sys, time
path, scan, rest, seed = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
fd = os.open(path, os.O_RDONLY)
one = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
at, end = 0, time.monotonic() + scan
while time.monotonic() < end and at < len(one):
    one[at]
    at += 4096
print(at / 1e6)
# The scan has cached what lies before.
first, touches, end = at // 4096, 0, time.monotonic() + rest
draw = random.Random(seed)
while time.monotonic() < end:
    one[draw.randrange(first, len(one) // 4096) * 4096]
    touches += 1
print(touches)
";

const FORKED: &str = "
import mmap, os, random, sys, time
path, count, seconds, seed = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
is_own = sys.argv[5] == 'own'
fd = os.open(path, os.O_RDONLY)
one = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
pipes = []
for number in range(count):
    out, into = os.pipe()
    if os.fork() == 0:
        if is_own:
            one.close()
            os.close(fd)
            fd = os.open(path, os.O_RDONLY)
            one = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        draw, touches, end = random.Random(seed * 100 + number), 0, time.monotonic() + seconds
        while time.monotonic() < end:
            one[draw.randrange(len(one) // 4096) * 4096]
            touches += 1
        os.write(into, b'%d' % touches)
        os._exit(0)
    os.close(into)
    pipes.append(out)
for _ in pipes:
    os.wait()
print(sum(int(os.read(out, 64)) for out in pipes))
";
