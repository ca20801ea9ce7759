//! Small schedules by hand: which runner gets which core, when, and the counters.

use super::testing::task;
use super::*;

const DRIVER: Runner = Runner::Driver(DeviceId(0));

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// A cache that holds four runners.
const CACHED: Prices = Prices {
    context_switch: Duration(7 * US),
    cache_bytes: 32 << 10,
    footprint_bytes: 8 << 10,
    refill: Duration(40 * US),
    ..Prices::FREE
};

/// What a switch costs to a runner of which nothing is in the cache.
const COLD: Duration = Duration(17 * US);

fn long(cpu: &mut Cpu, core: CoreId, at: Instant) {
    cpu.occupy(core, Duration::from_secs(10), at);
}

/// Tasks that each need a core at time zero.
fn wanting(prices: Prices, tasks: u32) -> Cpu {
    let mut cpu = Cpu::new(&prices, 1);
    (0..tasks).for_each(|number| cpu.enqueue(task(number), Arrival::New, Instant(0)));
    cpu
}

/// Gives a core to the runner whose turn it is, for a long time.
fn place(cpu: &mut Cpu, at: Instant) -> Placed {
    let placed = cpu.dispatch(at).expect("a runner waits, and a core is idle");
    long(cpu, placed.core, at);
    placed
}

/// Two cores with a runner each, and two that wait.
fn two_cores() -> Cpu {
    let context_switch = Duration::from_micros(10);
    let prices = Prices { cores: 2, scheduler: Scheduler::O1, context_switch, ..Prices::FREE };
    let mut cpu = wanting(prices, 4);
    for _ in 0..2 {
        place(&mut cpu, Instant(0));
    }
    cpu
}

/// Task 2 has slept for a second, and task 3 continues from that state.
fn one_sleeps() -> (Cpu, Instant) {
    let mut cpu = two_cores();
    let at = Instant(MS);
    let placed = cpu.end_slice(CoreId(0), at);
    assert_eq!(placed.runner, task(2));
    cpu.occupy(placed.core, Duration::from_micros(20), at);
    let at = at + Duration::from_micros(20);
    cpu.sleep(CoreId(0), at);
    assert_eq!(place(&mut cpu, at).runner, task(3));
    (cpu, at + Duration::from_secs(1))
}

/// The same with a switch on each core, of 10 us, the second of which begins 4 us later.
fn one_sleeps_and_both_switch() -> (Cpu, Instant) {
    let (mut cpu, at) = one_sleeps();
    for (core, at) in [(0, at), (1, at + Duration::from_micros(4))] {
        let placed = cpu.end_slice(CoreId(core), at);
        long(&mut cpu, placed.core, at);
    }
    (cpu, at)
}

const WOKEN: Arrival = Arrival::Woken { uninterruptible: true };

#[test]
fn a_woken_runner_takes_a_core_that_is_not_in_the_midst_of_a_switch() {
    let (mut cpu, at) = one_sleeps();
    let placed = cpu.end_slice(CoreId(0), at);
    long(&mut cpu, placed.core, at);
    cpu.enqueue(task(2), WOKEN, at + Duration(1_000));
    let placed = cpu.preempt(at + Duration(1_000)).expect("core 1 can be taken");
    assert_eq!((placed.core, placed.runner), (CoreId(1), task(2)));
}

#[test]
fn a_runner_that_is_woken_in_the_midst_of_all_switches_waits_for_the_end_of_the_first() {
    // At the very moment at which a switch is over, it is not, and that moment comes.
    for after in [5_000, 9_999, 10_000] {
        let (mut cpu, at) = one_sleeps_and_both_switch();
        let now = at + Duration(after);
        cpu.enqueue(task(2), WOKEN, now);
        assert!(cpu.preempt(now).is_none(), "{after}");
        let due = cpu.earliest().unwrap();
        assert_eq!((due.what, due.at), (Happens::Settled, at + Duration(10_001)), "{after}");
        let placed = cpu.preempt(due.at).expect("the first switch is over");
        assert_eq!((placed.core, placed.runner), (CoreId(0), task(2)), "{after}");
    }
    let (mut cpu, at) = one_sleeps_and_both_switch();
    let now = at + Duration(10_001);
    cpu.enqueue(task(2), WOKEN, now);
    assert_eq!(cpu.preempt(now).expect("the first switch is over").core, CoreId(0));
}

#[test]
fn a_slice_that_ends_in_the_midst_of_the_switch_ends_with_it() {
    let context_switch = Duration(5 * MS);
    let mut cpu = wanting(Prices { scheduler: Scheduler::Fair, context_switch, ..CACHED }, 2);
    let placed = cpu.dispatch(Instant(0)).unwrap();
    let settled = Instant(0) + placed.cost;
    for (work, what, at) in [
        (placed.cost, Happens::StretchEnds, settled),
        (placed.cost + Duration(1), Happens::SliceEnds, settled),
        (placed.cost - Duration(1), Happens::StretchEnds, Instant(settled.0 - 1)),
    ] {
        cpu.occupy(placed.core, work, Instant(0));
        let due = cpu.earliest().unwrap();
        assert_eq!((due.what, due.at), (what, at), "{work}");
    }
}

