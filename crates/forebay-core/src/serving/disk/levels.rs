//! What an export holds and has done, for reports.

use alloc::vec::Vec;

use super::DiskPath;
use crate::engine::PageUse;
use crate::writeback::Levels;

/// What an export has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportLevels {
    /// Its dirty pages and those on their way.
    pub levels: Levels,
    /// Pages a second that its device was seen to write.
    pub drain: Option<u64>,
    /// Writes that failed, and flushes.
    pub write_errors: u64,
    /// Its store is full.
    pub is_full: bool,
    /// Its pages in memory, and those that were read and used.
    pub pages: PageUse,
}

impl DiskPath {
    /// An export of whole pages has grown: from now on there are so many bytes.
    ///
    /// # Panics
    /// If it had a part of a page, or shrinks.
    pub fn grow(&mut self, export: u32, bytes: u64) {
        let export = &mut self.exports[export as usize];
        self.engine.grow(export.file, bytes);
        export.bytes = bytes;
    }

    /// The exports as they are now, in their order.
    pub fn export_levels(&self) -> Vec<ExportLevels> {
        let levels = self.exports.iter().map(|export| ExportLevels {
            levels: self.engine.device_levels(export.device),
            drain: self.engine.drain(export.device),
            write_errors: self.engine.write_errors(export.file),
            is_full: export.is_full,
            pages: self.engine.page_use(export.file),
        });
        levels.collect()
    }
}
