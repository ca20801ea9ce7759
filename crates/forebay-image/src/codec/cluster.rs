//! Clusters: raw bytes that may decode to more than requested, so the decoder stops where the
//! buffer is full.

use super::{Failure, deflate, lz4, lz4_begin, microlzma, zstd};

/// How a cluster is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cluster {
    /// An LZ4 block without a frame.
    Lz4,
    /// An LZMA stream without a header and without an end.
    MicroLzma,
    /// A deflate stream (RFC 1951) without a frame.
    Deflate,
    /// A Zstandard frame (RFC 8878).
    Zstd,
}

/// Decodes a cluster whose content is exactly as long as `content`, or its first `upto` bytes and
/// maybe more. Returns how many bytes are there.
///
/// With an `upto` of `content.len()` all is decoded and the end is checked, as far as the codec
/// has one; content that goes on is [`Longer`](Failure::Longer) or invalid.
pub(crate) fn whole(
    cluster: Cluster,
    raw: &[u8],
    upto: usize,
    content: &mut [u8],
) -> Result<usize, Failure> {
    match cluster {
        Cluster::Lz4 if upto <= content.len() / 2 => lz4_begin::decode(raw, &mut content[..upto]),
        Cluster::Lz4 => lz4::decode(raw, content),
        Cluster::MicroLzma => microlzma::decode(raw, upto, content),
        Cluster::Deflate => deflate::decode(raw, upto, content),
        Cluster::Zstd => zstd::decode(raw, upto, content),
    }
}

/// Decodes the beginning of a cluster that may hold more, until `content` is full or the cluster
/// ends. Returns how many bytes are there.
pub(crate) fn begin(cluster: Cluster, raw: &[u8], content: &mut [u8]) -> Result<usize, Failure> {
    match cluster {
        Cluster::Lz4 => lz4_begin::decode(raw, content),
        Cluster::MicroLzma => microlzma::begin(raw, content),
        Cluster::Deflate => deflate::begin(raw, content),
        Cluster::Zstd => zstd::fill(raw, content),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const ALL: [Cluster; 4] = [Cluster::Lz4, Cluster::MicroLzma, Cluster::Deflate, Cluster::Zstd];

    fn plain(len: usize) -> Vec<u8> {
        (0..len).map(|i| u8::try_from((i * i / 7 + i / 4096) % 251).unwrap()).collect()
    }

    fn packed(cluster: Cluster, plain: &[u8]) -> Vec<u8> {
        match cluster {
            Cluster::Lz4 => lz4_flex::block::compress(plain),
            Cluster::MicroLzma => microlzma::tests::packed(plain),
            Cluster::Deflate => {
                let level = flate2::Compression::default();
                let mut writer = flate2::write::DeflateEncoder::new(Vec::new(), level);
                writer.write_all(plain).unwrap();
                writer.finish().unwrap()
            }
            Cluster::Zstd => {
                let mut packed = vec![0; plain.len() + 1024];
                let len = zstd_safe::compress(&mut packed[..], plain, 3).unwrap();
                packed.truncate(len);
                packed
            }
        }
    }

    #[test]
    fn every_prefix_of_every_codec_is_the_contents() {
        for cluster in ALL {
            for len in [1, 100, 4096, 300_000] {
                let plain = plain(len);
                let raw = packed(cluster, &plain);
                for upto in [0, 1, len / 5, len / 2, len - 1, len] {
                    let mut content = vec![0xaa; len];
                    let done = whole(cluster, &raw, upto, &mut content).unwrap();
                    assert!((upto..=len).contains(&done), "{cluster:?} {len} {upto}: {done}");
                    assert_eq!(content[..done], plain[..done], "{cluster:?} {len} {upto}");
                    let mut content = vec![0xaa; upto];
                    assert_eq!(begin(cluster, &raw, &mut content), Ok(upto), "{cluster:?}");
                    assert_eq!(content, plain[..upto], "{cluster:?} {len} {upto}");
                }
            }
        }
    }

    #[test]
    fn content_that_is_longer_or_shorter_than_wanted_is_not_taken_for_whole() {
        let plain = plain(5000);
        for cluster in ALL {
            let raw = packed(cluster, &plain);
            assert!(whole(cluster, &raw, 4999, &mut [0; 4999]).is_err(), "{cluster:?}");
            let longer = whole(cluster, &raw, 5001, &mut [0; 5001]);
            assert!(longer.is_err() || longer == Ok(5000), "{cluster:?}: {longer:?}");
            let longer = begin(cluster, &raw, &mut [0; 5001]);
            // LZMA without an end does not know that it has ended.
            assert!(longer.is_err() || longer == Ok(5000), "{cluster:?}: {longer:?}");
        }
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_ends_in_an_error_or_in_content() {
        let plain = plain(700);
        for cluster in ALL {
            let raw = packed(cluster, &plain);
            for len in 0..raw.len() {
                assert!(whole(cluster, &raw[..len], 700, &mut [0; 700]) != Ok(700), "{cluster:?}");
                let _either = begin(cluster, &raw[..len], &mut [0; 700]);
            }
            for bit in 0..raw.len() * 8 {
                let mut raw = raw.clone();
                raw[bit / 8] ^= 1 << (bit % 8);
                let _either = whole(cluster, &raw, 700, &mut [0; 700]);
                let _either = whole(cluster, &raw, 70, &mut [0; 700]);
                let _either = begin(cluster, &raw, &mut [0; 700]);
            }
        }
    }
}
