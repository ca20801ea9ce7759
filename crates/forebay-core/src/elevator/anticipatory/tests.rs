//! The rules of the anticipatory elevator, each by hand.

use std::format;
use std::vec::Vec;

use crate::elevator::Kick;
use crate::elevator::testing::{Bench, By, runs, two_readers};
use crate::time::{Duration, Instant};
use crate::units::RequestId;

const A: By = By::Reader(0);
const B: By = By::Reader(1);

/// Far from everything else in these tests.
const FAR: u64 = 10_000_000;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A request comes, is taken, and is done after some time.
fn serve(bench: &mut Bench, by: By, sector: u64, service: Duration) {
    let (id, _) = bench.add(by, sector);
    assert_eq!(bench.next(), Some(sector));
    let _ = bench.after(service).done(id);
}

/// A has read at a sector, in 5 ms.
fn after_a_read(settings: &str, sector: u64) -> Bench {
    let mut bench = Bench::new(&format!("anticipatory:{settings}"));
    serve(&mut bench, A, sector, ms(5));
    bench
}

/// Whether the disk idles for A when B requests a sector.
fn waits_for_a(bench: &mut Bench, sector: u64) -> bool {
    let _ = bench.add(B, sector);
    let next = bench.next();
    assert!(next.is_none() || next == Some(sector));
    next.is_none()
}

#[test]
fn the_next_read_of_the_same_task_is_waited_for_and_goes_first() {
    let mut bench = after_a_read("hz=1000", 0);
    assert!(waits_for_a(&mut bench, FAR));
    assert_eq!(bench.elevator.timeout(), Some(bench.now + ms(6)));
    let (_, kick) = bench.after(ms(2)).add(A, 8);
    assert_eq!(kick, Kick::Now);
    assert_eq!(bench.next(), Some(8));
}

#[test]
fn a_task_is_waited_for_a_150th_of_a_second_but_one_jiffy_at_least() {
    let wait = |settings| {
        let mut bench = Bench::new(&format!("anticipatory:{settings}"));
        serve(&mut bench, A, 0, ms(20));
        assert!(waits_for_a(&mut bench, FAR));
        bench.elevator.timeout().unwrap().since(bench.now)
    };
    let found = ["hz=1000", "hz=250", "hz=100"].map(wait);
    assert_eq!(found, [6, 4, 10].map(ms));
    assert_eq!(wait("hz=1000,antic_expire=9"), ms(9));
    assert_eq!(wait("hz=250,antic_expire=1"), ms(4));
}

#[test]
fn the_wait_is_over_when_its_timer_has_run_out() {
    let mut bench = after_a_read("hz=1000", 0);
    assert!(waits_for_a(&mut bench, FAR));
    bench.after(Duration(5_999_999));
    assert_eq!(bench.next(), None);
    bench.after(Duration(1));
    assert_eq!(bench.next(), Some(FAR));
}

#[test]
fn the_timer_starts_when_the_read_is_done() {
    let mut bench = Bench::new("anticipatory:hz=1000");
    let (first, _) = bench.add(A, 0);
    assert_eq!(bench.next(), Some(0));
    assert!(waits_for_a(&mut bench, FAR));
    assert_eq!(bench.elevator.timeout(), None, "the read is in flight");
    assert_eq!(bench.after(ms(50)).done(first), Kick::Later);
    assert_eq!(bench.elevator.timeout(), Some(bench.now + ms(6)));
    assert_eq!(bench.next(), None);
}

#[test]
fn a_read_that_was_done_too_long_ago_is_not_waited_for() {
    let mut bench = after_a_read("hz=1000", 0);
    bench.after(ms(5));
    assert!(waits_for_a(&mut bench, FAR));
    let mut bench = after_a_read("hz=1000", 0);
    bench.after(ms(6));
    assert!(!waits_for_a(&mut bench, FAR));
}

#[test]
fn an_elevator_without_a_request_has_no_timeout() {
    let mut bench = after_a_read("hz=1000", 0);
    assert_eq!(bench.next(), None);
    assert_eq!(bench.elevator.timeout(), None);
}

#[test]
fn a_close_read_of_another_task_is_served_at_once() {
    let waits = |sector| waits_for_a(&mut after_a_read("hz=1000", 100_000), sector);
    // The head is at 100 008: 8192 sectors ahead are close, and 4096 behind.
    assert_eq!([108_200, 108_201].map(waits), [false, true]);
    assert_eq!([95_912, 95_911].map(waits), [false, true]);
}

