//! What was typed: one definition for parsing, help and errors.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cmd::help;
use crate::table::FormatChoice;

use duration::within;

pub(crate) mod duration;
pub(crate) mod image;
pub(crate) mod live;
pub(crate) mod live_bench;
pub(crate) mod probe;
pub(crate) mod record;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sweep;
pub(crate) mod trace;
pub(crate) mod tune;
pub(crate) mod watch;

/// Model, run and check the I/O path of Linux
///
/// Exit codes: 0 done; 1 the answer is no (`--check`: a predicted figure missed its tolerance;
/// `image`: there is damage, a difference, or a file that was not extracted; `advise`: there are
/// findings; `doctor`: advise, watch or mount cannot work; `tune status`, `tune undo`: something is
/// left changed, or that cannot be told); 2 an error.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, max_term_width = 100, after_help = help::list())]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print whole lines and every column, also where they are wider than the terminal
    #[arg(long, global = true, display_order = 1000)]
    pub(crate) wide: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the experiments of five papers in virtual time and compare them with what was published
    ///
    /// Without a paper: a line for each, with a verdict. A figure counts if the paper prints it,
    /// the model predicts it and a tolerance was fixed for it. HOLDS: all agree. MOSTLY: the
    /// headline and three quarters agree. ALONE ONLY: figures without load agree, most under load
    /// do not. SIZE DIFFERS: the headline goes the published way, by another amount. FAILS: it does
    /// not, or too many others are missed.
    Reproduce(Reproduce),
    /// Run a fio job file or a trace in virtual time on a modelled machine, or replay what a mount
    /// was asked
    Simulate(Simulate),
    /// Run jobs and traces under many settings, in chunks, and find the best ones
    Sweep(sweep::Sweep),
    /// Look into traces of I/O, convert, sample and measure them
    ///
    /// Formats: MSR Cambridge, Alibaba and Tencent CSV, CloudPhysics vscsi, oracleGeneral, fio's
    /// iolog, blktrace and blkparse, tracefs and perf script, biosnoop, strace, sysbench and MQSim,
    /// each compressed by gzip or zstd or not. The first bytes tell which.
    Trace(trace::Trace),
    /// Record the block requests of a device or a process of this machine as a trace (root)
    ///
    /// The kernel's tracing is used through an instance of its own, which is removed at the end,
    /// and by the next start if this one is killed. A request is recorded where it arrives at the
    /// block layer. What a process writes through the page cache is submitted by the kernel's
    /// flusher, and is in the trace of the device, not in that of the process.
    Record(record::Record),
    /// Run a fio job file on a real file or block device through the same engine
    ///
    /// A job that writes needs a file that it may write: one that `run` makes in a folder and that
    /// is gone afterwards, or a path with --allow-writes. Nothing else is written.
    Run(run::RunOn),
    /// Measure a device of this machine, for at most a minute, and write it as a machine file
    ///
    /// Reads by size, depth and place, past the page cache, and what calls, copies, switches and
    /// faults cost. The device is fitted as one of the models: a disk or an array if reads are slow
    /// and places matter, otherwise units behind a link. Nothing is written but the machine file,
    /// and the file that --scratch names.
    Probe(probe::Probe),
    /// Mount a compressed image read-only, or show what a mounted one does
    Mount(Mount),
    /// Unmount images
    ///
    /// A mount whose server has died is taken away even where files of it are open. Users other
    /// than root unmount what they have mounted, by fusermount3. Nothing but images that `mount`
    /// has mounted is unmounted.
    Unmount(Unmount),
    /// Serve files, block devices, memory and objects as disks, to clients that speak NBD
    ///
    /// What a client writes is in memory when it is acknowledged and on disk when a later FLUSH, or
    /// the write itself with FUA, is acknowledged. SIGTERM and SIGINT end the server: requests that
    /// have arrived are answered, and what was written is brought to disk, in the time of
    /// `--drain-timeout`; a second signal ends it at once. SIGHUP has it read certificates and the
    /// sizes of sources again, and open its log anew. `forebay serve status` shows what servers do.
    Serve(serve::Serve),
    /// Show, commit or discard what `serve --overlay` has kept of writes
    Overlay(serve::Overlay),
    /// Show live what the running kernel's I/O path does (reads only)
    Watch(watch::Watch),
    /// Judge the I/O path of this machine: findings with evidence, gain and remedy
    ///
    /// Nothing is changed, and no privilege is needed; what may not be seen is said. The exit code
    /// is 1 if there are findings and 0 if there are none.
    Advise(live::Advise),
    /// Check what this machine allows, and say what each missing piece would give
    ///
    /// No file and no knob is written. Each thing is asked as the commands themselves do: /dev/fuse
    /// and a ring of io_uring are opened, and where tracefs or debugfs is not mounted, root mounts
    /// it without a place in the tree of files, where no other process sees it; it is gone with the
    /// process. The exit code is 1 if advise, watch or mount cannot work for this user, and 0 if
    /// they can, if only in part; tune takes root and does not count.
    Doctor(live::Doctor),
    /// Show step by step which pages a readahead policy brings in
    Plan(Plan),
    /// List the policies, slot by slot
    Policies(Policies),
    /// Look into compressed images, extract, check, compare and make them
    Image(image::Image),
    /// Measure ways to do things on this machine beside each other
    Bench(Bench),
    /// Steer readahead and writeback of the running kernel, or show and undo what was steered
    Tune(tune::Tune),
    /// List the modelled machines, or one machine's numbers with their sources
    Machines(Machines),
    /// Print completions for a shell
    ///
    /// For bash: `forebay completions bash > /etc/bash_completion.d/forebay`; for zsh a file
    /// `_forebay` in a folder of `$fpath`; for fish `~/.config/fish/completions/forebay.fish`.
    Completions(Completions),
    /// Write the manual pages into a folder, of commands and of topics of help
    ///
    /// Pages of commands are for section 1 (`forebay-tune.1`), those of topics for section 7
    /// (`forebay-safety.7`). `man -l FILE` shows one from where it lies; `man forebay-tune` finds
    /// those in /usr/local/share/man/man1 and man7.
    Man(Man),
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Shells that are completed.
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
    /// The folder; it is made if it is not there
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// The paper: its claim, verdict and figures; without it a line for each of the five
    pub(crate) paper: Option<String>,
    #[command(flatten)]
    pub(crate) output: FormatChoice,
    /// Names the run: the same seed gives the same table
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many draws from the ranges of the machine's parameters; 1 uses their values as they are
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) draws: u32,
    /// Run the longest experiments at the size of the papers; otherwise they are scaled down, and
    /// the names of rows say by how much
    #[arg(long)]
    pub(crate) full: bool,
    /// Overrides a machine parameter, in its base unit or with a unit: `device.rate_outer=60MB/s`
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Another machine than the paper's: a name or a TOML file
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// Exit with 1 if a predicted figure is outside its tolerance
    #[arg(long)]
    pub(crate) check: bool,
    /// Print every row, also those that are there for comparison only
    #[arg(long)]
    pub(crate) all: bool,
    /// Writes what went on over time to a file whose name ends in .csv or .json
    #[arg(long, value_name = "FILE")]
    pub(crate) series: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) page: PageChoice,
}

