//! `forebay-bench live`: the running kernel on slow devices, untuned and tuned.
//!
//! ```text
//!   folder --> rig (device, files) --> for each turn, for each way, in another order each time:
//!                                        remount   set knobs   start the tuner   work   end it
//!                                                 (own device)  (own device)       |
//!   knobs of all others, before and after               rounds --> table, targets <+
//! ```

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use forebay_report::messages::{self, Complaint};
use forebay_report::page::{Destination, beside};
use forebay_report::table::{Cell, Table};
use rustix::process::{Signal, set_parent_process_death_signal};
use signal_hook::consts::SIGTERM;

use crate::args::live::{BenchLive, BenchLivePart, LiveLimits};
use crate::measure::live::{Work as PartWork, perform};
use crate::measure::mount::own_namespace;
use crate::measure::shuffle;
use crate::page::{self, Plot};
use crate::process::{MeasuredProgram, Stop};
use crate::verdict::Verdict;
use figure::Figure;
use folder::Folder;
use knobs::{Knobs, Values, differing};
use rig::Rig;
use rounds::{Line, Results, Round};
use stage::{DEFAULT, How, READS_POLICY, Stage, Way};
use throttle::Throttle;
use tuner::Tuner;
use work::Work;

mod figure;
mod folder;
mod knobs;
pub(crate) mod lent;
mod rig;
mod rounds;
mod stage;
mod targets;
pub(crate) mod throttle;
mod tuner;
mod unwritten;
mod work;

/// Runs the benchmark and prints one table.
pub(crate) fn run(arguments: &BenchLive, forebay: Option<&Path>) -> Result<u8> {
    if !rustix::process::geteuid().is_root() {
        let what = "live makes devices and sets their knobs, which only root may do";
        bail!(Complaint::new(what).hint("run it as root, or in a virtual machine"));
    }
    if let Some((program, package)) = rig::missing() {
        bail!(Complaint::new(format!("no {program}")).hint(format!("apt-get install {package}")));
    }
    let destination = Destination::named(arguments.rounds.page.html.as_deref())?;
    let forebay = MeasuredProgram::find(forebay)?;
    // Before there is a second thread: it would stay behind in the old namespace.
    own_namespace().context("cannot have mounts out of others' sight")?;
    let stop = Stop::listen()?;
    let before = knobs::of_the_machine();
    let folder = Folder::new(&arguments.work)?;
    let throttle = match arguments.limits {
        LiveLimits::Auto => Throttle::find(),
        LiveLimits::Served => None,
    };
    let mut bench = Bench {
        arguments,
        forebay: &forebay,
        folder: &folder,
        throttle,
        stop: &stop,
        results: Results::default(),
        failures: Vec::new(),
    };
    bench.measure()?;
    let Bench { mut results, failures, throttle, .. } = bench;
    results.sort(|stage| stage.ways(&[]));
    let outcome = Outcome { arguments, results, failures, is_limited: throttle.is_some() };
    let table = outcome.table(&knobs::differences(&before, &knobs::of_the_machine()));
    let printed = table.print(arguments.rounds.output.format(), &mut io::stdout().lock());
    let plots = Figure::COLUMNS.map(|(_, value, unit, _)| plot(value, unit));
    let title = "The running kernel on slow devices";
    beside(printed, destination.as_ref(), || page::of(title, &table, &plots, crate::LIVE))?;
    if !outcome.failures.is_empty() {
        let what = "some work failed; the table has no row where one failed";
        bail!(
            Complaint::new(what).hint("its notes say why; `forebay doctor` what is missing here")
        );
    }
    let missed = targets::verdicts(&outcome.results).iter().any(|verdict| !verdict.is_met());
    Ok(u8::from(arguments.rounds.check && missed))
}

/// A figure for each scenario that has a column.
fn plot(value: &'static str, unit: &'static str) -> Plot {
    let (apart, along) = (&["scenario"], &["way"]);
    Plot { title: unit, unit, apart, along, series: &[], value, up_to: None }
}

