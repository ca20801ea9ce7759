//! No stream holds a request back for longer than its elevator promises.
//!
//! ```text
//!   0          2^30                          2^31                       2^54
//!   | victim?  | read read . near read ..... | write write -->          | victim?
//!                each stream always has others ready, and goes up for ever
//! ```

use std::format;

use super::{Queue, every};
use crate::elevator::{POLICIES, Queued, Spec};
use crate::testing::Random;
use crate::time::{Duration, Instant};
use crate::units::{CallId, RequestId};

/// What every request takes at the device.
const SERVICE: Duration = Duration::from_millis(10);

/// Promises of more services than this take too long to try.
const SERVICES_MAX: u64 = 20_000;

/// Requests before the victim comes.
const WARM: u64 = 40;

/// The victim's two places, below and above all streams.
const PLACES: [u64; 2] = [8, 1 << 54];

/// Which streams there are, each with the number of requests that it has ready.
const MIXES: [[u64; 3]; 5] = [[2, 0, 0], [2, 2, 0], [0, 0, 2], [2, 0, 2], [3, 3, 4]];

struct Streams {
    ready: [u64; 3],
    next: [u64; 3],
    random: Random,
}

impl Streams {
    fn new(ready: [u64; 3]) -> Self {
        Self { ready, next: [1 << 30, 0, 1 << 31], random: Random(ready.iter().sum()) }
    }

    /// Makes each stream have as many requests ready as it needs.
    fn fill(&mut self, queue: &mut Queue, victim: Option<RequestId>) {
        for stream in 0..self.ready.len() {
            let task = [Some(CallId(0)), Some(CallId(1)), None][stream];
            let all = queue.waiting.values().chain(&queue.dispatched);
            let own = |one: &&Queued| one.task == task && Some(one.id) != victim;
            for _ in all.filter(own).count() as u64..self.ready[stream] {
                let sector = match task {
                    Some(CallId(1)) => self.next[0] + 8 * self.random.below(64),
                    Some(_) | None => self.next[stream],
                };
                self.next[stream] = sector + 8;
                queue.insert(request(sector, task.is_none(), task));
            }
        }
    }
}

fn request(sector: u64, write: bool, task: Option<CallId>) -> Queued {
    Queued { id: RequestId(0), sector, sectors: 8, write, sync: !write, task }
}

/// A request that comes once, just before the streams fill up or just after.
#[derive(Clone, Copy, Debug)]
struct Victim {
    sector: u64,
    write: bool,
    first: bool,
}

/// Whether it can be tried how long a request waits that comes to the streams; and if so, that it
/// leaves as promised.
fn leaves(name: &str, ready: [u64; 3], comes: Victim) -> bool {
    let mut queue = Queue::new(name, 1);
    let others = ready.iter().sum();
    let promise = queue.elevator.waits_at_most(others, SERVICE);
    if promise > SERVICE.times(SERVICES_MAX) {
        return false;
    }
    let mut streams = Streams::new(ready);
    let mut victim: Option<(RequestId, Instant)> = None;
    for turn in 0.. {
        if turn != WARM || !comes.first {
            streams.fill(&mut queue, victim.map(|(id, _)| id));
        }
        if turn == WARM {
            let task = (!comes.write).then_some(CallId(2));
            let id = queue.insert(request(comes.sector, comes.write, task));
            victim = Some((id, queue.now));
            streams.fill(&mut queue, Some(id));
        }
        queue.run();
        queue.wait_for_the_elevator();
        if let Some((id, since)) = victim {
            let waited = queue.now.since(since);
            assert!(waited <= promise, "{name}: {comes:?} beside {ready:?} waits beyond {promise}");
            if queue.device[0].id == id {
                return true;
            }
        }
        queue.now += SERVICE;
        queue.complete(0);
    }
    unreachable!("the victim leaves or the promise is broken")
}

#[test]
fn a_request_that_comes_to_streams_without_end_leaves_as_promised() {
    let mut tried = std::vec![0; POLICIES.len()];
    for name in every() {
        for ready in MIXES {
            for sector in PLACES {
                for (write, first) in [(false, false), (false, true), (true, false), (true, true)] {
                    let found = leaves(&name, ready, Victim { sector, write, first });
                    let policy = name.split(':').next();
                    let place = POLICIES.iter().position(|one| Some(one.name) == policy);
                    tried[place.unwrap()] += u64::from(found);
                }
            }
        }
    }
    for (policy, tried) in POLICIES.iter().zip(tried) {
        assert!(tried >= 40, "{}: the defaults have a promise that can be tried", policy.name);
    }
}

#[test]
fn a_read_has_no_promise_where_writes_are_always_chosen() {
    for name in ["deadline:writes_starved=0", "mq-deadline:writes_starved=0"] {
        let mut queue = Queue::new(name, 1);
        let mut streams = Streams::new([0, 0, 2]);
        streams.fill(&mut queue, None);
        assert_eq!(queue.elevator.waits_at_most(2, SERVICE), Duration(u64::MAX));
        let victim = queue.insert(request(8, false, Some(CallId(2))));
        for _ in 0..10_000 {
            streams.fill(&mut queue, Some(victim));
            queue.run();
            queue.now += SERVICE;
            assert_ne!(queue.complete(0).id, victim, "{name}");
        }
    }
}

/// How long a write waits at an elevator with deadlines where everything has expired, and how many
/// others there are at a time: `AHEAD` writes came before it, each gets a whole batch of followers,
/// and reads are always ready.
fn worst(name: &str) -> (Duration, u64) {
    const AHEAD: u64 = 8;
    const BATCH: u64 = 16;
    let mut queue = Queue::new(name, 1);
    let mut reads = (0..).map(|n| request((1 << 40) + 8 * n, false, Some(CallId(0))));
    queue.insert(reads.next().unwrap());
    queue.run();
    for place in (1..=AHEAD).rev() {
        queue.insert(request(place << 20, true, None));
    }
    let victim = queue.insert(request(8, true, None));
    let (mut place, mut batch, mut others) = (AHEAD, 1, 0);
    loop {
        while queue.waiting.values().filter(|one| !one.write).count() < 2 {
            queue.insert(reads.next().unwrap());
        }
        let own = |one: &&Queued| one.write && one.sector >> 20 == place;
        let mut ready = queue.waiting.values().filter(own).count();
        if batch == BATCH && ready == 0 && place > 1 {
            (place, batch, ready) = (place - 1, 1, 1);
        }
        while ready < 2 && batch < BATCH {
            queue.insert(request((place << 20) + 8 * batch, true, None));
            (ready, batch) = (ready + 1, batch + 1);
        }
        others = others.max(queue.waiting.len() - 1 + queue.device.len());
        queue.now += SERVICE;
        queue.complete(0);
        queue.run();
        if queue.device[0].id == victim {
            return (queue.now.since(Instant::ZERO), others as u64);
        }
    }
}

#[test]
fn the_promise_of_the_elevators_with_deadlines_is_less_than_twice_the_worst_stream() {
    for name in ["deadline", "mq-deadline"] {
        let name = format!("{name}:read_expire=0,write_expire=0");
        let (waited, others) = worst(&name);
        let promise = Spec::parse(&name).unwrap().build().waits_at_most(others, SERVICE);
        assert!(waited <= promise && promise < waited.times(2), "{name}: {waited} {promise}");
    }
}
