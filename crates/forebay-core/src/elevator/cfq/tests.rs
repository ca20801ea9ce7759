//! The rules of cfq, each by hand.

use std::format;
use std::vec::Vec;

use super::queue::Queue;
use super::turns::Turns;
use super::{Cfq, POLICY, async_requests, preempts, slice};
use crate::elevator::testing::{Bench, By, runs, two_readers};
use crate::elevator::{DispatchList, Elevator, Kick, Queued};
use crate::time::{Duration, Instant};
use crate::units::{CallId, RequestId};

const A: By = By::Reader(0);
const B: By = By::Reader(1);

/// Far from everything else in these tests.
const FAR: u64 = 10_000_000;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn bench(settings: &str) -> Bench {
    Bench::new(&format!("cfq:hz=1000,{settings}"))
}

/// A request comes, is taken, and is done after some time.
fn serve(bench: &mut Bench, by: By, sector: u64, service: Duration) -> Kick {
    let (id, _) = bench.add(by, sector);
    assert_eq!(bench.next(), Some(sector));
    bench.after(service).done(id)
}

/// How long the disk idles for A when B requests a sector.
fn idles_for_a(bench: &mut Bench, sector: u64) -> Option<Duration> {
    let _ = bench.add(B, sector);
    match bench.next() {
        None => Some(bench.elevator.timeout().unwrap().since(bench.now)),
        Some(next) => {
            assert_eq!(next, sector);
            None
        }
    }
}

#[test]
fn the_disk_idles_for_the_next_read_of_the_same_task() {
    let mut bench = bench("");
    let _ = serve(&mut bench, A, 0, ms(5));
    assert_eq!(idles_for_a(&mut bench, FAR), Some(ms(8)));
    let (_, kick) = bench.after(ms(2)).add(A, 8);
    assert_eq!(kick, Kick::Now);
    assert_eq!(bench.next(), Some(8));
}

#[test]
fn the_disk_does_not_idle_for_a_task_that_thinks_for_longer() {
    let mut bench = bench("");
    for place in 0..5 {
        let _ = serve(&mut bench, A, 8 * place, ms(5));
        bench.after(ms(12));
    }
    let _ = serve(&mut bench, A, 40, ms(5));
    assert_eq!(idles_for_a(&mut bench, FAR), None);
}

#[test]
fn the_idling_ends_at_its_timeout() {
    let mut bench = bench("");
    let _ = serve(&mut bench, A, 0, ms(5));
    assert_eq!(idles_for_a(&mut bench, FAR), Some(ms(8)));
    bench.after(Duration(7_999_999));
    assert_eq!(bench.next(), None);
    bench.after(Duration(1));
    assert_eq!(bench.next(), Some(FAR));
}

#[test]
fn the_idling_is_eight_milliseconds_and_a_jiffy_at_least() {
    let idle = |settings: &str| {
        let mut bench = Bench::new(&format!("cfq:{settings}"));
        let _ = serve(&mut bench, A, 0, ms(20));
        idles_for_a(&mut bench, FAR)
    };
    let found = ["hz=1000", "hz=250", "hz=100", "slice_idle=0"].map(idle);
    assert_eq!(found, [Some(ms(8)), Some(ms(8)), Some(ms(10)), None]);
}

#[test]
fn asking_again_does_not_prolong_the_idling() {
    let mut bench = bench("");
    let _ = serve(&mut bench, A, 0, ms(5));
    let end = bench.now + ms(8);
    assert_eq!(idles_for_a(&mut bench, FAR), Some(ms(8)));
    for _ in 0..7 {
        assert_eq!(bench.after(ms(1)).next(), None);
        assert_eq!(bench.elevator.timeout(), Some(end));
    }
    assert_eq!(bench.after(ms(1)).next(), Some(FAR));
}

#[test]
fn a_task_that_writes_behind_is_not_idled_for() {
    let mut bench = bench("");
    let _ = serve(&mut bench, A, 0, ms(5));
    assert_eq!(idles_for_a(&mut bench, FAR), Some(ms(8)));
    assert_eq!(bench.add(By::Flusher, 64).1, Kick::Later);
    assert_eq!(bench.add(By::Writer(0), 72).1, Kick::Now);
    assert!(bench.next().is_some());
}

/// A seeks 100 MB at a time; its window after that.
fn seeky(bench: &mut Bench) -> Option<Duration> {
    for place in 0..10 {
        let _ = serve(bench, A, 200_000 * place, ms(4));
    }
    idles_for_a(bench, FAR)
}

#[test]
fn a_seeky_task_is_idled_for_two_milliseconds() {
    assert_eq!(seeky(&mut bench("")), Some(ms(2)));
    assert_eq!(seeky(&mut Bench::new("cfq:hz=250")), Some(ms(4)), "rounded up to a jiffy");
}

#[test]
fn a_seeky_task_is_not_idled_for_where_the_device_orders_requests() {
    let deep = |depth| {
        let mut bench = bench("");
        let taken: Vec<RequestId> = (0..depth).map(|at| bench.add(By::Flusher, 8 * at).0).collect();
        assert_eq!(bench.rest().len() as u64, depth);
        for id in taken {
            let _ = bench.done(id);
        }
        seeky(&mut bench)
    };
    assert_eq!((deep(4), deep(5)), (Some(ms(2)), None));
}

