//! `cargo xtask bench probe`: how far a probed machine is from the one at hand.
//!
//! ```text
//!   for each device:  forebay probe FILE --scratch FILE -o machine.toml
//!     for each job:   forebay simulate JOB --machine machine.toml --check FILE
//! ```
//!
//! The devices are the disk of this machine, a loop device that is limited in requests and rate,
//! and a file system in user space that takes 2 ms; the last two are those of `bench real`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::Programs;
use super::real::rig::{Interrupted, Rig};
use crate::process::{interruption, say};

/// Arguments of `bench probe`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only these devices: `disk`, `volume`, `link`
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    device: Vec<String>,
    /// Only these jobs, by name; a part of a name is enough
    #[arg(long, value_name = "JOB", value_delimiter = ',')]
    job: Vec<String>,
    /// Where files are made: on the disk that is probed
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    work: PathBuf,
    /// Measure this `forebay` instead of a release build of the sources
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// One figure of one job on one device.
struct Figure {
    device: &'static str,
    job: &'static str,
    section: String,
    what: String,
    predicted: f64,
    measured: f64,
    met: bool,
}

/// Where commands run: here, or on a rig.
enum Place<'a> {
    Here(PathBuf),
    Rig(Box<Rig<'a>>),
}

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

/// Measures, prints the table, and exits with 1 if fewer cells than the target's are met.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let programs = Programs::build(arguments.program.as_deref())?;
    let program = &programs.forebay;
    let asked = |names: &[String], name: &str| {
        names.is_empty() || names.iter().any(|part| name.contains(part.as_str()))
    };
    let stop = interruption()?;
    let folder = Folder(arguments.work.join(format!("forebay-bench-probe-{}", std::process::id())));
    fs::create_dir(&folder.0).context("cannot make a folder")?;
    let mut figures = Vec::new();
    for (device, speed) in DEVICES.iter().filter(|(name, _)| asked(&arguments.device, name)) {
        let place = Place::of(*speed, &programs, arguments, &folder.0, &stop)
            .with_context(|| format!("device {device}"))?;
        let machine = folder.0.join(format!("{device}.toml"));
        let said = place.probe(program, &machine).with_context(|| format!("device {device}"))?;
        say(&said)?;
        for (job, text) in JOBS.iter().filter(|(name, _)| asked(&arguments.job, name)) {
            let file = folder.0.join(format!("{job}.fio"));
            fs::write(&file, text)?;
            let rows = place.check(program, &file, &machine);
            let rows = rows.with_context(|| format!("{job} on {device}"))?;
            figures.extend(parsed(device, job, &rows)?);
        }
        place.end()?;
    }
    print(&figures)
}

impl<'a> Place<'a> {
    fn of(
        speed: Option<&str>,
        programs: &Programs,
        arguments: &Arguments,
        folder: &Path,
        stop: &'a Interrupted,
    ) -> Result<Self> {
        let Some(speed) = speed else {
            let data = folder.join("data");
            let mut file = File::create(&data)?;
            // Not zeros, which some devices do not store.
            let chunk: Vec<u8> =
                (0..1_u32 << 20).map(|at| (at.wrapping_mul(97) >> 3) as u8).collect();
            (0..FILE_BYTES >> 20).try_for_each(|_| file.write_all(&chunk))?;
            file.sync_all()?;
            return Ok(Self::Here(data));
        };
        // A file system takes some space for itself.
        let mut rig =
            Rig::with_speed(programs, &arguments.work, (speed, FILE_BYTES + (256 << 20)), stop)?;
        rig.order(&format!("fill data {FILE_BYTES}"))?;
        rig.order("remount")?;
        rig.order("slow")?;
        Ok(Self::Rig(Box::new(rig)))
    }

    fn data(&self) -> String {
        match self {
            Self::Here(data) => data.display().to_string(),
            Self::Rig(rig) => rig.path("data"),
        }
    }

    fn probe(&self, program: &Path, machine: &Path) -> Result<String> {
        let data = self.data();
        let machine = machine.display().to_string();
        self.run(
            program,
            &["probe", &data, "--scratch", &data, "-o", &machine, "--format", "markdown"],
        )
    }

    /// The rows of a job as CSV.
    fn check(&self, program: &Path, job: &Path, machine: &Path) -> Result<String> {
        let (job, machine) = (job.display().to_string(), machine.display().to_string());
        let data = self.data();
        let words = ["simulate", &job, "--machine", &machine, "--check", &data];
        self.run(program, &[&words[..], &["--allow-writes", "--format", "csv"]].concat())
    }

