//! Requests that are served in the context of the caller.

use super::*;

#[test]
fn a_spin_that_reaches_its_limit_goes_on_as_a_wait() {
    let limit = |micros| Handling::Inline(Duration(micros * US));
    let seen = one_read(Chip::new(100, false), limit(30));
    let switches = seen.record.tasks[0].switches;
    assert_eq!((switches.voluntary, switches.wakes, switches.in_place), (1, 1, 0));
    assert_eq!(seen.record.tasks[0].cpu, Duration(2 * 7_000 + READ_COST + 30 * US));
    assert_eq!(seen.end, Instant(2 * 7_000 + READ_COST + 100 * US + 2_000), "by an interrupt");
    // As long as the limit is not longer than it.
    let seen = one_read(Chip::new(100, false), limit(100));
    assert_eq!(seen.record.tasks[0].switches.voluntary, 0);
    let seen = one_read(Chip::new(100, false), Handling::Inline(Duration(100 * US - 1)));
    assert_eq!(seen.record.tasks[0].switches.voluntary, 1);
}

#[test]
fn where_the_processor_moves_the_data_there_is_no_limit() {
    let seen = one_read(Chip::new(100, true), Handling::Inline(Duration::ZERO));
    assert_eq!(seen.record.tasks[0].switches.voluntary, 0);
    assert_eq!(seen.end, Instant(7_000 + READ_COST + 100 * US));
}

#[test]
fn requests_of_one_input_are_served_one_after_another_and_end_in_order() {
    let chip = Chip::new(100, false);
    let log = Arc::clone(&chip.log);
    let mut machine = Machine::new(dear(), chip, Handling::INLINE);
    (machine.readahead, machine.request_pages_max) = ("fixed:max=8", 2);
    let seen = machine.run(|handle| vec![script([read(handle, 0, 8)])]);
    let log = log.lock().unwrap();
    let sectors: Vec<u64> = log.iter().map(|(_, sector)| *sector).collect();
    assert_eq!(sectors, [0, 16, 32, 48]);
    let apart: Vec<u64> =
        log.windows(2).map(|two| two[1].0.since(two[0].0).as_nanos() / US).collect();
    assert_eq!(apart, [100, 100, 100]);
    let dones: Vec<_> = seen.trace.iter().filter(|(_, input)| is_done(input)).collect();
    let end = log[3].0 + Duration(100 * US);
    assert!(dones.iter().all(|(at, _)| *at == end), "all at the end: {dones:?}");
    let ids: Vec<u32> = dones.iter().filter_map(|(_, input)| done_id(input)).collect();
    assert_eq!(ids, [0, 1, 2, 3]);
    let first = seen.trace.iter().position(|(_, input)| is_done(input)).unwrap();
    assert!(seen.trace[first..first + 4].iter().all(|(_, input)| is_done(input)), "together");
    assert!(matches!(seen.trace[first + 4].1, Input::Resume(_)), "then the task goes on");
    assert_eq!(seen.record.dispatches, 1);
}

#[test]
fn a_deferred_request_behind_an_inline_one_is_handed_over_after_it() {
    let chip = Chip::new(100, false);
    let log = Arc::clone(&chip.log);
    let mut machine = Machine::new(dear(), chip, Handling::Deferred);
    (machine.readahead, machine.request_pages_max) = ("fixed:max=4", 2);
    machine.choose =
        Box::new(|number| if number == 0 { Handling::INLINE } else { Handling::Deferred });
    let seen = machine.run(|handle| vec![script([read(handle, 0, 4)])]);
    let log = log.lock().unwrap();
    assert!(log[1].0 >= log[0].0 + Duration(100 * US));
    assert_eq!(seen.record.tasks[0].switches.voluntary, 1, "it waits for the second");
    assert_eq!(seen.calls[0].result, Ok(4 * PAGE_SIZE));
}

#[test]
fn what_the_driver_s_thread_has_not_begun_is_served_first_by_an_inline_asker() {
    let chip = Chip::new(100, true);
    let log = Arc::clone(&chip.log);
    let mut machine = Machine::new(dear(), chip, Handling::Deferred);
    machine.choose =
        Box::new(|number| if number < 2 { Handling::Deferred } else { Handling::INLINE });
    let seen = machine
        .run(|handle| (0..3).map(|task| script([read(handle, 40 - 10 * task, 1)])).collect());
    let sectors: Vec<u64> = log.lock().unwrap().iter().map(|(_, sector)| sector / 8).collect();
    assert_eq!(sectors, [40, 30, 20]);
    let slept = [0, 1, 2].map(|task| seen.record.tasks[task].switches.voluntary);
    assert_eq!(slept, [1, 1, 0], "the third has served all three");
    assert!(seen.record.tasks[2].cpu >= Duration(3 * 100 * US));
}

