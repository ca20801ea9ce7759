//! The rounds: every way in turn, each time on a fresh mount with nothing cached.
//!
//! ```text
//!   mount    warm the server    drop caches    warm ourselves    work    ask    unmount
//!            (another file)     (whole machine,                  |<->|
//!                                image too)                     measured
//! ```
//!
//! A server that has just begun has its own program to fault in, which is none of the work; so it
//! answers a few reads of a small file first. That leaves nothing of the measured files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;

use super::Throttle;
use super::counted::decoded;
use super::mounted::{Mounted, profile};
use super::process::{self, Stop, answer, program};
use super::set::{Format, PAGE, Set};
use super::slow::SlowImage;
use super::ways::{How, Ours, Way};
use crate::args::MountWorkload as Workload;
use crate::measure::mount::{Measured, Round, cpu_of, forget, rss_of};
use crate::measure::shuffle;

/// What all rounds share.
#[derive(Debug)]
pub(super) struct Lane<'a> {
    pub(super) set: &'a Set,
    /// Where things are mounted.
    pub(super) folder: &'a Path,
    /// How many pages are touched or read in a round.
    pub(super) pages: usize,
    /// Makes the slow device slow, if this machine can.
    pub(super) throttle: Option<&'a Throttle>,
    pub(super) stop: &'a Stop,
}

/// The rounds of each way in each workload.
#[derive(Debug, Default)]
pub(super) struct Results {
    rounds: BTreeMap<(Workload, usize), Vec<Round>>,
    pub(super) ways: Vec<Way>,
    /// Ways that failed, and why.
    pub(super) failures: Vec<Failure>,
}

/// A way that could not do its work.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) is_ours: bool,
    work: Workload,
    /// Which way, and why.
    what: String,
}

impl Results {
    /// Nothing yet.
    pub(super) fn new(ways: Vec<Way>) -> Self {
        Self { ways, ..Self::default() }
    }

    /// Measures; a way that fails takes no further part in that workload.
    pub(super) fn measure(
        &mut self,
        lane: &Lane<'_>,
        workloads: &[Workload],
        rounds: u32,
        bar: &ProgressBar,
    ) -> Result<()> {
        let mut parts: BTreeMap<Workload, Vec<usize>> = BTreeMap::new();
        for &workload in workloads {
            let takes_part = |number: &usize| self.ways[*number].takes_part(workload);
            parts.insert(workload, (0..self.ways.len()).filter(takes_part).collect());
        }
        bar.set_length(parts.values().map(Vec::len).sum::<usize>() as u64 * u64::from(rounds));
        for turn in 0..rounds {
            for (&workload, part) in &mut parts {
                shuffle(part, u64::from(turn));
                let mut failed = Vec::new();
                for &number in &*part {
                    let way = &self.ways[number];
                    match lane.round(way, workload, turn) {
                        Ok(round) => self.rounds.entry((workload, number)).or_default().push(round),
                        Err(error) => {
                            lane.stop.check()?;
                            failed.push(number);
                            self.failures.push(Failure::new(way, workload, &error));
                        }
                    }
                    bar.inc(1);
                }
                part.retain(|number| !failed.contains(number));
                for number in failed {
                    self.rounds.remove(&(workload, number));
                }
            }
        }
        Ok(())
    }

    /// Takes in rounds that were not measured.
    #[cfg(test)]
    pub(super) fn put(&mut self, work: Workload, format: Format, name: &str, rounds: Vec<Round>) {
        let is_it = |way: &Way| way.format == format && way.name == name && way.takes_part(work);
        let number = self.ways.iter().position(is_it).expect("the way takes part");
        self.rounds.insert((work, number), rounds);
    }

    /// The ways of a workload with their rounds, in the order of the table.
    pub(super) fn of(&self, workload: Workload) -> impl Iterator<Item = (&Way, &[Round])> {
        let from = self.rounds.range((workload, 0)..=(workload, usize::MAX));
        from.map(|((_, number), rounds)| (&self.ways[*number], &rounds[..]))
    }

    /// The rounds of one way.
    pub(super) fn find(&self, workload: Workload, format: Format, name: &str) -> Option<&[Round]> {
        let mut all = self.of(workload);
        let is_it = |way: &Way| way.format == format && way.name == name;
        all.find_map(|(way, rounds)| is_it(way).then_some(rounds))
    }
}

impl Failure {
    fn new(way: &Way, work: Workload, error: &anyhow::Error) -> Self {
        let what = format!("{}, {}: {error:#}", way.format.name(), way.name);
        Self { is_ours: way.is_ours(), work, what }
    }