/// Whether there is a page beside the table.
#[derive(Debug, Args)]
pub(crate) struct PageChoice {
    /// Also writes a page with figures and every row, for any browser and without a network
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// Arguments of `simulate`.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// The fio job file, or a trace (see `forebay trace`); `-` reads a job file from standard input
    #[arg(required_unless_present = "mount")]
    pub(crate) job: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) trace: trace::TraceReplay,
    #[command(flatten)]
    pub(crate) replay: MountReplay,
    #[command(flatten)]
    pub(crate) policies: PolicyChoice,
    /// The machine: a name (see `forebay machines`) or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "vm-2026")]
    pub(crate) machine: String,
    /// Overrides a machine parameter: `device.delay=100us`
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Names the run: the device's jitter and where files lie
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Also run the job for real, by system calls on this file, block device or, in a folder, a
    /// file made for it, and print what was predicted beside what was measured. Exits with 1 if one
    /// of them is off: throughput by more than 15 %, p50 by 25 %, p99 by a factor of 2
    #[arg(long, value_name = "PATH", conflicts_with_all = ["mount", "compare", "html"])]
    pub(crate) check: Option<PathBuf>,
    /// With --check: lets the job overwrite what it names
    #[arg(long, requires = "check")]
    pub(crate) allow_writes: bool,
    #[command(flatten)]
    pub(crate) job_options: JobOptions,
    #[command(flatten)]
    pub(crate) output: FormatChoice,
    #[command(flatten)]
    pub(crate) page: PageChoice,
}

