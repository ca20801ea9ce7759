//! `forebay probe`: measures this machine and one of its devices, as a machine file.
//!
//! ```text
//!   host: requests, prices --> sim: samples to a model and its numbers --> machine.toml
//! ```

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use forebay_host::backend::FileBackend;
use forebay_host::probe::{HostPrices, ProbeRequests, ProbedFile};
use forebay_report::messages::{self, Complaint, shown};
use forebay_report::table::{Cell, Table};
use forebay_report::whole;
use forebay_sim::machine::Machine;
use forebay_sim::probe::{
    Bench, Estimate, Experiment, Facts, Fit, Measured, Number, Pattern, Probed, SPAN_MIN, Samples,
    fit,
};

use crate::args::probe::Probe;
use crate::choice;

mod kernel;

/// Measures, writes the machine file and prints its numbers.
pub(crate) fn run(arguments: &Probe) -> Result<u8> {
    check_output(arguments)?;
    let scratch = arguments.scratch.as_deref().map(Scratch::of).transpose()?;
    let mut bench = HostBench::open(&arguments.path, scratch.as_ref())?;
    let read_only = format!("reading '{}'", shown(&arguments.path));
    let doing = match &scratch {
        Some(scratch) => format!("{read_only}, overwriting '{}'", shown(&scratch.path)),
        None => format!("{read_only}; without --scratch writes are assumed to be as reads"),
    };
    messages::note(&doing);
    let prices = bench.priced().prices().with_context(|| failed(&arguments.path))?;
    let limits = kernel::limits(&arguments.path);
    let prices = prices_of(&prices, limits.max_sectors_kib);
    let measured = Measured::take(&mut bench, scratch.is_some(), overhead(&prices))
        .with_context(|| failed(&arguments.path))?;
    let fit = fit(&measured).map_err(|unfit| Complaint::new(unfit.to_string()))?;
    for (bytes, depth, measured, model) in &fit.residuals {
        messages::detail(|| {
            let [measured, model] = [measured, model].map(|nanos| nanos / 1e3);
            format!(
                "reads of {bytes} bytes, {depth} in flight: one in {measured:.1} us, as modelled \
                 {model:.1} us"
            )
        });
    }
    let misfit = if is_near(&fit) { "" } else { "; the model does not fit" };
    let probed = Probed {
        summary: format!("This machine with {}, as probed{misfit}", shown(&arguments.path)),
        span: measured.span,
        device: fit.device.clone(),
        facts: facts(limits, prices),
    };
    let text = probed.to_toml();
    let name = shown(&arguments.output);
    // What cannot be read again is no machine file.
    let machine = Machine::parse(&text, &name).map_err(Complaint::from)?;
    whole::write(&arguments.output, text.as_bytes())?;
    let table = table(&machine, &probed, &fit, &name);
    table.print(arguments.format.format(), &mut io::stdout().lock())?;
    if !is_near(&fit) {
        messages::note(MISFIT);
        return Ok(crate::NO);
    }
    Ok(0)
}

/// The largest difference between model and measurements, in percent.
fn farthest(fit: &Fit) -> Option<f64> {
    let far = fit.residuals.iter().map(|(_, _, measured, model)| (model / measured).ln().abs());
    far.reduce(f64::max).map(|far| (far.exp() - 1.0) * 100.0)
}

/// Whether the model may be used.
fn is_near(fit: &Fit) -> bool {
    farthest(fit).is_none_or(|far| far <= FAR)
}

/// Refuses to write the machine file over anything else: what is measured, or another file.
fn check_output(arguments: &Probe) -> Result<()> {
    let Probe { path, output, scratch, .. } = arguments;
    if output.as_os_str() == choice::STANDARD_INPUT {
        let what = "-o -: the machine file is a file, and standard output has the table";
        bail!(Complaint::new(what).hint("-o machine.toml, or --json for the numbers alone"));
    }
    whole::has_folder("--output", output)?;
    let taken = [(Some(path), "the file that is measured"), (scratch.as_ref(), "the scratch file")];
    let is_output = |other: &PathBuf| whole::is_same(other, output);
    if let Some((_, what)) = taken.iter().find(|(other, _)| other.is_some_and(is_output)) {
        let what = format!("-o {}: that is {what}", shown(output));
        bail!(Complaint::new(what).hint("name another file"));
    }
    let is_machine = |text: String| Machine::parse(&text, &shown(output)).is_ok();
    if output.exists() && !fs::read_to_string(output).is_ok_and(is_machine) {
        let what = format!("-o {}: it is there, and is no machine file", shown(output));
        bail!(Complaint::new(what).hint("name another file, or remove it"));
    }
    Ok(())
}

