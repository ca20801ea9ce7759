//! Everything that an image promises, checked: its checksum, every node, every block.

use std::ops::{AddAssign, ControlFlow};
use std::sync::Arc;

use crate::content::{Content, SharedBlocks};
use crate::fault::{Cause, Fault};
use crate::image::{Coding, Image};
use crate::node::{Kind, Node, NodeId};
use crate::walk::Tree;
use crate::work;

mod strict;

pub use strict::{Finding, strict};

/// After this many consecutive errors, the rest of a file is left out: its size is as likely wrong
/// as they are.
const ERRORS_MAX: usize = 16;

/// What blocks there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Blocks without raw bytes.
    pub holes: u64,
    /// Blocks whose raw bytes are the content.
    pub stored: u64,
    /// Blocks that have to be decoded.
    pub packed: u64,
    /// Raw bytes; of a block that holds more than this file's bytes its share, rounded up.
    pub raw_bytes: u64,
}

impl Blocks {
    /// All of them.
    pub const fn count(&self) -> u64 {
        self.holes + self.stored + self.packed
    }

    /// Takes in the blocks of a file, without reading them.
    ///
    /// # Errors
    ///
    /// With the first block whose place is invalid.
    pub fn of(image: &dyn Image, node: &Node) -> crate::Result<Self> {
        let content = Content::new(image);
        let (mut blocks, mut at) = (Self::default(), 0);
        while at < node.size {
            let block = content.block(node.id, at)?;
            blocks.add(&block, node.size);
            at = block.plain.end;
        }
        Ok(blocks)
    }

    fn add(&mut self, block: &crate::Block, size: u64) {
        let raw = block.raw.end.saturating_sub(block.raw.start);
        let plain = block.plain.end.min(size).saturating_sub(block.plain.start);
        match block.coding {
            Coding::Hole => self.holes += 1,
            Coding::Stored => {
                self.stored += 1;
                self.raw_bytes += plain;
            }
            Coding::Packed => {
                self.packed += 1;
                let all = u128::from(block.decoded.max(1));
                let share = (u128::from(raw) * u128::from(plain)).div_ceil(all);
                self.raw_bytes += u64::try_from(share).unwrap_or(raw).min(raw);
            }
        }
    }
}

impl AddAssign for Blocks {
    fn add_assign(&mut self, other: Self) {
        self.holes += other.holes;
        self.stored += other.stored;
        self.packed += other.packed;
        self.raw_bytes += other.raw_bytes;
    }
}

/// The checks, and the errors.
#[derive(Debug, Default)]
pub struct Report {
    /// What the image's own checks covered.
    pub checks: Vec<String>,
    /// Names, the root included.
    pub names: u64,
    /// Regular files; each counts once, however many names it has.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their blocks.
    pub blocks: Blocks,
    /// The errors, by path.
    pub damage: Vec<Fault>,
}

/// Checks the image, and decodes everything in its tree. Continues after damage. `progress` gets
/// the number of further names that are done.
pub fn verify(
    image: &dyn Image,
    mut tree: Tree,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Report {
    let mut report = Report { names: tree.items().len() as u64, ..Report::default() };
    match image.verify() {
        Ok(checks) => report.checks = checks,
        Err(error) => report.damage.push(Fault::new("", error)),
    }
    report.damage.append(&mut tree.faults);
    let shared = Arc::new(SharedBlocks::default());
    let start = || Worker {
        content: Content::sharing(image, Arc::clone(&shared)),
        found: Report::default(),
        at: Vec::new(),
    };
    let workers = work::each(threads, tree.items().len(), start, |worker, place| {
        worker.check(image, &tree, place);
        progress(1);
        ControlFlow::Continue(())
    });
    let mut damage = Vec::new();
    for worker in workers {
        report.files += worker.found.files;
        report.bytes += worker.found.bytes;
        report.blocks += worker.found.blocks;
        damage.extend(worker.at);
    }
    damage.sort_by_key(|(place, _)| *place);
    report.damage.extend(damage.into_iter().map(|(_, fault)| fault));
    report
}

struct Worker<'a> {
    content: Content<'a>,
    found: Report,
    /// The errors, with the place in the tree.
    at: Vec<(usize, Fault)>,
}

