//! Machines: the memory, processor, kernel settings, device and layout that a run is timed on.
//!
//! A machine is a TOML file in which every number carries its unit, its source and, if it is not
//! known exactly, the range it lies in. The first letter of a source is its class:
//!
//! | class | the number is |
//! | --- | --- |
//! | D | stated by a datasheet, a vendor, a review or kernel source |
//! | P | printed in a paper |
//! | M | measured |
//! | C | computed from such numbers |
//! | A | an assumption |
//!
//! A prediction is made over the whole box of ranges: [`uncertain`](Machine::uncertain) names its
//! sides, [`latin_hypercube`](crate::rng::latin_hypercube) picks points, and
//! [`draw`](Machine::draw) gives the machine at a point.

use forebay_core::block::Plug;
use forebay_core::dispatch::{Medium, MediumKind};
use forebay_core::time::Duration;
use forebay_core::units::{KIB, SECTOR_SIZE};

use crate::device::Device;
use crate::price::{Prices, Scheduler};
use crate::rng::MILLION;

pub use error::{MachineError, Place};
pub use keys::Dimension;
pub(crate) use keys::dimension;
pub use layout::{Layout, Placement};

mod devices;
mod error;
mod file;
mod keys;
mod layout;

/// The machines that come with the program: name and file.
static BUILTIN: &[(&str, &str)] = &[
    ("desktop-2004", include_str!("../machines/desktop-2004.toml")),
    ("hdd-2026", include_str!("../machines/hdd-2026.toml")),
    ("mips-2007", include_str!("../machines/mips-2007.toml")),
    ("nvme-2026", include_str!("../machines/nvme-2026.toml")),
    ("omap2-2010", include_str!("../machines/omap2-2010.toml")),
    ("raid-2001", include_str!("../machines/raid-2001.toml")),
    ("ssd-2014", include_str!("../machines/ssd-2014.toml")),
    ("vm-2026", include_str!("../machines/vm-2026.toml")),
];

/// A machine whose numbers are all there and all possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    name: String,
    kind: DeviceKind,
    /// In the order of the table of texts.
    texts: Vec<(&'static str, String)>,
    /// In the order of the table of keys.
    parameters: Vec<Parameter>,
}

/// One number of a machine, in the base unit of its dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its dotted name.
    pub key: &'static str,
    /// What the machine runs with.
    pub value: u64,
    /// The least value it may have in truth.
    pub low: u64,
    /// The greatest value it may have in truth.
    pub high: u64,
    /// The base unit.
    pub unit: &'static str,
    /// Class letter and origin.
    pub source: String,
}

/// Which model the device of a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A disk.
    Hdd,
    /// Units side by side.
    Fast,
    /// Flash with a buffer and collection.
    Ssd,
    /// Disks in stripes.
    Raid0,
    /// Flash behind two buffers that the processor empties itself.
    OneNand,
}

/// How the kernel is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The read-ahead limit of the device.
    pub read_ahead_kib: u64,
    /// The largest request.
    pub max_sectors_kib: u64,
    /// Whether the file system caches in large folios.
    pub large_folios: bool,
    /// How requests are held back to be merged, if they are.
    pub plug: Option<Plug>,
    /// Write requests that may be at the device at once.
    pub write_requests: u32,
    /// The readahead policy, as a user types it.
    pub readahead: String,
    /// The flush policy, as a user types it.
    pub flush: String,
    /// The throttle policy, as a user types it.
    pub throttle: String,
    /// The controller, as a user types it.
    pub controller: String,
    /// The reclaim policy, as a user types it.
    pub reclaim: String,
    /// The elevator, as a user types it.
    pub elevator: String,
    /// The rule of dispatch, as a user types it.
    pub dispatch: String,
    /// Requests that the driver gives to the device at once; no limit if zero.
    pub queue_depth: u32,
    /// Which task gets a core.
    pub scheduler: Scheduler,
}