    /// Runs forebay to its end; a figure that is off is no failure.
    fn run(&self, program: &Path, words: &[&str]) -> Result<String> {
        let program = program.display().to_string();
        let shell = ["sh", "-c", r#""$0" "$@"; [ $? -le 1 ]"#, &program];
        let words = [&shell[..], words].concat();
        match self {
            Self::Rig(rig) => rig.run(&words),
            Self::Here(_) => {
                let run = Command::new(words[0]).args(&words[1..]).output()?;
                let said = String::from_utf8_lossy(&run.stderr).into_owned();
                ensure!(run.status.success(), "{}: {}", run.status, said.trim());
                Ok(String::from_utf8_lossy(&run.stdout).into_owned())
            }
        }
    }

    fn end(self) -> Result<()> {
        match self {
            Self::Here(data) => Ok(fs::remove_file(data)?),
            Self::Rig(rig) => rig.end(),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The figures of a job, from the lines of its table.
fn parsed(device: &'static str, job: &'static str, csv: &str) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for line in csv.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [section, what, _, predicted, measured, _, verdict] = fields[..] else {
            anyhow::bail!("a line of another form: {line}");
        };
        figures.push(Figure {
            device,
            job,
            section: section.to_owned(),
            what: what.to_owned(),
            predicted: predicted.parse()?,
            measured: measured.parse()?,
            met: verdict == "met",
        });
    }
    ensure!(!figures.is_empty(), "no figure was printed");
    Ok(figures)
}

/// Prints every figure, then how many cells are met: throughput and medians of a job on a device
/// together, and its 99th percentiles.
fn print(figures: &[Figure]) -> Result<u8> {
    say("| device | job | section | figure | predicted | measured | ratio | verdict |")?;
    say("| --- | --- | --- | --- | ---: | ---: | ---: | --- |")?;
    for figure in figures {
        let Figure { device, job, section, what, predicted, measured, met } = figure;
        let (ratio, verdict) = (predicted / measured, if *met { "met" } else { "missed" });
        say(&format!(
            "| {device} | {job} | {section} | {what} | {predicted:.1} | {measured:.1} | {ratio:.2} \
             | {verdict} |"
        ))?;
    }
    let mut cells: Vec<(&str, &str)> = figures.iter().map(|it| (it.device, it.job)).collect();
    cells.dedup();
    let met = |tails: bool| {
        let is_met = |cell: &&(&str, &str)| {
            let of_cell = figures.iter().filter(|it| (it.device, it.job) == **cell);
            of_cell.filter(|it| it.what.ends_with("p99") == tails).all(|it| it.met)
        };
        cells.iter().filter(is_met).count()
    };
    let (bodies, tails, all) = (met(false), met(true), cells.len());
    say(&format!("throughput and p50 met in {bodies} of {all} cells, p99 in {tails}"))?;
    // 27 of 30 is the target.
    Ok(u8::from(bodies * 10 < all * 9))
}

/// The devices by name, and what `live-rig` calls them.
const DEVICES: &[(&str, Option<&str>)] =
    &[("disk", None), ("volume", Some("volume")), ("link", Some("link"))];

/// The jobs.
const JOBS: &[(&str, &str)] = &[
    ("random-4k-1", "[r]\nrw=randread\nbs=4k\nsize=512m\nruntime=4\n"),
    (
        "random-4k-8",
        "[r]\nrw=randread\nbs=4k\nsize=512m\nruntime=4\nioengine=io_uring\niodepth=8\n",
    ),
    (
        "random-4k-32",
        "[r]\nrw=randread\nbs=4k\nsize=512m\nruntime=4\nioengine=io_uring\niodepth=32\n",
    ),
    (
        "random-64k-4",
        "[r]\nrw=randread\nbs=64k\nsize=512m\nruntime=4\nioengine=io_uring\niodepth=4\n",
    ),
    (
        "random-1m-2",
        "[r]\nrw=randread\nbs=1m\nsize=512m\nruntime=4\nioengine=io_uring\niodepth=2\n",
    ),
    ("sequential-128k", "[r]\nrw=read\nbs=128k\nsize=512m\nruntime=4\n"),
    ("cached-4k", "[r]\nrw=randread\nbs=4k\nsize=16m\nloops=40\nruntime=6\n"),
    ("mapped-4k", "[r]\nrw=randread\nbs=4k\nsize=256m\nioengine=mmap\nruntime=4\n"),
    (
        "writes-fsync",
        "[w]\nrw=randwrite\nbs=16k\nsize=256m\nfdatasync=32\nio_size=64m\nruntime=6\n",
    ),
    (
        "burst-reader",
        "[burst]\nrw=write\nbs=1m\nsize=128m\nend_fsync=1\n\
         [reader]\nrw=randread\nbs=4k\nsize=128m\nruntime=4\n",
    ),
];

/// The bytes of the file that is probed and that jobs run on.
const FILE_BYTES: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_table() {
        let csv = "job,figure,unit,predicted,measured,ratio,verdict\n\
                   r,throughput,MB/s,100.5,90.0,1.12,met\nr,read p99,us,9,30,0.3,missed\n";
        let figures = parsed("disk", "random-4k-1", csv).unwrap();
        assert_eq!(figures.len(), 2);
        assert!(figures[0].met && !figures[1].met);
        assert!((figures[0].predicted - 100.5).abs() < 1e-9);
        assert!(parsed("disk", "x", "job\n").is_err());
        assert!(parsed("disk", "x", "job\na,b\n").is_err());
    }

    #[test]
    fn there_are_ten_jobs() {
        assert_eq!((JOBS.len(), DEVICES.len()), (10, 3));
    }
}