    /// One line for each reason, with the works in which it was met.
    pub(super) fn lines(failures: &[Self]) -> Vec<String> {
        let mut works: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for failure in failures {
            works.entry(&failure.what).or_default().push(failure.work.name());
        }
        let line =
            |(what, works): (&str, Vec<&str>)| format!("failed: {what} ({})", works.join(", "));
        works.into_iter().map(line).collect()
    }
}

impl Lane<'_> {
    fn round(&self, way: &Way, workload: Workload, turn: u32) -> Result<Round> {
        let folder = self.folder.join("at");
        let mut image = self.image(way, &folder, turn)?;
        let slow = workload.is_slow().then(|| {
            let throttle = self.throttle.context("no controller for a slow device")?;
            SlowImage::new(&image, throttle, self.stop)
        });
        let slow = slow.transpose()?;
        if let Some(slow) = &slow {
            image = slow.path().to_owned();
        }
        if let Some(slow) = slow.as_ref().filter(|_| workload.is_start()) {
            // What a mount reads for a start on its own is read from the slow device too.
            slow.limit(true)?;
        }
        let mounted = Mounted::new(way, &image, &folder, &self.set.forebay, self.stop)?;
        self.part(Workload::Preads, &folder.join("warm"), 0, 0)?;
        drop_caches(&image, self.stop)?;
        self.warm_ourselves()?;
        let server = mounted.server();
        let cpu = server.map(cpu_of).transpose()?;
        let before = if way.is_ours() { decoded(&mounted.counted()?) } else { None };
        let place = match workload {
            Workload::Tree | Workload::Tree4 | Workload::Start | Workload::StartSlow => {
                folder.clone()
            }
            Workload::Faults
            | Workload::FaultsDirect
            | Workload::FaultsSlow
            | Workload::Mapped
            | Workload::Preads
            | Workload::Preads4
            | Workload::PreadsSlow
            | Workload::Sequential
            | Workload::Pushes
            | Workload::Codec => folder.join("bulk"),
        };
        let brought = slow.as_ref().map(SlowImage::bytes_read).transpose()?;
        if let Some(slow) = &slow {
            slow.limit(true)?;
        }
        let parts = self.parts(workload, &place, u64::from(turn));
        if let Some(slow) = &slow {
            slow.limit(false)?;
        }
        let mut round = Round::new(&parts?);
        round.image = match (&slow, brought) {
            (Some(slow), Some(before)) => Some((slow.bytes_read()? - before) as f64 / 1e6),
            _ => resident(&image, self.stop)?,
        };
        if let (Some(server), Some(cpu)) = (server, cpu) {
            let (_, most) = rss_of(server)?;
            round.cpu_server = Some(cpu_of(server)?.saturating_sub(cpu).as_secs_f64() * 1e3);
            round.rss = Some(most as f64 / f64::from(1 << 20));
        }
        if way.is_ours() {
            let after = decoded(&mounted.counted()?);
            round.decoded = after.zip(before).map(|(after, before)| after - before);
        } else if workload == Workload::Start && way.format == Format::SquashZlib && turn == 0 {
            round.decoded = self.cached(&folder)?;
        }
        mounted.end()?;
        Ok(round)
    }

    /// The image of a way, and, before its first round, the profile that it is led or sorted by.
    fn image(&self, way: &Way, folder: &Path, turn: u32) -> Result<PathBuf> {
        let mut image = self.set.image(way.format);
        match way.how {
            How::Ours(Ours { profile: true, .. }) if turn == 0 => self.record(way, folder)?,
            How::Ours(ours @ Ours { sorted: true, .. }) => {
                image = folder.with_extension("sorted");
                if turn == 0 {
                    let ours = Ours { profile: true, sorted: false, ..ours };
                    self.record(&Way { how: How::Ours(ours), ..way.clone() }, folder)?;
                    self.set.make_sorted(&profile(folder), &image, self.stop)?;
                }
            }
            How::Ours(_) | How::Server(_) | How::Kernel { .. } => {}
        }
        Ok(image)
    }

    /// One start that is recorded and not measured.
    fn record(&self, way: &Way, folder: &Path) -> Result<()> {
        let recorded = profile(folder);
        if recorded.exists() {
            fs::remove_file(&recorded)?;
        }
        let image = self.set.image(way.format);
        let mounted = Mounted::new(way, &image, folder, &self.set.forebay, self.stop)?;
        self.part(Workload::Start, folder, 0, 0)?;
        mounted.end()?;
        if !recorded.exists() {
            bail!("the start was not recorded");
        }
        Ok(())
    }

    /// All concurrent processes of a work.
    fn parts(&self, workload: Workload, place: &Path, seed: u64) -> Result<Vec<Measured>> {
        self.beside(workload, place, seed, workload.processes())
    }

    /// Concurrent processes, each with its number.
    pub(super) fn beside(
        &self,
        workload: Workload,
        place: &Path,
        seed: u64,
        processes: usize,
    ) -> Result<Vec<Measured>> {
        let mut running = Vec::new();
        for number in 0..processes {
            running.push(Running(Some(self.start(workload, place, seed, number)?)));
        }
        running.iter_mut().map(|child| self.measured(child)).collect()
    }

    fn part(&self, part: Workload, place: &Path, seed: u64, number: usize) -> Result<Measured> {
        self.measured(&mut Running(Some(self.start(part, place, seed, number)?)))
    }

    fn measured(&self, child: &mut Running) -> Result<Measured> {
        let child = child.0.take().context("a process is waited for once")?;
        Ok(process::wait(child, LIMIT, self.stop)?.trim().parse()?)
    }

    fn start(&self, part: Workload, place: &Path, seed: u64, number: usize) -> Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["mount-part", part.name()]).arg(place);
        // Concurrent processes read different pages, and each round other pages than the previous
        // one.
        let seed = seed * 16 + number as u64;
        command.args(["--seed", &seed.to_string(), "--number", &number.to_string()]);
        command.args(["--pages", &self.pages.to_string()]);
        if let Some(start) = self.set.start.as_ref().filter(|_| part.is_start()) {
            command.arg("--").args(start);
        }
        process::start(&mut command)
    }

    /// Brings in what dropping the caches took of this program and of `chroot`.
    fn warm_ourselves(&self) -> Result<()> {
        self.part(Workload::Faults, &self.set.tree().join("warm"), 0, 0)?;
        let mut chroot = program("chroot");
        chroot.args(["/", "true"]);
        answer(chroot, LIMIT, self.stop).map(drop)
    }

    /// How many pages of the mounted files the kernel holds: with blocks of one page, those that
    /// were decoded.
    fn cached(&self, folder: &Path) -> Result<Option<f64>> {
        if !process::find("fincore") {
            return Ok(None);
        }
        let script = "find \"$0\" -xdev -type f -print0 \
                      | xargs -0 fincore --bytes --noheadings --output PAGES";
        let mut command = program("sh");
        command.args(["-c", script]).arg(folder);
        let pages = answer(command, LIMIT, self.stop)?;
        let pages: f64 = pages.split_whitespace().filter_map(|word| word.parse::<f64>().ok()).sum();
        // A server that lets the kernel keep nothing between two opens leaves nothing to count.
        Ok((pages > 0.0).then_some(pages))
    }
}

