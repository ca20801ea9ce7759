//! Names that two trees have in common, and those that only one has.

use std::cmp::Ordering;

use super::Difference;
use crate::walk::{Inside, Tree};

/// A path in both trees, by its places there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) first: usize,
    pub(super) second: usize,
}

/// Walks both trees in step. A name that only one has is reported, and names below it are not.
pub(super) fn pairs(a: &Tree, b: &Tree) -> (Vec<Pair>, Vec<(Vec<u8>, Difference)>) {
    let (inside_a, inside_b) = (Inside::new(a), Inside::new(b));
    let mut pairs = vec![Pair { first: 0, second: 0 }];
    let mut only = Vec::new();
    let mut next = 0;
    // The pairs themselves are the queue of directories that are still to be walked.
    while let Some(pair) = pairs.get(next).copied() {
        next += 1;
        // Where one is no directory, that says it all.
        if a.items()[pair.first].kind != b.items()[pair.second].kind {
            continue;
        }
        let of_a = inside_a.names(pair.first).iter();
        let of_b = inside_b.names(pair.second).iter();
        let (mut of_a, mut of_b) = (of_a.peekable(), of_b.peekable());
        loop {
            let order = match (of_a.peek(), of_b.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(first), Some(second)) => {
                    a.items()[**first].name.cmp(&b.items()[**second].name)
                }
            };
            let first = if order.is_le() { of_a.next() } else { None };
            let second = if order.is_ge() { of_b.next() } else { None };
            match (first, second) {
                (Some(&first), Some(&second)) => pairs.push(Pair { first, second }),
                (Some(&first), None) => only.push((a.path(first), Difference::OnlyFirst)),
                (None, Some(&second)) => only.push((b.path(second), Difference::OnlySecond)),
                (None, None) => unreachable!("one of them has a name"),
            }
        }
    }
    (pairs, only)
}
