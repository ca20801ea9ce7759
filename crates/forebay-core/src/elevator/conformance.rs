//! What every elevator of the table keeps, whatever its order.

use std::boxed::Box;
use std::collections::{BTreeMap, VecDeque};
use std::format;
use std::string::String;
use std::vec::Vec;

use super::{DispatchList, Elevator, Kick, POLICIES, Queued, Spec};
use crate::testing::{Random, specs};
use crate::time::{Duration, Instant};
use crate::units::{CallId, RequestId};

mod starvation;

/// The steps of a stream.
const STEPS: u64 = 1_500;

/// Every elevator with its defaults, with each parameter at its ends, and with all at random.
fn every() -> Vec<String> {
    let mut all = specs::<dyn Elevator>("");
    let mut random = Random(7);
    for policy in POLICIES.iter().filter(|policy| !policy.parameters.is_empty()) {
        for _ in 0..8 {
            let mut settings = Vec::new();
            for parameter in policy.parameters {
                let span = parameter.high - parameter.low + 1;
                let small = span.min(1 << random.below(12));
                settings.push(format!(
                    "{}={}",
                    parameter.name,
                    parameter.low + random.below(small)
                ));
            }
            all.push(format!("{}:{}", policy.name, settings.join(",")));
        }
    }
    all.retain(|spec| Spec::parse(spec).is_ok());
    all
}

/// An elevator, a driver of some depth, and all that is known of the requests.
struct Queue {
    name: String,
    elevator: Box<dyn Elevator>,
    list: DispatchList,
    now: Instant,
    /// Those that the elevator has.
    waiting: BTreeMap<u32, Queued>,
    /// Those that it has dispatched and the driver has not taken.
    dispatched: VecDeque<Queued>,
    device: Vec<Queued>,
    depth: usize,
    requests: u32,
}

impl Queue {
    fn new(name: &str, depth: usize) -> Self {
        Self {
            name: String::from(name),
            elevator: Spec::parse(name).unwrap().build(),
            list: DispatchList::default(),
            now: Instant::ZERO,
            waiting: BTreeMap::new(),
            dispatched: VecDeque::new(),
            device: Vec::new(),
            depth,
            requests: 0,
        }
    }

    /// A request comes; says its name.
    fn insert(&mut self, mut request: Queued) -> RequestId {
        let id = RequestId(self.requests);
        request.id = id;
        self.requests += 1;
        self.waiting.insert(id.0, request);
        if self.elevator.insert(self.now, &request) == Kick::Now {
            self.run();
        }
        id
    }

    /// The driver takes requests up to the queue depth. Returns whether it took any.
    fn run(&mut self) -> bool {
        let before = self.device.len();
        while self.device.len() < self.depth && (!self.dispatched.is_empty() || self.ask()) {
            let request = self.dispatched.pop_front().unwrap();
            self.elevator.started(self.now, &request);
            self.device.push(request);
        }
        self.device.len() > before
    }

    /// Asks the elevator. Returns whether it dispatched anything.
    fn ask(&mut self) -> bool {
        self.elevator.dispatch(self.now, &mut self.list);
        let before = self.dispatched.len();
        while let Some(request) = self.list.pop() {
            let known = self.waiting.remove(&request.id.0);
            assert_eq!(known, Some(request), "{}: what leaves has waited", self.name);
            self.dispatched.push_back(request);
        }
        let idle = self.dispatched.len() == before && !self.waiting.is_empty();
        if idle && self.device.is_empty() && self.dispatched.is_empty() {
            assert!(self.elevator.timeout().is_some(), "{}: idles without end", self.name);
        }
        self.dispatched.len() > before
    }

    /// The device is done with one of its requests.
    fn complete(&mut self, place: usize) -> Queued {
        let request = self.device.swap_remove(place);
        if self.elevator.completed(self.now, &request) == Kick::Now {
            self.run();
        }
        request
    }

    /// Time passes until the elevator's timeout, while nothing else happens.
    fn wait_for_the_elevator(&mut self) {
        let idle = self.device.is_empty() && self.dispatched.is_empty();
        if idle && !self.waiting.is_empty() && !self.run() {
            let timeout = self.elevator.timeout().expect("an elevator that idles has a timeout");
            self.now = self.now.max(timeout);
            assert!(self.run(), "{}: goes on at its timeout, {timeout:?}", self.name);
        }
    }

    fn check(&self, random: &mut Random) {
        let name = &self.name;
        assert_eq!(self.elevator.is_empty(), self.waiting.is_empty(), "{name}: is_empty");
        let Some(known) = self.pick(random) else { return };
        for (sector, write) in
            [(known.sector, known.write), (known.sector, !known.write), (known.end(), known.write)]
        {
            if let Some(id) = self.elevator.starts_at(sector, write) {
                let found = self.waiting.get(&id.0).map(|one| (one.sector, one.write));
                assert_eq!(found, Some((sector, write)), "{name}: starts_at");
            }
        }
    }

