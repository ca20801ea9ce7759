//! Files by their numbers, in a bounded room.
//!
//! Source:     Forebay.
//! Behaviour:  a file is found in the time of a search in a tree; the file of the last event at
//!             once. If there is no room, the file whose last event is the longest ago goes.
//! Differs:    nothing.
//! Not for:    more than some hundreds of files: to find the oldest, all are looked at.

use std::collections::BTreeMap;

use forebay_core::time::Instant;

use super::FILES_MAX;
use super::file::File;
use crate::number::FileKey;

#[derive(Debug, Default)]
pub(super) struct Table {
    files: Vec<File>,
    /// The turn and the time of each file's last event: apart from the files, so that looking for
    /// the oldest reads few bytes.
    last: Vec<(u64, Instant)>,
    places: BTreeMap<FileKey, usize>,
    /// Place of the last event's file.
    recent: usize,
    turn: u64,
}

impl Table {
    /// The file, and whether another one had to go for it.
    pub(super) fn file(&mut self, key: FileKey, at: Instant) -> (&mut File, bool) {
        self.turn += 1;
        let mut forgot = false;
        if self.files.get(self.recent).is_none_or(|file| file.key != key) {
            self.recent = match self.places.get(&key) {
                Some(place) => *place,
                None => {
                    forgot = self.files.len() >= FILES_MAX;
                    if forgot {
                        self.remove_oldest();
                    }
                    self.places.insert(key, self.files.len());
                    self.files.push(File::new(key, at));
                    self.last.push((0, at));
                    self.files.len() - 1
                }
            };
        }
        self.last[self.recent] = (self.turn, at);
        (&mut self.files[self.recent], forgot)
    }

    pub(super) fn known(&self, key: FileKey) -> Option<&File> {
        self.places.get(&key).map(|place| &self.files[*place])
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut File> {
        self.files.iter_mut()
    }

    /// Removes files whose last event was before.
    pub(super) fn forget_until(&mut self, before: Instant) {
        let mut place = 0;
        while place < self.files.len() {
            if self.last[place].1 < before { self.remove(place) } else { place += 1 }
        }
    }

    fn remove_oldest(&mut self) {
        let oldest = self.last.iter().enumerate().min_by_key(|(_, (turn, _))| *turn);
        if let Some((place, _)) = oldest {
            self.remove(place);
        }
    }

    fn remove(&mut self, place: usize) {
        self.places.remove(&self.files[place].key);
        self.files.swap_remove(place);
        self.last.swap_remove(place);
        if let Some(moved) = self.files.get(place) {
            self.places.insert(moved.key, place);
        }
    }
}
