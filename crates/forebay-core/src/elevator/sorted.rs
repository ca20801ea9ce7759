//! Requests that wait, in the order of their sectors, and in the order of their coming.
//!
//! ```text
//!   Sorted   8 .. 16 .. 24 ....... 900 ........... 4096     successor(24) is 900
//!   Fifo     900 . 8 . 4096 . 24 . 16                       the head expires first
//! ```
//!
//! Linux keeps the first as a red-black tree. A sorted array gives the same order, and once it has
//! been as long as it will be it allocates no more.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Queued;
use crate::units::RequestId;

/// Requests by their first sector; of those that begin at the same one, the earlier comer first.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    requests: Vec<Queued>,
}

impl Sorted {
    /// A request begins to wait.
    pub(super) fn insert(&mut self, request: &Queued) {
        let place = self.requests.partition_point(|one| one.sector <= request.sector);
        self.requests.insert(place, *request);
    }

    /// A request that waits does so no more.
    pub(super) fn remove(&mut self, request: &Queued) {
        let place = self.place(request);
        self.requests.remove(place);
    }

    /// A request that waits has grown from `before` to `after`.
    pub(super) fn replace(&mut self, before: &Queued, after: &Queued) {
        let place = self.place(before);
        if before.sector == after.sector {
            self.requests[place] = *after;
        } else {
            self.requests.remove(place);
            self.insert(after);
        }
    }

    /// The request with the lowest sector.
    pub(super) fn lowest(&self) -> Option<&Queued> {
        self.requests.first()
    }

    /// The first request that begins at a sector or behind it.
    pub(super) fn at_or_after(&self, sector: u64) -> Option<&Queued> {
        self.requests.get(self.requests.partition_point(|one| one.sector < sector))
    }

    /// The request behind one that waits.
    pub(super) fn successor(&self, request: &Queued) -> Option<&Queued> {
        self.requests.get(self.place(request) + 1)
    }

    /// The request before one that waits.
    pub(super) fn predecessor(&self, request: &Queued) -> Option<&Queued> {
        self.place(request).checked_sub(1).map(|place| &self.requests[place])
    }

    /// The request that begins at a sector and goes in a direction.
    pub(super) fn starts_at(&self, sector: u64, write: bool) -> Option<RequestId> {
        let first = self.requests.partition_point(|one| one.sector < sector);
        let same = self.requests[first..].iter().take_while(|one| one.sector == sector);
        same.filter(|one| one.write == write).map(|one| one.id).next()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    fn place(&self, request: &Queued) -> usize {
        let first = self.requests.partition_point(|one| one.sector < request.sector);
        let same = self.requests[first..].iter().take_while(|one| one.sector == request.sector);
        let behind = same.into_iter().position(|one| one.id == request.id);
        first + behind.expect("a request that is looked for waits")
    }
}

/// Requests in the order of their coming, each with the moment at which it expires, by whatever
/// clock the elevator has.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    waiting: VecDeque<Expiring>,
}

/// A request and when it expires.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expiring {
    pub(super) request: Queued,
    pub(super) at: u64,
}

impl Fifo {
    /// A request begins to wait.
    pub(super) fn insert(&mut self, request: &Queued, at: u64) {
        self.waiting.push_back(Expiring { request: *request, at });
    }

    /// A request that waits does so no more.
    pub(super) fn remove(&mut self, request: &Queued) {
        let place = self.place(request.id);
        self.waiting.remove(place);
    }

    /// A request that waits has grown.
    pub(super) fn replace(&mut self, after: &Queued) {
        let place = self.place(after.id);
        self.waiting[place].request = *after;
    }

    /// `kept` has taken in `gone`: it waits in the place of the one that expires earlier.
    pub(super) fn join(&mut self, kept: &Queued, gone: &Queued) {
        let (own, other) = (self.place(kept.id), self.place(gone.id));
        if self.waiting[other].at < self.waiting[own].at {
            self.waiting[other].request = *kept;
            self.waiting.remove(own);
        } else {
            self.waiting[own].request = *kept;
            self.waiting.remove(other);
        }
    }

    /// The request that has waited longest.
    pub(super) fn head(&self) -> Option<&Expiring> {
        self.waiting.front()
    }

    fn place(&self, id: RequestId) -> usize {
        let place = self.waiting.iter().position(|one| one.request.id == id);
        place.expect("a request that is looked for waits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: u32, sector: u64, write: bool) -> Queued {
        Queued { id: RequestId(id), sector, sectors: 8, write, sync: !write, task: None }
    }

    fn sorted(sectors: &[u64]) -> Sorted {
        let mut sorted = Sorted::default();
        for (id, &sector) in sectors.iter().enumerate() {
            sorted.insert(&request(id as u32, sector, id % 2 == 1));
        }
        sorted
    }

    fn sector(found: Option<&Queued>) -> Option<u64> {
        found.map(|one| one.sector)
    }

    #[test]
    fn requests_are_found_by_their_sector() {
        let sorted = sorted(&[900, 8, 4_096, 24, 16]);
        assert_eq!(sector(sorted.lowest()), Some(8));
        assert_eq!(sector(sorted.at_or_after(24)), Some(24));
        assert_eq!(sector(sorted.at_or_after(25)), Some(900));
        assert_eq!(sector(sorted.at_or_after(4_097)), None);
        assert_eq!(sector(sorted.successor(&request(3, 24, true))), Some(900));
        assert_eq!(sector(sorted.successor(&request(2, 4_096, false))), None);
        assert_eq!(sorted.starts_at(24, true), Some(RequestId(3)));
        assert_eq!(sorted.starts_at(24, false), None);
        assert_eq!(sorted.starts_at(23, true), None);
    }

    #[test]
    fn requests_at_one_sector_keep_the_order_of_their_coming() {
        let mut sorted = sorted(&[8, 8, 8, 0]);
        let second = request(1, 8, true);
        assert_eq!(sorted.successor(&second).map(|one| one.id), Some(RequestId(2)));
        sorted.remove(&second);
        assert_eq!(sorted.starts_at(8, false), Some(RequestId(0)));
        assert_eq!(sorted.starts_at(8, true), None);
    }

    #[test]
    fn a_request_that_grows_at_its_front_finds_its_new_place() {
        let mut sorted = sorted(&[16, 40, 64]);
        let before = request(2, 64, false);
        sorted.replace(&before, &Queued { sector: 24, sectors: 48, ..before });
        assert_eq!(sorted.at_or_after(17).map(|one| (one.id.0, one.end())), Some((2, 72)));
        assert_eq!(sector(sorted.at_or_after(41)), None);
    }

    #[test]
    fn a_joined_request_waits_in_the_place_of_the_one_that_expires_earlier() {
        for (kept, order) in [(0, [0, 1]), (2, [2, 1])] {
            let mut fifo = Fifo::default();
            for id in 0..3 {
                fifo.insert(&request(id, 100 * u64::from(id), false), u64::from(id));
            }
            fifo.join(&request(kept, 100, false), &request(2 - kept, 0, false));
            for id in order {
                let head = *fifo.head().unwrap();
                assert_eq!((head.request.id.0, head.at), (id, if id == 1 { 1 } else { 0 }));
                fifo.remove(&head.request);
            }
            assert!(fifo.head().is_none());
        }
    }
}