    /// One of those that wait.
    fn pick(&self, random: &mut Random) -> Option<Queued> {
        let count = self.waiting.len() as u64;
        let place = random.below(count.max(1)) as usize;
        self.waiting.values().nth(place).copied()
    }

    fn change(&mut self, before: &Queued, after: Queued) {
        self.waiting.insert(before.id.0, after);
        self.elevator.grown(before, &after);
    }

    /// A bio joins a request that waits, at its end or its front.
    fn grow(&mut self, random: &mut Random) {
        let Some(before) = self.pick(random) else { return };
        let more = 8 * (1 + random.below(4));
        let front = random.below(2) == 0 && before.sector >= more;
        let bio = Queued { sectors: more, ..before };
        if !self.elevator.may_merge(&before, &bio) {
            return;
        }
        let sector = if front { before.sector - more } else { before.sector };
        self.change(&before, Queued { sector, sectors: before.sectors + more, ..before });
    }

    /// A request comes that touches one that waits, and the two become one.
    fn join(&mut self, random: &mut Random) {
        let Some(lower) = self.pick(random) else { return };
        let upper = self.insert(Queued { sector: lower.end(), sectors: 8, ..lower });
        let (Some(&lower), Some(&upper)) =
            (self.waiting.get(&lower.id.0), self.waiting.get(&upper.0))
        else {
            return;
        };
        // The earlier one may have joined too.
        let (kept, gone) = if random.below(4) > 0 { (lower, upper) } else { (upper, lower) };
        if !self.elevator.may_merge(&kept, &gone) {
            return;
        }
        let sectors = lower.sectors + upper.sectors;
        let after = Queued { sector: lower.sector, sectors, ..kept };
        self.waiting.remove(&gone.id.0);
        self.waiting.insert(kept.id.0, after);
        self.elevator.joined(&kept, &after, &gone);
    }
}

/// Where the tasks of a stream are.
struct Tasks {
    next: [u64; 5],
    /// Sectors are below this.
    size: u64,
}

impl Tasks {
    /// A request of one of the tasks or of the flusher, mostly behind the last one of the same.
    fn request(&mut self, random: &mut Random) -> Queued {
        let by = random.below(5) as usize;
        let write = by == 4 || random.below(8) == 0;
        let sector = match random.below(4) {
            0 => random.below(self.size),
            1 => self.next[by].saturating_sub(random.below(64)),
            _ => self.next[by],
        };
        let sectors = 8 * (1 + random.below(32));
        self.next[by] = sector + sectors;
        let task = (by < 4).then(|| CallId([0, 1, 700, 65_533][by]));
        let sync = by < 4;
        Queued { id: RequestId(0), sector, sectors, write, sync, task }
    }
}

/// A stream of requests. Says in which order they left.
fn stream(name: &str, seed: u64, size: u64) -> Vec<u32> {
    let mut random = Random(seed);
    let depth = 1 + random.below(8) as usize;
    let mut queue = Queue::new(name, depth);
    let mut tasks = Tasks { next: [0; 5].map(|_| random.below(size)), size };
    let mut order = Vec::new();
    let step = 1 + random.below(1 << (10 + seed % 18));
    for _ in 0..STEPS {
        queue.now += Duration(random.below(step));
        match random.below(12) {
            0..4 if queue.waiting.len() < 100 => {
                queue.insert(tasks.request(&mut random));
            }
            4 => queue.grow(&mut random),
            5 => queue.join(&mut random),
            6..8 => {
                queue.run();
            }
            8 => queue.wait_for_the_elevator(),
            _ if !queue.device.is_empty() => {
                let place = random.below(queue.device.len() as u64) as usize;
                order.push(queue.complete(place).id.0);
            }
            _ => {}
        }
        queue.check(&mut random);
    }
    while !queue.waiting.is_empty() || !queue.dispatched.is_empty() || !queue.device.is_empty() {
        queue.run();
        queue.wait_for_the_elevator();
        queue.now += Duration(random.below(step));
        order.push(queue.complete(0).id.0);
        queue.check(&mut random);
    }
    order
}

#[test]
fn nothing_is_lost_or_done_twice_and_an_elevator_that_idles_goes_on() {
    for name in every() {
        for seed in 0..6 {
            for size in [1 << 10, 1 << 22, 1 << 55] {
                let mut order = stream(&name, seed, size);
                assert!(order.len() > 100, "{name}: a stream that does something");
                let count = order.len();
                order.sort_unstable();
                order.dedup();
                assert_eq!(order.len(), count, "{name}");
            }
        }
    }
}

#[test]
fn the_same_requests_leave_in_the_same_order() {
    for name in every() {
        assert_eq!(stream(&name, 3, 1 << 22), stream(&name, 3, 1 << 22), "{name}");
    }
}
