//! `cargo xtask bench serve`: `forebay serve`, nbdkit and qemu-nbd under fio's NBD engine.
//!
//! ```text
//!   row --> a server on a socket of its own --> fio --> requests a second, processor
//!             the servers take turns                    time of both, bytes read
//! ```
//!
//! Figures are medians of rounds, and the ratios are to nbdkit. Client and server share the
//! machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::release;
use crate::process::{finish, say, text};

/// Arguments of `bench serve`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only these rows, by name
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    row: Vec<String>,
    /// How often each server is measured
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of each measurement
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Measure this `forebay` instead of a release build of the sources
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// One row of the table.
struct Row {
    name: &'static str,
    /// What fio does.
    job: &'static str,
    /// The served size.
    megabytes: u64,
    forebay: &'static str,
    nbdkit: &'static str,
    /// Bytes are read once before, so that they are in memory.
    is_warm: bool,
    /// The least ratio to nbdkit.
    target: f64,
}

const ROWS: &[Row] = &[
    Row {
        name: "cached-qd1",
        job: "--rw=randread --bs=4k --iodepth=1",
        megabytes: 256,
        forebay: "--cache 320M",
        nbdkit: "",
        is_warm: true,
        target: 2.3,
    },
    Row {
        name: "cached-qd32",
        job: "--rw=randread --bs=4k --iodepth=32",
        megabytes: 256,
        forebay: "--cache 320M",
        nbdkit: "",
        is_warm: true,
        target: 1.8,
    },
    Row {
        name: "cold-qd32",
        job: "--rw=randread --bs=4k --iodepth=32",
        megabytes: 4096,
        forebay: "--cache 64M",
        nbdkit: "",
        is_warm: false,
        target: 1.8,
    },
    Row {
        name: "slow-sequential",
        job: "--rw=read --bs=128k --iodepth=1",
        megabytes: 4096,
        forebay: "--cache 64M --store-delay 10ms",
        nbdkit: "--filter=readahead --filter=cache --filter=delay",
        is_warm: false,
        target: 50.0,
    },
    Row {
        name: "slow-random",
        job: "--rw=randread --bs=4k --iodepth=1",
        megabytes: 4096,
        forebay: "--cache 64M --store-delay 10ms",
        nbdkit: "--filter=readahead --filter=cache --filter=delay",
        is_warm: false,
        target: 0.0,
    },
];

/// The servers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contestant {
    Forebay,
    Nbdkit,
    Qemu,
}

const CONTESTANTS: [(Contestant, &str); 3] = [
    (Contestant::Forebay, "forebay"),
    (Contestant::Nbdkit, "nbdkit"),
    (Contestant::Qemu, "qemu-nbd"),
];

/// What one measurement gave.
#[derive(Clone, Copy, Default)]
struct Figures {
    /// Requests a second.
    rate: f64,
    /// Processor time of the server for each request, in microseconds.
    processor: f64,
    /// That of the client.
    client: f64,
    /// Bytes that the server read from its device for each byte asked.
    read: f64,
}

/// What fio did.
struct Client {
    /// Requests a second.
    rate: f64,
    /// The part of its time in which it ran.
    busy: f64,
    bytes: f64,
}

/// Measures the requested rows and prints a table; 1 if a target was missed.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => release(&["forebay"])?.join("forebay"),
    };
    let folder = std::env::temp_dir().join(format!("forebay-bench-serve-{}", std::process::id()));
    fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let result = measure(arguments, &program, &folder);
    // The measurements count, whether or not the files can be removed.
    let _ = fs::remove_dir_all(&folder);
    result
}

fn measure(arguments: &Arguments, program: &Path, folder: &Path) -> Result<u8> {
    say(HEADER)?;
    let mut missed = false;
    let asked =
        |row: &&Row| arguments.row.is_empty() || arguments.row.iter().any(|it| it == row.name);
    for row in ROWS.iter().filter(asked) {
        let file = folder.join(format!("disk-{}", row.megabytes));
        if !file.exists() {
            let count = format!("count={}", row.megabytes);
            let output = format!("of={}", file.display());
            let random = ["if=/dev/urandom", &output, "bs=1M", &count, "conv=fsync"];
            finish(Command::new("dd").args(random))?;
        }
        let mut rounds: [Vec<Figures>; 3] = Default::default();
        for turn in 0..arguments.rounds as usize {
            for place in 0..CONTESTANTS.len() {
                let number = (place + turn) % CONTESTANTS.len();
                let contestant = CONTESTANTS[number].0;
                // qemu-nbd has no delay.
                if contestant == Contestant::Qemu && row.nbdkit.contains("delay") {
                    continue;
                }
                let serving = Serving::start(contestant, row, program, (folder, &file))?;
                rounds[number].push(serving.figures(row, arguments.seconds)?);
            }
        }
        let medians = rounds.map(|figures| (!figures.is_empty()).then(|| median(&figures)));
        let base = medians[1].map_or(f64::NAN, |figures| figures.rate);
        for ((contestant, name), figures) in CONTESTANTS.iter().zip(medians) {
            let Some(Figures { rate, processor, client, read }) = figures else { continue };
            let ratio = rate / base;
            let is_own = *contestant == Contestant::Forebay && row.target > 0.0;
            missed |= is_own && ratio < row.target;
            let goal = if is_own { format!("{:.1}", row.target) } else { "-".to_owned() };
            say(&format!(
                "{:16} {name:9} {rate:11.0} {ratio:9.2} {goal:>7} {processor:11.1} \
                 {client:7.1} {read:11.2}",
                row.name
            ))?;
        }
    }
    Ok(u8::from(missed))
}

