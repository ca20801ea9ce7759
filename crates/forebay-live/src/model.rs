//! What a device can do, learnt from what it did while it was busy.
//!
//! Source:     Forebay; busy time and queue as in the kernel's admin-guide/iostats.rst
//! Behaviour:  differences of two samples tell a rate. A sample counts as a ceiling only if the
//!             device was busy for four fifths of it. The bandwidth and the rate of requests are
//!             the second highest of half a minute and fade slowly, the drain is a median, the
//!             latency a low rank.
//! Differs:    nothing.
//! Not for:    the first second: until a ceiling was seen, windows are careful defaults.
//!
//! ```text
//!   bytes/s
//!     W |            ________   requests are so large that bandwidth binds
//!       |          /
//!       |        /              below W / I a request costs the same however small it is:
//!       |      /                read around a fault up to there, not beyond
//!       +-----+----------------
//!            W / I     request size
//! ```

use forebay_core::time::Instant;

use crate::signal::{BdiCounts, DiskCounts, DiskTraffic};

/// What is known of one device.
#[derive(Clone, Debug, Default)]
pub struct DeviceModel {
    disk: Option<(Instant, Moment)>,
    bdi: Option<(Instant, BdiCounts)>,
    /// Bytes a second.
    drain: Ring<u64>,
    /// Bytes a second.
    bandwidth: Peak,
    /// Requests a second, and the bytes a second that came with them.
    requests: Peak,
    /// Microseconds of a read, and its bytes.
    latency: Ring<(u64, u64)>,
}

/// A value and how much stands behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The value.
    pub value: u64,
    /// Samples that it was learnt from, at least 1.
    pub samples: u32,
}

/// The counters of a disk that matter, without its name.
#[derive(Clone, Copy, Debug)]
struct Moment {
    reads: DiskTraffic,
    writes: DiskTraffic,
    busy_ms: u64,
    queue_ms: u64,
}

/// A ceiling: the second highest of the last values, remembered beyond them, since a smaller window
/// keeps it from being reached again. A highest value alone may be a burst.
#[derive(Clone, Debug, Default)]
struct Peak {
    last: Ring<(u64, u64)>,
    value: u64,
    with: u64,
}

/// The last [`KEPT`] values and how many there were.
#[derive(Clone, Debug)]
struct Ring<T> {
    values: [T; KEPT],
    seen: u32,
}

impl DeviceModel {
    /// Learns from a device's counters. Samples closer than 50 ms to the one before are passed
    /// over; counters that went back belong to another device and begin anew.
    pub fn observe(&mut self, at: Instant, counts: &DiskCounts) {
        let moment = Moment {
            reads: counts.reads,
            writes: counts.writes,
            busy_ms: counts.busy_ms,
            queue_ms: counts.queue_ms,
        };
        let Some((before, earlier)) = self.disk else {
            self.disk = Some((at, moment));
            return;
        };
        let nanos = at.since(before).as_nanos();
        if nanos < NANOS_MIN {
            return;
        }
        self.disk = Some((at, moment));
        if let Some(done) = moment.since(&earlier) {
            self.learn(nanos, &done);
        }
    }

    /// Learns the drain of a backing device that has no disk (FUSE, NFS), from its writeback: while
    /// pages are on their way at both ends of a period, it is taken to have been busy.
    pub fn observe_bdi(&mut self, at: Instant, counts: &BdiCounts) {
        let Some((before, earlier)) = self.bdi.replace((at, *counts)) else { return };
        let nanos = at.since(before).as_nanos();
        let Some(written) = counts.written.checked_sub(earlier.written) else { return };
        if nanos >= NANOS_MIN && written > 0 && counts.writeback > 0 && earlier.writeback > 0 {
            self.drain.push(rate(written, nanos));
        }
    }

    /// Bytes a second that it takes while it is never without a write: the median.
    pub fn drain(&self) -> Option<Known> {
        self.drain.rank(1, 2).map(|value| Known { value, samples: self.drain.seen })
    }

    /// Bytes a second that it gives at most, as far as seen.
    pub fn bandwidth(&self) -> Option<Known> {
        self.bandwidth.known()
    }

    /// Reads a second that it does at most, as far as seen.
    pub fn request_rate(&self) -> Option<Known> {
        self.requests.known()
    }

    /// Time of a read in us beyond that of its bytes, with little else in the queue.
    pub fn latency(&self) -> Option<Known> {
        let bandwidth = self.bandwidth().map_or(u64::MAX, |known| known.value);
        let beyond =
            |(us, bytes): (u64, u64)| us.saturating_sub(share(bytes, 1_000_000, bandwidth));
        let value = self.latency.map(beyond).rank(1, 8)?;
        Some(Known { value, samples: self.latency.seen })
    }

