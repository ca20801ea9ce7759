//! Databases: LMDB, SQLite, PostgreSQL, RocksDB.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::python::number;
use super::rig::Rig;

/// Programs and packages.
pub(super) const LMDB: &[(&str, &str)] = &[("mdb_stat", "lmdb-utils python3-lmdb")];
pub(super) const POSTGRES: &[(&str, &str)] = &[("psql", "postgresql"), ("runuser", "util-linux")];
pub(super) const ROCKSDB: &[(&str, &str)] = &[("db_bench", "rocksdb-tools")];

/// Makes an environment with four million values of 900 bytes: far more than the device reads in a
/// round, or large windows would soon have all of it in memory.
pub(super) fn make_lmdb(rig: &mut Rig<'_>) -> Result<()> {
    number(rig, LMDB_MAKE, &[&rig.path("lmdb"), "4000000"]).map(drop)
}

/// Gets in 12 s.
pub(super) fn lmdb(rig: &Rig<'_>, seed: u64) -> Result<f64> {
    number(rig, LMDB_GETS, &[&rig.path("lmdb"), "4000000", "12", &seed.to_string()])
}

/// Makes a table of two million rows of 900 bytes: no more than SQLite maps.
pub(super) fn make_sqlite(rig: &mut Rig<'_>) -> Result<()> {
    number(rig, SQLITE_MAKE, &[&rig.path("db"), "2000000"]).map(drop)
}

/// Makes a table of four million rows of 900 bytes.
pub(super) fn make_large_sqlite(rig: &mut Rig<'_>) -> Result<()> {
    number(rig, SQLITE_MAKE, &[&rig.path("db"), "4000000"]).map(drop)
}

/// Lookups in 8 s through a mapping.
pub(super) fn sqlite_mapped(rig: &Rig<'_>, seed: u64) -> Result<f64> {
    number(rig, SQLITE_READS, &[&rig.path("db"), "2000000", "8", &seed.to_string(), "lookups"])
}

/// Rows of ranges and lookups in 8 s through pread.
pub(super) fn sqlite_ranges(rig: &Rig<'_>, seed: u64) -> Result<f64> {
    number(rig, SQLITE_READS, &[&rig.path("db"), "4000000", "8", &seed.to_string(), "ranges"])
}

/// Makes a cluster with pgbench's tables at scale 40 and a file that is scanned concurrently.
pub(super) fn make_postgres(rig: &mut Rig<'_>) -> Result<()> {
    let (folder, socket) = (rig.path("pg"), rig.path("run"));
    for path in [&folder, &socket] {
        rig.run(&["install", "-d", "-o", "postgres", "-m", "700", path])?;
    }
    rig.order(&format!("fill scanned {}", 1_200_u64 << 20))?;
    let bin = postgres_programs()?;
    let program = |name: &str| bin.join(name).display().to_string();
    rig.run_as("postgres", &[&program("initdb"), "-D", &folder, "-A", "trust", "-N"])?;
    let server = start_postgres(rig)?;
    let words = ["-h", &socket, "-i", "-q", "-s", "40", "postgres"];
    let pgbench = program("pgbench");
    rig.run_as("postgres", &[&[pgbench.as_str()], &words[..]].concat())?;
    server.end("INT").map(drop)
}

/// Transactions a second of `pgbench -S` while another program reads a large file.
pub(super) fn postgres(rig: &Rig<'_>, seed: u64) -> Result<f64> {
    let server = start_postgres(rig)?;
    let pgbench = postgres_programs()?.join("pgbench").display().to_string();
    let (socket, scanned) = (rig.path("run"), rig.path("scanned"));
    let scan = rig.start(&["cat", &scanned])?;
    let seed = format!("--random-seed={seed}");
    let words = [&pgbench, "-h", &socket, "-S", "-n", "-c", "4", "-T", "12", &seed, "postgres"];
    let said = rig.run_as("postgres", &words);
    drop(scan);
    let ended = server.end("INT");
    let said = said?;
    ended?;
    let line = said.lines().find_map(|line| line.strip_prefix("tps = "));
    let tps = line.and_then(|line| line.split(' ').next()).context("pgbench says no tps")?;
    Ok(tps.parse()?)
}

/// Makes a database of a million values of 900 bytes.
pub(super) fn make_rocksdb(rig: &mut Rig<'_>) -> Result<()> {
    rig.run(&rocksdb_words(&rig.path("rocks"), &["--benchmarks=fillseq,compact", "--threads=1"]))
        .map(drop)
}

/// Random reads a second.
pub(super) fn rocksdb_random(rig: &Rig<'_>, seed: u64) -> Result<f64> {
    rocksdb(rig, seed, "readrandom")
}