impl Worker<'_> {
    fn check(&mut self, image: &dyn Image, tree: &Tree, place: usize) {
        let item = &tree.items()[place];
        if item.first.is_some() {
            return;
        }
        let causes = match node_of(image, item.node, item.kind) {
            Ok(node) => self.check_node(image, &node),
            Err(cause) => vec![cause],
        };
        let faults = causes.into_iter().map(|cause| (place, Fault::new(tree.path(place), cause)));
        self.at.extend(faults);
    }

    fn check_node(&mut self, image: &dyn Image, node: &Node) -> Vec<Cause> {
        let mut causes = Vec::new();
        if let Err(error) = image.xattrs(node.id) {
            causes.push(error.into());
        }
        match node.kind {
            Kind::File => self.check_file(image, node, &mut causes),
            Kind::Symlink => {
                if let Err(error) = image.link(node.id) {
                    causes.push(error.into());
                }
            }
            // The walk has listed it.
            Kind::Directory => {}
            Kind::BlockDevice | Kind::CharDevice | Kind::Fifo | Kind::Socket => {}
        }
        causes
    }

    fn check_file(&mut self, image: &dyn Image, node: &Node, causes: &mut Vec<Cause>) {
        self.found.files += 1;
        self.found.bytes += node.size;
        let (mut at, mut errors) = (0, 0);
        while at < node.size {
            let (end, checked) = self.check_block(image, node, at);
            at = end;
            match checked {
                Ok(()) => errors = 0,
                Err(error) => {
                    causes.push(error.into());
                    errors += 1;
                }
            }
            if errors == ERRORS_MAX && at < node.size {
                causes.push(Cause::More(ERRORS_MAX));
                return;
            }
        }
    }

    /// Checks the block that begins at a byte of a file; says where the next one begins.
    fn check_block(
        &mut self,
        image: &dyn Image,
        node: &Node,
        start: u64,
    ) -> (u64, crate::Result<()>) {
        let block = match self.content.block(node.id, start) {
            Ok(block) => block,
            Err(error) => {
                let step = u64::from(image.summary().block_size).max(1);
                let next = (start / step + 1).saturating_mul(step);
                return (next, Err(error));
            }
        };
        self.found.blocks.add(&block, node.size);
        let end = block.plain.end.min(node.size);
        let mut at = start;
        while at < end {
            match self.content.piece_of(&block, node.size, at) {
                Ok(piece) => at += piece.len(),
                Err(error) => return (end, Err(error)),
            }
        }
        (end, Ok(()))
    }
}

/// A node that is what its directory says.
pub(crate) fn node_of(image: &dyn Image, id: NodeId, entry: Kind) -> Result<Node, Cause> {
    let node = image.node(id)?;
    if node.kind == entry { Ok(node) } else { Err(Cause::Kinds { entry, node: node.kind }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::walk::Limits;

    fn checked(image: &Memory, threads: usize) -> (Report, Vec<String>) {
        let tree = Tree::whole(image, Limits::default());
        let report = verify(image, tree, threads, &|_| {});
        let said = report.damage.iter().map(ToString::to_string).collect();
        (report, said)
    }

    #[test]
    fn a_sound_image_is_counted() {
        let mut image = Memory::new();
        image.file("a/x", &[1; 4_096 * 3 + 1]);
        let y = image.file("y", &[0; 8_192]);
        image.name("a/z", y);
        image.symlink("l", "a");
        let (report, said) = checked(&image, 3);
        assert_eq!(said, [""; 0]);
        assert_eq!((report.names, report.files, report.bytes), (6, 2, 12_289 + 8_192));
        let blocks = Blocks { holes: 2, stored: 1, packed: 3, raw_bytes: 4_096 + 2 * 4_097 + 2 };
        assert_eq!(report.blocks, blocks);
    }

    #[test]
    fn each_damage_is_named_and_the_rest_is_checked() {
        let mut image = Memory::new();
        let x = image.file("a/x", &[1; 4_096 * 8]);
        image.file("b", &[1; 100]);
        let places = [0, 3].map(|block| image.damage_block(x, block));
        let hidden = image.directory("c");
        image.damage_directory(hidden);
        for threads in [1, 4] {
            let (report, said) = checked(&image, threads);
            let block = |place| {
                format!(
                    "/a/x: block at byte {place} of the image (4097 raw bytes): the sum is wrong"
                )
            };
            let directory = format!("/c: directory at byte {} of the image: is damaged", hidden.0);
            assert_eq!(said, [directory, block(places[0]), block(places[1])]);
            assert_eq!(report.blocks.count(), 9);
        }
    }

    #[test]
    fn a_size_without_blocks_ends_soon() {
        let mut image = Memory::new();
        let x = image.file("x", &[1; 10]);
        image.change(x, |node| node.size = u64::MAX);
        let (report, said) = checked(&image, 1);
        assert_eq!(report.blocks.packed, 1);
        assert_eq!(said.len(), ERRORS_MAX + 1);
        assert_eq!(said[ERRORS_MAX], "/x: 16 errors in a row; the rest of the file is left out");
    }

    #[test]
    fn a_node_that_is_not_what_its_directory_says_is_damage() {
        let mut image = Memory::new();
        let x = image.file("x", &[1; 10]);
        image.change(x, |node| node.kind = Kind::Symlink);
        let (_, said) = checked(&image, 1);
        assert_eq!(said, ["/x: the directory says file, the node says symbolic link"]);
    }
}
