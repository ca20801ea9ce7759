//! gzip and zstd, whole, in several pieces, and cut.

use std::io::Write;

use forebay_trace::{Options, Reader, TraceError};

use crate::samples;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("the sample is whole");
    encoder.finish().expect("the sample is whole")
}

#[test]
fn compression_changes_nothing() {
    for (_, bytes) in samples::all() {
        let plain = samples::read(&bytes);
        let zstd = zstd::encode_all(&bytes[..], 3).unwrap();
        assert_eq!(samples::read(&gzip(&bytes)), plain);
        assert_eq!(samples::read(&zstd), plain);
        // Concatenated members are one stream.
        let (one, other) = bytes.split_at(bytes.len() / 2);
        assert_eq!(samples::read(&[gzip(one), gzip(other)].concat()), plain);
    }
}

#[test]
fn zeros_behind_a_gzip_stream_fill_a_block_and_other_bytes_are_an_error() {
    let packed = gzip(samples::ALIBABA);
    let plain = samples::read(samples::ALIBABA);
    for zeros in [1, 511, 100_000] {
        assert_eq!(samples::read(&[&packed[..], &vec![0; zeros]].concat()), plain);
    }
    for behind in [&b"x"[..], b"\0\0x", b"\x1f\x8b", &[b"\0", &packed[..]].concat()] {
        let bytes = [&packed[..], behind].concat();
        assert!(matches!(error_of(&bytes), TraceError::Io(_)), "{behind:?}");
    }
}

/// The error of a trace, at its beginning or later.
fn error_of(bytes: &[u8]) -> TraceError {
    let mut reader = match Reader::new(bytes, &Options::default()) {
        Ok(reader) => reader,
        Err(error) => return error,
    };
    loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it is no whole trace"),
            Err(error) => return error,
        }
    }
}

#[test]
fn a_compressed_trace_that_is_cut_is_an_error() {
    let many = samples::ALIBABA.repeat(10_000);
    for packed in [gzip(&many), zstd::encode_all(&many[..], 3).unwrap()] {
        for end in [5, 17, packed.len() / 2, packed.len() - 5] {
            let error = error_of(&packed[..end]);
            assert!(matches!(error, TraceError::Io(_)), "{error}");
        }
    }
}
