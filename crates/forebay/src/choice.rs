//! From what was typed to what it names: machines, texts, sizes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use forebay_sim::machine::{Machine, MachineError};

use crate::messages::Complaint;

/// The path that stands for standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

/// The longest job, machine or script.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// A machine by name, or from a file if the name has a dot or a slash.
pub(crate) fn machine(name: &str, overrides: &[String]) -> Result<Machine> {
    let mut machine = if name.contains(['/', '.']) && !Machine::names().any(|known| known == name) {
        Machine::parse(&read(Path::new(name))?, name).map_err(Complaint::from)?
    } else {
        Machine::builtin(name).map_err(Complaint::from)?
    };
    for typed in overrides {
        let Some((key, value)) = typed.split_once('=') else {
            bail!(
                Complaint::new(format!("--set takes KEY=VALUE, not '{typed}'"))
                    .hint(format!("`forebay machines {name}` lists the keys"))
            );
        };
        machine.set(key, value).map_err(|error| {
            let lost = matches!(&error, MachineError::UnknownKey { nearest: None, .. });
            let complaint = Complaint::from(error);
            if lost {
                complaint.hint(format!("`forebay machines {name}` lists the keys"))
            } else {
                complaint
            }
        })?;
    }
    Ok(machine)
}

/// What messages call a path.
pub(crate) fn name(path: &Path) -> String {
    if path == Path::new(STANDARD_INPUT) {
        return "standard input".to_owned();
    }
    path.display().to_string()
}

/// A text file, or standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<String> {
    let bytes = if path == Path::new(STANDARD_INPUT) {
        beginning(io::stdin().lock())
    } else {
        File::open(path).and_then(beginning)
    };
    let bytes = bytes.with_context(|| format!("cannot read '{}'", name(path)))?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        let what =
            format!("'{}' is longer than the {TEXT_BYTES_MAX} bytes that are read", name(path));
        bail!(Complaint::new(what).hint("is it the file that was meant?"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        let what = format!("'{}' is no text: byte {place} is not UTF-8", name(path));
        Complaint::new(what).hint("is it the file that was meant?").into()
    })
}

/// What is read of a source that may have no end.
fn beginning(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A number of bytes with an optional binary unit: `4096`, `64k`, `8M`, `2GiB`.
pub(crate) fn bytes(flag: &str, typed: &str) -> Result<u64> {
    let split = typed.find(|c: char| !c.is_ascii_digit()).unwrap_or(typed.len());
    let (digits, unit) = typed.split_at(split);
    let unit = unit.to_ascii_lowercase();
    let shift = SIZE_UNITS.iter().find(|(names, _)| names.contains(&unit.as_str()));
    let shift = shift.map(|(_, shift)| *shift);
    let number: Option<u64> = digits.parse().ok();
    number
        .zip(shift)
        .and_then(|(number, shift)| number.checked_mul(1 << shift))
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(|| {
            Complaint::new(format!("{flag} takes a number of bytes, not '{typed}'"))
                .hint("a unit is one of k, M, G, T, each 1024 times the one before")
                .into()
        })
}

/// Units of sizes with all their names, in any case of letters, and their powers of two.
pub(crate) const SIZE_UNITS: &[(&[&str], u32)] = &[
    (&["", "b"], 0),
    (&["k", "kb", "kib"], 10),
    (&["m", "mb", "mib"], 20),
    (&["g", "gb", "gib"], 30),
    (&["t", "tb", "tib"], 40),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(bytes("--memory", "64M").unwrap(), 64 << 20);
        assert_eq!(bytes("--memory", "10").unwrap(), 10);
        for bad in ["", "M", "64X", "-1", "99999999999G", "9223372036854775808"] {
            assert!(bytes("--memory", bad).is_err(), "{bad}");
        }
    }
}
