//! Pages that are dropped before they are written: those of files that are removed or cut.
//!
//! Source:     Forebay; debugfs counts what became dirty and what was written for each backing
//!             device, and what is neither any more was dropped. A file system's free blocks grow
//!             by what is removed, written or not.
//! Behaviour:  both are summed up from look to look and count half after half a minute.
//! Differs:    nothing.
//! Not for:    old files that are removed while others are written: blocks that come back count up
//!             to what became dirty since the last ones came back, and not at all beyond.

use forebay_core::time::{Duration, Instant};

use super::unwritten;
use crate::signal::BdiCounts;

/// Bytes that became dirty of late, and of those the ones that were dropped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dropped {
    dirtied: u64,
    dropped: u64,
    /// When both were last halved.
    halved: Instant,
    last: Option<(BdiCounts, Option<u64>)>,
    /// Bytes that became dirty since blocks were last given back.
    fresh: u64,
    /// When pages last became dirty in great number.
    busy: Option<Instant>,
    now: Instant,
}

impl Dropped {
    /// Nothing so far.
    pub(super) fn new(now: Instant) -> Self {
        Self { dirtied: 0, dropped: 0, halved: now, last: None, fresh: 0, busy: None, now }
    }

    /// A look; `free` are free bytes of the file system.
    pub(super) fn count(&mut self, now: Instant, new: &BdiCounts, free: Option<u64>) {
        self.now = now;
        let Some((old, was_free)) = self.last.replace((*new, free)) else { return };
        if now.since(self.halved) >= HALF {
            self.halved = now;
            (self.dirtied, self.dropped) = (self.dirtied / 2, self.dropped / 2);
            self.fresh /= 2;
        }
        let dirtied = new.dirtied.saturating_sub(old.dirtied);
        let came = unwritten(&old).saturating_add(dirtied);
        let went = unwritten(new).saturating_add(new.written.saturating_sub(old.written));
        self.dirtied = self.dirtied.saturating_add(dirtied);
        self.fresh = self.fresh.saturating_add(dirtied);
        let grew = free.zip(was_free).map_or(0, |(free, was)| free.saturating_sub(was));
        let removed = if grew / 5 * 4 <= self.fresh { grew.min(self.fresh) } else { 0 };
        self.fresh -= removed;
        self.dropped = self.dropped.saturating_add(removed.max(came.saturating_sub(went)));
        if dirtied >= LEAST && self.busy.is_none() {
            self.busy = Some(now);
        } else if dirtied == 0 {
            self.busy = None;
        }
    }

    /// Forgets what was dropped so far. What is unwritten now may still be.
    pub(super) fn begin_anew(&mut self) {
        let unwritten = self.last.map_or(0, |(counts, _)| unwritten(&counts));
        (self.dirtied, self.dropped, self.fresh) = (unwritten, 0, 0);
    }

    /// Whether a limit would make the device write what is not to be written at all.
    pub(super) fn is_much(&self) -> bool {
        self.dropped >= LEAST && self.dropped.saturating_mul(SHARE) >= self.dirtied
    }

    /// Whether writers have been at it for so long that their files are no temporary ones.
    pub(super) fn is_calm(&self) -> bool {
        self.busy.is_some_and(|since| self.now.since(since) >= CALM)
    }

    /// Bytes that became dirty.
    pub(super) fn dirtied(&self) -> u64 {
        self.dirtied
    }

    /// Bytes of them that were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.min(self.dirtied)
    }
}

/// Fewer bytes that are dropped say nothing.
const LEAST: u64 = 8 << 20;

/// This part of what became dirty is much.
const SHARE: u64 = 6;

/// What was dropped counts half after this time.
const HALF: Duration = Duration::from_secs(30);

/// Writers that go on for longer than this are looked at once a second.
const CALM: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::DevNumber;

    const MIB: u64 = 1 << 20;

    /// Looks with what had become dirty and was written by then, and what was free, in MiB.
    fn dropped(looks: &[(u64, u64, u64)]) -> (u64, bool) {
        let mut dropped = Dropped::new(Instant::ZERO);
        for (second, (dirtied, written, free)) in (0..).zip(looks.iter().copied()) {
            let number = DevNumber { major: 7, minor: 1 };
            let reclaimable = (dirtied - written) * MIB;
            let (dirtied, written) = (dirtied * MIB, written * MIB);
            let bdi = BdiCounts { number, dirtied, written, reclaimable, ..BdiCounts::default() };
            let now = Instant::ZERO + Duration::from_secs(second);
            dropped.count(now, &bdi, Some(free * MIB));
        }
        (dropped.dropped() / MIB, dropped.is_much())
    }

    #[test]
    fn a_file_that_was_written_before_it_was_removed_was_written_for_nothing() {
        assert_eq!(dropped(&[(0, 0, 900), (60, 50, 840), (60, 60, 900)]), (60, true));
    }

    #[test]
    fn what_was_unwritten_before_is_a_part_of_what_is_dropped_later() {
        let number = DevNumber { major: 7, minor: 1 };
        let counts = |dirtied: u64, reclaimable: u64| BdiCounts {
            number,
            dirtied: dirtied * MIB,
            reclaimable: reclaimable * MIB,
            ..BdiCounts::default()
        };
        let mut dropped = Dropped::new(Instant::ZERO);
        dropped.count(Instant(1), &counts(0, 0), None);
        dropped.count(Instant(2), &counts(40, 40), None);
        dropped.begin_anew();
        dropped.count(Instant(3), &counts(70, 30), None);
        assert_eq!((dropped.dirtied() / MIB, dropped.dropped() / MIB), (70, 40));
        // Half of what became dirty is forgotten, and what was dropped is no more than the rest.
        dropped.begin_anew();
        dropped.count(Instant::ZERO + HALF, &counts(70, 30), None);
        dropped.count(Instant::ZERO + HALF, &counts(70, 0), None);
        assert_eq!((dropped.dirtied() / MIB, dropped.dropped() / MIB), (15, 15));
    }

    #[test]
    fn an_old_file_that_is_removed_beside_a_copy_is_no_temporary_one() {
        assert_eq!(dropped(&[(0, 0, 100), (60, 40, 40), (80, 60, 900)]), (0, false));
    }
}
