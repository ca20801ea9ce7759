//! The measured numbers, as a machine file.

use std::fmt::Write;

use super::Estimate;
use super::fitted::{DeviceFit, Number, assumed};
use crate::machine::{DeviceKind, Dimension, dimension};

/// Facts about the host, besides its device.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Memory that files can be cached in, in bytes.
    pub page_cache: u64,
    /// Processors.
    pub cores: u32,
    /// Prices of the processor's work and others that were measured, by their keys.
    pub prices: Vec<Number>,
    /// The readahead policy of the kernel.
    pub readahead: &'static str,
    /// The read-ahead limit of the device.
    pub read_ahead_kib: u64,
    /// The largest request of the device.
    pub max_sectors_kib: u64,
    /// Write requests that the queue holds.
    pub write_requests: u32,
    /// Where these come from.
    pub kernel_source: String,
    /// Whether the device is reached over a network.
    pub remote: bool,
}

/// A machine that was probed.
#[derive(Clone, Debug, PartialEq)]
pub struct Probed {
    /// One sentence about it.
    pub summary: String,
    /// The bytes that were probed.
    pub span: u64,
    /// The device.
    pub device: DeviceFit,
    /// The host.
    pub facts: Facts,
}

impl Probed {
    /// The text of the machine file.
    pub fn to_toml(&self) -> String {
        let facts = &self.facts;
        let certain = |key, value: f64, source: &str| Number {
            key,
            estimate: Estimate { value, low: value, high: value, count: 1 },
            source: source.to_owned(),
        };
        let kernel = &format!("M: {}", facts.kernel_source);
        let mut text = format!("summary = {}\n", quoted(&self.summary));
        let mut table = String::new();
        let mut put = |number: &Number| {
            let (head, key) = number.key.split_once('.').expect("a key has a table");
            if head != table {
                let _ = write!(text, "\n[{head}]\n");
                head.clone_into(&mut table);
                for (name, value) in texts(head, facts, self.device.kind) {
                    let _ = writeln!(text, "{name} = {}", quoted(value));
                }
            }
            let _ = writeln!(text, "{key} = {}", entry(number));
        };
        put(&certain("memory.page_cache", facts.page_cache as f64, "M: memory for files now"));
        put(&certain("cpu.cores", f64::from(facts.cores), "M: processors of this process"));
        let device = &self.device.numbers;
        let cpu = |number: &&Number| number.key.starts_with("cpu.");
        facts.prices.iter().chain(device).filter(cpu).for_each(&mut put);
        let of_kernel = [
            ("kernel.read_ahead_kb", facts.read_ahead_kib as f64),
            ("kernel.max_sectors_kb", facts.max_sectors_kib as f64),
            ("kernel.large_folios", 1.0),
            ("kernel.plug_requests", 0.0),
            ("kernel.plug_delay", 0.0),
            ("kernel.write_requests", f64::from(facts.write_requests)),
        ];
        for (key, value) in of_kernel {
            put(&certain(key, value, kernel));
        }
        put(&assumed("layout.span", 1_000_000.0, "files lie anywhere in what was probed"));
        put(&assumed("layout.start", 0.0, "files lie anywhere in what was probed"));
        put(&certain("device.capacity", self.span as f64, "M: the bytes that were probed"));
        device.iter().filter(|number| !number.key.starts_with("cpu.")).for_each(&mut put);
        text
    }
}

/// The texts of a table.
fn texts(table: &str, facts: &Facts, kind: DeviceKind) -> Vec<(&'static str, &'static str)> {
    let of_kind = match kind {
        DeviceKind::Hdd => "hdd",
        DeviceKind::Fast => "fast",
        DeviceKind::Ssd => "ssd",
        DeviceKind::Raid0 => "raid0",
        DeviceKind::OneNand => "onenand",
    };
    match table {
        "kernel" => vec![
            ("readahead", facts.readahead),
            ("flush", "linux-6"),
            ("throttle", "linux-3.18"),
            ("controller", "fixed"),
        ],
        "layout" => vec![("placement", "contiguous")],
        "device" if facts.remote && kind == DeviceKind::Fast => {
            vec![("type", of_kind), ("medium", "remote")]
        }
        "device" => vec![("type", of_kind)],
        _ => Vec::new(),
    }
}

/// A number in the unit that people read it in; its range only if it has one.
fn entry(number: &Number) -> String {
    let Estimate { value, low, high, .. } = number.estimate;
    let (unit, size) = unit(number.key, value);
    let whole = matches!(dimension(number.key), Some(Dimension::Count | Dimension::Flag));
    let shown = |value: f64| {
        let value = value / size;
        if whole || libm::floor(value) == value {
            format!("{value:.0}")
        } else {
            // Six digits are more than any measurement has.
            format!(
                "{:.*}",
                (5.0 - libm::floor(libm::log10(value))).clamp(0.0, 9.0) as usize,
                value
            )
        }
    };
    let mut text = format!("{{ value = {}", shown(value));
    let (low, high) = (low.min(value), high.max(value));
    if !whole && low < value && high > value && low > 0.0 {
        let _ = write!(text, ", low = {}, high = {}", shown(low), shown(high));
    }
    let _ = write!(text, ", unit = \"{unit}\", source = {} }}", quoted(&number.source));
    text
}

fn unit(key: &str, value: f64) -> (&'static str, f64) {
    match dimension(key) {
        Some(Dimension::Time) if value >= 1e6 => ("ms", 1e6),
        Some(Dimension::Time) if value >= 1e4 => ("us", 1e3),
        Some(Dimension::Time) | None => ("ns", 1.0),
        Some(Dimension::Rate) if value >= 1e9 => ("GB/s", 1e9),
        Some(Dimension::Rate) => ("MB/s", 1e6),
        Some(Dimension::Size) => ("bytes", 1.0),
        Some(Dimension::Kib) => ("KiB", 1.0),
        Some(Dimension::Share) => ("ratio", 1e6),
        Some(Dimension::Count) => ("count", 1.0),
        Some(Dimension::Flag) => ("flag", 1.0),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
