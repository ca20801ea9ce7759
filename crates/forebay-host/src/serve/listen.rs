//! Where clients come in: sockets, bound here or handed over, and what connects to them.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use forebay_core::dispatch::{Medium, MediumKind};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, VsockAddr, bind, socket};
use nix::sys::socket::{getpeername, getsockname};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_nodelay, socket_peercred};
use rustix::net::{self, SocketFlags};

/// Where clients come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A socket in the file system.
    Unix(PathBuf),
    /// An address and a port; port 0 takes a free one.
    Tcp(SocketAddr),
    /// A port for virtual machines and their host.
    Vsock(u32),
    /// A socket that was handed over, by the number of its descriptor.
    Inherited(i32),
}

/// A socket that clients connect to.
#[derive(Debug)]
pub(super) struct Listener(OwnedFd);

/// The file of a bound socket: another server may have put its own in its place.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Its device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    /// The file at an address, if that is one of files.
    pub(super) fn at(address: &ListenAddress) -> Option<Self> {
        let ListenAddress::Unix(path) = address else { return None };
        let found = fs::symlink_metadata(path).ok()?;
        Some(Self { path: path.clone(), identity: (found.dev(), found.ino()) })
    }

    /// Removes the file if it is still the same. Its socket must be open: without it, a new file
    /// could have the old inode.
    pub(super) fn remove(&self) {
        let address = ListenAddress::Unix(self.path.clone());
        if Self::at(&address).is_some_and(|found| found.identity == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine.
    Process {
        /// Its number when it connected.
        pid: i32,
        /// Its user.
        uid: u32,
    },
    /// An address of a network.
    Tcp(SocketAddr),
    /// A virtual machine or its host.
    Vsock {
        /// Its context.
        cid: u32,
        /// Its port.
        port: u32,
    },
    /// It is unknown.
    Unknown,
}

impl Peer {
    /// What the time until its next request is made of.
    pub(super) fn medium(&self) -> Medium {
        let kind = match self {
            Self::Process { .. } | Self::Vsock { .. } => MediumKind::Solid,
            Self::Tcp(address) if address.ip().is_loopback() => MediumKind::Solid,
            Self::Tcp(_) | Self::Unknown => MediumKind::Remote,
        };
        Medium { kind, programmed: false }
    }
}

impl Listener {
    /// A socket at an address, and the address with the port that was found.
    pub(super) fn bind(address: &ListenAddress) -> io::Result<(Self, ListenAddress)> {
        Ok(match address {
            ListenAddress::Unix(path) => {
                remove_dead_socket(path);
                (Self(UnixListener::bind(path)?.into()), address.clone())
            }
            ListenAddress::Tcp(wanted) => {
                let listener = TcpListener::bind(wanted)?;
                let found = listener.local_addr()?;
                (Self(listener.into()), ListenAddress::Tcp(found))
            }
            ListenAddress::Vsock(port) => {
                let flags = SockFlag::SOCK_CLOEXEC;
                let listener = socket(AddressFamily::Vsock, SockType::Stream, flags, None)?;
                bind(listener.as_raw_fd(), &VsockAddr::new(CID_ANY, *port))?;
                net::listen(&listener, BACKLOG)?;
                let found: VsockAddr = getsockname(listener.as_raw_fd())?;
                (Self(listener), ListenAddress::Vsock(found.port()))
            }
            ListenAddress::Inherited(_) => return Err(io::ErrorKind::InvalidInput.into()),
        })
    }

    /// A socket that listens already.
    pub(super) fn inherited(socket: OwnedFd) -> (Self, ListenAddress) {
        let address = ListenAddress::Inherited(socket.as_raw_fd());
        (Self(socket), address)
    }

    /// The next client; none once `closed` can be read. The socket itself is not changed: an
    /// inherited one may be passed to the next server.
    pub(super) fn accept(&self, closed: &OwnedFd) -> io::Result<Option<(OwnedFd, Peer)>> {
        let mut ready = [PollFd::new(&self.0, PollFlags::IN), PollFd::new(closed, PollFlags::IN)];
        loop {
            match poll(&mut ready, None) {
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if !ready[1].revents().is_empty() {
            return Ok(None);
        }
        let (stream, from) = net::acceptfrom_with(&self.0, SocketFlags::CLOEXEC)?;
        let from = from.and_then(|from| SocketAddr::try_from(from).ok());
        let peer = match from {
            Some(address) => {
                // Replies are put together before they are sent.
                set_tcp_nodelay(&stream, true)?;
                set_socket_keepalive(&stream, true)?;
                Peer::Tcp(address)
            }
            None => local_peer(&stream),
        };
        Ok(Some((stream, peer)))
    }
}

fn local_peer(stream: &OwnedFd) -> Peer {
    if let Ok(address) = getpeername::<VsockAddr>(stream.as_raw_fd()) {
        return Peer::Vsock { cid: address.cid(), port: address.port() };
    }
    socket_peercred(stream).map_or(Peer::Unknown, |found| Peer::Process {
        pid: found.pid.as_raw_nonzero().get(),
        uid: found.uid.as_raw(),
    })
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Vsock(port) => write!(f, "vsock:{port}"),
            Self::Inherited(number) => write!(f, "descriptor {number}"),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, uid } => write!(f, "process {pid} of user {uid}"),
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Vsock { cid, port } => write!(f, "vsock {cid}:{port}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// Removes a socket that no process listens on any more.
fn remove_dead_socket(path: &Path) {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let refused = || {
        UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    if is_socket && refused() {
        let _ = fs::remove_file(path);
    }
}

/// Any context of vsock: `VMADDR_CID_ANY`.
const CID_ANY: u32 = u32::MAX;

/// Clients that may wait for accept(2); std has the same for its listeners.
const BACKLOG: i32 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_of_another_server_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let bind = || Listener::bind(&ListenAddress::Unix(path.clone())).unwrap();
        let (_old, address) = bind();
        let old_file = SocketFile::at(&address).unwrap();
        fs::remove_file(&path).unwrap();
        let (_new, _) = bind();
        old_file.remove();
        assert!(path.exists());
        SocketFile::at(&address).unwrap().remove();
        assert!(!path.exists());
        old_file.remove();
    }
}
