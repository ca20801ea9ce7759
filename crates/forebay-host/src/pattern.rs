//! Bytes that identify their offset in a file and the write that they come from.

/// Fills `bytes`, the first of which lies at `offset` of its file, with the pattern of one
/// `generation`: two places or two generations have the same eight bytes by chance only.
pub(crate) fn fill(bytes: &mut [u8], offset: u64, generation: u64) {
    let mut at = offset;
    let mut rest = bytes;
    while !rest.is_empty() {
        let start = (at % WORD) as usize;
        let (now, later) = rest.split_at_mut(rest.len().min(WORD as usize - start));
        now.copy_from_slice(&word(at / WORD, generation)[start..start + now.len()]);
        at += now.len() as u64;
        rest = later;
    }
}

/// The first byte of `bytes` that does not match the pattern: its index and the expected value.
pub(crate) fn mismatch(bytes: &[u8], offset: u64, generation: u64) -> Option<(usize, u8)> {
    let mut expected = [0; 512];
    for (number, part) in bytes.chunks(expected.len()).enumerate() {
        let start = number * expected.len();
        let expected = &mut expected[..part.len()];
        fill(expected, offset + start as u64, generation);
        if expected != part {
            let at = expected.iter().zip(part).position(|(expected, found)| expected != found)?;
            return Some((start + at, expected[at]));
        }
    }
    None
}

/// A finalizer of splitmix64 over place and generation.
fn word(index: u64, generation: u64) -> [u8; WORD as usize] {
    let state = index.wrapping_add(generation.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (state ^ (state >> 31)).to_le_bytes()
}

const WORD: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_same_bytes_as_the_whole() {
        let mut whole = [0; 100];
        fill(&mut whole, 3, 7);
        let mut pieces = [0; 100];
        let (first, second) = pieces.split_at_mut(41);
        fill(first, 3, 7);
        fill(second, 44, 7);
        assert_eq!(whole, pieces);
        assert_eq!(mismatch(&whole, 3, 7), None);
    }

    #[test]
    fn another_place_and_another_generation_differ() {
        let mut bytes = vec![0; 2_000];
        fill(&mut bytes, 4_096, 1);
        assert!(mismatch(&bytes, 8_192, 1).is_some());
        assert!(mismatch(&bytes, 4_096, 2).is_some());
        bytes[1_500] ^= 1;
        assert_eq!(mismatch(&bytes, 4_096, 1).map(|(at, _)| at), Some(1_500));
    }
}