/// MB of an image that are in the page cache, which held none before.
fn resident(image: &Path, stop: &Stop) -> Result<Option<f64>> {
    if !process::find("fincore") {
        return Ok(None);
    }
    let mut command = program("fincore");
    command.args(["--bytes", "--noheadings", "--output", "RES"]).arg(image);
    let bytes: Option<f64> = answer(command, LIMIT, stop)?.trim().parse().ok();
    Ok(bytes.map(|bytes| bytes / 1e6))
}

/// A process that does not outlive its round.
struct Running(Option<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
        }
    }
}

/// Drops every clean page, name and inode of the machine, and those of the image. The kernel waits
/// for each file system, also for one that never answers, and no signal ends that: a process of its
/// own waits.
pub(super) fn drop_caches(image: &Path, stop: &Stop) -> Result<()> {
    let mut dropping = program("sh");
    dropping.args(["-c", "echo 3 > /proc/sys/vm/drop_caches"]);
    answer(dropping, LIMIT_OF_DROPPING, stop).context(
        "cannot drop the caches; a file system that does not answer holds this up: `umount -f` one \
         whose server is gone, or start the machine again",
    )?;
    forget(image).with_context(|| image.display().to_string())
}

/// Pages of the warm file are among those of the image.
const _: () = assert!(PAGE == crate::measure::READ as u64);

/// Beyond it a file system does not answer: a machine with much memory takes seconds.
const LIMIT_OF_DROPPING: Duration = Duration::from_secs(60);

/// Beyond it a work hangs.
const LIMIT: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_said_once() {
        let failure = |work, what: &str| Failure { is_ours: true, work, what: what.to_owned() };
        let failures = [
            failure(Workload::Faults, "b: no"),
            failure(Workload::Tree, "b: no"),
            failure(Workload::Faults, "a: no"),
        ];
        let lines = Failure::lines(&failures);
        assert_eq!(lines, ["failed: a: no (faults)", "failed: b: no (faults, tree)"]);
    }
}
