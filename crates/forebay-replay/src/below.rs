//! Below the page cache: requests of a trace as arrivals at the block layer.

use forebay_core::io::RequestKind;
use forebay_core::time::Instant;
use forebay_core::units::SECTOR_SIZE;
use forebay_sim::replay::{Arrival, Outcome, Replay};
use forebay_trace::{Flags, Op, Record};

/// What a device does for a request; nothing if it has no price.
pub fn kind_of(record: &Record) -> Option<RequestKind> {
    match record.op {
        Op::Read => Some(RequestKind::Read),
        Op::Write if record.flags.has(Flags::DURABLE) => Some(RequestKind::DurableWrite),
        Op::Write => Some(RequestKind::Write),
        Op::Sync | Op::DataSync | Op::Flush => Some(RequestKind::Flush),
        Op::Discard => Some(RequestKind::Discard),
        Op::Open | Op::Close | Op::Truncate => None,
    }
}

/// Replays requests, which come in the order of their times.
///
/// # Errors
/// The first error of `next`.
pub fn replay<E>(
    replay: &Replay<'_>,
    next: &mut dyn FnMut() -> Result<Option<Record>, E>,
) -> Result<Outcome, E> {
    let mut error = None;
    let outcome = replay.run(&mut || {
        loop {
            match next() {
                Ok(record) => {
                    let record = record?;
                    if let Some(kind) = kind_of(&record) {
                        return Some(arrival(&record, kind));
                    }
                }
                Err(failed) => {
                    error = Some(failed);
                    return None;
                }
            }
        }
    });
    error.map_or(Ok(outcome), Err)
}

fn arrival(record: &Record, kind: RequestKind) -> Arrival {
    let (first, end) = match kind {
        RequestKind::Flush => (0, 0),
        RequestKind::Read
        | RequestKind::Write
        | RequestKind::DurableWrite
        | RequestKind::Inode
        | RequestKind::Discard => sectors(record),
    };
    let (at, volume, sectors) = (Instant(record.time), record.object, end - first);
    Arrival { at, volume, sector: first, sectors, kind }
}

/// The first sector of a request, and the one behind its last.
pub(crate) fn sectors(record: &Record) -> (u64, u64) {
    (record.offset / SECTOR_SIZE, (record.offset + record.len).div_ceil(SECTOR_SIZE))
}