impl Machine {
    /// The names of the machines that come with the program.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// The machine `name` that comes with the program.
    ///
    /// # Errors
    /// Names the nearest machine if there is none of this name.
    pub fn builtin(name: &str) -> Result<Self, MachineError> {
        let known = BUILTIN.iter().find(|(known, _)| *known == name);
        let (name, text) = known.ok_or_else(|| MachineError::UnknownMachine {
            given: name.to_owned(),
            nearest: error::nearest(name, Self::names()),
        })?;
        file::read(name, text, &format!("{name}.toml"))
    }

    /// Reads a machine from the text of the file `file_name`, after which it is called.
    ///
    /// # Errors
    /// Names file, line, key, what was found and what was expected.
    pub fn parse(text: &str, file_name: &str) -> Result<Self, MachineError> {
        let base = file_name.rsplit(['/', '\\']).next().unwrap_or(file_name);
        file::read(base.strip_suffix(".toml").unwrap_or(base), text, file_name)
    }

    /// Overrides one number or text. A number is in the base unit (`52e6`) or brings a unit
    /// (`52MB/s`, `9.5 ms`); it is certain from then on.
    ///
    /// # Errors
    /// Names the nearest key, or what the key can be.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), MachineError> {
        let text = keys::find_text(key).filter(|text| text.belongs_to(self.kind));
        let Some(text) = text else {
            return self.set_number(key, value);
        };
        let bad = |expected: String, nearest| MachineError::BadValue {
            place: Place::Override,
            key: key.to_owned(),
            found: format!("`{value}`").into(),
            expected,
            nearest,
        };
        if key == "device.type" {
            return Err(bad("a file of its own for another type of device".to_owned(), None));
        }
        if !text.takes(value) {
            if text.allowed.is_empty() {
                return Err(bad(text.what.to_owned(), None));
            }
            let near = error::nearest(value, text.allowed.iter().copied());
            return Err(bad(format!("one of {}", text.allowed.join(", ")), near));
        }
        let place = self.texts.iter_mut().find(|(known, _)| *known == key);
        value.clone_into(&mut place.expect("a machine has every text of its kind").1);
        Ok(())
    }

    /// The machine at a point of the box of ranges: `point` has one coordinate in parts per
    /// million for each key of [`uncertain`](Self::uncertain), in that order.
    ///
    /// # Panics
    /// If the point has another number of coordinates.
    #[must_use]
    pub fn draw(&self, point: &[u32]) -> Self {
        let mut drawn = self.clone();
        let sides = drawn.parameters.iter_mut().filter(|parameter| parameter.is_uncertain());
        let mut coordinates = point.iter();
        for parameter in sides {
            let coordinate = coordinates.next().expect("a point has a coordinate for every side");
            let width = u128::from(parameter.high - parameter.low);
            let offset = width * u128::from(*coordinate) / u128::from(MILLION);
            let offset = u64::try_from(offset).unwrap_or(u64::MAX);
            let drawn = parameter.low.saturating_add(offset).min(parameter.high);
            parameter.value = drawn - drawn % keys::step(parameter.key);
        }
        assert!(coordinates.next().is_none(), "a point has no coordinate without a side");
        drawn
    }

    /// What the machine is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One sentence about it.
    pub fn summary(&self) -> &str {
        self.text("summary")
    }

    /// Its numbers, in the order of the table of keys.
    pub fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter()
    }

    /// Its parameters that are not numbers: keys and values.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let texts = self.texts.iter().filter(|(key, _)| *key != "summary");
        texts.map(|(key, text)| (*key, text.as_str()))
    }

    /// The keys whose value is known as a range only.
    pub fn uncertain(&self) -> Vec<&'static str> {
        let uncertain = self.parameters.iter().filter(|parameter| parameter.is_uncertain());
        uncertain.map(|parameter| parameter.key).collect()
    }

    /// Bytes of memory.
    pub fn page_cache_bytes(&self) -> u64 {
        self.number("memory.page_cache")
    }

    /// Bytes of the device.
    pub fn capacity_bytes(&self) -> u64 {
        self.number("device.capacity")
    }

    /// What the processor's work costs.
    pub fn prices(&self) -> Prices {
        let copy_rate = self.number("cpu.copy_rate");
        Prices {
            cores: self.count("cpu.cores"),
            syscall: self.time("cpu.syscall"),
            fault: match self.time("cpu.fault") {
                Duration::ZERO => self.time("cpu.syscall"),
                fault => fault,
            },
            page_lookup: self.time("cpu.page_lookup"),
            page_alloc: self.time("cpu.page_alloc"),
            folio_alloc: self.time("cpu.folio_alloc"),
            write_call: self.time("cpu.write_call"),
            copy_picos_per_kib: (KIB * PICOS_PER_S + copy_rate / 2) / copy_rate,
            context_switch: self.time("cpu.context_switch"),
            interrupt: self.time("cpu.interrupt"),
            request_submit: self.time("cpu.request_submit"),
            page_dirty: self.time("cpu.page_dirty"),
            flush_page: self.time("cpu.flush_page"),
            flush_scan: self.time("cpu.flush_scan"),
            frame_scan: self.time("cpu.frame_scan"),
            scheduler: self.scheduler(),
            cache_bytes: self.number("cpu.cache"),
            footprint_bytes: self.number("cpu.footprint"),
            refill: self.time("cpu.refill"),
            decode_page: self.time("cpu.decode_page"),
            decode_block: self.time("cpu.decode_block"),
            decode_cold: self.time("cpu.decode_cold"),
        }
    }

    /// What a `putc` and a `getc` cost a program; nothing if the machine does not say.
    pub fn stdio_char(&self) -> (Duration, Duration) {
        let time = |key| self.find(key).map_or(Duration::ZERO, |number| Duration(number.value));
        (time("cpu.put_char"), time("cpu.get_char"))
    }

    /// How the kernel is set up.
    pub fn kernel(&self) -> Kernel {
        let requests = self.count("kernel.plug_requests");
        let delay = self.time("kernel.plug_delay");
        Kernel {
            read_ahead_kib: self.number("kernel.read_ahead_kb"),
            max_sectors_kib: self.number("kernel.max_sectors_kb"),
            large_folios: self.number("kernel.large_folios") == 1,
            plug: (requests > 0).then_some(Plug { requests, delay }),
            write_requests: self.count("kernel.write_requests"),
            readahead: self.text("kernel.readahead").to_owned(),
            flush: self.text("kernel.flush").to_owned(),
            throttle: self.text("kernel.throttle").to_owned(),
            controller: self.text("kernel.controller").to_owned(),
            reclaim: self.text("kernel.reclaim").to_owned(),
            elevator: self.text("kernel.elevator").to_owned(),
            dispatch: self.text("kernel.dispatch").to_owned(),
            queue_depth: self.count("kernel.queue_depth"),
            scheduler: self.scheduler(),
        }
    }

    /// Where files lie on the device.
    pub fn layout(&self) -> Layout {
        Layout {
            capacity_sectors: self.capacity_bytes() / SECTOR_SIZE,
            span_ppm: self.number("layout.span"),
            start_ppm: self.number("layout.start"),
            placement: match self.text("layout.placement") {
                "contiguous" => Placement::Contiguous,
                _ => Placement::Scattered,
            },
        }
    }

    /// Which model the device is.
    pub fn device_kind(&self) -> DeviceKind {
        self.kind
    }

    /// Properties of the device.
    pub fn medium(&self) -> Medium {
        let kind = match self.kind {
            DeviceKind::Hdd | DeviceKind::Raid0 => MediumKind::Rotating,
            DeviceKind::Fast if self.text("device.medium") == "remote" => MediumKind::Remote,
            DeviceKind::Fast | DeviceKind::Ssd | DeviceKind::OneNand => MediumKind::Solid,
        };
        Medium { kind, programmed: self.kind == DeviceKind::OneNand }
    }

    /// The device, idle; `seed` names its rotation and jitter.
    pub fn device(&self, seed: u64) -> Box<dyn Device> {
        devices::build(self, seed)
    }

    fn find(&self, key: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.key == key)
    }

    fn text(&self, key: &str) -> &str {
        let text = self.texts.iter().find(|(known, _)| *known == key);
        &text.expect("a machine has every text of its kind").1
    }

    fn scheduler(&self) -> Scheduler {
        Scheduler::from_name(self.text("kernel.scheduler"))
    }

    fn number(&self, key: &str) -> u64 {
        self.find(key).expect("a machine has every number of its kind").value
    }

    fn time(&self, key: &str) -> Duration {
        Duration(self.number(key))
    }

    fn count(&self, key: &str) -> u32 {
        u32::try_from(self.number(key)).expect("the limits of a count fit in 32 bits")
    }

    fn set_number(&mut self, name: &str, text: &str) -> Result<(), MachineError> {
        let Some(key) = file::known(self.kind).find(|key| key.name == name) else {
            let near = error::nearest(name, file::names(self.kind));
            let (place, key) = (Place::Override, name.to_owned());
            return Err(MachineError::UnknownKey { place, key, nearest: near });
        };
        let value = file::typed(key, text).ok_or_else(|| MachineError::BadValue {
            place: Place::Override,
            key: name.to_owned(),
            found: format!("`{text}`").into(),
            expected: file::expected_typed(key),
            nearest: None,
        })?;
        let mut changed = self.clone();
        let found = changed.parameters.iter_mut().find(|parameter| parameter.key == name);
        let parameter = found.expect("a machine has every number of its kind");
        (parameter.value, parameter.low, parameter.high) = (value, value, value);
        OVERRIDDEN.clone_into(&mut parameter.source);
        let order = changed.disorder().map(|(less, more)| format!("{} <= {}", less.key, more.key));
        let row = || "device.members * device.stripe_unit <= device.capacity".to_owned();
        if let Some(expected) = order.or_else(|| changed.missing_row().map(|_| row())) {
            let (place, key) = (Place::Override, name.to_owned());
            let found = format!("`{text}`").into();
            return Err(MachineError::BadValue { place, key, found, expected, nearest: None });
        }
        *self = changed;
        Ok(())
    }

    /// Two numbers out of whose ranges a draw could put the greater below the lesser.
    fn disorder(&self) -> Option<(&Parameter, &Parameter)> {
        let pair = |(lesser, greater): &(&str, &str)| {
            let (lesser, greater) = (self.find(lesser)?, self.find(greater)?);
            (lesser.high > greater.low).then_some((lesser, greater))
        };
        keys::ORDERED.iter().find_map(pair)
    }

    /// The bytes of the largest row of an array that does not fit into the least capacity.
    fn missing_row(&self) -> Option<u64> {
        let members = self.find("device.members")?.high;
        let row = members.saturating_mul(self.find("device.stripe_unit")?.high);
        (row > self.find("device.capacity")?.low).then_some(row)
    }
}

impl Parameter {
    /// A number that a file leaves out.
    fn by_default(key: &keys::Key, value: u64) -> Self {
        let (unit, source) = (key.dimension.base(), DEFAULT.to_owned());
        Self { key: key.name, value, low: value, high: value, unit, source }
    }

    /// Whether the value is known as a range only.
    pub fn is_uncertain(&self) -> bool {
        self.low < self.high
    }
}

/// Picoseconds of a second.
const PICOS_PER_S: u64 = 1_000_000_000_000;

/// The source of a number that a file leaves out.
const DEFAULT: &str = "A: default";

/// The source of a number that was typed.
const OVERRIDDEN: &str = "A: set by hand";

#[cfg(test)]
mod tests;
