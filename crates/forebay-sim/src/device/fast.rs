//! A fast device: k units side by side, each busy until it is done, behind one shared link.
//!
//! Source:     NVMeVirt's simple model (Kim et al., FAST 2023); its calibration for the Samsung
//!             970 PRO; the virtual disk measured in docs/devices.md, fast device.
//! Behaviour:  a request is cut into stripes. Each stripe takes the unit that is free first, and
//!             pays the fixed delay once per unit and request, and the unit's time per byte. The
//!             bytes then cross the link one after another. The request completes with its last
//!             stripe. A few requests may have a much longer delay, in addition to the jitter of
//!             all. Writes may have their own delay, and drain at their own rate once a buffer of
//!             them is full. They lie in a volatile cache: a flush waits for all earlier writes,
//!             and takes its own time; a durable write also takes that time, for itself. A discard
//!             takes one unit for the delay of a write, whatever its length.
//! Differs:    a stripe takes the first free unit where NVMeVirt takes the unit of its address, so
//!             random requests do not collide by chance; flash pages, erasing and the write
//!             buffer are left out.
//! Not for:    long writes, where a real drive runs out of erased blocks.

use forebay_core::time::{Duration, Instant};

use super::{Command, Completion, Device, DeviceAccess, transfer_time};
use crate::rng::Rng;

/// What a fast device is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastParameters {
    /// Requests or stripes that are served at once, from 1 to [`UNITS_MAX`].
    pub units: u32,
    /// Time before the first byte.
    pub delay_ns: u64,
    /// Bytes a second of one unit.
    pub unit_bytes_per_s: u64,
    /// Bytes a second of all units together.
    pub link_bytes_per_s: u64,
    /// Bytes that one unit serves of one request before the next unit takes over.
    pub stripe_bytes: u64,
    /// Time to empty the volatile cache; zero if the device has none.
    pub flush_ns: u64,
    /// Time before the first byte of a write; as of a read if zero.
    pub write_delay_ns: u64,
    /// Bytes a second at which writes leave the buffer.
    pub write_bytes_per_s: u64,
    /// Bytes of writes that are done before they have left the buffer.
    pub write_buffer_bytes: u64,
    /// Sigma of the log-normal jitter on the delay.
    pub jitter_sigma_ppm: u64,
    /// How many of a million requests are much slower than the others.
    pub tail_ppm: u64,
    /// The time added to the delay of those.
    pub tail_ns: u64,
}

/// A fast device at work.
///
/// ```text
///   request of 3 stripes      unit 0  [delay][ stripe 0 ]
///   at 3 free units           unit 1  [delay][ stripe 1 ]
///                             unit 2  [delay][ stripe 2 ]
///                             link               [0][1][2]   done with the last
/// ```
#[derive(Clone, Debug)]
pub struct Fast {
    parameters: FastParameters,
    units: Vec<Unit>,
    /// Requests so far.
    requests: u64,
    link_free: Instant,
    /// The latest end of the writes so far.
    written: Instant,
    /// When the buffer of writes is empty.
    drained: Instant,
    /// What the tail adds to the delay of the latest request.
    late: Duration,
    rng: Rng,
    tail: Rng,
}

#[derive(Clone, Copy, Debug)]
struct Unit {
    free: Instant,
    /// The last request whose delay it has paid, counted from one.
    request: u64,
}

impl FastParameters {
    /// A device that is done at once.
    pub const fn null() -> Self {
        Self {
            units: 1,
            delay_ns: 0,
            unit_bytes_per_s: u64::MAX,
            link_bytes_per_s: u64::MAX,
            stripe_bytes: u64::MAX,
            flush_ns: 0,
            write_delay_ns: 0,
            write_bytes_per_s: u64::MAX,
            write_buffer_bytes: 0,
            jitter_sigma_ppm: 0,
            tail_ppm: 0,
            tail_ns: 0,
        }
    }
}

