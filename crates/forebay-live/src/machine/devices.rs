//! `/sys/block` and `/sys/class/bdi`: backing devices and their knobs.

use std::collections::BTreeMap;

use super::attribute::Attributes;
use super::{Bdi, Device, Kind, Mount, Queue, kind};
use crate::number::DevNumber;

/// Every backing device that a tree shows: disks, then what has no disk.
pub(super) fn read(from: &mut Attributes<'_>, mounts: &[Mount]) -> Vec<Device> {
    let names = from.names("/sys/block");
    let mut partition_of = BTreeMap::new();
    let mut devices: Vec<Device> = Vec::new();
    for name in &names {
        devices.extend(disk(from, name, &mut partition_of));
    }
    for device in &mut devices {
        for below in &mut device.below {
            // Stacked devices often lie on a partition; its whole device has the queue.
            if let Some(whole) = partition_of.get(below) {
                below.clone_from(whole);
            }
        }
        device.below.dedup();
    }
    let disks = devices.len();
    for name in from.names("/sys/class/bdi") {
        let number = name.parse::<DevNumber>().ok();
        let of_disk = number.and_then(|it| devices[..disks].iter_mut().find(|d| d.number == it));
        let bdi = bdi(from, &name);
        match of_disk {
            Some(disk) => disk.bdi = bdi,
            None => devices.extend(without_disk(from, name, bdi, mounts, &partition_of)),
        }
    }
    devices
}

/// A disk, or nothing if it went away meanwhile.
fn disk(
    from: &mut Attributes<'_>,
    name: &str,
    partition_of: &mut BTreeMap<String, String>,
) -> Option<Device> {
    let folder = format!("/sys/block/{name}");
    let text = from.optional(&format!("{folder}/dev"))?;
    let number = match text.parse() {
        Ok(number) => number,
        Err(error) => {
            from.gap(format!("{folder}/dev: {error}"));
            return None;
        }
    };
    let place = from.tree.link(&folder).unwrap_or_default().to_string_lossy().into_owned();
    let model = model(from, &folder);
    let kind = kind::of_disk(name, &place, &model);
    let mut sectors = |path: &str| from.optional_number(&format!("{folder}/{path}"), "size");
    let size = sectors("size").unwrap_or(0).saturating_mul(512);
    let says = from.optional_number(&format!("{folder}/removable"), "removable") == Some(1);
    let card = from.optional_word(&format!("{folder}/device/type")).as_deref() == Some("SD");
    let mut partitions = Vec::new();
    for part in from.names(&folder) {
        // A partition's name begins with its device's, which saves looking into other folders.
        if !part.starts_with(name) {
            continue;
        }
        let dev = from.optional(&format!("{folder}/{part}/dev"));
        if let Some(number) = dev.and_then(|text| text.parse().ok()) {
            partitions.push(number);
            partition_of.insert(part, name.to_owned());
        }
    }
    Some(Device {
        number,
        name: name.to_owned(),
        kind,
        model,
        bus_rate: bus_rate(from, &place),
        diskseq: from.optional_number(&format!("{folder}/diskseq"), "diskseq"),
        size,
        removable: says || place.contains("/usb") || (kind == Kind::Mmc && card),
        below: from.tree.names(&format!("{folder}/slaves")).unwrap_or_default(),
        partitions,
        queue: queue(from, &format!("{folder}/queue")),
        bdi: None,
    })
}

/// Vendor and model, as SCSI, NVMe and card drivers show them.
fn model(from: &mut Attributes<'_>, folder: &str) -> String {
    let mut words = Vec::new();
    for name in ["vendor", "model", "name"] {
        let text = from.optional_word(&format!("{folder}/device/{name}")).unwrap_or_default();
        // Virtio's vendor is a number.
        if !text.is_empty() && !text.starts_with("0x") {
            words.push(text);
        }
    }
    words.join(" ")
}

/// What a USB device's bus carries, by the nearest `speed` above the disk, in megabits a second.
fn bus_rate(from: &mut Attributes<'_>, place: &str) -> Option<u64> {
    let mut place = place.strip_prefix("../")?;
    place.contains("/usb").then_some(())?;
    while let Some((above, _)) = place.rsplit_once('/') {
        place = above;
        if let Some(megabits) = from.optional_number(&format!("/sys/{place}/speed"), "speed") {
            return Some(megabits.saturating_mul(1_000_000 / 8));
        }
    }
    None
}

