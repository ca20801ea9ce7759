//! A policy file: TOML that says what is steered, how, and within which bounds.
//!
//! Every key may be left out; the table [`KEYS`] names them all with their ranges. What is wrong is
//! said with file, line and key.

use std::ops::Range;

use forebay_core::control;
use forebay_core::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::scope::Slot;
use crate::steer::limits;
use crate::steer::window::Bounds;

/// What a policy file says, or what holds without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFile {
    /// From one look to the next while nothing is being decided.
    pub interval: Duration,
    /// Names of what may be steered, as `--scope` takes them.
    pub within: Vec<String>,
    /// Names of what is left alone, as `--protect` takes them.
    pub protect: Vec<String>,
    /// Whether windows are steered.
    pub readahead: bool,
    /// Bounds of windows.
    pub bounds: Bounds,
    /// Whether a device's default may change for files that cannot be reached one by one.
    pub device_default: bool,
    /// Whether the default of a device that was named may grow for streams that are short.
    pub stream_default: bool,
    /// Whether dirty limits are steered.
    pub writeback: bool,
    /// The controller of dirty limits, `NAME:PARAMETER=VALUE,...`.
    pub controller: String,
    /// Bounds of dirty limits.
    pub limits: limits::Settings,
    /// The read latency in us that the kernel's own throttling of writeback aims at on a device
    /// with a limit, if it is off there; zero leaves it off.
    pub read_latency: u64,
}

impl Default for PolicyFile {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            within: Vec::new(),
            protect: Vec::new(),
            readahead: true,
            bounds: Bounds::default(),
            device_default: false,
            stream_default: true,
            writeback: true,
            controller: CONTROLLER.to_owned(),
            limits: limits::Settings::default(),
            read_latency: 0,
        }
    }
}

impl PolicyFile {
    /// Reads `text`; `file` is what errors call it.
    pub fn parse(text: &str, file: &str) -> Result<Self, PolicyFileError> {
        Self::parse_over(Self::default(), text, file)
    }

    /// The same, where `base` holds for the keys that are left out.
    pub fn parse_over(base: Self, text: &str, file: &str) -> Result<Self, PolicyFileError> {
        let reader = Reader { text, file };
        let root = DeTable::parse(text).map_err(|error| PolicyFileError::Syntax {
            place: reader.place(error.span().unwrap_or_default()),
            message: error.message().to_owned(),
        })?;
        let mut policy = base;
        let (mut floor, mut cap) = (None, false);
        for (section, value) in root.get_ref() {
            let known = KEYS.iter().map(|key| key.section);
            if !known.clone().any(|name| name == section.get_ref()) {
                return Err(reader.unknown(section.span(), section.get_ref(), known));
            }
            let DeValue::Table(table) = value.get_ref() else {
                return Err(reader.bad(value.span(), section.get_ref(), "a section"));
            };
            for (name, value) in table {
                let named = |key: &&Key| key.section == section.get_ref();
                let of_section = || KEYS.iter().filter(named);
                let Some(key) = of_section().find(|key| key.name == name.get_ref()) else {
                    let known = of_section().map(|key| key.name);
                    return Err(reader.unknown(name.span(), name.get_ref(), known));
                };
                reader.set(&mut policy, key, value)?;
                match key.name {
                    "floor_kib" => floor = Some(value.span()),
                    "cap_kib" => cap = true,
                    _ => {}
                }
            }
        }
        if policy.bounds.floor > policy.bounds.cap {
            let by = if cap { "" } else { " if it is left out" };
            let expected = format!("at most cap_kib, which is {}{by}", policy.bounds.cap);
            // No cap lies below the floor that holds by default: this one is written.
            return Err(reader.bad(floor.unwrap_or_default(), "readahead.floor_kib", &expected));
        }
        Ok(policy)
    }

    /// Whether a slot is steered.
    pub fn has(&self, slot: Slot) -> bool {
        match slot {
            Slot::Readahead => self.readahead,
            Slot::Writeback => self.writeback,
        }
    }
}

