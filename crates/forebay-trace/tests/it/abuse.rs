//! Every sample cut at every byte, and with every digit or byte changed: records or errors, and
//! never a panic.

use std::fs;
use std::path::Path;

use forebay_trace::{Format, Options, Reader};

use crate::{any_trace, samples};

/// Reads to the end or to the first error that is not skipped; counts records.
fn exhaust(bytes: &[u8], format: Option<Format>) -> u64 {
    let options = Options { format, skip_bad: u64::MAX };
    let Ok(mut reader) = Reader::new(bytes, &options) else { return 0 };
    let mut records = 0;
    while let Ok(Some(record)) = reader.next() {
        assert!((record.object as usize) < reader.names().len(), "a number has a name");
        records += 1;
    }
    assert!(reader.report().requests >= records);
    records
}

fn is_binary(bytes: &[u8]) -> bool {
    bytes.contains(&0)
}

#[test]
fn cut_at_every_byte() {
    for (format, bytes) in samples::all() {
        let whole = exhaust(&bytes, Some(format));
        assert!(whole > 0, "{format}");
        for end in 0..bytes.len() {
            assert!(exhaust(&bytes[..end], Some(format)) <= whole, "{format} cut at {end}");
            exhaust(&bytes[..end], None);
        }
    }
}

#[test]
fn every_digit_changed() {
    for (format, mut bytes) in samples::all() {
        let binary = is_binary(&bytes);
        for at in 0..bytes.len() {
            let kept = bytes[at];
            let others: &[u8] = if binary {
                &[0, 1, 0x7f, 0x80, 0xff]
            } else if kept.is_ascii_digit() {
                b"0123456789-.x "
            } else {
                b"0,<>\"([\xff\n"
            };
            for other in others {
                bytes[at] = *other;
                exhaust(&bytes, Some(format));
            }
            bytes[at] = kept;
        }
    }
}

#[test]
fn every_format_on_every_sample() {
    for (_, bytes) in samples::all() {
        for format in Format::ALL {
            exhaust(&bytes, Some(format));
        }
    }
}

#[test]
fn numbers_that_grow_beyond_all_bounds() {
    for (format, bytes) in samples::all() {
        if is_binary(&bytes) {
            continue;
        }
        // Each run of digits is made as long as a number can be, and longer.
        let mut at = 0;
        while let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit) {
            let start = at + start;
            let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            for nines in [18, 19, 20, 40] {
                let nines = vec![b'9'; nines];
                let grown = [&bytes[..start], &nines, &bytes[start + digits..]].concat();
                exhaust(&grown, Some(format));
            }
            at = start + digits;
        }
    }
}

#[test]
fn the_corpus_of_the_fuzz_target_is_read_and_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/trace");
    let mut inputs = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let mut input = fs::read(entry.unwrap().path()).unwrap();
        let len = u8::try_from(Format::ALL.len()).unwrap();
        any_trace::survives(&input);
        for choice in 0..=len {
            input[0] = choice;
            any_trace::survives(&input);
        }
        inputs += 1;
    }
    assert!(inputs >= Format::ALL.len(), "a trace of each format in {}", folder.display());
}
