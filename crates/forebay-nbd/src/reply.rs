//! Replies to requests, in the style that the handshake agreed on.
//!
//! ```text
//!   simple      magic:4 error:4 cookie:8                              data of a READ
//!   structured  magic:4 flags:2 type:2 cookie:8 length:4              payload
//!   extended    magic:4 flags:2 type:2 cookie:8 offset:8 length:8     payload
//! ```
//!
//! A reply is one chunk, which is also the last one.

use alloc::vec::Vec;

use crate::agreed::{Agreed, ReplyStyle};
use crate::request::{Command, Request};
use crate::wire::{ALLOCATION_ID, CHUNK, EXTENDED_CHUNK, Errno, SIMPLE_REPLY};

/// A run of bytes of an export with the same status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many bytes.
    pub length: u64,
    /// The store has no space allocated for them.
    pub hole: bool,
    /// They read as zeroes.
    pub zero: bool,
}

/// The bytes sent before the data of a READ.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    bytes: [u8; 40],
    len: usize,
}

impl Header {
    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Agreed {
    /// Success without data.
    pub fn ok(&self, request: &Request, out: &mut Vec<u8>) {
        // A READ is answered with chunks once these are agreed; the others may be too.
        if self.style == ReplyStyle::Extended
            || (self.style == ReplyStyle::Structured && request.command == Command::Read)
        {
            self.chunk(request, (NONE, 0), out);
        } else {
            simple(request.cookie, 0, out);
        }
    }

    /// A failure; `text` is for people.
    pub fn error(&self, request: &Request, errno: Errno, text: &str, out: &mut Vec<u8>) {
        if self.style == ReplyStyle::Simple {
            simple(request.cookie, errno.code(), out);
            return;
        }
        let text = &text.as_bytes()[..text.len().min(TEXT_MAX)];
        self.chunk(request, (ERROR, 6 + text.len() as u64), out);
        out.extend_from_slice(&errno.code().to_be_bytes());
        out.extend_from_slice(&(text.len() as u16).to_be_bytes());
        out.extend_from_slice(text);
    }

    /// The bytes before all the data of a READ, which is not empty.
    pub fn read_header(&self, request: &Request) -> Header {
        let mut header = Header { bytes: [0; 40], len: 0 };
        let mut push = |part: &[u8]| {
            header.bytes[header.len..header.len + part.len()].copy_from_slice(part);
            header.len += part.len();
        };
        match self.style {
            ReplyStyle::Simple => {
                push(&SIMPLE_REPLY.to_be_bytes());
                push(&[0; 4]);
                push(&request.cookie.to_be_bytes());
            }
            ReplyStyle::Structured | ReplyStyle::Extended => {
                self.head(request, (OFFSET_DATA, 8 + request.length), &mut push);
                push(&request.offset.to_be_bytes());
            }
        }
        header
    }

    /// The extents from a request's offset on; there is at least one, and none is empty.
    pub fn extents(&self, request: &Request, extents: &[Extent], out: &mut Vec<u8>) {
        let (count, flags) = (extents.len() as u64, |extent: &Extent| {
            u32::from(extent.hole) | u32::from(extent.zero) << 1
        });
        if self.style == ReplyStyle::Extended {
            self.chunk(request, (BLOCK_STATUS_EXTENDED, 8 + 16 * count), out);
            out.extend_from_slice(&ALLOCATION_ID.to_be_bytes());
            out.extend_from_slice(&(extents.len() as u32).to_be_bytes());
            for extent in extents {
                out.extend_from_slice(&extent.length.to_be_bytes());
                out.extend_from_slice(&u64::from(flags(extent)).to_be_bytes());
            }
        } else {
            self.chunk(request, (BLOCK_STATUS, 4 + 8 * count), out);
            out.extend_from_slice(&ALLOCATION_ID.to_be_bytes());
            for extent in extents {
                let length = u32::try_from(extent.length).unwrap_or(LENGTH_MAX);
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(&flags(extent).to_be_bytes());
            }
        }
    }

    fn chunk(&self, request: &Request, what: (u16, u64), out: &mut Vec<u8>) {
        self.head(request, what, |part| out.extend_from_slice(part));
    }

    /// The header of a chunk.
    fn head(&self, request: &Request, (kind, length): (u16, u64), mut push: impl FnMut(&[u8])) {
        let extended = self.style == ReplyStyle::Extended;
        push(&if extended { EXTENDED_CHUNK } else { CHUNK }.to_be_bytes());
        push(&DONE.to_be_bytes());
        push(&kind.to_be_bytes());
        push(&request.cookie.to_be_bytes());
        if extended {
            push(&request.offset.to_be_bytes());
            push(&length.to_be_bytes());
        } else {
            let length = u32::try_from(length).expect("a payload is shorter than 4 GiB");
            push(&length.to_be_bytes());
        }
    }
}

fn simple(cookie: u64, error: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&SIMPLE_REPLY.to_be_bytes());
    out.extend_from_slice(&error.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
}

/// Flag of the last chunk of a reply.
pub(crate) const DONE: u16 = 1;
pub(crate) const NONE: u16 = 0;
pub(crate) const OFFSET_DATA: u16 = 1;
pub(crate) const OFFSET_HOLE: u16 = 2;
pub(crate) const BLOCK_STATUS: u16 = 5;
const BLOCK_STATUS_EXTENDED: u16 = 6;
pub(crate) const ERROR: u16 = 0x8001;
pub(crate) const ERROR_OFFSET: u16 = 0x8002;

/// The longest extent of a compact reply: a multiple of 64 KiB.
const LENGTH_MAX: u32 = 0xffff_0000;

/// Bytes of an error's text at most.
const TEXT_MAX: usize = 1024;
