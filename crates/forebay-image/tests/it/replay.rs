//! The corpus of the fuzz targets, replayed: seeds, and what once broke a parser.

use std::fs;
use std::path::Path;

use forebay_image::{Options, cramfs, erofs, squashfs};

use crate::abuse::{Open, survives};

fn replay(name: &str, open: Open<'_>) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut inputs = 0;
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        let _either = survives(fs::read(&path).unwrap(), &path.display().to_string(), open);
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
