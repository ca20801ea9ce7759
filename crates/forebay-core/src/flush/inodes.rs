//! Metadata of changed files, written by age: what flush rules share about it.
//!
//! A rule sees no list of changed files. It knows that each page that became dirty changed its file
//! and that a file changes no more once nothing is dirty; from then on it asks until the answer is
//! that nothing is left.

use super::{DirtyPages, Sent};
use crate::time::{Duration, Instant};

/// What a rule knows of changed files.
#[derive(Debug)]
pub(super) struct Inodes {
    /// The age from which on metadata is written.
    age: Duration,
    /// The last moment at which a page was seen dirty, until all metadata up to it is written.
    changed: Option<Instant>,
}

impl Inodes {
    /// Nothing has changed; metadata is written from `age` on.
    pub(super) fn new(age: Duration) -> Self {
        Self { age, changed: None }
    }

    /// Looks whether something is dirty. Returns whether metadata may be left to write.
    pub(super) fn look(&mut self, pages: &dyn DirtyPages) -> bool {
        if pages.all().unsafe_pages() > 0 {
            self.changed = Some(pages.now());
        }
        self.changed.is_some()
    }

    /// Writes old metadata. Returns whether the device took all of it.
    pub(super) fn write(&mut self, pages: &mut dyn DirtyPages) -> bool {
        if pages.now() < Instant::ZERO + self.age {
            return true;
        }
        let before = Instant::ZERO + (pages.now().since(Instant::ZERO) - self.age);
        loop {
            match pages.write_inodes(before) {
                Sent::Page => {}
                Sent::Full => return false,
                Sent::Nothing => break,
            }
        }
        if self.changed.is_some_and(|changed| changed < before) {
            self.changed = None;
        }
        true
    }
}