/// What is wrong with a policy file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFileError {
    /// It is no TOML.
    #[error("{place}: not a TOML file: {message}")]
    Syntax {
        /// `FILE:LINE`.
        place: String,
        /// What the parser says.
        message: String,
    },
    /// No key has this name.
    #[error("{place}: unknown key '{key}'")]
    UnknownKey {
        /// `FILE:LINE`.
        place: String,
        /// As it was written.
        key: String,
        /// The name that was most likely meant.
        nearest: Option<&'static str>,
        /// All names that could stand there.
        known: Vec<&'static str>,
    },
    /// The value is not one that the key takes.
    #[error("{place}: `{key}` is {found}, expected {expected}")]
    BadValue {
        /// `FILE:LINE`.
        place: String,
        /// Section and name.
        key: String,
        /// As it was written.
        found: String,
        /// What the key takes.
        expected: String,
    },
}

/// A key of a policy file.
#[derive(Debug)]
pub struct Key {
    /// Its section.
    pub section: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
}

/// What a key takes.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// `true` or `false`.
    Switch(fn(&mut PolicyFile, bool)),
    /// A whole number from the first to the second.
    Number(u64, u64, fn(&mut PolicyFile, u64)),
    /// A list of names.
    Names(fn(&mut PolicyFile, Vec<String>)),
    /// A controller and its parameters.
    Controller,
}

const fn key(section: &'static str, name: &'static str, takes: Takes) -> Key {
    Key { section, name, takes }
}

/// Every key.
pub static KEYS: &[Key] = &[
    key(
        "daemon",
        "interval_ms",
        Takes::Number(100, 60_000, |policy, ms| policy.interval = Duration::from_millis(ms)),
    ),
    key("scope", "within", Takes::Names(|policy, names| policy.within = names)),
    key("scope", "protect", Takes::Names(|policy, names| policy.protect = names)),
    key("readahead", "enabled", Takes::Switch(|policy, on| policy.readahead = on)),
    // No other window is ever written.
    key("readahead", "floor_kib", Takes::Number(16, 32_768, |p, kib| p.bounds.floor = kib)),
    key("readahead", "cap_kib", Takes::Number(16, 32_768, |p, kib| p.bounds.cap = kib)),
    key("readahead", "device_default", Takes::Switch(|policy, on| policy.device_default = on)),
    key("readahead", "stream_default", Takes::Switch(|policy, on| policy.stream_default = on)),
    key("writeback", "enabled", Takes::Switch(|policy, on| policy.writeback = on)),
    key("writeback", "controller", Takes::Controller),
    key("writeback", "floor_mib", Takes::Number(4, 1 << 20, |p, mib| p.limits.floor = mib << 20)),
    key(
        "writeback",
        "slow_seconds",
        Takes::Number(1, 3_600, |policy, seconds| policy.limits.slow_seconds = seconds),
    ),
    key(
        "writeback",
        "idle_seconds",
        Takes::Number(1, 86_400, |p, seconds| p.limits.idle = Duration::from_secs(seconds)),
    ),
    key(
        "writeback",
        "read_latency_us",
        Takes::Number(0, 1_000_000, |policy, us| policy.read_latency = us),
    ),
];

/// The controller without a policy file: at most a second of drain, and 32 MiB until the drain is
/// known, which a device of 20 MB/s writes in less than two seconds.
pub const CONTROLLER: &str = "drain:limit_ms=1000,floor_mib=16,start_mib=32";

struct Reader<'a> {
    text: &'a str,
    file: &'a str,
}