impl Fast {
    /// An idle device; `seed` names its jitter.
    pub fn new(parameters: FastParameters, seed: u64) -> Self {
        let units = parameters.units.clamp(1, UNITS_MAX) as usize;
        Self {
            parameters,
            units: vec![Unit { free: Instant::ZERO, request: 0 }; units],
            requests: 0,
            link_free: Instant::ZERO,
            written: Instant::ZERO,
            drained: Instant::ZERO,
            late: Duration::ZERO,
            rng: Rng::new(seed).fork("fast-jitter", 0),
            tail: Rng::new(seed).fork("fast-tail", 0),
        }
    }

    /// Serves one stripe of the latest request, `bytes` long, at the unit that is free first.
    fn stripe(&mut self, now: Instant, bytes: u64, delay: Duration) -> (Instant, Instant) {
        let units = self.units.iter_mut();
        let unit = units.min_by_key(|unit| unit.free).expect("a device has at least one unit");
        let start = now.max(unit.free);
        let delay = if std::mem::replace(&mut unit.request, self.requests) == self.requests {
            Duration::ZERO
        } else {
            self.rng.jittered(delay, self.parameters.jitter_sigma_ppm) + self.late
        };
        let ready = start + delay;
        // The link carries a stripe while the unit delivers it, so the slower of the two counts.
        let on_link = transfer_time(bytes, self.parameters.link_bytes_per_s);
        let link_done = ready.max(self.link_free) + on_link;
        self.link_free = link_done;
        let unit_done = ready + transfer_time(bytes, self.parameters.unit_bytes_per_s);
        unit.free = unit_done.max(link_done);
        (start, unit.free)
    }
}

impl Fast {
    /// Moves the bytes of one request.
    fn transfer(&mut self, now: Instant, access: &DeviceAccess, delay: Duration) -> Completion {
        let stripe_bytes = self.parameters.stripe_bytes.max(1);
        self.requests += 1;
        // Chance is drawn once for every request, so that a larger share includes the same
        // requests.
        let late = self.tail.chance(self.parameters.tail_ppm);
        self.late = Duration(if late { self.parameters.tail_ns } else { 0 });
        let mut left = access.bytes();
        let (mut start, mut done) = (None, now);
        loop {
            let bytes = left.min(stripe_bytes);
            let (begun, ended) = self.stripe(now, bytes, delay);
            start = start.or(Some(begun));
            done = done.max(ended);
            left -= bytes;
            if left == 0 {
                break;
            }
        }
        let start = start.expect("a request has at least one stripe");
        Completion::success(start, done)
    }

    /// The time before the first byte of a write.
    fn write_delay(&self) -> Duration {
        let FastParameters { delay_ns, write_delay_ns, .. } = self.parameters;
        Duration(if write_delay_ns > 0 { write_delay_ns } else { delay_ns })
    }

    /// Occupies one unit for the delay of a write; no bytes move.
    fn discard(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        self.transfer(now, &DeviceAccess { sectors: 0, ..*access }, self.write_delay())
    }

    /// Moves the bytes of a write that ends `after` they are in the cache.
    fn write(&mut self, now: Instant, access: &DeviceAccess, after: Duration) -> Completion {
        let moved = self.transfer(now, access, self.write_delay());
        let rate = self.parameters.write_bytes_per_s;
        self.drained = self.drained.max(now) + transfer_time(access.bytes(), rate);
        // The data that remains when the write completes fits into the buffer.
        let buffered = transfer_time(self.parameters.write_buffer_bytes, rate);
        let has_room = Instant(self.drained.0.saturating_sub(buffered.as_nanos()));
        let done = moved.done.max(has_room) + after;
        self.written = self.written.max(done);
        Completion { done, ..moved }
    }

    fn flush(&mut self, now: Instant) -> Completion {
        let done = now.max(self.written).max(self.drained) + Duration(self.parameters.flush_ns);
        self.written = done;
        Completion::success(now, done)
    }
}

