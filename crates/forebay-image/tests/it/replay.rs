//! The corpus of the fuzz targets, replayed: seeds, and what once broke a parser.

use std::fs;
use std::path::Path;

use forebay_image::{Options, cramfs, erofs, squashfs};

use crate::abuse::{Open, survives};
use crate::any_profile;

fn replay(name: &str, open: Open<'_>) {
    each(name, |input, path| {
        let _either = survives(input, path, open);
    });
}

/// Calls `run` with each input of a target and its path.
fn each(name: &str, mut run: impl FnMut(Vec<u8>, &str)) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut inputs = 0;
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        run(fs::read(&path).unwrap(), &path.display().to_string());
        inputs += 1;
    }
    assert!(inputs > 0, "nothing in {}", directory.display());
}

#[test]
fn cramfs_survives_its_corpus() {
    for lenient in [false, true] {
        replay("cramfs", &|source| cramfs::open(source, Options { lenient }));
    }
}

#[test]
fn squashfs_survives_its_corpus() {
    replay("squashfs", &|source| squashfs::open(source, Options::default()));
}

#[test]
fn erofs_survives_its_corpus() {
    replay("erofs", &|source| erofs::open(source, Options::default()));
}

#[test]
fn profiles_are_read_from_any_bytes() {
    each("recordings", |input, _| {
        any_profile::survives(&input);
        (0..64).for_each(|part| any_profile::survives(&input[..input.len() * part / 64]));
    });
}
