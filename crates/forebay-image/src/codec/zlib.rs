//! zlib streams: whole ones by libdeflate, the beginning of one by zlib-rs.
//!
//! libdeflate is half as fast again but decodes only whole streams. It is used as soon as a large
//! part of the block is requested; the rest of the block is then decoded at no extra cost.

use std::cell::RefCell;

use flate2::{Decompress, FlushDecompress, Status};
use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};

use super::Failure;

/// Decodes by whichever way is shorter.
pub(super) fn decode(raw: &[u8], upto: usize, content: &mut [u8]) -> Result<usize, Failure> {
    if is_prefix(upto, content.len()) {
        begin(raw, &mut content[..upto])
    } else {
        whole(raw, content)
    }
}

/// Whether the slower decoder that can stop is faster.
pub(super) const fn is_prefix(upto: usize, len: usize) -> bool {
    len >= WHOLE_MAX && upto <= len / PREFIX_SHARE
}

/// Decodes all, up to the end and the checksum.
fn whole(raw: &[u8], content: &mut [u8]) -> Result<usize, Failure> {
    let room = content.len();
    let decoded = WHOLE.with_borrow_mut(|inflater| {
        if cfg!(fuzzing) {
            // Without the checksum, so that mutated streams get through.
            return inflater.deflate_decompress(raw.get(2..).unwrap_or_default(), content);
        }
        inflater.zlib_decompress(raw, content)
    });
    decoded.map_err(|error| match error {
        DecompressionError::InsufficientSpace => longer(raw, room),
        DecompressionError::BadData => Failure::invalid("invalid zlib stream"),
    })
}

/// Why a stream does not fit. libdeflate treats missing raw bytes as zeros, which may decode to
/// anything, so the other decoder checks whether the stream really continues.
fn longer(raw: &[u8], room: usize) -> Failure {
    match begin(raw, &mut vec![0; room + 1]) {
        Ok(there) if there > room => Failure::Longer { room },
        Ok(_) => Failure::invalid("invalid zlib stream"),
        Err(failure) => failure,
    }
}

/// Fills `content`, or as much of it as there is.
fn begin(raw: &[u8], content: &mut [u8]) -> Result<usize, Failure> {
    BEGIN.with_borrow_mut(|inflater| {
        inflater.reset(true);
        fill(inflater, "zlib", raw, content)
    })
}

/// Fills `content` from the beginning of a stream of a name, or as much of it as there is.
pub(super) fn fill(
    inflater: &mut Decompress,
    name: &'static str,
    raw: &[u8],
    content: &mut [u8],
) -> Result<usize, Failure> {
    let mut done = 0;
    while done < content.len() {
        let (used, made) = (inflater.total_in(), inflater.total_out());
        // The used part is no longer than `raw`.
        let rest = &raw[usize::try_from(used).unwrap_or(raw.len())..];
        let status = inflater
            .decompress(rest, &mut content[done..], FlushDecompress::None)
            .map_err(|error| Failure::invalid(format!("invalid {name} stream: {error}")))?;
        let (used, made) = (inflater.total_in() - used, inflater.total_out() - made);
        done += usize::try_from(made).unwrap_or(0);
        match status {
            Status::StreamEnd => break,
            Status::Ok | Status::BufError if used == 0 && made == 0 => {
                return Err(Failure::invalid(format!("the {name} stream ends too early")));
            }
            Status::Ok | Status::BufError => {}
        }
    }
    Ok(done)
}

/// A zlib encoder with its working memory.
pub(crate) struct Deflater {
    inner: Compressor,
}

impl Deflater {
    /// An encoder of a level of libdeflate: 1 is the fastest, 12 the smallest; 0 stores.
    pub(crate) fn new(level: u8) -> Option<Self> {
        let level = CompressionLvl::new(i32::from(level)).ok()?;
        Some(Self { inner: Compressor::new(level) })
    }

