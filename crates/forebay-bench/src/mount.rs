//! `forebay-bench mount`: our mounts compared with those of other servers and the kernel.
//!
//! ```text
//!   select --> set --> ways --> rounds --> targets     files, images, contestants, figures,
//!                                  |                   verdicts
//!              pushes, codec ------+--> table
//! ```

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use forebay_report::messages::{self, Complaint};
use forebay_report::page::{Destination, beside};
use forebay_report::table::{Cell, Table};
use forebay_report::units;
use indicatif::ProgressBar;

use crate::args::{BenchMount, BenchMountPart, MountWorkload as Workload};
use crate::live::throttle::Throttle;
use crate::measure::mount::{Part, Round, Work, own_namespace, perform, ratio};
use crate::page::{self, Plot};
use crate::process::{self, MeasuredProgram, Stop};
use crate::verdict::{Target, Verdict};
use codec::Codecs;
use pushes::Pushes;
use rounds::{Failure, Lane, Results};
use set::{Format, Set, Wanted};
use targets::WALL;
use ways::{KERNEL, OURS, SQUASHFUSE_LL, Way};

mod codec;
mod counted;
mod mounted;
mod pushes;
mod rounds;
mod select;
mod set;
mod slow;
mod targets;
mod ways;

/// Runs the benchmark and prints one table.
pub(crate) fn run(arguments: &BenchMount, forebay: Option<&Path>) -> Result<u8> {
    let bytes = units::bytes("--size", &arguments.size)?;
    if !(SIZE_MIN..=SIZE_MAX).contains(&bytes) {
        let what = format!("--size {}: from 8M to 4G", arguments.size);
        bail!(Complaint::new(what).hint("`forebay help units` has the units"));
    }
    let destination = Destination::named(arguments.rounds.page.html.as_deref())?;
    let tree = arguments.tree.canonicalize();
    let tree = tree.with_context(|| format!("--tree {}", arguments.tree.display()))?;
    if !tree.is_dir() {
        bail!("--tree {}: not a folder", arguments.tree.display());
    }
    if !rustix::process::geteuid().is_root() {
        let what = "mount mounts file systems and drops caches, which only root may do";
        bail!(Complaint::new(what).hint("run it as root, or in a virtual machine"));
    }
    let forebay = MeasuredProgram::find(forebay)?;
    // Before there is a second thread: it would stay behind in the old namespace.
    own_namespace().context("cannot have mounts out of others' sight")?;
    let stop = Stop::listen()?;
    let folder = Folder::new(arguments)?;
    let bar = messages::progress(Format::ALL.len() as u64, "images");
    let set = Set::new(&folder.path, forebay, Wanted { tree: &tree, bytes }, &stop)?;
    bar.finish_and_clear();
    let outcome = measure(arguments, &set, &folder.path, &stop)?;
    let table = outcome.table(arguments, &set);
    let printed = table.print(arguments.rounds.output.format(), &mut io::stdout().lock());
    let title = "Mounted images beside each other";
    let page = || page::of(title, &table, &PLOTS, crate::MOUNT);
    beside(printed, destination.as_ref(), page)?;
    if outcome.results.failures.iter().any(|failure| failure.is_ours) {
        let what = "our own mount failed; the table has no row where it did";
        bail!(
            Complaint::new(what).hint("its notes say why; `forebay doctor` what is missing here")
        );
    }
    let missed = outcome.verdicts().iter().any(|verdict| !verdict.is_met());
    Ok(u8::from(arguments.rounds.check && missed))
}

/// Whether a file system is in `/proc/filesystems`; modules are in it once they are loaded.
pub(crate) fn is_listed(list: &str, name: &str) -> bool {
    list.lines().any(|line| line.split_whitespace().last() == Some(name))
}

/// What one process does; its parent reads the line.
pub(crate) fn run_part(arguments: &BenchMountPart) -> Result<u8> {
    let (part, processes) = (part(arguments.part)?, arguments.part.processes());
    let work = Work {
        part,
        place: &arguments.place,
        seed: arguments.seed,
        pages: arguments.pages,
        share: (arguments.number, processes),
        program: &arguments.program,
    };
    let measured = perform(&work).with_context(|| arguments.place.display().to_string())?;
    writeln!(io::stdout(), "{measured}").context("cannot write the measurement")?;
    Ok(0)
}

