//! The segments of a program or library, by the headers at its beginning.

use forebay_core::serving::{ProgramPages, Segment};
use object::Endianness;
use object::elf::{FileHeader32, FileHeader64, PF_W, PF_X, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};

/// The pages of a program by its first bytes; none if it does not begin like one. Of one whose
/// headers do not lie in these bytes nothing is known.
pub(super) fn pages(bytes: &[u8]) -> Option<ProgramPages> {
    if !bytes.starts_with(ELF) {
        return None;
    }
    let found = FileHeader64::<Endianness>::parse(bytes).ok();
    let found = found.and_then(|file| segments(file, bytes)).or_else(|| {
        FileHeader32::<Endianness>::parse(bytes).ok().and_then(|file| segments(file, bytes))
    });
    Some(found.unwrap_or_default())
}

fn segments<F: FileHeader<Endian = Endianness>>(file: &F, bytes: &[u8]) -> Option<ProgramPages> {
    let order = file.endian().ok()?;
    let segments = file.program_headers(order, bytes).ok()?;
    let loads = segments.iter().filter(|segment| segment.p_type(order) == PT_LOAD);
    Some(ProgramPages::new(loads.map(|segment| {
        let flags = segment.p_flags(order);
        Segment {
            offset: segment.p_offset(order).into(),
            bytes: segment.p_filesz(order).into(),
            is_written: flags.contains(PF_W),
            is_code: flags.contains(PF_X),
        }
    })))
}

/// What programs and libraries begin with.
const ELF: &[u8] = b"\x7fELF";

#[cfg(test)]
mod tests {
    use forebay_core::packed::Pages;
    use forebay_core::serving::work::HEADER_BYTES;

    use super::*;

    /// Segments of a program of 64 bits, little end first: offset, bytes in the file, flags.
    fn program(segments: &[(u64, u64, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        bytes[20] = 1;
        bytes[32] = 64;
        bytes[52] = 64;
        bytes[54] = 56;
        bytes[56] = u8::try_from(segments.len()).unwrap();
        for (offset, len, flags) in segments {
            bytes.extend(PT_LOAD.0.to_le_bytes());
            bytes.extend(flags.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
            bytes.extend([0; 16]);
            bytes.extend(len.to_le_bytes());
            bytes.extend([0; 16]);
        }
        bytes
    }

    #[test]
    fn segments_are_told_apart_by_their_flags() {
        let segments = [(0, 5000, 4), (8192, 9999, 5), (20480, 10, 4), (0x7000, 0x1800, 6)];
        let found = pages(&program(&segments)).unwrap();
        assert_eq!(found.loaded, [Pages::new(0, 2), Pages::new(7, 9)]);
        assert_eq!(found.code, [Pages::new(2, 5)]);
    }

    #[test]
    fn headers_that_are_cut_or_mad_say_nothing_or_little() {
        let good = program(&[(0, 5000, 4), (u64::MAX, u64::MAX, 6), (8192, u64::MAX, 6)]);
        assert!(pages(&good).unwrap().loaded.iter().all(|pages| pages.len() <= 1024));
        for len in 0..good.len() {
            let found = pages(&good[..len]);
            let expected = (len >= ELF.len()).then(ProgramPages::default);
            assert_eq!(found, expected, "of {len} bytes");
        }
        assert_eq!(pages(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn this_very_test_is_a_program() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let found = pages(&bytes[..HEADER_BYTES as usize]).unwrap();
        assert!(!found.loaded.is_empty() && !found.code.is_empty());
    }
}