impl Device for Fast {
    fn service(&mut self, now: Instant, access: &DeviceAccess) -> Completion {
        match access.command {
            Command::Read => self.transfer(now, access, Duration(self.parameters.delay_ns)),
            Command::Write => self.write(now, access, Duration::ZERO),
            Command::DurableWrite => self.write(now, access, Duration(self.parameters.flush_ns)),
            Command::Flush => self.flush(now),
            Command::Discard => self.discard(now, access),
        }
    }
}

/// The most units that a device may have.
pub const UNITS_MAX: u32 = 4_096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::MILLION;

    const UNLIMITED: u64 = u64::MAX;

    fn plain(units: u32, delay_ns: u64) -> FastParameters {
        FastParameters { units, delay_ns, ..FastParameters::null() }
    }

    /// Reads of 4 KiB with `depth` of them always under way; the time of all.
    fn closed_loop(parameters: FastParameters, depth: usize, count: usize) -> Duration {
        let mut device = Fast::new(parameters, 1);
        let mut under_way = vec![Instant::ZERO; depth];
        for index in 0..count {
            let next = under_way.iter_mut().min().expect("the depth is not zero");
            *next = device.service(*next, &DeviceAccess::read(index as u64 * 8, 8)).done;
        }
        under_way.into_iter().max().unwrap().since(Instant::ZERO)
    }

    #[test]
    fn the_null_device_is_done_at_once() {
        let mut device = Fast::new(FastParameters::null(), 0);
        let done = device.service(Instant(5), &DeviceAccess::read(0, 2048));
        assert_eq!(done, Completion::success(Instant(5), Instant(5)));
    }

    #[test]
    fn one_request_takes_the_delay_and_its_bytes() {
        let parameters = FastParameters { unit_bytes_per_s: 2_900_000_000, ..plain(8, 55_000) };
        let mut device = Fast::new(parameters, 0);
        let done = device.service(Instant(7), &DeviceAccess::read(0, 2048)).done;
        assert_eq!(done.since(Instant(7)), Duration(55_000 + 361_578));
    }

    #[test]
    fn throughput_grows_with_the_depth_and_saturates_at_the_units() {
        let parameters = FastParameters { unit_bytes_per_s: 4_096_000_000, ..plain(8, 9_000) };
        let time = |depth| closed_loop(parameters, depth, 8_000).as_nanos();
        assert_eq!(time(1), 8_000 * 10_000);
        assert_eq!(time(4), 2_000 * 10_000);
        assert_eq!(time(8), 1_000 * 10_000);
        assert_eq!(time(32), 1_000 * 10_000);
    }

    #[test]
    fn the_link_bounds_what_the_units_deliver_together() {
        let parameters = FastParameters { link_bytes_per_s: 4_096_000_000, ..plain(64, 9_000) };
        let time = closed_loop(parameters, 64, 64_000).as_nanos();
        assert!((64_000_000..64_000_000 + 20_000).contains(&time), "{time}");
    }

    #[test]
    fn writes_go_fast_until_the_buffer_is_full_and_a_flush_waits_for_it() {
        let parameters = FastParameters {
            write_delay_ns: 20_000,
            write_bytes_per_s: 100_000_000,
            write_buffer_bytes: 4 << 20,
            flush_ns: 5_000,
            ..plain(1, 9_000)
        };
        let mut device = Fast::new(parameters, 0);
        let mut now = Instant::ZERO;
        let mut took = |device: &mut Fast| {
            let done = device.service(now, &DeviceAccess::write(0, 2_048)).done;
            let took = done.since(now).as_nanos();
            now = done;
            took
        };
        // A MiB takes 10.5 ms to drain; four of them are taken at once.
        let fast: Vec<u64> = (0..4).map(|_| took(&mut device)).collect();
        assert_eq!(fast, [20_000; 4]);
        assert!(took(&mut device) > 10_000_000);
        assert_eq!(took(&mut device), 10_485_760);
        let flushed = device.service(now, &DeviceAccess::flush()).done;
        assert_eq!(flushed.since(now), Duration(4 * 10_485_760 + 5_000));
        let read = device.service(flushed, &DeviceAccess::read(0, 8)).done;
        assert_eq!(read.since(flushed), Duration(9_000));
    }

    #[test]
    fn a_striped_request_uses_the_units_side_by_side() {
        let stripe = FastParameters { stripe_bytes: 4096, ..plain(8, 9_000) };
        let parameters = FastParameters { unit_bytes_per_s: 4_096_000, ..stripe };
        let mut device = Fast::new(parameters, 0);
        // Sixteen stripes over eight units: two each, the delay once.
        let done = device.service(Instant::ZERO, &DeviceAccess::read(0, 128)).done;
        assert_eq!(done, Instant(9_000 + 2 * 1_000_000));
    }

    #[test]
    fn one_unit_waits_as_long_as_theory_says_of_a_fixed_service_time() {
        // M/D/1: the mean wait is load * service / (2 * (1 - load)).
        for (load_percent, count) in [(50_u64, 1_000_000_u64), (70, 2_000_000)] {
            let service = 10_000;
            let mut device = Fast::new(plain(1, service), 0);
            let mut arrivals = Rng::new(42).fork("arrivals", load_percent);
            let (mut now, mut waited) = (Instant::ZERO, 0);
            for _ in 0..count {
                now += arrivals.exponential(Duration(service * 100 / load_percent));
                let completion = device.service(now, &DeviceAccess::read(0, 8));
                waited += completion.start.since(now).as_nanos();
            }
            let theory = load_percent * service / (2 * (100 - load_percent));
            let found = waited / count;
            assert!(found.abs_diff(theory) * 50 <= theory, "{load_percent}: {found} {theory}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_log() {
        let log = |seed| {
            let parameters = FastParameters { jitter_sigma_ppm: 300_000, ..plain(4, 50_000) };
            let mut device = Fast::new(parameters, seed);
            let at = |index| device.service(Instant(index), &DeviceAccess::read(index, 8)).done;
            (0..1_000).map(at).collect::<Vec<_>>()
        };
        assert_eq!(log(3), log(3));
        assert_ne!(log(3), log(4));
    }

    #[test]
    fn jitter_leaves_the_mean_delay() {
        let jittered = FastParameters { jitter_sigma_ppm: 300_000, ..plain(1, 50_000) };
        let parameters = FastParameters { link_bytes_per_s: UNLIMITED, ..jittered };
        let mean = closed_loop(parameters, 1, 100_000).as_nanos() / 100_000;
        assert!((49_800..50_200).contains(&mean), "{mean}");
    }

    /// The times of reads that do not wait for each other.
    fn times(parameters: FastParameters, seed: u64, sectors: u64) -> Vec<u64> {
        let mut device = Fast::new(parameters, seed);
        let read = |index: u64| {
            let now = Instant(index * 1_000_000_000);
            device.service(now, &DeviceAccess::read(0, sectors)).done.since(now).as_nanos()
        };
        (0..100_000).map(read).collect()
    }

    #[test]
    fn the_tail_is_its_share_of_the_requests_and_its_delay_late() {
        let tail = FastParameters { tail_ppm: 10_000, tail_ns: 900_000, ..plain(1, 50_000) };
        let times = times(tail, 1, 8);
        let late = times.iter().filter(|time| **time == 950_000).count();
        assert!((900..1_100).contains(&late), "{late}");
        assert!(times.iter().all(|time| [50_000, 950_000].contains(time)));
    }

    #[test]
    fn a_request_of_many_stripes_is_late_once() {
        let striped = FastParameters { stripe_bytes: 4_096, ..plain(8, 9_000) };
        let tail = FastParameters { tail_ppm: MILLION, tail_ns: 100_000, ..striped };
        assert!(times(tail, 1, 256).iter().all(|time| *time == 109_000));
    }

    #[test]
    fn the_tail_leaves_the_jitter_of_every_request_as_it_is() {
        let jitter = FastParameters { jitter_sigma_ppm: 300_000, ..plain(1, 50_000) };
        let with = |tail_ppm| {
            let parameters = FastParameters { tail_ppm, tail_ns: 7_000_000, ..jitter };
            times(parameters, 5, 8)
        };
        let (none, few, more) = (with(0), with(10_000), with(50_000));
        let late = |times: &[u64]| -> Vec<usize> {
            let late = |at: &usize| times[*at] == none[*at] + 7_000_000;
            (0..times.len()).filter(late).collect()
        };
        let (few_late, more_late) = (late(&few), late(&more));
        assert!(few_late.iter().all(|at| more_late.contains(at)));
        let changed = (0..none.len()).filter(|at| few[*at] != none[*at]).count();
        assert_eq!((changed, none), (few_late.len(), with(0)));
        assert!((900..1_100).contains(&changed), "{changed}");
    }

    #[test]
    fn a_flush_ends_after_every_write_that_was_given_before() {
        let parameters = FastParameters { flush_ns: 700, ..plain(4, 9_000) };
        let mut device = Fast::new(parameters, 0);
        let writes = (0..10).map(|at| device.service(Instant(1), &DeviceAccess::write(at * 8, 8)));
        let last = writes.map(|written| written.done).max().unwrap();
        assert_eq!(last, Instant(1 + 3 * 9_000));
        let flushed = device.service(Instant(2), &DeviceAccess::flush()).done;
        assert_eq!(flushed, last + Duration(700));
        // The second flush finds the first one under way.
        let again = device.service(Instant(3), &DeviceAccess::flush()).done;
        assert_eq!(again, flushed + Duration(700));
    }

    #[test]
    fn a_flush_does_not_wait_for_reads() {
        let mut device = Fast::new(FastParameters { flush_ns: 700, ..plain(4, 9_000) }, 0);
        device.service(Instant(1), &DeviceAccess::read(0, 8));
        assert_eq!(device.service(Instant(2), &DeviceAccess::flush()).done, Instant(702));
    }

    #[test]
    fn a_durable_write_is_a_write_and_the_time_of_a_flush() {
        let mut device = Fast::new(FastParameters { flush_ns: 700, ..plain(1, 9_000) }, 0);
        let done = device.service(Instant(0), &DeviceAccess::durable_write(0, 8)).done;
        assert_eq!(done, Instant(9_700));
        // The unit is free while the cache is emptied.
        assert_eq!(device.service(Instant(0), &DeviceAccess::write(8, 8)).done, Instant(18_000));
    }

    #[test]
    fn a_discard_takes_a_unit_for_the_delay_of_a_write_whatever_its_length() {
        let parameters = FastParameters {
            write_delay_ns: 20_000,
            unit_bytes_per_s: 1_000_000,
            link_bytes_per_s: 1_000_000,
            write_bytes_per_s: 1_000,
            ..plain(1, 9_000)
        };
        let mut device = Fast::new(parameters, 0);
        let discard = DeviceAccess::discard(0, 1 << 30);
        assert_eq!(device.service(Instant(0), &discard).done, Instant(20_000));
        assert_eq!(device.service(Instant(0), &discard).done, Instant(40_000));
        assert_eq!(device.service(Instant(40_000), &DeviceAccess::flush()).done, Instant(40_000));
    }

    #[test]
    fn the_most_units_and_an_empty_request_are_served() {
        let mut device = Fast::new(plain(u32::MAX, 10), 0);
        assert_eq!(device.units.len(), UNITS_MAX as usize);
        assert_eq!(device.service(Instant(1), &DeviceAccess::read(0, 0)).done, Instant(11));
    }
}
