//! Probing the device of each machine that comes with the program.

use super::*;
use crate::machine::{DeviceKind, Machine};

fn measured(machine: &Machine) -> Measured {
    let mut bench = Simulated::new(machine.device(3), machine.capacity_bytes());
    let taken = Measured::take(&mut bench, true, 0);
    match taken {
        Ok(measured) => measured,
        Err(never) => match never {},
    }
}

fn builtin(name: &str) -> Machine {
    Machine::builtin(name).expect("it comes with the program")
}

/// The machine file of the measurements, read again.
fn probed(machine: &Machine, fit: &Fit) -> Machine {
    let price = |key, value: f64| Number {
        key,
        estimate: Estimate { value, low: value * 0.9, high: value * 1.1, count: 100 },
        source: "M: a test".to_owned(),
    };
    let keys = [
        "cpu.syscall",
        "cpu.page_lookup",
        "cpu.page_alloc",
        "cpu.context_switch",
        "cpu.interrupt",
        "cpu.request_submit",
        "cpu.page_dirty",
        "cpu.flush_page",
        "cpu.flush_scan",
        "cpu.fault",
    ];
    let mut prices: Vec<Number> = keys.iter().map(|key| price(key, 500.0)).collect();
    prices.push(price("cpu.copy_rate", 1e10));
    let facts = Facts {
        page_cache: 1 << 30,
        cores: 2,
        prices,
        readahead: "linux-6.18",
        read_ahead_kib: 128,
        max_sectors_kib: 512,
        write_requests: 64,
        kernel_source: "a test".to_owned(),
        remote: false,
    };
    let summary = format!("{}, \"probed\"", machine.name());
    let span = machine.capacity_bytes();
    let text = Probed { summary, span, device: fit.device.clone(), facts }.to_toml();
    Machine::parse(&text, "probed.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn number(machine: &Machine, key: &str) -> f64 {
    let found = machine.parameters().find(|parameter| parameter.key == key);
    found.unwrap_or_else(|| panic!("{key}")).value as f64
}

/// The numbers of a machine whose device is of the kind that was found, and how far they are off.
fn recovers(name: &str, kind: DeviceKind, tolerances: &[(&str, f64)]) {
    let machine = builtin(name);
    let fit = fit(&measured(&machine)).expect("enough was measured");
    assert_eq!(fit.device.kind, kind, "{name}: {}", fit.device.reason);
    let found = probed(&machine, &fit);
    let mut wrong = Vec::new();
    for (key, tolerance) in tolerances {
        let (was, is) = (number(&machine, key), number(&found, key));
        let off = if was == is { 0.0 } else { is / was - 1.0 };
        if off.abs() > *tolerance {
            wrong.push(format!("{name}: {key} is {is}, was {was}: {:+.1} %", off * 100.0));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}\n{:#?}", fit.residuals);
}

const FAST: &[(&str, f64)] = &[
    ("device.delay", 0.05),
    ("device.unit_rate", 0.15),
    ("device.link_rate", 0.10),
    ("device.units", 0.10),
    ("device.jitter", 0.15),
    ("device.flush", 0.05),
    ("device.tail", 0.0),
];

#[test]
fn an_nvme_drive_is_recovered() {
    recovers("nvme-2026", DeviceKind::Fast, &[FAST, &[("device.stripe", 0.0)]].concat());
}

#[test]
fn a_virtual_disk_is_recovered() {
    recovers("vm-2026", DeviceKind::Fast, FAST);
}

const DISK: &[(&str, f64)] = &[
    ("device.rate_outer", 0.03),
    ("device.inner_share", 0.05),
    ("device.interface_rate", 0.25),
    ("device.command", 0.10),
    ("device.seek_third", 0.12),
    ("device.seek_full", 0.12),
    ("device.rotation", 0.10),
    ("device.jitter", 0.20),
];

#[test]
fn a_disk_of_2004_is_recovered() {
    recovers("desktop-2004", DeviceKind::Hdd, DISK);
}

#[test]
fn a_disk_of_2026_is_recovered() {
    recovers("hdd-2026", DeviceKind::Hdd, DISK);
}

#[test]
fn an_array_is_recovered() {
    let outer = &[("device.members", 0.0), ("device.rate_outer", 0.10)];
    recovers("raid-2001", DeviceKind::Raid0, outer);
}

/// The models of flash have more parts than a probe can distinguish: the result is units behind a
/// link, whose reads take as long.
#[test]
fn flash_is_found_as_units_behind_a_link_whose_reads_take_as_long() {
    for name in ["ssd-2014", "mips-2007", "omap2-2010"] {
        let machine = builtin(name);
        let fit = fit(&measured(&machine)).expect("enough was measured");
        assert_eq!(fit.device.kind, DeviceKind::Fast, "{name}: {}", fit.device.reason);
        let found = probed(&machine, &fit);
        // Requests that the fit has not seen.
        for (bytes, depth) in [(8 << 10, 1), (32 << 10, 1), (128 << 10, 1), (16 << 10, 4)] {
            let experiment = Experiment::random(bytes, depth, 300);
            let span = machine.capacity_bytes();
            let each = |machine: &Machine| {
                let mut bench = Simulated::new(machine.device(11), span);
                bench.first(&experiment, 300).each()
            };
            let ratio = each(&found) / each(&machine);
            assert!((0.8..1.25).contains(&ratio), "{name}, {bytes} x {depth}: {ratio:.3}");
        }
    }
}

#[test]
fn late_reads_and_slow_writes_are_recovered() {
    let mut machine = builtin("nvme-2026");
    for (key, value) in [
        ("device.tail", "10000ppm"),
        ("device.tail_delay", "900us"),
        ("device.write_delay", "20us"),
        ("device.write_rate", "300MB/s"),
        ("device.write_buffer", "128MiB"),
    ] {
        machine.set(key, value).expect("it is a number of the machine");
    }
    let fit = fit(&measured(&machine)).expect("enough was measured");
    let found = probed(&machine, &fit);
    for (key, tolerance) in [
        ("device.tail", 0.5),
        ("device.tail_delay", 0.15),
        ("device.write_delay", 0.15),
        ("device.write_rate", 0.10),
        ("device.write_buffer", 0.25),
    ] {
        let (was, is) = (number(&machine, key), number(&found, key));
        assert!((is / was - 1.0).abs() <= tolerance, "{key}: {is}, was {was}");
    }
}

/// A volume of which reads alone are limited, one of which both are, and one limit of the two.
#[test]
fn a_limit_is_recovered_and_so_is_the_device_behind_it() {
    let (reads, rate) = (("device.limit_reads", "3000"), ("device.limit_read_rate", "125MiB/s"));
    let (writes, write_rate) =
        (("device.limit_writes", "3000"), ("device.limit_write_rate", "125MiB/s"));
    for limits in
        [&[reads, rate][..], &[reads, rate, writes, write_rate], &[reads], &[rate, write_rate]]
    {
        let mut machine = builtin("nvme-2026");
        for (key, value) in limits {
            machine.set(key, value).expect("it is a number of the machine");
        }
        let fit = fit(&measured(&machine)).expect("enough was measured");
        assert_eq!(fit.device.kind, DeviceKind::Fast, "{}", fit.device.reason);
        let found = probed(&machine, &fit);
        for (key, tolerance) in [
            ("device.limit_reads", 0.05),
            ("device.limit_read_rate", 0.05),
            ("device.limit_writes", 0.05),
            ("device.limit_write_rate", 0.05),
            ("device.limit_window", 0.05),
            ("device.delay", 0.10),
            ("device.jitter", 0.15),
            ("device.tail", 0.0),
            ("device.flush", 0.05),
        ] {
            let (was, is) = (number(&machine, key), number(&found, key));
            let off = if was == is { 0.0 } else { is / was - 1.0 };
            assert!(off.abs() <= tolerance, "{limits:?} {key}: {is}, was {was}");
        }
    }
}

#[test]
fn what_costs_the_host_is_no_part_of_the_device() {
    let machine = builtin("vm-2026");
    let mut measured = measured(&machine);
    measured.overhead = 9_000;
    for samples in measured.samples.values_mut() {
        samples.latencies.iter_mut().for_each(|took| *took += 9_000);
    }
    let fit = fit(&measured).expect("enough was measured");
    let delay = fit.device.numbers.iter().find(|number| number.key == "device.delay");
    let delay = delay.expect("a fast device has one").estimate.value;
    assert!((delay / number(&machine, "device.delay") - 1.0).abs() < 0.08, "{delay}");
}

#[test]
fn too_little_is_an_error_that_says_what_is_missing() {
    let measured = Measured { span: 1 << 20, ..Measured::default() };
    let said = fit(&measured).map_err(|error| error.to_string());
    assert_eq!(
        said.unwrap_err(),
        "the probed span has 1048576 bytes, and at least 67108864 are needed"
    );
    let measured = Measured { span: 1 << 30, ..Measured::default() };
    let said = fit(&measured).map_err(|error| error.to_string());
    assert_eq!(said.unwrap_err(), "no read of 4096 bytes with 1 in flight was measured");
}

#[test]
fn pairs_lie_apart_and_streams_lie_in_a_row() {
    let span = 1 << 30;
    let offsets = APART[1].offsets(span);
    assert!(offsets.iter().all(|offset| offset + APART[1].bytes <= span));
    for pair in offsets.chunks(2) {
        assert!(((pair[1] - pair[0]) as f64 / span as f64 - 0.333).abs() < 0.001);
    }
    let stream = STREAMS[1].offsets(span);
    let end = stream.iter().position(|offset| *offset == 0).expect("it begins anew at the end");
    assert!(stream[..end].windows(2).all(|pair| pair[1] == pair[0] + STREAMS[1].bytes));
    assert!(Experiment::random(1 << 20, 1, 5).offsets(4_096).is_empty());
}