/// A server that runs.
struct Serving {
    child: Child,
    socket: PathBuf,
}

impl Serving {
    fn start(
        contestant: Contestant,
        row: &Row,
        program: &Path,
        (folder, file): (&Path, &Path),
    ) -> Result<Self> {
        let socket = folder.join("socket");
        // A server that was killed leaves it behind.
        let _ = fs::remove_file(&socket);
        drop_cached(file)?;
        let (path, at) = (text(file)?, text(&socket)?);
        let (path, at) = (path.as_str(), at.as_str());
        let mut command = match contestant {
            Contestant::Forebay => {
                let mut command = Command::new(program);
                command.args(["serve", path, "-U", at]).args(row.forebay.split_whitespace());
                command
            }
            Contestant::Nbdkit => {
                let mut command = Command::new("nbdkit");
                command.args(["-f", "-U", at]).args(row.nbdkit.split_whitespace());
                command.args(["file", path]);
                if row.nbdkit.contains("delay") {
                    command.arg("rdelay=10ms");
                }
                command
            }
            Contestant::Qemu => {
                let mut command = Command::new("qemu-nbd");
                command.args(["-k", at, "-f", "raw", "-t", "-e", "16", path]);
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
        let serving = Self { child, socket };
        let begin = Instant::now();
        while !serving.socket.exists() {
            ensure!(begin.elapsed() < Duration::from_secs(30), "{command:?} does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(serving)
    }

    fn figures(&self, row: &Row, seconds: u32) -> Result<Figures> {
        if row.is_warm {
            self.fio("--rw=read --bs=1M --iodepth=4", row, None)?;
        }
        let before = self.used()?;
        let Client { rate, busy, bytes } = self.fio(row.job, row, Some(seconds))?;
        let after = self.used()?;
        let requests = rate * f64::from(seconds);
        Ok(Figures {
            rate,
            processor: (after.0 - before.0) * 1e6 / requests,
            client: busy * 1e6 / rate,
            read: (after.1 - before.1) / bytes,
        })
    }

    /// Reads by fio.
    fn fio(&self, job: &str, row: &Row, seconds: Option<u32>) -> Result<Client> {
        let mut command = Command::new("fio");
        let uri = format!("--uri=nbd+unix:///?socket={}", self.socket.display());
        command.args(["--name=job", "--ioengine=nbd", "--output-format=terse", "--randrepeat=0"]);
        command.arg(uri).arg(format!("--size={}M", row.megabytes)).args(job.split_whitespace());
        if let Some(seconds) = seconds {
            command.args(["--time_based", &format!("--runtime={seconds}")]);
        }
        let printed = finish(&mut command)?;
        let line = printed.lines().find(|line| line.starts_with("3;")).context("fio's line")?;
        let fields: Vec<&str> = line.split(';').collect();
        let field = |number: usize| fields.get(number).and_then(|text| text.parse::<f64>().ok());
        let percent = |number: usize| fields.get(number)?.strip_suffix('%')?.parse::<f64>().ok();
        match (field(5), field(7), percent(87), percent(88)) {
            (Some(kib), Some(rate), Some(user), Some(system)) => {
                Ok(Client { rate, busy: (user + system) / 100.0, bytes: kib * 1024.0 })
            }
            (_, _, _, _) => bail!("fio printed '{line}'"),
        }
    }

    /// What the server has used: seconds of processors, and bytes read.
    fn used(&self) -> Result<(f64, f64)> {
        let folder = PathBuf::from(format!("/proc/{}", self.child.id()));
        let stat = fs::read_to_string(folder.join("stat"))?;
        let behind = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = behind.split_whitespace().collect();
        let ticks = |place: usize| fields.get(place).and_then(|text| text.parse::<f64>().ok());
        let processor = (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / TICKS;
        let io = fs::read_to_string(folder.join("io"))?;
        Ok((processor, number(&io, "read_bytes:")))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Nothing of a file stays in the kernel's page cache.
fn drop_cached(file: &Path) -> Result<()> {
    let input = format!("if={}", file.display());
    finish(Command::new("dd").args([&input, "iflag=nocache", "count=0"])).map(drop)
}

/// The number behind a name at the beginning of a line.
fn number(listed: &str, name: &str) -> f64 {
    let found = listed.lines().find_map(|line| line.strip_prefix(name));
    found.and_then(|text| text.trim().parse().ok()).unwrap_or(0.0)
}

fn median(figures: &[Figures]) -> Figures {
    let middle = |of: fn(&Figures) -> f64| {
        let mut all: Vec<f64> = figures.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    Figures {
        rate: middle(|figures| figures.rate),
        processor: middle(|figures| figures.processor),
        client: middle(|figures| figures.client),
        read: middle(|figures| figures.read),
    }
}

/// The first line of the table.
const HEADER: &str =
    "row              server     requests/s  x nbdkit  target  us/request  client  read/asked";

/// Ticks of /proc/PID/stat in a second, on every machine of today.
const TICKS: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_names() {
        let text = "cancelled_read_bytes: 7\nread_bytes: 42\n";
        assert!((number(text, "read_bytes:") - 42.0).abs() < 1e-9);
        assert!(number(text, "absent:").abs() < 1e-9);
    }
}
