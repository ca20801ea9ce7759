//! The work of a round: concurrent programs on the rig's device.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};

use super::figure::Figure;
use super::rig::Rig;
use super::rounds::Round;
use super::stage::{FILE, STREAM, Stage};
use super::unwritten::Unwritten;
use crate::measure::live::LivePart as Part;
use crate::measure::live::Measured;
use crate::process::{self, Stop};

/// What a round needs.
pub(super) struct Work<'a> {
    pub(super) rig: &'a Rig<'a>,
    pub(super) stage: Stage,
    pub(super) is_quick: bool,
    /// Other places in every turn, the same for all contestants.
    pub(super) seed: u64,
    pub(super) stop: &'a Stop,
}

impl Work<'_> {
    /// Does it all.
    pub(super) fn perform(&self) -> Result<Round> {
        match self.stage {
            Stage::Faults => self.faults(false),
            Stage::FaultsBeside => self.faults(true),
            Stage::StreamDisk | Stage::StreamLink => self.stream(),
            Stage::Copy => self.copy(),
            Stage::Writers => self.writers(),
            Stage::Untouched => self.untouched(),
        }
    }

    /// Writes something, so that the kernel knows how fast the device is.
    pub(super) fn warm(&self) -> Result<()> {
        let bytes = if self.is_quick { 8 << 20 } else { 48 << 20 };
        self.start(Part::Copy, "warm", &[("--bytes", bytes)])?.measured(self.stop)?;
        Ok(std::fs::remove_file(self.rig.at().join("warm"))?)
    }

    fn faults(&self, has_neighbour: bool) -> Result<Round> {
        let mut neighbour = None;
        if has_neighbour {
            let time = ("--time", self.millis());
            neighbour = Some(self.start(Part::Stream, STREAM, &[time, ("--pace", PACE)])?);
        }
        let toucher = self.start(Part::Toucher, FILE, &[("--time", self.millis())])?;
        let toucher = toucher.measured(self.stop)?;
        let mut round = Round::default();
        round.put(Figure::Touches, toucher.rate(self.settle()));
        if let Some(neighbour) = neighbour {
            round.put(Figure::Stream, self.rate(&neighbour.measured(self.stop)?));
        }
        round.curve = Some(toucher);
        Ok(round)
    }

    fn stream(&self) -> Result<Round> {
        let stream = self.start(Part::Stream, FILE, &[("--time", self.millis())])?;
        let mut round = Round::default();
        round.put(Figure::Stream, self.rate(&stream.measured(self.stop)?));
        Ok(round)
    }

    fn copy(&self) -> Result<Round> {
        let bytes = if self.is_quick { 8 << 20 } else { COPY };
        let bystander = self.start(Part::Bystander, "bystander", &[])?;
        thread::sleep(LEAD);
        let peak = Peak::watch(Unwritten::new(self.rig)?);
        let copy = self.start(Part::Copy, "copy", &[("--bytes", bytes)])?;
        let copy = copy.measured(self.stop)?;
        let bystander = bystander.ended(self.stop)?;
        let mut round = Round::default();
        round.put(Figure::Peak, Some(peak.end()));
        round.put(Figure::Rest, Some(seconds(copy.end - copy.written)));
        round.put(Figure::Total, Some(seconds(copy.end - copy.begin)));
        round.put(Figure::FsyncMax, bystander.longest().map(millis));
        self.remove(&["copy", "bystander"])?;
        Ok(round)
    }

    fn writers(&self) -> Result<Round> {
        let (count, bytes) = if self.is_quick { (2, 4 << 20) } else { (8, 64 << 20) };
        let reader = self.start(Part::Direct, FILE, &[("--pause", 5)])?;
        let light = self.start(Part::Light, "light", &[])?;
        thread::sleep(LEAD);
        let peak = Peak::watch(Unwritten::new(self.rig)?);
        let names: Vec<String> = (0..count).map(|number| format!("writer{number}")).collect();
        let start = |name: &String| self.start(Part::Writer, name, &[("--bytes", bytes)]);
        let writers = names.iter().map(start).collect::<Result<Vec<_>>>()?;
        let writers = writers.into_iter().map(|writer| writer.measured(self.stop));
        let writers = writers.collect::<Result<Vec<_>>>()?;
        let sync = self.start(Part::Sync, "", &[])?.measured(self.stop)?;
        let (reader, light) = (reader.ended(self.stop)?, light.ended(self.stop)?);
        let begin = writers.iter().map(|writer| writer.begin).min();
        let mut round = Round::default();
        round.put(Figure::Peak, Some(peak.end()));
        round.put(Figure::Total, begin.map(|begin| seconds(sync.end - begin)));
        round.put(Figure::Rest, Some(seconds(sync.end - sync.begin)));
        round.put(Figure::ReadP99, reader.percentile(99).map(millis));
        round.put(Figure::LightMax, light.longest().map(millis));
        let names: Vec<&str> = names.iter().map(String::as_str).chain(["light"]).collect();
        self.remove(&names)?;
        Ok(round)
    }

    fn untouched(&self) -> Result<Round> {
        let time = ("--time", self.millis());
        let cached = self.start(Part::Cached, FILE, &[time])?.measured(self.stop)?;
        let direct = self.start(Part::Direct, FILE, &[time])?.measured(self.stop)?;
        // The middle of many short steps: other processes disturb only a few.
        let reads = cached.bytes as f64 / crate::measure::READ as f64;
        let mut round = Round::default();
        round.put(Figure::Cached, cached.percentile(50).map(|nanos| nanos as f64 / reads));
        let all = cached.samples.len() as f64 * reads;
        round.put(Figure::CachedCpu, Some(cached.cpu as f64 / all));
        round.put(Figure::Direct, direct.percentile(50).map(|nanos| nanos as f64 / 1e3));
        Ok(round)
    }

    fn rate(&self, stream: &Measured) -> Option<f64> {
        Some(stream.rate(self.settle())? * stream.bytes as f64 / 1e6)
    }

    fn millis(&self) -> u64 {
        self.stage.time(self.is_quick).as_millis() as u64
    }

    fn settle(&self) -> u64 {
        self.stage.settle(self.is_quick).as_nanos() as u64
    }

    fn start(&self, part: Part, name: &str, numbers: &[(&str, u64)]) -> Result<Running> {
        let part = part.to_possible_value().context("every part has a name")?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["live-part", part.get_name()]).arg(self.rig.at().join(name));
        command.args(["--seed", &self.seed.to_string()]);
        if let Some(group) = self.rig.group() {
            command.arg("--group").arg(group);
        }
        for (flag, number) in numbers {
            command.args([*flag, &number.to_string()]);
        }
        Ok(Running(Some(process::start(&mut command)?)))
    }

    fn remove(&self, names: &[&str]) -> Result<()> {
        let path = |name: &&str| -> PathBuf { self.rig.at().join(name) };
        let remove =
            |path: PathBuf| std::fs::remove_file(&path).with_context(|| path.display().to_string());
        names.iter().map(path).try_for_each(remove)
    }
}