#[test]
fn an_inline_request_waits_behind_the_one_that_the_driver_s_thread_has_begun() {
    let chip = Chip::new(100, true);
    let log = Arc::clone(&chip.log);
    let mut machine = Machine::new(Prices { cores: 2, ..dear() }, chip, Handling::Deferred);
    machine.choose =
        Box::new(|number| if number < 1 { Handling::Deferred } else { Handling::INLINE });
    let seen = machine.run(|handle| {
        vec![script([read(handle, 40, 1)]), script([compute(50), read(handle, 20, 1)])]
    });
    let log = log.lock().unwrap();
    let sectors: Vec<u64> = log.iter().map(|(_, sector)| sector / 8).collect();
    assert_eq!(sectors, [40, 20]);
    assert!(log[1].0 >= log[0].0 + Duration(100 * US), "one after the other");
    assert_eq!(seen.record.tasks[1].switches.voluntary, 1, "it has slept as well");
}

#[test]
fn requests_without_a_waiter_are_served_by_the_flusher_on_its_own_time() {
    let mut prices = dear();
    prices.flush_page = Duration(300);
    for programmed in [false, true] {
        let machine = Machine::new(prices, Chip::new(100, programmed), Handling::INLINE);
        let seen = machine.run(|handle| {
            let (offset, len) = (0, 4 * PAGE_SIZE);
            let write = Op::Write { handle, offset, len, durable: false };
            // The rule finds the pages old after half a minute.
            let later = Step::Sleep(Instant(60_000 * MS));
            vec![script([Step::Call(write), later, compute(1)])]
        });
        let written: u64 = seen.record.seconds.iter().map(|(_, moved)| moved.written).sum();
        assert_eq!(written, 4 * 8);
        let kernel = seen.record.kernel;
        let wakes = kernel.switches.wakes;
        let work = Duration(7_000 * wakes + 500 + 4 * 300 + 100 * US);
        assert_eq!(kernel.cpu, work, "debt, and the device");
    }
}

#[test]
fn a_spinner_that_is_pushed_off_neither_loses_nor_repeats_work() {
    let prices = Prices { scheduler: Scheduler::Fair, ..Prices::FREE };
    // The processor moves the data: 20 ms of work, in turns with 100 ms of another task.
    let chip = Chip::new(20_000, true);
    let log = Arc::clone(&chip.log);
    let run = |chip: Chip| {
        let machine = Machine::new(prices, chip, Handling::INLINE);
        machine.run(|handle| vec![script([read(handle, 7, 1)]), script([compute(100_000)])])
    };
    let seen = run(chip);
    assert_eq!(log.lock().unwrap().len(), 1, "it is served once");
    assert_eq!(seen.record.tasks[0].cpu, Duration(20 * MS));
    assert_eq!(seen.record.tasks[1].cpu, Duration(100 * MS));
    assert!(seen.record.tasks[0].switches.involuntary >= 4);
    let took = seen.calls[0].latency();
    assert!(took >= Duration(36 * MS) && took <= Duration(42 * MS), "half the core: {took}");
    assert_eq!(seen.end, Instant(120 * MS));
    // The device works without the processor: its 20 ms pass whichever task has the core.
    let seen = run(Chip::new(20_000, false));
    let took = seen.calls[0].latency();
    assert!(took >= Duration(20 * MS) && took <= Duration(24 * MS), "{took}");
    assert!(seen.record.tasks[0].cpu <= Duration(14 * MS), "the other had its turns");
    assert_eq!(seen.record.tasks[1].cpu, Duration(100 * MS));
}

#[test]
fn a_spinner_pays_a_switch_when_it_comes_back() {
    let prices = Prices { scheduler: Scheduler::Fair, ..dear() };
    let machine = Machine::new(prices, Chip::new(20_000, true), Handling::INLINE);
    let seen = machine.run(|handle| vec![script([read(handle, 7, 1)]), script([compute(9_000)])]);
    let pushed: u64 = seen.record.tasks.iter().map(|task| task.switches.involuntary).sum();
    assert_eq!(seen.record.dispatches, 2 + pushed);
    let work = Duration(READ_COST + 20 * MS + 9 * MS) + seen.record.dispatch_time;
    assert_eq!(seen.record.cpu_busy, work);
}

fn is_done(input: &Input) -> bool {
    done_id(input).is_some()
}

fn done_id(input: &Input) -> Option<u32> {
    match input {
        Input::Done(id, ..) => Some(id.0),
        Input::Call(..) | Input::Resume(_) | Input::Decoded(..) | Input::Idle | Input::Timeout => {
            None
        }
    }
}
