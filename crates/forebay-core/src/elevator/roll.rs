//! A roll of tasks: each has a place, in the order in which they were first seen.

use alloc::vec::Vec;

use super::Queued;
use crate::units::CallId;

/// The task of a request. Synchronous requests without one, a journal's writes, count as those of
/// one task of the kernel.
type Asker = Option<CallId>;

/// Tasks and their places.
#[derive(Debug, Default)]
pub(super) struct Roll {
    /// In the order of their numbers.
    tasks: Vec<(Asker, usize)>,
}

impl Roll {
    /// The place of a task, which it keeps.
    pub(super) fn enter(&mut self, asker: Asker) -> usize {
        match self.tasks.binary_search_by_key(&asker, |(known, _)| *known) {
            Ok(found) => self.tasks[found].1,
            Err(place) => {
                let last = self.tasks.len();
                self.tasks.insert(place, (asker, last));
                last
            }
        }
    }

    /// The place of the task of a request; asynchronous writes have none.
    pub(super) fn enter_asker(&mut self, request: &Queued) -> Option<usize> {
        (request.sync || request.task.is_some()).then(|| self.enter(request.task))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_keeps_its_place() {
        let mut roll = Roll::default();
        let tasks = [Some(CallId(7)), None, Some(CallId(u32::MAX)), Some(CallId(0))];
        for _ in 0..2 {
            assert_eq!(tasks.map(|task| roll.enter(task)), [0, 1, 2, 3]);
        }
    }
}
