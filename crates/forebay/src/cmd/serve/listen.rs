//! Where clients come in, and what ends a server.

use std::net::ToSocketAddrs;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread;

use anyhow::{Context, Result, bail};
use forebay_host::serve::{ListenAddress, Server};
use forebay_report::messages::{Complaint, note, printable};
use listenfd::ListenFd;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use super::log::Log;
use crate::ERROR;
use crate::args::serve::{Serve, TlsChoice};

/// Where clients come in.
#[derive(Debug)]
pub(super) struct WaysIn {
    pub(super) listen: Vec<ListenAddress>,
    /// Sockets that were handed over.
    pub(super) inherited: Vec<OwnedFd>,
    /// The folder that was made for a socket, which vanishes with this.
    pub(super) folder: Option<TempDir>,
}

/// The typed addresses, and inherited sockets.
pub(super) fn ways_in(arguments: &Serve) -> Result<WaysIn> {
    let mut listen = Vec::new();
    for typed in &arguments.listen {
        listen.push(address(typed)?);
    }
    let inherited = inherited()?;
    let is_reached = !listen.is_empty() || !inherited.is_empty() || arguments.fuse.is_some();
    let own = match &arguments.unix {
        Some(path) if path == Path::new("-") => true,
        Some(path) => {
            listen.push(ListenAddress::Unix(path.clone()));
            false
        }
        None => arguments.run.is_some() && !is_reached,
    };
    let mut folder = None;
    if own {
        // No other user can connect to a socket in it: its mode is 0700.
        let made = tempfile::Builder::new().prefix("forebay-serve-").tempdir();
        let made = made.context("cannot make a folder for the socket")?;
        listen.push(ListenAddress::Unix(made.path().join("socket")));
        folder = Some(made);
    }
    if listen.is_empty() && !is_reached {
        bail!(Complaint::new("serve needs an address to listen on").hint(
            "--listen unix:PATH, --listen tcp:127.0.0.1:10809, --fuse DIR, or --run COMMAND"
        ));
    }
    Ok(WaysIn { listen, inherited, folder })
}

/// The sockets of `LISTEN_FDS`, if they are for this process.
fn inherited() -> Result<Vec<OwnedFd>> {
    let mut handed = ListenFd::from_env();
    let mut sockets = Vec::new();
    for place in 0..handed.len() {
        let failed = || format!("descriptor {} of LISTEN_FDS", place + 3);
        // Each is tried as every kind of socket; a wrong kind leaves it in place.
        let socket = match handed.take_unix_listener(place) {
            Ok(socket) => socket.map(OwnedFd::from),
            Err(_) => handed.take_tcp_listener(place).with_context(failed)?.map(OwnedFd::from),
        };
        sockets.extend(socket);
    }
    Ok(sockets)
}

fn address(typed: &str) -> Result<ListenAddress> {
    match typed.split_once(':') {
        Some(("unix", path)) if !path.is_empty() => Ok(ListenAddress::Unix(path.into())),
        Some(("tcp", place)) => {
            let found = place.to_socket_addrs().map_err(|error| {
                Complaint::new(format!("--listen: '{place}' is no address: {error}"))
                    .hint("tcp:HOST:PORT, for example tcp:127.0.0.1:10809")
            })?;
            let first = found.into_iter().next();
            Ok(ListenAddress::Tcp(first.with_context(|| format!("'{place}' has no address"))?))
        }
        Some(("vsock", port)) if port.parse::<u32>().is_ok() => {
            Ok(ListenAddress::Vsock(port.parse()?))
        }
        Some(_) | None => bail!(
            Complaint::new(format!(
                "--listen takes unix:PATH, tcp:HOST:PORT or vsock:PORT, not '{typed}'"
            ))
            .hint("for example --listen unix:/run/disk.sock")
        ),
    }
}

/// Runs a command of the shell to its end; returns its exit code.
pub(super) fn run_command(
    command: &str,
    (addresses, arguments): (&[ListenAddress], &Serve),
    mut signals: Signals,
) -> Result<u8> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]);
    // They are this process's.
    shell.env_remove("LISTEN_FDS").env_remove("LISTEN_PID").env_remove("LISTEN_FDNAMES");
    let is_secure = arguments.tls_certificates.is_some() && arguments.tls != Some(TlsChoice::Off);
    let scheme = if is_secure && arguments.tls != Some(TlsChoice::On) { "nbds" } else { "nbd" };
    match addresses.first() {
        None | Some(ListenAddress::Inherited(_)) => {}
        Some(ListenAddress::Unix(path)) => {
            shell.env("uri", format!("{scheme}+unix:///?socket={}", path.display()));
            shell.env("unixsocket", path);
        }
        Some(ListenAddress::Tcp(address)) => {
            shell.env("uri", format!("{scheme}://{address}"));
        }
        // As a client on this machine reaches it.
        Some(ListenAddress::Vsock(port)) => {
            shell.env("uri", format!("{scheme}+vsock://1:{port}"));
        }
    }
    let mut child = shell.spawn().context("cannot run a shell")?;
    let pid = Pid::from_child(&child);
    // The end of the server ends the command.
    thread::spawn(move || {
        for _ in signals.forever() {
            let _ = kill_process(pid, Signal::TERM);
        }
    });
    Ok(code(child.wait().context("cannot wait for the command")?))
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(ERROR)
}

/// Waits for a signal that ends the server. SIGHUP has it read things again.
pub(super) fn wait(mut signals: Signals, server: &Server, log: Option<&Log>) {
    for signal in signals.forever() {
        if signal != SIGHUP {
            return;
        }
        if let Some(Err(error)) = log.map(Log::reopen) {
            note(&format!("the old log goes on: {error:#}"));
        }
        for line in server.reload() {
            note(&printable(&line));
        }
        note("reloaded");
    }
}