/// What one process does; its parent reads the line.
pub(crate) fn run_part(arguments: &BenchLivePart) -> Result<u8> {
    // A parent that was killed does not wait.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, Arc::clone(&stop))?;
    if let Some(group) = &arguments.group {
        let path = group.join("cgroup.procs");
        std::fs::write(&path, "0").with_context(|| path.display().to_string())?;
    }
    let work = PartWork {
        part: arguments.part,
        place: &arguments.place,
        seed: arguments.seed,
        bytes: arguments.bytes,
        pace: arguments.pace,
        pause: Duration::from_millis(arguments.pause),
        time: Duration::from_millis(arguments.time),
    };
    let measured = perform(&work, &stop);
    let measured = measured.with_context(|| arguments.place.display().to_string())?;
    writeln!(io::stdout(), "{measured}").context("cannot write the measurement")?;
    Ok(0)
}

/// State shared by all rounds, and their results.
struct Bench<'a> {
    arguments: &'a BenchLive,
    forebay: &'a MeasuredProgram,
    folder: &'a Folder,
    throttle: Option<Throttle>,
    stop: &'a Stop,
    results: Results,
    failures: Vec<String>,
}

impl Bench<'_> {
    fn measure(&mut self) -> Result<()> {
        let asked = &self.arguments.scenario;
        let is_asked = |stage: &Stage| asked.is_empty() || asked.contains(&stage.scenario());
        let stages: Vec<Stage> = Stage::ALL.into_iter().filter(is_asked).collect();
        let bar = messages::progress(stages.len() as u64, "scenarios");
        // A line that moves is drawn by a thread, whose switches would count.
        bar.disable_steady_tick();
        for stage in stages {
            let ways = stage.ways(&self.arguments.ways);
            if !ways.is_empty() {
                self.stage(stage, ways).with_context(|| format!("scenario {}", stage.name()))?;
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn stage(&mut self, stage: Stage, mut ways: Vec<Way>) -> Result<()> {
        let is_quick = self.arguments.rounds.quick;
        let throttle = self.throttle.clone();
        let rig = Rig::new(self.folder, &stage.spec(is_quick), throttle.as_ref(), self.stop)?;
        let knobs = Knobs::of(&rig)?;
        if stage.is_without_throttling() {
            knobs.without_throttling()?;
        }
        if let Some(kib) = stage.read_ahead() {
            knobs.read_ahead(kib)?;
        }
        let clean = knobs.now();
        let lane = Lane { bench: self, stage, rig: &rig, knobs: &knobs, clean: &clean };
        if stage.writes() {
            lane.warm()?;
        }
        let asked = self.arguments.rounds.count();
        let (mut failures, mut rounds) = (Vec::new(), Vec::new());
        for turn in 0..stage.rounds(asked, is_quick) {
            shuffle(&mut ways, u64::from(turn));
            let mut failed = Vec::new();
            for way in ways.iter().filter(|way| turn == 0 || !stage.is_once(way)) {
                match lane.round(way, turn) {
                    Ok(round) => rounds.push((way.clone(), turn, round)),
                    Err(error) => {
                        self.stop.check()?;
                        failed.push(way.clone());
                        let (stage, way) = (stage.name(), &way.name);
                        failures.push(format!("failed: {stage}, {way}: {error:#}"));
                    }
                }
            }
            ways.retain(|way| !failed.contains(way));
            rounds.retain(|(way, ..)| !failed.contains(way));
        }
        let device = rig.way();
        rig.end()?;
        for (way, turn, round) in rounds {
            self.results.put((stage, &way), device, turn, round);
        }
        self.failures.extend(failures);
        Ok(())
    }
}

/// One device and its knobs.
struct Lane<'a> {
    bench: &'a Bench<'a>,
    stage: Stage,
    rig: &'a Rig<'a>,
    knobs: &'a Knobs,
    /// The values of the knobs for all ways, before any tuning.
    clean: &'a Values,
}

impl Lane<'_> {
    fn warm(&self) -> Result<()> {
        self.rig.slow(true)?;
        let done = self.work(0).warm();
        self.rig.slow(false)?;
        done
    }

    fn round(&self, way: &Way, turn: u32) -> Result<Round> {
        let round = self.slow_round(way, turn);
        // Also after a failure the next one finds the device as this one did.
        let fast = self.rig.slow(false);
        let quiet = work::settle_down(&self.rig.at());
        let back = self.knobs.put_back(self.clean);
        let round = round?;
        fast.and(quiet).and(back)?;
        Ok(round)
    }

    fn slow_round(&self, way: &Way, turn: u32) -> Result<Round> {
        self.rig.remount()?;
        if let How::Fixed(fix) = way.how {
            self.knobs.fix(fix)?;
        }
        let before = self.knobs.now();
        self.rig.slow(true)?;
        let bench = self.bench;
        let device = self.rig.device().name();
        let tuner = match way.how {
            How::Forebay | How::ReadsFirst => {
                let mut arguments = vec!["--scope".to_owned(), device];
                arguments.extend(bench.arguments.tune.clone());
                let is_given = arguments.iter().any(|word| word.starts_with("--policy"));
                if way.how == How::ReadsFirst && !is_given {
                    let policy = bench.folder.join("reads-first.toml");
                    fs::write(&policy, READS_POLICY)?;
                    arguments.push(format!("--policy={}", policy.display()));
                }
                Some(Tuner::start(bench.forebay, bench.folder, &arguments, bench.stop)?)
            }
            How::Default | How::Fixed(_) => None,
        };
        let mut round = self.work(turn).perform()?;
        if let Some(tuner) = tuner {
            let steered = differing(&before, &self.knobs.now());
            let cost = tuner.end()?;
            let left = differing(&before, &self.knobs.now());
            round.put(Figure::Steered, Some(steered.len() as f64));
            round.put(Figure::Left, Some(left.len() as f64));
            round.steered = steered;
            round.put(Figure::TunerCpu, Some(cost.cpu));
            round.put(Figure::TunerMemory, Some(cost.memory));
        }
        Ok(round)
    }

    fn work(&self, turn: u32) -> Work<'_> {
        Work {
            rig: self.rig,
            stage: self.stage,
            is_quick: self.bench.arguments.rounds.quick,
            seed: u64::from(turn) + 1,
            stop: self.bench.stop,
        }
    }
}