/// A process that does not outlive its round.
struct Running(Option<Child>);

impl Running {
    /// Waits for its end.
    fn measured(mut self, stop: &Stop) -> Result<Measured> {
        let child = self.0.take().context("a process is waited for once")?;
        Ok(process::wait(child, LIMIT, stop)?.trim().parse()?)
    }

    /// Has it end after its present step.
    fn ended(self, stop: &Stop) -> Result<Measured> {
        if let Some(child) = &self.0 {
            kill_process(Pid::from_child(child), Signal::TERM)?;
        }
        self.measured(stop)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The most that was not written, looked for all the time.
struct Peak {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

impl Peak {
    fn watch(unwritten: Unwritten) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut most = 0.0_f64;
            while !over.load(Ordering::Relaxed) {
                most = most.max(unwritten.megabytes().unwrap_or(0.0));
                thread::sleep(LOOK);
            }
            most
        });
        Self { is_over, thread }
    }

    fn end(self) -> f64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or(f64::NAN)
    }
}

/// Waits for quiet: the end of the last round's work must not count for the next one.
pub(super) fn settle_down(folder: &Path) -> Result<()> {
    let begin = Instant::now();
    rustix::fs::syncfs(std::fs::File::open(folder)?)?;
    thread::sleep(REST.saturating_sub(begin.elapsed()));
    Ok(())
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// Bytes of a copy.
const COPY: u64 = 500_000_000;

/// Bytes per second of a reader that is not held back.
const PACE: u64 = 90_000_000;

/// For this time only the bystanders work.
const LEAD: Duration = Duration::from_millis(500);

/// Short compared with the time to fill any limit.
const LOOK: Duration = Duration::from_millis(50);

/// Between two rounds.
const REST: Duration = Duration::from_millis(50);

/// Beyond it a work hangs.
const LIMIT: Duration = Duration::from_secs(300);
