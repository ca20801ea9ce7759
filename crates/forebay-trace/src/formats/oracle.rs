//! oracleGeneral of libCacheSim: little-endian records of 24 bytes without a header.
//!
//! ```text
//!   time u32 (s) | object u64 | size u32 (bytes) | next access i64 (-1: none)
//! ```
//!
//! Objects have no addresses, and requests no direction: they are reads of a whole object, whose
//! number is in the offset.

use crate::error::Fault;
use crate::formats::vscsi::{u32_at, u64_at};
use crate::formats::{Parsed, RecordParser, intern, of_volume};
use crate::record::{Names, Op};

/// What all objects belong to.
const CACHE: &[u8] = b"cache";

const RECORD: usize = 24;

#[derive(Default)]
pub(crate) struct OracleGeneral {
    records: u64,
}

/// Whether the first records can be of this format: times that do not run back, and next accesses
/// that lie ahead or do not exist.
pub(crate) fn is_oracle(head: &[u8]) -> bool {
    const RECORDS: usize = 1_000;
    let mut last = 0;
    let mut count = 0u64;
    for record in head.chunks_exact(RECORD).take(RECORDS) {
        let time = u32_at(record, 0);
        if time < last || !is_ahead(count, u64_at(record, 16)) {
            return false;
        }
        last = time;
        count += 1;
    }
    count > 0
}

/// Whether a next access lies behind the record, or is none: -1, or -2 where it is not known.
fn is_ahead(number: u64, next: u64) -> bool {
    const FARTHEST: u64 = 1 << 48;
    const NONE: u64 = i64::MAX as u64;
    next >= u64::MAX - 1 || next == NONE || (next > number && next < FARTHEST)
}

impl RecordParser for OracleGeneral {
    fn record_max(&self) -> usize {
        RECORD
    }

    fn record(&mut self, data: &[u8], names: &mut Names) -> (usize, Parsed) {
        let Some(data) = data.get(..RECORD) else {
            let fault = Fault::number("record", "a whole record at the end", data.len() as u64);
            return (data.len(), Err(fault));
        };
        let next = u64_at(data, 16);
        let number = self.records;
        self.records += 1;
        if !is_ahead(number, next) {
            let fault = Fault::number("next access", "a later record, or -1", next);
            return (RECORD, Err(fault));
        }
        let time = u64::from(u32_at(data, 0)) * 1_000_000_000;
        let (object, size) = (u64_at(data, 4), u32_at(data, 12));
        let record = intern(names, CACHE)
            .map(|cache| Some(of_volume(time, cache, Op::Read, object, size.into())));
        (RECORD, record)
    }
}
