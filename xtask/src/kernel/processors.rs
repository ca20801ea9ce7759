//! A processor for each boot.
//!
//! The kernel is a process that stops and continues the processes inside it, at each of their
//! system calls. On one processor that is several times as quick as from one processor to another,
//! and each processor can have a boot of its own.

use std::fs;
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};

/// A processor that no other boot of this process has.
pub(super) struct Processor {
    number: usize,
}

/// The processors without a boot.
static FREE: LazyLock<Mutex<Vec<usize>>> = LazyLock::new(|| {
    let allowed = allowed().expect("a process may read its own status");
    Mutex::new(allowed)
});
static GIVEN_BACK: Condvar = Condvar::new();

impl Processor {
    /// Waits for one.
    pub(super) fn take() -> Self {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = GIVEN_BACK
            .wait_while(free, |free| free.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        let number = free.pop().expect("it was waited for");
        Self { number }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
        GIVEN_BACK.notify_one();
    }
}

/// Does the same with all `items` side by side; the results are in the order of the items.
pub(super) fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    each: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    thread::scope(|scope| {
        let each = &each;
        let threads: Vec<_> = items.iter().map(|item| scope.spawn(move || each(item))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a boot does not panic")).collect()
    })
}

/// The processors on which this process may run.
fn allowed() -> Result<Vec<usize>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = list.context("no Cpus_allowed_list")?;
    numbers(list.trim()).with_context(|| format!("Cpus_allowed_list: {list}"))
}

/// The numbers of a list as `0-2,5`.
fn numbers(list: &str) -> Result<Vec<usize>> {
    let mut numbers = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        numbers.extend(first.parse::<usize>()?..=last.parse::<usize>()?);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_processors_has_numbers_and_ranges() {
        assert_eq!(numbers("0-2,5,8-9").unwrap(), [0, 1, 2, 5, 8, 9]);
        assert_eq!(numbers("3").unwrap(), [3]);
        assert!(numbers("").is_err());
    }

    #[test]
    fn each_has_a_processor_that_no_other_has_and_gives_it_back() {
        let taken = Mutex::new(Vec::new());
        let items: Vec<usize> = (0..100).collect();
        let results = side_by_side(&items, |item| {
            let processor = Processor::take();
            let mut held = taken.lock().unwrap();
            assert!(!held.contains(&processor.number()));
            held.push(processor.number());
            drop(held);
            thread::yield_now();
            taken.lock().unwrap().retain(|number| *number != processor.number());
            drop(processor);
            Ok(item * 2)
        });
        assert_eq!(results.unwrap(), (0..200).step_by(2).collect::<Vec<_>>());
    }
}
