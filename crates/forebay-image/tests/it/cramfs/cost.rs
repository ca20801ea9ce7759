//! What reading costs: reads of the image and allocations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use allocation_counter::measure;
use forebay_image::cramfs::write::{Content, Settings, Tree};
use forebay_image::{Coding, Image, Options, Source, cramfs};

use super::{attributes, built, find};

/// Bytes whose reads are counted.
struct Counted(Vec<u8>, AtomicU64);

impl Source for Counted {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.read_exact_at(buffer, offset)
    }
}

fn opened(tree: &Tree) -> (Arc<Counted>, Arc<dyn Image>) {
    let settings = Settings { level: 1, ..Settings::default() };
    let source = Arc::new(Counted(built(tree, &settings).image, AtomicU64::new(0)));
    let image = cramfs::open(&(Arc::clone(&source) as Arc<dyn Source>), Options::default());
    (source, image.unwrap().unwrap())
}

#[test]
fn pointers_are_read_in_pieces_of_1024() {
    let mut tree = Tree::new(attributes(0o755));
    let content = Content::Bytes(vec![1; 10 << 20]);
    tree.add(tree.root(), b"f", attributes(0o644), content).unwrap();
    let (source, image) = opened(&tree);
    let file = find(image.as_ref(), "f");
    source.1.store(0, Ordering::Relaxed);
    for _ in 0..2 {
        for block in 0..2560 {
            image.locate(file, block * 4096).unwrap();
        }
    }
    assert_eq!(source.1.load(Ordering::Relaxed), 3);
}

#[test]
fn a_directory_is_read_once() {
    let mut tree = Tree::new(attributes(0o755));
    for number in 0..1000 {
        let name = format!("name-{number}");
        tree.add(tree.root(), name.as_bytes(), attributes(0o644), Content::Fifo).unwrap();
    }
    let (source, image) = opened(&tree);
    source.1.store(0, Ordering::Relaxed);
    for number in 0..1000 {
        image.node(find(image.as_ref(), &format!("name-{number}"))).unwrap();
        assert_eq!(image.entries(image.root()).unwrap().len(), 1000);
    }
    assert_eq!(source.1.load(Ordering::Relaxed), 1);
}

#[test]
fn a_block_is_located_and_decoded_without_an_allocation() {
    let mut tree = Tree::new(attributes(0o755));
    let content = Content::Bytes(b"packs well ".repeat(4096));
    tree.add(tree.root(), b"f", attributes(0o644), content).unwrap();
    let (source, image) = opened(&tree);
    let file = find(image.as_ref(), "f");
    let mut content = vec![0; 4096];
    let mut all = || {
        for block in 0..10 {
            let block = image.locate(file, block * 4096).unwrap();
            assert_eq!(block.coding, Coding::Packed);
            let [start, end] = [block.raw.start, block.raw.end].map(|at| at.try_into().unwrap());
            let raw: &[u8] = &source.0[start..end];
            image.decode(&block, raw, 4096, &mut content).unwrap();
        }
    };
    all();
    assert_eq!(measure(all).count_total, 0);
}
