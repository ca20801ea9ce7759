//! Who asks what of which file: events of threads, summed up until their pattern is clear.
//!
//! Source:     Forebay.
//! Behaviour:  counts of a process and a file are summed up from look to look until they are enough
//!             for a judgement, and then begin anew. Sixteen events are enough for any pattern;
//!             eight are enough for faults in no order if nothing else happened, because there are
//!             no more in half a second where windows are largest and help is wanted most.
//! Differs:    nothing.
//! Not for:    threads whose process cannot be told: their counts are nobody's.

use std::collections::BTreeMap;

use forebay_core::time::{Duration, Instant};

use super::User;
use crate::pattern::{Counts, FileSeen, Pattern};

/// What each process asks of each file.
#[derive(Debug, Default)]
pub struct Users {
    sums: BTreeMap<User, Sum>,
}

/// What a process asked of a file since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Who and what.
    pub user: User,
    /// The pattern, if it became clear at this look.
    pub pattern: Pattern,
    /// Windows and ranges that went out.
    pub windows: u64,
    /// The window in KiB, as the file's last event had it; 0 if none did.
    pub window: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    counts: Counts,
    at: Instant,
}

impl Users {
    /// Nobody yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in what the threads of one file did; `process` says whose a thread is.
    pub fn record(
        &mut self,
        now: Instant,
        seen: &FileSeen,
        mut process: impl FnMut(u32) -> Option<u32>,
    ) -> Vec<Asked> {
        let mut asked: BTreeMap<User, Counts> = BTreeMap::new();
        for thread in seen.threads.iter() {
            let Some(process) = process(thread.thread) else { continue };
            *asked.entry(User { file: seen.file, process }).or_default() += thread.counts;
        }
        if self.sums.len() + asked.len() > USERS_MAX {
            self.sums.retain(|_, sum| now.since(sum.at) < IDLE);
        }
        let page_kib = rustix::param::page_size() as u64 / 1_024;
        let request = match seen.pattern {
            Pattern::RandomReads { request } => request,
            Pattern::RandomFaults | Pattern::Stream | Pattern::Unclear => 0,
        };
        let mut all = Vec::new();
        for (user, counts) in asked {
            if self.sums.len() >= USERS_MAX && !self.sums.contains_key(&user) {
                continue;
            }
            let sum = self.sums.entry(user).or_default();
            if now.since(sum.at) >= IDLE {
                sum.counts = Counts::default();
            }
            sum.counts += counts;
            sum.at = now;
            let pattern = judged(&sum.counts, request);
            if pattern != Pattern::Unclear || sum.counts.events() >= SUM_MAX {
                sum.counts = Counts::default();
            }
            let windows = counts.order.max(counts.unbounded);
            all.push(Asked { user, pattern, windows, window: seen.window * page_kib });
        }
        all
    }

    /// A process has ended.
    pub fn exited(&mut self, process: u32) {
        self.sums.retain(|user, _| user.process != process);
    }
}

fn judged(counts: &Counts, request: u64) -> Pattern {
    let Counts { sync, marker, order, .. } = *counts;
    if order >= FAULTS_MIN && sync == 0 && marker == 0 {
        return Pattern::RandomFaults;
    }
    let request = if request > 0 { request } else { counts.brought / counts.sync.max(1) };
    counts.pattern(request)
}

/// The most pairs of process and file whose counts are kept.
pub const USERS_MAX: usize = 1_024;

/// The fewest windows that tell faults in no order from anything else, if nothing else happened: a
/// stream reaches its marker in each.
const FAULTS_MIN: u64 = 8;

/// Events after which a mixture begins anew, so that what was does not outweigh what is.
const SUM_MAX: u64 = 256;

/// Counts as old as this say nothing.
const IDLE: Duration = Duration::from_secs(10);
