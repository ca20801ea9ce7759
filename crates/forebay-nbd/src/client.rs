//! The client's side of a connection without its socket: another server's export is a source.
//!
//! ```text
//!   greeting --> STRUCTURED_REPLY --> SET_META_CONTEXT --> GO --> requests, replies
//!                      '--- refused: simple replies ---------^
//! ```
//!
//! Simple and structured replies. No TLS, and no extended headers.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::export::{CAN_MULTI_CONN, READ_ONLY, SEND_FLUSH, SEND_FUA, SEND_WRITE_ZEROES};
use crate::handshake::{
    ACK, FIXED_NEWSTYLE, GO, INFO_BLOCK_SIZE, INFO_EXPORT, NO_ZEROES, REP_INFO, REP_META_CONTEXT,
    SET_META_CONTEXT, STRUCTURED_REPLY,
};
use crate::reply::{
    BLOCK_STATUS, DONE, ERROR, ERROR_OFFSET, Extent, NONE, OFFSET_DATA, OFFSET_HOLE,
};
use crate::request::{Command, FUA, NO_HOLE, REQ_ONE, Request};
use crate::wire::{
    CHUNK, Errno, GREETING, NAME_MAX, OPTION, OPTION_MAX, OPTION_REPLY, PAYLOAD_MAX, REQUEST,
    Reader, SIMPLE_REPLY,
};

/// Properties of an export, from its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteExport {
    /// Its bytes.
    pub size: u64,
    /// It refuses writes.
    pub read_only: bool,
    /// It has FLUSH.
    pub flush: bool,
    /// It has FUA.
    pub fua: bool,
    /// It has WRITE_ZEROES.
    pub zeroes: bool,
    /// A FLUSH on one connection covers all of them.
    pub multi_conn: bool,
    /// It has BLOCK_STATUS with `base:allocation`.
    pub allocation: bool,
    /// Offsets and lengths are multiples of this.
    pub block_min: u32,
    /// Bytes of data in one request at most.
    pub payload_max: u32,
}

/// A connection to a server: bytes in, replies and bytes out.
#[derive(Debug)]
pub struct ClientSession {
    name: String,
    phase: Phase,
    remote: RemoteExport,
    has_chunks: bool,
    /// The number of `base:allocation` in replies.
    context: Option<u32>,
    partial: Vec<u8>,
    cookies: u64,
    pending: BTreeMap<u64, Pending>,
}

/// What bytes of a server have led to.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// Requests may be sent.
    Ready(RemoteExport),
    /// A request has been answered.
    Reply(ClientReply),
    /// The connection is broken, with the reason.
    Broken(String),
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientReply {
    /// What [`ClientSession::request`] has returned.
    pub cookie: u64,
    /// The server's error number, if it refused.
    pub result: Result<(), u32>,
    /// What a READ has read.
    pub data: Vec<u8>,
    /// What BLOCK_STATUS has told, from the request's offset on.
    pub extents: Vec<Extent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Greeting,
    /// Until the replies to this option have ended.
    Option(u32),
    Requests,
    Ended,
}

#[derive(Debug)]
struct Pending {
    request: Request,
    data: Vec<u8>,
    /// Bytes of a READ that have come.
    covered: u64,
    extents: Vec<Extent>,
    error: Option<u32>,
}

/// Why a session ends.
type Fault = String;

impl ClientSession {
    /// A connection that is to use the export of a name, which is empty for the default one.
    ///
    /// # Errors
    /// No name is so long.
    pub fn new(name: &str) -> Result<Self, NameError> {
        if name.len() > NAME_MAX {
            return Err(NameError);
        }
        Ok(Self {
            name: name.to_owned(),
            phase: Phase::Greeting,
            remote: RemoteExport { block_min: 1, payload_max: PAYLOAD_MAX, ..<_>::default() },
            has_chunks: false,
            context: None,
            partial: Vec::new(),
            cookies: 0,
            pending: BTreeMap::new(),
        })
    }

