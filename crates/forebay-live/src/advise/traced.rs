//! What a trace says of single files while a machine is watched: which process reads which file
//!                                                               how.
//!
//! A process and its file may be gone before the watch is over. So both get their names at the tick
//! in which they are seen.

use std::collections::BTreeMap;

use forebay_core::time::Instant;

use super::FileActivity;
use crate::number::FileKey;
use crate::pattern::{Pattern, Patterns};
use crate::process::{find_file, is_kernel_thread, owner};
use crate::trace::{Scope, TraceError, Tracer};
use crate::tree::Tree;

/// A trace that names files.
#[derive(Debug)]
pub struct Traced {
    tracer: Tracer,
    patterns: Patterns,
    /// When the latest event was.
    latest: u64,
    found: BTreeMap<(FileKey, u32), Found>,
}

#[derive(Debug, Default)]
struct Found {
    path: Option<String>,
    pattern: Pattern,
    /// Pages that were brought in.
    brought: u64,
}

impl Traced {
    /// Begins to record, in an instance of its own that is removed with this.
    ///
    /// # Errors
    ///
    /// It takes root and the tracepoints of readahead, which kernels before 6.18 do not have.
    pub fn new() -> Result<Self, TraceError> {
        let tracer = Tracer::new(&Scope::default())?;
        if !tracer.sees_files() {
            return Err(TraceError::NoEvents);
        }
        Ok(Self { tracer, patterns: Patterns::new(), latest: 0, found: BTreeMap::new() })
    }

    /// Takes in what happened since the last tick.
    ///
    /// # Errors
    ///
    /// The trace cannot be read.
    pub fn tick(&mut self, tree: &Tree) -> Result<(), TraceError> {
        let (patterns, latest) = (&mut self.patterns, &mut self.latest);
        self.tracer.drain(&mut |event| {
            *latest = event.at.max(*latest);
            patterns.record(&event);
        })?;
        for seen in self.patterns.settle(Instant(self.latest)) {
            for thread in seen.threads.iter() {
                let Some(process) = owner(tree, thread.thread) else { continue };
                if is_kernel_thread(tree, process) {
                    // The processes that it reads for are seen on the file system above.
                    continue;
                }
                let key = (seen.file, process);
                if self.found.len() >= FOUND_MAX && !self.found.contains_key(&key) {
                    continue;
                }
                let found = self.found.entry(key).or_default();
                found.brought = found.brought.saturating_add(thread.counts.brought);
                if seen.pattern != Pattern::Unclear {
                    found.pattern = seen.pattern;
                }
                if found.path.is_none() {
                    found.path = find_file(tree, process, seen.file).map(|file| file.path);
                }
            }
        }
        Ok(())
    }

    /// What each process asked of each file, most brought in first.
    pub fn finish(self) -> Vec<FileActivity> {
        let mut found: Vec<_> = self.found.into_iter().collect();
        found.sort_by_key(|(_, found)| std::cmp::Reverse(found.brought));
        let ours = std::process::id();
        let others = found.into_iter().filter(|((_, pid), _)| *pid != ours);
        let activity =
            |((key, pid), Found { path, pattern, .. })| FileActivity { key, path, pid, pattern };
        others.map(activity).collect()
    }
}

/// Pairs of file and process that are remembered.
const FOUND_MAX: usize = 1_024;