fn failed(path: &Path) -> String {
    format!("cannot probe '{}'", shown(path))
}

/// Experiments on files of this machine.
struct HostBench {
    file: ProbedFile,
    scratch: Option<ProbedFile>,
    progress: indicatif::ProgressBar,
}

impl HostBench {
    fn open(path: &Path, scratch: Option<&Scratch>) -> Result<Self> {
        // It reports a path that is neither a file nor a block device.
        FileBackend::open(path).with_context(|| failed(path))?;
        let file = ProbedFile::open(path, false).with_context(|| failed(path))?;
        if file.len() < SPAN_MIN {
            let what = format!("'{}' has {} bytes", shown(path), file.len());
            bail!(Complaint::new(what).hint("a file or device of 64 MiB or more can be probed"));
        }
        let writable = |scratch: &Scratch| {
            let what = || format!("cannot write '{}'", shown(&scratch.path));
            FileBackend::open_writable(&scratch.path).with_context(what)?;
            ProbedFile::open(&scratch.path, true).with_context(what)
        };
        let scratch = scratch.map(writable).transpose()?;
        Ok(Self { file, scratch, progress: messages::spinner() })
    }

    /// The file on which the processor's costs are measured: writes have a cost too.
    fn priced(&self) -> &ProbedFile {
        self.scratch.as_ref().unwrap_or(&self.file)
    }
}

impl Bench for HostBench {
    type Error = io::Error;

    fn span(&self) -> u64 {
        self.file.len()
    }

    fn measure(&mut self, experiment: &Experiment) -> io::Result<Samples> {
        self.progress.inc(1);
        let on = match &self.scratch {
            Some(scratch) if experiment.write => scratch,
            Some(_) | None => &self.file,
        };
        let offsets = experiment.offsets(on.len());
        let requests = ProbeRequests {
            offsets: &offsets,
            bytes: experiment.bytes as usize,
            depth: experiment.depth as usize,
            write: experiment.write,
            flush: experiment.pattern == Pattern::Flushed,
            limit: if experiment.write { WRITE_TIME } else { READ_TIME },
        };
        let times = on.request(&requests)?;
        let counted = times.latencies.iter().enumerate();
        let counted = counted.filter(|(number, _)| experiment.counts(*number));
        Ok(Samples {
            requests: times.latencies.len() as u64,
            host_bound: experiment.depth > 1 && times.cpu > times.elapsed.mul_f64(BUSY),
            latencies: counted.map(|(_, took)| *took).collect(),
            elapsed: forebay_core::time::Duration(
                u64::try_from(times.elapsed.as_nanos()).unwrap_or(u64::MAX),
            ),
        })
    }
}

/// A file that may be overwritten; removed at the end if it was made here.
struct Scratch {
    path: PathBuf,
    made: bool,
}

