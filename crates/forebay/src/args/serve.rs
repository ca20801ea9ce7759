//! Arguments of `serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::duration::within;

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Serve {
    #[command(subcommand)]
    pub(crate) what: Option<ServeWhat>,
    /// What is served: a file, a block device, `memory:SIZE`, the export of another server, as
    /// `nbd://HOST[:PORT]/EXPORT` or `nbd+unix:///EXPORT?socket=PATH`, or read-only an object, as `s3://`,
    /// `gs://` or `az://` with BUCKET/KEY, `http://`, `https://`, or a file inside a compressed
    /// image, as `IMAGE:/PATH`. Clients choose by NAME; a first
    /// source without one is the default export
    #[arg(value_name = "[NAME=]SOURCE", required = true)]
    pub(crate) sources: Vec<String>,
    /// Where clients come in: `unix:PATH`, `tcp:HOST:PORT` or `vsock:PORT`, several times if
    /// wanted. A port of 0 takes a free one of TCP. Sockets that systemd hands over
    /// (`LISTEN_FDS`) are taken too. NBD has no passwords: without `--tls-verify-peer`, each
    /// process that reaches the address has the disks
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// The same as `--listen unix:PATH`; `-` takes a socket in a folder of its own
    #[arg(short = 'U', long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,
    /// Show each export as a file of this folder, by FUSE: `losetup` makes a block device of one.
    /// The file of the export without a name is `disk`. Unmounting ends the server if clients come
    /// in nowhere else
    #[arg(long, value_name = "DIR")]
    pub(crate) fuse: Option<PathBuf>,
    /// Refuse writes
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Keep what is written to a source in this file and leave the source as it is. The file is
    /// made if it is not there; it takes the room of what was written. NAME chooses the source
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(crate) overlay: Vec<String>,
    /// Page memory for all exports, in bytes or with a unit: k, M, G
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    pub(crate) cache: String,
    /// The policy of a slot: `throttle=paced`. The slots are readahead, one for each stream of a
    /// client, flush, controller, throttle, reclaim, and dispatch, which decides how long a client of
    /// this machine is polled for its next request (see `forebay policies`)
    #[arg(long, value_name = "SLOT=NAME")]
    pub(crate) policy: Vec<String>,
    /// Reads that are at an export's store at once; writes are half as many
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,
    /// Clients at once; further ones are sent away
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) connections: u32,
    /// Encrypt connections: `on` lets clients choose, `require` refuses others. The default is
    /// `require` with `--tls-certificates`, and `off` without
    #[arg(long, value_enum)]
    pub(crate) tls: Option<TlsChoice>,
    /// The folder with `server-cert.pem` and `server-key.pem`, and `ca-cert.pem` for
    /// `--tls-verify-peer`
    #[arg(long, value_name = "DIR")]
    pub(crate) tls_certificates: Option<PathBuf>,
    /// Take those clients alone that show a certificate which the authority of `ca-cert.pem` has
    /// signed, and which `ca-crl.pem`, if there, does not withdraw
    #[arg(long, requires = "tls_certificates")]
    pub(crate) tls_verify_peer: bool,
    /// Read and write files through the kernel's page cache, too
    #[arg(long)]
    pub(crate) buffered: bool,
    /// Run a command of the shell, and end when it ends, with its exit code. It finds the address
    /// in `$uri` and, of a socket, its path in `$unixsocket`
    #[arg(long, value_name = "COMMAND")]
    pub(crate) run: Option<String>,
    /// Log connections, and requests that fail, are refused or are slow, a line each, at most 1000
    /// for the requests of one client; `-` is standard error. SIGHUP opens FILE anew
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// A request is slow from here on
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = within("1us", "1h"))]
    pub(crate) slow: Duration,
    /// When the server is ended, the time in which replies are sent and what was written is brought
    /// to disk; what is not on disk then is lost, and the exit code is 2. Clients that do not take
    /// their replies are cut off after 10 s
    #[arg(long, value_name = "DURATION", default_value = "90s",
          value_parser = within("100ms", "24h"))]
    pub(crate) drain_timeout: Duration,
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

/// Whether connections are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TlsChoice {
    /// STARTTLS is refused.
    Off,
    /// Clients may send STARTTLS.
    On,
    /// Clients have to.
    Require,
}

/// What else can be done with servers.
#[derive(Debug, Subcommand)]
pub(crate) enum ServeWhat {
    /// Show what running servers hold and do, by export and client
    ///
    /// Servers of the same user are found, and those of all users by root, in the same network
    /// namespace.
    Status(ServeStatus),
}

/// Arguments of `serve status`.
#[derive(Debug, Args)]
pub(crate) struct ServeStatus {
    /// Only the server that is this process
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Print an array with an object for each server
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `overlay`.
#[derive(Debug, Args)]
pub(crate) struct Overlay {
    #[command(subcommand)]
    pub(crate) what: OverlayWhat,
}

/// What can be done with an overlay.
#[derive(Debug, Subcommand)]
pub(crate) enum OverlayWhat {
    /// Print what it was made over and how much it holds
    Info(OverlayInfoOf),
    /// Write what it holds to its base, and empty it
    ///
    /// Interrupted anywhere, it is finished by the same command; until then the base is partly
    /// changed, and the overlay is not served.
    Commit(OverlayFile),
    /// Give up what it holds: the file goes away
    Discard(OverlayFile),
}

/// The file of an overlay.
#[derive(Debug, Args)]
pub(crate) struct OverlayFile {
    /// The file that `serve --overlay` has made; no server may have it open
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Arguments of `overlay info`.
#[derive(Debug, Args)]
pub(crate) struct OverlayInfoOf {
    /// The file that `serve --overlay` has made; no server may have it open
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