    /// Appends `plain` as one zlib stream.
    pub(crate) fn append(&mut self, plain: &[u8], packed: &mut Vec<u8>) {
        let start = packed.len();
        packed.resize(start + self.inner.zlib_compress_bound(plain.len()), 0);
        let len = self
            .inner
            .zlib_compress(plain, &mut packed[start..])
            .expect("the bound is enough for any bytes");
        packed.truncate(start + len);
    }
}

impl std::fmt::Debug for Deflater {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deflater").finish_non_exhaustive()
    }
}

/// CRC-32 as in zlib and Ethernet.
#[derive(Default)]
pub(crate) struct Crc32 {
    inner: libdeflater::Crc,
}

impl Crc32 {
    /// Goes on with further bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.inner.update(bytes);
    }

    /// The checksum of all bytes so far.
    pub(crate) fn value(&self) -> u32 {
        self.inner.sum()
    }
}

/// Content below this, in bytes, is always decoded whole: a third of it is hardly a page.
const WHOLE_MAX: usize = 16 << 10;
/// At most one part in this many is decoded separately. It saves a quarter of the time for 16 KiB
/// of a program and 60 % for 128 KiB; a half would save between nothing and 30 %.
const PREFIX_SHARE: usize = 3;

thread_local! {
    static WHOLE: RefCell<Decompressor> = RefCell::new(Decompressor::new());
    static BEGIN: RefCell<Decompress> = RefCell::new(Decompress::new(true));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(len: usize) -> Vec<u8> {
        (0..len).map(|i| u8::try_from((i * i / 7) % 251).unwrap()).collect()
    }

    fn packed(plain: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        Deflater::new(9).unwrap().append(plain, &mut packed);
        packed
    }

    #[test]
    fn both_decoders_agree_on_every_kind_of_prefix() {
        for len in [0, 1, 4096, 128 << 10] {
            let plain = plain(len);
            let raw = packed(&plain);
            for upto in [0, 1, len / 3, len / 2, len] {
                let upto = upto.min(len);
                let mut content = vec![0xaa; len];
                let there = decode(&raw, upto, &mut content).unwrap();
                assert!(there >= upto, "{len} {upto}");
                assert_eq!(content[..there], plain[..there]);
                let mut content = vec![0xaa; upto];
                assert_eq!(begin(&raw, &mut content), Ok(upto));
                assert_eq!(content, plain[..upto]);
            }
        }
    }

    #[test]
    fn a_short_block_says_its_length_and_a_long_one_is_an_error() {
        let plain = plain(64 << 10);
        let raw = packed(&plain);
        let mut content = vec![0; plain.len() + 1];
        let room = content.len();
        assert_eq!(decode(&raw, room, &mut content), Ok(plain.len()));
        assert_eq!(begin(&raw, &mut content), Ok(plain.len()));
        let room = plain.len() - 1;
        assert_eq!(decode(&raw, room, &mut content[..room]), Err(Failure::Longer { room }));
    }

    #[test]
    fn bytes_behind_the_end_are_ignored() {
        let plain = plain(4096);
        let mut raw = packed(&plain);
        raw.extend([0xff; 3]);
        assert_eq!(decode(&raw, 4096, &mut [0; 4096]), Ok(4096));
    }

    #[test]
    fn the_crc_is_that_of_ethernet() {
        let mut crc = Crc32::default();
        crc.update(b"1234");
        crc.update(b"56789");
        assert_eq!(crc.value(), 0xcbf4_3926);
    }

    #[test]
    fn a_wrong_checksum_or_a_missing_end_is_an_error() {
        let raw = packed(&plain(4096));
        for cut in 0..raw.len() {
            assert!(decode(&raw[..cut], 4096, &mut [0; 4096]).is_err(), "{cut}");
            assert!(begin(&raw[..cut], &mut [0; 4097]).is_err(), "{cut}");
        }
        let mut raw = raw;
        *raw.last_mut().unwrap() ^= 1;
        assert!(decode(&raw, 4096, &mut [0; 4096]).is_err());
    }
}