/// Everything that was measured.
struct Outcome<'a> {
    arguments: &'a BenchLive,
    results: Results,
    failures: Vec<String>,
    is_limited: bool,
}

impl Outcome<'_> {
    fn table(&self, differences: &[String]) -> Table {
        let mut columns = vec![("scenario", "scenario"), ("device", "device"), ("way", "way")];
        columns.push(("rounds", "rounds"));
        columns.extend(Figure::COLUMNS.map(|(_, key, heading, _)| (key, heading)));
        columns.push(("ratio_to_default", "x default"));
        let mut table = Table::new("", &columns);
        table.rows = self.results.lines().iter().map(|line| self.row(line)).collect();
        table.dense = true;
        table.drop_empty();
        table.notes = self.notes();
        if differences.is_empty() {
            table.notes.push("knobs of all other devices and vm.*: as before".to_owned());
        }
        let changed =
            differences.iter().map(|line| format!("changed meanwhile by another program: {line}"));
        table.notes.extend(changed);
        table.notes.push(String::new());
        let verdicts = targets::verdicts(&self.results);
        table.notes.extend(verdicts.iter().map(Verdict::to_string));
        table
    }

    fn row(&self, line: &Line) -> Vec<Cell> {
        let mut row: Vec<Cell> = vec![
            line.stage.name().into(),
            line.device.into(),
            line.way.name.as_str().into(),
            Cell::Count(line.rounds.len() as u64),
        ];
        let figures = Figure::COLUMNS
            .map(|(figure, _, _, decimals)| Cell::maybe(line.median(figure), decimals));
        row.extend(figures);
        let default = self.results.find(line.stage, DEFAULT);
        let ratio = default.and_then(|default| line.ratio(default, line.stage.main_figure()));
        row.push(Cell::maybe(ratio, 3));
        row
    }

    fn notes(&self) -> Vec<String> {
        let rounds = self.arguments.rounds.count();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut notes = vec![format!(
            "forebay {}, real time, nothing cached, {rounds} rounds, {cores} processors",
            env!("CARGO_PKG_VERSION"),
        )];
        if !self.is_limited {
            let what =
                "plain rates are those of a disk that is served: no limits of control groups";
            notes.push(what.to_owned());
        }
        if let Some(seconds) = targets::settled(&self.results) {
            notes.push(format!("a: at 95 % of the best fixed setting after {seconds:.1} s"));
        }
        for line in self.results.lines() {
            let names: Vec<&str> = line.steered().into_iter().collect();
            if !names.is_empty() {
                notes.push(format!("{}: steered {}", line.stage.name(), names.join(", ")));
            }
        }
        notes.extend(self.failures.iter().cloned());
        notes
    }
}
