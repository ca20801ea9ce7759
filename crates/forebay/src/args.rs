//! What was typed: one definition for parsing, help and errors.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use forebay_report::page::PageChoice;
use forebay_report::program::OutputChoice;
use forebay_report::table::FormatChoice;

use crate::cmd::help;

pub(crate) mod image;
pub(crate) mod live;
pub(crate) mod probe;
pub(crate) mod record;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod sweep;
pub(crate) mod trace;
pub(crate) mod tune;
pub(crate) mod watch;

/// Model, run and check the I/O path of Linux
///
/// Exit codes: 0 success; 1 the answer is no (`--check`: a predicted figure missed its tolerance;
/// `image`: there is damage, a difference, or a file that was not extracted; `advise`: there are
/// findings; `doctor`: advise, watch or mount cannot work; `probe`: the model does not fit;
/// `sweep`: a chunk failed, or no setting is within the limits; `tune status`, `tune undo`: changes
/// are left, or their state is unknown); 2 an error.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, max_term_width = 100, after_help = help::list())]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) output: OutputChoice,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the experiments of five papers in virtual time and compare them with the published
    /// figures
    ///
    /// Without a paper, prints one line with a verdict for each. A figure counts if the paper
    /// prints it, the model predicts it and a tolerance was fixed for it. HOLDS: all agree. MOSTLY:
    /// the headline and three quarters agree. ALONE ONLY: figures without load agree, most under
    /// load do not. SIZE DIFFERS: the headline has the published sign, but another size. FAILS: the
    /// headline has the wrong sign, or too many other figures are missed.
    Reproduce(Reproduce),
    /// Run a fio job file or a trace in virtual time on a modelled machine, or replay a recording
    /// of a mount
    Simulate(simulate::Simulate),
    /// Run jobs and traces under many settings, in chunks, and find the best settings
    Sweep(sweep::Sweep),
    /// Show, convert, sample and measure traces of I/O
    ///
    /// Formats: MSR Cambridge, Alibaba and Tencent CSV, CloudPhysics vscsi, oracleGeneral, fio's
    /// iolog, blktrace and blkparse, tracefs and perf script, biosnoop, strace, sysbench and MQSim,
    /// each plain or compressed by gzip or zstd. The format is detected from the first bytes.
    Trace(trace::Trace),
    /// Record the block requests of a device or a process of this machine as a trace (root)
    ///
    /// Uses its own instance of the kernel's tracing, which is removed at the end. If this process
    /// is killed, the next start removes the instance. A request is recorded where it arrives at
    /// the block layer. Writes of a process through the page cache are submitted by the kernel's
    /// flusher: they are in the trace of the device, not in the trace of the process.
    Record(record::Record),
    /// Run a fio job file on a real file or block device through the same engine
    ///
    /// A job that writes needs a file that it may write: a file that `run` creates in a folder and
    /// removes afterwards, or a path with --allow-writes. Nothing else is written.
    Run(run::RunOn),
    /// Measure a device of this machine, for at most a minute, and write it as a machine file
    ///
    /// Measures reads by size, depth and offset with direct I/O, and the cost of calls, copies,
    /// switches and faults. Fits one of the device models: a disk or an array if reads are slow and
    /// their offsets matter, otherwise parallel units behind a link. Only the machine file, and the
    /// file that --scratch names, are written.
    Probe(probe::Probe),
    /// Mount a compressed image read-only, or show the counters of a mounted image
    Mount(Mount),
    /// Unmount images
    ///
    /// Removes a mount whose server has died even if files of it are open. Users other than root
    /// unmount their own mounts with fusermount3. Only images that `mount` has mounted are
    /// unmounted.
    Unmount(Unmount),
    /// Serve files, block devices, memory and objects as disks to NBD clients
    ///
    /// Written data is in memory when the write is acknowledged, and on disk when a later FLUSH, or
    /// the write itself with FUA, is acknowledged. SIGTERM and SIGINT end the server: it answers
    /// the requests that have arrived and writes all acknowledged data to disk, within
    /// `--drain-timeout`; a second signal ends it at once. On SIGHUP it reads certificates and the
    /// sizes of sources again, and reopens its log. `forebay serve status` shows running servers.
    Serve(serve::Serve),
    /// Show, commit or discard the writes that `serve --overlay` has kept
    ///
    /// An overlay belongs to one source. A file that has changed since is refused; block devices
    /// and exports of other servers are not checked.
    Overlay(serve::Overlay),
    /// Show live what the running kernel's I/O path does (read-only)
    Watch(watch::Watch),
    /// Find problems of this machine's I/O path: findings with evidence, gain and remedy
    ///
    /// Changes nothing and needs no privilege; data that the user may not read is reported as
    /// missing. The exit code is 1 if there are findings and 0 if there are none.
    Advise(live::Advise),
    /// Check what this machine allows, and show what each missing feature would enable
    ///
    /// Writes no file and no knob. Each check does what the commands themselves do: it opens
    /// /dev/fuse and a ring of io_uring. If tracefs or debugfs is not mounted, root mounts it
    /// detached from the file tree, where no other process sees it; the mount ends with the
    /// process. The exit code is 1 if advise, watch or mount cannot work for this user, and 0 if
    /// they can work, even if only in part; tune needs root and does not count.
    Doctor(live::Doctor),
    /// Show step by step which pages a readahead policy reads
    Plan(Plan),
    /// List the policies of each slot
    Policies(Policies),
    /// List, extract, check, compare and make compressed images
    Image(image::Image),
    /// Tune readahead and writeback of the running kernel, or show and undo the changes
    Tune(tune::Tune),
    /// List the modelled machines, or one machine's numbers with their sources
    Machines(Machines),
    /// Print completions for a shell
    ///
    /// For bash: `forebay completions bash > /etc/bash_completion.d/forebay`; for zsh a file
    /// `_forebay` in a folder of `$fpath`; for fish `~/.config/fish/completions/forebay.fish`.
    Completions(Completions),
    /// Write the manual pages of commands and help topics into a folder
    ///
    /// Pages of commands belong to section 1 (`forebay-tune.1`), pages of topics to section 7
    /// (`forebay-safety.7`). `man -l FILE` shows a page at any path; `man forebay-tune` finds pages
    /// in /usr/local/share/man/man1 and man7.
    Man(Man),
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Shells with completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// GNU bash
    Bash,
    /// The Z shell
    Zsh,
    /// The friendly interactive shell
    Fish,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The folder; created if it does not exist
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// The paper: its claim, verdict and figures; by default one line for each of the five
    pub(crate) paper: Option<String>,
    #[command(flatten)]
    pub(crate) output: FormatChoice,
    /// Seed of the run: the same seed gives the same table
    #[arg(long, default_value_t = 1, value_parser = seed)]
    pub(crate) seed: u64,
    /// Number of draws from the ranges of the machine's parameters; 1 uses their nominal values
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) draws: u32,
    /// Run the longest experiments at the size of the papers; by default they are scaled down, and
    /// the names of rows give the divisor
    #[arg(long)]
    pub(crate) full: bool,
    /// Override a machine parameter, in its base unit or with a unit: `device.rate_outer=60MB/s`
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Use another machine than the paper's: a name or a TOML file
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// Exit with 1 if a predicted figure is outside its tolerance
    #[arg(long)]
    pub(crate) check: bool,
    /// Print every row, including rows that are only for comparison
    #[arg(long)]
    pub(crate) all: bool,
    /// Write values over time to a file whose name ends in .csv or .json
    #[arg(long, value_name = "FILE")]
    pub(crate) series: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) page: PageChoice,
}

