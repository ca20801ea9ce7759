//! An export as its server offers it, and its transmission flags.

use alloc::string::String;

use crate::agreed::ReplyStyle;

/// What a client can choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Export {
    /// Its name. The first export of a list also has the empty name, if no other has.
    pub name: String,
    /// The description for people.
    pub description: String,
    /// Its bytes.
    pub size: u64,
    /// Writes are refused.
    pub read_only: bool,
    /// WRITE_ZEROES is faster than WRITE.
    pub fast_zero: bool,
    /// The store seeks.
    pub rotational: bool,
}

impl Export {
    /// The transmission flags.
    pub(crate) fn flags(&self, style: ReplyStyle) -> u16 {
        let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN | SEND_CACHE;
        flags |= match self.read_only {
            true => READ_ONLY,
            false => SEND_TRIM | SEND_WRITE_ZEROES | SEND_FAST_ZERO,
        };
        if self.rotational {
            flags |= ROTATIONAL;
        }
        if style != ReplyStyle::Simple {
            flags |= SEND_DF;
        }
        flags
    }
}

const HAS_FLAGS: u16 = 1;
pub(crate) const READ_ONLY: u16 = 1 << 1;
pub(crate) const SEND_FLUSH: u16 = 1 << 2;
pub(crate) const SEND_FUA: u16 = 1 << 3;
const ROTATIONAL: u16 = 1 << 4;
const SEND_TRIM: u16 = 1 << 5;
pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
const SEND_DF: u16 = 1 << 7;
pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
const SEND_CACHE: u16 = 1 << 10;
const SEND_FAST_ZERO: u16 = 1 << 11;