fn part(workload: Workload) -> Result<Part> {
    Ok(match workload {
        Workload::Faults | Workload::FaultsDirect | Workload::FaultsSlow => Part::Faults,
        Workload::Mapped => Part::Mapped,
        Workload::Preads | Workload::Preads4 | Workload::PreadsSlow => Part::Preads,
        Workload::Sequential => Part::Sequential,
        Workload::Tree | Workload::Tree4 => Part::Tree,
        Workload::Start | Workload::StartSlow => Part::Start,
        Workload::Pushes | Workload::Codec => bail!("{}: not a part", workload.name()),
    })
}

/// Everything that was measured.
#[derive(Debug)]
struct Outcome {
    results: Results,
    notes: Vec<String>,
    codecs: Option<Codecs>,
    pushes: Option<(Pushes, u64)>,
}

fn measure(arguments: &BenchMount, set: &Set, folder: &Path, stop: &Stop) -> Result<Outcome> {
    let is_wanted = |workload: &Workload| {
        let default = *workload != Workload::Pushes;
        if arguments.only.is_empty() { default } else { arguments.only.contains(workload) }
    };
    let has_start = |workload: &Workload| !workload.is_start() || set.start.is_some();
    let rounds = Workload::ROUNDS.into_iter().filter(is_wanted).filter(has_start);
    let (ways, mut notes) = ways::all(&set.formats);
    let throttle = Throttle::find();
    let can_be_slow = |workload: &Workload| throttle.is_some() || !workload.is_slow();
    let rounds: Vec<Workload> = rounds.filter(can_be_slow).collect();
    if let Some(throttle) = throttle.as_ref().filter(|_| rounds.iter().any(|it| it.is_slow())) {
        // Limits apply only in this group; servers and parts inherit it.
        let group = throttle.group().join("cgroup.procs");
        fs::write(&group, std::process::id().to_string())
            .with_context(|| format!("cannot join {}", group.display()))?;
    }
    if throttle.is_none() {
        notes.push("skip: the slow device: no blkio controller of the first version".to_owned());
    }
    let (count, pages) = (arguments.rounds.count(), if arguments.rounds.quick { 32 } else { 256 });
    let lane = Lane { set, folder, pages, throttle: throttle.as_ref(), stop };
    let mut results = Results::new(ways);
    let bar = quiet("rounds");
    results.measure(&lane, &rounds, count, &bar)?;
    bar.finish_and_clear();
    let mut pushes = None;
    if is_wanted(&Workload::Pushes) {
        let is_it = |way: &&Way| way.name == OURS && way.takes_part(Workload::Faults);
        let way = results.ways.iter().find(is_it).context("no image for our mount")?;
        let aim = if arguments.rounds.quick { 1_000 } else { 1_000_000 };
        let bar = quiet("pushes");
        pushes = Some((pushes::drive(&lane, way, aim, &bar)?, aim));
        bar.finish_and_clear();
    }
    let codecs = is_wanted(&Workload::Codec)
        .then(|| codec::measure(&set.tree().join("bulk"), count))
        .transpose()?;
    notes.extend(Failure::lines(&results.failures));
    Ok(Outcome { results, notes, codecs, pushes })
}

/// A progress line without a thread, whose switches would count.
fn quiet(what: &'static str) -> ProgressBar {
    let bar = messages::progress(1, what);
    bar.disable_steady_tick();
    bar
}

