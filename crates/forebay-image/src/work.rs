//! Numbered pieces of work, shared out to threads in short runs.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Neighbours go to the same thread: they lie in one directory and share blocks.
const RUN: usize = 16;

/// Calls `work` for each number below `count`, with a separate state for each thread, and returns
/// the states. If one call stops early, all threads stop soon. If a thread cannot be started, the
/// others do its work.
pub(crate) fn each<S: Send>(
    threads: usize,
    count: usize,
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> ControlFlow<()> + Sync,
) -> Vec<S> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let task = || {
        let mut state = start();
        loop {
            let begin = next.fetch_add(RUN, Ordering::Relaxed);
            if begin >= count {
                return state;
            }
            for number in begin..count.min(begin + RUN) {
                if stop.load(Ordering::Relaxed) {
                    return state;
                }
                if work(&mut state, number).is_break() {
                    stop.store(true, Ordering::Relaxed);
                    return state;
                }
            }
        }
    };
    let others = threads.min(count.div_ceil(RUN)).saturating_sub(1);
    thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, task).ok();
        let spawned: Vec<_> = (0..others).map_while(spawn).collect();
        let mut states = vec![task()];
        let joined = spawned.into_iter().map(thread::ScopedJoinHandle::join);
        states.extend(joined.map(|state| state.expect("work does not panic")));
        states
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once() {
        for (threads, count) in [(1, 0), (1, 1), (3, 16), (3, 17), (8, 1_000)] {
            let states = each(threads, count, Vec::new, |seen, number| {
                seen.push(number);
                ControlFlow::Continue(())
            });
            let mut all: Vec<usize> = states.concat();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_break_stops_the_rest() {
        let states = each(
            1,
            1_000,
            || 0,
            |done, number| {
                *done += 1;
                if number == 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        assert_eq!(states, [21]);
    }
}