/// Which policies fill the slots.
#[derive(Debug, Args)]
pub(crate) struct PolicyChoice {
    /// The policy of a slot: `readahead=request-size:max=32`. The slots are readahead, flush,
    /// controller, throttle, reclaim, elevator and dispatch (see `forebay policies`); each slot
    /// takes one policy. `run` accepts readahead and dispatch, and for a job that writes all except
    /// elevator; `simulate --mount` accepts names of fill rules
    #[arg(long, value_name = "SLOT=NAME")]
    pub(crate) policy: Vec<String>,
    /// Run the job once with each policy: `readahead=linux-2.6.7,linux-6.18`. Several slots give
    /// every combination, at most 1024; the last slot varies fastest
    #[arg(long, value_name = "SLOT=A,B,C")]
    pub(crate) compare: Vec<String>,
}

/// Jobs that are typed, and how jobs are read.
#[derive(Debug, Args)]
pub(crate) struct JobOptions {
    /// Run jobs that are typed as options of fio instead of a job file: `--name=a --rw=randread
    /// --bs=4k --size=1g`. Each --name begins a job; options before the first one apply to all jobs
    #[arg(long = "name", value_name = "NAME", conflicts_with = "job")]
    pub(crate) typed_jobs: Option<String>,
    /// Use the random numbers of fio up to 3.34, or from 3.35 on
    #[arg(long, value_enum, default_value_t)]
    pub(crate) fio_compat: FioCompat,
}

/// Versions of fio that draw different random numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FioCompat {
    /// Up to fio 3.34
    #[value(name = "3.34")]
    Older,
    /// From fio 3.35 on
    #[default]
    #[value(name = "3.35")]
    Newer,
}

