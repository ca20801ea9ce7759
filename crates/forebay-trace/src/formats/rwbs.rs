//! The letters with which the kernel describes a block request: `WS`, `FWFSM`, `RA`.

use crate::error::Fault;
use crate::record::{Flags, Op};

/// What a request is; nothing for one that moves no data and flushes nothing.
pub(crate) fn parse(letters: &[u8]) -> Result<Option<(Op, Flags)>, Fault> {
    let unknown = || Fault::new("rwbs", "letters such as R, WS or FWFSM", letters);
    let mut flags = Flags::default();
    let mut rest = letters;
    let mut op = None;
    // A leading F is a flush, separate or before a write.
    if let Some(behind) = rest.strip_prefix(b"F") {
        flags = flags.with(Flags::PREFLUSH);
        op = Some(Op::Flush);
        rest = behind;
    }
    if let Some((first, behind)) = rest.split_first() {
        let kind = match first {
            b'R' => Some(Op::Read),
            b'W' => Some(Op::Write),
            b'D' => Some(Op::Discard),
            b'F' if op.is_some() => Some(Op::Flush),
            // None of data: driver private, and requests to zones.
            b'N' | b'Z' => return Ok(None),
            _ => None,
        };
        if kind.is_some() {
            op = kind;
            rest = behind;
            if kind == Some(Op::Discard) {
                rest = rest.strip_prefix(b"E").unwrap_or(rest);
            }
        }
    }
    for letter in rest {
        flags = flags.with(match letter {
            b'F' => Flags::DURABLE,
            b'A' => Flags::READAHEAD,
            b'S' => Flags::SYNC,
            b'M' => Flags::META,
            b'U' => Flags::default(),
            _ => return Err(unknown()),
        });
    }
    op.map(|op| Some((op, flags))).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_stand_for_a_kind_and_its_flags() {
        let write = Flags::PREFLUSH.with(Flags::DURABLE).with(Flags::SYNC).with(Flags::META);
        assert_eq!(parse(b"FWFSM"), Ok(Some((Op::Write, write))));
        assert_eq!(parse(b"RA"), Ok(Some((Op::Read, Flags::READAHEAD))));
        assert_eq!(parse(b"R"), Ok(Some((Op::Read, Flags::default()))));
        assert_eq!(parse(b"DE"), Ok(Some((Op::Discard, Flags::default()))));
        assert_eq!(parse(b"FF"), Ok(Some((Op::Flush, Flags::PREFLUSH))));
        assert_eq!(parse(b"FS"), Ok(Some((Op::Flush, Flags::PREFLUSH.with(Flags::SYNC)))));
        assert_eq!(parse(b"N"), Ok(None));
        for bad in [&b""[..], b"X", b"S", b"WX"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
