//! The socket for status requests to a server.
//!
//! It has a name without a file, `@forebay-serve-PID`: nothing is left behind by a server that is
//! killed. A server answers its own user and root with one JSON object, and ends the connection.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use forebay_host::serve::Reporter;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use serde_json::Value;

use super::json;

const NAME: &str = "forebay-serve-";

/// Time for a reader of the status.
const PATIENCE: Duration = Duration::from_secs(5);

/// Begins to answer.
pub(super) fn answer(reporter: Reporter) -> Result<()> {
    let name = format!("{NAME}{}", process::id());
    let address = SocketAddr::from_abstract_name(&name)?;
    let listener = UnixListener::bind_addr(&address).context("cannot make the status socket")?;
    let serve = move || {
        for stream in listener.incoming() {
            match stream {
                Ok(mut stream) if is_trusted(&stream) => {
                    let text = json::object(&reporter.report(), process::id()).to_string();
                    // A reader that has left needs no answer.
                    let _ = stream.set_write_timeout(Some(PATIENCE));
                    let _ = stream.write_all(text.as_bytes());
                }
                Ok(_) => {}
                Err(_) => thread::sleep(PATIENCE),
            }
        }
    };
    thread::Builder::new().name("status".to_owned()).spawn(serve)?;
    Ok(())
}

/// Whether the other side is root or the same user.
fn is_trusted(stream: &UnixStream) -> bool {
    let own = geteuid();
    socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == own)
}

/// The processes that have such a socket.
pub(super) fn servers() -> Result<Vec<u32>> {
    let table = fs::read_to_string("/proc/net/unix").context("cannot read /proc/net/unix")?;
    Ok(processes(&table))
}

fn processes(table: &str) -> Vec<u32> {
    let names = table.lines().filter_map(|line| line.split_whitespace().nth(7));
    let numbers = names.filter_map(|name| name.strip_prefix('@')?.strip_prefix(NAME));
    let mut found: Vec<u32> = numbers.filter_map(|number| number.parse().ok()).collect();
    found.sort_unstable();
    // Each connection has a separate line.
    found.dedup();
    found
}

/// What a server says; nothing if it is not ours to ask, or has just ended.
pub(super) fn ask(pid: u32) -> Result<Option<Value>> {
    let address = SocketAddr::from_abstract_name(format!("{NAME}{pid}"))?;
    let Ok(mut stream) = UnixStream::connect_addr(&address) else { return Ok(None) };
    let own = geteuid();
    let is_own = socket_peercred(&stream).is_ok_and(|peer| own.is_root() || peer.uid == own);
    if !is_own {
        return Ok(None);
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    if let Err(error) = stream.read_to_string(&mut text) {
        let is_late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        let late = format!("no answer within {} s", PATIENCE.as_secs());
        let why = if is_late { late } else { error.to_string() };
        bail!("process {pid} does not tell its status: {why}");
    }
    if text.is_empty() {
        return Ok(None);
    }
    let value = serde_json::from_str(&text);
    Ok(Some(value.with_context(|| format!("the status of process {pid} is not JSON"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_found_by_the_names_of_their_sockets() {
        let table = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 110 @forebay-serve-4711
0000000000000000: 00000003 00000000 00000000 0001 03 111 @forebay-serve-4711
0000000000000000: 00000002 00000000 00010000 0001 01 112 @forebay-serve-12
0000000000000000: 00000002 00000000 00010000 0001 01 113 @forebay-serve-x
0000000000000000: 00000002 00000000 00010000 0001 01 114 /run/forebay-serve-7
0000000000000000: 00000002 00000000 00000000 0002 01 115
";
        assert_eq!(processes(table), [12, 4711]);
    }
}
