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
fn a_compressed_trace_that_is_cut_is_an_error() {
    let many = samples::ALIBABA.repeat(10_000);
    for packed in [gzip(&many), zstd::encode_all(&many[..], 3).unwrap()] {
        for end in [5, 17, packed.len() / 2, packed.len() - 5] {
            let error = match Reader::new(&packed[..end], &Options::default()) {
                Ok(mut reader) => loop {
                    match reader.next() {
                        Ok(Some(_)) => {}
                        Ok(None) => panic!("a cut trace is no whole one"),
                        Err(error) => break error,
                    }
                },
                Err(error) => error,
            };
            assert!(matches!(error, TraceError::Io(_)), "{error}");
        }
    }
}
