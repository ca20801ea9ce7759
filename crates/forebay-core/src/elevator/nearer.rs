//! Which of two requests the head of a disk reaches more easily.
//!
//! ```text
//!   wrapped      | backward, at twice its distance |  forward, at its distance
//!   -------------+---------------------------------H------------------------------->  sectors
//!   lowest first |<---------- back_max ----------->|
//! ```
//!
//! Source:     Linux 2.6.21, block/as-iosched.c, as_choose_req; block/cfq-iosched.c.

use core::cmp::Reverse;

use super::Queued;
use super::sorted::Sorted;

/// The position of the head and its backward distances.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// The sector behind the last request.
    pub(super) at: u64,
    /// How many sectors it goes backward at most before it starts again from below.
    pub(super) back_max: u64,
    /// How much more a sector backward costs than one forward.
    pub(super) back_penalty: u64,
}

impl Head {
    /// The one that is reached more easily, the first if both are.
    pub(super) fn choose(&self, one: Option<Queued>, other: Option<Queued>) -> Option<Queued> {
        let (Some(first), Some(second)) = (one, other) else { return one.or(other) };
        if self.cost(&second) < self.cost(&first) { other } else { one }
    }

    /// What follows a request that waits: its neighbour that is reached more easily, where the
    /// lowest one is behind the highest.
    pub(super) fn choose_neighbour(&self, sorted: &Sorted, request: &Queued) -> Option<Queued> {
        let lowest = || sorted.lowest().filter(|lowest| lowest.id != request.id);
        let next = sorted.successor(request).or_else(lowest);
        self.choose(next.copied(), sorted.predecessor(request).copied())
    }

    /// Less is better.
    fn cost(&self, request: &Queued) -> (bool, u64, Reverse<u64>) {
        let sector = request.sector;
        if sector >= self.at {
            return (false, sector - self.at, Reverse(sector));
        }
        let back = self.at - sector;
        if back <= self.back_max {
            return (false, back.saturating_mul(self.back_penalty), Reverse(sector));
        }
        (true, sector, Reverse(sector))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::RequestId;

    fn request(sector: u64) -> Queued {
        let id = RequestId(sector as u32);
        Queued { id, sector, sectors: 8, write: false, sync: true, task: None }
    }

    fn chosen(one: u64, other: u64) -> u64 {
        let head = Head { at: 10_000, back_max: 1_000, back_penalty: 2 };
        let both = [(one, other), (other, one)].map(|(one, other)| {
            head.choose(Some(request(one)), Some(request(other))).unwrap().sector
        });
        assert_eq!(both[0], both[1], "the order of asking does not matter");
        both[0]
    }

    #[test]
    fn a_sector_backward_costs_two_forward() {
        assert_eq!(chosen(10_100, 9_951), 9_951);
        assert_eq!(chosen(10_100, 9_949), 10_100);
        assert_eq!(chosen(10_100, 9_950), 10_100, "of equals the higher");
    }

    #[test]
    fn what_lies_far_behind_comes_last_and_from_below() {
        assert_eq!(chosen(9_000, 8_999), 9_000);
        assert_eq!(chosen(1_000_000, 8_999), 1_000_000);
        assert_eq!(chosen(8_999, 16), 16);
    }

    #[test]
    fn the_highest_request_is_followed_by_the_lowest() {
        let mut sorted = Sorted::default();
        for sector in [100, 5_000, 20_000] {
            sorted.insert(&request(sector));
        }
        let head = Head { at: 20_008, back_max: 1_000, back_penalty: 2 };
        let follows = |sector| head.choose_neighbour(&sorted, &request(sector)).unwrap().sector;
        assert_eq!(follows(20_000), 100);
        assert_eq!(follows(100), 5_000);
        let mut alone = Sorted::default();
        alone.insert(&request(7));
        assert_eq!(head.choose_neighbour(&alone, &request(7)), None);
    }
}
