//! What holds under every scheduler, and what depends on it.

use super::*;

const SCHEDULERS: [Scheduler; 3] = [Scheduler::RoundRobin, Scheduler::O1, Scheduler::Fair];

/// Readers of different pages, and tasks that compute and sleep.
fn mixture(handle: HandleId) -> Tasks {
    let readers = (0..3u64).map(|task| {
        let steps = (0..40).flat_map(move |turn| {
            [read(handle, 1000 * (task + 1) + 2 * turn, 1), compute(50 + 13 * task)]
        });
        script(steps.collect::<Vec<_>>())
    });
    let hogs = (0..3u64).map(|task| {
        let steps = (0..20).flat_map(move |turn| {
            let until = Instant((turn + 1) * (7 + task) * MS);
            [compute(1_000 + 700 * task), Step::Sleep(until), compute(10)]
        });
        script(steps.collect::<Vec<_>>())
    });
    readers.chain(hogs).collect()
}

/// The time that the steps of the mixture compute.
fn computed() -> u64 {
    let readers = (0..3u64).map(|task| 40 * (50 + 13 * task));
    let hogs = (0..3u64).map(|task| 20 * (1_000 + 700 * task + 10));
    readers.chain(hogs).sum::<u64>() * US
}

#[test]
fn time_on_cores_is_the_sum_of_all_work() {
    for scheduler in SCHEDULERS {
        for cores in [1, 2, 4] {
            let prices = Prices { scheduler, cores, ..dear() };
            let machine = Machine::new(prices, Chip::new(200, true), Handling::Deferred);
            let seen = machine.run(mixture);
            let record = seen.record;
            let of_tasks: u64 = record.tasks.iter().map(|task| task.cpu.as_nanos()).sum();
            assert_eq!(record.cpu_busy, Duration(of_tasks) + record.kernel.cpu);
            let reads = 3 * 40 * (READ_COST + 200 * US);
            let work = Duration(reads + computed()) + record.dispatch_time;
            assert_eq!(record.cpu_busy, work, "{scheduler:?} on {cores}");
            assert_eq!(record.dispatch_time, Duration(7_000).times(record.dispatches));
            assert!(record.cpu_busy <= seen.end.since(Instant::ZERO).times(u64::from(cores)));
        }
    }
}

#[test]
fn two_runs_are_the_same() {
    for scheduler in SCHEDULERS {
        for handling in [Handling::Deferred, Handling::INLINE, Handling::Inline(Duration(150_000))]
        {
            for programmed in [false, true] {
                let run = || {
                    let prices = Prices { scheduler, cores: 2, ..dear() };
                    let machine = Machine::new(prices, Chip::new(200, programmed), handling);
                    let seen = machine.run(mixture);
                    (format!("{:?}", seen.record), seen.trace, seen.calls.len(), seen.end)
                };
                let (one, other) = (run(), run());
                assert_eq!(one, other, "{scheduler:?}, {handling:?}");
                assert_eq!(one.2, 120);
            }
        }
    }
}

#[test]
fn every_switch_is_a_wait_or_a_push_and_is_paid_once() {
    for scheduler in SCHEDULERS {
        for cores in [1, 2, 4] {
            let prices = Prices { scheduler, cores, ..dear() };
            let machine = Machine::new(prices, Chip::new(200, true), Handling::Deferred);
            let record = machine.run(mixture).record;
            let mut all = record.kernel;
            record.tasks.iter().for_each(|task| all += *task);
            let Switches { voluntary, involuntary, wakes, resumes, in_place } = all.switches;
            let ends = record.tasks.len() as u64;
            // The thread begins asleep; six tasks begin awake and end.
            assert_eq!(voluntary, wakes - in_place, "{scheduler:?} on {cores}");
            assert_eq!(record.dispatches, ends + wakes - in_place + involuntary);
            assert_eq!(resumes, 120);
        }
    }
}

/// How long a reader of uncached pages takes with competing hogs, on one core where only the call
/// and the device cost anything.
fn reader(scheduler: Scheduler, hogs: usize, thread_us: u64, handling: Handling, n: u64) -> u64 {
    let (syscall, programmed) = (Duration((REQUEST_US - thread_us) * US), true);
    let prices = Prices { scheduler, syscall, ..Prices::FREE };
    let machine = Machine::new(prices, Chip::new(thread_us, programmed), handling);
    let seen = machine.run(|handle| {
        let finished = Rc::new(Cell::new(false));
        let mut tasks: Tasks = Vec::new();
        let flag = Rc::clone(&finished);
        tasks.push(Box::new(Reader { handle, next: 0, end: n, finished: flag }));
        tasks.extend((0..hogs).map(|_| Box::new(Hog(Rc::clone(&finished))) as Box<dyn Workload>));
        tasks
    });
    let reads = seen.calls.iter().map(|call| call.done).max().unwrap();
    reads.since(Instant::ZERO).as_nanos()
}

/// A request of the board on which a polling driver's thread was measured: 217 us.
const REQUEST_US: u64 = 217;

/// Ten hogs, a reader that waits for a polling driver's thread: what the reader's time grows by
/// when the hogs begin, if the thread's part of a request is phi. The thread counts as a hog and
/// gets one turn in eleven, in which the reader lives as well: 11 phi + (1 - phi).
#[test]
fn hogs_slow_a_reader_down_by_the_share_of_its_driver_s_thread() {
    let mut found = Vec::new();
    for (percent, stated) in [(60, 7_300), (67, 8_100), (71, 8_700), (77, 8_900)] {
        let thread_us = (REQUEST_US * percent + 50) / 100;
        let time = |hogs| reader(Scheduler::O1, hogs, thread_us, Handling::Deferred, 60_000);
        let ratio = time(10) * 1_000 / time(0);
        let formula = 11 * percent * 10 + 1_000 - percent * 10;
        assert!(ratio.abs_diff(formula) * 100 <= 2 * formula, "{percent}: {ratio}");
        found.push((percent, ratio, ratio.abs_diff(stated) * 100 <= 6 * stated));
    }
    // Within 6 % of an independent model but for one, which lies 7 % above its own formula there.
    let expected = [(60, 7_067, true), (67, 7_758, true), (71, 8_142, false), (77, 8_757, true)];
    assert_eq!(found, expected);
}

#[test]
fn inline_the_reader_becomes_a_hog_itself() {
    let time = |hogs| reader(Scheduler::O1, hogs, 150, Handling::INLINE, 30_000);
    let ratio = time(10) * 1_000 / time(0);
    assert!((10_400..=11_100).contains(&ratio), "{ratio}");
}

#[test]
fn by_fair_shares_it_makes_no_difference_which_thread_does_the_work() {
    for thread_us in [130, 150, 200] {
        let time = |handling| reader(Scheduler::Fair, 10, thread_us, handling, 20_000);
        let (deferred, inline) = (time(Handling::Deferred), time(Handling::INLINE));
        let off = deferred.abs_diff(inline) * 100 / inline;
        assert!(off <= 2, "{thread_us}: {deferred}, {inline}");
    }
}