/// A recording that is replayed on a mounted image.
#[derive(Debug, Args)]
pub(crate) struct MountReplay {
    /// Replay a recording of `mount --record` on a mounted image, without root. Each --policy is
    /// a fill rule and gives a row. Record with `mount --policy off --window ours`, which is asked
    /// for each page that is touched
    #[arg(
        long,
        value_name = "FILE",
        requires = "image",
        conflicts_with_all = ["job", "compare", "html"]
    )]
    pub(crate) mount: Option<PathBuf>,
    /// With --mount: the image that was recorded
    #[arg(long, value_name = "IMAGE", requires = "mount")]
    pub(crate) image: Option<PathBuf>,
    /// With --mount: what reads ahead of readers
    #[arg(long, value_enum, default_value_t, requires = "mount")]
    pub(crate) window: MountWindow,
    /// With --mount: memory for raw and decoded blocks, in bytes or with a unit: k, M, G
    #[arg(long, value_name = "SIZE", default_value = "32M", requires = "mount")]
    pub(crate) cache: String,
    /// With --mount: worker threads for requests that take longer than a page
    #[arg(
        long,
        default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(1..=64),
        requires = "mount"
    )]
    pub(crate) threads: u32,
}

/// Which policies fill the slots.
#[derive(Debug, Args)]
pub(crate) struct PolicyChoice {
    /// The policy of a slot: `readahead=request-size:max=32`; the slots are readahead, flush,
    /// controller, throttle, reclaim, elevator and dispatch (see `forebay policies`). A slot is
    /// filled once. `run` takes readahead and dispatch, and for a job that writes all but elevator;
    /// `simulate --mount` takes fill rules by their names
    #[arg(long, value_name = "SLOT=NAME")]
    pub(crate) policy: Vec<String>,
    /// Runs the job once with each policy: `readahead=linux-2.6.7,linux-6.18`. Several slots give
    /// every combination, at most 1024, and the last one typed varies fastest
    #[arg(long, value_name = "SLOT=A,B,C")]
    pub(crate) compare: Vec<String>,
}

/// How a job file is read.
#[derive(Debug, Args)]
pub(crate) struct JobOptions {
    /// Whose random numbers: fio up to 3.34, or from 3.35 on
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
    #[arg(required_unless_present_any = ["stats", "list"])]
    pub(crate) image: Option<PathBuf>,
    /// The folder that it appears in
    #[arg(required_unless_present_any = ["stats", "list"])]
    pub(crate) folder: Option<PathBuf>,
    /// Shows what the image that is mounted on a folder has done so far
    #[arg(long, value_name = "DIR", conflicts_with_all = ["image", "folder"])]
    pub(crate) stats: Option<PathBuf>,
    /// Lists the images that are mounted, also those whose server has died
    #[arg(long, conflicts_with_all = ["image", "folder", "stats"])]
    pub(crate) list: bool,
    /// With --stats: every counter instead of the twelve that tell most
    #[arg(long, requires = "stats")]
    pub(crate) all: bool,
    /// With --stats: one JSON object; with --list: a list of them
    #[arg(long, conflicts_with = "image")]
    pub(crate) json: bool,
    /// What is decoded, and when: a fill rule (see `forebay policies`)
    #[arg(long, value_name = "NAME", default_value = "selective-then-idle")]
    pub(crate) policy: String,
    /// What reads ahead of readers
    #[arg(long, value_enum, default_value_t)]
    pub(crate) window: MountWindow,
    /// Memory for raw and decoded blocks, in bytes or with a unit: k, M, G
    #[arg(long, value_name = "SIZE", default_value = "32M")]
    pub(crate) cache: String,
    /// Memory for blocks of an object, in bytes or with a unit: k, M, G; 4M at least
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub(crate) object_cache: String,
    /// Threads for what takes longer than a page, beside the one that takes requests
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) threads: u32,
    /// The time that every file shows, in seconds since 1970; `keep` shows what the image says,
    /// which is 1970 where it says nothing
    #[arg(long, value_name = "SECONDS|keep", default_value = "keep", allow_hyphen_values = true)]
    pub(crate) time: String,
    /// Where the image begins in its file, in bytes or with a unit
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub(crate) offset: String,
    /// Fill blocks that are too short with zeros, as Linux does with cramfs
    #[arg(long, conflicts_with = "strict")]
    pub(crate) lenient: bool,
    /// Check all that the image promises first, and refuse one that is damaged
    #[arg(long)]
    pub(crate) strict: bool,
    /// Read the image past the page cache
    #[arg(long)]
    pub(crate) direct: bool,
    /// Stay in the foreground, and log to standard error
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Let other users in; root does so always
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Honour set-user-id bits and device nodes of the image (root only)
    #[arg(long)]
    pub(crate) trusted: bool,
    /// What a start touches: if there is such a file, it is brought in beforehand, in its order;
    /// if there is none, it is recorded and written when the mount ends
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Record the profile anew
    #[arg(long, requires = "profile")]
    pub(crate) profile_update: bool,
    /// Write every READ request of the kernel to this new file, for `simulate --mount`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Where a mount in the background logs to; without it to the system log
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Says on standard output that the mount is usable; for the process that waits for it
    #[arg(long, hide = true)]
    pub(crate) announce: bool,
}