/// Arguments of `mount`.
#[derive(Debug, Args)]
pub(crate) struct Mount {
    /// The image: cramfs, squashfs or erofs; a file, a block device, or an object: `s3://`,
    /// `gs://` or `az://` with BUCKET/KEY, `http://`, `https://`
    #[arg(required_unless_present_any = ["stats", "list", "all"])]
    pub(crate) image: Option<PathBuf>,
    /// The folder to mount it on
    #[arg(required_unless_present_any = ["stats", "list", "all"])]
    pub(crate) folder: Option<PathBuf>,
    /// Show the counters of the image that is mounted on a folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["image", "folder"])]
    pub(crate) stats: Option<PathBuf>,
    /// List mounted images, including those whose server has died
    #[arg(long, conflicts_with_all = ["image", "folder", "stats"])]
    pub(crate) list: bool,
    /// With --stats: every counter instead of the twelve most useful
    #[arg(long, requires = "stats")]
    pub(crate) all: bool,
    /// With --stats: one JSON object; with --list: a list of them
    #[arg(long, conflicts_with = "image")]
    pub(crate) json: bool,
    /// The fill rule: what is decoded, and when (see `forebay policies`)
    #[arg(long, value_name = "NAME", default_value = "selective-then-idle")]
    pub(crate) policy: String,
    /// Which side reads ahead
    #[arg(long, value_enum, default_value_t)]
    pub(crate) window: MountWindow,
    /// Memory for raw and decoded blocks, in bytes or with a unit: k, M, G
    #[arg(long, value_name = "SIZE", default_value = "32M")]
    pub(crate) cache: String,
    /// Memory for blocks of an object, in bytes or with a unit: k, M, G; less than 4M counts as 4M
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub(crate) object_cache: String,
    /// Worker threads for requests that would block
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) threads: u32,
    /// The modification time of every file, in seconds since 1970; `keep` uses the times of the
    /// image, or 1970 if it has none
    #[arg(long, value_name = "SECONDS|keep", default_value = "keep", allow_hyphen_values = true)]
    pub(crate) time: String,
    /// Where the image begins in its file, in bytes or with a unit
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub(crate) offset: String,
    /// Fill short blocks with zeros, as Linux does with cramfs
    #[arg(long, conflicts_with = "strict")]
    pub(crate) lenient: bool,
    /// Check the whole image first, and refuse it if it is damaged
    #[arg(long)]
    pub(crate) strict: bool,
    /// Read the image with direct I/O
    #[arg(long)]
    pub(crate) direct: bool,
    /// Stay in the foreground
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Allow access by other users; root always does
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Honour set-user-id bits and device nodes of the image (root only)
    #[arg(long)]
    pub(crate) trusted: bool,
    /// Prefetch profile of a program start: replayed if FILE exists, otherwise recorded and written
    /// at unmount
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Record the profile again
    #[arg(long, requires = "profile")]
    pub(crate) profile_update: bool,
    /// Write every READ request that is answered to this new file, for `simulate --mount`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// The log file [default: standard error in the foreground, the system log in the background]
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Print to standard output when the mount is usable; for the process that waits for it
    #[arg(long, hide = true)]
    pub(crate) announce: bool,
}

/// Arguments of `unmount`.
#[derive(Debug, Args)]
pub(crate) struct Unmount {
    /// The mounted folders
    #[arg(value_name = "DIR", required = true)]
    pub(crate) folders: Vec<PathBuf>,
    /// Unmount even if files are open; the mount ends with the last open file
    #[arg(long)]
    pub(crate) lazy: bool,
}

/// Which side reads ahead in a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MountWindow {
    /// The choice of the fill rule: no readahead for `off`, the kernel for all others
    #[default]
    Rule,
    /// The mount itself, which pushes pages
    Ours,
    /// The kernel; the fill rule answers or refuses its requests
    Kernel,
}

impl MountWindow {
    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Ours => "ours",
            Self::Kernel => "kernel",
        }
    }
}

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// The readahead policy: `readahead=linux-6.18`
    #[arg(long, value_name = "SLOT=NAME", required = true)]
    pub(crate) policy: String,
    /// The descriptor's read-ahead limit in KiB, which is the policy's `max` in other units; by
    /// default the limit of the policy
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1 << 40))]
    pub(crate) ra_kb: Option<u64>,
    /// The size of the file, in bytes or with a unit: k, M, G, T, each 1024 times the previous one
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub(crate) file_size: String,
    /// The script; by default standard input. Lines: `r OFFSET BYTES` (pread), `t PAGE` (touch
    /// through a mapping with a separate descriptor), `f ADVICE` (posix_fadvise over the file: 0
    /// normal, 1 random, 2 sequential, 3 will need, 4 do not need, 5 no reuse), `n` (new
    /// descriptor), `d` (drop the file's pages); empty lines and lines with `#` are ignored
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// Print one JSON object for each step, a line each
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `policies`.
#[derive(Debug, Args)]
pub(crate) struct Policies {
    #[command(flatten)]
    pub(crate) output: FormatChoice,
}

/// Arguments of `machines`.
#[derive(Debug, Args)]
pub(crate) struct Machines {
    /// The machine whose numbers are listed: a name or a TOML file
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) output: FormatChoice,
}

/// Parses the seed of a run.
pub(crate) fn seed(typed: &str) -> Result<u64, String> {
    let most = u64::MAX;
    typed.parse().map_err(|_| format!("a seed is a whole number from 0 to {most}"))
}