/// A queue; none if its window cannot be read, for there is nothing to steer then.
fn queue(from: &mut Attributes<'_>, folder: &str) -> Option<Queue> {
    let window = format!("{folder}/read_ahead_kb");
    let read_ahead_kb = from.optional_number(&window, "read_ahead_kb")?;
    let schedulers = from.optional(&format!("{folder}/scheduler")).unwrap_or_default();
    let write_cache = from.optional_word(&format!("{folder}/write_cache")).unwrap_or_default();
    let mut number = |name| from.optional_number(&format!("{folder}/{name}"), name);
    let wbt_lat_usec = number("wbt_lat_usec");
    let mut or_zero = |name| number(name).unwrap_or(0);
    Some(Queue {
        read_ahead_kb,
        rotational: or_zero("rotational") != 0,
        scheduler: active(&schedulers).to_owned(),
        schedulers: schedulers
            .split_ascii_whitespace()
            .map(|name| name.trim_matches(['[', ']']).to_owned())
            .collect(),
        nr_requests: or_zero("nr_requests"),
        max_sectors_kb: or_zero("max_sectors_kb"),
        max_hw_sectors_kb: or_zero("max_hw_sectors_kb"),
        optimal_io_size: or_zero("optimal_io_size"),
        wbt_lat_usec,
        iostats: or_zero("iostats") != 0,
        write_cache,
    })
}

/// The name in brackets; drivers without a choice show one name without.
fn active(schedulers: &str) -> &str {
    let in_brackets = |name: &str| name.starts_with('[') && name.ends_with(']');
    let mut names = schedulers.split_ascii_whitespace();
    let found = names.clone().find(|name| in_brackets(name)).or_else(|| names.next());
    found.unwrap_or_default().trim_matches(['[', ']'])
}

/// A bdi; none if its window cannot be read.
fn bdi(from: &mut Attributes<'_>, name: &str) -> Option<Bdi> {
    let folder = format!("/sys/class/bdi/{name}");
    let mut number = |name| from.optional_number(&format!("{folder}/{name}"), name);
    Some(Bdi {
        read_ahead_kb: number("read_ahead_kb")?,
        max_ratio: number("max_ratio").unwrap_or(100),
        max_ratio_fine: number("max_ratio_fine"),
        min_ratio: number("min_ratio").unwrap_or(0),
        strict_limit: number("strict_limit").map(|flag| flag != 0),
    })
}

/// What has a bdi and no disk: network and FUSE mounts, btrfs.
fn without_disk(
    from: &mut Attributes<'_>,
    name: String,
    bdi: Option<Bdi>,
    mounts: &[Mount],
    partition_of: &BTreeMap<String, String>,
) -> Option<Device> {
    let bdi = bdi?;
    let number = match name.strip_suffix("-fuseblk").unwrap_or(&name).parse() {
        Ok(number) => number,
        Err(_) => number_by_type(from, &name, mounts)?,
    };
    let mount = mounts.iter().find(|mount| mount.dev == number);
    let source = mount.and_then(|mount| mount.source.strip_prefix("/dev/"));
    let below = source.map(|name| partition_of.get(name).cloned().unwrap_or(name.to_owned()));
    Some(Device {
        number,
        name,
        kind: mount.map_or(Kind::Other, kind::of_mount),
        below: below.into_iter().collect(),
        bdi: Some(bdi),
        ..Device::default()
    })
}

/// The number of the file system that `btrfs-1` serves: the only one of its type; otherwise
/// unknown.
fn number_by_type(from: &mut Attributes<'_>, name: &str, mounts: &[Mount]) -> Option<DevNumber> {
    let (kind, _) = name.rsplit_once('-')?;
    let mut numbers: Vec<DevNumber> =
        mounts.iter().filter(|mount| mount.kind == kind).map(|mount| mount.dev).collect();
    numbers.sort_unstable();
    numbers.dedup();
    match *numbers.as_slice() {
        [number] => Some(number),
        [] => None,
        [..] => {
            from.gap(format!("several {kind} are mounted: which one {name} serves is not known"));
            None
        }
    }
}
