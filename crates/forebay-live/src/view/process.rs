//! Processes in a period.

use std::collections::BTreeMap;

use super::{Pauses, Period, brought, ratio};

/// A process in a period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessView {
    /// Its number.
    pub pid: u32,
    /// Its name; empty if it was gone too soon.
    pub name: String,
    /// Bytes brought in for it.
    pub brought: u64,
    /// Of those, bytes that it can have used.
    pub used: u64,
    /// Whether the two come from events; otherwise from the process's own counters, of which
    /// `read_bytes` is what was brought in, and what was used is `rchar` or a page for each major
    /// fault, whichever is more.
    pub by_events: bool,
    /// Major faults; none if they may not be read.
    pub faults: Option<u64>,
    /// Bytes that it made dirty.
    pub written: Option<u64>,
    /// Its pauses for writing too fast.
    pub pauses: Pauses,
}

impl ProcessView {
    /// Bytes brought in for each byte used; none if nothing was brought in.
    pub fn amplification(&self) -> Option<f64> {
        ratio(self.brought, self.used)
    }

    fn is_active(&self) -> bool {
        self.brought > 0 || self.written.unwrap_or(0) > 0 || self.pauses.count > 0
    }
}

/// Processes that did something, most brought in first.
pub(super) fn processes(period: &Period<'_>) -> Vec<ProcessView> {
    let mut views: BTreeMap<u32, ProcessView> = BTreeMap::new();
    let owner = |thread: u32| period.owners.get(&thread).copied().unwrap_or(thread);
    for file in period.files {
        for thread in file.threads.iter() {
            let view = views.entry(owner(thread.thread)).or_default();
            let bytes = |pages: u64| pages.saturating_mul(period.machine.page_size);
            let brought = brought(period, file.file, &thread.counts, &thread.ends);
            view.brought = view.brought.saturating_add(brought);
            view.used = view.used.saturating_add(bytes(thread.counts.used));
            view.by_events = true;
        }
    }
    for (thread, _, pauses) in period.writers.pauses() {
        let sum = &mut views.entry(owner(thread)).or_default().pauses;
        sum.count += pauses.count;
        sum.total_ms += pauses.total_ms;
        sum.longest_ms = sum.longest_ms.max(pauses.longest_ms);
    }
    for seen in period.processes {
        let view = views.entry(seen.pid).or_default();
        view.name.clone_from(&seen.name);
        let Some(counters) = seen.counters else { continue };
        view.faults = Some(counters.faults);
        view.written = Some(counters.written);
        if !view.by_events {
            (view.brought, view.used) = (counters.brought, counters.used.min(counters.brought));
        }
    }
    let with_pid = |(pid, view)| ProcessView { pid, ..view };
    let mut views: Vec<ProcessView> =
        views.into_iter().map(with_pid).filter(ProcessView::is_active).collect();
    views.sort_by(|a, b| {
        let pauses = b.pauses.total_ms.cmp(&a.pauses.total_ms);
        b.brought.cmp(&a.brought).then(pauses).then(a.pid.cmp(&b.pid))
    });
    views
}
