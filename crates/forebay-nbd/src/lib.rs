//! The NBD protocol without sockets. The server's side: bytes in, requests and bytes out.
//!
//! A [`Session`] is one connection without its socket. It takes whatever bytes have arrived, cut
//! anywhere, writes the replies that it can give itself, and hands on the requests that need the
//! export. The caller answers these in any order, by [`Agreed`].
//!
//! ```text
//!   socket --bytes--> Session --Event::Request--> the export
//!      ^                 |                            |
//!      |  handshake,     |                            |
//!      +-- refusals <----+      Agreed: ok, error, read_header, extents
//!      +------------------------<---------------------+
//! ```
//!
//! ```
//! use forebay_nbd::{Event, Export, Session, TlsPolicy};
//!
//! let disk = Export { name: "disk".to_owned(), size: 1 << 20, ..Export::default() };
//! let (mut out, mut events) = (Vec::new(), Vec::new());
//! let mut session = Session::new([disk].into(), TlsPolicy::Off, &mut out);
//! assert!(out.starts_with(b"NBDMAGICIHAVEOPT"));
//!
//! // The client's flags, and the option EXPORT_NAME with the name of the export.
//! session.receive(&[0, 0, 0, 3], &mut out, &mut events);
//! session.receive(b"IHAVEOPT\0\0\0\x01\0\0\0\x04disk", &mut out, &mut events);
//! assert!(matches!(&events[..], [Event::Begin(agreed)] if agreed.export == 0));
//! ```
//!
//! [`ClientSession`] is the other side, for exports of other servers.
//!
//! Fixed newstyle only. Simple, structured and extended replies; the metadata context
//! `base:allocation`. STARTTLS is agreed on here; the encryption itself is the caller's.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod agreed;
mod client;
#[cfg(test)]
mod client_tests;
mod export;
mod handshake;
mod reply;
mod request;
mod session;
#[cfg(test)]
mod tests;
mod wire;

pub use agreed::{Agreed, ReplyStyle};
pub use client::{ClientEvent, ClientReply, ClientSession, NameError, RemoteExport};
pub use export::Export;
pub use handshake::TlsPolicy;
pub use reply::{Extent, Header};
pub use request::{Command, Request};
pub use session::{Ending, Event, Session};
pub use wire::{Errno, NAME_MAX, PAYLOAD_MAX};
