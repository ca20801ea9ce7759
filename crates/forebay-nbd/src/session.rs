//! One connection without its socket.
//!
//! ```text
//!   greeting --> options --GO--> header --> payload of a WRITE --> header ...
//!                                   '-----> payload that is skipped, then the refusal
//! ```

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::agreed::Agreed;
use crate::export::Export;
use crate::handshake::{Handshake, Progress, TlsPolicy};
use crate::request::{Command, Parsed, Request};
use crate::wire::Errno;

/// One connection: bytes in, requests and bytes out.
#[derive(Debug)]
pub struct Session {
    exports: Arc<[Export]>,
    phase: Phase,
    /// The beginning of a message whose rest has not arrived.
    partial: Vec<u8>,
    /// Memory for payloads.
    spare: Vec<Vec<u8>>,
}

/// What bytes have led to.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// TLS begins, once the reply is sent: what arrives from now on is encrypted. Its plain text is
    /// received after [`Session::secured`].
    StartTls,
    /// The handshake is over.
    Begin(Agreed),
    /// A request that was checked, with the payload of a WRITE.
    Request(Request, Vec<u8>),
    /// A request was answered with an error.
    Refused(Request, Errno, &'static str),
    /// Nothing more is to be received.
    End(Ending),
}

/// Why a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client has ended the handshake.
    Aborted,
    /// The client has sent DISC: its earlier requests are answered.
    Disconnected,
    /// What the client sends cannot be understood, or is more than is allowed.
    Broken(&'static str),
}

#[derive(Debug)]
enum Phase {
    Handshake(Handshake),
    /// Until TLS has been established.
    Securing(Handshake),
    Header(Agreed),
    Payload(Agreed, Request, Vec<u8>),
    Skip(Agreed, SkippedPayload),
    Ended,
}

#[derive(Clone, Copy, Debug)]
struct SkippedPayload {
    request: Request,
    errno: Errno,
    text: &'static str,
    left: u64,
}

impl Session {
    /// A connection to some exports; `out` gets the greeting.
    pub fn new(exports: Arc<[Export]>, tls: TlsPolicy, out: &mut Vec<u8>) -> Self {
        Handshake::greet(out);
        let phase = Phase::Handshake(Handshake::new(tls));
        Self { exports, phase, partial: Vec::new(), spare: Vec::new() }
    }

