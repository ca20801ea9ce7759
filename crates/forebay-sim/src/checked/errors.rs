//! The descriptions to which a failed write has still to be reported.
//!
//! Every description that is open when a write of its file fails owes its user one error, however
//! many writes fail before it can tell.

use std::collections::BTreeMap;

use forebay_core::units::{FileId, HandleId};

/// The open descriptions and the errors they have to report.
#[derive(Debug, Default)]
pub(super) struct Owed {
    handles: BTreeMap<HandleId, (FileId, bool)>,
    /// How often each description has told.
    told: BTreeMap<HandleId, u64>,
}

impl Owed {
    /// A file is opened.
    pub(super) fn open(&mut self, handle: HandleId, file: FileId) {
        self.handles.insert(handle, (file, false));
    }

    /// A write of a file failed.
    pub(super) fn fail(&mut self, failed: FileId) {
        for (file, owed) in self.handles.values_mut() {
            *owed |= *file == failed;
        }
    }

    /// Whether a description has an error to report; marks it as reported.
    pub(super) fn tell(&mut self, handle: HandleId) -> bool {
        let (_, owed) = self.handles.get_mut(&handle).expect("a call names an open file");
        let owed = std::mem::take(owed);
        *self.told.entry(handle).or_default() += u64::from(owed);
        owed
    }

    /// How often a description has told.
    pub(super) fn told(&self, handle: HandleId) -> u64 {
        self.told.get(&handle).copied().unwrap_or(0)
    }
}