impl Reader<'_> {
    fn set(
        &self,
        policy: &mut PolicyFile,
        key: &Key,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), PolicyFileError> {
        let full = format!("{}.{}", key.section, key.name);
        let bad = |expected: &str| self.bad(value.span(), &full, expected);
        match (key.takes, value.get_ref()) {
            (Takes::Switch(set), DeValue::Boolean(on)) => set(policy, *on),
            (Takes::Number(low, high, set), DeValue::Integer(number)) => {
                let parsed = u64::from_str_radix(number.as_str(), number.radix()).ok();
                let fits = parsed.filter(|number| (low..=high).contains(number));
                set(policy, fits.ok_or_else(|| bad(&expected(key.takes)))?);
            }
            (Takes::Names(set), DeValue::Array(values)) => {
                let name = |value: &Spanned<DeValue<'_>>| {
                    let DeValue::String(name) = value.get_ref() else { return None };
                    Some(name.to_string())
                };
                let names = values.iter().map(name).collect::<Option<Vec<_>>>();
                set(policy, names.ok_or_else(|| bad(&expected(key.takes)))?);
            }
            (Takes::Controller, DeValue::String(text)) => {
                control::Spec::parse(text).map_err(|error| {
                    bad(&format!("a controller as `forebay policies` lists them: {error}"))
                })?;
                policy.controller = text.to_string();
            }
            (Takes::Switch(_) | Takes::Number(..) | Takes::Names(_) | Takes::Controller, _) => {
                return Err(bad(&expected(key.takes)));
            }
        }
        Ok(())
    }

    fn unknown(
        &self,
        span: Range<usize>,
        key: &str,
        known: impl Iterator<Item = &'static str>,
    ) -> PolicyFileError {
        let mut known: Vec<&'static str> = known.collect();
        known.dedup();
        let nearest = nearest(key, &known);
        PolicyFileError::UnknownKey { place: self.place(span), key: key.to_owned(), nearest, known }
    }

    fn bad(&self, span: Range<usize>, key: &str, expected: &str) -> PolicyFileError {
        let written = self.text.get(span.clone()).unwrap_or_default();
        let found = match written.lines().next() {
            Some(line) if written.lines().count() == 1 => line.to_owned(),
            Some(line) => format!("{line} ..."),
            None => "nothing".to_owned(),
        };
        let (place, key) = (self.place(span), key.to_owned());
        PolicyFileError::BadValue { place, key, found, expected: expected.to_owned() }
    }

    fn place(&self, span: Range<usize>) -> String {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        format!("{}:{}", self.file, 1 + before.matches('\n').count())
    }
}

fn expected(takes: Takes) -> String {
    match takes {
        Takes::Switch(_) => "true or false".to_owned(),
        Takes::Number(low, high, _) => format!("a whole number from {low} to {high}"),
        Takes::Names(_) => "a list of names in quotes".to_owned(),
        Takes::Controller => "a controller in quotes, as `forebay policies` lists them".to_owned(),
    }
}

