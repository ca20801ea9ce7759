//! Reuse distances: how many other pages were accessed since the last access of a page.
//!
//! The distance is that of a stack of pages in the order of their last use. Pages whose hash lies
//! below a threshold represent all pages (SHARDS, FAST 2015). The threshold falls so that memory is
//! bounded, and each distance counts for as many as it represents.

use std::collections::{BTreeSet, HashMap};

/// Measures reuse distances of pages.
pub struct ReuseDistances {
    /// The time of the last use of each sampled page, with its hash.
    last: HashMap<u64, (u64, u64)>,
    /// The sampled pages by hash, the largest of which goes first.
    by_hash: BTreeSet<(u64, u64)>,
    /// Pages whose hash lies below are sampled.
    threshold: u64,
    /// Which times are the last use of a page: sums over a Fenwick tree.
    tree: Vec<u32>,
    /// The next time.
    now: usize,
    pages_max: usize,
    histogram: ReuseHistogram,
}

/// How often each distance occurred, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReuseHistogram {
    /// Accesses whose distance is at least 2^(n-1) and below 2^n pages; zero comes first.
    pub buckets: Vec<f64>,
    /// Accesses to pages that were not asked for before.
    pub first: f64,
}

/// Pages that are sampled at most.
const PAGES_MAX: usize = 1 << 15;

impl Default for ReuseDistances {
    fn default() -> Self {
        Self::with_pages_max(PAGES_MAX)
    }
}

impl ReuseDistances {
    fn with_pages_max(pages_max: usize) -> Self {
        Self {
            last: HashMap::new(),
            by_hash: BTreeSet::new(),
            threshold: u64::MAX,
            tree: vec![0; pages_max * 8 + 1],
            now: 0,
            pages_max,
            histogram: ReuseHistogram::default(),
        }
    }

    /// A page is accessed.
    #[inline]
    pub fn touch(&mut self, object: u32, page: u64) {
        let key = page ^ u64::from(object) << 44;
        let hash = mixed(key);
        if hash < self.threshold || self.threshold == u64::MAX {
            self.count(key, hash);
        }
    }

    /// The measured distances.
    pub fn histogram(&self) -> &ReuseHistogram {
        &self.histogram
    }

    /// The share of pages that were looked at.
    pub fn sampled_share(&self) -> f64 {
        self.threshold as f64 / u64::MAX as f64
    }

    fn count(&mut self, key: u64, hash: u64) {
        let weight = 1.0 / self.sampled_share();
        if self.now + 1 >= self.tree.len() {
            self.renumber();
        }
        match self.last.insert(key, (self.now as u64, hash)) {
            Some((before, _)) => {
                // Pages whose last use lies between the two uses of this one.
                let between = self.last.len() as u64 - self.sum(before as usize);
                self.add(before as usize, false);
                let distance = between as f64 * weight;
                let bucket = if distance < 1.0 { 0 } else { distance.log2() as usize + 1 };
                let buckets = &mut self.histogram.buckets;
                buckets.resize(buckets.len().max(bucket + 1), 0.0);
                buckets[bucket] += weight;
            }
            None => {
                self.histogram.first += weight;
                self.by_hash.insert((hash, key));
            }
        }
        self.add(self.now, true);
        self.now += 1;
        if self.by_hash.len() > self.pages_max
            && let Some((hash, _)) = self.by_hash.last().copied()
        {
            self.threshold = hash;
            while let Some((last, key)) = self.by_hash.last().copied()
                && last >= self.threshold
            {
                self.by_hash.pop_last();
                if let Some((time, _)) = self.last.remove(&key) {
                    self.add(time as usize, false);
                }
            }
        }
    }

    /// Gives the pages new times, without gaps.
    fn renumber(&mut self) {
        let mut pages: Vec<(u64, u64)> =
            self.last.iter().map(|(key, (time, _))| (*time, *key)).collect();
        pages.sort_unstable();
        self.tree.fill(0);
        for (time, (_, key)) in pages.iter().enumerate() {
            if let Some(last) = self.last.get_mut(key) {
                last.0 = time as u64;
            }
            self.add(time, true);
        }
        self.now = pages.len();
    }

