//! What a service manager is told: ready, alive, stopping.
//!
//! Source:     sd_notify(3): datagrams of `NAME=VALUE` lines to the socket of `NOTIFY_SOCKET`.
//! Behaviour:  a path, or a name without a file after an `@`. Without the variable nothing is sent;
//!             what cannot be sent is not tried again.
//! Differs:    nothing.
//! Not for:    anything but short lines.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use forebay_core::time::Duration;

/// The way to the service manager, if there is one.
#[derive(Debug, Default)]
pub struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// The time between two signs of life, half of what the manager allows.
    pub alive: Option<Duration>,
}

impl Notify {
    /// By the values of `NOTIFY_SOCKET` and `WATCHDOG_USEC`.
    pub fn new(socket: Option<&OsStr>, watchdog_usec: Option<&str>) -> io::Result<Self> {
        let Some(name) = socket.map(OsStr::as_bytes).filter(|name| !name.is_empty()) else {
            return Ok(Self::default());
        };
        let address = match name.strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(OsStr::from_bytes(name))?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        let alive = watchdog_usec
            .and_then(|usec| usec.parse::<u64>().ok())
            .filter(|usec| *usec > 0)
            .map(|usec| Duration::from_micros(usec / 2));
        Ok(Self { socket: Some((socket, address)), alive })
    }

    /// Steering has begun.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// A sign of life.
    pub fn is_alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// Everything is being put back.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, lines: &str) {
        let Some((socket, address)) = &self.socket else { return };
        // A manager that does not listen is no reason to steer otherwise.
        let _ = socket.send_to_addr(lines.as_bytes(), address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 256];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_manager_hears_of_begin_life_and_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let notify = Notify::new(Some(path.as_os_str()), Some("3000000")).unwrap();
        assert_eq!(notify.alive, Some(Duration::from_millis(1_500)));
        notify.ready("tuning loop1");
        assert_eq!(received(&manager), "READY=1\nSTATUS=tuning loop1");
        notify.is_alive();
        assert_eq!(received(&manager), "WATCHDOG=1");
        notify.stopping();
        assert_eq!(received(&manager), "STOPPING=1");
    }

    #[test]
    fn a_name_without_a_file_is_reached_too() {
        let name = format!("forebay-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let name = format!("@{name}");
        Notify::new(Some(OsStr::new(&name)), None).unwrap().stopping();
        assert_eq!(received(&manager), "STOPPING=1");
    }

    #[test]
    fn without_a_manager_nothing_is_sent() {
        let notify = Notify::new(None, Some("1000")).unwrap();
        assert!(notify.socket.is_none() && notify.alive.is_none());
        notify.ready("without a receiver");
        let gone = Notify::new(Some(OsStr::new("/nonexistent/socket")), None).unwrap();
        gone.ready("without a receiver");
        assert!(Notify::new(Some(OsStr::new("")), None).unwrap().socket.is_none());
    }
}
