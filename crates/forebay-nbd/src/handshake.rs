//! The handshake: options in, replies out, until the client has chosen an export.
//!
//! ```text
//!   option   IHAVEOPT:8 number:4 length:4 data
//!   reply    magic:8 option:4 type:4 length:4 data
//! ```

use alloc::vec::Vec;

use crate::agreed::{Agreed, ReplyStyle};
use crate::export::Export;
use crate::wire::{
    ALLOCATION_ID, EXPORT_OPTIONS_MAX, GREETING, NAME_MAX, OPTION, OPTION_MAX, OPTION_REPLY,
    OPTIONS_MAX, PAYLOAD_MAX, QUERIES_MAX, Reader,
};

/// Whether connections are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsPolicy {
    /// STARTTLS is refused.
    #[default]
    Off,
    /// The client may send STARTTLS.
    Allowed,
    /// Before STARTTLS the client may only leave.
    Required,
}

/// A handshake that is under way.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    /// The client has sent its flags.
    greeted: bool,
    no_zeroes: bool,
    options: u32,
    tls: TlsPolicy,
    /// TLS has begun.
    is_secure: bool,
    style: ReplyStyle,
    /// The export for which `base:allocation` was selected.
    allocation: Option<usize>,
}

/// What a message of the handshake leads to.
#[derive(Debug)]
pub(crate) enum Progress {
    /// The message is not there as a whole.
    Partial,
    /// The handshake continues after this many bytes.
    Next(usize),
    /// TLS begins after this many bytes.
    StartTls(usize),
    /// Requests begin after this many bytes.
    Begin(usize, Agreed),
    /// The client has said that it leaves.
    Aborted,
    /// The connection is to be closed.
    Broken(&'static str),
}

/// An option as it came.
struct ClientOption<'a> {
    number: u32,
    data: &'a [u8],
}