/// Arguments of `unmount`.
#[derive(Debug, Args)]
pub(crate) struct Unmount {
    /// The folders that images are mounted on
    #[arg(value_name = "DIR", required = true)]
    pub(crate) folders: Vec<PathBuf>,
    /// Take mounts away that are in use; each ends with the last open file
    #[arg(long)]
    pub(crate) lazy: bool,
}

/// What reads ahead in a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MountWindow {
    /// As the fill rule says: none for `off`, the kernel for all others
    #[default]
    Rule,
    /// The mount itself, by pages that it pushes
    Ours,
    /// The kernel; the fill rule answers or refuses what it asks for
    Kernel,
}

impl MountWindow {
    /// As it is typed.
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
    /// The descriptor's read-ahead limit in KiB, that is the policy's `max` in other units; without
    /// it the policy's own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1 << 40))]
    pub(crate) ra_kb: Option<u64>,
    /// The size of the file, in bytes or with a unit: k, M, G, T, each 1024 times the one before
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub(crate) file_size: String,
    /// The script; standard input if none is given. Lines: `r OFFSET BYTES` (pread), `t PAGE`
    /// (touch through a mapping, which has a descriptor of its own), `f ADVICE` (posix_fadvise over
    /// the file: 0 normal, 1 random, 2 sequential, 3 will need, 4 do not need, 5 no reuse), `n`
    /// (new descriptor), `d` (drop the file's pages); empty lines and lines with `#` do nothing
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
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
    /// A machine whose numbers are to be listed: a name or a TOML file
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) output: FormatChoice,
}

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) what: BenchWhat,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchWhat {
    /// Reads of 4 KiB: inline, deferred, by io_uring and as it pays, beside plain pread
    ///
    /// Every way reads cached and cold pages, one and 32 at a time, with the processors idle and
    /// with a thread on each that only runs. The ways take turns in short rounds; figures are
    /// medians of rounds, ratios medians of neighbours. The targets follow the table; they are met
    /// or missed, and the exit code is 0 all the same.
    Dispatch(BenchDispatch),
    /// Programs, files and pages of mounted images: our mount, other servers and the kernel (root)
    ///
    /// Makes images of this machine's own files, mounts each in every way that there is, and does
    /// the same work in all of them, each time with nothing cached. The ways take turns; figures
    /// are medians of rounds, ratios medians of neighbours. The targets follow the table. Caches of
    /// the whole machine are dropped before each round; no knob is changed, and all mounts are out
    /// of others' sight.
    Mount(BenchMount),
    /// One process's part of `bench mount`
    #[command(hide = true)]
    MountPart(BenchMountPart),
    /// The running kernel on slow devices: as it is, with fixed knobs, and tuned (root)
    ///
    /// Makes slow devices of its own, of files in memory, runs programs on each under every way in
    /// turn, and prints figures as medians of rounds, ratios as medians of neighbours. The targets
    /// follow the table. Only knobs of these devices are set; afterwards all others are compared
    /// with what they were. Mounts are out of others' sight, and devices are taken out of the
    /// kernel at the end, or at the begin of the next run.
    Live(live_bench::BenchLive),
    /// One process's part of `bench live`
    #[command(hide = true)]
    LivePart(live_bench::BenchLivePart),
    /// A slow device for programs of others
    #[command(hide = true)]
    LiveRig(live_bench::BenchLiveRig),
}

