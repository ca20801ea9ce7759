//! Extended block pointers: every kind behind every other, in both byte orders.

use forebay_image::{Coding, Options};

use super::{
    BODY, LENIENT, ORDERS, content, file_error, find, noise, one_file, open, packed, word_bytes,
};

const EXTENDED: u32 = 0x803;
const STORED: u32 = 1 << 31;
const DIRECT: u32 = 1 << 30;

/// How a block is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Packed,
    Stored,
    DirectPacked,
    DirectStored,
    Hole,
    StoredHole,
}

const KINDS: [Kind; 6] = [
    Kind::Packed,
    Kind::Stored,
    Kind::DirectPacked,
    Kind::DirectStored,
    Kind::Hole,
    Kind::StoredHole,
];

/// An image of one file with blocks of these kinds, and its content. The last block has `tail`
/// bytes.
fn image_of(kinds: &[Kind], tail: usize, big_endian: bool) -> (Vec<u8>, Vec<u8>) {
    let pointers_len = 4 * kinds.len();
    let (mut pointers, mut data, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    let position = |data: &Vec<u8>| BODY + u32::try_from(pointers_len + data.len()).unwrap();
    for (number, kind) in kinds.iter().enumerate() {
        let len = if number + 1 == kinds.len() { tail } else { 4096 };
        let bytes = match kind {
            Kind::Hole | Kind::StoredHole => vec![0; len],
            Kind::Packed | Kind::Stored | Kind::DirectPacked | Kind::DirectStored => {
                noise(len, number as u64 + 7)
            }
        };
        let raw = packed(&bytes);
        let pointer = match kind {
            Kind::Packed => {
                data.extend(raw);
                position(&data)
            }
            Kind::Stored => {
                data.extend(&bytes);
                position(&data) | STORED
            }
            Kind::DirectPacked | Kind::DirectStored => {
                // Not where the block before ends, so that only the pointer says where it is.
                data.extend([0xee; 5]);
                while position(&data) % 4 != 0 {
                    data.push(0xee);
                }
                let at = position(&data) / 4;
                if *kind == Kind::DirectStored {
                    data.extend(&bytes);
                    at | DIRECT | STORED
                } else {
                    let len = u16::try_from(raw.len()).unwrap();
                    data.extend(if big_endian { len.to_be_bytes() } else { len.to_le_bytes() });
                    data.extend(raw);
                    at | DIRECT
                }
            }
            Kind::Hole => position(&data),
            Kind::StoredHole => position(&data) | STORED,
        };
        pointers.extend(word_bytes(pointer, big_endian));
        plain.extend(bytes);
    }
    let size = u32::try_from(plain.len()).unwrap();
    (one_file(EXTENDED, size, &[pointers, data].concat(), big_endian), plain)
}

#[test]
fn every_kind_may_follow_every_other() {
    for big_endian in ORDERS {
        for first in KINDS {
            for second in KINDS {
                for third in KINDS {
                    let kinds = [first, second, third];
                    let (image, plain) = image_of(&kinds, 100, big_endian);
                    let image = open(&image, Options::default()).unwrap();
                    assert!(content(image.as_ref(), "f").unwrap() == plain, "{kinds:?}");
                }
            }
        }
    }
}

/// Linux takes the size modulo 4096, so that the last page of a file that ends with a page reads as
/// zeros.
#[test]
fn a_stored_block_at_the_end_is_as_long_as_the_rest_of_the_file() {
    for big_endian in ORDERS {
        for kind in [Kind::DirectStored, Kind::Stored, Kind::DirectPacked] {
            for tail in [1, 2, 4095, 4096] {
                let (image, plain) = image_of(&[Kind::DirectStored, kind], tail, big_endian);
                let image = open(&image, Options::default()).unwrap();
                assert!(content(image.as_ref(), "f").unwrap() == plain, "{kind:?} {tail}");
            }
        }
    }
}

#[test]
fn stored_blocks_need_no_decoding() {
    let (image, _) = image_of(&KINDS, 4096, false);
    let image = open(&image, Options::default()).unwrap();
    let file = find(image.as_ref(), "f");
    let codings = (0..6).map(|block| image.locate(file, block * 4096).unwrap().coding);
    let expected = [
        Coding::Packed,
        Coding::Stored,
        Coding::Packed,
        Coding::Stored,
        Coding::Hole,
        Coding::Hole,
    ];
    assert_eq!(codings.collect::<Vec<_>>(), expected);
}

#[test]
fn without_the_flag_the_bits_are_part_of_the_place() {
    let (mut image, _) = image_of(&[Kind::Stored], 100, false);
    image[9] = 0;
    assert!(file_error(&image).contains("beyond the image's"), "{}", file_error(&image));
}

/// A stored block with `len` bytes in the image, of a file of 100 bytes.
fn stored(len: usize) -> Vec<u8> {
    let data = vec![b'x'; len];
    let end = BODY + 4 + u32::try_from(len).unwrap();
    let pointer = word_bytes(end | STORED, false);
    one_file(EXTENDED, 100, &[&pointer[..], &data].concat(), false)
}

#[test]
fn a_stored_block_is_exactly_as_long_as_its_content() {
    let image = open(&stored(100), Options::default()).unwrap();
    assert_eq!(content(image.as_ref(), "f").unwrap(), [b'x'; 100]);
    assert!(file_error(&stored(99)).contains("99 bytes are stored, but the block has 100"));
    assert!(file_error(&stored(101)).contains("101 raw bytes, but 100 at most"));
}

#[test]
fn a_short_stored_block_ends_with_zeros_if_that_is_wanted() {
    for len in [1, 99] {
        let image = open(&stored(len), LENIENT).unwrap();
        let plain = content(image.as_ref(), "f").unwrap();
        assert_eq!(plain[..len], vec![b'x'; len]);
        assert_eq!(plain[len..], vec![0; 100 - len]);
    }
    let image = open(&stored(101), LENIENT).unwrap();
    assert!(content(image.as_ref(), "f").is_err());
}

#[test]
fn a_direct_block_lies_inside_the_image() {
    let direct = |at: u32, flags: u32, len: usize| {
        let pointer = word_bytes((at / 4) | flags, false);
        one_file(EXTENDED, 4, &[&pointer[..], &vec![1; len]].concat(), false)
    };
    // Four stored bytes at the end, and one byte further.
    let stored = |len| direct(BODY + 8, DIRECT | STORED, len);
    let image = open(&stored(8), Options::default()).unwrap();
    assert_eq!(content(image.as_ref(), "f").unwrap(), [1; 4]);
    assert!(file_error(&stored(7)).contains("beyond the image's"));
    // The length of a packed block, and its accounted length.
    let counted = |len| direct(BODY + 8, DIRECT, len);
    assert!(file_error(&counted(5)).contains("beyond the image's"));
    assert!(file_error(&counted(4 + 2 + 256)).contains("beyond the image's"));
    assert!(file_error(&counted(4 + 2 + 257)).contains("invalid zlib"));
}
