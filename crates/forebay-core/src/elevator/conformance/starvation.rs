//! No stream holds a request back for longer than its elevator promises.
//!
//! ```text
//!   0          2^30                          2^31                       2^54
//!   | victim?  | read read . near read ..... | write write -->          | victim?
//!                each stream always has others ready, and goes up for ever
//! ```

use super::{Queue, every};
use crate::elevator::{POLICIES, Queued};
use crate::testing::Random;
use crate::time::{Duration, Instant};
use crate::units::{CallId, RequestId};

/// What every request takes at the device.
const SERVICE: Duration = Duration::from_millis(10);

/// Promises of more services than this take too long to try.
const SERVICES_MAX: u64 = 100_000;

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

    /// Lets each stream have as many requests ready as it wants.
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

/// How long a read or write waits that comes once to the streams, and the promise; nothing if that
/// takes too long to try.
fn wait(name: &str, ready: [u64; 3], sector: u64, write: bool) -> Option<(Duration, Duration)> {
    let mut queue = Queue::new(name, 1);
    let others = ready.iter().sum();
    let promise = queue.elevator.waits_at_most(others, SERVICE);
    if promise > SERVICE.times(SERVICES_MAX) {
        return None;
    }
    let mut streams = Streams::new(ready);
    let mut victim: Option<(RequestId, Instant)> = None;
    for turn in 0.. {
        let id = victim.map(|(id, _)| id);
        streams.fill(&mut queue, id);
        if turn == WARM {
            let task = (!write).then_some(CallId(2));
            victim = Some((queue.insert(request(sector, write, task)), queue.now));
        }
        queue.run();
        queue.wait_for_the_elevator();
        if let Some((id, since)) = victim {
            let waited = queue.now.since(since);
            let direction = if write { "write" } else { "read" };
            assert!(
                waited <= promise,
                "{name}: a {direction} at {sector} beside {ready:?} waits for more than {promise}"
            );
            if queue.device[0].id == id {
                return Some((waited, promise));
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
                for write in [false, true] {
                    let found = wait(&name, ready, sector, write);
                    let policy = name.split(':').next();
                    let place = POLICIES.iter().position(|one| Some(one.name) == policy);
                    tried[place.unwrap()] += u64::from(found.is_some());
                }
            }
        }
    }
    for (policy, tried) in POLICIES.iter().zip(tried) {
        assert!(tried >= 16, "{}: the defaults have a promise that can be tried", policy.name);
    }
}
