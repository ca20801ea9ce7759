//! What the codecs take for the same blocks, one after the other in one process.
//!
//! Other servers decode with zlib, ours with libdeflate. The difference is the gain that only a
//! faster codec would give them; the rest is the policy and the server.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process;

use anyhow::{Context, Result, ensure};
use flate2::{Decompress, FlushDecompress};
use libdeflater::{CompressionLvl, Compressor, Decompressor};

use crate::measure::median;
use crate::measure::mount::cpu_of;

/// Microseconds that a codec takes for a block of 4 KiB, the mean over blocks, medians of passes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Codecs {
    pub(super) zlib: f64,
    pub(super) libdeflate: f64,
    pub(super) blocks: u64,
}

/// Packs every eighth block of a file and decodes them by each codec in turn.
pub(super) fn measure(file: &Path, passes: u32) -> Result<Codecs> {
    let blocks = pack(file)?;
    ensure!(!blocks.is_empty(), "{}: no block of 4 KiB", file.display());
    let mut content = vec![0; BLOCK];
    let (mut libdeflate, mut zlib) = (Vec::new(), Vec::new());
    for _ in 0..passes.max(1) {
        let mut decompressor = Decompressor::new();
        libdeflate.push(micros(&blocks, |raw| {
            let len = decompressor.zlib_decompress(raw, &mut content)?;
            ensure!(len == BLOCK, "libdeflate: {len} bytes of a block");
            Ok(())
        })?);
        zlib.push(micros(&blocks, |raw| {
            // As `uncompress` does it: a new state for each block.
            let mut stream = Decompress::new(true);
            stream.decompress(raw, &mut content, FlushDecompress::Finish)?;
            ensure!(stream.total_out() == BLOCK as u64, "zlib: {} bytes", stream.total_out());
            Ok(())
        })?);
    }
    let (zlib, libdeflate) = (median(zlib.into_iter()), median(libdeflate.into_iter()));
    Ok(Codecs { zlib, libdeflate, blocks: blocks.len() as u64 })
}

fn pack(file: &Path) -> Result<Vec<Vec<u8>>> {
    let mut file = File::open(file).with_context(|| file.display().to_string())?;
    let level = CompressionLvl::new(9).ok().context("libdeflate has level 9")?;
    let (mut packer, mut content) = (Compressor::new(level), vec![0; BLOCK * EVERY]);
    let mut blocks = Vec::new();
    while blocks.len() < BLOCKS_MAX && file.read_exact(&mut content).is_ok() {
        let mut raw = vec![0; packer.zlib_compress_bound(BLOCK)];
        let len = packer.zlib_compress(&content[..BLOCK], &mut raw)?;
        raw.truncate(len);
        blocks.push(raw);
    }
    Ok(blocks)
}

/// Microseconds of processor time for each block: other processes do not count.
fn micros(blocks: &[Vec<u8>], mut decode: impl FnMut(&[u8]) -> Result<()>) -> Result<f64> {
    let begin = cpu_of(process::id())?;
    blocks.iter().try_for_each(|raw| decode(raw))?;
    let spent = cpu_of(process::id())?.saturating_sub(begin);
    Ok(spent.as_secs_f64() * 1e6 / blocks.len() as f64)
}

/// Bytes of a block.
const BLOCK: usize = 4096;

/// One in this many blocks is measured.
const EVERY: usize = 8;

/// A tenth of a second a pass.
const BLOCKS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_codecs_decode_every_block() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text: Vec<u8> = (0..10 * BLOCK * EVERY).map(|place| (place / 7) as u8).collect();
        std::fs::write(file.path(), text).unwrap();
        let codecs = measure(file.path(), 1).unwrap();
        assert_eq!(codecs.blocks, 10);
        assert!(codecs.zlib > 0.0 && codecs.libdeflate > 0.0);
    }

    #[test]
    fn a_file_without_a_block_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(measure(file.path(), 1).is_err());
    }
}