    /// Takes bytes as they have arrived. What can be answered at once is written to `out`.
    pub fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>, events: &mut Vec<Event>) {
        if self.partial.is_empty() {
            let consumed = self.consume(bytes, out, events);
            self.partial.extend_from_slice(&bytes[consumed..]);
        } else {
            let mut whole = core::mem::take(&mut self.partial);
            whole.extend_from_slice(bytes);
            let consumed = self.consume(&whole, out, events);
            whole.drain(..consumed);
            self.partial = whole;
        }
        if self.has_ended() {
            self.partial.clear();
        }
    }

    /// TLS has been established after [`Event::StartTls`].
    ///
    /// # Panics
    /// If it was not asked for.
    pub fn secured(&mut self) {
        let Phase::Securing(handshake) = &self.phase else {
            panic!("TLS is established once, after it was asked for");
        };
        self.phase = Phase::Handshake(handshake.secured());
    }

    /// Whether TLS is being established.
    pub fn is_securing(&self) -> bool {
        matches!(self.phase, Phase::Securing(_))
    }

    /// Takes back the memory of a payload that is no longer needed.
    pub fn recycle(&mut self, mut payload: Vec<u8>) {
        if self.spare.len() < SPARE_MAX && payload.capacity() <= SPARE_BYTES {
            payload.clear();
            self.spare.push(payload);
        }
    }

    /// Gives up memory that is kept for payloads.
    pub fn release_memory(&mut self) {
        self.spare = Vec::new();
    }

    /// Whether the session has ended: nothing more is to be received.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// Whether the client has chosen an export.
    pub fn has_begun(&self) -> bool {
        !matches!(self.phase, Phase::Handshake(_) | Phase::Securing(_))
    }

    /// Consumes whole messages, and payloads as far as they are there; returns how many bytes.
    fn consume(&mut self, bytes: &[u8], out: &mut Vec<u8>, events: &mut Vec<Event>) -> usize {
        let mut rest = bytes;
        while let Some(used) = self.step(rest, out, events) {
            rest = &rest[used..];
        }
        bytes.len() - rest.len()
    }

    /// Consumes one message or a part of a payload; none if nothing more can be done.
    fn step(&mut self, rest: &[u8], out: &mut Vec<u8>, events: &mut Vec<Event>) -> Option<usize> {
        match &mut self.phase {
            Phase::Handshake(handshake) => match handshake.step(&self.exports, rest, out) {
                Progress::Partial => None,
                Progress::Next(used) => Some(used),
                Progress::StartTls(used) => {
                    events.push(Event::StartTls);
                    self.phase = Phase::Securing(core::mem::take(handshake));
                    Some(used)
                }
                Progress::Begin(used, agreed) => {
                    events.push(Event::Begin(agreed));
                    self.phase = Phase::Header(agreed);
                    Some(used)
                }
                Progress::Aborted => self.end(Ending::Aborted, events),
                Progress::Broken(why) => self.end(Ending::Broken(why), events),
            },
            // A client waits for the reply. What came before it was put there by a third party.
            Phase::Securing(_) if !rest.is_empty() => {
                self.end(Ending::Broken("bytes followed STARTTLS in plain text"), events)
            }
            Phase::Securing(_) => None,
            Phase::Header(agreed) => {
                let agreed = *agreed;
                let header = rest.get(..agreed.header_bytes())?;
                let parsed = agreed.parse(header, &self.exports[agreed.export])?;
                self.take(agreed, parsed, out, events)?;
                Some(header.len())
            }
            Phase::Payload(agreed, request, payload) => {
                let missing = request.length - payload.len() as u64;
                let used = rest.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
                payload.extend_from_slice(&rest[..used]);
                if used as u64 == missing {
                    events.push(Event::Request(*request, core::mem::take(payload)));
                    self.phase = Phase::Header(*agreed);
                    return Some(used);
                }
                (used > 0).then_some(used)
            }
            Phase::Skip(agreed, skip) => {
                let used = rest.len().min(usize::try_from(skip.left).unwrap_or(usize::MAX));
                skip.left -= used as u64;
                if skip.left == 0 {
                    let SkippedPayload { request, errno, text, .. } = *skip;
                    agreed.error(&request, errno, text, out);
                    events.push(Event::Refused(request, errno, text));
                    self.phase = Phase::Header(*agreed);
                    return Some(used);
                }
                (used > 0).then_some(used)
            }
            Phase::Ended => None,
        }
    }

    fn take(
        &mut self,
        agreed: Agreed,
        parsed: Parsed,
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Option<()> {
        match parsed {
            Parsed::Accept(request) if request.command == Command::Write => {
                // Its memory grows with received data, not with the announced length.
                let payload = self.spare.pop().unwrap_or_default();
                self.phase = Phase::Payload(agreed, request, payload);
            }
            Parsed::Accept(request) => events.push(Event::Request(request, Vec::new())),
            Parsed::Empty(request) => agreed.ok(&request, out),
            Parsed::Refuse { request, errno, text, payload } => {
                let skip = SkippedPayload { request, errno, text, left: payload };
                self.phase = Phase::Skip(agreed, skip);
            }
            Parsed::Disconnect => {
                self.end(Ending::Disconnected, events);
                return None;
            }
            Parsed::Broken(why) => {
                self.end(Ending::Broken(why), events);
                return None;
            }
        }
        Some(())
    }

    fn end(&mut self, ending: Ending, events: &mut Vec<Event>) -> Option<usize> {
        self.phase = Phase::Ended;
        events.push(Event::End(ending));
        None
    }
}

/// Payloads whose memory is kept, and the most that each of them keeps.
const SPARE_MAX: usize = 64;
const SPARE_BYTES: usize = 256 << 10;