/// Ranges of 50 entries a second.
pub(super) fn rocksdb_seek(rig: &Rig<'_>, seed: u64) -> Result<f64> {
    rocksdb(rig, seed, "seekrandom")
}

fn rocksdb(rig: &Rig<'_>, seed: u64, benchmark: &str) -> Result<f64> {
    let (path, seed) = (rig.path("rocks"), format!("--seed={seed}"));
    let benchmarks = format!("--benchmarks={benchmark}");
    let words = [
        benchmarks.as_str(),
        "--use_existing_db=1",
        "--threads=4",
        "--duration=10",
        "--seek_nexts=50",
        "--cache_size=8388608",
        "--readonly=1",
        &seed,
    ];
    let said = rig.run(&rocksdb_words(&path, &words))?;
    // readrandom   :     317.2 micros/op 12604 ops/sec ...
    let line = said.lines().find(|line| line.starts_with(benchmark)).context("no result")?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let place = words.iter().position(|word| word.starts_with("ops/sec")).context("no ops/sec")?;
    Ok(words[place - 1].parse()?)
}

fn rocksdb_words<'a>(path: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let common = ["--num=1000000", "--value_size=900", "--compression_type=none"];
    [&["db_bench", "--db", path][..], &common, more].concat()
}

/// Starts the server and waits until it answers.
fn start_postgres<'a>(rig: &Rig<'a>) -> Result<super::rig::Running<'a>> {
    let bin = postgres_programs()?;
    let (folder, socket) = (rig.path("pg"), rig.path("run"));
    let server = bin.join("postgres").display().to_string();
    let ready = bin.join("pg_isready").display().to_string();
    let small = "shared_buffers=16MB";
    let words = [&server, "-D", &folder, "-k", &socket, "-h", "", "-c", small, "-c", "fsync=off"];
    let server = rig.start_as("postgres", &words)?;
    let wait = "for _ in $(seq 200); do \"$0\" -q -h \"$1\" && exit; sleep 0.1; done; exit 1";
    rig.run(&["sh", "-c", wait, &ready, &socket]).context("the server does not answer")?;
    Ok(server)
}

/// Where Debian has the server's programs, of the newest version.
fn postgres_programs() -> Result<PathBuf> {
    let all = std::fs::read_dir("/usr/lib/postgresql").context("apt-get install postgresql")?;
    let paths = all.flatten().map(|entry| entry.path().join("bin"));
    paths.filter(|path| path.join("postgres").exists()).max().context("no server of PostgreSQL")
}

const LMDB_MAKE: &str = "
import lmdb, os, random, sys
path, count = sys.argv[1], int(sys.argv[2])
env = lmdb.open(path, map_size=8 << 30, sync=False)
value = random.Random(1).randbytes(900)
for start in range(0, count, 50000):
    with env.begin(write=True) as txn:
        for key in range(start, min(start + 50000, count)):
            txn.put(b'%012d' % key, value, append=True)
env.sync(True)
env.close()
print(count)
";

const LMDB_GETS: &str = "
import lmdb, random, sys, time
path, count, seconds, seed = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
# Without the library's own advice, as most programs open it.
env = lmdb.open(path, map_size=8 << 30, readonly=True, lock=False, readahead=True)
draw, gets, end = random.Random(seed), 0, time.monotonic() + seconds
while time.monotonic() < end:
    with env.begin() as txn:
        assert len(txn.get(b'%012d' % draw.randrange(count))) == 900
    gets += 1
print(gets)
";

const SQLITE_MAKE: &str = "
import random, sqlite3, sys
path, count = sys.argv[1], int(sys.argv[2])
db = sqlite3.connect(path)
db.execute('pragma journal_mode=off')
db.execute('pragma synchronous=off')
db.execute('create table t(id integer primary key, v blob)')
value = random.Random(1).randbytes(900)
db.executemany('insert into t values(?, ?)', ((i, value) for i in range(count)))
db.commit()
db.close()
print(count)
";

const SQLITE_READS: &str = "
import random, sqlite3, sys, time
path, count, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
draw, what = random.Random(int(sys.argv[4])), sys.argv[5]
db = sqlite3.connect('file:%s?mode=ro&immutable=1' % path, uri=True)
db.execute('pragma mmap_size=%d' % (2 << 30 if what == 'lookups' else 0))
db.execute('pragma cache_size=-4096')
one = 'select length(v) from t where id = ?'
many = 'select sum(length(v)) from t where id between ? and ?'
rows, end = 0, time.monotonic() + seconds
while time.monotonic() < end:
    for _ in range(4):
        assert db.execute(one, (draw.randrange(count),)).fetchone()[0] == 900
        rows += 1
    if what == 'ranges':
        first = draw.randrange(count - 200)
        assert db.execute(many, (first, first + 199)).fetchone()[0] == 200 * 900
        rows += 200
print(rows)
";