#[test]
fn a_runner_comes_back_to_the_core_whose_cache_it_knows() {
    let again = |prices| {
        let mut cpu = wanting(Prices { cores: 2, ..prices }, 2);
        for number in 0..2 {
            let placed = place(&mut cpu, Instant(0));
            assert_eq!((placed.core, placed.runner), (CoreId(number), task(number as u32)));
        }
        cpu.sleep(CoreId(0), Instant(1));
        cpu.sleep(CoreId(1), Instant(1));
        cpu.enqueue(task(1), WOKEN, Instant(2));
        let own = place(&mut cpu, Instant(2));
        // Whose last core is taken goes to another one.
        cpu.enqueue(task(2), Arrival::New, Instant(3));
        assert_eq!(place(&mut cpu, Instant(3)).core, CoreId(1 - own.core.0));
        cpu.sleep(own.core, Instant(4));
        cpu.enqueue(task(0), WOKEN, Instant(4));
        assert_eq!(place(&mut cpu, Instant(4)).core, own.core);
        (own.core, own.cost)
    };
    assert_eq!(again(CACHED), (CoreId(1), CACHED.context_switch));
    assert_eq!(again(Prices::FREE), (CoreId(0), Duration::ZERO), "without a cache all are alike");
}

#[test]
fn a_preempted_runner_leaves_its_data_in_the_cache() {
    let mut cpu = wanting(Prices { scheduler: Scheduler::Fair, ..CACHED }, 2);
    let mut costs = vec![(task(0), place(&mut cpu, Instant(0)).cost)];
    for slice in 1..4 {
        let at = Instant(slice * 4 * MS);
        let placed = cpu.end_slice(CoreId(0), at);
        costs.push((placed.runner, placed.cost));
        long(&mut cpu, placed.core, at);
    }
    let warm = CACHED.context_switch;
    assert_eq!(costs, [(task(0), COLD), (task(1), COLD), (task(0), warm), (task(1), warm)]);
}

#[test]
fn a_driver_s_time_is_paid_by_the_runner_it_worked_for_when_it_passed() {
    let mut cpu = Cpu::new(&Prices { scheduler: Scheduler::Fair, ..Prices::FREE }, 1);
    cpu.serve(DRIVER, task(0), Instant(0));
    cpu.enqueue(DRIVER, WOKEN, Instant(0));
    let core = place(&mut cpu, Instant(0)).core;
    cpu.enqueue(task(0), Arrival::New, Instant(0));
    cpu.enqueue(task(1), Arrival::New, Instant(0));
    cpu.serve(DRIVER, task(1), Instant(3 * MS));
    cpu.sleep(core, Instant(3 * MS));
    assert_eq!(place(&mut cpu, Instant(3 * MS)).runner, task(1), "the other has had 3 ms");
}

#[test]
fn a_runner_that_is_preempted_has_not_asked_for_it() {
    let mut cpu = wanting(Prices::FREE, 2);
    let placed = place(&mut cpu, Instant(0));
    cpu.yield_core(placed.core, Instant(9));
    let Switches { voluntary, involuntary, .. } = cpu.usage(task(0)).switches;
    assert_eq!((voluntary, involuntary), (0, 1));
    assert_eq!(cpu.usage(task(0)).cpu, Duration(9));
    assert_eq!(place(&mut cpu, Instant(9)).runner, task(1));
}

#[test]
fn cores_are_wanted_if_more_wait_than_are_idle() {
    let mut cpu = wanting(Prices { cores: 2, ..Prices::FREE }, 1);
    place(&mut cpu, Instant(0));
    cpu.enqueue(task(1), Arrival::New, Instant(0));
    assert!(!cpu.contended(Instant(0)), "the other core is idle");
    cpu.enqueue(task(2), Arrival::New, Instant(0));
    assert!(cpu.contended(Instant(0)));
    place(&mut cpu, Instant(0));
    assert!(cpu.contended(Instant(0)), "one waits, and no core is idle");
}

#[test]
fn a_core_counts_as_wanted_for_16_ms_after_a_task_found_none() {
    let mut cpu = wanting(Prices::FREE, 1);
    let core = place(&mut cpu, Instant(0)).core;
    assert!(!cpu.contended(Instant(0)));
    cpu.enqueue(task(1), Arrival::New, Instant(5));
    cpu.sleep(core, Instant(6));
    place(&mut cpu, Instant(6));
    let found = [5, 16 * MS + 5, 16 * MS + 6].map(|at| cpu.contended(Instant(at)));
    assert_eq!(found, [true, true, false]);
}