    /// Largest window around a fault in bytes: the size at which a request is as dear in bytes as
    /// in operations; from 16 KiB to 4 MiB, whole pages.
    ///
    /// While requests were only seen at full bandwidth, their rate could be higher still: then it
    /// is half of what they were, and 64 KiB at most, so that the next samples tell.
    pub fn window_for_faults(&self) -> u64 {
        let (Some(bandwidth), Some(rate)) = (self.bandwidth(), self.request_rate()) else {
            return FAULT_FIRST;
        };
        let window = bandwidth.value / rate.value.max(1);
        let is_full = u128::from(self.requests.with) * 10 >= u128::from(bandwidth.value) * 8;
        let window = if is_full { (window / 2).min(FAULT_FIRST) } else { window };
        window.clamp(FAULT_MIN, FAULT_MAX) & !(PAGE - 1)
    }

    /// Window of a stream in bytes: half of it under way covers the latency twice over; on devices
    /// that seek, two requests of the size at which seeking costs as much as reading; from 128 KiB
    /// to 16 MiB, whole pages.
    ///
    /// A ceiling that the present window keeps from being reached is not seen: the answer grows
    /// with what is seen and settles when the device is the limit.
    pub fn window_for_streams(&self) -> u64 {
        let Some(bandwidth) = self.bandwidth() else { return STREAM_MIN };
        let latency = self.latency().map_or(0, |known| known.value);
        let covered = share(bandwidth.value.saturating_mul(4), latency, 1_000_000);
        let seek =
            self.request_rate().map_or(0, |known| 2 * (bandwidth.value / known.value.max(1)));
        covered.max(seek).clamp(STREAM_MIN, STREAM_MAX) & !(PAGE - 1)
    }

    fn learn(&mut self, nanos: u64, done: &Moment) {
        let is_busy = u128::from(done.busy_ms) * 1_000_000 * 10 >= u128::from(nanos) * 8;
        let (read, written) = (done.reads.sectors, done.writes.sectors);
        if is_busy && done.writes.requests >= EVENTS_MIN && written >= read {
            self.drain.push(rate(written.saturating_mul(512), nanos));
        }
        if done.reads.requests < EVENTS_MIN || written > read / 4 {
            return;
        }
        let bytes = read.saturating_mul(512);
        if is_busy {
            self.bandwidth.push(rate(bytes, nanos), 0);
            self.requests.push(rate(done.reads.requests, nanos), rate(bytes, nanos));
        }
        let is_shallow = u128::from(done.queue_ms) * 1_000_000 <= u128::from(nanos) * 2;
        if is_shallow {
            let us = done.reads.time_ms.saturating_mul(1_000) / done.reads.requests;
            self.latency.push((us, bytes / done.reads.requests));
        }
    }
}

impl Moment {
    /// What was done since; none if a counter went back.
    fn since(&self, earlier: &Self) -> Option<Self> {
        let traffic = |now: DiskTraffic, then: DiskTraffic| {
            Some(DiskTraffic {
                requests: now.requests.checked_sub(then.requests)?,
                sectors: now.sectors.checked_sub(then.sectors)?,
                time_ms: now.time_ms.checked_sub(then.time_ms)?,
            })
        };
        Some(Self {
            reads: traffic(self.reads, earlier.reads)?,
            writes: traffic(self.writes, earlier.writes)?,
            busy_ms: self.busy_ms.checked_sub(earlier.busy_ms)?,
            queue_ms: self.queue_ms.checked_sub(earlier.queue_ms)?,
        })
    }
}

impl Peak {
    fn push(&mut self, value: u64, with: u64) {
        self.last.push((value, with));
        self.value -= self.value / FORGET;
        let (value, with) = self.last.second_highest().unwrap_or_default();
        if value >= self.value {
            (self.value, self.with) = (value, with);
        }
    }

    fn known(&self) -> Option<Known> {
        (self.last.seen > 0).then_some(Known { value: self.value, samples: self.last.seen })
    }
}

impl<T: Copy + Default + Ord> Ring<T> {
    fn push(&mut self, value: T) {
        self.values[self.seen as usize % KEPT] = value;
        // Wrapping to a count below the ring's size would forget; a second each, it takes decades.
        self.seen = self.seen.saturating_add(1);
    }

