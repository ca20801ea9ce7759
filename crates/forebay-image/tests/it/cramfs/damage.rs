//! Damage: every truncation, every flipped bit, random bytes.

use forebay_image::cramfs::{self, write::Settings};
use forebay_image::{Options, Result, Source};
use std::sync::Arc;

use super::{LENIENT, noise, small_image};
use crate::abuse::{Open, every_bit_flip, every_truncation, survives};

const STRICT: Open<'_> = &|source| cramfs::open(source, Options::default());

fn settings() -> [Settings; 3] {
    let plain = Settings { level: 12, ..Settings::default() };
    [
        Settings { holes: true, ..plain.clone() },
        Settings { big_endian: true, boot: Some(Box::new([7; 512])), ..plain.clone() },
        Settings { stored: true, shifted: b"kernel".to_vec(), ..plain },
    ]
}

#[test]
fn every_truncation_is_said_and_every_part_is_right() {
    for settings in settings() {
        every_truncation(&small_image(&settings), STRICT);
    }
}

#[test]
fn every_truncation_of_an_image_without_a_size_leaves_the_rest_readable() {
    let mut image = small_image(&Settings { holes: true, ..Settings::default() });
    // The flag that the size is meaningful.
    image[8] &= !1;
    every_truncation(&image, STRICT);
}

#[test]
fn every_flipped_bit_is_survived() {
    for settings in settings() {
        let image = small_image(&settings);
        let base = if settings.boot.is_some() { 512 } else { 0 };
        assert!(image.len() - base < 1000, "{}", image.len());
        let opened = every_bit_flip(&image, base..image.len(), STRICT);
        // Of the superblock, most bits of the size, the flags, the signature and the root count.
        assert!(opened > (image.len() - base - 76) * 8, "{opened}");
    }
}

#[test]
fn every_flipped_bit_is_survived_leniently() {
    let lenient: Open<'_> = &|source| cramfs::open(source, LENIENT);
    let image = small_image(&settings()[2]);
    let opened = every_bit_flip(&image, 0..image.len(), lenient);
    assert!(opened > (image.len() - 76) * 8, "{opened}");
}

#[test]
fn random_metadata_is_survived() {
    let image = small_image(&Settings::default());
    for seed in 0..3000 {
        let mut damaged = image.clone();
        let noise = noise(64, seed);
        for pair in noise.chunks_exact(4).take(1 + usize::from(noise[63] % 15)) {
            let at = 4 + usize::from(u16::from_le_bytes([pair[0], pair[1]])) % (image.len() - 4);
            // Sizes, offsets and pointers that lead to other metadata are the likeliest trouble.
            damaged[at] = if pair[2] < 128 { pair[3] } else { image[usize::from(pair[3])] };
        }
        let _either = survives(damaged, &format!("seed {seed}"), STRICT);
    }
}

#[test]
fn random_bytes_behind_a_superblock_are_survived() {
    let image = small_image(&Settings::default());
    for seed in 0..500 {
        let mut damaged = image.clone();
        let len = damaged.len();
        damaged[76..].copy_from_slice(&noise(len - 76, seed));
        let _either = survives(damaged, &format!("seed {seed}"), STRICT);
    }
}

#[test]
fn random_bytes_are_no_image() -> Result<()> {
    for seed in 0..500 {
        let bytes = noise(usize::try_from(seed).unwrap() * 3, seed);
        let source: Arc<dyn Source> = Arc::new(bytes);
        assert!(STRICT(&source)?.is_none());
    }
    Ok(())
}
