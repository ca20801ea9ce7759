//! Programs that read files: fio, tar, cp, sha256sum, cat, ripgrep.

use anyhow::{Context, Result};

use super::rig::Rig;

/// Programs and packages.
pub(super) const FIO: &[(&str, &str)] = &[("fio", "fio")];

/// Makes a folder with 40 files of 20 MB.
pub(super) fn make_folder(rig: &mut Rig<'_>) -> Result<()> {
    rig.run(&["mkdir", &rig.path("folder")])?;
    (0..40).try_for_each(|file| rig.order(&format!("fill folder/file{file} {}", 20_u64 << 20)))
}

/// Makes a file of 800 MB.
pub(super) fn make_stream(rig: &mut Rig<'_>) -> Result<()> {
    rig.order(&format!("fill stream {}", 800_u64 << 20))
}

/// MB in a second of runs of eight reads.
pub(super) fn fio_runs(rig: &Rig<'_>, seed: u64) -> Result<f64> {
    let (file, seed) = (format!("--filename={}", rig.path("file")), format!("--randseed={seed}"));
    let words = ["--name=runs", "--rw=randread:8", "--bs=64k", "--ioengine=psync", "--size=2g"];
    let rest = ["--time_based", "--runtime=10", "--readonly", "--norandommap", "--fadvise_hint=0"];
    fio(rig, &[&words[..], &rest, &[&file, &seed]].concat())
}

/// Seconds of `tar`, which leaves reading out if it sees that nothing is written.
pub(super) fn tar(rig: &Rig<'_>, _: u64) -> Result<f64> {
    rig.seconds(&[
        "sh",
        "-c",
        "tar -cf - \"$0\" 2> /dev/null | cat > /dev/null",
        &rig.path("folder"),
    ])
}

/// Seconds of `cp` to memory.
pub(super) fn cp(rig: &Rig<'_>, _: u64) -> Result<f64> {
    let seconds = rig.seconds(&["cp", &rig.path("stream"), COPY]);
    let removed = rig.run(&["rm", "-f", COPY]);
    removed.and(seconds)
}

/// Seconds of `sha256sum`.
pub(super) fn sha256sum(rig: &Rig<'_>, _: u64) -> Result<f64> {
    rig.seconds(&["sha256sum", &rig.path("stream")])
}

/// Seconds of 25 processes one after the other.
pub(super) fn short_streams(rig: &Rig<'_>, _: u64) -> Result<f64> {
    let each = "for file in $(seq 0 24); do cat \"$0/file$file\" > /dev/null; done";
    rig.seconds(&["sh", "-c", each, &rig.path("folder")])
}

/// Seconds of a search that finds nothing.
pub(super) fn ripgrep(rig: &Rig<'_>, _: u64) -> Result<f64> {
    let quiet = "rg --text --no-mmap -c neverthere \"$0\" > /dev/null; [ $? = 1 ]";
    rig.seconds(&["sh", "-c", quiet, &rig.path("folder")])
}

/// What fio read, in MB a second.
pub(super) fn fio(rig: &Rig<'_>, words: &[&str]) -> Result<f64> {
    let said = rig.run(&[&["fio", "--minimal"][..], words].concat())?;
    // Version 3 of the terse format: the seventh field is the read bandwidth in KiB a second.
    let line = said.lines().find(|line| line.starts_with("3;")).context("fio printed no result")?;
    let kib: f64 = line.split(';').nth(6).context("a short result of fio")?.parse()?;
    Ok(kib * 1_024.0 / 1e6)
}

/// A place in memory; no other program makes it.
const COPY: &str = "/dev/shm/forebay-bench-real-copy";
