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

mod kernel;

/// Measures, writes the machine file and prints its numbers.
pub(crate) fn run(arguments: &Probe) -> Result<u8> {
    whole::has_folder("--output", &arguments.output)?;
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
    let probed = Probed {
        summary: format!("This machine with {}, as probed", shown(&arguments.path)),
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
    Ok(0)
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

/// The prices of the processor, as keys of a machine.
fn prices_of(host: &HostPrices, max_sectors_kib: u64) -> Vec<Number> {
    let number = |key, estimate: Estimate, from: &str| Number {
        key,
        source: format!("M: probe, {from}, {} of them", estimate.count),
        estimate,
    };
    let median = |samples: &[u64]| Estimate::median(samples);
    let (small, large) = (median(&host.cached_small), median(&host.cached_large));
    // A read of 1 MiB has 255 pages more.
    let page = ((large.value - small.value) / 255.0).max(1.0);
    let copy = median(&host.copy);
    let copy_page = (copy.value / 256.0).clamp(1.0, page * 0.9);
    let lookup = page - copy_page;
    let call = (small.value - page).max(1.0);
    let switch = host.switch as f64;
    let certain = |value: f64, count| Estimate { value, low: value, high: value, count };
    let (direct, random) = (median(&host.direct_cpu), median(&host.cold_random));
    let submit = (direct.value - call - switch).max(100.0);
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
    let dirtied = if has_writes { (written - page).max(1.0) } else { lookup };
    let write_call = (dirty_call.value - dirtied - small.value).max(0.0);
    let mut prices = vec![
        number("cpu.syscall", small.around(call), "cached reads of 4 KiB, less a page"),
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
        number(
            "cpu.request_submit",
            direct.around(submit),
            "processor time of a direct read, less call and switch",
        ),
        number("cpu.fault", median(&host.fault), "touches of cached pages"),
        number("cpu.page_dirty", dirty.around(dirtied), "overwritten dirty pages, 1 MiB at a time"),
        number(
            "cpu.write_call",
            dirty_call.around(write_call),
            "overwritten dirty pages, 4 KiB at a time",
        ),
    ];
    let fault = prices.iter_mut().find(|price| price.key == "cpu.fault").expect("it is listed");
    fault.estimate = fault.estimate.around((fault.estimate.value - lookup).max(1.0));
    if !has_writes {
        prices.retain(|price| !["cpu.page_dirty", "cpu.write_call"].contains(&price.key));
        prices.push(assumed("cpu.page_dirty", dirtied, "as finding a page: no scratch file"));
    }
    prices.extend([
        assumed("cpu.interrupt", 0.0, "a part of the device's time, in which it was measured"),
        assumed("cpu.flush_page", 600.0, "of the order of finding a page"),
        assumed("cpu.flush_scan", 50.0, "a step in the xarray and a look at the folio"),
    ]);
    prices
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
    let far = fit.residuals.iter().map(|(_, _, measured, model)| (model / measured).ln().abs());
    if let Some(far) = far.reduce(f64::max) {
        let far = (far.exp() - 1.0) * 100.0;
        let count = fit.residuals.len();
        table.notes.push(format!("The model is within {far:.0} % of {count} sizes and depths."));
    }
    table.notes.push(format!("`forebay simulate JOB --machine {name}` runs a job on it."));
    table
}

/// The longest that one kind of request is made, so that all ends within a minute.
const READ_TIME: Duration = Duration::from_millis(1_500);
const WRITE_TIME: Duration = Duration::from_millis(2_500);

/// A share of one processor beyond which the device could have done more.
const BUSY: f64 = 0.85;

/// The bytes of a scratch file that is made here.
const SCRATCH_BYTES: u64 = 128 << 20;