impl Outcome {
    fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = targets::verdicts(&self.results);
        if let Some((pushes, aim)) = self.pushes {
            let (what, aim) = ("pages pushed without a hang", Target::AtLeast(aim as f64));
            verdicts.push(Verdict::new(what, pushes.pages as f64, aim));
        }
        verdicts
    }

    fn table(&self, arguments: &BenchMount, set: &Set) -> Table {
        let mut table = Table::new("", COLUMNS);
        table.rows = self.rows();
        table.notes = vec![self.how(arguments)];
        table.notes.extend(set.notes.iter().chain(&self.notes).cloned());
        if let Some((Pushes { pages, seconds }, _)) = self.pushes {
            table.notes.push(format!("pushes: {pages} pages in {seconds:.1} s"));
        }
        table.notes.extend(self.shares());
        table.notes.push(String::new());
        table.notes.extend(self.verdicts().iter().map(ToString::to_string));
        table
    }

    fn rows(&self) -> Vec<Vec<Cell>> {
        let mut rows = Vec::new();
        for workload in Workload::ROUNDS {
            let lines = self.results.of(workload);
            rows.extend(lines.map(|(way, rounds)| self.line(workload, way, rounds)));
        }
        let Some(Codecs { zlib, libdeflate, blocks }) = self.codecs else { return rows };
        for (way, micros) in [("zlib", zlib), ("libdeflate", libdeflate)] {
            let millis = micros * blocks as f64 / 1e3;
            let mut row = vec![Workload::Codec.name().into(), "zlib-4k".into(), way.into()];
            row.extend([Cell::Number(millis, 1), Cell::Number(micros, 1), Cell::Missing]);
            row.extend([Cell::Number(4096.0 / micros, 0), Cell::Missing, Cell::Count(blocks)]);
            row.resize(COLUMNS.len(), Cell::Missing);
            rows.push(row);
        }
        rows
    }

    fn line(&self, workload: Workload, way: &Way, rounds: &[Round]) -> Vec<Cell> {
        let median = |of| Round::median(rounds, of);
        let beside = |format, name| ratio(rounds, self.results.find(workload, format, name)?, WALL);
        let is_start = workload == Workload::Start && way.format == Format::SquashZlib;
        let useless = if is_start { self.useless(way, rounds) } else { None };
        vec![
            workload.name().into(),
            way.format.name().into(),
            way.name.as_str().into(),
            Cell::maybe(median(WALL), 1),
            Cell::maybe(median(|round| round.p50), 1).short(),
            Cell::maybe(median(|round| round.p99), 1).short(),
            Cell::maybe(median(|round| round.rate), 0),
            Cell::maybe(median(|round| Some(round.faults)), 0),
            Cell::maybe(median(|round| round.decoded), 0),
            Cell::maybe(useless.map(|share| share * 100.0), 1),
            Cell::maybe(median(|round| Some(round.cpu)), 1),
            Cell::maybe(median(|round| round.cpu_server), 1),
            Cell::maybe(median(|round| round.rss), 1),
            Cell::maybe(median(|round| round.image), 2),
            Cell::maybe(beside(way.format, SQUASHFUSE_LL), 3),
            Cell::maybe(beside(Format::Ext4, KERNEL), 3),
        ]
    }

    fn useless(&self, way: &Way, rounds: &[Round]) -> Option<f64> {
        let decoded = Round::median(rounds, |round| round.decoded)?;
        targets::useless(&self.results, &way.name).filter(|_| decoded > 0.0)
    }

    fn how(&self, arguments: &BenchMount) -> String {
        let rounds = arguments.rounds.count();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        format!(
            "forebay {}, real time, nothing cached, {rounds} rounds, {cores} processors, {} MiB of \
             cache for our mount",
            env!("CARGO_PKG_VERSION"),
            mounted::BUDGET >> 20,
        )
    }

    /// How much of what a fault gains comes from where.
    fn shares(&self) -> Option<String> {
        let p50 = |name: &str| {
            let rounds = self.results.find(Workload::Faults, Format::SquashZlib, name)?;
            Round::median(rounds, |round| round.p50)
        };
        let (theirs, ours) = (p50(SQUASHFUSE_LL)?, p50(OURS)?);
        let (all, policy) = (theirs / ours, p50("forebay eager")? / ours);
        let codec = by_codec(theirs, &self.codecs?)?;
        let rest = all / (codec * policy);
        Some(format!(
            "faults: {all:.1} times squashfuse_ll: {codec:.2} from the codec alone, {policy:.2} \
             from the policy (beside answering in full), {rest:.2} from the rest of the server"
        ))
    }
}

