//! The random map: which blocks of a file were visited.
//!
//! Source:     fio 3.33, `lib/axmap.c`
//! Behaviour:  One bit per block. A busy block is replaced by the next free one, wrapping at the
//!             end. A run of blocks is taken only up to the first one that is busy.
//! Differs:    Nothing that shows. Above the bits stand summaries, a bit per full word, so that
//!             the last free block of a large file is found in a few steps.
//! Not for:    clearing single blocks
//!
//! ```text
//! level 1   1 0 0 …            a set bit: the word below is full
//!           │ └──────┐
//! level 0   1111…11  0110…00   a set bit: the block was visited
//! ```

/// A set of blocks with a fast search for a free one.
#[derive(Clone, Debug)]
pub(super) struct BlockMap {
    blocks: u64,
    levels: Vec<Vec<u64>>,
}

impl BlockMap {
    /// An empty set of the blocks from zero to `blocks`.
    pub(super) fn new(blocks: u64) -> Self {
        let mut levels = Vec::new();
        let mut bits = blocks.max(1);
        loop {
            let words = bits.div_ceil(64);
            levels.push(vec![0; usize::try_from(words).expect("the parser bounds the blocks")]);
            if words == 1 {
                break;
            }
            bits = words;
        }
        let mut map = Self { blocks, levels };
        map.clear();
        map
    }

    /// Frees every block.
    pub(super) fn clear(&mut self) {
        let mut below = None;
        for level in &mut self.levels {
            level.fill(0);
            // A summary has no room for words that do not exist: they count as full.
            if let Some(words) = below
                && words % 64 != 0
                && let Some(last) = level.last_mut()
            {
                *last = u64::MAX << (words % 64);
            }
            below = Some(level.len());
        }
    }

    /// Whether `block` was visited.
    pub(super) fn is_busy(&self, block: u64) -> bool {
        self.word(block).is_some_and(|word| word & (1 << (block % 64)) != 0)
    }

    /// The first free block after `block`, looked for from the start if there is none.
    pub(super) fn next_free(&self, block: u64) -> Option<u64> {
        if block >= self.blocks {
            return None;
        }
        self.find_free(block + 1).or_else(|| self.find_free(0))
    }

    /// Takes the blocks from `first`, up to `count` and to the first busy one; returns how many.
    pub(super) fn take_run(&mut self, first: u64, count: u64) -> u64 {
        let mut taken = 0;
        while taken < count {
            let (index, bit) = ((first + taken) / 64, (first + taken) % 64);
            let wanted = (count - taken).min(64 - bit);
            let mask = (u64::MAX >> (64 - wanted)) << bit;
            // Past the last word there is nothing to mark, and nothing that could be busy.
            let busy = self.word(first + taken).map_or(0, |word| word & mask);
            let free = if busy == 0 { wanted } else { u64::from(busy.trailing_zeros()) - bit };
            if free > 0 {
                self.set(index, (u64::MAX >> (64 - free)) << bit);
            }
            taken += free;
            if free < wanted {
                break;
            }
        }
        taken
    }

    fn word(&self, block: u64) -> Option<u64> {
        self.levels[0].get(usize::try_from(block / 64).ok()?).copied()
    }

    fn set(&mut self, index: u64, mask: u64) {
        let (mut index, mut mask) = (index, mask);
        for level in &mut self.levels {
            let slot = usize::try_from(index).ok().and_then(|index| level.get_mut(index));
            let Some(word) = slot else { return };
            *word |= mask;
            if *word != u64::MAX {
                return;
            }
            mask = 1 << (index % 64);
            index /= 64;
        }
    }

    fn find_free(&self, start: u64) -> Option<u64> {
        let mut from = start;
        for (height, level) in self.levels.iter().enumerate() {
            let index = from / 64;
            let word = level.get(usize::try_from(index).ok()?)?;
            let free = !word & (u64::MAX << (from % 64));
            if free != 0 {
                return self.descend(height, index * 64 + u64::from(free.trailing_zeros()));
            }
            from = index + 1;
        }
        None
    }

    fn descend(&self, height: usize, found: u64) -> Option<u64> {
        let mut found = found;
        for level in self.levels[..height].iter().rev() {
            let word = level[usize::try_from(found).ok()?];
            found = found * 64 + u64::from((!word).trailing_zeros());
        }
        (found < self.blocks).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    #[test]
    fn it_answers_like_a_plain_list_of_flags() {
        for blocks in [1u64, 63, 64, 65, 4096, 4097, 5000] {
            let mut map = BlockMap::new(blocks);
            let mut flags = vec![false; usize::try_from(blocks).unwrap() + 64];
            let mut random = Random::narrow(blocks);
            for round in 0..4 * blocks {
                let (first, count) = (random.below(blocks), 1 + random.below(70));
                let count = count.min(blocks - first);
                let model = flags[usize::try_from(first).unwrap()..]
                    .iter_mut()
                    .take(usize::try_from(count).unwrap())
                    .take_while(|busy| !**busy)
                    .map(|busy| *busy = true)
                    .count();
                assert_eq!(map.take_run(first, count), model as u64);
                let after = (first + 1..blocks).chain(0..blocks);
                let free = after.clone().find(|at| !flags[usize::try_from(*at).unwrap()]);
                assert_eq!(map.next_free(first), free, "{blocks} blocks, round {round}");
                assert!(map.is_busy(first));
            }
            map.clear();
            assert!((0..blocks).all(|block| !map.is_busy(block)));
        }
    }
}