#[test]
fn what_is_close_doubles_with_each_millisecond_of_waiting() {
    let kick = |wait, sector| {
        let mut bench = after_a_read("hz=1000", 0);
        assert!(waits_for_a(&mut bench, FAR));
        bench.after(ms(wait)).add(By::Reader(2), sector).1
    };
    assert_eq!((kick(0, 8 + 8_193), kick(1, 8 + 8_193)), (Kick::Later, Kick::Now));
    assert_eq!((kick(3, 8 + 65_537), kick(3, 8 + 65_536)), (Kick::Later, Kick::Now));
}

#[test]
fn a_read_within_the_tasks_usual_seek_is_close() {
    let mut bench = after_a_read("hz=1000", 0);
    for place in 1..10 {
        serve(&mut bench, A, place * 100_000, ms(5));
    }
    assert!(!waits_for_a(&mut bench, 900_008 + 99_000));
    let mut bench = after_a_read("hz=1000", 900_000);
    assert!(waits_for_a(&mut bench, 900_008 + 99_000));
}

#[test]
fn a_task_that_thinks_for_long_is_not_waited_for() {
    let mut bench = after_a_read("hz=1000", 0);
    for place in 1..4 {
        bench.after(ms(12));
        serve(&mut bench, A, 8 * place, ms(5));
    }
    assert!(!waits_for_a(&mut bench, FAR));
}

#[test]
fn a_new_task_is_taken_to_think_as_new_tasks_do() {
    let mut bench = Bench::new("anticipatory:hz=1000");
    for task in 2..10 {
        serve(&mut bench, By::Reader(task), 0, ms(5));
        bench.after(ms(19));
        serve(&mut bench, By::Reader(task), 8, ms(5));
    }
    serve(&mut bench, A, 0, ms(5));
    assert!(!waits_for_a(&mut bench, FAR));
}

#[test]
fn a_task_that_has_more_queued_is_not_waited_for() {
    let mut bench = after_a_read("hz=1000", 0);
    let _ = bench.add(A, 20_000_000);
    assert!(!waits_for_a(&mut bench, FAR), "nearer than the other one of A");
}

#[test]
fn a_write_of_the_task_ends_the_wait() {
    let mut bench = after_a_read("hz=1000", 0);
    assert!(waits_for_a(&mut bench, FAR));
    assert_eq!(bench.add(By::Flusher, 16).1, Kick::Later);
    assert_eq!(bench.add(By::Writer(0), 24).1, Kick::Now);
    assert_eq!(bench.next(), Some(FAR), "a read goes on");
}

#[test]
fn no_task_is_waited_for_after_a_write() {
    let mut bench = Bench::new("anticipatory:hz=1000");
    serve(&mut bench, By::Writer(0), 0, ms(5));
    assert!(!waits_for_a(&mut bench, FAR));
}

#[test]
fn without_a_time_no_task_is_waited_for() {
    assert!(!waits_for_a(&mut after_a_read("hz=1000,antic_expire=0", 0), FAR));
}

#[test]
fn a_writer_waits_for_the_reader_s_next_read_too() {
    let mut bench = after_a_read("hz=1000", 0);
    let _ = bench.add(By::Flusher, 8);
    assert_eq!(bench.next(), None);
    bench.after(ms(6));
    assert_eq!(bench.next(), Some(8));
}

#[test]
fn expired_reads_are_looked_for_once_an_interval() {
    let mut bench = Bench::new("anticipatory:hz=1000,antic_expire=0,read_expire=125");
    // Each too far away to be chosen, and near enough to go back from.
    for sector in [100_000, 400_000, 1_300_000] {
        let _ = bench.add(B, sector);
    }
    let mut far = Vec::new();
    for near in 0..60 {
        let (id, _) = bench.add(A, 8 * near);
        let mut taken = bench.take().unwrap();
        if taken.sector >= 100_000 {
            far.push(bench.now);
            let _ = bench.done(taken.id);
            taken = bench.take().unwrap();
        }
        assert_eq!(taken.id, id, "the sweep goes back a short way");
        let _ = bench.after(ms(10)).done(id);
    }
    // Looked for at 0, 130, 260, ...
    assert_eq!(far, [130, 260, 390].map(|at| Instant::ZERO + ms(at)));
}