/// An error reply to an option.
type Refusal = (u32, &'static str);

impl Handshake {
    /// A handshake that has not begun.
    pub(crate) fn new(tls: TlsPolicy) -> Self {
        Self { tls, ..Self::default() }
    }

    /// The handshake that continues inside TLS: agreements in plain text are forgotten.
    pub(crate) fn secured(&self) -> Self {
        let Self { greeted, no_zeroes, options, tls, .. } = *self;
        Self { greeted, no_zeroes, options, tls, is_secure: true, ..Self::default() }
    }

    /// Greets the client.
    pub(crate) fn greet(out: &mut Vec<u8>) {
        out.extend_from_slice(&GREETING.to_be_bytes());
        out.extend_from_slice(&OPTION.to_be_bytes());
        out.extend_from_slice(&((FIXED_NEWSTYLE | NO_ZEROES) as u16).to_be_bytes());
    }

    /// Takes one message from the front of `input`.
    pub(crate) fn step(&mut self, exports: &[Export], input: &[u8], out: &mut Vec<u8>) -> Progress {
        let mut reader = Reader(input);
        if !self.greeted {
            let Some(flags) = reader.u32() else { return Progress::Partial };
            if flags & !(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
                return Progress::Broken("the client has flags that were not offered");
            }
            self.greeted = true;
            self.no_zeroes = flags & NO_ZEROES != 0;
            return Progress::Next(4);
        }
        // A wrong number is noticed before the length behind it is believed.
        match reader.u64() {
            Some(OPTION) => {}
            Some(_) => return Progress::Broken("an option begins with a wrong number"),
            None => return Progress::Partial,
        }
        let (Some(number), Some(length)) = (reader.u32(), reader.u32()) else {
            return Progress::Partial;
        };
        if length > OPTION_MAX {
            return Progress::Broken("an option is longer than 64 KiB");
        }
        let of_exports = EXPORT_OPTIONS_MAX.saturating_mul(exports.len() as u32);
        if self.options >= OPTIONS_MAX.saturating_add(of_exports) {
            return Progress::Broken("the handshake has too many options");
        }
        let Some(data) = reader.bytes(length as usize) else { return Progress::Partial };
        self.options += 1;
        let option = ClientOption { number, data };
        self.answer(exports, &option, input.len() - reader.0.len(), out)
    }

    fn answer(
        &mut self,
        exports: &[Export],
        option: &ClientOption<'_>,
        consumed: usize,
        out: &mut Vec<u8>,
    ) -> Progress {
        let plain = option.data.is_empty();
        let needs_tls = self.tls == TlsPolicy::Required && !self.is_secure;
        let outcome = match option.number {
            EXPORT_NAME if needs_tls => {
                return Progress::Broken("EXPORT_NAME came before STARTTLS");
            }
            EXPORT_NAME => return self.export_name(exports, option.data, consumed, out),
            ABORT => {
                option.reply(ACK, &[], out);
                return Progress::Aborted;
            }
            START_TLS if self.tls == TlsPolicy::Off => Err((ERR_UNSUP, "there is no TLS here")),
            START_TLS if self.is_secure => Err((ERR_INVALID, "TLS has begun already")),
            START_TLS if plain => {
                option.reply(ACK, &[], out);
                return Progress::StartTls(consumed);
            }
            START_TLS => Err((ERR_INVALID, "this option has no data")),
            _ if needs_tls => Err((ERR_TLS_REQD, "STARTTLS comes first")),
            LIST if plain => {
                list(exports, option, out);
                Ok(())
            }
            INFO | GO => match Self::info(exports, option, self.style, out) {
                Ok(export) if option.number == GO => {
                    option.reply(ACK, &[], out);
                    return Progress::Begin(consumed, self.agreed(export));
                }
                result => result.map(drop),
            },
            STRUCTURED_REPLY if plain => {
                if self.style == ReplyStyle::Simple {
                    self.style = ReplyStyle::Structured;
                }
                Ok(())
            }
            EXTENDED_HEADERS if plain => {
                self.style = ReplyStyle::Extended;
                Ok(())
            }
            LIST_META_CONTEXT | SET_META_CONTEXT => self.contexts(exports, option, out),
            LIST | STRUCTURED_REPLY | EXTENDED_HEADERS => {
                Err((ERR_INVALID, "this option has no data"))
            }
            _ => Err((ERR_UNSUP, "unknown option")),
        };
        match outcome {
            Ok(()) => option.reply(ACK, &[], out),
            Err((kind, text)) => option.reply(kind, text.as_bytes(), out),
        }
        Progress::Next(consumed)
    }

    fn agreed(&self, export: usize) -> Agreed {
        Agreed { export, style: self.style, allocation: self.allocation == Some(export) }
    }

    /// The option of old clients, which cannot receive an error.
    fn export_name(
        &self,
        exports: &[Export],
        name: &[u8],
        consumed: usize,
        out: &mut Vec<u8>,
    ) -> Progress {
        if self.style == ReplyStyle::Extended {
            return Progress::Broken("EXPORT_NAME does not go with extended headers");
        }
        let Ok(export) = find(exports, name) else {
            return Progress::Broken("EXPORT_NAME names an unknown export");
        };
        out.extend_from_slice(&exports[export].size.to_be_bytes());
        out.extend_from_slice(&exports[export].flags(self.style).to_be_bytes());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; 124]);
        }
        Progress::Begin(consumed, self.agreed(export))
    }

    /// INFO and GO, but for the ACK.
    fn info(
        exports: &[Export],
        option: &ClientOption<'_>,
        style: ReplyStyle,
        out: &mut Vec<u8>,
    ) -> Result<usize, Refusal> {
        let malformed = (ERR_INVALID, "the lengths inside the option do not add up");
        let mut reader = Reader(option.data);
        let name = reader.counted().ok_or(malformed)?;
        let count = reader.u16().ok_or(malformed)?;
        if reader.0.len() != 2 * usize::from(count) {
            return Err(malformed);
        }
        let index = find(exports, name)?;
        let export = &exports[index];
        let (flags, size) = (export.flags(style).to_be_bytes(), export.size.to_be_bytes());
        option.reply_parts(REP_INFO, &[&INFO_EXPORT.to_be_bytes(), &size, &flags], out);
        // Each is sent once, however often it was requested.
        let mut told = [false; 4];
        while let Some(kind) = reader.u16() {
            let Some(told) = told.get_mut(usize::from(kind)) else { continue };
            if core::mem::replace(told, true) {
                continue;
            }
            let kind_bytes = kind.to_be_bytes();
            match kind {
                INFO_NAME => {
                    option.reply_parts(REP_INFO, &[&kind_bytes, export.name.as_bytes()], out);
                }
                INFO_DESCRIPTION if !export.description.is_empty() => {
                    let description = export.description.as_bytes();
                    option.reply_parts(REP_INFO, &[&kind_bytes, description], out);
                }
                INFO_BLOCK_SIZE => {
                    let [least, best, most] = [1, 4096, PAYLOAD_MAX].map(u32::to_be_bytes);
                    option.reply_parts(REP_INFO, &[&kind_bytes, &least, &best, &most], out);
                }
                _ => {}
            }
        }
        Ok(index)
    }

    /// LIST_META_CONTEXT and SET_META_CONTEXT, but for the ACK.
    fn contexts(
        &mut self,
        exports: &[Export],
        option: &ClientOption<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let sets = option.number == SET_META_CONTEXT;
        if sets {
            // An earlier selection is gone even if this one fails.
            self.allocation = None;
        }
        if self.style == ReplyStyle::Simple {
            return Err((ERR_INVALID, "contexts need structured replies"));
        }
        let malformed = (ERR_INVALID, "the lengths inside the option do not add up");
        let mut reader = Reader(option.data);
        let name = reader.counted().ok_or(malformed)?;
        let count = reader.u32().ok_or(malformed)?;
        if count > QUERIES_MAX {
            return Err((ERR_TOO_BIG, "more than 64 queries"));
        }
        // Without a query, all contexts are listed and none is set.
        let mut matched = count == 0 && !sets;
        for _ in 0..count {
            let query = reader.counted().ok_or(malformed)?;
            matched |= query == ALLOCATION || (query == b"base:" && !sets);
        }
        if !reader.0.is_empty() {
            return Err(malformed);
        }
        let export = find(exports, name)?;
        if matched {
            let id = if sets { ALLOCATION_ID } else { 0 };
            option.reply_parts(REP_META_CONTEXT, &[&id.to_be_bytes(), ALLOCATION], out);
        }
        if matched && sets {
            self.allocation = Some(export);
        }
        Ok(())
    }
}

