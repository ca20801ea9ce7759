//! From what was typed to what it names: policies, machines, sizes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use forebay_core::readahead::Spec;
use forebay_sim::machine::{Machine, MachineError};

use crate::args::PolicyChoice;
use crate::messages::Complaint;

/// The slots that policies can fill.
pub(crate) const SLOTS: [&str; 1] = ["readahead"];

/// The path that stands for standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

/// The longest job, machine or script.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// The policies that a command runs with: one, or several to be compared.
pub(crate) fn readahead(choice: &PolicyChoice, default: &str) -> Result<Vec<Spec>> {
    let chosen = choice.policy.iter().map(|typed| slot_value(typed));
    let compared = choice.compare.iter().map(|typed| slot_value(typed));
    let filled: Vec<&str> = chosen.chain(compared).collect::<Result<_>>()?;
    if filled.len() > 1 {
        bail!(
            Complaint::new(format!("slot '{}' is filled more than once", SLOTS[0]))
                .hint("--compare readahead=A,B,C runs the job once with each policy")
        );
    }
    let names = match filled[..] {
        [] => return spec(default).map(|one| vec![one]).context("the machine's kernel.readahead"),
        [list] if choice.compare.is_some() => listed(list),
        [..] => filled.into_iter().map(str::to_owned).collect(),
    };
    names.iter().map(|name| spec(name)).collect()
}

/// The policy of `SLOT=NAME`.
pub(crate) fn slot_spec(typed: &str) -> Result<Spec> {
    spec(slot_value(typed)?)
}

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
        bail!("'{}' is longer than the {TEXT_BYTES_MAX} bytes that are read", name(path));
    }
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        anyhow!("'{}' is no text: byte {place} is not UTF-8", name(path))
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
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "k" | "kb" | "kib" => Some(10),
        "m" | "mb" | "mib" => Some(20),
        "g" | "gb" | "gib" => Some(30),
        "t" | "tb" | "tib" => Some(40),
        _ => None,
    };
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

fn spec(name: &str) -> Result<Spec> {
    Ok(Spec::parse(name).map_err(Complaint::from)?)
}

fn slot_value(typed: &str) -> Result<&str> {
    let Some((slot, value)) = typed.split_once('=') else {
        bail!(
            Complaint::new(format!("a policy is chosen as SLOT=NAME, not '{typed}'"))
                .hint("for example readahead=linux-6.18; `forebay policies` lists them")
        );
    };
    if !SLOTS.contains(&slot) {
        bail!(
            Complaint::new(format!("no slot is named '{slot}'")).nearest(slot, SLOTS.into_iter())
        );
    }
    Ok(value)
}

/// The policies of a comma-separated list. A piece that sets a parameter (`max=32`) and names no
/// policy belongs to the policy before it.
fn listed(typed: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for piece in typed.split(',') {
        let is_parameter = piece.contains('=') && !piece.contains(':');
        match names.last_mut() {
            Some(last) if is_parameter => *last = format!("{last},{piece}"),
            Some(_) | None => names.push(piece.to_owned()),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_stay_with_their_policy_in_a_list() {
        assert_eq!(
            listed("off,request-size:max=32,previous=off,linux-6.18"),
            ["off", "request-size:max=32,previous=off", "linux-6.18"]
        );
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(bytes("--memory", "64M").unwrap(), 64 << 20);
        assert_eq!(bytes("--memory", "10").unwrap(), 10);
        for bad in ["", "M", "64X", "-1", "99999999999G", "9223372036854775808"] {
            assert!(bytes("--memory", bad).is_err(), "{bad}");
        }
    }
}
