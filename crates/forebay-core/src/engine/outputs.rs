//! Outputs that wait to be executed.

use alloc::vec::Vec;

use crate::io::Output;

/// A queue that is emptied before it is filled again.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    outputs: Vec<Output>,
    /// How many of them have been taken.
    taken: usize,
}

impl Outputs {
    #[inline]
    pub(super) fn push(&mut self, output: Output) {
        self.outputs.push(output);
    }

    /// Takes the first one.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Output> {
        let first = self.outputs.get(self.taken).copied();
        if first.is_some() {
            self.taken += 1;
        } else {
            self.outputs.clear();
            self.taken = 0;
        }
        first
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.taken == self.outputs.len()
    }
}