/// Two tasks with more requests than fit in a slice: whose each was, with the time of its end.
fn two_slices(service: Duration, count: usize) -> Vec<(u32, Instant)> {
    let mut bench = bench("quantum=1");
    for place in 0..200 {
        let _ = bench.add(A, 8 * place);
        let _ = bench.add(B, FAR + 8 * place);
    }
    let mut order = Vec::new();
    while order.len() < count {
        let request = bench.take().unwrap();
        let _ = bench.after(service).done(request.id);
        order.push((request.task.unwrap().0, bench.now));
    }
    order
}

#[test]
fn a_slice_of_100_ms_starts_at_its_first_completion() {
    let order = two_slices(ms(10), 34);
    let tasks: Vec<u32> = order.iter().map(|(task, _)| *task).collect();
    // The first one is done at 10 ms, the last one at 110 ms.
    assert_eq!(runs(&tasks)[..3], [11, 11, 11]);
}

#[test]
fn a_slice_that_took_too_long_is_taken_from_the_next_one() {
    let order = two_slices(ms(70), 9);
    let tasks: Vec<u32> = order.iter().map(|(task, _)| *task).collect();
    // Done at 70, 140 and 210 ms, 40 ms after the end of the slice. The next one has 60 ms left,
    // which the second completion overruns by 10 ms.
    assert_eq!(runs(&tasks), [3, 3, 2, 1]);
}

#[test]
fn what_a_slice_took_too_long_is_carried_over_once() {
    let mut queue = Queue::new(true, 0);
    queue.begin_turn();
    queue.begin_slice(10, 100);
    assert!(!queue.is_over(109) && queue.is_over(110));
    queue.end_slice(150, true);
    queue.begin_turn();
    assert!(!queue.is_over(1_000), "it has not begun");
    queue.begin_slice(200, 100);
    assert!(!queue.is_over(259) && queue.is_over(260));
    // An idle one ends early, which this version does not carry over.
    queue.end_slice(210, false);
    queue.begin_turn();
    queue.begin_slice(300, 100);
    assert!(!queue.is_over(399) && queue.is_over(400));
}

/// A task reads and much is written behind: the runs of both, each request taking so long.
fn reads_and_writes(service: Duration) -> Vec<usize> {
    let mut bench = bench("");
    for place in 0..300 {
        let _ = bench.add(By::Flusher, 8 * place);
        let _ = bench.add(A, FAR + 8 * place);
    }
    let mut order = Vec::new();
    while order.len() < 140 {
        let request = bench.take().unwrap();
        order.push(u32::from(request.write));
        let _ = bench.after(service).done(request.id);
    }
    runs(&order)
}

#[test]
fn a_slice_of_writes_is_cut_after_sixteen() {
    // Reads are dispatched by fours: those that are when the slice is over still go.
    assert_eq!(reads_and_writes(ms(2))[..4], [52, 16, 52, 16]);
}

#[test]
fn a_slice_of_writes_ends_after_its_time() {
    // 40 ms from the first completion on, at 15 ms, are over at 60 ms, when four are done.
    assert_eq!(reads_and_writes(ms(15))[1], 4);
}

#[test]
fn the_slice_grows_with_the_priority() {
    assert_eq!([0, 4, 7].map(|priority| slice(100, priority)), [180, 100, 40]);
    assert_eq!([0, 4, 7].map(|priority| async_requests(2, priority)), [32, 16, 4]);
}

#[test]
fn a_queue_dispatches_a_quantum_unless_it_is_alone() {
    let mut bench = bench("");
    for place in 0..10 {
        let _ = bench.add(A, 8 * place);
    }
    bench.elevator.dispatch(bench.now, &mut bench.list);
    assert_eq!(bench.list.len(), 10);
    let mut bench = self::bench("");
    for place in 0..10 {
        let _ = bench.add(A, 8 * place);
        let _ = bench.add(B, FAR + 8 * place);
    }
    bench.elevator.dispatch(bench.now, &mut bench.list);
    assert_eq!(bench.list.len(), 4);
}

#[test]
fn a_task_leaves_a_deep_device_alone_while_others_wait_and_requests_are_in_flight() {
    let mut bench = bench("quantum=1");
    let reads: Vec<RequestId> = (0..3).map(|place| bench.add(A, 8 * place).0).collect();
    let _ = serve(&mut bench, B, FAR, ms(5));
    let _ = bench.add(By::Reader(2), 2 * FAR);
    assert_eq!(bench.next(), None, "the disk idles for B");
    bench.now = bench.elevator.timeout().unwrap();
    assert_eq!(bench.next(), Some(0));
    assert_eq!((bench.next(), bench.elevator.timeout()), (None, None));
    let _ = bench.done(reads[0]);
    assert_eq!(bench.next(), Some(8));
}