    fn add(&mut self, time: usize, is_more: bool) {
        let mut at = time + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(if is_more { 1 } else { u32::MAX });
            at += at & at.wrapping_neg();
        }
    }

    /// Pages whose last use was at `time` or before.
    fn sum(&self, time: usize) -> u64 {
        let (mut at, mut sum) = (time + 1, 0);
        while at > 0 {
            sum += u64::from(self.tree[at]);
            at -= at & at.wrapping_neg();
        }
        sum
    }
}

impl ReuseHistogram {
    /// The share of accesses that an LRU cache of `pages` pages serves, as far as the buckets tell:
    /// buckets that the size splits do not count.
    pub fn hit_ratio(&self, pages: u64) -> f64 {
        let all: f64 = self.buckets.iter().sum::<f64>() + self.first;
        let whole = if pages == 0 { 0 } else { pages.ilog2() as usize + 1 };
        let hits: f64 = self.buckets.iter().take(whole).sum();
        // Sums of what was not looked at can be a little below zero.
        if all > 0.0 { (hits / all).max(0.0) } else { 0.0 }
    }
}

/// A hash whose bits are all alike good (the finalizer of SplitMix64).
pub(crate) fn mixed(key: u64) -> u64 {
    let mut x = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stack of pages, the last one used on top.
    fn naive(pages: &[u64]) -> ReuseHistogram {
        let (mut stack, mut histogram) = (Vec::new(), ReuseHistogram::default());
        for page in pages {
            match stack.iter().rev().position(|held| held == page) {
                Some(distance) => {
                    let bucket = if distance == 0 { 0 } else { distance.ilog2() as usize + 1 };
                    let buckets = &mut histogram.buckets;
                    buckets.resize(buckets.len().max(bucket + 1), 0.0);
                    buckets[bucket] += 1.0;
                    stack.retain(|held| held != page);
                }
                None => histogram.first += 1.0,
            }
            stack.push(*page);
        }
        histogram
    }

    fn pages(count: u64, of: u64) -> Vec<u64> {
        (0..count).map(|n| (mixed(n) % of).min(mixed(n + count) % of)).collect()
    }

    #[test]
    fn distances_are_those_of_a_stack_as_long_as_all_pages_are_sampled() {
        let pages = pages(5_000, 300);
        let mut reuse = ReuseDistances::with_pages_max(300);
        pages.iter().for_each(|page| reuse.touch(0, *page));
        assert_eq!(*reuse.histogram(), naive(&pages));
        assert_eq!(reuse.sampled_share(), 1.0);
    }

    #[test]
    fn an_lru_cache_serves_what_was_used_within_its_size() {
        // Two uses at a distance below 4 and one below 16, of 6 in all.
        let histogram = ReuseHistogram { first: 3.0, buckets: vec![0.0, 1.0, 1.0, 0.0, 1.0] };
        let ratios = [0, 2, 4, 16].map(|pages| histogram.hit_ratio(pages) * 6.0);
        assert_eq!(ratios, [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(ReuseHistogram::default().hit_ratio(16), 0.0);
        let sampled = ReuseHistogram { first: 3.0, buckets: vec![-0.5] };
        assert_eq!(sampled.hit_ratio(16), 0.0);
    }

    #[test]
    fn a_sample_says_nearly_the_same() {
        let pages = pages(200_000, 20_000);
        let (mut all, mut sampled) =
            (ReuseDistances::with_pages_max(20_000), ReuseDistances::with_pages_max(2_000));
        for page in &pages {
            all.touch(0, *page);
            sampled.touch(0, *page);
        }
        assert!(sampled.sampled_share() < 0.2);
        for size in [1 << 8, 1 << 10, 1 << 12, 1 << 14] {
            let (exact, near) =
                (all.histogram().hit_ratio(size), sampled.histogram().hit_ratio(size));
            assert!((exact - near).abs() < 0.03, "{size}: {exact} {near}");
        }
    }
}
