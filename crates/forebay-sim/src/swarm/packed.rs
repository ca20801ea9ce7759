//! Packed files of a scenario: images, blocks of 1 to 32 pages, and a fill rule for each
//! description.

use forebay_core::engine::Engine;
use forebay_core::packed::{Fill, POLICIES, Spec};
use forebay_core::units::{FileId, PAGE_SIZE};

use forebay_core::time::Duration;

use super::draw::random_size;
use crate::checked::{PackedFile, Placed};
use crate::packed::Writer;
use crate::price::Prices;
use crate::rng::Rng;

/// The fill rules of a scenario: one, or any.
#[derive(Debug, Default)]
pub(super) struct Fills(Option<usize>);

impl Fills {
    /// The rule of a new description.
    pub(super) fn draw(&self, rng: &mut Rng) -> Box<dyn Fill> {
        let any = rng.below(POLICIES.len() as u64) as usize;
        let mut typed = POLICIES[self.0.unwrap_or(any)].name.to_owned();
        if typed.starts_with("selective") && rng.chance(300_000) {
            typed += &format!(":window={}", 1 + rng.below(40));
        } else if typed == "selective-then-idle" {
            typed += &format!(":first={}", rng.below(16));
        }
        Spec::parse(&typed).expect("the table's names and ranges").build()
    }
}

/// The same prices, and some for decoding.
pub(super) fn with_decoding(prices: Prices, rng: &mut Rng) -> Prices {
    let mut up_to = |nanos| Duration(rng.below(nanos));
    Prices {
        decode_page: up_to(200_000),
        decode_block: up_to(20_000),
        decode_cold: up_to(20_000),
        ..prices
    }
}

/// Adds images with packed files in them, behind the other files; often none.
pub(super) fn random_packed(
    engine: &mut Engine,
    files: &mut Vec<Placed>,
    rng: &mut Rng,
) -> (Vec<PackedFile>, Fills) {
    let mut packed = Vec::new();
    let images = [0, 1, 1, 2][rng.below(4) as usize];
    for number in 0..images {
        let device = files[rng.below(files.len() as u64) as usize].device;
        let mut writer = Writer::new(76 + rng.below(9_000));
        let blocks: Vec<_> =
            (0..1 + rng.below(3)).map(|_| random_blocks(&mut writer, rng)).collect();
        let sector = (1 << 28) + (number << 20);
        let bytes = writer.bytes() + rng.below(3 * PAGE_SIZE);
        let image = engine.add_file(device, bytes, sector);
        files.push(Placed { device, sector, bytes, room: bytes, inode: None });
        for (blocks, bytes) in blocks {
            let file = engine.add_packed_file(image, Box::new(blocks.clone()));
            assert_eq!(file, FileId(files.len() as u32), "files are numbered in order");
            files.push(Placed { device, sector: 0, bytes, room: bytes, inode: None });
            packed.push(PackedFile { file, image, blocks });
        }
    }
    // The last one, which idle cores work for, twice as often.
    let one = (rng.below(POLICIES.len() as u64 + 1) as usize).min(POLICIES.len() - 1);
    (packed, Fills(rng.chance(500_000).then_some(one)))
}

/// A packed file and its bytes.
fn random_blocks(writer: &mut Writer, rng: &mut Rng) -> (crate::packed::Blocks, u64) {
    let bytes = random_size(rng);
    let pages = [1, 1, 2, 4, 32][rng.below(5) as usize];
    let holes = [0, 100_000, 600_000][rng.below(3) as usize];
    let stored = [0, 0, 300_000][rng.below(3) as usize];
    let most = pages * PAGE_SIZE;
    writer.skip(rng.below(6 * PAGE_SIZE));
    let last = bytes.div_ceil(most) - 1;
    let blocks = writer.add(bytes, pages, |block| {
        let plain = if block == last { bytes - last * most } else { most };
        if rng.chance(holes) {
            0
        } else if rng.chance(stored) {
            plain
        } else {
            20 + rng.below(plain)
        }
    });
    (blocks, bytes)
}