    /// The value with so large a share of the others below it.
    fn rank(&self, of: usize, parts: usize) -> Option<T> {
        let (values, len) = self.sorted();
        values.get(..len)?.get((len.max(1) - 1) * of / parts).copied()
    }

    /// The highest but one, or the only one.
    fn second_highest(&self) -> Option<T> {
        let (values, len) = self.sorted();
        values.get(..len)?.get(len.saturating_sub(2)).copied()
    }

    /// The values in order, and how many of them count.
    fn sorted(&self) -> ([T; KEPT], usize) {
        let (mut values, len) = (self.values, (self.seen as usize).min(KEPT));
        values[..len].sort_unstable();
        (values, len)
    }

    fn map<U: Copy + Default>(&self, change: impl Fn(T) -> U) -> Ring<U> {
        Ring { values: self.values.map(change), seen: self.seen }
    }
}

impl<T: Copy + Default> Default for Ring<T> {
    fn default() -> Self {
        Self { values: [T::default(); KEPT], seen: 0 }
    }
}

/// So many in so many nanoseconds, a second; rounds down.
fn rate(count: u64, nanos: u64) -> u64 {
    share(count, 1_000_000_000, nanos)
}

/// `of` times `parts` by `whole`, rounded down, at most what a number holds.
fn share(of: u64, parts: u64, whole: u64) -> u64 {
    let share = u128::from(of) * u128::from(parts) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// How many values a ceiling looks back on: half a minute at one sample a second.
const KEPT: usize = 32;

/// A ceiling that is not seen again fades by half in 700 samples.
const FORGET: u64 = 1024;

/// The shortest period that tells a rate; busy time is counted in ticks of up to 10 ms.
const NANOS_MIN: u64 = 50_000_000;

/// Below this many requests a period says nothing of a rate.
const EVENTS_MIN: u64 = 16;

const PAGE: u64 = 4096;
const FAULT_MIN: u64 = 16 << 10;
const FAULT_MAX: u64 = 4 << 20;

/// A window around faults that no device suffers from: eight times smaller than what makes faults
/// slower on a cloud's volume, and no slower than a page on a disk that seeks.
const FAULT_FIRST: u64 = 64 << 10;

/// The kernel's own default.
const STREAM_MIN: u64 = 128 << 10;
const STREAM_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// A second of a device: reads a second of so many KiB and us each, busy for so many ms.
    struct Second {
        reads: u64,
        kib: u64,
        us: u64,
        writes: u64,
        write_kib: u64,
        busy_ms: u64,
    }

    const IDLE: Second = Second { reads: 0, kib: 0, us: 0, writes: 0, write_kib: 0, busy_ms: 0 };

    fn played(model: &mut DeviceModel, counts: &mut DiskCounts, at: &mut u64, seconds: &[Second]) {
        for it in seconds {
            *at += 1_000_000_000;
            counts.reads.requests += it.reads;
            counts.reads.sectors += it.reads * it.kib * 2;
            counts.reads.time_ms += it.reads * it.us / 1_000;
            counts.queue_ms += it.reads * it.us / 1_000;
            counts.writes.requests += it.writes;
            counts.writes.sectors += it.writes * it.write_kib * 2;
            counts.busy_ms += it.busy_ms;
            model.observe(Instant(*at), counts);
        }
    }

    fn model(seconds: &[Second]) -> DeviceModel {
        let (mut model, mut counts, mut at) = (DeviceModel::default(), DiskCounts::default(), 0);
        model.observe(Instant(0), &counts);
        played(&mut model, &mut counts, &mut at, seconds);
        model
    }

    fn writing(busy_ms: u64) -> Second {
        Second { writes: 40, write_kib: 512, busy_ms, ..IDLE }
    }

    #[test]
    fn the_drain_is_learnt_only_while_the_device_is_busy() {
        assert_eq!(model(&[writing(700), writing(790)]).drain(), None);
        let known = Known { value: 40 * 512 * 1024, samples: 2 };
        let model = model(&[writing(300), writing(1000), IDLE, writing(800)]);
        assert_eq!(model.drain(), Some(known));
    }

    #[test]
    fn a_mount_s_drain_is_learnt_from_its_writeback() {
        let mut model = DeviceModel::default();
        let mut counts = BdiCounts { writeback: 1, ..BdiCounts::default() };
        for second in 1..=3 {
            model.observe_bdi(Instant(second * 1_000_000_000), &counts);
            counts.written += 20_000_000;
        }
        assert_eq!(model.drain(), Some(Known { value: 20_000_000, samples: 2 }));
        counts.writeback = 0;
        model.observe_bdi(Instant(9_000_000_000), &counts);
        assert_eq!(model.drain().unwrap().samples, 2);
    }

    /// A cloud's volume: 125 MiB/s and 3000 requests a second.
    #[test]
    fn faults_on_a_capped_volume_come_down_to_bandwidth_by_rate() {
        let (mut model, mut counts, mut at) = (DeviceModel::default(), DiskCounts::default(), 0);
        model.observe(Instant(0), &counts);
        // Windows of 8 MiB: requests of 4 MiB, all of the bandwidth.
        let storm = || Second { reads: 31, kib: 4096, us: 64_000, busy_ms: 1000, ..IDLE };
        played(&mut model, &mut counts, &mut at, &[storm()]);
        assert_eq!(model.window_for_faults(), 64 << 10);
        // Windows of 64 KiB still fill the bandwidth, so more requests may be possible.
        let fewer = || Second { reads: 2000, kib: 64, us: 480, busy_ms: 1000, ..IDLE };
        played(&mut model, &mut counts, &mut at, &[fewer(), fewer()]);
        assert_eq!(model.window_for_faults(), 32 << 10);
        // At 32 KiB the rate of requests binds: W / I is known.
        let bound = || Second { reads: 3000, kib: 32, us: 320, busy_ms: 1000, ..IDLE };
        for _ in 0..20 {
            played(&mut model, &mut counts, &mut at, &[bound()]);
        }
        assert_eq!(model.window_for_faults(), 40 << 10);
        // What was learnt stays when nothing tells of it any more.
        for _ in 0..2 * KEPT {
            played(&mut model, &mut counts, &mut at, &[bound()]);
        }
        assert!((32 << 10..=40 << 10).contains(&model.window_for_faults()));
    }

    /// A disk that seeks: 160 MB/s and 150 requests a second.
    #[test]
    fn a_stream_on_a_disk_that_seeks_grows_until_bandwidth_binds() {
        let (mut model, mut counts, mut at) = (DeviceModel::default(), DiskCounts::default(), 0);
        model.observe(Instant(0), &counts);
        let mut kib = 128;
        for _ in 0..8 {
            let reads = 150.min(160_000 / kib);
            let second = Second { reads, kib, us: 6_600, busy_ms: 1000, ..IDLE };
            played(&mut model, &mut counts, &mut at, &[second]);
            kib = model.window_for_streams() >> 10;
        }
        assert!((1_900..=2_400).contains(&kib), "{kib} KiB");
    }

    #[test]
    fn a_stream_over_a_latency_covers_it() {
        let second = || Second { reads: 2_000, kib: 128, us: 2_400, busy_ms: 1000, ..IDLE };
        // Five requests are in flight: too deep for a latency.
        assert_eq!(model(&[second()]).latency(), None);
        let second = || Second { reads: 800, kib: 128, us: 2_400, busy_ms: 1000, ..IDLE };
        let model = model(&[second(), second(), second()]);
        // 1250 us of 2400 are the bytes' own at the bandwidth that was seen.
        assert_eq!(model.latency(), Some(Known { value: 1_150, samples: 3 }));
        assert_eq!(model.window_for_streams(), (4 * 800 * 128 * 1024 * 1_150 / 1_000_000) & !4095);
    }

    #[test]
    fn nothing_is_known_of_an_idle_device() {
        let model = model(&[IDLE, IDLE, IDLE]);
        let known = [model.drain(), model.bandwidth(), model.request_rate(), model.latency()];
        assert_eq!(known, [None; 4]);
        assert_eq!(model.window_for_faults(), FAULT_FIRST);
        assert_eq!(model.window_for_streams(), STREAM_MIN);
    }

    #[test]
    fn counters_that_go_back_or_burst_do_no_harm() {
        let mut model = DeviceModel::default();
        let full = DiskTraffic { requests: u64::MAX, sectors: u64::MAX, time_ms: u64::MAX };
        let wild = DiskCounts {
            reads: full,
            writes: full,
            busy_ms: u64::MAX,
            queue_ms: u64::MAX,
            ..DiskCounts::default()
        };
        let mut at = 0;
        for counts in [&wild, &DiskCounts::default(), &wild, &wild, &DiskCounts::default()] {
            at += 1_000_000_000;
            model.observe(Instant(at), counts);
            // Time that stands still or goes back tells nothing.
            model.observe(Instant(at), &wild);
            model.observe(Instant(0), &wild);
        }
        let windows = [model.window_for_faults(), model.window_for_streams()];
        assert!(windows.iter().all(|window| (FAULT_MIN..=STREAM_MAX).contains(window)));
    }
}
