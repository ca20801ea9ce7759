//! Arguments of `serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::duration::within;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// What is served: a file, a block device, `memory:SIZE`, or read-only an object, as `s3://`,
    /// `gs://` or `az://` with BUCKET/KEY, `http://`, `https://`, or a file inside a compressed
    /// image, as `IMAGE:/PATH`. Clients choose by NAME; a first
    /// source without one is the default export
    #[arg(value_name = "[NAME=]SOURCE", required = true)]
    pub(crate) sources: Vec<String>,
    /// Where clients come in: `unix:PATH` or `tcp:HOST:PORT`, several times if wanted. A port of 0
    /// takes a free one. NBD has no passwords: whoever reaches the address has the disks
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// The same as `--listen unix:PATH`; `-` takes a socket in a folder of its own
    #[arg(short = 'U', long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,
    /// Refuse writes
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Page memory for all exports, in bytes or with a unit: k, M, G
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    pub(crate) cache: String,
    /// The policy of a slot: `throttle=paced`. The slots are readahead, one for each stream of a
    /// client, flush, controller, throttle and reclaim (see `forebay policies`)
    #[arg(long, value_name = "SLOT=NAME")]
    pub(crate) policy: Vec<String>,
    /// Reads that are at an export's store at once; writes are half as many
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,
    /// Clients at once; further ones are sent away
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) connections: u32,
    /// Read and write files through the kernel's page cache, too
    #[arg(long)]
    pub(crate) buffered: bool,
    /// Run a command of the shell, and end when it ends, with its exit code. It finds the address
    /// in `$uri` and, of a socket, its path in `$unixsocket`
    #[arg(long, value_name = "COMMAND")]
    pub(crate) run: Option<String>,
    /// Answer `GET /metrics` on a loopback address, in the text format of Prometheus
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) prometheus: Option<String>,
    /// For experiments: each read and each write of a store takes at least so long
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = within("0", "60s"))]
    pub(crate) store_delay: Duration,
    /// For experiments: the bytes that pass a store in a second
    #[arg(long, value_name = "SIZE")]
    pub(crate) store_rate: Option<String>,
}
