//! Requests: parsed, and checked against the negotiated options.
//!
//! ```text
//!   compact   magic:4 flags:2 type:2 cookie:8 offset:8 length:4
//!   extended  magic:4 flags:2 type:2 cookie:8 offset:8 length:8
//! ```

use crate::agreed::{Agreed, ReplyStyle};
use crate::export::Export;
use crate::wire::{EXTENDED_REQUEST, Errno, PAYLOAD_MAX, REQUEST, Reader};

/// Commands of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Bytes of the export.
    Read,
    /// Bytes for the export.
    Write,
    /// Data that was acknowledged before is on disk before the reply.
    Flush,
    /// The bytes are not needed any more.
    Trim,
    /// The bytes will be read soon.
    Cache,
    /// The bytes read as zeroes from now on.
    WriteZeroes,
    /// Which of the bytes are allocated.
    BlockStatus,
    /// None of these.
    Unknown,
}

impl Command {
    /// As it is sent.
    pub(crate) const fn number(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Flush => 3,
            Self::Trim => 4,
            Self::Cache => 5,
            Self::WriteZeroes => 6,
            Self::BlockStatus => 7,
            Self::Unknown => u16::MAX,
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What the client recognizes the reply by.
    pub cookie: u64,
    /// The command.
    pub command: Command,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
    /// The request's own bytes are on disk before the reply.
    pub fua: bool,
    /// WRITE_ZEROES leaves the space allocated.
    pub no_hole: bool,
    /// BLOCK_STATUS gives one extent, which ends with the request.
    pub one_extent: bool,
}

/// The result of parsing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// It is executed; the payload of a WRITE follows.
    Accept(Request),
    /// It is answered as done: it has no bytes.
    Empty(Request),
    /// It is answered with an error once its `payload` bytes have been skipped.
    Refuse { request: Request, errno: Errno, text: &'static str, payload: u64 },
    /// The client leaves.
    Disconnect,
    /// The stream cannot be trusted.
    Broken(&'static str),
}

impl Agreed {
    /// Bytes of a request's header.
    pub(crate) fn header_bytes(&self) -> usize {
        if self.style == ReplyStyle::Extended { 32 } else { 28 }
    }

    /// Parses the header of a request; none if it is not there as a whole.
    pub(crate) fn parse(&self, header: &[u8], export: &Export) -> Option<Parsed> {
        let mut reader = Reader(header);
        let extended = self.style == ReplyStyle::Extended;
        let magic = reader.u32()?;
        let (flags, kind, cookie) = (reader.u16()?, reader.u16()?, reader.u64()?);
        let (offset, length) = (
            reader.u64()?,
            match extended {
                true => reader.u64()?,
                false => u64::from(reader.u32()?),
            },
        );
        if magic != if extended { EXTENDED_REQUEST } else { REQUEST } {
            return Some(Parsed::Broken("a request begins with a wrong number"));
        }
        let command = match kind {
            0 => Command::Read,
            1 => Command::Write,
            2 => return Some(Parsed::Disconnect),
            3 => Command::Flush,
            4 => Command::Trim,
            5 => Command::Cache,
            6 => Command::WriteZeroes,
            7 => Command::BlockStatus,
            _ => Command::Unknown,
        };
        let has = |flag| flags & flag != 0;
        let request = Request {
            cookie,
            command,
            offset,
            length,
            fua: has(FUA),
            no_hole: has(NO_HOLE),
            one_extent: has(REQ_ONE),
        };
        // The protocol requires the flag for each WRITE with an extended header; qemu's client
        // omits it and still sends the payload.
        let has_payload = command == Command::Write || (has(PAYLOAD_LEN) && extended);
        let payload = if has_payload { length } else { 0 };
        if payload > 2 * u64::from(PAYLOAD_MAX) {
            return Some(Parsed::Broken("a payload is longer than any that is skipped"));
        }
        let verdict = self.judge(&request, flags, export, has_payload);
        Some(match verdict {
            Err((errno, text)) => Parsed::Refuse { request, errno, text, payload },
            Ok(()) if length == 0 && command != Command::Flush => Parsed::Empty(request),
            Ok(()) => Parsed::Accept(request),
        })
    }

    /// Why a request is refused, if it is.
    fn judge(
        &self,
        request: &Request,
        flags: u16,
        export: &Export,
        has_payload: bool,
    ) -> Result<(), (Errno, &'static str)> {
        let Request { command, offset, length, .. } = *request;
        let framing = if self.style == ReplyStyle::Extended { PAYLOAD_LEN } else { 0 };
        let allowed = match command {
            // Some clients set FUA on what writes nothing.
            Command::Read if self.style == ReplyStyle::Simple => FUA,
            Command::Read => FUA | DF,
            Command::Write => FUA | framing,
            Command::Flush | Command::Trim | Command::Cache => FUA,
            Command::WriteZeroes => FUA | NO_HOLE | FAST_ZERO,
            Command::BlockStatus => FUA | REQ_ONE,
            Command::Unknown => return Err((Errno::Invalid, "unknown command")),
        };
        if flags & !allowed != 0 {
            return Err((Errno::Invalid, "a flag that this command does not have here"));
        }
        if has_payload && command != Command::Write {
            return Err((Errno::Invalid, "WRITE alone has a payload"));
        }
        let writes = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes);
        if writes && export.read_only {
            return Err((Errno::Permission, "the export is read-only"));
        }
        if command == Command::Flush {
            let plain = offset == 0 && length == 0;
            return plain.then_some(()).ok_or((Errno::Invalid, "FLUSH has no offset or length"));
        }
        if offset > export.size || length > export.size - offset {
            let grows = matches!(command, Command::Write | Command::WriteZeroes);
            let errno = if grows { Errno::NoSpace } else { Errno::Invalid };
            return Err((errno, "the range ends beyond the export"));
        }
        let long = length > u64::from(PAYLOAD_MAX);
        match command {
            Command::Read | Command::Write if long => {
                Err((Errno::Invalid, "more than 32 MiB in one request"))
            }
            Command::BlockStatus if !self.allocation => {
                Err((Errno::Invalid, "no metadata context was selected"))
            }
            Command::BlockStatus if length == 0 => {
                Err((Errno::Invalid, "the status of no bytes was asked for"))
            }
            Command::WriteZeroes if flags & FAST_ZERO != 0 && !export.fast_zero => {
                Err((Errno::NotSupported, "zeroing is not faster than writing here"))
            }
            Command::Read
            | Command::Write
            | Command::Flush
            | Command::Trim
            | Command::Cache
            | Command::WriteZeroes
            | Command::BlockStatus
            | Command::Unknown => Ok(()),
        }
    }
}

pub(crate) const FUA: u16 = 1;
pub(crate) const NO_HOLE: u16 = 1 << 1;
const DF: u16 = 1 << 2;
pub(crate) const REQ_ONE: u16 = 1 << 3;
const FAST_ZERO: u16 = 1 << 4;
const PAYLOAD_LEN: u16 = 1 << 5;