    /// Takes bytes as they arrive; `out` gets the bytes to send.
    pub fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>, events: &mut Vec<ClientEvent>) {
        let mut whole = core::mem::take(&mut self.partial);
        whole.extend_from_slice(bytes);
        let mut used = 0;
        while self.phase != Phase::Ended {
            match self.step(&whole[used..], out, events) {
                Ok(Some(count)) => used += count,
                Ok(None) => break,
                Err(fault) => {
                    self.phase = Phase::Ended;
                    events.push(ClientEvent::Broken(fault));
                }
            }
        }
        whole.drain(..used);
        self.partial = whole;
    }

    /// Writes the header of a request, and returns what its reply is known by. The payload of a
    /// WRITE has to follow. The request's own cookie is not looked at.
    ///
    /// # Panics
    /// If the session is not ready.
    pub fn request(&mut self, request: &Request, out: &mut Vec<u8>) -> u64 {
        assert_eq!(self.phase, Phase::Requests, "requests come after the handshake");
        self.cookies += 1;
        let cookie = self.cookies;
        let Request { command, offset, length, fua, no_hole, one_extent, .. } = *request;
        let mut flags = if fua { FUA } else { 0 };
        flags |= if no_hole { NO_HOLE } else { 0 };
        flags |= if one_extent { REQ_ONE } else { 0 };
        out.extend_from_slice(&REQUEST.to_be_bytes());
        out.extend_from_slice(&flags.to_be_bytes());
        out.extend_from_slice(&command.number().to_be_bytes());
        out.extend_from_slice(&cookie.to_be_bytes());
        out.extend_from_slice(&offset.to_be_bytes());
        let length = u32::try_from(length).expect("a request is shorter than 4 GiB");
        out.extend_from_slice(&length.to_be_bytes());
        let (data, extents) = (Vec::new(), Vec::new());
        let pending = Pending { request: *request, data, covered: 0, extents, error: None };
        self.pending.insert(cookie, pending);
        cookie
    }

    /// Tells the server that the client leaves, once all is answered.
    pub fn disconnect(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&REQUEST.to_be_bytes());
        out.extend_from_slice(&[0, 0, 0, 2]);
        out.extend_from_slice(&[0; 20]);
    }

    /// Consumes one message; none if it is not there as a whole.
    fn step(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<ClientEvent>,
    ) -> Result<Option<usize>, Fault> {
        match self.phase {
            Phase::Greeting => self.greeting(bytes, out),
            Phase::Option(option) => self.option_reply(option, bytes, out, events),
            Phase::Requests => self.reply(bytes, events),
            Phase::Ended => Ok(None),
        }
    }

    fn greeting(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>, Fault> {
        let mut reader = Reader(bytes);
        let (Some(first), Some(second), Some(flags)) = (reader.u64(), reader.u64(), reader.u16())
        else {
            return Ok(None);
        };
        if first != GREETING {
            return Err("it is no NBD server".to_owned());
        }
        let flags = u32::from(flags);
        if second != OPTION || flags & FIXED_NEWSTYLE == 0 {
            return Err("the server speaks an old protocol".to_owned());
        }
        out.extend_from_slice(&(FIXED_NEWSTYLE | flags & NO_ZEROES).to_be_bytes());
        self.send_option(STRUCTURED_REPLY, &[], out);
        Ok(Some(18))
    }

    fn send_option(&mut self, option: u32, parts: &[&[u8]], out: &mut Vec<u8>) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        out.extend_from_slice(&OPTION.to_be_bytes());
        out.extend_from_slice(&option.to_be_bytes());
        out.extend_from_slice(&(length as u32).to_be_bytes());
        parts.iter().for_each(|part| out.extend_from_slice(part));
        self.phase = Phase::Option(option);
    }

    fn send_go(&mut self, out: &mut Vec<u8>) {
        let name = self.name.clone();
        let length = (name.len() as u32).to_be_bytes();
        let (count, kind) = (1_u16.to_be_bytes(), INFO_BLOCK_SIZE.to_be_bytes());
        self.send_option(GO, &[&length, name.as_bytes(), &count, &kind], out);
    }

    fn option_reply(
        &mut self,
        option: u32,
        bytes: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<ClientEvent>,
    ) -> Result<Option<usize>, Fault> {
        let mut reader = Reader(bytes);
        let (Some(magic), Some(echo), Some(kind), Some(length)) =
            (reader.u64(), reader.u32(), reader.u32(), reader.u32())
        else {
            return Ok(None);
        };
        if magic != OPTION_REPLY || echo != option {
            return Err("the reply to an option is none".to_owned());
        }
        if length > OPTION_MAX {
            return Err("the reply to an option is longer than 64 KiB".to_owned());
        }
        let Some(data) = reader.bytes(length as usize) else { return Ok(None) };
        let used = bytes.len() - reader.0.len();
        let refused = kind & (1 << 31) != 0;
        match option {
            STRUCTURED_REPLY if kind == ACK => {
                self.has_chunks = true;
                let name = self.name.clone();
                let length = (name.len() as u32).to_be_bytes();
                let context = b"base:allocation";
                let (count, of) = (1_u32.to_be_bytes(), (context.len() as u32).to_be_bytes());
                let parts: [&[u8]; 5] = [&length, name.as_bytes(), &count, &of, context];
                self.send_option(SET_META_CONTEXT, &parts, out);
            }
            STRUCTURED_REPLY if refused => self.send_go(out),
            SET_META_CONTEXT if kind == REP_META_CONTEXT => self.context = Reader(data).u32(),
            SET_META_CONTEXT if kind == ACK || refused => self.send_go(out),
            GO if kind == REP_INFO => self.info(data)?,
            GO if kind == ACK => {
                if self.remote.size == 0 {
                    return Err("the export is empty".to_owned());
                }
                self.remote.allocation = self.context.is_some();
                self.phase = Phase::Requests;
                events.push(ClientEvent::Ready(self.remote));
            }
            GO if refused => {
                let text = String::from_utf8_lossy(data);
                let number = kind & !(1 << 31);
                return Err(format!("the server refuses the export (error {number}): {text}"));
            }
            _ => return Err(format!("an option has the unknown reply {kind}")),
        }
        Ok(Some(used))
    }

    fn info(&mut self, data: &[u8]) -> Result<(), Fault> {
        let mut reader = Reader(data);
        let short = || "the server's words about the export are too short".to_owned();
        match reader.u16().ok_or_else(short)? {
            INFO_EXPORT => {
                let size = reader.u64().ok_or_else(short)?;
                let flags = reader.u16().ok_or_else(short)?;
                let has = |flag| flags & flag != 0;
                self.remote.size = size;
                self.remote.read_only = has(READ_ONLY);
                self.remote.flush = has(SEND_FLUSH);
                self.remote.fua = has(SEND_FUA);
                self.remote.zeroes = has(SEND_WRITE_ZEROES);
                self.remote.multi_conn = has(CAN_MULTI_CONN);
            }
            INFO_BLOCK_SIZE => {
                let least = reader.u32().ok_or_else(short)?;
                let (_, most) = (reader.u32().ok_or_else(short)?, reader.u32().ok_or_else(short)?);
                if !least.is_power_of_two() || most < least {
                    return Err(format!("the block sizes {least} and {most} make no sense"));
                }
                self.remote.block_min = least;
                self.remote.payload_max = most.min(PAYLOAD_MAX);
            }
            _ => {}
        }
        Ok(())
    }

    fn reply(
        &mut self,
        bytes: &[u8],
        events: &mut Vec<ClientEvent>,
    ) -> Result<Option<usize>, Fault> {
        let mut reader = Reader(bytes);
        match reader.u32() {
            None => Ok(None),
            Some(SIMPLE_REPLY) => {
                let (Some(error), Some(cookie)) = (reader.u32(), reader.u64()) else {
                    return Ok(None);
                };
                let pending = self.find(cookie)?;
                if pending.request.command == Command::Read && error == 0 {
                    let length = pending.request.length as usize;
                    let Some(data) = reader.bytes(length) else { return Ok(None) };
                    pending.data.extend_from_slice(data);
                    pending.covered = length as u64;
                }
                pending.error = (error != 0).then_some(error);
                self.end(cookie, events)?;
                Ok(Some(bytes.len() - reader.0.len()))
            }
            Some(CHUNK) if self.has_chunks => {
                let (Some(flags), Some(kind), Some(cookie), Some(length)) =
                    (reader.u16(), reader.u16(), reader.u64(), reader.u32())
                else {
                    return Ok(None);
                };
                if length > PAYLOAD_MAX + 8 {
                    return Err("a chunk is longer than any request".to_owned());
                }
                let context = self.context;
                // Before the payload: it is not waited for if the request is unknown.
                let pending = self.find(cookie)?;
                let Some(data) = reader.bytes(length as usize) else { return Ok(None) };
                pending.take_chunk(kind, data, context)?;
                if flags & DONE != 0 {
                    self.end(cookie, events)?;
                }
                Ok(Some(bytes.len() - reader.0.len()))
            }
            Some(_) => Err("a reply begins with a wrong number".to_owned()),
        }
    }

    fn find(&mut self, cookie: u64) -> Result<&mut Pending, Fault> {
        self.pending.get_mut(&cookie).ok_or_else(|| "a reply answers no request".to_owned())
    }

    fn end(&mut self, cookie: u64, events: &mut Vec<ClientEvent>) -> Result<(), Fault> {
        let pending = self.pending.remove(&cookie).expect("it was found");
        let Pending { request, data, covered, extents, error } = pending;
        let is_whole = match request.command {
            Command::Read => covered == request.length,
            Command::BlockStatus => !extents.is_empty(),
            Command::Write
            | Command::Flush
            | Command::Trim
            | Command::Cache
            | Command::WriteZeroes
            | Command::Unknown => true,
        };
        if error.is_none() && !is_whole {
            return Err("a reply that reports success lacks data".to_owned());
        }
        let result = error.map_or(Ok(()), Err);
        events.push(ClientEvent::Reply(ClientReply { cookie, result, data, extents }));
        Ok(())
    }
}