/// How many times as fast a fault would be if the faster codec decoded its window and everything
/// else stayed the same. None if more would be saved than the fault takes: then most faults were
/// answered from the cache, or the window is another one.
fn by_codec(fault: f64, codecs: &Codecs) -> Option<f64> {
    let left = fault - WINDOW * (codecs.zlib - codecs.libdeflate);
    (left > 0.0).then(|| fault / left)
}

/// The folder of the images. It is removed at the end unless it is kept or existed before.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    fn new(arguments: &BenchMount) -> Result<Self> {
        let shown = arguments.work.display();
        let work = arguments.work.canonicalize().with_context(|| format!("--work {shown}"))?;
        let kept = work.join(KEPT);
        let path = if arguments.keep || kept.exists() {
            kept
        } else {
            work.join(format!("{KEPT}-{}", std::process::id()))
        };
        let keep = arguments.keep || path.exists();
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Self { path, keep })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        // Nothing is mounted below it any more. If something is, it is only ours to see, and read
        // only, so that its files stay as they are.
        if let Err(error) = fs::remove_dir_all(&self.path) {
            messages::note(&format!("{} stays: {error}", self.path.display()));
        }
    }
}

/// The columns: key and heading.
const COLUMNS: &[(&str, &str)] = &[
    ("work", "work"),
    ("image", "image"),
    ("way", "way"),
    ("wall_ms", "wall ms"),
    ("p50_us", "p50 us"),
    ("p99_us", "p99 us"),
    ("mb_per_s", "MB/s"),
    ("major_faults", "faults"),
    ("pages_decoded", "decoded"),
    ("useless_percent", "useless %"),
    ("cpu_ms", "cpu ms"),
    ("server_cpu_ms", "server cpu ms"),
    ("server_rss_mib", "server MiB"),
    ("image_mb", "image MB"),
    ("time_to_squashfuse_ll", "x squashfuse_ll"),
    ("time_to_ext4", "x ext4"),
];

/// The charts of a page besides the table.
const PLOTS: [Plot; 2] = [
    Plot {
        title: "Time of a page",
        unit: "us",
        apart: &["work"],
        along: &["way"],
        series: &["image"],
        value: "p50_us",
        up_to: Some("p99_us"),
    },
    Plot {
        title: "Time of it all",
        unit: "ms",
        apart: &["work"],
        along: &["way"],
        series: &["image"],
        value: "wall_ms",
        up_to: None,
    },
];

/// The folder that is kept between runs.
const KEPT: &str = "forebay-bench-mount";

/// Pages of the window that the kernel requests at a fault, by its defaults for such mounts.
const WINDOW: f64 = 32.0;

/// Room for a program that starts, and a quarter of it for a long file.
const SIZE_MIN: u64 = 8 << 20;

/// What fits the formats, and a run of minutes.
const SIZE_MAX: u64 = 4 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_codec_saves_its_share_of_a_window_and_no_more_than_the_fault() {
        let codecs = Codecs { zlib: 16.0, libdeflate: 8.0, blocks: 1 };
        assert_eq!(by_codec(512.0, &codecs), Some(2.0));
        assert_eq!(by_codec(256.0, &codecs), None);
    }

    #[test]
    fn every_row_has_every_column() {
        let (ways, _) = ways::all(&Format::ALL);
        let mut results = Results::new(ways);
        results.put(Workload::Start, Format::SquashZlib, OURS, vec![Round::default()]);
        let codecs = Some(Codecs { zlib: 16.0, libdeflate: 8.0, blocks: 1 });
        let outcome = Outcome { results, notes: Vec::new(), codecs, pushes: None };
        let rows = outcome.rows();
        assert_eq!(rows.len(), 3);
        assert!(rows.iter().all(|row| row.len() == COLUMNS.len()));
        assert_eq!(rows[2][..3], ["codec".into(), "zlib-4k".into(), "libdeflate".into()]);
    }
}
