//! Where clients come in, and the command that gets these addresses.

use std::env;
use std::fmt::Write;
use std::fs::{self, DirEntry};
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use forebay_host::serve::ListenAddress;
use forebay_report::messages::{Complaint, note};
use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;
use rustix::process::geteuid;
use tempfile::TempDir;

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
        // What a server has left that was killed; a failure costs nothing but the space.
        let _ = remove_dead_folders(&env::temp_dir());
        // No other user can connect to a socket in it: its mode is 0700.
        let made = tempfile::Builder::new().prefix(FOLDER_PREFIX).tempdir();
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

/// Removes folders of sockets that no process listens on.
fn remove_dead_folders(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let is_named = entry.file_name().as_bytes().starts_with(FOLDER_PREFIX.as_bytes());
        if is_named && is_dead(&entry).unwrap_or(false) {
            let folder = entry.path();
            let _ = fs::remove_file(folder.join("socket")).and_then(|()| fs::remove_dir(&folder));
        }
    }
    Ok(())
}

/// Whether a folder is this user's, is not being made just now, and has a dead socket alone.
fn is_dead(entry: &DirEntry) -> io::Result<bool> {
    let found = entry.metadata()?;
    let is_own = found.is_dir() && found.uid() == geteuid().as_raw();
    let age = SystemTime::now().duration_since(found.modified()?).unwrap_or_default();
    if !is_own || age < FOLDER_AGE_MIN {
        return Ok(false);
    }
    let names = fs::read_dir(entry.path())?.map(|one| Ok(one?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    let socket = UnixStream::connect(entry.path().join("socket"));
    let is_refused = socket.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
    Ok(names == ["socket"] && is_refused)
}

/// The names of folders for sockets begin with it.
const FOLDER_PREFIX: &str = "forebay-serve-";

/// A server listens on its socket long before its folder is so old.
const FOLDER_AGE_MIN: Duration = Duration::from_secs(60);

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
        if let Some(socket) = &socket
            && !socket_acceptconn(socket).unwrap_or(false)
        {
            bail!(
                Complaint::new(format!("{}: the socket does not listen", failed())).hint(
                    "a .socket unit with ListenStream= and Accept=no hands over one that does"
                )
            );
        }
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

/// What helps where a socket cannot be made.
pub(super) fn hint(address: &ListenAddress, why: ErrorKind) -> &'static str {
    let in_use = why == ErrorKind::AddrInUse;
    match address {
        _ if why == ErrorKind::PermissionDenied => {
            "a folder must be writable, and ports below 1024 are for root"
        }
        ListenAddress::Unix(_) if in_use => "--listen unix:PATH takes a path that is free",
        ListenAddress::Unix(_) if why == ErrorKind::NotFound => {
            "the folder of the socket must exist"
        }
        ListenAddress::Unix(_) if why == ErrorKind::InvalidInput => {
            "the path of a socket has at most 107 bytes; a relative one may be shorter"
        }
        ListenAddress::Tcp(_) if in_use => "another process listens there; port 0 takes a free one",
        ListenAddress::Tcp(_) if why == ErrorKind::AddrNotAvailable => {
            "--listen tcp:HOST:PORT takes an address of this machine"
        }
        ListenAddress::Vsock(_) if in_use => "another process listens on this port",
        ListenAddress::Unix(_)
        | ListenAddress::Tcp(_)
        | ListenAddress::Vsock(_)
        | ListenAddress::Inherited(_) => "--listen takes unix:PATH, tcp:HOST:PORT or vsock:PORT",
    }
}

/// A shell that runs a command, with the addresses of the server in its environment.
pub(super) fn shell(command: &str, addresses: &[ListenAddress], arguments: &Serve) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]);
    // They are this process's.
    shell.env_remove("LISTEN_FDS").env_remove("LISTEN_PID").env_remove("LISTEN_FDNAMES");
    let is_secure = arguments.tls_certificates.is_some() && arguments.tls != Some(TlsChoice::Off);
    let scheme = if is_secure && arguments.tls != Some(TlsChoice::On) { "nbds" } else { "nbd" };
    let uri = addresses.iter().find_map(|address| uri(scheme, address));
    let socket = addresses.iter().find_map(|address| match address {
        ListenAddress::Unix(path) => Some(path),
        ListenAddress::Tcp(_) | ListenAddress::Vsock(_) | ListenAddress::Inherited(_) => None,
    });
    if uri.is_none() && command.contains("uri") {
        note("$uri is empty: no address is known here, such as that of a socket handed over");
    }
    if socket.is_none() && command.contains("unixsocket") {
        note("$unixsocket is empty: the server has no Unix socket of its own");
    }
    // One that this process was given is of another server.
    shell.env("uri", uri.unwrap_or_default());
    match socket {
        Some(path) => shell.env("unixsocket", path),
        None => shell.env("unixsocket", ""),
    };
    shell
}

/// An address as clients take it.
fn uri(scheme: &str, address: &ListenAddress) -> Option<String> {
    Some(match address {
        ListenAddress::Inherited(_) => return None,
        ListenAddress::Unix(path) => {
            format!("{scheme}+unix:///?socket={}", percent_encoded(path.as_os_str().as_bytes()))
        }
        ListenAddress::Tcp(address) => format!("{scheme}://{address}"),
        // As a client on this machine reaches it.
        ListenAddress::Vsock(port) => format!("{scheme}+vsock://1:{port}"),
    })
}

/// Bytes as the value of a query: RFC 3986.
fn percent_encoded(bytes: &[u8]) -> String {
    let mut encoded = String::new();
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(byte) {
            encoded.push(char::from(*byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn folders_of_killed_servers_are_removed_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).unwrap();
            let listener = UnixListener::bind(folder.join("socket")).unwrap();
            (folder, listener)
        };
        let age = |folder: &Path| {
            let old = SystemTime::now() - 2 * FOLDER_AGE_MIN;
            File::open(folder).unwrap().set_modified(old).unwrap();
        };
        let (dead, _) = make("forebay-serve-dead");
        let (new, _) = make("forebay-serve-new");
        let (other, _) = make("other");
        let (alive, _listener) = make("forebay-serve-alive");
        let (full, _) = make("forebay-serve-full");
        File::create(full.join("mine")).unwrap();
        [&dead, &other, &alive, &full].into_iter().for_each(|folder| age(folder));
        remove_dead_folders(parent.path()).unwrap();
        assert!(!dead.exists());
        assert!([new, other, alive, full].iter().all(|folder| folder.join("socket").exists()));
    }

    #[test]
    fn the_path_of_a_socket_is_one_value_of_a_uri() {
        let address = ListenAddress::Unix("a b&c?d#e%20/\u{fc}+=".into());
        let expected = "nbd+unix:///?socket=a%20b%26c%3Fd%23e%2520/%C3%BC%2B%3D";
        assert_eq!(uri("nbd", &address).as_deref(), Some(expected));
    }
}
