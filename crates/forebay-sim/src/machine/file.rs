//! Machine files: TOML in which every number brings its unit and its source.
//!
//! ```text
//! summary = "..."
//! [device]
//! type = "hdd"
//! rate_outer = { value = 58, low = 40, high = 60, unit = "MB/s", source = "D: ..." }
//!                        |         |         |           |                 |
//!                        what runs |   optional range    |   class letter and where from
//! ```

use std::ops::Range;

use forebay_core::policy::SpecError;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::nearest;
use super::keys::{self, Dimension, KEYS, Key, TEXTS, Text};
use super::{DeviceKind, Machine, MachineError, Parameter, Place};

/// A file under way to a machine.
struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    root: &'a Table<'a>,
}

type Table<'a> = DeTable<'a>;
type Value<'a> = Spanned<DeValue<'a>>;

/// Reads the machine `name` from `text`; `file` is what errors call it.
pub(super) fn read(name: &str, text: &str, file: &str) -> Result<Machine, MachineError> {
    let root = Table::parse(text).map_err(|error| {
        let place = place(file, text, error.span().unwrap_or_default());
        MachineError::Syntax { place, message: error.message().to_owned() }
    })?;
    let reader = Reader { file, text, root: root.get_ref() };
    let kind = match reader.text(keys::find_text("device.type").expect("it is in the table"))? {
        "hdd" => DeviceKind::Hdd,
        "raid0" => DeviceKind::Raid0,
        "onenand" => DeviceKind::OneNand,
        "ssd" => DeviceKind::Ssd,
        _ => DeviceKind::Fast,
    };
    reader.check_names(kind)?;
    let mut parameters = Vec::new();
    for key in known(kind) {
        parameters.push(reader.parameter(key)?);
    }
    let mut texts = Vec::new();
    for text in TEXTS.iter().filter(|text| text.belongs_to(kind)) {
        texts.push((text.name, reader.text(text)?.to_owned()));
    }
    let machine = Machine { name: name.to_owned(), kind, texts, parameters };
    reader.check_order(&machine)?;
    Ok(machine)
}

/// The numbers of a machine with a device of `kind`.
pub(super) fn known(kind: DeviceKind) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.belongs_to(kind))
}

/// Every key that `kind` has, numbers and texts.
pub(super) fn names(kind: DeviceKind) -> impl Iterator<Item = &'static str> {
    let texts = TEXTS.iter().filter(move |text| text.belongs_to(kind));
    known(kind).map(|key| key.name).chain(texts.map(|text| text.name))
}

/// A number of `unit` in the base unit of `key`, if it is possible; else what would be.
pub(super) fn quantity(key: &Key, number: f64, unit: &str) -> Result<u64, String> {
    let units = key.dimension.units();
    let (_, size) = units.iter().find(|(name, _)| *name == unit).ok_or_else(|| expected(key))?;
    let value = libm::round(number * size);
    // Things are counted whole, and a positive number that rounds to nothing is a mistaken unit.
    let whole = matches!(key.dimension, Dimension::Count | Dimension::Flag);
    let lost = (whole && value != number) || (number > 0.0 && value == 0.0);
    if lost || !(key.least as f64..=key.most as f64).contains(&value) {
        return Err(expected(key));
    }
    let value = value as u64;
    if value.is_multiple_of(key.step) { Ok(value) } else { Err(expected(key)) }
}

/// A typed number of `key`, in the base unit or with a unit behind it, if it is possible.
pub(super) fn typed(key: &Key, text: &str) -> Option<u64> {
    let text = text.trim();
    let units = key.dimension.units().iter().map(|(name, _)| *name);
    // The longest unit that ends the text is meant: `s` ends `ms` too.
    let unit = units.filter(|unit| text.ends_with(unit)).max_by_key(|unit| unit.len());
    let digits = unit.map_or(text, |unit| text[..text.len() - unit.len()].trim_end());
    let number = digits.parse().ok()?;
    quantity(key, number, unit.unwrap_or(key.dimension.base())).ok()
}

/// What a number of `key` may be, in words.
pub(super) fn expected(key: &Key) -> String {
    let (least, most, base) = (key.least, key.most, key.dimension.base());
    match key.dimension {
        Dimension::Flag => "0 or 1".to_owned(),
        Dimension::Count => format!("a whole number from {least} to {most}"),
        Dimension::Time | Dimension::Rate | Dimension::Size | Dimension::Kib | Dimension::Share => {
            let range = format!("from {least} {base} to {most} {base}");
            match key.step {
                1 => format!("a number {range}"),
                step => format!("a multiple of {step} {base} {range}"),
            }
        }
    }
}

/// What the capacity of an array must be whose largest row has `row` bytes.
pub(super) fn expected_row(row: u64) -> String {
    format!("at least {row} bytes, device.members times device.stripe_unit")
}

