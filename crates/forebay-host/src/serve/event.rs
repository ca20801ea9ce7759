//! What happens to clients, as lines of a log.

use std::fmt;
use std::time::Duration;

use forebay_nbd::{Command, Request};

use super::listen::Peer;
use super::meter::{ClientCounters, kind_name};

/// Events for the log, as they happen.
#[derive(Debug)]
pub enum ServeEvent<'a> {
    /// A client has connected.
    Connected {
        /// Its number, which no other client of this server has.
        client: u64,
        /// The client.
        peer: &'a Peer,
    },
    /// A client has chosen an export.
    Opened {
        /// Its number.
        client: u64,
        /// The export.
        export: &'a str,
        /// Whether the connection is encrypted.
        tls: bool,
    },
    /// A client has left, or was sent away.
    Left {
        /// Its number.
        client: u64,
        /// Its requests.
        counters: ClientCounters,
        /// Why it was sent away, if it was.
        why: Option<&'a str>,
    },
    /// A request was answered with an error without being executed.
    Refused {
        /// The client's number.
        client: u64,
        /// The request.
        request: &'a Request,
        /// The error.
        why: &'a str,
    },
    /// A request has failed.
    Failed {
        /// The client's number.
        client: u64,
        /// The request.
        request: &'a Request,
        /// Why.
        why: &'a str,
    },
    /// A request has taken long.
    Slow {
        /// The client's number.
        client: u64,
        /// The request.
        request: &'a Request,
        /// How long.
        took: Duration,
    },
    /// Further refused, failed and slow requests of a client are only counted.
    Muted {
        /// The client's number.
        client: u64,
    },
    /// A client was not taken in, or could not be.
    NotTaken(&'a str),
    /// The source of an export fails.
    SourceFails {
        /// The export.
        export: &'a str,
        /// Why.
        why: &'a str,
    },
    /// The source of an export answers again.
    SourceAnswers {
        /// The export.
        export: &'a str,
    },
    /// Something that is no client's.
    Trouble(&'a str),
}

/// Is called with what happens, from any thread.
pub type ServeLog = Box<dyn Fn(&ServeEvent<'_>) + Send + Sync>;

impl ServeEvent<'_> {
    /// Whether it goes to standard error if there is no log.
    pub fn is_trouble(&self) -> bool {
        matches!(
            self,
            Self::Left { why: Some(_), .. }
                | Self::NotTaken(_)
                | Self::SourceFails { .. }
                | Self::SourceAnswers { .. }
                | Self::Trouble(_)
        )
    }

    /// Whether clients can cause any number of them.
    pub fn is_sent_away(&self) -> bool {
        matches!(self, Self::Left { why: Some(_), .. } | Self::NotTaken(_))
    }
}

impl fmt::Display for ServeEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { client, peer } => write!(f, "client {client}: connected: {peer}"),
            Self::Opened { client, export, tls } => {
                let way = if *tls { ", TLS" } else { "" };
                write!(f, "client {client}: {}{way}", export_label(export))
            }
            Self::Left { client, counters, why } => {
                match why {
                    Some(why) => write!(f, "client {client}: a client was sent away: {why}")?,
                    None => write!(f, "client {client}: left")?,
                }
                let ClientCounters { requests, read_bytes, written_bytes, failed, refused, .. } =
                    counters;
                write!(
                    f,
                    "; {requests} requests, {read_bytes} bytes read, {written_bytes} written, \
                     {failed} failed, {refused} refused"
                )
            }
            Self::Refused { client, request, why } => {
                write!(f, "client {client}: refused: {}: {why}", Shown(request))
            }
            Self::Failed { client, request, why } => {
                write!(f, "client {client}: failed: {}: {why}", Shown(request))
            }
            Self::Slow { client, request, took } => {
                write!(f, "client {client}: slow: {}: {took:.3?}", Shown(request))
            }
            Self::Muted { client } => {
                write!(f, "client {client}: its further requests are counted and not logged")
            }
            Self::SourceFails { export, why } => {
                write!(f, "{}: source fails: {why}", export_label(export))
            }
            Self::SourceAnswers { export } => {
                write!(f, "{}: source answers again", export_label(export))
            }
            Self::NotTaken(text) | Self::Trouble(text) => f.write_str(text),
        }
    }
}

/// An export as people read of it.
pub fn export_label(name: &str) -> String {
    match name {
        "" => "export (default)".to_owned(),
        _ => format!("export '{}'", name.escape_debug()),
    }
}

/// A request as the log shows it.
struct Shown<'a>(&'a Request);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { command, offset, length, fua, .. } = *self.0;
        f.write_str(kind_name(command))?;
        if command != Command::Flush {
            write!(f, " of {length} bytes at {offset}")?;
        }
        if fua { f.write_str(" with FUA") } else { Ok(()) }
    }
}
