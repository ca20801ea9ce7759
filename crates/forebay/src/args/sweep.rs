//! Arguments of `forebay sweep`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use forebay_report::table::FormatChoice;

use super::trace::TraceReplay;

/// Arguments of `sweep`.
#[derive(Debug, Args)]
pub(crate) struct Sweep {
    #[command(subcommand)]
    pub(crate) what: SweepWhat,
}

/// Subcommands of `sweep`.
#[derive(Debug, Subcommand)]
pub(crate) enum SweepWhat {
    /// Write the list of points into a folder
    ///
    /// A point is an input, a machine, a value of each grid and a seed. Its name is a hash of
    /// everything that determines its result, including the bytes of its files. If a sweep is
    /// planned again in the same folder, only points without a result run.
    Plan(SweepPlan),
    /// Run one chunk of points; its result appears when it is complete
    Run(SweepRun),
    /// Run all chunks without a result
    Submit(SweepSubmit),
    /// Print how many points have results, and which chunks are missing
    Status(SweepStatus),
    /// Print the results of all points, in the order of the plan
    Merge(SweepMerge),
    /// Print the best settings: means over seeds, in the order of one column
    Best(SweepBest),
}

/// Arguments of `sweep plan`.
#[derive(Debug, Args)]
pub(crate) struct SweepPlan {
    /// Job files and traces
    #[arg(required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Machines: names or TOML files
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_value = "vm-2026")]
    pub(crate) machine: Vec<String>,
    /// Values of a slot or of a machine parameter: `throttle=paced,off`, `device.delay=50us,100us`.
    /// Several grids give every combination
    #[arg(long, value_name = "KEY=A,B")]
    pub(crate) grid: Vec<String>,
    #[command(flatten)]
    pub(crate) trace: TraceReplay,
    /// Seeds: one, or a range such as 1..1000, both ends included
    #[arg(long, value_name = "A..B", default_value = "1")]
    pub(crate) seeds: String,
    /// Points in a chunk
    #[arg(
        long,
        value_name = "N",
        default_value_t = 16,
        value_parser = clap::value_parser!(u64).range(1..=100_000)
    )]
    pub(crate) chunk_points: u64,
    /// The folder of the sweep; created if it does not exist
    #[arg(long, short = 'o', value_name = "DIR")]
    pub(crate) output: PathBuf,
}

/// Arguments of `sweep run`.
#[derive(Debug, Args)]
pub(crate) struct SweepRun {
    /// The folder of the sweep
    pub(crate) folder: PathBuf,
    /// The chunk, counted from zero
    #[arg(long, value_name = "K")]
    pub(crate) chunk: usize,
}

/// Arguments of `sweep submit`.
#[derive(Debug, Args)]
pub(crate) struct SweepSubmit {
    /// The folder of the sweep
    pub(crate) folder: PathBuf,
    /// Where the chunks run
    #[arg(long, value_enum, default_value_t)]
    pub(crate) on: SweepEngine,
    /// Processes at once, or workers of Dask or HyperQueue; by default one for each processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(crate) jobs: Option<u32>,
    /// With Dask: the scheduler, such as tcp://head:8786, whose workers must have the folder and
    /// the program at the same paths; by default, workers on this machine are started
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) scheduler: Option<String>,
    /// The Python interpreter that has the package `distributed` of Dask, or `hyperqueue`
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub(crate) python: String,
}

/// Where the chunks of a sweep run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SweepEngine {
    /// Processes on this machine
    #[default]
    Local,
    /// Workers of Dask; chunks of lost workers run again on others
    Dask,
    /// Tasks of HyperQueue: with `hq submit --array` if there is an `hq`, else on a server and
    /// workers that its Python package starts on this machine
    Hyperqueue,
    /// Array jobs of Slurm, with `sbatch --array`
    Slurm,
}

/// Arguments of `sweep status`.
#[derive(Debug, Args)]
pub(crate) struct SweepStatus {
    /// The folder of the sweep
    pub(crate) folder: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `sweep merge`.
#[derive(Debug, Args)]
pub(crate) struct SweepMerge {
    /// The folder of the sweep
    pub(crate) folder: PathBuf,
    /// The output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: SweepFormat,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    /// With --html: the column of the page's figures; without it the first p99 that was measured
    #[arg(long, value_name = "COLUMN[:max]", requires = "html")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) page: SweepPage,
}

/// What a page of a sweep shows.
#[derive(Debug, Args)]
pub(crate) struct SweepPage {
    /// Also write a page with heat maps, Pareto fronts and a list of all settings, for any browser
    /// and without a network
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// With --html: the other column of the Pareto front. With `:max` behind the column large
    /// values are best, with `:min` small ones. Without it throughput, or a p99 beside
    /// throughput
    #[arg(long, value_name = "COLUMN[:max]", requires = "html")]
    pub(crate) against: Option<String>,
    /// With --html: what the rows and columns of heat maps are, two of `input`, `machine`, `seed`
    /// and the keys of the grids. Without it the first two that have several values
    #[arg(long, value_name = "ROWS,COLUMNS", value_delimiter = ',', requires = "html")]
    pub(crate) axes: Vec<String>,
    /// With --html: only points with this value are on the page. Keys that are neither axes nor
    /// chosen are averaged
    #[arg(long, value_name = "KEY=VALUE", requires = "html")]
    pub(crate) at: Vec<String>,
}

/// Output formats of the results of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SweepFormat {
    /// Comma-separated values with a header line
    #[default]
    Csv,
    /// An array of objects
    Json,
    /// A Parquet file, compressed with zstd
    Parquet,
}

/// Arguments of `sweep best`.
#[derive(Debug, Args)]
pub(crate) struct SweepBest {
    /// The folder of the sweep
    pub(crate) folder: PathBuf,
    /// The column, as `sweep merge` names it, also without its unit and with dots: `read.p99`. With
    /// `:max` behind it the largest values are best, with `:min` the smallest ones; without both
    /// the smallest ones, except of throughput and of writes that the cache absorbs
    #[arg(long, value_name = "COLUMN[:max]")]
    pub(crate) by: String,
    /// The largest values are best: the same as `:max`
    #[arg(long)]
    pub(crate) max: bool,
    /// Leave out settings whose mean is outside this bound, which may be `<`, `<=`, `>` or `>=`: a
    /// number in the unit of the column, a time, or bytes: `read.p99<2ms`, `dirty<64MiB`
    #[arg(long, value_name = "COLUMN<VALUE")]
    pub(crate) within: Vec<String>,
    /// The number of settings
    #[arg(
        long,
        short = 'n',
        value_name = "N",
        default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=10_000)
    )]
    pub(crate) count: u64,
    #[command(flatten)]
    pub(crate) output: FormatChoice,
    #[command(flatten)]
    pub(crate) page: SweepPage,
}