/// What a typed number of `key` may be, its units included.
pub(super) fn expected_typed(key: &Key) -> String {
    let units: Vec<&str> = key.dimension.units().iter().map(|(name, _)| *name).collect();
    match key.dimension {
        Dimension::Flag | Dimension::Count => expected(key),
        Dimension::Time | Dimension::Rate | Dimension::Size | Dimension::Kib | Dimension::Share => {
            format!("{}, in one of the units {}", expected(key), units.join(", "))
        }
    }
}

impl Reader<'_> {
    fn parameter(&self, key: &'static Key) -> Result<Parameter, MachineError> {
        let wanted = "{ value = .., unit = \"..\", source = \"..\" }";
        let entry = match (self.find(key.name, wanted), key.default) {
            (Err(MachineError::MissingKey { .. }), Some(value)) => {
                return Ok(Parameter::by_default(key, value));
            }
            (found, _) => found?,
        };
        let table = entry.get_ref().as_table();
        let table = table.ok_or_else(|| self.bad(key.name, entry, wanted))?;
        for name in table.keys() {
            if !FIELDS.contains(&name.get_ref().as_ref()) {
                return Err(self.unknown(key.name, name.get_ref(), name.span(), FIELDS));
            }
        }
        let unit = self.unit(key, entry, table)?;
        let value = self.number(key, unit, "value", table)?;
        let value = value.ok_or_else(|| self.missing(key, "value", expected(key), entry))?;
        let low = self.number(key, unit, "low", table)?.unwrap_or(value);
        let high = self.number(key, unit, "high", table)?.unwrap_or(value);
        if !(low..=high).contains(&value) {
            let at = if low > value { "low" } else { "high" };
            let limit = table.get(at).expect("a limit that differs from the value is written");
            let wanted = "low <= value <= high";
            return Err(self.bad(&format!("{}.{at}", key.name), limit, wanted));
        }
        let source = self.source(key, entry, table)?;
        Ok(Parameter { key: key.name, value, low, high, unit: key.dimension.base(), source })
    }

    fn unit(&self, key: &Key, entry: &Value, table: &Table) -> Result<&'static str, MachineError> {
        let units: Vec<&str> = key.dimension.units().iter().map(|(name, _)| *name).collect();
        let wanted = format!("one of the units {}", units.join(", "));
        let Some(found) = table.get("unit") else {
            return Err(self.missing(key, "unit", wanted, entry));
        };
        let written = found.get_ref().as_str().unwrap_or_default();
        let unit = key.dimension.units().iter().find(|(name, _)| *name == written);
        unit.map(|(name, _)| *name).ok_or_else(|| {
            let near = nearest(written, units);
            self.bad_near(&format!("{}.unit", key.name), found, &wanted, near)
        })
    }

    fn number(
        &self,
        key: &Key,
        unit: &str,
        field: &str,
        table: &Table,
    ) -> Result<Option<u64>, MachineError> {
        let Some(found) = table.get(field) else {
            return Ok(None);
        };
        let number = number_of(found.get_ref());
        let value = number.ok_or_else(|| expected(key)).and_then(|it| quantity(key, it, unit));
        let name = format!("{}.{field}", key.name);
        value.map(Some).map_err(|wanted| self.bad(&name, found, &wanted))
    }

    fn source(&self, key: &Key, entry: &Value, table: &Table) -> Result<String, MachineError> {
        let wanted = "a class letter D, P, M, C or A, a colon and where the number is from";
        let Some(found) = table.get("source") else {
            return Err(self.missing(key, "source", wanted.to_owned(), entry));
        };
        let written = found.get_ref().as_str().unwrap_or_default();
        match written.split_once(": ") {
            Some(("D" | "P" | "M" | "C" | "A", from)) if !from.trim().is_empty() => {
                Ok(written.to_owned())
            }
            Some(_) | None => Err(self.bad(&format!("{}.source", key.name), found, wanted)),
        }
    }

    fn text(&self, text: &'static Text) -> Result<&str, MachineError> {
        let wanted = if text.allowed.is_empty() {
            "a text that is not empty".to_owned()
        } else {
            format!("one of {}", text.allowed.join(", "))
        };
        let entry = match (self.find(text.name, &wanted), text.default) {
            (Err(MachineError::MissingKey { .. }), Some(default)) => return Ok(default),
            (found, _) => found?,
        };
        let written = entry.get_ref().as_str().filter(|written| text.takes(written));
        let written = written.ok_or_else(|| {
            let written = entry.get_ref().as_str().unwrap_or_default();
            let near = nearest(written, text.allowed.iter().copied());
            self.bad_near(text.name, entry, &wanted, near)
        })?;
        let error = text.policy.and_then(|policy| policy(written).err());
        error.map_or(Ok(written), |error| Err(self.no_policy(text, entry, &error)))
    }

    fn no_policy(&self, text: &Text, entry: &Value, error: &SpecError) -> MachineError {
        match error {
            SpecError::UnknownPolicy { given, known, .. } => {
                let wanted = format!("{}, one of {}", text.what, known.join(", "));
                self.bad_near(text.name, entry, &wanted, nearest(given, known.iter().copied()))
            }
            SpecError::UnknownParameter { .. }
            | SpecError::BadValue { .. }
            | SpecError::Twice { .. }
            | SpecError::Contradiction { .. } => {
                self.bad(text.name, entry, &format!("{}; {error}", text.what))
            }
        }
    }

    /// The entry of a dotted key.
    fn find(&self, key: &str, wanted: &str) -> Result<&Value<'_>, MachineError> {
        let missing = |span| MachineError::MissingKey {
            place: place(self.file, self.text, span),
            key: key.to_owned(),
            expected: wanted.to_owned(),
        };
        let Some((table, name)) = key.split_once('.') else {
            return self.root.get(key).ok_or_else(|| missing(0..0));
        };
        let (head, entry) = self.root.get_key_value(table).ok_or_else(|| missing(0..0))?;
        let table = entry.get_ref().as_table();
        let table = table.ok_or_else(|| self.bad(head.get_ref(), entry, "a table"))?;
        table.get(name).ok_or_else(|| missing(head.span()))
    }

    /// Refuses every key of the file that a device of `kind` does not have.
    fn check_names(&self, kind: DeviceKind) -> Result<(), MachineError> {
        let check = |name: &str, span| {
            if names(kind).any(|known| known == name) {
                return Ok(());
            }
            let near = nearest(name, names(kind));
            let place = place(self.file, self.text, span);
            Err(MachineError::UnknownKey { place, key: name.to_owned(), nearest: near })
        };
        for (head, entry) in self.root {
            let Some(table) = entry.get_ref().as_table() else {
                check(head.get_ref(), head.span())?;
                continue;
            };
            for name in table.keys() {
                check(&format!("{}.{}", head.get_ref(), name.get_ref()), name.span())?;
            }
        }
        Ok(())
    }

    /// Refuses ranges out of which a draw could put the greater of two numbers below the lesser,
    /// or make an array that has no whole row.
    fn check_order(&self, machine: &Machine) -> Result<(), MachineError> {
        if let Some((lesser, greater)) = machine.disorder() {
            let most = if lesser.unit == "ns" { "longest" } else { "largest" };
            let limit =
                format!("at least {} {}, the {most} {}", lesser.high, lesser.unit, lesser.key);
            return Err(self.bad(greater.key, self.find(greater.key, "a number")?, &limit));
        }
        if let Some(row) = machine.missing_row() {
            let entry = self.find("device.capacity", "a size")?;
            return Err(self.bad("device.capacity", entry, &expected_row(row)));
        }
        Ok(())
    }

    fn missing(&self, key: &Key, field: &str, expected: String, entry: &Value) -> MachineError {
        let place = place(self.file, self.text, entry.span());
        MachineError::MissingKey { place, key: format!("{}.{field}", key.name), expected }
    }

    fn bad(&self, key: &str, found: &Value, expected: &str) -> MachineError {
        self.bad_near(key, found, expected, None)
    }

    fn bad_near(
        &self,
        key: &str,
        found: &Value,
        expected: &str,
        nearest: Option<Box<str>>,
    ) -> MachineError {
        let written = self.text.get(found.span()).unwrap_or_default();
        let found_text = written.lines().next().unwrap_or_default().chars().take(60).collect();
        MachineError::BadValue {
            place: place(self.file, self.text, found.span()),
            key: key.to_owned(),
            found: found_text,
            expected: expected.to_owned(),
            nearest,
        }
    }

    fn unknown(&self, key: &str, name: &str, span: Range<usize>, of: &[&str]) -> MachineError {
        MachineError::UnknownKey {
            place: place(self.file, self.text, span),
            key: format!("{key}.{name}"),
            nearest: nearest(name, of.iter().copied()).map(|near| format!("{key}.{near}").into()),
        }
    }
}

/// The number that a TOML value is, if it is one.
fn number_of(value: &DeValue) -> Option<f64> {
    if let Some(integer) = value.as_integer() {
        return i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|it| it as f64);
    }
    value.as_float().and_then(|float| float.as_str().parse().ok())
}

fn place(file: &str, text: &str, span: Range<usize>) -> Place {
    let before = text.as_bytes().iter().take(span.start);
    let line = 1 + before.filter(|byte| **byte == b'\n').count();
    Place::Line { file: file.into(), line }
}

/// What the table of one number may hold.
const FIELDS: &[&str] = &["value", "low", "high", "unit", "source"];

#[cfg(test)]
mod tests;
