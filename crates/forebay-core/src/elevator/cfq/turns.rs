//! In which order the queues have the disk.
//!
//! ```text
//!   current   b  c              in turn, until all of them have had it
//!   waiting   d  e  a           become current then; the one served longest ago first
//!   busy      w                 have requests in flight: only if there is no other
//! ```

use alloc::collections::VecDeque;

use super::queue::Queue;

/// The queues that have requests.
#[derive(Debug, Default)]
pub(super) struct Turns {
    current: VecDeque<usize>,
    waiting: VecDeque<usize>,
    busy: VecDeque<usize>,
}

impl Turns {
    /// A queue has got its first request.
    pub(super) fn file_new(&mut self, queues: &[Queue], place: usize) {
        self.waiting.push_back(place);
        self.file(queues, place, false);
    }

    /// Inserts a queue at its position if it has requests.
    pub(super) fn file(&mut self, queues: &[Queue], place: usize, preempted: bool) {
        if !self.remove(place) {
            return;
        }
        let queue = &queues[place];
        let list = if queue.dispatched > 0 { &mut self.busy } else { &mut self.waiting };
        let at = if preempted || queue.is_new {
            let new = list.iter().take_while(|other| queues[**other].is_new).count();
            if new == 0 { list.len() } else { new - 1 }
        } else if queue.sync {
            let earlier = |other: &usize| {
                let served = queues[*other].served;
                served.is_none() || served < queue.served
            };
            list.iter().rposition(earlier).map_or(0, |before| before + 1)
        } else {
            list.len()
        };
        list.insert(at, place);
    }

    /// A queue has no more requests; whether it had any.
    pub(super) fn remove(&mut self, place: usize) -> bool {
        let list = self.lists_mut().into_iter().find(|list| list.contains(&place));
        let Some(list) = list else { return false };
        list.retain(|other| *other != place);
        true
    }

    /// Lets a queue be the first, whatever its place was.
    pub(super) fn put_first(&mut self, place: usize) {
        if self.remove(place) {
            self.current.push_front(place);
        }
    }

    /// Whose turn it is.
    pub(super) fn first(&mut self) -> Option<usize> {
        if self.current.is_empty() {
            core::mem::swap(&mut self.current, &mut self.waiting);
        }
        self.current.front().or(self.busy.front()).copied()
    }

    /// Whether a queue has requests.
    pub(super) fn has(&self, place: usize) -> bool {
        self.lists().into_iter().any(|list| list.contains(&place))
    }

    /// How many queues have requests.
    pub(super) fn len(&self) -> usize {
        self.lists().into_iter().map(VecDeque::len).sum()
    }

    /// Whether no queue has.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lists(&self) -> [&VecDeque<usize>; 3] {
        [&self.current, &self.waiting, &self.busy]
    }

    fn lists_mut(&mut self) -> [&mut VecDeque<usize>; 3] {
        [&mut self.current, &mut self.waiting, &mut self.busy]
    }
}
