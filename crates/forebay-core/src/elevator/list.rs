//! The dispatch list: requests in the order in which the driver takes them.
//!
//! Source:     Linux 2.6.21, block/elevator.c, elv_dispatch_sort and elv_dispatch_add_tail.

use alloc::collections::VecDeque;

use super::Queued;

/// Requests that an elevator has chosen and the driver has not taken.
#[derive(Debug, Default)]
pub struct DispatchList {
    waiting: VecDeque<Queued>,
    /// The end of the last request that was appended whatever its place.
    boundary: u64,
}

impl DispatchList {
    /// Appends a request.
    pub fn add_tail(&mut self, request: &Queued) {
        self.boundary = request.end();
        self.waiting.push_back(*request);
    }

    /// Sorts a request among those at the end that go in its direction: in one upward sweep from
    /// the boundary on, which then starts again from the lowest sector.
    pub fn sort(&mut self, request: &Queued) {
        let ahead = |one: &Queued| one.sector >= self.boundary;
        let behind = |other: &Queued| {
            if other.write != request.write || other.sectors == 0 {
                return true;
            }
            match (ahead(request), ahead(other)) {
                (true, false) => false,
                (false, true) => true,
                (true, true) | (false, false) => request.sector >= other.sector,
            }
        };
        let place = self.waiting.iter().rposition(behind).map_or(0, |before| before + 1);
        self.waiting.insert(place, *request);
    }

    /// The request that the driver takes next.
    pub fn pop(&mut self) -> Option<Queued> {
        self.waiting.pop_front()
    }

    /// All of them, in this order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Queued> {
        self.waiting.iter()
    }

    /// The request that the driver takes last.
    pub fn tail(&self) -> Option<&Queued> {
        self.waiting.back()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elevator::Kick;
    use crate::elevator::testing::{Bench, By};
    use crate::time::Duration;
    use crate::units::RequestId;
    use std::vec::Vec;

    /// A read of 8 sectors.
    fn read(id: u32, sector: u64) -> Queued {
        let id = RequestId(id);
        Queued { id, sector, sectors: 8, write: false, sync: true, task: None }
    }

    /// The names in the order in which the driver takes them.
    fn order(list: &mut DispatchList) -> Vec<u32> {
        core::iter::from_fn(|| list.pop()).map(|one| one.id.0).collect()
    }

    #[test]
    fn a_sweep_begins_with_what_lies_right_behind_the_last_one_and_ends_with_what_lies_at_it() {
        let mut list = DispatchList::default();
        list.add_tail(&read(0, 100));
        list.pop();
        for (id, sector) in [(1, 100), (2, 107), (3, 116), (4, 108)] {
            list.sort(&read(id, sector));
        }
        assert_eq!(order(&mut list), [4, 3, 1, 2]);
    }

    #[test]
    fn requests_at_the_same_sector_keep_the_order_of_their_coming() {
        let mut list = DispatchList::default();
        list.add_tail(&read(0, 100));
        list.pop();
        for (id, sector) in [(1, 200), (2, 200), (3, 50), (4, 50), (5, 200), (6, 50)] {
            list.sort(&read(id, sector));
        }
        assert_eq!(order(&mut list), [1, 2, 5, 3, 4, 6]);
    }

    #[test]
    fn one_sweep_goes_up_from_the_boundary_and_starts_again_from_below() {
        let mut bench = Bench::new("noop");
        for sector in [500, 100, 900, 300, 700] {
            let (_, kick) = bench.add(By::Reader(0), sector);
            assert_eq!(kick, Kick::Later);
        }
        bench.after(Duration::from_millis(1));
        let first = bench.take().unwrap();
        assert_eq!(bench.done(first.id), Kick::Later);
        bench.list.add_tail(&first);
        assert_eq!(bench.list.pop().unwrap().end(), 508, "the boundary");
        let list = &mut bench.list;
        for _ in 0..4 {
            bench.elevator.dispatch(bench.now, list);
        }
        let order = core::iter::from_fn(|| list.pop()).map(|one| one.sector);
        assert_eq!(order.collect::<Vec<_>>(), [700, 900, 100, 300]);
    }

    #[test]
    fn a_sweep_does_not_pass_a_request_of_the_other_direction() {
        let mut bench = Bench::new("noop");
        let _ = bench.add(By::Reader(0), 500);
        let _ = bench.add(By::Flusher, 900);
        let _ = bench.add(By::Reader(0), 100);
        for _ in 0..3 {
            bench.elevator.dispatch(bench.now, &mut bench.list);
        }
        assert_eq!(bench.list.len(), 3);
        assert_eq!(bench.rest(), [500, 900, 100]);
    }
}