#[test]
fn an_expired_request_is_looked_for_once_a_slice() {
    let mut bench = bench("quantum=1");
    for sector in [FAR, 2 * FAR, 3 * FAR] {
        let _ = bench.add(A, sector);
    }
    for place in 0..200 {
        let _ = bench.add(A, 8 * place);
        let _ = bench.add(B, 5 * FAR + 8 * place);
    }
    bench.after(ms(126));
    let mut order = Vec::new();
    while order.len() < 8 {
        let request = bench.take().unwrap();
        let _ = bench.after(ms(1)).done(request.id);
        if request.task == Some(CallId(0)) {
            order.push(request.sector);
        }
    }
    assert_eq!(order, [FAR, 0, 8, 16, 24, 32, 40, 48]);
}

fn request(id: u32, sector: u64, task: Option<u32>, sync: bool) -> Queued {
    let id = RequestId(id);
    Queued { id, sector, sectors: 8, write: !sync, sync, task: task.map(CallId) }
}

#[test]
fn a_bio_joins_only_requests_of_its_queue() {
    let elevator = Bench::new("cfq").elevator;
    let may = |waiting: (Option<u32>, bool), bio: (Option<u32>, bool)| {
        let (waiting, bio) = (request(0, 0, waiting.0, waiting.1), request(1, 8, bio.0, bio.1));
        elevator.may_merge(&waiting, &bio)
    };
    assert!(may((Some(0), true), (Some(0), true)));
    assert!(!may((Some(0), true), (Some(1), true)), "another task's");
    assert!(!may((Some(0), false), (Some(0), true)), "the bio alone is synchronous");
    assert!(!may((Some(0), true), (Some(0), false)));
    assert!(may((None, false), (Some(1), false)), "what is written behind is shared");
}

#[test]
fn only_a_task_that_is_idled_for_preempts_what_is_written_behind() {
    assert!(preempts(true, false));
    assert!(!preempts(true, true) && !preempts(false, false));
}

/// Cfq with its defaults, while asynchronous writes have the disk, and a task that is listed.
fn writing(is_awaited: bool) -> (Cfq, DispatchList) {
    let default = |name: &str| {
        POLICY.parameters.iter().find(|one| one.name == name).map(|one| one.default).unwrap()
    };
    let mut cfq = Cfq::new(default);
    let mut list = DispatchList::default();
    for id in 0..40 {
        let _ = cfq.insert(Instant::ZERO, &request(id, 8 * u64::from(id), None, false));
    }
    cfq.dispatch(Instant::ZERO, &mut list);
    let last = request(40, 320, None, false);
    let _ = cfq.insert(Instant::ZERO, &last);
    let other = cfq.enter(0, &request(41, FAR, Some(0), true));
    cfq.queues[other].is_awaited = is_awaited;
    (cfq, list)
}

#[test]
fn a_task_that_preempts_is_served_next() {
    for is_awaited in [false, true] {
        let (mut cfq, mut list) = writing(is_awaited);
        while list.pop().is_some() {}
        let kick = cfq.insert(Instant::ZERO, &request(41, FAR, Some(0), true));
        assert_eq!(kick == Kick::Now, is_awaited);
        cfq.dispatch(Instant::ZERO, &mut list);
        let first = list.pop().unwrap();
        assert_eq!(first.sync, is_awaited, "the mark is what this version asks for");
    }
}

#[test]
fn queues_take_turns_by_their_last_service() {
    let mut queues: Vec<Queue> = (0..4).map(|place| Queue::new(place > 0, 0)).collect();
    for (place, served) in [(1, 30), (2, 10), (3, 20)] {
        queues[place].completed(served);
        queues[place].is_new = false;
    }
    let mut turns = Turns::default();
    for place in 1..4 {
        turns.file_new(&queues, place);
    }
    let mut order = Vec::new();
    while let Some(place) = turns.first() {
        order.push(place);
        turns.remove(place);
    }
    assert_eq!(order, [2, 3, 1]);
}

#[test]
fn a_queue_with_requests_in_flight_has_its_turn_last() {
    let mut queues: Vec<Queue> = (0..3).map(|place| Queue::new(place > 0, 0)).collect();
    queues[1].dispatched = 1;
    let mut turns = Turns::default();
    turns.file_new(&queues, 1);
    turns.file_new(&queues, 2);
    assert_eq!(turns.first(), Some(2));
    turns.remove(2);
    assert_eq!(turns.first(), Some(1));
}

#[test]
fn a_new_queue_goes_before_the_last_of_the_new_ones_in_front() {
    let queues: Vec<Queue> = (0..4).map(|_| Queue::new(true, 0)).collect();
    let mut turns = Turns::default();
    for place in 0..4 {
        turns.file_new(&queues, place);
    }
    let mut order = Vec::new();
    while let Some(place) = turns.first() {
        order.push(place);
        turns.remove(place);
    }
    assert_eq!(order, [1, 2, 3, 0]);
}

#[test]
fn two_readers_share_the_disk_in_slices() {
    let found = runs(&two_readers("cfq:hz=1000", 400));
    // 100 ms from the first completion on: 17 reads of 5 ms and 1 ms between.
    let inner = &found[1..found.len() - 1];
    assert!(inner.iter().all(|run| (14..=20).contains(run)), "{found:?}");
}
