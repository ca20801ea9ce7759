//! Arguments of `serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use forebay_report::units::within;

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Serve {
    #[command(subcommand)]
    pub(crate) what: Option<ServeWhat>,
    /// The source: a file, a block device, `memory:SIZE`, the export of another server as
    /// `nbd://HOST[:PORT]/EXPORT` or `nbd+unix:///EXPORT?socket=PATH`, or, read-only, an object as
    /// `s3://`, `gs://` or `az://` with BUCKET/KEY, `http://` or `https://`, or a file inside a
    /// compressed image as `IMAGE:/PATH`. Clients select an export by NAME, of at most 4096 bytes;
    /// the default export is the first source without a name, or the first of all. A file with `=`
    /// in its name is `./FILE`
    #[arg(value_name = "[NAME=]SOURCE", required = true)]
    pub(crate) sources: Vec<String>,
    /// Listen for clients on `unix:PATH`, `tcp:HOST:PORT` or `vsock:PORT`; may be given several
    /// times. Port 0 selects a free TCP port. Sockets passed by systemd (`LISTEN_FDS`) are used
    /// too. NBD has no passwords: without `--tls-verify-peer`, every process that can connect has
    /// access to the disks
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// The same as `--listen unix:PATH`; `-` creates a socket in a temporary folder
    #[arg(short = 'U', long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,
    /// Show each export as a file in this folder, with FUSE; `losetup` makes a block device of a
    /// file. The file of the export without a name is `disk`. Unmounting ends the server if it does
    /// not listen elsewhere
    #[arg(long, value_name = "DIR")]
    pub(crate) fuse: Option<PathBuf>,
    /// Refuse writes
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Keep the writes to a source in this file and leave the source unchanged. The file is created
    /// if it does not exist, and uses as much space as was written. NAME selects the source. If the
    /// source has changed since, it is refused; block devices and exports of other servers are not
    /// checked
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(crate) overlay: Vec<String>,
    /// Page memory for all exports, in bytes or with a unit: k, M, G
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    pub(crate) cache: String,
    /// The policy of a slot: `throttle=paced`. The slots are readahead, one for each stream of a
    /// client, flush, controller, throttle, reclaim, and dispatch, which says how long the server
    /// polls for a local client's next request (see `forebay policies`)
    #[arg(long, value_name = "SLOT=NAME")]
    pub(crate) policy: Vec<String>,
    /// Reads in flight at the store of an export; half as many writes. A file that is read past the
    /// kernel's page cache gets up to 127 reads more from each client, through io_uring
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,
    /// Maximum number of clients; further clients are disconnected. The requests of all clients in
    /// flight and the replies that they have not read take at most 512 MiB of memory together; each
    /// may have one request beyond that
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) connections: u32,
    /// Encrypt connections: with `on` clients choose, with `require` clients without TLS are
    /// refused. The default is `require` with `--tls-certificates`, and `off` without
    #[arg(long, value_enum)]
    pub(crate) tls: Option<TlsChoice>,
    /// The folder with `server-cert.pem` and `server-key.pem`, and `ca-cert.pem` for
    /// `--tls-verify-peer`
    #[arg(long, value_name = "DIR")]
    pub(crate) tls_certificates: Option<PathBuf>,
    /// Accept only clients with a certificate that the authority of `ca-cert.pem` has signed and
    /// that `ca-crl.pem`, if it exists, does not revoke. Needs `--tls require`, the default with
    /// `--tls-certificates`
    #[arg(long, requires = "tls_certificates")]
    pub(crate) tls_verify_peer: bool,
    /// Also use the kernel's page cache for files
    #[arg(long)]
    pub(crate) buffered: bool,
    /// Run a shell command, and exit when it ends, with its exit code. The command gets the address
    /// in `$uri` and the path of a Unix socket in `$unixsocket`, both empty if there is none.
    /// SIGINT and SIGTERM go to the command and to the processes that it has started; a second
    /// signal, at least 1 s later, kills them and ends the server at once
    #[arg(long, value_name = "COMMAND")]
    pub(crate) run: Option<String>,
    /// Log connections, and requests that fail, are refused or are slow, one line each, at most
    /// 1000 lines for the requests of one client, and sources that fail or answer again; `-` is
    /// standard error. SIGHUP reopens FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// A request that takes at least this long is slow
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = within("1us", "1h"))]
    pub(crate) slow: Duration,
    /// Time limit for sending replies and writing data to disk when the server ends. Data that is
    /// not on disk by then is lost, and the exit code is 2. Clients that do not read their replies
    /// are disconnected after 10 s. A second signal, at least 1 s after the first one, ends the
    /// server at once
    #[arg(long, value_name = "DURATION", default_value = "90s",
          value_parser = within("100ms", "24h"))]
    pub(crate) drain_timeout: Duration,
    /// Answer `GET /metrics` on a loopback address, in the Prometheus text format
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) prometheus: Option<String>,
    /// For experiments: the minimum time of each read and write of a store
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = within("0", "60s"))]
    pub(crate) store_delay: Duration,
    /// For experiments: the bandwidth of a store in bytes per second
    #[arg(long, value_name = "SIZE")]
    pub(crate) store_rate: Option<String>,
}

/// Whether connections are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TlsChoice {
    /// STARTTLS is refused.
    Off,
    /// Clients may use STARTTLS.
    On,
    /// Clients must use STARTTLS.
    Require,
}

/// Subcommands of `serve`.
#[derive(Debug, Subcommand)]
pub(crate) enum ServeWhat {
    /// Show the contents and activity of running servers, by export and client
    ///
    /// Finds the servers of the same user, or of all users for root, in the same network namespace.
    Status(ServeStatus),
}

/// Arguments of `serve status`.
#[derive(Debug, Args)]
pub(crate) struct ServeStatus {
    /// Only the server with this process ID
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

/// Subcommands of `overlay`.
#[derive(Debug, Subcommand)]
pub(crate) enum OverlayWhat {
    /// Print its source and its size
    Info(OverlayInfoOf),
    /// Write its contents to the source, and empty it
    ///
    /// After an interruption the same command finishes the work. Until then the source is partly
    /// changed, neither it nor the overlay can be served, and an extended attribute of the source,
    /// `user.forebay.commit`, names the overlay. A source that has changed since the overlay was
    /// made is refused. Block devices and exports of other servers are not checked.
    Commit(OverlayFile),
    /// Discard its contents and remove the file
    Discard(OverlayDiscard),
}

/// What is discarded.
#[derive(Debug, Args)]
pub(crate) struct OverlayDiscard {
    #[command(flatten)]
    pub(crate) what: OverlayFile,
    /// Also if a commit was interrupted: the source stays partly changed
    #[arg(long)]
    pub(crate) force: bool,
}

/// The file of an overlay.
#[derive(Debug, Args)]
pub(crate) struct OverlayFile {
    /// The file that `serve --overlay` has created; no server may have it open
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Arguments of `overlay info`.
#[derive(Debug, Args)]
pub(crate) struct OverlayInfoOf {
    /// The file that `serve --overlay` has created; no server may have it open
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