impl Scratch {
    fn of(path: &Path) -> Result<Self> {
        let path = path.to_owned();
        match fs::metadata(&path) {
            Ok(found) if found.is_file() && found.len() < SPAN_MIN => {
                let what = format!("--scratch {}: it has {} bytes", shown(&path), found.len());
                bail!(Complaint::new(what).hint("64 MiB or more, or a path that is not there"));
            }
            Ok(found) if found.is_file() || found.file_type().is_block_device() => {
                Ok(Self { path, made: false })
            }
            Ok(_) => bail!(Complaint::new(format!(
                "--scratch {}: neither a regular file nor a block device",
                shown(&path)
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = Self { path, made: true };
                let what = || format!("cannot make '{}'", shown(&made.path));
                fill(&made.path).with_context(what)?;
                Ok(made)
            }
            Err(error) => Err(error).with_context(|| format!("cannot look at '{}'", shown(&path))),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.made {
            // It may have been removed in the meantime.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A new file whose blocks are on the device.
fn fill(path: &Path) -> io::Result<()> {
    let file = File::options().write(true).create_new(true).open(path)?;
    let chunk = vec![0x5a; 1 << 20];
    for at in (0..SCRATCH_BYTES).step_by(1 << 20) {
        file.write_all_at(&chunk, at)?;
    }
    file.sync_all()
}

/// A measured number.
fn number(key: &'static str, estimate: Estimate, from: &str) -> Number {
    let source = format!("M: probe, {from}, {} of them", estimate.count);
    Number { key, source, estimate }
}

/// A number that is the difference of two medians, of which `of` is the larger one. One that is
/// smaller than their noise says only how large it may be.
fn difference(key: &'static str, of: Estimate, value: f64, least: f64, from: &str) -> Number {
    if value >= least {
        return number(key, of.around(value), from);
    }
    let high = (of.high - of.value).max(least);
    let estimate = Estimate { value: least, low: least, high, count: of.count };
    Number { key, source: format!("A: too small to measure, {from}"), estimate }
}

/// The prices of the processor, as keys of a machine.
fn prices_of(host: &HostPrices, max_sectors_kib: u64) -> Vec<Number> {
    let median = |samples: &[u64]| Estimate::median(samples);
    let (small, large) = (median(&host.cached_small), median(&host.cached_large));
    // A read of 1 MiB has 255 pages more.
    let page = ((large.value - small.value) / 255.0).max(1.0);
    let copy = median(&host.copy);
    let copy_page = (copy.value / 256.0).clamp(1.0, page * 0.9);
    let lookup = page - copy_page;
    let call = small.value - page;
    let switch = host.switch as f64;
    let certain = |value: f64, count| Estimate { value, low: value, high: value, count };
    let (direct, random) = (median(&host.direct_cpu), median(&host.cold_random));
    let submitted = direct.value - call.max(1.0) - switch;
    let submit = submitted.max(100.0);
    // A stream is read in requests as long as may be, and in folios of many pages; a read at a
    // random place in one request, or a few, and in folios of one page.
    let stream = median(&host.cold_stream);
    let requests = (1_024.0 / max_sectors_kib as f64).max(0.01);
    let (dirty, dirty_call) = (median(&host.dirty_large), median(&host.dirty_small));
    let has_writes = dirty.count > 0;
    let new = median(&host.new_large);
    // Writes have no request in the way.
    let added = if has_writes {
        new.value - dirty.value
    } else {
        stream.value - large.value - requests * submit
    };
    let alloc = (added / 256.0).clamp(10.0, 100_000.0);
    let requests = requests.max(1.0);
    let both = (random.value - large.value - requests * submit) / 256.0;
    let folio = (both - alloc).clamp(0.0, 100_000.0);
    let written = (dirty.value - dirty_call.value) / 255.0;
    let dirtied = if has_writes { written - page } else { lookup };
    let write_call = (dirty_call.value - dirtied.max(1.0) - small.value).max(0.0);
    let fault = median(&host.fault);
    let mut prices = vec![
        difference("cpu.syscall", small, call, 1.0, "cached reads of 4 KiB, less a page"),
        number("cpu.page_lookup", large.around(lookup), "cached reads of 1 MiB, less the copy"),
        match has_writes {
            true => {
                number("cpu.page_alloc", new.around(alloc), "writes of 1 MiB that are not cached")
            }
            false => number("cpu.page_alloc", stream.around(alloc), "cold streams, less cached"),
        },
        number("cpu.folio_alloc", random.around(folio), "cold random reads of 1 MiB, less pages"),
        number("cpu.copy_rate", copy.around(4_096e9 / copy_page), "copies of 1 MiB"),
        number("cpu.context_switch", certain(switch, 256), "half a round trip of two threads"),
        difference(
            "cpu.request_submit",
            direct,
            submitted,
            100.0,
            "processor time of a direct read, less call and switch",
        ),
        difference("cpu.fault", fault, fault.value - lookup, 1.0, "touches of cached pages"),
        difference(
            "cpu.page_dirty",
            dirty,
            dirtied,
            1.0,
            "overwritten dirty pages, 1 MiB at a time",
        ),
        number(
            "cpu.write_call",
            dirty_call.around(write_call),
            "overwritten dirty pages, 4 KiB at a time",
        ),
    ];
    if !has_writes {
        prices.retain(|price| !["cpu.page_dirty", "cpu.write_call"].contains(&price.key));
        prices.push(assumed("cpu.page_dirty", dirtied, "as finding a page: no scratch file"));
    }
    prices.extend(unmeasured());
    prices
}

/// Prices that no experiment tells.
fn unmeasured() -> [Number; 3] {
    [
        assumed("cpu.interrupt", 0.0, "a part of the device's time, in which it was measured"),
        assumed("cpu.flush_page", 600.0, "of the order of finding a page"),
        assumed("cpu.flush_scan", 50.0, "a step in the xarray and a look at the folio"),
    ]
}

/// A number that was not measured.
fn assumed(key: &'static str, value: f64, why: &str) -> Number {
    let estimate = Estimate { value, low: value, high: value, count: 0 };
    Number { key, estimate, source: format!("A: {why}") }
}

/// The cost of a direct read without the device.
fn overhead(prices: &[Number]) -> u64 {
    let parts = ["cpu.syscall", "cpu.request_submit", "cpu.context_switch"];
    let of = prices.iter().filter(|price| parts.contains(&price.key));
    of.map(|price| price.estimate.value).sum::<f64>() as u64
}

fn facts(limits: kernel::Limits, prices: Vec<Number>) -> Facts {
    Facts {
        page_cache: kernel::page_cache().unwrap_or(1 << 30),
        cores: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        prices,
        readahead: kernel::readahead(),
        read_ahead_kib: limits.read_ahead_kib,
        max_sectors_kib: limits.max_sectors_kib,
        write_requests: limits.write_requests,
        kernel_source: limits.source,
        remote: limits.remote,
    }
}

fn table(machine: &Machine, probed: &Probed, fit: &Fit, name: &str) -> Table {
    let columns = [
        ("key", "key"),
        ("value", "value"),
        ("low", "low"),
        ("high", "high"),
        ("unit", "unit"),
        ("samples", "samples"),
        ("source", "source"),
    ];
    let mut table = Table::new(machine.summary(), &columns);
    table.leave_first(&["samples", "low", "high"]);
    let numbers = probed.facts.prices.iter().chain(&probed.device.numbers);
    for number in numbers {
        let written = machine.parameters().find(|parameter| parameter.key == number.key);
        let Some(written) = written else { continue };
        table.rows.push(vec![
            number.key.into(),
            written.value.into(),
            written.low.into(),
            written.high.into(),
            written.unit.into(),
            Cell::Count(number.estimate.count),
            number.source.as_str().into(),
        ]);
    }
    table.notes.push(format!("{:?}: {}.", probed.device.kind, probed.device.reason));
    if let Some(far) = farthest(fit) {
        let count = fit.residuals.len();
        table.notes.push(format!("The model is within {far:.0} % of {count} sizes and depths."));
    }
    table.notes.push(format!("`forebay simulate JOB --machine {name}` runs a job on it."));
    table
}

/// The longest that one kind of request is made, so that all ends within a minute.
const READ_TIME: Duration = Duration::from_millis(1_500);
const WRITE_TIME: Duration = Duration::from_millis(2_500);

/// How far from the measurements a model may be, in percent.
const FAR: f64 = 100.0;

const MISFIT: &str = "the model does not fit: was the machine busy, or is this no device (a hole, \
                      memory, a file system in user space)?";

/// A share of one processor beyond which the device could have done more.
const BUSY: f64 = 0.85;

/// The bytes of a scratch file that is made here.
const SCRATCH_BYTES: u64 = 128 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_below_the_noise_says_how_large_it_may_be() {
        let of = Estimate { value: 300.0, low: 290.0, high: 330.0, count: 9 };
        let known = difference("cpu.syscall", of, 100.0, 1.0, "x");
        assert_eq!((known.estimate.value, known.estimate.high), (100.0, 110.0));
        assert_eq!(known.source, "M: probe, x, 9 of them");
        let hidden = difference("cpu.syscall", of, -20.0, 1.0, "x");
        let Estimate { value, low, high, count } = hidden.estimate;
        assert_eq!((value, low, high, count), (1.0, 1.0, 30.0, 9));
        assert_eq!(hidden.source, "A: too small to measure, x");
    }
}