/// Reads and writes without end: which of the first were writes, each taking so long.
fn mixed(settings: &str, service: Duration, count: usize) -> Vec<bool> {
    let mut bench = Bench::new(&format!("anticipatory:hz=1000,{settings}"));
    let mut order = Vec::new();
    for place in 0..200 {
        let _ = bench.add(A, 8 * place);
        let _ = bench.add(By::Flusher, FAR + 8 * place);
    }
    while order.len() < count {
        let Some(request) = bench.take() else {
            bench.now = bench.elevator.timeout().unwrap();
            continue;
        };
        order.push(request.write);
        let _ = bench.after(service).done(request.id);
    }
    order
}

#[test]
fn reads_have_half_a_second_while_writes_wait() {
    let order = mixed("write_batch=100", ms(20), 60);
    let batches: Vec<_> = order.chunk_by(|one, next| one == next).map(<[bool]>::len).collect();
    // The first batch's time counts from the start. Later ones begin with the first completion:
    // at 20 ms, and 520 ms is not yet past their end, so that one more goes.
    assert_eq!(batches[..3], [26, 6, 27]);
}

#[test]
fn a_batch_of_writes_has_one_write_for_ten_milliseconds_and_learns() {
    let order = mixed("write_batch=125", ms(1), 390);
    let batches: Vec<_> = order.chunk_by(|one, next| one == next).map(<[bool]>::len).collect();
    assert_eq!(batches, [200, 190], "reads run out before their time");
    let order = mixed("write_batch=125,read_batch=50", ms(1), 200);
    let batches: Vec<_> = order.chunk_by(|one, next| one == next).map(<[bool]>::len).collect();
    assert_eq!(batches[..4], [51, 12, 52, 24]);
}

#[test]
fn a_slow_batch_of_writes_is_followed_by_a_smaller_one() {
    let order = mixed("write_batch=30,read_batch=100", ms(50), 12);
    let batches: Vec<_> = order.chunk_by(|one, next| one == next).map(<[bool]>::len).collect();
    // Three writes; the first overruns the batch, and it is halved to one.
    assert_eq!(batches[..4], [3, 1, 4, 1]);
}

#[test]
fn a_new_batch_begins_when_the_old_one_s_requests_are_done() {
    let mut bench = Bench::new("anticipatory:hz=1000,read_batch=100,antic_expire=0");
    let reads: Vec<RequestId> = (0..4).map(|place| bench.add(A, 8 * place).0).collect();
    let _ = bench.add(By::Flusher, FAR);
    assert_eq!((bench.next(), bench.next()), (Some(0), Some(8)));
    let _ = bench.after(ms(101)).add(A, 32);
    assert_eq!(bench.next(), None, "two reads are in flight");
    assert_eq!(bench.done(reads[0]), Kick::Later);
    assert_eq!(bench.next(), None);
    assert_eq!(bench.done(reads[1]), Kick::Now);
    assert_eq!(bench.next(), Some(FAR));
}

#[test]
fn a_batch_of_reads_counts_from_its_first_completion() {
    let mut bench = Bench::new("anticipatory:hz=1000,read_batch=100,antic_expire=0");
    serve(&mut bench, By::Flusher, FAR, ms(1));
    let _ = bench.add(By::Flusher, FAR + 8);
    let reads: Vec<RequestId> = (0..4).map(|place| bench.add(A, 8 * place).0).collect();
    assert_eq!(bench.next(), Some(FAR + 8), "the batch has a write left");
    let _ = bench.done(RequestId(1));
    assert_eq!(bench.next(), Some(0));
    let _ = bench.add(By::Flusher, FAR + 16);
    let _ = bench.after(ms(300)).done(reads[0]);
    assert_eq!(bench.next(), Some(8), "300 ms for the first read do not count");
    let _ = bench.after(ms(101)).done(reads[1]);
    assert_eq!(bench.next(), Some(FAR + 16));
}

#[test]
fn two_readers_share_the_disk_in_runs() {
    let runs_of = |name| runs(&two_readers(name, 400));
    // A read of 5 ms and 1 ms between make 21 reads in the interval after which expired requests
    // are looked for. The request of the other task has not expired at the first check, and has at
    // the second.
    let found = runs_of("anticipatory:hz=1000");
    assert!(found[..found.len() - 1].iter().all(|run| *run == 42), "{found:?}");
    assert!(runs_of("noop")[1..].iter().all(|run| *run == 1));
}