/// Arguments of `bench dispatch`.
#[derive(Debug, Args)]
pub(crate) struct BenchDispatch {
    /// Where to read: a folder, for a file of 128 MiB that is made in it and goes away; or a file
    /// or block device of 4 MiB or more, which is only read. Without it the current folder
    #[arg(long, value_name = "PATH")]
    pub(crate) on: Option<PathBuf>,
    /// How long each way is measured in each cell
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "2s",
        value_parser = within("100ms", "1h")
    )]
    pub(crate) time_per_cell: Duration,
    /// One round each: shows that all ways work here, and says little of their speed
    #[arg(long, conflicts_with = "time_per_cell")]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) output: FormatChoice,
    #[command(flatten)]
    pub(crate) page: PageChoice,
}

/// Arguments of `bench mount`.
#[derive(Debug, Args)]
pub(crate) struct BenchMount {
    /// Where images are made, in a folder of their own that goes away at the end
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub(crate) work: PathBuf,
    /// Leave the images; the next run with the same --work, --tree and --size takes them
    #[arg(long)]
    pub(crate) keep: bool,
    /// The tree whose programs, modules and libraries the images hold
    #[arg(long, value_name = "DIR", default_value = "/usr")]
    pub(crate) tree: PathBuf,
    /// All files of an image together, in bytes or with a unit: k, M, G
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    pub(crate) size: String,
    /// What is measured; without it everything but pushes
    #[arg(long, value_name = "WORKLOAD", value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<MountWorkload>,
    /// How often each way does each work
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=1_000)
    )]
    pub(crate) rounds: u32,
    /// One round with little work each: shows that all ways work here, and says little of speed
    #[arg(long, conflicts_with = "rounds")]
    pub(crate) quick: bool,
    /// Exit with 1 if a target is missed
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) output: FormatChoice,
    #[command(flatten)]
    pub(crate) page: PageChoice,
}

/// What is done in a mounted image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum MountWorkload {
    /// Pages of a mapped file, touched in no order
    Faults,
    /// The same with the image read past the page cache of the machine
    FaultsDirect,
    /// Pages of a mapped file on a device of 20 MB/s and 1,000 requests a second
    FaultsSlow,
    /// All pages of a mapped file, touched in order
    Mapped,
    /// 4 KiB of a file at a time, in no order
    Preads,
    /// The same by four processes
    #[value(name = "preads-4")]
    Preads4,
    /// 4 KiB at a time on a device of 20 MB/s and 1,000 requests a second
    PreadsSlow,
    /// A long file from its begin to its end
    Sequential,
    /// Every file of the tree, by one process
    Tree,
    /// Every file of the tree, shared by four processes
    #[value(name = "tree-4")]
    Tree4,
    /// The start of a program that imports many modules
    Start,
    /// A million pages pushed by our mount; only if asked for
    Pushes,
    /// What the codecs alone take for the same blocks
    Codec,
}

/// Arguments of `bench mount-part`.
#[derive(Debug, Args)]
pub(crate) struct BenchMountPart {
    /// What is done
    #[arg(value_enum)]
    pub(crate) part: MountWorkload,
    /// The file, or the root of the tree
    pub(crate) place: PathBuf,
    /// Names the order of pages
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many pages
    #[arg(long, default_value_t = 256)]
    pub(crate) pages: usize,
    /// Which process this is
    #[arg(long, default_value_t = 0)]
    pub(crate) number: usize,
    /// The program and its arguments
    #[arg(last = true)]
    pub(crate) program: Vec<String>,
}
