//! Devices in a period.

use forebay_core::time::Duration;

use super::{Period, per_second};
use crate::number::DevNumber;
use crate::signal::{DiskCounts, DiskTraffic};

/// A device in a period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceView {
    /// Its number.
    pub number: DevNumber,
    /// Its name; of a backing device without a disk its number.
    pub name: String,
    /// Reads; zeros for a device without a disk, which is not counted.
    pub read: Flow,
    /// Writes.
    pub write: Flow,
    /// Requests in flight, on average.
    pub queue: f64,
    /// Requests in flight at the end.
    pub in_flight: u64,
    /// Share of the period with at least one request, 0 to 1. A device that serves many at once
    /// can be wholly busy and take more.
    pub busy: f64,
    /// The window that files get when they are opened, in bytes; none if it is not known.
    pub window: Option<u64>,
    /// Its dirty bytes and those on their way; none where they may not be read.
    pub unwritten: Option<u64>,
    /// Its own dirty limit in bytes.
    pub limit: Option<u64>,
    /// The kernel's estimate of its write bandwidth, in bytes a second.
    pub bandwidth: Option<u64>,
    /// Pauses of its writers, in ms.
    pub paused_ms: u64,
}

/// One direction of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// Bytes a second.
    pub bandwidth: f64,
    /// Requests a second.
    pub iops: f64,
    /// Mean time of a request in seconds; none if none ended.
    pub latency: Option<f64>,
}

impl DeviceView {
    /// Seconds until what is unwritten is on the device, by the kernel's estimate.
    pub fn drain(&self) -> Option<f64> {
        let bandwidth = self.bandwidth.filter(|bandwidth| *bandwidth > 0)?;
        Some(self.unwritten? as f64 / bandwidth as f64)
    }

    /// Whether anything went to or from it, waits for it or is dirty.
    pub fn is_active(&self) -> bool {
        self.read.iops + self.write.iops > 0.0
            || self.in_flight > 0
            || self.unwritten.unwrap_or(0) > 0
            || self.paused_ms > 0
    }
}

/// Disks, then backing devices without one that have something to write.
pub(super) fn devices(period: &Period<'_>, length: Duration) -> Vec<DeviceView> {
    let mut devices: Vec<DeviceView> =
        period.after.disks.iter().map(|disk| disk_view(period, disk, length)).collect();
    for bdi in &period.after.bdis {
        if devices.iter().all(|device| device.number != bdi.number) {
            let name = bdi.number.to_string();
            devices.push(DeviceView { number: bdi.number, name, ..DeviceView::default() });
        }
    }
    for device in &mut devices {
        add_writeback(period, device);
    }
    devices
}

fn disk_view(period: &Period<'_>, now: &DiskCounts, length: Duration) -> DeviceView {
    // A device that came in the midst of the period, or instead of another one, counts from 0; one
    // whose counters fell behind is another one.
    let then = period.before.disks.iter().find(|then| {
        then.number == now.number && then.name == now.name && then.busy_ms <= now.busy_ms
    });
    let nothing = DiskCounts::default();
    let then = then.unwrap_or(&nothing);
    let millis = |then: u64, now: u64| per_second(now.saturating_sub(then), length) / 1e3;
    DeviceView {
        number: now.number,
        name: now.name.clone(),
        read: flow(then.reads, now.reads, length),
        write: flow(then.writes, now.writes, length),
        queue: millis(then.queue_ms, now.queue_ms),
        in_flight: now.in_flight,
        busy: millis(then.busy_ms, now.busy_ms).min(1.0),
        ..DeviceView::default()
    }
}

fn flow(then: DiskTraffic, now: DiskTraffic, length: Duration) -> Flow {
    let requests = now.requests.saturating_sub(then.requests);
    let bytes = now.sectors.saturating_sub(then.sectors).saturating_mul(512);
    let millis = now.time_ms.saturating_sub(then.time_ms);
    Flow {
        bandwidth: per_second(bytes, length),
        iops: per_second(requests, length),
        latency: (requests > 0).then(|| millis as f64 / requests as f64 / 1e3),
    }
}

fn add_writeback(period: &Period<'_>, device: &mut DeviceView) {
    let bdi = period.after.bdis.iter().find(|bdi| bdi.number == device.number);
    device.unwritten = bdi.map(|bdi| bdi.reclaimable.saturating_add(bdi.writeback));
    device.limit = bdi.map(|bdi| bdi.threshold);
    // Events are fresher than what debugfs shows, which is kept from the last time of writing.
    let estimate = bdi.map(|bdi| bdi.bandwidth);
    device.bandwidth = period.writers.bandwidth(device.number).or(estimate);
    let paused = period.writers.pauses().filter(|(_, bdi, _)| *bdi == device.number);
    device.paused_ms = paused.map(|(_, _, pauses)| pauses.total_ms).sum();
    let known = period.machine.devices.iter().find(|known| known.number == device.number);
    let window = known.and_then(crate::machine::Device::read_ahead_kb);
    device.window = window.map(|kib| kib.saturating_mul(1024));
}
