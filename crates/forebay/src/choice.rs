//! Looks up typed names: machines, texts, sizes.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Result, bail};
use forebay_live::input::{self, InputError};
use forebay_report::messages::{self, Complaint, shown};
use forebay_sim::machine::{Machine, MachineError};

/// The path for standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

/// A machine by name, or from a file if the name has a dot or a slash.
pub(crate) fn machine(name: &str, overrides: &[String]) -> Result<Machine> {
    let is_file = name.contains(['/', '.']) && !Machine::names().any(|known| known == name);
    messages::detail(|| match is_file {
        true => format!("machine: the file '{}'", shown(Path::new(name))),
        false => format!("machine: {name}, built in; `forebay machines {name}` has its sources"),
    });
    let mut machine = if is_file {
        Machine::parse(&file(Path::new(name))?, name).map_err(Complaint::from)?
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
    shown(path)
}

/// A text file, or standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<String> {
    let text = if path == Path::new(STANDARD_INPUT) {
        input::text_of(io::stdin().lock())
    } else {
        text_of(path)
    };
    text.map_err(|error| unread(path, error, "a text is a file, or standard input as `-`"))
}

/// The text of a file, or of a descriptor that the caller has opened: `/dev/stdin`, `<(...)`.
/// A pipe of another name is refused, as it may have no writer.
fn text_of(path: &Path) -> Result<String, InputError> {
    let is_descriptor = path == Path::new("/dev/stdin")
        || path.starts_with("/dev/fd")
        || path.starts_with("/proc/self/fd");
    if is_descriptor { input::text_of(File::open(path)?) } else { input::text(path) }
}

/// A text file.
pub(crate) fn file(path: &Path) -> Result<String> {
    text_of(path).map_err(|error| {
        unread(path, error, "a text is a file: what comes otherwise has to be written to one")
    })
}

fn unread(path: &Path, error: InputError, instead: &str) -> anyhow::Error {
    let name = name(path);
    let (what, hint) = match error {
        InputError::Io(error) => {
            return anyhow::Error::new(error).context(format!("cannot read '{name}'"));
        }
        InputError::Irregular { kind } => {
            (format!("'{name}' is {kind} and no regular file"), instead)
        }
        InputError::Long { most } => {
            (format!("'{name}' is longer than the {most} bytes that are read"), WAS_IT_MEANT)
        }
        InputError::NotUtf8 { place } => {
            (format!("'{name}' is no text: byte {place} is not UTF-8"), WAS_IT_MEANT)
        }
    };
    Complaint::new(what).hint(hint).into()
}

const WAS_IT_MEANT: &str = "is it the file that was meant?";