/// The known name that was most likely meant.
fn nearest(given: &str, known: &[&'static str]) -> Option<&'static str> {
    const LIKELY: f64 = 0.7;
    let likeness = |name: &str| strsim::jaro_winkler(given, name);
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) >= LIKELY).then_some(*best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::Knob;
    use crate::number::DevNumber;

    const EXAMPLE: &str = include_str!("../../../examples/tune.toml");
    const PACKAGED: &str = include_str!("../../../packaging/tune.toml");

    fn said(text: &str) -> String {
        PolicyFile::parse(text, "mine.toml").unwrap_err().to_string()
    }

    #[test]
    fn the_example_is_valid_and_has_every_key_at_its_default() {
        let example = PolicyFile::parse(EXAMPLE, "tune.toml").unwrap();
        assert_eq!(example, PolicyFile::default());
        for key in KEYS {
            assert!(EXAMPLE.contains(&format!("\n{} = ", key.name)), "{}", key.name);
        }
    }

    #[test]
    fn the_packaged_file_has_every_key_and_only_what_is_judged_by_comparing() {
        let packaged = PolicyFile::parse(PACKAGED, "tune.toml").unwrap();
        let bounds = Bounds { cap: 4_096, ..Bounds::default() };
        let expected = PolicyFile { writeback: false, bounds, ..PolicyFile::default() };
        assert_eq!(packaged, expected);
        for key in KEYS {
            assert!(PACKAGED.contains(&format!("\n{} = ", key.name)), "{}", key.name);
        }
    }

    #[test]
    fn an_empty_file_is_all_defaults_and_the_default_controller_is_one() {
        assert_eq!(PolicyFile::parse("", "x").unwrap(), PolicyFile::default());
        control::Spec::parse(CONTROLLER).unwrap();
    }

    #[test]
    fn values_are_taken_over() {
        let text = "[scope]\nwithin = [\"sda\", \"77\"]\n[readahead]\nenabled = false\n\
                    [writeback]\ncontroller = \"dyn:n=5\"\nfloor_mib = 64\n\
                    [daemon]\ninterval_ms = 2_000\n";
        let policy = PolicyFile::parse(text, "x").unwrap();
        assert_eq!(policy.within, ["sda", "77"]);
        assert!(!policy.has(Slot::Readahead) && policy.has(Slot::Writeback));
        assert_eq!((policy.controller.as_str(), policy.limits.floor), ("dyn:n=5", 64 << 20));
        assert_eq!(policy.interval, Duration::from_secs(2));
    }

    #[test]
    fn a_mistyped_key_is_named_with_its_line_and_the_one_that_was_meant() {
        let error = PolicyFile::parse("[writeback]\n\nflor_mib = 3\n", "mine.toml").unwrap_err();
        assert_eq!(error.to_string(), "mine.toml:3: unknown key 'flor_mib'");
        let PolicyFileError::UnknownKey { nearest, .. } = error else { panic!("another error") };
        assert_eq!(nearest, Some("floor_mib"));
        assert_eq!(said("[writebak]\n"), "mine.toml:1: unknown key 'writebak'");
    }

    #[test]
    fn a_bad_value_is_shown_with_what_is_expected() {
        assert_eq!(
            said("[readahead]\nfloor_kib = 0\n"),
            "mine.toml:2: `readahead.floor_kib` is 0, expected a whole number from 16 to 32768"
        );
        assert_eq!(
            said("[readahead]\nenabled = 1\n"),
            "mine.toml:2: `readahead.enabled` is 1, expected true or false"
        );
        assert_eq!(
            said("[scope]\nprotect = [1]\n"),
            "mine.toml:2: `scope.protect` is [1], expected a list of names in quotes"
        );
        assert_eq!(said("daemon = 3\n"), "mine.toml:1: `daemon` is 3, expected a section");
        let said = said("[writeback]\ncontroller = \"drane\"\n");
        assert!(said.starts_with("mine.toml:2: `writeback.controller` is \"drane\""), "{said}");
        assert!(said.contains("no controller policy is named 'drane'"), "{said}");
    }

    #[test]
    fn windows_that_are_accepted_are_those_that_are_written() {
        let knob = Knob::ReadAheadKb(DevNumber { major: 7, minor: 0 });
        let numbers = &knob.rule().numbers;
        for key in KEYS.iter().filter(|key| ["floor_kib", "cap_kib"].contains(&key.name)) {
            let Takes::Number(low, high, _) = key.takes else { panic!("{key:?}") };
            assert_eq!((&low, &high), (numbers.start(), numbers.end()), "{}", key.name);
        }
    }

    #[test]
    fn bounds_that_contradict_each_other_are_refused() {
        // A comment is no value, and a value that is not written is the default.
        assert_eq!(
            said("# floor_kib\n[readahead]\ncap_kib = 32\nfloor_kib = 64\n"),
            "mine.toml:4: `readahead.floor_kib` is 64, expected at most cap_kib, which is 32"
        );
        assert_eq!(
            said("[readahead]\nfloor_kib = 32_768\n"),
            "mine.toml:2: `readahead.floor_kib` is 32_768, expected at most cap_kib, which is \
             16384 if it is left out"
        );
    }

    #[test]
    fn what_is_no_toml_is_refused_with_its_line() {
        let said = said("[daemon]\ninterval_ms 1\n");
        assert!(said.starts_with("mine.toml:2: not a TOML file: "), "{said}");
        for end in 0..EXAMPLE.len() {
            // Any beginning of a file gives a value or an error.
            let _ = EXAMPLE.get(..end).map(|text| PolicyFile::parse(text, "x"));
        }
    }
}
