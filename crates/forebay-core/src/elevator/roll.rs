//! A roll of tasks: each has a place, in the order in which they were first seen.

use alloc::vec::Vec;

use super::Queued;
use crate::units::CallId;

/// Who asks. What nobody asked for although somebody waits for it, a journal's writes, is taken to
/// come from one task of the kernel.
type Who = Option<CallId>;

/// Tasks and their places.
#[derive(Debug, Default)]
pub(super) struct Roll {
    /// In the order of their numbers.
    tasks: Vec<(Who, usize)>,
}

impl Roll {
    /// The place of a task, which it keeps.
    pub(super) fn enter(&mut self, who: Who) -> usize {
        match self.tasks.binary_search_by_key(&who, |(who, _)| *who) {
            Ok(found) => self.tasks[found].1,
            Err(place) => {
                let last = self.tasks.len();
                self.tasks.insert(place, (who, last));
                last
            }
        }
    }

    /// The place of the task of a request; what is written behind has none.
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