impl ClientOption<'_> {
    fn reply(&self, kind: u32, data: &[u8], out: &mut Vec<u8>) {
        self.reply_parts(kind, &[data], out);
    }

    fn reply_parts(&self, kind: u32, parts: &[&[u8]], out: &mut Vec<u8>) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        out.extend_from_slice(&OPTION_REPLY.to_be_bytes());
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&(length as u32).to_be_bytes());
        parts.iter().for_each(|part| out.extend_from_slice(part));
    }
}

fn list(exports: &[Export], option: &ClientOption<'_>, out: &mut Vec<u8>) {
    for export in exports {
        let length = (export.name.len() as u32).to_be_bytes();
        let (name, description) = (export.name.as_bytes(), export.description.as_bytes());
        option.reply_parts(REP_SERVER, &[&length, name, description], out);
    }
}

/// The export of a name; the empty one is also the first export's.
fn find(exports: &[Export], name: &[u8]) -> Result<usize, Refusal> {
    if name.len() > NAME_MAX {
        return Err((ERR_TOO_BIG, "a name has at most 4096 bytes"));
    }
    if core::str::from_utf8(name).is_err() || name.contains(&0) {
        return Err((ERR_INVALID, "a name is UTF-8 without NUL"));
    }
    let found = exports.iter().position(|export| export.name.as_bytes() == name);
    let default = (name.is_empty() && !exports.is_empty()).then_some(0);
    found.or(default).ok_or((ERR_UNKNOWN, "there is no such export"))
}

pub(crate) const FIXED_NEWSTYLE: u32 = 1;
pub(crate) const NO_ZEROES: u32 = 1 << 1;

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const START_TLS: u32 = 5;
const INFO: u32 = 6;
pub(crate) const GO: u32 = 7;
pub(crate) const STRUCTURED_REPLY: u32 = 8;
const LIST_META_CONTEXT: u32 = 9;
pub(crate) const SET_META_CONTEXT: u32 = 10;
const EXTENDED_HEADERS: u32 = 11;

pub(crate) const ACK: u32 = 1;
const REP_SERVER: u32 = 2;
pub(crate) const REP_INFO: u32 = 3;
pub(crate) const REP_META_CONTEXT: u32 = 4;
const ERR_UNSUP: u32 = 0x8000_0001;
const ERR_INVALID: u32 = 0x8000_0003;
const ERR_TLS_REQD: u32 = 0x8000_0005;
const ERR_UNKNOWN: u32 = 0x8000_0006;
const ERR_TOO_BIG: u32 = 0x8000_0009;

pub(crate) const INFO_EXPORT: u16 = 0;
const INFO_NAME: u16 = 1;
const INFO_DESCRIPTION: u16 = 2;
pub(crate) const INFO_BLOCK_SIZE: u16 = 3;

/// The only metadata context.
const ALLOCATION: &[u8] = b"base:allocation";