impl Pending {
    fn take_chunk(&mut self, kind: u16, data: &[u8], context: Option<u32>) -> Result<(), Fault> {
        let wrong = || "a chunk does not belong to its request".to_owned();
        let mut reader = Reader(data);
        match (kind, self.request.command) {
            (NONE, _) => {}
            (OFFSET_DATA, Command::Read) => {
                let offset = reader.u64().ok_or_else(wrong)?;
                let bytes = reader.0;
                let place = self.place(offset, bytes.len() as u64).ok_or_else(wrong)?;
                self.data[place..place + bytes.len()].copy_from_slice(bytes);
            }
            (OFFSET_HOLE, Command::Read) => {
                let offset = reader.u64().ok_or_else(wrong)?;
                let length = u64::from(reader.u32().ok_or_else(wrong)?);
                let place = self.place(offset, length).ok_or_else(wrong)?;
                self.data[place..place + length as usize].fill(0);
            }
            (BLOCK_STATUS, Command::BlockStatus) => {
                // Contexts that were not asked for are passed over.
                if Some(reader.u32().ok_or_else(wrong)?) == context {
                    while let (Some(length), Some(flags)) = (reader.u32(), reader.u32()) {
                        let (hole, zero) = (flags & 1 != 0, flags & 2 != 0);
                        self.extents.push(Extent { length: length.into(), hole, zero });
                    }
                }
                if self.extents.iter().any(|extent| extent.length == 0) {
                    return Err(wrong());
                }
            }
            (ERROR | ERROR_OFFSET, _) => {
                let error = reader.u32().ok_or_else(wrong)?;
                self.error = Some(if error == 0 { Errno::Io.code() } else { error });
            }
            // Errors of kinds to come are errors.
            (kind, _) if kind & (1 << 15) != 0 => self.error = Some(Errno::Io.code()),
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// The place of bytes in the data of a READ, which grows to its whole length.
    fn place(&mut self, offset: u64, length: u64) -> Option<usize> {
        let at = offset.checked_sub(self.request.offset)?;
        if length == 0 || at > self.request.length || length > self.request.length - at {
            return None;
        }
        self.covered += length;
        self.data.resize(self.request.length as usize, 0);
        usize::try_from(at).ok().filter(|_| self.covered <= self.request.length)
    }
}

/// No export has a name so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameError;
